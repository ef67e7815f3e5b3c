//! What is kept for each primary while it exists.

use std::collections::HashMap;
use std::sync::Arc;

use indexmap::IndexMap;

use crate::change::Metadata;
use crate::name::{ControllerId, ObjectKey, PrimaryKey};
use crate::query::QueryId;
use crate::queue::Priority;
use crate::time::Time;
use crate::wake::Wake;

/// One run of one primary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RunId(pub u64);

/// A write as the next run is told of it. Core only keeps it.
pub type WriteRecord = Arc<dyn std::any::Any + Send + Sync>;

/// An object as it was after a run wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenObject {
    /// Which object.
    pub object: ObjectKey,
    /// Its metadata.
    pub metadata: Metadata,
    /// Whether this run's write surely made this version. If the write may have changed nothing, the version may be
    /// somebody else's, whose change must wake the run's primary.
    pub own: bool,
}

#[derive(Default)]
pub(crate) struct Primary {
    pub(crate) uid: Arc<str>,
    /// What it depends on. A failed run adds to it, a successful one replaces it.
    pub(crate) queries: Vec<QueryId>,
    pub(crate) job: Job,
    /// Why it will run next.
    pub(crate) wakes: Vec<Wake>,
    /// When it runs though nothing changes.
    pub(crate) due: Option<Due>,
    /// Runs in a row that failed.
    pub(crate) failures: u32,
    /// Runs in a row that were given up to wait for answers.
    pub(crate) parked: u32,
    /// Whether it runs again once all that it wrote has been seen.
    pub(crate) again: bool,
    /// What became of the writes of the last run.
    pub(crate) last_writes: Option<WriteRecord>,
}

/// A run that is due at some time, and the timer that is set for it.
pub(crate) struct Due {
    pub(crate) timer: (Time, u64),
    pub(crate) wake: Wake,
    pub(crate) priority: Priority,
}

#[derive(Default)]
pub(crate) enum Job {
    #[default]
    Idle,
    Queued(Priority),
    Running(Run),
    /// Until every query has an answer.
    Waiting,
}

pub(crate) struct Run {
    pub(crate) id: RunId,
    /// The queries that this run has named so far, and those of its last round.
    pub(crate) named: Vec<QueryId>,
    pub(crate) latest: Vec<QueryId>,
    /// A collection went back in time while it ran, so the versions that its writes will tell may come again and mean
    /// something else.
    pub(crate) history_lost: bool,
}

/// Why a primary is woken no more than so often is worth telling; beyond it only that there was more counts.
const WAKES_KEPT: usize = 64;

impl Primary {
    /// Notes a reason to run. During a run, versions tell the run's own writes from changes made by others, so each
    /// is kept until there are too many to tell.
    pub(crate) fn note(&mut self, wake: Wake) {
        if self.wakes.len() < WAKES_KEPT {
            if !self.wakes.contains(&wake) {
                self.wakes.push(wake);
            }
        } else if let Some(last) = self.wakes.last_mut() {
            // A wake without a version cannot be taken for one of the run's own writes.
            *last = Wake::Answered;
        }
    }
}

#[derive(Default)]
pub(crate) struct Primaries {
    by_key: IndexMap<PrimaryKey, Primary>,
    runs: HashMap<RunId, PrimaryKey>,
    next: u64,
}

impl Primaries {
    pub(crate) fn get(&self, key: &PrimaryKey) -> Option<&Primary> {
        self.by_key.get(key)
    }

    pub(crate) fn get_mut(&mut self, key: &PrimaryKey) -> Option<&mut Primary> {
        self.by_key.get_mut(key)
    }

    pub(crate) fn insert(&mut self, key: PrimaryKey, primary: Primary) {
        self.by_key.insert(key, primary);
    }

    pub(crate) fn remove(&mut self, key: &PrimaryKey) -> Option<Primary> {
        self.by_key.swap_remove(key)
    }

    pub(crate) fn of_controller(&self, controller: ControllerId) -> Vec<PrimaryKey> {
        self.by_key
            .keys()
            .filter(|key| key.controller == controller)
            .cloned()
            .collect()
    }

    pub(crate) fn begin_run(&mut self, key: &PrimaryKey) -> Option<RunId> {
        let primary = self.by_key.get_mut(key)?;
        let id = RunId(self.next);
        self.next += 1;
        primary.job = Job::Running(Run {
            id,
            named: Vec::new(),
            latest: Vec::new(),
            history_lost: false,
        });
        self.runs.insert(id, key.clone());
        Some(id)
    }

    pub(crate) fn end_run(&mut self, id: RunId) -> Option<PrimaryKey> {
        self.runs.remove(&id)
    }

    /// The primary of a run that is under way and, unless the primary has gone meanwhile, what the run has named.
    pub(crate) fn run_mut(&mut self, id: RunId) -> Option<(&PrimaryKey, &mut Run)> {
        let key = self.runs.get(&id)?;
        match &mut self.by_key.get_mut(key)?.job {
            Job::Running(run) if run.id == id => Some((key, run)),
            _ => None,
        }
    }

    pub(crate) fn lose_history(&mut self) {
        for key in self.runs.values() {
            if let Some(Primary {
                job: Job::Running(run), ..
            }) = self.by_key.get_mut(key)
            {
                run.history_lost = true;
            }
        }
    }

    pub(crate) fn running(&self) -> usize {
        self.runs.len()
    }

    pub(crate) fn len(&self) -> usize {
        self.by_key.len()
    }
}
