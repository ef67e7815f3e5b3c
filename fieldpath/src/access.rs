//! Reading and writing by path.

use serde_json::{Map, Value};

use crate::{AccessError, FieldPath, MAX_INDEX, Problem, Segment, ValueType};

impl FieldPath {
    /// The value at this path.
    ///
    /// # Errors
    /// If there is none, or if something on the way is no object or list.
    pub fn get<'v>(&self, root: &'v Value) -> Result<&'v Value, AccessError> {
        let mut here = root;
        for (depth, segment) in self.segments().iter().enumerate() {
            let fail = |problem| AccessError::new(self, depth, problem);
            here = match (segment, here) {
                (Segment::Field(name), Value::Object(fields)) => {
                    fields.get(name).ok_or_else(|| fail(Problem::NoSuchField))?
                }
                (Segment::Field(_), other) => return Err(fail(Problem::NotAnObject(other.into()))),
                (Segment::Index(index), Value::Array(elements)) => elements
                    .get(*index as usize)
                    .ok_or_else(|| fail(Problem::NoSuchElement(elements.len())))?,
                (Segment::Index(_), other) => return Err(fail(Problem::NotAList(other.into()))),
            };
        }
        Ok(here)
    }

    /// Puts `value` at this path. What is there is replaced, not merged.
    ///
    /// Absent objects and lists on the way are made, and lists are filled up with nulls. A null in a list counts as
    /// absent, since that is how lists grow; a field that is null does not.
    ///
    /// # Errors
    /// If something on the way is there and is no object or list, or if an index is above [`MAX_INDEX`]. `root` is then
    /// as it was.
    pub fn set(&self, root: &mut Value, value: Value) -> Result<(), AccessError> {
        for (depth, segment) in self.segments().iter().enumerate() {
            if let Segment::Index(index) = segment
                && *index > MAX_INDEX
            {
                return Err(AccessError::new(self, depth, Problem::IndexTooLarge(*index)));
            }
        }
        // Nothing is made before the first absent part of the path, and nothing can fail behind it.
        let mut here = root;
        for (depth, segment) in self.segments().iter().enumerate() {
            let found = ValueType::from(&*here);
            let next = self.segments().get(depth + 1);
            here = match (segment, here) {
                (Segment::Field(name), Value::Object(fields)) => {
                    fields.entry(name.as_str()).or_insert_with(|| container(next))
                }
                (Segment::Field(_), _) => {
                    return Err(AccessError::new(self, depth, Problem::NotAnObject(found)));
                }
                (Segment::Index(index), Value::Array(elements)) => {
                    let at = *index as usize;
                    if elements.len() <= at {
                        elements.resize(at + 1, Value::Null);
                    }
                    let element = &mut elements[at];
                    if element.is_null() {
                        *element = container(next);
                    }
                    element
                }
                (Segment::Index(_), _) => {
                    return Err(AccessError::new(self, depth, Problem::NotAList(found)));
                }
            };
        }
        *here = value;
        Ok(())
    }
}

/// What must stand at a place so that `next` can be put into it.
fn container(next: Option<&Segment>) -> Value {
    match next {
        Some(Segment::Field(_)) => Value::Object(Map::new()),
        Some(Segment::Index(_)) => Value::Array(Vec::new()),
        None => Value::Null,
    }
}
