//! The patchbay host and its tools.
#![forbid(unsafe_code)]

mod cli;
mod crds;
mod explain;
mod inspect;
mod load;
mod manifests;
mod output;
mod render;
mod run;
mod socket;

use std::process::ExitCode;

use clap::Parser;

use crate::cli::{Cli, Command, PluginCommand};

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) if error.use_stderr() => {
            // Whoever reads the errors of several programs sees whose they are.
            let said = error.render().to_string();
            eprint!("patchbay: {}", said.strip_prefix("error: ").unwrap_or(&said));
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(1));
        }
        Err(help) => help.exit(),
    };
    let done = match cli.command {
        Command::Run(arguments) => run::run(&arguments),
        Command::Explain(arguments) => explain::explain(&arguments),
        Command::Render(arguments) => render::render(&arguments),
        Command::Plugin(PluginCommand::Inspect(arguments)) => inspect::inspect(&arguments),
        Command::Crds => crds::print(),
        Command::Completion { shell } => cli::completion(shell),
    };
    match done {
        Ok(code) => code,
        // Whoever read the output has read enough.
        Err(error) if output::is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("patchbay: {error:#}");
            output::exit_code(&error)
        }
    }
}
