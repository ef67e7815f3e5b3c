//! One plugin in five languages, all in one host on a real API server. Each takes the Mirrors with its label.
#![allow(missing_docs, reason = "a test's name says what it shows")]

use std::time::Duration;

use anyhow::{Result, bail};
use kube::core::DynamicObject;
use patchbay_harness::{Cluster, Host, HostOptions, binaries, condition, wait_for};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

const MIRROR: &str = "examples.patchbay.dev/v1alpha1";
const LANGUAGES: [&str; 5] = ["rust", "go", "python", "javascript", "c"];
/// What "at once" may take on a machine that runs everything else as well.
const SOON: Duration = Duration::from_secs(20);

/// A namespace of a test's own, watched over by the shared host.
struct World {
    cluster: Cluster,
    namespace: String,
}

impl World {
    async fn new(purpose: &str) -> Result<Self> {
        // One host: it compiles the five modules once.
        static HOST: OnceCell<Host> = OnceCell::const_new();
        let cluster = Cluster::shared().await?;
        HOST.get_or_try_init(async || {
            cluster
                .apply_definitions(include_str!("../../../examples/plugins/mirror.crd.yaml"))
                .await?;
            let options = HostOptions {
                plugins: Some(binaries::example_plugins(&LANGUAGES)?),
                ..HostOptions::default()
            };
            Host::start(&cluster, &options).await
        })
        .await?;
        let namespace = cluster.namespace(purpose).await?;
        Ok(World { cluster, namespace })
    }

    async fn apply(&self, object: Value) -> Result<()> {
        self.cluster
            .apply_in(&self.namespace, &object.to_string())
            .await
            .map(drop)
    }

    /// Applies the ConfigMap `source`.
    async fn source(&self) -> Result<()> {
        let metadata = json!({"name": "source"});
        self.apply(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"k": "v"}}))
            .await
    }

    /// Applies a Mirror for each language, each under its name.
    async fn mirrors(&self, spec: Value) -> Result<()> {
        for language in LANGUAGES {
            let labels = json!({"examples.patchbay.dev/language": language});
            let metadata = json!({"name": language, "labels": labels});
            self.apply(json!({"apiVersion": MIRROR, "kind": "Mirror", "metadata": metadata, "spec": spec}))
                .await?;
        }
        Ok(())
    }

    /// Waits until each copy holds these data, and each Mirror says so.
    async fn copies(&self, kind: &str, data: Value) -> Result<()> {
        for language in LANGUAGES {
            self.copy(kind, language, &data).await?;
            self.ready(language, "True", "Copied").await?;
        }
        Ok(())
    }

    async fn copy(&self, kind: &str, name: &str, data: &Value) -> Result<DynamicObject> {
        wait_for(&format!("{kind} {name} to hold {data}"), SOON, async || {
            match self.cluster.get("v1", kind, &self.namespace, name).await? {
                Some(found) if found.data["data"] == *data => Ok(Some(found)),
                Some(found) => bail!("it holds {}", found.data["data"]),
                None => bail!("it is not there"),
            }
        })
        .await
    }

    async fn ready(&self, language: &str, status: &str, reason: &str) -> Result<()> {
        wait_for(
            &format!("Mirror {language} to be {status}, {reason}"),
            SOON,
            async || {
                let mirror = self.cluster.get(MIRROR, "Mirror", &self.namespace, language).await?;
                match mirror.as_ref().and_then(|mirror| condition(mirror, "Ready")) {
                    Some(found) if found.status == status && found.reason == reason => Ok(Some(())),
                    Some(found) => bail!("it is {found}"),
                    None => bail!("it has no condition"),
                }
            },
        )
        .await
    }
}

#[tokio::test]
async fn one_secret_is_edited_and_the_copies_of_all_languages_follow() -> Result<()> {
    let world = World::new("follow").await?;
    let secret = |password: &str| {
        json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "source"},
            "data": {"password": password, "other": "AA=="},
        })
    };
    world.apply(secret("b25l")).await?;
    world
        .mirrors(json!({"from": {"kind": "Secret", "name": "source"}, "keys": ["password"]}))
        .await?;
    world.copies("Secret", json!({"password": "b25l"})).await?;
    for password in ["dHdv", "dGhyZWU="] {
        world.apply(secret(password)).await?;
        world.copies("Secret", json!({"password": password})).await?;
    }
    Ok(())
}

#[tokio::test]
async fn the_example_of_the_readme_works() -> Result<()> {
    let world = World::new("readme").await?;
    let applied = world
        .cluster
        .apply(include_str!("../../../examples/plugins/mirror.yaml"))
        .await?;
    let world = World {
        namespace: applied[0].metadata.namespace.clone().unwrap_or_default(),
        ..world
    };
    let copied = json!({"password": "Zmlyc3Q="});
    world.copy("Secret", "database-password", &copied).await?;
    world.ready("database-password", "True", "Copied").await
}

#[tokio::test]
async fn a_missing_source_is_told_and_followed_when_it_appears() -> Result<()> {
    let world = World::new("missing").await?;
    world
        .mirrors(json!({"from": {"kind": "ConfigMap", "name": "source"}}))
        .await?;
    for language in LANGUAGES {
        world.ready(language, "False", "SourceMissing").await?;
    }
    world.source().await?;
    world.copies("ConfigMap", json!({"k": "v"})).await
}

#[tokio::test]
async fn a_copy_that_somebody_edits_is_told_and_one_that_is_deleted_is_made_again() -> Result<()> {
    let world = World::new("copies").await?;
    world.source().await?;
    world
        .mirrors(json!({"from": {"kind": "ConfigMap", "name": "source"}}))
        .await?;
    world.copies("ConfigMap", json!({"k": "v"})).await?;
    for language in LANGUAGES {
        let edit = json!({"data": {"k": "mine"}});
        world
            .cluster
            .patch("v1", "ConfigMap", &world.namespace, language, edit)
            .await?;
    }
    for language in LANGUAGES {
        world.ready(language, "False", "WriteFailed").await?;
        world
            .cluster
            .delete("v1", "ConfigMap", &world.namespace, language)
            .await?;
    }
    world.copies("ConfigMap", json!({"k": "v"})).await
}

#[tokio::test]
async fn a_deleted_mirror_takes_its_copy_along() -> Result<()> {
    let world = World::new("deleted").await?;
    world.source().await?;
    world
        .mirrors(json!({"from": {"kind": "ConfigMap", "name": "source"}}))
        .await?;
    world.copies("ConfigMap", json!({"k": "v"})).await?;
    for language in LANGUAGES {
        world
            .cluster
            .delete(MIRROR, "Mirror", &world.namespace, language)
            .await?;
    }
    for language in LANGUAGES {
        let what = format!("the copy of {language} to go with its Mirror");
        wait_for(&what, SOON, async || {
            let copy = world.cluster.get("v1", "ConfigMap", &world.namespace, language).await?;
            Ok(copy.is_none().then_some(()))
        })
        .await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_source_in_another_namespace_must_allow_it() -> Result<()> {
    let world = World::new("allowed").await?;
    let other = world.cluster.namespace("other").await?;
    let source = |annotations: Value| {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap", "data": {"k": "v"},
            "metadata": {"name": "source", "namespace": other, "annotations": annotations},
        })
    };
    world.apply(source(json!({}))).await?;
    world
        .mirrors(json!({"from": {"kind": "ConfigMap", "name": "source", "namespace": other}}))
        .await?;
    for language in LANGUAGES {
        world.ready(language, "False", "NotAllowed").await?;
    }
    world
        .apply(source(json!({"examples.patchbay.dev/mirror-to": world.namespace})))
        .await?;
    world.copies("ConfigMap", json!({"k": "v"})).await
}
