//! What is read late, against what is told meanwhile.

use anyhow::Result;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use patchbay_harness::{Fault, Filter};
use serde_json::{Value, json};

use crate::world::{SOON, World, applying, copy, copy_of_nothing};

/// The Secrets that have the label, by name.
fn selecting() -> Value {
    let query = json!({
        "id": "some", "apiVersion": "v1", "kind": "Secret", "selected": {"matchLabels": {"app": "a"}}, "fields": "metadata",
    });
    applying(json!([query]), "target", json!({"names": "${names:some}"}))
}

#[tokio::test]
async fn a_late_read_does_not_undo_an_event() -> Result<()> {
    let world = World::new("late").await?;
    world.secret("source", "one").await?;
    let history = world.history().await?;
    let hold = world
        .proxy
        .fault(Filter::reads().of("secrets").named("source"), Fault::Hold);
    world.script("s", copy()).await?;
    hold.wait_until_held(1, SOON).await?;
    let version = world.secret("source", "two").await?;
    world.knows("source", &version).await?;
    hold.lift();
    world.copied("two").await?;
    world.rest().await?;
    assert_eq!(history.values("/data/k"), [STANDARD.encode("two")]);
    Ok(())
}

#[tokio::test]
async fn a_late_read_does_not_revive_what_was_deleted() -> Result<()> {
    let world = World::new("revived").await?;
    world.secret("source", "one").await?;
    let hold = world
        .proxy
        .fault(Filter::reads().of("secrets").named("source"), Fault::Hold);
    world.script("s", copy()).await?;
    hold.wait_until_held(1, SOON).await?;
    world.delete_secret("source").await?;
    let told = || world.proxy.told(&Filter::watches().of("secrets"));
    patchbay_harness::wait_for("the deletion to be told", SOON, async || {
        Ok(told().iter().any(|told| told.kind == "DELETED").then_some(()))
    })
    .await?;
    hold.lift();
    world.target(copy_of_nothing()).await?;
    world.rest().await?;
    world.target(copy_of_nothing()).await?;
    Ok(())
}

#[tokio::test]
async fn an_object_that_leaves_a_selector_while_it_is_read_is_not_found() -> Result<()> {
    let world = World::new("leaves").await?;
    world.labelled_secret("stays", "v", json!({"app": "a"})).await?;
    world.labelled_secret("leaves", "v", json!({"app": "a"})).await?;
    let hold = world.proxy.fault(Filter::reads().of("secrets"), Fault::Hold);
    world.script("s", selecting()).await?;
    hold.wait_until_held(1, SOON).await?;
    let version = world.labelled_secret("leaves", "v", json!({"app": "b"})).await?;
    world.proxy.wait_until_told("secrets", &version, SOON).await?;
    hold.lift();
    world.target(json!({"names": "stays"})).await?;
    world.rest().await?;
    world.target(json!({"names": "stays"})).await?;
    Ok(())
}

#[tokio::test]
async fn an_object_that_enters_a_selector_while_it_is_read_is_found() -> Result<()> {
    let world = World::new("enters").await?;
    world.labelled_secret("enters", "v", json!({"app": "b"})).await?;
    let hold = world.proxy.fault(Filter::reads().of("secrets"), Fault::Hold);
    world.script("s", selecting()).await?;
    hold.wait_until_held(1, SOON).await?;
    let version = world.labelled_secret("enters", "v", json!({"app": "a"})).await?;
    world.proxy.wait_until_told("secrets", &version, SOON).await?;
    hold.lift();
    world.target(json!({"names": "enters"})).await?;
    Ok(())
}

#[tokio::test]
async fn a_reference_that_is_added_while_its_object_changes_sees_the_last_value() -> Result<()> {
    let world = World::new("added").await?;
    let without = applying(json!([]), "target", json!({"k": "", "state": "unasked"}));
    for round in 0..8 {
        world.secret("source", "first").await?;
        world.script("s", without.clone()).await?;
        world.target(json!({"k": "", "state": "unasked"})).await?;
        let last = format!("last of round {round}");
        let change = async {
            for number in 0..12 {
                world.secret("source", &format!("{round}-{number}")).await?;
            }
            world.secret("source", &last).await
        };
        let (changed, added) = tokio::join!(change, world.script("s", copy()));
        changed?;
        added?;
        world.copied(&last).await?;
        // The next round finds no watch of it standing.
        world.delete_secret("source").await?;
        world.target(copy_of_nothing()).await?;
    }
    Ok(())
}
