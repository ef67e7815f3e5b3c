//! `cargo xtask plugins`: the example plugins, one in each language.
//!
//! What a component is made of is hashed: sources, contract, tools, recipe. A component whose hash has not changed is not built
//! again, and no tool is looked for.

mod inputs;
mod recipes;
mod tools;

use std::fs;
use std::path::{self, Path, PathBuf};
use std::process::ExitCode;
use std::thread;

use anyhow::{Context, Result, bail};

use self::inputs::Inputs;
use crate::plugins::{remove_others, write_at_once};
use crate::steps::Steps;
use crate::wasm::{self, Toolchain};
use crate::workspace::Workspace;

/// Options of `cargo xtask plugins`.
#[derive(clap::Args)]
#[command(after_help = "\
The tools that a language needs are fetched into the target folder, but for Go, Node.js and Python themselves.

Examples:
  cargo xtask plugins
  cargo xtask plugins --language go,c")]
pub struct Args {
    /// Only these languages
    #[arg(long, value_enum, value_name = "LANGUAGE", value_delimiter = ',')]
    language: Vec<Language>,
    #[command(flatten)]
    wasm: wasm::Args,
}

/// A language that an example is written in.
#[derive(Clone, Copy, PartialEq, Debug, clap::ValueEnum)]
pub enum Language {
    Rust,
    Go,
    Python,
    Javascript,
    C,
}

impl Language {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Rust, Self::Go, Self::Python, Self::Javascript, Self::C];

    /// What its folder is called.
    pub fn name(self) -> &'static str {
        match self {
            Self::Rust => "rust",
            Self::Go => "go",
            Self::Python => "python",
            Self::Javascript => "javascript",
            Self::C => "c",
        }
    }

    /// What its component is called, without `.wasm`.
    fn plugin(self) -> String {
        format!("mirror-{}", self.name())
    }
}

/// Builds the examples; the last line is their folder.
pub fn run(workspace: &Workspace, args: &Args) -> Result<ExitCode> {
    let languages = if args.language.is_empty() {
        &Language::ALL[..]
    } else {
        &args.language
    };
    build(workspace, &args.wasm, &Steps::new(), languages)?;
    let folder = path::absolute(folder(workspace)).context("cannot find the current folder")?;
    println!("{}", folder.display());
    Ok(ExitCode::SUCCESS)
}

/// The folder of the components.
pub fn folder(workspace: &Workspace) -> PathBuf {
    workspace.target.join("examples")
}

/// Builds the components of these languages. One that cannot be built keeps no other from it, and an old one of it is removed.
pub fn build(workspace: &Workspace, wasm: &wasm::Args, steps: &Steps, languages: &[Language]) -> Result<()> {
    let folder = folder(workspace);
    for folder in [&folder, &workspace.target.join("xtask")] {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    }
    remove_others(&folder, &Language::ALL.map(Language::plugin))?;
    let components = languages.iter().map(|language| Component::of(workspace, *language));
    let components = components.collect::<Result<Vec<_>>>()?;
    let is_stale = |language| {
        let mut components = components.iter();
        components.any(|component| component.language == language && !component.is_built)
    };
    // First, since cargo builds one thing at a time.
    let bindings = if is_stale(Language::Go) || is_stale(Language::C) {
        Some(steps.step("bindings", |step| recipes::bindings(workspace, step)))
    } else {
        None
    };
    let bindings = bindings.transpose()?;
    let problems: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = components
            .iter()
            .map(|component| scope.spawn(|| component.build(workspace, wasm, steps, bindings.as_deref())))
            .collect();
        let results = threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        results.filter_map(Result::err).collect()
    });
    match &problems[..] {
        [] => Ok(()),
        problems => bail!(
            "{}",
            problems
                .iter()
                .map(|problem| format!("{problem:#}"))
                .collect::<Vec<_>>()
                .join("\nerror: ")
        ),
    }
}

/// A component, and what it is made of.
struct Component {
    language: Language,
    file: PathBuf,
    stamp: PathBuf,
    inputs: String,
    is_built: bool,
}

impl Component {
    fn of(workspace: &Workspace, language: Language) -> Result<Self> {
        let name = language.plugin();
        let file = folder(workspace).join(format!("{name}.wasm"));
        let stamp = workspace.target.join(format!("xtask/{name}.inputs"));
        let inputs = inputs(workspace, language)?;
        // Cargo knows best whether Rust has to be built.
        let is_built = language != Language::Rust
            && file.exists()
            && fs::read_to_string(&stamp).is_ok_and(|found| found == inputs);
        Ok(Self {
            language,
            file,
            stamp,
            inputs,
            is_built,
        })
    }

    fn build(&self, workspace: &Workspace, wasm: &wasm::Args, steps: &Steps, bindings: Option<&Path>) -> Result<()> {
        let name = self.language.plugin();
        let built = steps.step(&name, |step| {
            if self.is_built {
                step.result("already built");
                return Ok(());
            }
            let recipe = recipes::Recipe {
                workspace,
                step,
                sources: sources(workspace, self.language),
                wit: wit(workspace),
            };
            let component = match (self.language, bindings) {
                (Language::Rust, _) => return recipe.rust(Toolchain::set_up(workspace, wasm, step)?),
                (Language::Go, Some(bindings)) => recipe.go(bindings)?,
                (Language::C, Some(bindings)) => recipe.c(bindings)?,
                (Language::Go | Language::C, None) => bail!("there is no program that writes bindings"),
                (Language::Python, _) => recipe.python()?,
                (Language::Javascript, _) => recipe.javascript()?,
            };
            let bytes = fs::read(&component).with_context(|| format!("cannot read {}", component.display()))?;
            write_at_once(&self.file, &bytes)?;
            write_at_once(&self.stamp, self.inputs.as_bytes())?;
            step.result(format!("{} KB", bytes.len().div_ceil(1000)));
            Ok(())
        });
        built
            .inspect_err(|_| drop(fs::remove_file(&self.file)))
            .with_context(|| format!("plugin {name}"))
    }
}

fn sources(workspace: &Workspace, language: Language) -> PathBuf {
    workspace.root.join("examples/plugins").join(language.name())
}

fn wit(workspace: &Workspace) -> PathBuf {
    workspace.root.join("wit/0.1.0")
}

fn inputs(workspace: &Workspace, language: Language) -> Result<String> {
    let mut inputs = Inputs::default();
    inputs.add_text(include_str!("recipes.rs"));
    inputs.add_folder(&sources(workspace, language))?;
    inputs.add_folder(&wit(workspace))?;
    if matches!(language, Language::Go | Language::C) {
        inputs.add_folder(&workspace.root.join("xtask/bindings"))?;
        inputs.add_locked(
            &workspace.root.join("Cargo.lock"),
            &["wit-bindgen-c", "wit-bindgen-go", "wit-component"],
        )?;
    }
    Ok(inputs.digest())
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;

    use super::*;

    #[test]
    fn languages_are_called_as_their_folders() {
        for language in Language::ALL {
            let value = language.to_possible_value().unwrap();
            assert_eq!(value.get_name(), language.name());
        }
        assert_eq!(Language::ALL, Language::value_variants());
    }
}
