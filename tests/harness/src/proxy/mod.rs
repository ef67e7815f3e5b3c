//! A proxy in front of an API server, at which things go wrong when a test says so.
//!
//! A host that is given [`Proxy::kubeconfig_path`] sees the API server over plain HTTP, as an administrator. What it does
//! there is written down, and [faults](Fault) can be set for the requests that a [`Filter`] matches:
//!
//! ```no_run
//! # async fn example(cluster: &patchbay_harness::Cluster) -> anyhow::Result<()> {
//! use std::time::Duration;
//! use patchbay_harness::{Fault, Filter, Host, HostOptions, Proxy};
//!
//! let proxy = Proxy::start(cluster).await?;
//! let options = HostOptions { kubeconfig: Some(proxy.kubeconfig_path()), ..HostOptions::default() };
//! let _host = Host::start(cluster, &options).await?;
//!
//! let late = proxy.fault(Filter::reads().of("configmaps").named("source"), Fault::Hold);
//! late.wait_until_held(1, Duration::from_secs(5)).await?;
//! // The host waits for an answer that the API server has given. What changes now, it hears of first.
//! late.lift();
//!
//! proxy.cut(&Filter::watches());
//! assert!(proxy.count(&Filter::writes()) > 0);
//! # Ok(())
//! # }
//! ```

mod fault;
mod filter;
mod relay;
mod request;
mod serve;
mod state;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::json;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

pub use fault::{ActiveFault, Fault, Refusal};
pub use filter::Filter;
pub use request::{ApiRequest, Verb};
pub use state::{Entry, Told};

use crate::{Cluster, wait_for};
use state::{Control, Shared};

/// A proxy. It ends when this is dropped.
pub struct Proxy {
    shared: Arc<Shared>,
    url: String,
    folder: TempDir,
    runtime: Handle,
    /// Dropped to end the thread.
    _end: oneshot::Sender<()>,
}

impl Proxy {
    /// Starts a proxy in front of a cluster's API server. It has a thread of its own, so that it can be shared by tests,
    /// each of which has a runtime of its own, and works on while a test computes.
    pub async fn start(cluster: &Cluster) -> Result<Self> {
        Self::start_as(cluster.kubeconfig()).await
    }

    /// As [`start`](Self::start), with the rights of another identity than the administrator's: that of this kubeconfig.
    pub async fn start_as(kubeconfig: &Kubeconfig) -> Result<Self> {
        let shared = Arc::new(Shared::new());
        let (end, ended) = oneshot::channel::<()>();
        let (ready, started) = oneshot::channel();
        let (kubeconfig, state) = (kubeconfig.clone(), shared.clone());
        thread::Builder::new().name("fault proxy".to_owned()).spawn(move || {
            let runtime = match Builder::new_current_thread().enable_all().build() {
                Ok(runtime) => runtime,
                Err(error) => return drop(ready.send(Err(error.into()))),
            };
            runtime.block_on(async {
                match listen(kubeconfig, state).await {
                    Ok((port, serving)) => {
                        let _ = ready.send(Ok((port, Handle::current())));
                        tokio::select! {
                            () = serving => {}
                            _ = ended => {}
                        }
                    }
                    Err(error) => drop(ready.send(Err(error))),
                }
            });
            runtime.shutdown_background();
        })?;
        let (port, runtime) = started.await.context("the proxy's thread has ended")??;
        let folder = tempfile::Builder::new().prefix("patchbay-proxy-").tempdir()?;
        let proxy = Proxy {
            shared,
            url: format!("http://127.0.0.1:{port}"),
            folder,
            runtime,
            _end: end,
        };
        std::fs::write(proxy.kubeconfig_path(), serde_json::to_string(&proxy.kubeconfig()?)?)?;
        Ok(proxy)
    }

    /// Where it listens.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// A kubeconfig for it. Its token means nothing: the proxy asks the API server with an identity of its own.
    pub fn kubeconfig(&self) -> Result<Kubeconfig> {
        let kubeconfig = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "proxy",
            "clusters": [{"name": "proxy", "cluster": {"server": self.url}}],
            "users": [{"name": "proxy", "user": {"token": "none"}}],
            "contexts": [{"name": "proxy", "context": {"cluster": "proxy", "user": "proxy"}}],
        });
        Ok(serde_json::from_value(kubeconfig)?)
    }

    /// The same in a file.
    pub fn kubeconfig_path(&self) -> PathBuf {
        self.folder().join("kubeconfig")
    }

    fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Shows only one namespace of a resource to whoever asks for all of them. So a host of a test's own reconciles the
    /// primaries of that test, in a cluster in which other tests have theirs.
    pub fn confine(&self, resource: &str, namespace: &str) {
        self.shared.confine(resource, namespace);
    }

    /// Lets requests meet a fault, until it is lifted. Of several that match, the first that was set counts.
    pub fn fault(&self, filter: Filter, fault: Fault) -> ActiveFault {
        self.add(filter, fault, None)
    }

    /// Lets only the next so many requests meet it.
    pub fn fault_times(&self, times: usize, filter: Filter, fault: Fault) -> ActiveFault {
        self.add(filter, fault, Some(times))
    }

    fn add(&self, filter: Filter, fault: Fault, times: Option<usize>) -> ActiveFault {
        let id = self.shared.add_rule(filter, fault, times);
        ActiveFault {
            shared: self.shared.clone(),
            id,
        }
    }

    /// Closes all connections, and every new one at once, or stops to do so.
    pub fn refuse_connections(&self, refuse: bool) {
        self.shared.refuse(refuse);
    }

    /// Breaks open watches off, as a lost connection does. Gives their number.
    pub fn cut(&self, filter: &Filter) -> usize {
        self.shared.control(filter, &Control::Cut)
    }

    /// Ends open watches as an API server does after a while.
    pub fn end(&self, filter: &Filter) -> usize {
        self.shared.control(filter, &Control::End)
    }

    /// Says something in open watches that the API server has not said.
    pub fn say(&self, filter: &Filter, bytes: &[u8]) -> usize {
        self.shared.control(filter, &Control::Say(bytes.to_owned()))
    }

    /// Breaks open watches off again and again, until this is dropped.
    pub fn cut_every(&self, interval: Duration, filter: Filter) -> Cutting {
        let (end, mut ended) = oneshot::channel();
        let shared = self.shared.clone();
        self.runtime.spawn(async move {
            while tokio::time::timeout(interval, &mut ended).await.is_err() {
                shared.control(&filter, &Control::Cut);
            }
        });
        Cutting { _end: end }
    }

    /// The requests so far, in the order in which they came.
    pub fn requests(&self, filter: &Filter) -> Vec<Entry> {
        self.shared.entries(filter)
    }

    /// How many there were.
    pub fn count(&self, filter: &Filter) -> usize {
        self.shared.entries(filter).len()
    }

    /// The watches that are open.
    pub fn open_watches(&self) -> Vec<ApiRequest> {
        self.shared.open_watches()
    }

    /// The events that open and closed watches were told.
    pub fn told(&self, filter: &Filter) -> Vec<Told> {
        self.shared.told(filter)
    }

    /// Waits until a watch was told of an object at this version.
    pub async fn wait_until_told(&self, resource: &str, version: &str, limit: Duration) -> Result<()> {
        let filter = Filter::watches().of(resource);
        wait_for(
            &format!("a watch of {resource} to tell version {version}"),
            limit,
            async || {
                let told = self.told(&filter);
                Ok(told.iter().any(|told| told.version == version).then_some(()))
            },
        )
        .await
    }

    /// Waits until no such request has come for a while.
    pub async fn wait_until_quiet(&self, filter: &Filter, quiet: Duration, limit: Duration) -> Result<()> {
        let begin = Instant::now();
        wait_for(&format!("{quiet:?} without a request"), limit, async || {
            let last = self.requests(filter).last().map_or(begin, |entry| entry.at.max(begin));
            if last.elapsed() >= quiet {
                return Ok(Some(()));
            }
            let requests = self.requests(filter);
            anyhow::bail!("the last one: {:?}", requests.last().map(|entry| &entry.request))
        })
        .await
    }
}

/// Watches are broken off again and again, until this is dropped.
#[must_use = "watches are broken off until this is dropped"]
#[derive(Debug)]
pub struct Cutting {
    _end: oneshot::Sender<()>,
}

async fn listen(kubeconfig: Kubeconfig, shared: Arc<Shared>) -> Result<(u16, impl Future<Output = ()>)> {
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    let client = patchbay_cluster::client(config)?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let port = listener.local_addr()?.port();
    Ok((port, serve::accept(listener, client, shared)))
}
