//! What a plugin says a change concerns: everyone but the primary that wrote it, and by the way that it came.

use patchbay_core::{
    Attachment, CallId, Change, ClusterId, ControllerId, Core, Criterion, Dependent, Effect, Fields, Finished,
    Namespaces, ObjectName, Query, ReferenceSet, References, RunId, RunResult, Selector, Settings, State, Target, Time,
    Version, WatchId, WrittenObject,
};

use crate::words::{metadata, primary_kind, shared, whole};

const NOW: Time = Time(std::time::Duration::ZERO);

fn written(version: u64) -> WrittenObject {
    WrittenObject {
        object: shared(),
        metadata: metadata(version),
        own: true,
    }
}

/// Two primaries, `a` and `b`, whose plugin watches ConfigMaps. Each change of one concerns both, the plugin says.
struct World {
    core: Core,
    /// The watch of ConfigMaps.
    stream: WatchId,
    calls: Vec<CallId>,
    runs: Vec<(RunId, String, bool)>,
}

impl World {
    fn new() -> Self {
        let mut world = World {
            core: Core::new(Settings::default()),
            stream: WatchId(0),
            calls: Vec::new(),
            runs: Vec::new(),
        };
        let mut attachment = Attachment::new(ClusterId::HOST, primary_kind());
        attachment.watches = vec![Query {
            cluster: ClusterId::HOST,
            kind: shared().kind,
            target: Target::selected(Namespaces::All, Criterion::Labels(Selector::everything())),
            fields: Fields::Whole,
        }];
        world.core.attach(ControllerId(0), attachment, NOW);
        world.turn();
        for name in ["a", "b"] {
            world.run(name, &[]);
        }
        world
    }

    /// Answers watches and reads. Runs and calls are kept.
    fn turn(&mut self) {
        while let Some(effect) = self.core.poll() {
            match effect {
                Effect::StartWatch(id, key) => {
                    if key.kind == shared().kind {
                        self.stream = id;
                    }
                    self.core.watch_stands(id, Version(2), NOW);
                }
                Effect::Read(id, request) => {
                    let found = if request.kind == primary_kind() {
                        ["a", "b"]
                            .map(|name| (ObjectName::new(None, name), metadata(1), whole("primary")))
                            .to_vec()
                    } else {
                        vec![(shared().name, metadata(2), whole("begin"))]
                    };
                    self.core.read_page(id, Version(2), found, NOW);
                    self.core.read_done(id, Version(2), NOW);
                }
                Effect::Run { run, key, slowed, .. } => {
                    self.runs.push((run, key.name.to_string(), slowed.is_some()));
                }
                Effect::Dependents { call, .. } => self.calls.push(call),
                other => panic!("unexpected {other:?}"),
            }
        }
    }

    fn changed(&mut self, version: u64) {
        let state = State::Present {
            metadata: metadata(version),
            variants: whole(&format!("at {version}")),
        };
        let object = shared();
        self.core.changed(self.stream, Change { object, state }, NOW);
        self.turn();
    }

    fn answer_calls(&mut self) {
        for call in std::mem::take(&mut self.calls) {
            let both = ["a", "b"].map(|name| Dependent::Primary(ObjectName::new(None, name)));
            self.core.dependents_found(call, both.into(), NOW);
        }
        self.turn();
    }

    /// Takes the run of a primary that has begun.
    fn begun(&mut self, name: &str) -> RunId {
        let at = self.runs.iter().position(|(_, other, _)| other == name);
        let (run, ..) = self.runs.remove(at.unwrap_or_else(|| panic!("{name} does not run")));
        let set = ReferenceSet::complete(Vec::new());
        assert!(matches!(self.core.references(run, set, NOW), References::Answered(_)));
        run
    }

    fn finish(&mut self, run: RunId, written: &[WrittenObject]) {
        let result = RunResult::Done {
            again_after: None,
            again: false,
        };
        let finished = Finished {
            written: written.to_vec(),
            ..Finished::new(result)
        };
        self.core.finish(run, finished, NOW);
        self.turn();
    }

    fn run(&mut self, name: &str, written: &[WrittenObject]) {
        let run = self.begun(name);
        self.finish(run, written);
    }

    fn running(&self) -> Vec<&str> {
        self.runs.iter().map(|(_, name, _)| &**name).collect()
    }

    /// Somebody edits, and both run for it; the run of `a` goes on.
    fn edited(&mut self, version: u64) -> RunId {
        self.changed(version);
        self.answer_calls();
        self.run("b", &[]);
        self.begun("a")
    }
}

#[test]
fn an_own_write_that_the_plugin_watches_concerns_all_but_the_writer() {
    // The event may come before the run ends or after, and so may the plugin's answer.
    for (event_during, answer_during) in [(false, false), (true, false), (true, true)] {
        let mut world = World::new();
        let run = world.edited(3);
        if event_during {
            world.changed(4);
        }
        if answer_during {
            world.answer_calls();
        }
        world.finish(run, &[written(4)]);
        if !event_during {
            world.changed(4);
        }
        world.answer_calls();
        assert_eq!(world.running(), ["b"], "event {event_during}, answer {answer_during}");
    }
}

#[test]
fn what_somebody_else_wrote_besides_concerns_the_writer_too() {
    let mut world = World::new();
    let run = world.edited(3);
    world.finish(run, &[written(5)]);
    // A call of the first change is under way as the others come, and they are told as one.
    world.changed(4);
    world.changed(5);
    world.answer_calls();
    assert_eq!(world.running(), ["a", "b"]);
    world.run("a", &[]);
    world.run("b", &[]);
    world.answer_calls();
    assert_eq!(world.running(), ["b"], "of the second change `a` is the writer");
    let mut world = World::new();
    let run = world.edited(3);
    world.changed(4);
    let call = world.calls.pop().expect("a call");
    world.changed(5);
    world.core.dependents_failed(call, NOW);
    world.finish(run, &[written(5)]);
    let later = world.core.next_tick().expect("the call is made again");
    world.core.tick(later);
    world.turn();
    world.answer_calls();
    let mut ran = world.running();
    ran.sort_unstable();
    assert_eq!(ran, ["a", "b"], "one call tells of both changes");
}

#[test]
fn primaries_that_wake_each_other_by_what_their_plugin_watches_are_slowed() {
    let mut world = World::new();
    let mut version = 3;
    let run = world.edited(version);
    world.finish(run, &[]);
    world.changed(4);
    world.answer_calls();
    let run = world.begun("b");
    world.run("a", &[]);
    version = 5;
    world.finish(run, &[written(version)]);
    for turn in 0..40 {
        world.changed(version);
        world.answer_calls();
        let Some((_, name, _)) = world.runs.first().cloned() else {
            assert!(turn > 5, "a few turns are no circle");
            return;
        };
        version += 1;
        world.run(&name, &[written(version)]);
    }
    panic!("they go on at once for ever");
}
