//! Lists, page by page.

use patchbay_core::Version;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::collection::Collection;
use crate::connection::Connection;
use crate::error::Error;
use crate::object::{RawObject, problem};

/// Objects a page: some hundred keep one answer within a few MB and the API server's memory small.
const PAGE: u32 = 500;
/// Pages become so many times smaller when objects are so large that one does not fit.
const SMALLER: u32 = 8;

/// A list under way. No more than a page of it is held.
pub(crate) struct Pages {
    limit: u32,
    next: Next,
    /// The version of the first page, which is that of all.
    version: Option<Version>,
    restarted: bool,
}

enum Next {
    First,
    After(String),
    None,
}

#[derive(Deserialize)]
struct List<'a> {
    metadata: ListMetadata,
    #[serde(borrow, default)]
    items: Option<Vec<&'a RawValue>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListMetadata {
    resource_version: String,
    r#continue: Option<String>,
}

impl Pages {
    pub(crate) fn new() -> Self {
        Pages {
            limit: PAGE,
            next: Next::First,
            version: None,
            restarted: false,
        }
    }

    /// The version of the collection that the pages show. None before the first page.
    pub(crate) fn version(&self) -> Option<Version> {
        self.version
    }

    /// Reads the next page. None after the last one.
    ///
    /// # Errors
    /// The API server refuses, cannot be reached, or gives an answer that is none.
    pub(crate) async fn next(
        &mut self,
        connection: &Connection,
        collection: &Collection,
    ) -> Result<Option<Vec<RawObject>>, Error> {
        let text = loop {
            let token = match &self.next {
                Next::First => None,
                Next::After(token) => Some(token.as_str()),
                Next::None => return Ok(None),
            };
            let request = connection.built(collection.list(self.limit, token))?;
            match connection.text(request).await {
                Err(Error::TooLarge { .. }) if self.limit > 1 => self.limit = (self.limit / SMALLER).max(1),
                answer => break answer?,
            }
        };
        self.take(connection, collection, &text).map(Some)
    }

    fn take(&mut self, connection: &Connection, collection: &Collection, text: &str) -> Result<Vec<RawObject>, Error> {
        let list = parse(connection, text)?;
        let objects = list.items.into_iter().flatten();
        let objects = objects
            .map(|item| collection.object(connection, item.get()))
            .collect::<Result<_, _>>()?;
        let version = version(connection, &list.metadata)?;
        self.version.get_or_insert(version);
        self.next = match list.metadata.r#continue.filter(|token| !token.is_empty()) {
            Some(token) => Next::After(token),
            None => Next::None,
        };
        Ok(objects)
    }

    /// Begins anew, once, after the API server forgot the version that the pages are of. Gives back whether it does.
    pub(crate) fn restart(&mut self) -> bool {
        let restarts = !std::mem::replace(&mut self.restarted, true);
        if restarts {
            (self.next, self.version) = (Next::First, None);
        }
        restarts
    }
}

/// The version of a collection as it is now.
pub(crate) async fn version_now(connection: &Connection, collection: &Collection) -> Result<Version, Error> {
    let request = connection.built(collection.version())?;
    let text = connection.text(request).await?;
    version(connection, &parse(connection, &text)?.metadata)
}

fn parse<'a>(connection: &Connection, text: &'a str) -> Result<List<'a>, Error> {
    serde_json::from_str(text).map_err(|error| connection.protocol(problem(&error)))
}

fn version(connection: &Connection, list: &ListMetadata) -> Result<Version, Error> {
    let text = &list.resource_version;
    Version::parse(text)
        .map_err(|_| connection.protocol(format!("the list's resourceVersion {text:?} is no whole number")))
}
