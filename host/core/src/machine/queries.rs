//! The life of a query: watched before it is read, answered from the cache, let go with its last user.

use std::sync::Arc;

use super::{Core, Effect, Timer};
use crate::cache::Object;
use crate::clusters::ClusterState;
use crate::failure::Failure;
use crate::name::{ObjectKey, Version};
use crate::query::{Criterion, Finding, FoundObject, Namespaces, Query, QueryId, Target};
use crate::reads::{Part, ReadScope, Waiting};
use crate::registry::{QueryState, Registered, Was};
use crate::selector::Selector;
use crate::time::Time;
use crate::users::User;
use crate::wake::Wake;
use crate::watches::{Content, FEW, Scope, WatchKey, WatchState, content_of, needs};

impl Core {
    /// Adds a user to a query. A new query is watched at once, and read as soon as its watches stand.
    pub(super) fn register(&mut self, query: Query, user: User, now: Time) -> QueryId {
        let (id, new) = self.registry.add(query, user);
        let Some(query) = self.registry.query(id).filter(|_| new) else {
            return id;
        };
        self.use_cluster(query.cluster, now);
        if let Target::Selected(selection) = &query.target {
            self.cache.track(query.cluster, &query.kind, &selection.criterion);
            if let Namespaces::Selected(selector) = &selection.namespaces {
                self.follow_namespaces(id, query.cluster, selector, now);
                return id;
            }
        }
        self.attach_query(id, now);
        self.evaluate(id, now);
        id
    }

    /// Takes a user off a query; with the last one the query goes, and all that was held for it.
    pub(super) fn unregister(&mut self, id: QueryId, user: &User, now: Time) {
        let Some(entry) = self.registry.remove(id, user) else {
            return;
        };
        let query = &entry.query;
        self.reads.forget_query(id);
        self.forget_found(&entry, now);
        if let Target::Selected(selection) = &query.target {
            self.cache.untrack(query.cluster, &query.kind, &selection.criterion);
        }
        for key in self.watches.detach(id, &entry) {
            self.let_linger(key, now);
        }
        if let Some(selected) = &entry.selected {
            self.unregister(selected.query, &User::Namespaces(id), now);
        }
        self.release_cluster(query.cluster, now);
    }

    /// A watch that serves few queries, or none, is looked at after a while: it may end, or give way to narrower ones.
    pub(super) fn let_linger(&mut self, key: WatchKey, now: Time) {
        if self.watches.get(&key).is_some_and(|watch| watch.queries.len() <= FEW) {
            self.set_timer(now + self.settings.linger, Timer::Linger(key));
        }
    }

    /// Attaches a query to its watches, and starts those that are new.
    pub(super) fn attach_query(&mut self, id: QueryId, now: Time) {
        let Some(entry) = self.registry.get(id) else { return };
        let attached = self.watches.attach(id, entry);
        for key in attached.new {
            self.start_watch(&key);
            // What narrower watches serve moves to this one, and they fall when it stands.
            for other in self.watches.served_by_narrower(&key) {
                self.attach_query(other, now);
            }
        }
        for key in attached.left {
            self.let_linger(key, now);
        }
    }

    pub(super) fn start_watch(&mut self, key: &WatchKey) {
        match self.clusters.get(key.cluster).map(|cluster| cluster.state.clone()) {
            Some(ClusterState::Connected) => self.restart_watch(key),
            Some(ClusterState::Failed(failure)) => {
                self.watches.end(key, WatchState::Failed(failure));
            }
            Some(ClusterState::Unconnected) | None => {}
        }
    }

    pub(super) fn restart_watch(&mut self, key: &WatchKey) {
        if let Some((started, ended)) = self.watches.start(key) {
            self.effects.extend(ended.map(Effect::StopWatch));
            self.effects.push_back(Effect::StartWatch(started, key.clone()));
        }
    }

    /// Brings a query's state in line with its watches, after those have changed.
    pub(super) fn evaluate(&mut self, id: QueryId, now: Time) {
        let Some(entry) = self.registry.get(id) else { return };
        if let Some(failure) = self.watches.failure(id, entry) {
            self.fail_unwatched(id, &failure, now);
        } else if self.watches.all_stand(id, entry) {
            self.begin_reads(id, now);
        } else {
            // What is being read is of watches that no longer suffice.
            self.registry.begin_round(id);
            self.set_pending(id);
        }
    }

    /// Reads a query for the first time, or once more after a gap in its watches.
    pub(super) fn begin_reads(&mut self, id: QueryId, now: Time) {
        let Some(entry) = self.registry.get(id) else { return };
        let needs = needs(entry);
        let ready = matches!(entry.state, QueryState::Ready { .. });
        let round = self.registry.begin_round(id);
        if needs.is_empty() {
            // It looks nowhere, so it finds nothing.
            return self.is_ready(id, Version::default(), now);
        }
        // The answers of one that is ready stay what they were until something else is read.
        if !ready {
            self.set_pending(id);
        }
        self.read_needs(Waiting { query: id, round }, &needs);
    }

    /// Reads what a query finds in some scopes. While it is pending, it waits for that.
    fn read_needs(&mut self, waiting: Waiting, needs: &[Scope]) {
        let Some(entry) = self.registry.get(waiting.query) else {
            return;
        };
        let query = entry.query.clone();
        let within: Vec<Scope> = needs
            .iter()
            .map(|need| {
                let standing = self.watches.standing(waiting.query, entry, need);
                standing.unwrap_or_else(|| need.clone())
            })
            .collect();
        if let Some(QueryState::Pending { reads, .. }) =
            self.registry.get_mut(waiting.query).map(|entry| &mut entry.state)
        {
            *reads += u32::try_from(needs.len()).unwrap_or(u32::MAX);
        }
        for (need, within) in needs.iter().zip(within) {
            let part = Part {
                scope: read_scope(&query, need),
                content: content_of(&query),
                waiting: Some(waiting),
            };
            self.reads.push(query.cluster, &query.kind, within, part);
        }
    }

    /// Reads a query in namespaces that it did not look in before. Until that is done it has no answer.
    pub(super) fn read_more(&mut self, id: QueryId, namespaces: Vec<Arc<str>>) {
        let Some(entry) = self.registry.get(id) else { return };
        let waiting = Waiting {
            query: id,
            round: entry.round,
        };
        if matches!(entry.state, QueryState::Ready { .. }) {
            self.set_pending(id);
        }
        let needs: Vec<_> = namespaces.into_iter().map(Scope::Namespace).collect();
        self.read_needs(waiting, &needs);
    }

    /// Makes a query wait for reads, none of which is asked for yet.
    pub(super) fn set_pending(&mut self, id: QueryId) {
        let Some(entry) = self.registry.get_mut(id) else { return };
        entry.state = match entry.state {
            QueryState::Ready { floor } => QueryState::Pending {
                reads: 0,
                floor: Some(floor),
                was: Was::Ready,
            },
            QueryState::Pending { was, .. } => QueryState::Pending {
                reads: 0,
                floor: None,
                was,
            },
            QueryState::Failed(_) => QueryState::Pending {
                reads: 0,
                floor: None,
                was: Was::Unanswered,
            },
        };
    }

    /// One of a query's reads is done. The last one of the present round makes it ready.
    pub(super) fn query_read(&mut self, waiting: Waiting, version: Version, now: Time) {
        let id = waiting.query;
        let Some(entry) = self.registry.get_mut(id).filter(|entry| entry.round == waiting.round) else {
            return;
        };
        entry.failures = 0;
        if let QueryState::Pending { reads, floor, .. } = &mut entry.state {
            let floor = *floor.insert(floor.map_or(version, |other| other.min(version)));
            *reads = reads.saturating_sub(1);
            if *reads == 0 {
                self.is_ready(id, floor, now);
            }
        }
    }

    fn is_ready(&mut self, id: QueryId, floor: Version, now: Time) {
        let Some(entry) = self.registry.get_mut(id) else { return };
        let before = std::mem::replace(&mut entry.state, QueryState::Ready { floor });
        match before {
            QueryState::Ready { .. } => {}
            QueryState::Pending { was, .. } => self.tell_answered(id, was != Was::Ready, now),
            QueryState::Failed(_) => self.tell_answered(id, true, now),
        }
    }

    /// Keeps these queries, which waited for a read, pending until one more object that they find is up to date.
    pub(super) fn await_object(&mut self, waiting: &[Waiting], object: &ObjectKey) {
        let within = self.within(object);
        let mut awaited = false;
        for waiting in waiting {
            let Some(entry) = self.registry.get_mut(waiting.query) else {
                continue;
            };
            if entry.round != waiting.round {
                continue;
            }
            if let QueryState::Pending { reads, .. } = &mut entry.state {
                *reads += 1;
                awaited = true;
                let part = Part {
                    scope: ReadScope::Named(object.name.clone()),
                    // Others may find it, too, and want more of it.
                    content: Content::Whole,
                    waiting: Some(*waiting),
                };
                self.reads.push(object.cluster, &object.kind, within.clone(), part);
            }
        }
        if !awaited {
            self.read_object(object);
        }
    }

    /// The widest scope that may be listed to read an object.
    pub(super) fn within(&self, object: &ObjectKey) -> Scope {
        let standing = self.watches.standing_over(object.cluster, &object.kind, &object.name);
        standing.unwrap_or_else(|| Scope::Name(object.name.clone()))
    }

    /// Fails a query that is not watched. What is being read for it says nothing of it any longer, nor why it fails.
    pub(super) fn fail_unwatched(&mut self, id: QueryId, failure: &Failure, now: Time) {
        self.registry.begin_round(id);
        self.fail_query(id, failure, now);
    }

    pub(super) fn fail_query(&mut self, id: QueryId, failure: &Failure, now: Time) {
        let Some(entry) = self.registry.get_mut(id) else { return };
        let failed = QueryState::Failed(failure.clone());
        if entry.state != failed {
            entry.state = failed;
            self.tell_answered(id, true, now);
        }
    }

    /// Tells a query's users that it has an answer, or a failure, or another failure. Those who know the answer already
    /// are told only if they wait for it.
    fn tell_answered(&mut self, id: QueryId, news: bool, now: Time) {
        let Some(entry) = self.registry.get(id) else { return };
        let wake = Wake::Query {
            query: entry.query.clone(),
        };
        let users: Vec<User> = entry.users.iter().cloned().collect();
        for user in users {
            match user {
                User::Primary(key) if self.is_waiting(&key) => self.stop_waiting(&key, now),
                User::Primary(key) if news => self.wake(&key, wake.clone(), None, now),
                User::Controller(controller) => self.check_complete(controller, now),
                User::Cluster(cluster) => self.kubeconfig_changed(cluster, now),
                User::Namespaces(query) => self.namespaces_changed(query, None, now),
                User::Declared(controller, watch) => self.declared_listed(controller, watch),
                User::Primary(_) | User::Watch(_) => {}
            }
        }
    }

    /// What a query finds now; none while it is pending.
    pub(super) fn finding(&self, id: QueryId) -> Option<Finding> {
        let entry = self.registry.get(id)?;
        match &entry.state {
            QueryState::Pending { .. } => None,
            QueryState::Failed(failure) => Some(Finding::Failed(failure.clone())),
            QueryState::Ready { .. } => Some(self.look_up(entry)),
        }
    }

    fn look_up(&self, entry: &Registered) -> Finding {
        let query = &entry.query;
        match &query.target {
            Target::Named(name) => {
                let present = self.cache.present(&query.object(name));
                match present.and_then(|object| found(query, object)) {
                    Some(object) => Finding::Found(object),
                    None => Finding::Missing,
                }
            }
            Target::Selected(selection) => Finding::Matches(
                self.cache
                    .selected_in(query.cluster, &query.kind, &selection.criterion, entry.namespaces())
                    .filter_map(|(_, object)| found(query, object))
                    .collect(),
            ),
        }
    }
}

/// An object as a query declared it.
pub(super) fn found(query: &Query, object: &Object) -> Option<FoundObject> {
    Some(FoundObject {
        cluster: query.cluster,
        version: object.metadata.version,
        text: object.text(&query.fields)?.clone(),
    })
}

/// What to read for a query's need.
fn read_scope(query: &Query, need: &Scope) -> ReadScope {
    let selector = match &query.target {
        Target::Named(name) => return ReadScope::Named(name.clone()),
        Target::Selected(selection) => match &selection.criterion {
            Criterion::Labels(selector) => selector.clone(),
            // The API server does not filter by owner.
            Criterion::Owner(_) => Selector::everything(),
        },
    };
    let namespace = match need {
        Scope::Namespace(namespace) => Some(namespace.clone()),
        Scope::All | Scope::Name(_) => None,
    };
    ReadScope::Selected { namespace, selector }
}
