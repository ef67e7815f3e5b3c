//! Reads, watches and histories that cross each other, one case a test.

use std::time::Duration;

use patchbay_core::{
    Attachment, Change, ClusterId, ControllerId, Core, Criterion, Effect, Failure, FailureReason, Fields, Finding,
    Finished, Kind, KubeconfigKey, Metadata, Namespaces, ObjectKey, ObjectName, PrimaryKey, Query, ReadId, ReadRequest,
    ReadScope, ReferenceSet, References, Requirement, RunId, RunResult, Selector, Settings, State, Target, Time,
    Variant, Version, WatchId, WatchKey,
};

use crate::words::primary_kind;

fn second(count: u64) -> Time {
    Time(Duration::from_secs(count))
}

fn source_kind() -> Kind {
    Kind::new("v1", "ConfigMap")
}

fn metadata(version: u64, label: Option<&str>) -> Metadata {
    Metadata {
        uid: "uid".into(),
        version: Version(version),
        labels: label.iter().map(|value| ("l".into(), (*value).into())).collect(),
        ..Metadata::default()
    }
}

fn object(cluster: ClusterId, kind: Kind, namespace: Option<&str>, name: &str) -> ObjectKey {
    ObjectKey {
        cluster,
        kind,
        name: ObjectName::new(namespace, name),
    }
}

fn query(cluster: ClusterId, target: Target) -> Query {
    Query {
        cluster,
        kind: source_kind(),
        target,
        fields: Fields::Whole,
    }
}

fn named(name: &str) -> Query {
    query(ClusterId::HOST, Target::Named(ObjectName::new(Some("n"), name)))
}

fn labelled(cluster: ClusterId, namespaces: &[&str]) -> Query {
    let target = Target::selected(
        Namespaces::listed(namespaces.iter().map(|name| (*name).into())),
        Criterion::Labels(Selector::new([Requirement::equals("l", "x")])),
    );
    query(cluster, target)
}

/// One primary, `p`, whose runs ask what a test says.
struct World {
    core: Core,
    runs: Vec<(RunId, PrimaryKey)>,
    watches: Vec<(WatchId, WatchKey)>,
    /// Every stream that was ever begun.
    streams: Vec<(WatchId, WatchKey)>,
    reads: Vec<(ReadId, ReadRequest)>,
    connects: Vec<(ClusterId, u64)>,
}

impl World {
    fn new() -> Self {
        let mut core = Core::new(Settings::default());
        core.attach(
            ControllerId(1),
            Attachment::new(ClusterId::HOST, primary_kind()),
            second(0),
        );
        let mut world = World {
            core,
            runs: Vec::new(),
            watches: Vec::new(),
            streams: Vec::new(),
            reads: Vec::new(),
            connects: Vec::new(),
        };
        world.pull();
        world.stand(1);
        world.answer_reads(1, |_| vec![("p", metadata(1, None))]);
        world
    }

    fn pull(&mut self) {
        while let Some(effect) = self.core.poll() {
            match effect {
                Effect::StartWatch(id, key) => {
                    self.streams.push((id, key.clone()));
                    self.watches.push((id, key));
                }
                Effect::Read(id, request) => self.reads.push((id, request)),
                Effect::Run { run, key, .. } => self.runs.push((run, key)),
                Effect::Connect { cluster, attempt, .. } => self.connects.push((cluster, attempt)),
                Effect::StopWatch(_) | Effect::Disconnect(_) => {}
                other => panic!("unexpected {other:?}"),
            }
        }
    }

    fn stand(&mut self, version: u64) {
        for (id, _) in std::mem::take(&mut self.watches) {
            self.core.watch_stands(id, Version(version), second(1));
        }
        self.pull();
    }

    /// Answers all reads that are out. Objects are in the namespace that is read, or in that of the name.
    fn answer_reads(&mut self, version: u64, find: impl Fn(&ReadRequest) -> Vec<(&'static str, Metadata)>) {
        for (id, request) in std::mem::take(&mut self.reads) {
            self.answer_read(id, &request, version, find(&request));
        }
    }

    fn answer_read(&mut self, id: ReadId, request: &ReadRequest, version: u64, found: Vec<(&str, Metadata)>) {
        let namespace = match &request.scope {
            ReadScope::Named(name) => name.namespace.clone(),
            ReadScope::Selected { namespace, .. } => namespace.clone(),
        };
        let objects = found.into_iter().map(|(name, metadata)| {
            let text = format!("{name} at {}", metadata.version);
            let name = ObjectName::new(namespace.as_deref(), name);
            let wanted = self.core.wanted(&request.object(&name), &metadata);
            let variants = wanted.into_iter().map(|fields| Variant {
                fields,
                text: text.as_str().into(),
            });
            (name, metadata, variants.collect())
        });
        let objects = objects.collect();
        self.core.read_page(id, Version(version), objects, second(1));
        self.core.read_done(id, Version(version), second(1));
        self.pull();
    }

    fn event(&mut self, key: ObjectKey, metadata: Metadata) {
        let stream = self
            .streams
            .iter()
            .rev()
            .find(|(_, watch)| watch.cluster == key.cluster && watch.kind == key.kind);
        let stream = stream.expect("it is watched").0;
        let text = format!("{} at {}", key.name.name, metadata.version);
        let wanted = self.core.wanted(&key, &metadata);
        let variants = wanted.into_iter().map(|fields| Variant {
            fields,
            text: text.as_str().into(),
        });
        let state = State::Present {
            variants: variants.collect(),
            metadata,
        };
        self.core.changed(stream, Change { object: key, state }, second(2));
        self.pull();
    }

    /// What the run that is due is told; none if it has to wait.
    fn ask(&mut self, queries: Vec<Query>) -> Option<Vec<Finding>> {
        let (run, _) = self.runs.first().expect("a run is due").clone();
        let answer = self.core.references(run, ReferenceSet::complete(queries), second(1));
        self.pull();
        match answer {
            References::Answered(findings) => Some(findings),
            References::Parked => {
                self.runs.remove(0);
                None
            }
            other => panic!("unexpected {other:?}"),
        }
    }

    fn done(&mut self) {
        let (run, _) = self.runs.remove(0);
        let result = RunResult::Done {
            again_after: None,
            again: false,
        };
        self.core.finish(run, Finished::new(result), second(1));
        self.pull();
    }

    fn edit_primary(&mut self, version: u64) {
        self.event(
            object(ClusterId::HOST, primary_kind(), None, "p"),
            metadata(version, None),
        );
    }
}

fn text(finding: &Finding) -> String {
    finding
        .texts()
        .map(|text| text.to_string())
        .collect::<Vec<_>>()
        .join(", ")
}

#[test]
fn an_object_that_left_a_selector_is_found_by_its_name() {
    let mut world = World::new();
    assert!(world.ask(vec![labelled(ClusterId::HOST, &["n"])]).is_none());
    world.stand(1);
    world.answer_reads(5, |_| vec![("x", metadata(4, Some("x")))]);
    world.ask(vec![labelled(ClusterId::HOST, &["n"])]);
    world.done();
    world.event(
        object(ClusterId::HOST, source_kind(), Some("n"), "x"),
        metadata(6, None),
    );
    let both = || vec![labelled(ClusterId::HOST, &["n"]), named("x")];
    assert!(world.ask(both()).is_none());
    world.answer_reads(7, |_| vec![("x", metadata(6, None))]);
    let findings = world.ask(both()).expect("answers");
    assert_eq!(
        (text(&findings[0]), text(&findings[1])),
        (String::new(), "x at 6".to_owned())
    );
}

#[test]
fn a_query_of_two_namespaces_waits_for_both_though_an_old_read_comes_late() {
    let mut world = World::new();
    let both = || vec![labelled(ClusterId::HOST, &["a", "b"])];
    assert!(world.ask(both()).is_none());
    world.stand(1);
    let old = std::mem::take(&mut world.reads);
    let cut = Failure::new(FailureReason::Unreachable, "cut");
    for (id, _) in world
        .streams
        .clone()
        .iter()
        .filter(|(_, key)| key.kind == source_kind())
    {
        world.core.watch_failed(*id, &cut, second(2));
    }
    world.pull();
    world.core.tick(second(10));
    world.pull();
    world.stand(1);
    let of_a = |request: &ReadRequest| matches!(&request.scope, ReadScope::Selected { namespace: Some(name), .. } if **name == *"a");
    let new: Vec<_> = std::mem::take(&mut world.reads);
    for (id, request) in old.iter().chain(&new).filter(|(_, request)| of_a(request)) {
        world.answer_read(*id, request, 9, Vec::new());
    }
    assert!(world.ask(both()).is_none(), "b has not been read");
}

#[test]
fn another_cluster_behind_a_kubeconfig_is_read_though_its_versions_are_lower() {
    let mut world = World::new();
    let source = KubeconfigKey {
        home: ClusterId::HOST,
        namespace: "n".into(),
        name: "s".into(),
        key: "k".into(),
    };
    let cluster = world.core.cluster(source, second(0));
    let asked = || vec![labelled(cluster, &["n"])];
    assert!(world.ask(asked()).is_none());
    world.stand(1);
    world.answer_reads(5, |_| vec![("s", metadata(4, None))]);
    let (_, attempt) = world.connects.remove(0);
    assert!(world.core.connected(cluster, attempt, "A", Time::default()));
    world.pull();
    world.stand(900_000);
    world.answer_reads(1_000_000, |_| Vec::new());
    world.ask(asked()).expect("answers");
    world.done();

    let secret = object(ClusterId::HOST, Kind::new("v1", "Secret"), Some("n"), "s");
    world.event(secret, metadata(8, None));
    let (_, newer) = world.connects.remove(0);
    assert!(
        !world.core.connected(cluster, attempt, "A", Time::default()),
        "the answer to an earlier attempt"
    );
    assert!(world.core.connected(cluster, newer, "B", Time::default()));
    world.pull();
    world.stand(5000);
    world.answer_reads(5000, |_| vec![("y", metadata(4000, Some("x")))]);
    let findings = world.ask(asked()).expect("answers");
    assert_eq!(text(&findings[0]), "y at 4000");
}

#[test]
fn a_late_read_of_a_history_that_is_over_counts_for_nothing() {
    let mut world = World::new();
    assert!(world.ask(vec![named("x")]).is_none());
    let (stream, _) = world.watches[0].clone();
    world.stand(1_000_000);
    let (old, request) = world.reads.remove(0);
    world.core.watch_expired(stream);
    world.pull();
    world.stand(500);
    world.answer_reads(500, |_| vec![("x", metadata(400, None))]);
    world.answer_read(old, &request, 1_000_000, vec![("x", metadata(999_999, None))]);
    world.event(
        object(ClusterId::HOST, source_kind(), Some("n"), "x"),
        metadata(501, None),
    );
    let findings = world.ask(vec![named("x")]).expect("answers");
    assert_eq!(text(&findings[0]), "x at 501");
}

#[test]
fn a_list_that_calls_an_object_older_than_it_was_tells_of_a_restored_server() {
    let mut world = World::new();
    assert!(world.ask(vec![named("x")]).is_none());
    let (stream, _) = world.watches[0].clone();
    world.stand(50);
    world.answer_reads(90, |_| vec![("x", metadata(80, None))]);
    world.ask(vec![named("x")]).expect("answers");
    world.done();
    // Restored to version 40, it has come to 100 since, so its versions alone tell nothing.
    world.core.watch_expired(stream);
    world.pull();
    for _ in 0..2 {
        world.stand(100);
        world.answer_reads(100, |_| vec![("x", metadata(30, None))]);
    }
    let findings = world.ask(vec![named("x")]).expect("answers");
    assert_eq!(text(&findings[0]), "x at 30");
}

#[test]
fn a_query_that_cannot_be_read_fails_alone() {
    let mut world = World::new();
    let both = || vec![named("good"), named("bad")];
    assert!(world.ask(both()).is_none());
    world.stand(1);
    for (id, request) in std::mem::take(&mut world.reads) {
        if matches!(&request.scope, ReadScope::Named(name) if *name.name == *"bad") {
            let refused = Failure::new(FailureReason::Invalid, "no name");
            world.core.read_failed(id, &refused, second(1));
        } else {
            world.answer_read(id, &request, 5, vec![("good", metadata(4, None))]);
        }
    }
    world.pull();
    let findings = world.ask(both()).expect("answers");
    assert_eq!(text(&findings[0]), "good at 4");
    assert!(matches!(findings[1], Finding::Failed(_)));
}

#[test]
fn a_cluster_wide_watch_that_is_refused_does_not_fail_a_namespaces_own() {
    let mut world = World::new();
    let everywhere = query(ClusterId::HOST, Target::Named(ObjectName::new(None, "x")));
    assert!(world.ask(vec![everywhere.clone()]).is_none());
    let refused = Failure::new(FailureReason::Forbidden, "not cluster-wide");
    for (id, _) in std::mem::take(&mut world.watches) {
        world.core.watch_failed(id, &refused, second(1));
    }
    world.pull();
    assert!(
        world.ask(vec![everywhere, named("y")]).is_none(),
        "y is watched in its namespace"
    );
    world.stand(1);
    world.answer_reads(5, |_| vec![("y", metadata(4, None))]);
    assert_eq!(world.runs.len(), 1);
}

#[test]
fn a_primary_that_waits_runs_when_it_is_edited() {
    let mut world = World::new();
    assert!(world.ask(vec![named("never")]).is_none());
    world.edit_primary(9);
    assert_eq!(world.runs.len(), 1, "it may no longer depend on what it waits for");
}

#[test]
fn a_query_that_looks_nowhere_finds_nothing() {
    let mut world = World::new();
    let findings = world.ask(vec![labelled(ClusterId::HOST, &[])]).expect("answers");
    assert_eq!(findings, [Finding::Matches(Vec::new())]);
}
