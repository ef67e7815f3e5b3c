//! `cargo xtask cluster`: runs a command with real API servers.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};
use patchbay_test_cluster::{ApiServer, Options, kubeconfig};
use tempfile::TempDir;

use crate::apiserver;
use crate::signals::{Ended, Signals};
use crate::steps::Steps;
use crate::workspace::Workspace;

/// Options of `cargo xtask cluster`.
#[derive(clap::Args)]
#[command(after_help = "\
Each server is a real kube-apiserver with etcd, garbage collection and namespace deletion, and nothing that runs \
Pods. KUBECONFIG names a file with a context for each: c1, c2 and so on; c1 is the current one. All files are \
temporary.

The exit code is the command's own, 128 and the signal's number if a signal ended it, 127 if there is no such \
command, and 1 if the servers do not start.

Examples:
  cargo xtask cluster -- kubectl get namespaces
  cargo xtask cluster --clusters 2 -- sh -c 'kubectl --context c2 get namespaces'
  cargo xtask cluster --keep")]
pub struct Args {
    /// How many API servers to start
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=50))]
    clusters: u8,
    /// Keep the servers running until Ctrl-C, after the command if there is one
    #[arg(long)]
    keep: bool,
    /// Do not flush etcd to disk: faster
    #[arg(long)]
    no_fsync: bool,
    /// The command to run, with its arguments
    #[arg(last = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// Running servers and a kubeconfig for all of them.
pub struct Clusters {
    /// Dropped before the folders are.
    servers: Vec<ApiServer>,
    _folders: Vec<TempDir>,
    /// The kubeconfig with a context for each.
    pub kubeconfig: PathBuf,
}

/// Starts the servers, runs the command and ends the servers.
pub fn run(workspace: &Workspace, args: &Args) -> Result<ExitCode> {
    if args.command.is_empty() && !args.keep {
        eprintln!("error: nothing to run: name a command after `--`, or keep the servers running with --keep");
        return Ok(ExitCode::from(2));
    }
    let steps = Steps::new();
    let binary = steps.step("test API server", |step| apiserver::build(workspace, step))?;
    let mut clusters = Clusters::start(&steps, &binary, args.clusters, args.no_fsync)?;
    let signals = Signals::catch()?;
    let ended = match args.command.split_first() {
        Some((program, arguments)) => {
            let mut command = Command::new(program);
            command.args(arguments).env("KUBECONFIG", &clusters.kubeconfig);
            match run_command(&signals, command) {
                Ok(ended) => ended,
                Err((error, code)) => {
                    eprintln!("error: {error}");
                    return Ok(ExitCode::from(code));
                }
            }
        }
        None => Ended {
            code: 0,
            interrupted: false,
        },
    };
    if args.keep && !ended.interrupted {
        clusters.keep(&signals)?;
    }
    Ok(ExitCode::from(ended.code))
}

/// Runs the command, or says why not, with the exit code that a shell would give.
fn run_command(signals: &Signals, mut command: Command) -> Result<Ended, (String, u8)> {
    let name = command.get_program().to_string_lossy().into_owned();
    signals.run(&mut command).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => (format!("there is no command `{name}`: check its name and PATH"), 127),
        _ => (format!("cannot run `{name}`: {error}"), 126),
    })
}

impl Clusters {
    /// Starts servers with the contexts c1, c2 and so on.
    pub fn start(steps: &Steps, binary: &Path, count: u8, no_fsync: bool) -> Result<Self> {
        let contexts: Vec<_> = (1..=count).map(|number| format!("c{number}")).collect();
        let name = match &contexts[..] {
            [first, .., last] => format!("clusters {first} to {last}"),
            _ => "cluster c1".to_owned(),
        };
        steps.step(&name, |_| {
            // Each in a folder of its own, which the server itself removes at its end: it sees that too if this
            // program is killed.
            let folders = contexts.iter().map(|context| {
                tempfile::Builder::new()
                    .prefix(&format!("patchbay-{context}-"))
                    .tempdir()
            });
            let folders = folders
                .collect::<io::Result<Vec<_>>>()
                .context("cannot make a temporary folder")?;
            let places: Vec<_> = folders
                .iter()
                .map(|folder| folder.path().to_owned())
                .zip(contexts)
                .collect();
            let options = Options {
                no_fsync,
                temporary: true,
                ..Options::default()
            };
            let servers = ApiServer::start_all(binary, &places, &options)?;
            let kubeconfig_path = folders[0].path().join("kubeconfig-of-all");
            fs::write(&kubeconfig_path, kubeconfig(servers.iter().map(ApiServer::access)))
                .with_context(|| format!("cannot write {}", kubeconfig_path.display()))?;
            Ok(Self {
                servers,
                _folders: folders,
                kubeconfig: kubeconfig_path,
            })
        })
    }

    /// Says how to reach the servers, and waits for a signal.
    fn keep(&mut self, signals: &Signals) -> Result<()> {
        println!("Reach the clusters from another terminal; Ctrl-C ends them:");
        println!("  export KUBECONFIG={}", self.kubeconfig.display());
        for server in &self.servers {
            println!("  kubectl --context {} get namespaces", server.access().context);
        }
        let ended = signals.wait(|| {
            let ended = self
                .servers
                .iter_mut()
                .find_map(|server| server.has_ended().then(|| server.access()));
            ended.map(|access| access.context.clone())
        });
        if let Some(context) = ended {
            bail!("the API server of {context} has ended by itself");
        }
        Ok(())
    }
}
