//! The machine itself: what it holds, and how effects are pulled from it.

mod changes;
mod connections;
mod dependents;
mod explain;
mod namespaces;
mod permits;
mod protections;
mod queries;
mod readiness;
mod runs;
mod sets;
mod streams;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use crate::cache::Cache;
use crate::clusters::{ClusterSource, Clusters, KubeconfigKey};
use crate::expected::ExpectedWrites;
use crate::name::{ClusterId, ControllerId, Kind, ObjectKey, ObjectName, PrimaryKey, Version};
use crate::planted::Planted;
use crate::primaries::{Primaries, RunId, WriteRecord, WrittenObject};
use crate::query::{Finding, FoundObject, Query, QueryId};
use crate::queue::{Queue, Ticket};
use crate::reads::{ReadId, ReadRequest, Reads};
use crate::registry::Registry;
use crate::selector::Selector;
use crate::time::Time;
use crate::users::User;
use crate::wake::Wake;
use crate::watches::{WatchId, WatchKey, Watches};
use dependents::{Concern, Concerns};
use protections::Protections;

/// What can be set.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Runs at a time. More than the plugin threads keeps those busy while others write.
    pub runs: usize,
    /// Reads at a time in one cluster, within what an API server's fairness gives one client.
    pub reads_per_cluster: usize,
    /// Watches of one kind in one cluster that serve in place of a wide one which the cluster refuses. What would need more
    /// fails as the wide one does.
    pub narrow_watches: usize,
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
            narrow_watches: 256,
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
    /// Let go of the connection to a cluster that nobody names any longer, or whose kubeconfig does not connect any longer.
    Disconnect(ClusterId),
    /// Ask a controller's plugin which primaries a change concerns. Answered by [`Core::dependents_found`] or
    /// [`Core::dependents_failed`].
    Dependents {
        /// Which call.
        call: CallId,
        /// Whose plugin.
        controller: ControllerId,
        /// Which of its watches, by its place.
        watch: usize,
        /// The object before, and after.
        before: Option<FoundObject>,
        /// The object after.
        after: Option<FoundObject>,
    },
    /// Take the finalizer that protects an object off it. Answered by [`Core::released`].
    Release {
        /// From which object.
        object: ObjectKey,
        /// Its uid.
        uid: Arc<str>,
        /// Which finalizer.
        finalizer: Arc<str>,
    },
    /// Look through a kind for objects that carry a finalizer. Answered by [`Core::swept`].
    Sweep {
        /// In which cluster.
        cluster: ClusterId,
        /// Objects of which kind.
        kind: Kind,
        /// Which finalizer.
        finalizer: Arc<str>,
    },
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
        /// It runs in circles, so it was delayed.
        slowed: Option<Slowed>,
    },
}

/// Why a run was delayed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slowed {
    /// For how long.
    pub delay: Duration,
    /// The primaries that wake each other, if they do. Otherwise somebody else sets back what this one writes.
    pub circle: Vec<PrimaryKey>,
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

/// What a run names, once a round.
#[derive(Clone, Debug, Default)]
pub struct ReferenceSet {
    /// The whole set of queries.
    pub queries: Vec<Query>,
    /// Strings under which `dependents` can find the primary.
    pub join_keys: Vec<Arc<str>>,
    /// Whether the set is complete, so that no further round follows.
    pub complete: bool,
}

impl ReferenceSet {
    /// A set that no further round follows.
    pub fn complete(queries: Vec<Query>) -> Self {
        ReferenceSet {
            queries,
            join_keys: Vec::new(),
            complete: true,
        }
    }
}

/// What is told of a run that is over.
#[derive(Debug)]
pub struct Finished {
    /// How it ended.
    pub result: RunResult,
    /// What became of its writes.
    pub last_writes: Option<WriteRecord>,
    /// Objects as they were after its writes.
    pub written: Vec<WrittenObject>,
    /// Objects that had to be written though nothing else was wanted of them than the last time: somebody sets them back.
    pub reverted: Vec<ObjectKey>,
}

impl Finished {
    /// Of a run that wrote nothing.
    pub fn new(result: RunResult) -> Self {
        Finished {
            result,
            last_writes: None,
            written: Vec::new(),
            reverted: Vec::new(),
        }
    }
}

/// A controller to attach.
#[derive(Clone, Debug)]
pub struct Attachment {
    /// In which cluster its primaries are.
    pub cluster: ClusterId,
    /// Of which kind they are.
    pub kind: Kind,
    /// Which of them they are.
    pub selector: Selector,
    /// What is watched for `dependents`. Calls name a watch by its place in this list.
    pub watches: Vec<Query>,
    /// The finalizer that protects objects. Controllers that share one count together.
    pub protection: Arc<str>,
}

impl Attachment {
    /// A controller of all objects of a kind.
    pub fn new(cluster: ClusterId, kind: Kind) -> Self {
        Attachment {
            cluster,
            kind,
            selector: Selector::everything(),
            watches: Vec::new(),
            protection: "patchbay.dev/protection".into(),
        }
    }
}

/// Primaries that a change concerns, as `dependents` tells them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dependent {
    /// One by name.
    Primary(ObjectName),
    /// All whose labels match.
    Labels(Selector),
    /// All that published this join key.
    JoinKey(Arc<str>),
}

/// One call of `dependents`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallId(pub u64);

/// An object to protect, as the cache knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Protection {
    /// It is not there, or is being deleted and does not carry the finalizer: there is nothing to hold on to.
    Gone,
    /// It carries the finalizer.
    Held,
    /// It does not.
    Bare {
        /// Its uid.
        uid: Arc<str>,
    },
    /// No query of the run finds it.
    Unqueried,
}

/// What a primary that goes was the last to protect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Releases {
    /// These objects, with their uids, are to be released first.
    Now(Vec<(ObjectKey, Arc<str>)>),
    /// It is not known yet who else protects them. The run is over; the primary runs again once it is.
    Later,
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
    /// A run is due.
    Primary(Arc<PrimaryKey>),
    /// A run was put off.
    Slowed(Arc<PrimaryKey>),
    /// A watch that failed is tried again.
    Watch(WatchKey),
    /// A watch that is no longer needed, or by few, may end or give way.
    Linger(WatchKey),
    /// A watch that was refused may be tried again.
    Allow(WatchKey),
    Cluster(ClusterId),
    /// A query whose read failed is read again, unless it has been meanwhile.
    Query(QueryId, u64),
    /// An object is read again.
    Read(ObjectKey),
    Tombstone(ObjectKey, Version),
    /// A call of `dependents` that failed is made again.
    Dependents(Concern),
    /// A release that failed is tried again.
    Release(ObjectKey, Arc<str>),
}

struct Controller {
    cluster: ClusterId,
    kind: Kind,
    primaries: QueryId,
    /// The queries that its plugin's declared watches are.
    declared: Vec<QueryId>,
    /// Which of them have been listed, or could not be. Primaries do not run before.
    listed: Vec<bool>,
    /// The finalizer by which it protects objects.
    protection: Arc<str>,
    /// Primaries by the join keys that they published.
    joins: HashMap<Arc<str>, BTreeSet<Arc<PrimaryKey>>>,
    /// Primaries that were there when it was attached and have not said yet what they depend on.
    unasked: usize,
    /// Those that have not said so yet with all answers before them.
    unsighted: usize,
    /// All of them have. It stays so: whatever appears later has nothing from before.
    complete: bool,
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
    controllers: BTreeMap<ControllerId, Controller>,
    primaries: Primaries,
    expected: ExpectedWrites,
    /// Runs that are about to write an object, or are writing it.
    writing: HashMap<ObjectKey, Vec<RunId>>,
    concerns: Concerns,
    protections: Protections,
    queue: Queue,
    /// Primaries that are queued, and wait until a cluster holds up fewer runs.
    held: HashMap<ClusterId, VecDeque<(Ticket, Arc<PrimaryKey>)>>,
    /// Primaries that are queued while a run of an earlier one of the same name is under way.
    behind: BTreeSet<Arc<PrimaryKey>>,
    effects: VecDeque<Effect>,
    timers: BTreeMap<(Time, u64), Timer>,
    timers_set: u64,
    /// The bug that the simulation has switched on.
    #[cfg(test)]
    pub(crate) planted: Option<Planted>,
}

impl Core {
    /// A machine that knows only the host's cluster.
    pub fn new(settings: Settings) -> Self {
        Core {
            random: fastrand::Rng::with_seed(settings.seed),
            watches: Watches::new(settings.narrow_watches),
            settings,
            registry: Registry::default(),
            cache: Cache::default(),
            clusters: Clusters::default(),
            reads: Reads::default(),
            controllers: BTreeMap::new(),
            primaries: Primaries::default(),
            expected: ExpectedWrites::default(),
            writing: HashMap::new(),
            concerns: Concerns::default(),
            protections: Protections::default(),
            queue: Queue::default(),
            held: HashMap::new(),
            behind: BTreeSet::new(),
            effects: VecDeque::new(),
            timers: BTreeMap::new(),
            timers_set: 0,
            #[cfg(test)]
            planted: None,
        }
    }

    /// Reads lists instead of single selections and objects as soon as more than so many wait.
    #[cfg(test)]
    pub(crate) fn list_sooner(&mut self, selections: usize, names: usize) {
        self.reads.set_apart(selections, names);
    }

    /// Whether a bug is switched on, which none is but in tests.
    #[cfg_attr(
        not(test),
        expect(clippy::unused_self, reason = "what is switched on is only there in tests")
    )]
    fn planted(&self, bug: Planted) -> bool {
        #[cfg(test)]
        return self.planted == Some(bug);
        #[cfg(not(test))]
        {
            let _ = bug;
            false
        }
    }

    /// The next thing to do, if there is any and its permits are free.
    pub fn poll(&mut self) -> Option<Effect> {
        if let Some(effect) = self.effects.pop_front() {
            return Some(effect);
        }
        let newest = |request: &ReadRequest| self.watches.newest(request.cluster, &request.kind);
        if let Some((id, request)) = self.reads.start(self.settings.reads_per_cluster, newest) {
            return Some(Effect::Read(id, request));
        }
        self.next_call().or_else(|| self.next_run())
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
                Timer::Primary(key) => self.primary_due(&key, now),
                Timer::Slowed(key) => self.slowed_due(&key),
                Timer::Watch(key) => self.retry_watch(&key),
                Timer::Linger(key) => self.watch_lingered(&key, now),
                Timer::Allow(key) => self.allow_watch(&key, now),
                Timer::Cluster(id) => self.cluster_due(id, now),
                Timer::Query(id, round) => self.retry_query(id, round, now),
                Timer::Read(object) => self.retry_read(&object),
                Timer::Tombstone(object, version) => self.forget_tombstone(&object, version),
                Timer::Dependents(concern) => self.retry_call(&concern),
                Timer::Release(object, finalizer) => self.retry_release(&object, &finalizer),
            }
        }
    }

    /// Attaches a controller: every object of the kind in the cluster becomes a primary.
    pub fn attach(&mut self, id: ControllerId, attachment: Attachment, now: Time) {
        let Attachment {
            cluster,
            kind,
            selector,
            watches,
            protection,
        } = attachment;
        let query = Query {
            cluster,
            kind: kind.clone(),
            target: crate::Target::selected(crate::Namespaces::All, crate::Criterion::Labels(selector)),
            fields: crate::Fields::Whole,
        };
        let declared = (0..).zip(watches);
        let declared = declared.map(|(place, query)| self.register(query, User::Declared(id, place), now));
        let declared: Vec<QueryId> = declared.collect();
        let listed = declared.iter().map(|id| !self.registry.is_pending(*id)).collect();
        let primaries = self.register(query, User::Controller(id), now);
        self.controllers.insert(
            id,
            Controller {
                cluster,
                kind,
                primaries,
                declared,
                listed,
                protection,
                joins: HashMap::new(),
                unasked: 0,
                unsighted: 0,
                complete: false,
            },
        );
        self.primaries_found_already(id, now);
        self.check_complete(id, now);
    }

    /// Detaches a controller. Its primaries and what they depended on are forgotten; runs under way end as gone. What
    /// they protect stays protected.
    pub fn detach(&mut self, id: ControllerId, now: Time) {
        self.protections.forget_controller(id);
        self.concerns.forget_controller(id);
        self.queue.remove(id);
        for key in self.primaries.of_controller(id) {
            self.forget_primary(&key, now);
        }
        if let Some(controller) = self.controllers.remove(&id) {
            self.unregister(controller.primaries, &User::Controller(id), now);
            for (place, query) in (0..).zip(controller.declared) {
                self.unregister(query, &User::Declared(id, place), now);
            }
        }
    }

    /// Runs all primaries of a controller again, since its plugin was replaced. What they depend on and what wakes them
    /// stays as it is.
    pub fn swapped(&mut self, id: ControllerId, now: Time) {
        for key in self.primaries.of_controller(id) {
            self.run_sometime(&key, Wake::Swapped, now);
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

    /// Whether all primaries that were there when a controller was attached have said what they depend on.
    pub fn is_complete(&self, id: ControllerId) -> bool {
        self.controllers.get(&id).is_some_and(|controller| controller.complete)
    }

    /// The version at which the cache holds an object, if it does.
    pub fn observed(&self, object: &ObjectKey) -> Option<Version> {
        Some(self.cache.present(object)?.metadata.version)
    }

    /// The uid of an object that the cache holds.
    pub fn uid(&self, object: &ObjectKey) -> Option<&Arc<str>> {
        Some(&self.cache.present(object)?.metadata.uid)
    }

    /// Counts, for metrics and for tests that nothing is held for what has gone.
    pub fn counts(&self) -> Counts {
        Counts {
            primaries: self.primaries.len(),
            queued: self.primaries.queued(),
            running: self.primaries.running(),
            queries: self.registry.len(),
            watches: self.watches.len(),
            reads: self.reads.len(),
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
    /// Reads that wait or are under way.
    pub reads: usize,
    /// Objects in the cache.
    pub objects: usize,
    /// Clusters, the host's included.
    pub clusters: usize,
}
