//! An object, and who depends on it.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use patchbay_core::{Criterion, ObjectKey, PrimaryKey, Query, QueryUser, Target};

use super::View;
use super::hide::Names;
use super::model::{DependentExplained, ObjectExplained};
use crate::history::{NamedQuery, RunRecord};

/// Primaries that are told of those that depend on an object. The driver stands still meanwhile.
const DEPENDENTS: usize = 1000;

/// Each primary's newest run that named anything, as far as it is remembered.
type Named<'a> = HashMap<&'a PrimaryKey, &'a RunRecord>;

impl View<'_> {
    pub(super) fn object(&self, key: &ObjectKey) -> ObjectExplained {
        ObjectExplained {
            cluster: self.core.cluster_name(key.cluster),
            api_version: key.kind.api_version.to_string(),
            kind: key.kind.kind.to_string(),
            namespace: key.name.namespace.as_deref().map(str::to_owned),
            name: key.name.name.to_string(),
        }
    }

    /// Who depends on an object, and how many more there are.
    pub(super) fn dependents(&self, versions: &[ObjectKey]) -> (Vec<DependentExplained>, usize) {
        let users = versions.iter().flat_map(|object| self.core.users_of(object));
        let users: Vec<_> = users
            .flat_map(|(query, users)| users.into_iter().map(move |user| (query.clone(), user)))
            .collect();
        let named = self.history.named();
        let told = users.iter().take(DEPENDENTS);
        let mut dependents: Vec<_> = told
            .filter_map(|(query, user)| self.dependent(query, user, &named))
            .collect();
        let asking = users.iter().filter_map(|(_, user)| match user {
            QueryUser::Primary(key) => Some(key),
            _ => None,
        });
        // Whoever writes an object asks for it, or is among those who ran last, unless the host has many.
        let primaries: BTreeSet<&PrimaryKey> = asking.chain(named.keys().copied()).collect();
        let writers = primaries.into_iter().filter(|key| self.writes(key, versions));
        dependents.extend(writers.filter_map(|key| self.writer(key)).take(DEPENDENTS));
        (dependents, users.len().saturating_sub(DEPENDENTS))
    }

    /// Whether a primary's last run applied one of these.
    fn writes(&self, key: &PrimaryKey, versions: &[ObjectKey]) -> bool {
        let last = self.last_run(key);
        last.is_some_and(|last| versions.iter().any(|object| last.applied.contains_key(object)))
    }

    fn writer(&self, key: &PrimaryKey) -> Option<DependentExplained> {
        let controller = (self.controller)(key.controller)?;
        let primary = ObjectKey {
            cluster: controller.cluster,
            kind: controller.kind.clone(),
            name: key.name.clone(),
        };
        Some(DependentExplained::Writer {
            plugin: controller.plugin.to_owned(),
            primary: self.object(&primary),
        })
    }

    /// None if the dependent is about to go.
    fn dependent(&self, query: &Arc<Query>, user: &QueryUser, named: &Named<'_>) -> Option<DependentExplained> {
        Some(match user {
            QueryUser::Primary(key) => {
                let controller = (self.controller)(key.controller)?;
                let primary = ObjectKey {
                    cluster: controller.cluster,
                    kind: controller.kind.clone(),
                    name: key.name.clone(),
                };
                let last = self.last_run(key).and_then(|last| last.run.clone());
                let runs = [named.get(key).copied(), last.as_deref()];
                let runs = || runs.iter().flatten();
                let mut text = words(query);
                Names(runs().flat_map(|run| run.hidden.iter().map(|name| &**name)).collect()).hide(&mut text);
                DependentExplained::Query {
                    plugin: controller.plugin.to_owned(),
                    primary: self.object(&primary),
                    id: runs().find_map(|run| id_of(&run.queries, query)).map(str::to_owned),
                    text,
                }
            }
            QueryUser::Controller(id) => DependentExplained::Primary {
                plugin: (self.controller)(*id)?.plugin.to_owned(),
            },
            QueryUser::Dependents(id) => DependentExplained::Declared {
                plugin: (self.controller)(*id)?.plugin.to_owned(),
                text: words(query),
            },
            QueryUser::Kubeconfig(cluster) => DependentExplained::Kubeconfig {
                cluster: self.core.cluster_name(*cluster),
            },
            QueryUser::Definition(cluster, kind) => DependentExplained::Definition {
                cluster: self.core.cluster_name(*cluster),
                api_version: kind.api_version.to_string(),
                kind: kind.kind.to_string(),
            },
        })
    }
}

/// The id under which a query was named.
pub(super) fn id_of<'n>(named: &'n [NamedQuery], query: &Query) -> Option<&'n str> {
    let found = named.iter().find(|named| named.asked.as_deref() == Ok(query));
    found.map(|named| &*named.id)
}

/// A primary's query in words.
pub(super) fn words(query: &Query) -> String {
    let words = query.to_string();
    match &query.target {
        Target::Selected(selection) => match &selection.criterion {
            // A plugin can ask for what its primary owns and for nobody else's.
            Criterion::Owner(uid) => words.replace(&format!("uid {uid}"), "the primary"),
            Criterion::Labels(_) => words,
        },
        Target::Named(_) => words,
    }
}
