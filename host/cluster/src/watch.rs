//! Watches: begun without a list, resumed after gaps, given up when they cannot be.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt};
use kube::core::Request;
use kube::core::params::WatchParams;
use kube::core::response::Status;
use patchbay_core::{Failure, FailureReason, Scope, Version, WatchKey};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::connection::{Connection, in_time};
use crate::error::Error;
use crate::object::{RawObject, problem};
use crate::read::collection_version;

/// What a watch tells.
#[derive(Debug)]
pub enum WatchMessage {
    /// Every change after this version will be told.
    Stands(Version),
    /// An object was added or changed.
    Changed(RawObject),
    /// An object was deleted; this is its last state, at the version of its deletion.
    Deleted(RawObject),
    /// Changes may have been missed, and the watch must be begun anew. It has ended.
    Expired,
    /// It cannot be begun, or has not come back for a while. It has ended.
    Failed(Failure),
}

/// Asks the API server to end a stream after so many seconds, before load balancers do it less politely.
const STREAM_SECONDS: u32 = 290;
/// Bookmarks come every minute or so. A stream that is silent for longer than two of them is taken for dead.
const SILENCE: Duration = Duration::from_secs(150);
/// Bytes of one line. etcd takes no object of more than 1.5 MiB unless told to.
const LONGEST: u64 = 16 << 20;
/// How long a watch that stood may be gone before those who depend on it are told.
const PATIENCE: Duration = Duration::from_secs(10);
/// The delay before the first and before any later attempt to resume.
const RESUME_FIRST: Duration = Duration::from_millis(50);
const RESUME_MOST: Duration = Duration::from_secs(2);
/// A stream that ends sooner than this did not end as it should.
const SHORT: Duration = Duration::from_secs(1);

/// How one stream ended.
enum Ended {
    /// As it should; it goes on from its last version.
    Normally,
    /// Broken off, or with a message that makes no sense.
    Broken(Error),
    /// The listener has gone.
    Unheard,
    Expired,
}

/// Watches until it expires, fails or nobody listens any longer. `tell` gives back whether somebody still does, and may
/// take its time: the stream waits.
pub async fn watch<T, F>(connection: Arc<Connection>, key: WatchKey, tell: T)
where
    T: Fn(WatchMessage) -> F + Send + Sync,
    F: Future<Output = bool> + Send,
{
    let ended = Watch {
        connection: &connection,
        key: &key,
        tell: &tell,
    }
    .run()
    .await;
    if let Some(message) = ended {
        tell(message).await;
    }
}

struct Watch<'a, T> {
    connection: &'a Connection,
    key: &'a WatchKey,
    tell: &'a T,
}

impl<T, F> Watch<'_, T>
where
    T: Fn(WatchMessage) -> F + Send + Sync,
    F: Future<Output = bool> + Send,
{
    async fn run(&self) -> Option<WatchMessage> {
        let (path, mut version) = match self.begin().await {
            Ok(begun) => begun,
            Err(error) => return Some(self.given_up(&error).await),
        };
        let mut stands = false;
        let mut broken_since: Option<Instant> = None;
        let mut delay = RESUME_FIRST;
        loop {
            let opened = Instant::now();
            let ended = match self.open(&path, version).await {
                Ok(stream) => {
                    if !stands && !(self.tell)(WatchMessage::Stands(version)).await {
                        return None;
                    }
                    stands = true;
                    broken_since = None;
                    self.follow(stream, &mut version).await
                }
                Err(error) if error.is_expired() => Ended::Expired,
                Err(error) => Ended::Broken(error),
            };
            // Whatever makes streams end as soon as they begin must not make this spin.
            let short = opened.elapsed() < SHORT;
            match ended {
                Ended::Unheard => return None,
                Ended::Expired => {
                    if short {
                        tokio::time::sleep(RESUME_MOST).await;
                    }
                    return Some(WatchMessage::Expired);
                }
                Ended::Normally if !short => delay = RESUME_FIRST,
                Ended::Normally => self.pause(&mut delay).await,
                Ended::Broken(error) => {
                    let since = *broken_since.get_or_insert_with(Instant::now);
                    let refused = error.reason() != FailureReason::Unreachable;
                    if !stands || refused || since.elapsed() > PATIENCE {
                        return Some(self.given_up(&error).await);
                    }
                    tracing::debug!(cluster = self.connection.name(), kind = %self.key.kind, %error, "watch broken off");
                    self.pause(&mut delay).await;
                }
            }
            // A server whose data were restored says nothing of it: it only counts from lower on.
            if let Ok(now) = collection_version(self.connection, &path).await
                && now < version
            {
                return Some(WatchMessage::Expired);
            }
        }
    }

    async fn pause(&self, delay: &mut Duration) {
        tokio::time::sleep(delay.mul_f64(0.5 + fastrand::f64())).await;
        *delay = (*delay * 2).min(RESUME_MOST);
    }

    /// Finds where to watch, and the version to begin from, without listing anything but one object's metadata.
    async fn begin(&self) -> Result<(String, Version), Error> {
        let resource = self.connection.resource(&self.key.kind).await?;
        let path = match &self.key.scope {
            Scope::All => resource.path(None)?,
            Scope::Namespace(name) if resource.namespaced => resource.path(Some(name))?,
            Scope::Namespace(_) => {
                let cluster = self.connection.name();
                let kind = &self.key.kind;
                let message = format!("{kind} in cluster {cluster} is cluster-scoped: leave the namespace out");
                return Err(Error::Invalid(message));
            }
        };
        let version = collection_version(self.connection, &path).await?;
        Ok((path, version))
    }

    async fn given_up(&self, error: &Error) -> WatchMessage {
        self.connection.forget_unserved(&self.key.kind, error).await;
        WatchMessage::Failed(error.failure())
    }

    async fn open(&self, path: &str, version: Version) -> Result<impl AsyncBufRead + Unpin + use<T, F>, Error> {
        // Streams that were opened together should not end together.
        let params = WatchParams::default().timeout(STREAM_SECONDS - fastrand::u32(0..30));
        let request = Request::new(path)
            .watch(&params, &version.to_string())
            .map_err(|error| self.connection.failed(kube::Error::BuildRequest(error)))?;
        let stream = in_time(self.connection.name(), self.connection.client.request_stream(request)).await?;
        Ok(Box::pin(stream))
    }

    async fn follow(&self, mut stream: impl AsyncBufRead + Unpin, version: &mut Version) -> Ended {
        let mut line = Vec::new();
        loop {
            line.clear();
            let mut bounded = (&mut stream).take(LONGEST);
            match tokio::time::timeout(SILENCE, bounded.read_until(b'\n', &mut line)).await {
                Ok(Ok(0)) => return Ended::Normally,
                Ok(Ok(_)) => {}
                Ok(Err(error)) => return Ended::Broken(self.connection.protocol(error)),
                Err(_) => return Ended::Broken(self.connection.protocol("the watch went silent")),
            }
            // The end of a stream may cut a line in two; what it told will be told again.
            if line.last() != Some(&b'\n') {
                let cut_off = line.len() as u64 >= LONGEST;
                return if cut_off {
                    Ended::Broken(self.connection.protocol("a line of the watch has no end"))
                } else {
                    Ended::Normally
                };
            }
            match self.event(&line) {
                // Versions only grow, unless the server's data were restored.
                Ok(Event::Bookmark(at) | Event::Tell(at, _)) if at < *version => return Ended::Expired,
                Ok(Event::Bookmark(at)) => *version = at,
                Ok(Event::Tell(at, message)) => {
                    *version = at;
                    if !(self.tell)(message).await {
                        return Ended::Unheard;
                    }
                }
                Ok(Event::Expired) => return Ended::Expired,
                Err(error) => return Ended::Broken(error),
            }
        }
    }

    fn event(&self, line: &[u8]) -> Result<Event, Error> {
        let garbage = |problem: String| self.connection.protocol(problem);
        let event: Line<'_> = serde_json::from_slice(line).map_err(|error| garbage(problem(&error)))?;
        let object = |text: &RawValue| RawObject::parse(text.get()).map_err(garbage);
        Ok(match event.r#type {
            "ADDED" | "MODIFIED" => {
                let object = object(event.object)?;
                Event::Tell(object.metadata.version, WatchMessage::Changed(object))
            }
            "DELETED" => {
                let object = object(event.object)?;
                Event::Tell(object.metadata.version, WatchMessage::Deleted(object))
            }
            "BOOKMARK" => {
                let bookmark: Bookmark =
                    serde_json::from_str(event.object.get()).map_err(|error| garbage(problem(&error)))?;
                let version = Version::parse(&bookmark.metadata.resource_version);
                Event::Bookmark(version.map_err(|_| garbage("a bookmark without a version".to_owned()))?)
            }
            "ERROR" => {
                let status: Status =
                    serde_json::from_str(event.object.get()).map_err(|error| garbage(problem(&error)))?;
                if status.code == 410 {
                    return Ok(Event::Expired);
                }
                return Err(self.connection.failed(kube::Error::Api(status.boxed())));
            }
            other => return Err(garbage(format!("a watch event of type {other:?}"))),
        })
    }
}

enum Event {
    Tell(Version, WatchMessage),
    Bookmark(Version),
    Expired,
}

#[derive(Deserialize)]
struct Line<'a> {
    r#type: &'a str,
    #[serde(borrow)]
    object: &'a RawValue,
}

#[derive(Deserialize)]
struct Bookmark {
    metadata: BookmarkMetadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BookmarkMetadata {
    resource_version: String,
}
