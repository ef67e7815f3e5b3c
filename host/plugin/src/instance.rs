//! A plugin at work: one instance and its calls.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use tokio::sync::OwnedSemaphorePermit;
use wasmtime::component::ResourceTable;
use wasmtime::{Store, UpdateDeadline};
use wasmtime_wasi::{WasiCtx, WasiCtxView};

use crate::call_error::{CallError, Direction, Function};
use crate::contract::{
    Answer, Bindings, BindingsPre, Change, Dependent, Description, Failure, Finalization, Guest, Level, Outcome,
    Primary, ReferenceSet, log_import,
};
use crate::engine::Engine;
use crate::limits::{Limits, Meter};
use crate::log::{LogGate, LogSink};
use crate::size::Size;
use crate::wasi::{self, DeadlinePassed, RunTime};

/// Handles of resources that an instance may hold; the host keeps a few bytes for each.
const HANDLES: usize = 10_000;

/// What the host keeps beside an instance.
pub(crate) struct State {
    wasi: WasiCtx,
    resources: ResourceTable,
    meter: Meter,
    log: LogGate,
    time: RunTime,
    deadline: Instant,
}

impl State {
    /// When the running call must be over.
    pub(crate) fn deadline(&self) -> Instant {
        self.deadline
    }

    pub(crate) fn wasi(&mut self) -> WasiCtxView<'_> {
        WasiCtxView {
            ctx: &mut self.wasi,
            table: &mut self.resources,
        }
    }
}

impl log_import::Host for State {
    fn write_line(&mut self, level: Level, message: String) {
        self.log.line(level, &message);
    }
}

/// A fresh instance of a plugin, from [`Plugin::instantiate`](crate::Plugin::instantiate), for the calls of one run.
///
/// Each call keeps to the plugin's [`Limits`] and comes back within [`Limits::time`] and one tick of the engine. The
/// outer result says whether the plugin answered at all, the inner one is its answer. After any [`CallError`] but
/// [`CallError::TooLarge`] on the way in, the instance takes no more calls.
///
/// Calls block. Make them on threads of the [`Executor`](crate::Executor): on a thread that drives a tokio runtime
/// they would stop it, and they panic there if the plugin waits or prints.
pub struct Instance {
    store: Store<State>,
    bindings: Bindings,
    limits: Limits,
    poisoned: bool,
    /// Below the store, so that it is given back after it.
    _slot: OwnedSemaphorePermit,
}

impl Instance {
    pub(crate) fn new(
        engine: &Engine,
        plugin: &str,
        pre: &BindingsPre<State>,
        limits: Limits,
        sink: Arc<dyn LogSink>,
    ) -> Result<Instance, CallError> {
        let slot = engine.slot()?;
        let log = LogGate::new(sink, limits.log_lines);
        let time = RunTime::default();
        let mut store = Store::new(
            pre.engine(),
            State {
                wasi: wasi::context(plugin, &log, &time),
                resources: wasi::resources(),
                meter: Meter::new(&limits),
                log,
                time,
                deadline: Instant::now(),
            },
        );
        store.limiter(|state| &mut state.meter);
        store.set_hostcall_fuel(limits.output);
        store.set_max_component_handles(HANDLES);
        // Epochs only make the plugin look up; the clock decides. So a tick that comes late, or one that was counted
        // before the call, cannot shorten or stretch the time.
        store.epoch_deadline_callback(|store| {
            if Instant::now() < store.data().deadline {
                Ok(UpdateDeadline::Continue(1))
            } else {
                Err(DeadlinePassed.into())
            }
        });
        let bindings = guarded(&mut store, &limits, Function::Instantiate, |store| {
            pre.instantiate(store)
        })?;
        Ok(Instance {
            store,
            bindings,
            limits,
            poisoned: false,
            _slot: slot,
        })
    }

    pub(crate) fn describe(&mut self) -> Result<Description, CallError> {
        self.call(Function::Describe, 0, |guest, store| guest.call_describe(store))
    }

    /// What the primary depends on.
    ///
    /// # Errors
    /// See [`CallError`].
    pub fn references(
        &mut self,
        primary: &Primary,
        answers: &[Answer],
    ) -> Result<Result<ReferenceSet, Failure>, CallError> {
        self.store.data().time.set(primary.time);
        let size = primary.size() + answers.size();
        self.call(Function::References, size, |guest, store| {
            guest.call_references(store, primary, answers)
        })
    }

    /// Which primaries a change under the declared watch concerns.
    ///
    /// # Errors
    /// See [`CallError`].
    pub fn dependents(&mut self, watch: &str, change: &Change) -> Result<Result<Vec<Dependent>, Failure>, CallError> {
        let size = watch.size() + change.size();
        self.call(Function::Dependents, size, |guest, store| {
            guest.call_dependents(store, watch, change)
        })
    }

    /// What should be true of the primary.
    ///
    /// # Errors
    /// See [`CallError`].
    pub fn reconcile(&mut self, primary: &Primary, answers: &[Answer]) -> Result<Result<Outcome, Failure>, CallError> {
        self.store.data().time.set(primary.time);
        let size = primary.size() + answers.size();
        self.call(Function::Reconcile, size, |guest, store| {
            guest.call_reconcile(store, primary, answers)
        })
    }

    /// What should be true before the primary goes.
    ///
    /// # Errors
    /// See [`CallError`].
    pub fn finalize(
        &mut self,
        primary: &Primary,
        answers: &[Answer],
    ) -> Result<Result<Finalization, Failure>, CallError> {
        self.store.data().time.set(primary.time);
        let size = primary.size() + answers.size();
        self.call(Function::Finalize, size, |guest, store| {
            guest.call_finalize(store, primary, answers)
        })
    }

    fn call<T>(
        &mut self,
        function: Function,
        input: usize,
        call: impl FnOnce(&Guest, &mut Store<State>) -> wasmtime::Result<T>,
    ) -> Result<T, CallError> {
        if self.poisoned {
            return Err(CallError::Poisoned);
        }
        if input > self.limits.input {
            return Err(CallError::TooLarge {
                function,
                direction: Direction::Input,
                bytes: Some(input),
                limit: self.limits.input,
            });
        }
        // Until the call has come back: a panic on the way must not leave an instance that looks sound.
        self.poisoned = true;
        let guest = self.bindings.patchbay_plugin_reconciler();
        let answer = guarded(&mut self.store, &self.limits, function, |store| call(guest, store))?;
        self.poisoned = false;
        Ok(answer)
    }
}

impl fmt::Debug for Instance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Instance")
            .field("limits", &self.limits)
            .field("poisoned", &self.poisoned)
            .finish_non_exhaustive()
    }
}

/// Runs the plugin for one call, with its time limit set and its log closed behind it.
fn guarded<T>(
    store: &mut Store<State>,
    limits: &Limits,
    function: Function,
    run: impl FnOnce(&mut Store<State>) -> wasmtime::Result<T>,
) -> Result<T, CallError> {
    let begin = Instant::now();
    let state = store.data_mut();
    state.deadline = begin + limits.time;
    state.meter.take_refused();
    store.set_epoch_deadline(1);
    let result = run(store);
    let elapsed = begin.elapsed();
    store.data().log.end_call();
    match result {
        // Work of the host for the plugin, such as reading its answer, does not look up for ticks.
        Ok(_) if elapsed > limits.time => Err(CallError::TimedOut {
            function,
            limit: limits.time,
        }),
        Ok(answer) => Ok(answer),
        Err(error) => {
            let refused = store.data_mut().meter.take_refused();
            Err(CallError::of(&error, function, limits, refused))
        }
    }
}
