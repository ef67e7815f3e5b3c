//! What a primary's last run wrote, kept until its next one.

use std::collections::HashMap;
use std::sync::Arc;

use patchbay_core::{ObjectKey, Version};
use patchbay_plugin::contract::WriteResult;

/// Kept by core with the primary, so it goes when the primary goes.
#[derive(Default)]
pub(crate) struct LastRun {
    /// As the plugin is told.
    pub(crate) results: Vec<WriteResult>,
    /// The reason and message of the failure that it ended with, so that a run that fails in the same way tells nobody.
    pub(crate) failure: Option<(String, String)>,
    /// When the API server last saw this manager change the primary's status.
    pub(crate) status_time: Option<Arc<str>>,
    /// What was applied and is still wanted.
    pub(crate) applied: HashMap<ObjectKey, Applied>,
}

/// An object as it was after it was applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Applied {
    /// A hash of what was applied, and how.
    pub(crate) desired: u64,
    /// The object's version afterwards.
    pub(crate) version: Version,
    /// When the API server last saw this manager change it.
    pub(crate) time: Option<Arc<str>>,
}
