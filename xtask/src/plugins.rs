//! Builds the plugins: a Wasm module by cargo, made a component by wit-component.

use std::env;
use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};
use wit_component::ComponentEncoder;

use crate::steps::Step;
use crate::wasm::{self, Toolchain};
use crate::workspace::{Plugin, Workspace};

/// The profile of Cargo.toml that makes modules small.
const PROFILE: &str = "plugin";

/// Builds plugins and gives the folder of this name that holds them and nothing else.
pub fn build(
    workspace: &Workspace,
    toolchain: Toolchain,
    step: &Step,
    plugins: &[Plugin],
    name: &str,
) -> Result<PathBuf> {
    let folder = compile(workspace, toolchain, step, plugins, name)?;
    let names: Vec<_> = plugins.iter().map(|plugin| &plugin.name).collect();
    remove_others(&folder, &names)?;
    Ok(folder)
}

/// Builds plugins into the folder of this name, whatever else it holds.
pub fn compile(
    workspace: &Workspace,
    toolchain: Toolchain,
    step: &Step,
    plugins: &[Plugin],
    name: &str,
) -> Result<PathBuf> {
    let folder = workspace.target.join(name);
    let stamps = workspace.target.join("xtask");
    for folder in [&folder, &stamps] {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    }
    let mut command = toolchain.cargo_build(workspace);
    command.args(["--profile", PROFILE]);
    for plugin in plugins {
        command.args(["--package", &plugin.package]);
    }
    step.cargo(command, "")?;
    let mut encoded = 0;
    for plugin in plugins {
        let module = wasm::output_folder(workspace, PROFILE).join(format!("{}.wasm", plugin.module));
        let component = folder.join(format!("{}.wasm", plugin.name));
        let stamp = stamps.join(format!("{}.stamp", plugin.name));
        if encode(&module, &component, &stamp).with_context(|| format!("plugin {}", plugin.name))? {
            encoded += 1;
        }
    }
    step.result(format!("{} in all, {encoded} new", plugins.len()));
    Ok(folder)
}

/// Makes a component of a module, unless that was done before. The stamp tells what the component was made of.
fn encode(module: &Path, component: &Path, stamp: &Path) -> Result<bool> {
    let bytes = fs::read(module).with_context(|| format!("cannot read {}", module.display()))?;
    let wanted = format!("{:x} {}\n", Sha256::digest(&bytes), encoder_version()?);
    if component.exists() && fs::read_to_string(stamp).is_ok_and(|found| found == wanted) {
        return Ok(false);
    }
    let mut encoder = ComponentEncoder::default();
    let encoded = encoder
        .module(&bytes)?
        .validate(true)
        .encode()
        .context("cannot make a component of the module; does it export a world?")?;
    write_at_once(component, &encoded)?;
    write_at_once(stamp, wanted.as_bytes())?;
    Ok(true)
}

/// Changes whenever wit-component may have: with each build of this program.
fn encoder_version() -> Result<u128> {
    let path = env::current_exe().context("cannot find this program")?;
    let modified = path.metadata().and_then(|metadata| metadata.modified());
    let modified = modified.with_context(|| format!("cannot read {}", path.display()))?;
    Ok(modified.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos())
}

/// Writes a file so that a reader sees the old content or the new one, and no half of it.
pub fn write_at_once(path: &Path, content: &[u8]) -> Result<()> {
    let problem = || format!("cannot write {}", path.display());
    let folder = path.parent().with_context(problem)?;
    // Not named like a plugin, for a host that watches the folder.
    let mut file = tempfile::Builder::new()
        .prefix(".")
        .suffix(".tmp")
        // As any new file: what the user's mask leaves.
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(folder)
        .with_context(problem)?;
    file.write_all(content).with_context(problem)?;
    file.persist(path).with_context(problem)?;
    Ok(())
}

/// Removes plugins that are no longer part of the workspace: all but those of these names.
pub fn remove_others(folder: &Path, names: &[impl AsRef<OsStr>]) -> Result<()> {
    let entries = folder
        .read_dir()
        .with_context(|| format!("cannot read {}", folder.display()))?;
    for path in entries.flatten().map(|entry| entry.path()) {
        let is_component = path.extension().is_some_and(|ending| ending == "wasm");
        let is_ours = names.iter().any(|name| path.file_stem() == Some(name.as_ref()));
        if is_component && !is_ours {
            fs::remove_file(&path).with_context(|| format!("cannot remove {}", path.display()))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The smallest module there is.
    const MODULE: &[u8] = b"\0asm\x01\0\0\0";

    #[test]
    fn a_module_becomes_a_component_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("module"), MODULE).unwrap();
        let encode = || encode(&path("module"), &path("a.wasm"), &path("a.stamp")).unwrap();
        assert!(encode());
        // Byte 4 to 7 of a component: version 13 of layer 1.
        assert_eq!(fs::read(path("a.wasm")).unwrap()[..8], *b"\0asm\x0d\0\x01\0");
        assert!(!encode());
        fs::write(path("module"), [MODULE, b"\0\x02\x01n"].concat()).unwrap();
        assert!(encode());
        fs::remove_file(path("a.wasm")).unwrap();
        assert!(encode());
    }

    #[test]
    fn only_plugins_of_the_workspace_stay() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["object.wasm", "gone.wasm", "notes.txt"] {
            fs::write(folder.path().join(name), "").unwrap();
        }
        remove_others(folder.path(), &["object"]).unwrap();
        let exists = |name: &str| folder.path().join(name).exists();
        assert!(exists("object.wasm") && exists("notes.txt") && !exists("gone.wasm"));
    }
}
