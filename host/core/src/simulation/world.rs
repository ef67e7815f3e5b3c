//! The world around the machine: servers, and all that is under way between them and it.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;

use super::Plan;
use super::guards::Guards;
use super::ledger::Ledger;
use super::object::Resource;
use super::plugin::{Asked, Spec, Where, declared_watches};
use super::reads::Reading;
use super::runs::Running;
use super::server::Server;
use super::streams::Stream;
use super::trace::{Trace, note};
use super::work::{Call, Connecting, Release, Sweep};
use crate::{
    Attachment, ClusterId, ControllerId, Core, Criterion, Effect, FailureReason, KubeconfigKey, Namespaces, ObjectKey,
    ObjectName, Query, ReadId, Selector, Settings, Time, WatchId,
};

/// A controller as it is attached.
#[derive(Clone)]
pub(super) struct Controller {
    /// Which of the world's controllers it is; its finalizer and its Outputs are named for it.
    pub(super) slot: u32,
    /// How many had been attached before it.
    pub(super) serial: u32,
    pub(super) at: Where,
    pub(super) cluster: ClusterId,
    pub(super) resource: Resource,
    pub(super) selector: Selector,
    /// Whether it declares watches.
    pub(super) watches: bool,
    /// Set on its primaries, so that they are finalized.
    pub(super) finalizer: Option<Arc<str>>,
}

impl Controller {
    pub(super) fn primary(&self, name: &ObjectName) -> ObjectKey {
        ObjectKey {
            cluster: self.cluster,
            kind: self.resource.kind(),
            name: name.clone(),
        }
    }
}

/// How much of what happened.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counted {
    pub(super) steps: u64,
    pub(super) runs: u64,
    pub(super) reads: u64,
    pub(super) faults: u64,
}

impl Counted {
    pub(super) fn add(&mut self, other: Counted) {
        self.steps += other.steps;
        self.runs += other.runs;
        self.reads += other.reads;
        self.faults += other.faults;
    }
}

pub(super) struct World {
    pub(super) plan: Plan,
    pub(super) random: Rng,
    pub(super) now: Time,
    pub(super) core: Core,
    pub(super) runs_at_once: usize,
    /// The first is the host's.
    pub(super) servers: Vec<Server>,
    pub(super) specs: Vec<Rc<Spec>>,
    /// Whether anything goes wrong.
    pub(super) chaos: bool,
    pub(super) controllers: BTreeMap<ControllerId, Controller>,
    pub(super) connections: BTreeMap<ClusterId, usize>,
    pub(super) streams: BTreeMap<WatchId, Stream>,
    pub(super) reads: BTreeMap<ReadId, Reading>,
    pub(super) runs: Vec<Running>,
    pub(super) connects: Vec<Connecting>,
    pub(super) calls: Vec<Call>,
    pub(super) releases: Vec<Release>,
    pub(super) sweeps: Vec<Sweep>,
    pub(super) ledger: Ledger,
    pub(super) guards: Guards,
    /// How often a finalizer that protects was put on or taken off.
    pub(super) held_and_released: u64,
    pub(super) counted: Counted,
    pub(super) trace: Trace,
    /// What must not be and was. The first one is kept.
    pub(super) violation: Option<String>,
    /// Controllers that were attached so far.
    attached: u32,
}

/// The finalizer that protects objects.
pub(super) const PROTECTION: &str = "protection";

impl World {
    pub(super) fn new(plan: Plan, traced: bool) -> Self {
        let mut random = Rng::with_seed(plan.seed);
        let count = random.usize(1..=3);
        let servers: Vec<Server> = ["H", "B", "C"][..count]
            .iter()
            .map(|name| Server::new(name, random.u64(0..500)))
            .collect();
        let runs_at_once = random.usize(1..=4);
        World {
            core: new_core(plan, plan.seed, runs_at_once),
            runs_at_once,
            plan,
            random,
            now: Time::default(),
            servers,
            specs: Vec::new(),
            chaos: true,
            controllers: BTreeMap::new(),
            connections: BTreeMap::from([(ClusterId::HOST, 0)]),
            streams: BTreeMap::new(),
            reads: BTreeMap::new(),
            runs: Vec::new(),
            connects: Vec::new(),
            calls: Vec::new(),
            releases: Vec::new(),
            sweeps: Vec::new(),
            ledger: Ledger::default(),
            guards: Guards::default(),
            held_and_released: 0,
            counted: Counted::default(),
            trace: Trace::new(traced),
            violation: None,
            attached: 0,
        }
    }

    /// Something must not be.
    pub(super) fn violated(&mut self, what: String) {
        note!(self, "VIOLATED: {what}");
        self.violation.get_or_insert(what);
    }

    /// One time in `n`.
    pub(super) fn once_in(&mut self, n: u32) -> bool {
        self.random.u32(0..n) == 0
    }

    /// Whether something goes wrong this time, which it does once in `n`.
    pub(super) fn goes_wrong(&mut self, n: u32) -> bool {
        let wrong = self.chaos && self.once_in(n);
        self.counted.faults += u64::from(wrong);
        wrong
    }

    /// The host ends and begins anew. The servers stay, and so does what had been written.
    pub(super) fn restart(&mut self) {
        note!(self, "the host restarts");
        self.counted.faults += 1;
        self.core = new_core(self.plan, self.random.u64(..), self.runs_at_once);
        self.connections = BTreeMap::from([(ClusterId::HOST, 0)]);
        self.streams.clear();
        self.reads.clear();
        self.runs.clear();
        self.connects.clear();
        self.calls.clear();
        self.releases.clear();
        self.sweeps.clear();
        self.ledger = Ledger::default();
        for controller in std::mem::take(&mut self.controllers).into_values() {
            self.attach(controller);
        }
    }

    /// Attaches a controller under an id of its own.
    pub(super) fn attach(&mut self, controller: Controller) {
        self.attach_as(ControllerId(self.attached + 7), controller);
    }

    pub(super) fn attach_as(&mut self, id: ControllerId, mut controller: Controller) {
        controller.cluster = self.cluster(ClusterId::HOST, controller.at);
        controller.serial = self.attached;
        self.attached += 1;
        note!(
            self,
            "attach {} to {:?} in {:?}",
            id.0,
            controller.resource,
            controller.at
        );
        let mut attachment = Attachment::new(controller.cluster, controller.resource.kind());
        attachment.selector = controller.selector.clone();
        attachment.protection = PROTECTION.into();
        attachment.watches = self.watches_of(&controller);
        self.controllers.insert(id, controller);
        self.core.attach(id, attachment, self.now);
        self.pull();
    }

    pub(super) fn watches_of(&self, controller: &Controller) -> Vec<Query> {
        let watches = declared_watches().map(|(resource, target, fields)| Query {
            cluster: controller.cluster,
            kind: resource.kind(),
            target,
            fields,
        });
        if controller.watches { watches.into() } else { Vec::new() }
    }

    /// The query that finds a controller's primaries.
    pub(super) fn primaries_of(controller: &Controller) -> Query {
        Query {
            cluster: controller.cluster,
            kind: controller.resource.kind(),
            target: crate::Target::selected(Namespaces::All, Criterion::Labels(controller.selector.clone())),
            fields: crate::Fields::Whole,
        }
    }

    pub(super) fn detach(&mut self, id: ControllerId) -> Option<Controller> {
        note!(self, "detach {}", id.0);
        let controller = self.controllers.remove(&id)?;
        self.core.detach(id, self.now);
        self.ledger.forget_controller(id);
        self.pull();
        Some(controller)
    }

    /// The machine's id of a cluster.
    pub(super) fn cluster(&mut self, home: ClusterId, at: Where) -> ClusterId {
        match at {
            Where::Home => home,
            Where::Kubeconfig(name) => self.core.cluster(kubeconfig(name), self.now),
        }
    }

    pub(super) fn query(&mut self, home: ClusterId, asked: &Asked) -> Query {
        Query {
            cluster: self.cluster(home, asked.at),
            kind: asked.resource.kind(),
            target: asked.target.clone(),
            fields: asked.fields.clone(),
        }
    }

    /// The server that a cluster leads to now, by the state of the servers alone.
    pub(super) fn server_at(&self, home: usize, at: Where) -> Result<usize, FailureReason> {
        let server = match at {
            Where::Home => Some(home),
            Where::Kubeconfig(name) => {
                let secret = (Resource::Secret, super::object::named("n", name));
                let secret = self.servers[0].objects.get(&secret);
                secret.and_then(|secret| self.leads_to(secret.k))
            }
        };
        server
            .filter(|server| !self.servers[*server].down)
            .ok_or(FailureReason::Unreachable)
    }

    /// Where a kubeconfig leads. Its last digit is a token, which changes when it rotates.
    pub(super) fn leads_to(&self, k: u32) -> Option<usize> {
        let server = k as usize / 10;
        (server < self.servers.len()).then_some(server)
    }

    /// Takes all that the machine wants done.
    pub(super) fn pull(&mut self) {
        for _ in 0..10_000 {
            let Some(effect) = self.core.poll() else { return };
            match effect {
                Effect::StartWatch(id, key) => self.start_stream(id, key),
                Effect::StopWatch(id) => {
                    note!(self, "stop watch {}", id.0);
                    self.streams.remove(&id);
                }
                Effect::Read(id, request) => self.start_read(id, request),
                Effect::Connect {
                    cluster,
                    attempt,
                    secret,
                    ..
                } => self.start_connecting(cluster, attempt, &secret.text),
                Effect::Disconnect(cluster) => {
                    note!(self, "disconnect {}", cluster.0);
                    self.connections.remove(&cluster);
                }
                Effect::Dependents {
                    call,
                    controller,
                    before,
                    after,
                    ..
                } => self.start_call(call, controller, before, after),
                Effect::Release { object, uid, finalizer } => self.start_release(object, uid, finalizer),
                Effect::Sweep {
                    cluster,
                    kind,
                    finalizer,
                } => self.start_sweep(cluster, kind, finalizer),
                Effect::Run {
                    run,
                    key,
                    primary,
                    deleting,
                    wakes,
                    last_writes,
                    ..
                } => self.start_run((run, key), &primary.text, deleting, &wakes, last_writes),
            }
        }
        self.violated("the machine has always more to do".to_owned());
    }

    /// Lets time go by.
    pub(super) fn pass(&mut self, time: Duration) {
        self.now = self.now + time;
        self.core.tick(self.now);
        self.pull();
    }
}

fn new_core(plan: Plan, seed: u64, runs: usize) -> Core {
    let mut core = Core::new(Settings {
        runs,
        reads_per_cluster: 2,
        narrow_watches: if is_capped(plan) { 3 } else { 256 },
        seed,
        ..Settings::default()
    });
    core.planted = plan.planted;
    if seed.is_multiple_of(2) {
        core.list_sooner(1, 2);
    }
    core
}

/// Whether few narrow watches may serve in place of a wide one that is refused.
pub(super) fn is_capped(plan: Plan) -> bool {
    plan.seed.is_multiple_of(3)
}

/// How the machine is told of a kubeconfig Secret.
pub(super) fn kubeconfig(name: &str) -> KubeconfigKey {
    KubeconfigKey {
        home: ClusterId::HOST,
        namespace: "n".into(),
        name: name.into(),
        key: "kubeconfig".into(),
    }
}
