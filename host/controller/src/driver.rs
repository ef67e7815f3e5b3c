//! The task that owns the core: it turns messages into inputs and effects into tasks.

mod answers;
mod places;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use patchbay_cluster::{Connection, Pool, RawObject, Recorder, WatchMessage};
use patchbay_core::{
    Attachment, Change, ClusterId, ControllerId, Core, Effect, Failure, Finished, Kind, ObjectKey, ObjectName,
    PrimaryKey, RunId, Slowed, State, Time, WatchId, WatchKey, WriteRecord,
};
use patchbay_plugin::{Executor, contract};
use tokio::sync::mpsc::Sender;
use tokio::task::AbortHandle;

use crate::attached::Attached;
use crate::contention::Slowdown;
use crate::dependents::{self, Call, Declared};
use crate::edges;
use crate::explain::{Asked, ControllerView, Explainer, Explanation, NotExplained, Reconciled, View};
use crate::hidden::Remembered;
use crate::history::{History, KeptRun};
use crate::memory::LastRun;
use crate::messages::{Located, Message};
use crate::protect;
use crate::translate;
use crate::worker::{Begun, Named, RunContext, run};

/// A plugin attached to one of its kinds.
struct Controller {
    attached: Arc<Attached>,
    kind: Kind,
    cluster: ClusterId,
    /// The finalizer of what its plugin protects.
    protection: Arc<str>,
    recorder: Recorder,
    declared: Vec<Declared>,
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
    history: History,
    hidden: Remembered,
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
            history: History::default(),
            hidden: Remembered::default(),
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
        let declared = attached.declared(primary, cluster);
        let queries = declared.iter().map(|declared| declared.query.clone()).collect();
        let protection = attached.protection(home.uid());
        self.controllers.insert(
            id,
            Controller {
                attached,
                kind: kind.clone(),
                cluster,
                protection: protection.clone(),
                recorder,
                declared,
            },
        );
        let attachment = Attachment {
            cluster,
            kind,
            selector,
            watches: queries,
            protection,
        };
        self.core.attach(id, attachment, self.now());
    }

    /// Whether each controller's primaries are listed, or cannot be.
    pub(crate) fn is_ready(&self) -> bool {
        self.controllers.keys().all(|id| self.core.is_attached(*id))
    }

    /// Whoever asks about objects.
    pub(crate) fn explainer(&self) -> Explainer {
        Explainer::new(self.messages.clone())
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
                tracing::debug!(
                    cluster = connection.name(),
                    kind = %key.kind,
                    scope = self.hidden.hide(key.cluster, &key.kind, &format!("{:?}", key.scope)),
                    "watch"
                );
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
                slowed,
            } => {
                let text = primary.text.clone();
                let begun = Begun {
                    primary: translate::object(&primary, |cluster| self.core.cluster_name(cluster)),
                    deleting,
                    wakes,
                    last: last_writes.and_then(|record| record.downcast::<LastRun>().ok()),
                    slowed: slowed.map(|slowed| self.slowdown(slowed)),
                };
                self.start_run(run, key, text, begun);
            }
            Effect::Dependents {
                call,
                controller,
                watch,
                before,
                after,
            } => {
                let Some(controller) = self.controllers.get(&controller) else {
                    return;
                };
                let Some(watch) = controller.declared.get(watch).cloned() else {
                    return;
                };
                let change = dependents::change(before, after, |cluster| self.core.cluster_name(cluster));
                let call = Call {
                    id: call,
                    watch,
                    change,
                };
                dependents::start_call(controller.attached.clone(), self.executor.clone(), call, messages);
            }
            Effect::Release { object, uid, finalizer } => match self.connections.get(&object.cluster).cloned() {
                Some(connection) => {
                    let shown = self.hidden.hide(object.cluster, &object.kind, &object.name.to_string());
                    protect::start_release(connection, object, shown, uid, finalizer, messages);
                }
                None => self.core.released(&object, &finalizer, false, self.now()),
            },
            Effect::Sweep {
                cluster,
                kind,
                finalizer,
            } => match self.connections.get(&cluster).cloned() {
                Some(connection) => protect::start_sweep(connection, cluster, kind, finalizer, messages),
                None => self.core.swept(cluster, &kind, &finalizer, None),
            },
        }
    }

    fn slowdown(&self, slowed: Slowed) -> Slowdown {
        let circle = slowed.circle.iter().map(|primary| {
            let kind = self
                .controllers
                .get(&primary.controller)
                .map(|controller| &*controller.kind.kind);
            format!("{} {}", kind.unwrap_or_default(), primary.name)
        });
        Slowdown {
            delay: slowed.delay,
            circle: circle.collect(),
        }
    }

    fn start_run(&mut self, id: RunId, key: PrimaryKey, text: Arc<str>, begun: Begun) {
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
            text,
            protection: controller.protection.clone(),
            queried: Mutex::default(),
            secrets: Arc::default(),
            named: Named::default(),
            recorder: controller.recorder.clone(),
            driver: self.messages.clone(),
            key,
        });
        tokio::spawn(run(context, self.executor.clone(), begun));
    }

    pub(crate) fn handle(&mut self, message: Message) {
        let now = self.now();
        match message {
            Message::Watch(id, message) => self.watch_told(id, message),
            Message::Wanted { objects, reply } => {
                let wanted = objects
                    .iter()
                    .map(|(object, metadata)| self.core.wanted(object, metadata));
                let _ = reply.send(wanted.collect());
            }
            Message::ReadPage(id, version, objects) => self.core.read_page(id, version, objects, now),
            Message::ReadDone(id, version) => self.core.read_done(id, version, now),
            Message::ReadFailed(id, failed) => {
                self.troubled((failed.cluster, failed.kind), &failed.failure);
                self.core.read_failed(id, &failed.failure, now);
            }
            Message::Connected(cluster, attempt, Ok(connection)) => {
                tracing::info!(cluster = self.core.cluster_name(cluster), "connected");
                if self.core.connected(cluster, attempt, connection.uid(), now) {
                    self.connections.insert(cluster, connection);
                }
            }
            Message::Connected(cluster, attempt, Err(failure)) => {
                tracing::warn!(cluster = self.core.cluster_name(cluster), "{failure}");
                self.core.connect_failed(cluster, attempt, &failure, now);
            }
            Message::Ask { context, set, reply } => {
                let answer = self.answer(&context, &set);
                let _ = reply.send(answer);
            }
            Message::Locate {
                context,
                objects,
                reply,
            } => {
                let located: Vec<Result<Located, String>> = objects
                    .into_iter()
                    .map(|(cluster, kind, name)| self.locate(&context, &cluster, kind, name))
                    .collect();
                let objects = located.iter().flatten().map(|located| located.object.clone());
                self.core.about_to_write(context.run, objects);
                let _ = reply.send(located);
            }
            Message::Dependents(call, Some(found)) => self.core.dependents_found(call, found, now),
            Message::Dependents(call, None) => self.core.dependents_failed(call, now),
            Message::Protect {
                context,
                objects,
                reply,
            } => {
                let _ = reply.send(self.protect(&context, objects));
            }
            Message::LetGo { context, reply } => {
                let _ = reply.send(self.let_go(&context));
            }
            Message::Released {
                object,
                finalizer,
                done,
            } => self.core.released(&object, &finalizer, done, now),
            Message::Swept {
                cluster,
                kind,
                finalizer,
                found,
            } => self.core.swept(cluster, &kind, &finalizer, found),
            Message::Finished { run, result, report } => {
                if let Some(run) = &report.last.run {
                    self.history.add(KeptRun::new(run.clone(), &report.last.results));
                }
                let record: WriteRecord = Arc::new(report.last);
                let finished = Finished {
                    result,
                    last_writes: Some(record),
                    written: report.written,
                    reverted: report.reverted,
                };
                self.core.finish(run, finished, now);
            }
            Message::PutOff(run) => self.history.add(KeptRun::new(run, &[])),
            Message::Explain { asked, reply } => {
                let _ = reply.send(self.explain(&asked));
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
            let failure_shown = self.hidden.hide(place.0, &place.1, &failure.to_string());
            tracing::warn!("{failure_shown}; it is tried again");
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

    fn explain(&self, asked: &Asked) -> Result<Explanation, NotExplained> {
        let reconciled = self.controllers.iter().map(|(id, controller)| Reconciled {
            plugin: controller.attached.plugin.description().name.clone(),
            kind: controller.kind.clone(),
            failure: self.core.listing_failure(*id).map(ToString::to_string),
        });
        let view = View {
            core: &self.core,
            history: &self.history,
            controller: &|id| {
                let controller = self.controllers.get(&id)?;
                let plugin = controller.attached.plugin.description();
                Some(ControllerView {
                    plugin: &plugin.name,
                    version: &plugin.version,
                    cluster: controller.cluster,
                    kind: &controller.kind,
                })
            },
            reconciled: reconciled.collect(),
            now: self.now(),
            wall: jiff::Timestamp::now(),
        };
        view.explain(asked)
    }
}

fn object_key(watch: &WatchKey, name: &ObjectName) -> ObjectKey {
    ObjectKey {
        cluster: watch.cluster,
        kind: watch.kind.clone(),
        name: name.clone(),
    }
}
