//! Keeping values that come from references out of messages.
//!
//! What a cluster says of a write that it refuses often quotes the value: `Invalid value: "s3cret": must be ...`. In
//! the Object's conditions and events, everybody who may read the Object would see it.

use std::collections::BTreeSet;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use patchbay_sdk::Value;

/// What stands in the place of a value.
const HIDDEN: &str = "[hidden]";

/// Shorter values are hidden only where they stand alone, since they are a part of many words.
const SHORTEST_WITHIN_WORDS: usize = 6;

/// Shorter lines of a text say nothing by themselves.
const SHORTEST_LINE: usize = 4;

/// The values that must not be shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mask {
    values: BTreeSet<String>,
    /// Whether anything was copied at all.
    active: bool,
}

impl Mask {
    /// Hides all that is in `value`, but for the names of its fields.
    pub fn add(&mut self, value: &Value) {
        self.active = true;
        match value {
            Value::Null | Value::Bool(_) => {}
            Value::Number(number) => self.add_text(&number.to_string()),
            Value::String(text) => {
                self.add_text(text);
                // A Secret's data arrives encoded, and others may quote it decoded.
                if let Some(decoded) = BASE64_STANDARD
                    .decode(text)
                    .ok()
                    .and_then(|bytes| String::from_utf8(bytes).ok())
                {
                    self.add_text(&decoded);
                }
            }
            Value::Array(elements) => elements.iter().for_each(|element| self.add(element)),
            Value::Object(fields) => fields.values().for_each(|field| self.add(field)),
        }
    }

    fn add_text(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        // As others quote it.
        let quoted = Value::from(text).to_string();
        self.values.insert(quoted[1..quoted.len() - 1].to_owned());
        self.values.insert(text.to_owned());
        if text.contains('\n') {
            let lines = text.lines().map(str::trim).filter(|line| line.len() >= SHORTEST_LINE);
            self.values.extend(lines.map(str::to_owned));
        }
    }

    /// The message without the values.
    pub fn hide(&self, message: &str) -> String {
        if !self.active {
            return message.to_owned();
        }
        // A message may quote an older value than the one that is known now, so what looks quoted goes first.
        let mut message = hide_quoted(message);
        // The longest first: one value may be a part of another.
        let mut values: Vec<_> = self.values.iter().collect();
        values.sort_by_key(|value| std::cmp::Reverse(value.len()));
        for value in values {
            message = if value.len() < SHORTEST_WITHIN_WORDS {
                hide_words(&message, value)
            } else {
                message.replace(value.as_str(), HIDDEN)
            };
        }
        message
    }
}

/// Hides `word` where no letter or digit is beside it.
fn hide_words(message: &str, word: &str) -> String {
    let mut hidden = String::with_capacity(message.len());
    let mut done = 0;
    for (start, _) in message.match_indices(word) {
        let end = start + word.len();
        let beside = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
        if beside(message[..start].chars().next_back()) || beside(message[end..].chars().next()) {
            continue;
        }
        hidden.push_str(&message[done..start]);
        hidden.push_str(HIDDEN);
        done = end;
    }
    hidden.push_str(&message[done..]);
    hidden
}

/// Hides the values that API servers quote, whatever they are: `Invalid value: "x": must be ...` and the like, and the
/// rest of a message behind `{Value:`, with which they print values that have the wrong type.
fn hide_quoted(message: &str) -> String {
    const FIELD_ERROR: &str = "value: ";
    const WRONG_TYPE: &str = "{Value:";
    let (message, wrong_type) = match message.find(WRONG_TYPE) {
        Some(at) => (&message[..at], Some(&message[at..at + WRONG_TYPE.len()])),
        None => (message, None),
    };
    let mut hidden = String::with_capacity(message.len());
    let mut rest = message;
    while let Some(at) = rest.find(FIELD_ERROR) {
        let (before, value) = rest.split_at(at + FIELD_ERROR.len());
        hidden.push_str(before);
        hidden.push_str(HIDDEN);
        rest = &value[quoted_length(value)..];
    }
    hidden.push_str(rest);
    if let Some(opening) = wrong_type {
        hidden.push_str(opening);
        hidden.push_str(HIDDEN);
    }
    hidden
}

/// How long the value at the begin of `text` is: to its closing quote, or to the colon behind it.
fn quoted_length(text: &str) -> usize {
    if let Some(inside) = text.strip_prefix('"') {
        let mut escaped = false;
        for (at, character) in inside.char_indices() {
            match character {
                '"' if !escaped => return at + 2,
                '\\' => escaped = !escaped,
                _ => escaped = false,
            }
        }
        return text.len();
    }
    text.find(": ").unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use patchbay_sdk::json;

    fn hide(value: Value, message: &str) -> String {
        let mut mask = Mask::default();
        mask.add(&value);
        mask.hide(message)
    }

    #[test]
    fn values_are_hidden_wherever_they_are_quoted() {
        for (value, message, expected) in [
            (
                json!("s3cret-value"),
                "cannot use s3cret-value here",
                "cannot use [hidden] here",
            ),
            (json!("s3cret-value"), "prefixs3cret-values", "prefix[hidden]s"),
            (
                json!({"a": ["s3cret-value"]}),
                "cannot use s3cret-value",
                "cannot use [hidden]",
            ),
            (json!(70123), "port 70123 is too large", "port [hidden] is too large"),
            (
                json!("a\"b c\\d"),
                r#"got a\"b c\\d and a"b c\d"#,
                "got [hidden] and [hidden]",
            ),
            (json!("first line\nsecond line"), "at second line", "at [hidden]"),
            (
                json!("aHVudGVyMg=="),
                "the password hunter2 is too short",
                "the password [hidden] is too short",
            ),
        ] {
            assert_eq!(hide(value, message), expected);
        }
    }

    #[test]
    fn short_values_are_hidden_only_where_they_stand_alone() {
        assert_eq!(
            hide(json!("ab"), "ab cab ab: \"ab\" abc"),
            "[hidden] cab [hidden]: \"[hidden]\" abc"
        );
        assert_eq!(hide(json!(1), "v1 has 1 of 10"), "v1 has [hidden] of 10");
        assert_eq!(hide(json!("é"), "é né é"), "[hidden] né [hidden]");
    }

    #[test]
    fn a_value_inside_a_longer_one_leaves_nothing_of_it() {
        assert_eq!(
            hide(json!(["secret", "secret-and-more"]), "x secret-and-more y"),
            "x [hidden] y"
        );
    }

    #[test]
    fn quoted_values_are_hidden_even_if_they_are_not_known() {
        for (message, expected) in [
            (
                r#"spec.port: Invalid value: "old \"secret\"": must be a number"#,
                "spec.port: Invalid value: [hidden]: must be a number",
            ),
            (
                "a: Invalid value: 70000: too large, b: Invalid value: 1: no",
                "a: Invalid value: [hidden]: too large, b: Invalid value: [hidden]: no",
            ),
            (r#"Unsupported value: "x""#, "Unsupported value: [hidden]"),
            (
                "expected string, got &value.valueUnstructured{Value:42}",
                "expected string, got &value.valueUnstructured{Value:[hidden]",
            ),
        ] {
            assert_eq!(hide(json!("unrelated"), message), expected);
        }
    }

    #[test]
    fn without_copied_values_messages_stay_as_they_are() {
        let message = r#"spec.port: Invalid value: "x": must be a number"#;
        assert_eq!(Mask::default().hide(message), message);
    }

    #[test]
    fn nothing_is_hidden_for_values_that_tell_nothing() {
        for value in [json!(null), json!(true), json!("")] {
            assert_eq!(hide(value, "null true"), "null true");
        }
    }
}
