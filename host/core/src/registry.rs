//! The queries that somebody asks, who asks them, and whether they can be answered.

use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use hashbrown::HashTable;
use slab::Slab;

use crate::change::Metadata;
use crate::failure::Failure;
use crate::index::Selections;
use crate::intern::Interner;
use crate::name::{ClusterId, Kind, ObjectKey, ObjectName, Version};
use crate::query::{Fields, Namespaces, Query, QueryId, Target};
use crate::users::{User, Users};

pub(crate) struct Registered {
    pub(crate) query: Arc<Query>,
    pub(crate) users: Users,
    pub(crate) state: QueryState,
    /// Of a query that looks in namespaces by their labels.
    pub(crate) selected: Option<Box<SelectedNamespaces>>,
    /// Tells one round of reads from any other of any query, so that an answer of an earlier time does not count for this one.
    pub(crate) round: u64,
    /// Reads in a row that failed.
    pub(crate) failures: u32,
}

/// The namespaces that a query looks in now.
pub(crate) struct SelectedNamespaces {
    /// The query that finds them.
    pub(crate) query: QueryId,
    pub(crate) names: BTreeSet<Arc<str>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum QueryState {
    /// Its watches do not stand yet, or so many of its reads are still out. Those that are done saw `floor` at least.
    Pending {
        reads: u32,
        floor: Option<Version>,
        /// What its users were told holds until something else is found.
        was: Was,
    },
    /// Answered from the cache, which holds all that it finds. What happened up to `floor` is known.
    Ready {
        floor: Version,
    },
    Failed(Failure),
}

/// What the users of a pending query know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Was {
    /// Nothing, or that it failed.
    Unanswered,
    /// The answer, which has not changed since.
    Ready,
    /// An answer that has changed since.
    Changed,
}

/// Equal queries are one entry. Invariant: an entry has at least one user, and can be found from every object that it matches.
#[derive(Default)]
pub(crate) struct Registry {
    entries: Slab<Registered>,
    /// Queries by name, by the hash of the object that they name.
    named: HashTable<QueryId>,
    hasher: RandomState,
    selected: HashMap<(ClusterId, Kind), Selections>,
    selected_ids: HashMap<Arc<Query>, QueryId>,
    interner: Interner,
    rounds: u64,
}

impl Registry {
    /// Adds a user to a query. The flag says whether nobody asked it before.
    pub(crate) fn add(&mut self, query: Query, user: User) -> (QueryId, bool) {
        if let Some(id) = self.id(&query) {
            if let Some(entry) = self.get_mut(id) {
                entry.users.insert(user);
            }
            return (id, false);
        }
        let query = Arc::new(self.interner.query(query));
        let key = self.entries.insert(Registered {
            query: query.clone(),
            users: Users::One(user),
            state: QueryState::Pending {
                reads: 0,
                floor: None,
                was: Was::Unanswered,
            },
            selected: None,
            round: 0,
            failures: 0,
        });
        // Four billion queries do not fit into memory.
        let id = QueryId(u32::try_from(key).unwrap_or(u32::MAX));
        match &query.target {
            Target::Named(name) => {
                let hash = self.hash(query.cluster, &query.kind, name);
                let (entries, hasher) = (&self.entries, &self.hasher);
                self.named.insert_unique(hash, id, |id| rehash(entries, hasher, *id));
            }
            Target::Selected(selection) => {
                let place = (query.cluster, query.kind.clone());
                self.selected.entry(place).or_default().insert(id, selection);
                self.selected_ids.insert(query, id);
            }
        }
        (id, true)
    }

    fn id(&self, query: &Query) -> Option<QueryId> {
        match &query.target {
            Target::Named(name) => self
                .named
                .iter_hash(self.hash(query.cluster, &query.kind, name))
                .find(|id| self.get(**id).is_some_and(|entry| *entry.query == *query))
                .copied(),
            Target::Selected(_) => self.selected_ids.get(query).copied(),
        }
    }

    fn hash(&self, cluster: ClusterId, kind: &Kind, name: &ObjectName) -> u64 {
        self.hasher.hash_one((cluster, kind, name))
    }

    /// Takes a user off a query. Returns the query if that was the last one, which removes it.
    pub(crate) fn remove(&mut self, id: QueryId, user: &User) -> Option<Registered> {
        let entry = self.get_mut(id)?;
        if !entry.users.remove(user) {
            return None;
        }
        let query = entry.query.clone();
        match &query.target {
            Target::Named(name) => {
                let hash = self.hash(query.cluster, &query.kind, name);
                if let Ok(found) = self.named.find_entry(hash, |other| *other == id) {
                    found.remove();
                }
            }
            Target::Selected(selection) => {
                let place = (query.cluster, query.kind.clone());
                if let Some(selections) = self.selected.get_mut(&place) {
                    selections.remove(id, selection);
                    if selections.is_empty() {
                        self.selected.remove(&place);
                    }
                }
                self.selected_ids.remove(&query);
            }
        }
        self.entries.try_remove(id.0 as usize)
    }

    pub(crate) fn get(&self, id: QueryId) -> Option<&Registered> {
        self.entries.get(id.0 as usize)
    }

    pub(crate) fn get_mut(&mut self, id: QueryId) -> Option<&mut Registered> {
        self.entries.get_mut(id.0 as usize)
    }

    pub(crate) fn query(&self, id: QueryId) -> Option<Arc<Query>> {
        self.get(id).map(|entry| entry.query.clone())
    }

    /// All queries, in no order.
    pub(crate) fn queries(&self) -> impl Iterator<Item = &Arc<Query>> {
        self.entries.iter().map(|(_, entry)| &entry.query)
    }

    /// The entry's own copy of a query.
    pub(crate) fn registered(&self, query: &Query) -> Option<Arc<Query>> {
        self.id(query).and_then(|id| self.query(id))
    }

    pub(crate) fn is_pending(&self, id: QueryId) -> bool {
        self.get(id)
            .is_some_and(|entry| matches!(entry.state, QueryState::Pending { .. }))
    }

    /// Begins a round of reads of a query.
    pub(crate) fn begin_round(&mut self, id: QueryId) -> u64 {
        self.rounds += 1;
        let round = self.rounds;
        if let Some(entry) = self.get_mut(id) {
            entry.round = round;
        }
        round
    }

    /// The queries that ask for this object by name, whether or not it is there.
    pub(crate) fn by_name<'a>(&'a self, object: &'a ObjectKey) -> impl Iterator<Item = QueryId> + 'a {
        let hash = self.hash(object.cluster, &object.kind, &object.name);
        let names = move |id: &&QueryId| {
            self.get(**id).is_some_and(|entry| {
                entry.query.cluster == object.cluster
                    && entry.query.kind == object.kind
                    && matches!(&entry.query.target, Target::Named(name) if *name == object.name)
            })
        };
        self.named.iter_hash(hash).filter(names).copied()
    }

    pub(crate) fn is_named(&self, object: &ObjectKey) -> bool {
        self.by_name(object).next().is_some()
    }

    /// Whether anybody selects objects of its kind.
    pub(crate) fn is_selected_from(&self, object: &ObjectKey) -> bool {
        self.selected.contains_key(&(object.cluster, object.kind.clone()))
    }

    /// The queries that find this object while its metadata is this, in the order of their ids.
    pub(crate) fn matching(&self, object: &ObjectKey, metadata: &Metadata) -> Vec<QueryId> {
        let mut ids: Vec<QueryId> = self.by_name(object).collect();
        if let Some(selections) = self.selected.get(&(object.cluster, object.kind.clone())) {
            ids.extend(
                selections
                    .candidates(&object.name, metadata)
                    .filter(|id| self.selects(*id, object, metadata)),
            );
        }
        ids.sort_unstable();
        ids.dedup();
        ids
    }

    /// Whether a selection finds an object of its kind.
    fn selects(&self, id: QueryId, object: &ObjectKey, metadata: &Metadata) -> bool {
        self.get(id).is_some_and(|entry| {
            entry.looks_in(object.name.namespace.as_ref()) && entry.query.matches(object, metadata)
        })
    }

    /// The distinct fields that these queries declare.
    pub(crate) fn fields(&self, ids: &[QueryId]) -> Vec<Fields> {
        let mut fields: Vec<Fields> = ids
            .iter()
            .filter_map(|id| self.get(*id))
            .map(|entry| entry.query.fields.clone())
            .collect();
        fields.sort();
        fields.dedup();
        fields
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }
}

impl Registered {
    pub(crate) fn is_ready(&self) -> bool {
        matches!(self.state, QueryState::Ready { .. })
    }

    pub(crate) fn has_failed(&self) -> bool {
        matches!(self.state, QueryState::Failed(_))
    }

    /// The namespaces in which a selection looks now, in order; none if it looks in all of the cluster.
    pub(crate) fn namespaces(&self) -> Option<Vec<&Arc<str>>> {
        match (&self.query.target, &self.selected) {
            (Target::Selected(_), Some(selected)) => Some(selected.names.iter().collect()),
            (Target::Selected(selection), None) => match &selection.namespaces {
                Namespaces::All => None,
                Namespaces::Listed(names) => Some(names.iter().collect()),
                // They are not known yet.
                Namespaces::Selected(_) => None,
            },
            (Target::Named(_), _) => None,
        }
    }

    /// Whether objects of a namespace can be found now.
    pub(crate) fn looks_in(&self, namespace: Option<&Arc<str>>) -> bool {
        match (&self.query.target, &self.selected) {
            (Target::Selected(selection), Some(selected)) => {
                debug_assert!(matches!(selection.namespaces, Namespaces::Selected(_)));
                namespace.is_some_and(|namespace| selected.names.contains(namespace))
            }
            (Target::Selected(selection), None) => selection.namespaces.may_contain(namespace),
            (Target::Named(_), _) => true,
        }
    }
}

fn rehash(entries: &Slab<Registered>, hasher: &RandomState, id: QueryId) -> u64 {
    match entries.get(id.0 as usize).map(|entry| &*entry.query) {
        Some(Query {
            cluster,
            kind,
            target: Target::Named(name),
            ..
        }) => hasher.hash_one((*cluster, kind, name)),
        _ => 0,
    }
}

#[cfg(test)]
mod tests;
