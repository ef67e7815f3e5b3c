//! Watches: begun without a list, resumed after gaps, given up when they cannot be.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::AsyncBufRead;
use patchbay_core::{Failure, FailureReason, Version, WatchKey};

use crate::collection::Collection;
use crate::connection::Connection;
use crate::error::Error;
use crate::object::RawObject;
use crate::pages::version_now;
use crate::stream::{End, Event, Stream, open};

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
/// How long a watch that stood may be gone before those who depend on it are told.
const PATIENCE: Duration = Duration::from_secs(10);
/// The delay before the first and before any later attempt to resume.
const RESUME_FIRST: Duration = Duration::from_millis(50);
const RESUME_MOST: Duration = Duration::from_secs(2);
/// A stream that ends sooner than this did not end as it should.
const SHORT: Duration = Duration::from_secs(1);

/// Watches until it expires, fails or nobody listens any longer. `tell` gives back whether somebody still does, and may
/// take its time: the stream waits.
pub async fn watch<T, F>(connection: Arc<Connection>, key: WatchKey, tell: T)
where
    T: Fn(WatchMessage) -> F + Send + Sync,
    F: Future<Output = bool> + Send,
{
    let Err(last) = run(&connection, &key, &tell).await;
    if let Some(message) = last.message(&connection, &key).await {
        tell(message).await;
    }
}

/// Why a watch is over.
enum Last {
    Unheard,
    Expired,
    Failed(Error),
}

impl Last {
    async fn message(self, connection: &Connection, key: &WatchKey) -> Option<WatchMessage> {
        match self {
            Last::Unheard => None,
            Last::Expired => Some(WatchMessage::Expired),
            Last::Failed(error) => {
                let error = connection.unserved(&key.kind, error).await;
                Some(WatchMessage::Failed(error.failure()))
            }
        }
    }
}

/// Finds where to watch, and the version to begin from, without listing anything but one object's metadata.
async fn run<T, F>(connection: &Connection, key: &WatchKey, tell: &T) -> Result<Infallible, Last>
where
    T: Fn(WatchMessage) -> F + Send + Sync,
    F: Future<Output = bool> + Send,
{
    let collection = Collection::find(connection, &key.kind, key.scope.clone(), key.content).await;
    let collection = collection.map_err(Last::Failed)?;
    let version = version_now(connection, &collection).await.map_err(Last::Failed)?;
    let watch = Watch {
        connection,
        collection: &collection,
        tell,
        version,
        opened: Instant::now(),
        stands: false,
        delay: RESUME_FIRST,
        broken_since: None,
        garbage_after: None,
    };
    watch.run().await
}

struct Watch<'a, T> {
    connection: &'a Connection,
    collection: &'a Collection,
    tell: &'a T,
    /// Everything up to here has been told.
    version: Version,
    /// When its stream was opened.
    opened: Instant,
    stands: bool,
    delay: Duration,
    /// Since when it has not come back for good.
    broken_since: Option<Instant>,
    /// Where it met with garbage.
    garbage_after: Option<Version>,
}

impl<T, F> Watch<'_, T>
where
    T: Fn(WatchMessage) -> F + Send + Sync,
    F: Future<Output = bool> + Send,
{
    async fn run(mut self) -> Result<Infallible, Last> {
        loop {
            let from = self.version;
            self.opened = Instant::now();
            let end = self.stream().await?;
            if !self.is_short() || self.version > from {
                self.broken_since = None;
            }
            match end {
                End::Normal if !self.is_short() => self.delay = RESUME_FIRST,
                End::Normal => self.pause().await,
                End::Broken(error) if error.is_expired() => self.expire().await?,
                End::Broken(error) => self.broken(error).await?,
                End::Garbage(error) => self.garbled(error).await?,
            }
            // A server whose data were restored says nothing of it: it only counts from lower on.
            if let Ok(now) = version_now(self.connection, self.collection).await
                && now < self.version
            {
                self.expire().await?;
            }
        }
    }

    /// Follows one stream to its end.
    async fn stream(&mut self) -> Result<End, Last> {
        // Streams that were opened together should not end together.
        let seconds = STREAM_SECONDS - fastrand::u32(0..30);
        match open(self.connection, self.collection, self.version, seconds).await {
            Err(error) => Ok(End::Broken(error)),
            Ok(stream) => {
                if !self.stands {
                    self.tell(WatchMessage::Stands(self.version)).await?;
                }
                self.stands = true;
                self.follow(stream).await
            }
        }
    }

    async fn follow(&mut self, mut stream: Stream<'_, impl AsyncBufRead + Unpin>) -> Result<End, Last> {
        loop {
            let (version, message) = match stream.next().await {
                Ok(Event::Changed(object)) => (object.metadata.version, Some(WatchMessage::Changed(object))),
                Ok(Event::Deleted(object)) => (object.metadata.version, Some(WatchMessage::Deleted(object))),
                Ok(Event::Bookmark(version)) => (version, None),
                Err(end) => return Ok(end),
            };
            // Versions only grow, unless the server's data were restored.
            if version < self.version {
                self.expire().await?;
            }
            self.version = version;
            if let Some(message) = message {
                self.tell(message).await?;
            }
        }
    }

    async fn tell(&self, message: WatchMessage) -> Result<(), Last> {
        if (self.tell)(message).await {
            Ok(())
        } else {
            Err(Last::Unheard)
        }
    }

    async fn broken(&mut self, error: Error) -> Result<(), Last> {
        let since = *self.broken_since.get_or_insert_with(Instant::now);
        let refused = error.reason() != FailureReason::Unreachable;
        if !self.stands || refused || since.elapsed() > PATIENCE {
            return Err(Last::Failed(error));
        }
        let (cluster, kind) = (self.connection.name(), &self.collection.kind);
        tracing::debug!(cluster, %kind, %error, "watch broken off");
        self.pause().await;
        Ok(())
    }

    /// Something in between may garble a stream once. What is garbage twice at the same place will be so again.
    async fn garbled(&mut self, error: Error) -> Result<(), Last> {
        if self.garbage_after.replace(self.version) == Some(self.version) {
            return Err(Last::Failed(error));
        }
        self.broken(error).await
    }

    /// Whatever makes streams end as soon as they begin must not make this spin.
    fn is_short(&self) -> bool {
        self.opened.elapsed() < SHORT
    }

    async fn expire(&self) -> Result<(), Last> {
        if self.is_short() {
            tokio::time::sleep(RESUME_MOST).await;
        }
        Err(Last::Expired)
    }

    async fn pause(&mut self) {
        tokio::time::sleep(self.delay.mul_f64(0.5 + fastrand::f64())).await;
        self.delay = (self.delay * 2).min(RESUME_MOST);
    }
}
