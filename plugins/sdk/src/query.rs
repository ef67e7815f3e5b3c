//! Queries, built step by step.

use std::time::Duration;

use crate::bindings::patchbay::plugin::types::{NamedQuery, OwnedQuery, RepositoryQuery, SelectedQuery};
use crate::{
    Cluster, Fields, LabelOperator, LabelSelector, Namespaces, ObjectKind, ObjectReference, Primary, Query,
    QueryTarget, SecretKey,
};

/// How often a repository is looked at unless a query says otherwise.
const DEFAULT_INTERVAL: Duration = Duration::from_secs(300);

/// How large the files of a repository may be together unless a query says otherwise: what a Kubernetes API server could
/// store of them many times over, and little beside the memory of a host.
const DEFAULT_MAX_SIZE: u64 = 8 << 20;

/// A query that is being put together. It becomes a [`Query`] by `into()`, which
/// [`ReferenceSet::complete`](crate::ReferenceSet::complete) does by itself.
#[derive(Clone, Debug, PartialEq)]
pub struct QueryBuilder<T> {
    id: String,
    tolerate: bool,
    target: T,
}

impl Query {
    /// One object by name, whole, in the primary's cluster, of a cluster-scoped kind until
    /// [`in_namespace`](QueryBuilder::in_namespace) is called. The answer comes under `id`.
    pub fn named(
        id: impl Into<String>,
        api_version: impl Into<String>,
        kind: impl Into<String>,
        name: impl Into<String>,
    ) -> QueryBuilder<NamedQuery> {
        Query::object(id, ObjectReference::new(api_version, kind, name))
    }

    /// As [`named`](Query::named), for a reference.
    pub fn object(id: impl Into<String>, object: ObjectReference) -> QueryBuilder<NamedQuery> {
        QueryBuilder::new(
            id,
            NamedQuery {
                object,
                fields: Fields::Whole,
            },
        )
    }

    /// The objects of a kind that a label selector matches: all of them, whole, everywhere in the primary's cluster,
    /// until [`label`](QueryBuilder::label) and the like narrow it.
    pub fn selected(
        id: impl Into<String>,
        api_version: impl Into<String>,
        kind: impl Into<String>,
    ) -> QueryBuilder<SelectedQuery> {
        let target = SelectedQuery {
            cluster: Cluster::PrimaryCluster,
            kind: ObjectKind::new(api_version, kind),
            namespaces: Namespaces::Everywhere,
            selector: LabelSelector::everything(),
            fields: Fields::Whole,
        };
        QueryBuilder::new(id, target)
    }

    /// The objects of a kind that name the primary's uid in `metadata.ownerReferences`, whole, everywhere in the
    /// primary's cluster.
    pub fn owned(
        id: impl Into<String>,
        api_version: impl Into<String>,
        kind: impl Into<String>,
    ) -> QueryBuilder<OwnedQuery> {
        let target = OwnedQuery {
            cluster: Cluster::PrimaryCluster,
            kind: ObjectKind::new(api_version, kind),
            namespaces: Namespaces::Everywhere,
            fields: Fields::Whole,
        };
        QueryBuilder::new(id, target)
    }

    /// The files of a git repository at a branch, tag or commit: all of them, up to 8 MiB, checked every five minutes.
    pub fn repository(
        id: impl Into<String>,
        url: impl Into<String>,
        revision: impl Into<String>,
    ) -> QueryBuilder<RepositoryQuery> {
        let target = RepositoryQuery {
            url: url.into(),
            revision: revision.into(),
            path: String::new(),
            globs: Vec::new(),
            credentials: None,
            interval: seconds(DEFAULT_INTERVAL),
            max_size: DEFAULT_MAX_SIZE,
        };
        QueryBuilder::new(id, target)
    }
}

impl<T> QueryBuilder<T> {
    fn new(id: impl Into<String>, target: T) -> Self {
        QueryBuilder {
            id: id.into(),
            tolerate: false,
            target,
        }
    }

    /// Goes on when this query fails: the plugin looks at the failure itself.
    #[must_use]
    pub fn tolerate(mut self) -> Self {
        self.tolerate = true;
        self
    }
}

/// What all queries of objects have. It cannot be implemented elsewhere, since its types are those of the contract.
trait ObjectsQuery {
    fn cluster_mut(&mut self) -> &mut Cluster;
    fn fields_mut(&mut self) -> &mut Fields;
}

/// What the queries of several objects have.
trait ScopedQuery {
    fn namespaces_mut(&mut self) -> &mut Namespaces;
}

impl ObjectsQuery for NamedQuery {
    fn cluster_mut(&mut self) -> &mut Cluster {
        &mut self.object.cluster
    }
    fn fields_mut(&mut self) -> &mut Fields {
        &mut self.fields
    }
}

impl ObjectsQuery for SelectedQuery {
    fn cluster_mut(&mut self) -> &mut Cluster {
        &mut self.cluster
    }
    fn fields_mut(&mut self) -> &mut Fields {
        &mut self.fields
    }
}

impl ObjectsQuery for OwnedQuery {
    fn cluster_mut(&mut self) -> &mut Cluster {
        &mut self.cluster
    }
    fn fields_mut(&mut self) -> &mut Fields {
        &mut self.fields
    }
}

impl ScopedQuery for SelectedQuery {
    fn namespaces_mut(&mut self) -> &mut Namespaces {
        &mut self.namespaces
    }
}

impl ScopedQuery for OwnedQuery {
    fn namespaces_mut(&mut self) -> &mut Namespaces {
        &mut self.namespaces
    }
}

#[expect(private_bounds, reason = "the bound only chooses which queries have these methods")]
impl<T: ObjectsQuery> QueryBuilder<T> {
    /// In another cluster.
    #[must_use]
    pub fn cluster(mut self, cluster: Cluster) -> Self {
        *self.target.cluster_mut() = cluster;
        self
    }

    /// Declares field paths, such as `data.k` or `spec.containers[0].image`: the answer holds just them, and only their
    /// change starts a run.
    #[must_use]
    pub fn fields<P: Into<String>>(mut self, paths: impl IntoIterator<Item = P>) -> Self {
        *self.target.fields_mut() = Fields::these(paths);
        self
    }

    /// Declares no more than what every query does: that the object exists, its uid, and whether it is being deleted.
    #[must_use]
    pub fn existence_only(self) -> Self {
        let nothing: [&str; 0] = [];
        self.fields(nothing)
    }

    /// Declares `apiVersion`, `kind` and `metadata`.
    #[must_use]
    pub fn metadata_only(mut self) -> Self {
        *self.target.fields_mut() = Fields::MetadataOnly;
        self
    }
}

#[expect(private_bounds, reason = "the bound only chooses which queries have these methods")]
impl<T: ScopedQuery> QueryBuilder<T> {
    /// Only in these namespaces.
    #[must_use]
    pub fn in_namespaces<N: Into<String>>(mut self, namespaces: impl IntoIterator<Item = N>) -> Self {
        *self.target.namespaces_mut() = Namespaces::Listed(namespaces.into_iter().map(Into::into).collect());
        self
    }

    /// Only in namespaces whose own labels match; relabelling one brings its objects in or out.
    #[must_use]
    pub fn in_namespaces_selected(mut self, selector: LabelSelector) -> Self {
        *self.target.namespaces_mut() = Namespaces::Selected(selector);
        self
    }
}

impl QueryBuilder<NamedQuery> {
    /// In a namespace.
    #[must_use]
    pub fn in_namespace(mut self, namespace: impl Into<String>) -> Self {
        self.target.object.namespace = Some(namespace.into());
        self
    }

    /// In the primary's own namespace, if it has one.
    #[must_use]
    pub fn in_namespace_of(mut self, primary: &Primary) -> Self {
        self.target.object.namespace = primary.namespace().map(str::to_owned);
        self
    }
}

impl QueryBuilder<SelectedQuery> {
    /// Only objects that have this label with this value.
    #[must_use]
    pub fn label(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.target.selector = self.target.selector.label(key, value);
        self
    }

    /// Only objects that fit this requirement.
    #[must_use]
    pub fn requirement<V: Into<String>>(
        mut self,
        key: impl Into<String>,
        operator: LabelOperator,
        values: impl IntoIterator<Item = V>,
    ) -> Self {
        self.target.selector = self.target.selector.requirement(key, operator, values);
        self
    }

    /// Replaces the selector.
    #[must_use]
    pub fn selector(mut self, selector: LabelSelector) -> Self {
        self.target.selector = selector;
        self
    }
}

impl QueryBuilder<RepositoryQuery> {
    /// Only a folder or a file, relative to the repository's root.
    #[must_use]
    pub fn path(mut self, path: impl Into<String>) -> Self {
        self.target.path = path.into();
        self
    }

    /// Only files that one of these globs matches, relative to the path.
    #[must_use]
    pub fn globs<G: Into<String>>(mut self, globs: impl IntoIterator<Item = G>) -> Self {
        self.target.globs = globs.into_iter().map(Into::into).collect();
        self
    }

    /// With credentials from a Secret.
    #[must_use]
    pub fn credentials(mut self, key: SecretKey) -> Self {
        self.target.credentials = Some(key);
        self
    }

    /// The time between two checks, in whole seconds; the host may allow no less than a minimum.
    #[must_use]
    pub fn every(mut self, interval: Duration) -> Self {
        self.target.interval = seconds(interval);
        self
    }

    /// The bytes that the files may have together.
    #[must_use]
    pub fn max_size(mut self, bytes: u64) -> Self {
        self.target.max_size = bytes;
        self
    }
}

fn seconds(duration: Duration) -> u32 {
    u32::try_from(duration.as_secs()).unwrap_or(u32::MAX)
}

impl<T: Into<QueryTarget>> From<QueryBuilder<T>> for Query {
    fn from(builder: QueryBuilder<T>) -> Self {
        Query {
            id: builder.id,
            target: builder.target.into(),
            tolerate: builder.tolerate,
        }
    }
}

impl From<NamedQuery> for QueryTarget {
    fn from(query: NamedQuery) -> Self {
        QueryTarget::Named(query)
    }
}

impl From<SelectedQuery> for QueryTarget {
    fn from(query: SelectedQuery) -> Self {
        QueryTarget::Selected(query)
    }
}

impl From<OwnedQuery> for QueryTarget {
    fn from(query: OwnedQuery) -> Self {
        QueryTarget::Owned(query)
    }
}

impl From<RepositoryQuery> for QueryTarget {
    fn from(query: RepositoryQuery) -> Self {
        QueryTarget::Repository(query)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_by_name_holds_what_was_said() {
        let query: Query = Query::named("q", "v1", "Secret", "s")
            .in_namespace("ns")
            .cluster(Cluster::HostCluster)
            .fields(["data.k"])
            .tolerate()
            .into();
        let expected = NamedQuery {
            object: ObjectReference::new("v1", "Secret", "s")
                .in_namespace("ns")
                .cluster(Cluster::HostCluster),
            fields: Fields::these(["data.k"]),
        };
        assert_eq!(
            query,
            Query {
                id: "q".into(),
                target: QueryTarget::Named(expected),
                tolerate: true
            }
        );
    }

    #[test]
    fn a_query_by_labels_holds_what_was_said() {
        let query: Query = Query::selected("q", "v1", "Secret")
            .label("a", "b")
            .in_namespaces(["x"])
            .metadata_only()
            .into();
        let QueryTarget::Selected(selected) = query.target else {
            panic!("{query:?}")
        };
        assert_eq!(selected.selector, LabelSelector::everything().label("a", "b"));
        assert_eq!(selected.namespaces, Namespaces::Listed(vec!["x".into()]));
        assert_eq!(selected.fields, Fields::MetadataOnly);
        assert!(!query.tolerate);
    }

    #[test]
    fn a_query_of_a_repository_holds_what_was_said() {
        let query: Query = Query::repository("q", "https://example.org/r.git", "main")
            .path("deploy")
            .globs(["*.yaml"])
            .every(Duration::from_secs(60))
            .into();
        let QueryTarget::Repository(repository) = query.target else {
            panic!("{query:?}")
        };
        assert_eq!((repository.path.as_str(), repository.interval), ("deploy", 60));
    }
}
