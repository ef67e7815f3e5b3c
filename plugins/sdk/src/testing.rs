//! Tests of plugins without a host and without a cluster.
//!
//! [`primary`], [`found`], [`answers`] and the like make what a plugin is given. [`reconcile`] and [`finalize`] go through
//! a whole run as the host does: references round by round, then the outcome. They reduce each object to the fields that
//! its query declares, so that a test notices a field that the plugin reads and forgot to declare.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::fieldpath::{FieldPath, project};
use crate::{
    Answers, Failure, Fields, Finalization, Finding, Object, Outcome, Plugin, Primary, Purpose, Query, QueryFailure,
    QueryFailureReason, QueryTarget, ReferenceSet,
};

/// The id of the cluster of objects that this module makes.
pub const CLUSTER_ID: &str = "test-cluster";

/// How often the host asks for references before it gives up.
const MAX_ROUNDS: usize = 8;

/// A primary without a parent and without configuration.
pub fn primary(value: Value) -> Primary {
    let object = object(value);
    Primary {
        purpose: if object.is_deleting() {
            Purpose::Finalize
        } else {
            Purpose::Reconcile
        },
        object,
        parent: None,
        last_writes: Vec::new(),
        config: Value::Object(serde_json::Map::new()),
        time: 0,
    }
}

/// An object in the cluster [`CLUSTER_ID`].
pub fn object(value: Value) -> Object {
    Object {
        cluster_id: CLUSTER_ID.to_owned(),
        resource_version: "1".to_owned(),
        value,
    }
}

/// Answers by id.
pub fn answers<I: Into<String>>(findings: impl IntoIterator<Item = (I, Finding)>) -> Answers {
    findings.into_iter().map(|(id, finding)| (id.into(), finding)).collect()
}

/// An object by name is there.
pub fn found(value: Value) -> Finding {
    Finding::Found(object(value))
}

/// An object by name is not there.
pub fn missing() -> Finding {
    Finding::Missing
}

/// These objects match.
pub fn matches(values: impl IntoIterator<Item = Value>) -> Finding {
    Finding::Matches(values.into_iter().map(object).collect())
}

/// A query failed.
pub fn failed(reason: QueryFailureReason, message: impl Into<String>) -> Finding {
    Finding::Failed(QueryFailure {
        reason,
        message: message.into(),
    })
}

/// A whole run of a primary, where `host` answers the queries.
///
/// # Errors
/// What the plugin answers, and what the host refuses: a set that is not complete after eight rounds, two queries with
/// one id, a query that failed and does not tolerate it.
pub fn reconcile<P: Plugin>(primary: &Primary, host: impl Fn(&Query) -> Finding) -> Result<Outcome, Failure> {
    let (set, answers) = references::<P>(primary, host)?;
    refuse_failed(&set, &answers)?;
    P::reconcile(primary, &answers)
}

/// As [`reconcile`], for a primary that is going.
///
/// # Errors
/// As for [`reconcile`].
pub fn finalize<P: Plugin>(primary: &Primary, host: impl Fn(&Query) -> Finding) -> Result<Finalization, Failure> {
    let (set, answers) = references::<P>(primary, host)?;
    refuse_failed(&set, &answers)?;
    P::finalize(primary, &answers)
}

/// The complete set of a primary's references and their answers, where `host` answers the queries.
///
/// # Errors
/// As for [`reconcile`], but for queries that failed.
pub fn references<P: Plugin>(
    primary: &Primary,
    host: impl Fn(&Query) -> Finding,
) -> Result<(ReferenceSet, Answers), Failure> {
    let mut found = Answers::default();
    for _ in 0..MAX_ROUNDS {
        let set = P::references(primary, &found)?;
        let ids: BTreeSet<_> = set.queries.iter().map(|query| &query.id).collect();
        if ids.len() < set.queries.len() {
            return Err(Failure::permanent("DuplicateQuery", "two queries have the same id"));
        }
        found = set
            .queries
            .iter()
            .map(|query| (query.id.clone(), declared(query, host(query))))
            .collect();
        if set.complete {
            return Ok((set, found));
        }
    }
    Err(Failure::permanent(
        "TooManyRounds",
        format!("the set of references is not complete after {MAX_ROUNDS} rounds"),
    ))
}

fn refuse_failed(set: &ReferenceSet, answers: &Answers) -> Result<(), Failure> {
    let strict = set.queries.iter().filter(|query| !query.tolerate);
    match strict.filter_map(|query| answers.failed(&query.id)).next() {
        Some(failure) => Err(failure.into()),
        None => Ok(()),
    }
}

/// A finding with only what the query declares.
fn declared(query: &Query, finding: Finding) -> Finding {
    let fields = match &query.target {
        QueryTarget::Named(named) => &named.fields,
        QueryTarget::Selected(selected) => &selected.fields,
        QueryTarget::Owned(owned) => &owned.fields,
        QueryTarget::Repository(_) => return finding,
    };
    let reduce = |object: Object| {
        Ok(Object {
            value: reduced(&object.value, fields)?,
            ..object
        })
    };
    let reduced = match finding {
        Finding::Found(object) => reduce(object).map(Finding::Found),
        Finding::Matches(objects) => objects
            .into_iter()
            .map(reduce)
            .collect::<Result<_, _>>()
            .map(Finding::Matches),
        other => Ok(other),
    };
    reduced.unwrap_or_else(|message: String| failed(QueryFailureReason::Invalid, message))
}

fn reduced(value: &Value, fields: &Fields) -> Result<Value, String> {
    const ALWAYS: [&str; 2] = ["metadata.uid", "metadata.deletionTimestamp"];
    let paths: Vec<&str> = match fields {
        Fields::Whole => return Ok(value.clone()),
        Fields::MetadataOnly => vec!["apiVersion", "kind", "metadata"],
        Fields::Paths(paths) => paths.iter().map(String::as_str).chain(ALWAYS).collect(),
    };
    let paths: Result<Vec<_>, _> = paths.into_iter().map(FieldPath::parse).collect();
    Ok(project(value, &paths.map_err(|error| error.to_string())?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Description, json};

    /// Reads a field that it may or may not have declared, as its primary says.
    struct Reader;

    impl Plugin for Reader {
        fn describe() -> Description {
            Description::new("reader", "1.0.0")
        }

        fn references(primary: &Primary, answers: &Answers) -> Result<ReferenceSet, Failure> {
            let fields: Vec<String> = primary.object.field("fields")?;
            let queries = || {
                let query = Query::named("a", "v1", "ConfigMap", "a").fields(fields.clone());
                let count = if primary.name() == "twice" { 2 } else { 1 };
                vec![query; count]
            };
            match primary.name() {
                "endless" => Ok(ReferenceSet::partial(queries())),
                _ if answers.is_empty() => Ok(ReferenceSet::partial(queries())),
                _ => Ok(ReferenceSet::complete(queries())),
            }
        }

        fn reconcile(_: &Primary, answers: &Answers) -> Result<Outcome, Failure> {
            Ok(Outcome::new().apply(answers.found("a")?.value.clone()))
        }
    }

    fn run(name: &str, fields: Value, finding: Finding) -> Result<Value, Failure> {
        let primary = primary(json!({"metadata": {"name": name}, "fields": fields}));
        let outcome = reconcile::<Reader>(&primary, |_| finding.clone())?;
        Ok(outcome.applies()[0].object.clone())
    }

    #[test]
    fn only_declared_fields_are_seen() {
        let object = json!({"metadata": {"uid": "u", "name": "a"}, "data": {"k": "v", "x": "y"}});
        assert_eq!(
            run("r", json!(["data.k"]), found(object.clone())).unwrap()["data"],
            json!({"k": "v"})
        );
        assert_eq!(
            run("r", json!([]), found(object)).unwrap(),
            json!({"metadata": {"uid": "u"}})
        );
    }

    #[test]
    fn what_the_host_refuses_is_refused() {
        for (name, fields, finding, reason) in [
            ("endless", json!([]), missing(), "TooManyRounds"),
            ("twice", json!([]), missing(), "DuplicateQuery"),
            ("r", json!(["a..b"]), found(json!({})), "InvalidQuery"),
            ("r", json!([]), failed(QueryFailureReason::Forbidden, "no"), "Forbidden"),
        ] {
            assert_eq!(run(name, fields, finding).unwrap_err().reason, reason, "{name}");
        }
    }
}
