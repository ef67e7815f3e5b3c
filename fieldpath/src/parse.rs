//! From text to segments.

use crate::error::Syntax;
use crate::{PathError, Segment};

/// Splits `text` into its segments.
///
/// A path is read in pieces: a name up to the next `.`, `[` or end, or a bracket with what is in it. As in Crossplane, a
/// name may follow a bracket without a dot (`a[b]c`).
pub(crate) fn segments(text: &str) -> Result<Vec<Segment>, PathError> {
    let fail = |position: usize, syntax: Syntax| PathError {
        path: text.to_owned(),
        position,
        syntax,
    };
    if text.is_empty() {
        return Err(fail(0, Syntax::Empty));
    }
    let mut segments = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let position = text.len() - rest.len();
        if let Some(after) = rest.strip_prefix('.') {
            rest = after;
            match after.chars().next() {
                _ if position == 0 => return Err(fail(0, Syntax::LeadingDot)),
                None => return Err(fail(position, Syntax::TrailingDot)),
                Some('.') => return Err(fail(position + 1, Syntax::DoubleDot)),
                Some('[') => return Err(fail(position + 1, Syntax::BracketAfterDot)),
                Some(_) => {}
            }
        } else if let Some(after) = rest.strip_prefix('[') {
            let (inside, behind) = after.split_once(']').ok_or_else(|| fail(position, Syntax::Unclosed))?;
            if inside.is_empty() {
                return Err(fail(position, Syntax::EmptyBrackets));
            }
            if let Some(nested) = inside.find('[') {
                return Err(fail(position + 1 + nested, Syntax::Nested));
            }
            segments.push(name_or_index(inside));
            rest = behind;
        } else {
            let end = rest.find(['.', '[', ']']).unwrap_or(rest.len());
            if rest[end..].starts_with(']') {
                return Err(fail(position + end, Syntax::Unopened));
            }
            segments.push(name(&rest[..end]));
            rest = &rest[end..];
        }
    }
    Ok(segments)
}

/// What stands in brackets is an index if it is an unsigned number of 32 bits.
fn name_or_index(text: &str) -> Segment {
    // `str::parse` alone would take `+5` as well.
    if text.bytes().all(|byte| byte.is_ascii_digit())
        && let Ok(index) = text.parse()
    {
        return Segment::Index(index);
    }
    name(text)
}

fn name(text: &str) -> Segment {
    Segment::Field(text.trim_matches(['\'', '"']).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn field(name: &str) -> Segment {
        Segment::Field(name.to_owned())
    }

    #[test]
    fn names_and_indices() {
        let cases: &[(&str, &[Segment])] = &[
            ("spec", &[field("spec")]),
            ("metadata.name", &[field("metadata"), field("name")]),
            ("data[ca.crt]", &[field("data"), field("ca.crt")]),
            ("data['ca.crt']", &[field("data"), field("ca.crt")]),
            ("data[\"ca.crt\"]", &[field("data"), field("ca.crt")]),
            (
                "metadata.annotations['a.b/c']",
                &[field("metadata"), field("annotations"), field("a.b/c")],
            ),
            (
                "spec.containers[0].image",
                &[field("spec"), field("containers"), Segment::Index(0), field("image")],
            ),
            (
                "spec[containers][0]",
                &[field("spec"), field("containers"), Segment::Index(0)],
            ),
            ("a[0][1]", &[field("a"), Segment::Index(0), Segment::Index(1)]),
            ("a[b]c", &[field("a"), field("b"), field("c")]),
            ("[0]", &[Segment::Index(0)]),
            ("[a.b].c", &[field("a.b"), field("c")]),
            (
                "spec.containers[*].image",
                &[field("spec"), field("containers"), field("*"), field("image")],
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(segments(text).as_deref(), Ok(*expected), "{text}");
        }
    }

    #[test]
    fn a_number_in_brackets_is_an_index_and_a_quoted_one_is_a_key() {
        assert_eq!(segments("data[123]").unwrap()[1], Segment::Index(123));
        assert_eq!(segments("data['123']").unwrap()[1], field("123"));
        assert_eq!(segments("data.123").unwrap()[1], field("123"));
    }

    #[test]
    fn only_unsigned_numbers_of_32_bits_are_indices() {
        assert_eq!(segments("a[4294967295]").unwrap()[1], Segment::Index(u32::MAX));
        for name in ["4294967296", "-3", "3.0", "+5", "0x1", "1 "] {
            assert_eq!(segments(&format!("a[{name}]")).unwrap()[1], field(name), "{name}");
        }
    }

    #[test]
    fn bad_paths_say_where_and_what() {
        for (text, message) in [
            ("", "the path is empty; name a field, such as `metadata.name`"),
            (".a", "path `.a`: position 0: a path must not begin with a dot"),
            (
                "a.",
                "path `a.`: position 1, behind `a`: a path must not end with a dot",
            ),
            (".", "path `.`: position 0: a path must not begin with a dot"),
            (
                "a..b",
                "path `a..b`: position 2, behind `a.`: two dots in a row; a name must stand between them",
            ),
            (
                "a.[b]",
                "path `a.[b]`: position 2, behind `a.`: a bracket must not follow a dot; write `a[b]`, not `a.[b]`",
            ),
            (
                "a[]",
                "path `a[]`: position 1, behind `a`: the brackets are empty; put a name or an index between them",
            ),
            ("a[b", "path `a[b`: position 1, behind `a`: `[` is never closed"),
            ("a]b", "path `a]b`: position 1, behind `a`: `]` without a `[` before it"),
            (
                "a.]",
                "path `a.]`: position 2, behind `a.`: `]` without a `[` before it",
            ),
            (
                "a[b[c]]",
                "path `a[b[c]]`: position 3, behind `a[b`: brackets must not be nested",
            ),
            (
                "a[0].",
                "path `a[0].`: position 4, behind `a[0]`: a path must not end with a dot",
            ),
        ] {
            assert_eq!(segments(text).unwrap_err().to_string(), message, "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parser_panic(text in ".{0,20}") {
            if let Ok(segments) = segments(&text) {
                prop_assert!(!segments.is_empty());
            }
        }
    }
}
