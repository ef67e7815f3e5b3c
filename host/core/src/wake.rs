//! Why a primary runs.

use std::fmt;
use std::sync::Arc;

use crate::name::{ObjectKey, Version};
use crate::primaries::WrittenObject;
use crate::query::Query;

/// The reason for which a primary is queued.
#[derive(Clone, Debug)]
pub enum Wake {
    /// The primary itself, or an object that one of its queries finds or has just stopped finding, changed.
    Object {
        /// Which object.
        object: ObjectKey,
        /// The version of the change; none if it was found by a read, which may have passed over versions.
        version: Option<Version>,
        /// Which query finds it.
        query: Arc<Query>,
        /// What the query declares of it, as it was before the first change that this run is told of; none if the query did
        /// not find it. Both texts are empty if there was too much to keep.
        before: Option<Arc<str>>,
        /// And as it is after the last.
        after: Option<Arc<str>>,
    },
    /// A query failed, or has another answer after it could not be answered for a while.
    Query {
        /// Which.
        query: Arc<Query>,
    },
    /// The plugin says that an object concerns the primary.
    Dependent {
        /// Which object.
        object: ObjectKey,
        /// The versions of the changes that this tells of; empty if they are not known one by one.
        versions: Vec<Version>,
    },
    /// An object that it protects has lost the finalizer.
    Unprotected {
        /// Which object.
        object: ObjectKey,
    },
    /// The answers that it waited for are there, or it is known who else protects what it is about to let go.
    Answered,
    /// The last run asked to see what its writes came to.
    Written,
    /// The last run failed and is tried again.
    Retry,
    /// The last run asked for another after a while.
    Asked,
    /// Its plugin was replaced.
    Swapped,
    /// The full pass that mends what everything else might have missed.
    Backstop,
}

impl Wake {
    /// Whether this wake tells of nothing but these writes, as far as a run surely made them.
    pub(crate) fn is_of(&self, written: &[WrittenObject]) -> bool {
        let wrote = |object: &ObjectKey, version: &Version| {
            written
                .iter()
                .any(|written| written.own && written.object == *object && written.metadata.version == *version)
        };
        match self {
            Wake::Object {
                object,
                version: Some(version),
                ..
            } => wrote(object, version),
            Wake::Dependent { object, versions } => {
                !versions.is_empty() && versions.iter().all(|version| wrote(object, version))
            }
            _ => false,
        }
    }

    /// Whether it tells what another tells already.
    pub(crate) fn repeats(&self, other: &Wake) -> bool {
        match (self, other) {
            (
                Wake::Object {
                    object, version, query, ..
                },
                Wake::Object {
                    object: other,
                    version: other_version,
                    query: other_query,
                    ..
                },
            ) => version == other_version && Arc::ptr_eq(query, other_query) && object == other,
            (Wake::Query { query }, Wake::Query { query: other }) => Arc::ptr_eq(query, other),
            (
                Wake::Dependent { object, versions },
                Wake::Dependent {
                    object: other,
                    versions: other_versions,
                },
            ) => object == other && versions == other_versions,
            (Wake::Unprotected { object }, Wake::Unprotected { object: other }) => object == other,
            _ => std::mem::discriminant(self) == std::mem::discriminant(other),
        }
    }

    /// Whether both tell of one object that one query finds.
    pub(crate) fn is_of_same(&self, other: &Wake) -> bool {
        match (self, other) {
            (
                Wake::Object { object, query, .. },
                Wake::Object {
                    object: other_object,
                    query: other_query,
                    ..
                },
            ) => Arc::ptr_eq(query, other_query) && object == other_object,
            _ => false,
        }
    }

    /// Joins the texts of two wakes of one object and query, the other later: both tell then what became of the object from
    /// the first to the last.
    pub(crate) fn join(&mut self, later: &mut Wake) {
        if !self.is_of_same(later) {
            return;
        }
        if self.texts().any(|text| text.is_empty()) {
            return later.forget_texts();
        }
        if let (
            Wake::Object { before, after, .. },
            Wake::Object {
                before: later_before,
                after: later_after,
                ..
            },
        ) = (self, later)
        {
            later_before.clone_from(before);
            after.clone_from(later_after);
        }
    }

    /// The texts that it holds on to.
    pub(crate) fn texts(&self) -> impl Iterator<Item = &Arc<str>> {
        let (before, after) = match self {
            Wake::Object { before, after, .. } => (before.as_ref(), after.as_ref()),
            _ => (None, None),
        };
        before.into_iter().chain(after)
    }

    /// Keeps of its texts only whether there were any. Nobody can tell from them which fields changed.
    pub(crate) fn forget_texts(&mut self) {
        if let Wake::Object { before, after, .. } = self {
            let empty: Arc<str> = "".into();
            for text in [before, after] {
                *text = text.as_ref().map(|_| empty.clone());
            }
        }
    }

    /// The object that it tells of.
    pub fn object(&self) -> Option<&ObjectKey> {
        match self {
            Wake::Object { object, .. } | Wake::Dependent { object, .. } | Wake::Unprotected { object } => Some(object),
            _ => None,
        }
    }
}

impl fmt::Display for Wake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Wake::Object {
                object,
                version,
                before,
                after,
                ..
            } => {
                let what = match (before, after, version) {
                    (None, Some(_), _) => "appeared",
                    (Some(_), None, _) => "has gone, or is no longer found",
                    (_, _, Some(_)) => "changed",
                    (_, _, None) => "is another than before",
                };
                write!(f, "{} {} {what}", object.kind, object.name)?;
                match version {
                    Some(version) => write!(f, " at version {version}"),
                    None => Ok(()),
                }
            }
            Wake::Query { query } => write!(f, "a query of {} failed or recovered", query.kind),
            Wake::Dependent { object, .. } => write!(f, "{} {} concerns it, says the plugin", object.kind, object.name),
            Wake::Unprotected { object } => write!(f, "{} {} has lost its protection", object.kind, object.name),
            Wake::Answered => f.write_str("the answers it waited for are there"),
            Wake::Written => f.write_str("its own writes changed something"),
            Wake::Retry => f.write_str("the last run failed"),
            Wake::Asked => f.write_str("the last run asked for another"),
            Wake::Swapped => f.write_str("its plugin was replaced"),
            Wake::Backstop => f.write_str("full pass"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::{ClusterId, Kind, ObjectName};
    use crate::primaries::Primary;
    use crate::query::{Fields, Target};

    /// A change of an object at a version, to a text of this length; before, it was of the version before.
    fn wake(query: &Arc<Query>, name: &str, version: u64, length: usize) -> Wake {
        let text = |version: u64| Some(Arc::from(version.to_string().repeat(length)));
        Wake::Object {
            object: query.object(&ObjectName::new(Some("n"), name)),
            version: Some(Version(version)),
            query: query.clone(),
            before: text(version - 1),
            after: text(version),
        }
    }

    #[test]
    fn a_primary_that_waits_holds_on_to_few_texts_of_what_woke_it() {
        let query = Arc::new(Query {
            cluster: ClusterId::HOST,
            kind: Kind::new("v1", "Secret"),
            target: Target::Named(ObjectName::new(Some("n"), "a")),
            fields: Fields::Whole,
        });
        let mut primary = Primary::default();
        for version in 1..=5 {
            primary.note(wake(&query, "a", version, 10));
        }
        assert_eq!(primary.wakes.len(), 5, "each may be an own write");
        for wake in &primary.wakes {
            let Wake::Object { before, after, .. } = wake else {
                panic!("unexpected {wake:?}")
            };
            let [before, after] = [before, after].map(|text| text.as_deref().expect("a text"));
            assert_eq!((before, after), ("0".repeat(10).as_str(), "5".repeat(10).as_str()));
        }
        let mut primary = Primary::default();
        for number in 0..60 {
            primary.note(wake(&query, &number.to_string(), 1, 10_000));
        }
        assert_eq!(primary.wakes.len(), 60);
        assert!(
            primary
                .wakes
                .iter()
                .flat_map(Wake::texts)
                .map(|text| text.len())
                .sum::<usize>()
                <= 64 * 1024
        );
    }
}
