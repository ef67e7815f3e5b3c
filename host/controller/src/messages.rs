//! What the edges tell the driver.

use std::sync::Arc;

use patchbay_cluster::{Connection, WatchMessage};
use patchbay_core::{
    ClusterId, Failure, Kind, Metadata, ObjectKey, ObjectName, ReadId, RunId, RunResult, Variant, Version, WatchId,
    WrittenObject,
};
use patchbay_plugin::contract;
use tokio::sync::oneshot;

use crate::memory::LastRun;
use crate::worker::RunContext;

pub(crate) enum Message {
    Watch(WatchId, WatchMessage),
    Read(ReadId, Result<ReadObjects, ReadFailed>),
    Connected(ClusterId, u64, Result<Arc<Connection>, Failure>),
    /// A run names its queries.
    Ask {
        context: Arc<RunContext>,
        queries: Vec<contract::Query>,
        reply: oneshot::Sender<Reply>,
    },
    /// A run asks where the objects are that it is about to write.
    Locate {
        context: Arc<RunContext>,
        objects: Vec<(contract::Cluster, Kind, ObjectName)>,
        reply: oneshot::Sender<Vec<Result<Located, String>>>,
    },
    Finished {
        run: RunId,
        result: RunResult,
        last: LastRun,
        written: Vec<WrittenObject>,
    },
}

pub(crate) struct ReadObjects {
    pub(crate) version: Version,
    pub(crate) objects: Vec<(ObjectName, Metadata, Vec<Variant>)>,
}

pub(crate) struct ReadFailed {
    pub(crate) cluster: ClusterId,
    pub(crate) kind: Kind,
    pub(crate) failure: Failure,
}

/// The answer to [`Message::Ask`].
pub(crate) enum Reply {
    Answers {
        answers: Vec<contract::Answer>,
        /// The texts of Secrets among the answers, whose values must not be logged.
        secrets: Vec<Arc<str>>,
    },
    /// The run is over: it waits for answers, or its primary has gone.
    GivenUp,
    /// Its queries are others each time.
    Unsettled,
}

/// Where an object is, and at which version the cache holds it.
pub(crate) struct Located {
    pub(crate) object: ObjectKey,
    pub(crate) connection: Arc<Connection>,
    pub(crate) observed: Option<Version>,
}
