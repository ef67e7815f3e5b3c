//! Builds, tests and demonstrates patchbay: `cargo xtask --help`.

mod apiserver;
mod build;
mod check;
mod cluster;
mod command;
mod demo;
mod examples;
mod plugins;
mod signals;
mod simulate;
mod steps;
mod test;
mod wasm;
mod workspace;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

use crate::workspace::Workspace;

#[derive(Parser)]
#[command(
    bin_name = "cargo xtask",
    about = "Builds, tests and demonstrates patchbay",
    arg_required_else_help = true
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Show a change of a source reaching its target on a real API server, and measure it
    Demo(demo::Args),
    /// Build what the tests need, and run them all
    Test(test::Args),
    /// Build the host and the plugins; the last two lines are the binary's path and the plugins' folder
    Build(build::Args),
    /// Build the example plugins, one in each language; the last line is their folder
    Plugins(examples::Args),
    /// Run a command with real Kubernetes API servers
    Cluster(cluster::Args),
    /// Play the core through random worlds on virtual time, and compare with what must be so
    Simulate(simulate::Args),
    /// Check format, lints and licences
    Check,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    match run(cli) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: Cli) -> Result<ExitCode> {
    let workspace = Workspace::load()?;
    match cli.command {
        Command::Demo(args) => demo::run(&workspace, &args),
        Command::Test(args) => test::run(&workspace, &args),
        Command::Build(args) => build::run(&workspace, &args),
        Command::Plugins(args) => examples::run(&workspace, &args),
        Command::Cluster(args) => cluster::run(&workspace, &args),
        Command::Simulate(args) => simulate::run(&workspace, &args),
        Command::Check => check::run(&workspace),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        super::Cli::command().debug_assert();
    }
}
