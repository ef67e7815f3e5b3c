//! What watches and reads tell.

use std::collections::BTreeSet;

use super::changes::{Lacking, Origin};
use super::queries::stands;
use super::{Core, Effect, Timer};
use crate::cache::Entry;
use crate::change::{Change, Metadata, State, Variant};
use crate::failure::{Failure, FailureReason};
use crate::name::{ClusterId, Kind, ObjectKey, ObjectName, Version};
use crate::query::QueryId;
use crate::query::{Fields, Namespaces, Query, Target};
use crate::reads::{ReadId, ReadRequest, ReadScope, Waiting};
use crate::registry::{QueryState, User};
use crate::selector::Selector;
use crate::time::Time;
use crate::watches::{WatchId, WatchKey, WatchState};

/// Group and kind of the objects that define kinds.
const DEFINITION: (&str, &str) = ("apiextensions.k8s.io", "CustomResourceDefinition");

impl Core {
    /// Tells that a watch stands: every change after `version` will be told. What its queries find is read only after this.
    ///
    /// A version below one that has been seen means that the collection went back in time: its data were restored from a
    /// backup, or the cluster is another one. Then nothing that is known counts, and differences enter as changes.
    pub fn watch_stands(&mut self, id: WatchId, version: Version, now: Time) {
        let Some(key) = self.watches.stream(id).cloned() else {
            return;
        };
        if self.watches.newest(&key) > version {
            self.begin_history_anew(key.cluster, &key.kind, Some(&key));
        }
        self.watches.saw(key.cluster, &key.kind, version);
        let Some(watch) = self.watches.get_mut(&key) else {
            return;
        };
        watch.state = WatchState::Standing(id);
        watch.failures = 0;
        let queries: Vec<QueryId> = watch.queries.iter().copied().collect();
        self.stop_awaiting_definition(&key, now);
        for id in queries {
            let Some(query) = self.registry.get(id).map(|entry| entry.query.clone()) else {
                continue;
            };
            if self.watch_states(id, &query).iter().all(stands) {
                self.begin_reads(id, &query);
            }
        }
    }

    /// Tells that a watch ended, that changes may have been missed, and that it can be started anew.
    pub fn watch_expired(&mut self, id: WatchId) {
        if let Some(key) = self.watches.stream(id).cloned() {
            self.restart_watch(&key);
        }
    }

    /// The versions that are known of a kind, and those that reads under way will bring, are of a history that is over.
    /// Its watches start anew, but for one that has just begun.
    fn begin_history_anew(&mut self, cluster: ClusterId, kind: &Kind, begun: Option<&WatchKey>) {
        self.cache.forget_versions(cluster, kind);
        self.watches.forget_versions(cluster, kind);
        self.reads.abandon(cluster, kind);
        self.primaries.lose_history();
        for writer in self.expected.forget_kind(cluster, kind) {
            self.write_seen(&writer);
        }
        for key in self.watches.of_kind(cluster, kind) {
            for id in self.queries_of(&key) {
                match self.registry.get_mut(id).map(|entry| &mut entry.state) {
                    Some(QueryState::Ready { floor }) => *floor = Version::default(),
                    // It is read when its watches stand.
                    Some(QueryState::Pending { reads, floor }) => (*reads, *floor) = (0, None),
                    Some(QueryState::Failed(_)) | None => {}
                }
            }
            let stands = self.watches.get(&key).is_some_and(|watch| stands(&watch.state));
            if stands && Some(&key) != begun {
                self.restart_watch(&key);
            }
        }
    }

    /// Tells that a watch cannot be started or went on failing. It is tried again after a while.
    pub fn watch_failed(&mut self, id: WatchId, failure: &Failure, now: Time) {
        if let Some(key) = self.watches.stream(id).cloned() {
            self.fail_watch(&key, failure, now);
        }
    }

    pub(super) fn fail_watch(&mut self, key: &WatchKey, failure: &Failure, now: Time) {
        let Some(ended) = self.watches.end(key, WatchState::Failed(failure.clone())) else {
            return;
        };
        self.effects.extend(ended.map(Effect::StopWatch));
        let Some(watch) = self.watches.get_mut(key) else { return };
        watch.failures += 1;
        let failures = watch.failures;
        let delay = self.retry_delay(failures);
        self.set_timer(now + delay, Timer::Watch(key.clone()));
        for id in self.queries_of(key) {
            self.fail_query(id, failure, now);
        }
        if failure.reason == FailureReason::NoSuchKind {
            self.await_definition(key, now);
        }
    }

    /// A kind that is not served depends on its CustomResourceDefinition.
    fn await_definition(&mut self, key: &WatchKey, now: Time) {
        let known = self
            .watches
            .get(key)
            .is_none_or(|watch| watch.definition.is_some() || watch.queries.is_empty());
        if known || key.kind.group().is_empty() || key.kind.group() == DEFINITION.0 {
            return;
        }
        let query = Query {
            cluster: key.cluster,
            kind: Kind::new(format!("{}/v1", DEFINITION.0), DEFINITION.1),
            target: Target::Selected {
                namespaces: Namespaces::All,
                selector: Selector::everything(),
            },
            // Its schemas may be large; the generation changes with them.
            fields: Fields::paths(["metadata.generation".into(), "status.conditions".into()]),
        };
        let definition = self.register(query, User::Watch(key.clone()), now);
        if let Some(watch) = self.watches.get_mut(key) {
            watch.definition = Some(definition);
        }
    }

    fn stop_awaiting_definition(&mut self, key: &WatchKey, now: Time) {
        if let Some(definition) = self.watches.get_mut(key).and_then(|watch| watch.definition.take()) {
            self.unregister(definition, &User::Watch(key.clone()), now);
        }
    }

    /// Forgets a watch, with what it waits for.
    pub(super) fn forget_watch(&mut self, key: &WatchKey, now: Time) {
        self.stop_awaiting_definition(key, now);
        self.effects.extend(self.watches.forget(key).map(Effect::StopWatch));
    }

    /// A definition appeared or changed. A definition is named for its plural and its group.
    pub(super) fn definition_changed(&mut self, key: &WatchKey, name: &str) {
        if name.split_once('.').is_some_and(|(_, group)| group == key.kind.group()) {
            // The API server serves a kind a moment after it says so, so this may have to be tried again soon.
            if let Some(watch) = self.watches.get_mut(key) {
                watch.failures = 0;
            }
            self.retry_watch(key);
        }
    }

    fn queries_of(&self, key: &WatchKey) -> Vec<QueryId> {
        self.watches
            .get(key)
            .into_iter()
            .flat_map(|watch| watch.queries.iter().copied())
            .collect()
    }

    pub(super) fn retry_watch(&mut self, key: &WatchKey) {
        let failed = self
            .watches
            .get(key)
            .is_some_and(|watch| matches!(watch.state, WatchState::Failed(_)));
        if failed && self.is_connected(key.cluster) {
            self.restart_watch(key);
        }
    }

    pub(super) fn watch_lingered(&mut self, key: &WatchKey, now: Time) {
        if self.watches.get(key).is_some_and(|watch| watch.queries.is_empty()) {
            self.forget_watch(key, now);
        }
    }

    /// Tells what a read found: the version of the collection, and the objects with the variants that were asked for.
    pub fn read_done(
        &mut self,
        id: ReadId,
        version: Version,
        objects: Vec<(ObjectName, Metadata, Vec<Variant>)>,
        now: Time,
    ) {
        let Some(read) = self.reads.finish(id) else { return };
        let request = read.request;
        let key = |name: &ObjectName| request.object(name);
        if objects
            .iter()
            .any(|(name, metadata, _)| self.contradicts(&key(name), metadata, version))
        {
            return self.begin_history_anew(request.cluster, &request.kind, None);
        }
        self.watches.saw(request.cluster, &request.kind, version);
        let mut listed = BTreeSet::new();
        for (name, metadata, variants) in objects {
            if read.gone.get(&name).is_some_and(|gone| *gone >= metadata.version) {
                continue;
            }
            let change = Change {
                object: key(&name),
                state: State::Present { metadata, variants },
            };
            if let Err(Lacking(fields)) = self.merge(change, Origin::Read, now) {
                self.await_object(read.waiting, &key(&name), fields);
            }
            listed.insert(name);
        }
        match &request.scope {
            ReadScope::Named(name) if listed.is_empty() => {
                let change = Change {
                    object: key(name),
                    state: State::Absent { version },
                };
                self.merge_or_read(change, Origin::Read, now);
            }
            ReadScope::Named(_) => {}
            ReadScope::Selected { namespace, selector } => {
                // What is cached as selected but was not listed has gone or was relabelled: which of the two, a read
                // by name tells.
                let namespaces = namespace
                    .clone()
                    .map_or(Namespaces::All, |name| Namespaces::listed([name]));
                let unlisted: Vec<_> = self
                    .cache
                    .present(request.cluster, &request.kind, &namespaces)
                    .filter(|(name, object)| {
                        selector.matches(&object.metadata.labels)
                            && object.metadata.version <= version
                            && !listed.contains(*name)
                    })
                    .map(|(name, object)| (key(name), self.wanted(&key(name), &object.metadata)))
                    .collect();
                for (object, fields) in unlisted {
                    self.await_object(read.waiting, &object, fields);
                }
            }
        }
        if let Some(waiting) = read.waiting {
            self.query_read(waiting, version, now);
        }
    }

    /// Whether a list says of an object what cannot be: that it is older than it was known to be at a version that the list
    /// has seen. Then the collection went back in time and has since come further than before.
    fn contradicts(&self, object: &ObjectKey, metadata: &Metadata, listed_at: Version) -> bool {
        let cached = self.cache.get(object).map(Entry::version);
        cached.is_some_and(|cached| metadata.version < cached && cached <= listed_at)
    }

    /// Tells that a read failed. Its query fails with it, and is read again after a while, unless it makes no sense: then
    /// it would fail again.
    pub fn read_failed(&mut self, id: ReadId, failure: &Failure, now: Time) {
        let Some(read) = self.reads.finish(id) else { return };
        let Some(Waiting { query, round }) = read.waiting else {
            let delay = self.retry_delay(1);
            self.set_timer(now + delay, Timer::Read(read.request));
            return;
        };
        let Some(entry) = self.registry.get_mut(query).filter(|entry| entry.round == round) else {
            return;
        };
        entry.failures += 1;
        let failures = entry.failures;
        self.fail_query(query, failure, now);
        if failure.reason != FailureReason::Invalid {
            let delay = self.retry_delay(failures);
            self.set_timer(now + delay, Timer::Query(query, round));
        }
    }

    pub(super) fn retry_query(&mut self, id: QueryId, round: u32) {
        let Some(entry) = self.registry.get(id).filter(|entry| entry.round == round) else {
            return;
        };
        let query = entry.query.clone();
        if self.watch_states(id, &query).iter().all(stands) {
            self.begin_reads(id, &query);
        }
    }

    /// Reads an object once more, if anybody still asks for it.
    pub(super) fn retry_read(&mut self, request: ReadRequest) {
        if let ReadScope::Named(name) = &request.scope {
            let object = request.object(name);
            if self.cache.get(&object).is_some() || !self.registry.by_name(&object).is_empty() {
                self.reads.push(request, None);
            }
        }
    }
}
