//! Which fields of an object differ, by their names alone.

use serde_json::Value;

/// Fields of one change that are named. A change of more is told well enough by these.
const MOST: usize = 8;

/// The fields in which two states of an object differ, such as `data.k` or `metadata.labels['a.b/c']`, in order and
/// eight at most. No value of either is told. A list that grew or shrank is named as a whole, and so is a field that
/// appeared or went.
pub(crate) fn changed_fields(before: &str, after: &str) -> Vec<String> {
    let parsed = |text| serde_json::from_str::<Value>(text).unwrap_or_default();
    let mut changed = Vec::new();
    compare(&parsed(before), &parsed(after), "", &mut changed);
    changed
}

fn compare(before: &Value, after: &Value, path: &str, changed: &mut Vec<String>) {
    if before == after || changed.len() >= MOST {
        return;
    }
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => {
            let mut keys: Vec<&String> = before.keys().chain(after.keys()).collect();
            keys.sort();
            keys.dedup();
            for key in keys {
                let nothing = Value::Null;
                let (before, after) = (before.get(key), after.get(key));
                compare(
                    before.unwrap_or(&nothing),
                    after.unwrap_or(&nothing),
                    &field(path, key),
                    changed,
                );
            }
        }
        (Value::Array(before), Value::Array(after)) if before.len() == after.len() => {
            for (index, (before, after)) in before.iter().zip(after).enumerate() {
                compare(before, after, &format!("{path}[{index}]"), changed);
            }
        }
        _ if path.is_empty() => {}
        _ => changed.push(path.to_owned()),
    }
}

/// A field path is written as `fieldpath` would write it, so that it can be used as one.
fn field(path: &str, key: &str) -> String {
    let plain = key
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || b"-_/".contains(&byte))
        && !key.bytes().all(|byte| byte.is_ascii_digit());
    match (plain, path) {
        (true, "") => key.to_owned(),
        (true, path) => format!("{path}.{key}"),
        (false, path) => format!("{path}['{key}']"),
    }
}

#[cfg(test)]
mod tests {
    use patchbay_fieldpath::FieldPath;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn fields_are_named_and_values_are_not() {
        for (before, after, fields) in [
            (
                r#"{"data":{"k":"hunter2"}}"#,
                r#"{"data":{"k":"hunter3"}}"#,
                vec!["data.k"],
            ),
            (
                r#"{"metadata":{"labels":{"a.b/c":"1","d":"2"}}}"#,
                r#"{"metadata":{"labels":{"a.b/c":"2","d":"3"}}}"#,
                vec!["metadata.labels['a.b/c']", "metadata.labels.d"],
            ),
            (
                r#"{"spec":{}}"#,
                r#"{"spec":{},"status":{"x":{"y":1}}}"#,
                vec!["status"],
            ),
            (r#"{"data":{"gone":"1"}}"#, r#"{"data":{}}"#, vec!["data.gone"]),
            (
                r#"{"spec":{"containers":[{"image":"a"},{"image":"b"}]}}"#,
                r#"{"spec":{"containers":[{"image":"a"},{"image":"c"}]}}"#,
                vec!["spec.containers[1].image"],
            ),
            (r#"{"l":[1]}"#, r#"{"l":[1,2]}"#, vec!["l"]),
            (r#"{"x":{"y":1}}"#, r#"{"x":"y"}"#, vec!["x"]),
            (r#"{"data":{"1":"a"}}"#, r#"{"data":{"1":"b"}}"#, vec!["data['1']"]),
            (r#"{"a":1}"#, r#"{"a":1}"#, vec![]),
            ("no JSON", r#"{"a":1}"#, vec![]),
        ] {
            assert_eq!(changed_fields(before, after), fields, "{before} {after}");
        }
    }

    #[test]
    fn no_more_than_eight_are_named() {
        let object = |value| {
            let fields = (0..20).map(|number| (format!("k{number:02}"), Value::from(value)));
            Value::Object(fields.collect()).to_string()
        };
        let changed = changed_fields(&object(1), &object(2));
        assert_eq!(changed, ["k00", "k01", "k02", "k03", "k04", "k05", "k06", "k07"]);
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            (0..3).prop_map(Value::from),
            "[ab]".prop_map(Value::from)
        ];
        leaf.prop_recursive(3, 12, 3, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                prop::collection::btree_map("[ab.1]{1,2}", inner, 0..3)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    proptest! {
        /// Each path that is named leads to something that differs, and something is named if anything differs.
        #[test]
        fn what_is_named_differs(before in value(), after in value()) {
            let (before, after) = (serde_json::json!({"o": before}), serde_json::json!({"o": after}));
            let changed = changed_fields(&before.to_string(), &after.to_string());
            prop_assert_eq!(changed.is_empty(), without_nulls(&before) == without_nulls(&after));
            for path in changed {
                let path = FieldPath::parse(&path).expect("a path");
                let nothing = Value::Null;
                let at = |value| path.get(value).unwrap_or(&nothing).clone();
                prop_assert_ne!(at(&before), at(&after), "{}", path);
            }
        }
    }

    /// A field that is null is as good as one that is not there.
    fn without_nulls(value: &Value) -> Value {
        match value {
            Value::Object(fields) => {
                let fields = fields.iter().filter(|(_, value)| !value.is_null());
                Value::Object(fields.map(|(key, value)| (key.clone(), without_nulls(value))).collect())
            }
            Value::Array(items) => items.iter().map(without_nulls).collect(),
            other => other.clone(),
        }
    }
}
