//! Those who undo each other's writes: slowed down more and more, named, and not for ever.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Result, bail};
use patchbay_harness::{Filter, wait_for};
use serde_json::{Value, json};

use crate::world::{SOON, World, config_map, nothing, query};

/// A Script's spec that forces a value into `target`, and follows it.
fn forces(value: &str) -> Value {
    json!({
        "queries": [query("target", "target")],
        "apply": [{"object": config_map("target", json!({"k": value})), "force": true}],
    })
}

/// A Script's spec that follows one ConfigMap and writes another, with one more letter.
fn follows(source: &str, target: &str) -> Value {
    let grown = format!("${{{source}:data.k}}x");
    json!({
        "queries": [query(source, source)],
        "apply": [{"object": config_map(target, json!({"k": grown})), "force": true}],
    })
}

/// Waits until the host has waited so long between two writes of ConfigMaps.
async fn slowed(world: &World, pause: Duration) -> Result<()> {
    wait_for(&format!("a pause of {pause:?}"), SOON, async || {
        let writes = world.proxy.requests(&Filter::writes().of("configmaps"));
        let pauses = writes.windows(2).map(|two| two[1].at.duration_since(two[0].at));
        let longest = pauses.max().unwrap_or_default();
        if longest >= pause {
            return Ok(Some(()));
        }
        bail!("{} writes, and at most {longest:?} between them", writes.len())
    })
    .await
}

#[tokio::test]
async fn two_scripts_that_force_a_field_are_slowed_and_named_until_one_of_them_is_mended() -> Result<()> {
    let world = World::new("fight").await?;
    world.script("left", forces("left")).await?;
    world.script("right", forces("right")).await?;
    for script in ["left", "right"] {
        let event = world
            .event(
                script,
                "Contended",
                &["data.k", "target", "/left", "/right", "set back each other's"],
            )
            .await?;
        assert!(event.contains("slowed"), "{event}");
    }
    slowed(&world, Duration::from_secs(1)).await?;
    let writes = world.proxy.count(&Filter::writes().of("configmaps"));
    assert!(writes < 40, "{writes} writes");
    let log = world.host().log();
    assert!(!log.contains("wakes itself"), "both are to blame");

    world.script("right", nothing()).await?;
    world.data("target", json!({"k": "left"})).await?;
    world.done("left").await?;
    world.rest().await?;
    world.data("target", json!({"k": "left"})).await?;
    // A change by people is not slowed by what was.
    world.script("left", forces("changed")).await?;
    world.data("target", json!({"k": "changed"})).await?;
    Ok(())
}

/// A controller of somebody else's that sets the target back as soon as it is another.
struct Rival {
    ends: Arc<AtomicBool>,
    task: tokio::task::JoinHandle<Result<()>>,
}

impl Rival {
    async fn start(world: &World, value: &'static str) -> Result<Self> {
        let api = world.cluster.api("v1", "ConfigMap", &world.namespace).await?;
        let ends = Arc::new(AtomicBool::new(false));
        let end = ends.clone();
        let task = tokio::spawn(async move {
            let params = kube::api::PatchParams::apply("rival-controller").force();
            let wanted = json!({"k": value});
            while !end.load(Ordering::Relaxed) {
                let found = api.get_opt("target").await?;
                if found.is_none_or(|found: kube::api::DynamicObject| found.data["data"] != wanted) {
                    let patch = kube::api::Patch::Apply(config_map("target", wanted.clone()));
                    api.patch("target", &params, &patch).await?;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            Ok(())
        });
        Ok(Rival { ends, task })
    }

    async fn stop(self) -> Result<()> {
        self.ends.store(true, Ordering::Relaxed);
        self.task.await?
    }
}

#[tokio::test]
async fn a_script_whose_field_somebody_else_sets_back_is_slowed_and_names_them() -> Result<()> {
    let world = World::new("rival").await?;
    let rival = Rival::start(&world, "theirs").await?;
    world.script("s", forces("mine")).await?;
    let event = world
        .event("s", "Contended", &["data.k", "target", "rival-controller"])
        .await?;
    assert!(event.contains("slowed"), "{event}");
    slowed(&world, Duration::from_secs(1)).await?;
    let writes = world.proxy.count(&Filter::writes().of("configmaps"));
    assert!(writes < 20, "{writes} writes");
    // Whoever stops loses: nothing of what is wanted is dropped.
    rival.stop().await?;
    world.data("target", json!({"k": "mine"})).await?;
    world.done("s").await?;
    Ok(())
}

#[tokio::test]
async fn two_scripts_that_follow_each_others_output_are_slowed_and_named_until_one_does_not() -> Result<()> {
    let world = World::new("circle").await?;
    world.config_map("a", json!({"k": ""})).await?;
    world.script("one", follows("a", "b")).await?;
    world.script("other", follows("b", "a")).await?;
    for script in ["one", "other"] {
        let event = world
            .event(script, "Contended", &["Script", "/one", "/other", "data.k", "circle"])
            .await?;
        assert!(event.contains("slowed"), "{event}");
    }
    slowed(&world, Duration::from_secs(1)).await?;
    let writes = world.proxy.count(&Filter::writes().of("configmaps"));
    // Two ways go round at the same time, and each primary writes once a turn, for eight turns until the delay is a second.
    assert!(writes < 80, "{writes} writes");

    let fixed = json!({"apply": [{"object": config_map("a", json!({"k": "fixed"})), "force": true}]});
    world.script("other", fixed).await?;
    world.data("b", json!({"k": "fixedx"})).await?;
    for script in ["one", "other"] {
        world.done(script).await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_slowed_script_delays_nobody_else() -> Result<()> {
    let world = World::new("others").await?;
    world.script("left", forces("left")).await?;
    world.script("right", forces("right")).await?;
    slowed(&world, Duration::from_secs(1)).await?;
    world.config_map("source", json!({"k": "1"})).await?;
    world.script("calm", follows("source", "copy")).await?;
    for value in ["1", "2", "3"] {
        world.config_map("source", json!({"k": value})).await?;
        world.data("copy", json!({"k": format!("{value}x")})).await?;
    }
    Ok(())
}
