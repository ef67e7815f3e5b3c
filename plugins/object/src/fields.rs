//! Reading a part of an Object by hand, so that everything in it that does not belong there can be named by its path.

use patchbay_sdk::Value;
use patchbay_sdk::fieldpath::{FieldPath, ValueType};
use serde_json::Map;

use crate::problem::Problem;

/// The fields of an object inside the Object, with the path that leads there.
pub struct Fields<'v> {
    path: String,
    fields: &'v Map<String, Value>,
}

impl<'v> Fields<'v> {
    /// The fields of `value`, which stands at `path`.
    pub fn of(value: &'v Value, path: String) -> Result<Self, Problem> {
        match value {
            Value::Object(fields) => Ok(Fields { path, fields }),
            other => Err(Problem::permanent(format!(
                "{path}: must be an object, found {}",
                ValueType::from(other)
            ))),
        }
    }

    /// Something is wrong with the whole.
    pub fn refuse(&self, what: &str) -> Problem {
        Problem::permanent(format!("{}: {what}", self.path))
    }

    /// Something is wrong with one field.
    pub fn refuse_field(&self, name: &str, what: &str) -> Problem {
        Problem::permanent(format!("{}.{name}: {what}", self.path))
    }

    /// Refuses fields that are not `allowed`; `advice` says of each what to do.
    pub fn refuse_others(&self, allowed: &[&str], advice: impl Fn(&str) -> &'static str) -> Result<(), Problem> {
        match self.fields.keys().find(|name| !allowed.contains(&name.as_str())) {
            Some(name) => Err(self.refuse_field(name, &format!("unknown field; {}", advice(name)))),
            None => Ok(()),
        }
    }

    /// A field that is there and not null.
    fn present(&self, name: &str) -> Option<&'v Value> {
        self.fields.get(name).filter(|value| !value.is_null())
    }

    /// A field that is an object.
    pub fn object(&self, name: &str) -> Result<Option<Fields<'v>>, Problem> {
        self.present(name)
            .map(|value| Fields::of(value, format!("{}.{name}", self.path)))
            .transpose()
    }

    /// A field that is a string.
    pub fn text(&self, name: &str) -> Result<Option<&'v str>, Problem> {
        match self.present(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(self.refuse_field(name, &format!("must be a string, found {}", ValueType::from(other)))),
        }
    }

    /// A string that must be there.
    pub fn required(&self, name: &str) -> Result<&'v str, Problem> {
        self.text(name)?.ok_or_else(|| self.refuse_field(name, "missing"))
    }

    /// The text of a field; an empty one is as good as none.
    pub fn nonempty(&self, name: &str) -> Result<Option<&'v str>, Problem> {
        Ok(self.text(name)?.filter(|text| !text.is_empty()))
    }

    /// The path that is the text of the field `name`.
    pub fn path(&self, name: &str, text: &str) -> Result<FieldPath, Problem> {
        FieldPath::parse(text).map_err(|error| self.refuse_field(name, &error.to_string()))
    }

    /// A path that is used in the manifest, of which it must name a field first.
    pub fn manifest_path(&self, name: &str, text: &str) -> Result<FieldPath, Problem> {
        if text.starts_with('[') {
            let what = format!("path `{text}`: position 0: a path into the manifest must begin with a field's name");
            return Err(self.refuse_field(name, &what));
        }
        self.path(name, text)
    }
}
