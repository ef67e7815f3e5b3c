//! The two steps of building a plugin for which Go and C have no tool of their own: bindings of the contract, and a component
//! of the module that the compiler makes. `cargo xtask plugins` calls it. It is a program of its own, so that `cargo xtask`
//! itself is built without generators.

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use wasi_preview1_component_adapter_provider::{
    WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME, WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER,
};
use wit_bindgen_core::wit_parser::{Resolve, WorldId};
use wit_bindgen_core::{Files, WorldGenerator};
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};

const USAGE: &str = "\
patchbay-bindings go WIT FOLDER                 writes Go bindings of the contract in the folder WIT
patchbay-bindings c WIT FOLDER                  writes C bindings
patchbay-bindings component MODULE FILE [WIT]   makes a component of a module; with WIT, of one that does not carry its world";

/// The world that plugins implement.
const WORLD: &str = "plugin";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments.iter().map(String::as_str).collect::<Vec<_>>()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[&str]) -> Result<()> {
    match *arguments {
        ["go", wit, folder] => generate(
            wit_bindgen_go::Opts::default().build().as_mut(),
            Path::new(wit),
            Path::new(folder),
        ),
        ["c", wit, folder] => generate(
            wit_bindgen_c::Opts::default().build().as_mut(),
            Path::new(wit),
            Path::new(folder),
        ),
        ["component", module, file] => encode(Path::new(module), Path::new(file), None),
        ["component", module, file, wit] => encode(Path::new(module), Path::new(file), Some(Path::new(wit))),
        _ => bail!("wrong arguments; it is called so:\n{USAGE}"),
    }
}

/// The contract in a folder, and its world.
fn contract(wit: &Path) -> Result<(Resolve, WorldId)> {
    let mut resolve = Resolve::default();
    let (package, _) = resolve
        .push_path(wit)
        .with_context(|| format!("cannot read the contract in {}", wit.display()))?;
    let world = resolve.select_world(&[package], Some(WORLD))?;
    Ok((resolve, world))
}

fn generate(generator: &mut dyn WorldGenerator, wit: &Path, folder: &Path) -> Result<()> {
    let (mut resolve, world) = contract(wit)?;
    let mut files = Files::default();
    generator.generate(&mut resolve, world, &mut files)?;
    for (name, content) in files.iter() {
        write(&folder.join(name), content)?;
    }
    Ok(())
}

fn encode(module: &Path, file: &Path, wit: Option<&Path>) -> Result<()> {
    let mut bytes = fs::read(module).with_context(|| format!("cannot read {}", module.display()))?;
    if let Some(wit) = wit {
        let (resolve, world) = contract(wit)?;
        embed_component_metadata(&mut bytes, &resolve, world, StringEncoding::UTF8)?;
    }
    let component = ComponentEncoder::default()
        .module(&bytes)?
        // What a module of WASI's first version imports becomes imports of the second. It is left out if nothing does.
        .adapter(
            WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME,
            WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER,
        )?
        .validate(true)
        .encode()
        .context("cannot make a component of the module")?;
    write(file, &component)
}

fn write(path: &Path, content: &[u8]) -> Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    }
    fs::write(path, content).with_context(|| format!("cannot write {}", path.display()))
}
