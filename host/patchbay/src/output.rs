//! Standard output, which may be closed before everything is written.

use std::io::Write;
use std::process::ExitCode;

pub(crate) fn print(text: &str) -> anyhow::Result<ExitCode> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// The command line asks for what makes no sense.
#[derive(Debug)]
pub(crate) struct Usage(String);

impl Usage {
    pub(crate) fn of(problem: impl Into<String>) -> anyhow::Error {
        Usage(problem.into()).into()
    }
}

impl std::fmt::Display for Usage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

/// The exit code of commands that make no sense, as clap's.
const NONSENSE: u8 = 2;

pub(crate) fn exit_code(error: &anyhow::Error) -> ExitCode {
    if error.is::<Usage>() {
        ExitCode::from(NONSENSE)
    } else {
        ExitCode::FAILURE
    }
}

pub(crate) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .downcast_ref::<std::io::Error>()
        .is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}
