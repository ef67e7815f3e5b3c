//! Runs that could not decide.

use serde_json::Value;
use thiserror::Error;

use crate::fieldpath::{AccessError, PathError};
use crate::{QueryFailure, QueryFailureReason};

/// A run that could not decide. Nothing is written but its status.
#[derive(Clone, Debug, PartialEq, Error)]
#[error("{message}")]
pub struct Failure {
    /// One word in CamelCase, for conditions and events.
    pub reason: String,
    /// For people: what, where, and what to do.
    pub message: String,
    /// True if only a change can help: the run is not tried again by itself.
    pub permanent: bool,
    /// The primary's new status, as for [`Outcome::status`](crate::Outcome::status).
    pub status: Option<Value>,
}

impl Failure {
    /// A failure that may pass: the run is tried again after a delay that grows with each failure.
    pub fn retry(reason: impl Into<String>, message: impl Into<String>) -> Self {
        Failure {
            reason: reason.into(),
            message: message.into(),
            permanent: false,
            status: None,
        }
    }

    /// A failure that stays until something is changed.
    pub fn permanent(reason: impl Into<String>, message: impl Into<String>) -> Self {
        Failure {
            permanent: true,
            ..Failure::retry(reason, message)
        }
    }

    /// Sends a status with the failure.
    #[must_use]
    pub fn with_status(mut self, status: Value) -> Self {
        self.status = Some(status);
        self
    }
}

impl From<PathError> for Failure {
    fn from(error: PathError) -> Self {
        Failure::permanent("InvalidPath", error.to_string())
    }
}

impl From<AccessError> for Failure {
    fn from(error: AccessError) -> Self {
        Failure::retry("NoSuchField", error.to_string())
    }
}

impl From<&QueryFailure> for Failure {
    fn from(failure: &QueryFailure) -> Self {
        let (reason, permanent) = match failure.reason {
            QueryFailureReason::NoSuchKind => ("NoSuchKind", false),
            QueryFailureReason::Forbidden => ("Forbidden", false),
            QueryFailureReason::NotGranted => ("NotGranted", true),
            QueryFailureReason::Unreachable => ("Unreachable", false),
            QueryFailureReason::Invalid => ("InvalidQuery", true),
            QueryFailureReason::Unsupported => ("Unsupported", true),
            QueryFailureReason::TooLarge => ("TooLarge", false),
        };
        Failure {
            permanent,
            ..Failure::retry(reason, failure.message.clone())
        }
    }
}
