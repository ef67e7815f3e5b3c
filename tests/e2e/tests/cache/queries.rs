//! Queries of each kind, and what is watched for them.

use anyhow::Result;
use patchbay_harness::{ApiRequest, Filter, wait_for};
use serde_json::json;

use crate::world::{SCRIPT, SOON, World, applying, copy, named, secret, watches};

#[tokio::test]
async fn what_a_primary_owns_is_found_as_it_comes_and_goes() -> Result<()> {
    let world = World::new("owned").await?;
    let query = json!({"id": "mine", "apiVersion": "v1", "kind": "Secret", "owned": {}, "fields": "metadata"});
    let spec = applying(json!([query]), "target", json!({"names": "${names:mine}"}));
    world.script("s", spec).await?;
    world.target(json!({"names": ""})).await?;
    let script = world.cluster.get(SCRIPT, "Script", &world.namespace, "s").await?;
    let uid = script.and_then(|script| script.metadata.uid);
    let owner = json!([{"apiVersion": SCRIPT, "kind": "Script", "name": "s", "uid": uid}]);
    let owned = |name: &str| {
        let mut secret = secret(name, "v", json!({}));
        secret["metadata"]["ownerReferences"] = owner.clone();
        secret
    };
    world.secret("nobodys", "v").await?;
    world.apply(owned("a")).await?;
    world.target(json!({"names": "a"})).await?;
    world.apply(owned("b")).await?;
    world.target(json!({"names": "a,b"})).await?;
    world.secret("a", "disowned").await?;
    world.target(json!({"names": "b"})).await?;
    world.delete_secret("b").await?;
    world.target(json!({"names": ""})).await?;
    Ok(())
}

#[tokio::test]
async fn namespaces_that_get_and_lose_a_label_bring_their_objects_in_and_out() -> Result<()> {
    let world = World::new("spaces").await?;
    let team = world.namespace.clone();
    let query = json!({
        "id": "some", "apiVersion": "v1", "kind": "Secret", "selected": {"matchLabels": {"app": "a"}}, "fields": "metadata",
        "namespaces": {"selector": {"matchLabels": {"team": team}}},
    });
    let (one, two) = (
        world.cluster.namespace("one").await?,
        world.cluster.namespace("two").await?,
    );
    for (namespace, name) in [(&one, "in-one"), (&two, "in-two")] {
        let object = secret(name, "v", json!({"app": "a"}));
        world.cluster.apply_in(namespace, &object.to_string()).await?;
    }
    let label = async |namespace: &str, team: Option<&str>| {
        let patch = json!({"metadata": {"labels": {"team": team}}});
        world.cluster.patch("v1", "Namespace", "", namespace, patch).await
    };
    world
        .script(
            "s",
            applying(json!([query]), "target", json!({"names": "${names:some}"})),
        )
        .await?;
    world.target(json!({"names": ""})).await?;
    label(&one, Some(&team)).await?;
    world.target(json!({"names": "in-one"})).await?;
    label(&two, Some(&team)).await?;
    world.target(json!({"names": "in-one,in-two"})).await?;
    label(&one, Some("another")).await?;
    world.target(json!({"names": "in-two"})).await?;
    // What appears in a namespace that has the label is found too.
    let object = secret("later", "v", json!({"app": "a"}));
    world.cluster.apply_in(&two, &object.to_string()).await?;
    world.target(json!({"names": "in-two,later"})).await?;
    label(&two, None).await?;
    world.target(json!({"names": ""})).await?;
    Ok(())
}

#[tokio::test]
async fn where_metadata_are_enough_nothing_else_is_asked_for_and_nothing_else_wakes() -> Result<()> {
    let world = World::new("metadata").await?;
    let mut query = named("source");
    query["fields"] = "metadata".into();
    let data = json!({"label": "${source:metadata.labels.l}", "k": "${source:data.k}"});
    let label = |label: &str| json!({"l": label});
    world.labelled_secret("source", "one", label("one")).await?;
    world.script("s", applying(json!([query]), "target", data)).await?;
    world.target(json!({"label": "one", "k": ""})).await?;
    world.rest().await?;
    let runs = world.runs("s");
    let version = world.labelled_secret("source", "two", label("one")).await?;
    world.proxy.wait_until_told("secrets", &version, SOON).await?;
    world.labelled_secret("source", "two", label("two")).await?;
    world.target(json!({"label": "two", "k": ""})).await?;
    world.rest().await?;
    assert_eq!(world.runs("s"), runs + 1, "its data are none of its business");
    let asked = world.proxy.requests(&Filter::sight().of("secrets"));
    assert!(
        !asked.is_empty() && asked.iter().all(|asked| asked.request.metadata_only),
        "{asked:?}"
    );

    // Somebody who wants the data makes the whole be watched, once for both.
    world
        .script("whole", {
            let mut spec = copy();
            spec["apply"][0]["object"]["metadata"]["name"] = "whole".into();
            spec
        })
        .await?;
    world.config_map("whole", crate::world::copy_of("two")).await?;
    wait_for("the whole to be watched for both", SOON, async || {
        let open = world.proxy.open_watches();
        let open: Vec<&ApiRequest> = open.iter().filter(|open| watches().matches(open)).collect();
        Ok(matches!(open[..], [only] if !only.metadata_only).then_some(()))
    })
    .await?;
    world.labelled_secret("source", "three", label("three")).await?;
    world.target(json!({"label": "three", "k": ""})).await?;
    world.config_map("whole", crate::world::copy_of("three")).await?;
    Ok(())
}

#[tokio::test]
async fn what_is_in_a_namespace_goes_with_it() -> Result<()> {
    let world = World::new("doomed").await?;
    let doomed = world.cluster.namespace("doomed").await?;
    let mut one = named("source");
    one["named"]["namespace"] = doomed.as_str().into();
    let some = json!({
        "id": "some", "apiVersion": "v1", "kind": "Secret", "selected": {}, "fields": "metadata",
        "namespaces": {"listed": [doomed]},
    });
    for name in ["source", "other"] {
        world
            .cluster
            .apply_in(&doomed, &secret(name, "v", json!({})).to_string())
            .await?;
    }
    let data = json!({"one": "${state:source}", "some": "${count:some}"});
    world.script("s", applying(json!([one, some]), "target", data)).await?;
    world.target(json!({"one": "found", "some": "2"})).await?;
    world.cluster.delete("v1", "Namespace", "", &doomed).await?;
    world.target(json!({"one": "missing", "some": "0"})).await.map(drop)
}
