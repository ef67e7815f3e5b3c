//! Reads: what core asks for, page by page, and what others need of one object or of many.

use patchbay_core::{Content, Kind, ObjectName, ReadRequest, ReadScope, Scope, Selector, Version};

use crate::collection::Collection;
use crate::connection::Connection;
use crate::discovery::is_unserved;
use crate::error::Error;
use crate::object::RawObject;
use crate::pages::Pages;

/// What core asked to read, page by page. A page is asked for only when the one before it has been dealt with, so that a
/// list of any length is held a page at a time.
pub struct Reader<'a> {
    connection: &'a Connection,
    collection: Collection,
    pages: Pages,
}

/// A part of what a read finds.
pub struct Page {
    /// The version of the collection at which it was so, the same for all pages.
    pub version: Version,
    /// The objects.
    pub objects: Vec<RawObject>,
}

impl<'a> Reader<'a> {
    /// Finds out where to read. Nothing is read yet.
    ///
    /// # Errors
    /// The kind is not served, or the scope does not fit it.
    pub async fn new(connection: &'a Connection, request: &ReadRequest) -> Result<Self, Error> {
        let find = |scope| Collection::find(connection, &request.kind, scope, request.content);
        let collection = match &request.scope {
            ReadScope::Named(name) => find(Scope::Name(name.clone())).await?,
            ReadScope::Selected { namespace, selector } => {
                let scope = namespace.clone().map_or(Scope::All, Scope::Namespace);
                find(scope).await?.labelled(selector)?
            }
        };
        Ok(Reader::of(connection, collection))
    }

    fn of(connection: &'a Connection, collection: Collection) -> Self {
        Reader {
            connection,
            collection,
            pages: Pages::new(),
        }
    }

    /// The next page; none after the last one.
    ///
    /// # Errors
    /// The API server refuses or cannot be reached. If it has forgotten the version that the pages are of, the error
    /// [says so](Error::is_expired).
    pub async fn next(&mut self) -> Result<Option<Page>, Error> {
        match self.pages.next(self.connection, &self.collection).await {
            Ok(objects) => Ok(objects
                .zip(self.pages.version())
                .map(|(objects, version)| Page { version, objects })),
            Err(error) => Err(self.connection.unserved(&self.collection.kind, error).await),
        }
    }

    /// Begins with the first page again, for whoever has made nothing yet of those that came. Once only: gives back
    /// whether it does.
    pub fn restart(&mut self) -> bool {
        self.pages.restart()
    }
}

impl Connection {
    /// Reads one object, whole and with its managed fields. None if there is no such object.
    ///
    /// # Errors
    /// The kind is not served, the name does not fit it, or the API server refuses or cannot be reached.
    pub async fn get(&self, kind: &Kind, name: &ObjectName) -> Result<Option<RawObject>, Error> {
        let collection = Collection::find(self, kind, Scope::Name(name.clone()), Content::Whole).await?;
        let request = self.built(collection.get(&name.name))?;
        match self.text(request).await {
            Ok(text) => collection.object(self, &text).map(Some),
            Err(Error::Request {
                source: kube::Error::Api(status),
                ..
            }) if status.code == 404 && !is_unserved(&status) => Ok(None),
            Err(error) => Err(self.unserved(kind, error).await),
        }
    }

    /// Reads the metadata of all objects of a kind, in a namespace or everywhere, that a selector matches. They are
    /// given one by one, and no more than a page of them is held.
    ///
    /// # Errors
    /// As [`Connection::get`]. Objects may have been given before.
    pub async fn list_metadata(
        &self,
        kind: &Kind,
        namespace: Option<&str>,
        selector: Option<&Selector>,
        mut object: impl FnMut(RawObject),
    ) -> Result<(), Error> {
        let scope = namespace.map_or(Scope::All, |namespace| Scope::Namespace(namespace.into()));
        let mut collection = Collection::find(self, kind, scope, Content::Metadata).await?;
        if let Some(selector) = selector {
            collection = collection.labelled(selector)?;
        }
        let mut reader = Reader::of(self, collection);
        while let Some(page) = reader.next().await? {
            page.objects.into_iter().for_each(&mut object);
        }
        Ok(())
    }
}
