//! The plugin for Objects (`kubernetes.crossplane.io/v1alpha2`).
//!
//! An Object keeps one resource, its *target*, in a cluster that a ProviderConfig names, and copies values out of other
//! resources, its *sources*, into the target's manifest. Sources are read in the Object's own cluster.
//!
//! A run asks for the ProviderConfig and all sources first. They say where the target is and how it is called, so the
//! target is asked for in a second round. What happens then is in the modules `reconcile` and `deletion`.
#![forbid(unsafe_code)]

mod deletion;
mod fields;
mod plan;
mod problem;
mod provider_config;
mod readiness;
mod reconcile;
mod reference;
mod spec;
mod status;
mod target;

use patchbay_sdk::{
    Answers, Description, Failure, Finalization, Outcome, Plugin, Primary, ReferenceSet, Request, Verbs, json,
};

pub use crate::spec::{API_VERSION, KIND};

/// The finalizer that provider-kubernetes uses too, so that either can take an Object over from the other.
const FINALIZER: &str = "finalizer.managedresource.crossplane.io";

/// Stops all writes to the target while its value is `true`.
const PAUSED: &str = "crossplane.io/paused";

/// The plugin.
#[derive(Debug)]
pub struct ObjectPlugin;

patchbay_sdk::export!(ObjectPlugin);

impl Plugin for ObjectPlugin {
    fn describe() -> Description {
        let why = "an Object may name any kind as its target or as the source of a value";
        Description::new("object", env!("CARGO_PKG_VERSION"))
            .primary(API_VERSION, KIND)
            .finalizer(FINALIZER)
            .may(Verbs::READ | Verbs::APPLY | Verbs::DELETE, "*", "*", why)
            .request(Request::RemoteClusters)
            .request(Request::ForeignSecrets)
            .config_schema(&json!({
                "type": "object",
                "additionalProperties": false,
                "properties": {
                    "sanitizeSecrets": {
                        "type": "boolean",
                        "default": false,
                        "description": "Show no data of a target that is a Secret in the Object's status.",
                    },
                },
            }))
    }

    fn references(primary: &Primary, answers: &Answers) -> Result<ReferenceSet, Failure> {
        if is_paused(primary) {
            return Ok(nothing());
        }
        let set = if primary.is_deleting() {
            deletion::references(primary, answers)
        } else {
            reconcile::references(primary, answers)
        };
        set.map_err(|problem| status::failure(primary, problem))
    }

    fn reconcile(primary: &Primary, answers: &Answers) -> Result<Outcome, Failure> {
        if is_paused(primary) {
            return Ok(Outcome::new().status(status::paused(primary)));
        }
        reconcile::outcome(primary, answers).map_err(|problem| status::failure(primary, problem))
    }

    fn finalize(primary: &Primary, answers: &Answers) -> Result<Finalization, Failure> {
        if !primary.is_deleting() {
            // The controller ends, not the Object: whoever reconciles it next still wants its target.
            return Ok(Finalization::done());
        }
        if is_paused(primary) {
            return Ok(Finalization::waiting(Outcome::new().status(status::paused(primary))));
        }
        deletion::finalization(primary, answers).map_err(|problem| status::failure(primary, problem))
    }
}

fn is_paused(primary: &Primary) -> bool {
    primary.annotation(PAUSED) == Some("true")
}

/// An Object that depends on nothing but itself.
fn nothing() -> ReferenceSet {
    ReferenceSet {
        queries: Vec::new(),
        join_keys: Vec::new(),
        complete: true,
    }
}
