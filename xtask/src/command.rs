//! Runs commands as part of a step: their output is kept, and shown only if they fail.

use std::collections::VecDeque;
use std::fmt;
use std::io::{self, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::steps::Step;

/// Lines of output shown of a command that failed.
const TAIL: usize = 40;

/// A command that ended badly.
#[derive(Debug)]
pub struct Failed {
    command: String,
    status: ExitStatus,
    output: Vec<String>,
    advice: String,
}

impl std::error::Error for Failed {}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` failed ({})", self.command, self.status)?;
        for line in &self.output {
            write!(f, "\n  | {line}")?;
        }
        if !self.advice.is_empty() {
            write!(f, "\n{}", self.advice)?;
        }
        Ok(())
    }
}

impl Step<'_> {
    /// Runs a command and gives its standard output. `advice` says what to do if it fails.
    pub fn run(&self, command: Command, advice: &str) -> Result<String> {
        self.run_observed(command, advice, |line| Some(line.to_owned()))
    }

    /// Like [`run`](Self::run), and `observe` makes what is shown as being done now out of a line of output.
    pub fn run_observed(
        &self,
        mut command: Command,
        advice: &str,
        mut observe: impl FnMut(&str) -> Option<String>,
    ) -> Result<String> {
        let shown = describe(&command);
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot run `{shown}`"))?;
        let lines = read_lines(&mut child);
        let (mut stdout, mut tail, mut complete) = (String::new(), VecDeque::new(), true);
        loop {
            match lines.recv_timeout(Duration::from_millis(100)) {
                Ok((source, line)) => {
                    if let Some(now) = observe(line.trim()) {
                        self.now(now);
                    }
                    if source == Source::Stdout {
                        stdout.push_str(&line);
                        stdout.push('\n');
                    }
                    if !is_progress(&line) {
                        tail.push_back(line);
                        if tail.len() > TAIL {
                            tail.pop_front();
                            complete = false;
                        }
                    }
                }
                Err(RecvTimeoutError::Timeout) if self.is_aborted() => {
                    let _ = child.kill();
                    let _ = child.wait();
                    bail!("`{shown}` was given up");
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        let status = child.wait().with_context(|| format!("cannot wait for `{shown}`"))?;
        if status.success() {
            return Ok(stdout);
        }
        if !complete {
            tail.push_front("...".to_owned());
        }
        Err(Failed {
            command: shown,
            status,
            output: tail.into(),
            advice: advice.to_owned(),
        }
        .into())
    }

    /// Runs a cargo command, showing the progress that cargo reports.
    pub fn cargo(&self, mut command: Command, advice: &str) -> Result<String> {
        command
            .env("CARGO_TERM_PROGRESS_WHEN", "always")
            .env("CARGO_TERM_PROGRESS_WIDTH", "100");
        self.run_observed(command, advice, |line| progress(line).map(str::to_owned))
    }
}

/// The command as one would type it, without its environment.
pub fn describe(command: &Command) -> String {
    let mut words = vec![command.get_program().to_string_lossy()];
    if let Some(name) = std::path::Path::new(command.get_program()).file_name() {
        words[0] = name.to_string_lossy();
    }
    words.extend(command.get_args().map(|argument| argument.to_string_lossy()));
    let quoted = words.into_iter().map(|word| {
        if word.contains(' ') {
            format!("'{word}'")
        } else {
            word.into_owned()
        }
    });
    quoted.collect::<Vec<_>>().join(" ")
}

/// Cargo's progress bar: `    Building [====>  ] 12/30: serde, syn`.
fn is_progress(line: &str) -> bool {
    progress(line).is_some()
}

fn progress(line: &str) -> Option<&str> {
    let (_, rest) = line.trim_start().split_once("Building")?.1.split_once(']')?;
    let rest = rest.trim();
    rest.split_once('/')
        .filter(|(done, _)| done.parse::<u32>().is_ok())
        .map(|_| rest)
}

#[derive(Clone, Copy, PartialEq)]
enum Source {
    Stdout,
    Stderr,
}

fn read_lines(child: &mut Child) -> mpsc::Receiver<(Source, String)> {
    let (sender, receiver) = mpsc::channel();
    if let Some(stdout) = child.stdout.take() {
        let sender = sender.clone();
        thread::spawn(move || send_lines(stdout, Source::Stdout, &sender));
    }
    if let Some(stderr) = child.stderr.take() {
        thread::spawn(move || send_lines(stderr, Source::Stderr, &sender));
    }
    receiver
}

/// Sends each line, where a carriage return ends one too: progress bars end so.
fn send_lines(mut from: impl Read, source: Source, to: &Sender<(Source, String)>) {
    let (mut buffer, mut line) = ([0; 8192], Vec::new());
    let send = |line: &mut Vec<u8>| {
        let text = String::from_utf8_lossy(line).trim_end().to_owned();
        line.clear();
        text.is_empty() || to.send((source, text)).is_ok()
    };
    loop {
        let count = match from.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => break,
        };
        for &byte in &buffer[..count] {
            if byte != b'\n' && byte != b'\r' {
                line.push(byte);
            } else if !send(&mut line) {
                return;
            }
        }
    }
    send(&mut line);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steps::Steps;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn a_command_gives_its_standard_output() {
        let output = Steps::new().step("echo", |step| step.run(shell("echo noise >&2; echo a; printf b"), ""));
        assert_eq!(output.unwrap(), "a\nb\n");
    }

    #[test]
    fn a_failed_command_shows_the_end_of_its_output_and_what_to_do() {
        let script = "i=0; while [ $i -lt 50 ]; do echo line $i; i=$((i+1)); done; exit 3";
        let error = Steps::new()
            .step("fail", |step| step.run(shell(script), "Try again."))
            .unwrap_err()
            .to_string();
        assert!(error.contains("failed (exit status: 3)"), "{error}");
        assert!(
            error.contains("\n  | ...\n  | line 10\n") && !error.contains("| line 9\n"),
            "{error}"
        );
        assert!(error.ends_with("| line 49\nTry again."), "{error}");
    }

    #[test]
    fn an_aborted_command_is_ended() {
        let steps = Steps::new();
        steps.abort();
        let error = steps
            .step("hang", |step| step.run(shell("exec sleep 600"), ""))
            .unwrap_err();
        assert_eq!(error.to_string(), "`sh -c 'exec sleep 600'` was given up");
    }

    #[test]
    fn cargos_progress_is_recognised() {
        assert_eq!(
            progress("    Building [====>     ] 12/30: serde, syn"),
            Some("12/30: serde, syn")
        );
        assert_eq!(progress("   Compiling serde v1.0.0"), None);
        assert_eq!(progress("error: Building failed"), None);
    }
}
