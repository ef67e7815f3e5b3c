//! What is wrong with a YAML text, without any of it: it may be a Secret or a kubeconfig.

use std::borrow::Cow;

use serde_saphyr::Error;

/// Where the text is wrong, and why. Nothing of the text is repeated.
pub fn yaml_problem(error: &Error) -> String {
    let reason = reason(error);
    match error.location().filter(|location| location.line() > 0) {
        Some(location) => format!("line {} column {}: {reason}", location.line(), location.column()),
        None => reason.into_owned(),
    }
}

/// The reason, if the parser says it in words of its own, and another if it may quote.
fn reason(error: &Error) -> Cow<'_, str> {
    match error {
        Error::WithSnippet { error, .. } | Error::AliasError { error, .. } => reason(error),
        // What the scanner says is fixed.
        Error::ExternalMessage { msg, .. } => msg.as_str().into(),
        Error::Eof { .. } => "the text ends too early".into(),
        Error::DuplicateMappingKey { .. } => "a mapping has the same key twice".into(),
        Error::UnknownAnchor { .. } => "an alias has no anchor".into(),
        Error::Unexpected { expected, .. } => format!("expected {expected}").into(),
        Error::InvalidScalar { ty, .. } => format!("the value is no {ty}").into(),
        Error::SerdeMissingField { field, .. } => format!("the field {field} is missing").into(),
        Error::SerdeInvalidType { expected, .. }
        | Error::SerdeInvalidValue { expected, .. }
        | Error::SerdeInvalidLength { expected, .. } => format!("expected {expected}").into(),
        Error::ContainerEndMismatch { .. } => "a list or a mapping is closed by the wrong bracket".into(),
        Error::IndentationError { .. } => "the indentation is wrong".into(),
        _ => "it is no valid YAML, or a value is not of the type that belongs there".into(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn a_place_and_a_reason_are_told_and_nothing_of_the_text() {
        for text in [
            "a: 1\ntoken: hunter2: [",
            "a: hunter2\n b: hunter2\n",
            "{\"password\": \"hunter2\", \"user\" \"hunter2\"}",
            "hunter2: 1\nhunter2: 2\n",
            "a: *hunter2\n",
            "a: !hunter2 {\n",
            "a: \"hunter2\\q\"\n",
            "a: 'hunter2\n",
            "\thunter2: [",
        ] {
            let error = serde_saphyr::from_multiple::<Value>(text).expect_err(text);
            let problem = yaml_problem(&error);
            assert!(!problem.contains("hunter2"), "{problem}");
            assert!(problem.starts_with("line ") && !problem.contains('\n'), "{problem}");
        }
        #[derive(Debug, serde::Deserialize)]
        struct Typed {
            #[serde(rename = "number")]
            _number: u32,
        }
        for text in ["number: hunter2", "other: hunter2", "[hunter2]", "hunter2"] {
            let error = serde_saphyr::from_str::<Typed>(text).expect_err(text);
            let problem = yaml_problem(&error);
            assert!(!problem.contains("hunter2") && !problem.contains('\n'), "{problem}");
        }
    }
}
