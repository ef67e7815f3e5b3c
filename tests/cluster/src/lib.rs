//! Real Kubernetes API servers for tests and demos.
//!
//! The server is the Go program in `tests/apiserver`. This crate knows where its binary lies, starts it, and gives
//! out kubeconfigs. A server ends when its [`ApiServer`] is dropped, and also when the process that holds it ends
//! in any other way, a kill included: it watches its standard input.
//!
//! It has few dependencies, since a newcomer waits for it to be compiled: the build tool uses it too.

mod binary;
mod kubeconfig;
mod server;

pub use binary::{BINARY_VARIABLE, BinaryError, cache_folder, cached_binary, find_binary, is_binary_name, sources};
pub use kubeconfig::{Access, kubeconfig};
pub use server::{ApiServer, Options, StartError};
