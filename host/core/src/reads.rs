//! Reads: those that wait for a permit and those under way.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use indexmap::IndexMap;

use crate::name::{ClusterId, Kind, ObjectKey, ObjectName, Version};
use crate::query::Fields;
use crate::query::QueryId;
use crate::selector::Selector;

/// One read under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ReadId(pub u64);

/// What to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadRequest {
    /// From which cluster.
    pub cluster: ClusterId,
    /// Objects of which kind.
    pub kind: Kind,
    /// Which of them.
    pub scope: ReadScope,
    /// The variants to make of each.
    pub fields: Vec<Fields>,
}

/// Which objects of a kind are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadScope {
    /// One by name, as a list of at most one, so that its absence has a version too.
    Named(ObjectName),
    /// All that a selector matches, in one namespace or everywhere.
    Selected {
        /// The namespace, or everywhere.
        namespace: Option<Arc<str>>,
        /// What their labels must be.
        selector: Selector,
    },
}

impl ReadRequest {
    /// The object of this name among those that are read.
    pub(crate) fn object(&self, name: &ObjectName) -> ObjectKey {
        ObjectKey {
            cluster: self.cluster,
            kind: self.kind.clone(),
            name: name.clone(),
        }
    }
}

impl ReadScope {
    /// Whether the read could have seen an object of this name, whatever its labels.
    fn covers(&self, name: &ObjectName) -> bool {
        match self {
            ReadScope::Named(wanted) => wanted == name,
            ReadScope::Selected {
                namespace: Some(namespace),
                ..
            } => name.namespace.as_ref() == Some(namespace),
            ReadScope::Selected { namespace: None, .. } => true,
        }
    }
}

/// Who waits for a read: a query, in the round of reads that it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Waiting {
    pub(crate) query: QueryId,
    pub(crate) round: u32,
}

pub(crate) struct Read {
    pub(crate) request: ReadRequest,
    /// The query that waits for it; none if it only brings an object up to date.
    pub(crate) waiting: Option<Waiting>,
    /// Objects that went out of sight while it was under way, and the version at which they did. An answer that was
    /// given earlier must not bring them back.
    pub(crate) gone: HashMap<ObjectName, Version>,
}

/// Invariant: no more reads are under way in a cluster than its permits.
#[derive(Default)]
pub(crate) struct Reads {
    waiting: IndexMap<ClusterId, VecDeque<(ReadRequest, Option<Waiting>)>>,
    running: IndexMap<ReadId, Read>,
    running_in: HashMap<ClusterId, usize>,
    next: u64,
}

impl Reads {
    pub(crate) fn push(&mut self, request: ReadRequest, waiting: Option<Waiting>) {
        self.waiting
            .entry(request.cluster)
            .or_default()
            .push_back((request, waiting));
    }

    /// The next read that a permit is free for.
    pub(crate) fn start(&mut self, permits: usize) -> Option<(ReadId, ReadRequest)> {
        let cluster = *self
            .waiting
            .iter()
            .find(|(cluster, _)| self.running_in.get(cluster).is_none_or(|running| *running < permits))?
            .0;
        let queue = self.waiting.get_mut(&cluster)?;
        let (request, waiting) = queue.pop_front()?;
        if queue.is_empty() {
            self.waiting.swap_remove(&cluster);
        }
        let id = ReadId(self.next);
        self.next += 1;
        *self.running_in.entry(cluster).or_default() += 1;
        self.running.insert(
            id,
            Read {
                request: request.clone(),
                waiting,
                gone: HashMap::new(),
            },
        );
        Some((id, request))
    }

    pub(crate) fn finish(&mut self, id: ReadId) -> Option<Read> {
        let read = self.running.swap_remove(&id)?;
        if let Some(running) = self.running_in.get_mut(&read.request.cluster) {
            *running -= 1;
            if *running == 0 {
                self.running_in.remove(&read.request.cluster);
            }
        }
        Some(read)
    }

    /// Remembers, for the reads under way, that an object went out of sight.
    pub(crate) fn object_gone(&mut self, object: &ObjectKey, version: Version) {
        for read in self.running.values_mut() {
            let request = &read.request;
            if request.cluster == object.cluster && request.kind == object.kind && request.scope.covers(&object.name) {
                read.gone.insert(object.name.clone(), version);
            }
        }
    }

    /// Gives up all reads of a kind in a cluster: what they will say is of a state that no longer counts.
    pub(crate) fn abandon(&mut self, cluster: ClusterId, kind: &Kind) {
        if let Some(queue) = self.waiting.get_mut(&cluster) {
            queue.retain(|(request, _)| request.kind != *kind);
            if queue.is_empty() {
                self.waiting.swap_remove(&cluster);
            }
        }
        let ids: Vec<ReadId> = self
            .running
            .iter()
            .filter(|(_, read)| read.request.cluster == cluster && read.request.kind == *kind)
            .map(|(id, _)| *id)
            .collect();
        for id in ids {
            self.finish(id);
        }
    }

    /// Takes back what waits for a query that nobody asks any longer.
    pub(crate) fn forget_query(&mut self, query: QueryId, cluster: ClusterId) {
        if let Some(queue) = self.waiting.get_mut(&cluster) {
            queue.retain(|(_, waiting)| waiting.is_none_or(|waiting| waiting.query != query));
            if queue.is_empty() {
                self.waiting.swap_remove(&cluster);
            }
        }
        for read in self.running.values_mut() {
            if read.waiting.is_some_and(|waiting| waiting.query == query) {
                read.waiting = None;
            }
        }
    }

    /// Whether an object is about to be read by name already. Such a read will bring its newest state only if it has
    /// not begun yet.
    pub(crate) fn is_waiting(&self, cluster: ClusterId, kind: &Kind, name: &ObjectName) -> bool {
        self.waiting.get(&cluster).into_iter().flatten().any(|(request, _)| {
            request.kind == *kind && matches!(&request.scope, ReadScope::Named(waiting) if waiting == name)
        })
    }
}
