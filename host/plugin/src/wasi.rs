//! WASI with nothing behind it.
//!
//! The standard libraries of most languages expect WASI. A plugin finds all of it and gets nothing from it:
//!
//! - no files: there is no directory to open any in;
//! - no network: sockets cannot be made, names cannot be looked up;
//! - no environment, and one argument, the plugin's name, since some libraries look at it without asking;
//! - standard input is closed, standard output and standard error go to the log;
//! - the wall clock stands still at the time of the run, [`Primary::time`](crate::contract::Primary::time), so that a
//!   plugin sees the same time by all ways; before the first call with a primary it stands at 1970;
//! - the monotonic clock runs, counted from the begin of the instance: language runtimes schedule by it. A plugin can
//!   sleep, within its time limit;
//! - random numbers are real, so that what a plugin makes of them is no one's to guess.
//!
//! Blocking functions of wasmtime-wasi need a tokio runtime. On a thread that has none, they use one of their own. On
//! a thread that drives a runtime they panic, so plugins must not be called there.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use wasmtime::component::{HasData, Linker, Resource, ResourceTable};
use wasmtime_wasi::cli::{IsTerminal, StdoutStream};
use wasmtime_wasi::p2::bindings::io::poll as async_poll;
use wasmtime_wasi::p2::bindings::sync::io::poll as sync_poll;
use wasmtime_wasi::p2::{DynPollable, OutputStream, Pollable, StreamResult};
use wasmtime_wasi::runtime::in_tokio;
use wasmtime_wasi::{HostWallClock, WasiCtx, WasiCtxBuilder, WasiCtxView, WasiView, async_trait};

use crate::instance::State;
use crate::log::{LogGate, Source};

/// WASI resources that an instance may hold: streams, and what it waits for. Runtimes hold a handful.
const RESOURCES: usize = 1024;

/// Bytes of random numbers per call of the host. Seeds take 32.
const RANDOM: u64 = 64 * 1024;

/// Bytes that a program may write to a standard stream at once. It is also what the host allocates for it.
const STREAM_PERMIT: usize = 64 * 1024;

/// Seconds since 1970 that an instance's wall clock shows.
#[derive(Debug, Clone, Default)]
pub(crate) struct RunTime(Arc<AtomicU64>);

impl RunTime {
    pub(crate) fn set(&self, seconds: u64) {
        self.0.store(seconds, Ordering::Relaxed);
    }
}

impl HostWallClock for RunTime {
    fn resolution(&self) -> Duration {
        Duration::from_secs(1)
    }

    fn now(&self) -> Duration {
        Duration::from_secs(self.0.load(Ordering::Relaxed))
    }
}

/// What an instance sees of the world.
pub(crate) fn context(plugin: &str, log: &LogGate, time: &RunTime) -> WasiCtx {
    // Everything that the builder is not told it denies; the network is denied by name, since its default has changed
    // before.
    WasiCtxBuilder::new()
        .arg(plugin)
        .stdout(LogStream {
            source: Source::Stdout,
            gate: log.clone(),
        })
        .stderr(LogStream {
            source: Source::Stderr,
            gate: log.clone(),
        })
        .wall_clock(time.clone())
        .max_random_size(RANDOM)
        .allow_tcp(false)
        .allow_udp(false)
        .allow_ip_name_lookup(false)
        .build()
}

/// The table of an instance's WASI resources.
pub(crate) fn resources() -> ResourceTable {
    let mut table = ResourceTable::new();
    table.set_max_capacity(RESOURCES);
    table
}

/// Links WASI 0.2, with waiting bounded by the time limit.
pub(crate) fn add_to_linker(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    wasmtime_wasi::p2::add_to_linker_sync(linker)?;
    linker.allow_shadowing(true);
    sync_poll::add_to_linker::<State, HasWaits>(linker, |state| {
        let deadline = state.deadline();
        Waits {
            table: state.ctx().table,
            deadline,
        }
    })?;
    linker.allow_shadowing(false);
    Ok(())
}

/// The time of a call is over.
#[derive(Debug, thiserror::Error)]
#[error("the time of the call is over")]
pub(crate) struct DeadlinePassed;

/// `wasi:io/poll`, the only place in which a plugin can wait. Waiting does not run WebAssembly, so the engine's ticks
/// would not end it.
struct Waits<'a> {
    table: &'a mut ResourceTable,
    deadline: Instant,
}

struct HasWaits;

impl HasData for HasWaits {
    type Data<'a> = Waits<'a>;
}

impl Waits<'_> {
    fn within<T>(deadline: Instant, wait: impl Future<Output = wasmtime::Result<T>>) -> wasmtime::Result<T> {
        in_tokio(async {
            match tokio::time::timeout_at(deadline.into(), wait).await {
                Ok(result) => result,
                Err(_) => Err(DeadlinePassed.into()),
            }
        })
    }
}

impl sync_poll::Host for Waits<'_> {
    fn poll(&mut self, list: Vec<Resource<DynPollable>>) -> wasmtime::Result<Vec<u32>> {
        Self::within(self.deadline, async_poll::Host::poll(self.table, list))
    }
}

impl sync_poll::HostPollable for Waits<'_> {
    fn ready(&mut self, pollable: Resource<DynPollable>) -> wasmtime::Result<bool> {
        sync_poll::HostPollable::ready(self.table, pollable)
    }

    fn block(&mut self, pollable: Resource<DynPollable>) -> wasmtime::Result<()> {
        let wait = async_poll::HostPollable::block(self.table, pollable);
        Self::within(self.deadline, wait)
    }

    fn drop(&mut self, pollable: Resource<DynPollable>) -> wasmtime::Result<()> {
        sync_poll::HostPollable::drop(self.table, pollable)
    }
}

/// A standard stream that goes to the log.
#[derive(Clone)]
struct LogStream {
    source: Source,
    gate: LogGate,
}

impl IsTerminal for LogStream {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdoutStream for LogStream {
    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(self.clone())
    }

    /// Only WASI 0.1 and 0.3 ask for it, which are not linked.
    fn async_stream(&self) -> Box<dyn tokio::io::AsyncWrite + Send + Sync> {
        Box::new(tokio::io::sink())
    }
}

impl OutputStream for LogStream {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        self.gate.bytes(self.source, &bytes);
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(STREAM_PERMIT)
    }
}

#[async_trait]
impl Pollable for LogStream {
    async fn ready(&mut self) {}
}

impl WasiView for State {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        self.wasi()
    }
}
