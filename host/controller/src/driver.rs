//! The task that owns the core: it turns messages into inputs and effects into tasks.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use kube::runtime::events::Recorder;
use patchbay_cluster::{Connection, Pool, RawObject, WatchMessage};
use patchbay_core::{
    Change, ClusterId, ClusterSource, ControllerId, Core, Effect, Failure, FoundObject, Kind, ObjectKey, ObjectName,
    PrimaryKey, References, RunId, State, Time, Wake, WatchId, WatchKey, WriteRecord,
};
use patchbay_plugin::{Executor, contract};
use tokio::sync::mpsc::Sender;
use tokio::task::AbortHandle;

use crate::attached::Attached;
use crate::edges;
use crate::memory::LastRun;
use crate::messages::{Located, Message, Reply};
use crate::translate;
use crate::worker::{Begun, RunContext, run};

/// A plugin attached to one of its kinds.
struct Controller {
    attached: Arc<Attached>,
    kind: Kind,
    cluster: ClusterId,
    recorder: Recorder,
}

/// The trouble that a watch is in, as it was last logged.
type Trouble = HashMap<(ClusterId, Kind), Arc<str>>;

pub(crate) struct Driver {
    core: Core,
    began: Instant,
    connections: HashMap<ClusterId, Arc<Connection>>,
    pool: Arc<Pool>,
    executor: Arc<Executor>,
    controllers: HashMap<ControllerId, Controller>,
    watches: HashMap<WatchId, (WatchKey, AbortHandle)>,
    trouble: Trouble,
    messages: Sender<Message>,
}

impl Driver {
    pub(crate) fn new(core: Core, home: Arc<Connection>, executor: Arc<Executor>, messages: Sender<Message>) -> Self {
        Driver {
            core,
            began: Instant::now(),
            connections: HashMap::from([(ClusterId::HOST, home)]),
            pool: Arc::default(),
            executor,
            controllers: HashMap::new(),
            watches: HashMap::new(),
            trouble: HashMap::new(),
            messages,
        }
    }

    pub(crate) fn now(&self) -> Time {
        Time(self.began.elapsed())
    }

    /// When [`Driver::tick`] is due.
    pub(crate) fn next_tick(&self) -> Option<Instant> {
        self.core.next_tick().and_then(|time| self.began.checked_add(time.0))
    }

    pub(crate) fn tick(&mut self) {
        self.core.tick(self.now());
    }

    /// Attaches a plugin to one of its kinds in the host's cluster.
    pub(crate) fn attach(&mut self, id: ControllerId, attached: Arc<Attached>, primary: &contract::PrimaryKind) {
        let kind = translate::kind_of(&primary.kind);
        let selector = translate::selector(&primary.selector);
        let cluster = ClusterId::HOST;
        let Some(home) = self.connections.get(&cluster) else {
            return;
        };
        let recorder = home.recorder(&format!("patchbay-{}", attached.plugin.description().name));
        self.controllers.insert(
            id,
            Controller {
                attached,
                kind: kind.clone(),
                cluster,
                recorder,
            },
        );
        self.core.attach(id, cluster, kind, selector, self.now());
    }

    /// Whether each controller's primaries are listed, or cannot be.
    pub(crate) fn is_ready(&self) -> bool {
        self.controllers.keys().all(|id| self.core.is_attached(*id))
    }

    pub(crate) fn counts(&self) -> patchbay_core::Counts {
        self.core.counts()
    }

    /// Does what core has to do, until it has nothing more.
    pub(crate) fn pull(&mut self) {
        while let Some(effect) = self.core.poll() {
            self.start(effect);
        }
    }

    fn start(&mut self, effect: Effect) {
        let messages = self.messages.clone();
        match effect {
            Effect::StartWatch(id, key) => {
                let Some(connection) = self.connections.get(&key.cluster).cloned() else {
                    return;
                };
                tracing::debug!(cluster = connection.name(), kind = %key.kind, scope = ?key.scope, "watch");
                let task = edges::start_watch(connection, id, key.clone(), messages);
                self.watches.insert(id, (key, task));
            }
            Effect::StopWatch(id) => {
                if let Some((_, task)) = self.watches.remove(&id) {
                    task.abort();
                }
            }
            Effect::Read(id, request) => match self.connections.get(&request.cluster).cloned() {
                Some(connection) => edges::start_read(connection, id, request, messages),
                None => {
                    let failure = self.disconnected(request.cluster);
                    self.core.read_failed(id, &failure, self.now());
                }
            },
            Effect::Connect {
                cluster,
                attempt,
                source,
                secret,
            } => {
                edges::start_connection(self.pool.clone(), cluster, attempt, source, secret.text, messages);
            }
            Effect::Disconnect(cluster) => {
                self.connections.remove(&cluster);
                self.trouble.retain(|(place, _), _| *place != cluster);
            }
            Effect::Run {
                run,
                key,
                primary,
                deleting,
                wakes,
                last_writes,
            } => {
                self.start_run(run, key, primary, deleting, wakes, last_writes);
            }
        }
    }

    fn start_run(
        &mut self,
        id: RunId,
        key: PrimaryKey,
        primary: FoundObject,
        deleting: bool,
        wakes: Vec<Wake>,
        last_writes: Option<WriteRecord>,
    ) {
        let Some(controller) = self.controllers.get(&key.controller) else {
            return;
        };
        let Some(connection) = self.connections.get(&controller.cluster) else {
            return;
        };
        let object = ObjectKey {
            cluster: controller.cluster,
            kind: controller.kind.clone(),
            name: key.name.clone(),
        };
        let context = Arc::new(RunContext {
            run: id,
            attached: controller.attached.clone(),
            kind: controller.kind.clone(),
            connection: connection.clone(),
            uid: self.core.uid(&object).map(|uid| uid.to_string()).unwrap_or_default(),
            object,
            secrets: Arc::default(),
            recorder: controller.recorder.clone(),
            driver: self.messages.clone(),
            key,
        });
        let begun = Begun {
            primary: translate::object(&primary, |cluster| self.core.cluster_name(cluster)),
            deleting,
            wakes,
            last: last_writes.and_then(|record| record.downcast::<LastRun>().ok()),
        };
        tokio::spawn(run(context, self.executor.clone(), begun));
    }

    pub(crate) fn handle(&mut self, message: Message) {
        let now = self.now();
        match message {
            Message::Watch(id, message) => self.watch_told(id, message),
            Message::Read(id, Ok(read)) => self.core.read_done(id, read.version, read.objects, now),
            Message::Read(id, Err(failed)) => {
                self.troubled((failed.cluster, failed.kind), &failed.failure);
                self.core.read_failed(id, &failed.failure, now);
            }
            Message::Connected(cluster, attempt, Ok(connection)) => {
                tracing::info!(cluster = self.core.cluster_name(cluster), "connected");
                if self.core.connected(cluster, attempt, connection.uid()) {
                    self.connections.insert(cluster, connection);
                }
            }
            Message::Connected(cluster, attempt, Err(failure)) => {
                tracing::warn!(cluster = self.core.cluster_name(cluster), "{failure}");
                self.core.connect_failed(cluster, attempt, &failure, now);
            }
            Message::Ask {
                context,
                queries,
                reply,
            } => {
                let answer = self.answer(&context, &queries);
                let _ = reply.send(answer);
            }
            Message::Locate {
                context,
                objects,
                reply,
            } => {
                let located = objects
                    .into_iter()
                    .map(|(cluster, kind, name)| self.locate(&context, &cluster, kind, name));
                let _ = reply.send(located.collect());
            }
            Message::Finished {
                run,
                result,
                last,
                written,
            } => {
                let record: WriteRecord = Arc::new(last);
                self.core.finish(run, &result, Some(record), &written, now);
            }
        }
    }

    fn watch_told(&mut self, id: WatchId, message: WatchMessage) {
        let Some((key, _)) = self.watches.get(&id) else { return };
        let now = self.now();
        match message {
            WatchMessage::Stands(version) => {
                if self.trouble.remove(&(key.cluster, key.kind.clone())).is_some() {
                    tracing::info!(cluster = self.core.cluster_name(key.cluster), kind = %key.kind, "the watch stands again");
                }
                self.core.watch_stands(id, version, now);
            }
            WatchMessage::Changed(object) => {
                let key = object_key(key, &object.name);
                self.changed(id, &object, key, now);
            }
            WatchMessage::Deleted(object) => {
                let object_key = object_key(key, &object.name);
                let state = State::Absent {
                    version: object.metadata.version,
                };
                self.core.changed(
                    id,
                    Change {
                        object: object_key,
                        state,
                    },
                    now,
                );
            }
            WatchMessage::Expired => {
                tracing::debug!(kind = %key.kind, "the watch is begun anew");
                self.watches.remove(&id);
                self.core.watch_expired(id);
            }
            WatchMessage::Failed(failure) => {
                let place = (key.cluster, key.kind.clone());
                self.troubled(place, &failure);
                self.watches.remove(&id);
                self.core.watch_failed(id, &failure, now);
            }
        }
    }

    /// Logs a failure once, not at every attempt.
    fn troubled(&mut self, place: (ClusterId, Kind), failure: &Failure) {
        if self.trouble.get(&place) != Some(&failure.message) {
            tracing::warn!("{failure}; it is tried again");
            self.trouble.insert(place, failure.message.clone());
        }
    }

    /// Objects are projected here, one after the other, so that core is told of them in the order of the stream. It takes
    /// some 5 µs a KB, and only for objects that somebody asks for.
    fn changed(&mut self, stream: WatchId, object: &RawObject, key: ObjectKey, now: Time) {
        let wanted = self.core.wanted(&key, &object.metadata);
        if let Some(change) = edges::present(object, key, &wanted) {
            self.core.changed(stream, change, now);
        }
    }

    /// Answers a run's queries: those that make no sense or are not granted at once, the others by core.
    fn answer(&mut self, context: &RunContext, queries: &[contract::Query]) -> Reply {
        let translated: Vec<Result<patchbay_core::Query, contract::QueryFailure>> =
            queries.iter().map(|query| self.translate(context, query)).collect();
        let sound = translated
            .iter()
            .filter_map(|query| query.as_ref().ok().cloned())
            .collect();
        let now = self.now();
        let mut findings = match self.core.references(context.run, sound, now) {
            References::Answered(findings) => findings.into_iter(),
            References::Parked | References::Gone => return Reply::GivenUp,
            References::Unsettled => return Reply::Unsettled,
        };
        let mut secrets = Vec::new();
        let mut answers = Vec::with_capacity(queries.len());
        for (query, translated) in queries.iter().zip(translated) {
            let finding = match translated {
                Err(failure) => contract::Finding::Failed(failure),
                Ok(translated) => {
                    let Some(finding) = findings.next() else { break };
                    if *translated.kind.kind == *"Secret" {
                        secrets.extend(finding.texts());
                    }
                    translate::finding(finding, |cluster| self.core.cluster_name(cluster))
                }
            };
            answers.push(contract::Answer {
                id: query.id.clone(),
                finding,
            });
        }
        Reply::Answers { answers, secrets }
    }

    fn translate(
        &mut self,
        context: &RunContext,
        query: &contract::Query,
    ) -> Result<patchbay_core::Query, contract::QueryFailure> {
        let not_granted = |message| translate::refused(contract::QueryFailureReason::NotGranted, message);
        let checked = translate::checked(query)?;
        let (kind, grants) = (checked.kind(), &context.attached.grants);
        grants
            .check_objects(&kind.api_version, &kind.kind, contract::Verbs::READ)
            .map_err(not_granted)?;
        let cluster = match checked.cluster() {
            contract::Cluster::ByKubeconfig(secret) => {
                let primary = context.key.name.namespace.as_deref();
                grants.check_secret(&secret.namespace, primary).map_err(not_granted)?;
                let now = self.now();
                self.core
                    .cluster(translate::kubeconfig_key(secret, context.object.cluster), now)
            }
            other => self
                .known_cluster(context, other)
                .map_err(|message| translate::refused(contract::QueryFailureReason::Unreachable, message))?,
        };
        Ok(checked.on(cluster))
    }

    /// The id of a cluster that a query has named before.
    fn known_cluster(&self, context: &RunContext, cluster: &contract::Cluster) -> Result<ClusterId, String> {
        match cluster {
            contract::Cluster::PrimaryCluster => Ok(context.object.cluster),
            contract::Cluster::HostCluster => Ok(ClusterId::HOST),
            contract::Cluster::ById(id) => self.by_id(context, id),
            contract::Cluster::ByKubeconfig(secret) => self
                .core
                .known_cluster(&translate::kubeconfig_key(secret, context.object.cluster))
                .ok_or_else(|| {
                    let place = format!("{}/{}", secret.namespace, secret.name);
                    format!("the cluster of kubeconfig Secret {place} is not connected: `references` must query the objects that are written there")
                }),
        }
    }

    /// The cluster that plugins know by an id. Ids are given by the host, so no cluster can claim to be another, and one
    /// that is reached by a kubeconfig takes the same grant as the kubeconfig itself.
    fn by_id(&self, context: &RunContext, id: &str) -> Result<ClusterId, String> {
        let known = self
            .connections
            .keys()
            .find(|cluster| self.core.cluster_name(**cluster) == id);
        let cluster = *known.ok_or_else(|| format!("no cluster with id {id:?} is connected"))?;
        if let Some(ClusterSource::Kubeconfig(source)) = self.core.cluster_source(cluster) {
            let primary = context.key.name.namespace.as_deref();
            context.attached.grants.check_secret(&source.namespace, primary)?;
        }
        Ok(cluster)
    }

    fn locate(
        &self,
        context: &RunContext,
        cluster: &contract::Cluster,
        kind: Kind,
        name: ObjectName,
    ) -> Result<Located, String> {
        if let contract::Cluster::ByKubeconfig(secret) = cluster {
            context
                .attached
                .grants
                .check_secret(&secret.namespace, context.key.name.namespace.as_deref())?;
        }
        let id = self.known_cluster(context, cluster)?;
        let connection = self
            .connections
            .get(&id)
            .cloned()
            .ok_or_else(|| self.disconnected(id).message.to_string())?;
        let object = ObjectKey {
            cluster: id,
            kind,
            name,
        };
        Ok(Located {
            observed: self.core.observed(&object),
            object,
            connection,
        })
    }

    fn disconnected(&self, cluster: ClusterId) -> Failure {
        let name = self.core.cluster_name(cluster);
        Failure::new(
            patchbay_core::FailureReason::Unreachable,
            format!("cluster {name} is not connected"),
        )
    }
}

fn object_key(watch: &WatchKey, name: &ObjectName) -> ObjectKey {
    ObjectKey {
        cluster: watch.cluster,
        kind: watch.kind.clone(),
        name: name.clone(),
    }
}
