//! Which object the target is.

use patchbay_sdk::fieldpath::ValueType;
use patchbay_sdk::{Cluster, ObjectReference, Value};
use serde_json::Map;

use crate::problem::Problem;

/// The id of the query for the target.
pub const QUERY: &str = "target";

const PLACE: &str = "spec.forProvider.manifest";

/// Gives the manifest the Object's name if it has none, and tells which object it describes.
pub fn identify(manifest: &mut Value, object_name: &str, cluster: Cluster) -> Result<ObjectReference, Problem> {
    let Value::Object(fields) = manifest else {
        return Err(refuse(
            "",
            &format!("must be an object, found {}", ValueType::from(&*manifest)),
        ));
    };
    let api_version = text(fields, "", "apiVersion")?
        .ok_or_else(|| refuse(".apiVersion", "missing"))?
        .to_owned();
    let kind = text(fields, "", "kind")?
        .ok_or_else(|| refuse(".kind", "missing"))?
        .to_owned();
    if fields.get("metadata").is_none_or(Value::is_null) {
        fields.insert("metadata".to_owned(), Value::Object(Map::new()));
    }
    let metadata = match fields.get_mut("metadata") {
        Some(Value::Object(metadata)) => metadata,
        other => {
            let found = other.map_or(ValueType::Null, |value| ValueType::from(&*value));
            return Err(refuse(".metadata", &format!("must be an object, found {found}")));
        }
    };
    if text(metadata, ".metadata", "name")?.is_none() {
        metadata.insert("name".to_owned(), object_name.into());
    }
    let name = text(metadata, ".metadata", "name")?.unwrap_or(object_name);
    let reference = ObjectReference::new(api_version, kind, name).cluster(cluster);
    Ok(match text(metadata, ".metadata", "namespace")? {
        Some(namespace) => reference.in_namespace(namespace),
        None => reference,
    })
}

/// What a target was when it was last seen, as the Object's status tells.
pub fn last_seen(manifest: &Value, cluster: Cluster) -> Option<ObjectReference> {
    let text = |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
    let metadata = &manifest["metadata"];
    let reference = ObjectReference::new(
        text(&manifest["apiVersion"])?,
        text(&manifest["kind"])?,
        text(&metadata["name"])?,
    );
    Some(ObjectReference {
        namespace: text(&metadata["namespace"]),
        ..reference.cluster(cluster)
    })
}

/// A field that becomes a part of the target's address. An empty one counts as absent.
fn text<'v>(fields: &'v Map<String, Value>, parent: &str, name: &str) -> Result<Option<&'v str>, Problem> {
    let place = format!("{parent}.{name}");
    match fields.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) if text.is_empty() => Ok(None),
        Some(Value::String(text)) if name != "apiVersion" && !is_path_segment(text) => Err(refuse(
            &place,
            "must not be `.` or `..`, and must not contain `/` or `%`",
        )),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(other) => Err(refuse(
            &place,
            &format!("must be a string, found {}", ValueType::from(other)),
        )),
    }
}

/// Whether a name can stand in a URL's path, which is what every Kubernetes name must.
fn is_path_segment(name: &str) -> bool {
    name != "." && name != ".." && !name.contains(['/', '%'])
}

fn refuse(place: &str, what: &str) -> Problem {
    Problem::permanent(format!("{PLACE}{place}: {what}"))
}

/// How messages call a cluster.
pub fn cluster_name(cluster: &Cluster, provider_config: &str) -> String {
    match cluster {
        Cluster::ByKubeconfig(_) => format!("the cluster of ProviderConfig {provider_config}"),
        Cluster::ById(id) => format!("cluster {id}"),
        Cluster::HostCluster => "the cluster of the host".to_owned(),
        Cluster::PrimaryCluster => "the Object's own cluster".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use patchbay_sdk::json;

    fn identified(mut manifest: Value) -> Result<(ObjectReference, Value), String> {
        let reference =
            identify(&mut manifest, "object-name", Cluster::HostCluster).map_err(|problem| problem.message)?;
        Ok((reference, manifest))
    }

    #[test]
    fn a_manifest_without_a_name_gets_that_of_the_object() {
        for metadata in [json!(null), json!({}), json!({"name": null}), json!({"name": ""})] {
            let manifest = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata});
            let (reference, manifest) = identified(manifest).unwrap();
            assert_eq!(
                reference,
                ObjectReference::new("v1", "Namespace", "object-name").cluster(Cluster::HostCluster)
            );
            assert_eq!(manifest["metadata"]["name"], "object-name");
        }
    }

    #[test]
    fn a_manifest_with_a_name_keeps_it() {
        let manifest = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "n", "namespace": "ns"}});
        let (reference, after) = identified(manifest.clone()).unwrap();
        let expected = ObjectReference::new("v1", "Secret", "n")
            .in_namespace("ns")
            .cluster(Cluster::HostCluster);
        assert_eq!((reference, after), (expected, manifest));
    }

    #[test]
    fn a_manifest_that_names_no_object_is_refused() {
        let kind = |metadata: Value| json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata});
        for (manifest, message) in [
            (json!("text"), ": must be an object, found a string"),
            (json!({"kind": "Secret"}), ".apiVersion: missing"),
            (json!({"apiVersion": "v1", "kind": ""}), ".kind: missing"),
            (kind(json!([])), ".metadata: must be an object, found a list"),
            (
                kind(json!({"name": 5})),
                ".metadata.name: must be a string, found a number",
            ),
            (
                kind(json!({"namespace": {}})),
                ".metadata.namespace: must be a string, found an object",
            ),
            (
                kind(json!({"name": "../secrets/x"})),
                ".metadata.name: must not be `.` or `..`, and must not contain `/` or `%`",
            ),
        ] {
            assert_eq!(identified(manifest), Err(format!("spec.forProvider.manifest{message}")));
        }
    }
}
