//! Keeping secret values out of messages, for the host and for plugins.
//!
//! What a cluster says of a write that it refuses often quotes the value: `Invalid value: "s3cret": must be ...`. In
//! conditions, events and logs, many would see it who may not read the Secret. What one masks and another masks again
//! stays as it is.
#![forbid(unsafe_code)]

use std::collections::BTreeSet;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;

/// What stands in the place of a value.
pub const HIDDEN: &str = "[hidden]";

/// Shorter values are hidden only where they stand alone, since they are a part of many words.
const SHORTEST_WITHIN_WORDS: usize = 6;

/// Shorter lines of a text say nothing by themselves.
const SHORTEST_LINE: usize = 4;

/// The values that must not be shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mask {
    values: BTreeSet<String>,
    /// Whether there is anything to hide at all.
    active: bool,
    /// Shorter values are not hidden.
    shortest: usize,
}

impl Mask {
    /// One that lets values through that are shorter than this.
    pub fn of_at_least(shortest: usize) -> Self {
        Mask {
            shortest,
            ..Mask::default()
        }
    }

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
        if text.is_empty() || text == HIDDEN {
            return;
        }
        if text.len() >= self.shortest {
            // As others quote it.
            let quoted = Value::from(text).to_string();
            self.values.insert(quoted[1..quoted.len() - 1].to_owned());
            self.values.insert(text.to_owned());
        }
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
        self.values_hidden(hide_quoted(message))
    }

    fn values_hidden(&self, mut message: String) -> String {
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

    /// A message that was cut off, without the values, and without the beginning of one at its end.
    pub fn hide_cut(&self, message: &str) -> String {
        let mut message = self.hide(message);
        if let Some(at) = self.values.iter().filter_map(|value| begun_at(&message, value)).min() {
            message.replace_range(at.., HIDDEN);
        }
        message
    }

    /// Whether a text is or holds one of the values.
    pub fn hides(&self, text: &str) -> bool {
        self.active && self.values_hidden(text.to_owned()) != text
    }
}

/// Hides a name where it stands alone.
pub fn hide_name(message: &str, name: &str) -> String {
    if name.is_empty() {
        return message.to_owned();
    }
    hide_where(message, name, |beside| beside.is_alphanumeric() || beside == '-')
}

/// Where the beginning of a value stands at the end of a text.
fn begun_at(text: &str, value: &str) -> Option<usize> {
    let longest = value.len().min(text.len());
    let length = (SHORTEST_LINE..=longest)
        .rev()
        .find(|length| value.is_char_boundary(*length) && text.ends_with(&value[..*length]))?;
    Some(text.len() - length)
}

/// Hides `word` where no letter or digit is beside it.
fn hide_words(message: &str, word: &str) -> String {
    hide_where(message, word, char::is_alphanumeric)
}

/// Hides `word` where nothing is beside it that makes it a part of another word.
fn hide_where(message: &str, word: &str, joins: impl Fn(char) -> bool) -> String {
    let mut hidden = String::with_capacity(message.len());
    let mut done = 0;
    for (start, _) in message.match_indices(word) {
        let end = start + word.len();
        let beside = |c: Option<char>| c.is_some_and(&joins);
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

/// Hides the values that API servers quote, whatever they are: `Invalid value: "x": must be ...` and the like, and what
/// follows `{Value:`, with which they print values that have the wrong type, up to the last brace: a value may hold
/// braces of its own.
fn hide_quoted(message: &str) -> String {
    const FIELD_ERROR: &str = "value: ";
    const WRONG_TYPE: &str = "{Value:";
    let (message, wrong_type) = match message.find(WRONG_TYPE) {
        Some(at) => {
            let (opening, value) = message[at..].split_at(WRONG_TYPE.len());
            let closing = value.rfind('}').map_or("", |end| &value[end..]);
            (&message[..at], Some((opening, closing)))
        }
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
    if let Some((opening, closing)) = wrong_type {
        hidden.push_str(opening);
        hidden.push_str(HIDDEN);
        hidden.push_str(closing);
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
    use serde_json::json;

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
                "expected string, got &value.valueUnstructured{Value:42}, twice",
                "expected string, got &value.valueUnstructured{Value:[hidden]}, twice",
            ),
            (
                "expected string, got &value.valueUnstructured{Value:map[a:{b}]}",
                "expected string, got &value.valueUnstructured{Value:[hidden]}",
            ),
        ] {
            let hidden = hide(json!("unrelated"), message);
            assert_eq!(hidden, expected);
            assert_eq!(hide(json!("other"), &hidden), expected, "masked again it is the same");
        }
    }

    #[test]
    fn the_beginning_of_a_value_at_the_end_of_a_message_is_hidden_if_it_was_cut() {
        let mut mask = Mask::of_at_least(4);
        mask.add(&json!({"password": "aHVudGVyMg==", "short": "a"}));
        assert_eq!(mask.hide("hunter2 is aHVudGVyMg== a"), "[hidden] is [hidden] a");
        assert_eq!(mask.hide("it is hunte"), "it is hunte");
        assert_eq!(mask.hide_cut("it is hunte"), "it is [hidden]");
    }

    #[test]
    fn a_name_is_hidden_where_it_is_a_name_and_known_for_one() {
        let mut mask = Mask::default();
        mask.add(&json!("s3cret"));
        assert!(mask.hides("team-s3cret") && !mask.hides("team") && !mask.hides("Invalid value: 1"));
        assert_eq!(
            hide_name("Secret n/prod, prod-2: \"prod\"", "prod"),
            "Secret n/[hidden], prod-2: \"[hidden]\""
        );
        assert_eq!(hide_name("as it is", ""), "as it is");
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
