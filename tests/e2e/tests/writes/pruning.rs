//! Sets of applied objects (KEP-3659): labelled, recorded, and without what is no longer applied.

use anyhow::{Context, Result};
use kube::api::{Api, DynamicObject, ListParams};
use patchbay_harness::{Fault, Filter, Refusal, Verb};
use serde_json::{Value, json};

use crate::world::{World, config_map, list, query, states, uid, version};

const PART_OF: &str = "applyset.kubernetes.io/part-of";
const ID: &str = "applyset.kubernetes.io/id";

fn member(name: &str) -> Value {
    json!({"object": config_map(name, json!({"k": "v"}))})
}

fn secret(name: &str) -> Value {
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": {"k": "v"}});
    json!({"object": secret})
}

/// A Script's spec with these members.
fn set(members: &[Value]) -> Value {
    json!({"apply": members, "prune": {}})
}

fn label<'a>(object: &'a DynamicObject, name: &str) -> &'a str {
    let labels = object.metadata.labels.as_ref();
    labels.and_then(|labels| labels.get(name)).map_or("", String::as_str)
}

/// The parents of sets in the test's namespace.
async fn parents(world: &World) -> Result<Vec<DynamicObject>> {
    let api: Api<DynamicObject> = world.cluster.api("v1", "ConfigMap", &world.namespace).await?;
    Ok(api.list(&ListParams::default().labels(ID)).await?.items)
}

async fn parent(world: &World) -> Result<DynamicObject> {
    let mut parents = parents(world).await?;
    assert!(parents.len() <= 1, "{parents:?}");
    parents.pop().context("no parent")
}

fn annotation(parent: &DynamicObject, name: &str) -> String {
    let annotations = parent.metadata.annotations.clone().unwrap_or_default();
    let found = annotations.get(&format!("applyset.kubernetes.io/{name}"));
    found.cloned().unwrap_or_else(|| "absent".to_owned())
}

#[tokio::test]
async fn a_set_is_labelled_and_recorded_as_kubectl_knows_it() -> Result<()> {
    let world = World::new("labels").await?;
    let other = world.cluster.namespace("labels-other").await?;
    let mut elsewhere = secret("elsewhere");
    elsewhere["object"]["metadata"]["namespace"] = other.as_str().into();
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "role"}, "rules": [],
    });
    world
        .script("s", set(&[member("one"), elsewhere, json!({"object": role})]))
        .await?;
    world.done("s").await?;

    let parent = parent(&world).await?;
    let id = label(&parent, ID);
    let hash = id.strip_prefix("applyset-").and_then(|rest| rest.strip_suffix("-v1"));
    assert_eq!(hash.map(str::len), Some(43), "base64 of a SHA-256: {id}");
    assert!(annotation(&parent, "tooling").starts_with("patchbay/v"));
    assert_eq!(
        annotation(&parent, "contains-group-kinds"),
        "ConfigMap,Role.rbac.authorization.k8s.io,Secret"
    );
    assert_eq!(annotation(&parent, "additional-namespaces"), other);
    let elsewhere = world.cluster.get("v1", "Secret", &other, "elsewhere").await?;
    for object in [
        world.there("ConfigMap", "one").await?,
        world.there("Role", "role").await?,
        elsewhere.context("the one elsewhere")?,
    ] {
        assert_eq!(label(&object, PART_OF), id);
    }
    assert_eq!(label(&parent, PART_OF), "", "the parent is no member");
    let written: Vec<_> = world.proxy.requests(&Filter::writes().not_of("scripts"));
    let first = &written.first().context("writes")?.request.name;
    assert_eq!(
        *first,
        parent.metadata.name.clone().unwrap_or_default(),
        "it records first"
    );

    // What the parent records shrinks with the set.
    world.script("s", set(&[member("one")])).await?;
    world.done("s").await?;
    let gone = world.cluster.get("v1", "Secret", &other, "elsewhere").await?;
    assert!(gone.is_none() && world.get("Role", "role").await?.is_none());
    let parent = self::parent(&world).await?;
    assert_eq!(annotation(&parent, "contains-group-kinds"), "ConfigMap");
    assert_eq!(annotation(&parent, "additional-namespaces"), "");
    assert_eq!(
        label(&parent, ID),
        label(&world.there("ConfigMap", "one").await?, PART_OF)
    );
    Ok(())
}

#[tokio::test]
async fn members_that_are_no_longer_applied_are_deleted_and_nothing_else() -> Result<()> {
    let mut world = World::new("prune").await?;
    world.config_map("foreign", json!({})).await?;
    world.script("other", set(&[member("others")])).await?;
    world
        .script("s", set(&[member("a"), member("b"), secret("c"), member("d")]))
        .await?;
    for script in ["s", "other"] {
        world.done(script).await?;
    }
    let a = world.there("ConfigMap", "a").await?;
    world.script("s", set(&[member("a"), member("d")])).await?;
    world.gone("ConfigMap", "b").await?;
    world.gone("Secret", "c").await?;
    world.done("s").await?;
    let deletes = world.proxy.requests(&Filter::verbs([Verb::Delete]));
    assert_eq!(deletes.len(), 2, "{deletes:?}");

    // So it is if the host did not run meanwhile.
    world.stop();
    world.script("s", set(&[member("a")])).await?;
    world.start().await?;
    world.gone("ConfigMap", "d").await?;
    world.done("s").await?;
    let again = world.there("ConfigMap", "a").await?;
    assert_eq!(
        (uid(&again), version(&again)),
        (uid(&a), version(&a)),
        "it was left alone"
    );
    for name in ["foreign", "others"] {
        world.there("ConfigMap", name).await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_script_that_goes_takes_its_set_along() -> Result<()> {
    let mut world = World::new("goes").await?;
    let other = world.cluster.namespace("goes-other").await?;
    let mut elsewhere = member("elsewhere");
    elsewhere["object"]["metadata"]["namespace"] = other.as_str().into();
    world.script("s", set(&[member("a"), secret("b"), elsewhere])).await?;
    world.script("t", set(&[member("stays")])).await?;
    world.done("s").await?;
    world.done("t").await?;
    assert_eq!(parents(&world).await?.len(), 2);
    world.delete_script("s").await?;
    world.gone("Script", "s").await?;
    assert!(world.get("ConfigMap", "a").await?.is_none() && world.get("Secret", "b").await?.is_none());
    let gone = world.cluster.get("v1", "ConfigMap", &other, "elsewhere").await?;
    assert!(gone.is_none());
    assert_eq!(parents(&world).await?.len(), 1, "its parent has gone, too");
    world.there("ConfigMap", "stays").await?;

    world.restart().await?;
    world.delete_script("t").await?;
    world.gone("Script", "t").await?;
    assert!(world.get("ConfigMap", "stays").await?.is_none());
    assert!(parents(&world).await?.is_empty());
    Ok(())
}

#[tokio::test]
async fn a_member_of_another_set_is_refused() -> Result<()> {
    let world = World::new("other-set").await?;
    let mut theirs = config_map("theirs", json!({"k": "theirs"}));
    theirs["metadata"]["labels"] = json!({PART_OF: "applyset-other-v1"});
    let before = world.apply(theirs).await?;
    let mut wanted = member("theirs");
    for force in [false, true] {
        wanted["force"] = force.into();
        world.script("s", set(&[wanted.clone()])).await?;
        let words = ["theirs", "member of another ApplySet", "applyset-other-v1"];
        world.failed("s", &words).await?;
    }
    let after = world.there("ConfigMap", "theirs").await?;
    assert_eq!(version(&after), version(&before));

    // Two Scripts are two sets.
    world.script("one", set(&[member("both")])).await?;
    world.done("one").await?;
    world.script("two", set(&[member("both")])).await?;
    let set_of_one = label(&world.there("ConfigMap", "both").await?, PART_OF).to_owned();
    world
        .failed("two", &["both", "member of another ApplySet", &set_of_one])
        .await?;
    // What one lets go of, the other may have.
    world.script("one", set(&[])).await?;
    world
        .until("be the other's", "ConfigMap", "both", |object| {
            ![&*set_of_one, ""].contains(&label(object, PART_OF))
        })
        .await?;
    Ok(())
}

#[tokio::test]
async fn nothing_is_pruned_after_an_apply_that_failed() -> Result<()> {
    let world = World::new("failed").await?;
    world.script("s", set(&[member("a"), member("b")])).await?;
    world.done("s").await?;
    let refused = Filter::writes().of("configmaps").named("c");
    let fault = world.proxy.fault(refused, Fault::Answer(Refusal::internal_error()));
    world.script("s", set(&[member("c"), member("a")])).await?;
    let run = world.failed("s", &["answered by the fault proxy"]).await?;
    assert_eq!(states(&run), ["failed", "skipped"]);
    world.there("ConfigMap", "b").await?;
    fault.lift();
    world.gone("ConfigMap", "b").await?;
    world.there("ConfigMap", "c").await?;
    Ok(())
}

#[tokio::test]
async fn nothing_is_pruned_while_a_kind_cannot_be_listed() -> Result<()> {
    let world = World::new("unlistable").await?;
    world.script("s", set(&[member("a"), member("b"), secret("c")])).await?;
    world.done("s").await?;
    let lists = Filter::verbs([Verb::List]).of("secrets").in_namespace(&world.namespace);
    let fault = world.proxy.fault(lists, Fault::Answer(Refusal::forbidden()));
    world.script("s", set(&[member("a")])).await?;
    world.failed("s", &["Forbidden: answered by the fault proxy"]).await?;
    world.there("ConfigMap", "b").await?;
    world.there("Secret", "c").await?;
    // Nor does the Script itself go meanwhile.
    world.delete_script("s").await?;
    let finalizing = |primary: &Value| {
        let deleted = |run: &Value| run["wakes"].to_string().contains("Script") && run["result"] == "writeFailed";
        list(&primary["runs"]).iter().any(deleted)
    };
    world.explained("fail to finalize", "s", finalizing).await?;
    world.there("ConfigMap", "a").await?;
    fault.lift();
    world.gone("Script", "s").await?;
    for (kind, name) in [("ConfigMap", "a"), ("ConfigMap", "b"), ("Secret", "c")] {
        assert!(world.get(kind, name).await?.is_none(), "{kind} {name}");
    }
    Ok(())
}

#[tokio::test]
async fn a_parent_that_is_no_parent_or_another_tools_is_left_alone() -> Result<()> {
    let world = World::new("parent").await?;
    world.script("s", set(&[member("a"), member("b")])).await?;
    world.done("s").await?;
    let name = parent(&world).await?.metadata.name.context("a name")?;
    let tooling = json!({"metadata": {"annotations": {"applyset.kubernetes.io/tooling": "kubectl/v1.32"}}});
    world
        .cluster
        .patch("v1", "ConfigMap", &world.namespace, &name, tooling)
        .await?;
    world.script("s", set(&[member("a")])).await?;
    world.failed("s", &[&name, "cannot be used", "kubectl/v1.32"]).await?;
    world.there("ConfigMap", "b").await?;
    Ok(())
}

#[tokio::test]
async fn members_of_a_kind_that_is_not_served_are_kept_in_mind() -> Result<()> {
    let world = World::new("unserved").await?;
    let group = format!("{}.example.org", world.namespace);
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("things.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced", "names": {"kind": "Thing", "plural": "things", "singular": "thing"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
            }],
        },
    });
    world.cluster.apply_definitions(&definition.to_string()).await?;
    let thing = json!({"apiVersion": format!("{group}/v1"), "kind": "Thing", "metadata": {"name": "thing"}});
    world.script("s", set(&[member("a"), json!({"object": thing})])).await?;
    world.done("s").await?;

    let mut unserved = definition.clone();
    unserved["spec"]["versions"][0]["served"] = false.into();
    let other = json!({
        "name": "v2", "served": false, "storage": false,
        "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
    });
    unserved["spec"]["versions"]
        .as_array_mut()
        .context("versions")?
        .push(other);
    world.apply(unserved).await?;
    world.until_unserved(&format!("{group}/v1"), "Thing").await?;
    world.script("s", set(&[member("a"), member("b")])).await?;
    world.done("s").await?;
    let parent = parent(&world).await?;
    let kinds = format!("ConfigMap,Thing.{group}");
    assert_eq!(
        annotation(&parent, "contains-group-kinds"),
        kinds,
        "it is not forgotten"
    );

    world.cluster.apply_definitions(&definition.to_string()).await?;
    world.script("s", set(&[member("b")])).await?;
    let api_version = format!("{group}/v1");
    patchbay_harness::wait_for("the member to be pruned", crate::world::SOON, async || {
        let thing = world
            .cluster
            .get(&api_version, "Thing", &world.namespace, "thing")
            .await?;
        Ok(thing.is_none().then_some(()))
    })
    .await?;
    Ok(())
}

#[tokio::test]
async fn members_that_a_script_also_queries_are_its_own_still() -> Result<()> {
    let world = World::new("queried").await?;
    let mut spec = set(&[member("a"), member("b")]);
    spec["queries"] = json!([query("a", "a"), query("b", "b")]);
    world.script("s", spec.clone()).await?;
    world.done("s").await?;
    // Somebody takes the label off and edits: both come back.
    let edit = json!({"metadata": {"labels": {PART_OF: null}}, "data": {"k": "edited"}});
    let labelled = world.there("ConfigMap", "a").await?;
    world
        .cluster
        .patch("v1", "ConfigMap", &world.namespace, "a", edit)
        .await
        .map(drop)?;
    spec["apply"][0]["force"] = true.into();
    world.script("s", spec).await?;
    world.data("a", json!({"k": "v"})).await?;
    world.done("s").await?;
    let again = world.there("ConfigMap", "a").await?;
    assert_eq!(label(&again, PART_OF), label(&labelled, PART_OF));
    Ok(())
}
