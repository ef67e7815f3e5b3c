//! A cluster to test in.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Api, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use patchbay_test_cluster::{ApiServer, Options, find_binary};
use serde_json::Value;
use tempfile::TempDir;
use tokio::sync::OnceCell;

use crate::{binaries, condition, wait_for};

/// An API server with an administrator's client.
///
/// A client belongs to the runtime in which it was made, so each test has a `Cluster` of its own, even if several
/// stand for the same server.
pub struct Cluster {
    client: Client,
    kubeconfig: Kubeconfig,
    kubeconfig_path: PathBuf,
    server: Option<Arc<Server>>,
}

/// A server that this process started.
struct Server {
    api: ApiServer,
    /// Dropped after the server, which removes the folder itself if this process is killed.
    _folder: TempDir,
}

impl Cluster {
    /// Starts a server that ends when this is dropped.
    pub async fn start() -> Result<Self> {
        Self::of_server(Arc::new(start_server("c1").await?)).await
    }

    /// Starts several servers at once.
    pub async fn start_many(count: usize) -> Result<Vec<Self>> {
        let names = (1..=count).map(|number| format!("c{number}"));
        let servers = futures::future::join_all(names.map(async |name| start_server(&name).await)).await;
        let mut clusters = Vec::new();
        for server in servers {
            clusters.push(Self::of_server(Arc::new(server?)).await?);
        }
        Ok(clusters)
    }

    /// The one server that all tests of this process share. It ends with the process.
    pub async fn shared() -> Result<Self> {
        static SERVER: OnceCell<Arc<Server>> = OnceCell::const_new();
        let server = SERVER
            .get_or_try_init(async || start_server("shared").await.map(Arc::new))
            .await?;
        Self::of_server(server.clone()).await
    }

    /// The shared one, in which Scripts are served.
    pub async fn shared_with_scripts() -> Result<Self> {
        static SERVED: OnceCell<()> = OnceCell::const_new();
        let cluster = Self::shared().await?;
        SERVED
            .get_or_try_init(async || cluster.apply_script_crd().await)
            .await?;
        Ok(cluster)
    }

    /// A server that somebody else started.
    pub async fn of_kubeconfig(path: &Path) -> Result<Self> {
        Self::connect(path.to_owned(), None).await
    }

    async fn of_server(server: Arc<Server>) -> Result<Self> {
        Self::connect(server.api.kubeconfig_path(), Some(server)).await
    }

    async fn connect(kubeconfig_path: PathBuf, server: Option<Arc<Server>>) -> Result<Self> {
        let problem = || format!("cannot use the kubeconfig {}", kubeconfig_path.display());
        let kubeconfig = Kubeconfig::read_from(&kubeconfig_path).with_context(problem)?;
        let config = Config::from_custom_kubeconfig(kubeconfig.clone(), &KubeConfigOptions::default()).await;
        let client = patchbay_cluster::client(config.with_context(problem)?).with_context(problem)?;
        Ok(Self {
            client,
            kubeconfig,
            kubeconfig_path,
            server,
        })
    }

    /// An administrator's client.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// A client with connections of its own, such as one for measuring needs.
    pub async fn another_client(&self) -> Result<Client> {
        let config = Config::from_custom_kubeconfig(self.kubeconfig.clone(), &KubeConfigOptions::default()).await?;
        Ok(patchbay_cluster::client(config)?)
    }

    /// The kubeconfig of an administrator, in a file.
    pub fn kubeconfig_path(&self) -> &Path {
        &self.kubeconfig_path
    }

    /// The kubeconfig of an administrator.
    pub fn kubeconfig(&self) -> &Kubeconfig {
        &self.kubeconfig
    }

    /// A folder that is removed with the server, if this process started it.
    pub(crate) fn folder(&self) -> Option<&Path> {
        self.server.as_ref().map(|server| server.api.folder())
    }

    /// Makes a namespace with a name of its own, which begins with `purpose`.
    pub async fn namespace(&self, purpose: &str) -> Result<String> {
        let metadata = ObjectMeta {
            generate_name: Some(format!("{purpose}-")),
            ..ObjectMeta::default()
        };
        let namespace = Namespace {
            metadata,
            ..Namespace::default()
        };
        let made = Api::all(self.client()).create(&PostParams::default(), &namespace).await;
        let made: Namespace = made.with_context(|| format!("cannot make a namespace for {purpose}"))?;
        made.metadata.name.context("a namespace without a name")
    }

    /// The uid of the kube-system namespace, which identifies a cluster.
    pub async fn uid(&self) -> Result<String> {
        let system = Api::<Namespace>::all(self.client()).get("kube-system").await?;
        system.metadata.uid.context("kube-system has no uid")
    }

    /// Applies the CRDs that the host's binary prints, and waits until they are served.
    pub async fn apply_crds(&self) -> Result<()> {
        let binary = binaries::host()?;
        let problem = || format!("cannot run `{} crds`", binary.display());
        let mut command = tokio::process::Command::new(&binary);
        let output = command
            .arg("crds")
            .stderr(Stdio::inherit())
            .output()
            .await
            .with_context(problem)?;
        if !output.status.success() {
            bail!("`{} crds` failed ({})", binary.display(), output.status);
        }
        self.apply_definitions(&String::from_utf8_lossy(&output.stdout)).await
    }

    /// Applies the CRD of the test plugin's primaries, Scripts, and waits until it is served.
    pub async fn apply_script_crd(&self) -> Result<()> {
        self.apply_definitions(include_str!("../../plugins/script/crds/scripts.yaml"))
            .await
    }

    /// Applies CRDs, and waits until all their versions are served.
    pub async fn apply_definitions(&self, yaml: &str) -> Result<()> {
        for crd in self.apply(yaml).await? {
            let name = crd.metadata.name.clone().unwrap_or_default();
            wait_for(
                &format!("CRD {name} to be served"),
                Duration::from_secs(10),
                async || {
                    let crd = self
                        .get("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", &name)
                        .await?;
                    let established = crd.as_ref().and_then(|crd| condition(crd, "Established"));
                    let (Some(crd), Some("True")) = (&crd, established.as_ref().map(|found| found.status.as_str()))
                    else {
                        return Ok(None);
                    };
                    // Discovery follows a moment later.
                    let spec = &crd.data["spec"];
                    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
                    let (group, kind) = (text(&spec["group"]), text(&spec["names"]["kind"]));
                    for version in spec["versions"].as_array().into_iter().flatten() {
                        self.api(&format!("{group}/{}", text(&version["name"])), &kind, "")
                            .await?;
                    }
                    Ok(Some(()))
                },
            )
            .await?;
        }
        Ok(())
    }
}

async fn start_server(context: &str) -> Result<Server> {
    let context = context.to_owned();
    let start = tokio::task::spawn_blocking(move || {
        let folder = tempfile::Builder::new()
            .prefix(&format!("patchbay-{context}-"))
            .tempdir()?;
        // Nothing here outlives the machine, so nothing is lost by not waiting for the disk.
        let options = Options {
            no_fsync: true,
            temporary: true,
            ..Options::default()
        };
        let api = ApiServer::start(&find_binary()?, folder.path(), &context, &options)?;
        Ok(Server { api, _folder: folder })
    });
    start.await?
}
