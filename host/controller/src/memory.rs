//! What a primary's last run wrote, kept until its next one.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Instant;

use patchbay_core::{ClusterId, ObjectKey, Version};
use patchbay_plugin::contract::{self, WriteResult};

use crate::history::RunRecord;

/// Kept by core with the primary, so it goes when the primary goes.
#[derive(Default)]
pub(crate) struct LastRun {
    /// As the plugin is told.
    pub(crate) results: Vec<WriteResult>,
    /// The reason and message of the failure that it ended with, so that a run that fails in the same way tells nobody.
    pub(crate) failure: Option<(String, String)>,
    /// What was said of those who undo its writes, so that nobody is told the same again.
    pub(crate) contended: Option<String>,
    /// The run itself, for those who ask.
    pub(crate) run: Option<Arc<RunRecord>>,
    /// When the API server last saw this manager change the primary's status.
    pub(crate) status_time: Option<Arc<str>>,
    /// What was applied and is still wanted.
    pub(crate) applied: HashMap<ObjectKey, Applied>,
    /// The set that was pruned, if it was.
    pub(crate) pruned: Option<Pruned>,
}

/// An object as it was after it was applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Applied {
    /// A hash of what was applied, and how.
    pub(crate) desired: u64,
    pub(crate) uid: Arc<str>,
    /// The object's version afterwards.
    pub(crate) version: Version,
    /// When the API server last saw this manager change it.
    pub(crate) time: Option<Arc<str>>,
    /// When that was here. None if it was found as desired, and not applied by this host.
    pub(crate) at: Option<Instant>,
}

/// A set of objects without any that is no longer wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pruned {
    /// A hash of its members.
    pub(crate) members: u64,
    /// The clusters that were looked through.
    pub(crate) looked_at: BTreeSet<ClusterId>,
    /// The clusters that have members, as they were named.
    pub(crate) destinations: Vec<contract::Cluster>,
}
