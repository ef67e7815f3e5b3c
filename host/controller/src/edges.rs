//! The tasks that watch, read and connect for the driver.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use patchbay_cluster::{Connection, Error, Page, Pool, RawObject, Reader, WatchMessage, watch};
use patchbay_core::{
    Change, ClusterId, Failure, FailureReason, Fields, KubeconfigKey, ObjectKey, ReadId, ReadRequest, ReadScope, State,
    Version, WatchId, WatchKey,
};
use patchbay_fieldpath::FieldPath;
use serde_json::Value;
use tokio::sync::mpsc::Sender;
use tokio::sync::oneshot;
use tokio::task::AbortHandle;

use crate::messages::{Message, ReadFailed};

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
        let reading = Reading {
            connection: &connection,
            id,
            request: &request,
            driver: &driver,
        };
        let message = match reading.run().await {
            Ok(version) => Message::ReadDone(id, version),
            Err(Unread::Unheard) => return,
            Err(Unread::Failed(failure)) => Message::ReadFailed(
                id,
                ReadFailed {
                    cluster: request.cluster,
                    kind: request.kind,
                    failure,
                },
            ),
        };
        let _ = driver.send(message).await;
    });
}

/// A read under way. It goes on to the next page when the driver has taken the one before.
struct Reading<'a> {
    connection: &'a Connection,
    id: ReadId,
    request: &'a ReadRequest,
    driver: &'a Sender<Message>,
}

/// Why a read was not completed.
enum Unread {
    Failed(Failure),
    /// There is no driver any longer.
    Unheard,
}

impl From<Error> for Unread {
    fn from(error: Error) -> Self {
        Unread::Failed(error.failure())
    }
}

impl Reading<'_> {
    /// Reads and tells all pages. Gives back the version of the collection that they show.
    async fn run(&self) -> Result<Version, Unread> {
        let mut reader = Reader::new(self.connection, self.request).await?;
        let (mut version, mut told) = (Version::default(), false);
        loop {
            match reader.next().await {
                Ok(None) => return Ok(version),
                Ok(Some(page)) => {
                    version = page.version;
                    told |= self.tell(page).await?;
                }
                // Of a list that was told in part, the rest must be of the same version.
                Err(error) if error.is_expired() && !told && reader.restart() => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Tells a page, reduced to what somebody wants of it. Gives back whether there was anything to tell.
    async fn tell(&self, page: Page) -> Result<bool, Unread> {
        let wanted = self.wanted(&page.objects).await?;
        let objects = page.objects.iter().zip(&wanted);
        let objects: Vec<_> = objects
            .filter(|(_, wanted)| self.is_told(wanted))
            .map(|(object, wanted)| {
                let variants = object
                    .variants(&self.request.kind, wanted)
                    .map_err(|problem| self.garbage(&problem))?;
                Ok((object.name.clone(), object.metadata.clone(), variants))
            })
            .collect::<Result<_, Unread>>()?;
        let told = !objects.is_empty();
        if told {
            self.send(Message::ReadPage(self.id, page.version, objects)).await?;
        }
        Ok(told)
    }

    /// An object that is asked for by its name is told even if nobody wants it any longer: otherwise core would take it for
    /// one that is not there.
    fn is_told(&self, wanted: &[Fields]) -> bool {
        !wanted.is_empty() || matches!(self.request.scope, ReadScope::Named(_))
    }

    async fn wanted(&self, objects: &[RawObject]) -> Result<Vec<Vec<Fields>>, Unread> {
        let objects = objects
            .iter()
            .map(|object| (self.request.object(&object.name), object.metadata.clone()))
            .collect();
        let (reply, wanted) = oneshot::channel();
        self.send(Message::Wanted { objects, reply }).await?;
        wanted.await.map_err(|_| Unread::Unheard)
    }

    async fn send(&self, message: Message) -> Result<(), Unread> {
        self.driver.send(message).await.map_err(|_| Unread::Unheard)
    }

    fn garbage(&self, problem: &str) -> Unread {
        let (cluster, kind) = (self.connection.name(), &self.request.kind);
        let message = format!("cluster {cluster}: {kind} cannot be read: {problem}");
        Unread::Failed(Failure::new(FailureReason::Unreachable, message))
    }
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
            tracing::error!(kind = %key.kind, problem, "an event was dropped: its object cannot be read");
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
