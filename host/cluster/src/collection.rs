//! The part of a kind that a list or a watch is about, and the requests for it.

use http::HeaderValue;
use http::header::ACCEPT;
use kube::core::Request;
use kube::core::params::{GetParams, ListParams, WatchParams};
use kube::core::request::Error as Unbuilt;
use patchbay_core::{Content, Kind, ObjectName, Scope, Selector, Version};

use crate::connection::{Connection, Request as HttpRequest};
use crate::error::Error;
use crate::object::RawObject;
use crate::path;

/// What is asked for where metadata are enough. An aggregated API server that cannot give them alone gives the whole.
const METADATA: HeaderValue =
    HeaderValue::from_static("application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json");
const METADATA_LIST: HeaderValue =
    HeaderValue::from_static("application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json");

/// Objects of a kind: all, those of a namespace, or one.
pub(crate) struct Collection {
    pub(crate) kind: Kind,
    content: Content,
    scope: Scope,
    namespaced: bool,
    path: String,
    labels: Option<String>,
}

impl Collection {
    /// Finds where the objects are served.
    ///
    /// # Errors
    /// The kind is not served, or the scope does not fit it.
    pub(crate) async fn find(
        connection: &Connection,
        kind: &Kind,
        scope: Scope,
        content: Content,
    ) -> Result<Self, Error> {
        let resource = match &scope {
            Scope::All => connection.resource(kind).await?,
            Scope::Namespace(_) => connection.resource_within(kind, true, kind).await?,
            Scope::Name(name) => {
                let about = format!("{kind} {name}");
                if !path::is_name(&name.name) {
                    return Err(connection.not_a_name(kind));
                }
                connection
                    .resource_within(kind, name.namespace.is_some(), &about)
                    .await?
            }
        };
        let namespace = match &scope {
            Scope::All => None,
            Scope::Namespace(namespace) => Some(namespace.as_ref()),
            Scope::Name(name) => name.namespace.as_deref(),
        };
        Ok(Collection {
            path: resource.path(namespace)?,
            kind: kind.clone(),
            content,
            scope,
            namespaced: resource.namespaced,
            labels: None,
        })
    }

    /// Of a namespaced kind.
    #[cfg(test)]
    pub(crate) fn of_test(kind: Kind, scope: Scope, content: Content) -> Self {
        Collection {
            kind,
            content,
            scope,
            namespaced: true,
            path: "/api/v1/namespaces/n/secrets".to_owned(),
            labels: None,
        }
    }

    /// Only those of its objects that a selector matches.
    ///
    /// # Errors
    /// It cannot be a selector.
    pub(crate) fn labelled(mut self, selector: &Selector) -> Result<Self, Error> {
        if !path::is_selector(selector) {
            return Err(Error::Invalid(format!(
                "the label selector for {} has a key or a value that cannot be one: correct it",
                self.kind
            )));
        }
        self.labels = (!selector.is_everything()).then(|| selector.to_string());
        Ok(self)
    }

    /// Rights may be granted for one object by its name. The API server takes the name from here.
    fn fields(&self) -> Option<String> {
        match &self.scope {
            Scope::Name(name) => Some(format!("metadata.name={}", name.name)),
            Scope::All | Scope::Namespace(_) => None,
        }
    }

    /// Asks for a page of the objects.
    pub(crate) fn list(&self, limit: u32, token: Option<&str>) -> Result<HttpRequest, Unbuilt> {
        let params = ListParams {
            limit: Some(limit),
            continue_token: token.map(str::to_owned),
            field_selector: self.fields(),
            label_selector: self.labels.clone(),
            ..ListParams::default()
        };
        let request = Request::new(&self.path).list(&params)?;
        Ok(self.accepting(request, METADATA_LIST))
    }

    /// Asks for the version at which the objects are now, at the price of one object's metadata.
    pub(crate) fn version(&self) -> Result<HttpRequest, Unbuilt> {
        let params = ListParams {
            limit: Some(1),
            field_selector: self.fields(),
            ..ListParams::default()
        };
        Ok(accepting(Request::new(&self.path).list(&params)?, METADATA_LIST))
    }

    /// Asks for one of the objects by itself, whole.
    pub(crate) fn get(&self, name: &str) -> Result<HttpRequest, Unbuilt> {
        Request::new(&self.path).get(name, &GetParams::default())
    }

    /// Asks for what changes after a version, for so many seconds.
    pub(crate) fn watch(&self, after: Version, seconds: u32) -> Result<HttpRequest, Unbuilt> {
        let params = WatchParams {
            field_selector: self.fields(),
            timeout: Some(seconds),
            ..WatchParams::default()
        };
        let request = Request::new(&self.path).watch(&params, &after.to_string())?;
        Ok(self.accepting(request, METADATA))
    }

    fn accepting(&self, request: HttpRequest, metadata: HeaderValue) -> HttpRequest {
        match self.content {
            Content::Metadata => accepting(request, metadata),
            Content::Whole => request,
        }
    }

    /// Reads one of the objects.
    ///
    /// # Errors
    /// The text is no object, or another one than was asked for.
    pub(crate) fn object(&self, connection: &Connection, text: &str) -> Result<RawObject, Error> {
        let object = RawObject::read(text, self.content).map_err(|problem| connection.protocol(problem))?;
        if self.holds(&object.name) {
            return Ok(object);
        }
        Err(Error::Stray {
            cluster: connection.name().to_owned(),
            kind: self.kind.clone(),
            name: object.name,
        })
    }

    fn holds(&self, name: &ObjectName) -> bool {
        let within = match &self.scope {
            Scope::All => true,
            Scope::Namespace(namespace) => name.namespace.as_ref() == Some(namespace),
            Scope::Name(wanted) => name == wanted,
        };
        within && name.namespace.is_some() == self.namespaced
    }
}

fn accepting(mut request: HttpRequest, accept: HeaderValue) -> HttpRequest {
    request.headers_mut().insert(ACCEPT, accept);
    request
}

#[cfg(test)]
mod tests {
    use patchbay_core::Requirement;

    use super::*;

    fn collection(scope: Scope, content: Content) -> Collection {
        Collection::of_test(Kind::new("v1", "Secret"), scope, content)
    }

    fn one(content: Content) -> Collection {
        collection(Scope::Name(ObjectName::new(Some("n"), "s")), content)
    }

    fn uri(request: Result<HttpRequest, Unbuilt>) -> String {
        request.expect("a request").uri().to_string()
    }

    #[test]
    fn every_request_for_one_object_names_it_as_rights_are_granted() {
        let one = one(Content::Whole);
        for uri in [
            uri(one.version()),
            uri(one.list(500, None)),
            uri(one.watch(Version(7), 290)),
        ] {
            assert!(uri.contains("fieldSelector=metadata.name%3Ds"), "{uri}");
        }
        let all = collection(Scope::All, Content::Whole);
        assert!(!uri(all.version()).contains("fieldSelector"));
    }

    #[test]
    fn pages_keep_their_selector_and_go_on_where_the_last_one_ended() {
        let selector = Selector::new([Requirement::equals("a", "b")]);
        let some = collection(Scope::All, Content::Whole)
            .labelled(&selector)
            .expect("a selector");
        let next = uri(some.list(500, Some("token")));
        assert!(
            next.contains("labelSelector=a+in+%28b%29")
                && next.contains("continue=token")
                && next.contains("limit=500")
        );
        let odd = Selector::new([Requirement::equals("a", "x,y")]);
        assert!(collection(Scope::All, Content::Whole).labelled(&odd).is_err());
    }

    #[test]
    fn only_what_needs_it_is_asked_for_whole() {
        let accepts = |request: Result<HttpRequest, Unbuilt>| {
            let accept = request.expect("a request").headers().get(ACCEPT).cloned();
            accept.is_some_and(|accept| accept.to_str().expect("text").contains("as=PartialObjectMetadata"))
        };
        let (metadata, whole) = (one(Content::Metadata), one(Content::Whole));
        assert!(accepts(metadata.list(1, None)) && accepts(metadata.watch(Version(7), 1)));
        assert!(!accepts(whole.list(1, None)) && !accepts(whole.watch(Version(7), 1)));
        assert!(accepts(whole.version()));
    }

    #[test]
    fn what_was_not_asked_for_does_not_belong() {
        let in_n = || Scope::Namespace("n".into());
        for (scope, name, holds) in [
            (Scope::All, ObjectName::new(Some("n"), "s"), true),
            (Scope::All, ObjectName::new(None, "s"), false),
            (in_n(), ObjectName::new(Some("n"), "other"), true),
            (in_n(), ObjectName::new(Some("m"), "s"), false),
            (
                Scope::Name(ObjectName::new(Some("n"), "s")),
                ObjectName::new(Some("n"), "s"),
                true,
            ),
            (
                Scope::Name(ObjectName::new(Some("n"), "s")),
                ObjectName::new(Some("n"), "t"),
                false,
            ),
        ] {
            assert_eq!(
                collection(scope.clone(), Content::Whole).holds(&name),
                holds,
                "{scope:?} {name}"
            );
        }
    }
}
