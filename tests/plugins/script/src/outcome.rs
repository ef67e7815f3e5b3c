//! What a Script wants true.

use std::time::Duration;

use patchbay_sdk::{
    Answers, Apply, ApplyMode, ApplySet, Delete, Failure, Outcome, Patch, Primary, Propagation, Value, Write,
};
use serde::Deserialize;

use crate::places::{ClusterSpec, ObjectSpec};
use crate::spec::{Spec, invalid, namespace, part};
use crate::template::{Absent, Template};

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ApplySpec {
    object: Value,
    #[serde(default)]
    mode: ModeSpec,
    /// For `update`.
    uid: Option<String>,
    #[serde(default)]
    force: bool,
    #[serde(default)]
    cluster: ClusterSpec,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
enum ModeSpec {
    Create,
    Update,
    #[default]
    Upsert,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct DeleteSpec {
    object: ObjectSpec,
    uid: String,
    resource_version: Option<String>,
    #[serde(default)]
    propagation: PropagationSpec,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
enum PropagationSpec {
    #[default]
    Background,
    Foreground,
    Orphan,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct PatchSpec {
    object: ObjectSpec,
    subresource: Option<String>,
    operations: Vec<Value>,
}

/// What `reconcile` answers, but for the status.
pub(crate) fn reconciled(primary: &Primary, spec: &Spec, answers: &Answers) -> Result<Outcome, Failure> {
    let script = Script(Template { primary, answers });
    let protect = spec.protect.iter().map(|object| {
        let object: ObjectSpec = script.part(object, "protect")?;
        Ok(object.of(primary))
    });
    Ok(Outcome {
        writes: script.writes(&spec.apply, &spec.delete, &spec.patch)?,
        protect: protect.collect::<Result<_, Failure>>()?,
        prune: prune(primary, spec),
        again_after: spec.again_after.map(Duration::from_millis),
        again_if_written: spec.again_if_written,
        ..Outcome::new()
    })
}

/// What `finalize` answers, but for the status. If the Script stays, since only its controller ends, it writes nothing.
pub(crate) fn finalized(primary: &Primary, spec: &Spec, answers: &Answers) -> Result<Outcome, Failure> {
    if !primary.is_deleting() {
        return Ok(Outcome::new());
    }
    let script = Script(Template { primary, answers });
    let finalize = &spec.finalize;
    Ok(Outcome {
        writes: script.writes(&finalize.apply, &finalize.delete, &finalize.patch)?,
        prune: prune(primary, spec),
        ..Outcome::new()
    })
}

fn prune(primary: &Primary, spec: &Spec) -> Option<ApplySet> {
    let prune = spec.prune.as_ref()?;
    Some(ApplySet {
        name: prune.name.clone(),
        namespace: namespace(primary, prune.namespace.clone()).unwrap_or_default(),
    })
}

struct Script<'a>(Template<'a>);

impl Script<'_> {
    fn writes(&self, apply: &[Value], delete: &[Value], patch: &[Value]) -> Result<Vec<Write>, Failure> {
        let mut writes = Vec::new();
        for value in apply {
            writes.push(Write::Apply(self.apply(value)?));
        }
        for value in delete {
            writes.extend(self.delete(value)?.map(Write::Delete));
        }
        for value in patch {
            let PatchSpec {
                object,
                subresource,
                operations,
            } = self.part(value, "patch")?;
            writes.push(Write::Patch(Patch {
                object: object.of(self.0.primary),
                subresource,
                operations,
            }));
        }
        Ok(writes)
    }

    fn apply(&self, value: &Value) -> Result<Apply, Failure> {
        let mut spec: ApplySpec = self.part(value, "apply")?;
        let mode = match (spec.mode, spec.uid) {
            (ModeSpec::Create, None) => ApplyMode::Create,
            (ModeSpec::Upsert, None) => ApplyMode::Upsert,
            (ModeSpec::Update, Some(uid)) => ApplyMode::Update(uid),
            _ => return Err(invalid("apply", "a uid goes with mode update, and only with that")),
        };
        self.place(&mut spec.object)?;
        Ok(Apply {
            cluster: spec.cluster.of(self.0.primary),
            object: spec.object,
            mode,
            force: spec.force,
        })
    }

    /// Puts an object that names no namespace into the Script's own.
    fn place(&self, object: &mut Value) -> Result<(), Failure> {
        let metadata = object["metadata"]
            .as_object_mut()
            .ok_or_else(|| invalid("apply", "an object has no metadata"))?;
        let given = metadata
            .remove("namespace")
            .and_then(|namespace| namespace.as_str().map(str::to_owned));
        if let Some(namespace) = namespace(self.0.primary, given) {
            metadata.insert("namespace".to_owned(), namespace.into());
        }
        Ok(())
    }

    fn delete(&self, value: &Value) -> Result<Option<Delete>, Failure> {
        let spec: DeleteSpec = self.part(value, "delete")?;
        let delete = Delete {
            resource_version: spec.resource_version,
            ..Delete::new(spec.object.of(self.0.primary), spec.uid)
        };
        let delete = delete.propagation(match spec.propagation {
            PropagationSpec::Background => Propagation::Background,
            PropagationSpec::Foreground => Propagation::Foreground,
            PropagationSpec::Orphan => Propagation::Orphan,
        });
        Ok(Some(delete).filter(|delete| !delete.uid.is_empty()))
    }

    fn part<T: serde::de::DeserializeOwned>(&self, value: &Value, place: &str) -> Result<T, Failure> {
        part(self.0.fill(value, Absent::Empty)?, place)
    }
}
