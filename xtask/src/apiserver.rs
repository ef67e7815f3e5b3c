//! Builds the test API server into the user's cache folder.

use std::env;
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::process::{self, Command};

use anyhow::{Context, Result, bail};
use patchbay_test_cluster as test_cluster;

use crate::steps::Step;
use crate::workspace::Workspace;

/// Gives the binary of the sources as they are, and builds it if there is none.
pub fn build(workspace: &Workspace, step: &Step) -> Result<PathBuf> {
    if env::var_os(test_cluster::BINARY_VARIABLE).is_some_and(|value| !value.is_empty()) {
        return Ok(test_cluster::find_binary()?);
    }
    let sources = workspace.apiserver_sources();
    let binary = test_cluster::cached_binary(&sources)?;
    if binary.exists() {
        step.result("already built");
        return Ok(binary);
    }
    go_version(workspace, step)?;
    let cache = test_cluster::cache_folder()?;
    fs::create_dir_all(&cache).with_context(|| format!("cannot make {}", cache.display()))?;
    let lock = lock(&cache.join("apiserver.lock"), step)?;
    if !binary.exists() {
        compile(&sources, &binary, step)?;
        remove_others(&cache, &binary)?;
    }
    drop(lock);
    Ok(binary)
}

/// The version of Go, or what to do if there is none or one too old.
pub fn go_version(workspace: &Workspace, step: &Step) -> Result<String> {
    let sources = workspace.apiserver_sources();
    let module = read_module(&sources)?;
    let wanted = directive(&module, "go").context("tests/apiserver/go.mod names no Go version")?;
    let advice = format!("Install Go {wanted} or later: https://go.dev/dl");
    let mut command = Command::new("go");
    // Asked inside the module, Go fetches the version that the module wants if it may and has to.
    command.arg("version").current_dir(&sources);
    match step.run(command, &advice) {
        Ok(version) => Ok(version.split(' ').nth(2).unwrap_or(version.trim()).to_owned()),
        Err(error) if error.downcast_ref::<crate::command::Failed>().is_some() => Err(error),
        Err(_) => bail!("there is no `go`. {advice}"),
    }
}

fn compile(sources: &Path, binary: &Path, step: &Step) -> Result<()> {
    let module = read_module(sources)?;
    let version =
        directive(&module, "k8s.io/kubernetes").context("tests/apiserver/go.mod requires no k8s.io/kubernetes")?;
    // The process id keeps a file apart that a killed build may still write.
    let unfinished = binary.with_extension(format!("{}.tmp", process::id()));
    let mut command = Command::new("go");
    command.current_dir(sources).args(["build", "-v", "-buildvcs=false"]);
    // Kubernetes learns its version from the linker; without one it says v0.0.0, which clients refuse.
    command.args([
        "-ldflags",
        &format!("-s -w -X k8s.io/component-base/version.gitVersion={version}"),
    ]);
    command.arg("-o").arg(&unfinished).arg(".");
    step.now("some 7 minutes on two cores, the first time");
    let mut packages = 0;
    step.run_observed(
        command,
        "Can this machine reach a Go module proxy? See `go env GOPROXY`.",
        |line| {
            packages += 1;
            Some(format!("{packages} packages: {line}"))
        },
    )?;
    fs::rename(&unfinished, binary).with_context(|| format!("cannot write {}", binary.display()))
}

/// Waits until no other process builds.
fn lock(path: &Path, step: &Step) -> Result<File> {
    let problem = || format!("cannot lock {}", path.display());
    let file = File::create(path).with_context(problem)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            step.now("waiting for another build of it");
            file.lock().with_context(problem)?;
        }
        Err(TryLockError::Error(error)) => return Err(error).with_context(problem),
    }
    Ok(file)
}

/// Removes binaries of other sources, and what a killed build left. The caller holds the lock.
fn remove_others(cache: &Path, current: &Path) -> Result<()> {
    let entries = cache
        .read_dir()
        .with_context(|| format!("cannot read {}", cache.display()))?;
    for path in entries.flatten().map(|entry| entry.path()) {
        let is_unfinished = path.extension().is_some_and(|ending| ending == "tmp");
        let name = if is_unfinished {
            path.with_extension("").with_extension("")
        } else {
            path.clone()
        };
        if path != current && name.file_name().is_some_and(test_cluster::is_binary_name) {
            fs::remove_file(&path).with_context(|| format!("cannot remove {}", path.display()))?;
        }
    }
    Ok(())
}

fn read_module(sources: &Path) -> Result<String> {
    let path = sources.join("go.mod");
    fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
}

/// What a go.mod says of a name: `go 1.26.0`, or `k8s.io/kubernetes v1.36.3` in a list of requirements.
fn directive<'a>(module: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = module.lines().map(|line| line.trim().trim_start_matches("require "));
    lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.split_whitespace().next())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_come_from_the_module() {
        let module = "module m\n\ngo 1.26.0\n\nrequire (\n\tk8s.io/kubernetes-more v1.0.0\n\tk8s.io/kubernetes v1.36.3 // why\n)\n";
        assert_eq!(directive(module, "go"), Some("1.26.0"));
        assert_eq!(directive(module, "k8s.io/kubernetes"), Some("v1.36.3"));
        assert_eq!(directive(module, "k8s.io/absent"), None);
        assert_eq!(
            directive("require k8s.io/kubernetes v1.2.3", "k8s.io/kubernetes"),
            Some("v1.2.3")
        );
    }

    #[test]
    fn old_binaries_go_and_other_files_stay() {
        let cache = tempfile::tempdir().unwrap();
        let path = |name: &str| cache.path().join(name);
        let current = path("apiserver-00000000000000aa");
        let old = [
            "apiserver-00000000000000bb",
            "apiserver-00000000000000aa.123.tmp",
            "apiserver-00000000000000cc.9.tmp",
        ];
        let others = ["apiserver.lock", "apiserver-by-hand", "notes.tmp"];
        for name in old.iter().chain(&others) {
            fs::write(path(name), "").unwrap();
        }
        fs::write(&current, "").unwrap();
        remove_others(cache.path(), &current).unwrap();
        assert!(current.exists());
        assert_eq!(old.map(|name| path(name).exists()), [false; 3]);
        assert_eq!(others.map(|name| path(name).exists()), [true; 3]);
    }
}
