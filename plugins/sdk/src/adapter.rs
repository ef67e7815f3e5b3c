//! The edge of the component: what the host sends becomes types of this crate, and back.

use std::marker::PhantomData;

use serde_json::Value;

use crate::bindings::exports::patchbay::plugin::reconciler::Guest;
use crate::bindings::patchbay::plugin::types as wit;
use crate::{Answers, Change, Failure, Finalization, Finding, Object, Outcome, Plugin, Primary, Write};

/// Speaks the contract for a plugin.
pub struct Adapter<P>(PhantomData<P>);

impl<P: Plugin> Guest for Adapter<P> {
    fn describe() -> wit::Description {
        report_panics();
        P::describe()
    }

    fn references(primary: wit::Primary, answers: Vec<wit::Answer>) -> Result<wit::ReferenceSet, wit::Failure> {
        report_panics();
        Ok(P::references(&primary_from(primary)?, &answers_from(answers)?)?)
    }

    fn dependents(watch: String, change: wit::Change) -> Result<Vec<wit::Dependent>, wit::Failure> {
        report_panics();
        let change = Change {
            before: change.before.map(object_from).transpose()?,
            after: change.after.map(object_from).transpose()?,
        };
        Ok(P::dependents(&watch, &change)?)
    }

    fn reconcile(primary: wit::Primary, answers: Vec<wit::Answer>) -> Result<wit::Outcome, wit::Failure> {
        report_panics();
        Ok(P::reconcile(&primary_from(primary)?, &answers_from(answers)?)?.into())
    }

    fn finalize(primary: wit::Primary, answers: Vec<wit::Answer>) -> Result<wit::Finalization, wit::Failure> {
        report_panics();
        let Finalization { outcome, done } = P::finalize(&primary_from(primary)?, &answers_from(answers)?)?;
        Ok(wit::Finalization {
            outcome: outcome.into(),
            done,
        })
    }
}

/// A panic ends the instance without a word, so its message goes to the log first.
fn report_panics() {
    #[cfg(target_family = "wasm")]
    {
        static ONCE: std::sync::Once = std::sync::Once::new();
        ONCE.call_once(|| std::panic::set_hook(Box::new(|panic| crate::log::error(&panic.to_string()))));
    }
}

fn json_from(text: &str, what: &str) -> Result<Value, Failure> {
    serde_json::from_str(text)
        .map_err(|error| Failure::retry("BadHostData", format!("the host sent {what} that is no JSON: {error}")))
}

fn object_from(object: wit::Object) -> Result<Object, Failure> {
    Ok(Object {
        value: json_from(&object.json, "an object")?,
        cluster_id: object.cluster_id,
        resource_version: object.resource_version,
    })
}

fn primary_from(primary: wit::Primary) -> Result<Primary, Failure> {
    Ok(Primary {
        object: object_from(primary.object)?,
        parent: primary.parent.map(object_from).transpose()?,
        purpose: primary.purpose,
        last_writes: primary.last_writes,
        config: json_from(&primary.config, "a configuration")?,
        time: primary.time,
    })
}

fn answers_from(answers: Vec<wit::Answer>) -> Result<Answers, Failure> {
    answers
        .into_iter()
        .map(|answer| Ok((answer.id, finding_from(answer.finding)?)))
        .collect()
}

fn finding_from(finding: wit::Finding) -> Result<Finding, Failure> {
    Ok(match finding {
        wit::Finding::Found(object) => Finding::Found(object_from(object)?),
        wit::Finding::Missing => Finding::Missing,
        wit::Finding::Matches(objects) => {
            Finding::Matches(objects.into_iter().map(object_from).collect::<Result<_, _>>()?)
        }
        wit::Finding::Files(files) => Finding::Files(files),
        wit::Finding::Failed(failure) => Finding::Failed(failure),
    })
}

impl From<Failure> for wit::Failure {
    fn from(failure: Failure) -> Self {
        wit::Failure {
            reason: failure.reason,
            message: failure.message,
            permanent: failure.permanent,
            status: failure.status.as_ref().map(Value::to_string),
        }
    }
}

impl From<Outcome> for wit::Outcome {
    fn from(outcome: Outcome) -> Self {
        wit::Outcome {
            writes: outcome.writes.into_iter().map(wit::Write::from).collect(),
            status: outcome.status.as_ref().map(Value::to_string),
            events: outcome.events,
            protect: outcome.protect,
            prune: outcome.prune,
            controllers: outcome
                .controllers
                .into_iter()
                .map(|controller| wit::Controller {
                    cluster: controller.cluster,
                    kind: controller.kind,
                    selector: controller.selector,
                    config: controller.config.to_string(),
                })
                .collect(),
            again_after: outcome
                .again_after
                .map(|delay| u64::try_from(delay.as_millis()).unwrap_or(u64::MAX)),
            again_if_written: outcome.again_if_written,
        }
    }
}

impl From<Write> for wit::Write {
    fn from(write: Write) -> Self {
        match write {
            Write::Apply(apply) => wit::Write::Apply(wit::Apply {
                cluster: apply.cluster,
                object: apply.object.to_string(),
                mode: apply.mode,
                force: apply.force,
            }),
            Write::Delete(delete) => wit::Write::Delete(delete),
            Write::Patch(patch) => wit::Write::Patch(wit::Patch {
                object: patch.object,
                subresource: patch.subresource,
                operations: Value::Array(patch.operations).to_string(),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Apply, Description, Query, ReferenceSet, json};
    use std::time::Duration;

    struct Echo;

    impl Plugin for Echo {
        fn describe() -> Description {
            Description::new("echo", "1.0.0").primary("example.org/v1", "Echo")
        }

        fn references(_: &Primary, answers: &Answers) -> Result<ReferenceSet, Failure> {
            if answers.is_empty() {
                return Ok(ReferenceSet::partial([Query::named("a", "v1", "Secret", "s")]));
            }
            Ok(ReferenceSet::complete([Query::named("a", "v1", "Secret", "s")]))
        }

        fn reconcile(primary: &Primary, answers: &Answers) -> Result<Outcome, Failure> {
            let found = answers.found("a")?;
            Ok(Outcome::new()
                .apply(Apply::new(json!({"got": found.value, "config": primary.config})).force())
                .status(json!({"ok": true}))
                .again_after(Duration::from_secs(2)))
        }
    }

    fn object(json: &str) -> wit::Object {
        wit::Object {
            cluster_id: "c".into(),
            resource_version: "1".into(),
            json: json.into(),
        }
    }

    fn primary(json: &str) -> wit::Primary {
        wit::Primary {
            object: object(json),
            parent: None,
            purpose: crate::Purpose::Reconcile,
            last_writes: vec![],
            config: r#"{"c":1}"#.into(),
            time: 0,
        }
    }

    fn answer(finding: wit::Finding) -> Vec<wit::Answer> {
        vec![wit::Answer {
            id: "a".into(),
            finding,
        }]
    }

    #[test]
    fn an_outcome_crosses_as_the_contract_has_it() {
        let found = answer(wit::Finding::Found(object(r#"{"k":"v"}"#)));
        let outcome = Adapter::<Echo>::reconcile(primary("{}"), found).unwrap();
        let wit::Write::Apply(apply) = &outcome.writes[0] else {
            panic!("{outcome:?}")
        };
        assert_eq!(
            json_from(&apply.object, "").unwrap(),
            json!({"got": {"k": "v"}, "config": {"c": 1}})
        );
        assert!(apply.force);
        assert_eq!(outcome.status.as_deref(), Some(r#"{"ok":true}"#));
        assert_eq!(outcome.again_after, Some(2000));
    }

    #[test]
    fn a_missing_object_is_a_failure_that_names_the_query() {
        let failure = Adapter::<Echo>::reconcile(primary("{}"), answer(wit::Finding::Missing)).unwrap_err();
        assert_eq!((failure.reason.as_str(), failure.permanent), ("NotFound", false));
        assert!(failure.message.contains("`a`"), "{}", failure.message);
    }

    #[test]
    fn text_that_is_no_json_is_a_failure_and_no_panic() {
        let failure = Adapter::<Echo>::references(primary("{"), vec![]).unwrap_err();
        assert_eq!(failure.reason, "BadHostData");
    }

    #[test]
    fn a_set_is_asked_for_until_it_is_complete() {
        assert!(!Adapter::<Echo>::references(primary("{}"), vec![]).unwrap().complete);
        assert!(
            Adapter::<Echo>::references(primary("{}"), answer(wit::Finding::Missing))
                .unwrap()
                .complete
        );
    }

    #[test]
    fn a_watch_without_dependents_is_an_error_that_names_it() {
        let failure = Adapter::<Echo>::dependents(
            "w".into(),
            wit::Change {
                before: None,
                after: None,
            },
        )
        .unwrap_err();
        assert!(failure.message.contains("`w`"), "{}", failure.message);
    }

    #[test]
    fn without_an_own_finalize_a_primary_may_go() {
        assert!(Adapter::<Echo>::finalize(primary("{}"), vec![]).unwrap().done);
    }
}
