//! What cargo knows of this workspace.

use std::env;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// The workspace that `cargo xtask` was called in.
pub struct Workspace {
    /// The folder with the workspace's Cargo.toml.
    pub root: PathBuf,
    /// Where cargo builds, wherever the user has put it.
    pub target: PathBuf,
    /// The packages that are built to Wasm: all below `plugins/` with a dynamic library.
    pub plugins: Vec<Plugin>,
    /// Those that only tests use: all below `tests/plugins/`.
    pub test_plugins: Vec<Plugin>,
    /// Those that are examples: all below `examples/plugins/`.
    pub example_plugins: Vec<Plugin>,
}

/// A package that becomes a plugin.
pub struct Plugin {
    /// Such as `patchbay-object`.
    pub package: String,
    /// What the plugin's file is called: `object`.
    pub name: String,
    /// The file name of the Wasm module that cargo makes, without its ending.
    pub module: String,
}

impl Workspace {
    /// Asks `cargo metadata`.
    pub fn load() -> Result<Self> {
        let output = cargo()
            .args(["metadata", "--no-deps", "--format-version", "1"])
            .stderr(Stdio::inherit())
            .output()
            .context("cannot run cargo")?;
        if !output.status.success() {
            bail!("`cargo metadata` failed; call `cargo xtask` inside the workspace");
        }
        let metadata = serde_json::from_slice(&output.stdout).context("cannot read what `cargo metadata` says")?;
        Self::parse(&metadata).context("cannot understand what `cargo metadata` says")
    }

    fn parse(metadata: &Value) -> Option<Self> {
        let root = PathBuf::from(metadata["workspace_root"].as_str()?);
        let (mut plugins, mut test_plugins, mut example_plugins) = (Vec::new(), Vec::new(), Vec::new());
        for package in metadata["packages"].as_array()? {
            let manifest = PathBuf::from(package["manifest_path"].as_str()?);
            let place = if manifest.starts_with(root.join("plugins")) {
                &mut plugins
            } else if manifest.starts_with(root.join("tests/plugins")) {
                &mut test_plugins
            } else if manifest.starts_with(root.join("examples/plugins")) {
                &mut example_plugins
            } else {
                continue;
            };
            let targets = package["targets"].as_array()?;
            if let Some(library) = targets.iter().find(|target| is_dynamic_library(target)) {
                let package = package["name"].as_str()?.to_owned();
                let name = package.strip_prefix("patchbay-").unwrap_or(&package).to_owned();
                let module = library["name"].as_str()?.replace('-', "_");
                place.push(Plugin { package, name, module });
            }
        }
        let target = PathBuf::from(metadata["target_directory"].as_str()?);
        Some(Self {
            root,
            target,
            plugins,
            test_plugins,
            example_plugins,
        })
    }

    /// A cargo command that runs in the workspace's root.
    pub fn cargo(&self) -> Command {
        let mut command = cargo();
        command.current_dir(&self.root);
        command
    }

    /// The folder of the API server's sources.
    pub fn apiserver_sources(&self) -> PathBuf {
        self.root.join("tests/apiserver")
    }
}

fn is_dynamic_library(target: &Value) -> bool {
    target["crate_types"]
        .as_array()
        .is_some_and(|types| types.iter().any(|kind| kind == "cdylib"))
}

fn cargo() -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    for name in variables_of_this_package() {
        command.env_remove(name);
    }
    command
}

/// What `cargo run` tells this program about itself. Build scripts that watch these variables would run again, and
/// their packages be compiled again, depending on whether cargo was called from here or by hand.
pub fn variables_of_this_package() -> impl Iterator<Item = String> {
    let is_own = |name: &String| {
        let prefixes = [
            "CARGO_PKG_",
            "CARGO_MANIFEST_",
            "CARGO_CRATE_NAME",
            "CARGO_BIN_NAME",
            "CARGO_PRIMARY_PACKAGE",
        ];
        prefixes.iter().any(|prefix| name.starts_with(prefix))
    };
    env::vars_os()
        .filter_map(|(name, _)| name.into_string().ok())
        .filter(is_own)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn plugins_are_the_dynamic_libraries_below_their_folder() {
        let package = |name: &str, path: &str, kind: &str| {
            json!({
                "name": name,
                "manifest_path": format!("/w/{path}/Cargo.toml"),
                "targets": [
                    {"name": "build-script-build", "crate_types": ["bin"]},
                    {"name": name, "crate_types": [kind]},
                ],
            })
        };
        let metadata = json!({
            "workspace_root": "/w",
            "target_directory": "/t",
            "packages": [
                package("patchbay-core", "host/core", "lib"),
                package("patchbay-sdk", "plugins/sdk", "lib"),
                package("patchbay-git-sync", "plugins/git-sync", "cdylib"),
                package("patchbay-script", "tests/plugins/script", "cdylib"),
                package("mirror-rust", "examples/plugins/rust", "cdylib"),
                package("other", "plugins-of-others/other", "cdylib"),
            ],
        });
        let workspace = Workspace::parse(&metadata).unwrap();
        assert_eq!(workspace.target, PathBuf::from("/t"));
        let [plugin] = &workspace.plugins[..] else {
            panic!("{} plugins", workspace.plugins.len())
        };
        assert_eq!(plugin.package, "patchbay-git-sync");
        assert_eq!(
            (plugin.name.as_str(), plugin.module.as_str()),
            ("git-sync", "patchbay_git_sync")
        );
        assert_eq!(workspace.test_plugins.len(), 1);
        assert_eq!(workspace.test_plugins[0].name, "script");
        assert_eq!(workspace.example_plugins.len(), 1);
        assert_eq!(workspace.example_plugins[0].name, "mirror-rust");
    }
}
