//! The objects that queries ask for, at their newest version.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::change::{Metadata, Variant};
use crate::name::{ClusterId, Kind, ObjectKey, ObjectName, Version};
use crate::query::{Fields, Namespaces};

/// Invariant, kept by whoever calls: an object is present only while some query finds it.
#[derive(Default)]
pub(crate) struct Cache {
    kinds: HashMap<(ClusterId, Kind), BTreeMap<ObjectName, Entry>>,
}

#[derive(Clone, Debug)]
pub(crate) enum Entry {
    Present(Object),
    /// A tombstone, so that an older state that arrives later cannot revive the object.
    Absent {
        version: Version,
    },
}

#[derive(Clone, Debug)]
pub(crate) struct Object {
    pub(crate) metadata: Metadata,
    pub(crate) variants: Vec<Variant>,
}

impl Object {
    pub(crate) fn text(&self, fields: &Fields) -> Option<&Arc<str>> {
        self.variants
            .iter()
            .find(|variant| variant.fields == *fields)
            .map(|variant| &variant.text)
    }
}

impl Entry {
    pub(crate) fn version(&self) -> Version {
        match self {
            Entry::Present(object) => object.metadata.version,
            Entry::Absent { version } => *version,
        }
    }

    pub(crate) fn present(&self) -> Option<&Object> {
        match self {
            Entry::Present(object) => Some(object),
            Entry::Absent { .. } => None,
        }
    }
}

impl Cache {
    pub(crate) fn get(&self, object: &ObjectKey) -> Option<&Entry> {
        self.kinds
            .get(&(object.cluster, object.kind.clone()))?
            .get(&object.name)
    }

    pub(crate) fn get_mut(&mut self, object: &ObjectKey) -> Option<&mut Entry> {
        self.kinds
            .get_mut(&(object.cluster, object.kind.clone()))?
            .get_mut(&object.name)
    }

    pub(crate) fn insert(&mut self, object: &ObjectKey, entry: Entry) {
        self.kinds
            .entry((object.cluster, object.kind.clone()))
            .or_default()
            .insert(object.name.clone(), entry);
    }

    pub(crate) fn remove(&mut self, object: &ObjectKey) {
        let key = (object.cluster, object.kind.clone());
        if let Some(entries) = self.kinds.get_mut(&key) {
            entries.remove(&object.name);
            if entries.is_empty() {
                self.kinds.remove(&key);
            }
        }
    }

    /// The present objects of a kind in some namespaces, ordered by namespace and name.
    pub(crate) fn present<'a>(
        &'a self,
        cluster: ClusterId,
        kind: &Kind,
        namespaces: &'a Namespaces,
    ) -> impl Iterator<Item = (&'a ObjectName, &'a Object)> {
        let entries = self.kinds.get(&(cluster, kind.clone()));
        entries
            .into_iter()
            .flatten()
            .filter(|(name, _)| namespaces.contain(name.namespace.as_ref()))
            .filter_map(|(name, entry)| Some((name, entry.present()?)))
    }

    /// Takes every version of a kind back, so that whatever is read next counts as newer. Texts stay, to tell what differs.
    pub(crate) fn forget_versions(&mut self, cluster: ClusterId, kind: &Kind) {
        for entry in self
            .kinds
            .get_mut(&(cluster, kind.clone()))
            .into_iter()
            .flat_map(BTreeMap::values_mut)
        {
            match entry {
                Entry::Present(object) => object.metadata.version = Version::default(),
                Entry::Absent { version } => *version = Version::default(),
            }
        }
    }

    /// How many objects are present.
    pub(crate) fn len(&self) -> usize {
        self.kinds
            .values()
            .flat_map(BTreeMap::values)
            .filter(|entry| entry.present().is_some())
            .count()
    }
}
