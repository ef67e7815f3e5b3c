//! Reads that fail, and reads that find other data than were known.

use std::time::Duration;

use patchbay_core::{
    Attachment, Change, ClusterId, ControllerId, Core, Effect, Failure, FailureReason, Fields, Finished, ObjectName,
    Query, ReadId, ReadScope, ReferenceSet, References, RunResult, Settings, State, Target, Time, Version, WatchId,
};

use crate::words::{metadata, primary_kind, shared, whole};

/// One primary that depends on one ConfigMap and has run once.
struct World {
    core: Core,
    now: Time,
    /// The watch of the ConfigMap.
    stream: WatchId,
    reads: Vec<ReadId>,
    runs: u32,
    watches: u32,
}

impl World {
    fn new() -> Self {
        let mut world = World {
            core: Core::new(Settings::default()),
            now: Time::default(),
            stream: WatchId(0),
            reads: Vec::new(),
            runs: 0,
            watches: 0,
        };
        let attachment = Attachment::new(ClusterId::HOST, primary_kind());
        world.core.attach(ControllerId(0), attachment, world.now);
        world.turn();
        world.found(3, "a");
        assert_eq!(world.runs, 1);
        world
    }

    /// Does all that there is to do, but for the reads of ConfigMaps.
    fn turn(&mut self) {
        while let Some(effect) = self.core.poll() {
            match effect {
                Effect::StartWatch(id, _) => {
                    self.stream = id;
                    self.watches += 1;
                    self.core.watch_stands(id, Version(2), self.now);
                }
                Effect::Read(id, request) if request.kind == primary_kind() => {
                    if let ReadScope::Selected { .. } = request.scope {
                        let found = (ObjectName::new(None, "p"), metadata(1), whole("primary"));
                        self.core.read_page(id, Version(2), vec![found], self.now);
                    }
                    self.core.read_done(id, Version(2), self.now);
                }
                Effect::Read(id, _) => self.reads.push(id),
                Effect::Run { run, .. } => {
                    let object = shared();
                    let query = Query {
                        cluster: object.cluster,
                        kind: object.kind,
                        target: Target::Named(object.name),
                        fields: Fields::Whole,
                    };
                    let set = ReferenceSet::complete(vec![query]);
                    if let References::Answered(_) = self.core.references(run, set, self.now) {
                        self.runs += 1;
                        let result = RunResult::Done {
                            again_after: None,
                            again: false,
                        };
                        self.core.finish(run, Finished::new(result), self.now);
                    }
                }
                Effect::StopWatch(_) => {}
                other => panic!("unexpected {other:?}"),
            }
        }
    }

    /// Answers the read of the ConfigMap.
    fn found(&mut self, version: u64, text: &str) {
        let id = self.reads.pop().expect("a read");
        let found = (shared().name, metadata(version), whole(text));
        self.core.read_page(id, Version(9), vec![found], self.now);
        self.core.read_done(id, Version(9), self.now);
        self.turn();
    }

    /// An event without the text that is asked for, so that the object is read by itself.
    fn must_be_read(&mut self, version: u64) {
        let state = State::Present {
            metadata: metadata(version),
            variants: Vec::new(),
        };
        let object = shared();
        self.core.changed(self.stream, Change { object, state }, self.now);
        self.turn();
    }

    /// Fails the read, and gives how long it takes until the next.
    fn failed(&mut self, reason: FailureReason) -> Option<Duration> {
        let id = self.reads.pop().expect("a read");
        let failure = Failure::new(reason, "cannot be read");
        self.core.read_failed(id, &failure, self.now);
        let began = self.now;
        while self.reads.is_empty() {
            self.now = self.core.next_tick()?;
            if self.now.0 - began.0 > Duration::from_secs(3600) {
                return None;
            }
            self.core.tick(self.now);
            self.turn();
        }
        Some(self.now.0 - began.0)
    }
}

#[test]
fn an_object_that_cannot_be_read_again_is_tried_ever_more_seldom() {
    let mut world = World::new();
    world.must_be_read(4);
    let delays: Vec<_> = (0..8)
        .map(|_| world.failed(FailureReason::Unreachable).expect("it is tried again"))
        .collect();
    assert!(delays[0] < Duration::from_secs(2), "{delays:?}");
    assert!(delays[7] > Duration::from_secs(40), "{delays:?}");
    world.found(4, "b");
    assert_eq!(world.runs, 2);
    // Once it was read, it counts anew.
    world.must_be_read(5);
    let delay = world.failed(FailureReason::Forbidden).expect("it is tried again");
    assert!(delay < Duration::from_secs(2), "{delay:?}");
    assert_eq!(world.failed(FailureReason::Invalid), None, "it would fail again");
}

#[test]
fn another_text_at_the_same_version_is_a_change_of_that_object_alone() {
    let mut world = World::new();
    let watches = world.watches;
    let stream = world.stream;
    world.core.watch_expired(stream);
    world.turn();
    assert_eq!(world.watches, watches + 1);
    world.found(3, "b");
    assert_eq!(world.runs, 2, "the primary is told");
    assert_eq!(world.watches, watches + 1, "no watch is begun anew for it");
    assert!(world.reads.is_empty());
}
