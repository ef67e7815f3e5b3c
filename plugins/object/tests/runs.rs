//! Whole runs of Objects against a few resources in two clusters, without a host.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic as tests do")]

mod common;

use common::{World, config_map, in_cluster_config, object, remote_config};
use patchbay_object::ObjectPlugin;
use patchbay_sdk::conditions;
use patchbay_sdk::{
    ApplyMode, Cluster, Failure, Fields, ObjectReference, Plugin, Primary, QueryFailureReason, QueryTarget, SecretKey,
    Value, WriteAction, WriteFailure, WriteResult, WriteState, json, testing,
};

fn from_bar(field_path: &str) -> Value {
    json!({"patchesFrom": {
        "apiVersion": "v1", "kind": "ConfigMap", "namespace": "default", "name": "bar", "fieldPath": field_path,
    }})
}

/// An Object whose target is the ConfigMap `default/foo`.
fn foo(references: Value) -> Primary {
    object(
        "foo",
        json!({"forProvider": {"manifest": config_map("foo", json!({}))}, "references": references}),
    )
}

fn foo_from_bar() -> Primary {
    foo(json!([from_bar("data.k")]))
}

/// A world in which `bar` holds `data` and `foo` is not there yet.
fn world(data: Value) -> World {
    World::default()
        .own(in_cluster_config("default"))
        .own(config_map("bar", data))
}

fn synced(failure: &Failure) -> Value {
    conditions::get(failure.status.as_ref().unwrap(), "Synced")
        .unwrap()
        .clone()
}

fn with_failed_write(mut primary: Primary, action: WriteAction, message: &str) -> Primary {
    let object = ObjectReference::new("v1", "ConfigMap", "foo")
        .in_namespace("default")
        .cluster(Cluster::HostCluster);
    let failure = WriteFailure {
        code: 422,
        reason: "Invalid".into(),
        message: message.into(),
    };
    primary.last_writes = vec![WriteResult {
        action,
        object,
        state: WriteState::Failed(failure),
    }];
    primary
}

#[test]
fn the_first_round_asks_for_the_provider_config_and_every_source() {
    let primary = foo(json!([from_bar("data.k"), {"dependsOn": {"name": "other"}}]));
    let set = ObjectPlugin::references(&primary, &testing::answers::<String>([])).unwrap();
    assert!(!set.complete);
    let asked: Vec<_> = set
        .queries
        .iter()
        .map(|query| {
            assert!(query.tolerate);
            let QueryTarget::Named(named) = &query.target else {
                panic!("{query:?}")
            };
            assert_eq!(named.object.cluster, Cluster::PrimaryCluster);
            (query.id.as_str(), named.object.to_string(), named.fields.clone())
        })
        .collect();
    assert_eq!(
        asked,
        [
            (
                "provider-config",
                "ProviderConfig default".to_owned(),
                Fields::these(["spec"])
            ),
            (
                "reference-0",
                "ConfigMap default/bar".to_owned(),
                Fields::these(["data.k"])
            ),
            ("reference-1", "Object other".to_owned(), Fields::Paths(vec![])),
        ]
    );
}

#[test]
fn the_second_round_asks_for_the_target_in_the_cluster_of_the_provider_config() {
    let spec = json!({
        "forProvider": {"manifest": config_map("foo", json!({}))},
        "providerConfigRef": {"name": "remote"},
    });
    let primary = object("foo", spec);
    let world = World::default().own(remote_config("remote"));
    let (set, _) = testing::references::<ObjectPlugin>(&primary, |query| world.answer(query)).unwrap();
    let QueryTarget::Named(named) = &set.queries.last().unwrap().target else {
        panic!("{set:?}")
    };
    let remote = Cluster::ByKubeconfig(SecretKey::in_primary_cluster("ns", "remote", "kubeconfig"));
    assert_eq!(
        named.object,
        ObjectReference::new("v1", "ConfigMap", "foo")
            .in_namespace("default")
            .cluster(remote.clone())
    );
    assert_eq!(named.fields, Fields::Whole);
    let outcome = world.reconcile(&primary).unwrap();
    assert_eq!(outcome.applies()[0].cluster, remote);
}

#[test]
fn without_a_source_the_set_is_complete_without_a_target() {
    let world = World::default().own(in_cluster_config("default"));
    let (set, _) = testing::references::<ObjectPlugin>(&foo_from_bar(), |query| world.answer(query)).unwrap();
    let ids: Vec<_> = set.queries.iter().map(|query| query.id.as_str()).collect();
    assert_eq!((ids, set.complete), (vec!["provider-config", "reference-0"], true));
}

#[test]
fn a_missing_target_is_applied_and_the_status_waits() {
    let outcome = world(json!({"k": "v", "other": "o"}))
        .reconcile(&foo_from_bar())
        .unwrap();
    let apply = outcome.applies()[0];
    assert_eq!(apply.object, config_map("foo", json!({"k": "v"})));
    assert_eq!(
        (&apply.mode, apply.force, &apply.cluster),
        (&ApplyMode::Upsert, true, &Cluster::HostCluster)
    );
    assert!(outcome.again_if_written);
    assert_eq!(outcome.status, None);
    assert_eq!(outcome.events.len(), 1);
    assert_eq!(outcome.events[0].reason, "CreatedExternalResource");
    assert_eq!(
        outcome.events[0].message,
        "created ConfigMap default/foo in the cluster of the host"
    );
}

#[test]
fn a_target_that_is_there_is_shown_in_the_status() {
    let mut target = config_map("foo", json!({"k": "v"}));
    target["metadata"]["uid"] = json!("u");
    let outcome = world(json!({"k": "v"}))
        .host(target.clone())
        .reconcile(&foo_from_bar())
        .unwrap();
    assert_eq!(outcome.applies()[0].object, config_map("foo", json!({"k": "v"})));
    assert!(outcome.events.is_empty());
    let status = outcome.status.unwrap();
    assert_eq!(status["atProvider"]["manifest"], target);
    assert!(conditions::is_true(&status, "Synced"));
    assert!(conditions::is_true(&status, "Ready"));
    assert_eq!(status["observedGeneration"], 1);
}

#[test]
fn a_changed_source_changes_the_target_and_nothing_in_the_status() {
    let world_with = |value: &str| world(json!({"k": value})).host(config_map("foo", json!({"k": "old"})));
    let before = world_with("old").reconcile(&foo_from_bar()).unwrap();
    let mut primary = foo_from_bar();
    primary.object.value["status"] = before.status.clone().unwrap();
    let after = world_with("new").reconcile(&primary).unwrap();
    assert_eq!(after.applies()[0].object["data"], json!({"k": "new"}));
    assert_eq!(after.status, before.status);
}

#[test]
fn a_whole_map_follows_with_new_and_without_removed_keys() {
    let primary = foo(json!([from_bar("data")]));
    for data in [
        json!({"a": "1", "b": "2", "c": "3"}),
        json!({"a": "1", "b": "2", "c": "3", "d": "4"}),
        json!({"b": "2"}),
    ] {
        let outcome = world(data.clone()).reconcile(&primary).unwrap();
        assert_eq!(outcome.applies()[0].object["data"], data);
    }
}

#[test]
fn a_label_alone_can_be_copied_onto_what_others_own() {
    let manifest =
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "namespace": "default"}});
    let mut reference = from_bar("data.k");
    reference["toFieldPath"] = json!("metadata.labels['example.org/team']");
    let primary = object(
        "foo",
        json!({"forProvider": {"manifest": manifest}, "references": [reference]}),
    );
    let outcome = world(json!({"k": "blue"})).reconcile(&primary).unwrap();
    let expected = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "d", "namespace": "default", "labels": {"example.org/team": "blue"}},
    });
    assert_eq!(outcome.applies()[0].object, expected);
}

#[test]
fn a_target_without_a_name_gets_the_name_of_the_object() {
    let manifest = json!({"apiVersion": "v1", "kind": "Namespace"});
    let primary = object("team-a", json!({"forProvider": {"manifest": manifest}}));
    let outcome = World::default()
        .own(in_cluster_config("default"))
        .reconcile(&primary)
        .unwrap();
    assert_eq!(outcome.applies()[0].object["metadata"]["name"], "team-a");
}

#[test]
fn a_source_only_on_the_target_cluster_is_missing_and_nothing_is_half_made() {
    let world = World::default()
        .own(in_cluster_config("default"))
        .host(config_map("bar", json!({"k": "v"})));
    let failure = world.reconcile(&foo_from_bar()).unwrap_err();
    let message = "spec.references[0].patchesFrom: ConfigMap default/bar in cluster test-cluster does not exist; sources \
                   are looked for in the Object's own cluster";
    assert_eq!(failure.message, message);
    assert!(!failure.permanent);
    assert_eq!(synced(&failure)["message"], message);
    assert_eq!(synced(&failure)["reason"], "ReconcileError");
}

#[test]
fn a_source_in_another_namespace_is_missing() {
    let mut elsewhere = config_map("bar", json!({"k": "v"}));
    elsewhere["metadata"]["namespace"] = json!("elsewhere");
    let failure = World::default()
        .own(in_cluster_config("default"))
        .own(elsewhere)
        .reconcile(&foo_from_bar())
        .unwrap_err();
    assert!(
        failure
            .message
            .contains("ConfigMap default/bar in cluster test-cluster does not exist"),
        "{failure}"
    );
}

#[test]
fn an_unreadable_source_tells_what_the_cluster_said() {
    let world = World::default().own(in_cluster_config("default")).failing(
        "bar",
        QueryFailureReason::Forbidden,
        "may not list configmaps",
    );
    let failure = world.reconcile(&foo_from_bar()).unwrap_err();
    assert_eq!(
        failure.message,
        "spec.references[0].patchesFrom: cannot read ConfigMap default/bar in cluster test-cluster: may not list configmaps"
    );
}

#[test]
fn a_bad_reference_fails_before_anything_is_asked() {
    let mut reference = from_bar("data.k");
    reference["patchesFrom"]["toFieldPath"] = json!("data.x");
    let failure = ObjectPlugin::references(&foo(json!([reference])), &testing::answers::<String>([])).unwrap_err();
    let message = "spec.references[0].patchesFrom.toFieldPath: unknown field; toFieldPath stands beside patchesFrom";
    assert_eq!((failure.message.as_str(), failure.permanent), (message, true));
    assert_eq!(synced(&failure)["message"], message);
}

#[test]
fn what_is_not_served_is_refused_in_the_condition() {
    let spec = json!({"forProvider": {"manifest": config_map("foo", json!({}))}, "managementPolicies": ["Observe"]});
    let failure = world(json!({})).reconcile(&object("foo", spec)).unwrap_err();
    let message = "spec.managementPolicies: [Observe] is not served yet; use [\"*\"]";
    assert_eq!(
        (synced(&failure)["message"].as_str(), failure.permanent),
        (Some(message), true)
    );
}

#[test]
fn a_failure_keeps_what_the_status_showed() {
    let mut primary = foo_from_bar();
    let before = world(json!({"k": "v"}))
        .host(config_map("foo", json!({})))
        .reconcile(&primary)
        .unwrap()
        .status
        .unwrap();
    primary.object.value["status"] = before.clone();
    let failure = World::default()
        .own(in_cluster_config("default"))
        .reconcile(&primary)
        .unwrap_err();
    let after = failure.status.unwrap();
    assert_eq!(after["atProvider"], before["atProvider"]);
    assert_eq!(conditions::get(&after, "Ready"), conditions::get(&before, "Ready"));
    assert!(!conditions::is_true(&after, "Synced"));
}

#[test]
fn a_failed_apply_is_told_and_not_repeated_in_the_same_run() {
    let primary = with_failed_write(foo_from_bar(), WriteAction::Apply, "field is immutable");
    let failure = world(json!({"k": "v"}))
        .host(config_map("foo", json!({})))
        .reconcile(&primary)
        .unwrap_err();
    assert_eq!(
        failure.message,
        "apply of ConfigMap default/foo failed: field is immutable"
    );
    assert!(!failure.permanent);
    assert_eq!(synced(&failure)["message"], failure.message);
}

#[test]
fn an_unreadable_target_tells_what_the_cluster_said() {
    let world = world(json!({"k": "v"})).failing("foo", QueryFailureReason::Unreachable, "no connection");
    let failure = world.reconcile(&foo_from_bar()).unwrap_err();
    assert_eq!(
        failure.message,
        "cannot read the target ConfigMap default/foo in the cluster of the host: no connection"
    );
}

#[test]
fn values_from_references_are_in_no_message_and_no_event() {
    let secret = "correct-horse-battery";
    let world = || world(json!({"k": secret}));
    let said = format!(r#"data.k: Invalid value: "{secret}": too long, {secret} that is"#);
    let mut named = from_bar("data.k");
    named["toFieldPath"] = json!("metadata.name");

    let failed_apply = with_failed_write(foo_from_bar(), WriteAction::Apply, &said);
    let failed_apply = world().reconcile(&failed_apply).unwrap_err();
    assert!(
        failed_apply.message.contains("too long, [hidden] that is"),
        "{failed_apply}"
    );
    let unreadable = world().failing("foo", QueryFailureReason::Unreachable, &said);
    let unreadable = unreadable.reconcile(&foo_from_bar()).unwrap_err();
    let mut through = from_bar("data.k");
    through["toFieldPath"] = json!("metadata.name.x");
    let bad_path = world().reconcile(&foo(json!([through]))).unwrap_err();
    for failure in [failed_apply, unreadable, bad_path] {
        assert!(!failure.message.contains(secret), "{failure}");
        assert!(!failure.status.unwrap().to_string().contains(secret));
    }
    let created = world().reconcile(&foo(json!([named]))).unwrap();
    assert_eq!(created.applies()[0].object["metadata"]["name"], secret);
    assert_eq!(
        created.events[0].message,
        "created ConfigMap default/[hidden] in the cluster of the host"
    );
}

#[test]
fn a_sanitized_secret_shows_no_value_and_is_ready() {
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "foo", "namespace": "default"},
        "data": {"k": "c2VjcmV0"},
    });
    let mut primary = object("foo", json!({"forProvider": {"manifest": secret}}));
    primary.config = json!({"sanitizeSecrets": true});
    let outcome = world(json!({})).host(secret).reconcile(&primary).unwrap();
    let status = outcome.status.unwrap();
    assert!(!status.to_string().contains("c2VjcmV0"));
    assert!(conditions::is_true(&status, "Ready"));
}

#[test]
fn a_bad_configuration_is_refused_by_name() {
    let mut primary = foo_from_bar();
    primary.config = json!({"sanitizeSecret": true});
    let failure = world(json!({"k": "v"})).reconcile(&primary).unwrap_err();
    assert!(
        failure.message.starts_with("config.sanitizeSecret: unknown field"),
        "{failure}"
    );
}

#[test]
fn a_paused_object_depends_on_nothing_and_writes_nothing() {
    let mut primary = foo_from_bar();
    primary.object.value["metadata"]["annotations"] = json!({"crossplane.io/paused": "true"});
    let (set, _) = testing::references::<ObjectPlugin>(&primary, |query| world(json!({})).answer(query)).unwrap();
    assert!(set.complete && set.queries.is_empty());
    let outcome = world(json!({})).reconcile(&primary).unwrap();
    assert!(outcome.writes.is_empty());
    let status = outcome.status.unwrap();
    assert_eq!(conditions::get(&status, "Synced").unwrap()["reason"], "ReconcilePaused");
}

#[test]
fn readiness_can_follow_the_target() {
    let spec = json!({
        "forProvider": {"manifest": config_map("foo", json!({}))},
        "readiness": {"policy": "DeriveFromObject"},
    });
    for (state, ready) in [("True", true), ("False", false)] {
        let mut target = config_map("foo", json!({}));
        target["status"] = json!({"conditions": [{"type": "Ready", "status": state}]});
        let status = world(json!({}))
            .host(target)
            .reconcile(&object("foo", spec.clone()))
            .unwrap()
            .status
            .unwrap();
        assert_eq!(conditions::is_true(&status, "Ready"), ready);
        assert!(conditions::is_true(&status, "Synced"));
    }
}

#[test]
fn the_plugin_describes_what_it_needs() {
    let description = ObjectPlugin::describe();
    assert_eq!(description.name, "object");
    assert_eq!(
        description.finalizer.as_deref(),
        Some("finalizer.managedresource.crossplane.io")
    );
    assert_eq!(
        description.primaries[0].kind.api_version,
        "kubernetes.crossplane.io/v1alpha2"
    );
    assert_eq!(description.requests.len(), 3);
    let schema: Value = serde_json::from_str(&description.config_schema.unwrap()).unwrap();
    assert_eq!(schema["properties"]["sanitizeSecrets"]["default"], false);
}
