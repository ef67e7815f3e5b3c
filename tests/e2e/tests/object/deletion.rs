//! Objects that go.

use anyhow::Result;
use serde_json::json;

use crate::world::{OBJECT, World};

#[tokio::test]
async fn a_deleted_object_takes_its_target_along() -> Result<()> {
    let world = World::new("deleted").await?;
    world.config_map("source", json!({"k": "one"})).await?;
    let object = world
        .object("o", world.copy("source", "data.k", "target", "data.k"))
        .await?;
    world.ready(&object).await?;
    let found = world
        .cluster
        .get(OBJECT, "Object", "", &object)
        .await?
        .expect("the Object");
    assert_eq!(
        found.metadata.finalizers,
        Some(vec!["finalizer.managedresource.crossplane.io".to_owned()])
    );
    world.cluster.delete(OBJECT, "Object", "", &object).await?;
    world.gone(OBJECT, "Object", &object).await?;
    assert!(
        world
            .cluster
            .get("v1", "ConfigMap", &world.namespace, "target")
            .await?
            .is_none()
    );
    Ok(())
}

#[tokio::test]
async fn an_object_is_deleted_though_its_source_has_gone() -> Result<()> {
    let world = World::new("sourceless").await?;
    world.config_map("source", json!({"k": "one"})).await?;
    let object = world
        .object("o", world.copy("source", "data.k", "target", "data.k"))
        .await?;
    world.ready(&object).await?;
    world
        .cluster
        .delete("v1", "ConfigMap", &world.namespace, "source")
        .await?;
    world.condition(&object, "Synced", "False", &["source"]).await?;
    world.cluster.delete(OBJECT, "Object", "", &object).await?;
    world.gone(OBJECT, "Object", &object).await?;
    world.gone("v1", "ConfigMap", "target").await?;
    Ok(())
}

#[tokio::test]
async fn an_orphaned_target_stays() -> Result<()> {
    let world = World::new("orphan").await?;
    world.config_map("source", json!({"k": "one"})).await?;
    let mut spec = world.copy("source", "data.k", "target", "data.k");
    spec["deletionPolicy"] = "Orphan".into();
    let object = world.object("o", spec).await?;
    world.ready(&object).await?;
    world.cluster.delete(OBJECT, "Object", "", &object).await?;
    world.gone(OBJECT, "Object", &object).await?;
    world.data("target", json!({"k": "one"})).await?;
    Ok(())
}

#[tokio::test]
async fn an_object_that_is_created_anew_applies_anew() -> Result<()> {
    let world = World::new("anew").await?;
    world.config_map("source", json!({"k": "one"})).await?;
    for _ in 0..3 {
        let object = world
            .object("o", world.copy("source", "data.k", "target", "data.k"))
            .await?;
        world.ready(&object).await?;
        world.cluster.delete(OBJECT, "Object", "", &object).await?;
        world.gone(OBJECT, "Object", &object).await?;
    }
    Ok(())
}
