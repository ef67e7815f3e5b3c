//! Reads: those that wait for a permit and those under way.
//!
//! A few objects are read one by one. Many, or selections that the API server cannot filter, are answered by one list of all
//! that lies in their scope: it is gone through page by page, and only what somebody asks for is kept.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::hash::Hash;
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
    /// The queries that wait for it, with their rounds.
    pub(crate) waiting: HashMap<QueryId, u64>,
    /// Objects that went out of sight while it was under way, and the version at which they did. An answer that was
    /// given earlier must not bring them back.
    pub(crate) gone: HashMap<ObjectName, Version>,
    /// The newest version that was known of the kind when it began. The collection cannot be older.
    pub(crate) begun_at: Version,
    /// What its pages held so far.
    pub(crate) listed: BTreeSet<ObjectName>,
}

impl Read {
    /// Those of some queries that wait for it.
    pub(crate) fn waiting_among(&self, queries: &[QueryId]) -> Vec<Waiting> {
        let waiting = queries.iter().filter_map(|query| {
            let round = *self.waiting.get(query)?;
            Some(Waiting { query: *query, round })
        });
        waiting.collect()
    }
}

/// Things that take turns. Each has a place in `order`; a place of what has been taken out is passed over.
struct Turns<K, V> {
    order: VecDeque<K>,
    held: HashMap<K, V>,
}

impl<K, V> Default for Turns<K, V> {
    fn default() -> Self {
        Turns {
            order: VecDeque::new(),
            held: HashMap::new(),
        }
    }
}

impl<K: Clone + Eq + Hash, V> Turns<K, V> {
    fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.held.get_mut(key)
    }

    /// What is held under a key; something new takes the last turn.
    fn entry(&mut self, key: &K, new: impl FnOnce() -> V) -> &mut V {
        if !self.held.contains_key(key) {
            self.order.push_back(key.clone());
        }
        self.held.entry(key.clone()).or_insert_with(new)
    }

    fn remove(&mut self, key: &K) -> Option<V> {
        let removed = self.held.remove(key);
        if self.order.len() > 64 && self.order.len() > 2 * self.held.len() {
            let mut seen = HashSet::new();
            let held = &self.held;
            self.order
                .retain(|key| held.contains_key(key) && seen.insert(key.clone()));
        }
        removed
    }

    /// Takes the first whose turn may come.
    fn take(&mut self, may_be: impl Fn(&K) -> bool) -> Option<(K, V)> {
        let held = &self.held;
        let place = self
            .order
            .iter()
            .position(|key| held.contains_key(key) && may_be(key))?;
        let key = self.order.remove(place)?;
        // All places before are kept, but for those of what has gone.
        while self.order.front().is_some_and(|key| !self.held.contains_key(key)) {
            self.order.pop_front();
        }
        let value = self.held.remove(&key)?;
        Some((key, value))
    }

    fn any(&self, which: impl Fn(&K) -> bool) -> bool {
        self.held.keys().any(which)
    }

    fn is_empty(&self) -> bool {
        self.held.is_empty()
    }
}

/// Parts that can be answered by one list, by what each reads and who waits for it.
#[derive(Default)]
struct Group {
    scopes: Turns<ReadScope, Asked>,
    names: usize,
}

/// Who waits for one thing to be read, and how often in the present round.
type Asked = IndexMap<Option<QueryId>, (Part, u32)>;

/// The groups of one kind, by the scope of the watch that covers them.
type Groups = Turns<Scope, Group>;

/// Where a part waits.
#[derive(Clone, PartialEq, Eq)]
struct Spot {
    cluster: ClusterId,
    kind: Kind,
    within: Scope,
    scope: ReadScope,
}

/// How much waits before one list is made of it.
struct Apart {
    selections: usize,
    names: usize,
}

/// Invariants: no more reads are under way in a cluster than its permits, and of one kind no more than three quarters of
/// them. `spots` holds the place of each part that a query waits for, and `waiting_names` counts the spots of each object.
pub(crate) struct Reads {
    waiting: IndexMap<ClusterId, Turns<Kind, Groups>>,
    spots: HashMap<QueryId, Vec<Spot>>,
    /// Objects that wait to be read by name.
    waiting_names: Tally<ObjectKey>,
    /// Parts that wait.
    parts: usize,
    /// How often in a row objects could not be read that nobody waits for. They are tried again.
    failed: HashMap<ObjectKey, u32>,
    running: IndexMap<ReadId, Read>,
    running_in: Tally<ClusterId>,
    running_of: Tally<(ClusterId, Kind)>,
    next: u64,
    apart: Apart,
}

impl Default for Reads {
    fn default() -> Self {
        Reads {
            waiting: IndexMap::new(),
            spots: HashMap::new(),
            waiting_names: Tally::default(),
            parts: 0,
            failed: HashMap::new(),
            running: IndexMap::new(),
            running_in: Tally::default(),
            running_of: Tally::default(),
            next: 0,
            apart: Apart {
                selections: SELECTIONS_APART,
                names: NAMES_APART,
            },
        }
    }
}

impl Group {
    /// Takes the parts that the next read answers.
    fn next_read(&mut self, within: &Scope, apart: &Apart) -> Option<(ReadScope, Vec<(ReadScope, Asked)>)> {
        let all = |namespace: Option<&Arc<str>>| ReadScope::Selected {
            namespace: namespace.cloned(),
            selector: Selector::everything(),
        };
        let list = match within {
            Scope::All => Some(all(None)),
            Scope::Namespace(namespace) => Some(all(Some(namespace))),
            Scope::Name(_) => None,
        };
        let (first, asked) = self.scopes.take(|_| true)?;
        let selections = self.scopes.held.len() + 1 - self.names;
        let many = self.names > apart.names || selections > apart.selections;
        let mut taken = vec![(first.clone(), asked)];
        let scope = match list {
            Some(list) if many || first == list => {
                while let Some(next) = self.scopes.take(|_| true) {
                    taken.push(next);
                }
                list
            }
            _ => first,
        };
        for (scope, _) in &taken {
            self.names -= usize::from(matches!(scope, ReadScope::Named(_)));
        }
        Some((scope, taken))
    }
}

impl Reads {
    /// Makes lists of less, so that a small world has some.
    #[cfg(test)]
    pub(crate) fn set_apart(&mut self, selections: usize, names: usize) {
        self.apart = Apart { selections, names };
    }

    /// Asks for a read. `within` is the scope of the watch that covers it: a list of all of it is allowed.
    pub(crate) fn push(&mut self, cluster: ClusterId, kind: &Kind, within: Scope, part: Part) {
        let groups = self.waiting.entry(cluster).or_default();
        let group = groups.entry(kind, Groups::default).entry(&within, Group::default);
        let mut new = false;
        let scope = part.scope.clone();
        let asked = group.scopes.entry(&scope, || {
            new = true;
            Asked::default()
        });
        let query = part.waiting.map(|waiting| waiting.query);
        match asked.get_mut(&query) {
            // In the same round it waits for one answer more. What it waited for before is of no account any longer.
            Some((known, times)) => {
                let same = known.waiting == part.waiting;
                *times = if same { *times + 1 } else { 1 };
                *known = Part {
                    content: part.content.max(known.content),
                    ..part
                };
            }
            None => {
                asked.insert(query, (part, 1));
                self.parts += 1;
                if let Some(query) = query {
                    self.spots.entry(query).or_default().push(Spot {
                        cluster,
                        kind: kind.clone(),
                        within,
                        scope: scope.clone(),
                    });
                }
            }
        }
        if let (true, ReadScope::Named(name)) = (new, scope) {
            group.names += 1;
            self.waiting_names.add(ObjectKey {
                cluster,
                kind: kind.clone(),
                name,
            });
        }
    }

    /// The next read that a permit is free for. Kinds take turns, and one of which no answer comes leaves some permits to others.
    /// `newest` tells the newest version that is known of a request's kind.
    pub(crate) fn start(
        &mut self,
        permits: usize,
        newest: impl FnOnce(&ReadRequest) -> Version,
    ) -> Option<(ReadId, ReadRequest)> {
        let of_one_kind = (permits * 3 / 4).max(1);
        let (running_in, running_of) = (&self.running_in, &self.running_of);
        let free = |cluster: ClusterId, kind: &Kind| running_of.of(&(cluster, kind.clone())) < of_one_kind;
        let cluster = *self
            .waiting
            .iter()
            .find(|(cluster, kinds)| running_in.of(cluster) < permits && kinds.any(|kind| free(**cluster, kind)))?
            .0;
        let kinds = self.waiting.get_mut(&cluster)?;
        let (kind, mut groups) = kinds.take(|kind| free(cluster, kind))?;
        let (within, mut group) = groups.take(|_| true)?;
        let (scope, taken) = group.next_read(&within, &self.apart)?;
        if !group.scopes.is_empty() {
            *groups.entry(&within, Group::default) = group;
        }
        if !groups.is_empty() {
            *kinds.entry(&kind, Groups::default) = groups;
        }
        if kinds.is_empty() {
            self.waiting.swap_remove(&cluster);
        }
        let parts = self.taken(cluster, &kind, &within, taken);
        let mut waiting = HashMap::new();
        for Waiting { query, round } in parts.iter().filter_map(|part| part.waiting) {
            let newest = waiting.entry(query).or_insert(round);
            *newest = round.max(*newest);
        }
        let request = ReadRequest {
            cluster,
            kind,
            scope,
            content: parts.iter().map(|part| part.content).max().unwrap_or(Content::Whole),
        };
        let id = ReadId(self.next);
        self.next += 1;
        self.running_in.add(cluster);
        self.running_of.add((cluster, request.kind.clone()));
        self.running.insert(
            id,
            Read {
                request: request.clone(),
                parts,
                waiting,
                gone: HashMap::new(),
                begun_at: newest(&request),
                listed: BTreeSet::new(),
            },
        );
        Some((id, request))
    }

    /// Takes note that what has been taken out of a group waits no longer.
    fn taken(&mut self, cluster: ClusterId, kind: &Kind, within: &Scope, taken: Vec<(ReadScope, Asked)>) -> Vec<Part> {
        let mut parts = Vec::new();
        for (scope, asked) in taken {
            self.parts -= asked.len();
            let spot = Spot {
                cluster,
                kind: kind.clone(),
                within: within.clone(),
                scope,
            };
            for (query, (part, times)) in asked {
                if let Some(query) = query {
                    self.forget_spot(query, &spot);
                }
                parts.extend(std::iter::repeat_n(part, times as usize));
            }
            self.forget_name(spot);
        }
        parts
    }

    fn forget_spot(&mut self, query: QueryId, spot: &Spot) {
        if let Some(spots) = self.spots.get_mut(&query) {
            if let Some(place) = spots.iter().position(|other| other == spot) {
                spots.swap_remove(place);
            }
            if spots.is_empty() {
                self.spots.remove(&query);
            }
        }
    }

    fn forget_name(&mut self, spot: Spot) {
        let Spot { cluster, kind, .. } = spot;
        if let ReadScope::Named(name) = spot.scope {
            self.waiting_names.take(&ObjectKey { cluster, kind, name });
        }
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
        self.failed
            .retain(|object, _| object.cluster != cluster || object.kind != *kind);
        if let Some(kinds) = self.waiting.get_mut(&cluster) {
            let groups = kinds.remove(kind);
            if kinds.is_empty() {
                self.waiting.swap_remove(&cluster);
            }
            for (within, group) in groups.into_iter().flat_map(|groups| groups.held) {
                self.taken(cluster, kind, &within, group.scopes.held.into_iter().collect());
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

    /// Takes back what waits for a query that nobody asks any longer. What is under way for it says nothing, since no query
    /// has its round again.
    pub(crate) fn forget_query(&mut self, query: QueryId) {
        for spot in self.spots.remove(&query).unwrap_or_default() {
            self.forget_part(query, spot);
        }
    }

    fn forget_part(&mut self, query: QueryId, spot: Spot) -> Option<()> {
        let kinds = self.waiting.get_mut(&spot.cluster)?;
        let groups = kinds.get_mut(&spot.kind)?;
        let group = groups.get_mut(&spot.within)?;
        let asked = group.scopes.get_mut(&spot.scope)?;
        asked.swap_remove(&Some(query))?;
        self.parts -= 1;
        if !asked.is_empty() {
            return None;
        }
        group.scopes.remove(&spot.scope);
        group.names -= usize::from(matches!(spot.scope, ReadScope::Named(_)));
        if group.scopes.is_empty() {
            groups.remove(&spot.within);
        }
        if groups.is_empty() {
            kinds.remove(&spot.kind);
        }
        if kinds.is_empty() {
            self.waiting.swap_remove(&spot.cluster);
        }
        self.forget_name(spot);
        None
    }

    /// An object could not be read once more. Gives how often in a row.
    pub(crate) fn object_failed(&mut self, object: &ObjectKey) -> u32 {
        let failures = self.failed.entry(object.clone()).or_default();
        *failures += 1;
        *failures
    }

    /// An object was read, or is not tried again.
    pub(crate) fn forget_failures(&mut self, object: &ObjectKey) {
        self.failed.remove(object);
    }

    /// Whether an object is about to be read by name already. Such a read brings its newest state, since it has not begun.
    pub(crate) fn is_waiting(&self, object: &ObjectKey) -> bool {
        self.waiting_names.of(object) > 0
    }

    /// How many reads wait or are under way.
    pub(crate) fn len(&self) -> usize {
        self.running.len() + self.parts
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    const MANY: u32 = 100_000;

    fn part(number: u32) -> (Scope, Part) {
        let name = ObjectName::new(Some("n"), &number.to_string());
        let waiting = Waiting {
            query: QueryId(number),
            round: u64::from(number) + 1,
        };
        let part = Part {
            scope: ReadScope::Named(name.clone()),
            content: Content::Whole,
            waiting: Some(waiting),
        };
        // After a gap, some are read by themselves.
        let within = if number.is_multiple_of(2) {
            Scope::Name(name)
        } else {
            Scope::All
        };
        (within, part)
    }

    #[test]
    fn of_many_that_wait_each_is_started_or_forgotten_without_a_look_at_the_others() {
        let (cluster, kind) = (ClusterId::HOST, Kind::new("v1", "ConfigMap"));
        let mut reads = Reads::default();
        reads.set_apart(usize::MAX, usize::MAX);
        let began = Instant::now();
        for number in 0..MANY {
            let (within, part) = part(number);
            reads.push(cluster, &kind, within, part);
        }
        assert_eq!(reads.len(), MANY as usize);
        let mut started = 0;
        for number in (0..MANY).rev() {
            if number % 4 < 2 {
                reads.forget_query(QueryId(number));
            } else if let Some((id, _)) = reads.start(16, |_| Version::default()) {
                started += reads.finish(id).map_or(0, |read| read.parts.len());
            }
        }
        while let Some((id, _)) = reads.start(16, |_| Version::default()) {
            started += reads.finish(id).map_or(0, |read| read.parts.len());
        }
        assert!(started >= MANY as usize / 2 && started <= MANY as usize);
        assert!(reads.len() == 0 && reads.spots.is_empty() && reads.waiting.is_empty());
        // A look at each of the others would take minutes.
        assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    }

    #[test]
    fn a_part_counts_as_often_as_it_was_asked_for_in_its_round() {
        let (cluster, kind) = (ClusterId::HOST, Kind::new("v1", "ConfigMap"));
        let mut reads = Reads::default();
        let (within, mut part) = part(1);
        for round in [7, 8, 8] {
            part.waiting = Some(Waiting {
                query: QueryId(1),
                round,
            });
            reads.push(cluster, &kind, within.clone(), part.clone());
        }
        assert_eq!(reads.len(), 1);
        let (id, _) = reads.start(1, |_| Version::default()).expect("a read");
        let read = reads.finish(id).expect("it is under way");
        assert_eq!(read.parts.len(), 2);
        assert_eq!(
            read.waiting_among(&[QueryId(0), QueryId(1)]),
            [part.waiting.expect("set")]
        );
        let object = read.request.object(&ObjectName::new(Some("n"), "1"));
        assert!(!reads.is_waiting(&object));
    }
}
