//! The demo: values of Secrets and ConfigMaps are changed, and the objects that hold copies of them follow.
//!
//! `cargo xtask demo` builds what is needed, starts an API server and calls this program. It measures the time from
//! the start of a change's request to the event of the copy, and beside it the same path by a bare client, which no
//! controller can beat: write, event, apply, event.

mod arrivals;
mod examples;
mod measure;
mod progress;
mod report;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, bail};
use clap::{Parser, ValueEnum};
use patchbay_harness::{Cluster, Host, HostOptions, binaries, condition, wait_for};
use tokio::signal::unix::{SignalKind, signal};

use crate::examples::Route;
use crate::measure::Measurement;
use crate::progress::Progress;

/// How long the Objects may take to be ready for the first time.
const READY_LIMIT: Duration = Duration::from_secs(60);

#[derive(Parser)]
struct Args {
    /// The kubeconfig of a cluster for the demo
    #[arg(long, env = "KUBECONFIG")]
    kubeconfig: PathBuf,
    /// How many changes to make
    #[arg(long, default_value_t = 100)]
    changes: u32,
    #[arg(long, value_enum, default_value_t = Output::Table)]
    output: Output,
    /// Stay up until Ctrl-C
    #[arg(long)]
    keep: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Output {
    Table,
    Json,
}

/// One thread is enough, and it spares the measurements the hand-over between two.
#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let args = Args::parse();
    match run(&args).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Whether every change arrived.
async fn run(args: &Args) -> Result<bool> {
    let cluster = Cluster::of_kubeconfig(&args.kubeconfig).await?;
    let progress = Progress::begin("CRDs");
    cluster.apply_crds().await?;
    progress.end();

    let progress = Progress::begin("patchbay with its plugins");
    let mut host = Host::start(&cluster, &HostOptions::default()).await?;
    progress.end();

    let progress = Progress::begin("Objects that copy values");
    let routes = examples::apply(&cluster).await?;
    if let Err(error) = wait_until_ready(&cluster, &routes).await {
        bail!("{error:#}\nThe end of the host's log:\n{}", host.log_tail());
    }
    progress.end();

    let measurement = measure::run(&cluster, &mut host, &routes, args.changes).await?;
    match args.output {
        Output::Table => report::print_table(&measurement),
        Output::Json => println!("{:#}", report::json(&measurement)),
    }
    tell_what_is_missing(&measurement, &host);
    if args.keep {
        keep(&args.kubeconfig, &mut host).await?;
    }
    Ok(measurement.missing.is_empty())
}

async fn wait_until_ready(cluster: &Cluster, routes: &[Route]) -> Result<()> {
    for Route { object, .. } in routes {
        let mut last = "no condition yet".to_owned();
        let what = format!("Object {object} to be ready");
        let ready = wait_for(&what, READY_LIMIT, async || {
            let found = cluster.get(examples::API_VERSION, "Object", "", object).await?;
            let ready = found.as_ref().and_then(|found| condition(found, "Ready"));
            let synced = found.as_ref().and_then(|found| condition(found, "Synced"));
            if let Some(synced) = synced.filter(|synced| synced.status != "True") {
                last = format!("Synced is {synced}");
            } else if let Some(ready) = &ready {
                last = format!("Ready is {ready}");
            }
            Ok(ready.filter(|ready| ready.status == "True"))
        });
        if let Err(error) = ready.await {
            bail!("{error}: {last}");
        }
    }
    Ok(())
}

fn tell_what_is_missing(measurement: &Measurement, host: &Host) {
    if measurement.missing.is_empty() {
        return;
    }
    eprintln!("error: not every change arrived:");
    for change in &measurement.missing {
        eprintln!("  {change}");
    }
    eprintln!("The end of the host's log:\n{}", host.log_tail());
}

/// Says how to look around, and waits for Ctrl-C.
async fn keep(kubeconfig: &std::path::Path, host: &mut Host) -> Result<()> {
    let namespace = examples::NAMESPACE;
    eprintln!("\nAll stays up until Ctrl-C. Look around in another terminal:");
    eprintln!("  export KUBECONFIG={}", kubeconfig.display());
    eprintln!("  kubectl get objects.kubernetes.crossplane.io");
    eprintln!("  kubectl get configmap application-settings -n {namespace} -o yaml --watch");
    eprintln!(
        "  kubectl patch configmap shared-settings -n {namespace} --type merge -p '{{\"data\":{{\"log-level\":\"debug\"}}}}'"
    );
    eprintln!(
        "  {} explain --socket {} object/log-level",
        binaries::host()?.display(),
        host.socket().display()
    );
    eprintln!(
        "The host logs to {}. The manifests are those in examples/object.",
        host.log_path().display()
    );
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let mut check = tokio::time::interval(Duration::from_millis(500));
    loop {
        tokio::select! {
            _ = interrupt.recv() => return Ok(()),
            _ = terminate.recv() => return Ok(()),
            _ = check.tick() => if host.has_ended() {
                bail!("the host has ended by itself; the end of its log:\n{}", host.log_tail());
            },
        }
    }
}
