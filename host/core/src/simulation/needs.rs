//! What the machine may hold: no more than the queries of those that are there need.

use std::collections::BTreeSet;

use super::object::Resource;
use super::plugin::declared_watches;
use super::server::{Place, Server};
use super::streams::covers;
use super::world::{World, kubeconfig};
use crate::{ClusterId, Content, Criterion, Fields, Namespaces, Query, RunResult, Scope, Selector, Target, WatchKey};

impl World {
    /// Every watch and every object that is kept is there for a query of a primary or a controller that is there.
    pub(super) fn check_held(&self) -> Result<(), String> {
        let needed = self.needed();
        let unneeded = self.streams.values().find(|stream| !self.serves(&stream.key, &needed));
        if let Some(stream) = unneeded {
            return Err(format!("nobody needs the watch of {:?}", stream.key));
        }
        let keys: Vec<_> = self.streams.values().map(|stream| &stream.key).collect();
        if let Some(twice) = keys.iter().enumerate().find(|(at, key)| keys[..*at].contains(key)) {
            return Err(format!("two watches of {:?}", twice.1));
        }
        if self.all_is_well() {
            let most = self.objects_of(&needed);
            let counts = self.core.counts();
            if counts.objects > most {
                return Err(format!("{} objects are kept where queries find {most}", counts.objects));
            }
        }
        Ok(())
    }

    /// Whether every primary was told all, so that it is known which queries are registered.
    fn all_is_well(&self) -> bool {
        let there: BTreeSet<_> = self.primaries().into_iter().map(|there| there.key).collect();
        let visible = self
            .controllers
            .values()
            .all(|controller| self.home(controller).is_some());
        // What cannot be watched any longer is kept as it was.
        let watched = self.controllers.values().filter(|controller| controller.watches);
        let told = watched.into_iter().all(|controller| {
            let server = self.home(controller).map(|home| &self.servers[home]);
            let refused = |server: &Server, of| server.refusal(of, Place::Everywhere).is_some();
            server.is_some_and(|server| !declared_watches().iter().any(|(of, ..)| refused(server, *of)))
        });
        let done = self.ledger.records.iter().filter(|(key, _)| there.contains(key));
        visible
            && told
            && done.map(|(_, record)| &record.last).all(|last| {
                last.as_ref().is_some_and(|last| {
                    matches!(last.result, RunResult::Done { .. }) && last.told.iter().all(Result::is_ok)
                })
            })
    }

    /// The queries of all primaries and controllers, and those that follow from them.
    fn needed(&self) -> Vec<Query> {
        let mut needed = Vec::new();
        for controller in self.controllers.values() {
            needed.push(World::primaries_of(controller));
            needed.extend(self.watches_of(controller));
        }
        for record in self.ledger.records.values() {
            needed.extend(record.named.iter().cloned());
        }
        let mut further: Vec<Query> = needed.iter().filter_map(namespaces).collect();
        further.extend(needed.iter().filter_map(|query| self.definitions(query)));
        needed.extend(further);
        for name in ["kc1", "kc2"] {
            let key = kubeconfig(name);
            let id = self.core.known_cluster(&key);
            let releases = id.is_some_and(|id| self.core.is_to_release_in(id));
            if releases || needed.iter().any(|query| Some(query.cluster) == id) {
                needed.push(key.query());
            }
        }
        needed
    }

    /// The definitions that a query of a kind that is not served waits for.
    fn definitions(&self, query: &Query) -> Option<Query> {
        let server = &self.servers[*self.connections.get(&query.cluster)?];
        let resource = Resource::of(&query.kind);
        // Its definition may also give the kind another scope.
        let refused = server
            .namespaced(resource)
            .is_none_or(|_| resource.namespaced().is_none());
        refused.then(|| everything(query.cluster, Resource::Definition))
    }

    fn serves(&self, key: &WatchKey, needed: &[Query]) -> bool {
        needed.iter().any(|query| {
            query.cluster == key.cluster
                && query.kind == key.kind
                && touches(&key.scope, query)
                && (self.is_misplaced(query) || key.content == Content::Metadata || query.fields != Fields::Metadata)
        })
    }

    /// Whether a query looks in namespaces for what is in none, or the other way round. Narrower watches are refused, so it stays
    /// with a wide one.
    fn is_misplaced(&self, query: &Query) -> bool {
        let server = self
            .connections
            .get(&query.cluster)
            .map(|server| &self.servers[*server]);
        let namespaced = server.and_then(|server| server.namespaced(Resource::of(&query.kind)));
        match &query.target {
            Target::Named(name) => namespaced.is_some_and(|namespaced| namespaced != name.namespace.is_some()),
            Target::Selected(_) => namespaced == Some(false) && namespaces(query).is_some(),
        }
    }

    /// How many objects queries find.
    fn objects_of(&self, needed: &[Query]) -> usize {
        let mut found = BTreeSet::new();
        for query in needed {
            let Some(server) = self
                .connections
                .get(&query.cluster)
                .map(|server| &self.servers[*server])
            else {
                continue;
            };
            let resource = Resource::of(&query.kind);
            let objects = server.objects.iter().filter(|((of, name), object)| {
                *of == resource && query.matches(&query.object(name), &object.metadata())
            });
            found.extend(objects.map(|(key, _)| (query.cluster, key)));
        }
        found.len()
    }
}

fn everything(cluster: ClusterId, resource: Resource) -> Query {
    Query {
        cluster,
        kind: resource.kind(),
        target: Target::selected(Namespaces::All, Criterion::Labels(Selector::everything())),
        fields: Fields::Whole,
    }
}

/// The namespaces that a query selects by their labels.
fn namespaces(query: &Query) -> Option<Query> {
    match &query.target {
        Target::Selected(selection) if matches!(selection.namespaces, Namespaces::Selected(_)) => {
            Some(everything(query.cluster, Resource::Namespace))
        }
        _ => None,
    }
}

/// Whether a watch tells of anything that a query may find.
fn touches(scope: &Scope, query: &Query) -> bool {
    match &query.target {
        Target::Named(name) => covers(scope, name),
        Target::Selected(selection) => match (&selection.namespaces, scope) {
            (Namespaces::Listed(names), Scope::Namespace(name)) => names.contains(name),
            (Namespaces::Listed(names), _) => !names.is_empty(),
            (Namespaces::All | Namespaces::Selected(_), _) => true,
        },
    }
}
