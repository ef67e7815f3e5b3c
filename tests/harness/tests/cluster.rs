//! The harness itself, with API servers and without a host.

use std::time::Duration;

use anyhow::Result;
use k8s_openapi::api::rbac::v1::PolicyRule;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use patchbay_harness::{Cluster, Scope, wait_for};

#[tokio::test]
async fn two_clusters_beside_each_other_are_not_the_same() -> Result<()> {
    let clusters = Cluster::start_many(2).await?;
    assert_ne!(clusters[0].uid().await?, clusters[1].uid().await?);
    clusters[0]
        .apply("{apiVersion: v1, kind: ConfigMap, metadata: {name: here}}")
        .await?;
    assert!(clusters[0].get("v1", "ConfigMap", "default", "here").await?.is_some());
    assert!(clusters[1].get("v1", "ConfigMap", "default", "here").await?.is_none());
    Ok(())
}

#[tokio::test]
async fn a_deleted_namespace_terminates_with_all_that_is_in_it() -> Result<()> {
    let cluster = Cluster::shared().await?;
    let namespace = cluster.namespace("deleted").await?;
    cluster
        .apply_in(
            &namespace,
            "{apiVersion: v1, kind: ConfigMap, metadata: {name: content}}",
        )
        .await?;
    cluster.delete("v1", "Namespace", "", &namespace).await?;
    wait_for("the namespace to be gone", Duration::from_secs(60), async || {
        let found = cluster.get("v1", "Namespace", "", &namespace).await?;
        Ok(found.is_none().then_some(()))
    })
    .await
}

#[tokio::test]
async fn what_is_owned_goes_with_its_owner() -> Result<()> {
    let cluster = Cluster::shared().await?;
    let namespace = cluster.namespace("owned").await?;
    let owner = cluster
        .apply_in(&namespace, "{apiVersion: v1, kind: ConfigMap, metadata: {name: owner}}")
        .await?;
    let uid = owner[0].metadata.uid.as_deref().unwrap_or_default();
    let owned = format!(
        "{{apiVersion: v1, kind: ConfigMap, metadata: {{name: owned, ownerReferences: \
         [{{apiVersion: v1, kind: ConfigMap, name: owner, uid: {uid}}}]}}}}"
    );
    cluster.apply_in(&namespace, &owned).await?;
    cluster.delete("v1", "ConfigMap", &namespace, "owner").await?;
    wait_for("the owned object to be gone", Duration::from_secs(60), async || {
        let found = cluster.get("v1", "ConfigMap", &namespace, "owned").await?;
        Ok(found.is_none().then_some(()))
    })
    .await
}

#[tokio::test]
async fn a_service_account_has_its_rights_and_no_others() -> Result<()> {
    let cluster = Cluster::shared().await?;
    let namespace = cluster.namespace("rights").await?;
    let rule = PolicyRule {
        api_groups: Some(vec![String::new()]),
        resources: Some(vec!["configmaps".to_owned()]),
        verbs: vec!["list".to_owned()],
        ..PolicyRule::default()
    };
    let kubeconfig = cluster
        .service_account(&namespace, "reader", &[rule], Scope::Namespace(&namespace))
        .await?;
    let client = client_of(kubeconfig).await?;
    let maps = kube::Api::<k8s_openapi::api::core::v1::ConfigMap>::namespaced(client.clone(), &namespace);
    maps.list(&Default::default()).await?;
    let secrets = kube::Api::<k8s_openapi::api::core::v1::Secret>::namespaced(client, &namespace);
    let refused = secrets.list(&Default::default()).await.unwrap_err();
    assert!(
        matches!(&refused, kube::Error::Api(status) if status.code == 403),
        "{refused}"
    );
    Ok(())
}

#[tokio::test]
async fn a_snapshot_sees_what_moves() -> Result<()> {
    let cluster = Cluster::start().await?;
    let namespace = cluster.namespace("moving").await?;
    cluster
        .apply_in(
            &namespace,
            "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {k: '1'}}",
        )
        .await?;
    // The server sets up its own objects for a moment after it is ready.
    let before = wait_for("the cluster to be at rest", Duration::from_secs(60), async || {
        let (first, second) = (cluster.snapshot().await?, cluster.snapshot().await?);
        Ok(first.differences(&second).is_empty().then_some(second))
    })
    .await?;
    cluster
        .apply_in(
            &namespace,
            "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {k: '2'}}",
        )
        .await?;
    let differences = before.differences(&cluster.snapshot().await?);
    let expected = format!("ConfigMap. {namespace}/a changed from ");
    assert!(
        differences.iter().any(|line| line.starts_with(&expected)),
        "{differences:?}"
    );
    Ok(())
}

async fn client_of(kubeconfig: Kubeconfig) -> Result<Client> {
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    Ok(Client::try_from(config)?)
}
