//! The machine's own account of what it holds.

use std::sync::Arc;

use patchbay_core::{
    Attachment, ClusterId, ControllerId, Core, Criterion, Effect, Failure, FailureReason, Fields, Finding, Finished,
    Kind, Metadata, Namespaces, ObjectKey, ObjectName, PrimaryKey, PrimaryState, Query, QueryUser, ReadId, ReadRequest,
    ReadScope, ReferenceSet, References, Requirement, RunResult, Selector, Settings, Target, Time, Variant, Version,
    Wake, WatchId, WatchKey, WatchStanding,
};

const NOW: Time = Time(std::time::Duration::ZERO);
const CONTROLLER: ControllerId = ControllerId(7);

fn copy() -> Kind {
    Kind::new("example.dev/v1", "Copy")
}

fn config_map() -> Kind {
    Kind::new("v1", "ConfigMap")
}

fn object(kind: Kind, namespace: Option<&str>, name: &str) -> ObjectKey {
    ObjectKey {
        cluster: ClusterId::HOST,
        kind,
        name: ObjectName::new(namespace, name),
    }
}

fn primary() -> PrimaryKey {
    PrimaryKey {
        controller: CONTROLLER,
        name: ObjectName::new(None, "p"),
    }
}

fn query(target: Target) -> Query {
    Query {
        cluster: ClusterId::HOST,
        kind: config_map(),
        target,
        fields: Fields::Whole,
    }
}

fn named(namespace: &str, name: &str) -> Query {
    query(Target::Named(ObjectName::new(Some(namespace), name)))
}

fn labelled() -> Query {
    let selector = Selector::new([Requirement::equals("app", "web")]);
    query(Target::selected(
        Namespaces::listed(["n".into()]),
        Criterion::Labels(selector),
    ))
}

/// A core with one primary, `p`, whose runs name two ConfigMaps by name and others by their label. Of those, only
/// `n/there` is there, at version 5, and it is labelled.
struct World {
    core: Core,
    streams: Vec<(WatchId, WatchKey)>,
    /// Reads of ConfigMaps, which are not answered by themselves.
    reads: Vec<(ReadId, ReadRequest)>,
}

impl World {
    fn new() -> Self {
        let mut world = World {
            core: Core::new(Settings::default()),
            streams: Vec::new(),
            reads: Vec::new(),
        };
        world
            .core
            .attach(CONTROLLER, Attachment::new(ClusterId::HOST, copy()), NOW);
        world.turn();
        world
    }

    /// Does all that there is to do, but for the reads of ConfigMaps.
    fn turn(&mut self) {
        while let Some(effect) = self.core.poll() {
            match effect {
                Effect::StartWatch(id, key) => {
                    self.streams.push((id, key));
                    self.core.watch_stands(id, Version(2), NOW);
                }
                Effect::StopWatch(id) => self.streams.retain(|(stream, _)| *stream != id),
                Effect::Read(id, request) if request.kind == copy() => {
                    let found = (primary().name, metadata(1, ""), whole("primary"));
                    self.core.read_page(id, Version(2), vec![found], NOW);
                    self.core.read_done(id, Version(2), NOW);
                }
                Effect::Read(id, request) => self.reads.push((id, request)),
                Effect::Run { run, .. } => {
                    let queries = vec![named("n", "there"), named("m", "missing"), labelled()];
                    if let References::Answered(_) = self.core.references(run, ReferenceSet::complete(queries), NOW) {
                        let result = RunResult::Done {
                            again_after: None,
                            again: false,
                        };
                        self.core.finish(run, Finished::new(result), NOW);
                    }
                }
                other => panic!("unexpected {other:?}"),
            }
        }
    }

    fn answer_reads(&mut self) {
        for (id, request) in std::mem::take(&mut self.reads) {
            let there = ObjectName::new(Some("n"), "there");
            let finds = match &request.scope {
                ReadScope::Named(name) => *name == there,
                ReadScope::Selected { .. } => true,
            };
            let found = finds.then(|| (there, metadata(5, "web"), whole("there")));
            self.core.read_page(id, Version(6), found.into_iter().collect(), NOW);
            self.core.read_done(id, Version(6), NOW);
        }
        self.turn();
    }
}

fn metadata(version: u64, app: &str) -> Metadata {
    Metadata {
        uid: "uid".into(),
        version: Version(version),
        labels: [(Arc::from("app"), Arc::from(app))].into(),
        ..Metadata::default()
    }
}

fn whole(text: &str) -> Vec<Variant> {
    vec![Variant {
        fields: Fields::Whole,
        text: text.into(),
    }]
}

#[test]
fn a_primary_that_waits_shows_the_queries_it_waits_for() {
    let world = World::new();
    let report = world.core.primary_report(&primary()).expect("a primary");
    assert_eq!(report.state, PrimaryState::Waiting);
    assert_eq!(report.queries.len(), 3);
    assert!(report.queries.iter().all(|query| query.finding.is_none()));
    assert!(report.last_writes.is_none() && report.next.is_none());
}

#[test]
fn a_primary_at_rest_shows_what_its_queries_find_and_when_it_runs_next() {
    let mut world = World::new();
    world.answer_reads();
    let report = world.core.primary_report(&primary()).expect("a primary");
    assert_eq!((report.state, report.failures), (PrimaryState::Idle, 0));
    assert_eq!(report.object, object(copy(), None, "p"));
    assert!(matches!(report.next.map(|next| next.wake), Some(Wake::Backstop)));
    let [there, missing, labelled] = report.queries.as_slice() else {
        panic!("three queries and not {:?}", report.queries);
    };
    assert!(matches!(&there.finding, Some(Finding::Found(found)) if found.version == Version(5)));
    assert_eq!(*there.query, named("n", "there"), "in the order of the plugin");
    assert_eq!(missing.finding, Some(Finding::Missing));
    assert!(matches!(&labelled.finding, Some(Finding::Matches(found)) if found.len() == 1));
    let standing: Vec<_> = there.watches.iter().map(|watch| &watch.state).collect();
    assert_eq!(standing, [&WatchStanding::Stands]);
}

#[test]
fn a_watch_that_fails_is_told_with_what_it_serves() {
    let mut world = World::new();
    world.answer_reads();
    let (stream, _) = world
        .streams
        .iter()
        .find(|(_, key)| key.kind == config_map())
        .expect("a watch")
        .clone();
    let failure = Failure::new(FailureReason::Forbidden, "may not watch");
    world.core.watch_failed(stream, &failure, NOW);
    let report = world.core.primary_report(&primary()).expect("a primary");
    let failed = |query: &patchbay_core::QueryReport| {
        query.finding == Some(Finding::Failed(failure.clone()))
            && query
                .watches
                .iter()
                .any(|watch| watch.state == WatchStanding::Failed(failure.clone()))
    };
    assert!(report.queries.iter().any(failed), "{:?}", report.queries);
}

#[test]
fn the_users_of_an_object_ask_for_it_by_name_or_find_it_now() {
    let mut world = World::new();
    world.answer_reads();
    let users = |kind, namespace, name| world.core.users_of(&object(kind, namespace, name));
    let by_primary = vec![QueryUser::Primary(primary())];
    assert_eq!(
        users(config_map(), Some("n"), "there"),
        [
            (Arc::new(named("n", "there")), by_primary.clone()),
            (Arc::new(labelled()), by_primary.clone())
        ]
    );
    assert_eq!(
        users(config_map(), Some("m"), "missing"),
        [(Arc::new(named("m", "missing")), by_primary)]
    );
    assert_eq!(users(config_map(), Some("n"), "other"), []);
    let found = users(copy(), None, "p");
    let found: Vec<_> = found.iter().flat_map(|(_, users)| users).collect();
    assert_eq!(found, [&QueryUser::Controller(CONTROLLER)]);
    assert_eq!(world.core.primaries_of(&object(copy(), None, "p")), [primary()]);
    assert_eq!(world.core.primaries_of(&object(copy(), None, "q")), []);
}

#[test]
fn names_are_known_from_queries_and_from_what_they_find() {
    let mut world = World::new();
    world.answer_reads();
    let names = |name| world.core.named(ClusterId::HOST, &config_map(), name);
    assert_eq!(names("there"), [ObjectName::new(Some("n"), "there")]);
    assert_eq!(names("missing"), [ObjectName::new(Some("m"), "missing")]);
    assert_eq!(names("other"), []);
    let places = world.core.places();
    assert_eq!(places, [(ClusterId::HOST, copy()), (ClusterId::HOST, config_map())]);
}

#[test]
fn a_query_is_said_as_people_would() {
    let metadata = Query {
        kind: Kind::new("networking.k8s.io/v1", "NetworkPolicy"),
        target: Target::selected(Namespaces::All, Criterion::Owner("u".into())),
        fields: Fields::Metadata,
        ..labelled()
    };
    let fields = Query {
        fields: Fields::paths(["data.b".into(), "data.a".into()]),
        ..named("n", "there")
    };
    let everything = query(Target::selected(
        Namespaces::All,
        Criterion::Labels(Selector::everything()),
    ));
    for (query, said) in [
        (labelled(), "ConfigMaps in n labelled app in (web)"),
        (metadata, "all NetworkPolicies owned by uid u, metadata only"),
        (fields, "ConfigMap n/there, fields data.a, data.b"),
        (everything, "all ConfigMaps"),
    ] {
        assert_eq!(query.to_string(), said);
    }
}
