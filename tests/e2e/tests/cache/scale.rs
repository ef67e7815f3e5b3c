//! Many of something.

use std::collections::BTreeMap;

use anyhow::{Result, bail};
use futures::{StreamExt, TryStreamExt, stream};
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::core::DynamicObject;
use patchbay_harness::{Fault, Filter, Refusal, wait_for};
use serde_json::{Value, json};

use crate::world::{SCRIPT, SOON, World, applying, copy_of, named, secret, watches};

/// Requests of a test under way at once.
const AT_ONCE: usize = 16;
const THOUSAND: usize = 1000;

async fn create(api: &Api<DynamicObject>, objects: impl Iterator<Item = Value>) -> Result<()> {
    let created = stream::iter(objects).map(async |object| {
        let object: DynamicObject = serde_json::from_value(object)?;
        api.create(&PostParams::default(), &object).await?;
        anyhow::Ok(())
    });
    created.buffer_unordered(AT_ONCE).try_collect().await
}

#[tokio::test]
async fn a_change_wakes_each_of_a_thousand_primaries_that_refer_to_it_once() -> Result<()> {
    let world = World::new("thousand").await?;
    world.secret("source", "one").await?;
    let scripts = world.cluster.api(SCRIPT, "Script", &world.namespace).await?;
    let script = |number| {
        json!({
            "apiVersion": SCRIPT, "kind": "Script", "metadata": {"name": format!("s-{number}")},
            "spec": {"queries": [named("source")]},
        })
    };
    create(&scripts, (0..THOUSAND).map(script)).await?;
    let all_run = async |more: usize, before: &BTreeMap<String, usize>| {
        wait_for("all to have run", SOON, async || {
            let runs = world.host.runs("Script");
            let run = runs
                .iter()
                .filter(|(name, runs)| **runs >= before.get(*name).unwrap_or(&0) + more);
            let run = run.count();
            if run < THOUSAND {
                bail!("{run} have run")
            }
            Ok(Some(()))
        })
        .await
    };
    all_run(1, &BTreeMap::new()).await?;
    world.rest().await?;
    let before = world.host.runs("Script");
    world.secret("source", "two").await?;
    all_run(1, &before).await?;
    world.rest().await?;
    for (name, runs) in world.host.runs("Script") {
        assert_eq!(runs, before[&name] + 1, "{name}");
    }
    Ok(())
}

#[tokio::test]
async fn a_primary_with_a_thousand_references_that_all_change_at_once_runs_a_few_times() -> Result<()> {
    let world = World::new("references").await?;
    let secrets = world.cluster.api("v1", "Secret", &world.namespace).await?;
    let name = |number: usize| format!("source-{number}");
    create(
        &secrets,
        (0..THOUSAND).map(|number| secret(&name(number), "one", json!({}))),
    )
    .await?;
    let queries: Vec<_> = (0..THOUSAND).map(|number| named(&name(number))).collect();
    let parts: Vec<_> = (0..THOUSAND)
        .map(|number| format!("${{{}:data.k}}", name(number)))
        .collect();
    world
        .script("s", applying(json!(queries), "target", json!({"all": parts.concat()})))
        .await?;
    let all = |value: &str| {
        let value = copy_of(value)["k"].as_str().unwrap_or_default().repeat(THOUSAND);
        json!({ "all": value })
    };
    world.target(all("one")).await?;
    world.rest().await?;
    let open = world.proxy.open_watches();
    let open: Vec<_> = open.iter().filter(|open| watches().matches(open)).collect();
    assert!(
        matches!(open[..], [one] if one.namespace == world.namespace && one.name.is_empty()),
        "one watch of the namespace serves all: {open:?}"
    );
    let runs = world.runs("s");
    let stall = world.proxy.fault(watches(), Fault::Stall);
    let patch = json!({"data": secret("any", "two", json!({}))["data"]});
    let changed = stream::iter(0..THOUSAND).map(async |number| {
        secrets
            .patch(&name(number), &PatchParams::default(), &Patch::Merge(&patch))
            .await
            .map(drop)
    });
    changed.buffer_unordered(AT_ONCE).try_collect::<()>().await?;
    stall.lift();
    world.target(all("two")).await?;
    world.rest().await?;
    let ran = world.runs("s") - runs;
    assert!((1..=30).contains(&ran), "it ran {ran} times");
    Ok(())
}

#[tokio::test]
async fn a_selection_of_several_pages_is_found_whole_though_the_list_expires_between_them() -> Result<()> {
    let count = 1_100;
    let world = World::new("pages").await?;
    let secrets = world.cluster.api("v1", "Secret", &world.namespace).await?;
    let selected = |number| secret(&format!("source-{number}"), "v", json!({"app": "a"}));
    create(&secrets, (0..count).map(selected)).await?;
    let pages = || Filter::reads().of("secrets").continued();
    let expired = world.proxy.fault_times(1, pages(), Fault::Answer(Refusal::expired()));
    let query = json!({
        "id": "some", "apiVersion": "v1", "kind": "Secret", "selected": {"matchLabels": {"app": "a"}}, "fields": "metadata",
    });
    world
        .script(
            "s",
            applying(json!([query]), "target", json!({"count": "${count:some}"})),
        )
        .await?;
    world.target(json!({"count": count.to_string()})).await?;
    assert_eq!(expired.hits(), 1);
    assert!(world.proxy.count(&pages()) >= 3, "it is read by pages");
    Ok(())
}
