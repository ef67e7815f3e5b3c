//! What a host writes, on real API servers: applies in all modes, patches, deletes, protection, pruning, and what it does
//! about those who undo it. Scripts say what is to be written.
#![allow(missing_docs, reason = "a test's name says what it shows")]

mod contention;
mod failures;
mod modes;
mod protection;
mod pruning;
mod restarts;
mod world;
