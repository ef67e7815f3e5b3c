//! A plugin in use: what it is, what it may do, and under which name it writes.

use std::sync::Arc;

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
        format!("patchbay-{name}-{}", digits(hash, 8))
    }

    /// The finalizer of the objects that this plugin protects in this installation.
    pub(crate) fn protection(&self, home_uid: &str) -> Arc<str> {
        protection(&self.plugin.description().name, home_uid)
    }
}

/// Characters of the part of a qualified name that follows the slash.
const NAME: usize = 63;

fn protection(plugin: &str, home_uid: &str) -> Arc<str> {
    // What does not fit of the plugin's name tells it apart all the same. It is ASCII.
    let (name, rest) = plugin.split_at(plugin.len().min(NAME - 9));
    let digits = digits(Sha256::new().chain_update(home_uid).chain_update(rest), 4);
    format!("protect.patchbay.dev/{name}-{digits}").into()
}

/// The first bytes of a hash, in hexadecimal digits.
fn digits(hash: Sha256, bytes: usize) -> String {
    let hash = hash.finalize();
    hash.iter().take(bytes).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_finalizer_is_one_for_each_plugin_and_installation() {
        let object = protection("object", "u");
        assert!(object.starts_with("protect.patchbay.dev/object-"), "{object}");
        assert_ne!(object, protection("object", "v"));
        assert_ne!(object, protection("other", "u"));
        let long = |end: &str| protection(&format!("{}{end}", "x".repeat(60)), "u");
        assert_ne!(long("aaa"), long("bbb"));
        let name = long("aaa");
        assert_eq!(name.split_once('/').map(|(_, name)| name.len()), Some(NAME));
    }
}
