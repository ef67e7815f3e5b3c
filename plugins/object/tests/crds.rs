//! The CRD files say what the plugin reads.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic as tests do")]

use patchbay_object::{API_VERSION, KIND};
use serde_json::{Value, json};

fn crd(text: &str) -> Value {
    serde_saphyr::from_str(text).unwrap()
}

fn objects() -> Value {
    crd(include_str!("../crds/objects.yaml"))
}

fn provider_configs() -> Value {
    crd(include_str!("../crds/providerconfigs.yaml"))
}

fn spec_schema(crd: &Value) -> &Value {
    &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
}

#[test]
fn the_version_that_the_plugin_reconciles_is_served_and_stored() {
    let crd = objects();
    let version = &crd["spec"]["versions"][0];
    let group = crd["spec"]["group"].as_str().unwrap();
    assert_eq!(format!("{group}/{}", version["name"].as_str().unwrap()), API_VERSION);
    assert_eq!(crd["spec"]["names"]["kind"], KIND);
    assert_eq!((&version["served"], &version["storage"]), (&json!(true), &json!(true)));
    assert_eq!(crd["spec"]["scope"], "Cluster");
}

#[test]
fn defaults_and_enums_are_those_that_manifests_count_on() {
    let crd = objects();
    let spec = spec_schema(&crd);
    let provider = &spec["forProvider"]["properties"];
    for (field, default, values) in [
        (&spec["deletionPolicy"], json!("Delete"), json!(["Orphan", "Delete"])),
        (
            &spec["readiness"]["properties"]["policy"],
            json!("SuccessfulCreate"),
            json!(["SuccessfulCreate", "DeriveFromObject", "AllTrue", "DeriveFromCelQuery"]),
        ),
        (
            &provider["deletionPropagationPolicy"],
            json!("Background"),
            json!(["Orphan", "Background", "Foreground"]),
        ),
    ] {
        assert_eq!((&field["default"], &field["enum"]), (&default, &values));
    }
    assert_eq!(spec["providerConfigRef"]["default"], json!({"name": "default"}));
    assert_eq!(spec["managementPolicies"]["default"], json!(["*"]));
    assert_eq!(spec["watch"]["default"], false);
    assert_eq!(
        provider_configs()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["credentials"]
            ["properties"]["source"]["enum"],
        json!(["None", "Secret", "InjectedIdentity", "Environment", "Filesystem"])
    );
}

#[test]
fn a_reference_keeps_unknown_fields_so_that_they_can_be_refused() {
    let crd = objects();
    let item = &spec_schema(&crd)["references"]["items"];
    let parts = [
        item,
        &item["properties"]["dependsOn"],
        &item["properties"]["patchesFrom"],
    ];
    for part in parts {
        assert_eq!(part["x-kubernetes-preserve-unknown-fields"], true);
    }
    for part in &parts[1..] {
        assert_eq!(
            part["properties"]["apiVersion"]["default"],
            "kubernetes.crossplane.io/v1alpha1"
        );
        assert_eq!(part["properties"]["kind"]["default"], "Object");
    }
}

#[test]
fn every_field_is_described() {
    for crd in [objects(), provider_configs()] {
        let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"];
        for part in ["spec", "status"] {
            undescribed(&schema[part], part);
        }
    }
}

fn undescribed(schema: &Value, path: &str) {
    assert!(schema["description"].is_string(), "{path} has no description");
    if let Some(fields) = schema["properties"].as_object() {
        for (name, field) in fields {
            undescribed(field, &format!("{path}.{name}"));
        }
    }
}
