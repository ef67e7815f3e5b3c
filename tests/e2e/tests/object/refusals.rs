//! Bad input: one message that says what and what to do.

use anyhow::Result;
use serde_json::{Value, json};

use crate::world::World;

async fn refused(purpose: &str, change: impl FnOnce(&mut Value), words: &[&str]) -> Result<()> {
    let world = World::new(purpose).await?;
    world.config_map("source", json!({"k": "one"})).await?;
    let mut spec = world.copy("source", "data.k", "target", "data.k");
    change(&mut spec);
    let object = world.object("o", spec).await?;
    let told = world.condition(&object, "Synced", "False", words).await?;
    assert_eq!(told.reason, "ReconcileError");
    assert!(
        world
            .cluster
            .get("v1", "ConfigMap", &world.namespace, "target")
            .await?
            .is_none(),
        "nothing is written"
    );
    // Corrected, it works at once.
    world
        .object("o", world.copy("source", "data.k", "target", "data.k"))
        .await?;
    world.data("target", json!({"k": "one"})).await?;
    world.ready(&object).await?;
    Ok(())
}

fn set_path(spec: &mut Value, path: &str) {
    spec["references"][0]["patchesFrom"]["fieldPath"] = path.into();
}

#[tokio::test]
async fn a_path_with_an_empty_part() -> Result<()> {
    refused("dots", |spec| set_path(spec, "data..k"), &["references[0]", "data..k"]).await
}

#[tokio::test]
async fn a_path_with_a_wildcard() -> Result<()> {
    refused("wildcard", |spec| set_path(spec, "data[*]"), &["references[0]", "*"]).await
}

#[tokio::test]
async fn an_index_beyond_what_a_list_may_have() -> Result<()> {
    refused(
        "index",
        |spec| spec["references"][0]["toFieldPath"] = "data[2000]".into(),
        &["references[0]", "2000"],
    )
    .await
}

#[tokio::test]
async fn a_path_through_a_string() -> Result<()> {
    refused(
        "string",
        |spec| set_path(spec, "data.k.deeper"),
        &["references[0]", "data.k", "string"],
    )
    .await
}

#[tokio::test]
async fn a_to_field_path_within_patches_from() -> Result<()> {
    let nest = |spec: &mut Value| spec["references"][0]["patchesFrom"]["toFieldPath"] = "data.x".into();
    refused("nested", nest, &["references[0].patchesFrom.toFieldPath"]).await
}

#[tokio::test]
async fn an_unknown_field_of_a_reference() -> Result<()> {
    let add = |spec: &mut Value| spec["references"][0]["transforms"] = json!([]);
    refused("unknown", add, &["references[0].transforms"]).await
}

#[tokio::test]
async fn a_missing_provider_config() -> Result<()> {
    let name = |spec: &mut Value| spec["providerConfigRef"]["name"] = "nowhere".into();
    refused("provider", name, &["ProviderConfig", "nowhere"]).await
}

#[tokio::test]
async fn a_namespaced_source_without_a_namespace() -> Result<()> {
    let remove = |spec: &mut Value| {
        spec["references"][0]["patchesFrom"]
            .as_object_mut()
            .expect("an object")
            .remove("namespace");
    };
    refused("namespaceless", remove, &["ConfigMap", "namespace"]).await
}

#[tokio::test]
async fn a_target_that_cannot_be() -> Result<()> {
    let cluster_scoped = |spec: &mut Value| spec["forProvider"]["manifest"]["kind"] = "Namespace".into();
    refused("scope", cluster_scoped, &["Namespace", "cluster-scoped"]).await
}

#[tokio::test]
async fn a_name_that_would_be_another_request() -> Result<()> {
    let rename = |spec: &mut Value| spec["references"][0]["patchesFrom"]["name"] = "a,b?limit=1".into();
    refused("name", rename, &["a,b?limit=1"]).await
}

#[tokio::test]
async fn a_namespace_that_would_be_another_request() -> Result<()> {
    let elsewhere = |spec: &mut Value| {
        spec["references"][0]["patchesFrom"]["namespace"] = "kube-system/secrets?x=".into();
    };
    refused("elsewhere", elsewhere, &["kube-system/secrets?x="]).await
}
