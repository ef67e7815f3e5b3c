//! Selections inverted: from an object's labels and owners to the queries that may find it.
//!
//! The index holds queries and never their matches, so it cannot go stale and does not grow with what exists. Queries by
//! name need no index of their own: the registry finds them by hash.

use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;
use std::sync::Arc;

use crate::change::Metadata;
use crate::name::ObjectName;
use crate::query::{Criterion, Namespaces, QueryId, Selection};
use crate::selector::Operator;

type LabelPair = (Arc<str>, Arc<str>);

/// The selections of one kind in one cluster. Each stands under one requirement of its selector or under the namespaces that
/// it lists, whatever fewest stood under when it was added, or among the rest if it can be looked up by neither.
#[derive(Default)]
pub(crate) struct Selections {
    by_pair: HashMap<LabelPair, BTreeSet<QueryId>>,
    by_key: HashMap<Arc<str>, BTreeSet<QueryId>>,
    by_owner: HashMap<Arc<str>, BTreeSet<QueryId>>,
    by_namespace: HashMap<Arc<str>, BTreeSet<QueryId>>,
    rest: BTreeSet<QueryId>,
}

/// What a selection can stand under.
enum Place<'a> {
    Owner(&'a Arc<str>),
    /// One of these values of a label.
    Values(&'a Arc<str>, &'a [Arc<str>]),
    /// A label, whatever its value.
    Key(&'a Arc<str>),
    Namespaces(&'a [Arc<str>]),
}

fn places(selection: &Selection) -> Vec<Place<'_>> {
    let mut places = Vec::new();
    match &selection.criterion {
        Criterion::Owner(owner) => places.push(Place::Owner(owner)),
        Criterion::Labels(selector) => {
            places.extend(
                selector
                    .requirements()
                    .iter()
                    .filter_map(|requirement| match &requirement.operator {
                        Operator::In(values) => Some(Place::Values(&requirement.key, values)),
                        Operator::Exists => Some(Place::Key(&requirement.key)),
                        Operator::NotIn(_) | Operator::DoesNotExist => None,
                    }),
            );
        }
    }
    if let Namespaces::Listed(names) = &selection.namespaces {
        places.push(Place::Namespaces(names));
    }
    places
}

impl Selections {
    pub(crate) fn insert(&mut self, id: QueryId, selection: &Selection) {
        match places(selection).into_iter().min_by_key(|place| self.beside(place)) {
            Some(Place::Owner(owner)) => add(&mut self.by_owner, owner.clone(), id),
            Some(Place::Values(key, values)) => {
                for value in values {
                    add(&mut self.by_pair, (key.clone(), value.clone()), id);
                }
            }
            Some(Place::Key(key)) => add(&mut self.by_key, key.clone(), id),
            Some(Place::Namespaces(names)) => {
                for name in names {
                    add(&mut self.by_namespace, name.clone(), id);
                }
            }
            None => {
                self.rest.insert(id);
            }
        }
    }

    /// How many selections stand in a place already.
    fn beside(&self, place: &Place<'_>) -> usize {
        match place {
            Place::Owner(owner) => count(&self.by_owner, owner),
            Place::Values(key, values) => {
                let pairs = values.iter().map(|value| ((*key).clone(), value.clone()));
                pairs.map(|pair| count(&self.by_pair, &pair)).sum()
            }
            // Most objects that have a label at all have it with many values, and a namespace holds many objects.
            Place::Key(key) => count(&self.by_key, key) + 1,
            Place::Namespaces(names) => names.iter().map(|name| count(&self.by_namespace, name)).sum::<usize>() + 1,
        }
    }

    pub(crate) fn remove(&mut self, id: QueryId, selection: &Selection) {
        self.rest.remove(&id);
        for place in places(selection) {
            match place {
                Place::Owner(owner) => take(&mut self.by_owner, owner, id),
                Place::Values(key, values) => {
                    for value in values {
                        take(&mut self.by_pair, &(key.clone(), value.clone()), id);
                    }
                }
                Place::Key(key) => take(&mut self.by_key, key, id),
                Place::Namespaces(names) => {
                    for name in names {
                        take(&mut self.by_namespace, name, id);
                    }
                }
            }
        }
    }

    /// The queries that may find an object of this name and metadata, each once. Whether they do is still to be checked.
    pub(crate) fn candidates<'a>(
        &'a self,
        name: &ObjectName,
        metadata: &'a Metadata,
    ) -> impl Iterator<Item = QueryId> + 'a {
        let labels = metadata.labels.iter();
        let by_label = labels.flat_map(|(key, value)| {
            let pair = (key.clone(), value.clone());
            self.by_pair
                .get(&pair)
                .into_iter()
                .chain(self.by_key.get(key))
                .flatten()
        });
        let owners = metadata.owners.iter().filter_map(|owner| self.by_owner.get(owner));
        let namespace = name.namespace.as_ref();
        let in_namespace = namespace.and_then(|namespace| self.by_namespace.get(namespace));
        by_label
            .chain(owners.flatten())
            .chain(in_namespace.into_iter().flatten())
            .chain(&self.rest)
            .copied()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
            && self.by_pair.is_empty()
            && self.by_key.is_empty()
            && self.by_owner.is_empty()
            && self.by_namespace.is_empty()
    }
}

fn add<K: Eq + Hash>(postings: &mut HashMap<K, BTreeSet<QueryId>>, key: K, id: QueryId) {
    postings.entry(key).or_default().insert(id);
}

fn count<K: Eq + Hash>(postings: &HashMap<K, BTreeSet<QueryId>>, key: &K) -> usize {
    postings.get(key).map_or(0, BTreeSet::len)
}

fn take<K: Eq + Hash>(postings: &mut HashMap<K, BTreeSet<QueryId>>, key: &K, id: QueryId) {
    if let Some(ids) = postings.get_mut(key) {
        ids.remove(&id);
        if ids.is_empty() {
            postings.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::selector::{Requirement, Selector};

    #[test]
    fn selections_of_other_namespaces_are_not_gone_through() {
        let equals = Selector::new([Requirement::equals("app", "web")]);
        for selector in [Selector::everything(), equals] {
            let mut selections = Selections::default();
            let selection = |number: u32| Selection {
                namespaces: Namespaces::listed([format!("team-{number}").into()]),
                criterion: Criterion::Labels(selector.clone()),
            };
            for number in 0..1000 {
                selections.insert(QueryId(number), &selection(number));
            }
            let metadata = Metadata {
                labels: [("app".into(), "web".into())].into(),
                ..Metadata::default()
            };
            let name = ObjectName::new(Some("team-7"), "settings");
            let candidates: Vec<_> = selections.candidates(&name, &metadata).collect();
            assert!(
                candidates.contains(&QueryId(7)) && candidates.len() <= 3,
                "{candidates:?}"
            );
            for number in 0..1000 {
                selections.remove(QueryId(number), &selection(number));
            }
            assert!(selections.is_empty());
        }
    }
}
