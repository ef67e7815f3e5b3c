//! Whole runs of Scripts, without a host.
#![allow(missing_docs, reason = "a test's name says what it shows")]

use patchbay_script::ScriptPlugin;
use patchbay_sdk::testing::{self, failed, found, matches, missing};
use patchbay_sdk::{
    ApplyMode, ApplySet, Failure, Finding, ObjectReference, Outcome, Plugin, Primary, Purpose, Query,
    QueryFailureReason, Value, Write, WriteAction, WriteFailure, WriteResult, WriteState, json,
};

fn script(spec: &str) -> Primary {
    let spec: Value = serde_saphyr::from_str(spec).expect("YAML");
    testing::primary(json!({
        "apiVersion": patchbay_script::API_VERSION, "kind": patchbay_script::KIND,
        "metadata": {"name": "s", "namespace": "n", "generation": 7}, "spec": spec,
    }))
}

fn reconcile(spec: &str, host: impl Fn(&Query) -> Finding) -> Result<Outcome, Failure> {
    testing::reconcile::<ScriptPlugin>(&script(spec), host)
}

const COPY: &str = "
queries:
  - {id: source, apiVersion: v1, kind: ConfigMap, named: {name: a}, fields: {paths: [data.k]}, tolerate: true}
apply:
  - object: {apiVersion: v1, kind: ConfigMap, metadata: {name: b}, data: {k: '${source:data.k}', state: '${state:source}'}}
";

#[test]
fn an_apply_copies_what_was_found() {
    let outcome = reconcile(COPY, |_| found(json!({"data": {"k": "v", "other": 1}}))).unwrap();
    assert_eq!(
        outcome.applies()[0].object,
        json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "b", "namespace": "n"},
            "data": {"k": "v", "state": "found"},
        })
    );
    let outcome = reconcile(COPY, |_| missing()).unwrap();
    assert_eq!(
        outcome.applies()[0].object["data"],
        json!({"k": "", "state": "missing"})
    );
    // It is not known what is there, so nothing is written.
    let failure = reconcile(COPY, |_| failed(QueryFailureReason::Forbidden, "no")).unwrap_err();
    assert_eq!(failure.reason, "Forbidden");
}

#[test]
fn all_kinds_of_writes_come_in_order() {
    let outcome = reconcile(
        "
queries: [{id: t, apiVersion: v1, kind: Secret, named: {name: t}}, {id: none, apiVersion: v1, kind: Secret, named: {name: x}}]
apply:
  - {object: {apiVersion: v1, kind: Secret, metadata: {name: t}}, mode: update, uid: '${t:metadata.uid}', force: true}
  - {object: {apiVersion: v1, kind: Namespace, metadata: {name: c, namespace: ''}}, mode: create, cluster: host}
delete:
  - {object: {apiVersion: v1, kind: Secret, name: t}, uid: '${t:metadata.uid}', propagation: orphan}
  - {object: {apiVersion: v1, kind: Secret, name: x}, uid: '${none:metadata.uid}'}
patch:
  - {object: {apiVersion: v1, kind: Secret, name: t, namespace: m}, operations: [{op: test, path: /a, value: 1}]}
protect: [{apiVersion: v1, kind: Secret, name: t}]
prune: {name: p}
againAfter: 1500
againIfWritten: true
",
        |query| if query.id == "t" { found(json!({"metadata": {"uid": "u"}})) } else { missing() },
    )
    .unwrap();
    let [
        Write::Apply(update),
        Write::Apply(create),
        Write::Delete(delete),
        Write::Patch(patch),
    ] = &outcome.writes[..]
    else {
        panic!("{:?}", outcome.writes)
    };
    assert_eq!((&update.mode, update.force), (&ApplyMode::Update("u".into()), true));
    assert_eq!(create.mode, ApplyMode::Create);
    assert_eq!(create.object["metadata"], json!({"name": "c"}));
    assert_eq!(
        (delete.uid.as_str(), delete.object.to_string()),
        ("u", "Secret n/t".to_owned())
    );
    assert_eq!(
        (patch.object.to_string(), patch.operations.len()),
        ("Secret m/t".to_owned(), 1)
    );
    assert_eq!(
        outcome.protect,
        [ObjectReference::new("v1", "Secret", "t").in_namespace("n")]
    );
    let set = ApplySet {
        name: "p".into(),
        namespace: "n".into(),
    };
    assert_eq!(outcome.prune, Some(set));
    assert_eq!(outcome.again_after, Some(std::time::Duration::from_millis(1500)));
    assert!(outcome.again_if_written);
}

#[test]
fn the_status_tells_what_was_found_and_written() {
    let mut primary = script(
        "
queries: [{id: all, apiVersion: v1, kind: ConfigMap, selected: {}}]
fail: {reason: Told, message: as told, permanent: true}
status: true
",
    );
    primary.last_writes = vec![WriteResult {
        action: WriteAction::Apply,
        object: ObjectReference::new("v1", "ConfigMap", "b"),
        state: WriteState::Failed(WriteFailure {
            code: 409,
            reason: "Conflict".into(),
            message: "at version 12".into(),
        }),
    }];
    let object = |name: &str| json!({"metadata": {"name": name}});
    let failure = testing::reconcile::<ScriptPlugin>(&primary, |_| matches([object("a"), object("b")])).unwrap_err();
    assert_eq!((failure.reason.as_str(), failure.permanent), ("Told", true));
    assert_eq!(
        failure.status,
        Some(json!({
            "observedGeneration": 7,
            "answers": [{"id": "all", "state": "found", "names": ["a", "b"]}],
            "lastWrites": [{"action": "apply", "object": "ConfigMap b", "state": "failed 409 Conflict"}],
        }))
    );
}

#[test]
fn finalizing_answers_what_it_is_told() {
    let run = |purpose: Purpose, deleting: bool, spec: &str| {
        let mut primary = script(spec);
        primary.purpose = purpose;
        if deleting {
            primary.object.value["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        let finalization = testing::finalize::<ScriptPlugin>(&primary, |_| found(json!({"metadata": {"uid": "u"}})));
        finalization
            .map(|finalization| (finalization.done, finalization.outcome.deletes().len()))
            .unwrap()
    };
    let spec = "
queries: [{id: t, apiVersion: v1, kind: Secret, named: {name: t}}]
finalize: {done: false, delete: [{object: {apiVersion: v1, kind: Secret, name: t}, uid: '${t:metadata.uid}'}]}
";
    assert_eq!(run(Purpose::Finalize, true, "{}"), (true, 0));
    assert_eq!(run(Purpose::Finalize, true, spec), (false, 1));
    // Only the controller ends.
    assert_eq!(run(Purpose::Finalize, false, spec), (false, 0));
}

#[test]
fn its_definition_serves_its_primaries() {
    let definition: Value = serde_saphyr::from_str(include_str!("../crds/scripts.yaml")).expect("YAML");
    let kind = &ScriptPlugin::describe().primaries[0].kind;
    let spec = &definition["spec"];
    let version = format!(
        "{}/{}",
        spec["group"].as_str().unwrap(),
        spec["versions"][0]["name"].as_str().unwrap()
    );
    assert_eq!(
        (kind.api_version.as_str(), kind.kind.as_str()),
        (version.as_str(), spec["names"]["kind"].as_str().unwrap())
    );
}
