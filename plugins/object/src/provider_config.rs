//! Which cluster a ProviderConfig names.

use patchbay_sdk::{Answers, Cluster, Finding, Primary, Query, SecretKey, Value};
use serde::Deserialize;

use crate::problem::Problem;

const ID: &str = "provider-config";
const API_VERSION: &str = "kubernetes.crossplane.io/v1alpha1";
const KIND: &str = "ProviderConfig";

#[derive(Deserialize)]
struct Spec {
    credentials: Credentials,
    #[serde(default)]
    identity: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Credentials {
    source: String,
    #[serde(default)]
    secret_ref: Option<SecretRef>,
}

#[derive(Deserialize)]
struct SecretRef {
    namespace: String,
    name: String,
    key: String,
}

/// The query for the ProviderConfig of this name. Its status, which counts users, is not among the fields.
pub fn query(name: &str) -> Query {
    Query::named(ID, API_VERSION, KIND, name)
        .fields(["spec"])
        .tolerate()
        .into()
}

/// Whether the ProviderConfig was asked for already.
pub fn is_answered(answers: &Answers) -> bool {
    answers.finding(ID).is_some()
}

/// The cluster that the ProviderConfig of this name names.
pub fn cluster(name: &str, primary: &Primary, answers: &Answers) -> Result<Cluster, Problem> {
    let place = format!("ProviderConfig {name} ({API_VERSION})");
    match answers.finding(ID) {
        Some(Finding::Found(config)) => from_spec(
            &place,
            config
                .field("spec")
                .map_err(|failure| Problem::permanent(format!("{place}: {}", failure.message)))?,
        ),
        Some(Finding::Failed(failure)) => Err(Problem::unknown(&place, failure)),
        _ => Err(Problem::retry(format!(
            "{place} does not exist in cluster {}, which is the Object's own; create it, or name another in \
             spec.providerConfigRef",
            primary.object.cluster_id
        ))),
    }
}

fn from_spec(place: &str, spec: Spec) -> Result<Cluster, Problem> {
    if let Some(identity) = spec.identity {
        let kind = identity["type"].as_str().unwrap_or("an identity");
        return Err(Problem::permanent(format!(
            "{place}: spec.identity: {kind} is not served; use a kubeconfig that holds its credentials itself"
        )));
    }
    match (spec.credentials.source.as_str(), spec.credentials.secret_ref) {
        ("InjectedIdentity", _) => Ok(Cluster::HostCluster),
        ("Secret", Some(secret)) => Ok(Cluster::ByKubeconfig(SecretKey::in_primary_cluster(
            secret.namespace,
            secret.name,
            secret.key,
        ))),
        ("Secret", None) => Err(Problem::permanent(format!(
            "{place}: spec.credentials.secretRef: missing; source Secret needs its namespace, name and key"
        ))),
        (source, _) => Err(Problem::permanent(format!(
            "{place}: spec.credentials.source: {source} is not served; use Secret or InjectedIdentity"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use patchbay_sdk::{QueryFailureReason, json, testing};

    fn cluster_for(finding: Finding) -> Result<Cluster, Problem> {
        cluster(
            "remote",
            &testing::primary(json!({})),
            &testing::answers([(ID, finding)]),
        )
    }

    #[test]
    fn a_kubeconfig_secret_names_a_remote_cluster() {
        let config = json!({"spec": {"credentials": {
            "source": "Secret", "secretRef": {"namespace": "ns", "name": "s", "key": "kubeconfig"},
        }}});
        let key = SecretKey::in_primary_cluster("ns", "s", "kubeconfig");
        assert_eq!(cluster_for(testing::found(config)), Ok(Cluster::ByKubeconfig(key)));
    }

    #[test]
    fn the_injected_identity_is_the_cluster_of_the_host() {
        let config = json!({"spec": {"credentials": {"source": "InjectedIdentity"}}});
        assert_eq!(cluster_for(testing::found(config)), Ok(Cluster::HostCluster));
    }

    #[test]
    fn a_source_that_is_not_served_is_refused_by_name() {
        for source in ["None", "Environment", "Filesystem"] {
            let config = json!({"spec": {"credentials": {"source": source}}});
            let message = format!(
                "ProviderConfig remote (kubernetes.crossplane.io/v1alpha1): spec.credentials.source: {source} is not \
                 served; use Secret or InjectedIdentity"
            );
            assert_eq!(cluster_for(testing::found(config)), Err(Problem::permanent(message)));
        }
    }

    #[test]
    fn an_identity_is_refused_by_name() {
        let config = json!({"spec": {
            "credentials": {"source": "InjectedIdentity"},
            "identity": {"type": "GoogleApplicationCredentials", "source": "InjectedIdentity"},
        }});
        let problem = cluster_for(testing::found(config)).unwrap_err();
        assert!(
            problem
                .message
                .contains("spec.identity: GoogleApplicationCredentials is not served"),
            "{problem}"
        );
    }

    #[test]
    fn a_config_that_does_not_say_enough_names_the_field() {
        for (config, part) in [
            (
                json!({"spec": {"credentials": {"source": "Secret"}}}),
                "spec.credentials.secretRef: missing",
            ),
            (
                json!({"spec": {"credentials": {"source": "Secret", "secretRef": {"name": "s"}}}}),
                "spec.credentials.secretRef: missing field `namespace`",
            ),
            (json!({}), "spec: missing field `credentials`"),
        ] {
            let problem = cluster_for(testing::found(config)).unwrap_err();
            assert!(problem.message.contains(part), "{problem}");
            assert!(problem.permanent);
        }
    }

    #[test]
    fn a_missing_config_says_what_to_do() {
        let problem = cluster_for(Finding::Missing).unwrap_err();
        assert_eq!(
            problem,
            Problem::retry(
                "ProviderConfig remote (kubernetes.crossplane.io/v1alpha1) does not exist in cluster test-cluster, which \
                 is the Object's own; create it, or name another in spec.providerConfigRef"
            )
        );
    }

    #[test]
    fn a_config_that_cannot_be_read_is_not_a_missing_one() {
        let problem = cluster_for(testing::failed(QueryFailureReason::Forbidden, "may not get it")).unwrap_err();
        assert_eq!(
            problem,
            Problem::retry("ProviderConfig remote (kubernetes.crossplane.io/v1alpha1): may not get it")
        );
    }
}
