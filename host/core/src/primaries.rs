//! What is kept for each primary while it exists.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use indexmap::IndexMap;

use crate::change::Metadata;
use crate::circles::{Reverted, Way};
use crate::name::{ClusterId, ControllerId, ObjectKey, PrimaryKey};
use crate::query::QueryId;
use crate::queue::{Priority, Ticket};
use crate::tally::Tally;
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
    /// What it depends on, sorted. A failed run adds to it, a successful one replaces it.
    pub(crate) queries: Vec<QueryId>,
    /// Strings under which `dependents` finds it, likewise.
    pub(crate) join_keys: Vec<Arc<str>>,
    /// Objects that it protects, likewise.
    pub(crate) protects: Vec<ObjectKey>,
    pub(crate) job: Job,
    /// Why it will run next.
    pub(crate) wakes: Vec<Wake>,
    /// By which way it was woken; none if anything else than a run's write woke it, too.
    pub(crate) way: Option<Arc<Way>>,
    pub(crate) new_way: bool,
    /// How long it must wait, if all its wakes came in circles.
    pub(crate) delay: Option<Duration>,
    /// When it runs though nothing changes.
    pub(crate) due: Option<Due>,
    /// Runs in a row that failed.
    pub(crate) failures: u32,
    /// Runs in a row that were given up to wait for answers.
    pub(crate) parked: u32,
    /// Whether it runs again once all that it wrote has been seen, and the way on to that.
    pub(crate) again: Option<Arc<Way>>,
    /// What it depends on is registered, for the first time since it is known.
    pub(crate) asked: bool,
    /// It has said so with all answers before it.
    pub(crate) sighted: bool,
    /// What it protects is registered, for the first time since it is known.
    pub(crate) decided: bool,
    /// Its last run failed, or lacked an answer. What it has not decided yet it may never decide.
    pub(crate) stuck: bool,
    pub(crate) reverted: Option<Box<Reverted>>,
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
    Queued(Priority, Ticket),
    Running(Box<Run>),
    /// Until every query has an answer.
    Waiting,
    /// Until a time, since it runs in circles. The timer is set for it.
    Slowed((Time, u64)),
}

pub(crate) struct Run {
    pub(crate) id: RunId,
    /// The queries that this run has named so far, and those of its last round.
    pub(crate) named: Vec<QueryId>,
    pub(crate) latest: Vec<QueryId>,
    /// The join keys likewise.
    pub(crate) join_keys: Vec<Arc<str>>,
    pub(crate) latest_joins: Vec<Arc<str>>,
    pub(crate) protects: Vec<ObjectKey>,
    /// What it was told to release.
    pub(crate) releases: Vec<ObjectKey>,
    /// A query of its last round failed. What it decides without that answer is no ground to release anything.
    pub(crate) blind: bool,
    /// A collection went back in time while it ran, so the versions that its writes will tell may come again and mean
    /// something else.
    pub(crate) history_lost: bool,
    /// The way that it came.
    pub(crate) came: Option<Arc<Way>>,
    /// The way that its writes go on with.
    pub(crate) way: Arc<Way>,
    /// What it is about to write.
    pub(crate) writing: Vec<ObjectKey>,
}

/// Why a primary is woken no more than so often is worth telling; beyond it only that there was more counts.
const WAKES_KEPT: usize = 64;

/// How much of objects' texts the wakes of one primary hold on to, which otherwise would have gone.
const TEXTS_KEPT: usize = 64 * 1024;

impl Primary {
    /// Notes a reason to run. During a run, versions tell the run's own writes from changes made by others, so each
    /// is kept until there are too many to tell. Of what an object was between two of them, nothing is kept.
    pub(crate) fn note(&mut self, mut wake: Wake) {
        if self.wakes.len() < WAKES_KEPT {
            if !self.wakes.iter().any(|other| other.repeats(&wake)) {
                for earlier in &mut self.wakes {
                    earlier.join(&mut wake);
                }
                self.wakes.push(wake);
                self.forget_long_texts();
            }
        } else if let Some(last) = self.wakes.last_mut() {
            // A wake without a version cannot be taken for one of the run's own writes.
            *last = Wake::Answered;
        }
    }
}

impl Primary {
    /// Lets go of the texts that the last wake tells of if all of them together are too long.
    fn forget_long_texts(&mut self) {
        // Wakes of one object share their texts.
        let mut texts: Vec<&Arc<str>> = self.wakes.iter().flat_map(Wake::texts).collect();
        texts.sort_unstable_by_key(|text| text.as_ptr());
        texts.dedup_by_key(|text| text.as_ptr());
        if texts.iter().map(|text| text.len()).sum::<usize>() > TEXTS_KEPT
            && let Some((last, earlier)) = self.wakes.split_last_mut()
        {
            for wake in earlier.iter_mut().filter(|wake| wake.is_of_same(last)) {
                wake.forget_texts();
            }
            last.forget_texts();
        }
    }
}

/// A run that has not ended yet, whatever became of its primary.
struct Underway {
    key: Arc<PrimaryKey>,
    /// The clusters that it may have to wait for, but for the host's.
    clusters: Vec<ClusterId>,
}

#[derive(Default)]
pub(crate) struct Primaries {
    by_key: IndexMap<Arc<PrimaryKey>, Primary>,
    runs: HashMap<RunId, Underway>,
    running_in: Tally<ControllerId>,
    running_at: Tally<ClusterId>,
    next: u64,
}

impl Primaries {
    pub(crate) fn get(&self, key: &PrimaryKey) -> Option<&Primary> {
        self.by_key.get(key)
    }

    pub(crate) fn get_mut(&mut self, key: &PrimaryKey) -> Option<&mut Primary> {
        self.by_key.get_mut(key)
    }

    /// The key as it is shared by all that is kept for the primary.
    pub(crate) fn shared(&self, key: &PrimaryKey) -> Option<Arc<PrimaryKey>> {
        self.by_key.get_key_value(key).map(|(key, _)| key.clone())
    }

    pub(crate) fn insert(&mut self, key: PrimaryKey, primary: Primary) {
        self.by_key.insert(Arc::new(key), primary);
    }

    pub(crate) fn remove(&mut self, key: &PrimaryKey) -> Option<Primary> {
        self.by_key.swap_remove(key)
    }

    pub(crate) fn of_controller(&self, controller: ControllerId) -> Vec<Arc<PrimaryKey>> {
        self.by_key
            .keys()
            .filter(|key| key.controller == controller)
            .cloned()
            .collect()
    }

    pub(crate) fn begin_run(&mut self, key: &PrimaryKey, clusters: Vec<ClusterId>) -> Option<RunId> {
        let (shared, primary) = self
            .by_key
            .get_key_value(key)
            .map(|(key, _)| key.clone())
            .and_then(|shared| {
                let primary = self.by_key.get_mut(key)?;
                Some((shared, primary))
            })?;
        let id = RunId(self.next);
        self.next += 1;
        primary.job = Job::Running(Box::new(Run {
            id,
            named: Vec::new(),
            latest: Vec::new(),
            join_keys: Vec::new(),
            latest_joins: Vec::new(),
            protects: Vec::new(),
            releases: Vec::new(),
            blind: false,
            history_lost: false,
            way: Way::through(primary.way.as_deref(), &shared),
            came: primary.way.take(),
            writing: Vec::new(),
        }));
        self.running_in.add(key.controller);
        for cluster in &clusters {
            self.running_at.add(*cluster);
        }
        self.runs.insert(id, Underway { key: shared, clusters });
        Some(id)
    }

    /// Ends a run. Gives its primary and the clusters that it need not wait for any longer.
    pub(crate) fn end_run(&mut self, id: RunId) -> Option<(Arc<PrimaryKey>, Vec<ClusterId>)> {
        let Underway { key, clusters } = self.runs.remove(&id)?;
        for cluster in &clusters {
            self.running_at.take(cluster);
        }
        self.running_in.take(&key.controller);
        Some((key, clusters))
    }

    /// Whether a run of a primary of this name is under way.
    pub(crate) fn is_under_way(&self, key: &PrimaryKey) -> bool {
        self.runs.values().any(|run| *run.key == *key)
    }

    /// The primary of a run that is under way and, unless the primary has gone meanwhile, what the run has named.
    pub(crate) fn run_mut(&mut self, id: RunId) -> Option<(&Arc<PrimaryKey>, &mut Run)> {
        let key = &self.runs.get(&id)?.key;
        match &mut self.by_key.get_mut(key)?.job {
            Job::Running(run) if run.id == id => Some((key, run)),
            _ => None,
        }
    }

    /// The run of a primary that is under way.
    pub(crate) fn run_of(&mut self, key: &PrimaryKey) -> Option<&mut Run> {
        match &mut self.by_key.get_mut(key)?.job {
            Job::Running(run) => Some(run),
            _ => None,
        }
    }

    pub(crate) fn lose_history(&mut self) {
        for Underway { key, .. } in self.runs.values() {
            if let Some(Primary {
                job: Job::Running(run), ..
            }) = self.by_key.get_mut(key)
            {
                run.history_lost = true;
            }
        }
    }

    pub(crate) fn queued(&self) -> usize {
        self.by_key
            .values()
            .filter(|primary| matches!(primary.job, Job::Queued(..)))
            .count()
    }

    pub(crate) fn running(&self) -> usize {
        self.runs.len()
    }

    pub(crate) fn running_in(&self, controller: ControllerId) -> usize {
        self.running_in.of(&controller)
    }

    /// A run may have to wait for one more cluster.
    pub(crate) fn reaches(&mut self, id: RunId, cluster: ClusterId) {
        if let Some(run) = self.runs.get_mut(&id)
            && !run.clusters.contains(&cluster)
        {
            run.clusters.push(cluster);
            self.running_at.add(cluster);
        }
    }

    /// Whether a run is counted among those that may have to wait for a cluster.
    pub(crate) fn may_wait_for(&self, id: RunId, cluster: ClusterId) -> bool {
        self.runs.get(&id).is_some_and(|run| run.clusters.contains(&cluster))
    }

    /// Runs that may have to wait for a cluster.
    pub(crate) fn running_at(&self, cluster: ClusterId) -> usize {
        self.running_at.of(&cluster)
    }

    pub(crate) fn len(&self) -> usize {
        self.by_key.len()
    }
}
