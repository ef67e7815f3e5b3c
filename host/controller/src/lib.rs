//! The only place where core, clusters and plugins meet.
//!
//! One task ([`Host`]) owns the core. Whatever happens at the edges comes to it as a message, core says what to do, and
//! the edges do it: watches, reads and writes in tasks of their own, plugin calls on threads of their own.
//!
//! A run goes this way: core queues a primary → [`decide`] asks the plugin, which names queries that core answers →
//! the writer makes what the plugin wants true → core is told what was written.
#![forbid(unsafe_code)]

mod apply;
mod attached;
mod contention;
pub mod decide;
mod dependents;
mod driver;
mod edges;
pub mod explain;
mod grants;
mod hidden;
mod history;
mod host;
mod memory;
mod messages;
pub mod offline;
mod plan;
mod protect;
mod prune;
mod report;
mod scrub;
mod status;
mod translate;
mod worker;
mod writer;

pub use attached::Attached;
pub use grants::Grants;
pub use host::{Host, HostSettings};
