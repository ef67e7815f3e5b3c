//! Reads: those that wait for a permit and those under way.
//!
//! A few objects are read one by one. Many, or selections that the API server cannot filter, are answered by one list of all
//! that lies in their scope: it is gone through page by page, and only what somebody asks for is kept.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;

use indexmap::IndexMap;

use crate::name::{ClusterId, Kind, ObjectKey, ObjectName, Version};
use crate::query::QueryId;
use crate::selector::Selector;
use crate::tally::Tally;
use crate::watches::{Content, Scope};

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
    /// How much of them.
    pub content: Content,
}

/// Which objects of a kind are read.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
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

/// Selections of one scope that wait to be read before one list answers them all: to filter by labels costs the API server
/// a look at every object, each time.
const SELECTIONS_APART: usize = 64;
/// Objects of one scope that wait to be read before one list answers them all. Each costs the API server and the way there
/// as much as some ten objects in a list.
const NAMES_APART: usize = 4096;

impl ReadRequest {
    /// The object of this name among those that are read.
    pub fn object(&self, name: &ObjectName) -> ObjectKey {
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
    pub(crate) round: u64,
}

/// Something to be read, and who waits for it; nobody if it only brings an object up to date.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) scope: ReadScope,
    pub(crate) content: Content,
    pub(crate) waiting: Option<Waiting>,
}

pub(crate) struct Read {
    pub(crate) request: ReadRequest,
    /// What it answers.
    pub(crate) parts: Vec<Part>,
    /// Objects that went out of sight while it was under way, and the version at which they did. An answer that was
    /// given earlier must not bring them back.
    pub(crate) gone: HashMap<ObjectName, Version>,
    /// The newest version that was known of the kind when it began. The collection cannot be older.
    pub(crate) begun_at: Version,
    /// What its pages held so far.
    pub(crate) listed: BTreeSet<ObjectName>,
}

/// Parts of one kind that can be answered by one list.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Group {
    kind: Kind,
    within: Scope,
}

/// Invariant: no more reads are under way in a cluster than its permits, and of one kind no more than three quarters of them.
#[derive(Default)]
pub(crate) struct Reads {
    waiting: IndexMap<ClusterId, IndexMap<Group, VecDeque<Part>>>,
    /// Objects that wait to be read by name.
    waiting_names: HashSet<ObjectKey>,
    running: IndexMap<ReadId, Read>,
    running_in: Tally<ClusterId>,
    running_of: Tally<(ClusterId, Kind)>,
    next: u64,
}

impl Reads {
    /// Asks for a read. `within` is the scope of the watch that covers it: a list of all of it is allowed.
    pub(crate) fn push(&mut self, cluster: ClusterId, kind: &Kind, within: Scope, part: Part) {
        if let ReadScope::Named(name) = &part.scope {
            self.waiting_names.insert(ObjectKey {
                cluster,
                kind: kind.clone(),
                name: name.clone(),
            });
        }
        let group = Group {
            kind: kind.clone(),
            within,
        };
        self.waiting
            .entry(cluster)
            .or_default()
            .entry(group)
            .or_default()
            .push_back(part);
    }

    /// The next read that a permit is free for. Kinds take turns, and one of which no answer comes leaves some permits to others.
    /// `newest` tells the newest version that is known of a request's kind.
    pub(crate) fn start(
        &mut self,
        permits: usize,
        newest: impl FnOnce(&ReadRequest) -> Version,
    ) -> Option<(ReadId, ReadRequest)> {
        let of_one_kind = (permits * 3 / 4).max(1);
        let free =
            |cluster: &ClusterId, group: &Group| self.running_of.of(&(*cluster, group.kind.clone())) < of_one_kind;
        let (cluster, place) = self
            .waiting
            .iter()
            .filter(|(cluster, _)| self.running_in.of(cluster) < permits)
            .find_map(|(cluster, groups)| {
                let place = groups.keys().position(|group| free(cluster, group))?;
                Some((*cluster, place))
            })?;
        let groups = self.waiting.get_mut(&cluster)?;
        let (group, mut queue) = groups.shift_remove_index(place)?;
        let (scope, parts) = next_read(&group, &mut queue);
        let rest: HashSet<&ReadScope> = queue.iter().map(|part| &part.scope).collect();
        for part in &parts {
            if let ReadScope::Named(name) = &part.scope
                && !rest.contains(&part.scope)
            {
                self.waiting_names.remove(&ObjectKey {
                    cluster,
                    kind: group.kind.clone(),
                    name: name.clone(),
                });
            }
        }
        let request = ReadRequest {
            cluster,
            kind: group.kind.clone(),
            scope,
            content: parts.iter().map(|part| part.content).max().unwrap_or(Content::Whole),
        };
        if !queue.is_empty() {
            groups.insert(group, queue);
        }
        if groups.is_empty() {
            self.waiting.swap_remove(&cluster);
        }
        let id = ReadId(self.next);
        self.next += 1;
        self.running_in.add(cluster);
        self.running_of.add((cluster, request.kind.clone()));
        self.running.insert(
            id,
            Read {
                request: request.clone(),
                parts,
                gone: HashMap::new(),
                begun_at: newest(&request),
                listed: BTreeSet::new(),
            },
        );
        Some((id, request))
    }

    pub(crate) fn get(&self, id: ReadId) -> Option<&Read> {
        self.running.get(&id)
    }

    pub(crate) fn get_mut(&mut self, id: ReadId) -> Option<&mut Read> {
        self.running.get_mut(&id)
    }

    pub(crate) fn finish(&mut self, id: ReadId) -> Option<Read> {
        let read = self.running.swap_remove(&id)?;
        let ReadRequest { cluster, kind, .. } = &read.request;
        self.running_in.take(cluster);
        self.running_of.take(&(*cluster, kind.clone()));
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
        self.retain_waiting(cluster, |group, _| group.kind != *kind);
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
        let of_query = |part: &Part| part.waiting.is_some_and(|waiting| waiting.query == query);
        self.retain_waiting(cluster, |_, part| !of_query(part));
        for read in self.running.values_mut().filter(|read| read.request.cluster == cluster) {
            read.parts.retain(|part| !of_query(part));
        }
    }

    fn retain_waiting(&mut self, cluster: ClusterId, keep: impl Fn(&Group, &Part) -> bool) {
        let Some(groups) = self.waiting.get_mut(&cluster) else {
            return;
        };
        let mut dropped = Vec::new();
        groups.retain(|group, queue| {
            queue.retain(|part| {
                let kept = keep(group, part);
                if let (false, ReadScope::Named(name)) = (kept, &part.scope) {
                    dropped.push((group.kind.clone(), name.clone()));
                }
                kept
            });
            !queue.is_empty()
        });
        let groups_left = !groups.is_empty();
        for (kind, name) in dropped {
            let still = self.waiting.get(&cluster).into_iter().flatten().any(|(group, queue)| {
                group.kind == kind
                    && queue
                        .iter()
                        .any(|part| matches!(&part.scope, ReadScope::Named(other) if *other == name))
            });
            if !still {
                self.waiting_names.remove(&ObjectKey { cluster, kind, name });
            }
        }
        if !groups_left {
            self.waiting.swap_remove(&cluster);
        }
    }

    /// Whether an object is about to be read by name already. Such a read brings its newest state, since it has not begun.
    pub(crate) fn is_waiting(&self, object: &ObjectKey) -> bool {
        self.waiting_names.contains(object)
    }

    /// How many reads wait or are under way.
    pub(crate) fn len(&self) -> usize {
        let waiting = self.waiting.values().flat_map(IndexMap::values).map(VecDeque::len);
        self.running.len() + waiting.sum::<usize>()
    }
}

/// Takes the parts that the next read of a group answers.
fn next_read(group: &Group, queue: &mut VecDeque<Part>) -> (ReadScope, Vec<Part>) {
    let all = |namespace: Option<&Arc<str>>| ReadScope::Selected {
        namespace: namespace.cloned(),
        selector: Selector::everything(),
    };
    let list = match &group.within {
        Scope::All => Some(all(None)),
        Scope::Namespace(namespace) => Some(all(Some(namespace))),
        Scope::Name(_) => None,
    };
    let first = queue.front().map(|part| part.scope.clone());
    if let Some(list) = list {
        let names = queue
            .iter()
            .filter(|part| matches!(part.scope, ReadScope::Named(_)))
            .count();
        let many = names > NAMES_APART || queue.len() - names > SELECTIONS_APART;
        if many || first.as_ref() == Some(&list) {
            return (list, queue.drain(..).collect());
        }
    }
    let first = first.unwrap_or_else(|| all(None));
    let (same, rest): (Vec<Part>, Vec<Part>) = queue.drain(..).partition(|part| part.scope == first);
    *queue = rest.into();
    (first, same)
}
