//! The Kubernetes side of patchbay: connections, discovery, watches, reads and writes.
//!
//! Everything here serves [`patchbay_core`]: it tells what happened in a cluster and does what core asks for. It decides
//! nothing by itself. Objects pass as text and are taken apart only as far as somebody asks ([`object`]).
#![forbid(unsafe_code)]

mod client;
mod connection;
mod discovery;
mod error;
mod events;
mod kubeconfig;
pub mod object;
mod path;
mod pool;
mod read;
mod watch;
mod write;

pub use client::client;
pub use connection::{Connection, HomeError};
pub use error::{Error, WriteError};
pub use events::{Severity, send as send_event};
pub use kubeconfig::KubeconfigError;
pub use object::RawObject;
pub use pool::Pool;
pub use read::{ReadAnswer, read};
pub use watch::{WatchMessage, watch};
pub use write::{ApplyMode, Propagation, Written};
