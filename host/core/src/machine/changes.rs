//! Changes: merged by version, turned into wakes by the index.

use std::collections::BTreeSet;
use std::time::Duration;

use super::{Core, Timer};
use crate::cache::{Entry, Object};
use crate::change::{Change, Metadata, State};
use crate::name::{ObjectKey, PrimaryKey, Version};
use crate::query::QueryId;
use crate::query::{Fields, Query, Target};
use crate::reads::{ReadRequest, ReadScope};
use crate::registry::{QueryState, User};
use crate::time::Time;
use crate::wake::Wake;
use crate::watches::WatchId;

/// How long a deletion is remembered where nobody asks for the object by name: longer than one watch lags behind another.
const TOMBSTONE: Duration = Duration::from_secs(120);

/// Where a state comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// A watch, which tells every version.
    Event,
    /// A read, which may have passed over versions.
    Read,
}

/// A change as it is told to those whom it concerns.
struct Told<'a> {
    object: &'a ObjectKey,
    version: Version,
    origin: Origin,
    /// The primary whose own write it is.
    writer: Option<&'a PrimaryKey>,
}

/// An object must be read anew with all of these fields.
pub(super) struct Lacking(pub(super) Vec<Fields>);

impl Core {
    /// The variants that a change of this object must carry. None means that nobody asks for it: the change should be
    /// told all the same, without any.
    pub fn wanted(&self, object: &ObjectKey, metadata: &Metadata) -> Vec<Fields> {
        self.registry.fields(self.registry.matching(object, metadata))
    }

    /// Tells an object's state, from the event of a watch. What a stream says after it was ended is ignored.
    pub fn changed(&mut self, stream: WatchId, change: Change, now: Time) {
        if self.watches.stream(stream).is_some() {
            self.merge_or_read(change, Origin::Event, now);
        }
    }

    /// Merges a state; an object that must be read anew first is read.
    pub(super) fn merge_or_read(&mut self, change: Change, origin: Origin, now: Time) {
        let object = change.object.clone();
        if let Err(Lacking(fields)) = self.merge(change, origin, now) {
            self.read_object(&object, fields);
        }
    }

    /// Merges a state, and wakes whom it concerns.
    ///
    /// # Errors
    /// A query came while the object's text was made, and wants more than that. Nothing was merged.
    pub(super) fn merge(&mut self, change: Change, origin: Origin, now: Time) -> Result<(), Lacking> {
        let Change { object, state } = change;
        self.watches.saw(object.cluster, &object.kind, state.version());
        if !self.is_news(&object, &state) {
            for expected in self.expected.seen(&object, state.version()) {
                self.write_seen(&expected.writer);
            }
            return Ok(());
        }

        let before = self.cache.get(&object).and_then(Entry::present).cloned();
        let version = state.version();
        let after = match state {
            State::Present { metadata, variants } => Some(Object { metadata, variants }),
            State::Absent { .. } => None,
        };
        let found_before: BTreeSet<_> = before
            .iter()
            .flat_map(|before| self.registry.matching(&object, &before.metadata))
            .collect();
        let found_after: BTreeSet<_> = after
            .iter()
            .flat_map(|after| self.registry.matching(&object, &after.metadata))
            .collect();

        if let Some(after) = &after
            && let Some(fields) = self.lacking(&found_after, after)
        {
            return Err(Lacking(fields));
        }
        self.keep(
            &object,
            version,
            after.clone().filter(|_| !found_after.is_empty()),
            before.is_some(),
            now,
        );

        let seen = self.expected.seen(&object, version);
        // The event of a write is its writer's own. A read may hold what others wrote besides, so it wakes the writer too.
        let writer = seen
            .iter()
            .find(|expected| expected.own && expected.version == version && origin == Origin::Event)
            .map(|expected| &expected.writer);
        let told = Told {
            object: &object,
            version,
            origin,
            writer,
        };
        for id in found_before.union(&found_after) {
            let (before, after) = (
                before.as_ref().filter(|_| found_before.contains(id)),
                after.as_ref().filter(|_| found_after.contains(id)),
            );
            if self
                .registry
                .get(*id)
                .is_some_and(|entry| differs(&entry.query, before, after))
            {
                self.notify(*id, &told, after, now);
            }
        }
        for expected in &seen {
            self.write_seen(&expected.writer);
        }
        Ok(())
    }

    /// Whether a state is newer than what is known. One of the same version may bring variants that are missing.
    fn is_news(&mut self, object: &ObjectKey, state: &State) -> bool {
        let Some(cached) = self.cache.get_mut(object) else {
            return !self.is_known(object, state);
        };
        match (&mut *cached, state) {
            (Entry::Present(cached), State::Present { metadata, variants })
                if cached.metadata.version == metadata.version =>
            {
                for variant in variants {
                    if cached.text(&variant.fields).is_none() {
                        cached.variants.push(variant.clone());
                    }
                }
                false
            }
            // An object that went out of sight may be asked for by name since: then it is there at that version.
            (Entry::Absent { version }, State::Present { metadata, .. }) => *version <= metadata.version,
            _ => cached.version() < state.version(),
        }
    }

    /// Whether every query that would find the object has seen a later state of its collection: then an object that is
    /// not cached is known to have gone since.
    fn is_known(&self, object: &ObjectKey, state: &State) -> bool {
        let State::Present { metadata, .. } = state else {
            return false;
        };
        let mut found = self.registry.matching(object, metadata).peekable();
        found.peek().is_some()
            && found.all(|id| {
                self.registry.get(id).is_some_and(
                    |entry| matches!(entry.state, QueryState::Ready { floor } if floor >= metadata.version),
                )
            })
    }

    /// The fields that queries want of an object and that it does not carry, together with those that it does.
    fn lacking(&self, found: &BTreeSet<QueryId>, object: &Object) -> Option<Vec<Fields>> {
        let wanted = self.registry.fields(found.iter().copied());
        wanted
            .iter()
            .any(|fields| object.text(fields).is_none())
            .then_some(wanted)
    }

    fn keep(&mut self, object: &ObjectKey, version: Version, after: Option<Object>, was_there: bool, now: Time) {
        if let Some(after) = after {
            self.cache.insert(object, Entry::Present(after));
            return;
        }
        self.reads.object_gone(object, version);
        let asked_by_name = !self.registry.by_name(object).is_empty();
        if asked_by_name || was_there {
            self.cache.insert(object, Entry::Absent { version });
        }
        if was_there && !asked_by_name {
            self.set_timer(now + TOMBSTONE, Timer::Tombstone(object.clone(), version));
        }
    }

    pub(super) fn forget_tombstone(&mut self, object: &ObjectKey, version: Version) {
        let absent = matches!(self.cache.get(object), Some(Entry::Absent { version: at }) if *at == version);
        if absent && self.registry.by_name(object).is_empty() {
            self.cache.remove(object);
        }
    }

    /// Reads one object by name, to bring it up to date, unless that waits to be done already.
    pub(super) fn read_object(&mut self, object: &ObjectKey, fields: Vec<Fields>) {
        if !self.reads.is_waiting(object.cluster, &object.kind, &object.name) {
            let scope = ReadScope::Named(object.name.clone());
            let request = ReadRequest {
                cluster: object.cluster,
                kind: object.kind.clone(),
                scope,
                fields,
            };
            self.reads.push(request, None);
        }
    }

    fn notify(&mut self, id: QueryId, told: &Told<'_>, after: Option<&Object>, now: Time) {
        let Some(entry) = self.registry.get(id) else { return };
        // While a query has no answer yet, those who wait for one are told when it comes.
        let pending = matches!(entry.state, QueryState::Pending { .. });
        let users: Vec<User> = entry.users.iter().cloned().collect();
        for user in users {
            match user {
                User::Primary(key) if !pending && Some(&key) != told.writer => {
                    self.wake(&key, told.wake());
                }
                User::Primary(_) => {}
                User::Controller(controller) => {
                    let key = PrimaryKey {
                        controller,
                        name: told.object.name.clone(),
                    };
                    let own = told.writer == Some(&key);
                    self.primary_changed(key, after, told.wake(), own, now);
                }
                User::Cluster(cluster) => self.kubeconfig_changed(cluster, now),
                User::Watch(key) => self.definition_changed(&key, &told.object.name.name),
            }
        }
    }

    /// Lets go of what only this query found.
    pub(super) fn forget_found(&mut self, query: &Query) {
        let objects: Vec<ObjectKey> = match &query.target {
            Target::Named(name) => vec![name.clone()],
            Target::Selected { namespaces, .. } => {
                let present = self.cache.present(query.cluster, &query.kind, namespaces);
                present.map(|(name, _)| name.clone()).collect()
            }
        }
        .into_iter()
        .map(|name| query.object(&name))
        .collect();
        for object in objects {
            let wanted = match self.cache.get(&object) {
                Some(Entry::Present(present)) => self.wanted(&object, &present.metadata),
                Some(Entry::Absent { .. }) if !self.registry.by_name(&object).is_empty() => continue,
                _ => Vec::new(),
            };
            if wanted.is_empty() {
                self.cache.remove(&object);
                for expected in self.expected.forget_object(&object) {
                    self.write_seen(&expected.writer);
                }
            } else if let Some(Entry::Present(present)) = self.cache.get_mut(&object) {
                present.variants.retain(|variant| wanted.contains(&variant.fields));
            }
        }
    }
}

impl Told<'_> {
    fn wake(&self) -> Wake {
        Wake::Object {
            object: self.object.clone(),
            version: (self.origin == Origin::Event).then_some(self.version),
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
