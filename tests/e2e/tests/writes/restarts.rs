//! A host that starts anew knows nothing of what it wrote. The objects have to tell it.

use anyhow::Result;
use kube::api::{Api, ListParams};
use patchbay_harness::{Entry, Filter, Snapshot, Verb};
use serde_json::{Value, json};

use crate::world::{SCRIPT, World, api_version, config_map};

/// Objects of kinds whose fields the API server completes, encodes or orders, with lists of all sorts.
fn objects(suffix: &str) -> Vec<Value> {
    let name = |kind: &str| format!("{kind}-{suffix}");
    vec![
        config_map(&name("plain"), json!({"k": "v", "empty": ""})),
        json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name("bare")},
        }),
        json!({
            "apiVersion": "v1", "kind": "ConfigMap", "binaryData": {"b": "AAEC"}, "immutable": true,
            "metadata": {
                "name": name("metadata"), "labels": {"example.org/l": "1"}, "annotations": {"a": ""},
                "finalizers": ["example.org/one", "example.org/two"],
            },
        }),
        json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name("encoded")},
            "stringData": {"plain": "text", "both": "plain wins"}, "data": {"both": "ZW5jb2RlZA==", "raw": "cmF3"},
        }),
        json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": name("service")},
            "spec": {
                "selector": {"app": "a"},
                "ports": [
                    {"name": "dns", "port": 53, "protocol": "UDP"}, {"name": "web", "port": 80, "targetPort": "http"},
                ],
            },
        }),
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name("deployment")},
            "spec": {
                "selector": {"matchLabels": {"app": "a"}},
                "template": {
                    "metadata": {"labels": {"app": "a"}},
                    "spec": {
                        "containers": [
                            {
                                "name": "b", "image": "b:1", "args": ["x", "y"], "ports": [{"containerPort": 80}],
                                "env": [{"name": "E", "value": "1"}],
                                "resources": {"limits": {"cpu": "1", "memory": "64Mi"}},
                                "volumeMounts": [{"name": "v", "mountPath": "/v"}],
                            },
                            {"name": "a", "image": "a:1", "securityContext": {"capabilities": {"drop": ["ALL"]}}},
                        ],
                        "volumes": [{"name": "v", "emptyDir": {}}],
                        "tolerations": [{"operator": "Exists"}],
                        "imagePullSecrets": [{"name": "pull"}],
                    },
                },
            },
        }),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": name("role")},
            "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}],
        }),
        json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": name("policy")},
            "spec": {"podSelector": {}, "policyTypes": ["Ingress"], "ingress": [{"ports": [{"port": 80}]}]},
        }),
        json!({
            "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": name("scaler")},
            "spec": {
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}, "maxReplicas": 3,
                "metrics": [{
                    "type": "Resource",
                    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 70}},
                }],
            },
        }),
    ]
}

/// Whether it is the apply of an object whose rules are a list that is owned as one, and in which the API server sets defaults: that
/// these are as the manager wants them, only an apply can tell. It changes nothing.
fn asks(entry: &Entry) -> bool {
    entry.request.verb == Verb::Apply && entry.request.resource == "networkpolicies"
}

/// What there is in the test's namespace.
async fn here(world: &World) -> Result<Snapshot> {
    let mut snapshot = world.cluster.snapshot().await?;
    let place = format!(" {}/", world.namespace);
    snapshot.objects.retain(|key, _| key.contains(&place));
    snapshot.leases.retain(|key, _| key.contains(&place));
    snapshot.events.retain(|key, _| key.contains(&place));
    Ok(snapshot)
}

/// The names of all Scripts.
async fn scripts(world: &World) -> Result<Vec<String>> {
    let api: Api<_> = world.cluster.api(SCRIPT, "Script", &world.namespace).await?;
    let scripts = api.list(&ListParams::default()).await?;
    Ok(scripts
        .items
        .into_iter()
        .filter_map(|script| script.metadata.name)
        .collect())
}

async fn all_done(world: &World) -> Result<()> {
    for script in scripts(world).await? {
        world.done(&script).await?;
    }
    world.rest().await.map(drop)
}

#[tokio::test]
async fn after_a_restart_nothing_is_written() -> Result<()> {
    let mut world = World::new("rest").await?;
    for (script, mode, force) in [
        ("upsert", "upsert", false),
        ("create", "create", false),
        ("force", "upsert", true),
    ] {
        let apply = |object| json!({"object": object, "mode": mode, "force": force});
        let apply: Vec<Value> = objects(script).into_iter().map(apply).collect();
        world.script(script, json!({"apply": apply})).await?;
    }
    // With all else that a run may write: protection, an ApplySet, a status, which must not tell of a last run's writes here.
    world
        .apply(json!({"apiVersion": api_version("Lease"), "kind": "Lease", "metadata": {"name": "protected"}}))
        .await?;
    let protected = json!({"apiVersion": api_version("Lease"), "kind": "Lease", "name": "protected"});
    let query = json!({
        "id": "protected", "apiVersion": api_version("Lease"), "kind": "Lease", "named": {"name": "protected"},
    });
    let member = json!({"object": config_map("member", json!({"k": "v"}))});
    world
        .script(
            "protect",
            json!({"queries": [query], "protect": [protected], "prune": {}, "apply": [member]}),
        )
        .await?;
    world
        .script("status", json!({"queries": [query], "status": true}))
        .await?;
    all_done(&world).await?;

    world.stop();
    let (before, writes) = (here(&world).await?, world.proxy.count(&Filter::writes()));
    world.start().await?;
    all_done(&world).await?;
    let written = &world.proxy.requests(&Filter::writes())[writes..];
    let unexpected = written.iter().filter(|entry| !asks(entry));
    assert_eq!(unexpected.collect::<Vec<_>>(), Vec::<&Entry>::new());
    assert_eq!(here(&world).await?, before);
    Ok(())
}

#[tokio::test]
async fn what_was_changed_while_no_host_ran_is_set_right_and_nothing_else_is_touched() -> Result<()> {
    let mut world = World::new("meanwhile").await?;
    for name in ["edited", "deleted", "taken", "dropped", "left"] {
        let object = config_map(name, json!({"k": "v", "l": "w"}));
        world
            .script(name, json!({"apply": [{"object": object, "force": true}]}))
            .await?;
    }
    all_done(&world).await?;
    let left = world.there("ConfigMap", "left").await?;
    world.stop();

    world.force("other", "edited", json!({"k": "edited"})).await?;
    world
        .cluster
        .delete("v1", "ConfigMap", &world.namespace, "deleted")
        .await?;
    // The same value, but somebody else's: to stay is to own it together.
    world.force("other", "taken", json!({"k": "v"})).await?;
    let fewer = config_map("dropped", json!({"k": "v"}));
    world
        .script("dropped", json!({"apply": [{"object": fewer, "force": true}]}))
        .await?;
    let taken = world.there("ConfigMap", "taken").await?;

    world.start().await?;
    let whole = json!({"k": "v", "l": "w"});
    world.data("edited", whole.clone()).await?;
    world.data("deleted", whole.clone()).await?;
    world.data("dropped", json!({"k": "v"})).await?;
    all_done(&world).await?;
    for before in [left, taken] {
        let name = before.metadata.name.clone().unwrap_or_default();
        let now = world.there("ConfigMap", &name).await?;
        assert_eq!(
            now.metadata.resource_version, before.metadata.resource_version,
            "{name}"
        );
    }
    Ok(())
}
