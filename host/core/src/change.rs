//! What the edges tell about objects.

use std::sync::Arc;

use crate::name::{ObjectKey, Version};
use crate::query::Fields;
use crate::selector::Labels;

/// What is known of every object that passes by, whether or not anybody asked for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metadata {
    /// `metadata.uid`.
    pub uid: Arc<str>,
    /// `metadata.resourceVersion`.
    pub version: Version,
    /// `metadata.labels`.
    pub labels: Labels,
    /// The uids in `metadata.ownerReferences`.
    pub owners: Box<[Arc<str>]>,
    /// `metadata.finalizers`.
    pub finalizers: Box<[Arc<str>]>,
    /// Whether `metadata.deletionTimestamp` is set.
    pub deleting: bool,
}

/// An object's text, reduced to some fields. Two equal texts mean that nothing declared has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variant {
    /// What it was reduced to.
    pub fields: Fields,
    /// Compact JSON with keys in order, without managed fields and resource version.
    pub text: Arc<str>,
}

/// An object's state at some version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// It is there.
    Present {
        /// Its metadata.
        metadata: Metadata,
        /// Its text, once for each of the fields that [`Core::wanted`](crate::Core::wanted) named.
        variants: Vec<Variant>,
    },
    /// It is not there.
    Absent {
        /// The version of its deletion, or of the list that did not hold it.
        version: Version,
    },
}

impl State {
    /// The version at which this was so.
    pub fn version(&self) -> Version {
        match self {
            State::Present { metadata, .. } => metadata.version,
            State::Absent { version } => *version,
        }
    }
}

/// An object's state, from an event, a read or the response to a write. They may arrive in any order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Which object.
    pub object: ObjectKey,
    /// Its state.
    pub state: State,
}
