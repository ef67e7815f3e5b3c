//! A world of files, for trying a plugin without a cluster.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use patchbay_cluster::RawObject;
use patchbay_core::{ClusterId, Fields, Finding, FoundObject, Kind, Namespaces, ObjectKey, ObjectName, Target};
use patchbay_plugin::contract::{Answer, Query, ReferenceSet};
use serde_json::{Value, json};

use crate::decide::{GivenUp, World};
use crate::translate;

/// The id under which plugins see the one cluster that files make up.
pub const CLUSTER_ID: &str = "of these files";

/// Objects from files. Whatever cluster a query names, they are what it finds.
#[derive(Default)]
pub struct Offline {
    objects: Vec<(Kind, RawObject)>,
    /// The objects as they were given, and whether a query has found them.
    given: Vec<(Value, bool)>,
    /// The primary that is being rendered.
    primary: String,
}

impl Offline {
    /// Adds an object. What only an API server gives it is made up: a uid of its own and a version.
    ///
    /// # Errors
    /// It is no object, or has no `apiVersion`, `kind` or name.
    pub fn add(&mut self, mut object: Value) -> Result<Value, String> {
        if !object.is_object() {
            return Err("it is no object: a manifest has fields such as apiVersion and kind".to_owned());
        }
        let text = |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
        let api_version = text(&object["apiVersion"]).ok_or("it has no apiVersion")?;
        let kind = text(&object["kind"]).ok_or("it has no kind")?;
        text(&object["metadata"]["name"]).ok_or("it has no metadata.name")?;
        if (api_version.as_str(), kind.as_str()) == ("v1", "Secret") {
            encode_string_data(&mut object);
        }
        let number = self.objects.len() + 1;
        let metadata = &mut object["metadata"];
        if text(&metadata["uid"]).is_none() {
            metadata["uid"] = format!("00000000-0000-0000-0000-{number:012}").into();
        }
        metadata["resourceVersion"] = json!(number.to_string());
        let raw = RawObject::parse(&object.to_string())?;
        self.objects.push((Kind::new(api_version, kind), raw));
        self.given.push((object.clone(), false));
        Ok(object)
    }

    /// The objects that no query has found.
    pub fn unused(&self) -> impl Iterator<Item = &Value> {
        self.given.iter().filter(|(_, found)| !found).map(|(object, _)| object)
    }

    /// Tells which primary asks from now on, by its uid.
    pub fn asks(&mut self, uid: &str) {
        uid.clone_into(&mut self.primary);
    }

    /// The namespaces that a selection looks in, if that depends on their labels.
    fn selected_namespaces(&self, target: &Target) -> Option<Vec<Arc<str>>> {
        let Target::Selected(selection) = target else {
            return None;
        };
        let Namespaces::Selected(selector) = &selection.namespaces else {
            return None;
        };
        let namespaces = self.objects.iter().filter(|(kind, object)| {
            *kind == Kind::new("v1", "Namespace") && selector.matches(&object.metadata.labels)
        });
        Some(namespaces.map(|(_, object)| object.name.name.clone()).collect())
    }

    fn find_one(&mut self, query: &Query) -> Finding {
        let checked = match translate::checked(query, &self.primary) {
            Ok(checked) => checked.on(ClusterId::HOST),
            Err(failure) => {
                let failure = patchbay_core::Failure::new(patchbay_core::FailureReason::Invalid, failure.message);
                return Finding::Failed(failure);
            }
        };
        let namespaces = self.selected_namespaces(&checked.target);
        let looks_in = |name: &ObjectName| match (&namespaces, &name.namespace) {
            (None, _) => true,
            (Some(namespaces), Some(namespace)) => namespaces.contains(namespace),
            (Some(_), None) => false,
        };
        let mut found: Vec<(&RawObject, FoundObject)> = self
            .objects
            .iter()
            .zip(&mut self.given)
            .filter(|((kind, object), _)| {
                let key = ObjectKey {
                    cluster: ClusterId::HOST,
                    kind: kind.clone(),
                    name: object.name.clone(),
                };
                checked.matches(&key, &object.metadata) && looks_in(&object.name)
            })
            .filter_map(|((kind, object), (_, is_found))| {
                *is_found = true;
                Some((object, found(kind, object, &checked.fields)?))
            })
            .collect();
        found.sort_by_key(|(object, _)| &object.name);
        let mut found = found.into_iter().map(|(_, found)| found);
        match checked.target {
            Target::Named(_) => found.next().map_or(Finding::Missing, Finding::Found),
            Target::Selected(_) => Finding::Matches(found.collect()),
        }
    }
}

/// A Secret's `stringData` is written into `data`, as the API server does.
fn encode_string_data(secret: &mut Value) {
    let Some(Value::Object(plain)) = secret.as_object_mut().and_then(|secret| secret.remove("stringData")) else {
        return;
    };
    for (key, value) in plain {
        let encoded = STANDARD.encode(value.as_str().unwrap_or_default());
        secret["data"][key] = encoded.into();
    }
}

fn found(kind: &Kind, object: &RawObject, fields: &Fields) -> Option<FoundObject> {
    let variant = object.variants(kind, std::slice::from_ref(fields)).ok()?.pop()?;
    Some(FoundObject {
        cluster: ClusterId::HOST,
        version: object.metadata.version,
        text: variant.text,
    })
}

impl World for Offline {
    fn find(&mut self, set: &ReferenceSet) -> Result<Vec<Answer>, GivenUp> {
        let answers = set.queries.iter().map(|query| Answer {
            id: query.id.clone(),
            finding: translate::finding(self.find_one(query), |_| CLUSTER_ID.to_owned()),
        });
        Ok(answers.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_as_the_api_server_would_keep_it() {
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"},
            "data": {"a": "MQ=="}, "stringData": {"b": "2"},
        });
        let kept = Offline::default().add(secret).expect("an object");
        assert_eq!(kept["data"], json!({"a": "MQ==", "b": "Mg=="}));
        assert!(kept.get("stringData").is_none());
    }

    #[test]
    fn what_is_no_object_is_refused() {
        for (value, problem) in [
            (json!("hello"), "no object"),
            (json!({"kind": "Secret"}), "apiVersion"),
            (json!({"apiVersion": "v1"}), "kind"),
            (json!({"apiVersion": "v1", "kind": "Secret"}), "metadata.name"),
        ] {
            let error = Offline::default().add(value).expect_err(problem);
            assert!(error.contains(problem), "{error}");
        }
    }
}
