//! What is said about a run, with the values of Secrets masked.

use std::sync::{Arc, Mutex, PoisonError};

use patchbay_mask::Mask;
use patchbay_plugin::{Line, LogSink, MAX_LINE, TracingSink};
use serde_json::Value;

/// Shorter values are not masked: they stand in every line, and a line full of masks tells nothing.
const SHORTEST: usize = 4;

/// What the Secrets that a run was given hold. Whatever the host says about the run goes through it: log lines of the
/// plugin, its failures and events, what the API server says of its writes, and names that were made of a value.
pub(crate) struct Secrets(Mutex<Known>);

struct Known {
    /// Texts that have not been looked at: of most runs nothing is said, and then they need not be.
    texts: Vec<Arc<str>>,
    mask: Mask,
}

impl Default for Secrets {
    fn default() -> Self {
        Secrets(Mutex::new(Known {
            texts: Vec::new(),
            mask: Mask::of_at_least(SHORTEST),
        }))
    }
}

impl Secrets {
    /// Adds Secrets that the run is about to be given.
    pub(crate) fn add(&self, texts: impl IntoIterator<Item = Arc<str>>) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.texts.extend(texts);
    }

    /// A text without their values, plain or encoded. One that was cut off may end in the beginning of a value.
    pub(crate) fn masked(&self, text: &str, cut_off: bool) -> String {
        self.with(|mask| if cut_off { mask.hide_cut(text) } else { mask.hide(text) })
    }

    /// Whether a name is or holds one of their values.
    pub(crate) fn are_in(&self, name: &str) -> bool {
        self.with(|mask| mask.hides(name))
    }

    fn with<T>(&self, look: impl FnOnce(&Mask) -> T) -> T {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for text in std::mem::take(&mut known.texts) {
            let secret: Value = serde_json::from_str(&text).unwrap_or_default();
            if let Some(data) = secret.get("data").filter(|data| data.is_object()) {
                known.mask.add(data);
            }
        }
        look(&known.mask)
    }
}

/// A plugin's log, with values of Secrets masked.
pub(crate) struct ScrubbedLog {
    sink: TracingSink,
    primary: String,
    secrets: Arc<Secrets>,
}

impl ScrubbedLog {
    pub(crate) fn new(plugin: &str, primary: String, secrets: Arc<Secrets>) -> Self {
        ScrubbedLog {
            sink: TracingSink::new(plugin),
            primary,
            secrets,
        }
    }
}

impl LogSink for ScrubbedLog {
    fn line(&self, line: Line<'_>) {
        let masked = self.secrets.masked(line.text, line.text.len() >= MAX_LINE);
        let text = format!("{}: {masked}", self.primary);
        self.sink.line(Line { text: &text, ..line });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_value_of_a_secret_is_told() {
        let secrets = Secrets::default();
        secrets.add([r#"{"data":{"password":"aHVudGVyMg==","lines":"Zmlyc3QKc2Vjb25k","short":"YQ=="}}"#.into()]);
        assert_eq!(
            secrets.masked("hunter2 is aHVudGVyMg== a", false),
            "[hidden] is [hidden] a"
        );
        assert_eq!(secrets.masked("first, second", false), "[hidden], [hidden]");
        assert_eq!(secrets.masked("it is hunte", false), "it is hunte");
        assert_eq!(secrets.masked("it is hunte", true), "it is [hidden]");
        assert!(secrets.are_in("copy-of-hunter2") && !secrets.are_in("copy"));
    }

    #[test]
    fn without_a_secret_nothing_is_masked() {
        let said = r#"data.k: Invalid value: "x": too short"#;
        assert_eq!(Secrets::default().masked(said, true), said);
    }
}
