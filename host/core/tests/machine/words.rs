//! What several files speak of.

use std::sync::Arc;

use patchbay_core::{ClusterId, Fields, Kind, Metadata, ObjectKey, ObjectName, Variant, Version};

pub fn primary_kind() -> Kind {
    Kind::new("example.dev/v1", "Copy")
}

/// The ConfigMap that primaries depend on.
pub fn shared() -> ObjectKey {
    ObjectKey {
        cluster: ClusterId::HOST,
        kind: Kind::new("v1", "ConfigMap"),
        name: ObjectName::new(Some("n"), "shared"),
    }
}

pub fn metadata(version: u64) -> Metadata {
    Metadata {
        uid: "uid".into(),
        version: Version(version),
        ..Metadata::default()
    }
}

pub fn whole(text: &str) -> Vec<Variant> {
    vec![Variant {
        fields: Fields::Whole,
        text: Arc::from(text),
    }]
}
