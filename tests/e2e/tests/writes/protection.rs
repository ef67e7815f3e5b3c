//! Objects that must not be deleted while a Script needs them.
//!
//! All hosts of one installation put the same finalizer on what their Scripts protect, and release what none of them does. Here
//! each host sees the Scripts of its own test only, so each test protects a kind of its own.

use anyhow::Result;
use kube::api::DynamicObject;
use serde_json::{Value, json};

use crate::world::{SOON, World, api_version, list, nothing, uid};

/// A Script's spec that protects an object, in a world in which all objects of the kind are the test's.
fn protects(kind: &str, names: &[&str]) -> Value {
    let queries = names.iter().map(|name| {
        json!({
            "id": name, "apiVersion": api_version(kind), "kind": kind, "named": {"name": name}, "fields": "metadata",
        })
    });
    let objects = names
        .iter()
        .map(|name| json!({"apiVersion": api_version(kind), "kind": kind, "name": name}));
    json!({"queries": queries.collect::<Vec<_>>(), "protect": objects.collect::<Vec<_>>()})
}

async fn make(world: &World, kind: &str, name: &str) -> Result<DynamicObject> {
    world
        .apply(json!({"apiVersion": api_version(kind), "kind": kind, "metadata": {"name": name}}))
        .await
}

fn finalizers(object: &DynamicObject) -> &[String] {
    object.metadata.finalizers.as_deref().unwrap_or_default()
}

fn is_protected(object: &DynamicObject) -> bool {
    match finalizers(object) {
        [finalizer] => {
            let digits = finalizer
                .strip_prefix("protect.patchbay.dev/script-")
                .unwrap_or_default();
            digits.len() == 8 && digits.bytes().all(|digit| digit.is_ascii_hexdigit())
        }
        _ => false,
    }
}

async fn protected(world: &World, kind: &str, name: &str) -> Result<DynamicObject> {
    world.until("be protected", kind, name, is_protected).await
}

async fn released(world: &World, kind: &str, name: &str) -> Result<DynamicObject> {
    let bare = |object: &DynamicObject| finalizers(object).is_empty();
    world.until("be released", kind, name, bare).await
}

#[tokio::test]
async fn one_finalizer_protects_an_object_for_all_scripts_and_goes_with_the_last() -> Result<()> {
    let kind = "Secret";
    let mut world = World::new("one").await?;
    let made = make(&world, kind, "o").await?;
    for script in ["a", "b", "c"] {
        world.script(script, protects(kind, &["o"])).await?;
    }
    for script in ["a", "b", "c"] {
        world.done(script).await?;
    }
    let found = protected(&world, kind, "o").await?;
    assert_eq!(uid(&found), uid(&made));
    let entries = found.metadata.managed_fields.iter().flatten();
    let owners = entries.filter(|entry| {
        entry
            .manager
            .as_deref()
            .is_some_and(|name| name.ends_with("-protection"))
    });
    assert_eq!(owners.count(), 1, "one manager for all");

    world.delete_script("a").await?;
    world.gone("Script", "a").await?;
    assert!(is_protected(&world.there(kind, "o").await?), "two need it still");
    world.restart().await?;
    world.delete_script("b").await?;
    world.gone("Script", "b").await?;
    assert!(is_protected(&world.there(kind, "o").await?), "one needs it still");
    // Its own release comes before it goes.
    world.delete_script("c").await?;
    world.gone("Script", "c").await?;
    let found = world.there(kind, "o").await?;
    assert!(finalizers(&found).is_empty());
    assert_eq!(uid(&found), uid(&made));
    Ok(())
}

#[tokio::test]
async fn deletion_waits_for_the_last_user_also_across_a_restart() -> Result<()> {
    let kind = "ConfigMap";
    let mut world = World::new("waits").await?;
    make(&world, kind, "o").await?;
    for script in ["a", "b", "c"] {
        world.script(script, protects(kind, &["o"])).await?;
        world.done(script).await?;
    }
    protected(&world, kind, "o").await?;
    world.cluster.delete("v1", kind, &world.namespace, "o").await?;
    // All of them have seen that it is about to go, and hold it nevertheless.
    let found = world.there(kind, "o").await?;
    let wake = format!(
        "o changed at version {}",
        found.metadata.resource_version.unwrap_or_default()
    );
    for script in ["a", "b", "c"] {
        world
            .explained("run by the deletion", script, |primary| {
                let woken = |run: &Value| list(&run["wakes"]).iter().any(|told| told.to_string().contains(&wake));
                primary["state"] == "idle" && list(&primary["runs"]).iter().any(woken)
            })
            .await?;
    }
    world.rest().await?;
    assert!(is_protected(&world.there(kind, "o").await?), "three need it");
    world.delete_script("a").await?;
    world.gone("Script", "a").await?;
    assert!(is_protected(&world.there(kind, "o").await?), "two need it");
    world.restart().await?;
    world.delete_script("b").await?;
    world.gone("Script", "b").await?;
    world.done("c").await?;
    world.rest().await?;
    assert!(is_protected(&world.there(kind, "o").await?), "one needs it");
    world.delete_script("c").await?;
    world.gone("Script", "c").await?;
    world.gone(kind, "o").await
}

#[tokio::test]
async fn an_object_that_no_script_names_any_longer_is_released() -> Result<()> {
    let kind = "ServiceAccount";
    let world = World::new("unnamed").await?;
    for name in ["x", "y"] {
        make(&world, kind, name).await?;
    }
    world.script("a", protects(kind, &["x", "y"])).await?;
    world.script("b", protects(kind, &["x"])).await?;
    for name in ["x", "y"] {
        protected(&world, kind, name).await?;
    }
    world.done("b").await?;
    world.script("a", nothing()).await?;
    released(&world, kind, "y").await?;
    assert!(is_protected(&world.there(kind, "x").await?), "the other one names it");
    // Naming it in a query alone protects nothing.
    let mut query = protects(kind, &["x"]);
    query["protect"] = json!([]);
    world.script("b", query).await?;
    released(&world, kind, "x").await?;
    world.script("b", protects(kind, &["x"])).await?;
    protected(&world, kind, "x").await?;
    Ok(())
}

#[tokio::test]
async fn an_object_that_nobody_named_any_longer_while_no_host_ran_is_released() -> Result<()> {
    let kind = "Endpoints";
    let mut world = World::new("unnamed-while-down").await?;
    for name in ["x", "y"] {
        make(&world, kind, name).await?;
    }
    world.script("a", protects(kind, &["x", "y"])).await?;
    for name in ["x", "y"] {
        protected(&world, kind, name).await?;
    }
    world.stop();
    world.script("a", protects(kind, &["x"])).await?;
    world.start().await?;
    released(&world, kind, "y").await?;
    world.done("a").await?;
    assert!(is_protected(&world.there(kind, "x").await?));
    Ok(())
}

#[tokio::test]
async fn a_finalizer_that_somebody_takes_off_is_put_back() -> Result<()> {
    let kind = "Service";
    let world = World::new("taken-off").await?;
    world
        .apply(json!({
            "apiVersion": "v1", "kind": kind, "metadata": {"name": "o"}, "spec": {"ports": [{"port": 80}]},
        }))
        .await?;
    world.script("a", protects(kind, &["o"])).await?;
    protected(&world, kind, "o").await?;
    for _ in 0..2 {
        let bare = strip(&world, kind, "o").await?;
        assert!(finalizers(&bare).is_empty());
        protected(&world, kind, "o").await?;
    }
    Ok(())
}

#[tokio::test]
async fn an_object_that_is_made_anew_is_protected_anew() -> Result<()> {
    let kind = "LimitRange";
    let world = World::new("anew").await?;
    world.script("a", protects(kind, &["o"])).await?;
    world.done("a").await?;
    for _ in 0..2 {
        make(&world, kind, "o").await?;
        protected(&world, kind, "o").await?;
        // Of an object that is about to go, a finalizer can be taken off but not put back.
        world.cluster.delete("v1", kind, &world.namespace, "o").await?;
        strip(&world, kind, "o").await?;
        world.gone(kind, "o").await?;
    }
    Ok(())
}

#[tokio::test]
async fn what_no_query_finds_is_not_protected_and_that_is_told() -> Result<()> {
    let kind = "LimitRange";
    let world = World::new("unqueried").await?;
    make(&world, kind, "o").await?;
    let mut spec = protects(kind, &["o"]);
    spec["queries"] = json!([]);
    world.script("a", spec).await?;
    world.failed("a", &["protect", kind, "o", "query it by name"]).await?;
    Ok(())
}

/// Takes all finalizers off an object.
async fn strip(world: &World, kind: &str, name: &str) -> Result<DynamicObject> {
    let none = json!({"metadata": {"finalizers": null}});
    world.cluster.patch("v1", kind, &world.namespace, name, none).await
}

/// A Script that needs an object and another cluster, and whether the object is named only once that cluster has answered.
async fn held_by_one_that_cannot_run(purpose: &str, kind: &str, later: bool) -> Result<()> {
    let mut world = World::new(purpose).await?;
    make(&world, kind, "o").await?;
    world.config_map("names", json!({"name": "o"})).await?;
    world
        .cluster
        .kubeconfig_secret(&world.namespace, "remote", world.cluster.kubeconfig())
        .await?;
    let mut needs_remote = protects(kind, &["o"]);
    let object = std::mem::take(&mut needs_remote["queries"][0]);
    let remote = json!({
        "id": "remote", "apiVersion": "v1", "kind": "ConfigMap", "named": {"name": "names"},
        "cluster": {"kubeconfig": {"name": "remote"}},
    });
    if later {
        let mut object = object;
        object["named"]["name"] = "${remote:data.name}".into();
        needs_remote["queries"] = json!([remote]);
        needs_remote["rounds"] = json!([[object]]);
    } else {
        needs_remote["queries"] = json!([remote, object]);
    }
    world.script("able", protects(kind, &["o"])).await?;
    world.script("unable", needs_remote).await?;
    for script in ["able", "unable"] {
        world.done(script).await?;
    }
    protected(&world, kind, "o").await?;

    world.stop();
    let mut unreachable = world.cluster.kubeconfig().clone();
    for cluster in &mut unreachable.clusters {
        let cluster = cluster.cluster.get_or_insert_default();
        cluster.server = Some("https://127.0.0.1:1".to_owned());
    }
    world
        .cluster
        .kubeconfig_secret(&world.namespace, "remote", &unreachable)
        .await?;
    world.delete_script("able").await?;
    world.start().await?;
    let cannot = |primary: &Value| list(&primary["runs"]).iter().any(|run| run["result"] == "failed");
    world.explained("be unable to run", "unable", cannot).await?;
    // Whether the other one waits for it or goes at once, what it protected stays so.
    let ran = format!("run primary=Script {}/able ", world.namespace);
    world.host().wait_for_log(&ran, SOON).await?;
    world.rest().await?;
    assert!(
        is_protected(&world.there(kind, "o").await?),
        "it is not known that nobody needs it"
    );

    world
        .cluster
        .kubeconfig_secret(&world.namespace, "remote", world.cluster.kubeconfig())
        .await?;
    world.gone("Script", "able").await?;
    world.done("unable").await?;
    assert!(is_protected(&world.there(kind, "o").await?), "one needs it still");
    world.delete_script("unable").await?;
    world.gone("Script", "unable").await?;
    assert!(finalizers(&world.there(kind, "o").await?).is_empty());
    Ok(())
}

#[tokio::test]
async fn nothing_is_released_while_a_script_that_names_it_cannot_run() -> Result<()> {
    held_by_one_that_cannot_run("unable", "ResourceQuota", false).await
}

#[tokio::test]
async fn nothing_is_released_while_a_script_cannot_even_name_what_it_needs() -> Result<()> {
    held_by_one_that_cannot_run("unable-to-name", "Role", true).await
}
