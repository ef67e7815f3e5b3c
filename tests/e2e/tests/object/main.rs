//! The Object plugin on real API servers.
#![allow(missing_docs, reason = "a test's name says what it shows")]

mod clusters;
mod deletion;
mod references;
mod refusals;
mod restarts;
mod targets;
mod world;
