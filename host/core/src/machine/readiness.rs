//! How much is known, after a start, of what primaries depend on and protect. What it is for: docs/decisions/0005.

use std::sync::Arc;

use super::Core;
use crate::name::{ControllerId, PrimaryKey};
use crate::planted::Planted;
use crate::registry::Registered;
use crate::time::Time;

impl Core {
    /// A primary has said for the first time what it depends on, or will not.
    pub(super) fn has_asked(&mut self, key: &PrimaryKey, now: Time) {
        let asked = self
            .primaries
            .get_mut(key)
            .is_none_or(|primary| std::mem::replace(&mut primary.asked, true));
        if !asked {
            self.one_asked(key.controller, now);
        }
    }

    pub(super) fn one_asked(&mut self, id: ControllerId, now: Time) {
        if let Some(controller) = self.controllers.get_mut(&id) {
            controller.unasked = controller.unasked.saturating_sub(1);
            self.check_complete(id, now);
        }
    }

    /// A primary has said for the first time what it depends on, with all answers before it.
    pub(super) fn is_sighted(&mut self, key: &PrimaryKey, now: Time) {
        let sighted = self
            .primaries
            .get_mut(key)
            .is_none_or(|primary| std::mem::replace(&mut primary.sighted, true));
        if !sighted {
            self.one_sighted(key.controller, now);
        }
    }

    pub(super) fn one_sighted(&mut self, id: ControllerId, now: Time) {
        if let Some(controller) = self.controllers.get_mut(&id) {
            controller.unsighted = controller.unsighted.saturating_sub(1);
            if controller.unsighted == 0 {
                let finalizer = controller.protection.clone();
                self.release_all_unused(&finalizer, now);
            }
        }
    }

    /// Whether every primary that may protect by a finalizer has said what it depends on.
    pub(super) fn is_counted(&self, finalizer: &Arc<str>) -> bool {
        let mut controllers = self.controllers.values();
        self.planted(Planted::ReleaseOnIncompleteIndex)
            || !controllers.any(|controller| controller.protection == *finalizer && !controller.complete)
    }

    /// Whether that will be so in a moment. Primaries that cannot be listed may never say anything.
    pub(super) fn is_being_counted(&self, finalizer: &Arc<str>) -> bool {
        !self.planted(Planted::ReleaseOnIncompleteIndex)
            && self.controllers.values().any(|controller| {
                let failed = || {
                    self.registry
                        .get(controller.primaries)
                        .is_some_and(Registered::has_failed)
                };
                controller.protection == *finalizer && !controller.complete && !failed()
            })
    }

    /// Whether all is known that decides on what is protected by a finalizer: nobody lacked an answer to say it.
    pub(super) fn is_known(&self, finalizer: &Arc<str>) -> bool {
        let mut controllers = self.controllers.values();
        self.planted(Planted::ReleaseOnIncompleteIndex)
            || self.is_counted(finalizer)
                && !controllers.any(|controller| controller.protection == *finalizer && controller.unsighted > 0)
    }

    /// A controller may have become complete: all its primaries have said what they depend on.
    pub(super) fn check_complete(&mut self, id: ControllerId, now: Time) {
        let Some(controller) = self.controllers.get_mut(&id) else {
            return;
        };
        let finalizer = controller.protection.clone();
        let entry = self.registry.get(controller.primaries);
        if !entry.is_some_and(Registered::is_ready) {
            if entry.is_some_and(Registered::has_failed) {
                self.let_leave(&finalizer, now);
            }
            return;
        }
        if controller.complete || controller.unasked > 0 {
            return;
        }
        controller.complete = true;
        if self.is_counted(&finalizer) {
            self.release_all_unused(&finalizer, now);
            self.sweep_protected(&finalizer);
        }
    }
}
