//! A plugin for tests. Its primaries, Scripts (`script.patchbay.dev/v1`), say in their spec what it answers, so that a test
//! drives every part of the contract from YAML:
//!
//! ```yaml
//! apiVersion: script.patchbay.dev/v1
//! kind: Script
//! metadata: {name: copy}
//! spec:
//!   queries:
//!     - {id: source, apiVersion: v1, kind: ConfigMap, named: {name: source}, fields: {paths: [data.k]}}
//!   apply:
//!     - object:
//!         apiVersion: v1
//!         kind: ConfigMap
//!         metadata: {name: target}
//!         data: {k: "${source:data.k}", state: "${state:source}"}
//!   status: true
//! ```
//!
//! All fields of the spec are in the module `spec`, all that texts may hold in `template`. What names no namespace is in
//! the Script's own; `namespace: ""` stands for none.
#![forbid(unsafe_code)]

mod dependents;
mod outcome;
mod places;
mod queries;
mod spec;
mod status;
mod template;

use patchbay_sdk::{
    Answers, Change, Dependent, Description, Failure, Finalization, Outcome, Plugin, Primary, ReferenceSet, Request,
    Verbs,
};

use crate::spec::Spec;

/// The apiVersion of Scripts.
pub const API_VERSION: &str = "script.patchbay.dev/v1";
/// Their kind.
pub const KIND: &str = "Script";
/// The finalizer that each Script gets.
pub const FINALIZER: &str = "script.patchbay.dev/finalizer";

/// The plugin.
#[derive(Debug)]
pub struct ScriptPlugin;

patchbay_sdk::export!(ScriptPlugin);

impl Plugin for ScriptPlugin {
    fn describe() -> Description {
        let verbs = Verbs::READ | Verbs::APPLY | Verbs::DELETE | Verbs::PATCH;
        Description::new("script", env!("CARGO_PKG_VERSION"))
            .primary(API_VERSION, KIND)
            .finalizer(FINALIZER)
            .watch(dependents::watch())
            .may(verbs, "*", "*", "tests name any kind")
            .request(Request::RemoteClusters)
            .request(Request::ForeignSecrets)
    }

    fn references(primary: &Primary, answers: &Answers) -> Result<ReferenceSet, Failure> {
        queries::references(primary, &primary.spec()?, answers)
    }

    fn dependents(_: &str, change: &Change) -> Result<Vec<Dependent>, Failure> {
        dependents::of(change)
    }

    fn reconcile(primary: &Primary, answers: &Answers) -> Result<Outcome, Failure> {
        let spec: Spec = primary.spec()?;
        let status = spec.status.then(|| status::status(primary, &spec, answers));
        let outcome = match &spec.fail {
            Some(fail) => Err(fail.failure()),
            None => outcome::reconciled(primary, &spec, answers),
        };
        with_status(outcome, status)
    }

    fn finalize(primary: &Primary, answers: &Answers) -> Result<Finalization, Failure> {
        let spec: Spec = primary.spec()?;
        let status = spec.status.then(|| status::status(primary, &spec, answers));
        let outcome = with_status(outcome::finalized(primary, &spec, answers), status)?;
        Ok(Finalization {
            outcome,
            done: spec.finalize.done,
        })
    }
}

fn with_status(outcome: Result<Outcome, Failure>, status: Option<patchbay_sdk::Value>) -> Result<Outcome, Failure> {
    match outcome {
        Ok(outcome) => Ok(Outcome { status, ..outcome }),
        Err(failure) => Err(Failure { status, ..failure }),
    }
}
