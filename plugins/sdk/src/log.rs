//! Lines for the host's log, under the plugin's and the primary's name. The host drops lines beyond a rate and a length,
//! and masks values of Secrets that the run was given. In native tests, lines go to standard error.

use crate::bindings::patchbay::plugin::log::Level;

/// For those who work on the plugin.
pub fn debug(message: &str) {
    write(Level::Debug, message);
}

/// For those who run it.
pub fn info(message: &str) {
    write(Level::Info, message);
}

/// Something is wrong, and goes on all the same.
pub fn warning(message: &str) {
    write(Level::Warning, message);
}

/// Something went wrong that has no better place, such as a failure or a condition.
pub fn error(message: &str) {
    write(Level::Error, message);
}

#[cfg(target_family = "wasm")]
fn write(level: Level, message: &str) {
    crate::bindings::patchbay::plugin::log::write_line(level, message);
}

#[cfg(not(target_family = "wasm"))]
fn write(level: Level, message: &str) {
    eprintln!("{level:?}: {message}");
}
