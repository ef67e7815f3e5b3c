//! Names that were made of values of Secrets, such as that of an object which is called as a Secret says.
//!
//! Core has to know them, and people are not told. A name is made of a Secret if it holds a value of one and was not
//! known before the Secret was read: not as the name of anything that the run asked for first, and not from the primary.

use std::collections::VecDeque;

use patchbay_core::{ClusterId, ClusterSource, Criterion, Kind, Namespaces, Operator, Query, Selector, Target};
use patchbay_mask::hide_name;
use patchbay_plugin::contract::{Cluster, ObjectReference};
use serde_json::Value;

/// Names that are remembered for the log of watches and reads, which belong to no run.
const REMEMBERED: usize = 1000;

/// A text without these names.
pub(crate) fn hide<'n>(text: &str, names: impl IntoIterator<Item = &'n str>) -> String {
    names
        .into_iter()
        .fold(text.to_owned(), |text, name| hide_name(&text, name))
}

/// All that a query is named by.
pub(crate) fn parts<'q>(query: &'q Query, source: Option<&'q ClusterSource>) -> Vec<&'q str> {
    let mut parts: Vec<&str> = vec![&query.kind.api_version, &query.kind.kind];
    if let Some(ClusterSource::Kubeconfig(source)) = source {
        parts.extend([&*source.namespace, &source.name, &source.key]);
    }
    match &query.target {
        Target::Named(name) => parts.extend(name.namespace.iter().chain([&name.name]).map(|part| &**part)),
        Target::Selected(selection) => {
            match &selection.namespaces {
                Namespaces::All => {}
                Namespaces::Listed(names) => parts.extend(names.iter().map(|name| &**name)),
                Namespaces::Selected(selector) => labels(selector, &mut parts),
            }
            match &selection.criterion {
                Criterion::Labels(selector) => labels(selector, &mut parts),
                Criterion::Owner(_) => {}
            }
        }
    }
    if let patchbay_core::Fields::Paths(paths) = &query.fields {
        parts.extend(paths.iter().map(|path| &**path));
    }
    parts
}

fn labels<'s>(selector: &'s Selector, parts: &mut Vec<&'s str>) {
    for requirement in selector.requirements() {
        parts.push(&requirement.key);
        match &requirement.operator {
            Operator::In(values) | Operator::NotIn(values) => parts.extend(values.iter().map(|value| &**value)),
            Operator::Exists | Operator::DoesNotExist => {}
        }
    }
}

/// All that an object is named by.
pub(crate) fn parts_of(object: &ObjectReference) -> Vec<&str> {
    let mut parts = vec![
        object.kind.api_version.as_str(),
        object.kind.kind.as_str(),
        object.name.as_str(),
    ];
    parts.extend(object.namespace.as_deref());
    if let Cluster::ByKubeconfig(secret) = &object.cluster {
        parts.extend([secret.namespace.as_str(), secret.name.as_str(), secret.key.as_str()]);
    }
    parts
}

/// Hides these names in an object's.
pub(crate) fn hide_in(object: &mut ObjectReference, names: &[Box<str>]) {
    let hidden = |text: &mut String| *text = hide(text, names.iter().map(|name| &**name));
    hidden(&mut object.kind.api_version);
    hidden(&mut object.kind.kind);
    hidden(&mut object.name);
    object.namespace.iter_mut().for_each(hidden);
    if let Cluster::ByKubeconfig(secret) = &mut object.cluster {
        for text in [&mut secret.namespace, &mut secret.name, &mut secret.key] {
            hidden(text);
        }
    }
}

/// Whether a primary says a name by itself. What a status tells is what came of runs.
pub(crate) fn says(primary: &str, name: &str) -> bool {
    let mut primary: Value = serde_json::from_str(primary).unwrap_or_default();
    if let Some(fields) = primary.as_object_mut() {
        fields.remove("status");
    }
    holds(&primary, name)
}

fn holds(value: &Value, name: &str) -> bool {
    match value {
        Value::String(text) => text == name,
        Value::Array(values) => values.iter().any(|value| holds(value, name)),
        Value::Object(fields) => fields.iter().any(|(key, value)| key == name || holds(value, name)),
        _ => false,
    }
}

/// The hidden names that were asked for last, whoever asked.
#[derive(Default)]
pub(crate) struct Remembered(VecDeque<(ClusterId, Kind, Box<str>)>);

impl Remembered {
    pub(crate) fn add(&mut self, query: &Query, name: &str) {
        let known = |(cluster, kind, known): &(ClusterId, Kind, Box<str>)| {
            *cluster == query.cluster && *kind == query.kind && **known == *name
        };
        if self.0.iter().any(known) {
            return;
        }
        if self.0.len() == REMEMBERED {
            self.0.pop_front();
        }
        self.0.push_back((query.cluster, query.kind.clone(), name.into()));
    }

    /// What is said about objects of a kind, without the hidden names of such.
    pub(crate) fn hide(&self, cluster: ClusterId, kind: &Kind, text: &str) -> String {
        let names = self.0.iter().filter(|(at, of, _)| *at == cluster && of == kind);
        hide(text, names.map(|(_, _, name)| &**name))
    }
}

#[cfg(test)]
mod tests {
    use patchbay_core::{Fields, ObjectName};

    use super::*;

    fn query(name: &str) -> Query {
        Query {
            cluster: ClusterId::HOST,
            kind: Kind::new("v1", "ConfigMap"),
            target: Target::Named(ObjectName::new(Some("n"), name)),
            fields: Fields::Whole,
        }
    }

    #[test]
    fn the_names_that_were_asked_for_last_are_hidden_in_what_is_said_of_their_kind() {
        let mut remembered = Remembered::default();
        for number in 0..=REMEMBERED {
            remembered.add(&query("c"), &format!("name{number}"));
            remembered.add(&query("c"), "name1");
        }
        assert_eq!(remembered.0.len(), REMEMBERED);
        let (host, kind) = (ClusterId::HOST, Kind::new("v1", "ConfigMap"));
        let said = "configmaps \"name1000\" is forbidden";
        assert_eq!(
            remembered.hide(host, &kind, said),
            "configmaps \"[hidden]\" is forbidden"
        );
        assert_eq!(remembered.hide(host, &Kind::new("v1", "Secret"), said), said);
    }

    #[test]
    fn what_a_primary_says_by_itself_is_known() {
        let primary = r#"{"spec":{"names":["a"]},"status":{"target":"b"}}"#;
        assert!(says(primary, "a") && says(primary, "names") && !says(primary, "b") && !says(primary, "c"));
    }

    #[test]
    fn a_query_is_named_by_many_parts() {
        let named = query("c");
        assert_eq!(parts(&named, None), ["v1", "ConfigMap", "n", "c"]);
    }
}
