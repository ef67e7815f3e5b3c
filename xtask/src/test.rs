//! `cargo xtask test`: all tests, with all that they need.

use std::env;
use std::io::{BufRead, BufReader};
use std::num::NonZeroUsize;
use std::process::{Command, ExitCode, Stdio};
use std::thread;

use anyhow::{Context, Result};
use patchbay_test_cluster::BINARY_VARIABLE;

use crate::build::{self, HOST, Parts};
use crate::examples::{self, Language};
use crate::steps::Steps;
use crate::wasm;
use crate::workspace::Workspace;

/// How many tests of one binary run at once.
const THREADS: &str = "RUST_TEST_THREADS";
const MOST_THREADS: usize = 16;

/// The test targets that need the example plugins.
const LANGUAGES: &str = "languages";

/// Options of `cargo xtask test`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  cargo xtask test -- -p patchbay-core             the tests of one package
  cargo xtask test -- --test '*' -- --nocapture    integration tests, with what they print")]
pub struct Args {
    /// Arguments for `cargo test`
    #[arg(last = true)]
    arguments: Vec<String>,
    #[command(flatten)]
    wasm: wasm::Args,
}

/// How many tests ended how.
#[derive(Debug, Default, PartialEq)]
struct Totals {
    passed: u64,
    failed: u64,
    skipped: u64,
}

/// Builds and tests. The last line says how many tests passed and failed.
pub fn run(workspace: &Workspace, args: &Args) -> Result<ExitCode> {
    let steps = Steps::new();
    let built = build::build(
        workspace,
        &args.wasm,
        &steps,
        &Parts {
            programs: &[HOST],
            release: false,
            apiserver: true,
            test_plugins: true,
        },
    )?;
    if needs_examples(&args.arguments)
        && let Err(error) = examples::build(workspace, &args.wasm, &steps, &Language::ALL)
    {
        // The tests of the languages fail then, and the others can still be run.
        eprintln!("error: {error:#}");
    }
    let mut command = workspace.cargo();
    // All test binaries run, so that the totals are those of all.
    command.args(["test", "--no-fail-fast"]);
    if !selects_packages(&args.arguments) {
        command.arg("--workspace");
    }
    command.args(&args.arguments);
    command
        .env("PATCHBAY_BIN", &built.programs[0])
        .env("PATCHBAY_PLUGINS", &built.plugins)
        .env("PATCHBAY_EXAMPLE_PLUGINS", examples::folder(workspace));
    if let Some(apiserver) = &built.apiserver {
        command.env(BINARY_VARIABLE, apiserver);
    }
    if let Some(test_plugins) = &built.test_plugins {
        command.env("PATCHBAY_TEST_PLUGINS", test_plugins);
    }
    if env::var_os(THREADS).is_none() {
        // Most tests wait for an API server more than they compute. Some start one of their own, so not too many at once.
        let threads = 4 * thread::available_parallelism().map_or(1, NonZeroUsize::get);
        command.env(THREADS, threads.min(MOST_THREADS).to_string());
    }
    let (mut totals, success) = count(command)?;
    if !success && totals.failed == 0 {
        eprintln!("error: a test binary could not be compiled or run; see above");
        totals.failed = 1;
    }
    println!("{}", totals.summary());
    Ok(if success { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Whether arguments for `cargo test` say which packages they are for.
fn selects_packages(arguments: &[String]) -> bool {
    let for_cargo = arguments.iter().take_while(|argument| *argument != "--");
    for_cargo
        .into_iter()
        .any(|argument| argument.starts_with("-p") || argument == "--package" || argument.starts_with("--package="))
}

/// Whether arguments for `cargo test` may select the tests of the languages.
fn needs_examples(arguments: &[String]) -> bool {
    let for_cargo: Vec<_> = arguments.iter().take_while(|argument| *argument != "--").collect();
    let named = for_cargo.windows(2).filter(|pair| pair[0] == "--test");
    let targets: Vec<_> = named.map(|pair| pair[1].as_str()).collect();
    if targets.is_empty() {
        return !selects_packages(arguments);
    }
    targets
        .iter()
        .any(|target| *target == LANGUAGES || target.contains('*'))
}

/// Runs `cargo test`, passes on what it prints and adds up the results.
fn count(mut command: Command) -> Result<(Totals, bool)> {
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot run `cargo test`")?;
    let mut totals = Totals::default();
    if let Some(stdout) = child.stdout.take() {
        for line in BufReader::new(stdout).split(b'\n') {
            let line = line.context("cannot read what `cargo test` prints")?;
            let line = String::from_utf8_lossy(&line);
            println!("{line}");
            totals.add(&line);
        }
    }
    let status = child.wait().context("cannot wait for `cargo test`")?;
    Ok((totals, status.success()))
}

impl Totals {
    /// Adds the closing line of a test binary: `test result: ok. 3 passed; 0 failed; 1 ignored; ...`.
    fn add(&mut self, line: &str) {
        let Some((_, counts)) = line
            .strip_prefix("test result: ")
            .and_then(|rest| rest.split_once(". "))
        else {
            return;
        };
        for count in counts.split("; ") {
            let Some((number, what)) = count.split_once(' ') else {
                continue;
            };
            let Ok(number) = number.parse::<u64>() else { continue };
            match what {
                "passed" => self.passed += number,
                "failed" => self.failed += number,
                "ignored" => self.skipped += number,
                _ => {}
            }
        }
    }

    fn summary(&self) -> String {
        let Self {
            passed,
            failed,
            skipped,
        } = self;
        let skipped = if *skipped > 0 {
            format!(", {skipped} skipped")
        } else {
            String::new()
        };
        format!("{passed} passed, {failed} failed{skipped}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_of_all_binaries_add_up() {
        let mut totals = Totals::default();
        totals.add("running 3 tests");
        totals.add("test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s");
        assert_eq!(totals.summary(), "3 passed, 0 failed");
        totals.add("test result: FAILED. 4 passed; 2 failed; 1 ignored; 0 measured; 7 filtered out; finished in 1.20s");
        assert_eq!(totals.summary(), "7 passed, 2 failed, 1 skipped");
    }

    #[test]
    fn examples_are_built_for_the_tests_that_run_them() {
        let needs = |arguments: &[&str]| needs_examples(&arguments.iter().map(|a| a.to_string()).collect::<Vec<_>>());
        assert!(needs(&[]) && needs(&["--test", "languages"]) && needs(&["--test", "*"]) && needs(&["--", "name"]));
        assert!(!needs(&["--test", "cache"]) && !needs(&["-p", "patchbay-core"]));
    }

    #[test]
    fn packages_can_be_selected() {
        let selects =
            |arguments: &[&str]| selects_packages(&arguments.iter().map(|a| a.to_string()).collect::<Vec<_>>());
        assert!(
            selects(&["-p", "a"]) && selects(&["-pa"]) && selects(&["--package=a"]) && selects(&["--package", "a"])
        );
        assert!(!selects(&["--release"]) && !selects(&["--", "-p"]));
    }
}
