//! Fields that an update left with a manager, given to its applies.
//!
//! The API server keeps apart what a manager owns by server-side apply and by updates, and a create is an update. What is owned
//! by an update, no apply takes off again.

use serde_json::{Map, Value, json};

use crate::managed::{Entry, Fields, Identity, entries, matched};
use crate::normal::is_nothing;
use crate::ownership::owned_fields;

/// The mended `managedFields` of an object.
#[derive(Debug, PartialEq)]
pub(crate) struct Migration {
    pub(crate) managed_fields: Value,
    /// The manager now owns more by server-side apply than it applied last, so that it has to apply once more.
    pub(crate) surplus: bool,
}

/// How to mend an object in which an update left fields with this manager; none if it did not. If the object has just been
/// created, what it was `created_from` says which of its fields an apply would own: not those with default values.
pub(crate) fn migration(observed: &Value, manager: &str, created_from: Option<&Value>) -> Option<Migration> {
    let (mut applied, mut updated) = (None, None);
    for (position, entry) in entries(observed).enumerate() {
        if entry.is_of(manager) {
            let place = if entry.applied { &mut applied } else { &mut updated };
            place.get_or_insert((position, entry));
        }
    }
    let (left, update) = updated?;
    let (kept, fields, surplus) = match (&applied, created_from) {
        (None, Some(desired)) => {
            let fields = restricted(update.fields, &owned_fields(desired)?.into());
            (left, fields.filter(|fields| *fields != json!({})), false)
        }
        (None, None) => (left, Some(update.fields.to_value()), true),
        (Some((kept, apply)), _) => {
            let (before, fields) = (apply.fields.to_value(), united(apply, &update)?);
            let surplus = fields != before;
            (*kept, Some(fields), surplus)
        }
    };
    let mut managed_fields = observed["metadata"]["managedFields"].as_array()?.clone();
    // An entry in an unknown format would shift the positions.
    if managed_fields.len() != entries(observed).count() {
        return None;
    }
    match fields {
        Some(fields) => {
            managed_fields[kept]["operation"] = "Apply".into();
            managed_fields[kept]["fieldsV1"] = fields;
            if kept != left {
                managed_fields.remove(left);
            }
        }
        None => drop(managed_fields.remove(left)),
    }
    Some(Migration {
        managed_fields: managed_fields.into(),
        surplus,
    })
}

/// The patch that mends it, unless it has changed since.
pub(crate) fn patch(version: &str, managed_fields: &Value) -> Value {
    let nobody = managed_fields.as_array().is_some_and(Vec::is_empty);
    // API servers leave the list as it is if it comes empty. An entry that is empty strips it.
    let managed_fields = if nobody { &json!([{}]) } else { managed_fields };
    json!([
        {"op": "test", "path": "/metadata/resourceVersion", "value": version},
        {"op": "replace", "path": "/metadata/managedFields", "value": managed_fields},
    ])
}

/// What both own; none if it is said of two versions of the kind, whose fields may differ.
fn united(apply: &Entry<'_>, update: &Entry<'_>) -> Option<Value> {
    let mut fields = apply.fields.to_value();
    if let (Value::Object(fields), Value::Object(more)) = (&mut fields, update.fields.to_value()) {
        unite(fields, more);
    }
    (apply.api_version == update.api_version).then_some(fields)
}

fn unite(fields: &mut Map<String, Value>, more: Map<String, Value>) {
    for (name, more) in more {
        match (fields.get_mut(&name), more) {
            (Some(Value::Object(fields)), Value::Object(more)) => {
                if fields.is_empty() != more.is_empty() {
                    // One owns the place itself, the other parts of it.
                    fields.insert(".".to_owned(), json!({}));
                }
                unite(fields, more);
            }
            (_, more) => drop(fields.insert(name, more)),
        }
    }
}

/// Of what the creation of an object made its manager own, what an apply of the same object would have.
fn restricted(fields: Fields<'_>, desired: &Value) -> Option<Value> {
    if fields.is_whole() {
        return Some(json!({}));
    }
    match desired {
        Value::Object(map) => {
            let parts = map.iter().filter_map(|(name, desired)| {
                let part = match fields.field(name) {
                    Some(part) => restricted(part, desired)?,
                    None if is_nothing(desired) => json!({}),
                    None => return None,
                };
                Some((format!("f:{name}"), part))
            });
            let parts: Map<_, _> = parts.collect();
            (map.is_empty() || !parts.is_empty()).then(|| parts.into())
        }
        Value::Array(list) => restricted_list(fields, list).or_else(|| Some(fields.to_value())),
        _ => Some(fields.to_value()),
    }
}

fn restricted_list(fields: Fields<'_>, desired: &[Value]) -> Option<Value> {
    let elements = fields.elements()?;
    let matched = matched(desired, &elements)?;
    let parts = desired.iter().zip(matched).map(|(desired, element)| {
        let element = &elements[element];
        let mut part = restricted(element.fields, desired)?;
        if let Identity::Key(_) = element.identity {
            part["."] = json!({});
        }
        Some((element.name.to_owned(), part))
    });
    parts.collect::<Option<Map<_, _>>>().map(Value::Object)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(entries: Value) -> Value {
        json!({"metadata": {"managedFields": entries}})
    }

    fn entry(manager: &str, operation: &str, fields: Value) -> Value {
        json!({"manager": manager, "operation": operation, "apiVersion": "v1", "fieldsV1": fields})
    }

    #[test]
    fn a_created_object_is_owned_as_if_it_had_been_applied() {
        let update = json!({
            "f:metadata": {"f:finalizers": {".": {}, "v:\"a.b/c\"": {}}, "f:annotations": {".": {}, "f:webhook": {}}},
            "f:spec": {
                "f:replicas": {}, "f:selector": {},
                "f:containers": {
                    "k:{\"name\":\"injected\"}": {".": {}, "f:name": {}},
                    "k:{\"name\":\"app\"}": {
                        ".": {}, "f:name": {}, "f:args": {}, "f:imagePullPolicy": {},
                        "f:ports": {".": {}, "k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {".": {}, "f:containerPort": {}, "f:protocol": {}}},
                    },
                },
            },
            "f:data": {".": {}, "f:a": {}, "f:b": {}},
        });
        let desired = json!({
            "apiVersion": "v1", "kind": "Any", "metadata": {"name": "n", "finalizers": ["a.b/c"], "creationTimestamp": null},
            "spec": {"selector": {"x": "y"}, "containers": [{"name": "app", "args": ["x"], "ports": [{"containerPort": 80}]}], "more": {}},
            "data": {"a": "1", "b": "2"},
        });
        let expected = json!({
            "f:metadata": {"f:finalizers": {"v:\"a.b/c\"": {}}},
            "f:spec": {
                "f:selector": {}, "f:more": {},
                "f:containers": {
                    "k:{\"name\":\"app\"}": {
                        ".": {}, "f:name": {}, "f:args": {},
                        "f:ports": {"k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {".": {}, "f:containerPort": {}}},
                    },
                },
            },
            "f:data": {"f:a": {}, "f:b": {}},
        });
        let other = entry("other", "Update", json!({"f:x": {}}));
        let observed = object(json!([other, entry("me", "Update", update)]));
        let migration = migration(&observed, "me", Some(&desired)).expect("to be mended");
        assert_eq!(migration.managed_fields, json!([other, entry("me", "Apply", expected)]));
        assert!(!migration.surplus);
    }

    #[test]
    fn an_object_created_with_nothing_but_a_name_is_owned_by_nobody() {
        let observed = object(json!([entry(
            "me",
            "Update",
            json!({"f:metadata": {"f:annotations": {"f:webhook": {}}}})
        )]));
        let desired = json!({"apiVersion": "v1", "kind": "Any", "metadata": {"name": "n"}});
        let migration = migration(&observed, "me", Some(&desired)).expect("to be mended");
        assert_eq!(migration.managed_fields, json!([]));
    }

    #[test]
    fn what_an_update_left_is_joined_to_what_was_applied() {
        let applied = entry("me", "Apply", json!({"f:data": {"f:a": {}}, "f:set": {}}));
        let updated = entry(
            "me",
            "Update",
            json!({"f:data": {".": {}, "f:a": {}, "f:b": {}}, "f:set": {"v:\"x\"": {}}}),
        );
        let migration = migration(&object(json!([updated, applied])), "me", None).expect("to be mended");
        let united = json!({"f:data": {".": {}, "f:a": {}, "f:b": {}}, "f:set": {".": {}, "v:\"x\"": {}}});
        assert_eq!(migration.managed_fields, json!([entry("me", "Apply", united)]));
        assert!(migration.surplus);
    }

    #[test]
    fn what_was_applied_as_well_needs_no_further_apply() {
        let applied = entry("me", "Apply", json!({"f:data": {"f:a": {}, "f:b": {}}}));
        let updated = entry("me", "Update", json!({"f:data": {"f:a": {}}}));
        let mended = migration(&object(json!([applied, updated])), "me", None).expect("to be mended");
        assert_eq!((mended.managed_fields, mended.surplus), (json!([applied]), false));
    }

    #[test]
    fn others_and_subresources_are_left_alone() {
        let mut status = entry("me", "Update", json!({"f:status": {}}));
        status["subresource"] = "status".into();
        let foreign = entry("other", "Update", json!({"f:data": {}}));
        let applied = entry("me", "Apply", json!({"f:data": {}}));
        assert_eq!(migration(&object(json!([status, foreign, applied])), "me", None), None);
        let mut old = entry("me", "Update", json!({"f:data": {}}));
        old["apiVersion"] = "v1beta1".into();
        assert_eq!(
            migration(&object(json!([old, applied])), "me", None),
            None,
            "its fields may be others"
        );
    }
}
