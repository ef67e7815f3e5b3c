//! What can go wrong with a call of a plugin.

use std::fmt;
use std::io;
use std::time::Duration;

use wasmtime::{PoolConcurrencyLimitError, Trap, WasmBacktrace};
use wasmtime_wasi::I32Exit;

use crate::limits::{Limits, Refused};
use crate::log::printable;
use crate::wasi::DeadlinePassed;

/// Functions of a backtrace that a message shows. A panic of Rust is some ten functions away from the one that
/// panicked.
pub(crate) const FRAMES: usize = 12;

/// Bytes of a message about a trap.
const MESSAGE: usize = 1024;

/// What can be called of a plugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Function {
    /// Its start, before any call.
    Instantiate,
    /// `describe`
    Describe,
    /// `references`
    References,
    /// `dependents`
    Dependents,
    /// `reconcile`
    Reconcile,
    /// `finalize`
    Finalize,
}

impl fmt::Display for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Function::Instantiate => "instantiate",
            Function::Describe => "describe",
            Function::References => "references",
            Function::Dependents => "dependents",
            Function::Reconcile => "reconcile",
            Function::Finalize => "finalize",
        })
    }
}

/// Which way too many bytes went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Into the plugin: [`Limits::input`].
    Input,
    /// Out of the plugin: [`Limits::output`].
    Output,
}

/// A call that gave no answer. Each is the failure of one run and of nothing else. The message is one line and does
/// not name the plugin; its caller knows it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The plugin ended itself, did what WebAssembly forbids, or answered with what is not of the contract's form
    /// (text that is not UTF-8, a variant that does not exist).
    #[error("{function} trapped: {message}")]
    Trap {
        /// What was called.
        function: Function,
        /// The cause, and the innermost functions of the plugin if it has names for them.
        message: String,
    },
    /// The call took longer than [`Limits::time`], or would still run.
    #[error("{function} took longer than {limit:?}")]
    TimedOut {
        /// What was called.
        function: Function,
        /// The time that it had.
        limit: Duration,
    },
    /// The plugin was refused memory and trapped.
    #[error("{function} needs more memory than the {limit} bytes that the plugin may have")]
    MemoryLimit {
        /// What was called.
        function: Function,
        /// Bytes that the plugin may have.
        limit: usize,
    },
    /// Too many bytes go in, or come out.
    #[error("{function} {}", too_large(.direction, .bytes, .limit))]
    TooLarge {
        /// What was called.
        function: Function,
        /// Which way they went.
        direction: Direction,
        /// How many there were. Unknown on the way out, since reading ends at the limit.
        bytes: Option<usize>,
        /// Bytes that are allowed.
        limit: usize,
    },
    /// There is no room for another instance now: as many exist as the engine is laid out for, or the machine gives no
    /// memory. It says nothing about the plugin, and the call may be tried again.
    #[error("no room for another instance: {reason}; try again when another one has ended")]
    NoRoom {
        /// Which bound was met.
        reason: String,
    },
    /// An earlier call of this instance failed, and nobody knows in which state it left it. Make a new instance.
    #[error("an earlier call of this instance failed, it takes no more calls")]
    Poisoned,
}

fn too_large(direction: &Direction, bytes: &Option<usize>, limit: &usize) -> String {
    let bytes = match bytes {
        Some(bytes) => format!("{bytes} bytes"),
        None => "more bytes than allowed".to_owned(),
    };
    match direction {
        Direction::Input => format!("would be given {bytes}, {limit} are allowed"),
        Direction::Output => format!("hands back {bytes}, {limit} are allowed"),
    }
}

impl CallError {
    /// Finds out what an error of wasmtime means. `refused` is what the plugin was refused during the call.
    pub(crate) fn of(
        error: &wasmtime::Error,
        function: Function,
        limits: &Limits,
        refused: Option<Refused>,
    ) -> CallError {
        if error.is::<DeadlinePassed>() {
            return CallError::TimedOut {
                function,
                limit: limits.time,
            };
        }
        if function == Function::Instantiate
            && let Some(reason) = no_room(error)
        {
            return CallError::NoRoom { reason };
        }
        if refused == Some(Refused::Memory) {
            return CallError::MemoryLimit {
                function,
                limit: limits.memory,
            };
        }
        let cause = error.root_cause().to_string();
        // Wasmtime keeps the type of this error to itself.
        if cause.contains("fuel allocated for hostcalls has been exhausted") {
            return CallError::TooLarge {
                function,
                direction: Direction::Output,
                bytes: None,
                limit: limits.output,
            };
        }
        let mut message = match (error.downcast_ref::<I32Exit>(), error.downcast_ref::<Trap>()) {
            (Some(I32Exit(status)), _) => format!("the plugin exited with status {status}"),
            (None, Some(Trap::UnreachableCodeReached)) => "the plugin aborted (`unreachable` executed)".to_owned(),
            _ => cause.trim_start_matches("wasm trap: ").to_owned(),
        };
        if refused == Some(Refused::Table) {
            message += &format!(
                ", after it was refused tables of more than {} elements",
                limits.table_elements
            );
        }
        if let Some(trace) = error.downcast_ref::<WasmBacktrace>() {
            message += &frames(trace);
        }
        CallError::Trap {
            function,
            message: line(&message),
        }
    }
}

/// Why the host, not the plugin, could not go on.
fn no_room(error: &wasmtime::Error) -> Option<String> {
    let full = error.downcast_ref::<PoolConcurrencyLimitError>();
    let full = full.map(|full| full.to_string());
    full.or_else(|| {
        let io = error.chain().find_map(|cause| cause.downcast_ref::<io::Error>())?;
        (io.kind() == io::ErrorKind::OutOfMemory).then(|| io.to_string())
    })
}

/// The innermost functions, as far as the plugin has names for them.
fn frames(trace: &WasmBacktrace) -> String {
    let named = trace.frames().iter().filter_map(|frame| frame.func_name());
    let names: Vec<&str> = named.take(FRAMES).collect();
    match (names.is_empty(), trace.frames().first()) {
        (false, _) => format!(", in {}", names.join(" < ")),
        (true, Some(innermost)) => format!(", in function {}", innermost.func_index()),
        (true, None) => String::new(),
    }
}

/// One line of bounded length. Names in it are the plugin's, so they can be anything.
pub(crate) fn line(text: &str) -> String {
    let mut text = printable(text);
    if text.len() > MESSAGE {
        text.truncate(text.floor_char_boundary(MESSAGE));
        text.push('…');
    }
    text
}
