//! What an Object says.

use patchbay_sdk::{Primary, Propagation, Value};
use serde::{Deserialize, Deserializer};

use crate::problem::Problem;

/// The version of Objects that is served.
pub const API_VERSION: &str = "kubernetes.crossplane.io/v1alpha2";

/// The kind.
pub const KIND: &str = "Object";

/// `spec` of an Object. What is not in here is not read.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Spec {
    /// The target.
    pub for_provider: ForProvider,
    /// Kept as they are, so that what does not belong into them can be named; see
    /// [`Reference::parse_all`](crate::reference::Reference::parse_all).
    #[serde(default, deserialize_with = "or_default")]
    pub references: Vec<Value>,
    /// When the Object is Ready.
    #[serde(default, deserialize_with = "or_default")]
    pub readiness: Readiness,
    #[serde(default, deserialize_with = "or_default")]
    connection_details: Vec<Value>,
    #[serde(default, deserialize_with = "or_default")]
    write_connection_secret_to_ref: Value,
    /// Which cluster the target is in.
    #[serde(default, deserialize_with = "or_default")]
    pub provider_config_ref: ProviderConfigRef,
    #[serde(default)]
    management_policies: Option<Vec<String>>,
    #[serde(default, deserialize_with = "or_default")]
    deletion_policy: DeletionPolicy,
}

/// What the target is.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ForProvider {
    /// The target as it should be, before values are copied into it.
    pub manifest: Value,
    #[serde(default, deserialize_with = "or_default")]
    deletion_propagation_policy: DeletionPropagation,
}

/// When an Object is Ready.
#[derive(Debug, Default, Deserialize)]
pub struct Readiness {
    /// The rule.
    #[serde(default, deserialize_with = "or_default")]
    pub policy: ReadinessPolicy,
}

/// The rules by which an Object is Ready.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
pub enum ReadinessPolicy {
    /// As soon as the target is there.
    #[default]
    SuccessfulCreate,
    /// When the target's condition Ready is true.
    DeriveFromObject,
    /// When the target has conditions and all of them are true.
    AllTrue,
    /// When a CEL expression says so. Not served yet.
    DeriveFromCelQuery,
}

/// Names the ProviderConfig.
#[derive(Debug, Deserialize)]
pub struct ProviderConfigRef {
    /// Its name.
    #[serde(default = "default_provider_config")]
    pub name: String,
}

impl Default for ProviderConfigRef {
    fn default() -> Self {
        ProviderConfigRef {
            name: default_provider_config(),
        }
    }
}

fn default_provider_config() -> String {
    "default".to_owned()
}

#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
enum DeletionPolicy {
    #[default]
    Delete,
    Orphan,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
enum DeletionPropagation {
    Orphan,
    #[default]
    Background,
    Foreground,
}

/// An explicit null is the same as nothing.
fn or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(deserializer: D) -> Result<T, D::Error> {
    Ok(Option::<T>::deserialize(deserializer)?.unwrap_or_default())
}

impl Spec {
    /// The spec of an Object.
    pub fn of(primary: &Primary) -> Result<Spec, Problem> {
        primary.spec().map_err(|failure| Problem::permanent(failure.message))
    }

    /// Refuses what is not served yet, so that nobody waits for what will not come.
    pub fn check_served(&self) -> Result<(), Problem> {
        let refuse = |field: &str, what: &str| Err(Problem::permanent(format!("spec.{field}: {what}")));
        if self.readiness.policy == ReadinessPolicy::DeriveFromCelQuery {
            let what = "DeriveFromCelQuery is not served yet; use SuccessfulCreate, DeriveFromObject or AllTrue";
            return refuse("readiness.policy", what);
        }
        if !self.connection_details.is_empty() {
            return refuse("connectionDetails", "not served yet; take it out");
        }
        if !self.write_connection_secret_to_ref.is_null() {
            return refuse("writeConnectionSecretToRef", "not served yet; take it out");
        }
        match &self.management_policies {
            Some(policies) if policies != &["*"] => {
                let what = format!("[{}] is not served yet; use [\"*\"]", policies.join(", "));
                refuse("managementPolicies", &what)
            }
            _ => Ok(()),
        }
    }

    /// Whether the target is deleted with the Object. Policies other than `*` are not served, but an Object that has
    /// them must never lose what they protect.
    pub fn deletes_target(&self) -> bool {
        let managed = match &self.management_policies {
            Some(policies) => policies.iter().any(|policy| policy == "*" || policy == "Delete"),
            None => true,
        };
        managed && self.deletion_policy == DeletionPolicy::Delete
    }

    /// What becomes of the objects that the target owns.
    pub fn propagation(&self) -> Propagation {
        match self.for_provider.deletion_propagation_policy {
            DeletionPropagation::Orphan => Propagation::Orphan,
            DeletionPropagation::Background => Propagation::Background,
            DeletionPropagation::Foreground => Propagation::Foreground,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use patchbay_sdk::{json, testing};

    fn spec(mut spec: Value) -> Result<Spec, Problem> {
        spec["forProvider"]["manifest"] = json!({});
        Spec::of(&testing::primary(json!({"spec": spec})))
    }

    #[test]
    fn defaults_hold_without_those_of_the_crd() {
        for value in [
            json!({}),
            json!({"references": null, "readiness": null, "providerConfigRef": null, "managementPolicies": null}),
            json!({"readiness": {}, "providerConfigRef": {}, "managementPolicies": ["*"], "watch": true}),
        ] {
            let spec = spec(value).unwrap();
            assert!(spec.references.is_empty());
            assert_eq!(spec.readiness.policy, ReadinessPolicy::SuccessfulCreate);
            assert_eq!(spec.provider_config_ref.name, "default");
            assert_eq!(spec.propagation(), Propagation::Background);
            assert!(spec.deletes_target());
            assert_eq!(spec.check_served(), Ok(()));
        }
    }

    #[test]
    fn what_is_not_served_is_refused_by_name() {
        for (value, message) in [
            (
                json!({"readiness": {"policy": "DeriveFromCelQuery", "celQuery": "true"}}),
                "spec.readiness.policy: DeriveFromCelQuery is not served yet; use SuccessfulCreate, DeriveFromObject or AllTrue",
            ),
            (
                json!({"connectionDetails": [{}]}),
                "spec.connectionDetails: not served yet; take it out",
            ),
            (
                json!({"writeConnectionSecretToRef": {"name": "s", "namespace": "n"}}),
                "spec.writeConnectionSecretToRef: not served yet; take it out",
            ),
            (
                json!({"managementPolicies": ["Observe", "Delete"]}),
                "spec.managementPolicies: [Observe, Delete] is not served yet; use [\"*\"]",
            ),
            (
                json!({"managementPolicies": []}),
                "spec.managementPolicies: [] is not served yet; use [\"*\"]",
            ),
        ] {
            assert_eq!(spec(value).unwrap().check_served(), Err(Problem::permanent(message)));
        }
    }

    #[test]
    fn the_target_is_deleted_only_where_every_policy_says_so() {
        for (value, deletes) in [
            (json!({}), true),
            (json!({"deletionPolicy": "Delete"}), true),
            (json!({"deletionPolicy": "Orphan"}), false),
            (json!({"managementPolicies": ["*"]}), true),
            (json!({"managementPolicies": ["Observe", "Delete"]}), true),
            (json!({"managementPolicies": ["Observe"]}), false),
            (json!({"managementPolicies": []}), false),
            (json!({"managementPolicies": ["*"], "deletionPolicy": "Orphan"}), false),
        ] {
            assert_eq!(spec(value.clone()).unwrap().deletes_target(), deletes, "{value}");
        }
    }

    #[test]
    fn a_spec_that_makes_no_sense_names_the_field() {
        let problem = spec(json!({"readiness": {"policy": "Sometimes"}})).unwrap_err();
        assert!(
            problem
                .message
                .starts_with("spec.readiness.policy: unknown variant `Sometimes`"),
            "{problem}"
        );
        assert!(problem.permanent);
        let problem = Spec::of(&testing::primary(json!({}))).unwrap_err();
        assert_eq!(problem.message, "spec: missing field `forProvider`");
    }
}
