//! What must not happen at rest, what a single edit may lead to, and what is left when all has gone.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::actors::KUBECONFIGS;
use super::object::{Resource, named};
use super::server::Access;
use super::trace::{note, shown};
use super::world::{Controller, World};
use crate::{Fields, PrimaryKey, Query, RunResult};

/// Long after everything but the full pass.
const SILENCE: Duration = Duration::from_secs(60 * 60);

impl World {
    /// Time goes by, and nothing happens.
    pub(super) fn be_silent(&mut self) {
        let (before, versions) = (self.counted, self.versions());
        let runs = self.begun();
        self.settle(SILENCE);
        let restless = self.ran_since(&runs).into_iter().find(|key| !self.is_failing(key));
        if let Some(key) = restless {
            self.violated(format!("{} ran though nothing happened", shown(&key)));
        }
        let failing = self.ledger.records.keys().any(|key| self.is_failing(key));
        if self.counted.reads > before.reads && !failing && !self.is_looking() {
            self.violated("something was read though nothing happened".to_owned());
        }
        if self.versions() != versions && !failing {
            self.violated("something was written though nothing happened".to_owned());
        }
    }

    /// Whether anything is tried again and again since it cannot be seen.
    fn is_looking(&self) -> bool {
        self.servers.iter().any(|server| server.down)
    }

    fn versions(&self) -> Vec<u64> {
        self.servers.iter().map(|server| server.version).collect()
    }

    fn begun(&self) -> BTreeMap<PrimaryKey, Option<crate::RunId>> {
        let records = self.ledger.records.iter();
        records.map(|(key, record)| (key.clone(), record.begun)).collect()
    }

    fn ran_since(&self, runs: &BTreeMap<PrimaryKey, Option<crate::RunId>>) -> Vec<PrimaryKey> {
        let records = self.ledger.records.iter();
        records
            .filter(|(key, record)| runs.get(*key) != Some(&record.begun))
            .map(|(key, _)| key.clone())
            .collect()
    }

    /// Whether a primary is run again and again until it succeeds.
    fn is_failing(&self, key: &PrimaryKey) -> bool {
        let last = self.ledger.records.get(key).and_then(|record| record.last.as_ref());
        last.is_some_and(|last| {
            matches!(
                last.result,
                RunResult::Failed { permanent: false } | RunResult::WriteFailed
            )
        })
    }

    /// One edit is made. None but those run that it concerns.
    pub(super) fn nudge(&mut self) {
        let (before, runs, reads) = (self.outlook(), self.begun(), self.counted.reads);
        let (queries, watches) = (self.queries(), self.streams.keys().max().copied());
        let held = self.held_and_released;
        let server = self.random.usize(..self.servers.len());
        note!(self, "a single edit:");
        let version = self.servers[server].version;
        self.edit_source(server);
        // What is deleted and created anew may be run for in between, with fewer queries.
        let single = self.servers[server].version <= version + 1;
        self.rest();
        if self.violation.is_some() {
            return;
        }
        let after = self.outlook();
        // Of a primary that cannot be seen, nobody knows.
        let changed = |key: &PrimaryKey| before.get(key) != after.get(key) || !after.contains_key(key);
        let told_otherwise = |key: &PrimaryKey| self.controllers.get(&key.controller).is_none_or(|of| of.watches);
        let ran = self.ran_since(&runs);
        // What is released by one run and protected by the next looks the same before and after.
        let released = self.held_and_released > held;
        // One that failed depends on what its last good run asked for, too.
        let failed = |key: &PrimaryKey| {
            let last = self.ledger.records.get(key).and_then(|record| record.last.as_ref());
            last.is_some_and(|last| !matches!(last.result, RunResult::Done { .. }))
        };
        let needless = ran
            .iter()
            .find(|key| !changed(key) && !told_otherwise(key) && !failed(key) && !released);
        if let Some(key) = needless {
            return self.violated(format!(
                "{} ran though nothing that it asks for has changed",
                shown(key)
            ));
        }
        let failing = self.ledger.records.keys().any(|key| self.is_failing(key));
        if self.counted.reads > reads
            && self.queries() == queries
            && self.streams.keys().max().copied() <= watches
            && single
            && !failing
            && !self.is_looking()
        {
            self.violated("an edit led to a read, though nobody asks for anything new".to_owned());
        }
    }

    fn queries(&self) -> Vec<Vec<Query>> {
        let last = self.ledger.records.values().filter_map(|record| record.last.as_ref());
        last.map(|last| last.queries.clone()).collect()
    }

    /// For each primary, all that its last run's queries find now, and itself.
    fn outlook(&self) -> BTreeMap<PrimaryKey, String> {
        let mut outlook = BTreeMap::new();
        for there in self.primaries() {
            let record = self.ledger.records.get(&there.key);
            let asks = record.and_then(|record| record.last.as_ref()).map(|last| &last.asks);
            let found: Vec<_> = asks
                .into_iter()
                .flatten()
                .map(|asked| self.expected(there.home, asked))
                .collect();
            let itself = there.object.text(&Fields::Whole);
            outlook.insert(there.key, format!("{itself} {found:?}"));
        }
        outlook
    }

    /// All primaries are deleted, then all controllers detached. Nothing may be left.
    pub(super) fn tear_down(&mut self) {
        self.mend();
        self.rest();
        let guarded = self.guarded();
        let (forget, restart) = (self.random.bool(), self.random.bool());
        let mut forgot = false;
        for server in 0..self.servers.len() {
            for resource in [Resource::Copy, Resource::Bundle] {
                forgot |= self.delete_all(server, resource, forget);
            }
        }
        // After a restart, what a primary has protected is known only from what it says then.
        if restart && !forgot {
            self.restart();
        }
        self.rest();
        let counts = self.core.counts();
        if (counts.primaries, counts.queued, counts.running) != (0, 0, 0) && self.violation.is_none() {
            return self.violated(format!("all primaries have gone, and {counts:?}"));
        }
        self.check_released(&guarded);
        let ids: BTreeSet<_> = self.controllers.keys().copied().collect();
        for id in ids {
            self.detach(id);
        }
        self.rest();
        let counts = self.core.counts();
        let held = (
            counts.queries,
            counts.watches,
            counts.objects,
            self.streams.len(),
            counts.clusters,
        );
        if held != (0, 0, 0, 0, 1) {
            self.violated(format!("all has gone, and {counts:?}"));
        } else if self.core.next_tick().is_some() {
            self.violated("all has gone, and a timer is left".to_owned());
        }
    }

    /// Nothing keeps a primary from being finalized.
    fn mend(&mut self) {
        for server in &mut self.servers {
            server.down = false;
            for resource in Resource::ALL {
                server.set_access(resource, Access::Everywhere);
            }
        }
        for name in KUBECONFIGS {
            self.put(0, Resource::Secret, &named("n", name), |object| object.k = 0);
        }
    }

    /// Deletes all primaries of a kind. Some depend on nothing any longer by then: returns whether any does.
    fn delete_all(&mut self, server: usize, resource: Resource, forget: bool) -> bool {
        let names: Vec<_> = self.servers[server]
            .objects
            .keys()
            .filter(|(of, _)| *of == resource)
            .cloned()
            .collect();
        let mut forgot = false;
        for (resource, name) in names {
            let controllers = self
                .controllers
                .values()
                .filter(|of| self.home(of) == Some(server))
                .cloned();
            let controllers: Vec<_> = controllers.filter(|of| of.resource == resource).collect();
            let specs = &self.specs;
            let stays = |spec: &usize| !forget && specs.get(*spec).is_some_and(|spec| spec.can_go());
            let had = self.servers[server].objects[&(resource, name.clone())].spec;
            let spec = had.filter(stays);
            forgot |= had != spec;
            let marked = &mut false;
            self.put(server, resource, &name, |object| {
                object.spec = spec;
                let labels = &object.labels;
                object.finalizers.retain(|finalizer| {
                    let sets_it = |of: &Controller| of.finalizer.as_ref() == Some(finalizer);
                    controllers.iter().any(|of| sets_it(of) && of.selector.matches(labels))
                });
                *marked = !object.finalizers.is_empty();
            });
            // What has no finalizer goes without a run.
            forgot |= !*marked;
            self.delete(server, resource, &name);
        }
        forgot
    }
}
