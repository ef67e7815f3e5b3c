//! The object that a run is about.

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::object::parse;
use crate::{Failure, Object, Purpose, WriteAction, WriteFailure, WriteResult, WriteState};

/// The object that a run is about, with what the plugin is told beside it.
#[derive(Clone, Debug, PartialEq)]
pub struct Primary {
    /// The object itself.
    pub object: Object,
    /// The object whose outcome asked for the controller that this primary belongs to.
    pub parent: Option<Object>,
    /// What became of the writes of the last run, in their order. Empty in the first run after a start.
    pub last_writes: Vec<WriteResult>,
    /// Whether `reconcile` or `finalize` comes after `references`.
    pub purpose: Purpose,
    /// The plugin's configuration, an object.
    pub config: Value,
    /// Seconds since 1970 at the begin of the run. Plugins have no other clock.
    pub time: u64,
}

impl Primary {
    /// `metadata.name`.
    pub fn name(&self) -> &str {
        self.object.name()
    }

    /// `metadata.namespace`; absent for primaries of cluster-scoped kinds.
    pub fn namespace(&self) -> Option<&str> {
        self.object.namespace()
    }

    /// `metadata.generation`, which counts the changes of `spec`.
    pub fn generation(&self) -> Option<i64> {
        self.object.generation()
    }

    /// Whether the primary is being deleted.
    pub fn is_deleting(&self) -> bool {
        self.object.is_deleting()
    }

    /// The value of an annotation.
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.object.annotation(key)
    }

    /// `spec` as a type of the plugin's. An absent one counts as an empty object.
    ///
    /// # Errors
    /// A permanent failure that names the field that does not fit.
    pub fn spec<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        self.object.field("spec")
    }

    /// `status` as it is now; null before the first.
    pub fn status(&self) -> &Value {
        &self.object.value["status"]
    }

    /// The configuration as a type of the plugin's.
    ///
    /// # Errors
    /// A permanent failure that names the field that does not fit.
    pub fn config<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        parse(&self.config, "config")
    }

    /// The first write of the last run's outcome that failed, and why. The status is not counted: it is sent again by
    /// itself.
    pub fn failed_write(&self) -> Option<(&WriteResult, &WriteFailure)> {
        self.last_writes.iter().find_map(|write| match &write.state {
            WriteState::Failed(failure) if write.action != WriteAction::Status => Some((write, failure)),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ObjectReference, testing};
    use serde_json::json;

    fn result(action: WriteAction, name: &str, state: WriteState) -> WriteResult {
        WriteResult {
            action,
            object: ObjectReference::new("v1", "ConfigMap", name),
            state,
        }
    }

    fn failed(message: &str) -> WriteState {
        WriteState::Failed(WriteFailure {
            code: 422,
            reason: "Invalid".into(),
            message: message.into(),
        })
    }

    #[test]
    fn the_first_failed_write_is_told() {
        let mut primary = testing::primary(json!({}));
        assert!(primary.failed_write().is_none());
        primary.last_writes = vec![
            result(WriteAction::Apply, "a", WriteState::Applied),
            result(WriteAction::Delete, "b", failed("first")),
            result(WriteAction::Apply, "c", WriteState::Skipped),
        ];
        let (write, failure) = primary.failed_write().unwrap();
        assert_eq!((write.object.name.as_str(), failure.message.as_str()), ("b", "first"));
    }

    #[test]
    fn a_failed_status_is_not_a_failed_write() {
        let mut primary = testing::primary(json!({}));
        primary.last_writes = vec![result(WriteAction::Status, "a", failed("conflict"))];
        assert!(primary.failed_write().is_none());
    }

    #[test]
    fn config_is_parsed() {
        #[derive(serde::Deserialize)]
        struct Config {
            #[serde(default)]
            loud: bool,
        }
        let mut primary = testing::primary(json!({}));
        assert!(!primary.config::<Config>().unwrap().loud);
        primary.config = json!({"loud": "yes"});
        assert!(
            primary
                .config::<Config>()
                .err()
                .unwrap()
                .message
                .starts_with("config.loud: ")
        );
    }
}
