//! Between the contract's words and core's.

use std::sync::Arc;

use patchbay_core::{
    ClusterId, Criterion, Dependent, Failure, FailureReason, Fields, Finding, FoundObject, Kind, KubeconfigKey,
    Namespaces, ObjectName, Operator, Query, Requirement, Selector, Target,
};
use patchbay_fieldpath::FieldPath;
use patchbay_plugin::contract;

/// The kind of a contract's `object-kind`.
pub(crate) fn kind_of(kind: &contract::ObjectKind) -> Kind {
    Kind::new(kind.api_version.as_str(), kind.kind.as_str())
}

/// The name of a contract's `object-reference`.
pub(crate) fn object_name_of(reference: &contract::ObjectReference) -> ObjectName {
    ObjectName::new(reference.namespace.as_deref(), &reference.name)
}

/// What a query is about, once it makes sense.
pub(crate) struct Checked<'a> {
    cluster: &'a contract::Cluster,
    kind: Kind,
    target: Target,
    fields: Fields,
}

impl Checked<'_> {
    pub(crate) fn cluster(&self) -> &contract::Cluster {
        self.cluster
    }

    pub(crate) fn kind(&self) -> &Kind {
        &self.kind
    }

    pub(crate) fn on(self, cluster: ClusterId) -> Query {
        Query {
            cluster,
            kind: self.kind,
            target: self.target,
            fields: self.fields,
        }
    }
}

/// Checks a query for everything that can be told without a cluster.
///
/// `uid` is the primary's, which owned objects name.
///
/// # Errors
/// It makes no sense, or this host does not serve it.
pub(crate) fn checked<'a>(query: &'a contract::Query, uid: &str) -> Result<Checked<'a>, contract::QueryFailure> {
    match &query.target {
        contract::QueryTarget::Named(named) => {
            let object = &named.object;
            if object.name.is_empty() {
                return Err(invalid(format!(
                    "query {:?} names no object: its name is empty",
                    query.id
                )));
            }
            Ok(Checked {
                cluster: &object.cluster,
                kind: checked_kind(&query.id, &object.kind)?,
                target: Target::Named(object_name_of(object)),
                fields: fields(&query.id, &named.fields)?,
            })
        }
        contract::QueryTarget::Selected(selected) => Ok(Checked {
            cluster: &selected.cluster,
            kind: checked_kind(&query.id, &selected.kind)?,
            target: Target::selected(
                namespaces(&query.id, &selected.namespaces)?,
                Criterion::Labels(selector(&selected.selector)),
            ),
            fields: fields(&query.id, &selected.fields)?,
        }),
        contract::QueryTarget::Owned(owned) => Ok(Checked {
            cluster: &owned.cluster,
            kind: checked_kind(&query.id, &owned.kind)?,
            target: Target::selected(namespaces(&query.id, &owned.namespaces)?, Criterion::Owner(uid.into())),
            fields: fields(&query.id, &owned.fields)?,
        }),
        contract::QueryTarget::Repository(_) => Err(unsupported("queries of repositories")),
    }
}

fn namespaces(id: &str, namespaces: &contract::Namespaces) -> Result<Namespaces, contract::QueryFailure> {
    match namespaces {
        contract::Namespaces::Everywhere => Ok(Namespaces::All),
        contract::Namespaces::Listed(names) if names.iter().any(String::is_empty) || names.is_empty() => Err(invalid(
            format!("query {id:?} names no namespace: list some, or take all"),
        )),
        contract::Namespaces::Listed(names) => Ok(Namespaces::listed(names.iter().map(|name| name.as_str().into()))),
        contract::Namespaces::Selected(labels) => Ok(Namespaces::Selected(selector(labels))),
    }
}

fn checked_kind(id: &str, kind: &contract::ObjectKind) -> Result<Kind, contract::QueryFailure> {
    if kind.api_version.is_empty() || kind.kind.is_empty() {
        return Err(invalid(format!("query {id:?} names no kind: set apiVersion and kind")));
    }
    Ok(kind_of(kind))
}

fn fields(id: &str, fields: &contract::Fields) -> Result<Fields, contract::QueryFailure> {
    Ok(match fields {
        contract::Fields::Whole => Fields::Whole,
        contract::Fields::MetadataOnly => Fields::Metadata,
        contract::Fields::Paths(paths) => {
            let canonical = paths.iter().map(|path| {
                let path = FieldPath::parse(path).map_err(|error| invalid(format!("query {id:?}: {error}")))?;
                Ok(path.to_string().into())
            });
            Fields::paths(canonical.collect::<Result<Vec<Arc<str>>, _>>()?)
        }
    })
}

pub(crate) fn selector(selector: &contract::LabelSelector) -> Selector {
    let values = |values: &[String]| values.iter().map(|value| value.as_str().into()).collect();
    let pairs = selector
        .match_labels
        .iter()
        .map(|(key, value)| Requirement::equals(key.as_str(), value.as_str()));
    let expressions = selector.match_expressions.iter().map(|requirement| Requirement {
        key: requirement.key.as_str().into(),
        operator: match requirement.operator {
            contract::LabelOperator::IsIn => Operator::In(values(&requirement.values)),
            contract::LabelOperator::NotIn => Operator::NotIn(values(&requirement.values)),
            contract::LabelOperator::Exists => Operator::Exists,
            contract::LabelOperator::DoesNotExist => Operator::DoesNotExist,
        },
    });
    Selector::new(pairs.chain(expressions))
}

/// A declared watch as the query that it is.
///
/// # Errors
/// It makes no sense.
pub(crate) fn declared(watch: &contract::DeclaredWatch) -> Result<Checked<'_>, contract::QueryFailure> {
    Ok(Checked {
        cluster: &watch.cluster,
        kind: checked_kind(&watch.id, &watch.kind)?,
        target: Target::selected(
            namespaces(&watch.id, &watch.namespaces)?,
            Criterion::Labels(selector(&watch.selector)),
        ),
        fields: fields(&watch.id, &watch.fields)?,
    })
}

/// A primary that a plugin told a change concerns.
pub(crate) fn dependent(dependent: contract::Dependent) -> Dependent {
    match dependent {
        contract::Dependent::PrimaryName(name) => {
            Dependent::Primary(ObjectName::new(name.namespace.as_deref(), &name.name))
        }
        contract::Dependent::PrimaryLabels(labels) => Dependent::Labels(selector(&labels)),
        contract::Dependent::JoinKey(key) => Dependent::JoinKey(key.into()),
    }
}

pub(crate) fn kubeconfig_key(secret: &contract::SecretKey, primary_cluster: ClusterId) -> KubeconfigKey {
    KubeconfigKey {
        home: match secret.home {
            contract::Home::PrimaryCluster => primary_cluster,
            contract::Home::HostCluster => ClusterId::HOST,
        },
        namespace: secret.namespace.as_str().into(),
        name: secret.name.as_str().into(),
        key: secret.key.as_str().into(),
    }
}

/// A finding in the contract's words. `cluster_id` tells how plugins know a cluster.
pub(crate) fn finding(finding: Finding, cluster_id: impl Fn(ClusterId) -> String) -> contract::Finding {
    match finding {
        Finding::Found(found) => contract::Finding::Found(object(&found, &cluster_id)),
        Finding::Missing => contract::Finding::Missing,
        Finding::Matches(matches) => {
            contract::Finding::Matches(matches.iter().map(|found| object(found, &cluster_id)).collect())
        }
        Finding::Failed(failed) => contract::Finding::Failed(failure(&failed)),
    }
}

pub(crate) fn object(found: &FoundObject, cluster_id: impl Fn(ClusterId) -> String) -> contract::Object {
    contract::Object {
        cluster_id: cluster_id(found.cluster),
        resource_version: found.version.to_string(),
        json: found.text.to_string(),
    }
}

fn failure(failure: &Failure) -> contract::QueryFailure {
    use contract::QueryFailureReason as Reason;
    contract::QueryFailure {
        reason: match failure.reason {
            FailureReason::NoSuchKind => Reason::NoSuchKind,
            FailureReason::Forbidden => Reason::Forbidden,
            FailureReason::Unreachable => Reason::Unreachable,
            FailureReason::Invalid => Reason::Invalid,
            FailureReason::TooLarge => Reason::TooLarge,
        },
        message: failure.message.to_string(),
    }
}

pub(crate) fn refused(reason: contract::QueryFailureReason, message: impl Into<String>) -> contract::QueryFailure {
    contract::QueryFailure {
        reason,
        message: message.into(),
    }
}

fn invalid(message: String) -> contract::QueryFailure {
    refused(contract::QueryFailureReason::Invalid, message)
}

fn unsupported(what: &str) -> contract::QueryFailure {
    refused(
        contract::QueryFailureReason::Unsupported,
        format!("this host does not serve {what}"),
    )
}
