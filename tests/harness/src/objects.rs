//! Objects of any kind: applied from YAML, read, listed and deleted.

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Event;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use kube::core::{DynamicObject, GroupVersionKind, TypeMeta};
use kube::discovery::{self, Scope};
use serde_json::Value;

use crate::Cluster;

/// The field manager of what a test applies.
const MANAGER: &str = "test";

impl Cluster {
    /// Applies all objects of a YAML text, in their order, and takes over the fields that others manage. Namespaced
    /// objects without a namespace go to `default`.
    pub async fn apply(&self, yaml: &str) -> Result<Vec<DynamicObject>> {
        self.apply_in("default", yaml).await
    }

    /// Like [`apply`](Self::apply), with another namespace for the objects that name none.
    pub async fn apply_in(&self, namespace: &str, yaml: &str) -> Result<Vec<DynamicObject>> {
        let mut applied = Vec::new();
        for document in parse(yaml)? {
            applied.push(self.apply_object(namespace, document).await?);
        }
        Ok(applied)
    }

    async fn apply_object(&self, namespace: &str, document: Value) -> Result<DynamicObject> {
        let object: DynamicObject = serde_json::from_value(document).context("a document is no Kubernetes object")?;
        let types = object.types.clone().context("an object has no apiVersion and kind")?;
        let name = object
            .metadata
            .name
            .clone()
            .with_context(|| format!("a {} has no name", types.kind))?;
        let namespace = object.metadata.namespace.as_deref().unwrap_or(namespace);
        let api = self.api(&types.api_version, &types.kind, namespace).await?;
        let params = PatchParams::apply(MANAGER).force();
        let applied = api.patch(&name, &params, &Patch::Apply(&object)).await;
        applied.with_context(|| format!("cannot apply {} {namespace}/{name}", types.kind))
    }

    /// Access to one kind. The namespace is left out of account for a kind that has none, and an empty one means
    /// all namespaces.
    pub async fn api(&self, api_version: &str, kind: &str, namespace: &str) -> Result<Api<DynamicObject>> {
        let types = TypeMeta {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
        };
        let kind_of = GroupVersionKind::try_from(types)?;
        let found = discovery::pinned_kind(&self.client(), &kind_of).await;
        let (resource, capabilities) = found.with_context(|| format!("no kind {kind} in {api_version}"))?;
        Ok(match capabilities.scope {
            Scope::Namespaced if !namespace.is_empty() => Api::namespaced_with(self.client(), namespace, &resource),
            _ => Api::all_with(self.client(), &resource),
        })
    }

    /// Reads an object, if it is there.
    pub async fn get(
        &self,
        api_version: &str,
        kind: &str,
        namespace: &str,
        name: &str,
    ) -> Result<Option<DynamicObject>> {
        let found = self.api(api_version, kind, namespace).await?.get_opt(name).await;
        found.with_context(|| format!("cannot read {kind} {namespace}/{name}"))
    }

    /// Changes an object by a merge patch.
    pub async fn patch(
        &self,
        api_version: &str,
        kind: &str,
        namespace: &str,
        name: &str,
        patch: Value,
    ) -> Result<DynamicObject> {
        let params = PatchParams {
            field_manager: Some(MANAGER.to_owned()),
            ..PatchParams::default()
        };
        let patched = self
            .api(api_version, kind, namespace)
            .await?
            .patch(name, &params, &Patch::Merge(patch))
            .await;
        patched.with_context(|| format!("cannot patch {kind} {namespace}/{name}"))
    }

    /// Asks for the deletion of an object, which may have to wait for finalizers.
    pub async fn delete(&self, api_version: &str, kind: &str, namespace: &str, name: &str) -> Result<()> {
        let api = self.api(api_version, kind, namespace).await?;
        let deleted = api.delete(name, &DeleteParams::default()).await;
        deleted
            .map(drop)
            .with_context(|| format!("cannot delete {kind} {namespace}/{name}"))
    }

    /// The Events about an object, in whatever namespace they are.
    pub async fn events(&self, kind: &str, name: &str) -> Result<Vec<Event>> {
        let selector = format!("involvedObject.kind={kind},involvedObject.name={name}");
        let events = Api::<Event>::all(self.client())
            .list(&ListParams::default().fields(&selector))
            .await;
        Ok(events
            .with_context(|| format!("cannot list the events of {kind} {name}"))?
            .items)
    }
}

/// The documents of a YAML text. Empty ones, such as one that is only a comment, are left out.
fn parse(yaml: &str) -> Result<Vec<Value>> {
    let mut documents: Vec<Value> = serde_saphyr::from_multiple(yaml).context("cannot parse the YAML")?;
    documents.retain(|document| !document.is_null());
    Ok(documents)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_told_apart_and_empty_ones_left_out() {
        let documents = parse("# first\n---\na: 1\n---\n# nothing\n---\nb: '2'\n").unwrap();
        assert_eq!(documents, [serde_json::json!({"a": 1}), serde_json::json!({"b": "2"})]);
    }
}
