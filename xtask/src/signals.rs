//! Runs a command in the foreground, and lets it end before this program does.

use std::ffi::c_int;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::WithOrigin;
use signal_hook::low_level::siginfo::{Cause, Origin};

/// How often a running command is looked at.
const INTERVAL: Duration = Duration::from_millis(20);

/// The signals that end a program, caught from [`catch`](Self::catch) on.
pub struct Signals {
    caught: Receiver<Origin>,
}

/// How a command ended.
pub struct Ended {
    /// Its exit code; 128 and the signal's number if a signal ended it.
    pub code: u8,
    /// Whether this program was told to end meanwhile.
    pub interrupted: bool,
}

impl Signals {
    /// Begins to catch signals, which from now on end this program no more.
    pub fn catch() -> Result<Self> {
        let mut signals = SignalsInfo::<WithOrigin>::new([SIGINT, SIGTERM, SIGHUP]).context("cannot catch signals")?;
        let (sender, caught) = mpsc::channel();
        thread::spawn(move || {
            for origin in signals.forever() {
                if sender.send(origin).is_err() {
                    break;
                }
            }
        });
        Ok(Self { caught })
    }

    /// Runs a command to its end, passing on the signals that it does not get anyway.
    pub fn run(&self, command: &mut Command) -> io::Result<Ended> {
        let mut child = command.spawn()?;
        let mut interrupted = false;
        loop {
            // No other place waits for the child, so that its id is its own when a signal is sent.
            if let Some(status) = child.try_wait()? {
                return Ok(Ended {
                    code: exit_code(status),
                    interrupted,
                });
            }
            match self.caught.recv_timeout(INTERVAL) {
                Ok(origin) => {
                    interrupted = true;
                    // A terminal sends its signals to the command as well.
                    if origin.cause != Cause::Kernel {
                        pass_on(&child, origin.signal);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => thread::sleep(INTERVAL),
            }
        }
    }

    /// Waits for a signal, or until `ended` says why there is nothing left to wait for.
    pub fn wait<T>(&self, mut ended: impl FnMut() -> Option<T>) -> Option<T> {
        while self.caught.recv_timeout(INTERVAL * 10) == Err(RecvTimeoutError::Timeout) {
            if let Some(reason) = ended() {
                return Some(reason);
            }
        }
        None
    }
}

fn pass_on(child: &Child, signal: c_int) {
    let signal = match signal {
        SIGINT => Signal::INT,
        SIGHUP => Signal::HUP,
        _ => Signal::TERM,
    };
    if let Some(id) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        // It may just have ended, which is as good.
        let _ = kill_process(id, signal);
    }
}

fn exit_code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    /// One test, since signals are the whole process's.
    #[test]
    fn a_command_ends_with_its_own_code() {
        let signals = Signals::catch().unwrap();
        assert_eq!(signals.run(&mut shell("exit 7")).unwrap().code, 7);
        let killed = signals.run(&mut shell("kill -9 $$")).unwrap();
        assert_eq!((killed.code, killed.interrupted), (128 + 9, false));
        // The command asks this very process to end, and is told so in turn.
        let told = signals
            .run(&mut shell(
                "trap 'exit 5' TERM; kill -TERM $PPID; while :; do sleep 0.01; done",
            ))
            .unwrap();
        assert_eq!((told.code, told.interrupted), (5, true));
        assert_eq!(
            signals
                .run(&mut Command::new("/nowhere"))
                .err()
                .map(|error| error.kind()),
            Some(io::ErrorKind::NotFound)
        );
    }
}
