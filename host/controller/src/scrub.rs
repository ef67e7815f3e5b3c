//! What is said about a run, with the values of Secrets masked.

use std::sync::{Arc, Mutex, PoisonError};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use patchbay_plugin::{Line, LogSink, MAX_LINE, TracingSink};
use serde_json::Value;

/// Shorter values are not masked: they stand in every line, and a line full of masks tells nothing.
const SHORTEST: usize = 4;

/// What the Secrets that a run was given hold. Whatever the host says about the run goes through it: log lines of the
/// plugin, its failures and events, and what the API server says of its writes.
#[derive(Default)]
pub(crate) struct Secrets(Mutex<Known>);

#[derive(Default)]
struct Known {
    /// Texts that have not been looked at: of most runs nothing is said, and then they need not be.
    texts: Vec<Arc<str>>,
    values: Vec<String>,
}

impl Secrets {
    /// Adds Secrets that the run is about to be given.
    pub(crate) fn add(&self, texts: impl IntoIterator<Item = Arc<str>>) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.texts.extend(texts);
    }

    /// A text without their values, plain or encoded. One that was cut off may end in the beginning of a value.
    pub(crate) fn masked(&self, text: &str, cut_off: bool) -> String {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for text in std::mem::take(&mut known.texts) {
            known.values.extend(values(&text));
        }
        // The longest first, so that a value within another leaves no rest.
        known.values.sort_by_key(|value| std::cmp::Reverse(value.len()));
        known.values.dedup();
        let mut masked = known
            .values
            .iter()
            .fold(text.to_owned(), |text, value| text.replace(value, MASK));
        if cut_off {
            let begun = known.values.iter().filter_map(|value| begun_at(&masked, value)).min();
            if let Some(at) = begun {
                masked.replace_range(at.., MASK);
            }
        }
        masked
    }
}

const MASK: &str = "***";

/// Where the beginning of a value stands at the end of a text.
fn begun_at(text: &str, value: &str) -> Option<usize> {
    let longest = value.len().min(text.len());
    let length = (SHORTEST..=longest)
        .rev()
        .find(|length| value.is_char_boundary(*length) && text.ends_with(&value[..*length]))?;
    Some(text.len() - length)
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

/// What a Secret holds, line by line too, since plugins log lines.
fn values(secret: &str) -> Vec<String> {
    let secret: Value = serde_json::from_str(secret).unwrap_or_default();
    let encoded = secret["data"]
        .as_object()
        .into_iter()
        .flatten()
        .filter_map(|(_, value)| value.as_str());
    let mut values = Vec::new();
    for encoded in encoded {
        values.push(encoded.to_owned());
        if let Some(plain) = STANDARD
            .decode(encoded)
            .ok()
            .and_then(|bytes| String::from_utf8(bytes).ok())
        {
            values.extend(plain.lines().map(str::to_owned));
            values.push(plain);
        }
    }
    values.retain(|value| value.len() >= SHORTEST);
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_value_of_a_secret_is_told() {
        let secrets = Secrets::default();
        secrets.add([r#"{"data":{"password":"aHVudGVyMg==","lines":"Zmlyc3QKc2Vjb25k","short":"YQ=="}}"#.into()]);
        assert_eq!(secrets.masked("hunter2 is aHVudGVyMg== a", false), "*** is *** a");
        assert_eq!(secrets.masked("first, second", false), "***, ***");
        assert_eq!(secrets.masked("it is hunte", false), "it is hunte");
        assert_eq!(secrets.masked("it is hunte", true), "it is ***");
    }
}
