//! A primary's status: complete with the times of its conditions, and sent only when it differs.

use patchbay_cluster::{Connection, WriteError};
use patchbay_plugin::contract::WriteAction;
use serde_json::{Map, Value};

use crate::apply::is_later;
use crate::report::{Report, failed, invalid};
use crate::worker::now;
use crate::writer::Writer;

impl Writer<'_> {
    /// Writes the primary's status, if it is another one.
    pub(crate) async fn write_status(&self, status: &str, report: &mut Report) {
        let wanted: Value = match serde_json::from_str(status) {
            Ok(status) => status,
            Err(error) => return self.status_failed(invalid(format!("the status is not JSON: {error}")), report),
        };
        let present = &self.primary["status"];
        let merged = merged_status(present, &wanted, &now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string());
        let time = self.last.and_then(|last| last.status_time.clone());
        report.last.status_time.clone_from(&time);
        if *present == merged {
            return;
        }
        let context = self.context;
        let connection: &Connection = &context.connection;
        match connection
            .apply_status(&context.kind, &context.key.name, &context.uid, &merged, &self.manager)
            .await
        {
            Ok(written) => {
                let now = written
                    .as_ref()
                    .and_then(|written| written.applied_at(&self.manager, Some("status")));
                // Where there was no status, nobody but this manager has made its own.
                let own = is_later(time.as_ref(), now.as_ref()) || (present.is_null() && now.is_some());
                report.last.status_time = now;
                report.note(&context.object, written, own);
            }
            // The primary has gone, and its status with it.
            Err(error) if error.code == 404 => {}
            Err(error) => self.status_failed(error, report),
        }
    }

    fn status_failed(&self, error: WriteError, report: &mut Report) {
        let error = self.masked(error);
        tracing::warn!(primary = %self.context.name(), %error, "the status could not be written");
        report.tell(WriteAction::Status, self.primary_reference(), failed(error));
    }
}

/// The status that a plugin wants, with `lastTransitionTime` in every condition that has none: that of the present status
/// while the condition's status is the same, `now` otherwise.
pub(crate) fn merged_status(present: &Value, wanted: &Value, now: &str) -> Value {
    let mut merged = wanted.clone();
    if let Some(conditions) = merged.get_mut("conditions").and_then(Value::as_array_mut) {
        for condition in conditions.iter_mut().filter_map(Value::as_object_mut) {
            if !condition.contains_key("lastTransitionTime") {
                let time = unchanged_since(present, condition).unwrap_or(now).into();
                condition.insert("lastTransitionTime".to_owned(), time);
            }
        }
    }
    merged
}

fn unchanged_since<'a>(present: &'a Value, condition: &Map<String, Value>) -> Option<&'a str> {
    let conditions = present.get("conditions")?.as_array()?;
    let before = conditions
        .iter()
        .find(|before| before.get("type") == condition.get("type"))?;
    (before.get("status") == condition.get("status")).then(|| before.get("lastTransitionTime")?.as_str())?
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_condition_keeps_its_time_until_its_status_changes() {
        let present = json!({"conditions": [
            {"type": "Ready", "status": "True", "reason": "Available", "lastTransitionTime": "2020-01-01T00:00:00Z"},
            {"type": "Synced", "status": "True", "lastTransitionTime": "2020-01-01T00:00:00Z"},
        ]});
        let wanted = json!({"conditions": [
            {"type": "Ready", "status": "True", "reason": "Other"},
            {"type": "Synced", "status": "False"},
            {"type": "New", "status": "True"},
            {"type": "Own", "status": "True", "lastTransitionTime": "2021-01-01T00:00:00Z"},
        ], "x": 1});
        let merged = merged_status(&present, &wanted, "2026-01-01T00:00:00Z");
        let times: Vec<_> = merged["conditions"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|condition| condition["lastTransitionTime"].as_str().expect("a time"))
            .collect();
        let (kept, now) = ("2020-01-01T00:00:00Z", "2026-01-01T00:00:00Z");
        assert_eq!(times, [kept, now, now, "2021-01-01T00:00:00Z"]);
        assert_eq!(
            merged_status(&merged, &wanted, "2030-01-01T00:00:00Z"),
            merged,
            "nothing changes by itself"
        );
    }
}
