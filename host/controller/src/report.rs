//! What became of an outcome.

use std::collections::HashSet;
use std::sync::Arc;

use patchbay_cluster::{Contested, RawObject, WriteError};
use patchbay_core::{ObjectKey, WrittenObject};
use patchbay_plugin::contract::{self, WriteAction, WriteFailure, WriteResult, WriteState};

use crate::grants::is_refusal;
use crate::memory::LastRun;

/// What became of an outcome.
#[derive(Default)]
pub(crate) struct Report {
    pub(crate) last: LastRun,
    /// Objects as they were after they were written.
    pub(crate) written: Vec<WrittenObject>,
    /// Something was written that had to change.
    pub(crate) changed: bool,
    /// A write failed, and what came after it was skipped.
    pub(crate) failed: bool,
    /// Objects that had to be written again though nothing else was wanted of them.
    pub(crate) reverted: Vec<ObjectKey>,
    /// Fields that were not as desired when the run began to write, if anybody wants to know.
    pub(crate) contested: Vec<(ObjectKey, Vec<Contested>)>,
    /// The uids of all objects that are as they were applied.
    pub(crate) applied: HashSet<Arc<str>>,
}

impl Report {
    /// Of a run that wrote nothing. What the run before applied is still so; what became of its writes has been told.
    pub(crate) fn unwritten(last: Option<&LastRun>) -> Self {
        let kept = last.map(|last| LastRun {
            applied: last.applied.clone(),
            status_time: last.status_time.clone(),
            pruned: last.pruned.clone(),
            ..LastRun::default()
        });
        Report {
            last: kept.unwrap_or_default(),
            ..Report::default()
        }
    }

    /// Notes an object as it was after it was written. `own` says that this write surely made its version.
    pub(crate) fn note(&mut self, object: &ObjectKey, written: Option<RawObject>, own: bool) {
        self.written.extend(written.map(|written| WrittenObject {
            object: object.clone(),
            metadata: written.metadata,
            own,
        }));
    }

    /// Tells the plugin of a write.
    pub(crate) fn tell(&mut self, action: WriteAction, object: contract::ObjectReference, state: WriteState) {
        match &state {
            WriteState::Applied => self.changed = true,
            WriteState::Failed(_) => self.failed = true,
            WriteState::Unchanged | WriteState::Skipped => {}
        }
        self.last.results.push(WriteResult { action, object, state });
    }
}

/// A write that makes no sense.
pub(crate) fn invalid(message: String) -> WriteError {
    WriteError {
        code: 0,
        reason: "Invalid".to_owned(),
        message,
    }
}

/// The reason of a write that is not granted.
pub(crate) const NOT_GRANTED: &str = "NotGranted";

/// A write to a place that cannot be found: it is not granted, or its cluster is not connected.
pub(crate) fn unlocated(message: String) -> WriteError {
    WriteError {
        code: 0,
        reason: if is_refusal(&message) {
            NOT_GRANTED
        } else {
            "Unreachable"
        }
        .to_owned(),
        message,
    }
}

/// A write that is not granted.
pub(crate) fn refused(message: String) -> WriteError {
    WriteError {
        code: 0,
        reason: NOT_GRANTED.to_owned(),
        message,
    }
}

pub(crate) fn failed(error: WriteError) -> WriteState {
    WriteState::Failed(WriteFailure {
        code: error.code,
        reason: error.reason,
        message: error.message,
    })
}
