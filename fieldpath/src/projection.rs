//! Reducing a value to what some paths need.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::{FieldPath, Segment};

/// A value with only what `paths` name. See [`Projection`], which is faster if the same paths are used again.
pub fn project(value: &Value, paths: &[FieldPath]) -> Value {
    Projection::new(paths).apply(value)
}

/// The part of a value that some paths need.
///
/// Whatever [`FieldPath::get`] says of the whole value for one of these paths, be it a value or an error, it says of the
/// part too. So what is missing is absent, for an index the whole list is kept, and a value of another type that stands
/// in a path's way stays: scalars as they are, objects and lists emptied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Projection {
    /// A path ends here.
    whole: bool,
    /// A path goes on with an index.
    elements: bool,
    /// Paths that go on with a field.
    fields: BTreeMap<String, Projection>,
}

impl Projection {
    /// The projection for these paths. Without any, nothing of an object is left.
    pub fn new<'p>(paths: impl IntoIterator<Item = &'p FieldPath>) -> Self {
        let mut root = Projection::default();
        for path in paths {
            let mut here = &mut root;
            let mut ended = true;
            for segment in path.segments() {
                match segment {
                    Segment::Field(name) => here = here.fields.entry(name.clone()).or_default(),
                    Segment::Index(_) => {
                        // The list is kept with all that is in it, so the rest of the path narrows nothing.
                        here.elements = true;
                        ended = false;
                        break;
                    }
                }
            }
            here.whole |= ended;
        }
        root
    }

    /// The part of `value` that the paths need.
    pub fn apply(&self, value: &Value) -> Value {
        match value {
            _ if self.whole => value.clone(),
            Value::Object(fields) => Value::Object(self.pick(fields)),
            Value::Array(elements) if self.elements => Value::Array(elements.clone()),
            Value::Array(_) => Value::Array(Vec::new()),
            scalar => scalar.clone(),
        }
    }

    fn pick(&self, fields: &Map<String, Value>) -> Map<String, Value> {
        self.fields
            .iter()
            .filter_map(|(name, part)| Some((name.clone(), part.apply(fields.get(name)?))))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn projected(value: &Value, paths: &[&str]) -> Value {
        let paths: Vec<_> = paths.iter().map(|path| FieldPath::parse(path).unwrap()).collect();
        project(value, &paths)
    }

    #[test]
    fn only_what_the_paths_name_is_kept() {
        let value = json!({
            "metadata": {"name": "a", "labels": {"x": "1", "y": "2"}},
            "data": {"k": "v", "ca.crt": "PEM", "other": "o"},
            "spec": {"containers": [{"image": "i", "name": "n"}, {"image": "j"}], "replicas": 2},
        });
        for (paths, expected) in [
            (&[][..], json!({})),
            (&["data.k"], json!({"data": {"k": "v"}})),
            (
                &["data[ca.crt]", "data.k"],
                json!({"data": {"k": "v", "ca.crt": "PEM"}}),
            ),
            (
                &["data.k", "data"],
                json!({"data": {"k": "v", "ca.crt": "PEM", "other": "o"}}),
            ),
            (
                &["metadata.labels.x", "metadata.name"],
                json!({"metadata": {"name": "a", "labels": {"x": "1"}}}),
            ),
            (
                &["spec.containers[0].image"],
                json!({"spec": {"containers": [{"image": "i", "name": "n"}, {"image": "j"}]}}),
            ),
        ] {
            assert_eq!(projected(&value, paths), expected, "{paths:?}");
        }
    }

    #[test]
    fn missing_paths_are_absent() {
        assert_eq!(
            projected(&json!({"data": {"k": "v"}}), &["data.gone", "spec.gone"]),
            json!({"data": {}})
        );
    }

    #[test]
    fn what_stands_in_the_way_of_a_path_stays() {
        let value = json!({"text": "t", "null": null, "list": [1], "object": {"k": "v"}});
        assert_eq!(
            projected(&value, &["text.a", "null.a", "list.a", "object[0]"]),
            json!({"text": "t", "null": null, "list": [], "object": {}})
        );
    }
}
