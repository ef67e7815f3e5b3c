//! Two clusters with a few resources, and answers as a host would give them.

#![allow(dead_code, reason = "each test file uses a part of it")]

use patchbay_object::ObjectPlugin;
use patchbay_sdk::{
    Cluster, Failure, Finalization, Finding, Outcome, Primary, Query, QueryFailureReason, QueryTarget, Value, json,
    testing,
};

/// The Object's own cluster, and the one where targets are.
#[derive(Default)]
pub struct World {
    own: Vec<Value>,
    elsewhere: Vec<Value>,
    failing: Vec<(String, QueryFailureReason, String)>,
}

impl World {
    /// With a resource in the Object's own cluster.
    pub fn own(mut self, object: Value) -> Self {
        self.own.push(object);
        self
    }

    /// With a resource in every other cluster.
    pub fn host(mut self, object: Value) -> Self {
        self.elsewhere.push(object);
        self
    }

    /// Where nothing can be found out about resources of this name.
    pub fn failing(mut self, name: &str, reason: QueryFailureReason, message: &str) -> Self {
        self.failing.push((name.to_owned(), reason, message.to_owned()));
        self
    }

    pub fn answer(&self, query: &Query) -> Finding {
        let QueryTarget::Named(named) = &query.target else {
            panic!("not by name: {query:?}")
        };
        let asked = &named.object;
        if let Some((_, reason, message)) = self.failing.iter().find(|(name, ..)| *name == asked.name) {
            return testing::failed(*reason, message.as_str());
        }
        let objects = if asked.cluster == Cluster::PrimaryCluster {
            &self.own
        } else {
            &self.elsewhere
        };
        let is_asked = |object: &&Value| {
            object["apiVersion"] == asked.kind.api_version.as_str()
                && object["kind"] == asked.kind.kind.as_str()
                && object["metadata"]["name"] == asked.name.as_str()
                && object["metadata"]["namespace"].as_str() == asked.namespace.as_deref()
        };
        objects
            .iter()
            .find(is_asked)
            .map_or(Finding::Missing, |object| testing::found(object.clone()))
    }

    pub fn reconcile(&self, primary: &Primary) -> Result<Outcome, Failure> {
        testing::reconcile::<ObjectPlugin>(primary, |query| self.answer(query))
    }

    pub fn finalize(&self, primary: &Primary) -> Result<Finalization, Failure> {
        testing::finalize::<ObjectPlugin>(primary, |query| self.answer(query))
    }
}

pub fn object(name: &str, spec: Value) -> Primary {
    testing::primary(json!({
        "apiVersion": "kubernetes.crossplane.io/v1alpha2",
        "kind": "Object",
        "metadata": {"name": name, "uid": "object-uid", "generation": 1},
        "spec": spec,
    }))
}

pub fn config_map(name: &str, data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}, "data": data})
}

pub fn in_cluster_config(name: &str) -> Value {
    provider_config(name, json!({"source": "InjectedIdentity"}))
}

pub fn remote_config(name: &str) -> Value {
    let secret = json!({"namespace": "ns", "name": "remote", "key": "kubeconfig"});
    provider_config(name, json!({"source": "Secret", "secretRef": secret}))
}

fn provider_config(name: &str, credentials: Value) -> Value {
    json!({
        "apiVersion": "kubernetes.crossplane.io/v1alpha1",
        "kind": "ProviderConfig",
        "metadata": {"name": name},
        "spec": {"credentials": credentials},
    })
}
