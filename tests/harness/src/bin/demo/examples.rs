//! The manifests in `examples/object`, and what they copy from where to where.

use anyhow::{Context, Result};
use kube::core::DynamicObject;
use patchbay_fieldpath::FieldPath;
use patchbay_harness::Cluster;
use serde_json::Value;

/// The version of the kind Object.
pub const API_VERSION: &str = "kubernetes.crossplane.io/v1alpha2";

/// Where the examples have their sources and targets.
pub const NAMESPACE: &str = "patchbay-example";

macro_rules! example {
    ($name:literal) => {
        ($name, include_str!(concat!("../../../../../examples/object/", $name)))
    };
}

/// What the demo applies, in this order: names and contents.
const EXAMPLES: [(&str, &str); 5] = [
    example!("00-provider-config.yaml"),
    example!("copy-from-secret.yaml"),
    example!("copy-from-configmap.yaml"),
    example!("key-with-dots.yaml"),
    example!("into-a-deployment.yaml"),
];

/// A value in an object.
#[derive(Debug, Clone, PartialEq)]
pub struct Place {
    /// The apiVersion of the object.
    pub api_version: String,
    /// The kind of the object.
    pub kind: String,
    /// The namespace of the object.
    pub namespace: String,
    /// The name of the object.
    pub name: String,
    /// Where in the object.
    pub path: FieldPath,
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}/{}, {}", self.kind, self.namespace, self.name, self.path)
    }
}

/// What one Object copies.
#[derive(Debug, Clone, PartialEq)]
pub struct Route {
    /// The name of the Object.
    pub object: String,
    /// Where it takes the value from.
    pub source: Place,
    /// Where it puts it.
    pub target: Place,
}

/// Applies the examples, and gives the routes of their Objects.
pub async fn apply(cluster: &Cluster) -> Result<Vec<Route>> {
    let mut routes = Vec::new();
    for (name, manifests) in EXAMPLES {
        let applied = cluster
            .apply(manifests)
            .await
            .with_context(|| format!("examples/object/{name}"))?;
        for object in applied {
            if object
                .types
                .as_ref()
                .is_some_and(|types| types.api_version == API_VERSION && types.kind == "Object")
            {
                routes.push(route(&object).with_context(|| format!("examples/object/{name}"))?);
            }
        }
    }
    Ok(routes)
}

fn route(object: &DynamicObject) -> Result<Route> {
    let spec = &object.data["spec"];
    let reference = &spec["references"][0];
    let source = &reference["patchesFrom"];
    let manifest = &spec["forProvider"]["manifest"];
    let metadata = &manifest["metadata"];
    Ok(Route {
        object: object.metadata.name.clone().context("an Object without a name")?,
        source: place(source, source, &source["fieldPath"])?,
        target: place(manifest, metadata, &reference["toFieldPath"])?,
    })
}

fn place(kind: &Value, name: &Value, path: &Value) -> Result<Place> {
    let text = |value: &Value, what| value.as_str().map(str::to_owned).with_context(|| format!("no {what}"));
    Ok(Place {
        api_version: text(&kind["apiVersion"], "apiVersion")?,
        kind: text(&kind["kind"], "kind")?,
        namespace: text(&name["namespace"], "namespace")?,
        name: text(&name["name"], "name")?,
        path: FieldPath::parse(&text(path, "path")?)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_example_with_an_object_has_a_route() {
        let mut routes = Vec::new();
        for (name, manifests) in EXAMPLES {
            for object in serde_saphyr::from_multiple::<DynamicObject>(manifests).unwrap() {
                if object.types.as_ref().is_some_and(|types| types.kind == "Object") {
                    routes.push(route(&object).context(name).unwrap());
                }
            }
        }
        let shown: Vec<_> = routes
            .iter()
            .map(|route| format!("{} -> {}", route.source, route.target))
            .collect();
        assert_eq!(
            shown[..2],
            [
                "Secret patchbay-example/database, data.password -> Secret patchbay-example/application, data.database-password",
                "ConfigMap patchbay-example/shared-settings, data.log-level -> \
                 ConfigMap patchbay-example/application-settings, data.LOG_LEVEL",
            ]
        );
        assert_eq!(shown.len(), 4);
    }
}
