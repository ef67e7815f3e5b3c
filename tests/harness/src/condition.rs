//! Conditions in the status of an object.

use std::fmt;

use kube::core::DynamicObject;

/// What one condition says.
#[derive(Debug, Clone, PartialEq)]
pub struct Condition {
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// One word.
    pub reason: String,
    /// For people.
    pub message: String,
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            status,
            reason,
            message,
        } = self;
        write!(f, "{status}, {reason}: {message}")
    }
}

/// The condition of a type, if the object has it.
pub fn condition(object: &DynamicObject, kind: &str) -> Option<Condition> {
    let conditions = object.data.pointer("/status/conditions")?.as_array()?;
    let condition = conditions.iter().find(|condition| condition["type"] == kind)?;
    let text = |field: &str| condition[field].as_str().unwrap_or_default().to_owned();
    Some(Condition {
        status: text("status"),
        reason: text("reason"),
        message: text("message"),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_condition_is_found_by_its_type() {
        let object = json!({"metadata": {}, "status": {"conditions": [
            {"type": "Synced", "status": "True", "reason": "ReconcileSuccess"},
            {"type": "Ready", "status": "False", "reason": "Creating", "message": "not yet"},
        ]}});
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        assert_eq!(
            condition(&object, "Ready").unwrap().to_string(),
            "False, Creating: not yet"
        );
        assert_eq!(condition(&object, "Absent"), None);
    }
}
