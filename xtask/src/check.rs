//! `cargo xtask check`: all that can be said without running anything.

use std::process::{Command, ExitCode, Stdio};

use anyhow::{Result, bail};

use crate::steps::{Step, Steps};
use crate::workspace::Workspace;

/// A check's name, and what it does.
type Check<'a> = (&'a str, &'a dyn Fn(&Step) -> Result<()>);

/// Runs every check, and fails if one of them did.
pub fn run(workspace: &Workspace) -> Result<ExitCode> {
    let steps = Steps::new();
    let checks: [Check; 5] = [
        ("rustfmt", &|step| {
            let mut command = workspace.cargo();
            command.args(["fmt", "--all", "--", "--check"]);
            step.run(command, "`cargo fmt` formats all files.").map(drop)
        }),
        ("clippy", &|step| {
            let mut command = workspace.cargo();
            command.args(["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]);
            step.cargo(command, "").map(drop)
        }),
        ("gofmt", &|step| {
            let mut command = go(workspace, "gofmt");
            command
                .arg("-l")
                .arg(".")
                .arg(workspace.root.join("examples/plugins/go"));
            let files = step.run(command, "")?;
            if !files.is_empty() {
                bail!("`gofmt -w` would change:\n{files}");
            }
            Ok(())
        }),
        ("go vet", &|step| {
            let mut command = go(workspace, "go");
            command.args(["vet", "./..."]);
            step.run(command, "").map(drop)
        }),
        ("cargo deny", &|step| deny(workspace, step)),
    ];
    let mut failed = 0;
    for (name, check) in checks {
        if let Err(error) = steps.step(name, check) {
            eprintln!("error: {error:#}");
            failed += 1;
        }
    }
    match failed {
        0 => Ok(ExitCode::SUCCESS),
        1 => bail!("one check of {} failed", checks.len()),
        _ => bail!("{failed} checks of {} failed", checks.len()),
    }
}

fn go(workspace: &Workspace, program: &str) -> Command {
    let mut command = Command::new(program);
    command.current_dir(workspace.apiserver_sources());
    command
}

fn deny(workspace: &Workspace, step: &Step) -> Result<()> {
    let version = workspace
        .cargo()
        .args(["deny", "--version"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    if !version.is_ok_and(|status| status.success()) {
        step.result("skipped, since it is not installed; `cargo install --locked cargo-deny` does that");
        return Ok(());
    }
    let check = |what: &[&str]| {
        let mut command = workspace.cargo();
        command.args(["deny", "--workspace", "check"]).args(what);
        step.run(command, "deny.toml says what is allowed, and why.")
    };
    check(&["bans", "licenses", "sources"])?;
    match check(&["advisories"]) {
        // Without the database nothing is known, which is not the checked code's fault.
        Err(error) if error.to_string().contains("failed to fetch advisory database") => {
            step.result("advisories skipped, since their database cannot be fetched");
            Ok(())
        }
        checked => checked.map(drop),
    }
}
