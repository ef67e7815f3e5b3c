//! The machine itself: what it holds, and how effects are pulled from it.

mod changes;
mod connections;
mod queries;
mod runs;
mod streams;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use crate::cache::Cache;
use crate::clusters::{ClusterSource, Clusters, KubeconfigKey};
use crate::expected::ExpectedWrites;
use crate::name::{ClusterId, ControllerId, Kind, ObjectKey, PrimaryKey, Version};
use crate::primaries::{Primaries, RunId, WriteRecord};
use crate::query::QueryId;
use crate::query::{Finding, FoundObject};
use crate::queue::Queue;
use crate::reads::{ReadId, ReadRequest, Reads};
use crate::registry::Registry;
use crate::time::Time;
use crate::wake::Wake;
use crate::watches::{WatchId, WatchKey, Watches};

/// What can be set.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Runs at a time. More than the plugin threads keeps those busy while others write.
    pub runs: usize,
    /// Reads at a time in one cluster, within what an API server's fairness gives one client.
    pub reads_per_cluster: usize,
    /// How long after the first failure a run, a watch or a connection is tried again. It doubles with each further one.
    pub retry_first: Duration,
    /// The longest that a retry is put off.
    pub retry_most: Duration,
    /// How long a watch stays after its last query has gone, in case one comes back.
    pub linger: Duration,
    /// How often each primary runs though nothing is known to have changed. It mends what everything else might miss.
    pub full_pass: Duration,
    /// Where the jitter begins, so that a simulation can be replayed.
    pub seed: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            runs: 32,
            reads_per_cluster: 16,
            retry_first: Duration::from_secs(1),
            retry_most: Duration::from_secs(60),
            linger: Duration::from_secs(30),
            full_pass: Duration::from_secs(10 * 60 * 60),
            seed: 0,
        }
    }
}

/// What is to be done. Each is answered by the input that its text names.
#[derive(Debug)]
pub enum Effect {
    /// Begin to watch. Answered by [`Core::watch_stands`] or [`Core::watch_failed`], then by changes.
    StartWatch(WatchId, WatchKey),
    /// End the stream of a watch.
    StopWatch(WatchId),
    /// Read. Answered by [`Core::read_done`] or [`Core::read_failed`].
    Read(ReadId, ReadRequest),
    /// Connect to a cluster, or connect anew. Answered by [`Core::connected`] or [`Core::connect_failed`].
    Connect {
        /// Which cluster.
        cluster: ClusterId,
        /// To be given back with the answer.
        attempt: u64,
        /// How the cluster was named.
        source: KubeconfigKey,
        /// The Secret, as far as its key is in it.
        secret: FoundObject,
    },
    /// Let go of the connection to a cluster that nobody names any longer.
    Disconnect(ClusterId),
    /// Run a primary. Answered by [`Core::references`] any number of times and, unless that parks the run, by
    /// [`Core::finish`].
    Run {
        /// Which run.
        run: RunId,
        /// Whose.
        key: PrimaryKey,
        /// The primary, whole.
        primary: FoundObject,
        /// Whether it is being deleted.
        deleting: bool,
        /// Why it runs.
        wakes: Vec<Wake>,
        /// What the last run's writes came to.
        last_writes: Option<WriteRecord>,
    },
}

/// The answer to the queries that a run names.
#[derive(Debug)]
pub enum References {
    /// What each of them finds now, in their order.
    Answered(Vec<Finding>),
    /// Not all can be answered yet. The run is over; the primary runs again as soon as they can.
    Parked,
    /// The run names other queries each time it is begun, so it would wait for ever. It goes on, and should fail.
    Unsettled,
    /// The primary has gone, or its controller. The run is over.
    Gone,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunResult {
    /// It decided, and what it decided was written.
    Done {
        /// Run again after so long though nothing changes.
        again_after: Option<Duration>,
        /// Run again as soon as the cache holds what this run wrote.
        again: bool,
    },
    /// It decided, but not all of it could be written. The next run is told.
    WriteFailed,
    /// It could not decide.
    Failed {
        /// Only a change can help.
        permanent: bool,
    },
}

enum Timer {
    Primary(PrimaryKey),
    Watch(WatchKey),
    Linger(WatchKey),
    Cluster(ClusterId),
    Query(QueryId, u32),
    Read(ReadRequest),
    Tombstone(ObjectKey, Version),
}

struct Controller {
    cluster: ClusterId,
    kind: Kind,
    primaries: QueryId,
}

/// The state machine. Every method takes what happened and the time at which it did; [`Core::poll`] then gives what is
/// to be done, until there is nothing more.
///
/// What always holds: a change of anything that a primary's queries declare leads to a run of that primary that begins
/// after the change was told, and a change of anything else does not.
pub struct Core {
    settings: Settings,
    random: fastrand::Rng,
    registry: Registry,
    cache: Cache,
    clusters: Clusters,
    watches: Watches,
    reads: Reads,
    controllers: HashMap<ControllerId, Controller>,
    primaries: Primaries,
    expected: ExpectedWrites,
    queue: Queue,
    effects: VecDeque<Effect>,
    timers: BTreeMap<(Time, u64), Timer>,
    timers_set: u64,
}

impl Core {
    /// A machine that knows only the host's cluster.
    pub fn new(settings: Settings) -> Self {
        Core {
            random: fastrand::Rng::with_seed(settings.seed),
            settings,
            registry: Registry::default(),
            cache: Cache::default(),
            clusters: Clusters::default(),
            watches: Watches::default(),
            reads: Reads::default(),
            controllers: HashMap::new(),
            primaries: Primaries::default(),
            expected: ExpectedWrites::default(),
            queue: Queue::default(),
            effects: VecDeque::new(),
            timers: BTreeMap::new(),
            timers_set: 0,
        }
    }

    /// The next thing to do, if there is any and its permits are free.
    pub fn poll(&mut self) -> Option<Effect> {
        if let Some(effect) = self.effects.pop_front() {
            return Some(effect);
        }
        if let Some((id, request)) = self.reads.start(self.settings.reads_per_cluster) {
            return Some(Effect::Read(id, request));
        }
        self.next_run()
    }

    /// When [`Core::tick`] is to be called next.
    pub fn next_tick(&self) -> Option<Time> {
        self.timers.keys().next().map(|(time, _)| *time)
    }

    /// Tells that time has gone by.
    pub fn tick(&mut self, now: Time) {
        while let Some(entry) = self.timers.first_entry()
            && entry.key().0 <= now
        {
            match entry.remove() {
                Timer::Primary(key) => self.primary_due(&key),
                Timer::Watch(key) => self.retry_watch(&key),
                Timer::Linger(key) => self.watch_lingered(&key, now),
                Timer::Cluster(id) => self.cluster_due(id, now),
                Timer::Query(id, round) => self.retry_query(id, round),
                Timer::Read(request) => self.retry_read(request),
                Timer::Tombstone(object, version) => self.forget_tombstone(&object, version),
            }
        }
    }

    /// Attaches a controller: every object of the kind in the cluster becomes a primary.
    pub fn attach(&mut self, id: ControllerId, cluster: ClusterId, kind: Kind, selector: crate::Selector, now: Time) {
        let query = crate::Query {
            cluster,
            kind: kind.clone(),
            target: crate::Target::Selected {
                namespaces: crate::Namespaces::All,
                selector,
            },
            fields: crate::Fields::Whole,
        };
        let primaries = self.register(query, crate::registry::User::Controller(id), now);
        self.controllers.insert(
            id,
            Controller {
                cluster,
                kind,
                primaries,
            },
        );
        self.primaries_found_already(id, now);
    }

    /// Detaches a controller. Its primaries and what they depended on are forgotten; runs under way end as gone.
    pub fn detach(&mut self, id: ControllerId, now: Time) {
        for key in self.primaries.of_controller(id) {
            self.forget_primary(&key, now);
        }
        if let Some(controller) = self.controllers.remove(&id) {
            self.unregister(controller.primaries, &crate::registry::User::Controller(id), now);
        }
    }

    /// The id of a cluster that a kubeconfig names. It is forgotten after a while if no query names the cluster.
    pub fn cluster(&mut self, key: KubeconfigKey, now: Time) -> ClusterId {
        if let Some(id) = self.clusters.known(&key) {
            return id;
        }
        let id = self.clusters.add(key);
        self.set_timer(now + self.settings.linger, Timer::Cluster(id));
        id
    }

    /// The id of a cluster that a kubeconfig names, if any query has named it.
    pub fn known_cluster(&self, key: &KubeconfigKey) -> Option<ClusterId> {
        self.clusters.known(key)
    }

    /// How a cluster was named.
    pub fn cluster_source(&self, id: ClusterId) -> Option<&ClusterSource> {
        self.clusters.get(id).map(|cluster| &cluster.source)
    }

    /// How a cluster is called in messages and by plugins.
    pub fn cluster_name(&self, id: ClusterId) -> String {
        self.clusters
            .get(id)
            .map_or_else(|| "unknown".to_owned(), |cluster| cluster.source.to_string())
    }

    /// Whether a controller's primaries are listed, or cannot be for now.
    pub fn is_attached(&self, id: ControllerId) -> bool {
        self.controllers
            .get(&id)
            .is_some_and(|controller| !self.registry.is_pending(controller.primaries))
    }

    /// The version at which the cache holds an object, if it does.
    pub fn observed(&self, object: &ObjectKey) -> Option<Version> {
        Some(self.cache.get(object)?.present()?.metadata.version)
    }

    /// The uid of an object that the cache holds.
    pub fn uid(&self, object: &ObjectKey) -> Option<&Arc<str>> {
        Some(&self.cache.get(object)?.present()?.metadata.uid)
    }

    /// Counts, for metrics and for tests that nothing is held for what has gone.
    pub fn counts(&self) -> Counts {
        Counts {
            primaries: self.primaries.len(),
            queued: self.queue.len(),
            running: self.primaries.running(),
            queries: self.registry.len(),
            watches: self.watches.len(),
            objects: self.cache.len(),
            clusters: self.clusters.len(),
        }
    }

    fn set_timer(&mut self, at: Time, timer: Timer) -> (Time, u64) {
        self.timers_set += 1;
        let id = (at, self.timers_set);
        self.timers.insert(id, timer);
        id
    }

    /// How long to wait after so many failures in a row: doubling, with up to a fifth of jitter either way.
    fn retry_delay(&mut self, failures: u32) -> Duration {
        let doubled = self
            .settings
            .retry_first
            .saturating_mul(1 << failures.saturating_sub(1).min(16));
        self.jitter(doubled.min(self.settings.retry_most))
    }

    fn jitter(&mut self, delay: Duration) -> Duration {
        delay.mul_f64(0.8 + 0.4 * self.random.f64())
    }
}

/// How much the machine holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Counts {
    /// Primaries of all controllers.
    pub primaries: usize,
    /// Primaries that are ready to run.
    pub queued: usize,
    /// Runs under way.
    pub running: usize,
    /// Distinct queries.
    pub queries: usize,
    /// Watches, those that linger included.
    pub watches: usize,
    /// Objects in the cache.
    pub objects: usize,
    /// Clusters, the host's included.
    pub clusters: usize,
}
