//! `cargo xtask demo`: builds all, starts an API server and runs the demo program.

use std::process::{Command, ExitCode};

use anyhow::{Context, Result};

use crate::build::{self, HOST, Parts};
use crate::cluster::Clusters;
use crate::signals::Signals;
use crate::steps::Steps;
use crate::wasm;
use crate::workspace::Workspace;

/// The program in `tests/harness`, which has a Kubernetes client.
const DEMO: &str = "demo";

/// Options of `cargo xtask demo`.
#[derive(clap::Args)]
pub struct Args {
    /// Keep all running until Ctrl-C, and say how to reach it
    #[arg(long)]
    keep: bool,
    /// How many changes to make and to measure
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    changes: u32,
    /// How to print the result
    #[arg(long, value_enum, default_value_t = Output::Table)]
    output: Output,
    #[command(flatten)]
    wasm: wasm::Args,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Output {
    Table,
    Json,
}

/// Runs the demo; its exit code tells whether every change arrived.
pub fn run(workspace: &Workspace, args: &Args) -> Result<ExitCode> {
    let steps = Steps::new();
    let parts = Parts {
        programs: &[HOST, DEMO],
        release: false,
        apiserver: true,
        test_plugins: false,
    };
    let built = build::build(workspace, &args.wasm, &steps, &parts)?;
    let apiserver = built.apiserver.context("the test API server was not built")?;
    // With fsync, as a cluster that people use: what is measured is not to be flattered.
    let clusters = Clusters::start(&steps, &apiserver, 1, false)?;
    let mut demo = Command::new(&built.programs[1]);
    demo.env("KUBECONFIG", &clusters.kubeconfig);
    demo.env("PATCHBAY_BIN", &built.programs[0])
        .env("PATCHBAY_PLUGINS", &built.plugins);
    demo.args(["--changes", &args.changes.to_string()]);
    demo.args([
        "--output",
        if matches!(args.output, Output::Json) {
            "json"
        } else {
            "table"
        },
    ]);
    if args.keep {
        demo.arg("--keep");
    }
    let ended = Signals::catch()?
        .run(&mut demo)
        .context("cannot run the demo program")?;
    Ok(ExitCode::from(ended.code))
}
