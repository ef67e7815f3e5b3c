//! Constructors for the types of the contract that need no type of their own here.

use std::fmt;

use serde_json::Value;

use crate::{
    Cluster, DeclaredWatch, Delete, Dependent, Description, Fields, Home, LabelOperator, LabelRequirement,
    LabelSelector, Namespaces, ObjectKind, ObjectPermission, ObjectReference, PrimaryKind, PrimaryName, Propagation,
    Query, ReferenceSet, Request, SecretKey, Verbs,
};

impl ObjectKind {
    /// A kind as the `apiVersion` and `kind` fields of its objects spell it.
    pub fn new(api_version: impl Into<String>, kind: impl Into<String>) -> Self {
        ObjectKind {
            api_version: api_version.into(),
            kind: kind.into(),
        }
    }
}

impl ObjectReference {
    /// An object in the primary's cluster, of a cluster-scoped kind until [`in_namespace`](Self::in_namespace) is called.
    pub fn new(api_version: impl Into<String>, kind: impl Into<String>, name: impl Into<String>) -> Self {
        ObjectReference {
            cluster: Cluster::PrimaryCluster,
            kind: ObjectKind::new(api_version, kind),
            namespace: None,
            name: name.into(),
        }
    }

    /// In a namespace.
    #[must_use]
    pub fn in_namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// In another cluster.
    #[must_use]
    pub fn cluster(mut self, cluster: Cluster) -> Self {
        self.cluster = cluster;
        self
    }
}

/// `Secret default/name`, without the cluster.
impl fmt::Display for ObjectReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.kind.kind)?;
        if let Some(namespace) = &self.namespace {
            write!(f, "{namespace}/")?;
        }
        f.write_str(&self.name)
    }
}

impl SecretKey {
    /// A key of a Secret in the primary's cluster.
    pub fn in_primary_cluster(namespace: impl Into<String>, name: impl Into<String>, key: impl Into<String>) -> Self {
        SecretKey {
            home: Home::PrimaryCluster,
            namespace: namespace.into(),
            name: name.into(),
            key: key.into(),
        }
    }

    /// A key of a Secret in the cluster in which the host itself is at home.
    pub fn in_host_cluster(namespace: impl Into<String>, name: impl Into<String>, key: impl Into<String>) -> Self {
        SecretKey {
            home: Home::HostCluster,
            ..SecretKey::in_primary_cluster(namespace, name, key)
        }
    }
}

impl LabelSelector {
    /// Matches every object.
    pub fn everything() -> Self {
        LabelSelector {
            match_labels: Vec::new(),
            match_expressions: Vec::new(),
        }
    }

    /// And has this label with this value.
    #[must_use]
    pub fn label(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.match_labels.push((key.into(), value.into()));
        self
    }

    /// And fits this requirement. `values` are for [`LabelOperator::IsIn`] and [`LabelOperator::NotIn`].
    #[must_use]
    pub fn requirement<V: Into<String>>(
        mut self,
        key: impl Into<String>,
        operator: LabelOperator,
        values: impl IntoIterator<Item = V>,
    ) -> Self {
        let values = values.into_iter().map(Into::into).collect();
        self.match_expressions.push(LabelRequirement {
            key: key.into(),
            operator,
            values,
        });
        self
    }
}

impl Fields {
    /// These field paths.
    pub fn these<P: Into<String>>(paths: impl IntoIterator<Item = P>) -> Self {
        Fields::Paths(paths.into_iter().map(Into::into).collect())
    }
}

impl ReferenceSet {
    /// All that the primary depends on.
    pub fn complete<Q: Into<Query>>(queries: impl IntoIterator<Item = Q>) -> Self {
        ReferenceSet {
            queries: queries.into_iter().map(Into::into).collect(),
            join_keys: Vec::new(),
            complete: true,
        }
    }

    /// What can be named so far. The plugin is asked again with the answers, and names these queries again together with
    /// those that follow from them.
    pub fn partial<Q: Into<Query>>(queries: impl IntoIterator<Item = Q>) -> Self {
        ReferenceSet {
            complete: false,
            ..ReferenceSet::complete(queries)
        }
    }

    /// Publishes a string under which [`dependents`](crate::Plugin::dependents) can find this primary.
    #[must_use]
    pub fn join_key(mut self, key: impl Into<String>) -> Self {
        self.join_keys.push(key.into());
        self
    }
}

impl Description {
    /// A plugin of this name, in lower case with dashes, and version.
    pub fn new(name: impl Into<String>, version: impl Into<String>) -> Self {
        Description {
            name: name.into(),
            version: version.into(),
            primaries: Vec::new(),
            finalizer: None,
            watches: Vec::new(),
            requests: Vec::new(),
            config_schema: None,
        }
    }

    /// Reconciles all objects of a kind.
    #[must_use]
    pub fn primary(self, api_version: impl Into<String>, kind: impl Into<String>) -> Self {
        self.primary_selected(api_version, kind, LabelSelector::everything())
    }

    /// Reconciles the objects of a kind that a label selector matches.
    #[must_use]
    pub fn primary_selected(
        mut self,
        api_version: impl Into<String>,
        kind: impl Into<String>,
        selector: LabelSelector,
    ) -> Self {
        self.primaries.push(PrimaryKind {
            kind: ObjectKind::new(api_version, kind),
            selector,
        });
        self
    }

    /// The finalizer that is set on each primary, so that [`finalize`](crate::Plugin::finalize) is called.
    #[must_use]
    pub fn finalizer(mut self, name: impl Into<String>) -> Self {
        self.finalizer = Some(name.into());
        self
    }

    /// Watches objects of which [`dependents`](crate::Plugin::dependents) is told every change.
    #[must_use]
    pub fn watch(mut self, watch: DeclaredWatch) -> Self {
        self.watches.push(watch);
        self
    }

    /// Asks for verbs on a kind. `group` is empty for the core group; `*` stands for any group or kind. `reason` is for
    /// those who grant it.
    #[must_use]
    pub fn may(
        self,
        verbs: Verbs,
        group: impl Into<String>,
        kind: impl Into<String>,
        reason: impl Into<String>,
    ) -> Self {
        self.request(Request::Objects(ObjectPermission {
            group: group.into(),
            kind: kind.into(),
            verbs,
            reason: reason.into(),
        }))
    }

    /// Asks for anything else that an administrator grants.
    #[must_use]
    pub fn request(mut self, request: Request) -> Self {
        self.requests.push(request);
        self
    }

    /// The JSON Schema of the configuration.
    #[must_use]
    pub fn config_schema(mut self, schema: &Value) -> Self {
        self.config_schema = Some(schema.to_string());
        self
    }
}

impl DeclaredWatch {
    /// All objects of a kind in the primary's cluster, with their metadata.
    pub fn new(id: impl Into<String>, api_version: impl Into<String>, kind: impl Into<String>) -> Self {
        DeclaredWatch {
            id: id.into(),
            primaries: None,
            cluster: Cluster::PrimaryCluster,
            kind: ObjectKind::new(api_version, kind),
            namespaces: Namespaces::Everywhere,
            selector: LabelSelector::everything(),
            fields: Fields::MetadataOnly,
        }
    }

    /// Concerns primaries of this kind. Without it, they are of the first kind that the plugin reconciles.
    #[must_use]
    pub fn concerns(mut self, api_version: impl Into<String>, kind: impl Into<String>) -> Self {
        self.primaries = Some(ObjectKind::new(api_version, kind));
        self
    }

    /// Only those that a label selector matches.
    #[must_use]
    pub fn selector(mut self, selector: LabelSelector) -> Self {
        self.selector = selector;
        self
    }

    /// With these fields.
    #[must_use]
    pub fn fields(mut self, fields: Fields) -> Self {
        self.fields = fields;
        self
    }
}

impl Delete {
    /// Deletes an object if it still has this uid; what it owns is deleted in the background.
    pub fn new(object: ObjectReference, uid: impl Into<String>) -> Self {
        Delete {
            object,
            uid: uid.into(),
            resource_version: None,
            propagation: Propagation::Background,
        }
    }

    /// What becomes of the objects that it owns.
    #[must_use]
    pub fn propagation(mut self, propagation: Propagation) -> Self {
        self.propagation = propagation;
        self
    }

    /// And only if it still has this resource version.
    #[must_use]
    pub fn at_version(mut self, resource_version: impl Into<String>) -> Self {
        self.resource_version = Some(resource_version.into());
        self
    }
}

impl Dependent {
    /// The primary of this name.
    pub fn named(namespace: Option<&str>, name: impl Into<String>) -> Self {
        Dependent::PrimaryName(PrimaryName {
            namespace: namespace.map(str::to_owned),
            name: name.into(),
        })
    }
}
