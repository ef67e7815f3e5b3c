//! Clusters, objects and selectors as a Script spells them.

use std::collections::BTreeMap;

use patchbay_sdk::{
    Cluster, Home, LabelOperator, LabelRequirement, LabelSelector, ObjectReference, Primary, SecretKey,
};
use serde::Deserialize;

use crate::spec::namespace;

/// `primary`, `host`, `{id: …}` or `{kubeconfig: {name, namespace, key}}`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum ClusterSpec {
    #[default]
    Primary,
    Host,
    Id(String),
    Kubeconfig(KubeconfigSpec),
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct KubeconfigSpec {
    namespace: Option<String>,
    name: String,
    #[serde(default = "default_key")]
    key: String,
}

fn default_key() -> String {
    "kubeconfig".to_owned()
}

impl ClusterSpec {
    pub(crate) fn of(self, primary: &Primary) -> Cluster {
        match self {
            ClusterSpec::Primary => Cluster::PrimaryCluster,
            ClusterSpec::Host => Cluster::HostCluster,
            ClusterSpec::Id(id) => Cluster::ById(id),
            ClusterSpec::Kubeconfig(secret) => Cluster::ByKubeconfig(SecretKey {
                home: Home::PrimaryCluster,
                namespace: namespace(primary, secret.namespace).unwrap_or_default(),
                name: secret.name,
                key: secret.key,
            }),
        }
    }
}

/// One object.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ObjectSpec {
    api_version: String,
    kind: String,
    namespace: Option<String>,
    name: String,
    #[serde(default)]
    cluster: ClusterSpec,
}

impl ObjectSpec {
    pub(crate) fn of(self, primary: &Primary) -> ObjectReference {
        ObjectReference {
            namespace: namespace(primary, self.namespace),
            cluster: self.cluster.of(primary),
            ..ObjectReference::new(self.api_version, self.kind, self.name)
        }
    }
}

/// A label selector as Kubernetes spells it.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct SelectorSpec {
    match_labels: BTreeMap<String, String>,
    match_expressions: Vec<RequirementSpec>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RequirementSpec {
    key: String,
    operator: OperatorSpec,
    #[serde(default)]
    values: Vec<String>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
enum OperatorSpec {
    In,
    NotIn,
    Exists,
    DoesNotExist,
}

impl From<SelectorSpec> for LabelSelector {
    fn from(spec: SelectorSpec) -> Self {
        let requirement = |spec: RequirementSpec| LabelRequirement {
            key: spec.key,
            operator: match spec.operator {
                OperatorSpec::In => LabelOperator::IsIn,
                OperatorSpec::NotIn => LabelOperator::NotIn,
                OperatorSpec::Exists => LabelOperator::Exists,
                OperatorSpec::DoesNotExist => LabelOperator::DoesNotExist,
            },
            values: spec.values,
        };
        LabelSelector {
            match_labels: spec.match_labels.into_iter().collect(),
            match_expressions: spec.match_expressions.into_iter().map(requirement).collect(),
        }
    }
}
