//! Which resource a kind is served as.

use std::collections::HashMap;
use std::fmt::Display;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use kube::core::response::Status;
use kube::core::{ApiResource, GroupVersionKind, Resource as _};
use patchbay_core::Kind;
use tokio::sync::Mutex;

use crate::connection::{Connection, in_time};
use crate::error::Error;
use crate::path;

/// A kind that was not served is looked for again after this, so that many who wait for it ask once.
const STALE: Duration = Duration::from_millis(500);

/// What each group version serves. One request finds all kinds of a group version, so the number of requests follows the
/// group versions in use, not the kinds and not the runs. Each has a lock of its own: one that is served by an API server
/// that hangs keeps nobody else waiting.
#[derive(Default)]
pub(crate) struct Discovery {
    versions: std::sync::Mutex<HashMap<Arc<str>, Arc<Mutex<GroupVersion>>>>,
}

/// The kinds of a group version that are known to be served, or not to be.
#[derive(Default)]
struct GroupVersion {
    served: HashMap<Arc<str>, Resource>,
    missing: HashMap<Arc<str>, Instant>,
    /// When it was asked last.
    asked: Option<Instant>,
}

/// A kind as the API server serves it.
#[derive(Clone, Debug)]
pub(crate) struct Resource {
    pub(crate) api: ApiResource,
    pub(crate) namespaced: bool,
    /// Whether it has a status subresource.
    pub(crate) status: bool,
}

impl Resource {
    /// The path of the kind's collection, in a namespace or everywhere.
    pub(crate) fn path(&self, namespace: Option<&str>) -> Result<String, Error> {
        let namespace = namespace.filter(|_| self.namespaced);
        if namespace.is_some_and(|namespace| !path::is_namespace(namespace)) {
            return Err(Error::Invalid(format!(
                "the namespace of a {} cannot be one: correct it",
                self.api.kind
            )));
        }
        Ok(kube::core::DynamicObject::url_path(&self.api, namespace))
    }
}

impl Discovery {
    fn version(&self, api_version: &Arc<str>) -> Arc<Mutex<GroupVersion>> {
        let mut versions = self.versions.lock().unwrap_or_else(PoisonError::into_inner);
        versions.entry(api_version.clone()).or_default().clone()
    }

    /// A group version that serves nothing is not remembered: there is no end of those.
    fn forget_version(&self, api_version: &str) {
        self.versions
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(api_version);
    }
}

impl Connection {
    /// Finds a kind.
    pub(crate) async fn resource(&self, kind: &Kind) -> Result<Resource, Error> {
        if !path::is_kind(kind) {
            // What cannot be a name may be a value that went to the wrong place, so it is not repeated.
            return Err(Error::Invalid(format!(
                "an apiVersion or kind in cluster {} cannot be one: correct it",
                self.name()
            )));
        }
        let version = self.discovery.version(&kind.api_version);
        let mut version = version.lock().await;
        if let Some(resource) = version.served.get(&kind.kind) {
            return Ok(resource.clone());
        }
        if version.missing.get(&kind.kind).is_some_and(|at| at.elapsed() < STALE) {
            return Err(self.no_such_kind(kind));
        }
        version.served = self.served(kind).await?;
        version.asked = Some(Instant::now());
        version.missing.clear();
        if let Some(resource) = version.served.get(&kind.kind) {
            return Ok(resource.clone());
        }
        if version.served.is_empty() {
            self.discovery.forget_version(&kind.api_version);
        }
        version.missing.insert(kind.kind.clone(), Instant::now());
        Err(self.no_such_kind(kind))
    }

    /// Finds a kind of which objects are asked for with a namespace, or without one. `about` is what messages call them.
    ///
    /// A kind that was deleted and created anew may have another scope since it was found, and no answer says so. So it is
    /// looked for again before a request is called a mistake.
    pub(crate) async fn resource_within(
        &self,
        kind: &Kind,
        namespaced: bool,
        about: &impl Display,
    ) -> Result<Resource, Error> {
        let mut resource = self.resource(kind).await?;
        if resource.namespaced != namespaced && self.forget(kind, STALE).await {
            resource = self.resource(kind).await?;
        }
        let problem = match (resource.namespaced, namespaced) {
            (true, false) => "is namespaced: name a namespace",
            (false, true) => "is cluster-scoped: leave the namespace out",
            _ => return Ok(resource),
        };
        Err(Error::Invalid(format!("{about} in cluster {} {problem}", self.name())))
    }

    /// Forgets how a kind was served, if that was found out longer ago than this. Gives back whether it was forgotten.
    async fn forget(&self, kind: &Kind, ago: Duration) -> bool {
        let version = self.discovery.version(&kind.api_version);
        let mut version = version.lock().await;
        let stale = version.asked.is_none_or(|asked| asked.elapsed() >= ago);
        if stale {
            version.served.remove(&kind.kind);
        }
        stale
    }

    /// Forgets how a kind was served, if a request for it was answered so: it has gone, or has another scope now.
    pub(crate) async fn forget_unserved(&self, kind: &Kind, error: &Error) {
        if error.is_of_unserved() {
            self.forget(kind, Duration::ZERO).await;
        }
    }

    /// What an error of a list or a watch means. They are answered with 404 only if there is no such kind, whatever says
    /// so: an API server that never heard of the group does not even answer in the words of Kubernetes.
    pub(crate) async fn unserved(&self, kind: &Kind, error: Error) -> Error {
        self.forget_unserved(kind, &error).await;
        match error {
            Error::Request {
                source: kube::Error::Api(status),
                ..
            } if is_unserved(&status) => self.no_such_kind(kind),
            Error::Request {
                source: kube::Error::Api(status),
                cluster,
            } if status.code == 403 => Error::Forbidden {
                resource: self.rule(kind).await,
                cluster,
                status,
            },
            other => other,
        }
    }

    /// A kind as rules of RBAC name it.
    async fn rule(&self, kind: &Kind) -> String {
        let plural = self.resource(kind).await.map(|resource| resource.api.plural);
        let plural = plural.unwrap_or_else(|_| kind.plural().to_lowercase());
        match kind.group() {
            "" => plural,
            group => format!("{plural}.{group}"),
        }
    }

    async fn served(&self, kind: &Kind) -> Result<HashMap<Arc<str>, Resource>, Error> {
        let list = in_time(self.name(), async {
            if kind.group().is_empty() {
                self.client.list_core_api_resources(kind.version()).await
            } else {
                self.client.list_api_group_resources(&kind.api_version).await
            }
        });
        let list = match list.await {
            Ok(list) => list,
            Err(Error::Request {
                source: kube::Error::Api(status),
                ..
            }) if status.code == 404 => return Ok(HashMap::new()),
            Err(error) => return Err(error),
        };
        let with_status: Vec<String> = list
            .resources
            .iter()
            .filter_map(|resource| resource.name.strip_suffix("/status").map(str::to_owned))
            .collect();
        let resources = list
            .resources
            .into_iter()
            .filter(|resource| !resource.name.contains('/'));
        Ok(resources
            .map(|resource| {
                let gvk = GroupVersionKind::gvk(kind.group(), kind.version(), &resource.kind);
                let status = with_status.contains(&resource.name);
                let api = ApiResource::from_gvk_with_plural(&gvk, &resource.name);
                let namespaced = resource.namespaced;
                (
                    resource.kind.into(),
                    Resource {
                        api,
                        namespaced,
                        status,
                    },
                )
            })
            .collect())
    }

    fn no_such_kind(&self, kind: &Kind) -> Error {
        Error::NoSuchKind {
            cluster: self.name().to_owned(),
            kind: kind.clone(),
        }
    }
}

/// Whether an answer says that there is no such resource. A missing object or namespace is named in the answer.
pub(crate) fn is_unserved(status: &Status) -> bool {
    status.code == 404 && status.details.as_ref().is_none_or(|details| details.name.is_empty())
}
