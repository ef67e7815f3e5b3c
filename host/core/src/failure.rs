//! Why a query has no answer.

use std::fmt;
use std::sync::Arc;

/// Nothing is known, which is not the same as nothing being there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// For machines.
    pub reason: FailureReason,
    /// For people: names cluster, kind, namespace and name, and says what to do.
    pub message: Arc<str>,
}

impl Failure {
    /// A failure from its parts.
    pub fn new(reason: FailureReason, message: impl Into<Arc<str>>) -> Self {
        Failure {
            reason,
            message: message.into(),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// The kinds of failure that a plugin can tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FailureReason {
    /// The cluster serves no such kind, or not yet.
    NoSuchKind,
    /// The cluster refuses to read or watch it.
    Forbidden,
    /// No connection, or no credentials to make one with.
    Unreachable,
    /// The query itself makes no sense.
    Invalid,
    /// The answer is larger than the host allows.
    TooLarge,
}
