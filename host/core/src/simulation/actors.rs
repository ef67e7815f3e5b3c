//! People and other controllers: whatever they edit, at random.

use std::rc::Rc;
use std::sync::Arc;

use super::object::{Object, Resource, cluster_wide, named};
use super::plugin::{Asked, OWN, PRIMARIES, Spec, Where, join_key};
use super::server::DEFINITION;
use super::trace::note;
use super::world::World;
use crate::{Criterion, Fields, Namespaces, ObjectName, Operator, Requirement, Selector, Target};

const NAMESPACES: [&str; 3] = ["m", "n", "o"];
const SOURCES: [&str; 3] = ["a", "b", "c"];
pub(super) const KUBECONFIGS: [&str; 2] = ["kc1", "kc2"];
const LABELS: [&str; 2] = ["x", "y"];

impl World {
    /// One edit by somebody.
    pub(super) fn edit(&mut self) {
        let server = self.random.usize(..self.servers.len());
        if self.servers[server].down {
            return;
        }
        match self.random.u32(0..20) {
            0..10 => self.edit_source(server),
            10 => self.edit_namespace(server),
            11 => self.edit_definition(server),
            12 | 13 => self.edit_kubeconfig(),
            14 => self.edit_output(server),
            _ => self.edit_primary(server),
        }
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.random.usize(..from.len())]
    }

    pub(super) fn put(
        &mut self,
        server: usize,
        resource: Resource,
        name: &ObjectName,
        change: impl FnOnce(&mut Object),
    ) {
        let server = &mut self.servers[server];
        if let Some((object, true)) = server.put(resource, name, change) {
            let (at, text) = (server.name, object.text(&Fields::Whole));
            note!(self, "edit {at} v{} {resource:?} {name} {text}", object.version);
        }
    }

    pub(super) fn delete(&mut self, server: usize, resource: Resource, name: &ObjectName) {
        let server = &mut self.servers[server];
        if server.delete(resource, name) {
            note!(
                self,
                "edit {} v{} {resource:?} {name} deleted",
                server.name,
                server.version
            );
        }
    }

    fn source(&mut self) -> (Resource, ObjectName) {
        let resource = self.pick(&[
            Resource::ConfigMap,
            Resource::ConfigMap,
            Resource::ConfigMap,
            Resource::Node,
            Resource::Gadget,
        ]);
        (resource, self.name_of(resource))
    }

    fn name_of(&mut self, resource: Resource) -> ObjectName {
        let (namespace, name) = (self.pick(&NAMESPACES), self.pick(&SOURCES));
        // Gadgets are in namespaces at one time and not at another.
        if resource.namespaced().unwrap_or_else(|| self.random.bool()) {
            named(namespace, name)
        } else {
            cluster_wide(name)
        }
    }

    pub(super) fn edit_source(&mut self, server: usize) {
        let (resource, name) = self.source();
        let value = self.random.u32(0..6);
        match self.random.u32(0..12) {
            0..4 => self.put(server, resource, &name, |object| object.k = value),
            4 => self.put(server, resource, &name, |object| object.other = value),
            5 | 6 => self.label(server, resource, &name),
            7 => self.own(server, resource, &name),
            8 => self.toggle_finalizer(server, resource, &name),
            9 => {
                // Deleted and created anew at once, with equal data.
                let before = self.servers[server].objects.get(&(resource, name.clone())).cloned();
                self.delete(server, resource, &name);
                if let Some(before) = before {
                    self.put(server, resource, &name, |object| {
                        (object.k, object.other, object.labels) = (before.k, before.other, before.labels);
                    });
                }
            }
            _ => self.delete(server, resource, &name),
        }
    }

    fn label(&mut self, server: usize, resource: Resource, name: &ObjectName) {
        let key: Arc<str> = self.pick(&["l", "l", "t"]).into();
        let value = self.random.bool().then(|| Arc::from(self.pick(&LABELS)));
        self.put(server, resource, name, |object| {
            match value {
                Some(value) => object.labels.insert(key, value),
                None => object.labels.remove(&key),
            };
        });
    }

    fn own(&mut self, server: usize, resource: Resource, name: &ObjectName) {
        let primaries = self.servers[server].objects.iter();
        let uids = primaries.filter(|((resource, _), _)| matches!(resource, Resource::Copy | Resource::Bundle));
        let uids: Vec<_> = uids.map(|(_, primary)| primary.uid.clone()).collect();
        let owner = self.random.choice(uids).filter(|_| self.random.u32(0..3) > 0);
        self.put(server, resource, name, |object| {
            object.owners = owner.into_iter().collect()
        });
    }

    fn toggle_finalizer(&mut self, server: usize, resource: Resource, name: &ObjectName) {
        let finalizer: Arc<str> = "foreign".into();
        let there = self.servers[server].objects.contains_key(&(resource, name.clone()));
        if there {
            self.put(server, resource, name, |object| {
                if !object.finalizers.remove(&finalizer) && !object.deleting {
                    object.finalizers.insert(finalizer);
                }
            });
        }
    }

    fn edit_namespace(&mut self, server: usize) {
        let name = cluster_wide(self.pick(&NAMESPACES));
        if *name.name != *"n" && self.once_in(4) {
            self.delete(server, Resource::Namespace, &name);
        } else {
            self.label(server, Resource::Namespace, &name);
        }
    }

    /// The definition of Gadgets comes, goes, is established a moment after it was made, or changes its scope.
    pub(super) fn edit_definition(&mut self, server: usize) {
        let name = cluster_wide(DEFINITION);
        let there = self.servers[server]
            .objects
            .contains_key(&(Resource::Definition, name.clone()));
        match (there, self.random.u32(0..3)) {
            (true, 0) => self.delete(server, Resource::Definition, &name),
            (true, _) => self.put(server, Resource::Definition, &name, |object| object.k = 1),
            (false, scope) => self.put(server, Resource::Definition, &name, |object| {
                object.other = scope.min(1)
            }),
        }
    }

    fn edit_kubeconfig(&mut self) {
        let name = named("n", self.pick(&KUBECONFIGS));
        // The last one leads nowhere.
        let (leads, token) = (self.random.u32(0..=self.servers.len() as u32), self.random.u32(0..3));
        match self.random.u32(0..8) {
            0 => self.delete(0, Resource::Secret, &name),
            1 => self.put(0, Resource::Secret, &name, |object| object.other = token),
            _ => self.put(0, Resource::Secret, &name, |object| object.k = leads * 10 + token),
        }
    }

    fn edit_output(&mut self, server: usize) {
        let name = named("n", &self.output_name());
        let value = self.random.u32(0..6);
        match self.random.u32(0..4) {
            0 => self.delete(server, Resource::Output, &name),
            1 => self.label(server, Resource::Output, &name),
            _ => self.put(server, Resource::Output, &name, |object| object.k = value),
        }
    }

    fn output_name(&mut self) -> String {
        format!("{}-{}", self.random.u32(0..2), self.pick(&PRIMARIES))
    }

    pub(super) fn edit_primary(&mut self, server: usize) {
        let resource = self.pick(&[Resource::Copy, Resource::Bundle]);
        let name = ObjectName::new((resource == Resource::Copy).then_some("n"), self.pick(&PRIMARIES));
        match self.random.u32(0..8) {
            0 => self.delete(server, resource, &name),
            1 => self.label(server, resource, &name),
            2 => self.toggle_finalizer(server, resource, &name),
            _ => {
                let spec = Rc::new(self.spec());
                note!(self, "spec {}: {spec:?}", self.specs.len());
                self.specs.push(spec);
                let spec = self.specs.len() - 1;
                self.put(server, resource, &name, |object| object.spec = Some(spec));
            }
        }
    }

    /// Deletes one of the primaries that are there.
    pub(super) fn delete_primary(&mut self) {
        let keys = self.servers.iter().enumerate().flat_map(|(server, at)| {
            let primaries = at.objects.keys();
            let primaries = primaries.filter(|(resource, _)| matches!(resource, Resource::Copy | Resource::Bundle));
            primaries.map(move |(resource, name)| (server, *resource, name.clone()))
        });
        let keys: Vec<_> = keys.collect();
        if let Some((server, resource, name)) = self.random.choice(keys) {
            self.delete(server, resource, &name);
        }
    }

    fn spec(&mut self) -> Spec {
        let mut asks: Vec<_> = (0..self.random.usize(0..4)).map(|_| self.asked()).collect();
        // Many depend on the same.
        if self.random.bool()
            && let Some(other) = self.random.choice(&self.specs).cloned()
        {
            asks.extend(other.asks.iter().take(2).cloned());
        }
        Spec {
            asks,
            chain: self.once_in(3),
            tolerates: self.once_in(3),
            needs_first: self.once_in(4),
            gives_up: self.once_in(3),
            writes: self.once_in(3),
            again: self.once_in(3),
            protects: self.random.bool(),
            join_keys: (0..2).filter(|_| self.random.bool()).map(join_key).collect(),
        }
    }

    fn asked(&mut self) -> Asked {
        let (resource, name) = match self.random.u32(0..12) {
            0 => (Resource::Output, named("n", OWN)),
            1 => (Resource::Output, named("n", &self.output_name())),
            2 => (Resource::Copy, named("n", self.pick(&PRIMARIES))),
            3 => (Resource::Secret, named("n", self.pick(&KUBECONFIGS))),
            4 => (Resource::Namespace, cluster_wide(self.pick(&NAMESPACES))),
            _ => self.source(),
        };
        let selected = self.random.bool() && *name.name != *OWN;
        let target = if selected {
            self.selection(resource)
        } else {
            Target::Named(name)
        };
        Asked {
            at: if self.once_in(3) {
                Where::Kubeconfig(self.pick(&KUBECONFIGS))
            } else {
                Where::Home
            },
            resource,
            target,
            fields: self.fields(),
        }
    }

    fn fields(&mut self) -> Fields {
        match self.random.u32(0..6) {
            0 | 1 => Fields::Whole,
            2 => Fields::Metadata,
            3 => Fields::paths(["other".into()]),
            4 => Fields::paths(["k".into(), "other".into()]),
            _ => Fields::paths(["k".into()]),
        }
    }

    fn selection(&mut self, resource: Resource) -> Target {
        let listed = resource.namespaced() != Some(false) && self.random.bool();
        let namespaces = if self.once_in(3) {
            Namespaces::Selected(self.selector())
        } else if listed {
            let names = NAMESPACES.iter().filter(|_| self.random.bool());
            Namespaces::listed(names.map(|name| Arc::from(*name)))
        } else {
            Namespaces::All
        };
        let criterion = if self.once_in(4) {
            Criterion::Owner("".into())
        } else {
            Criterion::Labels(self.selector())
        };
        Target::selected(namespaces, criterion)
    }

    pub(super) fn selector(&mut self) -> Selector {
        let label = |key: &str, operator| Requirement {
            key: key.into(),
            operator,
        };
        let value: Arc<str> = self.pick(&LABELS).into();
        match self.random.u32(0..7) {
            0 => Selector::everything(),
            1 => Selector::new([label("l", Operator::In(LABELS.map(Arc::from).into()))]),
            2 => Selector::new([label("l", Operator::NotIn(vec![value]))]),
            3 => Selector::new([label("t", Operator::Exists)]),
            4 => Selector::new([Requirement::equals("l", value), label("t", Operator::DoesNotExist)]),
            _ => Selector::new([Requirement::equals("l", value)]),
        }
    }
}
