//! The spec of a Script. A field that is not known is refused, so that a test with a slip in it does not pass.

use patchbay_sdk::{Failure, Primary, Value};
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// What a Script says. Texts in queries and writes are templates, so those are parsed once they are filled in.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct Spec {
    /// The queries of the first round, each a [`QuerySpec`](crate::queries::QuerySpec).
    pub(crate) queries: Vec<Value>,
    /// Those of later rounds, which may use what the rounds before them found. One that uses what was not found is left
    /// out.
    pub(crate) rounds: Vec<Vec<Value>>,
    pub(crate) join_keys: Vec<String>,
    /// Objects to apply: `{object, mode: create|update|upsert, uid, force, cluster}`. They come before deletes and patches.
    pub(crate) apply: Vec<Value>,
    /// Objects to delete: `{object, uid, resourceVersion, propagation}`. One whose uid is empty is left out.
    pub(crate) delete: Vec<Value>,
    /// JSON Patches: `{object, subresource, operations}`.
    pub(crate) patch: Vec<Value>,
    /// Objects to protect: `{apiVersion, kind, namespace, name, cluster}`.
    pub(crate) protect: Vec<Value>,
    /// Deletes what an earlier outcome of `reconcile` or `finalize` applied and this one does not.
    pub(crate) prune: Option<Prune>,
    /// Milliseconds.
    pub(crate) again_after: Option<u64>,
    pub(crate) again_if_written: bool,
    /// Answers with this failure in place of an outcome.
    pub(crate) fail: Option<Fail>,
    pub(crate) finalize: Finalize,
    /// Writes a status: `answers` (id, state and names of what was found), `lastWrites` and `observedGeneration`. It holds no
    /// versions, since then it would never rest; `lastWrites` changes once after a restart.
    pub(crate) status: bool,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Prune {
    #[serde(default)]
    pub(crate) name: String,
    pub(crate) namespace: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Fail {
    reason: String,
    message: String,
    #[serde(default)]
    permanent: bool,
}

impl Fail {
    pub(crate) fn failure(&self) -> Failure {
        Failure {
            permanent: self.permanent,
            ..Failure::retry(&self.reason, &self.message)
        }
    }
}

/// What `finalize` answers.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct Finalize {
    pub(crate) done: bool,
    pub(crate) apply: Vec<Value>,
    pub(crate) delete: Vec<Value>,
    pub(crate) patch: Vec<Value>,
}

impl Default for Finalize {
    fn default() -> Self {
        Finalize {
            done: true,
            apply: Vec::new(),
            delete: Vec::new(),
            patch: Vec::new(),
        }
    }
}

/// A part of the spec as a type. `place` is how messages call it.
pub(crate) fn part<T: DeserializeOwned>(value: Value, place: &str) -> Result<T, Failure> {
    serde_json::from_value(value).map_err(|error| invalid(place, &error.to_string()))
}

pub(crate) fn invalid(place: &str, problem: &str) -> Failure {
    Failure::permanent("InvalidScript", format!("spec.{place}: {problem}"))
}

/// A namespace as a Script gives it: its own if it gives none, and none if it gives an empty one.
pub(crate) fn namespace(primary: &Primary, given: Option<String>) -> Option<String> {
    given
        .or_else(|| primary.namespace().map(str::to_owned))
        .filter(|namespace| !namespace.is_empty())
}
