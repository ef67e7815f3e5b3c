//! The status of an Object.
//!
//! It holds no times and no versions, so it stays as it is while nothing changes.

use patchbay_sdk::conditions::{self, Condition};
use patchbay_sdk::{Failure, ObjectKind, Primary, Value, json};

use crate::problem::Problem;

/// The target is as the Object says.
const SYNCED: &str = "Synced";

/// The target does what it is for; see [`readiness`](crate::readiness).
pub const READY: &str = "Ready";

/// The reason of a failure and of the condition that tells of it.
const RECONCILE_ERROR: &str = "ReconcileError";

/// Asks for a run; what was asked last is shown in the status.
const RECONCILE_REQUESTED_AT: &str = "crossplane.io/reconcile-requested-at";

/// The failure of a run, with a status that tells of it. All else in the status stays: it is what was last known.
pub fn failure(primary: &Primary, problem: Problem) -> Failure {
    let condition = Condition::is_false(SYNCED, RECONCILE_ERROR).message(problem.message.clone());
    let status = with(primary, Value::clone, [condition]);
    let failure = if problem.permanent {
        Failure::permanent
    } else {
        Failure::retry
    };
    failure(RECONCILE_ERROR, problem.message).with_status(status)
}

/// The status while the Object is paused.
pub fn paused(primary: &Primary) -> Value {
    let message = "nothing is written while the annotation crossplane.io/paused is true";
    with(
        primary,
        Value::clone,
        [Condition::is_false(SYNCED, "ReconcilePaused").message(message)],
    )
}

/// The status after a run that saw the target.
pub fn observed(primary: &Primary, target: Value, ready: Condition) -> Value {
    with(
        primary,
        |status| {
            let mut status = status.clone();
            status["atProvider"] = json!({"manifest": target});
            if let Some(token) = primary.annotation(RECONCILE_REQUESTED_AT) {
                status["lastHandledReconcileAt"] = token.into();
            }
            status
        },
        [Condition::is_true(SYNCED, "ReconcileSuccess"), ready],
    )
}

/// The status while the target is being deleted.
pub fn deleting(primary: &Primary) -> Value {
    let conditions = [
        Condition::is_true(SYNCED, "ReconcileSuccess"),
        Condition::is_false(READY, "Deleting"),
    ];
    with(primary, Value::clone, conditions)
}

/// The last status with a change and with conditions of the Object's generation.
fn with(
    primary: &Primary,
    change: impl FnOnce(&Value) -> Value,
    conditions: impl IntoIterator<Item = Condition>,
) -> Value {
    let old = primary.status();
    let mut status = if old.is_object() {
        change(old)
    } else {
        change(&json!({}))
    };
    for condition in conditions {
        conditions::set(&mut status, condition.observed_generation(primary.generation()));
    }
    if let Some(generation) = primary.generation() {
        status["observedGeneration"] = generation.into();
    }
    status
}

/// The target as the status shows it. Its kind is the one that was asked for, since lists leave it out of their items.
///
/// With `sanitize`, nothing of a Secret's data is shown, and neither is the annotation in which kubectl keeps it.
pub fn shown(target: &Value, kind: &ObjectKind, sanitize: bool) -> Value {
    let mut shown = target.clone();
    let Some(fields) = shown.as_object_mut() else {
        return shown;
    };
    fields.insert("apiVersion".to_owned(), kind.api_version.as_str().into());
    fields.insert("kind".to_owned(), kind.kind.as_str().into());
    let sanitize = sanitize && kind.api_version == "v1" && kind.kind == "Secret";
    if sanitize {
        fields.remove("data");
        fields.remove("stringData");
    }
    if let Some(metadata) = fields.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
        metadata.remove("resourceVersion");
        if sanitize && let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
            annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use patchbay_sdk::testing;

    fn object(status: Value) -> Primary {
        testing::primary(json!({"metadata": {"name": "foo", "generation": 3}, "status": status}))
    }

    fn ready() -> Condition {
        Condition::is_true(READY, "Available")
    }

    #[test]
    fn a_failure_changes_nothing_but_synced() {
        let primary = object(json!({
            "atProvider": {"manifest": {"kind": "ConfigMap"}},
            "observedGeneration": 2,
            "conditions": [
                {"type": "Synced", "status": "True", "reason": "ReconcileSuccess", "lastTransitionTime": "t1"},
                {"type": "Ready", "status": "True", "reason": "Available", "lastTransitionTime": "t2", "observedGeneration": 2},
            ],
        }));
        let failure = failure(&primary, Problem::permanent("spec.x: wrong"));
        assert_eq!(
            (failure.reason.as_str(), failure.message.as_str()),
            ("ReconcileError", "spec.x: wrong")
        );
        assert!(failure.permanent);
        assert_eq!(
            failure.status.unwrap(),
            json!({
                "atProvider": {"manifest": {"kind": "ConfigMap"}},
                "observedGeneration": 3,
                "conditions": [
                    {
                        "type": "Synced", "status": "False", "reason": "ReconcileError", "message": "spec.x: wrong",
                        "observedGeneration": 3,
                    },
                    {
                        "type": "Ready", "status": "True", "reason": "Available", "lastTransitionTime": "t2",
                        "observedGeneration": 2,
                    },
                ],
            })
        );
    }

    #[test]
    fn a_problem_that_may_pass_is_tried_again() {
        assert!(!failure(&object(json!(null)), Problem::retry("later")).permanent);
    }

    #[test]
    fn a_run_that_saw_the_target_shows_it() {
        let status = observed(&object(json!(null)), json!({"kind": "ConfigMap"}), ready());
        assert_eq!(
            status,
            json!({
                "atProvider": {"manifest": {"kind": "ConfigMap"}},
                "observedGeneration": 3,
                "conditions": [
                    {"type": "Synced", "status": "True", "reason": "ReconcileSuccess", "observedGeneration": 3},
                    {"type": "Ready", "status": "True", "reason": "Available", "observedGeneration": 3},
                ],
            })
        );
    }

    #[test]
    fn the_status_stays_while_nothing_changes() {
        let mut status = observed(&object(json!(null)), json!({"kind": "ConfigMap"}), ready());
        for condition in status["conditions"].as_array_mut().unwrap() {
            condition["lastTransitionTime"] = json!("filled in by the host");
        }
        assert_eq!(
            observed(&object(status.clone()), json!({"kind": "ConfigMap"}), ready()),
            status
        );
    }

    #[test]
    fn a_requested_run_is_shown_as_handled() {
        let primary = testing::primary(json!({
            "metadata": {"annotations": {"crossplane.io/reconcile-requested-at": "token"}},
        }));
        assert_eq!(
            observed(&primary, json!({}), ready())["lastHandledReconcileAt"],
            "token"
        );
    }

    #[test]
    fn no_version_of_the_target_is_shown() {
        let target = json!({
            "apiVersion": "v1", "kind": "A", "metadata": {"name": "a", "resourceVersion": "7", "managedFields": []},
        });
        let expected = json!({"apiVersion": "v1", "kind": "A", "metadata": {"name": "a"}});
        assert_eq!(shown(&target, &ObjectKind::new("v1", "A"), false), expected);
    }

    #[test]
    fn an_item_of_a_list_is_shown_with_its_kind() {
        let shown = shown(&json!({"metadata": {"name": "a"}}), &ObjectKind::new("v1", "A"), false);
        assert_eq!(
            shown,
            json!({"apiVersion": "v1", "kind": "A", "metadata": {"name": "a"}})
        );
    }

    #[test]
    fn a_sanitized_secret_shows_no_value() {
        let kind = ObjectKind::new("v1", "Secret");
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
            "metadata": {
                "name": "s",
                "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{\"data\":1}", "a": "b"},
            },
            "data": {"k": "c2VjcmV0"},
        });
        assert_eq!(shown(&secret, &kind, false), secret);
        let expected = json!({
            "apiVersion": "v1", "kind": "Secret", "type": "Opaque", "metadata": {"name": "s", "annotations": {"a": "b"}},
        });
        assert_eq!(shown(&secret, &kind, true), expected);
        let config_map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}, "data": {"k": "v"}});
        assert_eq!(
            shown(&config_map, &ObjectKind::new("v1", "ConfigMap"), true),
            config_map
        );
    }
}
