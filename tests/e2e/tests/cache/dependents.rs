//! Changes of which the plugin says whom they concern.

use anyhow::Result;
use serde_json::{Value, json};

use crate::world::{SCRIPT, SOON, World};

/// A ConfigMap that the plugin watches, with one of the annotations by which it names Scripts.
fn told(annotation: &str, value: &str, data: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "data": {"k": data},
        "metadata": {
            "name": "told",
            "labels": {"script.patchbay.dev/watched": ""},
            "annotations": {format!("script.patchbay.dev/{annotation}"): value},
        },
    })
}

/// Applies a ConfigMap, and gives which of three Scripts ran for it, and how often.
async fn woken(world: &World, object: Value) -> Result<[usize; 3]> {
    let names = ["a", "b", "c"];
    let before = names.map(|name| world.runs(name));
    let version = world.apply(object).await?;
    world.proxy.wait_until_told("configmaps", &version, SOON).await?;
    world.rest().await?;
    let mut after = names.map(|name| world.runs(name));
    for (after, before) in after.iter_mut().zip(before) {
        *after -= before;
    }
    Ok(after)
}

#[tokio::test]
async fn a_change_wakes_those_whom_the_plugin_names_before_and_after() -> Result<()> {
    let world = World::new("named").await?;
    for name in ["a", "b", "c"] {
        world.script(name, json!({})).await?;
    }
    world.rest().await?;
    let named = |name: &str| format!("{}/{name}", world.namespace);
    assert_eq!(woken(&world, told("primary", &named("a"), "1")).await?, [1, 0, 0]);
    assert_eq!(woken(&world, told("primary", &named("a"), "2")).await?, [1, 0, 0]);
    assert_eq!(woken(&world, told("primary", &named("b"), "2")).await?, [1, 1, 0]);
    let mut unwatched = told("primary", &named("b"), "2");
    unwatched["metadata"]["labels"] = json!({});
    assert_eq!(
        woken(&world, unwatched).await?,
        [0, 1, 0],
        "it leaves the declared selector"
    );
    let mut unwatched = told("primary", &named("b"), "3");
    unwatched["metadata"]["labels"] = json!({});
    assert_eq!(woken(&world, unwatched).await?, [0, 0, 0]);
    Ok(())
}

#[tokio::test]
async fn a_change_wakes_the_primaries_whose_labels_the_plugin_selects() -> Result<()> {
    let world = World::new("labels").await?;
    let script = async |name: &str, team: &str| {
        let metadata = json!({"name": name, "labels": {"team": team}});
        world
            .apply(json!({"apiVersion": SCRIPT, "kind": "Script", "metadata": metadata, "spec": {}}))
            .await
    };
    for (name, team) in [("a", "red"), ("b", "red"), ("c", "blue")] {
        script(name, team).await?;
    }
    world.rest().await?;
    assert_eq!(woken(&world, told("primaries", "team=red", "1")).await?, [1, 1, 0]);
    script("b", "blue").await?;
    world.rest().await?;
    assert_eq!(woken(&world, told("primaries", "team=red", "2")).await?, [1, 0, 0]);
    assert_eq!(woken(&world, told("primaries", "team=blue", "2")).await?, [1, 1, 1]);
    Ok(())
}

#[tokio::test]
async fn a_change_wakes_the_primaries_that_publish_the_join_key() -> Result<()> {
    let world = World::new("join").await?;
    for (name, keys) in [("a", json!(["x"])), ("b", json!(["x", "y"])), ("c", json!(["z"]))] {
        world.script(name, json!({"joinKeys": keys})).await?;
    }
    world.rest().await?;
    assert_eq!(woken(&world, told("join", "x", "1")).await?, [1, 1, 0]);
    world.script("a", json!({"joinKeys": ["z"]})).await?;
    world.rest().await?;
    assert_eq!(woken(&world, told("join", "x", "2")).await?, [0, 1, 0]);
    assert_eq!(
        woken(&world, told("join", "z", "2")).await?,
        [1, 1, 1],
        "x before, z after"
    );
    world.cluster.delete(SCRIPT, "Script", &world.namespace, "c").await?;
    world.rest().await?;
    assert_eq!(woken(&world, told("join", "z", "3")).await?, [1, 0, 0]);
    Ok(())
}

#[tokio::test]
async fn a_change_that_the_plugin_could_not_place_is_asked_again_and_not_lost() -> Result<()> {
    let world = World::new("unplaced").await?;
    for name in ["a", "b", "c"] {
        world.script(name, json!({})).await?;
    }
    world.rest().await?;
    let named = |name: &str| format!("{}/{name}", world.namespace);
    assert_eq!(woken(&world, told("primary", &named("a"), "1")).await?, [1, 0, 0]);
    let runs = ["a", "b"].map(|name| world.runs(name));
    world.apply(told("primary", "nonsense", "1")).await?;
    world.host.wait_for_log("has no '/'", SOON).await?;
    world.apply(told("primary", &named("b"), "1")).await?;
    // What was before the nonsense is still told.
    world.runs_again("a", runs[0]).await?;
    world.runs_again("b", runs[1]).await?;
    Ok(())
}
