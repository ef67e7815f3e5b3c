//! The form in which objects are sent and compared.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

/// An object with a Secret's `stringData` as `data`, which is what the API server makes of it. Sent as it is, a manager
/// would own fields of `stringData`, where nobody else's change of `data` conflicts with them. Who owns it in `managedFields`
/// is said of `data`, too.
pub fn normal(object: &Value) -> Cow<'_, Value> {
    if object["apiVersion"] != "v1" || object["kind"] != "Secret" {
        return Cow::Borrowed(object);
    }
    let mut secret = object.clone();
    encode(&mut secret);
    if let Some(Value::Array(entries)) = secret.pointer_mut("/metadata/managedFields") {
        for fields in entries.iter_mut().filter_map(|entry| entry.get_mut("fieldsV1")) {
            if let Some(Value::Object(plain)) = take(fields, "f:stringData") {
                merge(fields, "f:data", plain);
            }
        }
    }
    Cow::Owned(secret)
}

/// What cannot be encoded stays, so that the API server says what is wrong with it.
fn encode(secret: &mut Value) {
    let Some(plain) = secret["stringData"].as_object() else {
        return;
    };
    let encoded = plain.iter().map(|(key, value)| {
        let value = STANDARD.encode(value.as_str()?);
        Some((key.clone(), value.into()))
    });
    let mergeable = matches!(secret["data"], Value::Null | Value::Object(_));
    if let Some(encoded) = encoded.collect::<Option<Map<_, _>>>().filter(|_| mergeable) {
        take(secret, "stringData");
        merge(secret, "data", encoded);
    }
}

fn take(object: &mut Value, field: &str) -> Option<Value> {
    object.as_object_mut()?.remove(field)
}

fn merge(object: &mut Value, field: &str, more: Map<String, Value>) {
    if more.is_empty() {
        return;
    }
    match &mut object[field] {
        Value::Object(present) => present.extend(more),
        absent => *absent = more.into(),
    }
}

/// Whether an API server may keep nothing of a value.
pub(crate) fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(map) => map.is_empty(),
        _ => false,
    }
}

/// Whether two values are the same, however their numbers are written.
pub(crate) fn same(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => {
            left == right || (left.is_f64() || right.is_f64()) && left.as_f64() == right.as_f64()
        }
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| same(left, right))
        }
        (Value::Object(left), Value::Object(right)) => {
            let has = |(name, left): (&String, &Value)| right.get(name).is_some_and(|right| same(left, right));
            left.len() == right.len() && left.iter().all(has)
        }
        _ => left == right,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn string_data_becomes_data_and_so_does_its_ownership() {
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {
                "managedFields": [{"fieldsV1": {"f:data": {"f:a": {}}, "f:stringData": {"f:b": {}}}}],
            },
            "data": {"a": "MQ==", "b": "eA=="}, "stringData": {"b": "2"},
        });
        let expected = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {
                "managedFields": [{"fieldsV1": {"f:data": {"f:a": {}, "f:b": {}}}}],
            },
            "data": {"a": "MQ==", "b": "Mg=="},
        });
        assert_eq!(*normal(&secret), expected);
        assert_eq!(*normal(&expected), expected);
    }

    #[test]
    fn what_is_no_text_or_no_secret_stays() {
        let wrong = json!({"apiVersion": "v1", "kind": "Secret", "stringData": {"b": 2}});
        assert_eq!(*normal(&wrong), wrong);
        let other = json!({"apiVersion": "example.org/v1", "kind": "Secret", "stringData": {"b": "2"}});
        assert_eq!(*normal(&other), other);
    }
}
