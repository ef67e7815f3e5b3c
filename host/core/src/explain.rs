//! What the machine holds, told for people who ask why something happened or did not.

use std::sync::Arc;

use crate::failure::Failure;
use crate::name::{ClusterId, ControllerId, Kind, ObjectKey, PrimaryKey};
use crate::primaries::WriteRecord;
use crate::query::{Finding, Query};
use crate::time::Time;
use crate::wake::Wake;
use crate::watches::WatchKey;

/// What is known of a primary.
#[derive(Clone, Debug)]
pub struct PrimaryReport {
    /// The primary as an object of its cluster.
    pub object: ObjectKey,
    /// Its uid, by which it owns others.
    pub uid: Arc<str>,
    /// What it does.
    pub state: PrimaryState,
    /// Why it will run next.
    pub wakes: Vec<Wake>,
    /// Runs in a row that failed.
    pub failures: u32,
    /// When it runs though nothing changes.
    pub next: Option<NextRun>,
    /// What it depends on.
    pub queries: Vec<QueryReport>,
    /// The strings under which `dependents` finds it.
    pub join_keys: Vec<Arc<str>>,
    /// Objects that must not be deleted while it exists.
    pub protected: Vec<ObjectKey>,
    /// What is kept of its last run.
    pub last_writes: Option<WriteRecord>,
}

/// What a primary does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrimaryState {
    /// Nothing: it waits for a change, or for its next run.
    Idle,
    /// It waits for its turn.
    Queued,
    /// It runs.
    Running,
    /// It waits until every query has an answer.
    Waiting,
    /// It runs in circles, so it waits until then.
    Slowed(Time),
}

/// A run that is due at some time.
#[derive(Clone, Debug)]
pub struct NextRun {
    /// When.
    pub at: Time,
    /// Why.
    pub wake: Wake,
}

/// What is known of a query.
#[derive(Clone, Debug)]
pub struct QueryReport {
    /// The query.
    pub query: Arc<Query>,
    /// What it finds now; none while that is not known yet.
    pub finding: Option<Finding>,
    /// The watches that serve it.
    pub watches: Vec<WatchReport>,
}

/// What is known of a watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchReport {
    /// What it watches.
    pub key: WatchKey,
    /// How it stands.
    pub state: WatchStanding,
}

/// How a watch stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchStanding {
    /// Its cluster is not connected.
    Unconnected,
    /// It is about to stand.
    Starting,
    /// Every change is told.
    Stands,
    /// It cannot be started, or ended. It is tried again.
    Failed(Failure),
}

/// Who depends on a query.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum QueryUser {
    /// A primary, which runs when its answer changes.
    Primary(PrimaryKey),
    /// A controller, whose primaries it finds.
    Controller(ControllerId),
    /// A controller, whose plugin says which of its primaries a change concerns.
    Dependents(ControllerId),
    /// A cluster, whose kubeconfig it finds.
    Kubeconfig(ClusterId),
    /// A kind that is not served, whose definition it may find.
    Definition(ClusterId, Kind),
}
