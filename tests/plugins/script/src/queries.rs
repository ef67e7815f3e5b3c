//! What a Script depends on.

use patchbay_sdk::{
    Answers, Failure, Fields, LabelSelector, Namespaces, ObjectReference, Primary, Query, ReferenceSet,
};
use serde::Deserialize;

use crate::places::{ClusterSpec, SelectorSpec};
use crate::spec::{Spec, invalid, namespace, part};
use crate::template::{Absent, Template};

/// One query. Exactly one of `named`, `selected` and `owned` is given.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct QuerySpec {
    id: String,
    api_version: String,
    kind: String,
    named: Option<Named>,
    selected: Option<SelectorSpec>,
    owned: Option<Owned>,
    /// For `selected` and `owned`; the Script's own namespace if absent.
    #[serde(default)]
    namespaces: NamespacesSpec,
    #[serde(default)]
    fields: FieldsSpec,
    #[serde(default)]
    cluster: ClusterSpec,
    #[serde(default)]
    tolerate: bool,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Named {
    namespace: Option<String>,
    name: String,
}

/// `owned: {}`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Owned {}

/// `own`, `everywhere`, `{listed: [a, b]}` or `{selector: {matchLabels: …}}`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
enum NamespacesSpec {
    #[default]
    Own,
    Everywhere,
    Listed(Vec<String>),
    Selector(SelectorSpec),
}

/// `whole`, `metadata` or `{paths: [data.k]}`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
enum FieldsSpec {
    #[default]
    Whole,
    Metadata,
    Paths(Vec<String>),
}

/// The queries of the rounds so far, and of the next one if all of those are answered.
pub(crate) fn references(primary: &Primary, spec: &Spec, answers: &Answers) -> Result<ReferenceSet, Failure> {
    let (queries, complete) = rounds(primary, spec, answers)?;
    Ok(ReferenceSet {
        queries,
        join_keys: spec.join_keys.clone(),
        complete,
    })
}

/// The ids of a Script's queries that have an answer.
pub(crate) fn ids(primary: &Primary, spec: &Spec, answers: &Answers) -> Vec<String> {
    let queries = rounds(primary, spec, answers).map(|(queries, _)| queries);
    queries.unwrap_or_default().into_iter().map(|query| query.id).collect()
}

fn rounds(primary: &Primary, spec: &Spec, answers: &Answers) -> Result<(Vec<Query>, bool), Failure> {
    let template = Template { primary, answers };
    let mut queries = Vec::new();
    for (number, round) in [&spec.queries].into_iter().chain(&spec.rounds).enumerate() {
        if number > 0 && !queries.iter().all(|query: &Query| answers.finding(&query.id).is_some()) {
            return Ok((queries, false));
        }
        for value in round {
            match template.fill(value, Absent::Refuse) {
                Ok(value) => queries.push(part::<QuerySpec>(value, "queries")?.query(primary)?),
                // The query from which it would take something has found nothing: that is what the Script waits for.
                Err(failure) if !failure.permanent => {}
                Err(failure) => return Err(failure),
            }
        }
    }
    Ok((queries, true))
}

impl QuerySpec {
    fn query(self, primary: &Primary) -> Result<Query, Failure> {
        let QuerySpec {
            id, api_version, kind, ..
        } = self;
        let cluster = self.cluster.of(primary);
        let query: Query = match (self.named, self.selected, self.owned) {
            (Some(named), None, None) => {
                let mut object = ObjectReference::new(api_version, kind, named.name).cluster(cluster);
                object.namespace = namespace(primary, named.namespace);
                let query = Query::object(id, object);
                match self.fields {
                    FieldsSpec::Whole => query.into(),
                    FieldsSpec::Metadata => query.metadata_only().into(),
                    FieldsSpec::Paths(paths) => query.fields(paths).into(),
                }
            }
            (None, Some(selector), None) => {
                let query = Query::selected(id, api_version, kind)
                    .cluster(cluster)
                    .selector(selector.into());
                several(query.into(), self.namespaces.of(primary), self.fields)
            }
            (None, None, Some(Owned {})) => {
                let query = Query::owned(id, api_version, kind).cluster(cluster);
                several(query.into(), self.namespaces.of(primary), self.fields)
            }
            _ => {
                return Err(invalid(
                    "queries",
                    &format!("{id}: give one of named, selected and owned"),
                ));
            }
        };
        Ok(Query {
            tolerate: self.tolerate,
            ..query
        })
    }
}

/// A query of several objects, narrowed.
fn several(mut query: Query, namespaces: Namespaces, fields: FieldsSpec) -> Query {
    let fields = match fields {
        FieldsSpec::Whole => Fields::Whole,
        FieldsSpec::Metadata => Fields::MetadataOnly,
        FieldsSpec::Paths(paths) => Fields::these(paths),
    };
    match &mut query.target {
        patchbay_sdk::QueryTarget::Selected(selected) => (selected.namespaces, selected.fields) = (namespaces, fields),
        patchbay_sdk::QueryTarget::Owned(owned) => (owned.namespaces, owned.fields) = (namespaces, fields),
        patchbay_sdk::QueryTarget::Named(_) | patchbay_sdk::QueryTarget::Repository(_) => {}
    }
    query
}

impl NamespacesSpec {
    fn of(self, primary: &Primary) -> Namespaces {
        match self {
            NamespacesSpec::Own => Namespaces::Listed(primary.namespace().map(str::to_owned).into_iter().collect()),
            NamespacesSpec::Everywhere => Namespaces::Everywhere,
            NamespacesSpec::Listed(names) => Namespaces::Listed(names),
            NamespacesSpec::Selector(selector) => Namespaces::Selected(LabelSelector::from(selector)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use patchbay_sdk::{QueryTarget, Value, json, testing};

    fn asked(spec: Value, findings: &[(&str, patchbay_sdk::Finding)]) -> Result<ReferenceSet, Failure> {
        let primary = testing::primary(json!({"metadata": {"name": "s", "namespace": "n"}, "spec": spec}));
        references(&primary, &primary.spec()?, &testing::answers(findings.iter().cloned()))
    }

    fn names(set: &ReferenceSet) -> Vec<&str> {
        let named = set.queries.iter().filter_map(|query| match &query.target {
            QueryTarget::Named(named) => Some(named.object.name.as_str()),
            _ => None,
        });
        named.collect()
    }

    #[test]
    fn queries_are_read_as_they_are_spelt() {
        let set = asked(
            json!({"joinKeys": ["j"], "queries": [
                {"id": "a", "apiVersion": "v1", "kind": "Secret", "named": {"name": "x"}, "fields": {"paths": ["data.k"]}},
                {"id": "b", "apiVersion": "v1", "kind": "Node", "named": {"name": "y", "namespace": ""}, "tolerate": true},
                {"id": "c", "apiVersion": "v1", "kind": "ConfigMap", "fields": "metadata", "namespaces": "everywhere",
                 "selected": {"matchLabels": {"l": "1"}, "matchExpressions": [{"key": "m", "operator": "Exists"}]}},
                {"id": "d", "apiVersion": "v1", "kind": "ConfigMap", "owned": {}, "cluster": "host"},
                {"id": "e", "apiVersion": "v1", "kind": "ConfigMap", "selected": {},
                 "namespaces": {"selector": {"matchLabels": {"team": "a"}}}, "cluster": {"kubeconfig": {"name": "k"}}},
            ]}),
            &[],
        )
        .unwrap();
        assert!(set.complete);
        assert_eq!(set.join_keys, ["j"]);
        let expected: [Query; 5] = [
            Query::named("a", "v1", "Secret", "x")
                .in_namespace("n")
                .fields(["data.k"])
                .into(),
            Query::named("b", "v1", "Node", "y").tolerate().into(),
            Query::selected("c", "v1", "ConfigMap")
                .label("l", "1")
                .requirement("m", patchbay_sdk::LabelOperator::Exists, [""; 0])
                .metadata_only()
                .into(),
            Query::owned("d", "v1", "ConfigMap")
                .cluster(patchbay_sdk::Cluster::HostCluster)
                .in_namespaces(["n"])
                .into(),
            Query::selected("e", "v1", "ConfigMap")
                .cluster(patchbay_sdk::Cluster::ByKubeconfig(
                    patchbay_sdk::SecretKey::in_primary_cluster("n", "k", "kubeconfig"),
                ))
                .in_namespaces_selected(LabelSelector::everything().label("team", "a"))
                .into(),
        ];
        assert_eq!(set.queries, expected);
    }

    #[test]
    fn a_later_round_uses_what_was_found() {
        let query = |id: &str, name: &str| json!({"id": id, "apiVersion": "v1", "kind": "ConfigMap", "named": {"name": name}, "tolerate": true});
        let spec = json!({
            "queries": [query("first", "a")],
            "rounds": [[query("second", "${first:data.next}")], [query("third", "c")]],
        });
        let set = asked(spec.clone(), &[]).unwrap();
        assert_eq!((names(&set), set.complete), (vec!["a"], false));
        let first = ("first", testing::found(json!({"data": {"next": "b"}})));
        let set = asked(spec.clone(), std::slice::from_ref(&first)).unwrap();
        assert_eq!((names(&set), set.complete), (vec!["a", "b"], false));
        let set = asked(spec.clone(), &[first, ("second", testing::missing())]).unwrap();
        assert_eq!((names(&set), set.complete), (vec!["a", "b", "c"], true));
        // Nothing to go on from.
        let set = asked(spec, &[("first", testing::missing())]).unwrap();
        assert_eq!((names(&set), set.complete), (vec!["a", "c"], true));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for (query, problem) in [
            (json!({"id": "a", "apiVersion": "v1", "kind": "Secret"}), "give one of"),
            (
                json!({"id": "a", "apiVersion": "v1", "kind": "Secret", "named": {"name": "x"}, "field": 1}),
                "`field`",
            ),
            (
                json!({"id": "a", "apiVersion": "v1", "kind": "Secret", "named": {"name": "${b:x}"}}),
                "`b`",
            ),
        ] {
            let failure = asked(json!({"queries": [query]}), &[]).unwrap_err();
            assert!(failure.permanent && failure.message.contains(problem), "{failure:?}");
        }
        let failure = asked(json!({"query": []}), &[]).unwrap_err();
        assert!(failure.message.contains("`query`"), "{failure:?}");
    }
}
