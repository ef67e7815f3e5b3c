//! What watches and reads tell.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::changes::{Lacking, Origin};
use super::{Core, Effect, Timer};
use crate::change::{Change, Metadata, State, Variant};
use crate::failure::{Failure, FailureReason};
use crate::name::{ClusterId, Kind, ObjectKey, ObjectName, Version};
use crate::planted::Planted;
use crate::query::{Criterion, Fields, Namespaces, Query, QueryId, Target};
use crate::reads::{Part, ReadId, ReadScope, Waiting};
use crate::registry::{QueryState, Registered};
use crate::selector::Selector;
use crate::time::Time;
use crate::users::User;
use crate::watches::{WatchId, WatchKey, WatchState, needs};

/// Group and kind of the objects that define kinds.
const DEFINITION: (&str, &str) = ("apiextensions.k8s.io", "CustomResourceDefinition");

/// How long a scope that a cluster refused is not tried again. Narrower watches serve meanwhile.
const REFUSED: Duration = Duration::from_secs(10 * 60);

impl Core {
    /// Tells that a watch stands: every change after `version` will be told. What its queries find is read only after this.
    ///
    /// A version below one that was seen before the watch was begun means that the collection went back in time: its data
    /// were restored from a backup, or the cluster is another one. Then nothing that is known counts, and differences enter as
    /// changes.
    pub fn watch_stands(&mut self, id: WatchId, version: Version, now: Time) {
        let Some(key) = self.watches.stream(id).cloned() else {
            return;
        };
        if self.watches.get(&key).is_some_and(|watch| watch.begun_at > version) {
            self.begin_history_anew(key.cluster, &key.kind, Some(&key), now);
        }
        self.watches.saw(key.cluster, &key.kind, version);
        if self.watches.allow(&key) {
            self.move_to(&key, now);
        }
        let Some(watch) = self.watches.get_mut(&key) else {
            return;
        };
        watch.state = WatchState::Standing(id);
        watch.stands_since = version;
        watch.failures = 0;
        let queries: Vec<QueryId> = watch.queries.iter().copied().collect();
        self.stop_awaiting_definition(&key, now);
        for id in queries {
            let stand = self
                .registry
                .get(id)
                .is_some_and(|entry| self.watches.all_stand(id, entry));
            if stand {
                self.begin_reads(id, now);
            }
            self.settle(id, now);
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
    fn begin_history_anew(&mut self, cluster: ClusterId, kind: &Kind, begun: Option<&WatchKey>, now: Time) {
        self.cache.forget_versions(cluster, kind);
        self.watches.forget_versions(cluster, kind);
        self.reads.abandon(cluster, kind);
        self.primaries.lose_history();
        self.concerns.forget_versions(cluster, kind);
        for writer in self.expected.forget_kind(cluster, kind) {
            self.write_seen(&writer, now);
        }
        for key in self.watches.of_kind(cluster, kind) {
            for id in self.queries_of(&key) {
                match self.registry.get_mut(id).map(|entry| &mut entry.state) {
                    Some(QueryState::Ready { floor }) => *floor = Version::default(),
                    // It is read when its watches stand.
                    Some(QueryState::Pending { .. }) => {
                        self.registry.begin_round(id);
                        self.set_pending(id);
                    }
                    Some(QueryState::Failed(_)) | None => {}
                }
            }
            let stands = self
                .watches
                .get(&key)
                .is_some_and(|watch| matches!(watch.state, WatchState::Standing(_)));
            if stands && Some(&key) != begun {
                self.restart_watch(&key);
            }
        }
    }

    /// Tells that a watch cannot be started or went on failing. It is tried again after a while. If the cluster refuses it
    /// and narrower ones can do instead, they do.
    pub fn watch_failed(&mut self, id: WatchId, failure: &Failure, now: Time) {
        if let Some(key) = self.watches.stream(id).cloned() {
            self.fail_watch(&key, failure, now);
        }
    }

    fn fail_watch(&mut self, key: &WatchKey, failure: &Failure, now: Time) {
        let Some(ended) = self.watches.end(key, WatchState::Failed(failure.clone())) else {
            return;
        };
        self.effects.extend(ended.map(Effect::StopWatch));
        if key.may_be_refused(failure) {
            self.do_without(key, now);
        }
        let Some(watch) = self.watches.get_mut(key) else { return };
        watch.failures += 1;
        let failures = watch.failures;
        let delay = self.retry_delay(failures);
        self.set_timer(now + delay, Timer::Watch(key.clone()));
        self.fail_queries_of(key, failure, now);
        if failure.reason == FailureReason::NoSuchKind {
            self.await_definition(key, now);
        }
    }

    /// Fails those queries of a watch that no other watch serves.
    pub(super) fn fail_queries_of(&mut self, key: &WatchKey, failure: &Failure, now: Time) {
        for id in self.queries_of(key) {
            let served = self
                .registry
                .get(id)
                .is_some_and(|entry| self.watches.all_stand(id, entry));
            if !served {
                self.fail_unwatched(id, failure, now);
            }
        }
    }

    /// Serves by narrower watches what does not need all that a refused one would show.
    fn do_without(&mut self, key: &WatchKey, now: Time) {
        if self.watches.refuse(key) {
            self.set_timer(now + REFUSED, Timer::Allow(key.clone()));
        }
        for id in self.queries_of(key) {
            let Some(entry) = self.registry.get(id).filter(|entry| !needs(entry).contains(&key.scope)) else {
                continue;
            };
            // What narrower watches have served all along is not read for this.
            let served = self.watches.all_stand(id, entry);
            self.watches.take_off(id, key);
            self.attach_query(id, now);
            let still = |entry: &Registered| self.watches.all_stand(id, entry);
            if !(served && self.registry.get(id).is_some_and(still)) {
                self.evaluate(id, now);
            }
        }
        if self.watches.get(key).is_some_and(|watch| watch.queries.is_empty()) {
            self.forget_watch(key, now);
        }
    }

    /// A scope that was refused may be tried again. Where many narrower watches serve in its place, it is at once.
    pub(super) fn allow_watch(&mut self, key: &WatchKey, now: Time) {
        self.watches.allow(key);
        if self.watches.widen(key) {
            self.start_watch(key);
            self.move_to(key, now);
        }
    }

    /// Lets a wide watch serve what narrower ones serve.
    fn move_to(&mut self, key: &WatchKey, now: Time) {
        for id in self.watches.served_by_narrower(key) {
            self.attach_query(id, now);
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
            target: Target::selected(Namespaces::All, Criterion::Labels(Selector::everything())),
            // Its schemas may be large; the generation changes with them.
            fields: Fields::paths(["metadata.generation".into(), "status.conditions".into()]),
        };
        let definition = self.register(query, User::Watch(Arc::new(key.clone())), now);
        if let Some(watch) = self.watches.get_mut(key) {
            watch.definition = Some(definition);
        }
    }

    fn stop_awaiting_definition(&mut self, key: &WatchKey, now: Time) {
        if let Some(definition) = self.watches.get_mut(key).and_then(|watch| watch.definition.take()) {
            self.unregister(definition, &User::Watch(Arc::new(key.clone())), now);
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

    /// A watch that few queries need, or none, has lingered.
    pub(super) fn watch_lingered(&mut self, key: &WatchKey, now: Time) {
        let Some(watch) = self.watches.get(key) else { return };
        if watch.queries.is_empty() {
            self.forget_watch(key, now);
        } else if self.watches.should_narrow(key, |id| self.registry.get(id)) {
            self.narrow(key, now);
        }
    }

    /// Ends a query's move, if it can. What it leaves falls at once if nobody else needs it.
    fn settle(&mut self, id: QueryId, now: Time) {
        let left = self.registry.get(id).map(|entry| self.watches.settle(id, entry));
        for left in left.unwrap_or_default() {
            if self.watches.get(&left).is_some_and(|watch| watch.queries.is_empty()) {
                self.forget_watch(&left, now);
            } else {
                self.let_linger(left, now);
            }
        }
        // It may have waited for a watch that it has left.
        let waits = |entry: &Registered| matches!(entry.state, QueryState::Pending { reads: 0, .. });
        if self.registry.get(id).is_some_and(waits) {
            self.evaluate(id, now);
        }
    }

    /// Moves what few queries are left on a wide watch to narrower ones. Other wide watches of these queries give way at once,
    /// or each would be chosen again in place of the others.
    fn narrow(&mut self, key: &WatchKey, now: Time) {
        let mut wide = vec![key.clone()];
        for id in self.queries_of(key) {
            let watches = self.registry.get(id).map(|entry| self.watches.of_query(id, entry));
            for other in watches.unwrap_or_default() {
                if !wide.contains(&other) && self.watches.should_narrow(&other, |id| self.registry.get(id)) {
                    wide.push(other);
                }
            }
        }
        let queries: BTreeSet<QueryId> = wide.iter().flat_map(|key| self.queries_of(key)).collect();
        let aside: Vec<_> = wide
            .iter()
            .filter_map(|key| Some((key, self.watches.set_aside(key)?)))
            .collect();
        let avoided = queries
            .iter()
            .filter_map(|id| self.registry.get(*id))
            .all(|entry| wide.iter().all(|key| self.watches.avoids(key, entry)));
        if avoided {
            for id in &queries {
                self.attach_query(*id, now);
                if let Some(entry) = self.registry.get(*id) {
                    self.watches.move_from(*id, entry);
                }
            }
        }
        for (key, watch) in aside {
            self.watches.put_back(key, watch);
        }
        if avoided {
            for id in queries {
                self.settle(id, now);
            }
        }
    }

    /// Tells a page of what a read found: the version of the collection, and objects with the variants that
    /// [`Core::wanted`] named. Those that nobody wants may be left out, but for one that is read by its name: it would count
    /// as not there.
    pub fn read_page(
        &mut self,
        id: ReadId,
        version: Version,
        objects: Vec<(ObjectName, Metadata, Vec<Variant>)>,
        now: Time,
    ) {
        let Some(read) = self.reads.get(id) else { return };
        let request = read.request.clone();
        let key = |name: &ObjectName| request.object(name);
        if version < read.begun_at
            || objects
                .iter()
                .any(|(name, metadata, _)| self.contradicts(&key(name), metadata, version))
        {
            return self.begin_history_anew(request.cluster, &request.kind, None, now);
        }
        for (name, metadata, variants) in objects {
            let Some(read) = self.reads.get_mut(id) else { return };
            if read.gone.get(&name).is_some_and(|gone| *gone >= metadata.version) {
                continue;
            }
            read.listed.insert(name.clone());
            self.correct(&key(&name), &metadata, &variants);
            let found = metadata.clone();
            let change = Change {
                object: key(&name),
                state: State::Present { metadata, variants },
            };
            if let Err(Lacking(_)) = self.merge(change, Origin::Read, now) {
                self.await_found(id, &key(&name), &found);
            }
        }
    }

    /// An object that a read has found must be read by itself before the queries that find it are answered.
    fn await_found(&mut self, id: ReadId, object: &ObjectKey, metadata: &Metadata) {
        let matching = self.registry.matching(object, metadata);
        let Some(read) = self.reads.get(id) else { return };
        let waiting = read.waiting_among(&matching);
        self.await_object(&waiting, object);
    }

    /// Tells that a read is complete: it has seen the collection at this version, and has told all that it found.
    pub fn read_done(&mut self, id: ReadId, version: Version, now: Time) {
        let Some(read) = self.reads.finish(id) else { return };
        let request = read.request.clone();
        if version < read.begun_at {
            return self.begin_history_anew(request.cluster, &request.kind, None, now);
        }
        self.watches.saw(request.cluster, &request.kind, version);
        for part in &read.parts {
            if let ReadScope::Named(name) = &part.scope {
                self.reads.forget_failures(&request.object(name));
            }
        }
        let absent = |part: &Part| match &part.scope {
            ReadScope::Named(name) if !read.listed.contains(name) => Some(request.object(name)),
            ReadScope::Named(_) | ReadScope::Selected { .. } => None,
        };
        let gone: BTreeSet<ObjectKey> = read.parts.iter().filter_map(absent).collect();
        // At the version at which it was seen, it cannot be absent.
        if gone.iter().any(|object| self.observed(object) == Some(version)) {
            return self.begin_history_anew(request.cluster, &request.kind, None, now);
        }
        for object in gone {
            let state = State::Absent { version };
            self.merge_or_read(Change { object, state }, Origin::Read, now);
        }
        if let ReadScope::Selected { namespace, selector } = &request.scope {
            // What is cached as selected but was not listed has gone or was relabelled: which of the two, a read by name tells.
            let criterion = Criterion::Labels(selector.clone());
            let unlisted: Vec<(ObjectKey, Metadata)> = self
                .cache
                .selected_in(
                    request.cluster,
                    &request.kind,
                    &criterion,
                    namespace.as_ref().map(|name| vec![name]),
                )
                .filter(|(name, object)| object.metadata.version <= version && !read.listed.contains(*name))
                .map(|(name, object)| (request.object(name), object.metadata.clone()))
                .filter(|_| !self.planted(Planted::LostDeletionsAfter410))
                .collect();
            for (object, metadata) in unlisted {
                let matching = self.registry.matching(&object, &metadata);
                self.await_object(&read.waiting_among(&matching), &object);
            }
        }
        for waiting in read.parts.iter().filter_map(|part| part.waiting) {
            self.query_read(waiting, version, now);
        }
    }

    /// Whether a list says of an object what cannot be: that it is older than it was known to be, or not to be, at a version that
    /// the list has seen, or another object at the same version. Then the collection went back in time and has since come further
    /// than before.
    fn contradicts(&self, object: &ObjectKey, metadata: &Metadata, listed_at: Version) -> bool {
        let Some(cached) = self.cache.get(object) else {
            // It was not there when a later state was seen, and now it is.
            return self.seen_since(object, metadata).is_some_and(|seen| seen <= listed_at);
        };
        match cached.version().cmp(&metadata.version) {
            Ordering::Less => false,
            Ordering::Equal => cached
                .present()
                .is_some_and(|cached| cached.metadata.uid != metadata.uid),
            Ordering::Greater => cached.version() <= listed_at,
        }
    }

    /// A read may show another text at the version that is known: data were restored, or a converter or an aggregated server
    /// does not say the same each time. It is taken for a change of that object, of a version that nobody knows.
    fn correct(&mut self, object: &ObjectKey, metadata: &Metadata, variants: &[Variant]) {
        let differs = self.cache.present(object).is_some_and(|cached| {
            let another = |variant: &Variant| cached.text(&variant.fields).is_some_and(|text| *text != variant.text);
            cached.metadata.version == metadata.version && variants.iter().any(another)
        });
        if differs {
            self.cache.forget_version(object);
        }
    }

    /// Tells that a read failed. Its queries fail with it, and are read again after a while, unless it makes no sense: then
    /// it would fail again.
    pub fn read_failed(&mut self, id: ReadId, failure: &Failure, now: Time) {
        let Some(read) = self.reads.finish(id) else { return };
        for part in &read.parts {
            match (part.waiting, &part.scope) {
                (Some(waiting), _) => self.part_failed(waiting, failure, now),
                (None, ReadScope::Named(name)) => self.object_failed(read.request.object(name), failure, now),
                (None, ReadScope::Selected { .. }) => {}
            }
        }
    }

    fn object_failed(&mut self, object: ObjectKey, failure: &Failure, now: Time) {
        if failure.reason == FailureReason::Invalid {
            return self.reads.forget_failures(&object);
        }
        let failures = self.reads.object_failed(&object);
        let delay = self.retry_delay(failures);
        self.set_timer(now + delay, Timer::Read(object));
    }

    fn part_failed(&mut self, waiting: Waiting, failure: &Failure, now: Time) {
        let Waiting { query, round } = waiting;
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

    pub(super) fn retry_query(&mut self, id: QueryId, round: u64, now: Time) {
        let Some(entry) = self.registry.get(id).filter(|entry| entry.round == round) else {
            return;
        };
        if self.watches.all_stand(id, entry) {
            self.begin_reads(id, now);
        }
    }

    /// Reads an object once more, if anybody still asks for it.
    pub(super) fn retry_read(&mut self, object: &ObjectKey) {
        // When its cluster is connected again, or a query that failed can be read, all that is asked for there is read.
        let asking = match self.cache.present(object) {
            Some(present) => self.registry.matching(object, &present.metadata),
            None => self.registry.by_name(object).collect(),
        };
        let asked_for = asking
            .iter()
            .filter_map(|id| self.registry.get(*id))
            .any(|entry| !entry.has_failed());
        if asked_for && self.is_connected(object.cluster) {
            self.read_object(object);
        } else {
            self.reads.forget_failures(object);
        }
    }
}
