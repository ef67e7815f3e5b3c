//! Writes of runs whose events have not come yet.

use std::collections::HashMap;

use crate::name::{ObjectKey, PrimaryKey, Version};

/// A run's own write must not wake its primary, but everything that others wrote before it must. The response to a write
/// shows both at once; the events of a watch come one by one, in order. So responses are not merged: what they wrote is
/// expected here, and the event of exactly that version is known as the primary's own.
#[derive(Default)]
pub(crate) struct ExpectedWrites {
    by_object: HashMap<ObjectKey, Vec<(Version, PrimaryKey)>>,
}

impl ExpectedWrites {
    pub(crate) fn insert(&mut self, object: ObjectKey, version: Version, writer: PrimaryKey) {
        self.by_object.entry(object).or_default().push((version, writer));
    }

    /// Takes out the writes that are seen now that the object has come to a version.
    pub(crate) fn seen(&mut self, object: &ObjectKey, version: Version) -> Vec<(Version, PrimaryKey)> {
        let Some(expected) = self.by_object.get_mut(object) else {
            return Vec::new();
        };
        let seen = expected.extract_if(.., |(at, _)| *at <= version).collect();
        if expected.is_empty() {
            self.by_object.remove(object);
        }
        seen
    }

    /// Whether any write of a primary has not been seen yet.
    pub(crate) fn any_of(&self, writer: &PrimaryKey) -> bool {
        self.by_object.values().flatten().any(|(_, other)| other == writer)
    }

    /// Forgets the writes of a primary.
    pub(crate) fn forget(&mut self, writer: &PrimaryKey) {
        self.by_object.retain(|_, expected| {
            expected.retain(|(_, other)| other != writer);
            !expected.is_empty()
        });
    }

    /// Forgets the writes to an object that nobody asks for any longer, so that no event of it is told.
    pub(crate) fn forget_object(&mut self, object: &ObjectKey) -> Vec<(Version, PrimaryKey)> {
        self.by_object.remove(object).unwrap_or_default()
    }
}
