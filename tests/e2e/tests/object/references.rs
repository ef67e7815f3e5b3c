//! What an Object refers to, and follows.

use anyhow::Result;
use serde_json::json;

use crate::world::{OBJECT, SOON, World};

#[tokio::test]
async fn a_source_changes_and_the_target_follows() -> Result<()> {
    let world = World::new("follows").await?;
    world.config_map("source", json!({"k": "one"})).await?;
    let object = world
        .object("o", world.copy("source", "data.k", "target", "data.copied"))
        .await?;
    world.data("target", json!({"copied": "one"})).await?;
    world.ready(&object).await?;
    for value in ["two", "three"] {
        world.config_map("source", json!({"k": value})).await?;
        world.data("target", json!({"copied": value})).await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_whole_map_is_copied_and_a_removed_key_vanishes() -> Result<()> {
    let world = World::new("map").await?;
    world
        .config_map("source", json!({"a": "1", "b": "2", "c": "3"}))
        .await?;
    world
        .object("o", world.copy("source", "data", "target", "data"))
        .await?;
    world.data("target", json!({"a": "1", "b": "2", "c": "3"})).await?;
    world
        .config_map("source", json!({"a": "1", "c": "3", "d": "4"}))
        .await?;
    world.data("target", json!({"a": "1", "c": "3", "d": "4"})).await?;
    Ok(())
}

#[tokio::test]
async fn a_change_of_another_field_of_the_source_runs_nothing() -> Result<()> {
    let world = World::new("unrelated").await?;
    world.config_map("source", json!({"k": "one", "other": "1"})).await?;
    let object = world
        .object("o", world.copy("source", "data.k", "target", "data.k"))
        .await?;
    world.ready(&object).await?;
    let unrelated = json!({"data": {"other": "2"}});
    let edited = world
        .cluster
        .patch("v1", "ConfigMap", &world.namespace, "source", unrelated)
        .await?;
    let version = edited.metadata.resource_version.expect("a version");
    // A later change that does run shows that the earlier one has been seen and passed over.
    world.config_map("source", json!({"k": "two", "other": "2"})).await?;
    world.data("target", json!({"k": "two"})).await?;
    world.condition(&object, "Synced", "True", &[]).await?;
    let woken = format!("/source changed at version {version}");
    assert!(!world.host.log().contains(&woken), "the unrelated change woke it");
    Ok(())
}

#[tokio::test]
async fn a_missing_source_is_named_and_followed_as_soon_as_it_appears() -> Result<()> {
    let world = World::new("missing").await?;
    let object = world
        .object("o", world.copy("source", "data.k", "target", "data.k"))
        .await?;
    let source = format!("{}/source", world.namespace);
    world
        .condition(&object, "Synced", "False", &["references[0]", "ConfigMap", &source])
        .await?;
    assert!(
        world
            .cluster
            .get("v1", "ConfigMap", &world.namespace, "target")
            .await?
            .is_none(),
        "nothing half-made"
    );
    world.config_map("source", json!({"k": "one"})).await?;
    world.data("target", json!({"k": "one"})).await?;
    world.ready(&object).await?;
    Ok(())
}

#[tokio::test]
async fn a_reference_moves_from_one_source_to_another() -> Result<()> {
    let world = World::new("moves").await?;
    world.config_map("a", json!({"k": "of a"})).await?;
    world.config_map("b", json!({"k": "of b"})).await?;
    let object = world.object("o", world.copy("a", "data.k", "target", "data.k")).await?;
    world.data("target", json!({"k": "of a"})).await?;
    world.object("o", world.copy("b", "data.k", "target", "data.k")).await?;
    world.data("target", json!({"k": "of b"})).await?;
    world.ready(&object).await?;
    world.config_map("a", json!({"k": "changed"})).await?;
    world.config_map("b", json!({"k": "changed too"})).await?;
    world.data("target", json!({"k": "changed too"})).await?;
    Ok(())
}

#[tokio::test]
async fn depends_on_waits_until_the_object_exists() -> Result<()> {
    let world = World::new("depends").await?;
    let mut spec = world.copy("unused", "data.k", "target", "data.k");
    spec["references"] = json!([{"dependsOn": {
        "apiVersion": "v1", "kind": "ConfigMap", "namespace": world.namespace, "name": "first",
    }}]);
    let object = world.object("o", spec).await?;
    world.condition(&object, "Synced", "False", &["first"]).await?;
    world.config_map("first", json!({})).await?;
    world.ready(&object).await?;
    Ok(())
}

#[tokio::test]
async fn an_object_depends_on_an_object_by_name_alone() -> Result<()> {
    let world = World::new("chain").await?;
    let manifest = |name| {
        json!({
            "forProvider": {"manifest": world.manifest(name)}, "providerConfigRef": {"name": "kubernetes-provider"},
        })
    };
    let mut second = manifest("second");
    second["references"] = json!([{"dependsOn": {
        "apiVersion": OBJECT, "kind": "Object", "name": world.object_name("first"),
    }}]);
    let object = world.object("second", second).await?;
    world.condition(&object, "Synced", "False", &["first"]).await?;
    world.object("first", manifest("first")).await?;
    world.ready(&object).await?;
    Ok(())
}

#[tokio::test]
async fn a_source_whose_kind_is_not_served_yet_is_followed_when_it_is() -> Result<()> {
    let world = World::new("kind").await?;
    let group = format!("{}.example.org", world.namespace);
    let mut spec = world.copy("source", "spec.k", "target", "data.k");
    spec["references"][0]["patchesFrom"]["apiVersion"] = format!("{group}/v1").into();
    spec["references"][0]["patchesFrom"]["kind"] = "Source".into();
    let object = world.object("o", spec).await?;
    world
        .condition(
            &object,
            "Synced",
            "False",
            &["Source", &group, "CustomResourceDefinition"],
        )
        .await?;
    world
        .cluster
        .apply(&format!(
            "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {{name: sources.{group}}}
spec:
  group: {group}
  scope: Namespaced
  names: {{kind: Source, plural: sources}}
  versions:
    - name: v1
      served: true
      storage: true
      schema: {{openAPIV3Schema: {{type: object, x-kubernetes-preserve-unknown-fields: true}}}}
"
        ))
        .await?;
    let source = format!("{{apiVersion: {group}/v1, kind: Source, metadata: {{name: source}}, spec: {{k: one}}}}");
    patchbay_harness::wait_for("the new kind to be served", SOON, async || {
        world
            .cluster
            .apply_in(&world.namespace, &source)
            .await
            .map(|_| Some(()))
    })
    .await?;
    world.data("target", json!({"k": "one"})).await?;
    Ok(())
}

#[tokio::test]
async fn a_hundred_objects_follow_one_source() -> Result<()> {
    let world = World::new("fan-out").await?;
    world.config_map("source", json!({"k": "one"})).await?;
    for number in 0..100 {
        let target = format!("target-{number}");
        world
            .object(&number.to_string(), world.copy("source", "data.k", &target, "data.k"))
            .await?;
    }
    for value in ["one", "two"] {
        world.config_map("source", json!({"k": value})).await?;
        for number in 0..100 {
            world.data(&format!("target-{number}"), json!({"k": value})).await?;
        }
    }
    Ok(())
}
