//! Objects that are being deleted, without a host.

mod common;

use common::{World, config_map, in_cluster_config, object, remote_config};
use patchbay_object::ObjectPlugin;
use patchbay_sdk::conditions;
use patchbay_sdk::{
    Cluster, ObjectReference, Primary, Propagation, QueryFailureReason, Value, WriteAction, WriteFailure, WriteResult,
    WriteState, json, testing,
};

fn deleting(mut spec: Value) -> Primary {
    if spec["forProvider"]["manifest"].is_null() {
        spec["forProvider"]["manifest"] = config_map("foo", json!({}));
    }
    let mut primary = object("foo", spec);
    primary.object.value["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    primary
}

fn existing(name: &str) -> Value {
    let mut target = config_map(name, json!({}));
    target["metadata"]["uid"] = json!("the-uid");
    target
}

fn world() -> World {
    World::default().own(in_cluster_config("default"))
}

fn from_bar(to: &str) -> Value {
    json!({
        "patchesFrom": {"apiVersion": "v1", "kind": "ConfigMap", "namespace": "default", "name": "bar", "fieldPath": "data.k"},
        "toFieldPath": to,
    })
}

#[test]
fn the_target_is_deleted_by_its_uid() {
    let finalization = world().host(existing("foo")).finalize(&deleting(json!({}))).unwrap();
    assert!(!finalization.done);
    let outcome = finalization.outcome;
    let deletes = outcome.deletes();
    let expected = ObjectReference::new("v1", "ConfigMap", "foo")
        .in_namespace("default")
        .cluster(Cluster::HostCluster);
    assert_eq!((&deletes[0].object, deletes[0].uid.as_str()), (&expected, "the-uid"));
    assert_eq!(deletes[0].propagation, Propagation::Background);
    assert!(outcome.again_if_written);
    assert_eq!(outcome.events[0].reason, "DeletedExternalResource");
    let status = outcome.status.unwrap();
    assert_eq!(conditions::get(&status, "Ready").unwrap()["reason"], "Deleting");
}

#[test]
fn propagation_is_as_the_spec_says() {
    for (policy, expected) in [
        ("Background", Propagation::Background),
        ("Foreground", Propagation::Foreground),
        ("Orphan", Propagation::Orphan),
    ] {
        let primary = deleting(json!({"forProvider": {"deletionPropagationPolicy": policy}}));
        let finalization = world().host(existing("foo")).finalize(&primary).unwrap();
        assert_eq!(finalization.outcome.deletes()[0].propagation, expected);
    }
}

#[test]
fn an_object_goes_when_its_target_is_gone() {
    let finalization = world().finalize(&deleting(json!({}))).unwrap();
    assert!(finalization.done);
    assert!(finalization.outcome.writes.is_empty());
}

#[test]
fn a_target_that_is_going_is_not_deleted_again() {
    let mut target = existing("foo");
    target["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let finalization = world().host(target).finalize(&deleting(json!({}))).unwrap();
    assert!(!finalization.done);
    assert!(finalization.outcome.writes.is_empty());
}

#[test]
fn references_are_not_resolved_any_more() {
    let primary = deleting(json!({"references": [from_bar("data.k"), {"nonsense": true}]}));
    let mut primary_seen = primary.clone();
    primary_seen.object.value["status"]["atProvider"]["manifest"] = existing("foo");
    let (set, _) = testing::references::<ObjectPlugin>(&primary_seen, |query| world().answer(query)).unwrap();
    let ids: Vec<_> = set.queries.iter().map(|query| query.id.as_str()).collect();
    assert_eq!(ids, ["provider-config", "target"]);
    assert!(world().finalize(&primary_seen).unwrap().done);
}

#[test]
fn the_target_is_the_one_that_was_last_seen() {
    let mut primary = deleting(json!({"references": [from_bar("metadata.name")]}));
    primary.object.value["status"]["atProvider"]["manifest"] = existing("seen");
    let finalization = world()
        .host(existing("foo"))
        .host(existing("seen"))
        .finalize(&primary)
        .unwrap();
    assert_eq!(finalization.outcome.deletes()[0].object.name, "seen");
}

#[test]
fn a_target_that_was_never_named_is_not_guessed() {
    for references in [
        json!([from_bar("metadata.name")]),
        json!([from_bar("metadata")]),
        json!([{"nonsense": true}]),
    ] {
        let primary = deleting(json!({"references": references}));
        let finalization = world().host(existing("foo")).finalize(&primary).unwrap();
        assert!(finalization.done);
        assert!(finalization.outcome.writes.is_empty());
        assert_eq!(finalization.outcome.events[0].reason, "CannotDeleteExternalResource");
    }
}

#[test]
fn orphaning_needs_no_connection() {
    for spec in [
        json!({"deletionPolicy": "Orphan"}),
        json!({"managementPolicies": ["Observe"]}),
    ] {
        let primary = deleting(spec);
        let world = World::default();
        let (set, _) = testing::references::<ObjectPlugin>(&primary, |query| world.answer(query)).unwrap();
        assert!(set.complete && set.queries.is_empty());
        let finalization = world.finalize(&primary).unwrap();
        assert!(finalization.done);
        assert!(finalization.outcome.writes.is_empty());
    }
}

#[test]
fn without_its_provider_config_an_object_says_what_to_do() {
    let failure = World::default().finalize(&deleting(json!({}))).unwrap_err();
    assert_eq!(
        failure.message,
        "cannot delete the target: ProviderConfig default (kubernetes.crossplane.io/v1alpha1) does not exist in cluster \
         test-cluster, which is the Object's own; create it, or name another in spec.providerConfigRef; or \
         set spec.deletionPolicy to Orphan, which lets the Object go and leaves the target"
    );
    assert!(!failure.permanent);
    let status = failure.status.unwrap();
    assert_eq!(conditions::get(&status, "Synced").unwrap()["message"], failure.message);
}

#[test]
fn without_its_credentials_an_object_says_what_to_do() {
    let world = World::default().own(remote_config("default")).failing(
        "foo",
        QueryFailureReason::Unreachable,
        "Secret ns/remote does not exist",
    );
    let failure = world.finalize(&deleting(json!({}))).unwrap_err();
    assert_eq!(
        failure.message,
        "cannot delete the target ConfigMap default/foo in the cluster of ProviderConfig default: Secret ns/remote does \
         not exist; if the cluster or its credentials are gone for good, set \
         spec.deletionPolicy to Orphan, which lets the Object go and leaves the target"
    );
}

#[test]
fn a_failed_delete_is_told_and_not_repeated_in_the_same_run() {
    let mut primary = deleting(json!({}));
    let failed = |action| WriteResult {
        action,
        object: ObjectReference::new("v1", "ConfigMap", "foo").in_namespace("default"),
        state: WriteState::Failed(WriteFailure {
            code: 403,
            reason: "Forbidden".into(),
            message: "may not".into(),
        }),
    };
    primary.last_writes = vec![failed(WriteAction::Delete)];
    let failure = world().host(existing("foo")).finalize(&primary).unwrap_err();
    assert_eq!(failure.message, "delete of ConfigMap default/foo failed: may not");

    primary.last_writes = vec![failed(WriteAction::Apply)];
    let finalization = world().host(existing("foo")).finalize(&primary).unwrap();
    assert_eq!(
        finalization.outcome.deletes().len(),
        1,
        "an apply that failed before does not hold up the deletion"
    );
}

#[test]
fn a_paused_object_stays_with_its_target() {
    let mut primary = deleting(json!({}));
    primary.object.value["metadata"]["annotations"] = json!({"crossplane.io/paused": "true"});
    let finalization = world().host(existing("foo")).finalize(&primary).unwrap();
    assert!(!finalization.done);
    assert!(finalization.outcome.writes.is_empty());
}

#[test]
fn an_object_whose_controller_ends_keeps_its_target() {
    let primary = object(
        "foo",
        json!({"forProvider": {"manifest": config_map("foo", json!({}))}}),
    );
    let finalization = world().host(existing("foo")).finalize(&primary).unwrap();
    assert!(finalization.done);
    assert!(finalization.outcome.writes.is_empty());
}
