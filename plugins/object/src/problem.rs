//! Why an Object cannot be reconciled now.

use patchbay_sdk::{Primary, QueryFailure, QueryFailureReason, WriteAction};
use thiserror::Error;

/// The reason of writes that the host refuses. Grants do not change while it runs.
const NOT_GRANTED: &str = "NotGranted";

/// Why an Object cannot be reconciled now. It becomes the Synced condition.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{message}")]
pub struct Problem {
    /// What is wrong, where, and what to do.
    pub message: String,
    /// Whether only a change can help.
    pub permanent: bool,
}

impl Problem {
    /// Something that may pass.
    pub fn retry(message: impl Into<String>) -> Self {
        Problem {
            message: message.into(),
            permanent: false,
        }
    }

    /// Something that stays until somebody changes something.
    pub fn permanent(message: impl Into<String>) -> Self {
        Problem {
            message: message.into(),
            permanent: true,
        }
    }

    /// A query that found nothing out; `what` is what it was for.
    pub fn unknown(what: &str, failure: &QueryFailure) -> Self {
        let permanent = matches!(
            failure.reason,
            QueryFailureReason::Invalid | QueryFailureReason::Unsupported | QueryFailureReason::NotGranted
        );
        // The host begins with the cluster, too.
        let placed = failure
            .message
            .strip_prefix("cluster ")
            .and_then(|rest| rest.split_once(": "));
        let message = match placed {
            Some((cluster, rest)) if what.ends_with(&format!("in cluster {cluster}")) => rest,
            _ => &failure.message,
        };
        Problem {
            message: format!("{what}: {message}"),
            permanent,
        }
    }

    /// A write of the last run that failed. This run then writes nothing, so that the host waits before it tries again.
    pub fn of_last_write(primary: &Primary, action: WriteAction) -> Result<(), Problem> {
        let name = match action {
            WriteAction::Delete => "delete",
            _ => "apply",
        };
        match primary.failed_write() {
            Some((write, failure)) if write.action == action => Err(Problem {
                message: format!("{name} of {} failed: {}", write.object, failure.message),
                permanent: failure.reason == NOT_GRANTED,
            }),
            _ => Ok(()),
        }
    }

    /// The same with another message.
    #[must_use]
    pub fn map(self, change: impl FnOnce(String) -> String) -> Self {
        Problem {
            message: change(self.message),
            ..self
        }
    }
}
