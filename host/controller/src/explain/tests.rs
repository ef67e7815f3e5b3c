//! Explanations of a small world, without a cluster.

use std::sync::Arc;

use patchbay_core::{
    Attachment, ClusterId, ControllerId, Core, Criterion, Effect, Fields, Finished, Kind, Metadata, Namespaces,
    ObjectName, PrimaryKey, Query, ReadScope, ReferenceSet, References, RunResult, Selector, Settings, Target, Time,
    Variant, Version, WriteRecord,
};

use super::model::{DependentExplained, FindingExplained, PrimaryState};
use super::{Asked, ControllerView, Explanation, NotExplained, View};
use crate::history::{History, KeptRun, NamedQuery, Refused, RunRecord};
use crate::memory::LastRun;

const NOW: Time = Time(std::time::Duration::from_secs(60));

/// Two versions of one kind, of which plugins reconcile one.
fn copy(version: &str) -> Kind {
    Kind::new(format!("example.dev/{version}"), "Copy")
}

fn query(kind: Kind, target: Target) -> Query {
    Query {
        cluster: ClusterId::HOST,
        kind,
        target,
        fields: Fields::Whole,
    }
}

fn source(namespace: &str) -> Query {
    query(
        Kind::new("v1", "Secret"),
        Target::Named(ObjectName::new(Some(namespace), "source")),
    )
}

/// The ConfigMaps that a primary owns.
fn owned() -> Query {
    query(
        Kind::new("v1", "ConfigMap"),
        Target::selected(Namespaces::All, Criterion::Owner("uid".into())),
    )
}

/// A core in which the primaries `n/p`, `m/p` and `n/q` have run once. Each depends on the Secret `source` of its
/// namespace, on what it owns, and on the second version of itself; all these are there.
struct World {
    core: Core,
    history: History,
    copy: Kind,
}

impl World {
    fn new() -> Self {
        let mut world = World {
            core: Core::new(Settings::default()),
            history: History::default(),
            copy: copy("v1"),
        };
        world
            .core
            .attach(ControllerId(0), Attachment::new(ClusterId::HOST, copy("v1")), NOW);
        while let Some(effect) = world.core.poll() {
            match effect {
                Effect::StartWatch(id, _) => world.core.watch_stands(id, Version(3), NOW),
                Effect::Read(id, request) => {
                    let found = match &request.scope {
                        ReadScope::Named(name) => vec![name.clone()],
                        ReadScope::Selected { .. } => [("m", "p"), ("n", "p"), ("n", "q")]
                            .map(|(at, name)| ObjectName::new(Some(at), name))
                            .to_vec(),
                    };
                    let found = found.into_iter().map(|name| (name.clone(), metadata(), text(&name)));
                    world.core.read_page(id, Version(3), found.collect(), NOW);
                    world.core.read_done(id, Version(3), NOW);
                }
                Effect::Run { run, key, .. } => world.run(run, &key),
                other => panic!("unexpected {other:?}"),
            }
        }
        world
    }

    fn run(&mut self, run: patchbay_core::RunId, key: &PrimaryKey) {
        let namespace = key.name.namespace.clone().unwrap_or_default();
        let second = query(copy("v2"), Target::Named(key.name.clone()));
        let queries = vec![source(&namespace), owned(), second];
        let answer = self.core.references(run, ReferenceSet::complete(queries.clone()), NOW);
        let named = ["source", "owned", "second"]
            .iter()
            .zip(queries)
            .map(|(id, query)| NamedQuery {
                id: (*id).into(),
                asked: Ok(Arc::new(query)),
                hidden: Box::default(),
            });
        let mut record = RunRecord::empty(key.clone());
        record.queries = named.chain([refused()]).collect();
        let record = Arc::new(record);
        let mut finished = Finished::new(RunResult::Done {
            again_after: None,
            again: false,
        });
        if let References::Answered(_) = answer {
            let last: WriteRecord = Arc::new(LastRun {
                run: Some(record.clone()),
                ..LastRun::default()
            });
            finished.last_writes = Some(last);
            // Only one of them is still among the last runs of the host.
            if *key.name.name == *"q" {
                self.history.add(KeptRun::new(record, &[]));
            }
            self.core.finish(run, finished, NOW);
        }
    }

    fn explain(&self, kind: &str, namespace: Option<&str>, name: &str) -> Result<Explanation, NotExplained> {
        let view = View {
            core: &self.core,
            history: &self.history,
            controller: &|_| {
                Some(ControllerView {
                    plugin: "copy",
                    version: "1.0.0",
                    cluster: ClusterId::HOST,
                    kind: &self.copy,
                })
            },
            reconciled: Vec::new(),
            now: NOW,
            wall: jiff::Timestamp::UNIX_EPOCH,
        };
        view.explain(&Asked {
            kind: kind.to_owned(),
            name: name.to_owned(),
            namespace: namespace.map(str::to_owned),
            cluster: None,
        })
    }
}

fn refused() -> NamedQuery {
    NamedQuery {
        id: "secret".into(),
        asked: Err(Refused {
            reason: "NotGranted".into(),
            message: "may not read".into(),
        }),
        hidden: Box::default(),
    }
}

fn metadata() -> Metadata {
    Metadata {
        uid: "uid".into(),
        version: Version(2),
        owners: ["uid".into()].into(),
        ..Metadata::default()
    }
}

fn text(name: &ObjectName) -> Vec<Variant> {
    let namespace = name.namespace.as_deref().unwrap_or_default();
    vec![Variant {
        fields: Fields::Whole,
        text: format!(
            r#"{{"data":{{"k":"hunter2"}},"metadata":{{"name":"{}","namespace":"{namespace}"}}}}"#,
            name.name
        )
        .into(),
    }]
}

#[test]
fn a_primary_is_told_with_the_ids_that_its_plugin_gave() {
    let world = World::new();
    for name in ["p", "q"] {
        let explained = world.explain("copies", Some("n"), name).expect("it is known");
        let [primary] = explained.primaries.as_slice() else {
            panic!("one plugin reconciles it: {explained:?}");
        };
        assert_eq!((primary.plugin.as_str(), primary.state), ("copy", PrimaryState::Idle));
        let told: Vec<_> = primary
            .queries
            .iter()
            .map(|query| (query.id.as_deref().unwrap_or_default(), query.text.as_str()))
            .collect();
        let second = format!("Copy n/{name}");
        let expected = [
            ("source", "Secret n/source"),
            ("owned", "all ConfigMaps owned by the primary"),
            ("second", &second),
            ("secret", "not asked"),
        ];
        assert_eq!(told, expected);
        let finding = |place: usize| &primary.queries[place].finding;
        assert!(matches!(finding(0), FindingExplained::Found { resource_version } if resource_version == "2"));
        assert!(
            matches!(finding(1), FindingExplained::Matches { count: 3, names } if names[..] == ["m/p", "n/p", "n/q"]),
            "{:?}",
            finding(1)
        );
        assert!(matches!(finding(3), FindingExplained::Failed { reason, .. } if reason == "NotGranted"));
        assert_eq!(primary.runs.len(), 1, "the last run is remembered with the primary");
        let next = primary.next.as_ref().expect("a backstop");
        assert!(next.time.starts_with("1970-01-01T"), "{next:?}");
        let json = serde_json::to_string(&explained).expect("JSON");
        assert!(!json.contains("hunter2"), "{json}");
        assert_eq!(
            serde_json::from_str::<Explanation>(&json).expect("it is read as written"),
            explained
        );
    }
}

#[test]
fn an_object_of_two_versions_is_one() {
    let world = World::new();
    let explained = world.explain("copy", Some("n"), "p").expect("it is known");
    assert_eq!(
        explained.object.api_version, "example.dev/v1",
        "the one that is reconciled"
    );
    let by_itself = |dependent: &DependentExplained| {
        matches!(dependent, DependentExplained::Query { primary, id, .. }
            if primary.name == "p" && id.as_deref() == Some("second"))
    };
    let as_primary = |dependent: &DependentExplained| matches!(dependent, DependentExplained::Primary { .. });
    assert!(explained.dependents.iter().any(by_itself), "{:?}", explained.dependents);
    assert!(
        explained.dependents.iter().any(as_primary),
        "{:?}",
        explained.dependents
    );
}

#[test]
fn whoever_finds_an_object_now_is_told() {
    let world = World::new();
    let explained = world.explain("configmap", Some("m"), "p").expect("it is known");
    let names = explained.dependents.iter().filter_map(|dependent| match dependent {
        DependentExplained::Query { primary, id, .. } => Some((primary.name.as_str(), id.as_deref())),
        _ => None,
    });
    let owned = Some("owned");
    assert_eq!(names.collect::<Vec<_>>(), [("p", owned), ("p", owned), ("q", owned)]);
}

#[test]
fn one_object_must_be_meant() {
    let world = World::new();
    let error = world.explain("secret", None, "source").expect_err("two namespaces");
    let NotExplained::Several { option, known } = &error else {
        panic!("{error}")
    };
    assert_eq!((*option, known.as_str()), ("--namespace", "m, n"));
    let alone = world.explain("copy", None, "q").expect("there is one");
    assert_eq!(alone.object.namespace.as_deref(), Some("n"));
    let elsewhere = world.explain("copy", Some("o"), "q").expect_err("not there");
    assert!(elsewhere.to_string().contains("n/q"), "{elsewhere}");
    let kind = world.explain("cpoy", None, "q").expect_err("no such kind");
    assert!(
        kind.to_string().contains("did you mean copy.example.dev?")
            && kind.to_string().contains("configmap, copy.example.dev, secret"),
        "{kind}"
    );
}

#[test]
fn a_criterion_of_labels_is_said_as_it_is() {
    let everything = query(
        Kind::new("v1", "Secret"),
        Target::selected(
            Namespaces::listed(["n".into()]),
            Criterion::Labels(Selector::everything()),
        ),
    );
    assert_eq!(super::object::words(&everything), "Secrets in n");
}

#[test]
fn a_name_that_was_made_of_a_secret_is_told_nowhere() {
    let mut world = World::new();
    let key = PrimaryKey {
        controller: ControllerId(0),
        name: ObjectName::new(Some("n"), "q"),
    };
    let mut record = RunRecord::empty(key);
    record.hidden = ["source".into()].into();
    record.queries = [NamedQuery {
        id: "source".into(),
        asked: Ok(Arc::new(source("n"))),
        hidden: record.hidden.clone(),
    }]
    .into();
    world.history.add(KeptRun::new(Arc::new(record), &[]));
    let explained = world.explain("copy", Some("n"), "q").expect("it is known");
    let query = &explained.primaries[0].queries[0];
    assert_eq!(query.text, "Secret n/[hidden]");
    let by = world.explain("secret", Some("n"), "source").expect("it is known");
    let of = |name: &str| {
        by.dependents.iter().find_map(|dependent| match dependent {
            DependentExplained::Query { primary, text, .. } if primary.name == name => Some(text.as_str()),
            _ => None,
        })
    };
    assert_eq!((of("q"), of("p")), (Some("Secret n/[hidden]"), Some("Secret n/source")));
}
