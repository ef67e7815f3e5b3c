//! How clusters, kinds, objects and primaries are named. Keys are structs, never joined strings.

use std::fmt;
use std::sync::Arc;

/// A cluster that the host knows. Ids are not used again within one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClusterId(pub u32);

impl ClusterId {
    /// The cluster in which the host is at home. It is always known.
    pub const HOST: ClusterId = ClusterId(0);
}

/// A plugin attached to one kind in one cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ControllerId(pub u32);

/// The kind of an object, as its `apiVersion` and `kind` fields spell it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Kind {
    /// `v1` or `apps/v1`.
    pub api_version: Arc<str>,
    /// `Secret` or `Deployment`.
    pub kind: Arc<str>,
}

impl Kind {
    /// A kind from its two fields.
    pub fn new(api_version: impl Into<Arc<str>>, kind: impl Into<Arc<str>>) -> Self {
        Kind {
            api_version: api_version.into(),
            kind: kind.into(),
        }
    }

    /// The API group; empty for the core group.
    pub fn group(&self) -> &str {
        self.api_version.split_once('/').map_or("", |(group, _)| group)
    }

    /// The version within the group.
    pub fn version(&self) -> &str {
        self.api_version
            .split_once('/')
            .map_or(&self.api_version, |(_, version)| version)
    }

    /// What several of it are called in a sentence. The name of its resource is for discovery to tell.
    pub fn plural(&self) -> String {
        let kind: &str = &self.kind;
        let ends = |ends: &[&str]| ends.iter().any(|end| kind.ends_with(end));
        match kind.strip_suffix('y') {
            Some(stem) if !ends(&["ay", "ey", "oy", "uy"]) => format!("{stem}ies"),
            _ if ends(&["ss", "x", "z", "ch", "sh"]) => format!("{kind}es"),
            _ if ends(&["s"]) => kind.to_owned(),
            _ => format!("{kind}s"),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.kind, self.api_version)
    }
}

/// An object's name within its kind and cluster. Ordered by namespace, then name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectName {
    /// Absent for cluster-scoped kinds.
    pub namespace: Option<Arc<str>>,
    /// `metadata.name`.
    pub name: Arc<str>,
}

impl ObjectName {
    /// A name from its parts; an empty namespace is none.
    pub fn new(namespace: Option<&str>, name: &str) -> Self {
        ObjectName {
            namespace: namespace.filter(|n| !n.is_empty()).map(Arc::from),
            name: name.into(),
        }
    }
}

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(namespace) = &self.namespace {
            write!(f, "{namespace}/")?;
        }
        f.write_str(&self.name)
    }
}

/// One object in one cluster.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectKey {
    /// Where it is.
    pub cluster: ClusterId,
    /// What it is.
    pub kind: Kind,
    /// What it is called.
    pub name: ObjectName,
}

/// One primary of one controller. The controller stands for its kind and its cluster.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PrimaryKey {
    /// Whose primary it is.
    pub controller: ControllerId,
    /// What it is called.
    pub name: ObjectName,
}

/// A resource version. Kubernetes promises that those of one resource can be compared as whole numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Version(pub u64);

impl Version {
    /// Newer than any version that a server gives.
    pub(crate) const NEWEST: Version = Version(u64::MAX);

    /// Parses a resource version.
    ///
    /// # Errors
    /// Anything but a whole number of 64 bits, which no current API server sends.
    pub fn parse(text: &str) -> Result<Self, std::num::ParseIntError> {
        text.parse().map(Version)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
