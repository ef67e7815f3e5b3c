//! Writes in their order, and what becomes of those that fail; patches and deletes, which are guarded.

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, PostParams};
use patchbay_harness::{Fault, Filter, Refusal};
use serde_json::{Value, json};

use crate::world::{SOON, World, config_map, query, states, told_of, uid, version};

/// What applies one ConfigMap.
fn apply(name: &str) -> Value {
    json!({"object": config_map(name, json!({"k": "v"}))})
}

#[tokio::test]
async fn applies_run_in_order_and_stop_at_the_first_failure_which_is_mended_and_told() -> Result<()> {
    let world = World::new("order").await?;
    let elsewhere = format!("{}-late", world.namespace);
    let mut second = apply("second");
    second["object"]["metadata"]["namespace"] = elsewhere.as_str().into();
    world
        .script(
            "s",
            json!({"apply": [apply("first"), second, apply("third")], "status": true}),
        )
        .await?;
    let run = world.failed("s", &["namespaces", &elsewhere, "not found"]).await?;
    assert_eq!(states(&run)[1..], ["failed", "skipped"]);
    let first = world.there("ConfigMap", "first").await?;
    assert!(world.get("ConfigMap", "third").await?.is_none(), "it was skipped");
    let script = world.there("Script", "s").await?;
    assert!(script.data["status"].is_null(), "nothing is told before it is so");

    let namespace: Namespace = serde_json::from_value(json!({"metadata": {"name": elsewhere}}))?;
    Api::all(world.cluster.client())
        .create(&PostParams::default(), &namespace)
        .await?;
    // The run that succeeds tells what became of the one before.
    let script = world
        .until("tell of the failure", "Script", "s", |script| {
            matches!(&told_of(script)[..], [_, second, third]
                if second == "apply failed 404 NotFound" && third == "apply skipped")
        })
        .await?;
    let second = world.cluster.get("v1", "ConfigMap", &elsewhere, "second").await?;
    let third = world.there("ConfigMap", "third").await?;
    let order = [
        version(&first),
        version(&second.context("the second")?),
        version(&third),
        version(&script),
    ];
    assert!(order.is_sorted(), "the status came last: {order:?}");
    Ok(())
}

#[tokio::test]
async fn a_write_that_fails_once_is_made_again_at_once() -> Result<()> {
    let world = World::new("again").await?;
    let filter = Filter::writes().of("configmaps").named("target");
    let fault = world.proxy.fault_times(1, filter, Fault::Answer(Refusal::conflict()));
    world
        .script("s", json!({"apply": [apply("target")], "status": true}))
        .await?;
    world.data("target", json!({"k": "v"})).await?;
    world.told("s", &["apply failed 409 Conflict"]).await?;
    assert_eq!(fault.hits(), 1);
    Ok(())
}

#[tokio::test]
async fn a_status_that_could_not_be_written_is_written_again() -> Result<()> {
    let world = World::new("status").await?;
    let filter = Filter::writes().of("scripts").subresource("status");
    let fault = world.proxy.fault_times(1, filter, Fault::Answer(Refusal::conflict()));
    world
        .script("s", json!({"apply": [apply("target")], "status": true}))
        .await?;
    world
        .told("s", &["apply applied", "status failed 409 Conflict"])
        .await?;
    assert_eq!(fault.hits(), 1);
    world.done("s").await?;
    Ok(())
}

#[tokio::test]
async fn what_is_wrong_with_a_write_is_told_before_it_is_sent() -> Result<()> {
    let world = World::new("wrong").await?;
    let mut nameless = apply("");
    nameless["object"]["metadata"] = json!({});
    world.script("nameless", json!({"apply": [nameless]})).await?;
    world.failed("nameless", &["no metadata.name"]).await?;
    let mut placeless = apply("placeless");
    placeless["object"]["metadata"]["namespace"] = "".into();
    world.script("placeless", json!({"apply": [placeless]})).await?;
    world.failed("placeless", &["is namespaced"]).await?;
    let unknown = json!({"object": {"apiVersion": "example.org/v1", "kind": "Unknown", "metadata": {"name": "x"}}});
    world.script("unknown", json!({"apply": [unknown]})).await?;
    world.failed("unknown", &["Unknown", "example.org/v1"]).await?;
    let sent = Filter::writes().in_namespace(&world.namespace).not_of("scripts");
    assert_eq!(world.proxy.requests(&sent), [], "nothing of it was sent");
    Ok(())
}

#[tokio::test]
async fn a_patch_must_begin_with_a_test_and_a_test_that_fails_is_a_failure() -> Result<()> {
    let world = World::new("patch").await?;
    let target = world.config_map("target", json!({"k": "one"})).await?;
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "target"});
    let replace = json!({"op": "replace", "path": "/data/k", "value": "two"});
    let patch = |operations: Value| json!({"patch": [{"object": object, "operations": operations}]});

    world.script("unguarded", patch(json!([replace]))).await?;
    world.failed("unguarded", &["begins with a test"]).await?;
    let wrong = json!({"op": "test", "path": "/data/k", "value": "three"});
    world.script("wrong", patch(json!([wrong, replace]))).await?;
    let run = world.failed("wrong", &[]).await?;
    assert_eq!(states(&run), ["failed"]);
    let found = world.there("ConfigMap", "target").await?;
    assert_eq!(version(&found), version(&target), "neither changed it");

    let right = json!({"op": "test", "path": "/data/k", "value": "one"});
    world.script("right", patch(json!([right, replace]))).await?;
    world.data("target", json!({"k": "two"})).await?;
    Ok(())
}

#[tokio::test]
async fn a_patch_takes_a_foreign_finalizer_off() -> Result<()> {
    let world = World::new("finalizer").await?;
    let mut held = config_map("held", json!({}));
    held["metadata"]["finalizers"] = json!(["example.org/hold"]);
    world.apply(held).await?;
    world
        .cluster
        .delete("v1", "ConfigMap", &world.namespace, "held")
        .await?;
    let held = world.there("ConfigMap", "held").await?;
    world
        .script(
            "s",
            json!({"patch": [{
                "object": {"apiVersion": "v1", "kind": "ConfigMap", "name": "held"},
                "operations": [
                    {"op": "test", "path": "/metadata/uid", "value": uid(&held)},
                    {"op": "test", "path": "/metadata/finalizers/0", "value": "example.org/hold"},
                    {"op": "remove", "path": "/metadata/finalizers/0"},
                ],
            }]}),
        )
        .await?;
    world.gone("ConfigMap", "held").await
}

#[tokio::test]
async fn a_delete_is_of_the_object_with_its_uid_at_its_version() -> Result<()> {
    let world = World::new("delete").await?;
    let target = world.config_map("target", json!({"k": "one"})).await?;
    let (uid, version) = (uid(&target), version(&target).to_string());
    let delete = |uid: &str, version: Option<&str>| {
        json!({"delete": [{
            "object": {"apiVersion": "v1", "kind": "ConfigMap", "name": "target"}, "uid": uid, "resourceVersion": version,
        }]})
    };
    world
        .script("other-uid", delete("0e7b2c1a-7d5c-4c50-9a67-3f2f6ad1c7aa", None))
        .await?;
    world.failed("other-uid", &["UID", &uid]).await?;
    world.config_map("target", json!({"k": "two"})).await?;
    world.script("other-version", delete(&uid, Some(&version))).await?;
    world.failed("other-version", &["ResourceVersion", &version]).await?;
    let found = world.there("ConfigMap", "target").await?;
    assert_eq!(found.data["data"], json!({"k": "two"}), "it is still there");

    world.script("right", delete(&uid, None)).await?;
    world.gone("ConfigMap", "target").await?;
    // One that has gone already is deleted.
    world.script("once-more", delete(&uid, None)).await?;
    assert_eq!(states(&world.done("once-more").await?), ["applied"]);
    Ok(())
}

#[tokio::test]
async fn what_a_script_finds_to_delete_it_deletes_once() -> Result<()> {
    let world = World::new("once").await?;
    world.config_map("target", json!({})).await?;
    world
        .script(
            "s",
            json!({
                "queries": [query("target", "target")],
                "delete": [{
                    "object": {"apiVersion": "v1", "kind": "ConfigMap", "name": "target"}, "uid": "${target:metadata.uid}",
                }],
            }),
        )
        .await?;
    world.gone("ConfigMap", "target").await?;
    world.rest().await?;
    let deletes = Filter::verbs([patchbay_harness::Verb::Delete]).of("configmaps");
    assert_eq!(world.proxy.count(&deletes), 1);
    // Made anew, it is another object, which goes as well.
    world.config_map("target", json!({})).await?;
    world.gone("ConfigMap", "target").await
}

#[tokio::test]
async fn a_condition_tells_the_truth_of_a_write_until_it_is_mended() -> Result<()> {
    let mut world = World::without_host("condition").await?;
    world.with_plugins()?;
    world.cluster.apply_crds().await?;
    world.start().await?;
    let (name, elsewhere) = (world.namespace.clone(), format!("{}-late", world.namespace));
    let documents = [
        json!({
            "apiVersion": "kubernetes.crossplane.io/v1alpha1", "kind": "ProviderConfig", "metadata": {"name": name},
            "spec": {"credentials": {"source": "InjectedIdentity"}},
        }),
        json!({
            "apiVersion": "kubernetes.crossplane.io/v1alpha2", "kind": "Object", "metadata": {"name": name},
            "spec": {
                "forProvider": {"manifest": {
                    "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "target", "namespace": elsewhere},
                }},
                "providerConfigRef": {"name": name},
            },
        }),
    ];
    for document in documents {
        world.apply(document).await?;
    }
    let synced = async |status: &str, words: &[&str]| {
        let what = format!("Synced to be {status} with {words:?}");
        patchbay_harness::wait_for(&what, SOON, async || {
            let kind = ("kubernetes.crossplane.io/v1alpha2", "Object");
            let object = world
                .cluster
                .get(kind.0, kind.1, "", &name)
                .await?
                .context("the Object")?;
            let synced = patchbay_harness::condition(&object, "Synced").context("no condition")?;
            let as_wanted = synced.status == status && words.iter().all(|word| synced.message.contains(word));
            if as_wanted {
                Ok(Some(()))
            } else {
                anyhow::bail!("it is {synced}")
            }
        })
        .await
    };
    synced("False", &["namespaces", &elsewhere, "not found"]).await?;
    let namespace: Namespace = serde_json::from_value(json!({"metadata": {"name": elsewhere}}))?;
    Api::all(world.cluster.client())
        .create(&PostParams::default(), &namespace)
        .await?;
    synced("True", &[]).await?;
    let target = world.cluster.get("v1", "ConfigMap", &elsewhere, "target").await?;
    assert!(target.is_some(), "it says what is so");
    Ok(())
}
