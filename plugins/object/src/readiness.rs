//! When an Object is Ready.

use patchbay_sdk::Value;
use patchbay_sdk::conditions::{self, Condition};

use crate::spec::ReadinessPolicy;
use crate::status::READY;

/// The condition Ready of an Object whose target is there.
pub fn condition(policy: ReadinessPolicy, target: &Value) -> Condition {
    let lacking = match policy {
        ReadinessPolicy::SuccessfulCreate => None,
        ReadinessPolicy::DeriveFromObject => not_ready(&target["status"]),
        ReadinessPolicy::AllTrue => not_all_true(&target["status"]),
        // Refused before a target is looked at; never Ready is the answer that promises nothing.
        ReadinessPolicy::DeriveFromCelQuery => Some("DeriveFromCelQuery is not served yet".to_owned()),
    };
    match lacking {
        None => Condition::is_true(READY, "Available"),
        Some(message) => Condition::is_false(READY, "Unavailable").message(message),
    }
}

fn not_ready(status: &Value) -> Option<String> {
    match conditions::get(status, READY) {
        None => Some("the target has no condition Ready".to_owned()),
        Some(_) if conditions::is_true(status, READY) => None,
        Some(_) => Some("the target's condition Ready is not True".to_owned()),
    }
}

fn not_all_true(status: &Value) -> Option<String> {
    let conditions = status["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    if conditions.is_empty() {
        return Some("the target has no conditions".to_owned());
    }
    let others = conditions.iter().filter(|condition| condition["status"] != "True");
    let mut others: Vec<_> = others
        .map(|condition| condition["type"].as_str().unwrap_or("a nameless one"))
        .collect();
    others.sort_unstable();
    if others.is_empty() {
        None
    } else {
        Some(format!(
            "conditions of the target that are not True: {}",
            others.join(", ")
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ReadinessPolicy::{AllTrue, DeriveFromObject, SuccessfulCreate};
    use patchbay_sdk::json;

    fn ready(policy: ReadinessPolicy, conditions: Value) -> Condition {
        condition(policy, &json!({"status": {"conditions": conditions}}))
    }

    fn unavailable(message: &str) -> Condition {
        Condition::is_false("Ready", "Unavailable").message(message)
    }

    #[test]
    fn a_target_that_is_there_is_enough_by_default() {
        let available = Condition::is_true("Ready", "Available");
        assert_eq!(condition(SuccessfulCreate, &json!({})), available);
        assert_eq!(
            ready(SuccessfulCreate, json!([{"type": "Ready", "status": "False"}])),
            available
        );
    }

    #[test]
    fn derive_from_object_follows_the_condition_ready() {
        for (conditions, expected) in [
            (
                json!([{"type": "Ready", "status": "True"}]),
                Condition::is_true("Ready", "Available"),
            ),
            (
                json!([{"type": "Ready", "status": "False"}]),
                unavailable("the target's condition Ready is not True"),
            ),
            (
                json!([{"type": "Ready", "status": "Unknown"}]),
                unavailable("the target's condition Ready is not True"),
            ),
            (
                json!([{"type": "Complete", "status": "True"}]),
                unavailable("the target has no condition Ready"),
            ),
            (json!(null), unavailable("the target has no condition Ready")),
        ] {
            assert_eq!(ready(DeriveFromObject, conditions), expected);
        }
    }

    #[test]
    fn all_true_needs_one_condition_and_all_of_them() {
        for (conditions, expected) in [
            (
                json!([{"type": "A", "status": "True"}, {"type": "B", "status": "True"}]),
                Condition::is_true("Ready", "Available"),
            ),
            (
                json!([{"type": "C", "status": "False"}, {"type": "A", "status": "True"}, {"type": "B", "status": "Unknown"}]),
                unavailable("conditions of the target that are not True: B, C"),
            ),
            (json!([]), unavailable("the target has no conditions")),
            (json!(null), unavailable("the target has no conditions")),
        ] {
            assert_eq!(ready(AllTrue, conditions), expected);
        }
    }
}
