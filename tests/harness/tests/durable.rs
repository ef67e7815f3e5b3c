//! An API server that is stopped and started again.

use anyhow::Result;
use patchbay_harness::{Cluster, DurableServer};
use serde_json::json;

async fn value(cluster: &Cluster) -> Result<Option<String>> {
    let found = cluster.get("v1", "ConfigMap", "default", "a").await?;
    Ok(found.and_then(|found| found.data["data"]["k"].as_str().map(str::to_owned)))
}

async fn write(cluster: &Cluster, value: &str) -> Result<u64> {
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": value}});
    let applied = cluster.apply(&map.to_string()).await?.remove(0);
    Ok(applied.metadata.resource_version.unwrap_or_default().parse()?)
}

#[tokio::test]
async fn it_comes_back_with_its_data_with_older_ones_and_with_none() -> Result<()> {
    let mut server = DurableServer::start().await?;
    let cluster = server.cluster().await?;
    let uid = cluster.uid().await?;
    let saved_version = write(&cluster, "saved").await?;
    assert!(
        server.save().is_err(),
        "data are copied of a server that has ended only"
    );
    server.stop().await?;
    assert!(value(&cluster).await.is_err(), "it has ended");
    let saved = server.save()?;
    server.start_again().await?;
    assert_eq!(value(&cluster).await?.as_deref(), Some("saved"));
    let later_version = write(&cluster, "later").await?;

    server.stop().await?;
    server.restore(&saved)?;
    server.start_again().await?;
    assert_eq!(value(&cluster).await?.as_deref(), Some("saved"));
    assert_eq!(cluster.uid().await?, uid);
    let restored_version = write(&cluster, "restored").await?;
    assert!(saved_version < restored_version);
    assert!(
        restored_version < later_version + 1000,
        "versions count from where they were"
    );

    server.stop().await?;
    server.forget()?;
    server.start_again().await?;
    assert_eq!(value(&cluster).await?, None);
    assert_ne!(cluster.uid().await?, uid);
    Ok(())
}
