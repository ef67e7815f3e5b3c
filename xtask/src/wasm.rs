//! The Rust that compiles plugins to Wasm, and how to get it.
//!
//! The active Rust does if it has a standard library for the target, which rustup can add. Where rustup is missing or
//! cannot fetch it, Debian's packages can compile one from source. The target stands in no `rust-toolchain.toml`,
//! since then cargo itself would not start where rustup cannot fetch.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use clap::ValueEnum;

use crate::steps::Step;
use crate::workspace::Workspace;

const TARGET: &str = "wasm32-unknown-unknown";
const PACKAGES: [&str; 4] = ["rustc-web", "cargo-web", "rust-web-src", "lld-19"];
const DEBIAN_CARGO: &str = "/usr/bin/cargo";
const DEBIAN_RUSTC: &str = "/usr/bin/rustc";
const DEBIAN_LINKER: &str = "wasm-ld-19";

/// The options of all commands that build plugins.
#[derive(clap::Args)]
#[group(skip)]
pub struct Args {
    /// Which Rust compiles plugins to Wasm: the active one, to which rustup adds the Wasm target if it is missing;
    /// that of Debian's packages rustc-web, cargo-web, rust-web-src and lld-19; or the first of these that works
    #[arg(long, value_enum, default_value_t = Choice::Auto, env = "PATCHBAY_WASM_TOOLCHAIN", hide_env_values = true)]
    wasm_toolchain: Choice,
}

// No doc comments on the variants: they would make a page of the help text of each command.
#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Choice {
    Auto,
    Active,
    Debian,
}

/// The Rust that is used.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Toolchain {
    /// The active one, which has the target.
    Active,
    /// Debian's, which compiles the standard library along.
    Debian,
}

impl Toolchain {
    /// Finds one, and gets what is missing of it.
    pub fn set_up(workspace: &Workspace, args: &Args, step: &Step) -> Result<Self> {
        let choice = args.wasm_toolchain;
        if choice == Choice::Debian {
            set_up_debian(step)?;
            return Ok(Self::Debian);
        }
        if active_has_target(workspace, step)? {
            return Ok(Self::Active);
        }
        match (add_target(workspace, step), choice) {
            (Ok(()), _) => Ok(Self::Active),
            (Err(error), Choice::Active) => Err(error),
            (Err(error), _) => {
                let problem = || format!("rustup gives no {TARGET} either ({error:#})");
                set_up_debian(step).with_context(problem)?;
                Ok(Self::Debian)
            }
        }
    }

    /// What it calls itself.
    pub fn version(self, step: &Step) -> Result<String> {
        let mut command = Command::new(if self == Self::Debian { DEBIAN_RUSTC } else { "rustc" });
        command.arg("--version");
        let version = step.run(command, "")?;
        let version = version.split(' ').take(2).collect::<Vec<_>>().join(" ");
        Ok(match self {
            Self::Active => format!("{version} with {TARGET}"),
            Self::Debian => format!("Debian's {version} for {TARGET}"),
        })
    }

    /// A `cargo build` for the target.
    pub fn cargo_build(self, workspace: &Workspace) -> Command {
        let mut command = match self {
            Self::Active => workspace.cargo(),
            Self::Debian => {
                let mut command = Command::new(DEBIAN_CARGO);
                command.current_dir(&workspace.root);
                command.env("RUSTC", DEBIAN_RUSTC).env("RUSTC_BOOTSTRAP", "1");
                command.env("CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER", DEBIAN_LINKER);
                command.args(["-Z", "build-std=std,panic_abort"]);
                command
            }
        };
        command.args(["build", "--target", TARGET]);
        command
    }
}

/// Where cargo puts what it builds for the target with a profile.
pub fn output_folder(workspace: &Workspace, profile: &str) -> PathBuf {
    workspace.target.join(TARGET).join(profile)
}

/// Looks for the target's standard library, however the active Rust was installed.
fn active_has_target(workspace: &Workspace, step: &Step) -> Result<bool> {
    let mut command = Command::new("rustc");
    command
        .current_dir(&workspace.root)
        .args(["--print", "target-libdir", "--target", TARGET]);
    let folder = step.run(command, "Is Rust installed? See https://rustup.rs")?;
    Ok(holds_standard_library(Path::new(folder.trim())))
}

fn holds_standard_library(folder: &Path) -> bool {
    let Ok(files) = folder.read_dir() else { return false };
    files
        .flatten()
        .any(|file| file.file_name().to_string_lossy().starts_with("libstd-"))
}

fn add_target(workspace: &Workspace, step: &Step) -> Result<()> {
    step.now(format!("rustup target add {TARGET}"));
    let mut command = Command::new("rustup");
    command.current_dir(&workspace.root).args(["target", "add", TARGET]);
    step.run(command, "")?;
    if !active_has_target(workspace, step)? {
        bail!("rustup added {TARGET} to a toolchain that is not the active one");
    }
    Ok(())
}

fn set_up_debian(step: &Step) -> Result<()> {
    if debian_is_complete(step) {
        return Ok(());
    }
    let by_hand = format!("apt-get install {}", PACKAGES.join(" "));
    if !Path::new("/usr/bin/apt-get").exists() {
        bail!("there is no Rust for {TARGET}: install rustup (https://rustup.rs), or on Debian run `{by_hand}`");
    }
    if !rustix::process::geteuid().is_root() {
        bail!("there is no Rust for {TARGET}: run `sudo {by_hand}`");
    }
    let apt = |arguments: &[&str]| {
        let mut command = Command::new("apt-get");
        command.env("DEBIAN_FRONTEND", "noninteractive").args(arguments);
        command
    };
    step.now("apt-get update");
    step.run(apt(&["update"]), "")?;
    step.now(&*by_hand);
    let install = ["install", "--yes", "--no-install-recommends"];
    step.run(apt(&[&install[..], &PACKAGES[..]].concat()), "")?;
    if !debian_is_complete(step) {
        bail!(
            "Debian's packages {} do not contain what they should; install rustup (https://rustup.rs)",
            PACKAGES.join(", ")
        );
    }
    Ok(())
}

fn debian_is_complete(step: &Step) -> bool {
    let mut sysroot = Command::new(DEBIAN_RUSTC);
    sysroot.args(["--print", "sysroot"]);
    let mut linker = Command::new(DEBIAN_LINKER);
    linker.arg("--version");
    let has_source = |sysroot: String| {
        Path::new(sysroot.trim())
            .join("lib/rustlib/src/rust/library/Cargo.lock")
            .exists()
    };
    Path::new(DEBIAN_CARGO).exists() && step.run(sysroot, "").is_ok_and(has_source) && step.run(linker, "").is_ok()
}
