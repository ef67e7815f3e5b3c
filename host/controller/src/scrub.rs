//! A plugin's log lines, with the values of Secrets masked.

use std::sync::{Arc, Mutex, PoisonError};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use patchbay_plugin::{Line, LogSink, TracingSink};
use serde_json::Value;

/// Shorter values are not masked: they stand in every line, and a line full of masks tells nothing.
const SHORTEST: usize = 4;

/// Masks what the Secrets that a run was given hold, plain and encoded, in every line that its plugin writes.
pub(crate) struct ScrubbedLog {
    sink: TracingSink,
    primary: String,
    secrets: Mutex<Secrets>,
}

#[derive(Default)]
struct Secrets {
    /// Texts that have not been looked at: most runs log nothing, and then they need not be.
    texts: Vec<Arc<str>>,
    values: Vec<String>,
}

impl ScrubbedLog {
    pub(crate) fn new(plugin: &str, primary: String) -> Self {
        ScrubbedLog {
            sink: TracingSink::new(plugin),
            primary,
            secrets: Mutex::default(),
        }
    }

    /// Adds Secrets that the run is about to be given.
    pub(crate) fn add(&self, texts: impl IntoIterator<Item = Arc<str>>) {
        self.secrets
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .texts
            .extend(texts);
    }

    fn scrubbed(&self, line: &str) -> String {
        let mut secrets = self.secrets.lock().unwrap_or_else(PoisonError::into_inner);
        for text in std::mem::take(&mut secrets.texts) {
            secrets.values.extend(values(&text));
        }
        // The longest first, so that a value within another leaves no rest.
        secrets.values.sort_by_key(|value| std::cmp::Reverse(value.len()));
        secrets.values.dedup();
        secrets
            .values
            .iter()
            .fold(line.to_owned(), |line, value| line.replace(value, "***"))
    }
}

impl LogSink for ScrubbedLog {
    fn line(&self, line: Line<'_>) {
        let text = format!("{}: {}", self.primary, self.scrubbed(line.text));
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
    fn no_value_of_a_secret_is_logged() {
        let log = ScrubbedLog::new("p", "Object a".to_owned());
        log.add([r#"{"data":{"password":"aHVudGVyMg==","lines":"Zmlyc3QKc2Vjb25k","short":"YQ=="}}"#.into()]);
        assert_eq!(log.scrubbed("hunter2 is aHVudGVyMg== a"), "*** is *** a");
        assert_eq!(log.scrubbed("first, second"), "***, ***");
    }
}
