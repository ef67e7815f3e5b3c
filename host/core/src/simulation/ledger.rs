//! What the machine was told, what it ran, and what it owes for it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use super::object::Object;
use super::plugin::{Asked, Told};
use crate::{
    ClusterId, ControllerId, Fields, Kind, Namespaces, ObjectKey, PrimaryKey, Query, ReadRequest, RunId, RunResult,
    Target, Version, WrittenObject,
};

#[derive(Default)]
pub(super) struct Ledger {
    /// The present step.
    pub(super) step: u64,
    pub(super) records: BTreeMap<PrimaryKey, Record>,
    /// The newest version of each object that was told and, if an event told it, what it was then.
    told: BTreeMap<ObjectKey, (Version, Seen)>,
    /// The newest version at which each kind was read.
    read: BTreeMap<(ClusterId, Kind), Version>,
    /// The step at which a watch last began, ended or was read after: then the machine may take any change for new.
    disturbed: Option<u64>,
}

/// An object as an event told it. Of what a read told, the machine may know better.
enum Seen {
    Event(Option<Object>),
    Read,
}

/// What is known of one primary of one controller.
#[derive(Default)]
pub(super) struct Record {
    pub(super) uid: Arc<str>,
    /// The last run that was begun.
    pub(super) begun: Option<RunId>,
    /// The last run that came to an end.
    pub(super) last: Option<LastRun>,
    /// The queries of the last good run: a change of what they find must run the primary.
    standing: Vec<Query>,
    /// The queries of the last good run and of all that were begun since. The repair of any must run the primary.
    pub(super) named: Vec<Query>,
    /// Changes that were told and not followed by a run that began later.
    pub(super) owed: Vec<Owed>,
    /// Versions that its runs surely made.
    pub(super) own: BTreeSet<(ObjectKey, Version)>,
    /// Objects as its runs surely left them last, by their uids.
    pub(super) left: BTreeMap<Arc<str>, Object>,
    /// It was out of sight since the last run that came to an end, so the next one is told of nothing before.
    pub(super) reappeared: bool,
    /// What its Output was wanted to hold.
    output: Option<u32>,
}

#[derive(Clone, Debug)]
pub(super) struct LastRun {
    pub(super) id: RunId,
    pub(super) begun: u64,
    pub(super) asks: Vec<Asked>,
    pub(super) queries: Vec<Query>,
    pub(super) told: Vec<Told>,
    pub(super) result: RunResult,
    pub(super) written: Vec<WrittenObject>,
}

#[derive(Debug)]
pub(super) enum Owed {
    Change(ObjectKey, Version),
    /// Its plugin said that a change concerns it.
    Dependent(Version),
    /// It asked to run again.
    Again,
}

impl fmt::Display for Owed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Owed::Change(object, version) => write!(f, "v{version} of {} {}", object.kind.kind, object.name),
            Owed::Dependent(version) => write!(f, "its plugin said that v{version} concerns it"),
            Owed::Again => f.write_str("it asked to run again"),
        }
    }
}

impl Record {
    pub(super) fn wrote(&self, object: &ObjectKey, version: Version) -> bool {
        self.own.contains(&(object.clone(), version))
    }
}

impl Ledger {
    pub(super) fn begun(&mut self, key: &PrimaryKey, primary: &ObjectKey, uid: &Arc<str>, id: RunId) {
        let record = self.records.entry(key.clone()).or_default();
        if record.uid != *uid {
            *record = Record {
                uid: uid.clone(),
                standing: vec![Query {
                    cluster: primary.cluster,
                    kind: primary.kind.clone(),
                    target: Target::Named(primary.name.clone()),
                    fields: Fields::Whole,
                }],
                ..Record::default()
            };
        }
        record.begun = Some(id);
        record.owed.clear();
    }

    /// A run names queries.
    pub(super) fn named(&mut self, key: &PrimaryKey, uid: &Arc<str>, queries: &[Query]) {
        if let Some(record) = self.records.get_mut(key).filter(|record| record.uid == *uid) {
            record.named.extend_from_slice(queries);
        }
    }

    pub(super) fn ended(&mut self, key: &PrimaryKey, uid: &Arc<str>, last: LastRun) {
        let record = self.records.get_mut(key).filter(|record| record.uid == *uid);
        let Some(record) = record.filter(|record| record.begun == Some(last.id)) else {
            return;
        };
        if let RunResult::Done { again, .. } = &last.result {
            record.named.clone_from(&last.queries);
            record.standing.truncate(1);
            record.standing.extend(last.queries.iter().cloned());
            if *again {
                record.owed.push(Owed::Again);
            }
        }
        record.last = Some(last);
        record.reappeared = false;
    }

    pub(super) fn wrote(&mut self, key: &PrimaryKey, object: &ObjectKey, written: Object) {
        if let Some(record) = self.records.get_mut(key) {
            record.own.insert((object.clone(), Version(written.version)));
            record.left.insert(written.uid.clone(), written);
        }
    }

    /// Notes what a primary's Output is wanted to hold. Returns whether that was so before.
    pub(super) fn wants(&mut self, key: &PrimaryKey, output: u32) -> bool {
        let record = self.records.get_mut(key);
        record.is_some_and(|record| record.output.replace(output) == Some(output))
    }

    /// An event is about to be told. Whose queries find something else than before must run after it.
    pub(super) fn event_told(&mut self, key: &ObjectKey, version: Version, object: Option<&Object>) {
        let kind = (key.cluster, key.kind.clone());
        if self.told.get(key).is_some_and(|(told, _)| *told >= version) {
            return;
        }
        let seen = Seen::Event(object.cloned());
        let before = self.told.insert(key.clone(), (version, seen));
        let passed_over = self.read.get(&kind).is_some_and(|read| *read >= version);
        let Some((_, Seen::Event(before))) = before.filter(|_| !passed_over) else {
            return;
        };
        for record in self.records.values_mut() {
            let finds_another = |query: &Query| found(query, key, before.as_ref()) != found(query, key, object);
            if !record.wrote(key, version) && record.standing.iter().any(finds_another) {
                record.owed.push(Owed::Change(key.clone(), version));
            }
        }
    }

    /// A plugin says that a change to a version concerns a primary. Unless that made it, it must run.
    pub(super) fn concerns(&mut self, key: &PrimaryKey, cluster: ClusterId, version: Version) {
        if let Some(record) = self.records.get_mut(key)
            && !record
                .own
                .iter()
                .any(|(object, own)| object.cluster == cluster && *own == version)
        {
            record.owed.push(Owed::Dependent(version));
        }
    }

    /// A read tells of an object. The machine may know better, so the next event of it proves nothing.
    pub(super) fn page_told(&mut self, key: &ObjectKey, version: Version) {
        if self.told.get(key).is_none_or(|(told, _)| *told < version) {
            self.told.insert(key.clone(), (version, Seen::Read));
        }
        self.disturb();
    }

    pub(super) fn read_told(&mut self, request: &ReadRequest, version: Version) {
        let read = self.read.entry((request.cluster, request.kind.clone())).or_default();
        *read = version.max(*read);
    }

    pub(super) fn disturb(&mut self) {
        self.disturbed = Some(self.step);
    }

    /// Whether the machine may have lost count of versions since. When the history of one kind begins anew, it takes no run's
    /// writes for known, whatever they are of.
    pub(super) fn is_disturbed(&self, since: u64) -> bool {
        self.disturbed.is_some_and(|step| step >= since)
    }

    /// A server's data were restored, or another server is behind a cluster: versions begin anew.
    pub(super) fn forget_versions(&mut self, of: impl Fn(ClusterId) -> bool) {
        self.told.retain(|key, _| !of(key.cluster));
        self.read.retain(|(cluster, _), _| !of(*cluster));
        for record in self.records.values_mut() {
            record.owed.clear();
        }
    }

    pub(super) fn forget_controller(&mut self, id: ControllerId) {
        self.records.retain(|key, _| key.controller != id);
    }
}

/// What a query finds of an object. Which namespaces a selector finds is left to what is compared at rest.
fn found(query: &Query, key: &ObjectKey, object: Option<&Object>) -> Option<Arc<str>> {
    if let Target::Selected(selection) = &query.target
        && matches!(selection.namespaces, Namespaces::Selected(_))
    {
        return None;
    }
    let object = object.filter(|object| query.matches(key, &object.metadata()))?;
    Some(object.text(&query.fields))
}
