//! A model of an API server: objects, versions, a log of what changed, and backups that it may go back to.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::object::{Object, Resource, cluster_wide};
use crate::{FailureReason, ObjectName};

pub(super) type Objects = BTreeMap<(Resource, ObjectName), Object>;

/// The name of the definition of Gadgets.
pub(super) const DEFINITION: &str = "gadgets.example.org";

/// Keeps a namespace until it is empty.
const EMPTIED: &str = "kubernetes";

/// What happened at one version.
#[derive(Clone)]
pub(super) struct Event {
    pub(super) version: u64,
    pub(super) resource: Resource,
    pub(super) name: ObjectName,
    /// None if it was deleted.
    pub(super) object: Option<Object>,
}

/// Where the host may list and watch a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Access {
    Nowhere,
    /// One object at a time.
    Names,
    /// One namespace at a time.
    Namespaces,
    Everywhere,
}

/// Where a list or a watch looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Everywhere,
    Namespace,
    Name { namespaced: bool },
}

/// A place in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Position {
    /// How often data had been restored.
    pub(super) history: usize,
    pub(super) next: usize,
}

pub(super) struct Server {
    pub(super) name: &'static str,
    pub(super) version: u64,
    pub(super) objects: Objects,
    /// Nobody can reach it.
    pub(super) down: bool,
    /// Uids are never given twice, not even by a server that has forgotten whom it gave them.
    uids: u32,
    /// The log, and what it was before data were restored.
    histories: Vec<Vec<Event>>,
    backups: Vec<(u64, Objects)>,
    /// Whether Gadgets are served, and in namespaces. It follows their definition a moment later.
    gadgets: Option<bool>,
    /// How often that has changed. It ends every watch of Gadgets.
    pub(super) incarnation: u32,
    access: BTreeMap<Resource, Access>,
}

impl Server {
    pub(super) fn new(name: &'static str, version: u64) -> Self {
        let mut server = Server {
            name,
            version,
            objects: BTreeMap::new(),
            down: false,
            uids: 0,
            histories: vec![Vec::new()],
            backups: Vec::new(),
            gadgets: None,
            incarnation: 0,
            access: BTreeMap::new(),
        };
        for namespace in ["m", "n"] {
            server.put(Resource::Namespace, &cluster_wide(namespace), |_| {});
        }
        server
    }

    /// Creates or changes an object. None if the server refuses that; the flag says whether anything changed.
    pub(super) fn put(
        &mut self,
        resource: Resource,
        name: &ObjectName,
        change: impl FnOnce(&mut Object),
    ) -> Option<(Object, bool)> {
        let key = (resource, name.clone());
        let before = self.objects.get(&key).cloned();
        if before.is_none() && !self.may_create(resource, name) {
            return None;
        }
        let mut object = before.clone().unwrap_or_else(|| self.blank());
        change(&mut object);
        if before.as_ref() == Some(&object) {
            return Some((object, false));
        }
        self.version += 1;
        object.version = self.version;
        if object.deleting && object.finalizers.is_empty() {
            self.objects.remove(&key);
            self.log(resource, name, None);
        } else {
            self.objects.insert(key, object.clone());
            self.log(resource, name, Some(object.clone()));
        }
        Some((object, true))
    }

    fn blank(&mut self) -> Object {
        self.uids += 1;
        Object {
            uid: format!("{}{}", self.name, self.uids).into(),
            ..Object::default()
        }
    }

    fn may_create(&self, resource: Resource, name: &ObjectName) -> bool {
        let namespace_stands = name.namespace.as_ref().is_none_or(|namespace| {
            let namespace = self.objects.get(&(Resource::Namespace, cluster_wide(namespace)));
            namespace.is_some_and(|namespace| !namespace.deleting)
        });
        namespace_stands && self.namespaced(resource) == Some(name.namespace.is_some())
    }

    /// Whether objects of a kind are in namespaces; none if it is not served.
    pub(super) fn namespaced(&self, resource: Resource) -> Option<bool> {
        resource.namespaced().or(self.gadgets)
    }

    /// Deletes an object, or marks it while it has finalizers.
    pub(super) fn delete(&mut self, resource: Resource, name: &ObjectName) -> bool {
        let key = (resource, name.clone());
        if !self.objects.contains_key(&key) {
            return false;
        }
        if resource == Resource::Namespace {
            let inside = self
                .objects
                .keys()
                .filter(|(_, inside)| inside.namespace.as_ref() == Some(&name.name));
            for (resource, name) in inside.cloned().collect::<Vec<_>>() {
                self.delete(resource, &name);
            }
        }
        self.put(resource, name, |object| {
            object.deleting = true;
            if resource == Resource::Namespace {
                object.finalizers.insert(EMPTIED.into());
            }
        });
        true
    }

    /// Takes a finalizer off an object, if that is still the same.
    pub(super) fn take_off(&mut self, resource: Resource, name: &ObjectName, uid: &str, finalizer: &Arc<str>) -> bool {
        let same = |object: &Object| *object.uid == *uid;
        if !self.objects.get(&(resource, name.clone())).is_some_and(same) {
            return false;
        }
        self.put(resource, name, |object| {
            object.finalizers.remove(finalizer);
        });
        true
    }

    fn log(&mut self, resource: Resource, name: &ObjectName, object: Option<Object>) {
        let event = Event {
            version: self.version,
            resource,
            name: name.clone(),
            object,
        };
        if let Some(log) = self.histories.last_mut() {
            log.push(event);
        }
    }

    /// What the server does by itself a moment after something has changed.
    pub(super) fn keep_house(&mut self) {
        let emptied: Vec<_> = self
            .objects
            .iter()
            .filter(|((resource, name), object)| {
                let inside = |(_, inside): &(_, ObjectName)| inside.namespace.as_ref() == Some(&name.name);
                *resource == Resource::Namespace && object.deleting && !self.objects.keys().any(inside)
            })
            .map(|((_, name), object)| (name.clone(), object.uid.clone()))
            .collect();
        for (name, uid) in emptied {
            self.take_off(Resource::Namespace, &name, &uid, &EMPTIED.into());
        }
        let definition = self.objects.get(&(Resource::Definition, cluster_wide(DEFINITION)));
        let defined = definition
            .filter(|definition| definition.k == 1 && !definition.deleting)
            .map(|definition| definition.other == 1);
        if defined != self.gadgets {
            self.stop_serving();
            self.gadgets = defined;
        }
    }

    fn stop_serving(&mut self) {
        self.incarnation += 1;
        let gone = self
            .objects
            .extract_if(.., |(resource, _), _| *resource == Resource::Gadget);
        for ((resource, name), _) in gone.collect::<Vec<_>>() {
            self.version += 1;
            self.log(resource, &name, None);
        }
    }

    pub(super) fn back_up(&mut self) {
        self.backups.push((self.version, self.objects.clone()));
    }

    /// Goes back to the last backup, and counts from there.
    pub(super) fn restore(&mut self) -> bool {
        let Some((version, objects)) = self.backups.pop() else {
            return false;
        };
        let mut log = self.histories.last().cloned().unwrap_or_default();
        log.retain(|event| event.version <= version);
        self.histories.push(log);
        (self.version, self.objects) = (version, objects);
        // Gadgets that it holds now are of the definition that it holds now.
        let definition = self.objects.get(&(Resource::Definition, cluster_wide(DEFINITION)));
        self.gadgets = definition
            .filter(|definition| definition.k == 1 && !definition.deleting)
            .map(|definition| definition.other == 1);
        self.incarnation += 1;
        true
    }

    /// The end of the log.
    pub(super) fn position(&self) -> Position {
        Position {
            history: self.histories.len() - 1,
            next: self.histories.last().map_or(0, Vec::len),
        }
    }

    pub(super) fn event(&self, at: Position) -> Option<&Event> {
        self.histories.get(at.history)?.get(at.next)
    }

    /// Whether data have been restored since.
    pub(super) fn is_past(&self, at: Position) -> bool {
        at.history + 1 < self.histories.len()
    }

    pub(super) fn set_access(&mut self, resource: Resource, access: Access) {
        self.access.insert(resource, access);
    }

    pub(super) fn access(&self, resource: Resource) -> Access {
        self.access.get(&resource).copied().unwrap_or(Access::Everywhere)
    }

    /// Why a list or a watch is refused, if it is.
    pub(super) fn refusal(&self, resource: Resource, place: Place) -> Option<FailureReason> {
        self.refusals(resource, place).first().copied()
    }

    /// All that is wrong with a list or a watch. Which of it is found first depends on how the host looks.
    pub(super) fn refusals(&self, resource: Resource, place: Place) -> Vec<FailureReason> {
        if self.down {
            return vec![FailureReason::Unreachable];
        }
        let Some(namespaced) = self.namespaced(resource) else {
            return vec![FailureReason::NoSuchKind];
        };
        let (fits, needed) = match place {
            Place::Everywhere => (true, Access::Everywhere),
            Place::Namespace => (namespaced, Access::Namespaces),
            Place::Name { namespaced: asked } => (namespaced == asked, Access::Names),
        };
        let invalid = (!fits).then_some(FailureReason::Invalid);
        let forbidden = (self.access(resource) < needed).then_some(FailureReason::Forbidden);
        invalid.into_iter().chain(forbidden).collect()
    }
}
