//! What else the machine asks for: connections, calls of `dependents`, releases and sweeps.

use std::sync::Arc;

use super::object::{Resource, number};
use super::plugin::dependents;
use super::server::Place;
use super::trace::note;
use super::world::{PROTECTION, World};
use crate::{
    CallId, ClusterId, ControllerId, Dependent, Failure, FailureReason, FoundObject, Kind, ObjectKey, PrimaryKey,
};

pub(super) struct Connecting {
    cluster: ClusterId,
    attempt: u64,
    /// What the Secret says; see [`World::leads_to`].
    kubeconfig: Option<u32>,
}

pub(super) struct Call {
    id: CallId,
    controller: ControllerId,
    /// The controller's serial; what is answered to one that was replaced meanwhile is of no account.
    serial: Option<u32>,
    before: Option<FoundObject>,
    after: Option<FoundObject>,
}

pub(super) struct Release {
    object: ObjectKey,
    uid: Arc<str>,
    finalizer: Arc<str>,
}

pub(super) struct Sweep {
    cluster: ClusterId,
    kind: Kind,
    finalizer: Arc<str>,
}

impl World {
    pub(super) fn start_connecting(&mut self, cluster: ClusterId, attempt: u64, secret: &str) {
        let kubeconfig = number(secret, "k").and_then(|k| u32::try_from(k).ok());
        note!(self, "connect {} by k={kubeconfig:?}", cluster.0);
        self.connects.push(Connecting {
            cluster,
            attempt,
            kubeconfig,
        });
    }

    pub(super) fn connect_step(&mut self) {
        let Connecting {
            cluster,
            attempt,
            kubeconfig,
        } = self.connects.swap_remove(self.random.usize(..self.connects.len()));
        let server = kubeconfig
            .and_then(|k| self.leads_to(k))
            .filter(|server| !self.servers[*server].down);
        match server.filter(|_| !self.goes_wrong(6)) {
            Some(server) => {
                note!(self, "connected {} to {}", cluster.0, self.servers[server].name);
                // The connection stands before the machine asks anything of it.
                if self
                    .core
                    .connected(cluster, attempt, self.servers[server].name, self.now)
                    && self
                        .connections
                        .insert(cluster, server)
                        .is_some_and(|before| before != server)
                {
                    self.ledger.forget_versions(|other| other == cluster);
                }
            }
            None => {
                note!(self, "cannot connect {}", cluster.0);
                let failure = Failure::new(FailureReason::Unreachable, "the cluster cannot be reached");
                self.core.connect_failed(cluster, attempt, &failure, self.now);
            }
        }
    }

    pub(super) fn start_call(
        &mut self,
        id: CallId,
        controller: ControllerId,
        before: Option<FoundObject>,
        after: Option<FoundObject>,
    ) {
        note!(self, "call {} of {}", id.0, controller.0);
        let serial = self.controllers.get(&controller).map(|controller| controller.serial);
        self.calls.push(Call {
            id,
            controller,
            serial,
            before,
            after,
        });
    }

    pub(super) fn call_step(&mut self) {
        let call = self.calls.swap_remove(self.random.usize(..self.calls.len()));
        let controller = self.controllers.get(&call.controller);
        let Some(controller) = controller.filter(|_| !(self.chaos && self.random.u32(0..6) == 0)) else {
            note!(self, "call {} failed", call.id.0);
            self.counted.faults += 1;
            return self.core.dependents_failed(call.id, self.now);
        };
        let (namespaced, serial) = (controller.resource == Resource::Copy, controller.serial);
        let states = [&call.before, &call.after].map(|state| state.as_ref().map(|state| &state.text));
        let found = dependents(states, namespaced);
        note!(self, "call {} found {found:?}", call.id.0);
        for dependent in &found {
            if let (Dependent::Primary(name), Some(after)) = (dependent, &call.after)
                && call.serial == Some(serial)
            {
                let key = PrimaryKey {
                    controller: call.controller,
                    name: name.clone(),
                };
                self.ledger.concerns(&key, after.cluster, after.version);
            }
        }
        self.core.dependents_found(call.id, found, self.now);
    }

    pub(super) fn start_release(&mut self, object: ObjectKey, uid: Arc<str>, finalizer: Arc<str>) {
        note!(self, "to release {:?} {}", object.kind.kind, object.name);
        self.check_release(&object, &uid, None);
        self.releases.push(Release { object, uid, finalizer });
    }

    pub(super) fn release_step(&mut self) {
        let Release { object, uid, finalizer } = self.releases.swap_remove(self.random.usize(..self.releases.len()));
        let done = !self.goes_wrong(4) && self.take_off(&object, &uid, &finalizer);
        note!(self, "release of {} {}: {done}", object.kind.kind, object.name);
        self.core.released(&object, &finalizer, done, self.now);
    }

    /// Takes a finalizer off an object. One that is not there any more, or another than it was, needs nothing taken off.
    pub(super) fn take_off(&mut self, object: &ObjectKey, uid: &Arc<str>, finalizer: &Arc<str>) -> bool {
        let server = self.connections.get(&object.cluster).copied();
        let Some(server) = server.filter(|server| !self.servers[*server].down) else {
            return false;
        };
        self.held_and_released += u64::from(**finalizer == *PROTECTION);
        self.servers[server].take_off(Resource::of(&object.kind), &object.name, uid, finalizer);
        true
    }

    pub(super) fn start_sweep(&mut self, cluster: ClusterId, kind: Kind, finalizer: Arc<str>) {
        note!(self, "to sweep {} in {}", kind.kind, cluster.0);
        self.sweeps.push(Sweep {
            cluster,
            kind,
            finalizer,
        });
    }

    pub(super) fn sweep_step(&mut self) {
        let Sweep {
            cluster,
            kind,
            finalizer,
        } = self.sweeps.swap_remove(self.random.usize(..self.sweeps.len()));
        let resource = Resource::of(&kind);
        let server = self.connections.get(&cluster).map(|server| &self.servers[*server]);
        let refused = server.is_none_or(|server| server.refusal(resource, Place::Everywhere).is_some());
        let found = server
            .into_iter()
            .flat_map(|server| &server.objects)
            .filter(|((of, _), object)| *of == resource && object.finalizers.contains(&finalizer));
        let found: Vec<_> = found
            .map(|((_, name), object)| {
                let key = ObjectKey {
                    cluster,
                    kind: kind.clone(),
                    name: name.clone(),
                };
                (key, object.uid.clone())
            })
            .collect();
        let found = (!refused && !self.goes_wrong(4)).then_some(found);
        note!(self, "swept {}: {:?}", kind.kind, found.as_ref().map(Vec::len));
        self.core.swept(cluster, &kind, &finalizer, found);
    }
}
