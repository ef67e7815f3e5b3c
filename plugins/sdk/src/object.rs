//! Objects as the host has seen them.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::Failure;

/// An object as it was last seen.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Object {
    /// The id of its cluster, stable as long as the cluster is the same.
    pub cluster_id: String,
    /// `metadata.resourceVersion`, which `value` does not hold.
    pub resource_version: String,
    /// What the query declared of it, or all of a primary.
    pub value: Value,
}

/// What became of an object that a declared watch covers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Change {
    /// The object before; absent if it was not there or not covered.
    pub before: Option<Object>,
    /// The object now; absent if it is gone or no longer covered.
    pub after: Option<Object>,
}

impl Object {
    /// `metadata.name`, empty if it is not among the fields that the query declared.
    pub fn name(&self) -> &str {
        self.metadata("name").unwrap_or_default()
    }

    /// `metadata.namespace`; absent for objects of cluster-scoped kinds.
    pub fn namespace(&self) -> Option<&str> {
        self.metadata("namespace").filter(|namespace| !namespace.is_empty())
    }

    /// `metadata.uid`, which every query declares.
    pub fn uid(&self) -> &str {
        self.metadata("uid").unwrap_or_default()
    }

    /// `metadata.generation`, which counts the changes of `spec`.
    pub fn generation(&self) -> Option<i64> {
        self.value["metadata"]["generation"].as_i64()
    }

    /// Whether the object is being deleted, which every query declares.
    pub fn is_deleting(&self) -> bool {
        self.metadata("deletionTimestamp").is_some()
    }

    /// The value of a label.
    pub fn label(&self, key: &str) -> Option<&str> {
        self.value["metadata"]["labels"][key].as_str()
    }

    /// The value of an annotation.
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.value["metadata"]["annotations"][key].as_str()
    }

    fn metadata(&self, field: &str) -> Option<&str> {
        self.value["metadata"][field].as_str()
    }

    /// A field of the object as a type of the plugin's. An absent one counts as an empty object.
    ///
    /// # Errors
    /// A permanent failure that names the place inside the field that does not fit.
    pub fn field<T: DeserializeOwned>(&self, name: &str) -> Result<T, Failure> {
        parse(&self.value[name], name)
    }
}

/// `value` as a `T`; `place` is how messages call it.
pub(crate) fn parse<T: DeserializeOwned>(value: &Value, place: &str) -> Result<T, Failure> {
    let empty = Value::Object(Map::new());
    let value = if value.is_null() { &empty } else { value };
    serde_path_to_error::deserialize(value).map_err(|error| {
        let path = error.path().to_string();
        let separator = if path.starts_with('[') { "" } else { "." };
        let place = if path == "." {
            place.to_owned()
        } else {
            format!("{place}{separator}{path}")
        };
        Failure::permanent("InvalidObject", format!("{place}: {}", error.into_inner()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[derive(Debug, serde::Deserialize, PartialEq)]
    struct Spec {
        items: Vec<Item>,
    }

    #[derive(Debug, serde::Deserialize, PartialEq)]
    struct Item {
        name: String,
    }

    fn object(value: Value) -> Object {
        Object {
            value,
            ..Object::default()
        }
    }

    #[test]
    fn metadata_is_read() {
        let object = object(json!({"metadata": {
            "name": "n", "namespace": "ns", "uid": "u", "generation": 3, "deletionTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"l": "1"}, "annotations": {"a.b/c": "2"},
        }}));
        assert_eq!(
            (object.name(), object.namespace(), object.uid()),
            ("n", Some("ns"), "u")
        );
        assert_eq!((object.generation(), object.is_deleting()), (Some(3), true));
        assert_eq!((object.label("l"), object.annotation("a.b/c")), (Some("1"), Some("2")));
    }

    #[test]
    fn an_object_without_metadata_has_none() {
        let object = object(json!("text"));
        assert_eq!(
            (object.name(), object.namespace(), object.is_deleting()),
            ("", None, false)
        );
    }

    #[test]
    fn a_field_that_does_not_fit_is_named() {
        for (value, message) in [
            (json!({}), "spec: missing field `items`"),
            (
                json!({"spec": {"items": 1}}),
                "spec.items: invalid type: integer `1`, expected a sequence",
            ),
            (
                json!({"spec": {"items": [{"name": "a"}, {}]}}),
                "spec.items[1]: missing field `name`",
            ),
        ] {
            let failure = object(value).field::<Spec>("spec").unwrap_err();
            assert_eq!(failure.message, message);
            assert!(failure.permanent);
        }
    }
}
