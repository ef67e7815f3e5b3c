//! The tasks that watch, read and connect for the driver.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use patchbay_cluster::{Connection, Pool, RawObject, WatchMessage, read, watch};
use patchbay_core::{
    Change, ClusterId, Failure, FailureReason, Fields, Kind, KubeconfigKey, ObjectKey, ReadId, ReadRequest, State,
    WatchId, WatchKey,
};
use patchbay_fieldpath::FieldPath;
use serde_json::Value;
use tokio::sync::mpsc::Sender;
use tokio::task::AbortHandle;

use crate::messages::{Message, ReadFailed, ReadObjects};

pub(crate) fn start_watch(
    connection: Arc<Connection>,
    id: WatchId,
    key: WatchKey,
    driver: Sender<Message>,
) -> AbortHandle {
    let task = tokio::spawn(async move {
        let tell = |message: WatchMessage| {
            let driver = driver.clone();
            async move { driver.send(Message::Watch(id, message)).await.is_ok() }
        };
        watch(connection, key, tell).await;
    });
    task.abort_handle()
}

pub(crate) fn start_read(connection: Arc<Connection>, id: ReadId, request: ReadRequest, driver: Sender<Message>) {
    tokio::spawn(async move {
        let answer = match read(&connection, &request).await {
            Err(error) => Err(error.failure()),
            Ok(answer) => {
                let objects = answer.objects.iter().map(|object| {
                    let variants = object.variants(&request.kind, &request.fields)?;
                    Ok((object.name.clone(), object.metadata.clone(), variants))
                });
                let objects: Result<Vec<_>, String> = objects.collect();
                objects
                    .map(|objects| ReadObjects {
                        version: answer.version,
                        objects,
                    })
                    .map_err(|problem| garbage(connection.name(), &request.kind, &problem))
            }
        };
        let answer = answer.map_err(|failure| ReadFailed {
            cluster: request.cluster,
            kind: request.kind,
            failure,
        });
        let _ = driver.send(Message::Read(id, answer)).await;
    });
}

/// A change to an object that is there. An object whose metadata could be read but not the rest does not occur: the API
/// server checks JSON before it stores it.
pub(crate) fn present(object: &RawObject, key: ObjectKey, wanted: &[Fields]) -> Option<Change> {
    match object.variants(&key.kind, wanted) {
        Ok(variants) => Some(Change {
            object: key,
            state: State::Present {
                metadata: object.metadata.clone(),
                variants,
            },
        }),
        Err(problem) => {
            tracing::error!(kind = %key.kind, name = %key.name, problem, "an event was dropped: its object cannot be read");
            None
        }
    }
}

pub(crate) fn start_connection(
    pool: Arc<Pool>,
    cluster: ClusterId,
    attempt: u64,
    source: KubeconfigKey,
    secret: Arc<str>,
    driver: Sender<Message>,
) {
    tokio::spawn(async move {
        let name = format!("of Secret {}/{}", source.namespace, source.name);
        let connection = match kubeconfig(&source, &secret) {
            Err(message) => Err(Failure::new(FailureReason::Unreachable, message)),
            Ok(kubeconfig) => pool
                .connect(&name, &kubeconfig)
                .await
                .map_err(|error| Failure::new(FailureReason::Unreachable, error.to_string())),
        };
        let _ = driver.send(Message::Connected(cluster, attempt, connection)).await;
    });
}

/// The kubeconfig in a Secret. No message shows any of it.
fn kubeconfig(source: &KubeconfigKey, secret: &str) -> Result<String, String> {
    let place = format!("kubeconfig Secret {}/{}", source.namespace, source.name);
    let path = FieldPath::parse(&format!("data['{}']", source.key))
        .map_err(|_| format!("{place}: {:?} is no key that a Secret can have", source.key))?;
    let secret: Value = serde_json::from_str(secret).map_err(|_| format!("{place} cannot be read"))?;
    let encoded = path.get(&secret).ok().and_then(Value::as_str).ok_or_else(|| {
        format!(
            "{place} has no key {:?}: add it, or name another in secretRef.key",
            source.key
        )
    })?;
    let bytes = STANDARD
        .decode(encoded)
        .map_err(|_| format!("{place} key {:?} is not base64", source.key))?;
    String::from_utf8(bytes).map_err(|_| format!("{place} key {:?} is no text", source.key))
}

fn garbage(cluster: &str, kind: &Kind, problem: &str) -> Failure {
    Failure::new(
        FailureReason::Unreachable,
        format!("cluster {cluster}: {kind} cannot be read: {problem}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_without_the_key_is_named_and_not_shown() {
        let source = KubeconfigKey {
            home: ClusterId::HOST,
            namespace: "n".into(),
            name: "s".into(),
            key: "kubeconfig".into(),
        };
        let secret = r#"{"data":{"other":"aHVudGVyMg=="}}"#;
        let error = kubeconfig(&source, secret).expect_err("no such key");
        assert!(
            error.contains("n/s") && error.contains("kubeconfig") && !error.contains("aHVudGVyMg"),
            "{error}"
        );
        assert_eq!(
            kubeconfig(&source, r#"{"data":{"kubeconfig":"YTogYg=="}}"#).as_deref(),
            Ok("a: b")
        );
    }
}
