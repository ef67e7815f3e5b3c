//! Relations that only a plugin understands: it is told of each change of what it declared to watch, and says which
//! primaries that concerns.
//!
//! Changes of one object wait in one place, with the state that the plugin knows and the newest one. A state between the
//! two that no call has told anybody of concerns nobody any longer. A call that fails is made again, so that no change is
//! lost.

use std::collections::{HashMap, VecDeque};

use indexmap::IndexMap;

use super::queries::found;
use super::{CallId, Core, Dependent, Effect, Timer};
use crate::cache::Object;
use crate::name::{ControllerId, ObjectKey, PrimaryKey};
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
    doing: Doing,
    failures: u32,
}

enum Doing {
    Waiting,
    /// A call tells of the change to this state.
    Calling(CallId, Option<FoundObject>),
    /// The last call failed, and its timer is set.
    Failed,
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

    /// Takes back a call that has been answered.
    fn end(&mut self, call: CallId) -> Option<Concern> {
        let concern = self.calls.remove(&call)?;
        self.calling.take(&concern.controller);
        Some(concern)
    }
}

impl Core {
    /// An object under a declared watch changed.
    pub(super) fn concerned(
        &mut self,
        controller: ControllerId,
        watch: u32,
        object: &ObjectKey,
        [before, after]: [Option<&Object>; 2],
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
            return;
        }
        let pending = Pending {
            before: state(before),
            after: state(after),
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
        pending.doing = Doing::Calling(call, pending.after.clone());
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
        if let Some(pending) = self.concerns.pending.get_mut(&concern)
            && let Doing::Calling(of, told) = &mut pending.doing
            && *of == call
        {
            if *told == pending.after {
                self.concerns.pending.remove(&concern);
            } else {
                pending.before = told.take();
                pending.doing = Doing::Waiting;
                pending.failures = 0;
                self.concerns.wait(concern.clone());
            }
        }
        for dependent in dependents {
            for key in self.primaries_meant(concern.controller, dependent) {
                let wake = Wake::Dependent {
                    object: concern.object.clone(),
                };
                self.wake(&key, wake, None, now);
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
        pending.doing = Doing::Failed;
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
