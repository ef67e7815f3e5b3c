//! Kubernetes Events about primaries.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use kube::Client;
use kube::runtime::events::{self, Event, EventType, Reporter};
use patchbay_core::{Kind, ObjectName};

use crate::connection::Connection;
use crate::error::WriteError;

/// For so long equal events are one.
const EQUAL: Duration = Duration::from_secs(6 * 60);

/// How much an event matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// As it should be.
    Normal,
    /// Somebody should look.
    Warning,
}

/// Sends events in the name of a controller. Equal events within six minutes become one with a count.
#[derive(Clone)]
pub struct Recorder {
    client: Client,
    reporter: Reporter,
    /// A recorder of kube's takes events for equal that differ in nothing but their note, and then keeps the first one's. So each
    /// note has one of its own.
    by_note: Arc<Mutex<HashMap<u64, (events::Recorder, Instant)>>>,
    /// When it was last said that events cannot be sent.
    complained: Arc<Mutex<Option<Instant>>>,
}

/// How long nothing is said after it was said that an event cannot be sent.
const QUIET: Duration = Duration::from_secs(60);

impl Recorder {
    /// Whether it is time to say that an event cannot be sent: there may be one for each run.
    pub fn may_complain(&self) -> bool {
        let mut complained = self.complained.lock().unwrap_or_else(PoisonError::into_inner);
        let may = complained.is_none_or(|at| at.elapsed() >= QUIET);
        if may {
            *complained = Some(Instant::now());
        }
        may
    }

    fn for_note(&self, uid: &str, reason: &str, note: &str) -> events::Recorder {
        let mut hasher = DefaultHasher::new();
        (uid, reason, note).hash(&mut hasher);
        let mut by_note = self.by_note.lock().unwrap_or_else(PoisonError::into_inner);
        by_note.retain(|_, (_, last)| last.elapsed() < EQUAL);
        let new = || events::Recorder::new(self.client.clone(), self.reporter.clone());
        let (recorder, last) = by_note
            .entry(hasher.finish())
            .or_insert_with(|| (new(), Instant::now()));
        *last = Instant::now();
        recorder.clone()
    }
}

impl Connection {
    /// What sends events in the name of a controller.
    pub fn recorder(&self, controller: &str) -> Recorder {
        Recorder {
            client: self.client.clone(),
            reporter: Reporter {
                controller: controller.to_owned(),
                instance: std::env::var("POD_NAME").ok(),
            },
            by_note: Arc::default(),
            complained: Arc::default(),
        }
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
    let note = truncated(message);
    let recorder = recorder.for_note(uid, reason, &note);
    let event = Event {
        type_: match severity {
            Severity::Normal => EventType::Normal,
            Severity::Warning => EventType::Warning,
        },
        reason: reason.to_owned(),
        note: Some(note),
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
