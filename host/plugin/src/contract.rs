//! The plugin contract in Rust: what `wit/0.1.0` says, as types.
//!
//! The types mirror the WIT one to one and carry its documentation. They can be compared and hashed, so that a query
//! may key a map and a set of queries may be compared with that of the last run.

use std::hash::{Hash, Hasher};

#[allow(
    missing_docs,
    reason = "the WIT documents what its names leave open; `bindgen!` copies that"
)]
mod generated {
    wasmtime::component::bindgen!({
        path: "../../wit/0.1.0",
        world: "plugin",
        additional_derives: [PartialEq, Eq, Hash],
    });
}

pub use generated::patchbay::plugin::log::Level;
pub use generated::patchbay::plugin::types::*;

pub(crate) use generated::exports::patchbay::plugin::reconciler::Guest;
pub(crate) use generated::patchbay::plugin::log as log_import;
pub(crate) use generated::{Plugin as Bindings, PluginPre as BindingsPre};

/// The version of the contract that this host speaks.
pub const VERSION: &str = "0.1.0";

/// The package that the contract's interfaces belong to.
pub(crate) const PACKAGE: &str = "patchbay:plugin";

// `bindgen!` writes flags with equality but without a hash.
impl Hash for Verbs {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_array().hash(state);
    }
}
