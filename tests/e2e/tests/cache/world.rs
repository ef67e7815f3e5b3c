//! A namespace, a proxy and a host for each test, and what they say again and again.
//!
//! Sources are Secrets: the test plugin watches all ConfigMaps for its `dependents`, so those would never be watched more
//! narrowly. Targets are ConfigMaps.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use patchbay_harness::{Cluster, Filter, History, Host, HostOptions, Proxy, wait_for};
use serde_json::{Value, json};

pub const SCRIPT: &str = "script.patchbay.dev/v1";
/// What "at once" may take on a machine that runs everything else as well.
pub const SOON: Duration = Duration::from_secs(20);
/// Without a request for so long, nothing more is to come.
const QUIET: Duration = Duration::from_millis(400);

/// A namespace of a test's own, and a host that sees the Scripts of this namespace only, through a proxy.
pub struct World {
    pub cluster: Cluster,
    pub proxy: Proxy,
    pub host: Host,
    pub namespace: String,
}

impl World {
    /// In the cluster that all tests share.
    pub async fn new(purpose: &str) -> Result<Self> {
        let cluster = Cluster::shared_with_scripts().await?;
        let namespace = cluster.namespace(purpose).await?;
        World::of(cluster, namespace).await
    }

    /// In a cluster of the test's own, in which Scripts are served.
    pub async fn of(cluster: Cluster, namespace: String) -> Result<Self> {
        let proxy = Proxy::start(&cluster).await?;
        World::behind(cluster, namespace, proxy).await
    }

    pub async fn behind(cluster: Cluster, namespace: String, proxy: Proxy) -> Result<Self> {
        proxy.confine("scripts", &namespace);
        Ok(World {
            host: Host::start(&cluster, &HostOptions::of_scripts(&proxy)?).await?,
            cluster,
            proxy,
            namespace,
        })
    }

    /// The same cluster once more, behind a proxy of its own and by a kubeconfig in the Secret `remote`.
    pub async fn remote(&self) -> Result<Proxy> {
        let remote = Proxy::start(&self.cluster).await?;
        self.cluster
            .kubeconfig_secret(&self.namespace, "remote", &remote.kubeconfig()?)
            .await?;
        Ok(remote)
    }

    /// Applies an object, and gives its version.
    pub async fn apply(&self, object: Value) -> Result<String> {
        let applied = self.cluster.apply_in(&self.namespace, &object.to_string()).await?;
        applied[0].metadata.resource_version.clone().context("a version")
    }

    /// Applies a Script with this spec.
    pub async fn script(&self, name: &str, spec: Value) -> Result<()> {
        let script = json!({"apiVersion": SCRIPT, "kind": "Script", "metadata": {"name": name}, "spec": spec});
        self.apply(script).await.map(drop)
    }

    /// Applies a Secret whose key `k` has this value, and gives its version.
    pub async fn secret(&self, name: &str, value: &str) -> Result<String> {
        self.labelled_secret(name, value, json!({})).await
    }

    pub async fn labelled_secret(&self, name: &str, value: &str, labels: Value) -> Result<String> {
        self.apply(secret(name, value, labels)).await
    }

    pub async fn delete_secret(&self, name: &str) -> Result<()> {
        self.cluster.delete("v1", "Secret", &self.namespace, name).await
    }

    /// Waits until the ConfigMap `target` holds these data, and gives its version.
    pub async fn target(&self, data: Value) -> Result<String> {
        self.config_map("target", data).await
    }

    /// Waits until the ConfigMap `target` is a copy of this value.
    pub async fn copied(&self, value: &str) -> Result<String> {
        self.target(copy_of(value)).await
    }

    pub async fn config_map(&self, name: &str, data: Value) -> Result<String> {
        wait_for(&format!("ConfigMap {name} to hold {data}"), SOON, async || {
            let Some(found) = self.cluster.get("v1", "ConfigMap", &self.namespace, name).await? else {
                bail!("it is not there; the end of the host's log:\n{}", self.host.log_tail())
            };
            if found.data["data"] != data {
                let log = self.host.log_tail();
                bail!("it holds {}; the end of the host's log:\n{log}", found.data["data"])
            }
            Ok(found.metadata.resource_version)
        })
        .await
    }

    /// Follows the ConfigMap `target` from now on.
    pub async fn history(&self) -> Result<History> {
        self.cluster.history("v1", "ConfigMap", &self.namespace, "target").await
    }

    /// Waits until the host knows a Secret at this version.
    pub async fn knows(&self, name: &str, version: &str) -> Result<()> {
        let object = ["secret", name, "-n", &self.namespace, "-o", "json"];
        wait_for(&format!("the host to know {name} at {version}"), SOON, async || {
            let output = self.host.explain(&object).await?;
            if !output.status.success() {
                bail!("{}", String::from_utf8_lossy(&output.stderr))
            }
            let explained: Value = serde_json::from_slice(&output.stdout)?;
            if explained["resourceVersion"] == version {
                return Ok(Some(()));
            }
            bail!("it says {explained}")
        })
        .await
    }

    /// Waits until the host asks for nothing and writes nothing any longer.
    pub async fn rest(&self) -> Result<()> {
        self.proxy.wait_until_quiet(&Filter::any(), QUIET, SOON).await
    }

    /// How often a Script has run.
    pub fn runs(&self, name: &str) -> usize {
        let runs = self.host.runs("Script");
        runs.get(&format!("{}/{name}", self.namespace))
            .copied()
            .unwrap_or_default()
    }

    /// Waits until a Script has run more often than this.
    pub async fn runs_again(&self, name: &str, before: usize) -> Result<()> {
        let what = format!("{name} to run more than {before} times");
        wait_for(&what, SOON, async || Ok((self.runs(name) > before).then_some(()))).await
    }

    /// Breaks off what watches Secrets. It must be watched by now.
    pub fn cut(&self) {
        let cut = self.proxy.cut(&watches());
        assert!(cut > 0, "no watch of Secrets: {:?}", self.proxy.open_watches());
    }
}

/// The watches of Secrets.
pub fn watches() -> Filter {
    Filter::watches().of("secrets")
}

pub fn secret(name: &str, value: &str, labels: Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "labels": labels},
        "data": {"k": STANDARD.encode(value)},
    })
}

/// A query of one Secret by its name, for its key `k`, under the name's id.
pub fn named(name: &str) -> Value {
    json!({
        "id": name, "apiVersion": "v1", "kind": "Secret", "named": {"name": name}, "fields": {"paths": ["data.k"]},
    })
}

/// A Script's spec: it asks this, and applies a ConfigMap with these data.
pub fn applying(queries: Value, name: &str, data: Value) -> Value {
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data});
    json!({"queries": queries, "apply": [{"object": object}]})
}

/// One that copies the Secret `source` to the ConfigMap `target`.
pub fn copy() -> Value {
    copying("source")
}

pub fn copying(name: &str) -> Value {
    let data = json!({"k": format!("${{{name}:data.k}}"), "state": format!("${{state:{name}}}")});
    applying(json!([named(name)]), "target", data)
}

/// The data of the target of such a Script, when the source has this value.
pub fn copy_of(value: &str) -> Value {
    json!({"k": STANDARD.encode(value), "state": "found"})
}

/// The same when it is missing.
pub fn copy_of_nothing() -> Value {
    json!({"k": "", "state": "missing"})
}
