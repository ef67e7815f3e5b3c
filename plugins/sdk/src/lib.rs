//! Write patchbay plugins in Rust.
//!
//! A plugin is a pure function of one primary object and of what that object depends on. It implements [`Plugin`]:
//! [`references`](Plugin::references) names what the primary depends on, and [`reconcile`](Plugin::reconcile) says what
//! should be true, given what was found. The host watches, reads and writes; the plugin is run again whenever something
//! that it named has changed.
//!
//! This one keeps a copy of a ConfigMap's data under another name, and follows the source at once:
//!
//! ```
//! use patchbay_sdk::{Answers, Description, Failure, Outcome, Plugin, Primary, Query, ReferenceSet, Verbs, json};
//!
//! #[derive(serde::Deserialize)]
//! struct Spec {
//!     from: String,
//!     to: String,
//! }
//!
//! struct CopyConfigMap;
//!
//! impl Plugin for CopyConfigMap {
//!     fn describe() -> Description {
//!         Description::new("copy", "0.1.0")
//!             .primary("example.org/v1", "Copy")
//!             .may(Verbs::READ | Verbs::APPLY, "", "ConfigMap", "reads the source and writes the copy")
//!     }
//!
//!     fn references(primary: &Primary, _: &Answers) -> Result<ReferenceSet, Failure> {
//!         let spec: Spec = primary.spec()?;
//!         let source = Query::named("source", "v1", "ConfigMap", spec.from);
//!         Ok(ReferenceSet::complete([source.in_namespace_of(primary).fields(["data"])]))
//!     }
//!
//!     fn reconcile(primary: &Primary, answers: &Answers) -> Result<Outcome, Failure> {
//!         let spec: Spec = primary.spec()?;
//!         let source = answers.found("source")?;
//!         Ok(Outcome::new().apply(json!({
//!             "apiVersion": "v1",
//!             "kind": "ConfigMap",
//!             "metadata": {"name": spec.to, "namespace": primary.namespace()},
//!             "data": source.value["data"],
//!         })))
//!     }
//! }
//!
//! patchbay_sdk::export!(CopyConfigMap);
//!
//! // Plugins are tested without a host and without a cluster.
//! use patchbay_sdk::testing;
//! let primary = testing::primary(json!({
//!     "metadata": {"name": "c", "namespace": "default"},
//!     "spec": {"from": "a", "to": "b"},
//! }));
//! let outcome = testing::reconcile::<CopyConfigMap>(&primary, |_| testing::found(json!({"data": {"k": "v"}})))?;
//! assert_eq!(outcome.applies()[0].object["data"], json!({"k": "v"}));
//! # Ok::<(), Failure>(())
//! ```
//!
//! The crate of a plugin has `crate-type = ["cdylib", "rlib"]` and is built for `wasm32-unknown-unknown`; the module
//! that comes out becomes a component with `wasm-tools component new` or the crate wit-component.
//!
//! Objects are [`serde_json::Value`]s, parsed once per call. What surrounds them is typed: the types of the contract
//! with constructors that read well, and types of this crate where the contract has JSON text.

#[doc(hidden)]
pub mod adapter;
mod answers;
#[doc(hidden)]
pub mod bindings;
pub mod conditions;
mod contract;
mod failure;
pub mod log;
mod object;
mod outcome;
mod primary;
mod query;
pub mod testing;

pub use answers::{Answers, Finding};
pub use bindings::patchbay::plugin::types::{
    ApplyMode, ApplySet, Cluster, DeclaredWatch, Delete, Dependent, Description, Event, EventSeverity, Fields, File,
    FileTree, Home, LabelOperator, LabelRequirement, LabelSelector, Namespaces, ObjectKind, ObjectPermission,
    ObjectReference, PrimaryKind, PrimaryName, Propagation, Purpose, Query, QueryFailure, QueryFailureReason,
    QueryTarget, ReferenceSet, Request, RevisionKind, SecretKey, Verbs, WriteAction, WriteFailure, WriteResult,
    WriteState,
};
pub use failure::Failure;
pub use object::{Change, Object};
pub use outcome::{Apply, Controller, Finalization, Outcome, Patch, Write};
pub use patchbay_fieldpath as fieldpath;
pub use primary::Primary;
pub use query::QueryBuilder;
pub use serde_json::{Value, json};

/// What a plugin answers. All functions are pure: the same arguments give the same answer, whenever they are called.
pub trait Plugin {
    /// What the plugin is and needs. Called once, when it is loaded.
    fn describe() -> Description;

    /// What the primary depends on. Called first without answers; and, until the set is complete, again with what the
    /// queries of the last round found.
    ///
    /// # Errors
    /// If the primary makes no sense, so that nothing can be asked.
    fn references(primary: &Primary, answers: &Answers) -> Result<ReferenceSet, Failure>;

    /// Which primaries a change of an object under the declared watch `watch` concerns. Needed only by plugins that
    /// declare watches in their description.
    ///
    /// # Errors
    /// If it cannot be told; the change is then offered again.
    fn dependents(watch: &str, change: &Change) -> Result<Vec<Dependent>, Failure> {
        let _ = change;
        let message = format!("the watch `{watch}` is declared, but the plugin does not implement `dependents`");
        Err(Failure::permanent("NotImplemented", message))
    }

    /// What should be true of the primary. Called when every query has an answer.
    ///
    /// # Errors
    /// If it cannot be decided; nothing is written then but the failure's status.
    fn reconcile(primary: &Primary, answers: &Answers) -> Result<Outcome, Failure>;

    /// What should be true before the primary goes, and whether it may go. Needed only by plugins that have a finalizer.
    /// Called while the primary is being deleted, or while its controller ends; [`Primary::is_deleting`] tells which.
    ///
    /// # Errors
    /// If it cannot be decided; the primary stays then.
    fn finalize(primary: &Primary, answers: &Answers) -> Result<Finalization, Failure> {
        let _ = (primary, answers);
        Ok(Finalization::done())
    }
}

/// Makes a type that implements [`Plugin`] the plugin of this crate.
///
/// It does nothing but check the type where the target is not Wasm, so that the crate can be tested natively.
#[macro_export]
macro_rules! export {
    ($plugin:ty) => {
        const _: fn() -> $crate::Description = <$plugin as $crate::Plugin>::describe;

        #[cfg(target_family = "wasm")]
        const _: () = {
            type Component = $crate::adapter::Adapter<$plugin>;
    $crate::bindings::export_component!(Component with_types_in $crate::bindings);
        };
    };
}
