//! Relations that only a plugin understands: it is told of each change of what it declared to watch, and says which
//! primaries that concerns.
//!
//! Changes of one object wait in one place, with the state that the plugin knows and the newest one. A state between the
//! two that no call has told anybody of concerns nobody any longer. A call that fails is made again, so that no change is
//! lost.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use indexmap::IndexMap;

use super::queries::found;
use super::{CallId, Core, Dependent, Effect, Timer};
use crate::cache::Object;
use crate::circles::Way;
use crate::name::{ClusterId, ControllerId, Kind, ObjectKey, PrimaryKey, Version};
use crate::primaries::WrittenObject;
use crate::query::{Criterion, FoundObject, Query};
use crate::tally::Tally;
use crate::time::Time;
use crate::wake::Wake;

/// Calls at a time of one controller: they are short, and share the plugin's threads with its runs.
const CALLS: usize = 4;

/// An object under one of a controller's declared watches.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Concern {
    controller: ControllerId,
    watch: u32,
    object: ObjectKey,
}

/// A change that the plugin is to be told of.
struct Pending {
    /// The last state that a call told of; none if there was none.
    before: Option<FoundObject>,
    after: Option<FoundObject>,
    /// Where what no call tells of yet comes from.
    cause: Option<Cause>,
    doing: Doing,
    failures: u32,
}

enum Doing {
    Waiting,
    /// A call tells of the change to this state, and where it comes from.
    Calling(CallId, Option<FoundObject>, Cause),
    /// The last call failed, and its timer is set.
    Failed,
}

/// Where changes that are told as one come from.
#[derive(Clone, Debug, Default)]
pub(super) struct Cause {
    /// Each change, by its version if it is that one alone, and the primary whose own write it is.
    changes: Vec<(Option<Version>, Option<Arc<PrimaryKey>>)>,
    /// The longest way by which they came; none if one of them is no run's write.
    way: Option<Arc<Way>>,
}

/// Changes that are told apart. Of more it only counts that somebody made them.
const CHANGES_KEPT: usize = 16;

impl Cause {
    pub(super) fn new(version: Option<Version>, writer: Option<Arc<PrimaryKey>>, way: Option<Arc<Way>>) -> Self {
        Cause {
            changes: vec![(version, writer)],
            way,
        }
    }

    /// Both of them, the other later.
    fn and(mut self, other: Cause) -> Cause {
        self.way = match (self.way, other.way) {
            (Some(one), Some(other)) => Way::longer(Some(one), Some(other)),
            _ => None,
        };
        self.changes.extend(other.changes);
        if self.changes.len() > CHANGES_KEPT {
            self.changes = vec![(None, None)];
        }
        self
    }

    /// A primary turns out to have made this version of the object.
    fn wrote(&mut self, writer: &Arc<PrimaryKey>, made: Version) {
        for (version, by) in &mut self.changes {
            if *version == Some(made) {
                *by = Some(writer.clone());
            }
        }
    }

    /// Whether a primary made all of them.
    fn is_all_of(&self, key: &PrimaryKey) -> bool {
        self.changes.iter().all(|(_, writer)| writer.as_deref() == Some(key))
    }

    /// The versions of the changes; none if they are not known one by one.
    fn versions(&self) -> Vec<Version> {
        let versions: Option<Vec<_>> = self.changes.iter().map(|(version, _)| *version).collect();
        versions.unwrap_or_default()
    }
}

/// Invariant: a concern is in `waiting` exactly once while it is pending and waits.
#[derive(Default)]
pub(super) struct Concerns {
    pending: HashMap<Concern, Pending>,
    waiting: IndexMap<ControllerId, VecDeque<Concern>>,
    calls: HashMap<CallId, Concern>,
    calling: Tally<ControllerId>,
    next: u64,
}

impl Concerns {
    /// Forgets what a controller's plugin was to be told. Calls under way end unheard.
    pub(super) fn forget_controller(&mut self, id: ControllerId) {
        self.pending.retain(|concern, _| concern.controller != id);
        self.calls.retain(|_, concern| concern.controller != id);
        self.waiting.swap_remove(&id);
        self.calling.forget(&id);
    }

    fn wait(&mut self, concern: Concern) {
        self.waiting.entry(concern.controller).or_default().push_back(concern);
    }

    /// The versions of a kind may come again and mean something else.
    pub(super) fn forget_versions(&mut self, cluster: ClusterId, kind: &Kind) {
        for (concern, pending) in &mut self.pending {
            if concern.object.cluster == cluster && concern.object.kind == *kind {
                for cause in pending.causes() {
                    cause.changes = vec![(None, None)];
                }
            }
        }
    }

    /// Takes back a call that has been answered.
    fn end(&mut self, call: CallId) -> Option<Concern> {
        let concern = self.calls.remove(&call)?;
        self.calling.take(&concern.controller);
        Some(concern)
    }
}

impl Pending {
    fn causes(&mut self) -> impl Iterator<Item = &mut Cause> {
        let told = match &mut self.doing {
            Doing::Calling(_, _, cause) => Some(cause),
            Doing::Waiting | Doing::Failed => None,
        };
        self.cause.iter_mut().chain(told)
    }
}

impl Core {
    /// What a run has written is known as it ends. The events of some of it came before.
    pub(super) fn changes_were_of(&mut self, writer: &Arc<PrimaryKey>, written: &[WrittenObject]) {
        if self.concerns.pending.is_empty() {
            return;
        }
        let watches: Vec<(ControllerId, u32)> = self
            .controllers
            .iter()
            .flat_map(|(id, controller)| (0..).zip(&controller.declared).map(|(watch, _)| (*id, watch)))
            .collect();
        for written in written.iter().filter(|written| written.own) {
            for (controller, watch) in &watches {
                let concern = Concern {
                    controller: *controller,
                    watch: *watch,
                    object: written.object.clone(),
                };
                let pending = self.concerns.pending.get_mut(&concern);
                for cause in pending.into_iter().flat_map(Pending::causes) {
                    cause.wrote(writer, written.metadata.version);
                }
            }
        }
    }

    /// An object under a declared watch changed.
    pub(super) fn concerned(
        &mut self,
        controller: ControllerId,
        watch: u32,
        object: &ObjectKey,
        [before, after]: [Option<&Object>; 2],
        cause: Cause,
        query: &Query,
    ) {
        // What is there when the controller is attached concerns nobody who has run before: primaries wait for the first list.
        let listed = self
            .controllers
            .get(&controller)
            .and_then(|controller| controller.listed.get(watch as usize));
        if listed != Some(&true) {
            return;
        }
        let state = |object: Option<&Object>| object.and_then(|object| found(query, object));
        let concern = Concern {
            controller,
            watch,
            object: object.clone(),
        };
        if let Some(pending) = self.concerns.pending.get_mut(&concern) {
            pending.after = state(after);
            pending.cause = Some(match pending.cause.take() {
                Some(earlier) => earlier.and(cause),
                None => cause,
            });
            return;
        }
        let pending = Pending {
            before: state(before),
            after: state(after),
            cause: Some(cause),
            doing: Doing::Waiting,
            failures: 0,
        };
        self.concerns.pending.insert(concern.clone(), pending);
        self.concerns.wait(concern);
    }

    /// A declared watch is listed, or cannot be for now.
    pub(super) fn declared_listed(&mut self, id: ControllerId, watch: u32) {
        if let Some(listed) = self
            .controllers
            .get_mut(&id)
            .and_then(|controller| controller.listed.get_mut(watch as usize))
        {
            *listed = true;
        }
    }

    /// The next call of `dependents`, if there is one and a permit is free.
    pub(super) fn next_call(&mut self) -> Option<Effect> {
        let Concerns {
            pending,
            waiting,
            calls,
            calling,
            next,
        } = &mut self.concerns;
        let id = *waiting.keys().find(|id| calling.of(id) < CALLS)?;
        let queue = waiting.get_mut(&id)?;
        let concern = queue.pop_front()?;
        if queue.is_empty() {
            waiting.swap_remove(&id);
        }
        let pending = pending.get_mut(&concern)?;
        let call = CallId(*next);
        *next += 1;
        let cause = pending.cause.take().unwrap_or_default();
        pending.doing = Doing::Calling(call, pending.after.clone(), cause);
        calls.insert(call, concern.clone());
        calling.add(id);
        Some(Effect::Dependents {
            call,
            controller: concern.controller,
            watch: concern.watch as usize,
            before: pending.before.clone(),
            after: pending.after.clone(),
        })
    }

    /// Tells which primaries a change concerns.
    pub fn dependents_found(&mut self, call: CallId, dependents: Vec<Dependent>, now: Time) {
        let Some(concern) = self.concerns.end(call) else {
            return;
        };
        let mut cause = Cause::default();
        if let Some(pending) = self.concerns.pending.get_mut(&concern)
            && let Doing::Calling(of, told, told_of) = &mut pending.doing
            && *of == call
        {
            cause = std::mem::take(told_of);
            if *told == pending.after {
                self.concerns.pending.remove(&concern);
            } else {
                pending.before = told.take();
                pending.doing = Doing::Waiting;
                pending.failures = 0;
                self.concerns.wait(concern.clone());
            }
        }
        let versions = cause.versions();
        for dependent in dependents {
            for key in self.primaries_meant(concern.controller, dependent) {
                // What a primary wrote itself is no news to it.
                if !cause.is_all_of(&key) {
                    let wake = Wake::Dependent {
                        object: concern.object.clone(),
                        versions: versions.clone(),
                    };
                    self.wake(&key, wake, cause.way.clone(), now);
                }
            }
        }
    }

    fn primaries_meant(&self, id: ControllerId, dependent: Dependent) -> Vec<PrimaryKey> {
        let Some(controller) = self.controllers.get(&id) else {
            return Vec::new();
        };
        let key = |name| PrimaryKey { controller: id, name };
        match dependent {
            Dependent::Primary(name) => vec![key(name)],
            Dependent::Labels(selector) => self
                .cache
                .selected(controller.cluster, &controller.kind, &Criterion::Labels(selector))
                .map(|(name, _)| key(name.clone()))
                .collect(),
            Dependent::JoinKey(join) => controller
                .joins
                .get(&join)
                .into_iter()
                .flatten()
                .map(|key| (**key).clone())
                .collect(),
        }
    }

    /// Tells that a plugin could not say so. It is asked again.
    pub fn dependents_failed(&mut self, call: CallId, now: Time) {
        let Some(concern) = self.concerns.end(call) else {
            return;
        };
        let Some(pending) = self.concerns.pending.get_mut(&concern) else {
            return;
        };
        if let Doing::Calling(_, _, cause) = std::mem::replace(&mut pending.doing, Doing::Failed) {
            pending.cause = Some(match pending.cause.take() {
                Some(later) => cause.and(later),
                None => cause,
            });
        }
        pending.failures += 1;
        let failures = pending.failures;
        let delay = self.retry_delay(failures);
        self.set_timer(now + delay, Timer::Dependents(concern));
    }

    pub(super) fn retry_call(&mut self, concern: &Concern) {
        if let Some(pending) = self.concerns.pending.get_mut(concern)
            && matches!(pending.doing, Doing::Failed)
        {
            pending.doing = Doing::Waiting;
            self.concerns.wait(concern.clone());
        }
    }
}
