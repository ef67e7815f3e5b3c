//! What an Object applies, and keeps so.

use anyhow::Result;
use serde_json::json;

use crate::world::{OBJECT, World};

#[tokio::test]
async fn a_target_that_somebody_edits_or_deletes_is_restored() -> Result<()> {
    let world = World::new("restored").await?;
    world.config_map("source", json!({"k": "one"})).await?;
    world
        .object("o", world.copy("source", "data.k", "target", "data.k"))
        .await?;
    world.data("target", json!({"k": "one"})).await?;
    let edit = json!({"data": {"k": "edited"}});
    world
        .cluster
        .patch("v1", "ConfigMap", &world.namespace, "target", edit)
        .await?;
    world.data("target", json!({"k": "one"})).await?;
    world
        .cluster
        .delete("v1", "ConfigMap", &world.namespace, "target")
        .await?;
    world.data("target", json!({"k": "one"})).await?;
    Ok(())
}

#[tokio::test]
async fn a_targets_name_defaults_to_the_objects() -> Result<()> {
    let world = World::new("name").await?;
    let manifest = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": world.namespace}, "data": {"k": "v"},
    });
    let spec = json!({"forProvider": {"manifest": manifest}, "providerConfigRef": {"name": "kubernetes-provider"}});
    let object = world.object("o", spec).await?;
    world.data(&object, json!({"k": "v"})).await?;
    Ok(())
}

#[tokio::test]
async fn the_status_shows_the_target_as_it_is() -> Result<()> {
    let world = World::new("status").await?;
    world.config_map("source", json!({"k": "one"})).await?;
    let name = world
        .object("o", world.copy("source", "data.k", "target", "data.k"))
        .await?;
    world.ready(&name).await?;
    world.config_map("source", json!({"k": "two"})).await?;
    patchbay_harness::wait_for("the status to follow", crate::world::SOON, async || {
        let object = world.cluster.get(OBJECT, "Object", "", &name).await?;
        let shown = object.and_then(|object| object.data.pointer("/status/atProvider/manifest/data/k").cloned());
        Ok((shown == Some(json!("two"))).then_some(()))
    })
    .await?;
    let object = world
        .cluster
        .get(OBJECT, "Object", "", &name)
        .await?
        .expect("the Object");
    let manifest = &object.data["spec"]["forProvider"]["manifest"];
    assert_eq!(*manifest, world.manifest("target"), "no value is written into the spec");
    Ok(())
}

#[tokio::test]
async fn a_value_of_a_wrong_type_is_reported_and_heals() -> Result<()> {
    let world = World::new("type").await?;
    world.config_map("source", json!({"k": "one"})).await?;
    let object = world
        .object("o", world.copy("source", "data", "target", "data.nested"))
        .await?;
    world.condition(&object, "Synced", "False", &["target"]).await?;
    world
        .object("o", world.copy("source", "data.k", "target", "data.k"))
        .await?;
    world.data("target", json!({"k": "one"})).await?;
    world.ready(&object).await?;
    Ok(())
}

#[tokio::test]
async fn two_objects_own_different_fields_of_one_target() -> Result<()> {
    let world = World::new("shared").await?;
    world.config_map("source", json!({"a": "1", "b": "2"})).await?;
    world
        .object("a", world.copy("source", "data.a", "target", "data.a"))
        .await?;
    world
        .object("b", world.copy("source", "data.b", "target", "data.b"))
        .await?;
    world.data("target", json!({"a": "1", "b": "2"})).await?;
    world.config_map("source", json!({"a": "3", "b": "4"})).await?;
    world.data("target", json!({"a": "3", "b": "4"})).await?;
    Ok(())
}

#[tokio::test]
async fn no_secret_value_is_logged_or_told() -> Result<()> {
    let world = World::new("secret").await?;
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "source"}, "stringData": {"k": "hunter2-hunter2"},
    });
    world.cluster.apply_in(&world.namespace, &secret.to_string()).await?;
    let mut spec = world.copy("source", "data.k", "target", "spec.k");
    spec["references"][0]["patchesFrom"]["kind"] = "Secret".into();
    // The API server refuses the target, so the value is in what was sent and must not be in what is told of it.
    let object = world.object("o", spec.clone()).await?;
    world.condition(&object, "Synced", "False", &[]).await?;
    spec["references"][0]["patchesFrom"]["fieldPath"] = "data.k.deeper".into();
    world.object("o", spec).await?;
    let told = world.condition(&object, "Synced", "False", &["data.k"]).await?;
    let events = world.cluster.events("Object", &object).await?;
    let told = format!("{told}{events:?}{}", world.host.log());
    for value in ["hunter2-hunter2", "aHVudGVyMi1odW50ZXIy"] {
        assert!(!told.contains(value), "a value of the Secret is told");
    }
    Ok(())
}
