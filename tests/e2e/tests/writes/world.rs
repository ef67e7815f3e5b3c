//! A namespace of a test's own with a host of its own, on an API server that all tests share.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use patchbay_harness::{Cluster, Filter, Host, HostOptions, Proxy, binaries, wait_for};
use serde_json::{Value, json};

pub const SCRIPT: &str = "script.patchbay.dev/v1";
/// What "at once" may take on a machine that runs everything else as well.
pub const SOON: Duration = Duration::from_secs(20);

/// The host is given a proxy that shows it the Scripts of this namespace only, so it leaves those of other tests alone.
pub struct World {
    pub cluster: Cluster,
    pub namespace: String,
    pub proxy: Proxy,
    options: HostOptions,
    host: Option<Host>,
}

impl World {
    /// With a running host.
    pub async fn new(purpose: &str) -> Result<Self> {
        let mut world = Self::without_host(purpose).await?;
        world.start().await?;
        Ok(world)
    }

    pub async fn without_host(purpose: &str) -> Result<Self> {
        let cluster = Cluster::shared_with_scripts().await?;
        let namespace = cluster.namespace(purpose).await?;
        let proxy = Proxy::start(&cluster).await?;
        proxy.confine("scripts", &namespace);
        Ok(World {
            cluster,
            namespace,
            options: HostOptions::of_scripts(&proxy)?,
            proxy,
            host: None,
        })
    }

    /// The host is to have the plugins that are no test's, and not Scripts.
    pub fn with_plugins(&mut self) -> Result<()> {
        self.options.plugins = Some(binaries::plugins()?);
        Ok(())
    }

    pub async fn start(&mut self) -> Result<()> {
        self.host = Some(Host::start(&self.cluster, &self.options).await?);
        Ok(())
    }

    /// Kills the host, as a crash would.
    pub fn stop(&mut self) {
        self.host = None;
    }

    pub async fn restart(&mut self) -> Result<()> {
        self.stop();
        self.start().await
    }

    pub fn host(&self) -> &Host {
        self.host.as_ref().expect("a running host")
    }

    /// Applies a Script.
    pub async fn script(&self, name: &str, spec: Value) -> Result<()> {
        let script = json!({"apiVersion": SCRIPT, "kind": "Script", "metadata": {"name": name}, "spec": spec});
        self.apply(script).await.map(drop)
    }

    pub async fn delete_script(&self, name: &str) -> Result<()> {
        self.cluster.delete(SCRIPT, "Script", &self.namespace, name).await
    }

    /// Applies an object to this namespace, unless it names another.
    pub async fn apply(&self, object: Value) -> Result<DynamicObject> {
        let mut applied = self.cluster.apply_in(&self.namespace, &object.to_string()).await?;
        applied.pop().context("an object")
    }

    /// Makes a ConfigMap by another manager.
    pub async fn config_map(&self, name: &str, data: Value) -> Result<DynamicObject> {
        self.apply(config_map(name, data)).await
    }

    pub async fn get(&self, kind: &str, name: &str) -> Result<Option<DynamicObject>> {
        self.cluster.get(api_version(kind), kind, &self.namespace, name).await
    }

    /// An object that is there.
    pub async fn there(&self, kind: &str, name: &str) -> Result<DynamicObject> {
        let found = self.get(kind, name).await?;
        found.with_context(|| format!("{kind} {name} is not there"))
    }

    /// Waits until an object is as wanted.
    pub async fn until(
        &self,
        what: &str,
        kind: &str,
        name: &str,
        wanted: impl Fn(&DynamicObject) -> bool,
    ) -> Result<DynamicObject> {
        wait_for(&format!("{kind} {name} to {what}"), SOON, async || {
            match self.get(kind, name).await? {
                Some(object) if wanted(&object) => Ok(Some(object)),
                Some(object) => bail!("it is {}", serde_json::to_string(&object)?),
                None => bail!("it is not there"),
            }
        })
        .await
    }

    /// Waits until a ConfigMap holds these data and no others.
    pub async fn data(&self, name: &str, data: Value) -> Result<DynamicObject> {
        let what = format!("hold {data}");
        self.until(&what, "ConfigMap", name, |object| object.data["data"] == data)
            .await
    }

    pub async fn gone(&self, kind: &str, name: &str) -> Result<()> {
        wait_for(&format!("{kind} {name} to be gone"), SOON, async || {
            match self.get(kind, name).await? {
                Some(object) => bail!("it is {}", serde_json::to_string(&object)?),
                None => Ok(Some(())),
            }
        })
        .await
    }

    /// Waits until a kind is served no longer.
    pub async fn until_unserved(&self, api_version: &str, kind: &str) -> Result<()> {
        wait_for(&format!("{kind} to be served no longer"), SOON, async || {
            Ok(self.cluster.api(api_version, kind, "").await.is_err().then_some(()))
        })
        .await
    }

    /// Waits until what the host knows and did of a Script is as wanted: `patchbay explain`'s answer of it as a primary. The
    /// Script is seen as it is now.
    pub async fn explained(&self, what: &str, script: &str, wanted: impl Fn(&Value) -> bool) -> Result<Value> {
        let address = format!("script/{script}");
        let arguments = [&*address, "-n", &self.namespace, "-o", "json"];
        wait_for(&format!("Script {script} to {what}"), SOON, async || {
            let now = self.there("Script", script).await?;
            let output = self.host().explain(&arguments).await?;
            if !output.status.success() {
                bail!("{}", String::from_utf8_lossy(&output.stderr));
            }
            let explained: Value = serde_json::from_slice(&output.stdout)?;
            let seen = explained["resourceVersion"].as_str() == now.metadata.resource_version.as_deref();
            let primary = &explained["primaries"][0];
            if seen && wanted(primary) {
                return Ok(Some(primary.clone()));
            }
            bail!("it is {explained}")
        })
        .await
    }

    /// Waits until a Script's last run has done all that it wanted, and nothing more is to come. Gives that run.
    pub async fn done(&self, script: &str) -> Result<Value> {
        let done = |primary: &Value| primary["state"] == "idle" && primary["runs"][0]["result"] == "done";
        let primary = self.explained("be done", script, done).await?;
        Ok(primary["runs"][0].clone())
    }

    /// Waits until a write of a Script has failed with all of these words, and gives the run.
    pub async fn failed(&self, script: &str, words: &[&str]) -> Result<Value> {
        let told = |write: &Value| {
            let message = write["message"].as_str().unwrap_or_default();
            write["state"] == "failed" && words.iter().all(|word| message.contains(word))
        };
        let failed = |run: &&Value| list(&run["writes"]).iter().any(told);
        let what = format!("fail with {words:?}");
        let primary = self
            .explained(&what, script, |primary| {
                list(&primary["runs"]).iter().any(|run| failed(&run))
            })
            .await?;
        let runs = list(&primary["runs"]);
        runs.iter().find(failed).cloned().context("the run")
    }

    /// Waits until the status of a Script tells these results of its last run's writes.
    pub async fn told(&self, script: &str, last_writes: &[&str]) -> Result<DynamicObject> {
        let what = format!("tell {last_writes:?}");
        self.until(&what, "Script", script, |script| told_of(script) == last_writes)
            .await
    }

    /// Waits for an event about a Script whose message has all of these words.
    pub async fn event(&self, script: &str, reason: &str, words: &[&str]) -> Result<String> {
        let what = format!("an event {reason} about Script {script} with {words:?}");
        wait_for(&what, SOON, async || {
            let events = self.cluster.events("Script", script).await?;
            let here = events
                .into_iter()
                .filter(|event| event.metadata.namespace.as_ref() == Some(&self.namespace));
            let messages = here
                .filter(|event| event.reason.as_deref() == Some(reason))
                .filter_map(|event| event.message);
            let messages: Vec<String> = messages.collect();
            match messages
                .iter()
                .find(|message| words.iter().all(|word| message.contains(word)))
            {
                Some(message) => Ok(Some(message.clone())),
                None => bail!("there are {messages:?}"),
            }
        })
        .await
    }

    /// Waits until nobody writes here any longer, and gives how often anybody did through the host.
    pub async fn rest(&self) -> Result<usize> {
        let writes = Filter::writes();
        self.proxy
            .wait_until_quiet(&writes, Duration::from_secs(1), SOON)
            .await?;
        Ok(self.proxy.count(&writes))
    }

    /// Applies a ConfigMap as another controller would, which takes over what it wants.
    pub async fn force(&self, manager: &str, name: &str, data: Value) -> Result<()> {
        let api: Api<DynamicObject> = self.cluster.api("v1", "ConfigMap", &self.namespace).await?;
        let params = PatchParams::apply(manager).force();
        api.patch(name, &params, &Patch::Apply(config_map(name, data))).await?;
        Ok(())
    }
}

/// The apiVersion of the kinds that these tests use.
pub fn api_version(kind: &str) -> &'static str {
    match kind {
        "Script" => SCRIPT,
        "Role" => "rbac.authorization.k8s.io/v1",
        "Lease" => "coordination.k8s.io/v1",
        _ => "v1",
    }
}

pub fn config_map(name: &str, data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data})
}

/// A Script's spec that wants nothing. The API server refuses one that has lost all its fields.
pub fn nothing() -> Value {
    json!({"status": false})
}

/// A query of one ConfigMap.
pub fn query(id: &str, name: &str) -> Value {
    json!({"id": id, "apiVersion": "v1", "kind": "ConfigMap", "named": {"name": name}})
}

/// All elements of a list.
pub fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// The states of a run's writes, in their order.
pub fn states(run: &Value) -> Vec<&str> {
    let states = list(&run["writes"]).iter().map(|write| write["state"].as_str());
    states.map(Option::unwrap_or_default).collect()
}

/// What the status of a Script tells of its last run's writes.
pub fn told_of(script: &DynamicObject) -> Vec<String> {
    let writes = list(&script.data["status"]["lastWrites"]).iter().map(|write| {
        let text = |field: &str| write[field].as_str().unwrap_or_default().to_owned();
        format!("{} {}", text("action"), text("state"))
    });
    writes.collect()
}

/// The managers of an object, with how they came to own their fields.
pub fn managers(object: &DynamicObject) -> Vec<String> {
    let entries = object.metadata.managed_fields.iter().flatten().map(|entry| {
        let text = |field: &Option<String>| field.clone().unwrap_or_default();
        format!("{} {}", text(&entry.manager), text(&entry.operation))
    });
    entries.collect()
}

pub fn uid(object: &DynamicObject) -> String {
    object.metadata.uid.clone().unwrap_or_default()
}

pub fn version(object: &DynamicObject) -> u64 {
    let version = object.metadata.resource_version.as_deref();
    version.and_then(|version| version.parse().ok()).unwrap_or_default()
}
