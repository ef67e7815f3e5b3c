//! Kubernetes Events about primaries.

use kube::runtime::events::{Event, EventType, Recorder, Reporter};

use crate::connection::Connection;
use crate::error::WriteError;
use patchbay_core::{Kind, ObjectName};

/// How much an event matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// As it should be.
    Normal,
    /// Somebody should look.
    Warning,
}

impl Connection {
    /// What sends events in the name of a controller. Equal events within six minutes become one with a count.
    pub fn recorder(&self, controller: &str) -> Recorder {
        let reporter = Reporter {
            controller: controller.to_owned(),
            instance: std::env::var("POD_NAME").ok(),
        };
        Recorder::new(self.client.clone(), reporter)
    }
}

/// Sends an event about an object.
///
/// # Errors
/// The API server refuses or cannot be reached.
pub async fn send(
    connection: &Connection,
    recorder: &Recorder,
    about: (&Kind, &ObjectName, &str),
    severity: Severity,
    reason: &str,
    message: &str,
) -> Result<(), WriteError> {
    let (kind, name, uid) = about;
    let event = Event {
        type_: match severity {
            Severity::Normal => EventType::Normal,
            Severity::Warning => EventType::Warning,
        },
        reason: reason.to_owned(),
        note: Some(truncated(message)),
        action: "Reconcile".to_owned(),
        secondary: None,
    };
    let reference = k8s_openapi::api::core::v1::ObjectReference {
        api_version: Some(kind.api_version.to_string()),
        kind: Some(kind.kind.to_string()),
        namespace: name.namespace.as_ref().map(ToString::to_string),
        name: Some(name.name.to_string()),
        uid: Some(uid.to_owned()),
        ..Default::default()
    };
    recorder
        .publish(&event, &reference)
        .await
        .map_err(|error| connection.failed(error).into())
}

/// The API server takes no note of more than 1,024 bytes.
fn truncated(message: &str) -> String {
    const MOST: usize = 1000;
    let end = message
        .char_indices()
        .map(|(at, c)| at + c.len_utf8())
        .take_while(|end| *end <= MOST)
        .last()
        .unwrap_or(0);
    if end < message.len() {
        format!("{}…", &message[..end])
    } else {
        message.to_owned()
    }
}
