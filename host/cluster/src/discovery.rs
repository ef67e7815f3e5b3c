//! Which resource a kind is served as.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kube::core::{ApiResource, GroupVersionKind, Resource as _};
use patchbay_core::Kind;
use tokio::sync::Mutex;

use crate::connection::{Connection, in_time};
use crate::error::Error;

/// A kind that was not served is looked for again after this, so that many who wait for it ask once.
const STALE: Duration = Duration::from_millis(500);

/// What one group version serves, by kind. One request finds all kinds of a group version, so the number of requests
/// follows the group versions in use, not the kinds and not the runs.
#[derive(Default)]
pub(crate) struct Discovery {
    versions: Mutex<HashMap<Arc<str>, GroupVersion>>,
}

struct GroupVersion {
    resources: HashMap<Arc<str>, Resource>,
    at: Instant,
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
    pub(crate) fn path(&self, namespace: Option<&str>) -> String {
        kube::core::DynamicObject::url_path(&self.api, namespace.filter(|_| self.namespaced))
    }
}

impl Connection {
    /// Finds a kind.
    pub(crate) async fn resource(&self, kind: &Kind) -> Result<Resource, Error> {
        let mut versions = self.discovery.versions.lock().await;
        if let Some(known) = versions.get(&kind.api_version) {
            if let Some(resource) = known.resources.get(&kind.kind) {
                return Ok(resource.clone());
            }
            if known.at.elapsed() < STALE {
                return Err(self.no_such_kind(kind));
            }
        }
        let resources = self.served(kind).await?;
        let found = resources.get(&kind.kind).cloned();
        versions.insert(
            kind.api_version.clone(),
            GroupVersion {
                resources,
                at: Instant::now(),
            },
        );
        found.ok_or_else(|| self.no_such_kind(kind))
    }

    /// Forgets how a kind was served, after a request for it was not found: it may have gone, or have another scope now.
    pub(crate) async fn forget_resource(&self, kind: &Kind) {
        if let Some(known) = self.discovery.versions.lock().await.get_mut(&kind.api_version) {
            known.resources.remove(&kind.kind);
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
            }) if status.code == 404 => {
                return Ok(HashMap::new());
            }
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
                (
                    resource.kind.into(),
                    Resource {
                        api,
                        namespaced: resource.namespaced,
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
