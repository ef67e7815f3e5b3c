//! How each language's component is built. A change of this file builds them all again.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use super::tools;
use crate::steps::Step;
use crate::wasm::Toolchain;
use crate::workspace::Workspace;
use crate::{apiserver, plugins};

/// The program that writes bindings for Go and C.
const BINDINGS: &str = "patchbay-bindings";
/// Where the generated code of Go looks for the plugin.
const GO_PACKAGE: &str = "export_patchbay_plugin_reconciler";

/// What a recipe needs. Each gives the file of the component.
pub struct Recipe<'a> {
    pub workspace: &'a Workspace,
    pub step: &'a Step<'a>,
    pub sources: PathBuf,
    pub wit: PathBuf,
}

/// Builds the program that writes bindings.
pub fn bindings(workspace: &Workspace, step: &Step) -> Result<PathBuf> {
    let mut command = workspace.cargo();
    command.args(["build", "--workspace", "--bin", BINDINGS]);
    step.cargo(command, "")?;
    Ok(workspace.target.join("debug").join(BINDINGS))
}

impl Recipe<'_> {
    pub fn rust(&self, toolchain: Toolchain) -> Result<()> {
        let examples = &self.workspace.example_plugins;
        plugins::compile(self.workspace, toolchain, self.step, examples, "examples").map(drop)
    }

    pub fn go(&self, bindings: &Path) -> Result<PathBuf> {
        apiserver::go_version(self.workspace, self.step)?;
        let folder = tools::scratch(self.workspace, "go")?;
        self.generate(bindings, "go", &folder)?;
        tools::copy(&self.sources, &folder.join(GO_PACKAGE))?;
        // Not every Go proxy serves this module, and the generator brings the version along that it writes for.
        let module = self.crate_folder("wit-bindgen-go")?.join("src/pkg");
        let mut edit = go(&folder, &["mod", "edit"]);
        edit.arg(format!("-replace=go.bytecodealliance.org/pkg={}", module.display()));
        self.step.run(edit, "")?;
        self.step.now("go build");
        let mut build = go(&folder, &["build", "-trimpath", "-buildmode=c-shared"]);
        build.env("GOOS", "wasip1").env("GOARCH", "wasm");
        // The generated code calls a function of the runtime that the linker would hide.
        build.args(["-ldflags=-checklinkname=0 -s -w", "-o", "core.wasm", "."]);
        self.step.run(build, "")?;
        let mut encode = self.encode(bindings, &folder);
        encode.arg(&self.wit);
        self.step.run(encode, "")?;
        Ok(folder.join("component.wasm"))
    }

    pub fn c(&self, bindings: &Path) -> Result<PathBuf> {
        let python = tools::python(self.workspace, self.step, "c", &self.sources)?;
        let folder = tools::scratch(self.workspace, "c")?;
        self.generate(bindings, "c", &folder)?;
        tools::copy(&self.sources, &folder)?;
        self.step.now("zig cc; a minute the first time, for its C library");
        let mut compile = Command::new(python);
        compile.current_dir(&folder);
        compile.args([
            "-m",
            "ziglang",
            "cc",
            "-target",
            "wasm32-wasi",
            "-mexec-model=reactor",
            "-Os",
            "-s",
        ]);
        compile.args([
            "-Wall",
            "-Werror",
            "-o",
            "core.wasm",
            "mirror.c",
            "patchbay.c",
            "plugin.c",
        ]);
        // The object file carries the world.
        compile.arg("plugin_component_type.o");
        self.step.run(compile, "")?;
        self.step.run(self.encode(bindings, &folder), "")?;
        Ok(folder.join("component.wasm"))
    }

    pub fn python(&self) -> Result<PathBuf> {
        let python = tools::python(self.workspace, self.step, "python", &self.sources)?;
        let folder = tools::scratch(self.workspace, "python")?;
        tools::copy(&self.sources, &folder)?;
        self.step.now("componentize-py");
        let mut componentize = Command::new(python.with_file_name("componentize-py"));
        componentize.current_dir(&folder).arg("--wit-path").arg(&self.wit);
        componentize.args([
            "--world",
            "plugin",
            "componentize",
            "mirror",
            "--output",
            "component.wasm",
        ]);
        self.step.run(componentize, "")?;
        Ok(folder.join("component.wasm"))
    }

    pub fn javascript(&self) -> Result<PathBuf> {
        let folder = tools::node(self.workspace, self.step, "javascript", &self.sources)?;
        self.step.now("componentize-js");
        let mut componentize = Command::new(folder.join("node_modules/.bin/componentize-js"));
        componentize
            .current_dir(&folder)
            .arg("mirror.mjs")
            .arg("--wit")
            .arg(&self.wit);
        // The host links no HTTP, which would be imported whether it is used or not.
        componentize.args(["--world-name", "plugin", "--disable", "http", "fetch-event"]);
        componentize.args(["--out", "component.wasm"]);
        self.step.run(componentize, "")?;
        Ok(folder.join("component.wasm"))
    }

    fn generate(&self, bindings: &Path, language: &str, folder: &Path) -> Result<()> {
        let mut generate = Command::new(bindings);
        generate.arg(language).arg(&self.wit).arg(folder);
        self.step.run(generate, "").map(drop)
    }

    fn encode(&self, bindings: &Path, folder: &Path) -> Command {
        self.step.now("making a component");
        let mut encode = Command::new(bindings);
        encode
            .current_dir(folder)
            .args(["component", "core.wasm", "component.wasm"]);
        encode
    }

    /// Where cargo has put the source of a crate.
    fn crate_folder(&self, name: &str) -> Result<PathBuf> {
        let mut metadata = self.workspace.cargo();
        metadata.args(["metadata", "--format-version", "1"]);
        let text = self.step.run_observed(metadata, "", |_| None)?;
        let metadata: Value = serde_json::from_str(&text).context("cannot read what `cargo metadata` says")?;
        let mut packages = metadata["packages"].as_array().into_iter().flatten();
        let manifest = packages.find(|package| package["name"] == name);
        let manifest = manifest.and_then(|package| package["manifest_path"].as_str());
        let folder = manifest.and_then(|manifest| Path::new(manifest).parent());
        Ok(folder
            .with_context(|| format!("cargo knows no crate {name}"))?
            .to_owned())
    }
}

fn go(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new("go");
    // What a developer has set for other modules is not meant for this one.
    command
        .current_dir(folder)
        .env("GOFLAGS", "-mod=mod")
        .env("GOWORK", "off");
    command.args(arguments);
    command
}
