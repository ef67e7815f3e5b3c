//! Queries inverted: from an object to the queries that it matches.
//!
//! The index holds queries and never their matches, so it cannot go stale and does not grow with what exists.

use std::collections::HashMap;
use std::sync::Arc;

use crate::change::Metadata;
use crate::name::{ClusterId, Kind, ObjectKey};
use crate::query::QueryId;
use crate::query::{Query, Target};

/// A query in the index.
type Posting = (QueryId, Arc<Query>);
type LabelPair = (Arc<str>, Arc<str>);

#[derive(Default)]
pub(crate) struct Index {
    named: HashMap<ObjectKey, Vec<QueryId>>,
    selected: HashMap<(ClusterId, Kind), Selections>,
}

/// The selections of one kind in one cluster. Each stands under one label pair that its selector requires, the rarest
/// when it was added, or among the rest if it requires none.
#[derive(Default)]
struct Selections {
    by_pair: HashMap<LabelPair, Vec<Posting>>,
    rest: Vec<Posting>,
}

impl Index {
    pub(crate) fn insert(&mut self, id: QueryId, query: &Arc<Query>) {
        match &query.target {
            Target::Named(name) => self.named.entry(query.object(name)).or_default().push(id),
            Target::Selected { selector, .. } => {
                let selections = self.selected.entry((query.cluster, query.kind.clone())).or_default();
                let rarest = selector
                    .pairs()
                    .map(|(key, value)| (key.clone(), value.clone()))
                    .min_by_key(|pair| selections.by_pair.get(pair).map_or(0, Vec::len));
                let postings = match rarest {
                    Some(pair) => selections.by_pair.entry(pair).or_default(),
                    None => &mut selections.rest,
                };
                postings.push((id, query.clone()));
            }
        }
    }

    pub(crate) fn remove(&mut self, id: QueryId, query: &Query) {
        match &query.target {
            Target::Named(name) => {
                let key = query.object(name);
                if let Some(ids) = self.named.get_mut(&key) {
                    ids.retain(|other| *other != id);
                    if ids.is_empty() {
                        self.named.remove(&key);
                    }
                }
            }
            Target::Selected { selector, .. } => {
                let key = (query.cluster, query.kind.clone());
                let Some(selections) = self.selected.get_mut(&key) else {
                    return;
                };
                selections.rest.retain(|(other, _)| *other != id);
                for (label, value) in selector.pairs() {
                    let pair = (label.clone(), value.clone());
                    if let Some(postings) = selections.by_pair.get_mut(&pair) {
                        postings.retain(|(other, _)| *other != id);
                        if postings.is_empty() {
                            selections.by_pair.remove(&pair);
                        }
                    }
                }
                if selections.rest.is_empty() && selections.by_pair.is_empty() {
                    self.selected.remove(&key);
                }
            }
        }
    }

    /// The queries that ask for this object by name, whether or not it is there.
    pub(crate) fn by_name(&self, object: &ObjectKey) -> &[QueryId] {
        self.named.get(object).map_or(&[], Vec::as_slice)
    }

    /// The queries that find this object while its metadata is this.
    pub(crate) fn matching<'a>(
        &'a self,
        object: &'a ObjectKey,
        metadata: &'a Metadata,
    ) -> impl Iterator<Item = QueryId> + 'a {
        let selections = self.selected.get(&(object.cluster, object.kind.clone()));
        let selected = selections.into_iter().flat_map(move |selections| {
            let by_pair = metadata
                .labels
                .iter()
                .filter_map(|(key, value)| selections.by_pair.get(&(key.clone(), value.clone())))
                .flatten();
            by_pair
                .chain(&selections.rest)
                .filter(|(_, query)| query.matches(object, metadata))
                .map(|(id, _)| *id)
        });
        self.by_name(object).iter().copied().chain(selected)
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.named.is_empty() && self.selected.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::name::{ObjectName, Version};
    use crate::query::{Fields, Namespaces};
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
        ];
        let target = prop_oneof![
            name().prop_map(Target::Named),
            (namespaces, prop::collection::vec(requirement(), 0..3)).prop_map(|(namespaces, requirements)| {
                Target::Selected {
                    namespaces,
                    selector: Selector::new(requirements),
                }
            }),
        ];
        (cluster_and_kind(), target).prop_map(|((cluster, kind), target)| Query {
            cluster,
            kind,
            target,
            fields: Fields::Whole,
        })
    }

    fn object() -> impl Strategy<Value = (ObjectKey, Metadata)> {
        let labels = prop::collection::btree_map(word(), word(), 0..3);
        (cluster_and_kind(), name(), labels).prop_map(|((cluster, kind), name, labels): (_, _, Labels)| {
            let metadata = Metadata {
                uid: "u".into(),
                version: Version(1),
                labels,
                deleting: false,
            };
            (ObjectKey { cluster, kind, name }, metadata)
        })
    }

    proptest! {
        /// The index finds what a scan over all queries finds, also after some were removed, and ends up empty.
        #[test]
        fn finds_what_a_scan_finds(
            queries in prop::collection::vec((query(), any::<bool>()), 0..40),
            objects in prop::collection::vec(object(), 1..20),
        ) {
            let mut index = Index::default();
            let queries: Vec<_> = queries
                .into_iter()
                .enumerate()
                .map(|(number, (query, stays))| (QueryId(number as u32), Arc::new(query), stays))
                .collect();
            for (id, query, _) in &queries {
                index.insert(*id, query);
            }
            for (id, query, _) in queries.iter().filter(|(_, _, stays)| !stays) {
                index.remove(*id, query);
            }
            for (object, metadata) in &objects {
                let found: Vec<_> = index.matching(object, metadata).collect();
                let scanned: BTreeSet<_> = queries
                    .iter()
                    .filter(|(_, query, stays)| *stays && query.matches(object, metadata))
                    .map(|(id, _, _)| *id)
                    .collect();
                prop_assert_eq!(found.len(), scanned.len(), "each once");
                prop_assert_eq!(found.into_iter().collect::<BTreeSet<_>>(), scanned);
            }
            for (id, query, _) in queries.iter().filter(|(_, _, stays)| *stays) {
                index.remove(*id, query);
            }
            prop_assert!(index.is_empty());
        }
    }
}
