//! An API server that goes away and comes back: with its data, with older ones, with none.

use anyhow::Result;
use patchbay_harness::{DurableServer, wait_for};
use serde_json::json;

use crate::world::{SOON, World, applying, copy, copy_of_nothing, named};

/// Objects that are written so that versions count on.
const OTHERS: usize = 200;

#[tokio::test]
async fn an_api_server_is_followed_that_comes_back_with_its_data_with_older_ones_or_with_none() -> Result<()> {
    let mut server = DurableServer::start().await?;
    let cluster = server.cluster().await?;
    cluster.apply_script_crd().await?;
    let world = World::of(cluster, "default".to_owned()).await?;
    world.secret("source", "one").await?;
    world.secret("going", "one").await?;
    world.script("s", copy()).await?;
    let states = json!({"going": "${state:going}"});
    world
        .script("other", applying(json!([named("going")]), "states", states))
        .await?;
    world.copied("one").await?;
    world.config_map("states", json!({"going": "found"})).await?;

    server.stop().await?;
    let saved = server.save()?;
    server.start_again().await?;
    world.secret("source", "two").await?;
    world.copied("two").await?;
    world.delete_secret("going").await?;
    world.config_map("states", json!({"going": "missing"})).await?;
    for number in 0..OTHERS {
        world.secret("unrelated", &number.to_string()).await?;
    }
    world.secret("source", "three").await?;
    world.copied("three").await?;
    world.rest().await?;

    server.stop().await?;
    server.restore(&saved)?;
    let runs = ["s", "other"].map(|name| world.runs(name));
    server.start_again().await?;
    // Nothing tells of it: all is as it was, the targets too.
    world.runs_again("s", runs[0]).await?;
    world.runs_again("other", runs[1]).await?;
    world.copied("one").await?;
    // The version of this is one that the host has seen already.
    world.secret("source", "four").await?;
    world.copied("four").await?;
    world.delete_secret("going").await?;
    world.config_map("states", json!({"going": "missing"})).await?;

    server.stop().await?;
    server.forget()?;
    server.start_again().await?;
    world.cluster.apply_script_crd().await?;
    world.script("s", copy()).await?;
    world.target(copy_of_nothing()).await?;
    world.secret("source", "new").await?;
    world.copied("new").await?;
    // Nothing is left of what the other server had.
    let gone = async || world.host.explain(&["script", "other", "-n", "default"]).await;
    wait_for("the Script that is no longer there to be forgotten", SOON, async || {
        Ok((!gone().await?.status.success()).then_some(()))
    })
    .await?;
    Ok(())
}
