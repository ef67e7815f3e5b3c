//! Writes, checked for everything that can be told without a cluster.

use std::borrow::Cow;

use patchbay_cluster::{ApplySet, WriteError, normal};
use patchbay_core::{Kind, ObjectKey};
use patchbay_plugin::contract::{self, Verbs, Write, WriteAction};
use serde_json::Value;

use crate::grants::Grants;
use crate::report::{invalid, refused};

/// A write, ready to be sent unless it is wrong.
pub(crate) struct Planned<'a> {
    pub(crate) write: &'a Write,
    pub(crate) reference: contract::ObjectReference,
    pub(crate) action: WriteAction,
    /// What an apply applies.
    pub(crate) object: Value,
    /// What is wrong with it.
    pub(crate) checked: Result<(), WriteError>,
}

/// Plans a write. An object to apply becomes a member of `set`, if there is one.
pub(crate) fn plan<'w>(write: &'w Write, grants: &Grants, set: Option<&ApplySet>) -> Planned<'w> {
    let (action, verb) = match write {
        Write::Apply(_) => (WriteAction::Apply, Verbs::APPLY),
        Write::Delete(_) => (WriteAction::Delete, Verbs::DELETE),
        Write::Patch(_) => (WriteAction::Patch, Verbs::PATCH),
    };
    let (reference, object, problem) = match write {
        Write::Apply(apply) => {
            let (object, problem) = match desired(&apply.object, set) {
                Ok(object) => (object, None),
                Err(problem) => (serde_json::from_str(&apply.object).unwrap_or_default(), Some(problem)),
            };
            (reference_of(apply.cluster.clone(), &object), object, problem)
        }
        Write::Delete(delete) => (delete.object.clone(), Value::Null, None),
        Write::Patch(patch) => (
            patch.object.clone(),
            Value::Null,
            (!tests_first(&patch.operations))
                .then(|| "a patch must be a list of JSON Patch operations that begins with a test".to_owned()),
        ),
    };
    let problem = problem.or_else(|| nameless(&reference)).map(invalid).or_else(|| {
        let kind = &reference.kind;
        let granted = grants.check_objects(&kind.api_version, &kind.kind, verb);
        granted.err().map(refused)
    });
    Planned {
        write,
        reference,
        action,
        object,
        checked: problem.map_or(Ok(()), Err),
    }
}

fn desired(object: &str, set: Option<&ApplySet>) -> Result<Value, String> {
    let object: Value =
        serde_json::from_str(object).map_err(|error| format!("the object to apply is not JSON: {error}"))?;
    let mut object = match normal(&object) {
        Cow::Owned(object) => object,
        Cow::Borrowed(_) => object,
    };
    if let Some(set) = set.filter(|_| object["metadata"].is_object()) {
        set.label(&mut object)?;
    }
    Ok(object)
}

pub(crate) fn contract_kind(kind: &Kind) -> contract::ObjectKind {
    contract::ObjectKind {
        api_version: kind.api_version.to_string(),
        kind: kind.kind.to_string(),
    }
}

/// An object in the words of the contract, in the cluster that plugins know by this id.
pub(crate) fn object_reference(object: &ObjectKey, cluster_id: String) -> contract::ObjectReference {
    contract::ObjectReference {
        cluster: contract::Cluster::ById(cluster_id),
        kind: contract_kind(&object.kind),
        namespace: object.name.namespace.as_deref().map(str::to_owned),
        name: object.name.name.to_string(),
    }
}

fn reference_of(cluster: contract::Cluster, object: &Value) -> contract::ObjectReference {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let metadata = &object["metadata"];
    contract::ObjectReference {
        cluster,
        kind: contract::ObjectKind {
            api_version: text(&object["apiVersion"]),
            kind: text(&object["kind"]),
        },
        namespace: metadata["namespace"]
            .as_str()
            .filter(|name| !name.is_empty())
            .map(str::to_owned),
        name: text(&metadata["name"]),
    }
}

fn nameless(reference: &contract::ObjectReference) -> Option<String> {
    let missing = if reference.kind.api_version.is_empty() {
        "apiVersion"
    } else if reference.kind.kind.is_empty() {
        "kind"
    } else if reference.name.is_empty() {
        "metadata.name"
    } else {
        return None;
    };
    Some(format!("the object to write has no {missing}"))
}

fn tests_first(operations: &str) -> bool {
    let operations: Value = serde_json::from_str(operations).unwrap_or_default();
    operations[0]["op"] == "test"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn apply(object: &str) -> Write {
        Write::Apply(contract::Apply {
            cluster: contract::Cluster::PrimaryCluster,
            object: object.to_owned(),
            mode: contract::ApplyMode::Upsert,
            force: false,
        })
    }

    fn problem(write: &Write, set: Option<&ApplySet>) -> String {
        let planned = plan(write, &Grants::none(), set);
        planned.checked.expect_err("something is wrong").message
    }

    #[test]
    fn what_is_wrong_is_said_before_anything_is_sent() {
        assert!(problem(&apply("{"), None).contains("not JSON"));
        assert!(problem(&apply("{}"), None).contains("no apiVersion"));
        let nameless = apply(r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{}}"#);
        assert!(problem(&nameless, None).contains("no metadata.name"));
        let named = apply(r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"n"}}"#);
        assert!(problem(&named, None).contains("grant"));
        let set = ApplySet::new("n", "c", "p", "");
        let labels = r#"{"applyset.kubernetes.io/part-of":"applyset-other-v1"}"#;
        let object = format!(r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"n","labels":{labels}}}}}"#);
        let member = apply(&object);
        assert!(problem(&member, Some(&set)).contains("applyset-other-v1"));
    }

    #[test]
    fn a_secret_is_planned_as_it_is_kept_and_a_member_with_its_label() {
        let secret = r#"{"apiVersion":"v1","kind":"Secret","metadata":{"name":"n"},"stringData":{"k":"v"}}"#;
        let (secret, set) = (apply(secret), ApplySet::new("n", "c", "p", ""));
        let planned = plan(&secret, &Grants::none(), Some(&set));
        assert_eq!(planned.object["data"]["k"], "dg==");
        assert_eq!(
            planned.object["metadata"]["labels"]["applyset.kubernetes.io/part-of"],
            set.id()
        );
    }
}
