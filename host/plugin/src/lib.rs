//! The sandbox in which plugins run.
//!
//! A plugin is a WebAssembly component of the world in `wit/0.1.0`, whose types are in [`contract`]. An [`Engine`]
//! compiles it, [`Plugin::load`] takes it in by stages and asks what it is, and [`Plugin::instantiate`] gives a fresh
//! [`Instance`] for the calls of one run, on a thread of an [`Executor`].
//!
//! What always holds, whatever the plugin does:
//!
//! - It sees what a call gives it and nothing else: no file, no network, no environment, and no clock but the run's
//!   (`wasi.rs` says what it finds in their place).
//! - A call keeps to its [`Limits`]: memory, time, sizes, log lines. What it breaks is that call, with a
//!   [`CallError`] that says how.
//! - A plugin that cannot be loaded says why in one line, with the [`Stage`] at which it failed.
//!
//! ```no_run
//! use std::error::Error;
//! use std::sync::Arc;
//! use patchbay_plugin::contract::Primary;
//! use patchbay_plugin::{Engine, Limits, Plugin, Settings, TracingSink};
//!
//! fn look(primary: &Primary) -> Result<(), Box<dyn Error>> {
//!     let engine = Engine::new(&Settings::default())?;
//!     let bytes = std::fs::read("object.wasm")?;
//!     let plugin = Plugin::load(&engine, "object", &bytes, Limits::default())?;
//!     println!("{} {}", plugin.description().name, plugin.digest());
//!
//!     let mut instance = plugin.instantiate(Arc::new(TracingSink::new(plugin.name())))?;
//!     match instance.references(primary, &[])? {
//!         Ok(set) => println!("{} queries", set.queries.len()),
//!         Err(failure) => println!("{}: {}", failure.reason, failure.message),
//!     }
//!     Ok(())
//! }
//! ```

mod call_error;
mod component;
pub mod contract;
mod description;
mod engine;
mod executor;
mod instance;
mod limits;
mod load;
mod log;
mod size;
mod wasi;

pub use call_error::{CallError, Direction, Function};
pub use engine::{Engine, EngineError, Settings};
pub use executor::{Executor, JobError};
pub use instance::Instance;
pub use limits::{Limits, LimitsError};
pub use load::{Digest, LoadError, Plugin, Stage};
pub use log::{Line, LogSink, MAX_LINE, Source, TracingSink};
