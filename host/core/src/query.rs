//! What a primary depends on: a question, never what it found.

use std::fmt;
use std::sync::Arc;

use crate::change::Metadata;
use crate::failure::Failure;
use crate::name::{ClusterId, Kind, ObjectKey, ObjectName, Version};
use crate::selector::Selector;

/// A query that is registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct QueryId(pub(crate) u32);

/// One thing that something depends on. Equal queries share an answer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Query {
    /// Where to look.
    pub cluster: ClusterId,
    /// For objects of which kind.
    pub kind: Kind,
    /// For which of them.
    pub target: Target,
    /// How much of them is declared.
    pub fields: Fields,
}

/// Which objects of a kind a query is about.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// The one with this name.
    Named(ObjectName),
    /// All that meet a criterion.
    Selected(Box<Selection>),
}

/// All objects of a kind that meet a criterion.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Selection {
    /// Where they are looked for.
    pub namespaces: Namespaces,
    /// What must be so of each.
    pub criterion: Criterion,
}

/// What must be so of an object that is selected.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Criterion {
    /// Its labels match.
    Labels(Selector),
    /// It names this uid among its owners.
    Owner(Arc<str>),
}

/// Where the objects of a selection are looked for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Namespaces {
    /// In all of the cluster, cluster-scoped objects included.
    All,
    /// In these, sorted.
    Listed(Arc<[Arc<str>]>),
    /// In those whose own labels match.
    Selected(Selector),
}

impl Target {
    /// Objects that meet a criterion.
    pub fn selected(namespaces: Namespaces, criterion: Criterion) -> Self {
        Target::Selected(Box::new(Selection { namespaces, criterion }))
    }
}

impl Criterion {
    /// Whether an object with this metadata meets it.
    pub fn is_met(&self, metadata: &Metadata) -> bool {
        match self {
            Criterion::Labels(selector) => selector.matches(&metadata.labels),
            Criterion::Owner(owner) => metadata.owners.contains(owner),
        }
    }
}

impl Namespaces {
    /// Namespaces by name.
    pub fn listed(names: impl IntoIterator<Item = Arc<str>>) -> Self {
        let mut names: Vec<_> = names.into_iter().collect();
        names.sort();
        names.dedup();
        Namespaces::Listed(names.into())
    }

    /// Whether objects of a namespace can be found, as far as the query alone tells.
    pub(crate) fn may_contain(&self, namespace: Option<&Arc<str>>) -> bool {
        match self {
            Namespaces::All => true,
            Namespaces::Listed(names) => namespace.is_some_and(|name| names.binary_search(name).is_ok()),
            Namespaces::Selected(_) => namespace.is_some(),
        }
    }
}

/// How much of an object is declared, kept and compared. The uid and the deletion timestamp always are.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Fields {
    /// All but managed fields and the resource version.
    Whole,
    /// `apiVersion`, `kind` and `metadata`.
    Metadata,
    /// What these field paths name.
    Paths(Arc<[Arc<str>]>),
}

impl Fields {
    /// Field paths in their canonical form.
    pub fn paths(paths: impl IntoIterator<Item = Arc<str>>) -> Self {
        let mut paths: Vec<_> = paths.into_iter().collect();
        paths.sort();
        paths.dedup();
        Fields::Paths(paths.into())
    }
}

impl Query {
    /// The object of this name among those that the query is about.
    pub(crate) fn object(&self, name: &ObjectName) -> ObjectKey {
        ObjectKey {
            cluster: self.cluster,
            kind: self.kind.clone(),
            name: name.clone(),
        }
    }

    /// Whether this query finds the object while its metadata is this. Namespaces by their labels are for the registry
    /// to tell.
    pub fn matches(&self, object: &ObjectKey, metadata: &Metadata) -> bool {
        self.cluster == object.cluster
            && self.kind == object.kind
            && match &self.target {
                Target::Named(name) => *name == object.name,
                Target::Selected(selection) => {
                    selection.namespaces.may_contain(object.name.namespace.as_ref())
                        && selection.criterion.is_met(metadata)
                }
            }
    }
}

/// As people would say it: `Secret team/db, fields data.password`, or `ConfigMaps in team labelled app in (a,b)`.
impl fmt::Display for Query {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.target {
            Target::Named(name) => write!(f, "{} {name}", self.kind.kind)?,
            Target::Selected(selection) => {
                let kinds = self.kind.plural();
                match &selection.namespaces {
                    Namespaces::All => write!(f, "all {kinds}")?,
                    Namespaces::Listed(names) => write!(f, "{kinds} in {}", names.join(", "))?,
                    Namespaces::Selected(labels) => write!(f, "{kinds} in namespaces labelled {labels}")?,
                }
                match &selection.criterion {
                    Criterion::Labels(selector) if selector.is_everything() => {}
                    Criterion::Labels(selector) => write!(f, " labelled {selector}")?,
                    Criterion::Owner(uid) => write!(f, " owned by uid {uid}")?,
                }
            }
        }
        match &self.fields {
            Fields::Whole => Ok(()),
            Fields::Metadata => f.write_str(", metadata only"),
            Fields::Paths(paths) if paths.is_empty() => f.write_str(", none of its fields"),
            Fields::Paths(paths) => write!(f, ", fields {}", paths.join(", ")),
        }
    }
}

/// What a query finds now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// The named object.
    Found(FoundObject),
    /// The named object is not there.
    Missing,
    /// The selected objects, ordered by namespace and name.
    Matches(Vec<FoundObject>),
    /// Nothing is known.
    Failed(Failure),
}

impl Finding {
    /// The texts of the objects that were found.
    pub fn texts(&self) -> impl Iterator<Item = Arc<str>> {
        let objects = match self {
            Finding::Found(object) => std::slice::from_ref(object),
            Finding::Matches(objects) => objects,
            Finding::Missing | Finding::Failed(_) => &[],
        };
        objects.iter().map(|object| object.text.clone())
    }
}

/// An object as a query declared it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundObject {
    /// Its cluster.
    pub cluster: ClusterId,
    /// The version at which it was seen.
    pub version: Version,
    /// What the query's fields declare, as compact JSON.
    pub text: Arc<str>,
}
