//! A host that may see only some of the objects of a kind.

use anyhow::Result;
use k8s_openapi::api::rbac::v1::PolicyRule;
use patchbay_harness::{Cluster, Filter, Proxy, Scope};
use serde_json::{Value, json};

use crate::world::{World, applying, copy_of, copying, named};

const ACCOUNT: &str = "limited";

fn rule(group: &str, resources: &[&str], verbs: &[&str]) -> PolicyRule {
    let strings = |values: &[&str]| values.iter().map(|value| (*value).to_owned()).collect::<Vec<_>>();
    PolicyRule {
        api_groups: Some(vec![group.to_owned()]),
        resources: Some(strings(resources)),
        verbs: strings(verbs),
        ..PolicyRule::default()
    }
}

/// A host that may do with Scripts and ConfigMaps what it must, and see nothing else but what these rules allow it in its
/// own namespace.
async fn limited(purpose: &str, rules: &[PolicyRule]) -> Result<World> {
    let cluster = Cluster::shared_with_scripts().await?;
    let namespace = cluster.namespace(purpose).await?;
    let everywhere = [
        rule("script.patchbay.dev", &["*"], &["*"]),
        rule("", &["configmaps"], &["*"]),
        rule("events.k8s.io", &["events"], &["create", "patch"]),
    ];
    let kubeconfig = cluster
        .service_account(&namespace, ACCOUNT, &everywhere, Scope::Cluster)
        .await?;
    cluster
        .grant(&namespace, ACCOUNT, "here", rules, Scope::Namespace(&namespace))
        .await?;
    let proxy = Proxy::start_as(&kubeconfig).await?;
    World::behind(cluster, namespace, proxy).await
}

fn looking_at_secrets(names: &[String]) -> PolicyRule {
    let names = (!names.is_empty()).then(|| names.to_vec());
    PolicyRule {
        resource_names: names,
        ..rule("", &["secrets"], &["list", "watch"])
    }
}

fn tolerant(mut query: Value) -> Value {
    query["tolerate"] = true.into();
    query
}

#[tokio::test]
async fn one_object_that_is_granted_by_its_name_is_followed_and_another_is_forbidden() -> Result<()> {
    let world = limited("granted", &[looking_at_secrets(&["source".to_owned()])]).await?;
    world.secret("source", "one").await?;
    world.secret("other", "hidden").await?;
    world.script("s", copying("source")).await?;
    world.copied("one").await?;
    world.secret("source", "two").await?;
    world.copied("two").await?;
    let other = applying(
        json!([tolerant(named("other"))]),
        "other",
        json!({"state": "${state:other}"}),
    );
    world.script("other", other).await?;
    world.config_map("other", json!({"state": "failed Forbidden"})).await?;
    world.secret("source", "three").await?;
    world.copied("three").await?;
    Ok(())
}

#[tokio::test]
async fn many_objects_that_are_granted_by_their_names_are_followed_one_by_one() -> Result<()> {
    let names: Vec<String> = (0..12).map(|number| format!("source-{number}")).collect();
    let world = limited("byname", &[looking_at_secrets(&names)]).await?;
    for name in &names {
        world.secret(name, "one").await?;
        let mut spec = copying(name);
        spec["apply"][0]["object"]["metadata"]["name"] = name.as_str().into();
        world.script(name, spec).await?;
    }
    for value in ["one", "two"] {
        for name in &names {
            world.secret(name, value).await?;
        }
        for name in &names {
            world.config_map(name, copy_of(value)).await?;
        }
    }
    let refused = world.proxy.requests(&Filter::sight().of("secrets").named(""));
    assert!(refused.iter().all(|entry| entry.status == Some(403)), "{refused:?}");
    Ok(())
}

#[tokio::test]
async fn one_namespace_that_is_granted_is_seen_and_the_whole_is_forbidden() -> Result<()> {
    let world = limited("within", &[looking_at_secrets(&[])]).await?;
    let query = |id: &str, namespaces: &str| {
        tolerant(json!({
            "id": id, "apiVersion": "v1", "kind": "Secret", "selected": {"matchLabels": {"app": "a"}},
            "fields": "metadata", "namespaces": namespaces,
        }))
    };
    let queries = json!([query("here", "own"), query("everywhere", "everywhere")]);
    let data = json!({"here": "${names:here}", "everywhere": "${state:everywhere}"});
    world.labelled_secret("one", "v", json!({"app": "a"})).await?;
    world.script("s", applying(queries, "target", data)).await?;
    world
        .target(json!({"here": "one", "everywhere": "failed Forbidden"}))
        .await?;
    world.labelled_secret("two", "v", json!({"app": "a"})).await?;
    world
        .target(json!({"here": "one,two", "everywhere": "failed Forbidden"}))
        .await?;
    world.delete_secret("one").await?;
    world
        .target(json!({"here": "two", "everywhere": "failed Forbidden"}))
        .await?;
    Ok(())
}
