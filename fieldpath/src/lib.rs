//! Paths into JSON values, such as `spec.containers[0].image`.
//!
//! The grammar is the one that Crossplane uses, so that manifests written for it mean the same here:
//!
//! - Names are separated by dots: `metadata.name`.
//! - A name that holds dots stands in brackets, with or without quotes: `data[ca.crt]`, `data['ca.crt']`.
//! - A number in brackets is an index, a quoted number is a name: `data[123]` and `data['123']` differ.
//! - There are no wildcards; `*` is a name like any other.
//!
//! [`FieldPath::get`] reads, [`FieldPath::set`] writes, and [`Projection`] reduces a value to what some paths need.
//! No message of this crate holds a value, so errors can be shown where values must not be.
//!
//! ```
//! use patchbay_fieldpath::FieldPath;
//! use serde_json::json;
//!
//! let path = FieldPath::parse("data[ca.crt]")?;
//! assert_eq!(path.get(&json!({"data": {"ca.crt": "PEM"}}))?, &json!("PEM"));
//!
//! let error = path.get(&json!({"data": "PEM"})).unwrap_err();
//! assert_eq!(error.to_string(), "path `data['ca.crt']`: `data` is a string, so it has no field `ca.crt`");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod access;
mod error;
mod parse;
mod path;
mod projection;

pub use error::{AccessError, PathError, Problem, ValueType};
pub use path::{FieldPath, MAX_INDEX, Segment};
pub use projection::{Projection, project};
