//! Primaries: woken, run, answered, done.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::sets::unite;
use super::{Core, Effect, Finished, RunResult, Slowed, Timer};
use crate::cache::Object;
use crate::circles::Way;
use crate::expected::Expected;
use crate::name::{ClusterId, ControllerId, ObjectKey, PrimaryKey};
use crate::primaries::{Due, Job, Primary, Run, RunId, WrittenObject};
use crate::query::{Fields, FoundObject, QueryId, Target};
use crate::queue::Priority;
use crate::time::Time;
use crate::users::User;
use crate::wake::Wake;

/// A plugin that asks to run again and again gets no more than this.
const SOONEST: Duration = Duration::from_millis(100);

impl Core {
    /// Queues a primary, or makes it run once more if it is running. `way` is how the wake came, if a run's write caused it:
    /// one that came in circles waits.
    pub(super) fn wake(&mut self, key: &PrimaryKey, wake: Wake, way: Option<Arc<Way>>, now: Time) {
        let most = self.settings.retry_most;
        let Some(primary) = self.primaries.get_mut(key) else {
            return;
        };
        let circle = way.as_ref().and_then(|way| way.delay(key, most));
        let reverted = match (&primary.reverted, wake.object()) {
            (Some(reverted), Some(object)) => reverted.delay(object, now, most),
            _ => None,
        };
        let delay = circle.max(reverted);
        if primary.wakes.is_empty() || delay.is_none() {
            primary.delay = delay;
        } else if primary.delay.is_some() {
            primary.delay = primary.delay.max(delay);
        }
        primary.note(wake);
        match way {
            Some(way) if !primary.new_way => primary.way = Way::longer(primary.way.take(), Some(way)),
            Some(_) => {}
            None => (primary.way, primary.new_way) = (None, true),
        }
        self.schedule(key, Priority::Normal, now);
    }

    /// Runs a primary when nothing else is to be done.
    pub(super) fn run_sometime(&mut self, key: &PrimaryKey, wake: Wake, now: Time) {
        if let Some(primary) = self.primaries.get_mut(key) {
            primary.delay = None;
            primary.note(wake);
            self.schedule(key, Priority::Low, now);
        }
    }

    /// Gives a primary that has been woken its place in the queue, or the time until it may have one.
    fn schedule(&mut self, key: &PrimaryKey, priority: Priority, now: Time) {
        let Some(shared) = self.primaries.shared(key) else {
            return;
        };
        let Some(primary) = self.primaries.get_mut(key) else {
            return;
        };
        let delay = primary.delay;
        match (&primary.job, delay) {
            (Job::Idle, Some(delay)) => {
                let timer = self.set_timer(now + delay, Timer::Slowed(shared));
                if let Some(primary) = self.primaries.get_mut(key) {
                    primary.job = Job::Slowed(timer);
                }
            }
            (Job::Slowed(timer), None) => {
                self.timers.remove(timer);
                primary.job = Job::Queued(priority, self.queue.push(shared, priority));
            }
            (Job::Idle, None) => primary.job = Job::Queued(priority, self.queue.push(shared, priority)),
            (Job::Queued(Priority::Low, _), None) if priority == Priority::Normal => {
                primary.job = Job::Queued(priority, self.queue.push(shared, priority));
            }
            // It runs with the newest answers anyway, or once more when this run ends.
            (Job::Queued(..) | Job::Running(_) | Job::Waiting | Job::Slowed(_), _) => {}
        }
    }

    pub(super) fn slowed_due(&mut self, key: &Arc<PrimaryKey>) {
        if let Some(primary) = self.primaries.get_mut(key)
            && matches!(primary.job, Job::Slowed(_))
        {
            let priority = Priority::Normal;
            primary.job = Job::Queued(priority, self.queue.push(key.clone(), priority));
        }
    }

    /// An object that a controller's query finds appeared, changed or went.
    pub(super) fn primary_changed(
        &mut self,
        key: PrimaryKey,
        after: Option<&Object>,
        wake: Wake,
        way: Option<Arc<Way>>,
        own_write: bool,
        now: Time,
    ) {
        let Some(after) = after else {
            return self.forget_primary(&key, now);
        };
        let known = self.primaries.get(&key).map(|primary| primary.uid.clone());
        if known.as_ref() != Some(&after.metadata.uid) {
            self.forget_primary(&key, now);
            self.add_primary(&key, after.metadata.uid.clone());
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
        self.wake(&key, wake, way, now);
    }

    fn add_primary(&mut self, key: &PrimaryKey, uid: Arc<str>) {
        let Some(controller) = self.controllers.get_mut(&key.controller) else {
            return;
        };
        // What appears later cannot have protected anything before.
        let new = controller.complete;
        controller.unasked += usize::from(!new);
        controller.unsighted += usize::from(!new);
        let primary = Primary {
            uid,
            asked: new,
            sighted: new,
            decided: new,
            ..Primary::default()
        };
        self.primaries.insert(key.clone(), primary);
    }

    /// The last run's write of an object has been seen. Once all have been, the primary may have asked to run again.
    pub(super) fn write_seen(&mut self, key: &PrimaryKey, now: Time) {
        let all_seen = !self.expected.any_of(key);
        if let Some(primary) = self.primaries.get_mut(key)
            && all_seen
            && let Some(way) = primary.again.take()
        {
            self.wake(key, Wake::Written, Some(way), now);
        }
    }

    /// Objects that are cached already become primaries of a controller that has just been attached.
    pub(super) fn primaries_found_already(&mut self, id: ControllerId, now: Time) {
        let Some(query) = self
            .controllers
            .get(&id)
            .and_then(|controller| self.registry.query(controller.primaries))
        else {
            return;
        };
        let Target::Selected(selection) = &query.target else {
            return;
        };
        let found: Vec<_> = self
            .cache
            .selected(query.cluster, &query.kind, &selection.criterion)
            .filter(|(_, object)| object.text(&query.fields).is_some())
            .map(|(name, object)| (name.clone(), object.clone()))
            .collect();
        for (name, object) in found {
            let wake = Wake::Object {
                object: query.object(&name),
                version: Some(object.metadata.version),
                query: query.clone(),
                before: None,
                after: object.text(&query.fields).cloned(),
            };
            let key = PrimaryKey { controller: id, name };
            self.primary_changed(key, Some(&object), wake, None, false, now);
        }
    }

    pub(super) fn forget_primary(&mut self, key: &PrimaryKey, now: Time) {
        let Some(shared) = self.primaries.shared(key) else {
            return;
        };
        let Some(primary) = self.primaries.remove(key) else {
            return;
        };
        if let Some(due) = primary.due {
            self.timers.remove(&due.timer);
        }
        self.expected.forget(key);
        let mut queries: BTreeSet<QueryId> = primary.queries.into_iter().collect();
        let (mut joins, mut protects) = (primary.join_keys, primary.protects);
        match primary.job {
            Job::Running(run) => {
                self.stop_writing(&run);
                self.run_released(key, &run.releases, false, now);
                queries.extend(run.named);
                joins.extend(run.join_keys);
                protects.extend(run.protects);
            }
            Job::Slowed(timer) => {
                self.timers.remove(&timer);
            }
            Job::Idle | Job::Queued(..) | Job::Waiting => {}
        }
        self.forget_joins(&shared, &joins);
        self.forget_leaving(&shared);
        self.unprotect(key, &protects);
        for query in queries {
            self.unregister(query, &User::Primary(shared.clone()), now);
        }
        if !primary.asked {
            self.one_asked(key.controller, now);
        }
        if !primary.sighted {
            self.one_sighted(key.controller, now);
        }
        if !primary.decided {
            self.has_decided(key, now);
        }
    }

    pub(super) fn begin_run(&mut self, key: &Arc<PrimaryKey>, clusters: Vec<ClusterId>) -> Option<Effect> {
        let Some((object, deleting)) = self.primary_object(key) else {
            if let Some(primary) = self.primaries.get_mut(key) {
                primary.job = Job::Idle;
            }
            return None;
        };
        // A newer run sees what the last one wrote, or is woken by it.
        self.expected.forget(key);
        let primary = self.primaries.get_mut(key)?;
        let way = primary.way.clone();
        let slowed = primary.delay.take().map(|delay| Slowed {
            delay,
            circle: way.map(|way| way.circle(key)).unwrap_or_default(),
        });
        let run = self.primaries.begin_run(key, clusters)?;
        let primary = self.primaries.get_mut(key)?;
        (primary.again, primary.new_way) = (None, false);
        if let Some(due) = primary.due.take() {
            self.timers.remove(&due.timer);
        }
        let effect = Effect::Run {
            run,
            primary: object,
            deleting,
            wakes: std::mem::take(&mut primary.wakes),
            last_writes: primary.last_writes.clone(),
            slowed,
            key: (**key).clone(),
        };
        // Its status, and its finalizer.
        let own = self.primary_object_key(key);
        self.about_to_write(run, own);
        Some(effect)
    }

    /// Tells which objects a run is about to write. Changes of them meanwhile may be its own.
    pub fn about_to_write(&mut self, id: RunId, objects: impl IntoIterator<Item = ObjectKey>) {
        if let Some((_, run)) = self.primaries.run_mut(id) {
            for object in objects {
                self.writing.entry(object.clone()).or_default().push(id);
                run.writing.push(object);
            }
        }
    }

    fn stop_writing(&mut self, run: &Run) {
        for object in &run.writing {
            if let Some(runs) = self.writing.get_mut(object) {
                runs.retain(|other| *other != run.id);
                if runs.is_empty() {
                    self.writing.remove(object);
                }
            }
        }
    }

    fn primary_object(&self, key: &PrimaryKey) -> Option<(FoundObject, bool)> {
        let object = self.cache.present(&self.primary_object_key(key)?)?;
        let found = FoundObject {
            cluster: self.controllers.get(&key.controller)?.cluster,
            version: object.metadata.version,
            text: object.text(&Fields::Whole)?.clone(),
        };
        Some((found, object.metadata.deleting))
    }

    /// The primary as an object of its cluster.
    pub(super) fn primary_object_key(&self, key: &PrimaryKey) -> Option<ObjectKey> {
        let controller = self.controllers.get(&key.controller)?;
        Some(ObjectKey {
            cluster: controller.cluster,
            kind: controller.kind.clone(),
            name: key.name.clone(),
        })
    }

    /// Ends a run whose primary runs again once something is known.
    pub(super) fn park(&mut self, id: RunId) {
        let Some(key) = self.end_run(id) else { return };
        let Some(primary) = self.primaries.get_mut(&key) else {
            return;
        };
        match std::mem::replace(&mut primary.job, Job::Waiting) {
            Job::Running(run) if run.id == id => {
                unite(&mut primary.queries, run.named.clone());
                unite(&mut primary.join_keys, run.join_keys.clone());
                unite(&mut primary.protects, run.protects.clone());
                // It goes on by the way that it came.
                primary.way.clone_from(&run.came);
                self.stop_writing(&run);
            }
            other => primary.job = other,
        }
    }

    pub(super) fn is_waiting(&self, key: &PrimaryKey) -> bool {
        self.primaries
            .get(key)
            .is_some_and(|primary| matches!(primary.job, Job::Waiting))
    }

    /// Queues a primary that waits for answers, if it has them all.
    pub(super) fn stop_waiting(&mut self, key: &PrimaryKey, now: Time) {
        let Some(primary) = self.primaries.get(key) else { return };
        if primary.queries.iter().any(|id| self.registry.is_pending(*id)) {
            return;
        }
        if let Some(primary) = self.primaries.get_mut(key) {
            primary.job = Job::Idle;
            let way = primary.way.take();
            self.wake(key, Wake::Answered, way, now);
        }
    }

    /// Tells how a run ended: what became of its writes, and the objects as they were after them.
    pub fn finish(&mut self, run: RunId, finished: Finished, now: Time) {
        let Some(key) = self.end_run(run) else { return };
        let Some(primary) = self.primaries.get_mut(&key) else {
            return;
        };
        // The primary may have been deleted and created anew while this run was under way.
        let mut ended = match std::mem::take(&mut primary.job) {
            Job::Running(ended) if ended.id == run => ended,
            other => {
                primary.job = other;
                return;
            }
        };
        let Finished {
            result,
            last_writes,
            mut written,
            reverted,
        } = finished;
        if ended.history_lost {
            written.clear();
        }
        for written in &written {
            let WrittenObject { object, metadata, .. } = written;
            self.watches.saw(object.cluster, &object.kind, metadata.version);
        }
        primary.last_writes = last_writes;
        primary.wakes.retain(|wake| !wake.is_of(&written));
        if !reverted.is_empty() {
            primary.reverted.get_or_insert_default().again(reverted, now);
        }
        self.stop_writing(&ended);
        if matches!(result, RunResult::Failed { .. }) {
            self.protects_as_before(&key, &mut ended);
        }
        self.replace_sets(&key, &ended, &result, now);
        self.expect_events(&key, &written, &ended.way);
        let done = matches!(result, RunResult::Done { .. });
        self.run_released(&key, &ended.releases, done, now);
        let Some(primary) = self.primaries.get_mut(&key) else {
            return;
        };
        let before = (primary.decided, primary.stuck);
        let permanent = matches!(result, RunResult::Failed { permanent: true });
        let failed = matches!(result, RunResult::Failed { .. });
        primary.stuck = ended.blind || failed;
        // What it protected before, if anything, is among what it asks for.
        primary.decided |= !failed || permanent && ended.named.is_empty();
        primary.parked = 0;
        let decided = before != (primary.decided, primary.stuck);
        // One that fails before it has said all that it depends on may never say it, and nobody must wait for that.
        self.has_asked(&key, now);
        if (permanent || !failed) && !ended.blind {
            self.is_sighted(&key, now);
        }
        if decided {
            self.has_decided(&key, now);
        }
        self.plan_next(&key, &result, &ended.way, now);
    }

    /// Remembers a run's writes until their events come. Of objects that nobody asks for, none will.
    fn expect_events(&mut self, key: &Arc<PrimaryKey>, written: &[WrittenObject], way: &Arc<Way>) {
        self.changes_were_of(key, written);
        for WrittenObject { object, metadata, own } in written {
            let seen = self
                .cache
                .get(object)
                .is_some_and(|entry| entry.version() >= metadata.version);
            if !seen && !self.registry.matching(object, metadata).is_empty() {
                let expected = Expected {
                    version: metadata.version,
                    writer: key.clone(),
                    own: *own,
                    way: way.clone(),
                };
                self.expected.insert(object.clone(), expected);
            }
        }
    }

    fn plan_next(&mut self, key: &Arc<PrimaryKey>, result: &RunResult, way: &Arc<Way>, now: Time) {
        let full_pass = self.jitter(self.settings.full_pass);
        let Some(primary) = self.primaries.get_mut(key) else {
            return;
        };
        let failures = primary.failures;
        let (delay, wake, priority) = match result {
            RunResult::Done { again: true, .. } if self.expected.any_of(key) => {
                primary.again = Some(way.clone());
                // Should an event never come, the run comes all the same.
                (self.settings.retry_most, Wake::Written, Priority::Normal)
            }
            RunResult::Done { again: true, .. } => {
                return self.wake(key, Wake::Written, Some(way.clone()), now);
            }
            RunResult::Done {
                again_after: Some(delay),
                ..
            } => ((*delay).clamp(SOONEST, full_pass), Wake::Asked, Priority::Normal),
            // The first time, at once: so that the plugin can tell of it in the status.
            RunResult::WriteFailed if failures == 1 => return self.wake(key, Wake::Written, None, now),
            RunResult::Done { again_after: None, .. } | RunResult::Failed { permanent: true } => {
                (full_pass, Wake::Backstop, Priority::Low)
            }
            RunResult::WriteFailed | RunResult::Failed { permanent: false } => {
                (self.retry_delay(failures), Wake::Retry, Priority::Normal)
            }
        };
        let timer = self.set_timer(now + delay, Timer::Primary(key.clone()));
        if let Some(primary) = self.primaries.get_mut(key) {
            primary.due = Some(Due { timer, wake, priority });
            // It was woken while it ran.
            if primary.wakes.is_empty() {
                (primary.delay, primary.way, primary.new_way) = (None, None, false);
            } else {
                self.schedule(key, Priority::Normal, now);
            }
        }
    }

    pub(super) fn primary_due(&mut self, key: &PrimaryKey, now: Time) {
        if let Some(primary) = self.primaries.get_mut(key)
            && let Some(due) = primary.due.take()
        {
            match due.priority {
                Priority::Low => self.run_sometime(key, due.wake, now),
                Priority::Normal => self.wake(key, due.wake, None, now),
            }
        }
    }
}
