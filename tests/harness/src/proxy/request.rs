//! What a request asks of an API server.

use std::collections::HashMap;

use http::request::Parts;

/// What is done with a resource, as the rules of RBAC name it, but for apply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verb {
    /// One object is read.
    Get,
    /// A collection is read.
    List,
    /// A stream of changes.
    Watch,
    /// A new object.
    Create,
    /// A whole object is written.
    Update,
    /// Server-side apply, which is a patch for RBAC.
    Apply,
    /// A patch of another kind.
    Patch,
    /// One object, or a collection, is deleted.
    Delete,
    /// Anything that is about no resource, such as discovery.
    Other,
}

/// A request to an API server.
#[derive(Debug, Clone, PartialEq)]
pub struct ApiRequest {
    /// What is done.
    pub verb: Verb,
    /// The API group; empty for the core group.
    pub group: String,
    /// The version of the group.
    pub version: String,
    /// The resource, such as `configmaps`; empty for discovery.
    pub resource: String,
    /// Such as `status`; empty for the resource itself.
    pub subresource: String,
    /// The namespace; empty for all of them, and for cluster-scoped resources.
    pub namespace: String,
    /// The object's name, in the path or in the field selector; empty for all of them.
    pub name: String,
    /// The field selector; empty if there is none.
    pub field_selector: String,
    /// The label selector; empty if there is none.
    pub label_selector: String,
    /// Whether only metadata are asked for.
    pub metadata_only: bool,
    /// How many objects a page may have.
    pub limit: Option<u64>,
    /// Whether it asks for a further page of a list.
    pub continued: bool,
    /// For a watch: from which version. For a list: at which.
    pub resource_version: String,
    /// The field manager of a write.
    pub manager: String,
}

impl ApiRequest {
    /// Understands the head of a request.
    pub(super) fn parse(head: &Parts) -> Self {
        let query: HashMap<String, String> = pairs(head.uri.query().unwrap_or_default()).collect();
        let text = |key: &str| query.get(key).cloned().unwrap_or_default();
        let place = Place::parse(head.uri.path());
        let field_selector = text("fieldSelector");
        let selected = field_selector.strip_prefix("metadata.name=").unwrap_or_default();
        let is_watch = matches!(text("watch").as_str(), "true" | "1");
        let (accept, content_type) = (header(head, "accept"), header(head, "content-type"));
        ApiRequest {
            verb: verb(&place, head.method.as_str(), is_watch, content_type),
            name: if place.name.is_empty() { selected } else { place.name }.to_owned(),
            group: place.group.to_owned(),
            version: place.version.to_owned(),
            resource: place.resource.to_owned(),
            subresource: place.subresource.to_owned(),
            namespace: place.namespace.to_owned(),
            label_selector: text("labelSelector"),
            metadata_only: accept.contains("as=PartialObjectMetadata"),
            limit: query.get("limit").and_then(|limit| limit.parse().ok()),
            continued: query.contains_key("continue"),
            resource_version: text("resourceVersion"),
            manager: text("fieldManager"),
            field_selector,
        }
    }

    /// Whether it reads one object's metadata for the sake of the collection's version, which is how a watch is begun.
    pub fn is_probe(&self) -> bool {
        self.verb == Verb::List && self.limit == Some(1) && self.metadata_only
    }
}

fn verb(place: &Place<'_>, method: &str, is_watch: bool, content_type: &str) -> Verb {
    match method {
        _ if place.resource.is_empty() => Verb::Other,
        "GET" if is_watch => Verb::Watch,
        "GET" if place.name.is_empty() => Verb::List,
        "GET" => Verb::Get,
        "POST" => Verb::Create,
        "PUT" => Verb::Update,
        "PATCH" if content_type.starts_with("application/apply-patch") => Verb::Apply,
        "PATCH" => Verb::Patch,
        "DELETE" => Verb::Delete,
        _ => Verb::Other,
    }
}

/// The parts of a path.
#[derive(Default)]
struct Place<'a> {
    group: &'a str,
    version: &'a str,
    namespace: &'a str,
    resource: &'a str,
    name: &'a str,
    subresource: &'a str,
}

impl<'a> Place<'a> {
    fn parse(path: &'a str) -> Self {
        let segments: Vec<_> = path.split('/').filter(|segment| !segment.is_empty()).collect();
        let (group, version, rest) = match &segments[..] {
            ["api", version, rest @ ..] => ("", *version, rest),
            ["apis", group, version, rest @ ..] => (*group, *version, rest),
            _ => return Place::default(),
        };
        let (namespace, rest) = match rest {
            // Parts of the Namespace itself.
            ["namespaces", _, "status" | "finalize"] => ("", rest),
            ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (*namespace, rest),
            _ => ("", rest),
        };
        let part = |at: usize| rest.get(at).copied().unwrap_or_default();
        Place {
            group,
            version,
            namespace,
            resource: part(0),
            name: part(1),
            subresource: part(2),
        }
    }
}

fn header<'a>(head: &'a Parts, name: &str) -> &'a str {
    head.headers
        .get(name)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default()
}

fn pairs(query: &str) -> impl Iterator<Item = (String, String)> {
    query.split('&').map(|pair| {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        (decoded(key), decoded(value))
    })
}

/// Undoes the encoding of a query string.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let digits: Vec<u8> = rest.by_ref().take(2).collect();
                let digits = str::from_utf8(&digits).unwrap_or_default();
                u8::from_str_radix(digits, 16).unwrap_or(b'?')
            }
            other => other,
        });
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(method: &str, uri: &str) -> ApiRequest {
        let (head, ()) = http::Request::builder()
            .method(method)
            .uri(uri)
            .body(())
            .unwrap()
            .into_parts();
        ApiRequest::parse(&head)
    }

    #[test]
    fn requests_are_understood() {
        let list = parse(
            "GET",
            "/api/v1/namespaces/n/configmaps?limit=1&fieldSelector=metadata.name%3Da",
        );
        assert_eq!(
            (list.verb, list.namespace.as_str(), list.resource.as_str()),
            (Verb::List, "n", "configmaps")
        );
        assert_eq!((list.name.as_str(), list.limit, list.is_probe()), ("a", Some(1), false));

        let watch = parse(
            "GET",
            "/apis/apps/v1/deployments?watch=true&resourceVersion=7&labelSelector=a+in+(b,c)",
        );
        assert_eq!(
            (watch.verb, watch.group.as_str(), watch.version.as_str()),
            (Verb::Watch, "apps", "v1")
        );
        assert_eq!(
            (watch.resource_version.as_str(), watch.label_selector.as_str()),
            ("7", "a in (b,c)")
        );

        let status = parse("PATCH", "/apis/g/v1/namespaces/n/things/t/status?fieldManager=m");
        assert_eq!(
            (status.verb, status.subresource.as_str(), status.manager.as_str()),
            (Verb::Patch, "status", "m")
        );
        for (method, uri, verb, resource, namespace, name) in [
            ("GET", "/api/v1/namespaces/n", Verb::Get, "namespaces", "", "n"),
            ("GET", "/api/v1/namespaces/n/status", Verb::Get, "namespaces", "", "n"),
            ("GET", "/api/v1/namespaces", Verb::List, "namespaces", "", ""),
            ("POST", "/api/v1/namespaces/n/secrets", Verb::Create, "secrets", "n", ""),
            ("DELETE", "/apis/g/v1/things/t", Verb::Delete, "things", "", "t"),
            ("GET", "/apis/g/v1", Verb::Other, "", "", ""),
            ("GET", "/version", Verb::Other, "", "", ""),
        ] {
            let found = parse(method, uri);
            let place = (found.resource.as_str(), found.namespace.as_str(), found.name.as_str());
            assert_eq!((found.verb, place), (verb, (resource, namespace, name)), "{uri}");
        }
    }

    #[test]
    fn headers_tell_metadata_and_apply() {
        let head = |method: &str, name: &str, value: &str| {
            let uri = "/api/v1/configmaps?limit=1";
            let request = http::Request::builder()
                .method(method)
                .uri(uri)
                .header(name, value)
                .body(())
                .unwrap();
            ApiRequest::parse(&request.into_parts().0)
        };
        let metadata = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
        assert!(head("GET", "accept", metadata).is_probe());
        assert_eq!(
            head("PATCH", "content-type", "application/apply-patch+yaml").verb,
            Verb::Apply
        );
    }
}
