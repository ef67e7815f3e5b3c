//! Keeps a copy of a ConfigMap's or Secret's data under the name of a Mirror.
//!
//! A plugin is three pure functions: what it is, what a primary depends on, and what should be true. It never reads and never
//! writes by itself.
#![forbid(unsafe_code)]

use patchbay_sdk::conditions::{self, Condition};
use patchbay_sdk::log;
use patchbay_sdk::{
    Answers, Description, Failure, Finding, LabelSelector, Outcome, Plugin, Primary, Query, ReferenceSet, Value, Verbs,
    json,
};
use serde::Deserialize;

/// The sources that other namespaces may read name them here.
const MIRROR_TO: &str = "examples.patchbay.dev/mirror-to";

#[derive(Deserialize)]
struct Spec {
    from: Source,
    keys: Option<Vec<String>>,
}

#[derive(Deserialize)]
struct Source {
    kind: String,
    name: String,
    namespace: Option<String>,
}

/// The plugin.
#[derive(Debug)]
pub struct Mirror;

patchbay_sdk::export!(Mirror);

impl Plugin for Mirror {
    // Called once, when the plugin is loaded. What it asks for here, an administrator grants.
    fn describe() -> Description {
        let own = LabelSelector::everything().label("examples.patchbay.dev/language", "rust");
        Description::new("mirror-rust", "0.1.0")
            .primary_selected("examples.patchbay.dev/v1alpha1", "Mirror", own)
            .may(Verbs::READ | Verbs::APPLY, "", "ConfigMap", "copies ConfigMaps")
            .may(Verbs::READ | Verbs::APPLY, "", "Secret", "copies Secrets")
    }

    // What the Mirror depends on. A change of it, and of nothing else, makes the Mirror run again.
    fn references(primary: &Primary, _: &Answers) -> Result<ReferenceSet, Failure> {
        let Spec { from, keys } = primary.spec()?;
        let data = match keys {
            None => vec!["data".to_owned(), "binaryData".to_owned()],
            Some(keys) => keys
                .iter()
                .flat_map(|key| [format!("data['{key}']"), format!("binaryData['{key}']")])
                .collect(),
        };
        let mut fields = vec!["type".to_owned(), format!("metadata.annotations['{MIRROR_TO}']")];
        fields.extend(data.iter().cloned());
        let own = primary.namespace().unwrap_or_default();
        let namespace = from.namespace.as_deref().unwrap_or(own);
        // `tolerate`: run even if the query fails, so that the status can say why.
        let source = Query::named("source", "v1", &from.kind, &from.name).in_namespace(namespace);
        // Nobody reads this answer. It is asked for so that the Mirror runs when somebody deletes or edits the copy.
        let copy = Query::named("copy", "v1", &from.kind, primary.name()).in_namespace(own);
        Ok(ReferenceSet::complete([
            source.fields(fields).tolerate(),
            copy.fields(data).tolerate(),
        ]))
    }

    // What should be true. The host compares it with what is there, and writes the difference.
    fn reconcile(primary: &Primary, answers: &Answers) -> Result<Outcome, Failure> {
        let Spec { from, keys } = primary.spec()?;
        let own = primary.namespace().unwrap_or_default();
        let namespace = from.namespace.as_deref().unwrap_or(own);
        let label = format!("{} {namespace}/{}", from.kind, from.name);

        // A failure is tried again, less and less often. Its status is written all the same.
        if let Some((_, failed)) = primary.failed_write() {
            let status = ready(primary, false, "WriteFailed", &failed.message);
            return Err(Failure::retry("WriteFailed", &failed.message).with_status(status));
        }
        // These only wait: the Mirror runs again as soon as one of its queries finds something else.
        let waits = |reason: &str, message: &str| Ok(Outcome::new().status(ready(primary, false, reason, message)));
        if namespace == own && from.name == primary.name() {
            return waits("SourceIsCopy", &format!("{label} would be its own copy"));
        }
        let source = match answers.finding("source") {
            Some(Finding::Found(source)) => source,
            Some(Finding::Failed(failure)) => return waits("SourceUnknown", &failure.message),
            _ => return waits("SourceMissing", &format!("{label} does not exist")),
        };
        // The host may read all namespaces, so it is up to the plugin that nobody reads a foreign Secret through it.
        if namespace != own && ![Some(own), Some("*")].contains(&source.annotation(MIRROR_TO)) {
            return waits(
                "NotAllowed",
                &format!("{label} has no annotation {MIRROR_TO} for {own}"),
            );
        }
        for key in keys.iter().flatten() {
            if ["data", "binaryData"]
                .iter()
                .all(|field| source.value[field].get(key).is_none())
            {
                return waits("KeyMissing", &format!("{label} has no key {key}"));
            }
        }

        let mut copy = json!({
            "apiVersion": "v1",
            "kind": from.kind,
            "metadata": {
                "name": primary.name(),
                "namespace": own,
                // So that Kubernetes deletes the copy with the Mirror.
                "ownerReferences": [{
                    "apiVersion": "examples.patchbay.dev/v1alpha1",
                    "kind": "Mirror",
                    "name": primary.name(),
                    "uid": primary.object.uid(),
                    "controller": true,
                }],
            },
        });
        // The answer holds the fields that `references` declares, so all of it is to be copied.
        for field in ["type", "data", "binaryData"] {
            if let Some(value) = source.value.get(field) {
                copy[field] = value.clone();
            }
        }
        let message = format!("copied from {label}");
        log::debug(&message);
        // The status is written last, and only if the copy was: it never says more than is true.
        Ok(Outcome::new()
            .apply(copy)
            .status(ready(primary, true, "Copied", &message)))
    }
}

/// The Mirror's status. The host fills in `lastTransitionTime`.
fn ready(primary: &Primary, is_ready: bool, reason: &str, message: &str) -> Value {
    let condition = if is_ready {
        Condition::is_true("Ready", reason)
    } else {
        Condition::is_false("Ready", reason)
    };
    let mut status = json!({});
    conditions::set(
        &mut status,
        condition.message(message).observed_generation(primary.generation()),
    );
    status
}

#[cfg(test)]
mod tests {
    use patchbay_sdk::testing;

    use super::*;

    // A whole run, without a host and without a cluster. Objects are reduced to the fields that were declared.
    fn run(spec: &Value, source: &Finding) -> Outcome {
        let primary = testing::primary(json!({
            "metadata": {"name": "m", "namespace": "n", "uid": "u", "generation": 2}, "spec": spec,
        }));
        testing::reconcile::<Mirror>(&primary, |query| match query.id.as_str() {
            "source" => source.clone(),
            _ => testing::missing(),
        })
        .unwrap()
    }

    fn reason(outcome: &Outcome) -> String {
        let status = outcome.status.clone().unwrap();
        conditions::get(&status, "Ready").unwrap()["reason"]
            .as_str()
            .unwrap()
            .to_owned()
    }

    #[test]
    fn only_the_named_keys_are_copied() {
        let secret = testing::found(json!({"type": "Opaque", "data": {"a": "MQ==", "b": "Mg=="}}));
        let outcome = run(
            &json!({"from": {"kind": "Secret", "name": "s"}, "keys": ["a"]}),
            &secret,
        );
        let copy = &outcome.applies()[0].object;
        assert_eq!(
            (&copy["data"], &copy["type"]),
            (&json!({"a": "MQ=="}), &json!("Opaque"))
        );
        assert_eq!(reason(&outcome), "Copied");
    }

    #[test]
    fn a_source_elsewhere_must_allow_it() {
        let spec = json!({"from": {"kind": "ConfigMap", "name": "s", "namespace": "other"}});
        let source =
            |to: &str| testing::found(json!({"metadata": {"annotations": {MIRROR_TO: to}}, "data": {"a": "1"}}));
        assert_eq!(reason(&run(&spec, &source("n"))), "Copied");
        assert_eq!(reason(&run(&spec, &source("*"))), "Copied");
        let refused = run(&spec, &source("m"));
        assert_eq!((reason(&refused).as_str(), refused.applies().len()), ("NotAllowed", 0));
    }
}
