//! The WebAssembly engine: one per process.

use std::fmt;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use wasmtime::component::{HasSelf, Linker};
use wasmtime::{Config, EngineWeak, InstanceAllocationStrategy, PoolingAllocationConfig};

use crate::call_error::{CallError, FRAMES};
use crate::contract::log_import;
use crate::instance::State;
use crate::limits::{CORE_INSTANCES, Limits, MEMORIES, TABLES};
use crate::wasi;

/// Bytes of a thread's stack that a plugin's calls may take before they trap. Wasmtime's own default of 512 KiB is
/// little for interpreters, which nest their calls deeply.
pub(crate) const WASM_STACK: usize = 1024 * 1024;

/// Bytes of bookkeeping that the host may keep for an instance beside its memories and tables: 32 for each function
/// that can be called by pointer, which in Go is each function. Allocated as needed.
const BOOKKEEPING: usize = 32 * 1024 * 1024;

/// How the engine is laid out. None of it is visible to plugins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Instances that can exist at the same time, over all plugins, with or without a pool. Default 64: several times the threads that a
    /// machine gives to calls, with room for instances that wait to be used again. Each costs only address space, four
    /// memories of 4 GiB, until it is used.
    pub instances: u32,
    /// Whether memories and tables come from a pool whose address space is reserved at the start, so that to
    /// instantiate takes microseconds and no system call that all threads wait for. Default true. Without it, or on a
    /// machine that cannot reserve the address space (as under `ulimit -v`), each instance allocates its own and
    /// checks the bounds of each access by itself: everything works, half as fast.
    pub pool: bool,
    /// Slots of the pool that are kept warm for the plugin that last used them, beyond those in use. Default 16: a
    /// warm slot instantiates faster, and keeps `keep_resident` bytes.
    pub warm_slots: u32,
    /// Bytes at the begin of a memory that are cleared by hand when an instance ends and stay resident; the rest goes
    /// back to the system. Default 256 KiB: all that most instances of a Rust plugin touch.
    pub keep_resident: usize,
    /// Time between two looks at the clock of a running call, and so the precision of its time limit. Default 10 ms.
    pub tick: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            instances: 64,
            pool: true,
            warm_slots: 16,
            keep_resident: 256 * 1024,
            tick: Duration::from_millis(10),
        }
    }
}

/// The engine that compiles and runs all plugins of a process. Its clones are one and the same.
///
/// A thread of its own looks after time limits. It ends when the engine and all that was loaded with it are gone.
#[derive(Clone)]
pub struct Engine(Arc<Inner>);

struct Inner {
    wasmtime: wasmtime::Engine,
    linker: Linker<State>,
    pooled: bool,
    instances: u32,
    slots: Arc<Semaphore>,
}

/// The engine cannot be made.
#[derive(Debug, thiserror::Error)]
#[error("cannot make the WebAssembly engine: {0}")]
pub struct EngineError(String);

impl Engine {
    /// Makes an engine. If the pool cannot be reserved, this is logged and the engine does without.
    ///
    /// # Errors
    /// If wasmtime does not run on this machine, or no thread can be started.
    pub fn new(settings: &Settings) -> Result<Engine, EngineError> {
        let (wasmtime, pooled) = make(settings).map_err(|error| EngineError(format!("{error:#}")))?;
        let linker = linker(&wasmtime).map_err(|error| EngineError(format!("{error:#}")))?;
        start_ticker(wasmtime.weak(), settings.tick)
            .map_err(|error| EngineError(format!("no thread for the clock: {error}")))?;
        Ok(Engine(Arc::new(Inner {
            wasmtime,
            linker,
            pooled,
            instances: settings.instances,
            slots: Arc::new(Semaphore::new(settings.instances as usize)),
        })))
    }

    /// Whether instances come from a pool.
    pub fn is_pooled(&self) -> bool {
        self.0.pooled
    }

    /// The right to make one instance, to be held as long as that lives.
    pub(crate) fn slot(&self) -> Result<OwnedSemaphorePermit, CallError> {
        let slot = Arc::clone(&self.0.slots).try_acquire_owned();
        slot.map_err(|_| CallError::NoRoom {
            reason: format!("{} exist, which is the limit", self.0.instances),
        })
    }

    pub(crate) fn wasmtime(&self) -> &wasmtime::Engine {
        &self.0.wasmtime
    }

    pub(crate) fn linker(&self) -> &Linker<State> {
        &self.0.linker
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine")
            .field("pooled", &self.0.pooled)
            .finish_non_exhaustive()
    }
}

fn make(settings: &Settings) -> wasmtime::Result<(wasmtime::Engine, bool)> {
    if settings.pool {
        let mut config = config();
        config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool(settings)));
        match wasmtime::Engine::new(&config) {
            Ok(engine) => return Ok((engine, true)),
            Err(error) => tracing::warn!(
                "plugins run without a pool of memories, which is slower; raise the limit of address space \
                 (ulimit -v) or lower the number of instances: {error:#}"
            ),
        }
    }
    let mut config = config();
    config.allocation_strategy(InstanceAllocationStrategy::OnDemand);
    // A memory that reserves little and moves when it grows fits into any address space. By default it would reserve
    // 2 GiB to grow into.
    config
        .memory_reservation(0)
        .memory_reservation_for_growth(1024 * 1024)
        .memory_guard_size(64 * 1024)
        .memory_may_move(true);
    Ok((wasmtime::Engine::new(&config)?, false))
}

fn config() -> Config {
    let mut config = Config::new();
    config
        .wasm_component_model(true)
        .concurrency_support(false)
        .epoch_interruption(true)
        .memory_init_cow(true)
        .max_wasm_stack(WASM_STACK)
        .wasm_backtrace_max_frames(std::num::NonZeroUsize::new(FRAMES))
        // It maps code to offsets in the module, which no one reads; functions have their names without it.
        .generate_address_map(false);
    // What today's compilers emit without being told stays on: reference types, multi-value, bulk memory, SIMD. Off is
    // what only widens the surface.
    config
        .wasm_threads(false)
        .wasm_memory64(false)
        .wasm_multi_memory(false)
        .wasm_relaxed_simd(false)
        .wasm_tail_call(false);
    config
}

fn pool(settings: &Settings) -> PoolingAllocationConfig {
    let each = |count: u32| settings.instances.saturating_mul(count);
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(settings.instances)
        .total_core_instances(each(CORE_INSTANCES))
        .total_memories(each(MEMORIES))
        .total_tables(each(TABLES))
        .max_core_instances_per_component(CORE_INSTANCES)
        .max_memories_per_component(MEMORIES)
        .max_tables_per_component(TABLES)
        .max_tables_per_module(TABLES)
        .max_core_instance_size(BOOKKEEPING)
        .max_component_instance_size(BOOKKEEPING)
        .max_memory_size(Limits::CEILING.memory)
        .table_elements(Limits::CEILING.table_elements)
        .max_unused_warm_slots(settings.warm_slots)
        .linear_memory_keep_resident(settings.keep_resident)
        // Calls are synchronous, so no stacks of fibers are needed.
        .total_stacks(0);
    pool
}

fn linker(engine: &wasmtime::Engine) -> wasmtime::Result<Linker<State>> {
    let mut linker = Linker::new(engine);
    wasi::add_to_linker(&mut linker)?;
    log_import::add_to_linker::<_, HasSelf<State>>(&mut linker, |state| state)?;
    Ok(linker)
}

/// Lets the epoch of the engine advance until the engine is gone.
fn start_ticker(engine: EngineWeak, tick: Duration) -> std::io::Result<JoinHandle<()>> {
    thread::Builder::new().name("plugin-clock".to_owned()).spawn(move || {
        while let Some(engine) = engine.upgrade() {
            engine.increment_epoch();
            drop(engine);
            thread::sleep(tick);
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instances_come_from_a_pool_if_the_machine_has_room() {
        let engine = Engine::new(&Settings::default()).expect("an engine");
        assert!(engine.is_pooled());
    }

    #[test]
    fn a_pool_that_does_not_fit_is_done_without() {
        // Four million memories are more than 47 bits of address space hold.
        let engine = Engine::new(&Settings {
            instances: 1_000_000,
            ..Settings::default()
        })
        .expect("an engine without a pool");
        assert!(!engine.is_pooled());
    }

    #[test]
    fn the_clock_ends_with_the_engine() {
        let engine = wasmtime::Engine::new(&config()).expect("an engine");
        let clock = start_ticker(engine.weak(), Duration::from_millis(1)).expect("a thread to start");
        drop(engine);
        clock.join().expect("the clock to end");
    }
}
