//! What can go wrong.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use serde_json::json;

use super::state::Shared;
use crate::wait_for;

/// What happens to the requests that a filter matches.
#[derive(Debug, Clone, PartialEq)]
pub enum Fault {
    /// They are answered so, and the API server is not asked.
    Answer(Refusal),
    /// The API server is asked, and answered so all the same: what a write wrote is written.
    Lose(Refusal),
    /// The API server answers, and its answer waits until the fault is lifted.
    Hold,
    /// Nothing moves until the fault is lifted: requests wait, and open watches fall silent. What they have to tell comes
    /// then.
    Stall,
    /// A watch is begun, and its first line says that its version is too old.
    ExpireStream,
}

/// An answer that says that something is wrong.
#[derive(Debug, Clone, PartialEq)]
pub struct Refusal {
    pub(super) code: u16,
    pub(super) reason: &'static str,
    pub(super) retry_after: Option<Duration>,
}

impl Refusal {
    /// 403.
    pub fn forbidden() -> Self {
        Refusal::new(403, "Forbidden")
    }

    /// 409.
    pub fn conflict() -> Self {
        Refusal::new(409, "Conflict")
    }

    /// 410: the version of a watch or of a list is too old.
    pub fn expired() -> Self {
        Refusal::new(410, "Expired")
    }

    /// 429.
    pub fn too_many_requests(retry_after: Duration) -> Self {
        Refusal {
            retry_after: Some(retry_after),
            ..Refusal::new(429, "TooManyRequests")
        }
    }

    /// 500.
    pub fn internal_error() -> Self {
        Refusal::new(500, "InternalError")
    }

    /// 503.
    pub fn unavailable() -> Self {
        Refusal::new(503, "ServiceUnavailable")
    }

    fn new(code: u16, reason: &'static str) -> Self {
        Refusal {
            code,
            reason,
            retry_after: None,
        }
    }

    /// The Status that an API server would answer with.
    pub(super) fn status(&self) -> String {
        let message = format!("{}: answered by the fault proxy", self.reason);
        let status = json!({
            "apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure",
            "code": self.code, "reason": self.reason, "message": message,
        });
        status.to_string()
    }
}

/// A fault in force. It is lifted when this is dropped.
#[must_use = "the fault is lifted when this is dropped"]
pub struct ActiveFault {
    pub(super) shared: Arc<Shared>,
    pub(super) id: u64,
}

impl ActiveFault {
    /// How many requests it has met.
    pub fn hits(&self) -> usize {
        self.shared.hits(self.id)
    }

    /// How many answers it holds back now.
    pub fn held(&self) -> usize {
        self.shared.held(self.id)
    }

    /// Waits until it has met so many requests.
    pub async fn wait_for_hits(&self, count: usize, limit: Duration) -> Result<()> {
        let what = format!("the fault to meet {count} requests");
        wait_for(&what, limit, async || Ok((self.hits() >= count).then_some(()))).await
    }

    /// Waits until it holds back so many answers, which the API server has given.
    pub async fn wait_until_held(&self, count: usize, limit: Duration) -> Result<()> {
        let what = format!("{count} answers to be held back");
        wait_for(&what, limit, async || Ok((self.held() >= count).then_some(()))).await
    }

    /// Ends it.
    pub fn lift(self) {}
}

impl Drop for ActiveFault {
    fn drop(&mut self) {
        self.shared.lift(self.id);
    }
}

impl fmt::Debug for ActiveFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ActiveFault")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}
