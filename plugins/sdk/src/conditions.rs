//! Conditions as most Kubernetes kinds have them in `status.conditions`.

use serde_json::{Map, Value};

/// A condition that is to be set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    kind: String,
    status: &'static str,
    reason: String,
    message: String,
    observed_generation: Option<i64>,
}

impl Condition {
    /// The condition `kind` is true. `reason` is one word in CamelCase.
    pub fn is_true(kind: impl Into<String>, reason: impl Into<String>) -> Self {
        Condition::new(kind, "True", reason)
    }

    /// The condition `kind` is false. `reason` is one word in CamelCase.
    pub fn is_false(kind: impl Into<String>, reason: impl Into<String>) -> Self {
        Condition::new(kind, "False", reason)
    }

    /// Whether the condition `kind` is true is not known. `reason` is one word in CamelCase.
    pub fn is_unknown(kind: impl Into<String>, reason: impl Into<String>) -> Self {
        Condition::new(kind, "Unknown", reason)
    }

    fn new(kind: impl Into<String>, status: &'static str, reason: impl Into<String>) -> Self {
        Condition {
            kind: kind.into(),
            status,
            reason: reason.into(),
            message: String::new(),
            observed_generation: None,
        }
    }

    /// Explains it to people.
    #[must_use]
    pub fn message(mut self, message: impl Into<String>) -> Self {
        self.message = message.into();
        self
    }

    /// The primary's generation that it was decided for.
    #[must_use]
    pub fn observed_generation(mut self, generation: Option<i64>) -> Self {
        self.observed_generation = generation;
        self
    }
}

/// Sets a condition in `status.conditions`, in the place of one of the same type or behind the others.
///
/// `lastTransitionTime` stays if the condition's status does; otherwise there is none, and the host fills it in.
/// `status` becomes an object, and its `conditions` a list, if they are not.
pub fn set(status: &mut Value, condition: Condition) {
    let mut new = Map::new();
    new.insert("type".to_owned(), condition.kind.as_str().into());
    new.insert("status".to_owned(), condition.status.into());
    new.insert("reason".to_owned(), condition.reason.into());
    if !condition.message.is_empty() {
        new.insert("message".to_owned(), condition.message.into());
    }
    if let Some(generation) = condition.observed_generation {
        new.insert("observedGeneration".to_owned(), generation.into());
    }
    if !status.is_object() {
        *status = Value::Object(Map::new());
    }
    let mut conditions = match status["conditions"].take() {
        Value::Array(conditions) => conditions,
        _ => Vec::new(),
    };
    match conditions.iter_mut().find(|old| old["type"] == condition.kind.as_str()) {
        Some(old) => {
            if old["status"] == condition.status
                && let Some(time) = old.get("lastTransitionTime")
            {
                new.insert("lastTransitionTime".to_owned(), time.clone());
            }
            *old = Value::Object(new);
        }
        None => conditions.push(Value::Object(new)),
    }
    status["conditions"] = Value::Array(conditions);
}

/// The condition of this type in a status.
pub fn get<'s>(status: &'s Value, kind: &str) -> Option<&'s Value> {
    status["conditions"]
        .as_array()?
        .iter()
        .find(|condition| condition["type"] == kind)
}

/// Whether a status has this condition and it is true.
pub fn is_true(status: &Value, kind: &str) -> bool {
    get(status, kind).is_some_and(|condition| condition["status"] == "True")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_condition_is_added_and_others_stay() {
        let mut status = json!({"other": 1, "conditions": [{"type": "Synced", "status": "True"}]});
        set(
            &mut status,
            Condition::is_false("Ready", "Creating")
                .message("not yet")
                .observed_generation(Some(2)),
        );
        assert_eq!(
            status,
            json!({"other": 1, "conditions": [
                {"type": "Synced", "status": "True"},
                {"type": "Ready", "status": "False", "reason": "Creating", "message": "not yet", "observedGeneration": 2},
            ]})
        );
    }

    #[test]
    fn the_time_stays_while_the_status_does() {
        let mut status = json!({"conditions": [
            {"type": "Ready", "status": "True", "reason": "A", "lastTransitionTime": "2026-01-01T00:00:00Z"},
            {"type": "Synced", "status": "True"},
        ]});
        set(&mut status, Condition::is_true("Ready", "B"));
        let ready = get(&status, "Ready").unwrap();
        assert_eq!(ready["lastTransitionTime"], "2026-01-01T00:00:00Z");
        assert_eq!(ready["reason"], "B");
        assert_eq!(status["conditions"][0]["type"], "Ready", "it keeps its place");

        set(&mut status, Condition::is_false("Ready", "C"));
        assert_eq!(get(&status, "Ready").unwrap().get("lastTransitionTime"), None);
    }

    #[test]
    fn a_status_of_another_type_is_replaced() {
        for mut status in [
            json!(null),
            json!("text"),
            json!({"conditions": null}),
            json!({"conditions": {"a": 1}}),
        ] {
            set(&mut status, Condition::is_unknown("Ready", "New"));
            assert_eq!(
                status["conditions"],
                json!([{"type": "Ready", "status": "Unknown", "reason": "New"}])
            );
        }
    }

    #[test]
    fn conditions_are_read() {
        let status =
            json!({"conditions": [{"type": "Ready", "status": "True"}, {"type": "Synced", "status": "False"}]});
        assert!(is_true(&status, "Ready"));
        assert!(!is_true(&status, "Synced"));
        assert!(!is_true(&status, "Missing"));
        assert!(!is_true(&json!(null), "Ready"));
    }
}
