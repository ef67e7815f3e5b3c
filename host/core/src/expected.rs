//! Writes of runs whose events have not come yet.

use std::collections::HashMap;
use std::sync::Arc;

use indexmap::IndexMap;

use crate::circles::Way;
use crate::name::{ClusterId, Kind, ObjectKey, PrimaryKey, Version};

/// A write whose event has not come yet.
pub(crate) struct Expected {
    pub(crate) version: Version,
    pub(crate) writer: Arc<PrimaryKey>,
    /// Whether the write surely made this version.
    pub(crate) own: bool,
    /// The way on from the run that wrote.
    pub(crate) way: Arc<Way>,
}

/// A run's own write must not wake its primary, but everything that others wrote before it must. The response to a write
/// shows both at once; the events of a watch come one by one, in order. So responses are not merged: what they wrote is
/// expected here, and the event of exactly that version is known as the primary's own.
#[derive(Default)]
pub(crate) struct ExpectedWrites {
    by_object: IndexMap<ObjectKey, Vec<Expected>>,
    /// The objects that a primary has written, so that its writes need not be looked for.
    by_writer: HashMap<Arc<PrimaryKey>, Vec<ObjectKey>>,
}

impl ExpectedWrites {
    pub(crate) fn insert(&mut self, object: ObjectKey, expected: Expected) {
        let written = self.by_writer.entry(expected.writer.clone()).or_default();
        written.push(object.clone());
        self.by_object.entry(object).or_default().push(expected);
    }

    /// Takes out the writes that are seen now that the object has come to a version.
    pub(crate) fn seen(&mut self, object: &ObjectKey, version: Version) -> Vec<Expected> {
        self.take(object, |expected| expected.version <= version)
    }

    fn take(&mut self, object: &ObjectKey, which: impl Fn(&Expected) -> bool) -> Vec<Expected> {
        let Some(expected) = self.by_object.get_mut(object) else {
            return Vec::new();
        };
        let taken: Vec<Expected> = expected.extract_if(.., |expected| which(expected)).collect();
        if expected.is_empty() {
            self.by_object.swap_remove(object);
        }
        for Expected { writer, .. } in &taken {
            if let Some(objects) = self.by_writer.get_mut(writer) {
                if let Some(at) = objects.iter().position(|other| other == object) {
                    objects.swap_remove(at);
                }
                if objects.is_empty() {
                    self.by_writer.remove(writer);
                }
            }
        }
        taken
    }

    /// Whether any write of a primary has not been seen yet.
    pub(crate) fn any_of(&self, writer: &PrimaryKey) -> bool {
        self.by_writer.contains_key(writer)
    }

    /// Forgets the writes of a primary.
    pub(crate) fn forget(&mut self, writer: &PrimaryKey) {
        for object in self.by_writer.get(writer).cloned().unwrap_or_default() {
            self.take(&object, |expected| *expected.writer == *writer);
        }
    }

    /// Forgets the writes to objects of a kind, and gives their writers.
    pub(crate) fn forget_kind(&mut self, cluster: ClusterId, kind: &Kind) -> Vec<Arc<PrimaryKey>> {
        let of_kind = |object: &&ObjectKey| object.cluster == cluster && object.kind == *kind;
        let objects: Vec<ObjectKey> = self.by_object.keys().filter(of_kind).cloned().collect();
        objects
            .iter()
            .flat_map(|object| self.forget_object(object))
            .map(|expected| expected.writer)
            .collect()
    }

    /// Forgets the writes to an object that nobody asks for any longer, so that no event of it is told.
    pub(crate) fn forget_object(&mut self, object: &ObjectKey) -> Vec<Expected> {
        self.take(object, |_| true)
    }
}
