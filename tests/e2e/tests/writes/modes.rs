//! When an apply may write, and what becomes of fields that it no longer wants.

use anyhow::Result;
use serde_json::{Value, json};

use crate::world::{World, config_map, list, managers, query, states, uid, version};

/// A Script that applies one ConfigMap.
fn applies(mode: &str, data: Value) -> Value {
    json!({"apply": [{"object": config_map("target", data), "mode": mode}]})
}

#[tokio::test]
async fn create_makes_an_object_and_fails_if_there_is_one() -> Result<()> {
    let world = World::new("create").await?;
    let mut spec = applies("create", json!({"k": "made"}));
    spec["queries"] = json!([query("target", "target")]);
    spec["status"] = true.into();
    world.script("first", spec.clone()).await?;
    world.data("target", json!({"k": "made"})).await?;
    assert_eq!(states(&world.done("first").await?), ["applied"]);
    let made = world.there("ConfigMap", "target").await?;

    spec["apply"][0]["object"]["data"]["k"] = "other".into();
    world.script("second", spec).await?;
    world.failed("second", &["target", "already exists"]).await?;
    let found = world.there("ConfigMap", "target").await?;
    assert_eq!(version(&found), version(&made), "the object was left alone");

    // Once there is room, the second one makes it, and its status tells what became of the try before.
    world.delete_script("first").await?;
    world.gone("Script", "first").await?;
    world
        .cluster
        .delete("v1", "ConfigMap", &world.namespace, "target")
        .await?;
    world.data("target", json!({"k": "other"})).await?;
    world.told("second", &["apply failed 409 AlreadyExists"]).await?;
    Ok(())
}

#[tokio::test]
async fn update_writes_the_object_with_its_uid_and_no_other() -> Result<()> {
    let world = World::new("update").await?;
    let mut spec = applies("update", json!({"k": "updated"}));
    spec["apply"][0]["uid"] = "0e7b2c1a-7d5c-4c50-9a67-3f2f6ad1c7aa".into();
    world.script("s", spec.clone()).await?;
    world.failed("s", &["target", "has gone"]).await?;
    assert!(world.get("ConfigMap", "target").await?.is_none(), "nothing was created");

    let made = world.config_map("target", json!({"other": "theirs"})).await?;
    // Another description, so that the failure is of this run.
    spec["apply"][0]["object"]["data"]["k"] = "again".into();
    world.script("s", spec.clone()).await?;
    world
        .explained("fail with the object there", "s", |primary| {
            let failed = |run: &&Value| run["result"] == "writeFailed";
            list(&primary["runs"]).iter().filter(failed).count() >= 3
        })
        .await?;
    let found = world.there("ConfigMap", "target").await?;
    assert_eq!(
        version(&found),
        version(&made),
        "another object's uid is not this one's"
    );

    spec["apply"][0]["uid"] = uid(&made).into();
    world.script("s", spec).await?;
    let updated = world.data("target", json!({"k": "again", "other": "theirs"})).await?;
    assert_eq!(uid(&updated), uid(&made));
    Ok(())
}

#[tokio::test]
async fn upsert_makes_an_object_and_joins_one_that_is_there() -> Result<()> {
    let world = World::new("upsert").await?;
    world.script("s", applies("upsert", json!({"k": "one"}))).await?;
    world.data("target", json!({"k": "one"})).await?;
    world.done("s").await?;
    world.force("other", "target", json!({"other": "theirs"})).await?;
    world
        .script("s", applies("upsert", json!({"k": "two", "l": "new"})))
        .await?;
    world
        .data("target", json!({"k": "two", "l": "new", "other": "theirs"}))
        .await?;
    world.script("s", applies("upsert", json!({"l": "new"}))).await?;
    world.data("target", json!({"l": "new", "other": "theirs"})).await?;
    Ok(())
}

#[tokio::test]
async fn a_field_of_a_created_object_that_is_no_longer_wanted_is_taken_off() -> Result<()> {
    let world = World::new("shrink").await?;
    world
        .script("s", applies("create", json!({"kept": "1", "dropped": "2"})))
        .await?;
    let created = world.data("target", json!({"kept": "1", "dropped": "2"})).await?;
    world.done("s").await?;
    let created = world
        .there("ConfigMap", &created.metadata.name.unwrap_or_default())
        .await?;
    let owners = managers(&created);
    assert!(
        matches!(&owners[..], [owner] if owner.starts_with("patchbay-script-") && owner.ends_with(" Apply")),
        "a creation is owned as an apply is: {owners:?}"
    );
    world.script("s", applies("upsert", json!({"kept": "1"}))).await?;
    let found = world.data("target", json!({"kept": "1"})).await?;
    assert_eq!(uid(&found), uid(&created));
    Ok(())
}

#[tokio::test]
async fn what_an_update_left_with_the_manager_is_taken_off_as_well() -> Result<()> {
    let world = World::new("updated").await?;
    world.script("s", applies("upsert", json!({"k": "1"}))).await?;
    world.data("target", json!({"k": "1"})).await?;
    world.done("s").await?;
    // An earlier version of the plugin, say, wrote by an update under the same name.
    let found = world.there("ConfigMap", "target").await?;
    let owners = managers(&found);
    let manager = owners[0].split(' ').next().unwrap_or_default();
    let api = world.cluster.api("v1", "ConfigMap", &world.namespace).await?;
    let params = kube::api::PatchParams {
        field_manager: Some(manager.to_owned()),
        ..Default::default()
    };
    let patch = kube::api::Patch::Merge(json!({"data": {"left": "2"}}));
    api.patch("target", &params, &patch).await?;
    world.script("s", applies("upsert", json!({"k": "3"}))).await?;
    let found = world.data("target", json!({"k": "3"})).await?;
    assert_eq!(managers(&found), [format!("{manager} Apply")]);
    Ok(())
}

#[tokio::test]
async fn a_conflict_is_told_with_manager_and_field_and_force_takes_over() -> Result<()> {
    let world = World::new("conflict").await?;
    world
        .force("rival-controller", "target", json!({"k": "theirs"}))
        .await?;
    let mut spec = applies("upsert", json!({"k": "mine"}));
    world.script("s", spec.clone()).await?;
    world.failed("s", &["conflict", "rival-controller", ".data.k"]).await?;
    let found = world.there("ConfigMap", "target").await?;
    assert_eq!(found.data["data"], json!({"k": "theirs"}));

    spec["apply"][0]["force"] = true.into();
    world.script("s", spec).await?;
    let found = world.data("target", json!({"k": "mine"})).await?;
    let owners = managers(&found);
    let rival = |owner: &String| owner.starts_with("rival-controller");
    assert!(!owners.iter().any(rival), "it owns nothing any longer: {owners:?}");
    Ok(())
}
