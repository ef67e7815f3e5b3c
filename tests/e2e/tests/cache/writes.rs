//! Writes that are refused or whose answers are lost, and whom a write wakes.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Result;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use patchbay_harness::{Fault, Filter, Refusal, wait_for};
use serde_json::json;

use crate::world::{SOON, World, applying, copy, named};

fn writes() -> Filter {
    Filter::writes().of("configmaps").named("target")
}

/// Writes meet a fault so many times, when the target is new and when it is there. Nobody sees anything but the values that
/// the source had, each once.
async fn converges(purpose: &str, times: usize, fault: Fault) -> Result<World> {
    let world = World::new(purpose).await?;
    let history = world.history().await?;
    for value in ["one", "two"] {
        let faults = world.proxy.fault_times(times, writes(), fault.clone());
        world.secret("source", value).await?;
        world.script("s", copy()).await?;
        faults.wait_for_hits(times, SOON).await?;
        world.copied(value).await?;
        world.rest().await?;
    }
    let states: Vec<_> = history
        .states()
        .into_iter()
        .flatten()
        .map(|state| state.data["data"]["k"].clone())
        .collect();
    assert_eq!(
        states,
        [STANDARD.encode("one"), STANDARD.encode("two")],
        "each value is written once"
    );
    Ok(world)
}

#[tokio::test]
async fn a_write_that_meets_a_conflict_converges() -> Result<()> {
    converges("conflict", 2, Fault::Answer(Refusal::conflict()))
        .await
        .map(drop)
}

#[tokio::test]
async fn a_write_that_fails_inside_the_api_server_converges() -> Result<()> {
    converges("error", 2, Fault::Answer(Refusal::internal_error()))
        .await
        .map(drop)
}

#[tokio::test]
async fn a_write_that_was_made_though_its_answer_says_otherwise_is_not_made_to_another_effect() -> Result<()> {
    // Its event tells that it was made, so it is not tried a second time.
    converges("lost", 1, Fault::Lose(Refusal::internal_error()))
        .await
        .map(drop)
}

#[tokio::test]
async fn a_write_that_is_put_off_waits_as_long_as_it_is_told() -> Result<()> {
    let after = Duration::from_secs(1);
    let world = converges("busy", 2, Fault::Answer(Refusal::too_many_requests(after))).await?;
    let attempts = world.proxy.requests(&writes());
    for pair in attempts.windows(2).filter(|pair| pair[0].status == Some(429)) {
        assert!(pair[1].at - pair[0].at >= after, "{pair:?}");
    }
    Ok(())
}

/// Waits until a second has begun. The API server tells the time of an apply to the second; of two within one, a writer cannot
/// be sure that the later one made a change, and is woken by it.
async fn next_second() -> Result<()> {
    let seconds = || {
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map(|since| since.as_secs())
    };
    let before = seconds()?;
    wait_for("another second", SOON, async || Ok((seconds()? > before).then_some(()))).await
}

#[tokio::test]
async fn a_source_that_another_primary_writes_wakes_everyone_but_its_writer() -> Result<()> {
    let world = World::new("chain").await?;
    let between = |id: &str| json!({"id": id, "apiVersion": "v1", "kind": "ConfigMap", "named": {"name": "between"}});
    let writer = json!([named("source"), between("own")]);
    world.secret("source", "one").await?;
    let mut writer = applying(writer, "between", json!({"k": "${source:data.k}"}));
    writer["apply"][0]["force"] = true.into();
    world.script("writer", writer).await?;
    for reader in ["a", "b"] {
        let spec = applying(json!([between("between")]), reader, json!({"k": "${between:data.k}"}));
        world.script(reader, spec).await?;
    }
    let data = |value: &str| json!({"k": STANDARD.encode(value)});
    for reader in ["a", "b"] {
        world.config_map(reader, data("one")).await?;
    }
    world.rest().await?;
    let names = ["writer", "a", "b"];
    for value in ["two", "three"] {
        next_second().await?;
        let before = names.map(|name| world.runs(name));
        world.secret("source", value).await?;
        for reader in ["a", "b"] {
            world.config_map(reader, data(value)).await?;
        }
        world.rest().await?;
        let after = names.map(|name| world.runs(name));
        assert_eq!(after, before.map(|runs| runs + 1), "one run each, of {names:?}");
    }
    // What somebody else writes there wakes the writer too, and is set right.
    let edit = json!({"data": {"k": "edited"}});
    world
        .cluster
        .patch("v1", "ConfigMap", &world.namespace, "between", edit)
        .await?;
    world.config_map("between", data("three")).await?;
    for reader in ["a", "b"] {
        world.config_map(reader, data("three")).await?;
    }
    Ok(())
}
