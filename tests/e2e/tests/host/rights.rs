//! An API server that forbids.

use std::time::Duration;

use anyhow::{Result, bail};
use k8s_openapi::api::rbac::v1::PolicyRule;
use patchbay_harness::{Cluster, Host, HostOptions, Scope, condition, wait_for};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::modules::PROVIDER;

fn rule(groups: &[&str], resources: &[&str], verbs: &[&str]) -> PolicyRule {
    let strings = |values: &[&str]| values.iter().map(|value| (*value).to_owned()).collect::<Vec<_>>();
    PolicyRule {
        api_groups: Some(strings(groups)),
        resources: Some(strings(resources)),
        verbs: strings(verbs),
        ..PolicyRule::default()
    }
}

/// A host that may do what the rules say, and the folder with its kubeconfig.
async fn host_with(cluster: &Cluster, rules: &[PolicyRule]) -> Result<(Host, TempDir)> {
    let kubeconfig = cluster
        .service_account("default", "patchbay", rules, Scope::Cluster)
        .await?;
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("kubeconfig");
    std::fs::write(&file, serde_json::to_string(&kubeconfig)?)?;
    let options = HostOptions {
        kubeconfig: Some(file),
        arguments: vec!["--log".to_owned(), "debug".to_owned()],
        ..HostOptions::default()
    };
    Ok((Host::start(cluster, &options).await?, folder))
}

/// An Object whose target takes `k` of a source.
fn copies(source: &str, target: &str, to: &str) -> Value {
    json!({
        "apiVersion": "kubernetes.crossplane.io/v1alpha2", "kind": "Object", "metadata": {"name": "o"},
        "spec": {
            "references": [{"patchesFrom": {
                "apiVersion": "v1", "kind": source, "namespace": "default", "name": "source", "fieldPath": "data.k",
            }, "toFieldPath": to}],
            "forProvider": {"manifest": {
                "apiVersion": "v1", "kind": target, "metadata": {"name": "target", "namespace": "default"},
            }},
            "providerConfigRef": {"name": "kubernetes-provider"},
        },
    })
}

#[tokio::test]
async fn a_source_that_may_not_be_read_is_told_by_verb_and_resource_and_followed_once_it_may() -> Result<()> {
    let cluster = Cluster::start().await?;
    cluster.apply_crds().await?;
    cluster.apply(PROVIDER).await?;
    let rules = [
        rule(&["kubernetes.crossplane.io"], &["*"], &["*"]),
        rule(&[""], &["secrets"], &["get", "list", "watch", "create", "patch"]),
        rule(&["", "events.k8s.io"], &["events"], &["create", "patch"]),
    ];
    let _host = host_with(&cluster, &rules).await?;

    let object = copies("ConfigMap", "Secret", "stringData.k");
    cluster
        .apply("{apiVersion: v1, kind: ConfigMap, metadata: {name: source}, data: {k: one}}")
        .await?;
    cluster.apply(&object.to_string()).await?;
    let limit = Duration::from_secs(20);
    wait_for("the condition to name verb and resource", limit, async || {
        let object = cluster
            .get("kubernetes.crossplane.io/v1alpha2", "Object", "", "o")
            .await?;
        let Some(synced) = object.and_then(|object| condition(&object, "Synced")) else {
            bail!("no condition")
        };
        let told = ["list", "configmaps", "forbidden"]
            .iter()
            .all(|word| synced.message.contains(word));
        if synced.status == "False" && told {
            Ok(Some(()))
        } else {
            bail!("it is {synced}")
        }
    })
    .await?;
    assert!(
        cluster.get("v1", "Secret", "default", "target").await?.is_none(),
        "forbidden is not empty"
    );

    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "more"},
        "rules": [rule(&[""], &["configmaps"], &["list", "watch"])],
    });
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "more"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "more"},
        "subjects": [{"kind": "ServiceAccount", "name": "patchbay", "namespace": "default"}],
    });
    cluster.apply(&role.to_string()).await?;
    cluster.apply(&binding.to_string()).await?;
    // Nothing tells the host of new rights: it tries again, after a while that grows with each failure.
    wait_for("the target", Duration::from_secs(70), async || {
        cluster.get("v1", "Secret", "default", "target").await
    })
    .await?;
    Ok(())
}

#[tokio::test]
async fn the_rights_of_the_example_are_enough() -> Result<()> {
    let cluster = Cluster::start().await?;
    cluster.apply_crds().await?;
    cluster.apply(PROVIDER).await?;
    let example = include_str!("../../../../examples/rights/host.yaml");
    let documents: Vec<Value> = serde_saphyr::from_multiple(example)?;
    let role = documents.iter().find(|document| document["kind"] == "ClusterRole");
    let rules: Vec<PolicyRule> = serde_json::from_value(role.map(|role| role["rules"].clone()).unwrap_or_default())?;
    let (host, _folder) = host_with(&cluster, &rules).await?;
    let object = copies("Secret", "ConfigMap", "data.k");
    cluster
        .apply("{apiVersion: v1, kind: Secret, metadata: {name: source}, stringData: {k: one}}")
        .await?;
    cluster.apply(&object.to_string()).await?;
    let limit = Duration::from_secs(20);
    wait_for("the Object to be ready", limit, async || {
        let object = cluster
            .get("kubernetes.crossplane.io/v1alpha2", "Object", "", "o")
            .await?;
        let ready = object.and_then(|object| condition(&object, "Ready"));
        Ok(ready.filter(|ready| ready.status == "True"))
    })
    .await?;
    cluster
        .delete("kubernetes.crossplane.io/v1alpha2", "Object", "", "o")
        .await?;
    wait_for("the target to be gone", limit, async || {
        Ok(cluster
            .get("v1", "ConfigMap", "default", "target")
            .await?
            .is_none()
            .then_some(()))
    })
    .await?;
    let log = host.log();
    let refused = log
        .lines()
        .find(|line| line.contains("forbidden") || line.contains("grant"));
    assert!(refused.is_none(), "{refused:?}");
    Ok(())
}
