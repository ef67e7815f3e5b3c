//! Primaries: woken, run, answered, done.

use std::collections::BTreeSet;
use std::time::Duration;

use super::{Core, Effect, References, RunResult, Timer};
use crate::cache::{Entry, Object};
use crate::name::{ControllerId, ObjectKey, PrimaryKey};
use crate::primaries::{Due, Job, Primary, RunId, WriteRecord, WrittenObject};
use crate::query::QueryId;
use crate::query::{Fields, FoundObject, Query};
use crate::queue::Priority;
use crate::registry::User;
use crate::time::Time;
use crate::wake::Wake;

/// A plugin that asks to run again and again gets no more than this.
const SOONEST: Duration = Duration::from_millis(100);

/// A run that has been given up so often in a row to wait for answers names other queries each time.
const PARKED_IN_A_ROW: u32 = 32;

impl Core {
    /// Queues a primary, or makes it run once more if it is running.
    pub(super) fn wake(&mut self, key: &PrimaryKey, wake: Wake) {
        if let Some(primary) = self.primaries.get_mut(key) {
            primary.note(wake);
            self.enqueue(key, Priority::Normal);
        }
    }

    fn enqueue(&mut self, key: &PrimaryKey, priority: Priority) {
        let Some(primary) = self.primaries.get_mut(key) else {
            return;
        };
        match primary.job {
            Job::Idle => {
                primary.job = Job::Queued(priority);
                self.queue.push(key.clone(), priority);
            }
            Job::Queued(Priority::Low) if priority == Priority::Normal => {
                primary.job = Job::Queued(Priority::Normal);
                self.queue.raise(key);
            }
            // It runs with the newest answers anyway, or once more when this run ends.
            Job::Queued(_) | Job::Running(_) | Job::Waiting => {}
        }
    }

    /// An object that a controller's query finds appeared, changed or went.
    pub(super) fn primary_changed(
        &mut self,
        key: PrimaryKey,
        after: Option<&Object>,
        wake: Wake,
        own_write: bool,
        now: Time,
    ) {
        let Some(after) = after else {
            return self.forget_primary(&key, now);
        };
        let known = self.primaries.get(&key).map(|primary| primary.uid.clone());
        if known.as_ref() != Some(&after.metadata.uid) {
            self.forget_primary(&key, now);
            let primary = Primary {
                uid: after.metadata.uid.clone(),
                ..Primary::default()
            };
            self.primaries.insert(key.clone(), primary);
        } else if own_write {
            return;
        }
        if let Some(primary) = self.primaries.get_mut(&key)
            && matches!(primary.job, Job::Waiting)
        {
            // It may no longer depend on what it waits for.
            primary.job = Job::Idle;
            primary.parked = 0;
        }
        self.wake(&key, wake);
    }

    /// The last run's write of an object has been seen. Once all have been, the primary may have asked to run again.
    pub(super) fn write_seen(&mut self, key: &PrimaryKey) {
        let all_seen = !self.expected.any_of(key);
        if let Some(primary) = self.primaries.get_mut(key)
            && primary.again
            && all_seen
        {
            primary.again = false;
            self.wake(key, Wake::Written);
        }
    }

    /// Objects that are cached already become primaries of a controller that has just been attached.
    pub(super) fn primaries_found_already(&mut self, id: ControllerId, now: Time) {
        let Some(controller) = self.controllers.get(&id) else {
            return;
        };
        let Some(query) = self.registry.get(controller.primaries).map(|entry| entry.query.clone()) else {
            return;
        };
        let namespaces = crate::Namespaces::All;
        let found: Vec<_> = self
            .cache
            .present(query.cluster, &query.kind, &namespaces)
            .map(|(name, object)| (name.clone(), object.clone()))
            .filter(|(name, object)| query.matches(&query.object(name), &object.metadata))
            .collect();
        for (name, object) in found {
            let wake = Wake::Object {
                object: query.object(&name),
                version: Some(object.metadata.version),
            };
            self.primary_changed(PrimaryKey { controller: id, name }, Some(&object), wake, false, now);
        }
    }

    pub(super) fn forget_primary(&mut self, key: &PrimaryKey, now: Time) {
        let Some(primary) = self.primaries.remove(key) else {
            return;
        };
        if let Some(due) = primary.due {
            self.timers.remove(&due.timer);
        }
        self.expected.forget(key);
        let mut queries: BTreeSet<QueryId> = primary.queries.into_iter().collect();
        match primary.job {
            Job::Queued(_) => self.queue.remove(key),
            Job::Running(run) => queries.extend(run.named),
            Job::Idle | Job::Waiting => {}
        }
        for query in queries {
            self.unregister(query, &User::Primary(key.clone()), now);
        }
    }

    pub(super) fn next_run(&mut self) -> Option<Effect> {
        while self.primaries.running() < self.settings.runs {
            let key = self.queue.pop()?;
            if let Some(effect) = self.begin_run(key) {
                return Some(effect);
            }
        }
        None
    }

    fn begin_run(&mut self, key: PrimaryKey) -> Option<Effect> {
        let Some((object, deleting)) = self.primary_object(&key) else {
            if let Some(primary) = self.primaries.get_mut(&key) {
                primary.job = Job::Idle;
            }
            return None;
        };
        // A newer run sees what the last one wrote, or is woken by it.
        self.expected.forget(&key);
        let run = self.primaries.begin_run(&key)?;
        let primary = self.primaries.get_mut(&key)?;
        primary.again = false;
        if let Some(due) = primary.due.take() {
            self.timers.remove(&due.timer);
        }
        Some(Effect::Run {
            run,
            primary: object,
            deleting,
            wakes: std::mem::take(&mut primary.wakes),
            last_writes: primary.last_writes.clone(),
            key,
        })
    }

    fn primary_object(&self, key: &PrimaryKey) -> Option<(FoundObject, bool)> {
        let object = self.cache.get(&self.primary_key(key)?).and_then(Entry::present)?;
        let found = FoundObject {
            cluster: self.controllers.get(&key.controller)?.cluster,
            version: object.metadata.version,
            text: object.text(&Fields::Whole)?.clone(),
        };
        Some((found, object.metadata.deleting))
    }

    fn primary_key(&self, key: &PrimaryKey) -> Option<ObjectKey> {
        let controller = self.controllers.get(&key.controller)?;
        Some(ObjectKey {
            cluster: controller.cluster,
            kind: controller.kind.clone(),
            name: key.name.clone(),
        })
    }

    /// Tells the whole set of queries that a run names, once a round. They are registered before they are answered, so
    /// no change between the two can be missed.
    pub fn references(&mut self, run: RunId, queries: Vec<Query>, now: Time) -> References {
        let Some(key) = self.primaries.run_mut(run).map(|(key, _)| key.clone()) else {
            self.primaries.end_run(run);
            return References::Gone;
        };
        let ids: Vec<QueryId> = queries
            .into_iter()
            .map(|query| self.register(query, User::Primary(key.clone()), now))
            .collect();
        if let Some((_, run)) = self.primaries.run_mut(run) {
            run.named.extend(&ids);
            run.latest.clone_from(&ids);
        }
        if let Some(findings) = ids.iter().map(|id| self.finding(*id)).collect() {
            return References::Answered(findings);
        }
        let Some(primary) = self.primaries.get_mut(&key) else {
            return References::Gone;
        };
        if primary.parked >= PARKED_IN_A_ROW {
            return References::Unsettled;
        }
        primary.parked += 1;
        if let Job::Running(run) = std::mem::replace(&mut primary.job, Job::Waiting) {
            unite(&mut primary.queries, run.named);
        }
        self.primaries.end_run(run);
        References::Parked
    }

    pub(super) fn is_waiting(&self, key: &PrimaryKey) -> bool {
        self.primaries
            .get(key)
            .is_some_and(|primary| matches!(primary.job, Job::Waiting))
    }

    /// Queues a primary that waits for answers, if it has them all.
    pub(super) fn stop_waiting(&mut self, key: &PrimaryKey) {
        let Some(primary) = self.primaries.get(key) else { return };
        if primary.queries.iter().any(|id| self.registry.is_pending(*id)) {
            return;
        }
        if let Some(primary) = self.primaries.get_mut(key) {
            primary.job = Job::Idle;
            self.wake(key, Wake::Answered);
        }
    }

    /// Tells how a run ended: what became of its writes, and the objects as they were after them.
    pub fn finish(
        &mut self,
        run: RunId,
        result: &RunResult,
        last_writes: Option<WriteRecord>,
        written: &[WrittenObject],
        now: Time,
    ) {
        let Some(key) = self.primaries.end_run(run) else { return };
        let Some(primary) = self.primaries.get_mut(&key) else {
            return;
        };
        // The primary may have been deleted and created anew while this run was under way.
        let Job::Running(ended) = &mut primary.job else { return };
        if ended.id != run {
            return;
        }
        let (named, latest) = (std::mem::take(&mut ended.named), std::mem::take(&mut ended.latest));
        let written = if ended.history_lost { &[] } else { written };
        primary.job = Job::Idle;
        primary.last_writes = last_writes;
        primary
            .wakes
            .retain(|wake| !written.iter().any(|written| written.own && wake.is_of(written)));

        let mut dropped = BTreeSet::new();
        if matches!(result, RunResult::Done { .. }) {
            dropped.extend(std::mem::replace(&mut primary.queries, latest));
            dropped.extend(named);
            dropped.retain(|id| !primary.queries.contains(id));
            primary.failures = 0;
            primary.parked = 0;
        } else {
            // The repair of anything that this run or the last good one depended on must wake it.
            unite(&mut primary.queries, named);
            primary.failures += 1;
        }
        let failures = primary.failures;
        for query in dropped {
            self.unregister(query, &User::Primary(key.clone()), now);
        }
        self.expect_events(&key, written);
        self.plan_next(&key, result, failures, now);
    }

    /// Remembers a run's writes until their events come. Of objects that nobody asks for, none will.
    fn expect_events(&mut self, key: &PrimaryKey, written: &[WrittenObject]) {
        for WrittenObject { object, metadata, own } in written {
            let seen = self
                .cache
                .get(object)
                .is_some_and(|entry| entry.version() >= metadata.version);
            if !seen && self.registry.matching(object, metadata).next().is_some() {
                self.expected
                    .insert(object.clone(), metadata.version, key.clone(), *own);
            }
        }
    }

    fn plan_next(&mut self, key: &PrimaryKey, result: &RunResult, failures: u32, now: Time) {
        let full_pass = self.jitter(self.settings.full_pass);
        let (delay, wake, priority) = match result {
            RunResult::Done { again: true, .. } if self.expected.any_of(key) => {
                if let Some(primary) = self.primaries.get_mut(key) {
                    primary.again = true;
                }
                // Should an event never come, the run comes all the same.
                (self.settings.retry_most, Wake::Written, Priority::Normal)
            }
            RunResult::Done { again: true, .. } => (Duration::ZERO, Wake::Written, Priority::Normal),
            RunResult::Done {
                again_after: Some(delay),
                ..
            } => ((*delay).clamp(SOONEST, full_pass), Wake::Asked, Priority::Normal),
            // The first time, at once: so that the plugin can tell of it in the status.
            RunResult::WriteFailed if failures == 1 => (Duration::ZERO, Wake::Written, Priority::Normal),
            RunResult::Done { again_after: None, .. } | RunResult::Failed { permanent: true } => {
                (full_pass, Wake::Backstop, Priority::Low)
            }
            RunResult::WriteFailed | RunResult::Failed { permanent: false } => {
                (self.retry_delay(failures), Wake::Retry, Priority::Normal)
            }
        };
        if delay.is_zero() {
            return self.wake(key, wake);
        }
        let timer = self.set_timer(now + delay, Timer::Primary(key.clone()));
        if let Some(primary) = self.primaries.get_mut(key) {
            primary.due = Some(Due { timer, wake, priority });
        }
        self.run_noted(key);
    }

    /// Queues a primary that was woken while it ran.
    fn run_noted(&mut self, key: &PrimaryKey) {
        if self.primaries.get(key).is_some_and(|primary| !primary.wakes.is_empty()) {
            self.enqueue(key, Priority::Normal);
        }
    }

    pub(super) fn primary_due(&mut self, key: &PrimaryKey) {
        if let Some(primary) = self.primaries.get_mut(key)
            && let Some(due) = primary.due.take()
        {
            primary.note(due.wake);
            self.enqueue(key, due.priority);
        }
    }
}

fn unite(queries: &mut Vec<QueryId>, more: Vec<QueryId>) {
    queries.extend(more);
    queries.sort();
    queries.dedup();
}
