//! Sets of applied objects, labelled and recorded as kubectl knows them (KEP-3659).
//!
//! A set has a parent object in each cluster that it has members in. The parent records of which kinds and in which
//! namespaces they are, and is what a set's id is made from. Members carry the id as a label.

use std::collections::BTreeSet;
use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use patchbay_core::{Kind, ObjectName, Requirement, Selector};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::connection::{Connection, in_time};
use crate::error::Error;
use crate::object::RawObject;

const ID: &str = "applyset.kubernetes.io/id";
const PART_OF: &str = "applyset.kubernetes.io/part-of";
const TOOLING: &str = "applyset.kubernetes.io/tooling";
const KINDS: &str = "applyset.kubernetes.io/contains-group-kinds";
const NAMESPACES: &str = "applyset.kubernetes.io/additional-namespaces";

/// Which tool keeps a set, and its version. Tools leave each other's sets alone.
const TOOL: &str = "patchbay";
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// A kind in any of its versions.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupKind {
    /// Empty for the core group.
    pub group: String,
    /// Such as `Deployment`.
    pub kind: String,
}

impl GroupKind {
    /// A kind without its version.
    pub fn of(kind: &Kind) -> Self {
        GroupKind {
            group: kind.group().to_owned(),
            kind: kind.kind.to_string(),
        }
    }

    fn parse(text: &str) -> Self {
        let (kind, group) = text.split_once('.').unwrap_or((text, ""));
        GroupKind {
            group: group.to_owned(),
            kind: kind.to_owned(),
        }
    }
}

impl fmt::Display for GroupKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.kind)?;
        if !self.group.is_empty() {
            write!(f, ".{}", self.group)?;
        }
        Ok(())
    }
}

/// Where the members of a set are to be looked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Members {
    /// Kinds that they may be of.
    pub kinds: BTreeSet<GroupKind>,
    /// Namespaces that they may be in. The parent's own always is one.
    pub namespaces: BTreeSet<String>,
}

impl Members {
    /// Adds the place of one member.
    pub fn add(&mut self, kind: &Kind, name: &ObjectName) {
        self.kinds.insert(GroupKind::of(kind));
        self.namespaces.extend(name.namespace.as_deref().map(str::to_owned));
    }

    /// Adds the places of others.
    pub fn unite(&mut self, others: &Members) {
        self.kinds.extend(others.kinds.iter().cloned());
        self.namespaces.extend(others.namespaces.iter().cloned());
    }
}

/// A set of applied objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApplySet {
    parent: ObjectName,
    id: String,
}

impl ApplySet {
    /// The set of a primary, told apart from those of all other primaries of all clusters. `name` tells sets of one primary
    /// apart. Its parents lie in `namespace`.
    pub fn new(namespace: &str, source_cluster_uid: &str, primary_uid: &str, name: &str) -> Self {
        let mut hash = Sha256::new();
        for part in [source_cluster_uid, primary_uid, name] {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        let digest: String = hash
            .finalize()
            .iter()
            .take(8)
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let parent = ObjectName::new(Some(namespace), &format!("patchbay-{digest}"));
        let id = id_of(&parent, &Self::parent_kind());
        ApplySet { parent, id }
    }

    /// The kind of all parents.
    pub fn parent_kind() -> Kind {
        Kind::new("v1", "ConfigMap")
    }

    /// The name of the set's parents.
    pub fn parent(&self) -> &ObjectName {
        &self.parent
    }

    /// What its members carry as a label.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Labels an object that is to be applied as a member.
    ///
    /// # Errors
    /// It is labelled as a member of another set, or its labels are no labels.
    pub fn label(&self, object: &mut Value) -> Result<(), String> {
        if let Some(other) = self.other_set_of(object) {
            return Err(format!(
                "the object to apply is labelled as a part of the ApplySet {other}: leave {PART_OF} out"
            ));
        }
        match &mut object["metadata"]["labels"] {
            Value::Object(labels) => drop(labels.insert(PART_OF.to_owned(), self.id.as_str().into())),
            labels @ Value::Null => *labels = json!({PART_OF: self.id}),
            _ => return Err("the labels of the object to apply are no object".to_owned()),
        }
        Ok(())
    }

    /// The other set that an object is a member of.
    pub fn other_set_of<'a>(&self, object: &'a Value) -> Option<&'a str> {
        let set = object["metadata"]["labels"][PART_OF].as_str();
        set.filter(|set| !set.is_empty() && *set != self.id)
    }

    /// A parent that records these members.
    pub fn manifest(&self, members: &Members) -> Value {
        let mut kinds: Vec<String> = members.kinds.iter().map(ToString::to_string).collect();
        // As texts, which is how kubectl orders them.
        kinds.sort();
        let own = self.parent.namespace.as_deref();
        let namespaces = members.namespaces.iter().map(String::as_str);
        let namespaces: Vec<&str> = namespaces.filter(|namespace| Some(*namespace) != own).collect();
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {
                "name": self.parent.name.as_ref(), "namespace": own,
                "labels": {ID: self.id},
                "annotations": {
                    TOOLING: format!("{TOOL}/v{VERSION}"),
                    KINDS: kinds.join(","),
                    NAMESPACES: namespaces.join(","),
                },
            },
        })
    }

    /// What a parent records.
    ///
    /// # Errors
    /// It is no parent of this set, or another tool's.
    pub fn recorded(&self, parent: &Value) -> Result<Members, String> {
        let metadata = &parent["metadata"];
        let annotation = |name: &str| metadata["annotations"][name].as_str().unwrap_or_default();
        let (id, tooling) = (metadata["labels"][ID].as_str().unwrap_or_default(), annotation(TOOLING));
        let tool = tooling.rsplit_once('/').map_or(tooling, |(tool, _)| tool);
        if id != self.id || tool != TOOL {
            return Err(format!(
                "it is not the parent of the ApplySet {}: its {ID} is {id:?} and its {TOOLING} {tooling:?}",
                self.id
            ));
        }
        let listed = |name| annotation(name).split(',').filter(|part| !part.is_empty());
        Ok(Members {
            kinds: listed(KINDS).map(GroupKind::parse).collect(),
            namespaces: listed(NAMESPACES).map(str::to_owned).collect(),
        })
    }
}

/// The id that a set gets from its parent.
fn id_of(parent: &ObjectName, kind: &Kind) -> String {
    let namespace = parent.namespace.as_deref().unwrap_or_default();
    let unhashed = format!("{}.{namespace}.{}.{}", parent.name, kind.kind, kind.group());
    format!("applyset-{}-v1", URL_SAFE_NO_PAD.encode(Sha256::digest(unhashed)))
}

impl Connection {
    /// A kind in the version that the API server prefers; none if it serves none.
    ///
    /// # Errors
    /// The API server refuses or cannot be reached.
    pub async fn preferred(&self, kind: &GroupKind) -> Result<Option<Kind>, Error> {
        let versions = if kind.group.is_empty() {
            vec!["v1".to_owned()]
        } else {
            let groups = in_time(self.name(), self.client.list_api_groups()).await?.groups;
            let Some(group) = groups.into_iter().find(|group| group.name == kind.group) else {
                return Ok(None);
            };
            let preferred = group.preferred_version.map(|version| version.group_version);
            let all = group.versions.into_iter().map(|version| version.group_version);
            preferred.into_iter().chain(all).collect()
        };
        for version in versions {
            let candidate = Kind::new(version, kind.kind.as_str());
            match self.resource(&candidate).await {
                Ok(_) => return Ok(Some(candidate)),
                Err(Error::NoSuchKind { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// The metadata of all members of a set that are of a kind and, if it is namespaced, in these namespaces or the parent's.
    ///
    /// # Errors
    /// As [`Connection::list_metadata`].
    pub async fn members(
        &self,
        set: &ApplySet,
        kind: &Kind,
        namespaces: &BTreeSet<String>,
    ) -> Result<Vec<RawObject>, Error> {
        let selector = Selector::new([Requirement::equals(PART_OF, set.id())]);
        let scopes: Vec<Option<&str>> = if self.resource(kind).await?.namespaced {
            let own = set.parent.namespace.as_deref().filter(|own| !namespaces.contains(*own));
            namespaces.iter().map(String::as_str).chain(own).map(Some).collect()
        } else {
            vec![None]
        };
        let mut members = Vec::new();
        for scope in scopes {
            self.list_metadata(kind, scope, Some(&selector), |member| members.push(member))
                .await?;
        }
        Ok(members)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set() -> ApplySet {
        ApplySet::new("home", "cluster", "primary", "")
    }

    #[test]
    fn the_id_is_the_one_that_kubectl_makes_of_the_parent() {
        let parent = ObjectName::new(Some("default"), "my-set");
        // printf my-set.default.Secret. | openssl dgst -sha256 -binary | base64 | tr '+/' '-_'
        assert_eq!(
            id_of(&parent, &Kind::new("v1", "Secret")),
            "applyset-kdySOVBWs584aaOTmku9Ul1xDuN7LXBjs-R96jQcisk-v1"
        );
    }

    #[test]
    fn sets_of_other_clusters_primaries_and_names_are_others() {
        let ids: BTreeSet<String> = [
            ("a", "b", "c"),
            ("x", "b", "c"),
            ("a", "x", "c"),
            ("a", "b", "x"),
            ("ab", "", "c"),
        ]
        .map(|(cluster, primary, name)| ApplySet::new("home", cluster, primary, name).id)
        .into();
        assert_eq!(ids.len(), 5);
    }

    #[test]
    fn a_parent_tells_what_it_recorded() {
        let mut members = Members::default();
        members.add(
            &Kind::new("apps/v1", "Deployment"),
            &ObjectName::new(Some("other"), "d"),
        );
        members.add(&Kind::new("v1", "ConfigMap"), &ObjectName::new(Some("home"), "c"));
        members.add(&Kind::new("v1", "Namespace"), &ObjectName::new(None, "n"));
        let parent = set().manifest(&members);
        let annotations = &parent["metadata"]["annotations"];
        assert_eq!(annotations[KINDS], "ConfigMap,Deployment.apps,Namespace");
        assert_eq!(annotations[NAMESPACES], "other");
        let recorded = set().recorded(&parent).expect("its parent");
        assert_eq!(recorded.kinds, members.kinds);
        assert_eq!(recorded.namespaces, BTreeSet::from(["other".to_owned()]));
        assert_eq!(
            set().recorded(&set().manifest(&Members::default())),
            Ok(Members::default())
        );
    }

    #[test]
    fn what_another_tool_or_set_keeps_is_refused() {
        let parent = set().manifest(&Members::default());
        for (path, value) in [
            ("/metadata/annotations/applyset.kubernetes.io~1tooling", "kubectl/v1.32"),
            ("/metadata/labels/applyset.kubernetes.io~1id", "applyset-other-v1"),
        ] {
            let mut other = parent.clone();
            *other.pointer_mut(path).expect("it is there") = value.into();
            let error = set().recorded(&other).expect_err("another's");
            assert!(error.contains(value), "{error}");
        }
        assert!(set().recorded(&json!({"metadata": {}})).is_err());
    }

    #[test]
    fn members_are_labelled_and_those_of_others_refused() {
        let mut object = json!({"metadata": {"name": "n"}});
        set().label(&mut object).expect("it has no labels");
        assert_eq!(object["metadata"]["labels"][PART_OF], set().id());
        assert_eq!(set().other_set_of(&object), None);
        set().label(&mut object).expect("it is its own");
        object["metadata"]["labels"][PART_OF] = "applyset-other-v1".into();
        assert_eq!(set().other_set_of(&object), Some("applyset-other-v1"));
        assert!(
            set()
                .label(&mut object)
                .expect_err("another's")
                .contains("applyset-other-v1")
        );
        assert!(set().label(&mut json!({"metadata": {"labels": "x"}})).is_err());
    }
}
