//! Whether an apply would change nothing.

use serde_json::{Map, Value};

use crate::managed::{Element, Fields, Identity, entries, matched};
use crate::normal::{is_nothing, normal, same};

/// Fields of `metadata` that tell which object it is. No manager owns them.
const IDENTITY: [&str; 3] = ["name", "namespace", "uid"];

/// Whether an object holds every field that is desired, and `managedFields` name this manager as the owner of exactly
/// these, by server-side apply. If it does, applying what is desired would change nothing.
///
/// What atomic lists and maps are, only the API server's schema says; here it is read from `managedFields`. Whatever is not
/// certain counts as no: an apply too many changes nothing either.
pub fn holds(desired: &Value, observed: &Value, manager: &str) -> bool {
    let (desired, observed) = (normal(desired), normal(observed));
    let (mut own, mut others) = (None, Vec::new());
    for entry in entries(&observed) {
        if !entry.is_of(manager) {
            others.push(entry.fields);
        } else if !entry.applied || own.replace(entry).is_some() {
            return false;
        }
    }
    let (Some(fields), true) = (owned_fields(&desired), same_object(&desired, &observed)) else {
        return false;
    };
    match own {
        None => fields.is_empty(),
        Some(own) => {
            let place = Place {
                own: own.fields,
                others,
            };
            desired["apiVersion"] == own.api_version && place.map(&fields, &observed)
        }
    }
}

/// Whether an object is one that this manager created, and holds every field that is desired, whoever owns it and whatever
/// the API server has added. It need not be created again.
pub fn is_creation(desired: &Value, observed: &Value, manager: &str) -> bool {
    let (desired, observed) = (normal(desired), normal(observed));
    let own = entries(&observed).any(|entry| entry.is_of(manager));
    let fields = owned_fields(&desired);
    own && same_object(&desired, &observed) && fields.is_some_and(|fields| includes(&fields.into(), Some(&observed)))
}

fn includes(desired: &Value, observed: Option<&Value>) -> bool {
    match (desired, observed) {
        (desired, None | Some(Value::Null)) => is_nothing(desired),
        (Value::Object(desired), Some(observed @ Value::Object(_))) => desired
            .iter()
            .all(|(name, desired)| includes(desired, observed.get(name))),
        (Value::Array(desired), Some(Value::Array(observed))) => {
            let found = |desired| observed.iter().any(|observed| includes(desired, Some(observed)));
            desired.iter().all(found)
        }
        (desired, Some(observed)) => same(desired, observed),
    }
}

fn same_object(desired: &Value, observed: &Value) -> bool {
    IDENTITY.iter().all(|field| {
        let desired = desired["metadata"][field].as_str().filter(|text| !text.is_empty());
        desired.is_none_or(|desired| observed["metadata"][field] == desired)
    })
}

/// The fields of an object that a manager can own.
pub(crate) fn owned_fields(object: &Value) -> Option<Map<String, Value>> {
    let mut fields = object.as_object()?.clone();
    fields.retain(|name, _| name != "apiVersion" && name != "kind");
    if let Some(Value::Object(metadata)) = fields.get_mut("metadata") {
        // Encoders of Go structs write the time of an object that has none yet as null.
        metadata.retain(|name, value| {
            !(IDENTITY.contains(&name.as_str()) || name == "creationTimestamp" && value.is_null())
        });
        if metadata.is_empty() {
            fields.remove("metadata");
        }
    }
    Some(fields)
}

/// What this manager and the others own at one place of an object.
struct Place<'a> {
    own: Fields<'a>,
    others: Vec<Fields<'a>>,
}

impl<'a> Place<'a> {
    fn part(&self, name: &str) -> Option<Place<'a>> {
        let others = self.others.iter().filter_map(|other| other.part(name));
        Some(Place {
            own: self.own.part(name)?,
            others: others.collect(),
        })
    }

    fn value(&self, desired: &Value, observed: Option<&Value>) -> bool {
        match (desired, observed) {
            // It was left out, or there was nothing to keep of it.
            (_, None | Some(Value::Null)) => self.own.is_whole() && is_nothing(desired),
            (Value::Null, Some(_)) => false,
            (_, Some(observed)) if self.own.is_whole() => {
                // Where others own parts, it is not atomic, and owning the whole was owning an empty one.
                self.others.iter().all(|other| other.is_whole()) && same(desired, observed)
            }
            (Value::Object(desired), Some(observed)) => self.map(desired, observed),
            (Value::Array(desired), Some(Value::Array(observed))) => self.list(desired, observed),
            _ => false,
        }
    }

    /// A map whose fields are owned one by one.
    fn map(&self, desired: &Map<String, Value>, observed: &Value) -> bool {
        let fields = desired.iter().all(|(name, desired)| {
            let place = self.part(&format!("f:{name}"));
            place.is_some_and(|place| place.value(desired, observed.get(name)))
        });
        fields && self.own.parts().count() == desired.len()
    }

    /// A list whose elements are owned one by one.
    fn list(&self, desired: &[Value], observed: &[Value]) -> bool {
        let Some(elements) = self.own.elements().filter(|elements| elements.len() == desired.len()) else {
            return false;
        };
        let Some(matched) = matched(desired, &elements) else {
            return false;
        };
        // An apply restores the order of its elements among each other.
        let mut after = 0;
        desired.iter().zip(matched).all(|(desired, element)| {
            let element = &elements[element];
            let mut found = (0..observed.len()).filter(|position| element.is(&observed[*position]));
            let (Some(position), None) = (found.next(), found.next()) else {
                return false;
            };
            let in_order = position >= after;
            after = position + 1;
            in_order && self.element(element, desired, &observed[position])
        })
    }

    fn element(&self, element: &Element<'_>, desired: &Value, observed: &Value) -> bool {
        match element.identity {
            Identity::Value(_) => true,
            Identity::Key(_) => self
                .part(element.name)
                .is_some_and(|place| place.value(desired, Some(observed))),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    const MANAGER: &str = "me";

    /// An object with `spec`, of which each of these managers owns something.
    fn observed(spec: Value, owners: &[(&str, Value)]) -> Value {
        let entries = owners.iter().map(|(manager, fields)| {
            json!({
                "manager": manager, "operation": "Apply", "apiVersion": "example.org/v1", "fieldsType": "FieldsV1",
                "fieldsV1": if fields.is_null() { json!({}) } else { json!({"f:spec": fields}) },
            })
        });
        let managed: Vec<Value> = entries.collect();
        let metadata =
            json!({"name": "n", "namespace": "s", "uid": "u", "resourceVersion": "7", "managedFields": managed});
        json!({"apiVersion": "example.org/v1", "kind": "Thing", "metadata": metadata, "spec": spec})
    }

    fn desired(spec: Value) -> Value {
        let metadata = json!({"name": "n", "namespace": "s", "creationTimestamp": null});
        json!({"apiVersion": "example.org/v1", "kind": "Thing", "metadata": metadata, "spec": spec})
    }

    /// Whether nothing is to be applied of one value under `spec`.
    fn rests(wanted: Value, there: Value, owned: Value) -> bool {
        holds(&desired(wanted), &observed(there, &[(MANAGER, owned)]), MANAGER)
    }

    #[test]
    fn what_is_owned_and_as_desired_rests() {
        let owned = json!({"f:a": {}, "f:b": {".": {}, "f:c": {}}});
        let wanted = json!({"a": 1, "b": {"c": "x"}});
        assert!(rests(
            wanted.clone(),
            json!({"a": 1, "b": {"c": "x", "d": "foreign"}, "e": 1}),
            owned.clone()
        ));
        assert!(
            !rests(wanted.clone(), json!({"a": 2, "b": {"c": "x"}}), owned.clone()),
            "edited"
        );
        assert!(
            !rests(wanted.clone(), json!({"a": 1, "b": {}}), owned.clone()),
            "taken out"
        );
        let fewer = json!({"f:a": {}});
        assert!(!rests(wanted, json!({"a": 1, "b": {"c": "x"}}), fewer), "taken over");
        let more = json!({"f:a": {}, "f:b": {"f:c": {}, "f:d": {}}});
        assert!(
            !rests(json!({"a": 1, "b": {"c": "x"}}), json!({"a": 1, "b": {"c": "x"}}), more),
            "no longer desired"
        );
    }

    #[test]
    fn another_object_or_another_way_of_owning_does_not_rest() {
        let (owned, spec) = (json!({"f:a": {}}), json!({"a": 1}));
        let there = observed(spec.clone(), &[(MANAGER, owned.clone())]);
        assert!(holds(&desired(spec.clone()), &there, MANAGER));
        assert!(!holds(&desired(spec.clone()), &there, "other"));
        for (path, value) in [
            ("/metadata/managedFields/0/operation", json!("Update")),
            ("/metadata/managedFields/0/subresource", json!("status")),
            ("/metadata/managedFields/0/apiVersion", json!("example.org/v2")),
            ("/metadata/managedFields/0/fieldsV1", json!("?")),
            ("/metadata/name", json!("other")),
        ] {
            let mut other = there.clone();
            let place = match other.pointer_mut(path) {
                Some(place) => place,
                None => &mut other["metadata"]["managedFields"][0]["subresource"],
            };
            *place = value;
            assert!(!holds(&desired(spec.clone()), &other, MANAGER), "{path}");
        }
        let mut wanted = desired(spec);
        wanted["metadata"]["uid"] = "v".into();
        assert!(!holds(&wanted, &there, MANAGER));
    }

    #[test]
    fn what_an_update_left_with_the_manager_is_to_be_merged() {
        let mut there = observed(
            json!({"a": 1}),
            &[(MANAGER, json!({"f:a": {}})), (MANAGER, json!({"f:a": {}}))],
        );
        there["metadata"]["managedFields"][1]["operation"] = "Update".into();
        assert!(!holds(&desired(json!({"a": 1})), &there, MANAGER));
        there["metadata"]["managedFields"][1]["manager"] = "other".into();
        assert!(holds(&desired(json!({"a": 1})), &there, MANAGER));
    }

    #[test]
    fn what_was_created_is_recognised_whatever_was_added_to_it() {
        let rules = json!({"rules": [{"ports": [{"port": 80}]}], "empty": {}});
        let completed = json!({"rules": [{"ports": [{"port": 80, "protocol": "TCP"}]}]});
        let there = observed(completed, &[(MANAGER, json!({"f:rules": {}}))]);
        assert!(
            !holds(&desired(rules.clone()), &there, MANAGER),
            "an apply may change something"
        );
        assert!(is_creation(&desired(rules.clone()), &there, MANAGER));
        assert!(!is_creation(&desired(rules), &there, "other"));
        for other in [json!({"rules": [{"ports": [{"port": 81}]}]}), json!({"more": 1})] {
            assert!(!is_creation(&desired(other), &there, MANAGER));
        }
    }

    #[test]
    fn of_an_object_without_fields_nothing_is_owned() {
        let mut wanted = desired(Value::Null);
        wanted.as_object_mut().expect("an object").remove("spec");
        assert!(holds(&wanted, &observed(json!({"a": 1}), &[]), MANAGER));
        assert!(!holds(
            &desired(json!({"a": 1})),
            &observed(json!({"a": 1}), &[]),
            MANAGER
        ));
    }

    #[test]
    fn containers_are_told_apart_by_their_names_and_ports_with_defaults() {
        let owned = json!({"f:containers": {
            "k:{\"name\":\"app\"}": {".": {}, "f:image": {}, "f:name": {}, "f:args": {}, "f:ports": {
                "k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {".": {}, "f:containerPort": {}},
            }},
        }});
        let wanted =
            json!({"containers": [{"name": "app", "image": "i", "args": ["a"], "ports": [{"containerPort": 80}]}]});
        let app = json!({
            "name": "app", "image": "i", "args": ["a"], "imagePullPolicy": "Always",
            "ports": [{"containerPort": 80, "protocol": "TCP"}],
        });
        let sidecar = json!({"name": "sidecar", "image": "s"});
        assert!(rests(
            wanted.clone(),
            json!({"containers": [sidecar, app]}),
            owned.clone()
        ));
        let mut edited = app.clone();
        edited["ports"][0]["protocol"] = "UDP".into();
        assert!(!rests(wanted.clone(), json!({"containers": [edited]}), owned.clone()));
        let mut edited = app.clone();
        edited["args"] = json!(["a", "b"]);
        assert!(!rests(wanted.clone(), json!({"containers": [edited]}), owned.clone()));
        assert!(!rests(wanted.clone(), json!({"containers": [sidecar]}), owned.clone()));
        assert!(!rests(wanted.clone(), json!({"containers": [app, app]}), owned.clone()));
        let mut taken = owned;
        taken["f:containers"]["k:{\"name\":\"app\"}"]
            .as_object_mut()
            .expect("fields")
            .remove("f:image");
        assert!(
            !rests(wanted, json!({"containers": [app]}), taken),
            "the image is somebody else's"
        );
    }

    #[test]
    fn the_elements_of_a_set_and_their_order_count() {
        let owned = json!({"f:finalizers": {"v:\"a\"": {}, "v:\"b\"": {}}});
        let wanted = json!({"finalizers": ["a", "b"]});
        assert!(rests(
            wanted.clone(),
            json!({"finalizers": ["c", "a", "d", "b"]}),
            owned.clone()
        ));
        assert!(!rests(wanted.clone(), json!({"finalizers": ["b", "a"]}), owned.clone()));
        assert!(!rests(wanted.clone(), json!({"finalizers": ["a"]}), owned.clone()));
        assert!(!rests(
            json!({"finalizers": ["a"]}),
            json!({"finalizers": ["a", "b"]}),
            owned
        ));
    }

    #[test]
    fn atomic_lists_and_maps_are_compared_whole() {
        let owned = json!({"f:list": {}, "f:map": {}});
        let wanted = json!({"list": [1, {"a": 1.0}], "map": {"a": "b"}});
        assert!(rests(
            wanted.clone(),
            json!({"list": [1, {"a": 1}], "map": {"a": "b"}}),
            owned.clone()
        ));
        assert!(!rests(
            wanted.clone(),
            json!({"list": [1, {"a": 1}, 2], "map": {"a": "b"}}),
            owned.clone()
        ));
        assert!(!rests(
            wanted.clone(),
            json!({"list": [1, {"a": 1}], "map": {"a": "b", "c": "d"}}),
            owned.clone()
        ));
        // The map is not atomic: this manager owns an empty one, and somebody else the field in it.
        let there = json!({"list": [1, {"a": 1}], "map": {"a": "b"}});
        let there = observed(there, &[(MANAGER, owned), ("other", json!({"f:map": {"f:a": {}}}))]);
        assert!(!holds(&desired(wanted), &there, MANAGER));
    }

    #[test]
    fn what_an_api_server_drops_may_be_absent() {
        let owned = json!({"f:a": {}, "f:b": {}});
        assert!(rests(json!({"a": null, "b": {}}), json!({}), owned.clone()));
        assert!(
            !rests(json!({"a": null, "b": {}}), json!({"a": ""}), owned),
            "it made something of it"
        );
    }

    #[test]
    fn a_secret_in_plain_text_is_one_in_base64() {
        let secret = |field: &str, value: &str, owned: Value| {
            json!({
                "apiVersion": "v1", "kind": "Secret", field: {"k": value}, "metadata": {"name": "s", "managedFields": [
                    {"manager": MANAGER, "operation": "Apply", "apiVersion": "v1", "fieldsV1": owned},
                ]},
            })
        };
        let wanted = json!({"apiVersion": "v1", "kind": "Secret", "stringData": {"k": "v"}, "metadata": {"name": "s"}});
        for owned in [json!({"f:stringData": {"f:k": {}}}), json!({"f:data": {"f:k": {}}})] {
            assert!(holds(&wanted, &secret("data", "dg==", owned.clone()), MANAGER));
            assert!(!holds(&wanted, &secret("data", "dw==", owned), MANAGER));
        }
    }

    /// Paths of fields, and their values.
    type Leaves = std::collections::BTreeMap<Vec<String>, Value>;

    fn leaves(value: &Value, path: &[String], into: &mut Leaves) {
        match value {
            Value::Object(map) => {
                for (name, value) in map {
                    leaves(value, &[path, std::slice::from_ref(name)].concat(), into);
                }
            }
            scalar => drop(into.insert(path.to_vec(), scalar.clone())),
        }
    }

    fn tree(leaves: &Leaves, prefix: &str, leaf: impl Fn(&Value) -> Value) -> Value {
        let mut tree = json!({});
        for (path, value) in leaves {
            let (last, above) = path.split_last().expect("a path");
            let mut place = &mut tree;
            for name in above {
                place = &mut place[format!("{prefix}{name}")];
            }
            place[format!("{prefix}{last}")] = leaf(value);
        }
        tree
    }

    fn spec() -> impl Strategy<Value = Value> {
        let scalar = prop_oneof![
            any::<bool>().prop_map(Value::from),
            (0..3).prop_map(Value::from),
            "[a-c]?".prop_map(Value::from),
        ];
        let value = scalar.prop_recursive(3, 12, 3, |inner| {
            prop::collection::btree_map("[a-d]", inner, 1..3).prop_map(|map| json!(map))
        });
        prop::collection::btree_map("[a-d]", value, 1..4).prop_map(|map| json!(map))
    }

    /// What happened to an object since it was applied.
    #[derive(Clone, Debug)]
    enum Event {
        Edited(prop::sample::Index),
        TakenOut(prop::sample::Index),
        TakenOver(prop::sample::Index),
        NoLongerDesired(String),
        ForeignField(String),
    }

    fn event() -> impl Strategy<Value = Event> {
        prop_oneof![
            any::<prop::sample::Index>().prop_map(Event::Edited),
            any::<prop::sample::Index>().prop_map(Event::TakenOut),
            any::<prop::sample::Index>().prop_map(Event::TakenOver),
            "[x-z]".prop_map(Event::NoLongerDesired),
            "[u-w]".prop_map(Event::ForeignField),
        ]
    }

    proptest! {
        /// Of maps and scalars, ownership is a set of paths.
        #[test]
        fn maps_rest_if_each_field_is_there_and_owned(spec in spec(), events in prop::collection::vec(event(), 0..3)) {
            let mut wanted = Leaves::new();
            leaves(&spec, &[], &mut wanted);
            let (mut there, mut owned) = (wanted.clone(), wanted.clone());
            let paths: Vec<_> = wanted.keys().cloned().collect();
            for event in &events {
                match event {
                    Event::Edited(index) => drop(there.insert(index.get(&paths).clone(), json!("edited"))),
                    Event::TakenOut(index) => drop(there.remove(index.get(&paths))),
                    Event::TakenOver(index) => drop(owned.remove(index.get(&paths))),
                    Event::NoLongerDesired(name) => drop(owned.insert(vec![name.clone()], json!(1))),
                    Event::ForeignField(name) => drop(there.insert(vec![name.clone()], json!(1))),
                }
            }
            let naive = wanted.iter().all(|(path, value)| there.get(path) == Some(value)) && owned.keys().eq(wanted.keys());
            // Whoever owns nothing of it does not own it as a whole either.
            let fields = if owned.is_empty() { Value::Null } else { tree(&owned, "f:", |_| json!({})) };
            prop_assert_eq!(rests(spec, tree(&there, "", Value::clone), fields), naive);
        }
    }
}
