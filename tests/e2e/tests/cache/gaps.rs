//! Watches that are cut, that expire, fall silent or talk nonsense.

use std::time::Duration;

use anyhow::Result;
use patchbay_harness::{ActiveFault, Fault, Filter, Proxy, Refusal, wait_for};
use serde_json::json;

use crate::world::{SCRIPT, SOON, World, applying, copy, copy_of, copy_of_nothing, named, secret, watches};

/// A Script that follows a Secret.
async fn following(purpose: &str) -> Result<World> {
    let world = World::new(purpose).await?;
    world.secret("source", "one").await?;
    world.script("s", copy()).await?;
    world.copied("one").await?;
    Ok(world)
}

/// Breaks off the watches of Secrets, and lets them come back when this is lifted.
async fn gap(world: &World) -> Result<ActiveFault> {
    let gap = world.proxy.fault(watches(), Fault::Answer(Refusal::unavailable()));
    world.cut();
    gap.wait_for_hits(1, SOON).await?;
    Ok(gap)
}

#[tokio::test]
async fn a_deletion_in_a_gap_that_is_resumed_is_told() -> Result<()> {
    let world = following("resumed").await?;
    let gap = gap(&world).await?;
    world.delete_secret("source").await?;
    gap.lift();
    world.target(copy_of_nothing()).await?;
    Ok(())
}

#[tokio::test]
async fn a_deletion_in_a_gap_that_cannot_be_resumed_is_found() -> Result<()> {
    let world = following("unresumed").await?;
    let gap = gap(&world).await?;
    let expired = world.proxy.fault_times(1, watches(), Fault::Answer(Refusal::expired()));
    world.delete_secret("source").await?;
    gap.lift();
    world.target(copy_of_nothing()).await?;
    assert_eq!(expired.hits(), 1, "the watch could not be resumed");
    Ok(())
}

#[tokio::test]
async fn an_object_that_is_created_anew_in_a_gap_is_another_however_equal_its_data() -> Result<()> {
    let world = World::new("anew").await?;
    let data = json!({"k": "${source:data.k}", "uid": "${source:metadata.uid}"});
    let expected = async |world: &World| -> Result<()> {
        let source = world.cluster.get("v1", "Secret", &world.namespace, "source").await?;
        let uid = source.and_then(|source| source.metadata.uid);
        let k = copy_of("one")["k"].clone();
        world.target(json!({"k": k, "uid": uid})).await.map(drop)
    };
    world.secret("source", "one").await?;
    world
        .script("s", applying(json!([named("source")]), "target", data))
        .await?;
    expected(&world).await?;
    for expires in [false, true] {
        let gap = gap(&world).await?;
        let times = usize::from(expires);
        let _expired = world
            .proxy
            .fault_times(times, watches(), Fault::Answer(Refusal::expired()));
        world.delete_secret("source").await?;
        world.secret("source", "one").await?;
        gap.lift();
        expected(&world).await?;
    }
    Ok(())
}

/// Breaks off a watch, has something done, and lets it come back where it cannot go on.
async fn in_a_gap_of(world: &World, resource: &str, change: impl AsyncFnOnce() -> Result<()>) -> Result<()> {
    let watches = || Filter::watches().of(resource);
    let gap = world.proxy.fault(watches(), Fault::Answer(Refusal::unavailable()));
    let _expired = world.proxy.fault_times(1, watches(), Fault::Answer(Refusal::expired()));
    assert!(world.proxy.cut(&watches()) > 0, "{resource} are watched");
    gap.wait_for_hits(1, SOON).await?;
    change().await?;
    gap.lift();
    Ok(())
}

#[tokio::test]
async fn a_primary_that_went_in_a_gap_is_forgotten_and_one_that_was_created_anew_is_another() -> Result<()> {
    let world = World::new("primaries").await?;
    let spec = applying(json!([]), "target", json!({"uid": "${self:metadata.uid}"}));
    world.script("anew", spec.clone()).await?;
    world.script("gone", applying(json!([]), "other", json!({}))).await?;
    let uid = async || {
        let script = world.cluster.get(SCRIPT, "Script", &world.namespace, "anew").await?;
        anyhow::Ok(script.and_then(|script| script.metadata.uid))
    };
    world.target(json!({"uid": uid().await?})).await?;
    world.rest().await?;
    let explain = async |name: &str| world.host.explain(&["script", name, "-n", &world.namespace]).await;
    assert!(explain("gone").await?.status.success());
    in_a_gap_of(&world, "scripts", async || {
        for name in ["anew", "gone"] {
            let none = json!({"metadata": {"finalizers": null}});
            world
                .cluster
                .patch(SCRIPT, "Script", &world.namespace, name, none)
                .await?;
            world.cluster.delete(SCRIPT, "Script", &world.namespace, name).await?;
        }
        world.script("anew", spec).await
    })
    .await?;
    world.target(json!({"uid": uid().await?})).await?;
    assert!(!explain("gone").await?.status.success(), "it is forgotten");
    Ok(())
}

#[tokio::test]
async fn what_a_plugin_watches_is_told_to_it_though_it_happened_in_a_gap() -> Result<()> {
    let world = World::new("told").await?;
    let told = |name: &str, script: &str| {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {
                "name": name,
                "labels": {"script.patchbay.dev/watched": ""},
                "annotations": {"script.patchbay.dev/primary": format!("{}/{script}", world.namespace)},
            },
        })
    };
    for script in ["changes", "goes", "comes", "moves"] {
        world.script(script, json!({})).await?;
    }
    for script in ["changes", "goes", "moves"] {
        world.apply(told(script, script)).await?;
    }
    for script in ["changes", "goes", "moves"] {
        world.runs_again(script, 1).await?;
    }
    world.rest().await?;
    let names = ["changes", "goes", "comes", "moves"];
    let before = names.map(|name| world.runs(name));
    in_a_gap_of(&world, "configmaps", async || {
        let mut changed = told("changes", "changes");
        changed["data"] = json!({"k": "v"});
        world.apply(changed).await?;
        world
            .cluster
            .delete("v1", "ConfigMap", &world.namespace, "goes")
            .await?;
        world.apply(told("comes", "comes")).await?;
        world.apply(told("moves", "nobody")).await.map(drop)
    })
    .await?;
    for (name, before) in names.into_iter().zip(before) {
        world.runs_again(name, before).await?;
    }
    Ok(())
}

#[tokio::test]
async fn namespaces_that_are_relabelled_in_a_gap_bring_their_objects_in_and_out() -> Result<()> {
    let world = World::new("relabelled").await?;
    let query = json!({
        "id": "some", "apiVersion": "v1", "kind": "Secret", "selected": {}, "fields": "metadata",
        "namespaces": {"selector": {"matchLabels": {"team": world.namespace}}},
    });
    let (one, two) = (
        world.cluster.namespace("one").await?,
        world.cluster.namespace("two").await?,
    );
    let label = async |namespace: &str, team: Option<&str>| {
        let patch = json!({"metadata": {"labels": {"team": team}}});
        world
            .cluster
            .patch("v1", "Namespace", "", namespace, patch)
            .await
            .map(drop)
    };
    for (namespace, name) in [(&one, "in-one"), (&two, "in-two")] {
        world
            .cluster
            .apply_in(namespace, &secret(name, "v", json!({})).to_string())
            .await?;
    }
    label(&one, Some(&world.namespace)).await?;
    world
        .script(
            "s",
            applying(json!([query]), "target", json!({"names": "${names:some}"})),
        )
        .await?;
    world.target(json!({"names": "in-one"})).await?;
    in_a_gap_of(&world, "namespaces", async || {
        label(&one, None).await?;
        label(&two, Some(&world.namespace)).await
    })
    .await?;
    world.target(json!({"names": "in-two"})).await.map(drop)
}

#[tokio::test]
async fn a_watch_that_ends_or_is_cut_goes_on_where_it_was_and_nothing_is_read_or_run_again() -> Result<()> {
    let world = following("goes-on").await?;
    world.rest().await?;
    let secrets = || world.proxy.count(&Filter::reads().of("secrets"));
    let (reads, runs) = (secrets(), world.runs("s"));
    for ended in [Proxy::cut, Proxy::end] {
        let before = world.proxy.count(&watches());
        assert!(ended(&world.proxy, &watches()) > 0);
        wait_for("the watch to come back", SOON, async || {
            Ok((world.proxy.count(&watches()) > before).then_some(()))
        })
        .await?;
        world.rest().await?;
    }
    assert_eq!((secrets(), world.runs("s")), (reads, runs));
    world.secret("source", "two").await?;
    world.copied("two").await?;
    assert_eq!((secrets(), world.runs("s")), (reads, runs + 1));
    Ok(())
}

#[tokio::test]
async fn a_watch_that_is_cut_every_second_still_converges() -> Result<()> {
    let world = following("cut").await?;
    let before = world.proxy.count(&watches());
    let cutting = world.proxy.cut_every(Duration::from_secs(1), watches());
    let (mut number, mut attempts) = (0, 0);
    while attempts < before + 4 {
        number += 1;
        let value = format!("value {number}");
        world.secret("source", &value).await?;
        world.copied(&value).await?;
        attempts = world.proxy.count(&watches());
    }
    drop(cutting);
    world.delete_secret("source").await?;
    world.target(copy_of_nothing()).await?;
    Ok(())
}

#[tokio::test]
async fn a_watch_whose_version_is_too_old_is_begun_anew() -> Result<()> {
    let world = following("expired").await?;
    for (value, fault) in [
        ("two", Fault::Answer(Refusal::expired())),
        ("three", Fault::ExpireStream),
    ] {
        let expired = world.proxy.fault_times(1, watches(), fault);
        world.cut();
        expired.wait_for_hits(1, SOON).await?;
        world.secret("source", value).await?;
        world.copied(value).await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_silent_watch_makes_nothing_up_and_tells_all_when_it_speaks_again() -> Result<()> {
    let world = following("silent").await?;
    let runs = world.runs("s");
    let stall = world.proxy.fault(watches(), Fault::Stall);
    world.secret("source", "two").await?;
    world.delete_secret("source").await?;
    world.secret("source", "three").await?;
    world.rest().await?;
    world.copied("one").await?;
    assert_eq!(world.runs("s"), runs);
    stall.lift();
    world.copied("three").await?;
    Ok(())
}

#[tokio::test]
async fn nonsense_in_a_watch_is_got_over() -> Result<()> {
    let world = following("nonsense").await?;
    let object = |metadata| json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": {"k": "AAAA"}});
    let elsewhere = json!({"name": "source", "namespace": "elsewhere", "uid": "u", "resourceVersion": "99999999"});
    let event = |kind: &str, object| format!("{}\n", json!({"type": kind, "object": object}));
    for (number, said) in [
        "nonsense\n".to_owned(),
        "\n".to_owned(),
        "{\"type\":\"MODIFIED\",\"object\":{\"metadata\":{\"name\":\"so".to_owned() + "\n",
        event(
            "MODIFIED",
            object(json!({"name": "source", "namespace": world.namespace})),
        ),
        event("MODIFIED", object(elsewhere)),
        event("RUMOUR", object(json!({}))),
        event("BOOKMARK", json!({"metadata": {}})),
        event(
            "ERROR",
            json!({"kind": "Status", "status": "Failure", "code": 500, "reason": "InternalError"}),
        ),
        event("ERROR", json!({})),
    ]
    .iter()
    .enumerate()
    {
        let before = world.proxy.count(&watches());
        assert_eq!(
            world.proxy.say(&watches(), said.as_bytes()),
            1,
            "one watch before {said}"
        );
        let value = format!("value {number}");
        world.secret("source", &value).await?;
        world
            .copied(&value)
            .await
            .map_err(|error| error.context(said.clone()))?;
        wait_for("a watch after the nonsense", SOON, async || {
            let again = world.proxy.count(&watches()) > before;
            let open = world.proxy.open_watches();
            Ok((again && open.iter().any(|watch| watch.resource == "secrets")).then_some(()))
        })
        .await?;
    }
    Ok(())
}
