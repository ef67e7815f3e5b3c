//! Plugins from files.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use patchbay_plugin::{Engine, Limits, Plugin, Settings};

/// Loads one plugin.
pub(crate) fn file(engine: &Engine, path: &Path) -> anyhow::Result<Plugin> {
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    if path.is_dir() {
        bail!(
            "{} is a folder: name one plugin, a file that ends in .wasm",
            path.display()
        );
    }
    let bytes = std::fs::read(path).with_context(|| format!("plugin {}", path.display()))?;
    Plugin::load(engine, &name, &bytes, Limits::default()).with_context(|| path.display().to_string())
}

/// An engine with its default settings.
pub(crate) fn engine() -> anyhow::Result<Engine> {
    Engine::new(&Settings::default()).context("the WebAssembly engine cannot start")
}

/// The modules of a folder, by name.
pub(crate) fn modules(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder)
        .with_context(|| format!("plugins folder {}: name one with --plugins", folder.display()))?;
    let mut modules = Vec::new();
    for entry in entries {
        let path = entry
            .with_context(|| format!("plugins folder {}", folder.display()))?
            .path();
        if path.extension().is_some_and(|extension| extension == "wasm") {
            modules.push(path);
        }
    }
    modules.sort();
    if modules.is_empty() {
        bail!(
            "plugins folder {} holds no file that ends in .wasm: put a plugin there",
            folder.display()
        );
    }
    Ok(modules)
}
