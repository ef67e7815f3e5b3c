//! The watches that queries need. Queries share them, and the last query gone stops a watch after a while.
//!
//! What is watched adapts to what is asked. A few objects are watched one by one, so that an operator can grant exactly
//! those. Beyond a threshold one watch takes in their namespace, then the cluster; when little is left of what it served, it
//! gives way to narrower ones again. A query moves only to a watch that stands, and is read anew then: what happened between
//! the end of one and the begin of the other is not missed. Where a wide watch is refused, narrow ones serve instead.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use indexmap::IndexMap;

use crate::failure::{Failure, FailureReason};
use crate::name::{ClusterId, Kind, ObjectName, Version};
use crate::query::{Fields, Namespaces, Query, QueryId, Target};
use crate::registry::Registered;

/// One stream of a watch. A watch that is started anew gets a new id, so that what an old stream still says is told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WatchId(pub u64);

/// What is watched.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WatchKey {
    /// In which cluster.
    pub cluster: ClusterId,
    /// Objects of which kind.
    pub kind: Kind,
    /// Where.
    pub scope: Scope,
    /// How much of them.
    pub content: Content,
}

/// How much of each object a watch tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Content {
    /// Its metadata (`PartialObjectMetadata`).
    Metadata,
    /// All of it.
    Whole,
}

/// Where a watch looks.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scope {
    /// In all of the cluster.
    All,
    /// In one namespace.
    Namespace(Arc<str>),
    /// At one object, which may be granted by its name.
    Name(ObjectName),
}

pub(crate) struct Watch {
    pub(crate) queries: BTreeSet<QueryId>,
    pub(crate) state: WatchState,
    /// Failures since it last stood.
    pub(crate) failures: u32,
    /// While the kind is not served: the query that finds its definition as soon as there is one.
    pub(crate) definition: Option<QueryId>,
    /// The newest version that was known of the kind when its stream was begun. The collection cannot be older.
    pub(crate) begun_at: Version,
    /// Since when its stream tells every change.
    pub(crate) stands_since: Version,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WatchState {
    /// Its cluster is not connected.
    Unconnected,
    Starting(WatchId),
    Standing(WatchId),
    Failed(Failure),
}

/// Objects of one namespace, or namespaces of one cluster, that are watched one by one before one watch takes them all in.
/// Each stream costs a share of a connection on both sides, and the API server filters by name at no less cost.
const APART: usize = 8;
/// Watches of one kind in one cluster before one takes in all.
const APART_IN_ALL: usize = 16;
/// A wide watch gives way to narrow ones when so few queries are left.
pub(crate) const FEW: usize = 4;

/// One kind in one cluster.
#[derive(Default)]
struct Place {
    watches: BTreeMap<(Scope, Content), Watch>,
    /// The newest version that was seen.
    newest: Version,
    /// Wide scopes that the cluster refused, so that narrower ones serve.
    refused: BTreeSet<Scope>,
}

/// Invariant: `streams` holds the id of exactly those watches that are starting or standing.
pub(crate) struct Watches {
    /// How many of one kind in one cluster serve in place of one that is refused.
    most: usize,
    places: IndexMap<(ClusterId, Kind), Place>,
    streams: HashMap<WatchId, WatchKey>,
    /// Queries that are served by some watches until these stand.
    moves: BTreeMap<QueryId, BTreeSet<WatchKey>>,
    next: u64,
}

impl Scope {
    /// The scopes that cover this one, the widest first.
    fn covering(&self) -> Vec<Scope> {
        let mut scopes = vec![Scope::All];
        match self {
            Scope::All => {}
            Scope::Namespace(_) => scopes.push(self.clone()),
            Scope::Name(name) => {
                scopes.extend(name.namespace.clone().map(Scope::Namespace));
                scopes.push(self.clone());
            }
        }
        scopes
    }
}

/// How much a query wants of each object.
pub(crate) fn content_of(query: &Query) -> Content {
    match query.fields {
        Fields::Metadata => Content::Metadata,
        Fields::Whole | Fields::Paths(_) => Content::Whole,
    }
}

/// The narrowest scopes that show all that a query may find now.
pub(crate) fn needs(entry: &Registered) -> Vec<Scope> {
    match &entry.query.target {
        Target::Named(name) => vec![Scope::Name(name.clone())],
        Target::Selected(selection) => match (&selection.namespaces, &entry.selected) {
            (Namespaces::All, _) => vec![Scope::All],
            (Namespaces::Listed(names), _) => names.iter().cloned().map(Scope::Namespace).collect(),
            (Namespaces::Selected(_), selected) => selected
                .iter()
                .flat_map(|selected| &selected.names)
                .cloned()
                .map(Scope::Namespace)
                .collect(),
        },
    }
}

impl Place {
    /// The watch that should serve a need, given those that there are. Where a wide one is refused, `most` others serve;
    /// what needs more fails as the wide one does.
    fn best(&self, need: &Scope, content: Content, most: usize) -> (Scope, Content) {
        for scope in need.covering() {
            if self.serves(&scope, need) {
                let whole = (scope.clone(), Content::Whole);
                if self.watches.contains_key(&whole) {
                    return whole;
                }
                let metadata = (scope, Content::Metadata);
                if content == Content::Metadata && self.watches.contains_key(&metadata) {
                    return metadata;
                }
            }
        }
        let mut scope = need.clone();
        while let Some(wider) = self.widened(&scope).filter(|wider| self.serves(wider, need)) {
            scope = wider;
        }
        if self.watches.len() >= most {
            let refused = |wide: &Scope| wide != need && self.refused.contains(wide);
            scope = need.covering().into_iter().rfind(refused).unwrap_or(scope);
        }
        (scope, content)
    }

    /// Whether a scope may serve a need: a narrower need is not held up by a scope that the cluster refuses.
    fn serves(&self, scope: &Scope, need: &Scope) -> bool {
        scope == need || !self.refused.contains(scope)
    }

    /// The scope to watch instead of one more of this kind.
    fn widened(&self, scope: &Scope) -> Option<Scope> {
        let all = self.watches.len() >= APART_IN_ALL;
        let many = |within: &Scope| self.narrower(within).take(APART).count() >= APART;
        match scope {
            Scope::All => None,
            Scope::Namespace(_) => (all || self.namespaces().take(APART).count() >= APART).then_some(Scope::All),
            Scope::Name(name) => match &name.namespace {
                _ if all && !self.refused.contains(&Scope::All) => Some(Scope::All),
                Some(namespace) => {
                    let namespace = Scope::Namespace(namespace.clone());
                    many(&namespace).then_some(namespace)
                }
                None => (self.names_in(None).take(APART).count() >= APART).then_some(Scope::All),
            },
        }
    }

    /// The watches of objects by name, in one namespace or in none.
    fn names_in<'a>(
        &'a self,
        namespace: Option<&Arc<str>>,
    ) -> impl Iterator<Item = (&'a (Scope, Content), &'a Watch)> + use<'a> {
        let namespace = namespace.cloned();
        let first = Scope::Name(ObjectName {
            namespace: namespace.clone(),
            name: "".into(),
        });
        let is_here = move |scope: &Scope| matches!(scope, Scope::Name(name) if name.namespace == namespace);
        let from = self.watches.range((first, Content::Metadata)..);
        from.take_while(move |((scope, _), _)| is_here(scope))
    }

    /// The watches of namespaces.
    fn namespaces(&self) -> impl Iterator<Item = (&(Scope, Content), &Watch)> {
        let from = self.watches.range((Scope::Namespace("".into()), Content::Metadata)..);
        from.take_while(|((scope, _), _)| matches!(scope, Scope::Namespace(_)))
    }

    /// The watches of narrower scopes than this one.
    fn narrower<'a>(&'a self, scope: &Scope) -> Box<dyn Iterator<Item = (&'a (Scope, Content), &'a Watch)> + 'a> {
        match scope {
            Scope::All => Box::new(self.watches.range((Scope::Namespace("".into()), Content::Metadata)..)),
            Scope::Namespace(namespace) => Box::new(self.names_in(Some(namespace))),
            Scope::Name(_) => Box::new(std::iter::empty()),
        }
    }

    /// The watches that a query is on. A query that looks in namespaces by their labels may be on some of namespaces that it
    /// no longer looks in, any other only on those around what it needs.
    fn watches_of(&self, id: QueryId, entry: &Registered) -> Vec<(Scope, Content)> {
        let is_on = |key: &(Scope, Content)| self.watches.get(key).is_some_and(|watch| watch.queries.contains(&id));
        if entry.selected.is_some() {
            return self.watches.keys().filter(|key| is_on(key)).cloned().collect();
        }
        let scopes: BTreeSet<Scope> = needs(entry).iter().flat_map(Scope::covering).collect();
        let both = |scope: Scope| [Content::Metadata, Content::Whole].map(|content| (scope.clone(), content));
        scopes.into_iter().flat_map(both).filter(is_on).collect()
    }
}

/// What became of a query's watches.
#[derive(Default)]
pub(crate) struct Attached {
    /// Watches that are new and must be started.
    pub(crate) new: Vec<WatchKey>,
    /// Watches that it left.
    pub(crate) left: Vec<WatchKey>,
}

impl Watches {
    pub(crate) fn new(most: usize) -> Self {
        Watches {
            most,
            places: IndexMap::new(),
            streams: HashMap::new(),
            moves: BTreeMap::new(),
            next: 0,
        }
    }

    /// Attaches a query to the watches that should serve it, and takes it off those that it no longer needs. A watch that
    /// serves it meanwhile keeps it until the new ones stand.
    pub(crate) fn attach(&mut self, id: QueryId, entry: &Registered) -> Attached {
        let (cluster, kind) = (entry.query.cluster, entry.query.kind.clone());
        let content = content_of(&entry.query);
        let most = self.most;
        let place = self.places.entry((cluster, kind.clone())).or_default();
        let key = |(scope, content): (Scope, Content)| WatchKey {
            cluster,
            kind: kind.clone(),
            scope,
            content,
        };
        let mut attached = Attached::default();
        let mut wanted = BTreeSet::new();
        for need in needs(entry) {
            let best = place.best(&need, content, most);
            let newest = place.newest;
            let watch = place.watches.entry(best.clone()).or_insert_with(|| {
                attached.new.push(key(best.clone()));
                Watch::new(newest)
            });
            watch.queries.insert(id);
            wanted.insert(best);
        }
        let served_before = place.watches_of(id, entry).iter().any(|key| !wanted.contains(key));
        if !served_before {
            self.moves.remove(&id);
        } else {
            let wanted: BTreeSet<_> = wanted.into_iter().map(key).collect();
            self.moves.insert(id, wanted);
            attached.left = self.settle(id, entry);
        }
        if self
            .places
            .get(&(cluster, kind.clone()))
            .is_some_and(|place| place.watches.is_empty())
        {
            self.places.swap_remove(&(cluster, kind));
        }
        attached
    }

    /// Ends a query's move once all the watches that it moves to stand. Gives those that it leaves.
    pub(crate) fn settle(&mut self, id: QueryId, entry: &Registered) -> Vec<WatchKey> {
        let stands = |key: &WatchKey| {
            self.get(key)
                .is_some_and(|watch| matches!(watch.state, WatchState::Standing(_)))
        };
        let Some(wanted) = self.moves.get(&id).filter(|wanted| wanted.iter().all(stands)).cloned() else {
            return Vec::new();
        };
        self.moves.remove(&id);
        let mut left = self.of_query(id, entry);
        left.retain(|key| !wanted.contains(key));
        for key in &left {
            self.take_off(id, key);
        }
        left
    }

    /// Takes a query off a watch.
    pub(crate) fn take_off(&mut self, id: QueryId, key: &WatchKey) {
        if let Some(watch) = self.get_mut(key) {
            watch.queries.remove(&id);
        }
    }

    /// Takes a query off all its watches. Gives them.
    pub(crate) fn detach(&mut self, id: QueryId, entry: &Registered) -> Vec<WatchKey> {
        self.moves.remove(&id);
        let left = self.of_query(id, entry);
        for key in &left {
            self.take_off(id, key);
        }
        left
    }

    /// The queries of narrower watches, or of watches of less, that this one would serve as well.
    pub(crate) fn served_by_narrower(&self, key: &WatchKey) -> Vec<QueryId> {
        let Some(place) = self.place(key) else {
            return Vec::new();
        };
        let less = place.watches.get_key_value(&(key.scope.clone(), Content::Metadata));
        let less = less.filter(|_| key.content == Content::Whole);
        let narrower = place
            .narrower(&key.scope)
            .filter(|((_, content), _)| *content <= key.content);
        let narrower = narrower.chain(less);
        let queries: BTreeSet<_> = narrower.flat_map(|(_, watch)| watch.queries.iter().copied()).collect();
        queries.into_iter().collect()
    }

    /// A cluster refuses a scope. Narrower ones serve instead, as far as they can. Returns whether that is new.
    pub(crate) fn refuse(&mut self, key: &WatchKey) -> bool {
        let place = self.places.get_mut(&(key.cluster, key.kind.clone()));
        place.is_some_and(|place| place.refused.insert(key.scope.clone()))
    }

    /// Begins to watch a wide scope if so many narrower watches serve in its place that it would be chosen.
    pub(crate) fn widen(&mut self, key: &WatchKey) -> bool {
        let Some(place) = self.places.get_mut(&(key.cluster, key.kind.clone())) else {
            return false;
        };
        let wide = (key.scope.clone(), key.content);
        let first = place.narrower(&key.scope).next().map(|((scope, _), _)| scope.clone());
        let chosen = first.and_then(|narrow| place.widened(&narrow)).as_ref() == Some(&key.scope);
        if !chosen || place.watches.contains_key(&wide) {
            return false;
        }
        let newest = place.newest;
        place.watches.insert(wide, Watch::new(newest));
        true
    }

    /// The scope may be tried again when somebody needs it. Returns whether it was refused.
    pub(crate) fn allow(&mut self, key: &WatchKey) -> bool {
        let place = self.places.get_mut(&(key.cluster, key.kind.clone()));
        place.is_some_and(|place| place.refused.remove(&key.scope))
    }

    /// Whether a wide watch should give way to narrow ones: few queries are left, and none needs it as it is.
    pub(crate) fn should_narrow<'a>(&self, key: &WatchKey, entry: impl Fn(QueryId) -> Option<&'a Registered>) -> bool {
        let Some(watch) = self.get(key) else { return false };
        let few = watch.queries.len() <= FEW;
        !watch.queries.is_empty()
            && watch.queries.iter().filter_map(|id| entry(*id)).all(|entry| {
                let less = content_of(&entry.query) < key.content;
                let narrower = few && needs(entry).len() <= FEW && !needs(entry).contains(&key.scope);
                less || narrower
            })
    }

    /// Takes a watch out of what new plans look at, so that its queries are attached as if it were not there. It serves
    /// until they have moved.
    pub(crate) fn set_aside(&mut self, key: &WatchKey) -> Option<Watch> {
        let place = self.places.get_mut(&(key.cluster, key.kind.clone()))?;
        place.watches.remove(&(key.scope.clone(), key.content))
    }

    /// Whether a query would be attached to other watches than one that is set aside.
    pub(crate) fn avoids(&self, key: &WatchKey, entry: &Registered) -> bool {
        let content = content_of(&entry.query);
        let aside = (key.scope.clone(), key.content);
        self.place(key).is_none_or(|place| {
            needs(entry)
                .iter()
                .all(|need| place.best(need, content, self.most) != aside)
        })
    }

    pub(crate) fn put_back(&mut self, key: &WatchKey, watch: Watch) {
        let place = self.places.entry((key.cluster, key.kind.clone())).or_default();
        place.watches.insert((key.scope.clone(), key.content), watch);
    }

    /// Makes a query move from a watch that is set aside to those that it was attached to meanwhile.
    pub(crate) fn move_from(&mut self, id: QueryId, entry: &Registered) {
        if !self.moves.contains_key(&id) {
            let to = self.of_query(id, entry);
            self.moves.insert(id, to.into_iter().collect());
        }
    }

    /// The newest version that is known of a kind.
    pub(crate) fn newest(&self, cluster: ClusterId, kind: &Kind) -> Version {
        let place = self.places.get(&(cluster, kind.clone()));
        place.map(|place| place.newest).unwrap_or_default()
    }

    fn place(&self, key: &WatchKey) -> Option<&Place> {
        self.places.get(&(key.cluster, key.kind.clone()))
    }

    /// The watches of a query.
    pub(crate) fn of_query(&self, id: QueryId, entry: &Registered) -> Vec<WatchKey> {
        let Query { cluster, kind, .. } = &*entry.query;
        let Some(place) = self.places.get(&(*cluster, kind.clone())) else {
            return Vec::new();
        };
        let key = |(scope, content)| WatchKey {
            cluster: *cluster,
            kind: kind.clone(),
            scope,
            content,
        };
        place.watches_of(id, entry).into_iter().map(key).collect()
    }

    /// The scope of the watch that serves a need of a query, if it stands.
    pub(crate) fn standing(&self, id: QueryId, entry: &Registered, need: &Scope) -> Option<Scope> {
        let content = content_of(&entry.query);
        let place = self.places.get(&(entry.query.cluster, entry.query.kind.clone()))?;
        let contents = [Content::Whole, Content::Metadata];
        need.covering().into_iter().find(|scope| {
            contents.into_iter().filter(|has| *has >= content).any(|has| {
                let watch = place.watches.get(&(scope.clone(), has));
                watch.is_some_and(|watch| matches!(watch.state, WatchState::Standing(_)) && watch.queries.contains(&id))
            })
        })
    }

    /// The widest scope around an object of which a watch stands, so that it may be listed, too.
    pub(crate) fn standing_over(&self, cluster: ClusterId, kind: &Kind, name: &ObjectName) -> Option<Scope> {
        let place = self.places.get(&(cluster, kind.clone()))?;
        let stands = |scope: &Scope| {
            let watch = place.watches.get(&(scope.clone(), Content::Whole));
            watch.is_some_and(|watch| matches!(watch.state, WatchState::Standing(_)))
        };
        Scope::Name(name.clone()).covering().into_iter().find(stands)
    }

    /// Whether watches that stand show all that a query may find.
    pub(crate) fn all_stand(&self, id: QueryId, entry: &Registered) -> bool {
        needs(entry).iter().all(|need| self.standing(id, entry, need).is_some())
    }

    /// Why a query is not served, if a watch of its failed.
    pub(crate) fn failure(&self, id: QueryId, entry: &Registered) -> Option<Failure> {
        if self.all_stand(id, entry) {
            return None;
        }
        let keys = self.of_query(id, entry);
        keys.iter()
            .filter_map(|key| self.get(key))
            .find_map(|watch| match &watch.state {
                WatchState::Failed(failure) => Some(failure.clone()),
                _ => None,
            })
    }

    /// Starts a watch, or starts it anew. The second id is that of the stream that ends with this.
    pub(crate) fn start(&mut self, key: &WatchKey) -> Option<(WatchId, Option<WatchId>)> {
        let id = WatchId(self.next);
        let newest = self.place(key)?.newest;
        let ended = self.end(key, WatchState::Starting(id))?;
        self.get_mut(key)?.begun_at = newest;
        self.next += 1;
        self.streams.insert(id, key.clone());
        Some((id, ended))
    }

    /// Ends a watch's stream, leaving the watch in another state. None if there is no such watch.
    pub(crate) fn end(&mut self, key: &WatchKey, state: WatchState) -> Option<Option<WatchId>> {
        let watch = self.get_mut(key)?;
        let ended = match std::mem::replace(&mut watch.state, state) {
            WatchState::Starting(id) | WatchState::Standing(id) => Some(id),
            WatchState::Unconnected | WatchState::Failed(_) => None,
        };
        if let Some(id) = ended {
            self.streams.remove(&id);
        }
        Some(ended)
    }

    /// Forgets a watch. Returns the stream that ends with this.
    pub(crate) fn forget(&mut self, key: &WatchKey) -> Option<WatchId> {
        let ended = self.end(key, WatchState::Unconnected).flatten();
        let place = (key.cluster, key.kind.clone());
        if let Some(found) = self.places.get_mut(&place) {
            found.watches.remove(&(key.scope.clone(), key.content));
            if found.watches.is_empty() {
                self.places.swap_remove(&place);
            }
        }
        ended
    }

    /// Notes a version of a kind, if that is watched.
    pub(crate) fn saw(&mut self, cluster: ClusterId, kind: &Kind, version: Version) {
        if let Some(place) = self.places.get_mut(&(cluster, kind.clone())) {
            place.newest = version.max(place.newest);
        }
    }

    pub(crate) fn forget_versions(&mut self, cluster: ClusterId, kind: &Kind) {
        if let Some(place) = self.places.get_mut(&(cluster, kind.clone())) {
            place.newest = Version::default();
        }
    }

    pub(crate) fn get(&self, key: &WatchKey) -> Option<&Watch> {
        self.place(key)?.watches.get(&(key.scope.clone(), key.content))
    }

    pub(crate) fn get_mut(&mut self, key: &WatchKey) -> Option<&mut Watch> {
        let place = self.places.get_mut(&(key.cluster, key.kind.clone()))?;
        place.watches.get_mut(&(key.scope.clone(), key.content))
    }

    /// What a stream watches; none if it was ended.
    pub(crate) fn stream(&self, id: WatchId) -> Option<&WatchKey> {
        self.streams.get(&id)
    }

    pub(crate) fn of_kind(&self, cluster: ClusterId, kind: &Kind) -> Vec<WatchKey> {
        let place = self.places.get(&(cluster, kind.clone()));
        place.into_iter().flat_map(|place| keys(cluster, kind, place)).collect()
    }

    pub(crate) fn of_cluster(&self, id: ClusterId) -> Vec<WatchKey> {
        self.places
            .iter()
            .filter(|((cluster, _), _)| *cluster == id)
            .flat_map(|((cluster, kind), place)| keys(*cluster, kind, place))
            .collect()
    }

    /// The kinds that are watched.
    pub(crate) fn places(&self) -> impl Iterator<Item = &(ClusterId, Kind)> {
        self.places.keys()
    }

    pub(crate) fn len(&self) -> usize {
        self.places.values().map(|place| place.watches.len()).sum()
    }
}

fn keys<'a>(cluster: ClusterId, kind: &'a Kind, place: &'a Place) -> impl Iterator<Item = WatchKey> + 'a {
    place.watches.keys().map(move |(scope, content)| WatchKey {
        cluster,
        kind: kind.clone(),
        scope: scope.clone(),
        content: *content,
    })
}

impl Watch {
    fn new(newest: Version) -> Self {
        Watch {
            queries: BTreeSet::new(),
            state: WatchState::Unconnected,
            failures: 0,
            definition: None,
            begun_at: newest,
            stands_since: Version::default(),
        }
    }
}

impl WatchKey {
    /// Whether narrower watches can do instead when this one is refused.
    pub(crate) fn may_be_refused(&self, failure: &Failure) -> bool {
        failure.reason == FailureReason::Forbidden && !matches!(self.scope, Scope::Name(_))
    }
}
