//! The life of a query: watched before it is read, answered from the cache, let go with its last user.

use std::sync::Arc;

use super::{Core, Effect, Timer};
use crate::cache::Entry;
use crate::clusters::ClusterState;
use crate::failure::Failure;
use crate::name::{ObjectKey, Version};
use crate::query::QueryId;
use crate::query::{Fields, Finding, FoundObject, Namespaces, Query, Target};
use crate::reads::{ReadRequest, ReadScope, Waiting};
use crate::registry::{QueryState, User};
use crate::time::Time;
use crate::wake::Wake;
use crate::watches::{WatchKey, WatchState};

impl Core {
    /// Adds a user to a query. A new query is watched at once, and read as soon as its watches stand.
    pub(super) fn register(&mut self, query: Query, user: User, now: Time) -> QueryId {
        let (id, new) = self.registry.add(query, user);
        if !new {
            return id;
        }
        let Some(query) = self.registry.get(id).map(|entry| entry.query.clone()) else {
            return id;
        };
        self.use_cluster(query.cluster, now);
        for key in self.watches.needed(&query) {
            if self.watches.add(&key, id) {
                self.start_watch(&key);
            }
        }
        let states: Vec<WatchState> = self.watch_states(id, &query);
        if let Some(failure) = states.iter().find_map(failure) {
            self.set_query_state(id, QueryState::Failed(failure.clone()));
        } else if states.is_empty() {
            // It looks nowhere, so it finds nothing.
            let floor = Version::default();
            self.set_query_state(id, QueryState::Ready { floor });
        } else if states.iter().all(stands) {
            self.begin_reads(id, &query);
        }
        id
    }

    /// Takes a user off a query; with the last one the query goes, and all that was held for it.
    pub(super) fn unregister(&mut self, id: QueryId, user: &User, now: Time) {
        let Some(query) = self.registry.remove(id, user) else {
            return;
        };
        self.reads.forget_query(id, query.cluster);
        self.forget_found(&query);
        for key in self.watches.remove_query(id, query.cluster, &query.kind) {
            self.set_timer(now + self.settings.linger, Timer::Linger(key));
        }
        self.release_cluster(query.cluster, now);
    }

    fn start_watch(&mut self, key: &WatchKey) {
        match self.clusters.get(key.cluster).map(|cluster| cluster.state.clone()) {
            Some(ClusterState::Connected) => self.restart_watch(key),
            Some(ClusterState::Failed(failure)) => {
                self.watches.end(key, WatchState::Failed(failure));
            }
            Some(ClusterState::Unconnected) | None => {}
        }
    }

    pub(super) fn restart_watch(&mut self, key: &WatchKey) {
        if let Some((started, ended)) = self.watches.start(key) {
            self.effects.extend(ended.map(Effect::StopWatch));
            self.effects.push_back(Effect::StartWatch(started, key.clone()));
        }
    }

    /// Reads a query for the first time, or once more after a gap in its watches.
    pub(super) fn begin_reads(&mut self, id: QueryId, query: &Query) {
        let scopes: Vec<ReadScope> = match &query.target {
            Target::Named(name) => vec![ReadScope::Named(name.clone())],
            Target::Selected {
                namespaces: Namespaces::All,
                selector,
            } => {
                vec![ReadScope::Selected {
                    namespace: None,
                    selector: selector.clone(),
                }]
            }
            Target::Selected {
                namespaces: Namespaces::Listed(names),
                selector,
            } => names
                .iter()
                .map(|name| ReadScope::Selected {
                    namespace: Some(name.clone()),
                    selector: selector.clone(),
                })
                .collect(),
        };
        let Some(entry) = self.registry.get_mut(id) else { return };
        entry.round = entry.round.wrapping_add(1);
        let waiting = Waiting {
            query: id,
            round: entry.round,
        };
        // The answers of one that is ready stay what they were until something else is read.
        if !matches!(entry.state, QueryState::Ready { .. }) {
            entry.state = QueryState::Pending {
                reads: scopes.len(),
                floor: None,
            };
        }
        for scope in scopes {
            let mut fields = vec![query.fields.clone()];
            if let ReadScope::Named(name) = &scope {
                let object = query.object(name);
                fields = self.registry.fields(self.registry.by_name(&object).iter().copied());
            }
            let request = ReadRequest {
                cluster: query.cluster,
                kind: query.kind.clone(),
                scope,
                fields,
            };
            self.reads.push(request, Some(waiting));
        }
    }

    /// One of a query's reads is done. The last one of the present round makes it ready.
    pub(super) fn query_read(&mut self, waiting: Waiting, version: Version, now: Time) {
        let id = waiting.query;
        let Some(entry) = self.registry.get_mut(id) else { return };
        if entry.round != waiting.round {
            return;
        }
        entry.failures = 0;
        match &mut entry.state {
            QueryState::Ready { .. } => {}
            // Its watch failed meanwhile. It is read again when that stands.
            QueryState::Failed(_) => {}
            QueryState::Pending { reads, floor } => {
                let floor = *floor.insert(floor.map_or(version, |other| other.min(version)));
                *reads = reads.saturating_sub(1);
                if *reads == 0 {
                    entry.state = QueryState::Ready { floor };
                    self.tell_answered(id, now);
                }
            }
        }
    }

    /// Keeps a query pending until one more object, found in its reads, is up to date.
    pub(super) fn await_object(&mut self, waiting: Option<Waiting>, object: &ObjectKey, fields: Vec<Fields>) {
        if let Some(waiting) = waiting
            && let Some(entry) = self.registry.get_mut(waiting.query)
            && entry.round == waiting.round
            && let QueryState::Pending { reads, .. } = &mut entry.state
        {
            *reads += 1;
            let scope = ReadScope::Named(object.name.clone());
            self.reads.push(
                ReadRequest {
                    cluster: object.cluster,
                    kind: object.kind.clone(),
                    scope,
                    fields,
                },
                Some(waiting),
            );
        } else {
            self.read_object(object, fields);
        }
    }

    pub(super) fn fail_query(&mut self, id: QueryId, failure: &Failure, now: Time) {
        let Some(entry) = self.registry.get_mut(id) else { return };
        let failed = QueryState::Failed(failure.clone());
        if entry.state != failed {
            entry.state = failed;
            self.tell_answered(id, now);
        }
    }

    /// Tells a query's users that it has an answer, or a failure, or another failure.
    fn tell_answered(&mut self, id: QueryId, now: Time) {
        let Some(entry) = self.registry.get(id) else { return };
        let kind = entry.query.kind.clone();
        let users: Vec<User> = entry.users.iter().cloned().collect();
        for user in users {
            match user {
                User::Primary(key) if self.is_waiting(&key) => self.stop_waiting(&key),
                User::Primary(key) => self.wake(&key, Wake::Query { kind: kind.clone() }),
                User::Controller(_) | User::Watch(_) => {}
                User::Cluster(cluster) => self.kubeconfig_changed(cluster, now),
            }
        }
    }

    fn set_query_state(&mut self, id: QueryId, state: QueryState) {
        if let Some(entry) = self.registry.get_mut(id) {
            entry.state = state;
        }
    }

    pub(super) fn watch_states(&self, id: QueryId, query: &Query) -> Vec<WatchState> {
        let keys = self.watches.of_query(id, query);
        keys.iter()
            .filter_map(|key| self.watches.get(key))
            .map(|watch| watch.state.clone())
            .collect()
    }

    /// What a query finds now; none while it is pending.
    pub(super) fn finding(&self, id: QueryId) -> Option<Finding> {
        let entry = self.registry.get(id)?;
        match &entry.state {
            QueryState::Pending { .. } => None,
            QueryState::Failed(failure) => Some(Finding::Failed(failure.clone())),
            QueryState::Ready { .. } => Some(self.look_up(&entry.query)),
        }
    }

    fn look_up(&self, query: &Query) -> Finding {
        let found = |object: &crate::cache::Object| {
            let text: Arc<str> = object.text(&query.fields)?.clone();
            Some(FoundObject {
                cluster: query.cluster,
                version: object.metadata.version,
                text,
            })
        };
        match &query.target {
            Target::Named(name) => {
                let key = query.object(name);
                match self.cache.get(&key).and_then(Entry::present).and_then(found) {
                    Some(object) => Finding::Found(object),
                    None => Finding::Missing,
                }
            }
            Target::Selected { namespaces, selector } => Finding::Matches(
                self.cache
                    .present(query.cluster, &query.kind, namespaces)
                    .filter(|(_, object)| selector.matches(&object.metadata.labels))
                    .filter_map(|(_, object)| found(object))
                    .collect(),
            ),
        }
    }
}

pub(super) fn stands(state: &WatchState) -> bool {
    matches!(state, WatchState::Standing(_))
}

fn failure(state: &WatchState) -> Option<&Failure> {
    match state {
        WatchState::Failed(failure) => Some(failure),
        _ => None,
    }
}
