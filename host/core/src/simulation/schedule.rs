//! What happens when: any order that the seed says, then rest.

use std::time::Duration;

use super::object::Resource;
use super::plugin::Where;
use super::server::Access;
use super::trace::note;
use super::world::{Controller, World};
use crate::{ClusterId, ControllerId, ReadId, Selector, WatchId};

/// How long the machine is given to come to rest: longer than it puts off anything but the full pass.
const REST: Duration = Duration::from_secs(15 * 60);

/// Steps after which a world that does not come to rest never will.
const RESTLESS: u32 = 20_000;

/// What is likely in a world. Each seed has moods of its own, so that some worlds are slow where others are quick.
pub(super) struct Mood {
    edits: u32,
    streams: u32,
    reads: u32,
    runs: u32,
    others: u32,
    time: u32,
    /// How often, in thousand steps, something befalls the whole world.
    blows: u32,
}

/// Something under way that can go on.
#[derive(Clone, Copy)]
enum Work {
    Stream(WatchId),
    Read(ReadId),
    Run,
    Connect,
    Call,
    Release,
    Sweep,
}

impl Mood {
    pub(super) fn new(random: &mut fastrand::Rng) -> Self {
        let mut weight = || [1, 2, 4, 8][random.usize(..4)];
        Mood {
            edits: weight(),
            streams: weight(),
            reads: weight(),
            runs: weight(),
            others: weight(),
            time: weight(),
            blows: 10 * weight(),
        }
    }
}

impl World {
    /// Attaches the controller that the world begins with, and gives it a few objects.
    pub(super) fn set_up(&mut self) {
        for server in 0..self.servers.len() {
            if self.random.bool() {
                self.edit_definition(server);
                self.edit_definition(server);
                self.servers[server].keep_house();
            }
        }
        self.toggle_controller(0);
        for _ in 0..20 {
            self.edit();
        }
    }

    /// Some steps of which anything may go wrong.
    pub(super) fn live(&mut self, steps: u32) {
        self.chaos = true;
        self.trace.say_once(false);
        let mood = Mood::new(&mut self.random);
        for _ in 0..steps {
            if self.violation.is_some() {
                return;
            }
            if self.random.u32(0..1000) < mood.blows {
                self.blow();
            }
            self.live_step(&mood);
        }
    }

    fn live_step(&mut self, mood: &Mood) {
        let weights = [mood.edits, mood.time, mood.streams, mood.reads, mood.runs, mood.others];
        let mut left = self.random.u32(0..weights.iter().sum());
        let chosen = weights.iter().position(|weight| {
            let here = left < *weight;
            left = left.saturating_sub(*weight);
            here
        });
        let work = match chosen {
            Some(0) => return self.edit(),
            Some(1) => return self.some_time(),
            Some(2) => self.random.choice(self.streams.keys()).copied().map(Work::Stream),
            Some(3) => self.random.choice(self.reads.keys()).copied().map(Work::Read),
            Some(4) => (!self.runs.is_empty()).then_some(Work::Run),
            _ => {
                let others = self.others();
                self.random.choice(others)
            }
        };
        if let Some(work) = work {
            self.go_on(work);
        }
    }

    fn some_time(&mut self) {
        for server in &mut self.servers {
            server.keep_house();
        }
        let next = self.core.next_tick().map(|next| next.0.saturating_sub(self.now.0));
        let time = match (next, self.random.u32(0..8)) {
            (Some(next), 0) if next < Duration::from_secs(3600) => next,
            (_, 1) => Duration::from_secs(self.random.u64(1..60)),
            _ => Duration::from_millis(self.random.u64(1..2000)),
        };
        self.pass(time);
    }

    fn others(&self) -> Vec<Work> {
        let under_way = [
            (Work::Connect, self.connects.len()),
            (Work::Call, self.calls.len()),
            (Work::Release, self.releases.len()),
            (Work::Sweep, self.sweeps.len()),
        ];
        under_way
            .into_iter()
            .filter(|(_, count)| *count > 0)
            .map(|(work, _)| work)
            .collect()
    }

    fn go_on(&mut self, work: Work) {
        self.counted.steps += 1;
        self.ledger.step = self.counted.steps;
        match work {
            Work::Stream(id) => self.stream_step(id),
            Work::Read(id) => self.read_step(id),
            Work::Run => self.run_step(),
            Work::Connect => self.connect_step(),
            Work::Call => self.call_step(),
            Work::Release => self.release_step(),
            Work::Sweep => self.sweep_step(),
        }
        self.pull();
    }

    /// What befalls the whole world.
    fn blow(&mut self) {
        let server = self.random.usize(..self.servers.len());
        match self.random.u32(0..12) {
            0 | 1 => self.servers[server].back_up(),
            2 | 3 => {
                if self.servers[server].restore() {
                    note!(
                        self,
                        "server {} is restored to v{}",
                        self.servers[server].name,
                        self.servers[server].version
                    );
                    self.counted.faults += 1;
                    let connections = &self.connections;
                    self.ledger
                        .forget_versions(|cluster| connections.get(&cluster) == Some(&server));
                }
            }
            4 => {
                // People go on while the host is away.
                for _ in 0..self.random.usize(0..4) {
                    self.edit_primary(server);
                }
                if self.random.bool() {
                    self.delete_primary();
                }
                self.restart();
            }
            5 | 6 => self.restrict(server),
            7 => self.servers[server].down = !self.servers[server].down,
            8 | 9 => {
                let slot = self.random.u32(0..3);
                self.toggle_controller(slot);
            }
            10 => self.swap(),
            _ => self.edit_definition(server),
        }
    }

    /// The host may see more or less of some kind than before.
    fn restrict(&mut self, server: usize) {
        let resources = [
            Resource::ConfigMap,
            Resource::Node,
            Resource::Gadget,
            Resource::Output,
            Resource::Namespace,
            Resource::Copy,
        ];
        let levels = [Access::Everywhere, Access::Nowhere, Access::Namespaces, Access::Names];
        let resource = resources[self.random.usize(..resources.len())];
        let access = levels[self.random.usize(..levels.len())];
        note!(self, "{} {resource:?}: access {access:?}", self.servers[server].name);
        self.servers[server].set_access(resource, access);
    }

    /// Attaches a controller that is not attached, or detaches it.
    fn toggle_controller(&mut self, slot: u32) {
        let attached = self.controllers.iter().find(|(_, controller)| controller.slot == slot);
        if let Some(id) = attached.map(|(id, _)| *id) {
            self.detach(id);
            return;
        }
        let selector = if self.random.bool() {
            Selector::everything()
        } else {
            self.selector()
        };
        let watches = self.random.bool();
        let controller = Controller {
            slot,
            serial: 0,
            at: if slot == 2 {
                Where::Kubeconfig("kc1")
            } else {
                Where::Home
            },
            cluster: ClusterId::HOST,
            resource: if slot == 0 { Resource::Copy } else { Resource::Bundle },
            selector,
            watches,
            finalizer: self.random.bool().then(|| format!("slot-{slot}").into()),
        };
        self.attach(controller);
    }

    /// A plugin is replaced by another version of it: under the same name or a new one.
    fn swap(&mut self) {
        let ids: Vec<ControllerId> = self.controllers.keys().copied().collect();
        if let Some(id) = self.random.choice(ids)
            && let Some(controller) = self.detach(id)
        {
            if self.random.bool() {
                self.attach_as(id, controller);
            } else {
                self.attach(controller);
            }
        }
    }

    /// Nothing goes wrong any longer, but what is wrong by then may stay so.
    pub(super) fn calm(&mut self) {
        self.chaos = false;
        for server in 0..self.servers.len() {
            self.servers[server].down = server > 0 && self.servers[server].down && self.once_in(2);
            for resource in [Resource::ConfigMap, Resource::Node, Resource::Gadget, Resource::Output] {
                if !self.once_in(4) {
                    self.servers[server].set_access(resource, Access::Everywhere);
                }
            }
            for resource in [Resource::Namespace, Resource::Copy] {
                self.servers[server].set_access(resource, Access::Everywhere);
            }
        }
    }

    /// Lets everything come to rest.
    pub(super) fn rest(&mut self) {
        self.settle(REST);
    }

    /// Does all that there is to do, for so long.
    pub(super) fn settle(&mut self, time: Duration) {
        let end = self.now + time;
        self.trace.say_once(true);
        for _ in 0..RESTLESS {
            for server in &mut self.servers {
                server.keep_house();
            }
            let work = self.work();
            if self.violation.is_some() {
                return;
            } else if let Some(work) = self.random.choice(work) {
                self.go_on(work);
            } else if let Some(next) = self.core.next_tick().filter(|next| *next <= end) {
                self.pass(next.0.saturating_sub(self.now.0));
            } else {
                return self.pass(end.0.saturating_sub(self.now.0));
            }
        }
        self.violated("it does not come to rest".to_owned());
    }

    /// All that can go on.
    fn work(&self) -> Vec<Work> {
        let busy = self.streams.iter().filter(|(_, stream)| !self.is_idle(stream));
        let mut work: Vec<_> = busy.map(|(id, _)| Work::Stream(*id)).collect();
        work.extend(self.reads.keys().copied().map(Work::Read));
        work.extend(self.runs.iter().map(|_| Work::Run));
        work.extend(self.others());
        work
    }
}
