//! Selections inverted: from an object's labels and owners to the queries that may find it.
//!
//! The index holds queries and never their matches, so it cannot go stale and does not grow with what exists. Queries by
//! name need no index of their own: the registry finds them by hash.

use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;
use std::sync::Arc;

use crate::change::Metadata;
use crate::query::{Criterion, QueryId};
use crate::selector::{Operator, Requirement, Selector};

type LabelPair = (Arc<str>, Arc<str>);

/// The selections of one kind in one cluster. Each stands under one requirement of its selector, the one that fewest
/// stood under when it was added, or among the rest if none of its requirements can be looked up.
#[derive(Default)]
pub(crate) struct Selections {
    by_pair: HashMap<LabelPair, BTreeSet<QueryId>>,
    by_key: HashMap<Arc<str>, BTreeSet<QueryId>>,
    by_owner: HashMap<Arc<str>, BTreeSet<QueryId>>,
    rest: BTreeSet<QueryId>,
}

impl Selections {
    pub(crate) fn insert(&mut self, id: QueryId, criterion: &Criterion) {
        match criterion {
            Criterion::Owner(owner) => add(&mut self.by_owner, owner.clone(), id),
            Criterion::Labels(selector) => match self.rarest(selector) {
                Some(Requirement {
                    key,
                    operator: Operator::In(values),
                }) => {
                    for value in values {
                        add(&mut self.by_pair, (key.clone(), value.clone()), id);
                    }
                }
                Some(Requirement { key, .. }) => add(&mut self.by_key, key.clone(), id),
                None => {
                    self.rest.insert(id);
                }
            },
        }
    }

    /// The requirement under which the fewest selections would stand beside this one.
    fn rarest<'a>(&self, selector: &'a Selector) -> Option<&'a Requirement> {
        let beside = |requirement: &&Requirement| match &requirement.operator {
            Operator::In(values) => values
                .iter()
                .map(|value| {
                    let pair = (requirement.key.clone(), value.clone());
                    self.by_pair.get(&pair).map_or(0, BTreeSet::len)
                })
                .sum(),
            // Most objects that have a label at all have it with many values.
            _ => self.by_key.get(&requirement.key).map_or(0, BTreeSet::len) + 1,
        };
        let can_be_looked_up =
            |requirement: &&Requirement| matches!(requirement.operator, Operator::In(_) | Operator::Exists);
        selector
            .requirements()
            .iter()
            .filter(can_be_looked_up)
            .min_by_key(beside)
    }

    pub(crate) fn remove(&mut self, id: QueryId, criterion: &Criterion) {
        match criterion {
            Criterion::Owner(owner) => take(&mut self.by_owner, owner, id),
            Criterion::Labels(selector) => {
                self.rest.remove(&id);
                for Requirement { key, operator } in selector.requirements() {
                    match operator {
                        Operator::In(values) => {
                            for value in values {
                                take(&mut self.by_pair, &(key.clone(), value.clone()), id);
                            }
                        }
                        Operator::Exists => take(&mut self.by_key, key, id),
                        Operator::NotIn(_) | Operator::DoesNotExist => {}
                    }
                }
            }
        }
    }

    /// The queries that may find an object with this metadata, each once. Whether they do is still to be checked.
    pub(crate) fn candidates<'a>(&'a self, metadata: &'a Metadata) -> impl Iterator<Item = QueryId> + 'a {
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
        by_label.chain(owners.flatten()).chain(&self.rest).copied()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty() && self.by_pair.is_empty() && self.by_key.is_empty() && self.by_owner.is_empty()
    }
}

fn add<K: Eq + Hash>(postings: &mut HashMap<K, BTreeSet<QueryId>>, key: K, id: QueryId) {
    postings.entry(key).or_default().insert(id);
}

fn take<K: Eq + Hash>(postings: &mut HashMap<K, BTreeSet<QueryId>>, key: &K, id: QueryId) {
    if let Some(ids) = postings.get_mut(key) {
        ids.remove(&id);
        if ids.is_empty() {
            postings.remove(key);
        }
    }
}
