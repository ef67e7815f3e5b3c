//! Which fields of an object are not as desired, and who owns them.

use serde_json::{Map, Value};

use crate::managed::{Fields, Identity, entries, matched};
use crate::normal::{is_nothing, normal, same};

/// A field that is not as desired.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contested {
    /// Where it is, such as `data.k` or `spec.containers[name=app].image`.
    pub path: String,
    /// Who owns it now; nobody, if it was taken out.
    pub managers: Vec<String>,
}

/// The desired fields that an object holds otherwise, or not at all.
pub fn contested(desired: &Value, observed: &Value) -> Vec<Contested> {
    let (desired, observed) = (normal(desired), normal(observed));
    let owners = entries(&observed).map(|entry| (entry.manager, entry.fields)).collect();
    let mut contested = Vec::new();
    Place {
        path: String::new(),
        owners,
    }
    .compare(&desired, Some(&observed), &mut contested);
    contested
}

/// A place in an object, and who owns something of it.
struct Place<'a> {
    path: String,
    owners: Vec<(&'a str, Fields<'a>)>,
}

impl<'a> Place<'a> {
    fn part(&self, part: &str, path: String) -> Place<'a> {
        let owners = self
            .owners
            .iter()
            .filter_map(|(manager, fields)| Some((*manager, fields.part(part)?)));
        Place {
            path,
            owners: owners.collect(),
        }
    }

    fn compare(&self, desired: &Value, observed: Option<&Value>, contested: &mut Vec<Contested>) {
        match (desired, observed) {
            (desired, Some(observed)) if same(desired, observed) => {}
            (desired, None | Some(Value::Null)) if is_nothing(desired) => {}
            (Value::Object(desired), Some(observed @ Value::Object(_))) => self.map(desired, observed, contested),
            (Value::Array(desired), Some(Value::Array(observed))) => self.list(desired, observed, contested),
            _ => self.contest(contested),
        }
    }

    fn map(&self, desired: &Map<String, Value>, observed: &Value, contested: &mut Vec<Contested>) {
        for (name, desired) in desired {
            let path = match name.contains('.') {
                true => format!("{}['{name}']", self.path),
                false if self.path.is_empty() => name.clone(),
                false => format!("{}.{name}", self.path),
            };
            self.part(&format!("f:{name}"), path)
                .compare(desired, observed.get(name), contested);
        }
    }

    fn list(&self, desired: &[Value], observed: &[Value], contested: &mut Vec<Contested>) {
        // The elements as any owner of some names them.
        let elements: Option<Vec<_>> = self.owners.iter().map(|(_, fields)| fields.elements()).collect();
        let mut elements: Vec<_> = elements.unwrap_or_default().into_iter().flatten().collect();
        elements.sort_by_key(|element| element.name);
        elements.dedup_by_key(|element| element.name);
        let Some(matched) = matched(desired, &elements).filter(|_| !elements.is_empty()) else {
            return self.contest(contested);
        };
        for (desired, element) in desired.iter().zip(matched) {
            let element = &elements[element];
            let path = match &element.identity {
                Identity::Key(key) => format!("{}[{}]", self.path, shown(key)),
                // A value is not shown.
                Identity::Value(_) => self.path.clone(),
            };
            let observed = observed.iter().find(|observed| element.is(observed));
            self.part(element.name, path).compare(desired, observed, contested);
        }
    }

    fn contest(&self, contested: &mut Vec<Contested>) {
        let owners = self.owners.iter().filter(|(_, fields)| fields.is_owned());
        let mut managers: Vec<String> = owners.map(|(manager, _)| (*manager).to_owned()).collect();
        managers.sort();
        managers.dedup();
        contested.push(Contested {
            path: self.path.clone(),
            managers,
        });
    }
}

/// The fields that tell an element apart, in words.
fn shown(key: &Map<String, Value>) -> String {
    let parts = key.iter().map(|(name, value)| match value {
        Value::String(text) => format!("{name}={text}"),
        other => format!("{name}={other}"),
    });
    parts.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(fields: Value, owners: &[(&str, Value)]) -> Value {
        let owners = owners
            .iter()
            .map(|(manager, fields)| json!({"manager": manager, "operation": "Update", "fieldsV1": fields}));
        let mut object = fields;
        object["metadata"] = json!({"name": "n", "managedFields": owners.collect::<Vec<_>>()});
        object
    }

    fn named(desired: Value, observed: &Value) -> Vec<(String, Vec<String>)> {
        let contested = contested(&desired, observed);
        contested
            .into_iter()
            .map(|contested| (contested.path, contested.managers))
            .collect()
    }

    #[test]
    fn fields_are_named_with_their_owners_and_without_values() {
        let observed = object(
            json!({"data": {"k": "theirs", "same": "x", "tls.crt": "theirs"}}),
            &[
                ("other", json!({"f:data": {"f:k": {}, "f:tls.crt": {}}})),
                ("me", json!({"f:data": {"f:same": {}}})),
            ],
        );
        let desired = json!({"data": {"k": "mine", "same": "x", "tls.crt": "mine", "gone": "mine", "no": null}});
        let expected = [
            ("data.gone".to_owned(), vec![]),
            ("data.k".to_owned(), vec!["other".to_owned()]),
            ("data['tls.crt']".to_owned(), vec!["other".to_owned()]),
        ];
        assert_eq!(named(desired, &observed), expected);
    }

    #[test]
    fn elements_of_lists_are_named_by_their_keys() {
        let owned =
            json!({"f:spec": {"f:containers": {"k:{\"name\":\"app\"}": {".": {}, "f:name": {}, "f:image": {}}}}});
        let observed = object(
            json!({"spec": {"containers": [{"name": "sidecar", "image": "s"}, {"name": "app", "image": "theirs"}]}}),
            &[("other", owned)],
        );
        let desired = json!({"spec": {"containers": [{"name": "app", "image": "mine"}]}});
        let expected = [("spec.containers[name=app].image".to_owned(), vec!["other".to_owned()])];
        assert_eq!(named(desired, &observed), expected);
    }

    #[test]
    fn an_atomic_list_is_named_whole_and_a_set_without_its_values() {
        let observed = object(
            json!({"spec": {"args": ["a"], "set": ["hunter2"]}}),
            &[(
                "other",
                json!({"f:spec": {"f:args": {}, "f:set": {"v:\"hunter2\"": {}}}}),
            )],
        );
        let expected = [
            ("spec.args".to_owned(), vec!["other".to_owned()]),
            ("spec.set".to_owned(), vec![]),
        ];
        assert_eq!(
            named(json!({"spec": {"args": ["b"], "set": ["mine"]}}), &observed),
            expected
        );
    }

    #[test]
    fn the_data_of_a_secret_are_named_for_its_plain_texts() {
        let mut observed = object(
            json!({"data": {"k": "eA=="}}),
            &[("other", json!({"f:data": {"f:k": {}}}))],
        );
        let mut desired = json!({"stringData": {"k": "v"}});
        for secret in [&mut observed, &mut desired] {
            secret["apiVersion"] = "v1".into();
            secret["kind"] = "Secret".into();
        }
        let contested = contested(&desired, &observed);
        assert_eq!(contested[0].path, "data.k");
        assert_eq!(contested[0].managers, ["other"]);
    }
}
