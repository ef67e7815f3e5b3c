//! `cargo xtask simulate`: the core in random worlds, on virtual time.

use std::io::{BufRead, BufReader};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, bail};

use crate::steps::Steps;
use crate::workspace::Workspace;

/// Options of `cargo xtask simulate`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  cargo xtask simulate --seeds 2000        two thousand worlds
  cargo xtask simulate --seed 77           one world again; if it fails, its last steps are shown
  cargo xtask simulate --seed 2000 --seeds 10000    the ten thousand after those

A world that fails is shown with what was wrong and its last steps. The exit code is 1 if any did.")]
pub struct Args {
    /// How many worlds to play [default: 2000, or 1 with --seed]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    seeds: Option<u64>,
    /// The first seed. The same seed is the same world, step by step
    #[arg(long)]
    seed: Option<u64>,
}

/// Plays worlds.
pub fn run(workspace: &Workspace, args: &Args) -> Result<ExitCode> {
    let seeds = args.seeds.unwrap_or(if args.seed.is_some() { 1 } else { 2000 });
    let first = args.seed.unwrap_or(0);
    if first.checked_add(seeds).is_none() {
        bail!("--seed {first} --seeds {seeds}: the last seed is {}", u64::MAX - 1);
    }
    let steps = Steps::new();
    steps.step("simulation built", |step| {
        let mut command = test(workspace);
        command.arg("--no-run");
        step.cargo(command, "").map(drop)
    })?;
    let played = steps.step("worlds played", |step| {
        let mut command = test(workspace);
        command
            .args([
                "simulation::tests::simulate",
                "--",
                "--exact",
                "--ignored",
                "--nocapture",
            ])
            .env("PATCHBAY_SIMULATE_SEED", first.to_string())
            .env("PATCHBAY_SIMULATE_SEEDS", seeds.to_string());
        play(command, |line| step.now(line))
    })?;
    for line in &played {
        println!("{line}");
    }
    let Some(sums) = played.last().filter(|line| line.ends_with(" failed")) else {
        bail!("the simulation did not come to its end; see above");
    };
    Ok(if sums.ends_with(": 0 failed") {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// The tests of the core in its library, built alone: a few seconds.
fn test(workspace: &Workspace) -> Command {
    let mut command = workspace.cargo();
    command.args(["test", "--quiet", "--package", "patchbay-core", "--lib"]);
    command
}

/// Runs the worlds, and gives what was said of them: those that failed, then the sums.
fn play(mut command: Command, now: impl Fn(String)) -> Result<Vec<String>> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .context("cannot run `cargo test`")?;
    let mut said = Vec::new();
    for line in child
        .stdout
        .take()
        .into_iter()
        .flat_map(|stdout| BufReader::new(stdout).lines())
    {
        let line = line.context("cannot read what the simulation prints")?;
        if line.starts_with("played ") {
            now(line);
        } else if line.starts_with("seed ") || line.starts_with("  #") || line.ends_with(" failed") {
            said.push(line);
        }
    }
    child.wait().context("cannot wait for `cargo test`")?;
    Ok(said)
}
