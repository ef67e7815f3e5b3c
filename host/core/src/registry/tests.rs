use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::name::{ControllerId, PrimaryKey};
use crate::query::Criterion;
use crate::selector::{Labels, Operator, Requirement, Selector};

fn word() -> impl Strategy<Value = Arc<str>> {
    prop::sample::select(vec!["a", "b", "c"]).prop_map(Arc::from)
}

fn requirement() -> impl Strategy<Value = Requirement> {
    let operator = prop_oneof![
        prop::collection::vec(word(), 1..3).prop_map(Operator::In),
        prop::collection::vec(word(), 1..3).prop_map(Operator::NotIn),
        Just(Operator::Exists),
        Just(Operator::DoesNotExist),
    ];
    (word(), operator).prop_map(|(key, operator)| Requirement { key, operator })
}

fn selector() -> impl Strategy<Value = Selector> {
    prop::collection::vec(requirement(), 0..3).prop_map(Selector::new)
}

fn name() -> impl Strategy<Value = ObjectName> {
    (prop::option::of(word()), word()).prop_map(|(namespace, name)| ObjectName { namespace, name })
}

fn cluster_and_kind() -> impl Strategy<Value = (ClusterId, Kind)> {
    (0..2u32, word()).prop_map(|(cluster, kind)| (ClusterId(cluster), Kind::new("v1", kind)))
}

fn query() -> impl Strategy<Value = Query> {
    let namespaces = prop_oneof![
        Just(Namespaces::All),
        prop::collection::vec(word(), 1..3).prop_map(Namespaces::listed),
        selector().prop_map(Namespaces::Selected),
    ];
    let criterion = prop_oneof![
        selector().prop_map(Criterion::Labels),
        word().prop_map(Criterion::Owner),
    ];
    let target = prop_oneof![
        name().prop_map(Target::Named),
        (namespaces, criterion).prop_map(|(namespaces, criterion)| Target::selected(namespaces, criterion)),
    ];
    let fields = prop_oneof![Just(Fields::Whole), Just(Fields::Metadata)];
    (cluster_and_kind(), target, fields).prop_map(|((cluster, kind), target, fields)| Query {
        cluster,
        kind,
        target,
        fields,
    })
}

fn object() -> impl Strategy<Value = (ObjectKey, Metadata)> {
    let labels = prop::collection::btree_map(word(), word(), 0..3);
    let owners = prop::collection::vec(word(), 0..3);
    (cluster_and_kind(), name(), labels, owners).prop_map(
        |((cluster, kind), name, labels, owners): (_, _, Labels, Vec<Arc<str>>)| {
            let metadata = Metadata {
                labels,
                owners: owners.into(),
                ..Metadata::default()
            };
            (ObjectKey { cluster, kind, name }, metadata)
        },
    )
}

fn user(number: u32) -> User {
    User::Primary(Arc::new(PrimaryKey {
        controller: ControllerId(number),
        name: ObjectName::new(None, "p"),
    }))
}

/// What a namespace-selecting query looks in, in these tests.
fn selected() -> BTreeSet<Arc<str>> {
    BTreeSet::from(["a".into()])
}

/// Whether a query finds an object, as its words say.
fn finds(query: &Query, object: &ObjectKey, metadata: &Metadata) -> bool {
    let namespace = object.name.namespace.as_ref();
    query.cluster == object.cluster
        && query.kind == object.kind
        && match &query.target {
            Target::Named(name) => *name == object.name,
            Target::Selected(selection) => {
                let inside = match &selection.namespaces {
                    Namespaces::All => true,
                    Namespaces::Listed(names) => namespace.is_some_and(|name| names.contains(name)),
                    Namespaces::Selected(_) => namespace.is_some_and(|name| selected().contains(name)),
                };
                let met = match &selection.criterion {
                    Criterion::Labels(selector) => selector.matches(&metadata.labels),
                    Criterion::Owner(owner) => metadata.owners.contains(owner),
                };
                inside && met
            }
        }
}

proptest! {
    /// The registry finds what a scan over all queries finds, also after some were removed, and ends up empty.
    #[test]
    fn finds_what_a_scan_finds(
        queries in prop::collection::vec((query(), any::<bool>()), 0..40),
        objects in prop::collection::vec(object(), 1..20),
    ) {
        let mut registry = Registry::default();
        let mut added = Vec::new();
        for (number, (query, stays)) in (0..).zip(queries) {
            let (id, _) = registry.add(query.clone(), user(number));
            if let Target::Selected(selection) = &query.target
                && matches!(selection.namespaces, Namespaces::Selected(_))
            {
                let selected = SelectedNamespaces { query: id, names: selected() };
                registry.get_mut(id).expect("it was added").selected = Some(Box::new(selected));
            }
            added.push((number, id, query, stays));
        }
        for (number, id, _, _) in added.iter().filter(|(.., stays)| !stays) {
            registry.remove(*id, &user(*number));
        }
        for (object, metadata) in &objects {
            let found = registry.matching(object, metadata);
            let scanned: BTreeSet<_> = added
                .iter()
                .filter(|(_, _, query, stays)| *stays && finds(query, object, metadata))
                .map(|(_, id, _, _)| *id)
                .collect();
            prop_assert_eq!(found, scanned.into_iter().collect::<Vec<_>>());
        }
        for (number, id, _, _) in added.iter().filter(|(.., stays)| *stays) {
            registry.remove(*id, &user(*number));
        }
        prop_assert_eq!(registry.len(), 0);
        prop_assert!(registry.named.is_empty() && registry.selected.is_empty() && registry.selected_ids.is_empty());
    }

    /// Equal queries are one, whoever asks them.
    #[test]
    fn equal_queries_are_one_entry(queries in prop::collection::vec(query(), 0..40)) {
        let mut registry = Registry::default();
        let mut ids = HashMap::new();
        for (number, query) in (0..).zip(queries) {
            let (id, new) = registry.add(query.clone(), user(number));
            prop_assert_eq!(new, !ids.contains_key(&query));
            prop_assert_eq!(*ids.entry(query).or_insert(id), id);
        }
        prop_assert_eq!(registry.len(), ids.len());
    }
}
