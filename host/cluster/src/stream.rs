//! The lines of a watch, and what they say.

use std::time::Duration;

use futures::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt};
use kube::core::response::Status;
use patchbay_core::Version;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::collection::Collection;
use crate::connection::{Connection, in_time};
use crate::error::Error;
use crate::object::{RawObject, problem};

/// Bookmarks come every minute or so, so this is longer than two of them.
const SILENCE: Duration = Duration::from_secs(150);
/// Bytes of one line. etcd takes no object of more than 1.5 MiB unless told to.
const LONGEST: u64 = 16 << 20;

/// One stream of a watch.
pub(crate) struct Stream<'a, R> {
    connection: &'a Connection,
    collection: &'a Collection,
    lines: R,
    line: Vec<u8>,
    /// A stream that is silent for longer is taken for dead.
    silence: Duration,
}

/// What a line says.
pub(crate) enum Event {
    /// An object was added or changed.
    Changed(RawObject),
    /// An object was deleted.
    Deleted(RawObject),
    /// Nothing was missed up to this version.
    Bookmark(Version),
}

/// Why a stream says no more.
pub(crate) enum End {
    /// The API server ended it, as it does from time to time.
    Normal,
    /// It broke off, or the API server said that something is wrong.
    Broken(Error),
    /// It said what makes no sense, and would again.
    Garbage(Error),
}

/// Opens a stream of what changes after a version, which ends by itself after so many seconds.
pub(crate) async fn open<'a>(
    connection: &'a Connection,
    collection: &'a Collection,
    after: Version,
    seconds: u32,
) -> Result<Stream<'a, impl AsyncBufRead + Unpin + use<>>, Error> {
    let request = connection.built(collection.watch(after, seconds))?;
    let lines = in_time(connection.name(), connection.client.request_stream(request)).await?;
    Ok(Stream {
        connection,
        collection,
        lines: Box::pin(lines),
        line: Vec::new(),
        silence: SILENCE,
    })
}

impl<R: AsyncBufRead + Unpin> Stream<'_, R> {
    /// Waits for the next line.
    pub(crate) async fn next(&mut self) -> Result<Event, End> {
        self.line.clear();
        let mut bounded = (&mut self.lines).take(LONGEST);
        match tokio::time::timeout(self.silence, bounded.read_until(b'\n', &mut self.line)).await {
            Ok(Ok(0)) => return Err(End::Normal),
            Ok(Ok(_)) => {}
            Ok(Err(error)) => return Err(End::Broken(self.connection.protocol(error))),
            Err(_) => return Err(End::Broken(self.connection.protocol("the watch went silent"))),
        }
        if self.line.last() == Some(&b'\n') {
            return self.event();
        }
        // The end of a stream may cut a line in two; what it told will be told again.
        if (self.line.len() as u64) < LONGEST {
            return Err(End::Normal);
        }
        Err(End::Garbage(self.connection.protocol("a line of the watch has no end")))
    }

    fn event(&self) -> Result<Event, End> {
        let garbage = |problem: String| End::Garbage(self.connection.protocol(problem));
        let line: Line<'_> = serde_json::from_slice(&self.line).map_err(|error| garbage(problem(&error)))?;
        let text = line.object.get();
        let object = || self.collection.object(self.connection, text).map_err(End::Garbage);
        match line.r#type {
            "ADDED" | "MODIFIED" => Ok(Event::Changed(object()?)),
            "DELETED" => Ok(Event::Deleted(object()?)),
            "BOOKMARK" => {
                let bookmark: Bookmark = serde_json::from_str(text).map_err(|error| garbage(problem(&error)))?;
                let version = Version::parse(&bookmark.metadata.resource_version);
                let version = version.map_err(|_| garbage("a bookmark without a version".to_owned()))?;
                Ok(Event::Bookmark(version))
            }
            "ERROR" => {
                let status: Status = serde_json::from_str(text).map_err(|error| garbage(problem(&error)))?;
                Err(End::Broken(self.connection.failed(kube::Error::Api(status.boxed()))))
            }
            other => Err(garbage(format!("a watch event of type {other:?}"))),
        }
    }
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

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use futures::AsyncRead;
    use futures::io::{BufReader, Cursor};
    use patchbay_core::{Content, Kind, ObjectName, Scope};

    use super::*;

    /// Says something, and then nothing for ever.
    struct Silent(Cursor<String>);

    impl AsyncRead for Silent {
        fn poll_read(
            mut self: Pin<&mut Self>,
            cx: &mut Context<'_>,
            buffer: &mut [u8],
        ) -> Poll<std::io::Result<usize>> {
            match Pin::new(&mut self.0).poll_read(cx, buffer) {
                Poll::Ready(Ok(0)) => Poll::Pending,
                other => other,
            }
        }
    }

    /// The events of a stream, and how it ended.
    async fn said(lines: impl AsyncRead + Unpin) -> (Vec<String>, End) {
        let connection = Connection::of_test();
        let scope = Scope::Name(ObjectName::new(Some("n"), "s"));
        let collection = Collection::of_test(Kind::new("v1", "Secret"), scope, Content::Whole);
        let mut stream = Stream {
            connection: &connection,
            collection: &collection,
            lines: BufReader::new(lines),
            line: Vec::new(),
            silence: Duration::from_millis(50),
        };
        let mut events = Vec::new();
        loop {
            match stream.next().await {
                Ok(Event::Changed(object)) => events.push(format!("changed {}", object.metadata.version)),
                Ok(Event::Deleted(object)) => events.push(format!("deleted {}", object.metadata.version)),
                Ok(Event::Bookmark(version)) => events.push(format!("bookmark {version}")),
                Err(end) => return (events, end),
            }
        }
    }

    fn event(kind: &str, version: u64) -> String {
        format!(
            r#"{{"type":"{kind}","object":{{"metadata":{{"name":"s","namespace":"n","uid":"u","resourceVersion":"{version}"}}}}}}"#
        ) + "\n"
    }

    #[tokio::test]
    async fn a_stream_that_falls_silent_is_taken_for_dead() {
        let (events, end) = said(Silent(Cursor::new(event("ADDED", 1) + &event("BOOKMARK", 2)))).await;
        assert_eq!(events, ["changed 1", "bookmark 2"]);
        assert!(matches!(end, End::Broken(error) if error.to_string().contains("silent")));
    }

    #[tokio::test]
    async fn a_line_that_is_cut_is_told_again_and_one_that_is_none_is_garbage() {
        let whole = event("MODIFIED", 3) + &event("DELETED", 4);
        let (events, end) = said(Cursor::new(whole.clone())).await;
        assert_eq!(events, ["changed 3", "deleted 4"]);
        assert!(matches!(end, End::Normal));
        let (events, end) = said(Cursor::new(whole[..whole.len() - 1].to_owned())).await;
        assert_eq!(events, ["changed 3"]);
        assert!(matches!(end, End::Normal));
        for garbage in [
            "\n".to_owned(),
            event("RUMOUR", 5),
            event("ADDED", 5).replace("\"s\"", "\"t\""),
        ] {
            let (events, end) = said(Cursor::new(whole.clone() + &garbage)).await;
            assert_eq!(events.len(), 2);
            assert!(matches!(end, End::Garbage(_)), "{garbage}");
        }
    }
}
