//! What primaries protect, remembered by the world and not by the host: it lasts over restarts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::object::Resource;
use super::plugin::Where;
use super::trace::note;
use super::world::{PROTECTION, World};
use crate::ObjectKey;

/// An object on a server.
type Guarded = (usize, Arc<str>);

/// A primary that protects an object: its controller, its uid, and where it looks for the object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Guard {
    slot: u32,
    uid: Arc<str>,
    /// What it said when it did.
    spec: Option<usize>,
    at: Where,
}

#[derive(Default)]
pub(super) struct Guards {
    of: BTreeMap<Guarded, BTreeSet<Guard>>,
    /// Primaries whose last run could not say what it protects.
    unsure: BTreeSet<(u32, Arc<str>)>,
}

impl Guards {
    /// A run has protected these objects. If it succeeded, its primary protects no others.
    pub(super) fn protected(
        &mut self,
        (slot, uid, spec): (u32, &Arc<str>, Option<usize>),
        objects: Vec<(Guarded, Where)>,
        only: bool,
    ) {
        if only {
            self.forget(slot, uid);
            self.unsure.remove(&(slot, uid.clone()));
        } else {
            self.unsure.insert((slot, uid.clone()));
        }
        for (object, at) in objects {
            let uid = uid.clone();
            self.of.entry(object).or_default().insert(Guard { slot, uid, spec, at });
        }
    }

    fn forget(&mut self, slot: u32, uid: &str) {
        self.of.retain(|_, guards| {
            guards.retain(|guard| guard.slot != slot || *guard.uid != *uid);
            !guards.is_empty()
        });
    }
}

impl World {
    /// An object is about to be released. Nobody may need it but a primary that goes.
    pub(super) fn check_release(&mut self, object: &ObjectKey, uid: &Arc<str>, leaving: Option<(u32, &str)>) {
        let Some(server) = self.connections.get(&object.cluster).copied() else {
            return;
        };
        let guards = self.guards.of.get(&(server, uid.clone())).cloned().unwrap_or_default();
        let needed = guards.iter().find(|guard| {
            leaving != Some((guard.slot, &*guard.uid))
                && self.is_there(guard)
                && self.server_at(0, guard.at) == Ok(server)
        });
        if let Some(guard) = needed {
            self.violated(format!(
                "{} is released, though a primary with uid {} of slot {} protects it",
                object.name, guard.uid, guard.slot
            ));
        }
    }

    /// Whether a primary that protects something is still one of a controller that is attached, and says the same.
    fn is_there(&self, guard: &Guard) -> bool {
        self.primaries().iter().any(|there| {
            let slot = self
                .controllers
                .get(&there.key.controller)
                .map(|controller| controller.slot);
            let object = there.object;
            slot == Some(guard.slot) && object.uid == guard.uid && object.spec == guard.spec && !object.deleting
        })
    }

    /// What a primary protects carries the finalizer, unless somebody takes it off again and again.
    pub(super) fn check_guards(&self) -> Result<(), String> {
        for ((server, uid), guards) in &self.guards.of {
            let objects = &self.servers[*server].objects;
            let object = objects.iter().find(|(_, object)| object.uid == *uid);
            let Some(((_, name), object)) = object.filter(|(_, object)| !object.deleting) else {
                continue;
            };
            let sure = |guard: &&Guard| !self.guards.unsure.contains(&(guard.slot, guard.uid.clone()));
            let reached = |guard: &&Guard| self.is_there(guard) && self.server_at(0, guard.at) == Ok(*server);
            let guard = guards.iter().filter(sure).find(reached);
            if let Some(guard) = guard
                && !object.finalizers.contains(PROTECTION)
            {
                return Err(format!(
                    "{name} does not carry the finalizer by which {guard:?} protects it"
                ));
            }
        }
        Ok(())
    }

    /// The objects that primaries which are there protect now.
    pub(super) fn guarded(&self) -> Vec<Guarded> {
        let guarded = self.guards.of.iter().filter(|((server, _), guards)| {
            let reached = |guard: &Guard| self.is_there(guard) && self.server_at(0, guard.at) == Ok(*server);
            guards.iter().any(reached)
        });
        guarded.map(|(object, _)| object.clone()).collect()
    }

    /// All primaries have gone, so what they protected must have been released.
    pub(super) fn check_released(&mut self, guarded: &[Guarded]) {
        for (server, uid) in guarded {
            let objects = &self.servers[*server].objects;
            let held = objects.iter().find(|((resource, _), object)| {
                object.uid == *uid && *resource != Resource::Copy && object.finalizers.contains(PROTECTION)
            });
            if let Some((_, name)) = held.map(|(key, _)| key.clone()) {
                note!(self, "{uid} is left");
                return self.violated(format!("{name} is protected, though all primaries have gone"));
            }
        }
    }
}
