//! The items of `spec.references`: what they say, and what they ask for.

use patchbay_sdk::fieldpath::{FieldPath, Segment};
use patchbay_sdk::{ObjectReference, Query, Value};

use crate::fields::Fields;
use crate::problem::Problem;
use crate::spec;

/// The kind that a reference without one means. Objects of this version and of the one served are the same objects.
const DEFAULT_API_VERSION: &str = "kubernetes.crossplane.io/v1alpha1";
const DEFAULT_KIND: &str = "Object";

/// One item of `spec.references`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    number: usize,
    /// The source, in the Object's own cluster.
    pub source: ObjectReference,
    /// What is copied; absent for `dependsOn`.
    pub patch: Option<Patch>,
}

/// What is copied from a source into the manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Patch {
    /// Where in the source.
    pub from: FieldPath,
    /// Where in the manifest.
    pub to: FieldPath,
}

impl Reference {
    /// The references of an Object, in their order.
    pub fn parse_all(items: &[Value]) -> Result<Vec<Reference>, Problem> {
        items
            .iter()
            .enumerate()
            .map(|(number, item)| Reference::parse(number, item))
            .collect()
    }

    fn parse(number: usize, item: &Value) -> Result<Reference, Problem> {
        let item = Fields::of(item, format!("spec.references[{number}]"))?;
        item.refuse_others(
            &["dependsOn", "patchesFrom", "toFieldPath"],
            |_| "a reference has dependsOn, or patchesFrom and toFieldPath",
        )?;
        let to = item.text("toFieldPath")?;
        match (item.object("dependsOn")?, item.object("patchesFrom")?) {
            (Some(_), Some(_)) => Err(item.refuse("has both dependsOn and patchesFrom; make it two references")),
            (None, None) => Err(item.refuse("has neither dependsOn nor patchesFrom; it needs one of them")),
            (Some(source), None) => {
                source.refuse_others(&SOURCE_FIELDS, |_| "dependsOn has apiVersion, kind, name and namespace")?;
                if to.is_some() {
                    return Err(item.refuse_field("toFieldPath", "belongs to patchesFrom, which this reference lacks"));
                }
                Ok(Reference {
                    number,
                    source: self::source(&source)?,
                    patch: None,
                })
            }
            (None, Some(source)) => {
                let mut allowed = SOURCE_FIELDS.to_vec();
                allowed.push("fieldPath");
                source.refuse_others(&allowed, |name| match name {
                    "toFieldPath" => "toFieldPath stands beside patchesFrom",
                    _ => "patchesFrom has apiVersion, kind, name, namespace and fieldPath",
                })?;
                let from_text = source.required("fieldPath")?;
                let from = source.path("fieldPath", from_text)?;
                let to = match to {
                    Some(text) => item.manifest_path("toFieldPath", text)?,
                    None => source.manifest_path("fieldPath", from_text)?,
                };
                Ok(Reference {
                    number,
                    source: self::source(&source)?,
                    patch: Some(Patch { from, to }),
                })
            }
        }
    }

    /// The id of its query.
    pub fn id(&self) -> String {
        format!("reference-{}", self.number)
    }

    /// Asks for just what is copied, or only for existence.
    pub fn query(&self) -> Query {
        let fields = self.patch.as_ref().map(|patch| patch.from.to_string());
        Query::object(self.id(), self.source.clone())
            .fields(fields)
            .tolerate()
            .into()
    }

    /// Where in the Object it names its source.
    pub fn place(&self) -> String {
        let field = if self.patch.is_some() {
            "patchesFrom"
        } else {
            "dependsOn"
        };
        format!("spec.references[{}].{field}", self.number)
    }

    /// Where in the Object it names what it changes of the manifest.
    pub fn to_place(&self) -> String {
        format!("spec.references[{}].toFieldPath", self.number)
    }

    /// Whether it may change which object the target is.
    pub fn may_rename_target(&self) -> bool {
        let Some(patch) = &self.patch else { return false };
        let field = |at: usize| match patch.to.segments().get(at) {
            Some(Segment::Field(name)) => Some(name.as_str()),
            _ => None,
        };
        match field(0) {
            Some("apiVersion" | "kind") => true,
            Some("metadata") => matches!(field(1), None | Some("name" | "namespace")),
            _ => false,
        }
    }
}

const SOURCE_FIELDS: [&str; 4] = ["apiVersion", "kind", "name", "namespace"];

/// The object that dependsOn or patchesFrom names.
fn source(fields: &Fields) -> Result<ObjectReference, Problem> {
    let name = fields
        .nonempty("name")?
        .ok_or_else(|| fields.refuse_field("name", "missing"))?;
    let mut api_version = fields.nonempty("apiVersion")?.unwrap_or(DEFAULT_API_VERSION);
    let kind = fields.nonempty("kind")?.unwrap_or(DEFAULT_KIND);
    if (api_version, kind) == (DEFAULT_API_VERSION, DEFAULT_KIND) {
        api_version = spec::API_VERSION;
    }
    let source = ObjectReference::new(api_version, kind, name);
    Ok(match fields.nonempty("namespace")? {
        Some(namespace) => source.in_namespace(namespace),
        None => source,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use patchbay_sdk::{QueryTarget, json};

    fn parse(item: Value) -> Result<Reference, Problem> {
        let references = Reference::parse_all(&[json!({"dependsOn": {"name": "first"}}), item])?;
        Ok(references[1].clone())
    }

    fn refused(item: Value) -> String {
        let problem = parse(item).unwrap_err();
        assert!(problem.permanent, "{problem}");
        problem.message
    }

    fn patches_from(field_path: &str) -> Value {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "namespace": "default", "name": "bar", "fieldPath": field_path})
    }

    #[test]
    fn a_reference_asks_for_just_the_field_that_it_copies() {
        let reference = parse(json!({"patchesFrom": patches_from("data[ca.crt]")})).unwrap();
        let query = reference.query();
        let QueryTarget::Named(named) = &query.target else {
            panic!("{query:?}")
        };
        assert_eq!(
            named.object,
            ObjectReference::new("v1", "ConfigMap", "bar").in_namespace("default")
        );
        assert_eq!(named.fields, patchbay_sdk::Fields::these(["data['ca.crt']"]));
        assert_eq!((query.id.as_str(), query.tolerate), ("reference-1", true));
    }

    #[test]
    fn depends_on_asks_for_existence_only() {
        let source = json!({"apiVersion": "v1", "kind": "Secret", "namespace": "ns", "name": "s"});
        let query = parse(json!({"dependsOn": source})).unwrap().query();
        let QueryTarget::Named(named) = &query.target else {
            panic!("{query:?}")
        };
        assert_eq!(named.fields, patchbay_sdk::Fields::Paths(vec![]));
    }

    #[test]
    fn a_source_with_only_a_name_is_an_object_of_the_version_that_is_served() {
        for source in [
            json!({"name": "bar"}),
            json!({"name": "bar", "apiVersion": "", "kind": "", "namespace": ""}),
            json!({"name": "bar", "apiVersion": "kubernetes.crossplane.io/v1alpha1", "kind": "Object"}),
            json!({"name": "bar", "apiVersion": "kubernetes.crossplane.io/v1alpha2", "kind": "Object"}),
        ] {
            let reference = parse(json!({"dependsOn": source})).unwrap();
            assert_eq!(
                reference.source,
                ObjectReference::new(spec::API_VERSION, "Object", "bar")
            );
        }
    }

    #[test]
    fn a_path_goes_where_it_comes_from_unless_told_otherwise() {
        let default = parse(json!({"patchesFrom": patches_from("data.k")}))
            .unwrap()
            .patch
            .unwrap();
        assert_eq!(default.to, FieldPath::parse("data.k").unwrap());
        let told = parse(json!({"patchesFrom": patches_from("data.k"), "toFieldPath": "spec.x"})).unwrap();
        assert_eq!(told.patch.unwrap().to, FieldPath::parse("spec.x").unwrap());
    }

    #[test]
    fn to_field_path_inside_patches_from_is_refused() {
        let mut source = patches_from("data.k");
        source["toFieldPath"] = json!("data.x");
        assert_eq!(
            refused(json!({"patchesFrom": source})),
            "spec.references[1].patchesFrom.toFieldPath: unknown field; toFieldPath stands beside patchesFrom"
        );
    }

    #[test]
    fn transforms_are_refused() {
        assert_eq!(
            refused(json!({"patchesFrom": patches_from("data.k"), "transforms": []})),
            "spec.references[1].transforms: unknown field; a reference has dependsOn, or patchesFrom and toFieldPath"
        );
        let mut source = patches_from("data.k");
        source["transforms"] = json!([]);
        assert_eq!(
            refused(json!({"patchesFrom": source})),
            "spec.references[1].patchesFrom.transforms: unknown field; patchesFrom has apiVersion, kind, name, namespace \
             and fieldPath"
        );
    }

    #[test]
    fn unknown_fields_of_depends_on_are_refused() {
        assert_eq!(
            refused(json!({"dependsOn": {"name": "bar", "fieldPath": "data.k"}})),
            "spec.references[1].dependsOn.fieldPath: unknown field; dependsOn has apiVersion, kind, name and namespace"
        );
    }

    #[test]
    fn neither_and_both_are_refused() {
        for item in [
            json!({}),
            json!({"dependsOn": null, "patchesFrom": null}),
            json!({"toFieldPath": "data.k"}),
        ] {
            assert_eq!(
                refused(item),
                "spec.references[1]: has neither dependsOn nor patchesFrom; it needs one of them"
            );
        }
        assert_eq!(
            refused(json!({"dependsOn": {"name": "bar"}, "patchesFrom": patches_from("data.k")})),
            "spec.references[1]: has both dependsOn and patchesFrom; make it two references"
        );
    }

    #[test]
    fn what_is_missing_or_of_another_type_is_named() {
        for (item, message) in [
            (json!("text"), "spec.references[1]: must be an object, found a string"),
            (
                json!({"dependsOn": []}),
                "spec.references[1].dependsOn: must be an object, found a list",
            ),
            (json!({"dependsOn": {}}), "spec.references[1].dependsOn.name: missing"),
            (
                json!({"dependsOn": {"name": ""}}),
                "spec.references[1].dependsOn.name: missing",
            ),
            (
                json!({"dependsOn": {"name": 1}}),
                "spec.references[1].dependsOn.name: must be a string, found a number",
            ),
            (
                json!({"patchesFrom": {"name": "bar"}}),
                "spec.references[1].patchesFrom.fieldPath: missing",
            ),
            (
                json!({"dependsOn": {"name": "bar"}, "toFieldPath": "data.k"}),
                "spec.references[1].toFieldPath: belongs to patchesFrom, which this reference lacks",
            ),
        ] {
            assert_eq!(refused(item), message);
        }
    }

    #[test]
    fn bad_paths_name_the_reference_and_the_path() {
        for (from, to, message) in [
            (
                "a..b",
                None,
                "patchesFrom.fieldPath: path `a..b`: position 2, behind `a.`: two dots in a row; a name must stand between them",
            ),
            (
                "",
                None,
                "patchesFrom.fieldPath: the path is empty; name a field, such as `metadata.name`",
            ),
            (
                "data[",
                None,
                "patchesFrom.fieldPath: path `data[`: position 4, behind `data`: `[` is never closed",
            ),
            (
                "data.k",
                Some(""),
                "toFieldPath: the path is empty; name a field, such as `metadata.name`",
            ),
            (
                "data.k",
                Some("data."),
                "toFieldPath: path `data.`: position 4, behind `data`: a path must not end with a dot",
            ),
            (
                "data.k",
                Some("data[]"),
                "toFieldPath: path `data[]`: position 4, behind `data`: the brackets are empty; put a name or an index between them",
            ),
            (
                "data.k",
                Some("[data].k"),
                "toFieldPath: path `[data].k`: position 0: a path into the manifest must begin with a field's name",
            ),
            (
                "[data].k",
                None,
                "patchesFrom.fieldPath: path `[data].k`: position 0: a path into the manifest must begin with a field's name",
            ),
        ] {
            let item = json!({"patchesFrom": patches_from(from), "toFieldPath": to});
            assert_eq!(refused(item), format!("spec.references[1].{message}"));
        }
    }

    #[test]
    fn only_some_paths_rename_the_target() {
        for (to, renames) in [
            ("metadata", true),
            ("metadata.name", true),
            ("metadata.namespace", true),
            ("metadata.labels.name", false),
            ("apiVersion", true),
            ("kind", true),
            ("data.kind", false),
        ] {
            let reference = parse(json!({"patchesFrom": patches_from("data.k"), "toFieldPath": to})).unwrap();
            assert_eq!(reference.may_rename_target(), renames, "{to}");
        }
        assert!(
            !parse(json!({"dependsOn": {"name": "bar"}}))
                .unwrap()
                .may_rename_target()
        );
    }
}
