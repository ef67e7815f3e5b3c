//! `cargo xtask build`, and the building that the other commands begin with.

use std::path::{self, PathBuf};
use std::process::ExitCode;
use std::thread;

use anyhow::{Context, Result};

use crate::steps::Steps;
use crate::wasm::{self, Toolchain};
use crate::workspace::Workspace;
use crate::{apiserver, plugins};

/// Options of `cargo xtask build`.
#[derive(clap::Args)]
pub struct Args {
    /// Optimise the host, for measuring and for use
    #[arg(long)]
    release: bool,
    #[command(flatten)]
    wasm: wasm::Args,
}

/// What to build beside the plugins.
pub struct Parts<'a> {
    /// Programs of the workspace.
    pub programs: &'a [&'a str],
    /// Optimise them.
    pub release: bool,
    /// The test API server too.
    pub apiserver: bool,
    /// The plugins that only tests use too.
    pub test_plugins: bool,
}

/// The host.
pub const HOST: &str = "patchbay";

/// What was built.
pub struct Built {
    /// The programs, in the order in which they were asked for.
    pub programs: Vec<PathBuf>,
    /// The folder of the plugins.
    pub plugins: PathBuf,
    /// The test API server.
    pub apiserver: Option<PathBuf>,
    /// The folder of the plugins that only tests use.
    pub test_plugins: Option<PathBuf>,
}

/// What of it is Rust.
struct Rust {
    programs: Vec<PathBuf>,
    plugins: PathBuf,
    test_plugins: Option<PathBuf>,
}

/// Builds the host and the plugins.
pub fn run(workspace: &Workspace, args: &Args) -> Result<ExitCode> {
    let parts = Parts {
        programs: &[HOST],
        release: args.release,
        apiserver: false,
        test_plugins: false,
    };
    let built = build(workspace, &args.wasm, &Steps::new(), &parts)?;
    for path in [&built.programs[0], &built.plugins] {
        println!(
            "{}",
            path::absolute(path)
                .context("cannot find the current folder")?
                .display()
        );
    }
    Ok(ExitCode::SUCCESS)
}

/// Builds what is asked for, setting up the tools that are missing. The API server is built beside the rest.
pub fn build(workspace: &Workspace, wasm: &wasm::Args, steps: &Steps, parts: &Parts) -> Result<Built> {
    let toolchain = steps.step("tools", |step| {
        let toolchain = Toolchain::set_up(workspace, wasm, step)?;
        let mut found = toolchain.version(step)?;
        if parts.apiserver {
            found = format!("{found}, {}", apiserver::go_version(workspace, step)?);
        }
        step.result(found);
        Ok(toolchain)
    })?;
    thread::scope(|scope| {
        let server = parts.apiserver.then(|| {
            scope.spawn(|| {
                let built = steps.step("test API server", |step| apiserver::build(workspace, step));
                built.inspect_err(|_| steps.abort())
            })
        });
        let rust = build_rust(workspace, toolchain, steps, parts);
        // If both fail, one of them failed first, and the other was only given up.
        let rust_is_to_blame = rust.is_err() && !steps.is_aborted();
        if rust.is_err() {
            steps.abort();
        }
        let server = server.map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        let server = if rust_is_to_blame { Ok(None) } else { server.transpose() };
        let apiserver = server?;
        let Rust {
            programs,
            plugins,
            test_plugins,
        } = rust?;
        Ok(Built {
            programs,
            plugins,
            apiserver,
            test_plugins,
        })
    })
}

fn build_rust(workspace: &Workspace, toolchain: Toolchain, steps: &Steps, parts: &Parts) -> Result<Rust> {
    let programs = steps.step("host", |step| {
        let mut command = workspace.cargo();
        command.arg("build");
        if parts.release {
            command.arg("--release");
        }
        // Not by package: then features would be chosen for that package alone, and what others have built with
        // those of the whole workspace, wasmtime above all, would be built a second time.
        command.arg("--workspace");
        for program in parts.programs {
            command.args(["--bin", program]);
        }
        step.cargo(command, "")?;
        let folder = workspace.target.join(if parts.release { "release" } else { "debug" });
        Ok(parts.programs.iter().map(|program| folder.join(program)).collect())
    })?;
    let plugins = steps.step("plugins", |step| {
        plugins::build(workspace, toolchain, step, &workspace.plugins, "plugins")
    })?;
    let test_plugins = parts.test_plugins.then(|| {
        steps.step("test plugins", |step| {
            plugins::build(workspace, toolchain, step, &workspace.test_plugins, "test-plugins")
        })
    });
    Ok(Rust {
        programs,
        plugins,
        test_plugins: test_plugins.transpose()?,
    })
}
