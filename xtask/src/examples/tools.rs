//! Tools of other languages: found on the machine, or fetched into the target folder by the language's own client.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::inputs::files;
use crate::command::Failed;
use crate::steps::Step;
use crate::workspace::Workspace;

const PYTHON: &str = "Install Python 3.10 or later with its module venv (Debian: apt-get install python3-venv).";
const NODE: &str = "Install Node.js 20 or later with npm: https://nodejs.org";

/// Runs a program that has to be on the machine; `advice` says how to get it there.
pub fn run(step: &Step, command: Command, advice: &str) -> Result<String> {
    match step.run(command, advice) {
        Err(error) if error.downcast_ref::<Failed>().is_none() => bail!("{error:#}. {advice}"),
        result => result,
    }
}

/// A Python environment with what the `requirements.txt` of these sources asks for: its `python`.
pub fn python(workspace: &Workspace, step: &Step, name: &str, sources: &Path) -> Result<PathBuf> {
    let requirements = sources.join("requirements.txt");
    let wanted = read(&requirements)?;
    let folder = folder(workspace, name);
    let python = folder.join("bin/python");
    if is_complete(&folder, &wanted) {
        return Ok(python);
    }
    make_empty(&folder)?;
    step.now(format!("fetching {}", wanted.trim().replace('\n', ", ")));
    let mut venv = Command::new("python3");
    venv.args(["-m", "venv"]).arg(&folder);
    run(step, venv, PYTHON)?;
    let mut pip = Command::new(&python);
    pip.args(["-m", "pip", "install", "--progress-bar", "off", "--requirement"]);
    pip.arg(&requirements);
    step.run(
        pip,
        "Can this machine reach a Python package index? See `pip config list`.",
    )?;
    complete(&folder, &wanted)?;
    Ok(python)
}

/// A folder with the sources and with the packages that their `package-lock.json` names.
pub fn node(workspace: &Workspace, step: &Step, name: &str, sources: &Path) -> Result<PathBuf> {
    let wanted = read(&sources.join("package-lock.json"))?;
    let folder = folder(workspace, name);
    if !is_complete(&folder, &wanted) {
        make_empty(&folder)?;
    }
    copy(sources, &folder)?;
    if !is_complete(&folder, &wanted) {
        step.now("npm ci");
        let mut npm = Command::new("npm");
        npm.current_dir(&folder);
        npm.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"]);
        run(step, npm, NODE)?;
        complete(&folder, &wanted)?;
    }
    Ok(folder)
}

/// An empty folder for what a build makes on its way.
pub fn scratch(workspace: &Workspace, name: &str) -> Result<PathBuf> {
    let folder = workspace.target.join("examples-build").join(name);
    make_empty(&folder)?;
    Ok(folder)
}

/// Copies all files of a folder. Tools write beside the sources that they are given, which should stay clean.
pub fn copy(from: &Path, to: &Path) -> Result<()> {
    for name in files(from)? {
        let path = to.join(&name);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        }
        fs::copy(from.join(&name), &path).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

fn folder(workspace: &Workspace, name: &str) -> PathBuf {
    workspace.target.join("examples-tools").join(name)
}

/// Says that a folder is complete, and what it was made for.
const STAMP: &str = "complete";

fn is_complete(folder: &Path, wanted: &str) -> bool {
    fs::read_to_string(folder.join(STAMP)).is_ok_and(|found| found == wanted)
}

fn complete(folder: &Path, wanted: &str) -> Result<()> {
    let path = folder.join(STAMP);
    fs::write(&path, wanted).with_context(|| format!("cannot write {}", path.display()))
}

fn make_empty(folder: &Path) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| format!("cannot remove {}", folder.display()))?;
    }
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}
