//! What can go wrong with a path. Every message names the path, the place in it and what was found there, and none
//! holds a value.

use std::fmt;

use serde_json::Value;
use thiserror::Error;

use crate::path::write_segments;
use crate::{FieldPath, MAX_INDEX, Segment};

/// Text that is no path.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub struct PathError {
    pub(crate) path: String,
    pub(crate) position: usize,
    pub(crate) syntax: Syntax,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Syntax {
    Empty,
    LeadingDot,
    TrailingDot,
    DoubleDot,
    BracketAfterDot,
    EmptyBrackets,
    Unclosed,
    Unopened,
    Nested,
}

impl PathError {
    /// The text that was to be read.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The byte in the text at which it stops making sense.
    pub fn position(&self) -> usize {
        self.position
    }
}

impl fmt::Display for PathError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.syntax == Syntax::Empty {
            return f.write_str("the path is empty; name a field, such as `metadata.name`");
        }
        write!(f, "path `{}`: position {}", self.path, self.position)?;
        if self.position > 0 {
            write!(f, ", behind `{}`", self.path.get(..self.position).unwrap_or_default())?;
        }
        f.write_str(match self.syntax {
            Syntax::Empty => "",
            Syntax::LeadingDot => ": a path must not begin with a dot",
            Syntax::TrailingDot => ": a path must not end with a dot",
            Syntax::DoubleDot => ": two dots in a row; a name must stand between them",
            Syntax::BracketAfterDot => ": a bracket must not follow a dot; write `a[b]`, not `a.[b]`",
            Syntax::EmptyBrackets => ": the brackets are empty; put a name or an index between them",
            Syntax::Unclosed => ": `[` is never closed",
            Syntax::Unopened => ": `]` without a `[` before it",
            Syntax::Nested => ": brackets must not be nested",
        })
    }
}

/// A path that does not fit a value.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub struct AccessError {
    path: FieldPath,
    /// How many segments lead to the value in which the next one failed.
    depth: usize,
    problem: Problem,
}

/// What stood in the way of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Problem {
    /// The object has no such field.
    NoSuchField,
    /// The list has no such element, but so many others.
    NoSuchElement(usize),
    /// A field was looked for in something that is no object.
    NotAnObject(ValueType),
    /// An index was looked for in something that is no list.
    NotAList(ValueType),
    /// An index higher than [`MAX_INDEX`] was to be set.
    IndexTooLarge(u32),
}

impl AccessError {
    pub(crate) fn new(path: &FieldPath, depth: usize, problem: Problem) -> Self {
        AccessError {
            path: path.clone(),
            depth,
            problem,
        }
    }

    /// The path that was followed.
    pub fn path(&self) -> &FieldPath {
        &self.path
    }

    /// What stood in its way.
    pub fn problem(&self) -> Problem {
        self.problem
    }
}

impl fmt::Display for AccessError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "path `{}`: ", self.path)?;
        let (reached, ahead) = self.path.segments().split_at(self.depth);
        let place = Place(reached);
        let next = Step(ahead.first());
        match self.problem {
            Problem::NoSuchField => write!(f, "{place} has no {next}"),
            Problem::NoSuchElement(length) => {
                write!(f, "{place} is a list of {length} and has no {next}")
            }
            Problem::NotAnObject(found) => write!(f, "{place} is {found}, so it has no {next}"),
            Problem::NotAList(found) => {
                write!(f, "{place} is {found}, not a list, so it has no {next}")
            }
            Problem::IndexTooLarge(index) => {
                write!(
                    f,
                    "index {index} behind {place} is too large; the highest that can be set is {MAX_INDEX}"
                )
            }
        }
    }
}

/// The part of a path that could be followed.
struct Place<'a>(&'a [Segment]);

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("the root");
        }
        f.write_str("`")?;
        write_segments(f, self.0)?;
        f.write_str("`")
    }
}

/// The segment that could not.
struct Step<'a>(Option<&'a Segment>);

impl fmt::Display for Step<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(Segment::Field(name)) => write!(f, "field `{name}`"),
            Some(Segment::Index(index)) => write!(f, "element [{index}]"),
            None => f.write_str("further part"),
        }
    }
}

/// The type of a JSON value, which can be told where the value itself must not be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueType {
    /// `null`.
    Null,
    /// `true` or `false`.
    Boolean,
    /// Any number.
    Number,
    /// Text.
    String,
    /// A list.
    List,
    /// An object with fields.
    Object,
}

impl From<&Value> for ValueType {
    fn from(value: &Value) -> Self {
        match value {
            Value::Null => ValueType::Null,
            Value::Bool(_) => ValueType::Boolean,
            Value::Number(_) => ValueType::Number,
            Value::String(_) => ValueType::String,
            Value::Array(_) => ValueType::List,
            Value::Object(_) => ValueType::Object,
        }
    }
}

impl fmt::Display for ValueType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ValueType::Null => "null",
            ValueType::Boolean => "a boolean",
            ValueType::Number => "a number",
            ValueType::String => "a string",
            ValueType::List => "a list",
            ValueType::Object => "an object",
        })
    }
}
