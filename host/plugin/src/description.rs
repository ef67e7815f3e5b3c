//! Whether what a plugin says of itself can be worked with.

use std::collections::HashSet;

use crate::contract::{Cluster, Description, ObjectKind};

/// Characters of a DNS label (RFC 1123), which names that the host makes of a plugin's name must be.
const LABEL: usize = 63;

/// Characters of a DNS subdomain (RFC 1123).
const SUBDOMAIN: usize = 253;

/// Checks a description.
///
/// # Errors
/// The first thing that is wrong with it, and what it should be.
pub(crate) fn validate(description: &Description) -> Result<(), String> {
    let name = &description.name;
    if !is_label(name) || !name.starts_with(|char: char| char.is_ascii_lowercase()) {
        return Err(format!(
            "the name {name:?} must be lower case letters, digits and dashes, begin with a letter, and have at most \
             {LABEL} characters"
        ));
    }
    let version = &description.version;
    if version.is_empty() || version.len() > LABEL || !version.chars().all(|char| char.is_ascii_graphic()) {
        return Err(format!(
            "the version {version:?} must be 1 to {LABEL} visible ASCII characters, such as 1.2.0"
        ));
    }
    if description.primaries.is_empty() {
        return Err("it names no primary kind; a plugin has at least one".to_owned());
    }
    for primary in &description.primaries {
        check_kind("primary kind", &primary.kind)?;
    }
    if let Some(finalizer) = &description.finalizer
        && !is_finalizer(finalizer)
    {
        return Err(format!(
            "the finalizer {finalizer:?} must be a domain, a slash and a name, such as example.com/release, or a \
             domain alone"
        ));
    }
    let mut ids = HashSet::new();
    for watch in &description.watches {
        if watch.id.is_empty() || !ids.insert(&watch.id) {
            return Err(format!(
                "the id {:?} of a watch is empty or there twice; each needs its own",
                watch.id
            ));
        }
        check_kind(&format!("kind of the watch {:?}", watch.id), &watch.kind)?;
        if let Some(kind) = &watch.primaries
            && !description.primaries.iter().any(|primary| primary.kind == *kind)
        {
            return Err(format!(
                "the watch {:?} concerns primaries of kind {} ({}), which is none of the plugin's primary kinds",
                watch.id, kind.kind, kind.api_version
            ));
        }
        if matches!(watch.cluster, Cluster::ByKubeconfig(_)) {
            return Err(format!(
                "the watch {:?} names a cluster by a kubeconfig; which one that is depends on a primary, so only \
                 references can name it",
                watch.id
            ));
        }
    }
    if let Some(schema) = &description.config_schema {
        check_schema(schema)?;
    }
    Ok(())
}

fn check_kind(what: &str, kind: &ObjectKind) -> Result<(), String> {
    let (group, version) = match kind.api_version.split_once('/') {
        Some((group, version)) => (Some(group), version),
        None => (None, kind.api_version.as_str()),
    };
    let group = group.is_none_or(is_subdomain);
    if !group || !is_label(version) {
        return Err(format!(
            "the {what} has the apiVersion {:?}; it must be a version, or a group, a slash and a version, such as v1 \
             or apps/v1",
            kind.api_version
        ));
    }
    let upper = kind.kind.starts_with(|char: char| char.is_ascii_alphabetic());
    if !upper || !is_label(&kind.kind.to_ascii_lowercase()) {
        return Err(format!(
            "the {what} has the kind {:?}; it must be a name such as Secret",
            kind.kind
        ));
    }
    Ok(())
}

fn check_schema(schema: &str) -> Result<(), String> {
    match serde_json::from_str(schema) {
        Ok(serde_json::Value::Object(_) | serde_json::Value::Bool(_)) => Ok(()),
        Ok(_) => Err("the schema of the configuration is JSON, but no JSON Schema; it must be an object".to_owned()),
        Err(error) => Err(format!("the schema of the configuration is no JSON: {error}")),
    }
}

/// Whether this can stand in `metadata.finalizers`: API servers take qualified names, and names without a slash for the
/// sake of controllers that are older than this rule, whose finalizers a plugin may have to keep.
fn is_finalizer(text: &str) -> bool {
    let Some((domain, name)) = text.split_once('/') else {
        return text.contains('.') && is_subdomain(text);
    };
    let inner = |char: char| char.is_ascii_alphanumeric() || "-_.".contains(char);
    is_subdomain(domain)
        && !name.is_empty()
        && name.len() <= LABEL
        && name.chars().all(inner)
        && name.starts_with(|char: char| char.is_ascii_alphanumeric())
        && name.ends_with(|char: char| char.is_ascii_alphanumeric())
}

fn is_subdomain(text: &str) -> bool {
    text.len() <= SUBDOMAIN && text.split('.').all(is_label)
}

fn is_label(text: &str) -> bool {
    let inner = |char: char| char.is_ascii_lowercase() || char.is_ascii_digit() || char == '-';
    !text.is_empty() && text.len() <= LABEL && text.chars().all(inner) && !text.starts_with('-') && !text.ends_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::{DeclaredWatch, Fields, LabelSelector, Namespaces, PrimaryKind, SecretKey};

    fn kind(api_version: &str, kind: &str) -> ObjectKind {
        ObjectKind {
            api_version: api_version.into(),
            kind: kind.into(),
        }
    }

    fn everything() -> LabelSelector {
        LabelSelector {
            match_labels: vec![],
            match_expressions: vec![],
        }
    }

    fn watch(id: &str) -> DeclaredWatch {
        DeclaredWatch {
            id: id.into(),
            cluster: Cluster::PrimaryCluster,
            kind: kind("v1", "Secret"),
            namespaces: Namespaces::Everywhere,
            selector: everything(),
            fields: Fields::Whole,
            primaries: None,
        }
    }

    fn good() -> Description {
        Description {
            name: "object".into(),
            version: "0.1.0".into(),
            primaries: vec![PrimaryKind {
                kind: kind("kubernetes.crossplane.io/v1alpha2", "Object"),
                selector: everything(),
            }],
            finalizer: Some("finalizer.example.com/object.v1".into()),
            watches: vec![watch("secrets"), watch("more")],
            requests: vec![],
            config_schema: Some(r#"{"type":"object"}"#.into()),
        }
    }

    #[test]
    fn a_good_description_passes() {
        assert_eq!(validate(&good()), Ok(()));
    }

    #[test]
    fn each_fault_is_named() {
        type Change = fn(&mut Description);
        let faults: [(Change, &str); 18] = [
            (|it| it.name = "".into(), "the name \"\""),
            (|it| it.name = "Object".into(), "the name \"Object\""),
            (|it| it.name = "1st".into(), "the name \"1st\""),
            (|it| it.name = "a\nb".into(), "the name \"a\\nb\""),
            (|it| it.name = "a".repeat(64), "at most 63"),
            (|it| it.version = "".into(), "the version \"\""),
            (|it| it.version = "1.0\n".into(), "the version \"1.0\\n\""),
            (|it| it.primaries.clear(), "no primary kind"),
            (|it| it.primaries[0].kind = kind("", "Pod"), "apiVersion"),
            (|it| it.primaries[0].kind = kind("a/b/c", "Pod"), "apiVersion"),
            (|it| it.primaries[0].kind = kind("v1", "a pod"), "the kind \"a pod\""),
            (|it| it.finalizer = Some("release".into()), "finalizer"),
            (|it| it.finalizer = Some("a b/release".into()), "finalizer"),
            (|it| it.watches[1].id = "secrets".into(), "\"secrets\""),
            (|it| it.watches[0].kind = kind("v1", ""), "watch \"secrets\""),
            (
                |it| {
                    it.watches[0].cluster = Cluster::ByKubeconfig(SecretKey {
                        home: crate::contract::Home::HostCluster,
                        namespace: "default".into(),
                        name: "c2".into(),
                        key: "kubeconfig".into(),
                    });
                },
                "by a kubeconfig",
            ),
            (|it| it.config_schema = Some("{".into()), "no JSON"),
            (|it| it.config_schema = Some("[]".into()), "no JSON Schema"),
        ];
        for (change, expected) in faults {
            let mut description = good();
            change(&mut description);
            let message = validate(&description).expect_err(expected);
            assert!(message.contains(expected), "{message}");
        }
    }
}
