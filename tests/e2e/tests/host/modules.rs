//! Modules that cannot be loaded beside one that can.

use anyhow::Result;
use patchbay_harness::{Cluster, Host, HostOptions, binaries};
use serde_json::json;
use std::fs;

#[tokio::test]
async fn a_broken_module_and_a_missing_kind_are_told_and_the_rest_runs() -> Result<()> {
    let cluster = Cluster::start().await?;
    let folder = tempfile::tempdir()?;
    fs::copy(
        binaries::plugins()?.join("object.wasm"),
        folder.path().join("object.wasm"),
    )?;
    fs::copy(
        binaries::plugins()?.join("object.wasm"),
        folder.path().join("twice.wasm"),
    )?;
    fs::write(folder.path().join("broken.wasm"), "not WebAssembly")?;
    fs::write(folder.path().join("core.wasm"), b"\0asm\x01\0\0\0")?;
    let options = HostOptions {
        plugins: Some(folder.path().to_owned()),
        ..HostOptions::default()
    };
    let host = Host::start(&cluster, &options).await?;
    let log = host.log();
    for (words, what) in [
        (["plugin broken", "parse"], "no module"),
        (["plugin core", "component"], "a core module"),
        (["plugin twice", "taken by object"], "a second plugin of one name"),
        (
            ["Object", "install its CustomResourceDefinition"],
            "the kind that is not served",
        ),
    ] {
        assert!(
            log.lines().any(|line| words.iter().all(|word| line.contains(word))),
            "{what} is told in {log}"
        );
    }

    // The kind appears, and the host needs no restart.
    cluster.apply_crds().await?;
    cluster.apply(PROVIDER).await?;
    let object = json!({
        "apiVersion": "kubernetes.crossplane.io/v1alpha2", "kind": "Object", "metadata": {"name": "late"},
        "spec": {
            "forProvider": {"manifest": {
                "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "default"}, "data": {"k": "v"},
            }},
            "providerConfigRef": {"name": "kubernetes-provider"},
        },
    });
    cluster.apply(&object.to_string()).await?;
    patchbay_harness::wait_for("the target", std::time::Duration::from_secs(20), async || {
        cluster.get("v1", "ConfigMap", "default", "late").await
    })
    .await?;
    Ok(())
}

pub const PROVIDER: &str = "
apiVersion: kubernetes.crossplane.io/v1alpha1
kind: ProviderConfig
metadata: {name: kubernetes-provider}
spec: {credentials: {source: InjectedIdentity}}
";
