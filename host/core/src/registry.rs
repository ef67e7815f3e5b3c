//! The queries that somebody asks, who asks them, and whether they can be answered.

use std::collections::HashMap;
use std::sync::Arc;

use indexmap::IndexSet;

use crate::change::Metadata;
use crate::failure::Failure;
use crate::index::Index;
use crate::name::{ClusterId, ControllerId, ObjectKey, PrimaryKey, Version};
use crate::query::{Fields, Query, QueryId};
use crate::watches::WatchKey;

/// Who depends on a query.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum User {
    /// A primary, which runs when its answer changes.
    Primary(PrimaryKey),
    /// A controller, whose primaries the query finds.
    Controller(ControllerId),
    /// A cluster, whose kubeconfig the query finds.
    Cluster(ClusterId),
    /// A watch of a kind that is not served, whose definition the query may find.
    Watch(WatchKey),
}

pub(crate) struct Registered {
    pub(crate) query: Arc<Query>,
    pub(crate) users: IndexSet<User>,
    pub(crate) state: QueryState,
    /// Counts how often its reads were begun, so that an answer of an earlier time does not count for this one.
    pub(crate) round: u32,
    /// Reads in a row that failed.
    pub(crate) failures: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum QueryState {
    /// Its watches do not stand yet, or so many of its reads are still out. Those that are done saw `floor` at least.
    Pending {
        reads: usize,
        floor: Option<Version>,
    },
    /// Answered from the cache, which holds all that it finds. What happened up to `floor` is known.
    Ready {
        floor: Version,
    },
    Failed(Failure),
}

/// Equal queries are one entry. Invariant: an entry has at least one user, and is in the index.
#[derive(Default)]
pub(crate) struct Registry {
    entries: HashMap<QueryId, Registered>,
    ids: HashMap<Arc<Query>, QueryId>,
    index: Index,
    next: u32,
}

impl Registry {
    /// Adds a user to a query. The flag says whether nobody asked it before.
    pub(crate) fn add(&mut self, query: Query, user: User) -> (QueryId, bool) {
        if let Some(id) = self.ids.get(&query) {
            if let Some(entry) = self.entries.get_mut(id) {
                entry.users.insert(user);
            }
            return (*id, false);
        }
        let id = self.free_id();
        let query = Arc::new(query);
        self.index.insert(id, &query);
        self.ids.insert(query.clone(), id);
        let state = QueryState::Pending { reads: 0, floor: None };
        self.entries.insert(
            id,
            Registered {
                query,
                users: IndexSet::from([user]),
                state,
                round: 0,
                failures: 0,
            },
        );
        (id, true)
    }

    /// Ids are used again only after four billion others.
    fn free_id(&mut self) -> QueryId {
        loop {
            let id = QueryId(self.next);
            self.next = self.next.wrapping_add(1);
            if !self.entries.contains_key(&id) {
                return id;
            }
        }
    }

    /// Takes a user off a query. Returns the query if that was the last one, which removes it.
    pub(crate) fn remove(&mut self, id: QueryId, user: &User) -> Option<Arc<Query>> {
        let entry = self.entries.get_mut(&id)?;
        entry.users.swap_remove(user);
        if !entry.users.is_empty() {
            return None;
        }
        let entry = self.entries.remove(&id)?;
        self.ids.remove(&entry.query);
        self.index.remove(id, &entry.query);
        Some(entry.query)
    }

    pub(crate) fn get(&self, id: QueryId) -> Option<&Registered> {
        self.entries.get(&id)
    }

    pub(crate) fn get_mut(&mut self, id: QueryId) -> Option<&mut Registered> {
        self.entries.get_mut(&id)
    }

    pub(crate) fn is_pending(&self, id: QueryId) -> bool {
        self.get(id)
            .is_some_and(|entry| matches!(entry.state, QueryState::Pending { .. }))
    }

    pub(crate) fn by_name(&self, object: &ObjectKey) -> &[QueryId] {
        self.index.by_name(object)
    }

    pub(crate) fn matching<'a>(
        &'a self,
        object: &'a ObjectKey,
        metadata: &'a Metadata,
    ) -> impl Iterator<Item = QueryId> + 'a {
        self.index.matching(object, metadata)
    }

    /// The distinct fields that these queries declare.
    pub(crate) fn fields(&self, ids: impl IntoIterator<Item = QueryId>) -> Vec<Fields> {
        let mut fields: Vec<Fields> = ids
            .into_iter()
            .filter_map(|id| self.get(id))
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
