//! A run's own writes do not wake it. They wake everyone else, and nothing that others wrote besides is lost.

use patchbay_core::{
    Attachment, Change, ClusterId, ControllerId, Core, Effect, Fields, Finished, ObjectKey, ObjectName, Query, ReadId,
    ReadScope, ReferenceSet, References, RunId, RunResult, Settings, State, Target, Time, Version, WatchId,
    WrittenObject,
};

use crate::words::{metadata, primary_kind, shared, whole};

const NOW: Time = Time(std::time::Duration::ZERO);

fn written(object: ObjectKey, version: u64) -> WrittenObject {
    WrittenObject {
        object,
        metadata: metadata(version),
        own: true,
    }
}

fn event(object: ObjectKey, version: u64, text: &str) -> Change {
    let state = State::Present {
        metadata: metadata(version),
        variants: whole(text),
    };
    Change { object, state }
}

/// Two primaries, `writer` and `other`, that both depend on the whole of one ConfigMap and have run once.
struct World {
    core: Core,
    /// The watch of the ConfigMap.
    stream: WatchId,
}

impl World {
    fn new() -> Self {
        let mut world = World {
            core: Core::new(Settings::default()),
            stream: WatchId(0),
        };
        world
            .core
            .attach(ControllerId(0), Attachment::new(ClusterId::HOST, primary_kind()), NOW);
        world.settle();
        world
    }

    /// Answers watches and reads, and lets runs come to their end without writing. Gives the primaries that ran.
    fn settle(&mut self) -> Vec<String> {
        let mut ran = Vec::new();
        while let Some(effect) = self.core.poll() {
            match effect {
                Effect::StartWatch(id, _) => {
                    self.stream = id;
                    self.core.watch_stands(id, Version(2), NOW);
                }
                Effect::Read(id, request) => self.read(id, &request.scope),
                Effect::Run { run, key, .. } => {
                    if self.names_its_query(run) {
                        ran.push(key.name.to_string());
                        self.finish(run, &[], false);
                    }
                }
                other => panic!("unexpected {other:?}"),
            }
        }
        ran
    }

    fn read(&mut self, id: ReadId, scope: &ReadScope) {
        let objects = match scope {
            ReadScope::Selected { .. } => ["other", "writer"]
                .map(|name| (ObjectName::new(None, name), metadata(1), whole("primary")))
                .to_vec(),
            ReadScope::Named(name) => vec![(name.clone(), metadata(2), whole("a"))],
        };
        self.core.read_page(id, Version(2), objects, NOW);
        self.core.read_done(id, Version(2), NOW);
    }

    fn changed(&mut self, change: Change) {
        self.core.changed(self.stream, change, NOW);
    }

    fn names_its_query(&mut self, run: RunId) -> bool {
        let object = shared();
        let query = Query {
            cluster: object.cluster,
            kind: object.kind,
            target: Target::Named(object.name),
            fields: Fields::Whole,
        };
        matches!(
            self.core.references(run, ReferenceSet::complete(vec![query]), NOW),
            References::Answered(_)
        )
    }

    fn finish(&mut self, run: RunId, written: &[WrittenObject], again: bool) {
        let result = RunResult::Done {
            again_after: None,
            again,
        };
        let finished = Finished {
            written: written.to_vec(),
            ..Finished::new(result)
        };
        self.core.finish(run, finished, NOW);
    }

    /// Begins a run of `writer`, woken by a change of the ConfigMap that `other` runs for as well.
    fn begin(&mut self, version: u64) -> RunId {
        self.changed(event(shared(), version, &format!("changed at {version}")));
        let mut begun = None;
        while let Some(effect) = self.core.poll() {
            let Effect::Run { run, key, .. } = effect else {
                panic!("unexpected {effect:?}")
            };
            assert!(self.names_its_query(run));
            if *key.name.name == *"writer" {
                begun = Some(run);
            } else {
                self.finish(run, &[], false);
            }
        }
        begun.expect("the change runs the writer")
    }
}

#[test]
fn the_event_after_the_run_wakes_the_other_only() {
    let mut world = World::new();
    let run = world.begin(3);
    world.finish(run, &[written(shared(), 4)], false);
    world.changed(event(shared(), 4, "written"));
    assert_eq!(world.settle(), ["other"]);
}

#[test]
fn the_event_during_the_run_wakes_the_other_only() {
    let mut world = World::new();
    let run = world.begin(3);
    world.changed(event(shared(), 4, "written"));
    world.finish(run, &[written(shared(), 4)], false);
    assert_eq!(world.settle(), ["other"]);
}

#[test]
fn what_somebody_wrote_before_the_own_write_wakes_the_writer_too() {
    for during in [true, false] {
        let mut world = World::new();
        let run = world.begin(3);
        // At version 4 somebody else, at version 5 this run.
        if during {
            world.changed(event(shared(), 4, "somebody"));
            world.finish(run, &[written(shared(), 5)], false);
        } else {
            world.finish(run, &[written(shared(), 5)], false);
            world.changed(event(shared(), 4, "somebody"));
        }
        world.changed(event(shared(), 5, "written"));
        let mut ran = world.settle();
        ran.sort();
        assert_eq!(ran, ["other", "writer"], "event during the run: {during}");
    }
}

#[test]
fn a_run_that_asks_to_see_its_writes_runs_again_when_they_are_seen() {
    let mut world = World::new();
    let run = world.begin(3);
    world.finish(run, &[written(shared(), 4)], true);
    assert_eq!(world.settle(), [""; 0], "not before");
    world.changed(event(shared(), 4, "written"));
    let mut ran = world.settle();
    ran.sort();
    assert_eq!(ran, ["other", "writer"]);
}

#[test]
fn a_run_that_asks_to_see_writes_to_what_nobody_watches_runs_again_at_once() {
    let mut world = World::new();
    let run = world.begin(3);
    let unwatched = ObjectKey {
        name: ObjectName::new(Some("n"), "unwatched"),
        ..shared()
    };
    world.finish(run, &[written(unwatched, 4)], true);
    assert_eq!(world.settle(), ["writer"]);
}

#[test]
fn an_older_state_never_overwrites_a_newer_one() {
    let mut world = World::new();
    world.changed(event(shared(), 5, "newer"));
    world.settle();
    world.changed(event(shared(), 4, "older"));
    assert_eq!(world.settle(), [""; 0]);
    let absent = Change {
        object: shared(),
        state: State::Absent { version: Version(7) },
    };
    world.changed(absent);
    world.settle();
    world.changed(event(shared(), 6, "revived"));
    assert_eq!(world.settle(), [""; 0], "a late state does not revive what has gone");
}

#[test]
fn a_write_that_may_have_changed_nothing_hides_no_foreign_edit() {
    let mut world = World::new();
    let run = world.begin(3);
    // Somebody edits at version 4. The run applies what is so already, and is answered with that version.
    let unsure = WrittenObject {
        own: false,
        ..written(shared(), 4)
    };
    world.finish(run, &[unsure], false);
    world.changed(event(shared(), 4, "somebody"));
    let mut ran = world.settle();
    ran.sort();
    assert_eq!(ran, ["other", "writer"]);
}
