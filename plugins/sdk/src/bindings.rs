//! The plugin contract as wit-bindgen reads it from the WIT files.

#![allow(
    unsafe_code,
    reason = "the generated code lifts and lowers values across the component boundary; no other module needs it"
)]
#![allow(missing_docs, unused_qualifications, clippy::all, reason = "the code is generated")]

wit_bindgen::generate!({
    path: "../../wit/0.1.0",
    world: "plugin",
    additional_derives: [PartialEq, Eq],
    generate_unused_types: true,
    pub_export_macro: true,
    export_macro_name: "export_component",
    default_bindings_module: "patchbay_sdk::bindings",
});
