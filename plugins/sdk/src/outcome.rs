//! What a plugin wants true.

use std::time::Duration;

use serde_json::Value;

use crate::{ApplyMode, ApplySet, Cluster, Delete, Event, EventSeverity, LabelSelector, ObjectKind, ObjectReference};

/// What should be true. An empty one writes nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Written in order; the first that fails ends it. The status comes after them all.
    pub writes: Vec<Write>,
    /// The whole of the `status` field that this plugin answers for; sent when it differs. A condition without
    /// `lastTransitionTime` gets that of the time when its status last changed. Absent: the status stays as it is.
    pub status: Option<Value>,
    /// Kubernetes Events about the primary.
    pub events: Vec<Event>,
    /// Objects that must not be deleted while the primary exists.
    pub protect: Vec<ObjectReference>,
    /// Remove objects that an earlier outcome applied and this one does not.
    pub prune: Option<ApplySet>,
    /// Controllers that should run with this primary as their parent. The set is replaced as a whole.
    pub controllers: Vec<Controller>,
    /// Run again after so long, whatever happens; counted in milliseconds.
    pub again_after: Option<Duration>,
    /// Run again as soon as the writes of this outcome have changed anything.
    pub again_if_written: bool,
}

/// One write.
#[derive(Clone, Debug, PartialEq)]
pub enum Write {
    /// Server-side apply.
    Apply(Apply),
    /// Deletion of one object.
    Delete(Delete),
    /// A JSON Patch.
    Patch(Patch),
}

/// Server-side apply, with a field manager of this primary's own.
#[derive(Clone, Debug, PartialEq)]
pub struct Apply {
    /// Where to.
    pub cluster: Cluster,
    /// `apiVersion`, `kind`, `metadata.name` and every field that should be owned.
    pub object: Value,
    /// Whether the object may, must or must not exist.
    pub mode: ApplyMode,
    /// Take fields over from other managers. Without it, a conflict is a failure that names them.
    pub force: bool,
}

/// For what apply cannot do: a JSON Patch (RFC 6902).
#[derive(Clone, Debug, PartialEq)]
pub struct Patch {
    /// What is patched.
    pub object: ObjectReference,
    /// `status` or another subresource; absent for the object itself.
    pub subresource: Option<String>,
    /// The operations, of which the first must be a test.
    pub operations: Vec<Value>,
}

/// A controller that should run with the primary as its parent: every object of the kind becomes a primary.
#[derive(Clone, Debug, PartialEq)]
pub struct Controller {
    /// Where its primaries are.
    pub cluster: Cluster,
    /// Their kind.
    pub kind: ObjectKind,
    /// Which of them.
    pub selector: LabelSelector,
    /// What they see as their configuration, an object.
    pub config: Value,
}

impl Outcome {
    /// An outcome that writes nothing yet.
    pub fn new() -> Self {
        Outcome::default()
    }

    /// Applies an object after the writes so far. A plain value is created or updated in the primary's cluster, without
    /// force; see [`Apply`] for other ways.
    #[must_use]
    pub fn apply(mut self, apply: impl Into<Apply>) -> Self {
        self.writes.push(Write::Apply(apply.into()));
        self
    }

    /// Deletes an object after the writes so far.
    #[must_use]
    pub fn delete(mut self, delete: Delete) -> Self {
        self.writes.push(Write::Delete(delete));
        self
    }

    /// Patches an object after the writes so far.
    #[must_use]
    pub fn patch(mut self, patch: Patch) -> Self {
        self.writes.push(Write::Patch(patch));
        self
    }

    /// Sets the primary's status.
    #[must_use]
    pub fn status(mut self, status: Value) -> Self {
        self.status = Some(status);
        self
    }

    /// Adds an Event of type Normal.
    #[must_use]
    pub fn normal(self, reason: impl Into<String>, message: impl Into<String>) -> Self {
        self.event(EventSeverity::Normal, reason, message)
    }

    /// Adds an Event of type Warning.
    #[must_use]
    pub fn warning(self, reason: impl Into<String>, message: impl Into<String>) -> Self {
        self.event(EventSeverity::Warning, reason, message)
    }

    fn event(mut self, severity: EventSeverity, reason: impl Into<String>, message: impl Into<String>) -> Self {
        self.events.push(Event {
            severity,
            reason: reason.into(),
            message: message.into(),
        });
        self
    }

    /// Keeps an object from being deleted while the primary exists.
    #[must_use]
    pub fn protect(mut self, object: ObjectReference) -> Self {
        self.protect.push(object);
        self
    }

    /// Removes objects that an earlier outcome applied and this one does not.
    #[must_use]
    pub fn prune(mut self, set: ApplySet) -> Self {
        self.prune = Some(set);
        self
    }

    /// Runs a controller with the primary as its parent.
    #[must_use]
    pub fn controller(mut self, controller: Controller) -> Self {
        self.controllers.push(controller);
        self
    }

    /// Runs again after so long, whatever happens.
    #[must_use]
    pub fn again_after(mut self, delay: Duration) -> Self {
        self.again_after = Some(delay);
        self
    }

    /// Runs again as soon as the writes of this outcome have changed anything, to see what came of them.
    #[must_use]
    pub fn again_if_written(mut self) -> Self {
        self.again_if_written = true;
        self
    }

    /// The applies among the writes, in order.
    pub fn applies(&self) -> Vec<&Apply> {
        let applies = self.writes.iter().filter_map(|write| match write {
            Write::Apply(apply) => Some(apply),
            _ => None,
        });
        applies.collect()
    }

    /// The deletes among the writes, in order.
    pub fn deletes(&self) -> Vec<&Delete> {
        let deletes = self.writes.iter().filter_map(|write| match write {
            Write::Delete(delete) => Some(delete),
            _ => None,
        });
        deletes.collect()
    }
}

impl Apply {
    /// Creates or updates an object in the primary's cluster, without force.
    pub fn new(object: Value) -> Self {
        Apply {
            cluster: Cluster::PrimaryCluster,
            object,
            mode: ApplyMode::Upsert,
            force: false,
        }
    }

    /// In another cluster.
    #[must_use]
    pub fn cluster(mut self, cluster: Cluster) -> Self {
        self.cluster = cluster;
        self
    }

    /// Fails if the object exists.
    #[must_use]
    pub fn only_create(mut self) -> Self {
        self.mode = ApplyMode::Create;
        self
    }

    /// Fails unless the object exists with this uid.
    #[must_use]
    pub fn only_update(mut self, uid: impl Into<String>) -> Self {
        self.mode = ApplyMode::Update(uid.into());
        self
    }

    /// Takes fields over from other managers.
    #[must_use]
    pub fn force(mut self) -> Self {
        self.force = true;
        self
    }
}

impl From<Value> for Apply {
    fn from(object: Value) -> Self {
        Apply::new(object)
    }
}

/// How a finalizer's work went.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Finalization {
    /// What should be true before the primary goes.
    pub outcome: Outcome,
    /// True to let the primary go, once the outcome is written.
    pub done: bool,
}

impl Finalization {
    /// Nothing is left to do: the primary may go.
    pub fn done() -> Self {
        Finalization {
            outcome: Outcome::new(),
            done: true,
        }
    }

    /// The primary may go once `outcome` is written.
    pub fn done_after(outcome: Outcome) -> Self {
        Finalization { outcome, done: true }
    }

    /// The primary must stay. It is looked at again when something that it depends on changes.
    pub fn waiting(outcome: Outcome) -> Self {
        Finalization { outcome, done: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn writes_keep_their_order() {
        let delete = Delete::new(ObjectReference::new("v1", "ConfigMap", "old"), "uid");
        let outcome = Outcome::new()
            .apply(json!({"n": 1}))
            .delete(delete)
            .apply(Apply::new(json!({"n": 2})).only_create());
        let kinds: Vec<_> = outcome
            .writes
            .iter()
            .map(|write| match write {
                Write::Apply(apply) => apply.object["n"].to_string(),
                Write::Delete(delete) => delete.object.name.clone(),
                Write::Patch(_) => String::new(),
            })
            .collect();
        assert_eq!(kinds, ["1", "old", "2"]);
        assert_eq!(outcome.applies()[0].mode, ApplyMode::Upsert);
        assert_eq!(outcome.applies()[1].mode, ApplyMode::Create);
    }
}
