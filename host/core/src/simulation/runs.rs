//! Runs: asked in rounds, writing one after the other, failing at any moment.

use std::rc::Rc;
use std::sync::Arc;

use super::ledger::LastRun;
use super::object::{Object, Resource, named, number, value};
use super::plugin::{Asked, Decision, Me, Spec, Told, Where, desired};
use super::trace::{note, reasons, shown};
use super::world::{Controller, PROTECTION, World};
use crate::{
    Finding, Finished, ObjectKey, PrimaryKey, Protection, Query, ReferenceSet, References, Releases, RunId, RunResult,
    Target, Wake, WriteRecord, WrittenObject,
};

pub(super) struct Running {
    pub(super) id: RunId,
    pub(super) key: PrimaryKey,
    pub(super) controller: Controller,
    pub(super) me: Me,
    /// The step at which it began.
    pub(super) begun: u64,
    pub(super) spec: Rc<Spec>,
    finalizing: bool,
    unmarked: bool,
    asks: Vec<Asked>,
    queries: Vec<Query>,
    told: Vec<Told>,
    phase: Phase,
    /// Whether anything that it wrote is another than before.
    changed: bool,
    written: Vec<WrittenObject>,
    reverted: Vec<ObjectKey>,
    /// Objects on servers that it has protected, and where it looked for them.
    protected: Vec<((usize, Arc<str>), Where)>,
    spec_number: Option<usize>,
}

enum Phase {
    /// The next round of references.
    Ask,
    /// Its finalizer is to be set on the primary.
    Mark,
    Protect,
    Write,
    /// All that it wrote for the primary is to be taken back.
    LetGo,
    /// These protected objects are to be released, then the primary's own finalizer is taken off.
    Release(Vec<(ObjectKey, Arc<str>)>),
    End(RunResult),
}

const DONE: RunResult = RunResult::Done {
    again_after: None,
    again: false,
};

impl World {
    pub(super) fn start_run(
        &mut self,
        (id, key): (RunId, PrimaryKey),
        text: &str,
        deleting: bool,
        wakes: &[Wake],
        last_writes: Option<WriteRecord>,
    ) {
        note!(self, "run {} of {} ({text}): {}", id.0, shown(&key), reasons(wakes));
        self.counted.runs += 1;
        let me = self.me(&key, text);
        self.check_begin(&key, &me.uid, wakes, last_writes.as_ref());
        let Some(controller) = self.controllers.get(&key.controller).cloned() else {
            return self.violated(format!("{} runs without a controller", key.name));
        };
        let finalizer = controller.finalizer.as_ref();
        let marked = finalizer.is_some_and(|finalizer| text.contains(&format!("finalizer={finalizer}")));
        let spec = number(text, "spec").and_then(|spec| self.specs.get(spec).cloned());
        self.ledger.begun(&key, &controller.primary(&key.name), &me.uid, id);
        self.runs.push(Running {
            id,
            me,
            begun: self.counted.steps,
            spec: spec.unwrap_or_default(),
            finalizing: deleting && marked,
            unmarked: finalizer.is_some() && !marked && !deleting,
            asks: Vec::new(),
            queries: Vec::new(),
            told: Vec::new(),
            phase: Phase::Ask,
            changed: false,
            written: Vec::new(),
            reverted: Vec::new(),
            protected: Vec::new(),
            spec_number: number(text, "spec"),
            controller,
            key,
        });
    }

    pub(super) fn me(&self, key: &PrimaryKey, text: &str) -> Me {
        let slot = self
            .controllers
            .get(&key.controller)
            .map_or(0, |controller| controller.slot);
        Me {
            uid: value(text, "uid").unwrap_or_default().into(),
            output: named("n", &format!("{slot}-{}", key.name.name)),
        }
    }

    pub(super) fn run_step(&mut self) {
        let mut run = self.runs.swap_remove(self.random.usize(..self.runs.len()));
        if self.goes_wrong(40) {
            note!(self, "run {} breaks off", run.id.0);
            run.phase = Phase::End(RunResult::Failed { permanent: false });
        }
        match std::mem::replace(&mut run.phase, Phase::Ask) {
            Phase::Ask => return self.ask(run),
            Phase::Mark => self.mark(&mut run),
            Phase::Protect => self.protect(&mut run),
            Phase::Write => self.write_all(&mut run),
            Phase::LetGo => {
                if !self.let_go(&mut run) {
                    return;
                }
            }
            Phase::Release(objects) => self.release(&mut run, objects),
            Phase::End(result) => return self.end(run, result),
        }
        self.runs.push(run);
    }

    fn ask(&mut self, mut run: Running) {
        let home = run.controller.cluster;
        let (asks, complete) = run.spec.references(&run.me, &run.told);
        let queries: Vec<_> = asks.iter().map(|asked| self.query(home, asked)).collect();
        self.ledger.named(&run.key, &run.me.uid, &queries);
        let set = ReferenceSet {
            queries: queries.clone(),
            join_keys: run.spec.join_keys.clone(),
            complete,
        };
        let findings = match self.core.references(run.id, set, self.now) {
            References::Answered(findings) => findings,
            References::Parked => return note!(self, "run {} waits", run.id.0),
            References::Gone => return note!(self, "run {} is gone", run.id.0),
            References::Unsettled => return self.violated(format!("{} names the same queries", run.key.name)),
        };
        run.told = findings.iter().map(told).collect();
        (run.asks, run.queries) = (asks, queries);
        note!(self, "run {} is told {:?}", run.id.0, run.told);
        if complete {
            run.phase = match run.spec.decide(&run.told) {
                Decision::Fail { permanent } => Phase::End(RunResult::Failed { permanent }),
                Decision::Write if run.finalizing => Phase::LetGo,
                Decision::Write if run.unmarked => Phase::Mark,
                Decision::Write => Phase::Protect,
            };
        }
        self.runs.push(run);
    }

    /// Writes an object, and notes what the server says of it. None if that failed; the flag says whether it changed.
    fn write_object(
        &mut self,
        run: &mut Running,
        object: &ObjectKey,
        change: impl FnOnce(&mut Object),
    ) -> Option<bool> {
        let server = self.connections.get(&object.cluster).copied()?;
        if self.servers[server].down {
            return None;
        }
        let resource = Resource::of(&object.kind);
        let (written, changed) = self.servers[server].put(resource, &object.name, change)?;
        // A first apply cannot be told from one that changes nothing.
        let own = changed && !(self.chaos && self.once_in(5));
        note!(
            self,
            "run {} wrote v{} {resource:?} {} own={own}",
            run.id.0,
            written.version,
            object.name
        );
        run.written.push(WrittenObject {
            object: object.clone(),
            metadata: written.metadata(),
            own,
        });
        if own {
            self.ledger.wrote(&run.key, object, written.clone());
        }
        run.changed |= changed;
        Some(changed)
    }

    /// The primary itself, if it is still the same on its server.
    fn primary_there(&self, run: &Running) -> Option<ObjectKey> {
        let key = run.controller.primary(&run.key.name);
        let server = *self.connections.get(&key.cluster)?;
        let object = self.servers[server]
            .objects
            .get(&(Resource::of(&key.kind), key.name.clone()))?;
        (object.uid == run.me.uid).then_some(key)
    }

    fn mark(&mut self, run: &mut Running) {
        let finalizer = run.controller.finalizer.clone();
        let marked = match (finalizer, self.primary_there(run)) {
            (Some(finalizer), Some(primary)) => self.write_object(run, &primary, |object| {
                if !object.deleting {
                    object.finalizers.insert(finalizer);
                }
            }),
            _ => None,
        };
        run.phase = if marked.is_some() {
            Phase::Protect
        } else {
            Phase::End(RunResult::WriteFailed)
        };
    }

    fn protect(&mut self, run: &mut Running) {
        run.phase = Phase::Write;
        let home = run.controller.cluster;
        let (mut objects, mut places) = (Vec::new(), Vec::new());
        for asked in run.spec.protected(&run.asks, &run.told) {
            let query = self.query(home, asked);
            if let Target::Named(name) = &query.target {
                objects.push(query.object(name));
                places.push(if asked.at == Where::Home {
                    run.controller.at
                } else {
                    asked.at
                });
            }
        }
        let stand = self.core.protect(run.id, &objects);
        for ((object, at), protection) in objects.iter().zip(places).zip(stand) {
            note!(self, "run {} protects {}: {protection:?}", run.id.0, object.name);
            match protection {
                Protection::Bare { uid } if !self.hold(run, object, &uid) => {
                    run.phase = Phase::End(RunResult::WriteFailed);
                    return;
                }
                Protection::Unqueried => self.violated(format!("{} is protected by its query", object.name)),
                Protection::Bare { .. } | Protection::Held => {
                    let server = self.connections.get(&object.cluster).copied();
                    let uid = self.core.uid(object).cloned();
                    run.protected.extend(server.zip(uid).map(|object| (object, at)));
                }
                Protection::Gone => {}
            }
        }
        if run.told.iter().all(Result::is_ok) {
            // What it protected before is no longer asked for, however this run ends.
            let primary = (run.controller.slot, &run.me.uid, run.spec_number);
            self.guards.protected(primary, run.protected.clone(), true);
        }
    }

    /// Sets the finalizer that protects an object, if it is still the same.
    fn hold(&mut self, run: &mut Running, object: &ObjectKey, uid: &str) -> bool {
        let server = self
            .connections
            .get(&object.cluster)
            .map(|server| &self.servers[*server]);
        let there = server.and_then(|server| server.objects.get(&(Resource::of(&object.kind), object.name.clone())));
        let same = there.is_some_and(|there| *there.uid == *uid && !there.deleting);
        if !same || self.goes_wrong(6) {
            return false;
        }
        let held = self.write_object(run, object, |object| {
            object.finalizers.insert(PROTECTION.into());
        });
        self.held_and_released += 1;
        held.is_some()
    }

    fn write_all(&mut self, run: &mut Running) {
        let mut result = DONE;
        if run.spec.writes && !self.write_output(run) {
            result = RunResult::WriteFailed;
        } else if run.spec.again && run.changed {
            result = RunResult::Done {
                again_after: None,
                again: true,
            };
        }
        // A status is written now and then. Nothing that a primary depends on follows from it.
        if self.chaos
            && self.once_in(4)
            && let Some(primary) = self.primary_there(run)
        {
            let value = self.random.u32(0..100);
            self.write_object(run, &primary, |object| object.other = value);
        }
        run.phase = Phase::End(result);
    }

    fn write_output(&mut self, run: &mut Running) -> bool {
        let wanted = desired(&run.asks, &run.told);
        let output = ObjectKey {
            cluster: run.controller.cluster,
            kind: Resource::Output.kind(),
            name: run.me.output.clone(),
        };
        if self.goes_wrong(6) {
            return false;
        }
        let owner = run.me.uid.clone();
        let put = self.write_object(run, &output, |object| {
            object.k = wanted;
            object.owners = [owner].into();
        });
        let again = self.ledger.wants(&run.key, wanted);
        if put == Some(true) && again {
            run.reverted.push(output);
        }
        put.is_some()
    }

    /// Returns whether the run goes on.
    fn let_go(&mut self, run: &mut Running) -> bool {
        match self.core.let_go(run.id, self.now) {
            Releases::Now(objects) => {
                note!(self, "run {} lets go of {}", run.id.0, objects.len());
                for (object, uid) in &objects {
                    self.check_release(object, uid, Some((run.controller.slot, &run.me.uid)));
                }
                run.phase = Phase::Release(objects);
                true
            }
            Releases::Later => {
                note!(self, "run {} has to wait before it lets go", run.id.0);
                false
            }
        }
    }

    fn release(&mut self, run: &mut Running, mut objects: Vec<(ObjectKey, Arc<str>)>) {
        if let Some((object, uid)) = objects.pop() {
            let released = !self.goes_wrong(6) && self.take_off(&object, &uid, &PROTECTION.into());
            run.phase = if released {
                Phase::Release(objects)
            } else {
                Phase::End(RunResult::WriteFailed)
            };
            return;
        }
        run.phase = Phase::End(DONE);
        let finalizer = run.controller.finalizer.clone();
        if let (Some(finalizer), Some(primary)) = (finalizer, self.primary_there(run)) {
            note!(self, "run {} takes its finalizer off", run.id.0);
            if !self.take_off(&primary, &run.me.uid, &finalizer) {
                run.phase = Phase::End(RunResult::WriteFailed);
            }
        }
    }

    fn end(&mut self, run: Running, result: RunResult) {
        note!(self, "run {} ends: {result:?}", run.id.0);
        let last = LastRun {
            id: run.id,
            begun: run.begun,
            asks: run.asks,
            queries: run.queries,
            told: run.told,
            result: result.clone(),
            written: run.written.clone(),
        };
        let only = matches!(result, RunResult::Done { .. }) && last.told.iter().all(Result::is_ok);
        self.guards
            .protected((run.controller.slot, &run.me.uid, run.spec_number), run.protected, only);
        self.ledger.ended(&run.key, &run.me.uid, last);
        let record: WriteRecord = Arc::new(run.id);
        let finished = Finished {
            last_writes: Some(record),
            written: run.written,
            reverted: run.reverted,
            ..Finished::new(result)
        };
        self.core.finish(run.id, finished, self.now);
    }
}

fn told(finding: &Finding) -> Told {
    match finding {
        Finding::Failed(failure) => Err(failure.reason),
        found => Ok(found.texts().collect()),
    }
}
