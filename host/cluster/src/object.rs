//! Objects as text, taken apart only as far as somebody asks.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use patchbay_core::{Content, Fields, Kind, Labels, Metadata, ObjectName, Variant, Version};
use patchbay_fieldpath::{FieldPath, Projection, Segment};
use serde::Deserialize;
use serde_json::Value;

/// An object as the API server sent it, with the metadata that core looks at.
#[derive(Clone)]
pub struct RawObject {
    /// Its name.
    pub name: ObjectName,
    /// Its metadata.
    pub metadata: Metadata,
    content: Content,
    text: Arc<str>,
}

/// Without the text, which may be secret.
impl fmt::Debug for RawObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RawObject")
            .field("name", &self.name)
            .field("version", &self.metadata.version)
            .finish_non_exhaustive()
    }
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow)]
    metadata: EnvelopeMetadata<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct EnvelopeMetadata<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow)]
    namespace: Option<Cow<'a, str>>,
    #[serde(borrow)]
    uid: Cow<'a, str>,
    #[serde(borrow)]
    resource_version: Cow<'a, str>,
    #[serde(borrow, default)]
    labels: Option<BTreeMap<Cow<'a, str>, Cow<'a, str>>>,
    #[serde(borrow, default)]
    owner_references: Option<Vec<Owner<'a>>>,
    #[serde(borrow, default)]
    finalizers: Option<Vec<Cow<'a, str>>>,
    deletion_timestamp: Option<serde::de::IgnoredAny>,
}

#[derive(Deserialize)]
struct Owner<'a> {
    #[serde(borrow)]
    uid: Cow<'a, str>,
}

impl RawObject {
    /// Reads a whole object's metadata. The rest of the text is passed over.
    ///
    /// # Errors
    /// It is not JSON, or no object with a name, a uid and a numeric resource version.
    pub fn parse(text: &str) -> Result<Self, String> {
        Self::read(text, Content::Whole)
    }

    /// As [`RawObject::parse`], of an object that may have come without the rest.
    pub(crate) fn read(text: &str, content: Content) -> Result<Self, String> {
        let Envelope { metadata } = serde_json::from_str(text).map_err(|error| problem(&error))?;
        let version = Version::parse(&metadata.resource_version)
            .map_err(|_| format!("resourceVersion {:?} is no whole number", metadata.resource_version))?;
        Ok(RawObject {
            name: ObjectName::new(metadata.namespace.as_deref(), &metadata.name),
            metadata: Metadata {
                uid: metadata.uid.into(),
                version,
                labels: labels(metadata.labels.unwrap_or_default()),
                owners: metadata
                    .owner_references
                    .into_iter()
                    .flatten()
                    .map(|owner| owner.uid.into())
                    .collect(),
                finalizers: metadata.finalizers.into_iter().flatten().map(Arc::from).collect(),
                deleting: metadata.deletion_timestamp.is_some(),
            },
            content,
            text: text.into(),
        })
    }

    /// The object as the API server sent it, as JSON.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// How large the text is, in bytes.
    pub fn size(&self) -> usize {
        self.text.len()
    }

    /// When a field manager last changed the object by server-side apply, to the second. An apply that changes nothing
    /// leaves it as it is.
    pub fn applied_at(&self, manager: &str, subresource: Option<&str>) -> Option<Arc<str>> {
        let object: Value = serde_json::from_str(&self.text).ok()?;
        let entries = object["metadata"]["managedFields"].as_array()?;
        let entry = entries.iter().find(|entry| {
            entry["manager"] == manager
                && entry["operation"] == "Apply"
                && entry["subresource"].as_str().filter(|name| !name.is_empty()) == subresource
        });
        entry?["time"].as_str().map(Arc::from)
    }

    /// Makes the variants of an object that core wants, as far as the object came.
    ///
    /// # Errors
    /// The text is not JSON after all.
    pub fn variants(&self, kind: &Kind, wanted: &[Fields]) -> Result<Vec<Variant>, String> {
        let mut wanted = wanted.iter().filter(|fields| self.holds(fields)).peekable();
        if wanted.peek().is_none() {
            return Ok(Vec::new());
        }
        let whole = normalize(kind, serde_json::from_str(&self.text).map_err(|error| problem(&error))?);
        Ok(wanted
            .map(|fields| Variant {
                fields: fields.clone(),
                text: reduce(&whole, fields).to_string().into(),
            })
            .collect())
    }
}

impl RawObject {
    /// Whether all that some fields name has come.
    fn holds(&self, fields: &Fields) -> bool {
        match (self.content, fields) {
            (Content::Whole, _) | (Content::Metadata, Fields::Metadata) => true,
            (Content::Metadata, Fields::Whole) => false,
            (Content::Metadata, Fields::Paths(paths)) => paths.iter().all(|path| is_of_metadata(path)),
        }
    }
}

/// Whether a path leads to what every object has. One that is none names nothing.
fn is_of_metadata(path: &str) -> bool {
    FieldPath::parse(path).map_or(true, |path| {
        let first = path.segments().first();
        matches!(first, Some(Segment::Field(name)) if METADATA.contains(&name.as_str()))
    })
}

fn labels(labels: BTreeMap<Cow<'_, str>, Cow<'_, str>>) -> Labels {
    labels
        .into_iter()
        .map(|(key, value)| (key.into(), value.into()))
        .collect()
}

/// What is wrong with a JSON text, without any of it: it may be secret.
pub(crate) fn problem(error: &serde_json::Error) -> String {
    match error.classify() {
        serde_json::error::Category::Data => "the object has no name, uid or resourceVersion".to_owned(),
        _ => format!("no JSON at line {} column {}", error.line(), error.column()),
    }
}

/// An object as plugins see it: with its own kind, which lists leave out and which metadata alone do not have, and without
/// what changes while nothing does.
fn normalize(kind: &Kind, mut object: Value) -> Value {
    if let Value::Object(fields) = &mut object {
        fields.insert("apiVersion".to_owned(), kind.api_version.as_ref().into());
        fields.insert("kind".to_owned(), kind.kind.as_ref().into());
        if let Some(Value::Object(metadata)) = fields.get_mut("metadata") {
            metadata.remove("managedFields");
            metadata.remove("resourceVersion");
        }
    }
    object
}

/// The part of an object that some fields name, together with what tells which object it is.
pub fn reduce(whole: &Value, fields: &Fields) -> Value {
    match fields {
        Fields::Whole => whole.clone(),
        Fields::Metadata => project(whole, METADATA),
        Fields::Paths(paths) => project(whole, IDENTITY.into_iter().chain(paths.iter().map(AsRef::as_ref))),
    }
}

/// What comes of an object of which only metadata are asked for.
const METADATA: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// What every variant holds: it tells the object, whether it is still the same one, and whether it is going.
const IDENTITY: [&str; 6] = [
    "apiVersion",
    "kind",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "metadata.deletionTimestamp",
];

/// Paths have been checked when the query was made; one that is none names nothing.
fn project<'a>(whole: &Value, paths: impl IntoIterator<Item = &'a str>) -> Value {
    let paths: Vec<FieldPath> = paths
        .into_iter()
        .filter_map(|path| FieldPath::parse(path).ok())
        .collect();
    Projection::new(&paths).apply(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = r#"{"metadata":{"name":"s","namespace":"n","uid":"u","resourceVersion":"7","labels":{"a":"b"},
        "managedFields":[{"manager":"m"}]},"data":{"k":"djE=","other":"eA=="}}"#;

    fn text(fields: Fields) -> String {
        let object = RawObject::parse(SECRET).expect("an object");
        object.variants(&Kind::new("v1", "Secret"), &[fields]).expect("JSON")[0]
            .text
            .to_string()
    }

    #[test]
    fn metadata_is_read_without_the_rest() {
        let object = RawObject::parse(SECRET).expect("an object");
        assert_eq!(object.name, ObjectName::new(Some("n"), "s"));
        assert_eq!(object.metadata.version, Version(7));
        assert_eq!(object.metadata.labels.get("a").map(AsRef::as_ref), Some("b"));
    }

    #[test]
    fn a_variant_holds_what_was_declared_and_which_object_it_is() {
        assert_eq!(
            text(Fields::paths(["data.k".into()])),
            r#"{"apiVersion":"v1","data":{"k":"djE="},"kind":"Secret","metadata":{"name":"s","namespace":"n","uid":"u"}}"#
        );
        let whole = text(Fields::Whole);
        assert!(whole.contains("eA==") && !whole.contains("managedFields") && !whole.contains("resourceVersion"));
        assert!(!text(Fields::Metadata).contains("djE="));
    }

    #[test]
    fn a_message_about_garbage_repeats_none_of_it() {
        for garbage in [r#"{"data":"hunter2""#, "hunter2", r#"{"metadata":{"name":"hunter2"}}"#] {
            let error = RawObject::parse(garbage).expect_err("garbage");
            assert!(!error.contains("hunter2"), "{error}");
        }
    }
}
