//! Why a primary runs.

use std::fmt;

use crate::name::{ObjectKey, Version};
use crate::primaries::WrittenObject;

/// The reason for which a primary is queued.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wake {
    /// The primary itself, or an object that one of its queries finds or has just stopped finding, changed.
    Object {
        /// Which object.
        object: ObjectKey,
        /// The version of the change; none if it was found by a read, which may have passed over versions.
        version: Option<Version>,
    },
    /// A query failed, or has an answer again after a failure.
    Query {
        /// The kind that the query is about.
        kind: crate::name::Kind,
    },
    /// The answers that it waited for are there.
    Answered,
    /// The last run asked to see what its writes came to.
    Written,
    /// The last run failed and is tried again.
    Retry,
    /// The last run asked for another after a while.
    Asked,
    /// The full pass that mends what everything else might have missed.
    Backstop,
}

impl Wake {
    /// Whether this wake is told by the event of this write.
    pub(crate) fn is_of(&self, written: &WrittenObject) -> bool {
        matches!(self, Wake::Object { object, version: Some(version) }
            if *object == written.object && *version == written.metadata.version)
    }
}

impl fmt::Display for Wake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Wake::Object {
                object,
                version: Some(version),
            } => {
                write!(f, "{} {} changed at version {version}", object.kind, object.name)
            }
            Wake::Object { object, version: None } => {
                write!(f, "{} {} is another than before", object.kind, object.name)
            }
            Wake::Query { kind } => write!(f, "a query of {kind} failed or recovered"),
            Wake::Answered => f.write_str("the answers it waited for are there"),
            Wake::Written => f.write_str("its own writes changed something"),
            Wake::Retry => f.write_str("the last run failed"),
            Wake::Asked => f.write_str("the last run asked for another"),
            Wake::Backstop => f.write_str("full pass"),
        }
    }
}
