//! The machine's own account of itself. It reads and changes nothing.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::Core;
use crate::cache::Entry;
use crate::explain::{NextRun, PrimaryReport, PrimaryState, QueryReport, QueryUser, WatchReport, WatchStanding};
use crate::failure::Failure;
use crate::name::{ClusterId, ControllerId, Kind, ObjectKey, ObjectName, PrimaryKey};
use crate::primaries::{Job, WriteRecord};
use crate::query::{Criterion, Query, QueryId, Target};
use crate::registry::{QueryState, Registered};
use crate::selector::Selector;
use crate::users::User;
use crate::watches::{WatchKey, WatchState};

impl Core {
    /// Why a controller's primaries cannot be listed or watched, if so.
    pub fn listing_failure(&self, controller: ControllerId) -> Option<&Failure> {
        let primaries = self.controllers.get(&controller)?.primaries;
        match &self.registry.get(primaries)?.state {
            QueryState::Failed(failure) => Some(failure),
            QueryState::Ready { .. } | QueryState::Pending { .. } => None,
        }
    }

    /// What is known of a primary.
    pub fn primary_report(&self, key: &PrimaryKey) -> Option<PrimaryReport> {
        let primary = self.primaries.get(key)?;
        let controller = self.controllers.get(&key.controller)?;
        let next = primary.due.as_ref().map(|due| NextRun {
            at: due.timer.0,
            wake: due.wake.clone(),
        });
        // What it waits for, or the run under way, has named more than the last run that succeeded.
        let mut queries = primary.queries.clone();
        if let Job::Running(run) = &primary.job {
            queries.extend(&run.named);
        }
        let mut seen = BTreeSet::new();
        queries.retain(|id| seen.insert(*id));
        Some(PrimaryReport {
            object: ObjectKey {
                cluster: controller.cluster,
                kind: controller.kind.clone(),
                name: key.name.clone(),
            },
            uid: primary.uid.clone(),
            state: match primary.job {
                Job::Idle => PrimaryState::Idle,
                Job::Queued(..) => PrimaryState::Queued,
                Job::Running(_) => PrimaryState::Running,
                Job::Waiting => PrimaryState::Waiting,
                Job::Slowed((until, _)) => PrimaryState::Slowed(until),
            },
            wakes: primary.wakes.clone(),
            failures: primary.failures,
            next,
            queries: queries.into_iter().filter_map(|id| self.query_report(id)).collect(),
            join_keys: primary.join_keys.clone(),
            protected: primary.protects.clone(),
            last_writes: primary.last_writes.clone(),
        })
    }

    fn query_report(&self, id: QueryId) -> Option<QueryReport> {
        let entry = self.registry.get(id)?;
        let (query, watches) = (entry.query.clone(), self.watches.of_query(id, entry));
        Some(QueryReport {
            finding: self.finding(id),
            watches: watches.into_iter().filter_map(|key| self.watch_report(key)).collect(),
            query,
        })
    }

    fn watch_report(&self, key: WatchKey) -> Option<WatchReport> {
        let state = match &self.watches.get(&key)?.state {
            WatchState::Unconnected => WatchStanding::Unconnected,
            WatchState::Starting(_) => WatchStanding::Starting,
            WatchState::Standing(_) => WatchStanding::Stands,
            WatchState::Failed(failure) => WatchStanding::Failed(failure.clone()),
        };
        Some(WatchReport { key, state })
    }

    /// What is kept of a primary's last run.
    pub fn last_writes(&self, key: &PrimaryKey) -> Option<&WriteRecord> {
        self.primaries.get(key)?.last_writes.as_ref()
    }

    /// The controllers for which an object is a primary.
    pub fn primaries_of(&self, object: &ObjectKey) -> Vec<PrimaryKey> {
        let mut keys: Vec<_> = self
            .controllers
            .iter()
            .filter(|(_, controller)| controller.cluster == object.cluster && controller.kind == object.kind)
            .map(|(id, _)| PrimaryKey {
                controller: *id,
                name: object.name.clone(),
            })
            .filter(|key| self.primaries.get(key).is_some())
            .collect();
        keys.sort();
        keys
    }

    /// The queries that name an object, whether or not it is there, or find it now; and who asks them.
    pub fn users_of(&self, object: &ObjectKey) -> Vec<(Arc<Query>, Vec<QueryUser>)> {
        let ids: BTreeSet<QueryId> = match self.cache.get(object).and_then(Entry::present) {
            Some(present) => self.registry.matching(object, &present.metadata).into_iter().collect(),
            None => self.registry.by_name(object).collect(),
        };
        let mut users: Vec<(Arc<Query>, Vec<QueryUser>)> = Vec::new();
        for entry in ids.into_iter().filter_map(|id| self.registry.get(id)) {
            users.push((entry.query.clone(), asking(entry)));
            // Queries that look in the namespaces which this one finds depend on the namespaces, too.
            let within = entry.users.iter().filter_map(|user| match user {
                User::Namespaces(id) => self.registry.get(*id),
                _ => None,
            });
            users.extend(within.map(|entry| (entry.query.clone(), asking(entry))));
        }
        users.retain(|(_, users)| !users.is_empty());
        users
    }

    /// The kinds that are watched, and where.
    pub fn places(&self) -> Vec<(ClusterId, Kind)> {
        let places: BTreeSet<_> = self.watches.places().cloned().collect();
        places.into_iter().collect()
    }

    /// The objects of a kind that have this name, whatever their namespace: those that queries name, there or not, and
    /// those that they find. It looks through all of them.
    pub fn named(&self, cluster: ClusterId, kind: &Kind, name: &str) -> Vec<ObjectName> {
        let everything = Criterion::Labels(Selector::everything());
        let found = self.cache.selected(cluster, kind, &everything).map(|(name, _)| name);
        let asked = self.registry.queries().filter_map(|query| match &query.target {
            Target::Named(name) if query.cluster == cluster && query.kind == *kind => Some(name),
            _ => None,
        });
        let names: BTreeSet<_> = found.chain(asked).filter(|found| *found.name == *name).collect();
        names.into_iter().cloned().collect()
    }

    /// The query that is registered and equal to this one, to be kept without a copy of it.
    pub fn registered(&self, query: &Query) -> Option<Arc<Query>> {
        self.registry.registered(query)
    }
}

fn asking(entry: &Registered) -> Vec<QueryUser> {
    let mut users: Vec<_> = entry
        .users
        .iter()
        .filter_map(|user| {
            Some(match user {
                User::Primary(key) => QueryUser::Primary((**key).clone()),
                User::Controller(id) => QueryUser::Controller(*id),
                User::Declared(id, _) => QueryUser::Dependents(*id),
                User::Cluster(id) => QueryUser::Kubeconfig(*id),
                User::Watch(key) => QueryUser::Definition(key.cluster, key.kind.clone()),
                User::Namespaces(_) => return None,
            })
        })
        .collect();
    users.sort();
    users
}
