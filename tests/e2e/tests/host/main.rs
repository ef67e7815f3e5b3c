//! The host itself: what it says of bad input, and that everything else runs on.
#![allow(missing_docs, reason = "a test's name says what it shows")]

mod commands;
mod explain;
mod modules;
mod rights;
