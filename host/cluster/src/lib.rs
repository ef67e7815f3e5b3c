//! The Kubernetes side of patchbay: connections, discovery, watches, reads and writes.
//!
//! Everything here serves [`patchbay_core`]: it tells what happened in a cluster and does what core asks for. It decides
//! nothing by itself. Objects pass as text and are taken apart only as far as somebody asks ([`object`]).
#![forbid(unsafe_code)]

mod apply;
mod applyset;
mod client;
mod collection;
mod connection;
mod contention;
mod discovery;
mod error;
mod events;
mod home;
mod kubeconfig;
mod managed;
mod migration;
mod normal;
pub mod object;
mod ownership;
mod pages;
mod path;
mod pool;
mod protection;
mod read;
mod retry;
mod stream;
mod watch;
mod write;
mod yaml;

pub use apply::{Applied, AppliedState, ApplyMode};
pub use applyset::{ApplySet, GroupKind, Members};
pub use client::client;
pub use connection::Connection;
pub use contention::{Contested, contested};
pub use error::{Error, WriteError};
pub use events::{Recorder, Severity, send as send_event};
pub use home::{Home, HomeError};
pub use kubeconfig::KubeconfigError;
pub use managed::owns_more;
pub use normal::normal;
pub use object::RawObject;
pub use ownership::{holds, is_creation};
pub use pool::Pool;
pub use read::{Page, Reader};
pub use watch::{WatchMessage, watch};
pub use write::{Propagation, Written};
pub use yaml::yaml_problem;
