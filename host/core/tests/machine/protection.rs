//! Objects that must not be deleted while a primary exists, and primaries that go.

use std::collections::BTreeMap;
use std::time::Duration;

use patchbay_core::{
    Attachment, Change, ClusterId, ControllerId, Core, Effect, Fields, Finished, Kind, Metadata, ObjectKey, ObjectName,
    Protection, Query, ReadId, ReadRequest, ReadScope, ReferenceSet, References, Releases, RunId, RunResult, Settings,
    State, Target, Time, Variant, Version, WatchId,
};

const NOW: Time = Time(Duration::ZERO);
const FINALIZER: &str = "example.dev/protected";

/// The core of a host that has just been started, and a server whose reads are answered at once.
struct World {
    core: Core,
    objects: BTreeMap<ObjectKey, Metadata>,
    runs: BTreeMap<String, RunId>,
    /// The watch of the primaries.
    watch: Option<WatchId>,
}

fn copy(name: &str) -> ObjectKey {
    object("example.dev/v1", "Copy", name)
}

fn source(name: &str) -> ObjectKey {
    object("v1", "ConfigMap", name)
}

fn object(api_version: &str, kind: &str, name: &str) -> ObjectKey {
    ObjectKey {
        cluster: ClusterId::HOST,
        kind: Kind::new(api_version, kind),
        name: ObjectName::new(Some("n"), name),
    }
}

fn query(object: &ObjectKey) -> Query {
    Query {
        cluster: object.cluster,
        kind: object.kind.clone(),
        target: Target::Named(object.name.clone()),
        fields: Fields::Whole,
    }
}

/// An object as it is on the server.
fn there(object: ObjectKey, finalizers: &[&str], deleting: bool) -> (ObjectKey, Metadata) {
    let metadata = Metadata {
        uid: format!("uid of {}", object.name.name).into(),
        version: Version(5),
        finalizers: finalizers.iter().map(|name| (*name).into()).collect(),
        deleting,
        ..Metadata::default()
    };
    (object, metadata)
}

impl World {
    fn started(objects: impl IntoIterator<Item = (ObjectKey, Metadata)>) -> Self {
        let mut core = Core::new(Settings::default());
        let mut attachment = Attachment::new(ClusterId::HOST, copy("").kind);
        attachment.protection = FINALIZER.into();
        core.attach(ControllerId(1), attachment, NOW);
        let mut world = World {
            core,
            objects: objects.into_iter().collect(),
            runs: BTreeMap::new(),
            watch: None,
        };
        world.go_on();
        world
    }

    /// Does all that is to be done, but for the runs, which the test makes.
    fn go_on(&mut self) {
        while let Some(effect) = self.core.poll() {
            match effect {
                Effect::StartWatch(id, key) => {
                    if key.kind == copy("").kind {
                        self.watch = Some(id);
                    }
                    self.core.watch_stands(id, Version(9), NOW);
                }
                Effect::Read(id, request) => self.read(id, &request),
                Effect::Run { run, key, .. } => {
                    self.runs.insert(key.name.name.to_string(), run);
                }
                Effect::Sweep {
                    cluster,
                    kind,
                    finalizer,
                } => self.core.swept(cluster, &kind, &finalizer, Some(Vec::new())),
                Effect::StopWatch(_) => {}
                other => panic!("unexpected {other:?}"),
            }
        }
    }

    fn read(&mut self, id: ReadId, request: &ReadRequest) {
        let found = self.objects.iter().filter(|(object, _)| {
            object.kind == request.kind
                && match &request.scope {
                    ReadScope::Named(name) => object.name == *name,
                    ReadScope::Selected { .. } => true,
                }
        });
        let page = found.map(|(object, metadata)| {
            let wanted = self.core.wanted(object, metadata).into_iter();
            let text = |fields| Variant {
                fields,
                text: "{}".into(),
            };
            (object.name.clone(), metadata.clone(), wanted.map(text).collect())
        });
        let page = page.collect();
        self.core.read_page(id, Version(9), page, NOW);
        self.core.read_done(id, Version(9), NOW);
    }

    /// Somebody edits a primary.
    fn edited(&mut self, primary: &str) {
        let object = copy(primary);
        let mut metadata = self.objects[&object].clone();
        metadata.version = Version(10);
        let wanted = self.core.wanted(&object, &metadata).into_iter();
        let variants = wanted.map(|fields| Variant {
            fields,
            text: "{\"edited\":true}".into(),
        });
        let state = State::Present {
            variants: variants.collect(),
            metadata,
        };
        let watch = self.watch.expect("primaries are watched");
        self.core.changed(watch, Change { object, state }, NOW);
        self.go_on();
    }

    /// The run of a primary that is under way.
    fn run(&self, primary: &str) -> RunId {
        let running = self.runs.get(primary).copied();
        running.unwrap_or_else(|| panic!("{primary} does not run"))
    }

    /// Names objects in a run, which begins anew if that has to be waited for.
    fn names(&mut self, primary: &str, objects: &[ObjectKey]) {
        let set = || ReferenceSet::complete(objects.iter().map(query).collect());
        let run = self.run(primary);
        match self.core.references(run, set(), NOW) {
            References::Answered(_) => return self.go_on(),
            References::Parked => self.runs.remove(primary),
            other => panic!("unexpected {other:?}"),
        };
        self.go_on();
        let run = self.run(primary);
        let answer = self.core.references(run, set(), NOW);
        assert!(matches!(answer, References::Answered(_)), "{answer:?}");
        self.go_on();
    }

    fn ends(&mut self, primary: &str, result: RunResult) {
        let run = self.run(primary);
        self.runs.remove(primary);
        self.core.finish(run, Finished::new(result), NOW);
        self.go_on();
    }

    /// What a run releases that lets go; none if it has to wait.
    fn lets_go(&mut self, primary: &str) -> Option<Vec<ObjectKey>> {
        let run = self.run(primary);
        let releases = self.core.let_go(run, NOW);
        let now = match releases {
            Releases::Now(objects) => Some(objects.into_iter().map(|(object, _)| object).collect()),
            Releases::Later => {
                self.runs.remove(primary);
                None
            }
        };
        self.go_on();
        now
    }
}

const DONE: RunResult = RunResult::Done {
    again_after: None,
    again: false,
};

#[test]
fn two_primaries_that_go_after_a_restart_do_not_wait_for_each_other() {
    let shared = source("shared");
    let mut world = World::started([
        there(copy("a"), &["own"], true),
        there(copy("b"), &["own"], true),
        there(shared.clone(), &[FINALIZER], false),
    ]);
    for primary in ["a", "b"] {
        world.names(primary, std::slice::from_ref(&shared));
    }
    assert_eq!(world.lets_go("a"), None, "b may protect it");
    // Now b goes, too, so neither protects it any longer.
    assert_eq!(world.lets_go("b"), Some(vec![shared.clone()]));
    world.ends("b", DONE);
    world.names("a", std::slice::from_ref(&shared));
    assert!(world.lets_go("a").is_some());
}

#[test]
fn what_is_being_released_is_not_held() {
    let shared = source("shared");
    let mut world = World::started([
        there(copy("a"), &["own"], true),
        there(copy("b"), &["own"], false),
        there(shared.clone(), &[FINALIZER], false),
    ]);
    world.names("b", &[]);
    world.ends("b", DONE);
    world.names("a", std::slice::from_ref(&shared));
    assert_eq!(world.lets_go("a"), Some(vec![shared.clone()]));
    // Before that is done, b begins to protect it. The cache still shows the finalizer that is being taken off.
    world.edited("b");
    world.names("b", std::slice::from_ref(&shared));
    let run = world.run("b");
    let stand = world.core.protect(run, std::slice::from_ref(&shared));
    assert!(matches!(stand[..], [Protection::Bare { .. }]), "{stand:?}");
}

#[test]
fn a_primary_that_fails_for_good_keeps_what_it_names_protected() {
    let shared = source("shared");
    let mut world = World::started([
        there(copy("a"), &["own"], true),
        there(copy("b"), &["own"], false),
        there(shared.clone(), &[FINALIZER], false),
    ]);
    for primary in ["a", "b"] {
        world.names(primary, std::slice::from_ref(&shared));
    }
    world.ends("b", RunResult::Failed { permanent: true });
    assert_eq!(
        world.lets_go("a"),
        Some(vec![]),
        "it goes, and b may still need the object"
    );
}

#[test]
fn waiting_for_answers_is_no_circle_and_ends_if_they_are_always_others() {
    let mut world = World::started([there(copy("a"), &[], false)]);
    let mut rounds = 0;
    loop {
        let run = world.run("a");
        let set = ReferenceSet::complete(vec![query(&source(&rounds.to_string()))]);
        match world.core.references(run, set, NOW) {
            References::Parked => world.runs.remove("a"),
            References::Unsettled => break,
            other => panic!("unexpected {other:?}"),
        };
        // No time goes by.
        world.go_on();
        rounds += 1;
    }
    assert_eq!(rounds, 32);
}
