//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};

/// A Kubernetes controller host: it watches, queues, caches and writes; WebAssembly plugins decide.
#[derive(Parser)]
#[command(name = "patchbay", version, max_term_width = 110)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Run the host, until it is interrupted.
    Run(RunArguments),
    /// Ask the running host why an object is as it is: what its runs were woken by, found and wrote, and who depends on it.
    Explain(ExplainArguments),
    /// Show offline what a plugin would do with the objects in some files.
    Render(RenderArguments),
    /// Look at plugins.
    #[command(subcommand)]
    Plugin(PluginCommand),
    /// Print the CustomResourceDefinitions of the plugins that come with patchbay.
    Crds,
    /// Print a completion script for a shell.
    Completion {
        /// Which shell.
        shell: clap_complete::Shell,
    },
}

#[derive(Subcommand)]
pub(crate) enum PluginCommand {
    /// Show what a plugin is, what it reconciles and what it asks to be granted.
    Inspect(InspectArguments),
}

#[derive(Args)]
pub(crate) struct RunArguments {
    /// Kubeconfig file of the home cluster. Without it, the cluster that the process runs in as a Pod, or else the files that
    /// KUBECONFIG names.
    #[arg(long, env = "PATCHBAY_KUBECONFIG", value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,

    /// Context in the kubeconfig; without it, its current context.
    #[arg(long, env = "PATCHBAY_CONTEXT", value_name = "NAME")]
    pub(crate) context: Option<String>,

    /// Folder with plugins: every file in it that ends in .wasm.
    #[arg(long, env = "PATCHBAY_PLUGINS", value_name = "FOLDER")]
    pub(crate) plugins: PathBuf,

    /// Grant every plugin what it requests, for plugins that you trust. Without it, a plugin is told of its primaries and can
    /// say in their status and Events what it lacks; whatever else it reads or writes is refused.
    #[arg(long, env = "PATCHBAY_TRUST_REQUESTS")]
    pub(crate) trust_requests: bool,

    /// Socket on which `patchbay explain` asks this host: a file, or none. Without it, patchbay.sock in $XDG_RUNTIME_DIR,
    /// or else patchbay-UID/host.sock in the folder for temporary files.
    #[arg(long, env = "PATCHBAY_SOCKET", value_name = "FILE")]
    pub(crate) socket: Option<OsString>,

    /// What to log: a level (error, warn, info, debug, trace), or levels by module, such as info,patchbay_controller=debug.
    #[arg(long, env = "PATCHBAY_LOG", value_name = "FILTER", default_value = "info")]
    pub(crate) log: String,

    /// How to log: lines for people, or JSON for machines.
    #[arg(long, env = "PATCHBAY_LOG_FORMAT", value_name = "FORMAT", default_value = "human")]
    pub(crate) log_format: LogFormat,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    Human,
    Json,
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  patchbay explain object/copy                      a primary: its queries, its last runs, its writes
  patchbay explain secret/db -n team                whatever else: who depends on it
  patchbay explain deployments.apps web -o json")]
pub(crate) struct ExplainArguments {
    /// Kind and name of the object, KIND/NAME or KIND NAME. The kind may be a plural, and have its group behind a dot.
    #[arg(value_name = "KIND/NAME", required = true, num_args = 1..=2)]
    pub(crate) object: Vec<String>,

    /// Its namespace. It may be left out where only one is possible.
    #[arg(short, long, value_name = "NAMESPACE")]
    pub(crate) namespace: Option<String>,

    /// Its cluster: its id, or namespace and name of the Secret with its kubeconfig. Without it, the host's own if it is there.
    #[arg(long, value_name = "ID")]
    pub(crate) cluster: Option<String>,

    /// Socket of the host to ask; without it, where a host of this user has it.
    #[arg(long, env = "PATCHBAY_SOCKET", value_name = "FILE")]
    pub(crate) socket: Option<OsString>,

    /// How to print.
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    pub(crate) output: ExplainOutput,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExplainOutput {
    Table,
    Json,
}

#[derive(Args)]
pub(crate) struct RenderArguments {
    /// The plugin, a WebAssembly component.
    #[arg(long, value_name = "FILE")]
    pub(crate) plugin: PathBuf,

    /// Files with objects, as YAML or JSON, or folders of such; - for standard input. Objects of the kinds that the plugin reconciles are its
    /// primaries, all are what their queries find.
    #[arg(short, long = "file", value_name = "FILE", required = true, num_args = 1..)]
    pub(crate) files: Vec<PathBuf>,

    /// How to print.
    #[arg(short, long, value_name = "FORMAT", default_value = "yaml")]
    pub(crate) output: RenderOutput,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum RenderOutput {
    Yaml,
    Json,
}

#[derive(Args)]
pub(crate) struct InspectArguments {
    /// The plugin, a WebAssembly component.
    #[arg(value_name = "FILE")]
    pub(crate) plugin: PathBuf,

    /// How to print.
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    pub(crate) output: InspectOutput,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum InspectOutput {
    Table,
    Json,
}

pub(crate) fn completion(shell: clap_complete::Shell) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "patchbay", &mut script);
    crate::output::print(&String::from_utf8_lossy(&script))
}
