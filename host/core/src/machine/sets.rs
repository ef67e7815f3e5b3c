//! What primaries depend on: named by runs, replaced as a whole by those that succeed.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{Core, ReferenceSet, References, RunResult};
use crate::name::PrimaryKey;
use crate::planted::Planted;
use crate::primaries::{Run, RunId};
use crate::query::{Finding, QueryId};
use crate::time::Time;
use crate::users::User;

/// A run that has been given up so often in a row to wait for answers names other queries each time.
const PARKED_IN_A_ROW: u32 = 32;

impl Core {
    /// Tells the whole set of queries that a run names, once a round. They are registered before they are answered, so
    /// no change between the two can be missed.
    pub fn references(&mut self, run: RunId, set: ReferenceSet, now: Time) -> References {
        let Some(key) = self.primaries.run_mut(run).map(|(key, _)| key.clone()) else {
            self.end_run(run);
            return References::Gone;
        };
        let ids: Vec<QueryId> = set
            .queries
            .into_iter()
            .map(|query| self.register(query, User::Primary(key.clone()), now))
            .collect();
        self.add_joins(&key, &set.join_keys);
        if let Some((_, run)) = self.primaries.run_mut(run) {
            run.named.extend(&ids);
            run.latest.clone_from(&ids);
            run.join_keys.extend(set.join_keys.iter().cloned());
            run.latest_joins = set.join_keys;
        }
        if set.complete {
            self.has_asked(&key, now);
        }
        if let Some(findings) = ids.iter().map(|id| self.finding(*id)).collect::<Option<Vec<_>>>() {
            if !self.reach(run, &ids) {
                return self.put_off(run, &key, now);
            }
            let blind = findings.iter().any(|finding| matches!(finding, Finding::Failed(_)));
            if let Some((_, run)) = self.primaries.run_mut(run) {
                run.blind = blind;
            }
            // With an answer that it lacks, it might ask for more.
            if set.complete && !blind {
                self.is_sighted(&key, now);
            }
            return References::Answered(findings);
        }
        let Some(primary) = self.primaries.get_mut(&key) else {
            return References::Gone;
        };
        if primary.parked >= PARKED_IN_A_ROW {
            return References::Unsettled;
        }
        primary.parked += 1;
        self.park(run);
        References::Parked
    }

    /// What a successful run named is what its primary depends on. After one that failed, the repair of anything that it or
    /// the last good one depended on must wake it.
    pub(super) fn replace_sets(&mut self, key: &Arc<PrimaryKey>, ended: &Run, result: &RunResult, now: Time) {
        let forgetful = self.planted(Planted::SetKeptAfterFailure);
        let Some(primary) = self.primaries.get_mut(key) else {
            return;
        };
        if !matches!(result, RunResult::Done { .. }) {
            if forgetful {
                let mut dropped: BTreeSet<QueryId> = ended.named.iter().copied().collect();
                dropped.retain(|id| primary.queries.binary_search(id).is_err());
                primary.failures += 1;
                for query in dropped {
                    self.unregister(query, &User::Primary(key.clone()), now);
                }
                return;
            }
            unite(&mut primary.queries, ended.named.clone());
            unite(&mut primary.join_keys, ended.join_keys.clone());
            unite(&mut primary.protects, ended.protects.clone());
            primary.failures += 1;
            return;
        }
        let mut latest = ended.latest.clone();
        latest.sort_unstable();
        latest.dedup();
        let mut dropped: BTreeSet<QueryId> = std::mem::replace(&mut primary.queries, latest).into_iter().collect();
        dropped.extend(&ended.named);
        dropped.retain(|id| primary.queries.binary_search(id).is_err());
        unite(&mut primary.join_keys, ended.join_keys.clone());
        let unused = replace(&mut primary.join_keys, &ended.latest_joins);
        let released = if ended.blind {
            unite(&mut primary.protects, ended.protects.clone());
            Vec::new()
        } else {
            replace(&mut primary.protects, &ended.protects)
        };
        primary.failures = 0;
        self.forget_joins(key, &unused);
        self.unprotect(key, &released);
        for query in dropped {
            self.unregister(query, &User::Primary(key.clone()), now);
        }
    }

    fn add_joins(&mut self, key: &Arc<PrimaryKey>, joins: &[Arc<str>]) {
        if let Some(controller) = self.controllers.get_mut(&key.controller) {
            for join in joins {
                controller.joins.entry(join.clone()).or_default().insert(key.clone());
            }
        }
    }

    pub(super) fn forget_joins(&mut self, key: &Arc<PrimaryKey>, joins: &[Arc<str>]) {
        let Some(controller) = self.controllers.get_mut(&key.controller) else {
            return;
        };
        for join in joins {
            if let Some(primaries) = controller.joins.get_mut(join) {
                primaries.remove(key);
                if primaries.is_empty() {
                    controller.joins.remove(join);
                }
            }
        }
    }
}

pub(super) fn unite<T: Ord>(all: &mut Vec<T>, more: Vec<T>) {
    all.extend(more);
    all.sort_unstable();
    all.dedup();
}

/// Replaces a set, and gives what is no longer in it.
fn replace<T: Ord + Clone>(all: &mut Vec<T>, new: &[T]) -> Vec<T> {
    let mut sorted = new.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    let mut old = std::mem::replace(all, sorted);
    old.retain(|item| all.binary_search(item).is_err());
    old
}
