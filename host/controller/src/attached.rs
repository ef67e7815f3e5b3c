//! A plugin in use: what it is, what it may do, and under which name it writes.

use patchbay_core::{Kind, ObjectName};
use patchbay_plugin::Plugin;
use sha2::{Digest, Sha256};

use crate::grants::Grants;

/// A loaded plugin with what an administrator has settled for it.
pub struct Attached {
    /// The plugin.
    pub plugin: Plugin,
    /// What it may do.
    pub grants: Grants,
    /// Its configuration, a JSON object.
    pub config: String,
}

impl Attached {
    /// The field manager of a primary. It is the same after a restart, and another one for a primary of another cluster,
    /// kind or name, so that two never take each other's fields for their own.
    pub(crate) fn field_manager(&self, cluster_uid: &str, kind: &Kind, primary: &ObjectName) -> String {
        let name = &self.plugin.description().name;
        let mut hash = Sha256::new();
        for part in [
            cluster_uid,
            name,
            kind.group(),
            &kind.kind,
            primary.namespace.as_deref().unwrap_or_default(),
            &primary.name,
        ] {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        let digest: String = hash
            .finalize()
            .iter()
            .take(8)
            .map(|byte| format!("{byte:02x}"))
            .collect();
        format!("patchbay-{name}-{digest}")
    }
}
