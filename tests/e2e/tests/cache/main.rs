//! Watches, reads and the cache on real API servers, behind a proxy at which things go wrong.
#![allow(missing_docs, reason = "a test's name says what it shows")]

mod cleanup;
mod dependents;
mod failures;
mod gaps;
mod kinds;
mod queries;
mod races;
mod restarts;
mod rights;
mod scale;
mod storms;
mod world;
mod writes;
