//! The other direction: ConfigMaps that name the Scripts they concern.

use patchbay_sdk::{Change, DeclaredWatch, Dependent, Failure, Fields, LabelOperator, LabelSelector, Object};

/// The label of the ConfigMaps that are watched.
const WATCHED: &str = "script.patchbay.dev/watched";
/// `namespace/name` of a Script.
const PRIMARY: &str = "script.patchbay.dev/primary";
/// `key=value`, a label of Scripts.
const PRIMARIES: &str = "script.patchbay.dev/primaries";
/// A join key that Scripts publish in `spec.joinKeys`.
const JOIN: &str = "script.patchbay.dev/join";

pub(crate) fn watch() -> DeclaredWatch {
    let selector = LabelSelector::everything().requirement(WATCHED, LabelOperator::Exists, [""; 0]);
    DeclaredWatch::new("watched", "v1", "ConfigMap")
        .selector(selector)
        .fields(Fields::Whole)
}

/// Whom the object concerned before and concerns now.
pub(crate) fn of(change: &Change) -> Result<Vec<Dependent>, Failure> {
    let mut dependents = Vec::new();
    for object in change.before.iter().chain(&change.after) {
        add(object, &mut dependents)?;
    }
    Ok(dependents)
}

fn add(object: &Object, dependents: &mut Vec<Dependent>) -> Result<(), Failure> {
    let two_parts = |annotation, separator| {
        object
            .annotation(annotation)
            .map(|value| {
                value.split_once(separator).ok_or_else(|| {
                    let message = format!("annotation {annotation}: {value:?} has no {separator:?}");
                    Failure::permanent("InvalidAnnotation", message)
                })
            })
            .transpose()
    };
    if let Some((namespace, name)) = two_parts(PRIMARY, '/')? {
        dependents.push(Dependent::named(Some(namespace), name));
    }
    if let Some((key, value)) = two_parts(PRIMARIES, '=')? {
        dependents.push(Dependent::PrimaryLabels(LabelSelector::everything().label(key, value)));
    }
    if let Some(key) = object.annotation(JOIN) {
        dependents.push(Dependent::JoinKey(key.to_owned()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use patchbay_sdk::{json, testing};

    fn object(annotations: patchbay_sdk::Value) -> Option<Object> {
        Some(testing::object(
            json!({"metadata": {"name": "c", "annotations": annotations}}),
        ))
    }

    #[test]
    fn both_states_tell_whom_they_concern() {
        let change = Change {
            before: object(json!({PRIMARY: "n/old"})),
            after: object(json!({PRIMARY: "n/new", PRIMARIES: "team=a", JOIN: "j"})),
        };
        let expected = [
            Dependent::named(Some("n"), "old"),
            Dependent::named(Some("n"), "new"),
            Dependent::PrimaryLabels(LabelSelector::everything().label("team", "a")),
            Dependent::JoinKey("j".to_owned()),
        ];
        assert_eq!(of(&change).unwrap(), expected);
    }

    #[test]
    fn a_bad_annotation_is_named() {
        let change = Change {
            before: None,
            after: object(json!({PRIMARY: "nameless"})),
        };
        let failure = of(&change).unwrap_err();
        assert!(
            failure.message.contains(PRIMARY) && failure.message.contains("nameless"),
            "{failure:?}"
        );
    }
}
