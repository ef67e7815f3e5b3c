//! Hosts that stop and start, on an API server of their own.

use std::time::Duration;

use anyhow::Result;
use patchbay_harness::{Cluster, Host, HostOptions, condition, wait_for};
use serde_json::json;

use crate::world::{OBJECT, PROVIDER, SOON, data_in};

const COUNT: usize = 20;

async fn ready(cluster: &Cluster, count: usize) -> Result<()> {
    wait_for("all Objects to be ready", SOON, async || {
        let api = cluster.api(OBJECT, "Object", "").await?;
        let objects = api.list(&kube::api::ListParams::default()).await?.items;
        let ready = objects
            .iter()
            .filter(|object| condition(object, "Ready").is_some_and(|ready| ready.status == "True"));
        Ok((ready.count() == count).then_some(()))
    })
    .await
}

#[tokio::test]
async fn nothing_moves_at_rest_nor_after_a_restart_and_what_changed_meanwhile_is_mended() -> Result<()> {
    let cluster = Cluster::start().await?;
    cluster.apply_crds().await?;
    cluster.apply(PROVIDER).await?;
    for number in 0..COUNT {
        let source = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("source-{number}")}, "data": {"k": "one"},
        });
        let object = json!({
            "apiVersion": OBJECT, "kind": "Object", "metadata": {"name": format!("o-{number}")},
            "spec": {
                "references": [{"patchesFrom": {
                    "apiVersion": "v1", "kind": "ConfigMap", "namespace": "default",
                    "name": format!("source-{number}"), "fieldPath": "data.k",
                }}],
                "forProvider": {"manifest": {
                    "apiVersion": "v1", "kind": "ConfigMap",
                    "metadata": {"name": format!("target-{number}"), "namespace": "default"},
                }},
                "providerConfigRef": {"name": "kubernetes-provider"},
            },
        });
        cluster.apply(&source.to_string()).await?;
        cluster.apply(&object.to_string()).await?;
    }
    let options = HostOptions::default();
    let host = Host::start(&cluster, &options).await?;
    ready(&cluster, COUNT).await?;
    let settled = settle(&cluster).await?;
    host.kill();

    let host = Host::start(&cluster, &options).await?;
    // It has run everything once it follows a change of what it found last.
    cluster
        .patch("v1", "ConfigMap", "default", "source-0", json!({"data": {"k": "two"}}))
        .await?;
    data_in(&cluster, "default", "target-0", json!({"k": "two"})).await?;
    let after = settle(&cluster).await?;
    let moved: Vec<_> = settled.differences(&after);
    let unexpected: Vec<_> = moved.iter().filter(|line| !line.contains("-0")).collect();
    assert!(unexpected.is_empty(), "a restart moved {unexpected:?}");
    host.kill();

    cluster
        .patch(
            "v1",
            "ConfigMap",
            "default",
            "source-1",
            json!({"data": {"k": "while down"}}),
        )
        .await?;
    cluster.delete("v1", "ConfigMap", "default", "target-2").await?;
    cluster.delete(OBJECT, "Object", "", "o-3").await?;
    let _host = Host::start(&cluster, &options).await?;
    data_in(&cluster, "default", "target-1", json!({"k": "while down"})).await?;
    data_in(&cluster, "default", "target-2", json!({"k": "one"})).await?;
    wait_for("the deleted Object and its target to be gone", SOON, async || {
        let object = cluster.get(OBJECT, "Object", "", "o-3").await?;
        let target = cluster.get("v1", "ConfigMap", "default", "target-3").await?;
        Ok((object.is_none() && target.is_none()).then_some(()))
    })
    .await
}

/// Waits until nothing has moved for a while, and gives what there is.
async fn settle(cluster: &Cluster) -> Result<patchbay_harness::Snapshot> {
    let mut before = cluster.snapshot().await?;
    wait_for("everything to stand still", Duration::from_secs(60), async || {
        tokio::time::sleep(Duration::from_secs(2)).await;
        let now = cluster.snapshot().await?;
        let still = before.differences(&now).is_empty();
        before = now;
        Ok(still.then(|| before.clone()))
    })
    .await
}
