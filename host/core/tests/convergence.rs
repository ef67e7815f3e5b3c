//! Drives the machine through random worlds and schedules, then lets everything come to rest and compares with what a
//! recomputation from scratch says.
//!
//! The world is one API server: a log of versions. Watches deliver the log late and sometimes lose their place, reads
//! see some moment between their begin and their answer, writes fail, runs take their time.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use patchbay_core::{
    Change, ClusterId, ControllerId, Core, Effect, Failure, FailureReason, Fields, Finding, Kind, Labels, Metadata,
    Namespaces, ObjectKey, ObjectName, Query, ReadId, ReadRequest, ReadScope, References, Requirement, RunId,
    RunResult, Scope, Selector, Settings, State, Target, Time, Variant, Version, WatchId, WatchKey, WrittenObject,
};

const CONTROLLER: ControllerId = ControllerId(7);

fn primary_kind() -> Kind {
    Kind::new("example.dev/v1", "Copy")
}

fn source_kind() -> Kind {
    Kind::new("v1", "ConfigMap")
}

/// An object of the world. Of a primary, `refers` says what it depends on.
#[derive(Clone, Debug, PartialEq)]
struct Object {
    uid: u64,
    version: u64,
    label: Option<&'static str>,
    k: u32,
    other: u32,
    refers: Vec<Refers>,
}

#[derive(Clone, Debug, PartialEq)]
enum Refers {
    Key(String),
    Whole(String),
    Label(&'static str),
}

impl Object {
    fn text(&self, fields: &Fields) -> Arc<str> {
        match fields {
            Fields::Whole => format!(
                "{} {:?} {} {} {:?}",
                self.uid, self.label, self.k, self.other, self.refers
            )
            .into(),
            Fields::Metadata => format!("{} {:?}", self.uid, self.label).into(),
            Fields::Paths(_) => format!("{} {}", self.uid, self.k).into(),
        }
    }

    fn metadata(&self) -> Metadata {
        let labels: Labels = self.label.iter().map(|value| ("l".into(), (*value).into())).collect();
        Metadata {
            uid: self.uid.to_string().into(),
            version: Version(self.version),
            labels,
            deleting: false,
        }
    }
}

fn query(refers: &Refers) -> Query {
    let (target, fields) = match refers {
        Refers::Key(name) => (
            Target::Named(ObjectName::new(Some("n"), name)),
            Fields::paths(["k".into()]),
        ),
        Refers::Whole(name) => (Target::Named(ObjectName::new(Some("n"), name)), Fields::Whole),
        Refers::Label(value) => {
            let selector = Selector::new([Requirement::equals("l", *value)]);
            (
                Target::Selected {
                    namespaces: Namespaces::listed(["n".into()]),
                    selector,
                },
                Fields::Whole,
            )
        }
    };
    Query {
        cluster: ClusterId::HOST,
        kind: source_kind(),
        target,
        fields,
    }
}

type Objects = BTreeMap<(Kind, ObjectName), Object>;

/// What happened at one version.
type Event = (u64, Kind, ObjectName, Option<Object>);

#[derive(Default)]
struct Server {
    version: u64,
    /// Uids are never given twice, not even by a server that has forgotten whom it gave them.
    uids: u64,
    /// What primaries refer to, by their texts.
    refers: HashMap<Arc<str>, Vec<Refers>>,
    /// What its backups hold.
    backups: Vec<(u64, Objects)>,
    objects: Objects,
    log: Vec<Event>,
}

impl Server {
    fn put(&mut self, kind: &Kind, name: &ObjectName, change: impl FnOnce(&mut Object)) -> Object {
        self.version += 1;
        let version = self.version;
        self.uids += 1;
        let uid = self.uids;
        let object = self
            .objects
            .entry((kind.clone(), name.clone()))
            .or_insert_with(|| Object {
                uid,
                version,
                label: None,
                k: 0,
                other: 0,
                refers: Vec::new(),
            });
        change(object);
        object.version = version;
        let object = object.clone();
        self.refers.insert(object.text(&Fields::Whole), object.refers.clone());
        self.log
            .push((version, kind.clone(), name.clone(), Some(object.clone())));
        object
    }

    fn delete(&mut self, kind: &Kind, name: &ObjectName) {
        if self.objects.remove(&(kind.clone(), name.clone())).is_some() {
            self.version += 1;
            self.log.push((self.version, kind.clone(), name.clone(), None));
        }
    }

    fn back_up(&mut self) {
        self.backups.push((self.version, self.objects.clone()));
    }

    /// Goes back to the last backup, and counts from there.
    fn restore(&mut self) -> bool {
        let Some((version, objects)) = self.backups.pop() else {
            return false;
        };
        self.version = version;
        self.objects = objects;
        self.log.retain(|event| event.0 <= version);
        true
    }

    fn list(&self, request: &ReadRequest) -> Vec<(ObjectName, Object)> {
        self.objects
            .iter()
            .filter(|((kind, name), object)| {
                *kind == request.kind
                    && match &request.scope {
                        ReadScope::Named(wanted) => wanted == name,
                        ReadScope::Selected { namespace, selector } => {
                            namespace
                                .as_ref()
                                .is_none_or(|wanted| name.namespace.as_ref() == Some(wanted))
                                && selector.matches(&object.metadata().labels)
                        }
                    }
            })
            .map(|((_, name), object)| (name.clone(), object.clone()))
            .collect()
    }

    fn answer(&self, query: &Query) -> Finding {
        let found = |object: &Object| patchbay_core::FoundObject {
            cluster: ClusterId::HOST,
            version: Version(object.version),
            text: object.text(&query.fields),
        };
        match &query.target {
            Target::Named(name) => match self.objects.get(&(query.kind.clone(), name.clone())) {
                Some(object) => Finding::Found(found(object)),
                None => Finding::Missing,
            },
            Target::Selected { selector, .. } => Finding::Matches(
                self.objects
                    .iter()
                    .filter(|((kind, _), object)| *kind == query.kind && selector.matches(&object.metadata().labels))
                    .map(|(_, object)| found(object))
                    .collect(),
            ),
        }
    }
}

struct Stream {
    key: WatchKey,
    /// How much of the log it has delivered; none until it stands.
    position: Option<usize>,
}

/// A read's snapshot: not taken yet, or what the server said at some moment.
type Snapshot = Option<(u64, Vec<(ObjectName, Object)>)>;

struct World {
    random: Rng,
    server: Server,
    core: Core,
    now: Time,
    streams: HashMap<WatchId, Stream>,
    reads: BTreeMap<ReadId, (ReadRequest, Snapshot)>,
    runs: Vec<(RunId, ObjectName, Vec<Refers>)>,
    /// What the last good run of each primary was told.
    outputs: BTreeMap<ObjectName, Vec<Finding>>,
    run_count: usize,
    faults: bool,
}

fn names() -> Vec<ObjectName> {
    ["a", "b", "c"]
        .iter()
        .map(|name| ObjectName::new(Some("n"), name))
        .collect()
}

fn primaries() -> Vec<ObjectName> {
    ["p", "q"].iter().map(|name| ObjectName::new(None, name)).collect()
}

impl World {
    fn new(seed: u64) -> Self {
        let mut core = Core::new(Settings {
            runs: 2,
            reads_per_cluster: 2,
            seed,
            ..Settings::default()
        });
        core.attach(
            CONTROLLER,
            ClusterId::HOST,
            primary_kind(),
            Selector::everything(),
            Time::default(),
        );
        World {
            random: Rng::with_seed(seed),
            server: Server::default(),
            core,
            now: Time::default(),
            streams: HashMap::new(),
            reads: BTreeMap::new(),
            runs: Vec::new(),
            outputs: BTreeMap::new(),
            run_count: 0,
            faults: true,
        }
    }

    fn edit(&mut self) {
        let name = self.random.choice(names()).expect("names");
        let primary = self.random.choice(primaries()).expect("names");
        match self.random.u32(0..10) {
            0..=2 => {
                let value = self.random.u32(..);
                self.server.put(&source_kind(), &name, |object| object.k = value);
            }
            3 => {
                let value = self.random.u32(..);
                self.server.put(&source_kind(), &name, |object| object.other = value);
            }
            4..=5 => {
                let label = self.random.choice([None, Some("x"), Some("y")]).expect("labels");
                self.server.put(&source_kind(), &name, |object| object.label = label);
            }
            6..=7 => self.server.delete(&source_kind(), &name),
            8 => {
                let refers = (0..self.random.usize(0..4)).map(|_| self.refers()).collect();
                self.server
                    .put(&primary_kind(), &primary, |object| object.refers = refers);
            }
            _ => self.server.delete(&primary_kind(), &primary),
        }
    }

    fn refers(&mut self) -> Refers {
        let name = self.random.choice(["a", "b", "c"]).expect("names").to_owned();
        match self.random.u32(0..3) {
            0 => Refers::Key(name),
            1 => Refers::Whole(name),
            _ => Refers::Label(self.random.choice(["x", "y"]).expect("labels")),
        }
    }

    fn pull(&mut self) {
        while let Some(effect) = self.core.poll() {
            match effect {
                Effect::StartWatch(id, key) => {
                    self.streams.insert(id, Stream { key, position: None });
                }
                Effect::StopWatch(id) => {
                    self.streams.remove(&id);
                }
                Effect::Read(id, request) => {
                    self.reads.insert(id, (request, None));
                }
                Effect::Run { run, key, primary, .. } => {
                    let refers = self.server.refers[&primary.text].clone();
                    self.runs.push((run, key.name, refers));
                    self.run_count += 1;
                }
                Effect::Connect { .. } | Effect::Disconnect(_) => unreachable!("there is one cluster"),
            }
        }
    }

    /// Lets one thing that is under way go on.
    fn step(&mut self) {
        match self.random.u32(0..4) {
            0 => self.stream_step(),
            1 | 2 => self.read_step(),
            _ => self.run_step(),
        }
        self.pull();
    }

    /// Data are lost, and every stream finds out by itself.
    fn restore(&mut self) {
        if self.server.restore() {
            let ids: Vec<_> = self.streams.drain().map(|(id, _)| id).collect();
            for id in ids {
                self.core.watch_expired(id);
            }
            self.pull();
        }
    }

    fn stream_step(&mut self) {
        let mut ids: Vec<_> = self.streams.keys().copied().collect();
        ids.sort();
        let Some(id) = self.random.choice(ids) else { return };
        let fault = self.faults && self.random.u32(0..40) == 0;
        let Some(stream) = self.streams.get_mut(&id) else {
            return;
        };
        if fault {
            self.streams.remove(&id);
            if self.random.bool() {
                self.core.watch_expired(id);
            } else {
                self.core
                    .watch_failed(id, &Failure::new(FailureReason::Unreachable, "cut"), self.now);
            }
            return;
        }
        let Some(position) = &mut stream.position else {
            stream.position = Some(self.server.log.len());
            return self.core.watch_stands(id, Version(self.server.version), self.now);
        };
        let Some((version, kind, name, object)) = self.server.log.get(*position).cloned() else {
            return;
        };
        *position += 1;
        let covered = match &stream.key.scope {
            Scope::All => true,
            Scope::Namespace(namespace) => name.namespace.as_ref() == Some(namespace),
        };
        if kind != stream.key.kind || !covered {
            return;
        }
        let key = ObjectKey {
            cluster: ClusterId::HOST,
            kind,
            name,
        };
        let state = match object {
            None => State::Absent {
                version: Version(version),
            },
            Some(object) => {
                let metadata = object.metadata();
                let wanted = self.core.wanted(&key, &metadata);
                State::Present {
                    variants: variants(&object, &wanted),
                    metadata,
                }
            }
        };
        self.core.changed(id, Change { object: key, state }, self.now);
    }

    fn read_step(&mut self) {
        let ids: Vec<_> = self.reads.keys().copied().collect();
        let Some(id) = self.random.choice(ids) else { return };
        if self.faults && self.random.u32(0..40) == 0 {
            self.reads.remove(&id);
            return self
                .core
                .read_failed(id, &Failure::new(FailureReason::Unreachable, "cut"), self.now);
        }
        let Some((request, snapshot)) = self.reads.get_mut(&id) else {
            return;
        };
        if snapshot.is_none() {
            *snapshot = Some((self.server.version, self.server.list(request)));
            return;
        }
        let Some((request, Some((version, objects)))) = self.reads.remove(&id) else {
            return;
        };
        let objects = objects
            .into_iter()
            .map(|(name, object)| (name, object.metadata(), variants(&object, &request.fields)))
            .collect();
        self.core.read_done(id, Version(version), objects, self.now);
    }

    fn run_step(&mut self) {
        if self.runs.is_empty() {
            return;
        }
        let (run, name, refers) = self.runs.swap_remove(self.random.usize(..self.runs.len()));
        let queries = refers.iter().map(query).collect();
        match self.core.references(run, queries, self.now) {
            References::Answered(findings) => {
                let failed = findings.iter().any(|finding| matches!(finding, Finding::Failed(_)));
                let fault = self.faults && self.random.u32(0..10) == 0;
                let (result, written) = if failed || fault {
                    (RunResult::Failed { permanent: false }, Vec::new())
                } else {
                    self.outputs.insert(name.clone(), findings);
                    (
                        RunResult::Done {
                            again_after: None,
                            again: false,
                        },
                        self.write(&name),
                    )
                };
                self.core.finish(run, &result, None, &written, self.now);
            }
            References::Parked | References::Gone => {}
            References::Unsettled => panic!("queries do not change by themselves"),
        }
    }

    /// A run writes its own primary now and then, as a status is written: it must not be woken by that.
    fn write(&mut self, name: &ObjectName) -> Vec<WrittenObject> {
        if !self.server.objects.contains_key(&(primary_kind(), name.clone())) || self.random.bool() {
            return Vec::new();
        }
        let value = self.random.u32(..);
        let object = self.server.put(&primary_kind(), name, |object| object.other = value);
        let key = ObjectKey {
            cluster: ClusterId::HOST,
            kind: primary_kind(),
            name: name.clone(),
        };
        vec![WrittenObject {
            object: key,
            metadata: object.metadata(),
            own: true,
        }]
    }

    fn rest(&mut self) {
        self.faults = false;
        for _ in 0..200 {
            for _ in 0..50 {
                self.step();
            }
            if let Some(tick) = self
                .core
                .next_tick()
                .filter(|tick| tick.0 < self.now.0 + Duration::from_secs(600))
            {
                self.now = self.now.max(tick);
                self.core.tick(self.now);
                self.pull();
            }
        }
    }

    fn check(&self, seed: u64) {
        let counts = self.core.counts();
        assert_eq!((counts.queued, counts.running), (0, 0), "seed {seed}: at rest");
        for name in primaries() {
            let Some(primary) = self.server.objects.get(&(primary_kind(), name.clone())) else {
                continue;
            };
            let expected: Vec<_> = primary
                .refers
                .iter()
                .map(|refers| self.server.answer(&query(refers)))
                .collect();
            let told = self
                .outputs
                .get(&name)
                .unwrap_or_else(|| panic!("seed {seed}: {name} never ran"));
            assert_eq!(texts(told), texts(&expected), "seed {seed}: {name} at rest");
        }
    }
}

fn variants(object: &Object, fields: &[Fields]) -> Vec<Variant> {
    fields
        .iter()
        .map(|fields| Variant {
            fields: fields.clone(),
            text: object.text(fields),
        })
        .collect()
}

/// Versions may differ where nothing declared does.
fn texts(findings: &[Finding]) -> Vec<Vec<Arc<str>>> {
    findings
        .iter()
        .map(|finding| match finding {
            Finding::Found(object) => vec![object.text.clone()],
            Finding::Missing => Vec::new(),
            Finding::Matches(objects) => objects.iter().map(|object| object.text.clone()).collect(),
            Finding::Failed(failure) => panic!("at rest: {failure}"),
        })
        .collect()
}

#[test]
fn every_primary_ends_up_with_what_its_queries_find() {
    for seed in 0..300 {
        let mut world = World::new(seed);
        world.pull();
        for _ in 0..150 {
            match world.random.u32(0..90) {
                0..30 => world.edit(),
                30 => world.server.back_up(),
                31 => world.restore(),
                _ => {}
            }
            world.step();
        }
        world.rest();
        world.check(seed);
    }
}

#[test]
fn nothing_is_held_for_what_has_gone() {
    for seed in 0..200 {
        let mut world = World::new(seed);
        world.pull();
        for _ in 0..150 {
            world.edit();
            world.step();
        }
        for name in primaries() {
            world.server.delete(&primary_kind(), &name);
        }
        world.rest();
        let counts = world.core.counts();
        assert_eq!(
            (counts.primaries, counts.queries, counts.watches, counts.objects),
            (0, 1, 1, 0),
            "seed {seed}"
        );
        world.core.detach(CONTROLLER, world.now);
        world.rest();
        let counts = world.core.counts();
        assert_eq!((counts.queries, counts.watches), (0, 0), "seed {seed}");
    }
}

#[test]
fn a_change_of_nothing_declared_runs_nothing() {
    let mut world = World::new(1);
    world.faults = false;
    world.server.put(&source_kind(), &names()[0], |object| object.k = 1);
    world.server.put(&primary_kind(), &primaries()[0], |object| {
        object.refers = vec![Refers::Key("a".into())]
    });
    world.pull();
    world.rest();
    let runs = world.run_count;
    world.server.put(&source_kind(), &names()[0], |object| object.other = 2);
    world.server.put(&source_kind(), &names()[1], |object| object.k = 2);
    world.rest();
    assert_eq!(world.run_count, runs);
    world.server.put(&source_kind(), &names()[0], |object| object.k = 2);
    world.rest();
    assert_eq!(world.run_count, runs + 1);
}
