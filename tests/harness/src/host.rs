//! A running `patchbay`.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tempfile::TempDir;

use crate::{Cluster, Proxy, binaries, wait_for};

/// What the host logs once it serves. It may have to compile plugins before.
const READY: &str = "patchbay is ready";
const START_LIMIT: Duration = Duration::from_secs(120);

/// Says where a host's socket is.
const SOCKET: &str = "PATCHBAY_SOCKET";

/// Lines of the log that are shown when something went wrong.
const TAIL: usize = 60;

/// How a host is started.
#[derive(Debug, Clone)]
pub struct HostOptions {
    /// Another kubeconfig than the cluster administrator's.
    pub kubeconfig: Option<PathBuf>,
    /// Another folder of plugins than the one that was built.
    pub plugins: Option<PathBuf>,
    /// Grant the plugins all that they ask for.
    pub trust_requests: bool,
    /// Further arguments of `patchbay run`.
    pub arguments: Vec<String>,
    /// Environment variables.
    pub environment: Vec<(String, String)>,
}

impl Default for HostOptions {
    fn default() -> Self {
        Self {
            kubeconfig: None,
            plugins: None,
            trust_requests: true,
            arguments: Vec::new(),
            environment: Vec::new(),
        }
    }
}

impl HostOptions {
    /// Behind a proxy, with the test plugin, and with a log of all that it does.
    pub fn of_scripts(proxy: &Proxy) -> Result<Self> {
        Ok(Self {
            kubeconfig: Some(proxy.kubeconfig_path()),
            plugins: Some(binaries::test_plugins()?),
            arguments: vec!["--log".to_owned(), "debug".to_owned()],
            ..Self::default()
        })
    }
}

/// A running host. Dropping it kills it; if that is because of a failed test, the end of its log is shown.
pub struct Host {
    child: Child,
    guard: Child,
    log: PathBuf,
    socket: PathBuf,
    _folder: Option<TempDir>,
}

impl Host {
    /// Starts a host and waits until it is ready.
    pub async fn start(cluster: &Cluster, options: &HostOptions) -> Result<Self> {
        let binary = binaries::host()?;
        let plugins = options.plugins.clone().map_or_else(binaries::plugins, Ok)?;
        let kubeconfig = options.kubeconfig.as_deref().unwrap_or(cluster.kubeconfig_path());
        let mut command = Command::new(binary);
        command
            .arg("run")
            .arg("--kubeconfig")
            .arg(kubeconfig)
            .arg("--plugins")
            .arg(plugins);
        if options.trust_requests {
            command.arg("--trust-requests");
        }
        command.args(&options.arguments);
        let mut host = Self::spawn(command, &options.environment, cluster.folder())?;
        host.wait_ready(START_LIMIT).await?;
        Ok(host)
    }

    /// Starts the command with its log in the folder, or in a temporary one.
    fn spawn(mut command: Command, environment: &[(String, String)], folder: Option<&Path>) -> Result<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(1);
        let own_folder = match folder {
            Some(_) => None,
            None => Some(tempfile::Builder::new().prefix("patchbay-host-").tempdir()?),
        };
        let folder = folder
            .or(own_folder.as_ref().map(TempDir::path))
            .context("no folder for the log")?;
        let log = folder.join(format!("host-{}.log", NUMBER.fetch_add(1, Ordering::Relaxed)));
        // Each host has a socket of its own, beside its log.
        let socket = log.with_extension("sock");
        command.env(SOCKET, &socket).envs(environment.iter().cloned());
        let output = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
        command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
        let mut child = command
            .spawn()
            .with_context(|| format!("cannot run {}", command.get_program().display()))?;
        let guard = guard(child.id()).inspect_err(|_| {
            let _ = child.kill();
        })?;
        Ok(Self {
            child,
            guard,
            log,
            socket,
            _folder: own_folder,
        })
    }

    async fn wait_ready(&mut self, limit: Duration) -> Result<()> {
        let log = self.log.clone();
        let ready = wait_for("the host to be ready", limit, async || {
            if fs::read_to_string(&log)?.contains(READY) {
                return Ok(Some(None));
            }
            Ok(self.child.try_wait()?.map(Some))
        });
        match ready.await {
            Ok(None) => Ok(()),
            Ok(Some(status)) => bail!(
                "the host ended before it was ready ({status}); the end of its log:\n{}",
                self.log_tail()
            ),
            Err(error) => bail!("{error}; the end of its log:\n{}", self.log_tail()),
        }
    }

    /// All that the host has logged.
    pub fn log(&self) -> String {
        fs::read(&self.log)
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .unwrap_or_default()
    }

    /// The file that it logs to.
    pub fn log_path(&self) -> &Path {
        &self.log
    }

    /// The last lines of the log.
    pub fn log_tail(&self) -> String {
        let log = self.log();
        let lines: Vec<_> = log.lines().collect();
        lines[lines.len().saturating_sub(TAIL)..].join("\n")
    }

    /// The socket on which it can be asked.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Runs `patchbay explain` with these arguments, which asks this host.
    pub async fn explain(&self, arguments: &[&str]) -> Result<Output> {
        let mut command = tokio::process::Command::new(binaries::host()?);
        command.arg("explain").args(arguments).env(SOCKET, &self.socket);
        command.output().await.context("cannot run `patchbay explain`")
    }

    /// Waits until the log has this text.
    pub async fn wait_for_log(&self, text: &str, limit: Duration) -> Result<()> {
        let what = format!("the host to log {text:?}");
        wait_for(&what, limit, async || Ok(self.log().contains(text).then_some(()))).await
    }

    /// How often each primary of a kind has run, by `namespace/name`. It is read from the log, which must be at level debug.
    pub fn runs(&self, kind: &str) -> BTreeMap<String, usize> {
        count_runs(&self.log(), kind)
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Whether it is no longer running.
    pub fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Kills it at once, as a crash would.
    pub fn kill(self) {}
}

impl Drop for Host {
    fn drop(&mut self) {
        // The guard first, while the host's process id cannot belong to another process yet.
        let _ = self.guard.kill();
        let _ = self.guard.wait();
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("the end of the host's log:\n{}", self.log_tail());
        }
    }
}

fn count_runs(log: &str, kind: &str) -> BTreeMap<String, usize> {
    let begin = format!(" run primary={kind} ");
    let mut runs = BTreeMap::new();
    for line in log.lines() {
        let name = line.split_once(&begin).and_then(|(_, rest)| rest.split_once(' '));
        if let Some((name, _)) = name {
            *runs.entry(name.to_owned()).or_default() += 1;
        }
    }
    runs
}

/// Starts a process that kills the host when this process ends in whatever way, which it sees by its input. It is in
/// a process group of its own, so that Ctrl-C in a terminal leaves it to do so.
fn guard(host: u32) -> io::Result<Child> {
    let mut command = Command::new("sh");
    command.args(["-c", "read -r _; kill -9 \"$0\"", &host.to_string()]);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.process_group(0).spawn()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[tokio::test]
    async fn a_host_is_ready_when_it_says_so() {
        let mut host = Host::spawn(
            shell("echo 'patchbay is ready plugins=1' >&2; exec sleep 600"),
            &[],
            None,
        )
        .unwrap();
        host.wait_ready(Duration::from_secs(10)).await.unwrap();
        assert!(!host.has_ended());
    }

    #[test]
    fn runs_are_counted_by_primary() {
        let log = "\
            12:00 DEBUG run primary=Script n/a wakes=\"new\"\n\
            12:00 DEBUG run primary=Script n/ab wakes=\"new\"\n\
            12:00 DEBUG run primary=Object n/a wakes=\"new\"\n\
            12:01 DEBUG run primary=Script n/a wakes=\"ConfigMap n/s changed\"\n";
        let runs = count_runs(log, "Script");
        assert_eq!(
            runs.into_iter().collect::<Vec<_>>(),
            [("n/a".to_owned(), 2), ("n/ab".to_owned(), 1)]
        );
    }

    #[tokio::test]
    async fn a_host_that_ends_says_why() {
        let mut host = Host::spawn(shell("echo 'no such cluster'; exit 1"), &[], None).unwrap();
        let error = host.wait_ready(Duration::from_secs(10)).await.unwrap_err().to_string();
        assert!(
            error.contains("exit status: 1") && error.ends_with("no such cluster"),
            "{error}"
        );
    }

    #[tokio::test]
    async fn a_host_does_not_outlive_its_guards_input() {
        let mut host = Host::spawn(shell("exec sleep 600"), &[], None).unwrap();
        // This is what the end of this process would do.
        drop(host.guard.stdin.take());
        wait_for("the host to be killed", Duration::from_secs(10), async || {
            Ok(host.has_ended().then_some(()))
        })
        .await
        .unwrap();
    }
}
