//! Queries that look in namespaces by their labels. The namespaces are a query of their own.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::Core;
use crate::name::{ClusterId, Kind};
use crate::query::{Criterion, Fields, Finding, Namespaces, Query, QueryId, Target};
use crate::registry::{QueryState, SelectedNamespaces};
use crate::selector::Selector;
use crate::time::Time;
use crate::users::User;
use crate::wake::Wake;

impl Core {
    /// Begins to follow the namespaces of a new query.
    pub(super) fn follow_namespaces(&mut self, id: QueryId, cluster: ClusterId, selector: &Selector, now: Time) {
        let query = Query {
            cluster,
            kind: Kind::new("v1", "Namespace"),
            target: Target::selected(Namespaces::All, Criterion::Labels(selector.clone())),
            fields: Fields::Metadata,
        };
        let query = self.register(query, User::Namespaces(id), now);
        if let Some(entry) = self.registry.get_mut(id) {
            entry.selected = Some(Box::new(SelectedNamespaces {
                query,
                names: BTreeSet::new(),
            }));
        }
        self.namespaces_changed(id, None, now);
    }

    /// The namespaces in which a query looks may be others. One that it begins to look in is read before the query is
    /// answered; what it found in one that it stops looking in has gone for it.
    pub(super) fn namespaces_changed(&mut self, id: QueryId, cause: Option<&Wake>, now: Time) {
        let Some(entry) = self.registry.get(id) else { return };
        let Some(selected) = &entry.selected else { return };
        let names = match self.finding(selected.query) {
            None => return,
            Some(Finding::Failed(failure)) => return self.fail_query(id, &failure, now),
            Some(_) => self.found_namespaces(selected.query),
        };
        let added: Vec<Arc<str>> = names.difference(&selected.names).cloned().collect();
        let removed: BTreeSet<Arc<str>> = selected.names.difference(&names).cloned().collect();
        let answered = matches!(
            entry.state,
            QueryState::Ready { .. } | QueryState::Pending { floor: Some(_), .. }
        );
        if answered && added.is_empty() && removed.is_empty() {
            return;
        }
        let lost = self.found_in(id, &removed);
        if let Some(selected) = self.registry.get_mut(id).and_then(|entry| entry.selected.as_mut()) {
            selected.names = names;
        }
        self.attach_query(id, now);
        for object in &lost {
            self.forget_unwanted(object, now);
        }
        if !lost.is_empty() {
            // Without an event to name, the namespaces were read anew.
            let anew = self
                .registry
                .query(id)
                .map(|query| Wake::Query { query: query.clone() });
            if let Some(cause) = cause.cloned().or(anew) {
                self.wake_users(id, &cause, now);
            }
        }
        let Some(entry) = self.registry.get(id) else { return };
        let (stand, ready) = (self.watches.all_stand(id, entry), entry.is_ready());
        if answered && stand && !added.is_empty() {
            self.read_more(id, added);
        } else if !ready || !added.is_empty() {
            // What it waits for may be a namespace that it no longer looks in.
            self.evaluate(id, now);
        }
    }

    fn found_namespaces(&self, id: QueryId) -> BTreeSet<Arc<str>> {
        let Some(query) = self.registry.query(id) else {
            return BTreeSet::new();
        };
        let Target::Selected(selection) = &query.target else {
            return BTreeSet::new();
        };
        self.cache
            .selected(query.cluster, &query.kind, &selection.criterion)
            .map(|(name, _)| name.name.clone())
            .collect()
    }

    /// The objects that a query finds in some namespaces.
    fn found_in(&self, id: QueryId, namespaces: &BTreeSet<Arc<str>>) -> Vec<crate::name::ObjectKey> {
        let Some(query) = self.registry.query(id).filter(|_| !namespaces.is_empty()) else {
            return Vec::new();
        };
        let Target::Selected(selection) = &query.target else {
            return Vec::new();
        };
        self.cache
            .selected_in(
                query.cluster,
                &query.kind,
                &selection.criterion,
                Some(namespaces.iter().collect()),
            )
            .map(|(name, _)| query.object(name))
            .collect()
    }

    fn wake_users(&mut self, id: QueryId, cause: &Wake, now: Time) {
        let users: Vec<User> = self
            .registry
            .get(id)
            .into_iter()
            .flat_map(|entry| entry.users.iter().cloned())
            .collect();
        for user in users {
            if let User::Primary(key) = user {
                self.wake(&key, cause.clone(), None, now);
            }
        }
    }
}
