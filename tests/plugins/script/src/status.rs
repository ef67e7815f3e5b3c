//! The status of a Script: what it found and what became of its last writes.

use patchbay_sdk::{Answers, Object, Primary, Value, WriteAction, WriteResult, WriteState, json};

use crate::queries;
use crate::spec::Spec;
use crate::template::{objects, state};

pub(crate) fn status(primary: &Primary, spec: &Spec, answers: &Answers) -> Value {
    let found = queries::ids(primary, spec, answers).into_iter().filter_map(|id| {
        let finding = answers.finding(&id)?;
        let names: Vec<_> = objects(finding).iter().map(Object::name).collect();
        Some(json!({"id": id, "state": state(finding), "names": names}))
    });
    let writes: Vec<_> = primary.last_writes.iter().map(write).collect();
    json!({
        "observedGeneration": primary.generation(),
        "answers": found.collect::<Vec<_>>(),
        "lastWrites": writes,
    })
}

/// Without messages: they may differ each time, and then the status would never rest.
fn write(result: &WriteResult) -> Value {
    let action = match result.action {
        WriteAction::Apply => "apply",
        WriteAction::Delete => "delete",
        WriteAction::Patch => "patch",
        WriteAction::Status => "status",
    };
    let state = match &result.state {
        WriteState::Applied => "applied".to_owned(),
        WriteState::Unchanged => "unchanged".to_owned(),
        WriteState::Skipped => "skipped".to_owned(),
        WriteState::Failed(failure) => format!("failed {} {}", failure.code, failure.reason),
    };
    json!({"action": action, "object": result.object.to_string(), "state": state})
}
