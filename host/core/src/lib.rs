//! The state machine in the middle of patchbay.
//!
//! It is told what happened (an object changed, a read was answered, a run finished, time went by) and says what to do
//! next (start a watch, read this, run that primary). It holds the index of queries, the queue of primaries and the cache
//! of what queries ask for. It does no I/O, starts no task and reads no clock, so every interleaving can be replayed.
//!
//! Start with [`Core`].
#![forbid(unsafe_code)]

mod cache;
mod change;
mod circles;
mod clusters;
mod expected;
mod explain;
mod failure;
mod index;
mod intern;
mod machine;
mod name;
mod planted;
mod primaries;
mod query;
mod queue;
mod reads;
mod registry;
mod selector;
#[cfg(test)]
mod simulation;
mod tally;
mod time;
mod users;
mod wake;
mod watches;

pub use change::{Change, Metadata, State, Variant};
pub use clusters::{ClusterSource, KubeconfigKey};
pub use explain::{NextRun, PrimaryReport, PrimaryState, QueryReport, QueryUser, WatchReport, WatchStanding};
pub use failure::{Failure, FailureReason};
pub use machine::{
    Attachment, CallId, Core, Counts, Dependent, Effect, Finished, Protection, ReferenceSet, References, Releases,
    RunResult, Settings, Slowed,
};
pub use name::{ClusterId, ControllerId, Kind, ObjectKey, ObjectName, PrimaryKey, Version};
pub use primaries::{RunId, WriteRecord, WrittenObject};
pub use query::{Criterion, Fields, Finding, FoundObject, Namespaces, Query, Selection, Target};
pub use reads::{ReadId, ReadRequest, ReadScope};
pub use selector::{Labels, Operator, Requirement, Selector};
pub use time::Time;
pub use wake::Wake;
pub use watches::{Content, Scope, WatchId, WatchKey};
