//! What a path is, and how it is written.

use std::fmt;
use std::str::FromStr;

use crate::PathError;
use crate::parse;

/// The highest index that [`FieldPath::set`] accepts, so that one path cannot grow a list without bounds.
pub const MAX_INDEX: u32 = 1024;

/// One step of a path.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Segment {
    /// A field of an object.
    Field(String),
    /// An element of a list.
    Index(u32),
}

/// A path into a JSON value. It has at least one segment.
///
/// `Display` writes a form that parses to the same path.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FieldPath {
    segments: Vec<Segment>,
}

impl FieldPath {
    /// Reads a path.
    ///
    /// # Errors
    /// If `text` is empty, has a dot at its begin or end or two in a row, an empty or unbalanced bracket, or a bracket
    /// right behind a dot. The error says where.
    pub fn parse(text: &str) -> Result<FieldPath, PathError> {
        parse::segments(text).map(|segments| FieldPath { segments })
    }

    /// The steps of the path, from the root.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }
}

impl FromStr for FieldPath {
    type Err = PathError;

    fn from_str(text: &str) -> Result<Self, PathError> {
        FieldPath::parse(text)
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_segments(f, &self.segments)
    }
}

/// Writes the part of a path that `segments` are.
pub(crate) fn write_segments(f: &mut impl fmt::Write, segments: &[Segment]) -> fmt::Result {
    for (position, segment) in segments.iter().enumerate() {
        match segment {
            Segment::Index(index) => write!(f, "[{index}]")?,
            Segment::Field(name) if name == "*" => f.write_str("[*]")?,
            Segment::Field(name) if needs_brackets(name) => write!(f, "['{name}']")?,
            Segment::Field(name) if position == 0 => f.write_str(name)?,
            Segment::Field(name) => write!(f, ".{name}")?,
        }
    }
    Ok(())
}

/// A name that would be read otherwise, or not at all, without brackets. One that looks like a number is written in
/// brackets too, so that it is not taken for an index.
fn needs_brackets(name: &str) -> bool {
    name.is_empty() || name.contains('.') || name.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn paths_are_written_as_they_are_read() {
        for (text, shown) in [
            ("spec", "spec"),
            ("spec.containers[0].image", "spec.containers[0].image"),
            ("data[ca.crt]", "data['ca.crt']"),
            ("metadata.annotations[\"a.b/c\"]", "metadata.annotations['a.b/c']"),
            ("data['123']", "data['123']"),
            ("data.123", "data['123']"),
            ("data[123]", "data[123]"),
            ("spec.containers[*].image", "spec.containers[*].image"),
            ("data['']", "data['']"),
            ("[0].a", "[0].a"),
            ("['a.b'].c", "['a.b'].c"),
        ] {
            let path = FieldPath::parse(text).unwrap();
            assert_eq!(path.to_string(), shown, "{text}");
            assert_eq!(FieldPath::parse(shown).unwrap(), path, "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_shown_parses_to_the_same_path(text in r#"[a-c0-9.'"*\[\] \-é]{0,12}"#) {
            if let Ok(path) = FieldPath::parse(&text) {
                prop_assert_eq!(FieldPath::parse(&path.to_string()), Ok(path));
            }
        }
    }
}
