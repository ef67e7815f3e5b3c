//! `patchbay run`.

use std::ffi::OsStr;
use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, anyhow, bail};
use patchbay_cluster::{Connection, Home, HomeError};
use patchbay_controller::{Attached, Grants, Host, HostSettings};
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

use crate::cli::{LogFormat, RunArguments};
use crate::load;
use crate::output::Usage;
use crate::socket::{Listening, Place};

pub(crate) fn run(arguments: &RunArguments) -> anyhow::Result<ExitCode> {
    start_logging(arguments)?;
    let home = home(arguments)?;
    // Before anything that takes time, so that another host on the same socket is told of at once.
    let listening = match Place::of(arguments.socket.as_deref()) {
        Some(place) => place.listen()?,
        None => None,
    };
    let plugins = plugins(arguments)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("tokio runtime")?;
    runtime.block_on(async {
        // Installed before anything takes time, so that a signal during the start is not lost.
        let (mut interrupted, mut terminated) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        let stop = async move {
            tokio::select! {
                _ = interrupted.recv() => {}
                _ = terminated.recv() => {}
            }
        };
        serve(&home, plugins, listening, stop).await
    })?;
    Ok(ExitCode::SUCCESS)
}

async fn serve(
    home: &Home,
    plugins: Vec<Attached>,
    listening: Option<Listening>,
    stop: impl Future<Output = ()>,
) -> anyhow::Result<()> {
    let mut stop = std::pin::pin!(stop);
    let home = tokio::select! {
        home = Connection::to_home("host", home) => {
            // Its message is whole; the causes that it has would repeat it.
            Arc::new(home.map_err(|error| anyhow!("{error}"))?)
        }
        () = &mut stop => return Ok(()),
    };
    tracing::info!(uid = home.uid(), "connected to the home cluster");
    let host = Host::new(home, plugins, &HostSettings::default()).context("threads for plugins")?;
    if let Some(listening) = listening {
        // It ends with the runtime.
        tokio::spawn(listening.serve(host.explainer()));
    }
    host.run(stop, |counts| {
        tracing::info!(
            primaries = counts.primaries,
            watches = counts.watches,
            "patchbay is ready"
        );
    })
    .await;
    tracing::info!("stopped");
    Ok(())
}

/// Where the home cluster is: as the arguments say, else around this Pod, else as kubectl would find it.
fn home(arguments: &RunArguments) -> anyhow::Result<Home> {
    let named = arguments.kubeconfig.clone().map(|file| vec![file]);
    let in_pod = std::env::var_os("KUBERNETES_SERVICE_HOST").is_some();
    let kubeconfig = std::env::var_os("KUBECONFIG").unwrap_or_default();
    let files = named.unwrap_or_else(|| if in_pod { Vec::new() } else { files(&kubeconfig) });
    match (files.is_empty(), in_pod, &arguments.context) {
        (false, ..) => Ok(Home::Files {
            files,
            context: arguments.context.clone(),
        }),
        (true, true, Some(_)) => Err(Usage::of("--context is of a kubeconfig: name one with --kubeconfig")),
        (true, true, None) => Ok(Home::Pod),
        (true, false, _) => Err(HomeError::NotInCluster.into()),
    }
}

/// The files that KUBECONFIG names.
fn files(kubeconfig: &OsStr) -> Vec<std::path::PathBuf> {
    let files = std::env::split_paths(kubeconfig);
    files.filter(|file| !file.as_os_str().is_empty()).collect()
}

/// Loads what can be loaded. A module that cannot be is named and left out; the others serve.
fn plugins(arguments: &RunArguments) -> anyhow::Result<Vec<Attached>> {
    let modules = load::modules(&arguments.plugins)?;
    let engine = load::engine()?;
    let mut attached: Vec<Attached> = Vec::new();
    for path in &modules {
        let plugin = match load::file(&engine, path) {
            Ok(plugin) => plugin,
            Err(error) => {
                tracing::error!("{error:#}");
                continue;
            }
        };
        let description = plugin.description();
        if let Some(other) = attached
            .iter()
            .find(|other| other.plugin.description().name == description.name)
        {
            tracing::error!(
                "plugin {}: its name {} is taken by {}: remove one of the two files",
                plugin.name(),
                description.name,
                other.plugin.name()
            );
            continue;
        }
        let grants = if arguments.trust_requests {
            Grants::requested(description)
        } else {
            Grants::none()
        };
        if !arguments.trust_requests && !description.requests.is_empty() {
            tracing::warn!(
                plugin = plugin.name(),
                "nothing is granted, so whatever it reads or writes beside its primaries is refused: start with \
                 --trust-requests to grant what it requests"
            );
        }
        tracing::info!(
            plugin = plugin.name(), version = description.version, digest = %plugin.digest(), "loaded"
        );
        let plugin = Attached {
            plugin,
            grants,
            config: "{}".to_owned(),
        };
        match plugin.check() {
            Ok(()) => attached.push(plugin),
            Err(problem) => tracing::error!("plugin {}: {problem}", plugin.plugin.name()),
        }
    }
    let refused = modules.len() - attached.len();
    if refused > 0 {
        tracing::error!("{} plugins loaded, {refused} refused: see above", attached.len());
    }
    if attached.is_empty() {
        bail!("no plugin in {} could be loaded", arguments.plugins.display());
    }
    Ok(attached)
}

fn start_logging(arguments: &RunArguments) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(directives(&arguments.log)?).map_err(|_| not_a_filter(&arguments.log))?;
    let logging = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr);
    match arguments.log_format {
        LogFormat::Json => logging.json().init(),
        LogFormat::Human => logging
            .with_ansi(std::io::stderr().is_terminal())
            .with_target(false)
            .init(),
    }
    Ok(())
}

/// A dependency warns of it at each connection; the host says it once.
const UNCHECKED: &str = "kube_client::client::tls=error";

/// What `--log` means. A level alone is for patchbay's own messages: those of the libraries are for those who ask for them
/// by name.
fn directives(log: &str) -> anyhow::Result<String> {
    // To the parser, nothing is a level, too.
    if let (false, Ok(level)) = (log.is_empty(), log.parse::<LevelFilter>()) {
        return Ok(format!("warn,{UNCHECKED},patchbay={level}"));
    }
    // A word alone would be a module that nobody has, and everything else would be silent.
    let is_level = |directive: &str| !directive.is_empty() && directive.parse::<LevelFilter>().is_ok();
    let is_word = |directive: &str| !directive.contains(['=', '[']) && !is_level(directive);
    if log.split(',').map(str::trim).any(is_word) {
        return Err(not_a_filter(log));
    }
    Ok(format!("{UNCHECKED},{log}"))
}

fn not_a_filter(log: &str) -> anyhow::Error {
    Usage::of(format!(
        "--log {log:?}: use a level (off, error, warn, info, debug, trace), or levels by module such as \
         info,patchbay_controller=debug"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_that_is_no_level_is_refused() {
        for log in ["nonsense", "", "info,nonsense", "patchbay_controller"] {
            let error = directives(log).expect_err(log);
            assert!(error.to_string().contains("info,patchbay_controller=debug"), "{error}");
        }
        for log in [
            "info",
            "DEBUG",
            "off",
            "warn,patchbay_controller=debug",
            "kube=trace,info",
        ] {
            let directives = directives(log).expect(log);
            EnvFilter::try_new(&directives).expect(&directives);
        }
    }

    #[test]
    fn kubeconfig_is_a_list_of_files() {
        assert_eq!(files("/a::/b".as_ref()), ["/a", "/b"].map(std::path::PathBuf::from));
        assert!(files("".as_ref()).is_empty());
    }
}
