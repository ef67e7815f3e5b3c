//! What cannot be seen is not taken for missing.

use anyhow::Result;
use patchbay_harness::{Cluster, Fault, Filter, Proxy, Refusal, wait_for};
use serde_json::{Value, json};

use crate::world::{SOON, World, applying, copy, copy_of, copy_of_nothing, named};

/// A Script that copies `source` and prunes. `names` are the ConfigMaps that it applies.
fn pruning(query: Value, names: &[&str]) -> Value {
    let object = |name: &&str| {
        let data = json!({"k": "${source:data.k}"});
        json!({"object": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}})
    };
    json!({
        "queries": [query], "prune": {"name": "set"}, "apply": names.iter().map(object).collect::<Vec<_>>(),
    })
}

/// What one that could not see its source has left as it was.
async fn untouched(world: &World) -> Result<()> {
    world.rest().await?;
    let maps = world.cluster.api("v1", "ConfigMap", &world.namespace).await?;
    let data = json!({"k": copy_of("one")["k"]});
    for name in ["kept", "pruned"] {
        assert_eq!(maps.get(name).await?.data["data"], data, "{name}");
    }
    assert!(maps.get_opt("new").await?.is_none(), "written without its source");
    Ok(())
}

async fn pruned(world: &World) -> Result<()> {
    wait_for("what is no longer applied to be pruned", SOON, async || {
        let pruned = world.cluster.get("v1", "ConfigMap", &world.namespace, "pruned").await?;
        Ok(pruned.is_none().then_some(()))
    })
    .await
}

#[tokio::test]
async fn a_query_that_becomes_forbidden_prunes_nothing() -> Result<()> {
    let world = World::new("forbidden").await?;
    world.secret("source", "one").await?;
    world.script("s", pruning(named("source"), &["kept", "pruned"])).await?;
    let data = |value| json!({"k": copy_of(value)["k"]});
    world.config_map("pruned", data("one")).await?;
    let forbidden = world
        .proxy
        .fault(Filter::sight().of("secrets"), Fault::Answer(Refusal::forbidden()));
    world.cut();
    world
        .host
        .wait_for_log("Forbidden: answered by the fault proxy; grant list and watch on", SOON)
        .await?;
    world.delete_secret("source").await?;
    world.script("s", pruning(named("source"), &["kept", "new"])).await?;
    untouched(&world).await?;
    forbidden.lift();
    world.config_map("new", json!({"k": ""})).await?;
    pruned(&world).await?;
    Ok(())
}

#[tokio::test]
async fn a_plugin_that_tolerates_it_is_told_that_a_query_is_forbidden() -> Result<()> {
    let world = World::new("tolerated").await?;
    let mut spec = copy();
    spec["queries"][0]["tolerate"] = true.into();
    spec["apply"][0]["object"]["data"] = json!({"state": "${state:source}"});
    let forbidden = world
        .proxy
        .fault(Filter::sight().of("secrets"), Fault::Answer(Refusal::forbidden()));
    world.script("s", spec).await?;
    world.target(json!({"state": "failed Forbidden"})).await?;
    forbidden.lift();
    world.target(json!({"state": "missing"})).await?;
    Ok(())
}

#[tokio::test]
async fn a_cluster_that_cannot_be_reached_prunes_nothing_and_misses_nothing() -> Result<()> {
    let world = World::new("unreachable").await?;
    let remote = world.remote().await?;
    let mut query = named("source");
    query["cluster"] = json!({"kubeconfig": {"name": "remote"}});
    world.secret("source", "one").await?;
    world.script("s", pruning(query.clone(), &["kept", "pruned"])).await?;
    let data = |value| json!({"k": copy_of(value)["k"]});
    world.config_map("pruned", data("one")).await?;

    remote.refuse_connections(true);
    world.delete_secret("source").await?;
    world.host.wait_for_log("; it is tried again", SOON).await?;
    world.script("s", pruning(query, &["kept", "new"])).await?;
    untouched(&world).await?;
    remote.refuse_connections(false);
    world.config_map("new", json!({"k": ""})).await?;
    pruned(&world).await?;
    Ok(())
}

#[tokio::test]
async fn nothing_is_released_while_it_is_not_seen_who_protects_it() -> Result<()> {
    // A host releases what none of its own primaries protects, so it needs a cluster for itself.
    let cluster = Cluster::start().await?;
    cluster.apply_script_crd().await?;
    let world = World::of(cluster, "default".to_owned()).await?;
    world.secret("source", "one").await?;
    let mut spec = copy();
    spec["protect"] = json!([{"apiVersion": "v1", "kind": "Secret", "name": "source"}]);
    world.script("s", spec).await?;
    let protected = async || {
        let source = world.cluster.get("v1", "Secret", "default", "source").await?;
        anyhow::Ok(source.is_some_and(|source| source.metadata.finalizers.is_some_and(|held| !held.is_empty())))
    };
    wait_for("the source to be protected", SOON, async || {
        Ok(protected().await?.then_some(()))
    })
    .await?;
    let forbidden = world
        .proxy
        .fault(Filter::sight().of("secrets"), Fault::Answer(Refusal::forbidden()));
    world.cut();
    world
        .host
        .wait_for_log("Forbidden: answered by the fault proxy; grant list and watch on", SOON)
        .await?;
    world
        .cluster
        .delete("script.patchbay.dev/v1", "Script", "default", "s")
        .await?;
    world.rest().await?;
    assert!(protected().await?, "it was released unseen");
    forbidden.lift();
    wait_for("the source to be released", SOON, async || {
        Ok((!protected().await?).then_some(()))
    })
    .await?;
    wait_for("the Script to go", SOON, async || {
        let script = world
            .cluster
            .get("script.patchbay.dev/v1", "Script", "default", "s")
            .await?;
        Ok(script.is_none().then_some(()))
    })
    .await
}

#[tokio::test]
async fn reads_that_fail_are_made_again() -> Result<()> {
    let world = World::new("reads").await?;
    world.secret("source", "one").await?;
    let reads = || Filter::reads().of("secrets");
    let _failing = world
        .proxy
        .fault_times(2, reads(), Fault::Answer(Refusal::internal_error()));
    let _busy = world.proxy.fault_times(
        1,
        reads(),
        Fault::Answer(Refusal::too_many_requests(std::time::Duration::from_secs(1))),
    );
    world.script("s", copy()).await?;
    world.copied("one").await?;
    world.delete_secret("source").await?;
    world.target(copy_of_nothing()).await?;
    Ok(())
}

#[tokio::test]
async fn a_host_that_starts_while_sources_are_forbidden_writes_nothing_until_it_sees_them() -> Result<()> {
    let cluster = Cluster::shared_with_scripts().await?;
    let namespace = cluster.namespace("blind").await?;
    let proxy = Proxy::start(&cluster).await?;
    let forbidden = proxy.fault(Filter::sight().of("secrets"), Fault::Answer(Refusal::forbidden()));
    let world = World::behind(cluster, namespace, proxy).await?;
    world.secret("source", "one").await?;
    world.script("s", copy()).await?;
    world
        .host
        .wait_for_log("Forbidden: answered by the fault proxy; grant list and watch on", SOON)
        .await?;
    world.rest().await?;
    let target = world.cluster.get("v1", "ConfigMap", &world.namespace, "target").await?;
    assert!(target.is_none(), "forbidden is not empty");
    forbidden.lift();
    world.copied("one").await?;
    Ok(())
}

#[tokio::test]
async fn reads_of_a_kind_that_hang_hold_up_no_other_kind() -> Result<()> {
    let world = World::new("hang").await?;
    let hold = world.proxy.fault(Filter::reads().of("secrets"), Fault::Hold);
    let queries: Vec<_> = (0..100).map(|number| named(&format!("source-{number}"))).collect();
    world
        .script("hangs", applying(json!(queries), "hung", json!({})))
        .await?;
    hold.wait_until_held(4, SOON).await?;
    let account = json!({"id": "account", "apiVersion": "v1", "kind": "ServiceAccount", "named": {"name": "none"}});
    let data = json!({"state": "${state:account}"});
    world.script("s", applying(json!([account]), "target", data)).await?;
    world.target(json!({"state": "missing"})).await?;
    assert!(hold.held() > 0, "they hang still");
    hold.lift();
    world.config_map("hung", Value::Null).await?;
    Ok(())
}

#[tokio::test]
async fn writes_to_a_cluster_that_hangs_hold_up_no_other_cluster() -> Result<()> {
    let world = World::new("stuck").await?;
    let remote = world.remote().await?;
    let stall = remote.fault(Filter::writes().of("configmaps"), Fault::Stall);
    let cluster = json!({"kubeconfig": {"name": "remote"}});
    for number in 0..40 {
        let mut query = named("source");
        query["cluster"] = cluster.clone();
        let name = format!("far-{number}");
        let mut spec = applying(json!([query]), &name, json!({"state": "${state:source}"}));
        spec["apply"][0]["cluster"] = cluster.clone();
        world.script(&name, spec).await?;
    }
    wait_for("writes that hang", SOON, async || {
        Ok((remote.count(&Filter::writes().of("configmaps")) >= 4).then_some(()))
    })
    .await?;
    world.script("s", copy()).await?;
    world.target(copy_of_nothing()).await?;
    stall.lift();
    world.config_map("far-39", json!({"state": "missing"})).await?;
    Ok(())
}
