//! Which object is meant.

use std::collections::BTreeSet;

use patchbay_core::{ClusterId, ClusterSource, Core, Kind, ObjectKey, ObjectName};

use super::Asked;
use super::nearest::nearest;

/// Kinds, clusters and namespaces that a message lists.
const LISTED: usize = 20;

/// Why there is nothing to explain.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotExplained {
    /// No such cluster.
    #[error("no cluster {asked:?} is known here. Those that are: {known}")]
    Cluster {
        /// What was asked for.
        asked: String,
        /// What there is.
        known: String,
    },
    /// No such kind.
    #[error("nothing that runs here has to do with a kind {asked:?}{hint}. Kinds that are watched: {known}")]
    Kind {
        /// What was asked for.
        asked: String,
        /// What may have been meant.
        hint: String,
        /// What there is.
        known: String,
    },
    /// No such object.
    #[error("nothing that runs here has to do with {asked}: {why} and no query finds it{hint}")]
    Object {
        /// What was asked for.
        asked: String,
        /// Why no plugin reconciles it.
        why: String,
        /// Where there is one of this name.
        hint: String,
    },
    /// Several objects are meant.
    #[error("there are several of this name: say which by {option}. {known}")]
    Several {
        /// What tells them apart.
        option: &'static str,
        /// What there is.
        known: String,
    },
    /// The host is about to end.
    #[error("the host is stopping")]
    Stopping,
}

/// A kind that a plugin reconciles in some cluster.
pub(crate) struct Reconciled {
    pub(crate) plugin: String,
    pub(crate) kind: Kind,
    /// Why its objects cannot be seen, if so.
    pub(crate) failure: Option<String>,
}

/// The object that is meant.
pub(super) struct Meant {
    /// Under the version of its kind that plugins reconcile, or under which it is there.
    pub(super) object: ObjectKey,
    /// Under each version of its kind that is known.
    pub(super) versions: Vec<ObjectKey>,
}

pub(super) fn find(core: &Core, reconciled: &[Reconciled], asked: &Asked) -> Result<Meant, NotExplained> {
    let places = places(core, asked)?;
    let kinds = places.iter().filter(|(_, kind)| is_called(kind, &asked.kind));
    let mut found: Vec<ObjectKey> = Vec::new();
    let mut any_kind = false;
    for (cluster, kind) in kinds {
        any_kind = true;
        found.extend(objects(core, *cluster, kind, asked));
    }
    if !any_kind {
        let known = listed(places.iter().map(|(_, kind)| resource(kind)));
        let nearest = nearest(places.iter().map(|(_, kind)| kind), &asked.kind);
        let hint = nearest.map_or(String::new(), |kind| format!(": did you mean {}?", resource(kind)));
        let asked = asked.kind.clone();
        return Err(NotExplained::Kind { asked, hint, known });
    }
    // The host's cluster is meant unless another is named.
    if found.iter().any(|object| object.cluster == ClusterId::HOST) {
        found.retain(|object| object.cluster == ClusterId::HOST);
    }
    one(&found, "--cluster", |object| short_name(core, object.cluster))?;
    one(&found, "its group, as in KIND.GROUP", |object| exactly(&object.kind))?;
    one(&found, "--namespace", |object| {
        object.name.namespace.as_deref().unwrap_or("none").to_owned()
    })?;
    let is_primary = |object: &ObjectKey| !core.primaries_of(object).is_empty();
    let there = |object: &ObjectKey| core.observed(object).is_some();
    match found.iter().max_by_key(|object| (is_primary(object), there(object))) {
        None => Err(unknown(core, &places, reconciled, asked)),
        Some(object) => Ok(Meant {
            object: object.clone(),
            versions: found,
        }),
    }
}

/// The kinds that are watched in the cluster that is meant, or in all.
fn places(core: &Core, asked: &Asked) -> Result<Vec<(ClusterId, Kind)>, NotExplained> {
    let mut places = core.places();
    if let Some(asked) = &asked.cluster {
        let known = listed(places.iter().map(|(cluster, _)| short_name(core, *cluster)));
        places.retain(|(cluster, _)| is_named(core, *cluster, asked));
        if places.is_empty() {
            let asked = asked.clone();
            return Err(NotExplained::Cluster { asked, known });
        }
    }
    Ok(places)
}

/// How a cluster is asked for.
fn short_name(core: &Core, cluster: ClusterId) -> String {
    match core.cluster_source(cluster) {
        Some(ClusterSource::Kubeconfig(source)) => format!("{}/{}", source.namespace, source.name),
        _ => core.cluster_name(cluster),
    }
}

/// Whether a cluster goes by this name: its id, or where its kubeconfig is.
fn is_named(core: &Core, cluster: ClusterId, asked: &str) -> bool {
    core.cluster_name(cluster) == asked
        || matches!(core.cluster_source(cluster), Some(ClusterSource::Kubeconfig(source))
            if asked == format!("{}/{}", source.namespace, source.name))
}

/// Whether a kind goes by this name: its kind or plural, in any case, with its group or without.
fn is_called(kind: &Kind, asked: &str) -> bool {
    let asked = asked.to_lowercase();
    // The core group has no name, so it goes by its version.
    if kind.group().is_empty()
        && let Some(word) = asked.strip_suffix(&format!(".{}", kind.api_version))
    {
        return is_called(kind, word);
    }
    let (word, group) = match asked.split_once('.') {
        Some((word, group)) => (word, Some(group)),
        None => (asked.as_str(), None),
    };
    let singular = kind.kind.to_lowercase();
    let is_short = SHORT
        .iter()
        .any(|(short, of, of_group)| *short == word && **of == *kind.kind && *of_group == kind.group());
    let is_word = is_short
        || word == singular
        || ["s", "es"].iter().any(|end| word.strip_suffix(end) == Some(&singular))
        || word
            .strip_suffix("ies")
            .is_some_and(|stem| singular.strip_suffix('y') == Some(stem));
    is_word && group.is_none_or(|group| group == kind.group())
}

/// How a kind can be asked for.
fn resource(kind: &Kind) -> String {
    match kind.group() {
        "" => kind.kind.to_lowercase(),
        group => format!("{}.{group}", kind.kind.to_lowercase()),
    }
}

/// How a kind is asked for where another has the same word.
fn exactly(kind: &Kind) -> String {
    match kind.group() {
        "" => format!("{}.{}", resource(kind), kind.api_version),
        _ => resource(kind),
    }
}

/// What kubectl calls the kinds that everybody has, in short. Custom ones go by their kind.
const SHORT: [(&str, &str, &str); 20] = [
    ("cj", "CronJob", "batch"),
    ("cm", "ConfigMap", ""),
    ("crd", "CustomResourceDefinition", "apiextensions.k8s.io"),
    ("crds", "CustomResourceDefinition", "apiextensions.k8s.io"),
    ("deploy", "Deployment", "apps"),
    ("ds", "DaemonSet", "apps"),
    ("ep", "Endpoints", ""),
    ("ev", "Event", ""),
    ("hpa", "HorizontalPodAutoscaler", "autoscaling"),
    ("ing", "Ingress", "networking.k8s.io"),
    ("netpol", "NetworkPolicy", "networking.k8s.io"),
    ("no", "Node", ""),
    ("ns", "Namespace", ""),
    ("po", "Pod", ""),
    ("pvc", "PersistentVolumeClaim", ""),
    ("quota", "ResourceQuota", ""),
    ("rs", "ReplicaSet", "apps"),
    ("sa", "ServiceAccount", ""),
    ("sts", "StatefulSet", "apps"),
    ("svc", "Service", ""),
];

/// The objects of one kind that are known by the name.
fn objects(core: &Core, cluster: ClusterId, kind: &Kind, asked: &Asked) -> Vec<ObjectKey> {
    let key = |name| ObjectKey {
        cluster,
        kind: kind.clone(),
        name,
    };
    match asked.namespace.as_deref().filter(|namespace| !namespace.is_empty()) {
        Some(namespace) => {
            let object = key(ObjectName::new(Some(namespace), &asked.name));
            let known = core.observed(&object).is_some() || !core.users_of(&object).is_empty();
            known.then_some(object).into_iter().collect()
        }
        None => core.named(cluster, kind, &asked.name).into_iter().map(key).collect(),
    }
}

fn unknown(core: &Core, places: &[(ClusterId, Kind)], reconciled: &[Reconciled], asked: &Asked) -> NotExplained {
    let elsewhere = Asked {
        namespace: None,
        ..asked.clone()
    };
    let kinds = places.iter().filter(|(_, kind)| is_called(kind, &asked.kind));
    let named = kinds.flat_map(|(cluster, kind)| objects(core, *cluster, kind, &elsewhere));
    let known = listed(named.map(|object| object.name.to_string()));
    let name = match &asked.namespace {
        Some(namespace) => format!("{namespace}/{}", asked.name),
        None => asked.name.clone(),
    };
    let mut controllers = reconciled.iter().filter(|of| is_called(&of.kind, &asked.kind));
    let why = match controllers.next() {
        None => "no plugin reconciles its kind".to_owned(),
        Some(Reconciled { plugin, kind, failure }) => match failure {
            Some(failure) => format!(
                "plugin {plugin} reconciles every {}, but cannot see any ({failure})",
                kind.kind
            ),
            None => format!(
                "plugin {plugin} reconciles every {}, but there is none of this name",
                kind.kind
            ),
        },
    };
    let elsewhere = core.places().into_iter().filter(|place| !places.contains(place));
    let elsewhere = elsewhere
        .filter(|(cluster, kind)| is_called(kind, &asked.kind) && !objects(core, *cluster, kind, asked).is_empty());
    let clusters = listed(elsewhere.map(|(cluster, _)| short_name(core, cluster)));
    NotExplained::Object {
        why,
        asked: format!("{} {name}", asked.kind),
        hint: match (known.is_empty(), clusters.is_empty()) {
            (false, _) => format!(". Of that name are known: {known}"),
            (true, false) => format!(". It is known in cluster {clusters}"),
            (true, true) => String::new(),
        },
    }
}

/// That all of them are the same in one respect.
fn one(
    objects: &[ObjectKey],
    option: &'static str,
    respect: impl Fn(&ObjectKey) -> String,
) -> Result<(), NotExplained> {
    let different: BTreeSet<_> = objects.iter().map(respect).collect();
    if different.len() > 1 {
        let known = listed(different);
        return Err(NotExplained::Several { option, known });
    }
    Ok(())
}

/// Words in order, each once.
fn listed(words: impl IntoIterator<Item = String>) -> String {
    let words: BTreeSet<_> = words.into_iter().collect();
    let more = words.len().saturating_sub(LISTED);
    let mut listed = words.into_iter().take(LISTED).collect::<Vec<_>>().join(", ");
    if more > 0 {
        listed += &format!(" and {more} more");
    }
    listed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_goes_by_many_names() {
        let kinds = [
            Kind::new("apps/v1", "Deployment"),
            Kind::new("networking.k8s.io/v1", "Ingress"),
            Kind::new("networking.k8s.io/v1", "NetworkPolicy"),
            Kind::new("v1", "Secret"),
        ];
        for (asked, called) in [
            ("deployment", "Deployment"),
            ("Deployments", "Deployment"),
            ("deployments.apps", "Deployment"),
            ("deployments.v1", ""),
            ("deploy", "Deployment"),
            ("deploy.apps", "Deployment"),
            ("ing", "Ingress"),
            ("secret.v1", "Secret"),
            ("Secrets.v1", "Secret"),
            ("secret.v2", ""),
            ("INGRESSES", "Ingress"),
            ("networkpolicies.networking.k8s.io", "NetworkPolicy"),
            ("networkpolicys", "NetworkPolicy"),
            ("secrets", "Secret"),
            ("secret.apps", ""),
            ("secre", ""),
            ("", ""),
        ] {
            let found = kinds.iter().find(|kind| is_called(kind, asked));
            assert_eq!(found.map_or("", |kind| &kind.kind), called, "{asked}");
        }
    }

    #[test]
    fn long_lists_are_cut() {
        let words = |count: usize| (0..count).map(|number| format!("{number:02}"));
        assert_eq!(listed(words(2).chain(words(2))), "00, 01");
        assert!(listed(words(LISTED + 3)).ends_with("19 and 3 more"));
    }
}
