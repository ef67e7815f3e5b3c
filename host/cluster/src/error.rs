//! What goes wrong with a cluster, in words for people and in kinds for plugins.

use kube::core::response::Status;
use patchbay_core::{Failure, FailureReason, Kind, ObjectName};

use crate::discovery::is_unserved;
use crate::kubeconfig::KubeconfigError;

/// A request that did not get what it asked for.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The cluster serves no such kind.
    #[error("cluster {cluster} serves no {kind}: install its CustomResourceDefinition, or correct apiVersion and kind")]
    NoSuchKind {
        /// The cluster's name.
        cluster: String,
        /// What was asked for.
        kind: Kind,
    },
    /// A namespaced kind without a namespace, or the other way round.
    #[error("{0}")]
    Invalid(String),
    /// The kubeconfig cannot be used.
    #[error("cluster {cluster}: {source}")]
    Kubeconfig {
        /// The cluster's name.
        cluster: String,
        /// What is wrong with it.
        source: KubeconfigError,
    },
    /// The API server refused, or could not be asked.
    #[error("cluster {cluster}: {}", describe(source))]
    Request {
        /// The cluster's name.
        cluster: String,
        /// What it said.
        source: kube::Error,
    },
    /// The API server refuses to list or to watch.
    #[error(
        "cluster {cluster}: {}; grant list and watch on {resource} to the user of this host",
        said(status)
    )]
    Forbidden {
        /// The cluster's name.
        cluster: String,
        /// What was asked for, as rules of RBAC name it.
        resource: String,
        /// What it said.
        status: Box<Status>,
    },
    /// The API server did not answer in time.
    #[error("cluster {cluster}: the API server has not answered for {after:?}")]
    TimedOut {
        /// The cluster's name.
        cluster: String,
        /// How long was waited.
        after: std::time::Duration,
    },
    /// The API server's answer is larger than this host takes.
    #[error("cluster {cluster}: the answer is larger than {limit} bytes: ask for less")]
    TooLarge {
        /// The cluster's name.
        cluster: String,
        /// Bytes that are taken.
        limit: u64,
    },
    /// The API server told of an object that it was not asked for.
    #[error("cluster {cluster}: the API server told of {kind} {name}, which it was not asked for")]
    Stray {
        /// The cluster's name.
        cluster: String,
        /// The object's kind.
        kind: Kind,
        /// The object's name.
        name: ObjectName,
    },
    /// The API server's answer is not what the protocol says.
    #[error("cluster {cluster}: the API server's answer makes no sense: {problem}")]
    Protocol {
        /// The cluster's name.
        cluster: String,
        /// What is wrong with it.
        problem: String,
    },
}

impl Error {
    /// The kind of failure, for plugins.
    pub fn reason(&self) -> FailureReason {
        match self {
            Error::NoSuchKind { .. } => FailureReason::NoSuchKind,
            Error::Invalid(_) => FailureReason::Invalid,
            Error::Request {
                source: kube::Error::Api(status),
                ..
            } if matches!(status.code, 401 | 403) => FailureReason::Forbidden,
            Error::Request {
                source: kube::Error::Api(status),
                ..
            } if is_unserved(status) => FailureReason::NoSuchKind,
            Error::Request {
                source: kube::Error::Api(status),
                ..
            } if matches!(status.code, 400 | 422) => FailureReason::Invalid,
            Error::Forbidden { .. } => FailureReason::Forbidden,
            Error::TooLarge { .. } => FailureReason::TooLarge,
            Error::Request { .. }
            | Error::TimedOut { .. }
            | Error::Stray { .. }
            | Error::Protocol { .. }
            | Error::Kubeconfig { .. } => FailureReason::Unreachable,
        }
    }

    /// What went wrong, for those who have said where.
    pub(crate) fn unplaced(&self) -> String {
        let whole = self.to_string();
        match whole.strip_prefix("cluster ").and_then(|rest| rest.split_once(": ")) {
            Some((_, rest)) => rest.to_owned(),
            None => whole,
        }
    }

    /// The failure that core is told.
    pub fn failure(&self) -> Failure {
        Failure::new(self.reason(), self.to_string())
    }

    /// Whether the version that was watched or listed is too old to go on from.
    pub fn is_expired(&self) -> bool {
        matches!(self, Error::Request { source: kube::Error::Api(status), .. } if status.code == 410)
    }

    /// Whether the kind that was asked for is not served as it was thought to be: it has gone, or has another scope now.
    pub(crate) fn is_of_unserved(&self) -> bool {
        match self {
            Error::Stray { .. } => true,
            Error::Request {
                source: kube::Error::Api(status),
                ..
            } => is_unserved(status),
            _ => false,
        }
    }
}

/// A failed write, as a plugin is told of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct WriteError {
    /// The HTTP status; 0 if there was no answer.
    pub code: u16,
    /// The machine-readable reason of the answer, or one of ours.
    pub reason: String,
    /// What the API server said.
    pub message: String,
}

impl From<Error> for WriteError {
    fn from(error: Error) -> Self {
        match error {
            Error::Request {
                source: kube::Error::Api(status),
                ..
            } => WriteError {
                code: status.code,
                reason: status.reason.clone(),
                message: said(&status),
            },
            other => WriteError {
                code: 0,
                reason: format!("{:?}", other.reason()),
                message: other.to_string(),
            },
        }
    }
}

/// What an API server said. Whatever answers without a Kubernetes status is no API server, and what it says is not
/// repeated: it may be a page of something that nobody should see.
fn said(status: &Status) -> String {
    if status.reason == "Failed to parse error data" {
        if status.code == 429 {
            return "the API server has more requests than it can take (429): this one is tried again".to_owned();
        }
        return format!(
            "it answered {} without a Kubernetes status: is this an API server?",
            status.code
        );
    }
    stable(&status.message)
}

/// What an error is about, without the wrapping that the layers of a client add to it.
fn describe(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if status.code == 401 => {
            "the API server does not accept the credentials: renew the token or certificate".to_owned()
        }
        kube::Error::Api(status) => said(status),
        other => format!("cannot reach the API server: {}", innermost(other)),
    }
}

/// The cause of an error, without what the layers above it say of it.
pub(crate) fn innermost(error: &dyn std::error::Error) -> &dyn std::error::Error {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost
}

/// Takes memory addresses out of a message: they differ each time, and a status that repeats the message would never rest.
fn stable(message: &str) -> String {
    let mut out = String::with_capacity(message.len());
    let mut rest = message;
    while let Some(at) = rest.find("0x") {
        let (before, address) = rest.split_at(at);
        let digits = address[2..].bytes().take_while(u8::is_ascii_hexdigit).count();
        out.push_str(before);
        out.push_str(if digits >= 6 { "0x…" } else { &address[..2 + digits] });
        rest = &address[2 + digits..];
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::stable;

    #[test]
    fn a_message_with_pointers_is_the_same_each_time() {
        assert_eq!(stable("value 0xc000123abc: bad"), "value 0x…: bad");
        assert_eq!(stable("0x1f is a number, 0x is not"), "0x1f is a number, 0x is not");
    }
}
