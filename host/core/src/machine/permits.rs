//! Which primaries may run now: permits for runs, shared by controllers and by the clusters that may hold them up.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{Core, Effect, References};
use crate::name::{ClusterId, ControllerId, PrimaryKey};
use crate::primaries::{Job, RunId};
use crate::query::QueryId;
use crate::time::Time;

impl Core {
    pub(super) fn next_run(&mut self) -> Option<Effect> {
        while self.primaries.running() < self.settings.runs {
            // A controller leaves some permits to others, however many primaries of its are ready.
            let most = (self.settings.runs * 3 / 4).max(1);
            let may_run = |id: ControllerId| {
                let listed = self
                    .controllers
                    .get(&id)
                    .is_none_or(|controller| controller.listed.iter().all(|listed| *listed));
                listed && self.primaries.running_in(id) < most
            };
            let Some((ticket, key)) = self.queue.pop(may_run) else {
                if self.unhold_all() {
                    continue;
                }
                return None;
            };
            let current = self
                .primaries
                .get(&key)
                .is_some_and(|primary| matches!(primary.job, Job::Queued(_, held) if held == ticket));
            if !current {
                continue;
            }
            // It went and came back, and the run that it had before is still writing.
            if self.primaries.is_under_way(&key) {
                self.behind.insert(key);
                continue;
            }
            let clusters = self.clusters_of(&key);
            if let Some(full) = clusters.iter().copied().find(|cluster| self.is_full(*cluster)) {
                self.held.entry(full).or_default().push_back((ticket, key));
                // The others may have had a permit for it.
                for cluster in clusters {
                    if !self.is_full(cluster) {
                        self.unhold(cluster);
                    }
                }
            } else if let Some(effect) = self.begin_run(&key, clusters) {
                return Some(effect);
            }
        }
        None
    }

    /// The clusters that a run of a primary may have to wait for, but for the host's, of which all runs are.
    fn clusters_of(&self, key: &PrimaryKey) -> Vec<ClusterId> {
        let queries = self.primaries.get(key).map(|primary| primary.queries.as_slice());
        let queried = queries
            .unwrap_or_default()
            .iter()
            .filter_map(|id| self.registry.get(*id))
            .map(|entry| entry.query.cluster);
        let home = self
            .controllers
            .get(&key.controller)
            .map(|controller| controller.cluster);
        let clusters: BTreeSet<ClusterId> = queried.chain(home).filter(|id| *id != ClusterId::HOST).collect();
        clusters.into_iter().collect()
    }

    /// Whether so many runs may wait for a cluster that further ones must not begin: it may hang, and the others do not.
    fn is_full(&self, cluster: ClusterId) -> bool {
        self.primaries.running_at(cluster) >= (self.settings.runs / 4).max(1)
    }

    /// Queues a primary again that was held up by a cluster.
    fn unhold(&mut self, cluster: ClusterId) {
        let Some(held) = self.held.get_mut(&cluster) else {
            return;
        };
        while let Some((ticket, key)) = held.pop_front() {
            if let Some(primary) = self.primaries.get_mut(&key)
                && let Job::Queued(priority, current) = primary.job
                && current == ticket
            {
                primary.job = Job::Queued(priority, self.queue.push(key, priority));
                break;
            }
        }
        if held.is_empty() {
            self.held.remove(&cluster);
        }
    }

    /// Queues one primary for each cluster that has permits left. What had them may have gone without a run.
    fn unhold_all(&mut self) -> bool {
        let free: Vec<ClusterId> = self.held.keys().copied().filter(|id| !self.is_full(*id)).collect();
        for cluster in &free {
            self.unhold(*cluster);
        }
        !free.is_empty()
    }

    /// Counts a run among those that may have to wait for the clusters of its queries. Not if one of these has enough.
    pub(super) fn reach(&mut self, run: RunId, queries: &[QueryId]) -> bool {
        let clusters = queries
            .iter()
            .filter_map(|id| self.registry.get(*id))
            .map(|entry| entry.query.cluster);
        let new: BTreeSet<ClusterId> = clusters
            .filter(|id| *id != ClusterId::HOST && !self.primaries.may_wait_for(run, *id))
            .collect();
        if new.iter().any(|cluster| self.is_full(*cluster)) {
            return false;
        }
        for cluster in new {
            self.primaries.reaches(run, cluster);
        }
        true
    }

    /// Ends a run that comes to a cluster which holds up enough of them. Its primary is queued, and held until there is a permit.
    pub(super) fn put_off(&mut self, run: RunId, key: &PrimaryKey, now: Time) -> References {
        self.park(run);
        self.stop_waiting(key, now);
        References::Parked
    }

    pub(super) fn end_run(&mut self, id: RunId) -> Option<Arc<PrimaryKey>> {
        let (key, clusters) = self.primaries.end_run(id)?;
        for cluster in clusters {
            self.unhold(cluster);
        }
        if self.behind.remove(&key)
            && let Some(primary) = self.primaries.get_mut(&key)
            && let Job::Queued(priority, _) = primary.job
        {
            primary.job = Job::Queued(priority, self.queue.push(key.clone(), priority));
        }
        Some(key)
    }
}
