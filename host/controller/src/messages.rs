//! What the edges tell the driver.

use std::sync::Arc;

use patchbay_cluster::{Connection, WatchMessage};
use patchbay_core::{
    CallId, ClusterId, Dependent, Failure, Fields, Kind, Metadata, ObjectKey, ObjectName, Protection, ReadId, RunId,
    RunResult, Variant, Version, WatchId,
};
use patchbay_plugin::contract;
use tokio::sync::oneshot;

use crate::explain::{Asked, Explanation, NotExplained};
use crate::history::RunRecord;
use crate::report::Report;
use crate::worker::RunContext;

pub(crate) enum Message {
    Watch(WatchId, WatchMessage),
    /// A read asks which fields are wanted of each object of a page.
    Wanted {
        objects: Vec<(ObjectKey, Metadata)>,
        reply: oneshot::Sender<Vec<Vec<Fields>>>,
    },
    ReadPage(ReadId, Version, Vec<(ObjectName, Metadata, Vec<Variant>)>),
    ReadDone(ReadId, Version),
    ReadFailed(ReadId, ReadFailed),
    Connected(ClusterId, u64, Result<Arc<Connection>, Failure>),
    /// A run names its queries.
    Ask {
        context: Arc<RunContext>,
        set: contract::ReferenceSet,
        reply: oneshot::Sender<Reply>,
    },
    /// A run asks where the objects are that it is about to write.
    Locate {
        context: Arc<RunContext>,
        objects: Vec<(contract::Cluster, Kind, ObjectName)>,
        reply: oneshot::Sender<Vec<Result<Located, String>>>,
    },
    /// Which primaries a change concerns; none if the plugin could not say so.
    Dependents(CallId, Option<Vec<Dependent>>),
    /// A run names what it wants protected.
    Protect {
        context: Arc<RunContext>,
        objects: Vec<(contract::Cluster, Kind, ObjectName)>,
        reply: oneshot::Sender<Vec<Result<(Located, Protection), String>>>,
    },
    /// A run's primary is about to go.
    LetGo {
        context: Arc<RunContext>,
        reply: oneshot::Sender<LetGo>,
    },
    /// An object was released, or could not be.
    Released {
        object: ObjectKey,
        finalizer: Arc<str>,
        done: bool,
    },
    /// The objects of a kind that carry a finalizer; none if they could not be listed.
    Swept {
        cluster: ClusterId,
        kind: Kind,
        finalizer: Arc<str>,
        found: Option<Vec<(ObjectKey, Arc<str>)>>,
    },
    /// A run was given up, to begin again when its queries can be answered.
    PutOff(Arc<RunRecord>),
    Finished {
        run: RunId,
        result: RunResult,
        report: Box<Report>,
    },
    /// Somebody asks about an object.
    Explain {
        asked: Asked,
        reply: oneshot::Sender<Result<Explanation, NotExplained>>,
    },
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

/// The answer to [`Message::LetGo`].
pub(crate) enum LetGo {
    /// These are to be released first.
    Now(Vec<Held>),
    /// The run is over.
    Later,
}

/// An object that a primary was the last to protect.
pub(crate) struct Held {
    /// As plugins know it.
    pub(crate) object: contract::ObjectReference,
    pub(crate) uid: Arc<str>,
    pub(crate) located: Result<Located, String>,
}

/// Where an object is, and at which version the cache holds it.
pub(crate) struct Located {
    pub(crate) object: ObjectKey,
    pub(crate) connection: Arc<Connection>,
    pub(crate) observed: Option<Version>,
}
