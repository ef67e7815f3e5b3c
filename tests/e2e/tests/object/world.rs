//! One API server and one host for all tests of this suite, and what they say again and again.

use std::time::Duration;

use anyhow::{Result, bail};
use kube::core::DynamicObject;
use patchbay_harness::{Cluster, Condition, Host, HostOptions, condition, wait_for};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

pub const OBJECT: &str = "kubernetes.crossplane.io/v1alpha2";
/// What "at once" may take on a machine that runs everything else as well.
pub const SOON: Duration = Duration::from_secs(20);

/// A namespace of a test's own in the shared cluster, watched over by the shared host.
pub struct World {
    pub cluster: Cluster,
    pub host: &'static Host,
    pub namespace: String,
}

impl World {
    pub async fn new(purpose: &str) -> Result<Self> {
        static HOST: OnceCell<Host> = OnceCell::const_new();
        let cluster = Cluster::shared().await?;
        let host = HOST
            .get_or_try_init(async || {
                cluster.apply_crds().await?;
                cluster.apply(PROVIDER).await?;
                let arguments = vec!["--log".to_owned(), "debug".to_owned()];
                Host::start(
                    &cluster,
                    &HostOptions {
                        arguments,
                        ..HostOptions::default()
                    },
                )
                .await
            })
            .await?;
        let namespace = cluster.namespace(purpose).await?;
        Ok(World {
            cluster,
            host,
            namespace,
        })
    }

    pub async fn config_map(&self, name: &str, data: Value) -> Result<()> {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data});
        self.cluster
            .apply_in(&self.namespace, &object.to_string())
            .await
            .map(drop)
    }

    /// Applies an Object with this spec. Its name is that of the test's namespace, with a suffix.
    pub async fn object(&self, suffix: &str, spec: Value) -> Result<String> {
        let name = self.object_name(suffix);
        let object = json!({"apiVersion": OBJECT, "kind": "Object", "metadata": {"name": name}, "spec": spec});
        self.cluster.apply(&object.to_string()).await?;
        Ok(name)
    }

    pub fn object_name(&self, suffix: &str) -> String {
        format!("{}-{suffix}", self.namespace)
    }

    /// A spec that copies one field of a ConfigMap of this namespace into the ConfigMap `target`.
    pub fn copy(&self, source: &str, field: &str, target: &str, to: &str) -> Value {
        json!({
            "references": [{"patchesFrom": self.source(source, field), "toFieldPath": to}],
            "forProvider": {"manifest": self.manifest(target)},
            "providerConfigRef": {"name": "kubernetes-provider"},
        })
    }

    pub fn source(&self, name: &str, field: &str) -> Value {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "namespace": self.namespace, "name": name, "fieldPath": field})
    }

    pub fn manifest(&self, name: &str) -> Value {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": self.namespace}})
    }

    /// Waits until a ConfigMap of this namespace holds these data.
    pub async fn data(&self, name: &str, data: Value) -> Result<DynamicObject> {
        data_in(&self.cluster, &self.namespace, name, data).await
    }

    /// Waits until an Object's condition has a status and a message that holds all of these words.
    pub async fn condition(&self, object: &str, kind: &str, status: &str, words: &[&str]) -> Result<Condition> {
        let what = format!("{kind} of Object {object} to be {status} with {words:?}");
        wait_for(&what, SOON, async || {
            let Some(found) = self.cluster.get(OBJECT, "Object", "", object).await? else {
                bail!("no such Object")
            };
            let Some(found) = condition(&found, kind) else {
                bail!("no such condition")
            };
            if found.status == status && words.iter().all(|word| found.message.contains(word)) {
                return Ok(Some(found));
            }
            bail!("it is {found}")
        })
        .await
    }

    pub async fn ready(&self, object: &str) -> Result<Condition> {
        self.condition(object, "Synced", "True", &[]).await?;
        self.condition(object, "Ready", "True", &[]).await
    }

    pub async fn gone(&self, api_version: &str, kind: &str, name: &str) -> Result<()> {
        wait_for(&format!("{kind} {name} to be gone"), SOON, async || {
            Ok(self
                .cluster
                .get(api_version, kind, &self.namespace, name)
                .await?
                .is_none()
                .then_some(()))
        })
        .await
    }
}

pub async fn data_in(cluster: &Cluster, namespace: &str, name: &str, data: Value) -> Result<DynamicObject> {
    wait_for(
        &format!("ConfigMap {namespace}/{name} to hold {data}"),
        SOON,
        async || {
            let Some(found) = cluster.get("v1", "ConfigMap", namespace, name).await? else {
                bail!("it is not there")
            };
            if found.data["data"] == data {
                return Ok(Some(found));
            }
            bail!("it holds {}", found.data["data"])
        },
    )
    .await
}

pub const PROVIDER: &str = "
apiVersion: kubernetes.crossplane.io/v1alpha1
kind: ProviderConfig
metadata: {name: kubernetes-provider}
spec: {credentials: {source: InjectedIdentity}}
";
