//! Kinds that are served in two versions, or are another than before.

use anyhow::Result;
use patchbay_harness::wait_for;
use serde_json::{Value, json};

use crate::world::{SOON, World, applying};

/// The definition of a kind Gadget in a group of its own.
fn definition(group: &str, scope: &str, versions: &[&str]) -> Value {
    let schema = json!({"openAPIV3Schema": {
        "type": "object", "properties": {"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
    }});
    let version =
        |name: &&str| json!({"name": name, "served": true, "storage": *name == versions[0], "schema": schema});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("gadgets.{group}")},
        "spec": {
            "group": group, "scope": scope, "versions": versions.iter().map(version).collect::<Vec<_>>(),
            "names": {"kind": "Gadget", "listKind": "GadgetList", "plural": "gadgets", "singular": "gadget"},
        },
    })
}

fn gadget(group: &str, version: &str, value: &str) -> Value {
    json!({
        "apiVersion": format!("{group}/{version}"), "kind": "Gadget", "metadata": {"name": "g"}, "spec": {"k": value},
    })
}

#[tokio::test]
async fn an_object_is_followed_in_each_version_of_its_kind() -> Result<()> {
    let world = World::new("versions").await?;
    let group = "versions.example.org";
    world
        .cluster
        .apply_definitions(&definition(group, "Namespaced", &["v1", "v2"]).to_string())
        .await?;
    world.apply(gadget(group, "v1", "one")).await?;
    let data = json!({"k": "${g:spec.k}", "version": "${g:apiVersion}"});
    for version in ["v1", "v2"] {
        let query = json!({
            "id": "g", "apiVersion": format!("{group}/{version}"), "kind": "Gadget", "named": {"name": "g"},
        });
        world
            .script(version, applying(json!([query]), version, data.clone()))
            .await?;
    }
    let follow = async |value: &str| -> Result<()> {
        for version in ["v1", "v2"] {
            let data = json!({"k": value, "version": format!("{group}/{version}")});
            world.config_map(version, data).await?;
        }
        Ok(())
    };
    follow("one").await?;
    world.apply(gadget(group, "v2", "two")).await?;
    follow("two").await?;
    world.apply(gadget(group, "v1", "three")).await?;
    follow("three").await?;
    world
        .cluster
        .delete(&format!("{group}/v1"), "Gadget", &world.namespace, "g")
        .await?;
    for version in ["v1", "v2"] {
        world.config_map(version, json!({"k": "", "version": ""})).await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_kind_that_is_deleted_and_defined_anew_with_another_scope_is_followed() -> Result<()> {
    let world = World::new("scope").await?;
    let group = "scope.example.org";
    let query = |id: &str, named: Value| {
        json!({
            "id": id, "apiVersion": format!("{group}/v1"), "kind": "Gadget", "named": named, "tolerate": true,
        })
    };
    let queries = json!([
        query("inside", json!({"name": "g"})),
        query("outside", json!({"name": "g", "namespace": ""})),
    ]);
    let data = json!({"inside": "${state:inside}", "outside": "${state:outside}"});
    world.script("s", applying(queries, "target", data)).await?;
    let states = async |inside: &str, outside: &str| {
        world
            .target(json!({"inside": inside, "outside": outside}))
            .await
            .map(drop)
    };
    states("failed NoSuchKind", "failed NoSuchKind").await?;

    world
        .cluster
        .apply_definitions(&definition(group, "Namespaced", &["v1"]).to_string())
        .await?;
    states("missing", "failed Invalid").await?;
    world.apply(gadget(group, "v1", "one")).await?;
    states("found", "failed Invalid").await?;

    let name = format!("gadgets.{group}");
    let (api_version, kind) = ("apiextensions.k8s.io/v1", "CustomResourceDefinition");
    world.cluster.delete(api_version, kind, "", &name).await?;
    wait_for("the definition to be gone", SOON, async || {
        Ok(world
            .cluster
            .get(api_version, kind, "", &name)
            .await?
            .is_none()
            .then_some(()))
    })
    .await?;
    states("failed NoSuchKind", "failed NoSuchKind").await?;

    world
        .cluster
        .apply_definitions(&definition(group, "Cluster", &["v1"]).to_string())
        .await?;
    states("failed Invalid", "missing").await?;
    world.apply(gadget(group, "v1", "two")).await?;
    states("failed Invalid", "found").await
}
