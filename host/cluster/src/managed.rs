//! `metadata.managedFields`: which manager owns which fields of an object.

use serde_json::{Map, Value};

/// The fields that one manager owns.
pub(crate) struct Entry<'a> {
    pub(crate) manager: &'a str,
    /// By server-side apply, not by an update.
    pub(crate) applied: bool,
    pub(crate) api_version: &'a str,
    /// The subresource through which it came to own them.
    pub(crate) subresource: Option<&'a str>,
    pub(crate) fields: Fields<'a>,
}

impl Entry<'_> {
    /// Whether it is of this manager and not of a subresource.
    pub(crate) fn is_of(&self, manager: &str) -> bool {
        self.manager == manager && self.subresource.is_none()
    }
}

/// Who owns what of an object. Entries in a format that is not known are left out.
pub(crate) fn entries(object: &Value) -> impl Iterator<Item = Entry<'_>> {
    let entries = object["metadata"]["managedFields"].as_array();
    entries.into_iter().flatten().filter_map(|entry| {
        Some(Entry {
            manager: entry["manager"].as_str().unwrap_or_default(),
            applied: entry["operation"] == "Apply",
            api_version: entry["apiVersion"].as_str().unwrap_or_default(),
            subresource: entry["subresource"].as_str().filter(|name| !name.is_empty()),
            fields: Fields(entry["fieldsV1"].as_object()?),
        })
    })
}

/// Whether a manager owns more of an object by server-side apply than it did. Nothing but its own apply brings that about.
pub fn owns_more(before: &Value, after: &Value, manager: &str) -> bool {
    let applied = |object| entries(object).find(|entry| entry.applied && entry.is_of(manager));
    let covered = |after: &Entry<'_>| applied(before).is_some_and(|before| before.fields.covers(after.fields));
    applied(after).is_some_and(|after| !covered(&after))
}

/// A place in an object of which a manager owns the whole, or parts (`FieldsV1`). Parts are named `f:` and a field's name,
/// or, in a list, `k:` and the fields that tell its elements apart, or `v:` and the element itself. Where the place itself is owned,
/// too, it has a part `.`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fields<'a>(&'a Map<String, Value>);

impl<'a> Fields<'a> {
    pub(crate) fn to_value(self) -> Value {
        self.0.clone().into()
    }

    /// What is owned of a part.
    pub(crate) fn part(self, name: &str) -> Option<Fields<'a>> {
        self.0.get(name)?.as_object().map(Fields)
    }

    /// What is owned of a field.
    pub(crate) fn field(self, name: &str) -> Option<Fields<'a>> {
        self.part(&format!("f:{name}"))
    }

    /// The parts that are owned.
    pub(crate) fn parts(self) -> impl Iterator<Item = (&'a str, Fields<'a>)> {
        let parts = self.0.iter().filter(|(name, _)| *name != ".");
        parts.filter_map(|(name, value)| Some((name.as_str(), Fields(value.as_object()?))))
    }

    /// Whether the place is owned as one: a scalar, an atomic list or map, or an empty one.
    pub(crate) fn is_whole(self) -> bool {
        self.parts().next().is_none()
    }

    /// Whether the place itself is owned, be it with its parts or without.
    pub(crate) fn is_owned(self) -> bool {
        self.is_whole() || self.0.contains_key(".")
    }

    /// Whether all that is owned here is owned there.
    fn covers(self, other: Fields<'_>) -> bool {
        other.0.iter().all(|(name, other)| match (self.0.get(name), other) {
            (Some(Value::Object(own)), Value::Object(other)) => Fields(own).covers(Fields(other)),
            _ => false,
        })
    }

    /// The elements of a list that are owned; none if any of them is not named in a way that is known.
    pub(crate) fn elements(self) -> Option<Vec<Element<'a>>> {
        self.parts().map(|(name, fields)| Element::new(name, fields)).collect()
    }
}

/// An element of a list that can be told apart from the others.
#[derive(Debug)]
pub(crate) struct Element<'a> {
    /// As `FieldsV1` names it.
    pub(crate) name: &'a str,
    pub(crate) fields: Fields<'a>,
    pub(crate) identity: Identity,
}

#[derive(Debug, PartialEq)]
pub(crate) enum Identity {
    /// The fields that tell it apart.
    Key(Map<String, Value>),
    /// It is its own identity, as the elements of a set are.
    Value(Value),
}

impl<'a> Element<'a> {
    fn new(name: &'a str, fields: Fields<'a>) -> Option<Self> {
        let (kind, json) = name.split_once(':')?;
        let identity = match kind {
            "k" => Identity::Key(serde_json::from_str(json).ok()?),
            "v" => Identity::Value(serde_json::from_str(json).ok()?),
            _ => return None,
        };
        Some(Element { name, fields, identity })
    }

    /// Whether a value is this element.
    pub(crate) fn is(&self, value: &Value) -> bool {
        match &self.identity {
            Identity::Key(key) => !key.is_empty() && key.iter().all(|(name, part)| value.get(name) == Some(part)),
            Identity::Value(own) => own == value,
        }
    }

    /// Whether a value becomes this element once the API server has set the defaults of fields that it lacks.
    fn becomes(&self, value: &Value) -> bool {
        let Identity::Key(key) = &self.identity else {
            return false;
        };
        let mut present = key.iter().filter_map(|(name, part)| Some((value.get(name)?, part)));
        let any = key.keys().any(|name| value.get(name).is_some());
        any && present.all(|(found, part)| found == part)
    }
}

/// Which of these elements each value is, by its position; none if that is not certain.
pub(crate) fn matched(values: &[Value], elements: &[Element<'_>]) -> Option<Vec<usize>> {
    let exactly = |value: &Value| elements.iter().position(|element| element.is(value));
    let exact: Vec<Option<usize>> = values.iter().map(exactly).collect();
    let becomes = |value: &Value| {
        let free = |position: &usize| !exact.contains(&Some(*position)) && elements[*position].becomes(value);
        let mut free = (0..elements.len()).filter(free);
        free.next().filter(|_| free.next().is_none())
    };
    let all = values
        .iter()
        .zip(&exact)
        .map(|(value, exact)| exact.or_else(|| becomes(value)));
    let all: Vec<usize> = all.collect::<Option<_>>()?;
    let mut distinct = all.clone();
    distinct.sort_unstable();
    distinct.dedup();
    (distinct.len() == all.len()).then_some(all)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn matches(values: Value, fields: Value) -> Option<Vec<usize>> {
        let elements = fields
            .as_object()
            .map(Fields)
            .and_then(Fields::elements)
            .expect("elements");
        matched(values.as_array().expect("a list"), &elements)
    }

    #[test]
    fn an_element_is_found_by_its_key_and_by_defaults_of_it() {
        let ports = json!({
            "k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {},
            "k:{\"containerPort\":80,\"protocol\":\"UDP\"}": {},
        });
        let both = json!([{"containerPort": 80, "protocol": "UDP"}, {"containerPort": 80}]);
        assert_eq!(matches(both, ports.clone()), Some(vec![1, 0]));
        assert_eq!(
            matches(json!([{"containerPort": 80}]), ports.clone()),
            None,
            "it may be either"
        );
        assert_eq!(matches(json!([{"containerPort": 81}]), ports.clone()), None);
        assert_eq!(
            matches(json!([{"name": "x"}]), ports),
            None,
            "it has none of the key's fields"
        );
    }

    #[test]
    fn what_a_manager_owns_more_is_seen() {
        let object = |manager: &str, operation: &str, fields: Value| {
            let entry = json!({"manager": manager, "operation": operation, "fieldsV1": fields});
            json!({"metadata": {"managedFields": [entry]}})
        };
        let (one, two) = (
            json!({"f:data": {".": {}, "f:a": {}}}),
            json!({"f:data": {".": {}, "f:a": {}, "f:b": {}}}),
        );
        let (before, after) = (object("me", "Apply", one), object("me", "Apply", two.clone()));
        assert!(owns_more(&before, &after, "me"));
        assert!(!owns_more(&after, &before, "me"), "something was taken from it");
        assert!(!owns_more(&after, &after, "me"));
        assert!(owns_more(&Value::Null, &after, "me"), "it was not there");
        assert!(!owns_more(&before, &after, "other"));
        let updated = object("me", "Update", two);
        assert!(!owns_more(&before, &updated, "me"), "an update may be anybody's");
        assert!(owns_more(&updated, &after, "me"));
    }

    #[test]
    fn an_element_twice_is_not_matched() {
        let set = json!({"v:\"a\"": {}, "v:\"b\"": {}});
        assert_eq!(matches(json!(["b", "a"]), set.clone()), Some(vec![1, 0]));
        assert_eq!(matches(json!(["a", "a"]), set), None);
    }

    #[test]
    fn elements_named_in_another_way_are_not_taken_for_known() {
        let by_index = json!({"i:0": {}});
        assert!(by_index.as_object().map(Fields).and_then(Fields::elements).is_none());
    }
}
