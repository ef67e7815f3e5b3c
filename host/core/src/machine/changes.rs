//! Changes: merged by version, turned into wakes by the index.

use std::sync::Arc;
use std::time::Duration;

use super::dependents::Cause;
use super::{Core, Timer};
use crate::cache::{Entry, Object};
use crate::change::{Change, Metadata, State, Variant};
use crate::circles::Way;
use crate::expected::Expected;
use crate::name::{ObjectKey, PrimaryKey, Version};
use crate::planted::Planted;
use crate::query::{Fields, Query, QueryId, Target};
use crate::reads::{Part, ReadScope};
use crate::registry::{QueryState, Registered, Was};
use crate::time::Time;
use crate::users::User;
use crate::wake::Wake;
use crate::watches::{Content, WatchId, content_of};

/// How long a deletion is remembered where nobody asks for the object by name: longer than one watch lags behind another.
const TOMBSTONE: Duration = Duration::from_secs(120);

/// Where a state comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// A watch, which tells every change after this version.
    Event(Version),
    /// A read, which may have passed over versions.
    Read,
}

/// A change as it is told to those whom it concerns.
struct Told<'a> {
    object: &'a ObjectKey,
    /// None if it may be more than one change: what a read or a new stream shows may have passed over versions.
    version: Option<Version>,
    before: Option<&'a Object>,
    after: Option<&'a Object>,
    /// The primary whose own write it is.
    writer: Option<Arc<PrimaryKey>>,
    /// The way that it came, if a run wrote it.
    way: Option<Arc<Way>>,
}

/// An object must come anew, with all that these queries ask for.
pub(super) struct Lacking(pub(super) Vec<QueryId>);

impl Core {
    /// The variants that a change of this object must carry. None means that nobody asks for it: the change should be
    /// told all the same, without any.
    pub fn wanted(&self, object: &ObjectKey, metadata: &Metadata) -> Vec<Fields> {
        self.registry.fields(&self.registry.matching(object, metadata))
    }

    /// Tells an object's state, from the event of a watch. What a stream says after it was ended is ignored.
    pub fn changed(&mut self, stream: WatchId, change: Change, now: Time) {
        let Some(key) = self.watches.stream(stream) else {
            return;
        };
        let content = key.content;
        let since = self
            .watches
            .get(key)
            .map(|watch| watch.stands_since)
            .unwrap_or_default();
        let object = change.object.clone();
        if let Err(Lacking(queries)) = self.merge(change, Origin::Event(since), now)
            && !(content == Content::Metadata && self.are_told(&queries))
        {
            self.read_object(&object);
        }
    }

    /// Whether queries are told of every change by watches of their own.
    fn are_told(&self, queries: &[QueryId]) -> bool {
        let mut entries = queries.iter().filter_map(|id| Some((*id, self.registry.get(*id)?)));
        entries.all(|(id, entry)| content_of(&entry.query) == Content::Whole && self.watches.all_stand(id, entry))
    }

    /// Merges a state; an object that must be read anew first is read.
    pub(super) fn merge_or_read(&mut self, change: Change, origin: Origin, now: Time) {
        let object = change.object.clone();
        if let Err(Lacking(_)) = self.merge(change, origin, now) {
            self.read_object(&object);
        }
    }

    /// Merges a state, and wakes whom it concerns.
    ///
    /// # Errors
    /// A query came while the object's text was made, and wants more than that. Nothing was merged.
    pub(super) fn merge(&mut self, change: Change, origin: Origin, now: Time) -> Result<(), Lacking> {
        let Change { object, state } = change;
        let version = state.version();
        self.watches.saw(object.cluster, &object.kind, version);
        if let State::Present { metadata, variants } = &state
            && self.observed(&object) == Some(metadata.version)
        {
            self.complete(&object, variants, now);
        }
        if !self.is_news(&object, &state) {
            let seen = self.expected.seen(&object, version);
            self.writes_seen(&seen, now);
            return Ok(());
        }

        let before = self.cache.present(&object).cloned();
        let after = match state {
            State::Present { metadata, variants } => Some(Object { metadata, variants }),
            State::Absent { .. } => None,
        };
        let found = |object: &ObjectKey, state: &Option<Object>| match state {
            Some(state) => self.registry.matching(object, &state.metadata),
            None => Vec::new(),
        };
        let (mut found_before, found_after) = (found(&object, &before), found(&object, &after));
        if self.planted(Planted::NewLabelsOnly) && after.is_some() {
            found_before.clone_from(&found_after);
        }
        if self.planted(Planted::RegisterAfterRead) && matches!(origin, Origin::Event(_)) {
            let answered = |id: &QueryId| !self.registry.is_pending(*id);
            if !found_after.is_empty() && !found_after.iter().any(answered) {
                return Ok(());
            }
        }
        if let Some(after) = &after {
            let lacking = self.lacking(&found_after, after);
            if !lacking.is_empty() {
                return Err(Lacking(lacking));
            }
        }
        let kept = after.clone().filter(|_| !found_after.is_empty());
        self.keep(&object, version, kept, before.is_some(), now);

        let mut ids = found_before.clone();
        ids.extend(&found_after);
        ids.sort_unstable();
        ids.dedup();
        let alone = self.follows(origin, before.as_ref(), &ids);
        let seen = self.expected.seen(&object, version);
        let exact = seen.iter().find(|expected| expected.version == version);
        let told = Told {
            object: &object,
            version: alone.then_some(version),
            before: before.as_ref(),
            after: after.as_ref(),
            // The event of a write is its writer's own. What may hold what others wrote besides wakes the writer too.
            writer: exact
                .filter(|expected| expected.own && alone)
                .map(|expected| expected.writer.clone()),
            way: exact
                .map(|expected| expected.way.clone())
                .or_else(|| self.way_of_writers(&object)),
        };
        for id in ids {
            let before = told.before.filter(|_| found_before.binary_search(&id).is_ok());
            let after = told.after.filter(|_| found_after.binary_search(&id).is_ok());
            if self
                .registry
                .get(id)
                .is_some_and(|entry| differs(&entry.query, before, after) && !self.is_mistaken(before, after))
            {
                self.notify(id, &told, before, after, now);
            }
        }
        self.check_protected(&object, after.as_ref().map(|after| &after.metadata), now);
        self.writes_seen(&seen, now);
        Ok(())
    }

    /// Whether nothing happened to an object between the state that is known and the one that is told.
    fn follows(&self, origin: Origin, before: Option<&Object>, ids: &[QueryId]) -> bool {
        let Origin::Event(since) = origin else {
            return false;
        };
        let seen = |id: &QueryId| {
            let state = self.registry.get(*id).map(|entry| &entry.state);
            matches!(state, Some(QueryState::Ready { floor }) if *floor >= since)
        };
        before.is_some_and(|before| before.metadata.version >= since) || ids.iter().all(seen)
    }

    /// Whether an object that was created anew is taken for the one that it replaces.
    fn is_mistaken(&self, before: Option<&Object>, after: Option<&Object>) -> bool {
        let another = before
            .zip(after)
            .is_some_and(|(before, after)| before.metadata.uid != after.metadata.uid);
        another && self.planted(Planted::RecreatedUid)
    }

    fn writes_seen(&mut self, seen: &[Expected], now: Time) {
        for expected in seen {
            self.write_seen(&expected.writer, now);
        }
    }

    /// The way on from a run that is writing an object, whose response has not come yet.
    fn way_of_writers(&mut self, object: &ObjectKey) -> Option<Arc<Way>> {
        let runs = self.writing.get(object)?.clone();
        let ways = runs
            .into_iter()
            .filter_map(|run| self.primaries.run_mut(run).map(|(_, run)| run.way.clone()));
        ways.fold(None, |longest, way| Way::longer(longest, Some(way)))
    }

    /// Adds variants that are missing of an object at the version that is known. For queries that want them, it appears.
    fn complete(&mut self, object: &ObjectKey, variants: &[Variant], now: Time) {
        let Some(kept) = self.cache.variants_mut(object) else {
            return;
        };
        let known: Vec<Fields> = kept.iter().map(|variant| variant.fields.clone()).collect();
        let is_new = |variant: &&Variant| !known.contains(&variant.fields);
        kept.extend(variants.iter().filter(is_new).cloned());
        if kept.len() == known.len() {
            return;
        }
        let Some(present) = self.cache.present(object).cloned() else {
            return;
        };
        let told = Told {
            object,
            version: None,
            before: None,
            after: Some(&present),
            writer: None,
            way: None,
        };
        for id in self.registry.matching(object, &present.metadata) {
            let fields = self.registry.get(id).map(|entry| &entry.query.fields);
            if fields.is_some_and(|fields| !known.contains(fields) && present.text(fields).is_some()) {
                self.notify(id, &told, None, Some(&present), now);
            }
        }
    }

    /// Whether a state is newer than what is known.
    fn is_news(&self, object: &ObjectKey, state: &State) -> bool {
        let Some(cached) = self.cache.get(object) else {
            let State::Present { metadata, .. } = state else {
                return true;
            };
            return self.seen_since(object, metadata).is_none();
        };
        match (cached, state) {
            // An object that went out of sight may be asked for by name since: then it is there at that version.
            (Entry::Absent { version }, State::Present { metadata, .. }) => *version <= metadata.version,
            _ => cached.version() < state.version() || self.planted(Planted::OlderOverNewer),
        }
    }

    /// The version up to which a query that would find an object has seen its collection, if that is later than the object's:
    /// then one that is not cached is known to have gone since.
    pub(super) fn seen_since(&self, object: &ObjectKey, metadata: &Metadata) -> Option<Version> {
        let found = self.registry.matching(object, metadata);
        let floors = found.iter().filter_map(|id| match self.registry.get(*id)?.state {
            QueryState::Ready { floor } if floor >= metadata.version => Some(floor),
            _ => None,
        });
        floors.min()
    }

    /// The queries that want fields of an object that it does not carry. One that has failed is read when it can be.
    fn lacking(&self, found: &[QueryId], object: &Object) -> Vec<QueryId> {
        let lacks = |id: &QueryId| {
            self.registry.get(*id).is_some_and(|entry| {
                object.text(&entry.query.fields).is_none() && !matches!(entry.state, QueryState::Failed(_))
            })
        };
        found.iter().copied().filter(lacks).collect()
    }

    fn keep(&mut self, object: &ObjectKey, version: Version, after: Option<Object>, was_there: bool, now: Time) {
        if let Some(after) = after {
            self.cache.insert(object, Entry::Present(Box::new(after)));
            return;
        }
        if !self.planted(Planted::DropDuringRead) {
            self.reads.object_gone(object, version);
        }
        if self.planted(Planted::RevivalAfterDeletion) {
            return self.cache.remove(object);
        }
        // Where it was not there, a query that has seen its collection since tells that an older state is none.
        if was_there {
            self.cache.insert(object, Entry::Absent { version });
            if !self.registry.is_named(object) {
                self.set_timer(now + TOMBSTONE, Timer::Tombstone(object.clone(), version));
            }
        }
    }

    pub(super) fn forget_tombstone(&mut self, object: &ObjectKey, version: Version) {
        let absent = matches!(self.cache.get(object), Some(Entry::Absent { version: at }) if *at == version);
        if absent && !self.registry.is_named(object) {
            self.cache.remove(object);
        }
    }

    /// Reads one object by name, to bring it up to date, unless that waits to be done already.
    pub(super) fn read_object(&mut self, object: &ObjectKey) {
        if !self.reads.is_waiting(object) {
            let part = Part {
                scope: ReadScope::Named(object.name.clone()),
                content: Content::Whole,
                waiting: None,
            };
            let within = self.within(object);
            self.reads.push(object.cluster, &object.kind, within, part);
        }
    }

    fn notify(&mut self, id: QueryId, told: &Told<'_>, before: Option<&Object>, after: Option<&Object>, now: Time) {
        let Some(entry) = self.registry.get_mut(id) else { return };
        let query = entry.query.clone();
        // While a query has no answer yet, those who wait for one are told when it comes.
        let pending = match &mut entry.state {
            QueryState::Pending { was, .. } => {
                if *was == Was::Ready {
                    *was = Was::Changed;
                }
                true
            }
            QueryState::Ready { .. } | QueryState::Failed(_) => false,
        };
        let users: Vec<User> = entry.users.iter().cloned().collect();
        let text = |state: Option<&Object>| state.and_then(|state| state.text(&query.fields)).cloned();
        let wake = Wake::Object {
            object: told.object.clone(),
            version: told.version,
            query: query.clone(),
            before: text(before),
            after: text(after),
        };
        for user in users {
            match user {
                User::Primary(key) => {
                    let swallowed = told.writer.is_some() && self.planted(Planted::OwnWriteSwallowsOthers);
                    if !pending && told.writer.as_ref() != Some(&key) && !swallowed {
                        self.wake(&key, wake.clone(), told.way.clone(), now);
                    }
                }
                User::Controller(controller) => {
                    let key = PrimaryKey {
                        controller,
                        name: told.object.name.clone(),
                    };
                    let own = told.writer.as_deref() == Some(&key);
                    self.primary_changed(key, after, wake.clone(), told.way.clone(), own, now);
                }
                User::Declared(controller, place) => {
                    let cause = Cause::new(told.version, told.writer.clone(), told.way.clone());
                    self.concerned(controller, place, told.object, [before, after], cause, &query);
                }
                User::Cluster(cluster) => self.kubeconfig_changed(cluster, now),
                User::Watch(key) => self.definition_changed(&key, &told.object.name.name),
                User::Namespaces(query) => self.namespaces_changed(query, Some(&wake), now),
            }
        }
    }

    /// Lets go of what only this query found.
    pub(super) fn forget_found(&mut self, entry: &Registered, now: Time) {
        let query = &entry.query;
        let names = match &query.target {
            Target::Named(name) => vec![name.clone()],
            Target::Selected(selection) => self
                .cache
                .selected_in(query.cluster, &query.kind, &selection.criterion, entry.namespaces())
                .map(|(name, _)| name.clone())
                .collect(),
        };
        for name in names {
            self.forget_unwanted(&query.object(&name), now);
        }
    }

    /// Lets go of an object, or of what is kept of it, as far as nobody asks for it any longer.
    pub(super) fn forget_unwanted(&mut self, object: &ObjectKey, now: Time) {
        let wanted = match self.cache.get(object) {
            Some(Entry::Present(present)) => self.wanted(object, &present.metadata),
            Some(Entry::Absent { .. }) if self.registry.is_named(object) => return,
            _ => Vec::new(),
        };
        if wanted.is_empty() {
            match self.cache.get(object) {
                // What a watch still says of it must not revive it for those who select.
                Some(Entry::Absent { version }) if self.registry.is_selected_from(object) => {
                    let tombstone = Timer::Tombstone(object.clone(), *version);
                    self.set_timer(now + TOMBSTONE, tombstone);
                }
                _ => self.cache.remove(object),
            }
            let forgotten = self.expected.forget_object(object);
            self.writes_seen(&forgotten, now);
        } else if let Some(variants) = self.cache.variants_mut(object) {
            variants.retain(|variant| wanted.contains(&variant.fields));
        }
    }
}

/// Whether what a query declares of an object is another than before.
fn differs(query: &Query, before: Option<&Object>, after: Option<&Object>) -> bool {
    match (before, after) {
        (None, None) => false,
        (Some(before), Some(after)) => {
            before.metadata.uid != after.metadata.uid
                || before.metadata.deleting != after.metadata.deleting
                || before.text(&query.fields) != after.text(&query.fields)
        }
        _ => true,
    }
}
