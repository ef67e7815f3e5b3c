//! The objects of the simulated servers, and the texts that are made of them.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::Arc;

use crate::{Fields, Kind, Labels, Metadata, ObjectName, Variant, Version};

/// The kinds that there are in the simulated servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Resource {
    Namespace,
    Definition,
    Secret,
    ConfigMap,
    Node,
    /// It has a definition, which comes and goes, and may be namespaced or not.
    Gadget,
    /// Primaries of the first controller.
    Copy,
    /// Primaries of the other controllers.
    Bundle,
    /// What runs write.
    Output,
}

impl Resource {
    pub(super) const ALL: [Resource; 9] = [
        Resource::Namespace,
        Resource::Definition,
        Resource::Secret,
        Resource::ConfigMap,
        Resource::Node,
        Resource::Gadget,
        Resource::Copy,
        Resource::Bundle,
        Resource::Output,
    ];

    fn names(self) -> (&'static str, &'static str) {
        match self {
            Resource::Namespace => ("v1", "Namespace"),
            Resource::Definition => ("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
            Resource::Secret => ("v1", "Secret"),
            Resource::ConfigMap => ("v1", "ConfigMap"),
            Resource::Node => ("v1", "Node"),
            Resource::Gadget => ("example.org/v1", "Gadget"),
            Resource::Copy => ("example.dev/v1", "Copy"),
            Resource::Bundle => ("example.net/v1", "Bundle"),
            Resource::Output => ("example.dev/v1", "Output"),
        }
    }

    pub(super) fn kind(self) -> Kind {
        let (api_version, kind) = self.names();
        Kind::new(api_version, kind)
    }

    pub(super) fn of(kind: &Kind) -> Resource {
        let found = Resource::ALL
            .into_iter()
            .find(|resource| resource.names() == (&*kind.api_version, &*kind.kind));
        found.unwrap_or_else(|| unreachable!("no query is about {kind}"))
    }

    /// Whether it is always in namespaces; none if its definition says so.
    pub(super) fn namespaced(self) -> Option<bool> {
        match self {
            Resource::Namespace | Resource::Definition | Resource::Node | Resource::Bundle => Some(false),
            Resource::Secret | Resource::ConfigMap | Resource::Copy | Resource::Output => Some(true),
            Resource::Gadget => None,
        }
    }
}

/// An object of any kind. `k` and `other` stand for all that it may hold: of a kubeconfig Secret, `k` says where it
/// leads; of a definition, `k` whether it is established and `other` whether its kind is namespaced.
#[derive(Clone, Debug, PartialEq, Default)]
pub(super) struct Object {
    pub(super) uid: Arc<str>,
    pub(super) version: u64,
    pub(super) labels: Labels,
    pub(super) owners: BTreeSet<Arc<str>>,
    pub(super) finalizers: BTreeSet<Arc<str>>,
    pub(super) deleting: bool,
    pub(super) k: u32,
    pub(super) other: u32,
    /// Of a primary: what it wants, by its number.
    pub(super) spec: Option<usize>,
}

impl Object {
    pub(super) fn text(&self, fields: &Fields) -> Arc<str> {
        let mut text = format!("uid={}", self.uid);
        if self.deleting {
            text.push_str(" deleting");
        }
        let (mut metadata, mut k, mut other) = (false, false, false);
        match fields {
            Fields::Whole => (metadata, k, other) = (true, true, true),
            Fields::Metadata => metadata = true,
            Fields::Paths(paths) => {
                for path in paths.iter() {
                    match &**path {
                        "metadata.generation" | "other" => other = true,
                        _ => k = true,
                    }
                }
            }
        }
        if metadata {
            self.write_metadata(&mut text);
        }
        if k {
            let _ = write!(text, " k={}", self.k);
        }
        if other {
            let _ = write!(text, " other={}", self.other);
        }
        if let (Fields::Whole, Some(spec)) = (fields, self.spec) {
            let _ = write!(text, " spec={spec}");
        }
        text.into()
    }

    fn write_metadata(&self, text: &mut String) {
        for (key, value) in &self.labels {
            let _ = write!(text, " {key}={value}");
        }
        for owner in &self.owners {
            let _ = write!(text, " owner={owner}");
        }
        for finalizer in &self.finalizers {
            let _ = write!(text, " finalizer={finalizer}");
        }
    }

    pub(super) fn metadata(&self) -> Metadata {
        Metadata {
            uid: self.uid.clone(),
            version: Version(self.version),
            labels: self.labels.clone(),
            owners: self.owners.iter().cloned().collect(),
            finalizers: self.finalizers.iter().cloned().collect(),
            deleting: self.deleting,
        }
    }

    pub(super) fn variants(&self, fields: &[Fields]) -> Vec<Variant> {
        let variant = |fields: &Fields| Variant {
            fields: fields.clone(),
            text: self.text(fields),
        };
        fields.iter().map(variant).collect()
    }
}

/// What a text says of a field, such as `k`.
pub(super) fn value<'a>(text: &'a str, field: &str) -> Option<&'a str> {
    text.split(' ')
        .find_map(|word| word.strip_prefix(field)?.strip_prefix('='))
}

/// The number that a text says of a field.
pub(super) fn number(text: &str, field: &str) -> Option<usize> {
    value(text, field)?.parse().ok()
}

pub(super) fn named(namespace: &str, name: &str) -> ObjectName {
    ObjectName::new(Some(namespace), name)
}

pub(super) fn cluster_wide(name: &str) -> ObjectName {
    ObjectName::new(None, name)
}
