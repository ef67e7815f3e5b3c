//! An API server that goes away and comes back.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use patchbay_test_cluster::{ApiServer, Options, find_binary};
use tempfile::TempDir;

use crate::Cluster;

/// Where the server keeps what etcd stores, below its folder.
const DATA: &str = "etcd";

/// A server of its own that can be stopped and started again: at the same address, with the same certificate and the same
/// credentials, and with the data that it had, with older ones or with none.
pub struct DurableServer {
    running: Option<ApiServer>,
    port: u16,
    folder: TempDir,
}

/// What a server stored at one time.
pub struct Saved {
    folder: TempDir,
}

impl DurableServer {
    /// Starts a server without data.
    pub async fn start() -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("patchbay-durable-").tempdir()?;
        let running = launch(folder.path().to_owned(), None).await?;
        let url = &running.access().url;
        let port = url.rsplit_once(':').and_then(|(_, port)| port.parse().ok());
        Ok(DurableServer {
            port: port.with_context(|| format!("no port in {url}"))?,
            running: Some(running),
            folder,
        })
    }

    /// A client, which serves for the server after it was started again too.
    pub async fn cluster(&self) -> Result<Cluster> {
        Cluster::of_kubeconfig(&self.folder.path().join("kubeconfig")).await
    }

    /// Ends the server.
    pub async fn stop(&mut self) -> Result<()> {
        let running = self.running.take();
        Ok(tokio::task::spawn_blocking(move || drop(running)).await?)
    }

    /// Starts it again.
    pub async fn start_again(&mut self) -> Result<()> {
        self.stopped()?;
        self.running = Some(launch(self.folder.path().to_owned(), Some(self.port)).await?);
        Ok(())
    }

    /// Copies the data of the server, which must have been stopped.
    pub fn save(&self) -> Result<Saved> {
        self.stopped()?;
        let folder = tempfile::Builder::new().prefix("patchbay-saved-").tempdir()?;
        copy(&self.data(), folder.path()).context("cannot copy the server's data")?;
        Ok(Saved { folder })
    }

    /// Replaces the data of the server, which must have been stopped, by older ones.
    pub fn restore(&self, saved: &Saved) -> Result<()> {
        self.forget()?;
        fs::create_dir(self.data())?;
        copy(saved.folder.path(), &self.data()).context("cannot copy the saved data")
    }

    /// Removes the data of the server, which must have been stopped.
    pub fn forget(&self) -> Result<()> {
        self.stopped()?;
        fs::remove_dir_all(self.data()).context("cannot remove the server's data")
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join(DATA)
    }

    fn stopped(&self) -> Result<()> {
        if self.running.is_some() {
            bail!("the server is running: stop it first");
        }
        Ok(())
    }
}

async fn launch(folder: PathBuf, port: Option<u16>) -> Result<ApiServer> {
    let start = tokio::task::spawn_blocking(move || -> Result<ApiServer> {
        let options = Options {
            no_fsync: true,
            port,
            ..Options::default()
        };
        Ok(ApiServer::start(&find_binary()?, &folder, "durable", &options)?)
    });
    start.await?
}

/// Copies what is in a folder.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            fs::create_dir(&target)?;
            copy(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}
