//! The watches that queries need. Queries share them, and the last query gone stops a watch after a while.

use std::collections::HashMap;
use std::sync::Arc;

use indexmap::{IndexMap, IndexSet};

use crate::failure::Failure;
use crate::name::{ClusterId, Kind, Version};
use crate::query::QueryId;
use crate::query::{Namespaces, Query, Target};

/// One stream of a watch. A watch that is started anew gets a new id, so that what an old stream still says is told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WatchId(pub u64);

/// What is watched.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WatchKey {
    /// In which cluster.
    pub cluster: ClusterId,
    /// Objects of which kind.
    pub kind: Kind,
    /// And where.
    pub scope: Scope,
}

/// Where a watch looks.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scope {
    /// In all of the cluster.
    All,
    /// In one namespace.
    Namespace(Arc<str>),
}

pub(crate) struct Watch {
    pub(crate) queries: IndexSet<QueryId>,
    pub(crate) state: WatchState,
    /// Failures since it last stood.
    pub(crate) failures: u32,
    /// While the kind is not served: the query that finds its definition as soon as there is one.
    pub(crate) definition: Option<QueryId>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WatchState {
    /// Its cluster is not connected.
    Unconnected,
    Starting(WatchId),
    Standing(WatchId),
    Failed(Failure),
}

/// Beyond so many namespaces of one kind, the next watch is for the whole cluster: each stream costs a connection's share
/// on both sides, and the API server filters namespaces at no less cost.
const NAMESPACES_WATCHED_APART: usize = 8;

/// Invariant: `streams` holds the id of exactly those watches that are starting or standing.
#[derive(Default)]
pub(crate) struct Watches {
    by_key: IndexMap<WatchKey, Watch>,
    streams: HashMap<WatchId, WatchKey>,
    /// The newest version that was seen of each kind that is watched.
    newest: HashMap<(ClusterId, Kind), Version>,
    next: u64,
}

impl Watches {
    /// The watches that a query needs, given those that there are.
    pub(crate) fn needed(&self, query: &Query) -> Vec<WatchKey> {
        let key = |scope| WatchKey {
            cluster: query.cluster,
            kind: query.kind.clone(),
            scope,
        };
        let namespaces: &[Arc<str>] = match &query.target {
            Target::Selected {
                namespaces: Namespaces::Listed(names),
                ..
            } if names.is_empty() => return Vec::new(),
            Target::Named(name) => name.namespace.as_slice(),
            Target::Selected {
                namespaces: Namespaces::Listed(names),
                ..
            } => names,
            Target::Selected {
                namespaces: Namespaces::All,
                ..
            } => &[],
        };
        // One for the whole cluster covers its namespaces too, but not if it is refused: a namespace's own may be allowed.
        let all_serves = |watch: &Watch| !matches!(watch.state, WatchState::Failed(_));
        if namespaces.is_empty() || self.by_key.get(&key(Scope::All)).is_some_and(all_serves) {
            return vec![key(Scope::All)];
        }
        let scopes: Vec<_> = namespaces
            .iter()
            .map(|name| key(Scope::Namespace(name.clone())))
            .collect();
        let new = scopes.iter().filter(|scope| !self.by_key.contains_key(*scope)).count();
        if new > 0 && new + self.count(query.cluster, &query.kind) > NAMESPACES_WATCHED_APART {
            return vec![key(Scope::All)];
        }
        scopes
    }

    fn count(&self, cluster: ClusterId, kind: &Kind) -> usize {
        self.by_key
            .keys()
            .filter(|key| key.cluster == cluster && key.kind == *kind)
            .count()
    }

    /// Adds a query to a watch, and the watch if there is none. Returns whether it is new.
    pub(crate) fn add(&mut self, key: &WatchKey, query: QueryId) -> bool {
        let mut new = false;
        let watch = self.by_key.entry(key.clone()).or_insert_with(|| {
            new = true;
            Watch {
                queries: IndexSet::new(),
                state: WatchState::Unconnected,
                failures: 0,
                definition: None,
            }
        });
        watch.queries.insert(query);
        if new {
            self.newest.entry((key.cluster, key.kind.clone())).or_default();
        }
        new
    }

    /// Takes a query off all watches. Returns those that nobody needs any longer.
    pub(crate) fn remove_query(&mut self, query: QueryId, cluster: ClusterId, kind: &Kind) -> Vec<WatchKey> {
        let mut idle = Vec::new();
        for (key, watch) in &mut self.by_key {
            if key.cluster == cluster
                && key.kind == *kind
                && watch.queries.swap_remove(&query)
                && watch.queries.is_empty()
            {
                idle.push(key.clone());
            }
        }
        idle
    }

    /// The watches of a query.
    pub(crate) fn of_query(&self, id: QueryId, query: &Query) -> Vec<WatchKey> {
        self.by_key
            .iter()
            .filter(|(key, watch)| {
                key.cluster == query.cluster && key.kind == query.kind && watch.queries.contains(&id)
            })
            .map(|(key, _)| key.clone())
            .collect()
    }

    /// Starts a watch, or starts it anew. The second id is that of the stream that ends with this.
    pub(crate) fn start(&mut self, key: &WatchKey) -> Option<(WatchId, Option<WatchId>)> {
        let id = WatchId(self.next);
        let ended = self.end(key, WatchState::Starting(id))?;
        self.next += 1;
        self.streams.insert(id, key.clone());
        Some((id, ended))
    }

    /// Ends a watch's stream, leaving the watch in another state. None if there is no such watch.
    pub(crate) fn end(&mut self, key: &WatchKey, state: WatchState) -> Option<Option<WatchId>> {
        let watch = self.by_key.get_mut(key)?;
        let ended = match std::mem::replace(&mut watch.state, state) {
            WatchState::Starting(id) | WatchState::Standing(id) => Some(id),
            WatchState::Unconnected | WatchState::Failed(_) => None,
        };
        if let Some(id) = ended {
            self.streams.remove(&id);
        }
        Some(ended)
    }

    /// Forgets a watch. Returns the stream that ends with this.
    pub(crate) fn forget(&mut self, key: &WatchKey) -> Option<WatchId> {
        let ended = self.end(key, WatchState::Unconnected).flatten();
        self.by_key.swap_remove(key);
        if self.count(key.cluster, &key.kind) == 0 {
            self.newest.remove(&(key.cluster, key.kind.clone()));
        }
        ended
    }

    /// Notes a version of a kind, if that is watched.
    pub(crate) fn saw(&mut self, cluster: ClusterId, kind: &Kind, version: Version) {
        if let Some(newest) = self.newest.get_mut(&(cluster, kind.clone())) {
            *newest = version.max(*newest);
        }
    }

    /// The newest version that was seen of a watch's kind.
    pub(crate) fn newest(&self, key: &WatchKey) -> Version {
        self.newest
            .get(&(key.cluster, key.kind.clone()))
            .copied()
            .unwrap_or_default()
    }

    pub(crate) fn forget_versions(&mut self, cluster: ClusterId, kind: &Kind) {
        if let Some(newest) = self.newest.get_mut(&(cluster, kind.clone())) {
            *newest = Version::default();
        }
    }

    pub(crate) fn get(&self, key: &WatchKey) -> Option<&Watch> {
        self.by_key.get(key)
    }

    pub(crate) fn get_mut(&mut self, key: &WatchKey) -> Option<&mut Watch> {
        self.by_key.get_mut(key)
    }

    /// What a stream watches; none if it was ended.
    pub(crate) fn stream(&self, id: WatchId) -> Option<&WatchKey> {
        self.streams.get(&id)
    }

    pub(crate) fn of_kind(&self, cluster: ClusterId, kind: &Kind) -> Vec<WatchKey> {
        self.by_key
            .keys()
            .filter(|key| key.cluster == cluster && key.kind == *kind)
            .cloned()
            .collect()
    }

    pub(crate) fn of_cluster(&self, cluster: ClusterId) -> Vec<WatchKey> {
        self.by_key
            .keys()
            .filter(|key| key.cluster == cluster)
            .cloned()
            .collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.by_key.len()
    }
}
