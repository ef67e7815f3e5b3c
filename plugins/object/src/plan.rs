//! What the target should be: the manifest with the values of all references in it, and where it goes.

use patchbay_mask::Mask;
use patchbay_sdk::{Answers, Finding, ObjectReference, Primary, Query, Value};

use crate::problem::Problem;
use crate::reference::Reference;
use crate::spec::Spec;
use crate::{provider_config, target};

/// What the target should be. There is none until every reference is resolved, so nothing half-made is ever applied.
#[derive(Debug)]
pub struct Plan {
    /// The whole target as it should be.
    pub manifest: Value,
    /// Which object that is.
    pub target: ObjectReference,
    /// How messages call its cluster.
    pub cluster_name: String,
    mask: Mask,
}

impl Plan {
    /// Resolves the references in their order; the first that cannot be ends it.
    pub fn of(primary: &Primary, spec: &Spec, references: &[Reference], answers: &Answers) -> Result<Plan, Problem> {
        let provider_config = &spec.provider_config_ref.name;
        let cluster = provider_config::cluster(provider_config, primary, answers)?;
        let cluster_name = target::cluster_name(&cluster, provider_config);
        let mut manifest = spec.for_provider.manifest.clone();
        let mut mask = Mask::default();
        for reference in references {
            let source = source(reference, primary, answers)?;
            if let Some(patch) = &reference.patch {
                let value = patch.from.get(source).map_err(|error| {
                    let place = reference.place();
                    Problem::retry(format!(
                        "{place}.fieldPath: {error}, in {}",
                        shown(&reference.source, primary)
                    ))
                })?;
                mask.add(value);
                patch.to.set(&mut manifest, value.clone()).map_err(|error| {
                    Problem::permanent(format!("{}: {error}, in the manifest", reference.to_place()))
                })?;
            }
        }
        let target = target::identify(&mut manifest, primary.name(), cluster)?;
        Ok(Plan {
            manifest,
            target,
            cluster_name,
            mask,
        })
    }

    /// Asks for the target, whole.
    pub fn query(&self) -> Query {
        Query::object(target::QUERY, self.target.clone()).tolerate().into()
    }

    /// A message without any value that a reference brought in.
    pub fn hide(&self, message: &str) -> String {
        self.mask.hide(message)
    }

    /// The target and its cluster, as messages name them before values are hidden.
    pub fn shown_target(&self) -> String {
        format!("{} in {}", self.target, self.cluster_name)
    }
}

/// The source of a reference, as far as it was asked for.
fn source<'a>(reference: &Reference, primary: &Primary, answers: &'a Answers) -> Result<&'a Value, Problem> {
    let place = reference.place();
    match answers.finding(&reference.id()) {
        Some(Finding::Found(object)) => Ok(&object.value),
        Some(Finding::Failed(failure)) => Err(Problem::unknown(
            &format!("{place}: cannot read {}", shown(&reference.source, primary)),
            failure,
        )),
        _ => Err(Problem::retry(format!(
            "{place}: {} does not exist; sources are looked for in the Object's own cluster",
            shown(&reference.source, primary)
        ))),
    }
}

/// A source with its cluster, as messages name it.
fn shown(source: &ObjectReference, primary: &Primary) -> String {
    format!("{source} in cluster {}", primary.object.cluster_id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use patchbay_sdk::{Cluster, QueryFailureReason, json, testing};

    fn plan_of(manifest: Value, references: Value, findings: Vec<Finding>) -> Result<Plan, Problem> {
        let primary = testing::primary(json!({
            "metadata": {"name": "foo"},
            "spec": {"forProvider": {"manifest": manifest}, "references": references},
        }));
        let config = testing::found(json!({"spec": {"credentials": {"source": "InjectedIdentity"}}}));
        let ids = (0..).map(|number| format!("reference-{number}"));
        let answers = testing::answers(ids.zip(findings).chain([("provider-config".to_owned(), config)]));
        let spec = Spec::of(&primary)?;
        Plan::of(&primary, &spec, &Reference::parse_all(&spec.references)?, &answers)
    }

    fn config_map(data: Value) -> Value {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "default"}, "data": data})
    }

    /// The manifest after copying from a ConfigMap `bar`.
    fn patched(manifest: Value, source: Value, from: &str, to: Option<&str>) -> Result<Value, Problem> {
        let reference = json!({
            "patchesFrom": {
                "apiVersion": "v1", "kind": "ConfigMap", "namespace": "default", "name": "bar", "fieldPath": from,
            },
            "toFieldPath": to,
        });
        plan_of(manifest, json!([reference]), vec![testing::found(source)]).map(|plan| plan.manifest)
    }

    fn depends_on(finding: Finding) -> Result<Plan, Problem> {
        let source = json!({"apiVersion": "v1", "kind": "Secret", "namespace": "other", "name": "bar"});
        plan_of(config_map(json!({})), json!([{"dependsOn": source}]), vec![finding])
    }

    #[test]
    fn a_value_is_copied_from_one_key_to_another() {
        let manifest = patched(
            config_map(json!({"own": "o"})),
            json!({"data": {"k": "v"}}),
            "data.k",
            Some("data.from-bar"),
        )
        .unwrap();
        assert_eq!(manifest["data"], json!({"own": "o", "from-bar": "v"}));
    }

    #[test]
    fn without_to_field_path_the_place_is_the_same() {
        let manifest = patched(config_map(json!({})), json!({"data": {"k": "v"}}), "data.k", None).unwrap();
        assert_eq!(manifest["data"], json!({"k": "v"}));
    }

    #[test]
    fn a_whole_map_replaces_the_one_of_the_manifest() {
        let source = json!({"data": {"a": "1", "b": "2", "c": "3", "d": "4"}});
        let manifest = patched(config_map(json!({"own": "o"})), source.clone(), "data", None).unwrap();
        assert_eq!(manifest["data"], source["data"]);
    }

    #[test]
    fn numbers_and_lists_are_copied_as_they_are() {
        let source = json!({"spec": {"replicas": 3, "list": [1, "a"]}});
        let manifest = patched(config_map(json!({})), source.clone(), "spec.replicas", None).unwrap();
        assert_eq!(manifest["spec"]["replicas"], json!(3));
        let manifest = patched(config_map(json!({})), source, "spec.list", Some("spec.copy")).unwrap();
        assert_eq!(manifest["spec"]["copy"], json!([1, "a"]));
    }

    #[test]
    fn the_paths_of_the_grammar_reach_their_fields() {
        let source = json!({
            "metadata": {"annotations": {"a.b/c": "annotation"}},
            "data": {"ca.crt": "PEM", "123": "key"},
            "spec": {"containers": [{"image": "i"}]},
        });
        for (from, expected) in [
            ("data[ca.crt]", "PEM"),
            ("metadata.annotations['a.b/c']", "annotation"),
            ("spec.containers[0].image", "i"),
            ("data['123']", "key"),
        ] {
            let manifest = patched(config_map(json!({})), source.clone(), from, Some("data.got")).unwrap();
            assert_eq!(manifest["data"]["got"], expected, "{from}");
        }
    }

    #[test]
    fn a_path_that_leads_nowhere_names_reference_path_and_source() {
        let source = json!({"data": {"k": "v", "null": null}, "spec": {"containers": [{"image": "i"}]}});
        for (from, message) in [
            ("data.x", "`data` has no field `x`"),
            ("data.k.x", "`data.k` is a string, so it has no field `x`"),
            ("data.null.x", "`data.null` is null, so it has no field `x`"),
            (
                "data[123]",
                "`data` is an object, not a list, so it has no element [123]",
            ),
            (
                "spec.containers[2000].image",
                "`spec.containers` is a list of 1 and has no element [2000]",
            ),
            (
                "spec.containers[*].image",
                "`spec.containers` is a list, so it has no field `*`",
            ),
        ] {
            let problem = patched(config_map(json!({})), source.clone(), from, Some("data.k")).unwrap_err();
            let expected = format!(
                "spec.references[0].patchesFrom.fieldPath: path `{from}`: {message}, in ConfigMap default/bar in cluster \
                 test-cluster"
            );
            assert_eq!(problem, Problem::retry(expected));
        }
    }

    #[test]
    fn a_path_that_does_not_fit_the_manifest_names_reference_and_path() {
        let source = json!({"data": {"k": "s3cret-value"}});
        for (manifest, to, message) in [
            (
                config_map(json!(null)),
                "data.x",
                "`data` is null, so it has no field `x`",
            ),
            (
                config_map(json!("text")),
                "data.x",
                "`data` is a string, so it has no field `x`",
            ),
            (
                config_map(json!({})),
                "data[0]",
                "`data` is an object, not a list, so it has no element [0]",
            ),
            (
                config_map(json!({})),
                "spec.list[2000]",
                "index 2000 behind `spec.list` is too large; the highest that can be set is 1024",
            ),
        ] {
            let problem = patched(manifest, source.clone(), "data.k", Some(to)).unwrap_err();
            let expected = format!("spec.references[0].toFieldPath: path `{to}`: {message}, in the manifest");
            assert_eq!(problem, Problem::permanent(expected));
        }
    }

    #[test]
    fn a_missing_source_names_cluster_kind_namespace_and_name() {
        let problem = depends_on(testing::missing()).unwrap_err();
        let expected = "spec.references[0].dependsOn: Secret other/bar in cluster test-cluster does not exist; sources \
                   are looked for in the Object's own cluster";
        assert_eq!(problem, Problem::retry(expected));
    }

    #[test]
    fn a_source_that_cannot_be_read_is_not_a_missing_one() {
        let finding = testing::failed(QueryFailureReason::Forbidden, "cannot list secrets: forbidden");
        let expected = "spec.references[0].dependsOn: cannot read Secret other/bar in cluster test-cluster: cannot list \
                        secrets: forbidden";
        assert_eq!(depends_on(finding).unwrap_err(), Problem::retry(expected));
    }

    #[test]
    fn depends_on_asks_for_nothing_but_existence() {
        assert!(depends_on(testing::found(json!({}))).is_ok());
        assert!(
            depends_on(testing::found(
                json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}})
            ))
            .is_ok()
        );
    }

    #[test]
    fn references_are_resolved_in_order_and_the_first_error_ends_it() {
        let reference = |name: &str| json!({"dependsOn": {"apiVersion": "v1", "kind": "Secret", "name": name}});
        let findings = vec![testing::found(json!({})), testing::missing(), testing::missing()];
        let problem = plan_of(
            config_map(json!({})),
            json!([reference("a"), reference("b"), reference("c")]),
            findings,
        )
        .unwrap_err();
        assert!(
            problem
                .message
                .starts_with("spec.references[1].dependsOn: Secret b in cluster "),
            "{problem}"
        );
    }

    #[test]
    fn a_later_reference_wins_at_the_same_place() {
        let reference = |from: &str| {
            json!({"patchesFrom": {"apiVersion": "v1", "kind": "ConfigMap", "name": "bar", "fieldPath": from},
                   "toFieldPath": "data.k"})
        };
        let source = testing::found(json!({"data": {"a": "1", "b": "2"}}));
        let references = json!([reference("data.a"), reference("data.b")]);
        let plan = plan_of(config_map(json!({})), references, vec![source.clone(), source]).unwrap();
        assert_eq!(plan.manifest["data"], json!({"k": "2"}));
    }

    #[test]
    fn a_reference_may_name_the_target() {
        let source = json!({"metadata": {"labels": {"team": "blue"}}});
        let reference = json!({
            "patchesFrom": {"apiVersion": "v1", "kind": "ConfigMap", "name": "bar", "fieldPath": "metadata.labels.team"},
            "toFieldPath": "metadata.name",
        });
        let plan = plan_of(config_map(json!({})), json!([reference]), vec![testing::found(source)]).unwrap();
        let expected = ObjectReference::new("v1", "ConfigMap", "blue").in_namespace("default");
        assert_eq!(plan.target, expected.cluster(Cluster::HostCluster));
        assert_eq!(
            plan.hide(&plan.shown_target()),
            "ConfigMap default/[hidden] in the cluster of the host"
        );
    }

    #[test]
    fn a_value_that_cannot_be_a_name_is_refused_and_not_shown() {
        for value in [json!({"s3cret": "value"}), json!(123_456), json!("../s3cret-value")] {
            let source = json!({"data": {"k": value}});
            let problem = patched(config_map(json!({})), source, "data.k", Some("metadata.name")).unwrap_err();
            assert!(
                problem
                    .message
                    .starts_with("spec.forProvider.manifest.metadata.name: must"),
                "{problem}"
            );
            assert!(
                !problem.message.contains("s3cret") && !problem.message.contains("123456"),
                "{problem}"
            );
        }
    }
}
