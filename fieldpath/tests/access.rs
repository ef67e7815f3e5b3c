//! Reading and writing by path, and how projections keep what reading needs.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic as tests do")]

use patchbay_fieldpath::{FieldPath, MAX_INDEX, Problem, ValueType, project};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

fn path(text: &str) -> FieldPath {
    FieldPath::parse(text).unwrap()
}

fn set(mut root: Value, text: &str, value: Value) -> Result<Value, String> {
    path(text).set(&mut root, value).map_err(|error| error.to_string())?;
    Ok(root)
}

#[test]
fn values_are_found() {
    let root = json!({
        "metadata": {"annotations": {"a.b/c": "annotation"}},
        "data": {"ca.crt": "PEM", "123": "key", "empty": null},
        "spec": {"containers": [{"image": "i"}], "nested": [[1, 2]]},
    });
    for (text, expected) in [
        ("data[ca.crt]", json!("PEM")),
        ("metadata.annotations['a.b/c']", json!("annotation")),
        ("data['123']", json!("key")),
        ("data.empty", json!(null)),
        ("spec.containers[0].image", json!("i")),
        ("spec.nested[0][1]", json!(2)),
        ("spec.containers[0]", json!({"image": "i"})),
    ] {
        assert_eq!(path(text).get(&root), Ok(&expected), "{text}");
    }
}

#[test]
fn what_is_not_found_is_explained() {
    let root = json!({
        "data": {"k": "v", "null": null, "n": 1},
        "list": [{"a": 1}],
    });
    for (text, message) in [
        ("data.x", "path `data.x`: `data` has no field `x`"),
        ("nowhere", "path `nowhere`: the root has no field `nowhere`"),
        (
            "data.k.x",
            "path `data.k.x`: `data.k` is a string, so it has no field `x`",
        ),
        (
            "data.null.x",
            "path `data.null.x`: `data.null` is null, so it has no field `x`",
        ),
        (
            "data.n.x.y",
            "path `data.n.x.y`: `data.n` is a number, so it has no field `x`",
        ),
        (
            "data[123]",
            "path `data[123]`: `data` is an object, not a list, so it has no element [123]",
        ),
        (
            "data.null[0]",
            "path `data.null[0]`: `data.null` is null, not a list, so it has no element [0]",
        ),
        (
            "[0]",
            "path `[0]`: the root is an object, not a list, so it has no element [0]",
        ),
        (
            "list[2000]",
            "path `list[2000]`: `list` is a list of 1 and has no element [2000]",
        ),
        ("list[0].b", "path `list[0].b`: `list[0]` has no field `b`"),
        (
            "list[*].a",
            "path `list[*].a`: `list` is a list, so it has no field `*`",
        ),
        ("list.a", "path `list.a`: `list` is a list, so it has no field `a`"),
    ] {
        assert_eq!(path(text).get(&root).unwrap_err().to_string(), message, "{text}");
    }
}

#[test]
fn errors_never_show_a_value() {
    let root = json!({"data": {"password": "hunter2"}});
    let error = path("data.password.x").get(&root).unwrap_err();
    assert!(!error.to_string().contains("hunter2"));
    assert_eq!(error.problem(), Problem::NotAnObject(ValueType::String));
}

#[test]
fn values_are_put_where_the_path_says() {
    for (root, text, expected) in [
        (json!({}), "a.b", json!({"a": {"b": "v"}})),
        (json!({"a": {"c": 1}}), "a.b", json!({"a": {"b": "v", "c": 1}})),
        (json!({"a": {"b": {"c": 1}}}), "a.b", json!({"a": {"b": "v"}})),
        (json!({"a": null}), "a", json!({"a": "v"})),
        (json!({}), "data[ca.crt]", json!({"data": {"ca.crt": "v"}})),
        (json!({}), "data['123']", json!({"data": {"123": "v"}})),
        (json!({}), "a[2]", json!({"a": [null, null, "v"]})),
        (json!({"a": [1]}), "a[2]", json!({"a": [1, null, "v"]})),
        (json!({"a": [1, 2]}), "a[0]", json!({"a": ["v", 2]})),
        (json!({}), "a[1].b", json!({"a": [null, {"b": "v"}]})),
        (json!({"a": [null]}), "a[0].b", json!({"a": [{"b": "v"}]})),
        (json!({}), "a[0][1]", json!({"a": [[null, "v"]]})),
    ] {
        assert_eq!(set(root, text, json!("v")), Ok(expected), "{text}");
    }
}

#[test]
fn what_cannot_be_put_is_explained() {
    for (root, text, message) in [
        (
            json!({"data": null}),
            "data.x",
            "path `data.x`: `data` is null, so it has no field `x`",
        ),
        (
            json!({"data": "s"}),
            "data.x",
            "path `data.x`: `data` is a string, so it has no field `x`",
        ),
        (
            json!({"a": [1]}),
            "a.x",
            "path `a.x`: `a` is a list, so it has no field `x`",
        ),
        (
            json!({"a": [1]}),
            "a[0].x",
            "path `a[0].x`: `a[0]` is a number, so it has no field `x`",
        ),
        (
            json!({"a": {}}),
            "a[0]",
            "path `a[0]`: `a` is an object, not a list, so it has no element [0]",
        ),
        (
            json!({"a": null}),
            "a[0]",
            "path `a[0]`: `a` is null, not a list, so it has no element [0]",
        ),
        (
            json!({"a": [1]}),
            "a[*].x",
            "path `a[*].x`: `a` is a list, so it has no field `*`",
        ),
        (
            json!({}),
            "a[2000]",
            "path `a[2000]`: index 2000 behind `a` is too large; the highest that can be set is 1024",
        ),
    ] {
        assert_eq!(set(root, text, json!("v")), Err(message.to_owned()), "{text}");
    }
}

#[test]
fn the_highest_index_can_be_set_and_the_next_cannot() {
    let set_at = |index| set(json!({}), &format!("a[{index}]"), json!(1));
    assert_eq!(set_at(MAX_INDEX).unwrap()["a"].as_array().map(Vec::len), Some(1025));
    assert!(set_at(MAX_INDEX + 1).is_err());
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (0..5_i64).prop_map(Value::from),
        "[a-z]{0,3}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[ab]|a\\.b|0", inner, 0..4)
                .prop_map(|fields| Value::Object(Map::from_iter(fields))),
        ]
    })
}

/// Few names, so that paths and values often fit each other.
fn any_path() -> impl Strategy<Value = FieldPath> {
    prop::collection::vec(prop_oneof!["\\.[ab]", "\\[a\\.b\\]", "\\['0'\\]", "\\[[0-2]\\]"], 1..5)
        .prop_map(|parts| path(parts.concat().trim_start_matches('.')))
}

proptest! {
    #[test]
    fn what_was_set_is_found(mut root in value(), path in any_path(), new in value()) {
        if path.set(&mut root, new.clone()).is_ok() {
            prop_assert_eq!(path.get(&root), Ok(&new));
        }
    }

    #[test]
    fn in_an_empty_object_every_path_from_a_field_can_be_set(path in any_path(), new in value()) {
        let path = FieldPath::parse(&format!("root{}", suffix(&path))).unwrap();
        let mut root = json!({});
        prop_assert_eq!(path.set(&mut root, new.clone()), Ok(()));
        prop_assert_eq!(path.get(&root), Ok(&new));
    }

    #[test]
    fn a_set_that_fails_changes_nothing(root in value(), path in any_path(), new in value()) {
        let mut changed = root.clone();
        if path.set(&mut changed, new).is_err() {
            prop_assert_eq!(changed, root);
        }
    }

    #[test]
    fn a_projection_answers_as_the_whole_does(root in value(), paths in prop::collection::vec(any_path(), 0..4)) {
        let part = project(&root, &paths);
        for path in &paths {
            prop_assert_eq!(path.get(&part), path.get(&root));
        }
        prop_assert_eq!(project(&part, &paths), part);
    }
}

/// A path as it is written behind another.
fn suffix(path: &FieldPath) -> String {
    let text = path.to_string();
    if text.starts_with('[') {
        text
    } else {
        format!(".{text}")
    }
}
