//! Reads: lists, page by page, filtered by the API server.

use kube::core::Request;
use kube::core::params::ListParams;
use patchbay_core::{ReadRequest, ReadScope, Version};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::connection::Connection;
use crate::discovery::Resource;
use crate::error::Error;
use crate::object::{RawObject, problem};
use crate::path;

/// Objects a page: some hundred keep one answer within a few MB and the API server's memory small.
const PAGE: u32 = 500;

/// Bytes of all pages of a read.
const LARGEST: usize = 256 << 20;

/// What a read found.
pub struct ReadAnswer {
    /// The version of the collection at which it was so.
    pub version: Version,
    /// The objects.
    pub objects: Vec<RawObject>,
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

/// Reads what core asks for.
///
/// # Errors
/// The kind is not served, the scope does not fit it, or the API server refuses or cannot be reached.
pub async fn read(connection: &Connection, request: &ReadRequest) -> Result<ReadAnswer, Error> {
    let resource = connection.resource(&request.kind).await?;
    let (namespace, params) = match &request.scope {
        ReadScope::Named(name) => {
            check_scope(connection, request, &resource, name.namespace.is_some())?;
            if !path::is_name(&name.name) {
                return Err(Error::Invalid(format!(
                    "{:?} cannot be the name of a {}: correct it",
                    name.name, request.kind
                )));
            }
            (
                name.namespace.clone(),
                ListParams::default().fields(&format!("metadata.name={}", name.name)),
            )
        }
        ReadScope::Selected { namespace, selector } => {
            if !path::is_selector(selector) {
                return Err(Error::Invalid(format!(
                    "{:?} cannot be a label selector: correct its keys and values",
                    selector.to_string()
                )));
            }
            if namespace.is_some() {
                check_scope(connection, request, &resource, true)?;
            }
            let params = ListParams::default().limit(PAGE);
            (
                namespace.clone(),
                if selector.is_everything() {
                    params
                } else {
                    params.labels(&selector.to_string())
                },
            )
        }
    };
    let path = resource.path(namespace.as_deref())?;
    let answer = pages(connection, &path, params).await;
    if let Err(error) = &answer {
        connection.forget_unserved(&request.kind, error).await;
    }
    answer
}

fn check_scope(
    connection: &Connection,
    request: &ReadRequest,
    resource: &Resource,
    namespaced: bool,
) -> Result<(), Error> {
    let (kind, cluster) = (&request.kind, connection.name());
    match (resource.namespaced, namespaced) {
        (true, false) => Err(Error::Invalid(format!(
            "{kind} in cluster {cluster} is namespaced: name a namespace"
        ))),
        (false, true) => Err(Error::Invalid(format!(
            "{kind} in cluster {cluster} is cluster-scoped: leave the namespace out"
        ))),
        _ => Ok(()),
    }
}

/// All pages are of the version that the first one names.
async fn pages(connection: &Connection, path: &str, mut params: ListParams) -> Result<ReadAnswer, Error> {
    let (mut objects, mut first, mut size) = (Vec::new(), None, 0);
    loop {
        let request = Request::new(path)
            .list(&params)
            .map_err(|error| connection.failed(kube::Error::BuildRequest(error)))?;
        let text = connection.text(request).await?;
        let list: List<'_> = serde_json::from_str(&text).map_err(|error| connection.protocol(problem(&error)))?;
        let page = version(connection, &list.metadata.resource_version)?;
        let version = *first.get_or_insert(page);
        size += text.len();
        if size > LARGEST {
            return Err(Error::TooLarge {
                cluster: connection.name().to_owned(),
                limit: LARGEST as u64,
            });
        }
        for item in list.items.into_iter().flatten() {
            objects.push(RawObject::parse(item.get()).map_err(|problem| connection.protocol(problem))?);
        }
        match list.metadata.r#continue.filter(|token| !token.is_empty()) {
            Some(token) => params.continue_token = Some(token),
            None => return Ok(ReadAnswer { version, objects }),
        }
    }
}

/// The version of a collection as it is now, at the price of one object's metadata.
pub(crate) async fn collection_version(connection: &Connection, path: &str) -> Result<Version, Error> {
    let params = ListParams::default().limit(1);
    let request = Request::new(path)
        .list_metadata(&params)
        .map_err(|error| connection.failed(kube::Error::BuildRequest(error)))?;
    let text = connection.text(request).await?;
    let list: List<'_> = serde_json::from_str(&text).map_err(|error| connection.protocol(problem(&error)))?;
    version(connection, &list.metadata.resource_version)
}

fn version(connection: &Connection, text: &str) -> Result<Version, Error> {
    Version::parse(text)
        .map_err(|_| connection.protocol(format!("the list's resourceVersion {text:?} is no whole number")))
}
