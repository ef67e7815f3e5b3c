//! Objects whose targets are in other clusters.

use anyhow::Result;
use patchbay_harness::{Cluster, wait_for};
use serde_json::{Value, json};

use crate::world::{OBJECT, SOON, World, data_in};

async fn provider_config(world: &World, name: &str) -> Result<()> {
    let config = json!({
        "apiVersion": "kubernetes.crossplane.io/v1alpha1", "kind": "ProviderConfig", "metadata": {"name": name},
        "spec": {"credentials": {
            "source": "Secret", "secretRef": {"namespace": world.namespace, "name": "remote", "key": "kubeconfig"},
        }},
    });
    world.cluster.apply(&config.to_string()).await.map(drop)
}

fn remote_copy(world: &World, provider_config: &str) -> Value {
    let mut spec = world.copy("source", "data.k", "target", "data.k");
    spec["forProvider"]["manifest"]["metadata"]["namespace"] = "default".into();
    spec["providerConfigRef"]["name"] = provider_config.into();
    spec
}

#[tokio::test]
async fn a_target_in_another_cluster_follows_and_goes() -> Result<()> {
    let world = World::new("remote").await?;
    let remote = Cluster::start().await?;
    let config = world.object_name("config");
    provider_config(&world, &config).await?;
    world.config_map("source", json!({"k": "one"})).await?;
    let object = world.object("o", remote_copy(&world, &config)).await?;
    // The Secret comes last: it is a dependency like any other.
    world
        .condition(&object, "Synced", "False", &["Secret", "remote"])
        .await?;
    world
        .cluster
        .kubeconfig_secret(&world.namespace, "remote", remote.kubeconfig())
        .await?;
    data_in(&remote, "default", "target", json!({"k": "one"})).await?;
    world.ready(&object).await?;
    world.config_map("source", json!({"k": "two"})).await?;
    data_in(&remote, "default", "target", json!({"k": "two"})).await?;
    remote
        .patch("v1", "ConfigMap", "default", "target", json!({"data": {"k": "edited"}}))
        .await?;
    data_in(&remote, "default", "target", json!({"k": "two"})).await?;
    world.cluster.delete(OBJECT, "Object", "", &object).await?;
    world.gone(OBJECT, "Object", &object).await?;
    assert!(remote.get("v1", "ConfigMap", "default", "target").await?.is_none());
    Ok(())
}

#[tokio::test]
async fn a_rotated_kubeconfig_is_used_at_once() -> Result<()> {
    let world = World::new("rotated").await?;
    let remotes = Cluster::start_many(2).await?;
    let config = world.object_name("config");
    provider_config(&world, &config).await?;
    world.config_map("source", json!({"k": "one"})).await?;
    world
        .cluster
        .kubeconfig_secret(&world.namespace, "remote", remotes[0].kubeconfig())
        .await?;
    let object = world.object("o", remote_copy(&world, &config)).await?;
    data_in(&remotes[0], "default", "target", json!({"k": "one"})).await?;
    world.ready(&object).await?;
    // The same name, but another cluster behind it: what was known of the first says nothing of it.
    world
        .cluster
        .kubeconfig_secret(&world.namespace, "remote", remotes[1].kubeconfig())
        .await?;
    data_in(&remotes[1], "default", "target", json!({"k": "one"})).await?;
    Ok(())
}

#[tokio::test]
async fn a_kubeconfig_that_would_run_a_program_is_refused() -> Result<()> {
    let world = World::new("exec").await?;
    let config = world.object_name("config");
    provider_config(&world, &config).await?;
    world.config_map("source", json!({"k": "one"})).await?;
    let marker = tempfile::tempdir()?;
    let touched = marker.path().join("ran");
    let kubeconfig = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        "clusters": [{"name": "k", "cluster": {"server": "https://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": {"exec": {
            "apiVersion": "client.authentication.k8s.io/v1", "interactiveMode": "Never",
            "command": "touch", "args": [touched.display().to_string()],
        }}}],
    });
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "remote"},
        "stringData": {"kubeconfig": kubeconfig.to_string()},
    });
    world.cluster.apply_in(&world.namespace, &secret.to_string()).await?;
    let object = world.object("o", remote_copy(&world, &config)).await?;
    world
        .condition(&object, "Synced", "False", &["exec", "refused"])
        .await?;
    assert!(!touched.exists(), "the program was run");
    Ok(())
}

#[tokio::test]
async fn an_unreachable_cluster_delays_nobody_else() -> Result<()> {
    let world = World::new("unreachable").await?;
    let config = world.object_name("config");
    provider_config(&world, &config).await?;
    world.config_map("source", json!({"k": "one"})).await?;
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "remote"},
        "stringData": {"kubeconfig": json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
            "clusters": [{"name": "k", "cluster": {"server": "https://127.0.0.1:1"}}],
            "users": [{"name": "u", "user": {"token": "t"}}],
        }).to_string()},
    });
    world.cluster.apply_in(&world.namespace, &secret.to_string()).await?;
    let object = world.object("remote", remote_copy(&world, &config)).await?;
    world
        .condition(&object, "Synced", "False", &["cannot reach the API server"])
        .await?;
    let near = world
        .object("near", world.copy("source", "data.k", "near", "data.k"))
        .await?;
    world.data("near", json!({"k": "one"})).await?;
    world.ready(&near).await?;
    wait_for("the far Object to say the same still", SOON, async || {
        world
            .condition(&object, "Synced", "False", &["cannot reach the API server"])
            .await
            .map(Some)
    })
    .await?;
    Ok(())
}
