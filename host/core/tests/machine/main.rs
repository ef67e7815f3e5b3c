//! The state machine, one case a test.

mod dependents;
mod explain;
mod histories;
mod own_writes;
mod protection;
mod reads;
mod refused;
mod words;
