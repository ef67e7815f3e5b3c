//! Runs patchbay against real API servers, for end-to-end tests and for the demo.
//!
//! A [`Cluster`] is an API server with an administrator's client, a [`Host`] is a running `patchbay`. Tests that can
//! live in a namespace of their own share one server per test binary ([`Cluster::shared`]), since starting one takes
//! four seconds of both cores. Everything ends with the process that started it, however that ends.
//!
//! `cargo xtask test` says by environment variables where the binaries are: `PATCHBAY_BIN`, `PATCHBAY_PLUGINS`,
//! `PATCHBAY_TEST_PLUGINS` and `PATCHBAY_APISERVER`.
//!
//! ```no_run
//! # async fn example() -> anyhow::Result<()> {
//! use std::time::Duration;
//! use patchbay_harness::{Cluster, Host, HostOptions, wait_for};
//!
//! let cluster = Cluster::start().await?;
//! cluster.apply_crds().await?;
//! let _host = Host::start(&cluster, &HostOptions::default()).await?;
//! let namespace = cluster.namespace("copying").await?;
//! cluster.apply_in(&namespace, "{apiVersion: v1, kind: ConfigMap, metadata: {name: source}, data: {k: v}}").await?;
//! wait_for("the target", Duration::from_secs(5), async || {
//!     cluster.get("v1", "ConfigMap", &namespace, "target").await
//! })
//! .await?;
//! # Ok(())
//! # }
//! ```

mod access;
pub mod binaries;
mod cluster;
mod condition;
mod durable;
mod history;
mod host;
mod objects;
mod proxy;
mod snapshot;
mod wait;

pub use access::Scope;
pub use cluster::Cluster;
pub use condition::{Condition, condition};
pub use durable::{DurableServer, Saved};
pub use history::History;
pub use host::{Host, HostOptions};
pub use proxy::{ActiveFault, ApiRequest, Cutting, Entry, Fault, Filter, Proxy, Refusal, Told, Verb};
pub use snapshot::Snapshot;
pub use wait::wait_for;
