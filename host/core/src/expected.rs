//! Writes of runs whose events have not come yet.

use indexmap::IndexMap;

use crate::name::{ClusterId, Kind, ObjectKey, PrimaryKey, Version};

/// A write whose event has not come yet.
pub(crate) struct Expected {
    pub(crate) version: Version,
    pub(crate) writer: PrimaryKey,
    /// Whether the write surely made this version.
    pub(crate) own: bool,
}

/// A run's own write must not wake its primary, but everything that others wrote before it must. The response to a write
/// shows both at once; the events of a watch come one by one, in order. So responses are not merged: what they wrote is
/// expected here, and the event of exactly that version is known as the primary's own.
#[derive(Default)]
pub(crate) struct ExpectedWrites {
    by_object: IndexMap<ObjectKey, Vec<Expected>>,
}

impl ExpectedWrites {
    pub(crate) fn insert(&mut self, object: ObjectKey, version: Version, writer: PrimaryKey, own: bool) {
        let expected = Expected { version, writer, own };
        self.by_object.entry(object).or_default().push(expected);
    }

    /// Takes out the writes that are seen now that the object has come to a version.
    pub(crate) fn seen(&mut self, object: &ObjectKey, version: Version) -> Vec<Expected> {
        let Some(expected) = self.by_object.get_mut(object) else {
            return Vec::new();
        };
        let seen = expected
            .extract_if(.., |expected| expected.version <= version)
            .collect();
        if expected.is_empty() {
            self.by_object.swap_remove(object);
        }
        seen
    }

    /// Whether any write of a primary has not been seen yet.
    pub(crate) fn any_of(&self, writer: &PrimaryKey) -> bool {
        self.by_object
            .values()
            .flatten()
            .any(|expected| expected.writer == *writer)
    }

    /// Forgets the writes of a primary.
    pub(crate) fn forget(&mut self, writer: &PrimaryKey) {
        self.by_object.retain(|_, expected| {
            expected.retain(|expected| expected.writer != *writer);
            !expected.is_empty()
        });
    }

    /// Forgets the writes to objects of a kind, and gives their writers.
    pub(crate) fn forget_kind(&mut self, cluster: ClusterId, kind: &Kind) -> Vec<PrimaryKey> {
        let forgotten = self
            .by_object
            .extract_if(.., |object, _| object.cluster == cluster && object.kind == *kind);
        forgotten
            .flat_map(|(_, expected)| expected)
            .map(|expected| expected.writer)
            .collect()
    }

    /// Forgets the writes to an object that nobody asks for any longer, so that no event of it is told.
    pub(crate) fn forget_object(&mut self, object: &ObjectKey) -> Vec<Expected> {
        self.by_object.swap_remove(object).unwrap_or_default()
    }
}
