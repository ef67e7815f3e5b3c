//! `patchbay run`.

use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, anyhow, bail};
use patchbay_cluster::Connection;
use patchbay_controller::{Attached, Grants, Host, HostSettings};
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

use crate::cli::{LogFormat, RunArguments};
use crate::load;
use crate::socket::{Listening, Place};

pub(crate) fn run(arguments: &RunArguments) -> anyhow::Result<ExitCode> {
    start_logging(arguments)?;
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
        serve(arguments, plugins, listening, stop).await
    })?;
    Ok(ExitCode::SUCCESS)
}

async fn serve(
    arguments: &RunArguments,
    plugins: Vec<Attached>,
    listening: Option<Listening>,
    stop: impl Future<Output = ()>,
) -> anyhow::Result<()> {
    let mut stop = std::pin::pin!(stop);
    let home = tokio::select! {
        home = Connection::to_home("host", arguments.kubeconfig.as_deref(), arguments.context.as_deref()) => {
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
                "nothing is granted: start with --trust-requests to grant what it requests"
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
    // A level alone is for patchbay's own messages: those of the libraries are for those who ask for them by name.
    let directives = match arguments.log.parse::<tracing::Level>() {
        Ok(level) => format!("warn,patchbay={level}"),
        Err(_) => arguments.log.clone(),
    };
    let filter = EnvFilter::try_new(directives).with_context(|| {
        format!(
            "--log {:?}: use a level such as info, or levels by module",
            arguments.log
        )
    })?;
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
