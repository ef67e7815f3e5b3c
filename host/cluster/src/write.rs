//! Writes: deletes, patches and status, and what all writes share.

use kube::core::Request;
use kube::core::params::{DeleteParams, Patch, PatchParams, Preconditions, PropagationPolicy};
use patchbay_core::{Kind, ObjectName};
use serde_json::{Value, json};

use crate::connection::Connection;
use crate::discovery::Resource;
use crate::error::{Error, WriteError};
use crate::object::RawObject;
use crate::path;

/// What becomes of an object's dependents when it is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    /// They are deleted afterwards.
    Background,
    /// They are deleted first.
    Foreground,
    /// They stay.
    Orphan,
}

/// An object as it was after a write; none if it has gone.
pub type Written = Option<RawObject>;

impl Connection {
    /// Applies an object's status. Kinds without a status subresource take it as a field like others.
    ///
    /// # Errors
    /// The kind is not served, or the API server refuses or cannot be reached.
    pub async fn apply_status(
        &self,
        kind: &Kind,
        name: &ObjectName,
        uid: &str,
        status: &Value,
        manager: &str,
    ) -> Result<Written, WriteError> {
        let resource = self.resource(kind).await?;
        let (path, object_name) = self.place(kind, &resource, name)?;
        let mut object = identity(kind, name, uid);
        object["status"] = status.clone();
        let (request, patch) = (Request::new(path), Patch::Apply(object));
        let request = if resource.status {
            request.patch_subresource("status", &object_name, &params(manager, true), &patch)
        } else {
            // With a manager of its own, since the next apply of the object would take the field off again.
            request.patch(&object_name, &params(&format!("{manager}-status"), true), &patch)
        };
        self.send(kind, request).await
    }

    /// Sends a JSON Patch.
    ///
    /// # Errors
    /// As [`Connection::apply_status`]; a test in the patch failed.
    pub async fn patch(
        &self,
        kind: &Kind,
        name: &ObjectName,
        subresource: Option<&str>,
        operations: &Value,
    ) -> Result<Written, WriteError> {
        let resource = self.resource(kind).await?;
        let (path, object_name) = self.place(kind, &resource, name)?;
        let operations = serde_json::from_value(operations.clone()).map_err(|_| WriteError {
            code: 0,
            reason: "Invalid".to_owned(),
            // The error of the parser would repeat what it does not understand.
            message: format!("the patch of {kind} {name} is no JSON Patch: an operation is unknown or incomplete"),
        })?;
        if subresource.is_some_and(|subresource| !path::is_subresource(subresource)) {
            return Err(Error::Invalid(format!(
                "the patch of {kind} {name} names what cannot be a subresource: correct it"
            ))
            .into());
        }
        let patch = Patch::<()>::Json(operations);
        let request = Request::new(path);
        let request = match subresource {
            Some(subresource) => request.patch_subresource(subresource, &object_name, &PatchParams::default(), &patch),
            None => request.patch(&object_name, &PatchParams::default(), &patch),
        };
        self.send(kind, request).await
    }

    /// Deletes an object, if it is still the one with this uid. One that has gone already is deleted.
    ///
    /// # Errors
    /// As [`Connection::apply_status`].
    pub async fn delete(
        &self,
        kind: &Kind,
        name: &ObjectName,
        uid: &str,
        resource_version: Option<&str>,
        propagation: Propagation,
    ) -> Result<Written, WriteError> {
        let resource = self.resource(kind).await?;
        let (path, object_name) = self.place(kind, &resource, name)?;
        let params = DeleteParams {
            propagation_policy: Some(match propagation {
                Propagation::Background => PropagationPolicy::Background,
                Propagation::Foreground => PropagationPolicy::Foreground,
                Propagation::Orphan => PropagationPolicy::Orphan,
            }),
            preconditions: Some(Preconditions {
                uid: Some(uid.to_owned()),
                resource_version: resource_version.map(str::to_owned),
            }),
            ..DeleteParams::default()
        };
        match self.send(kind, Request::new(path).delete(&object_name, &params)).await {
            Err(error) if error.code == 404 => Ok(None),
            other => other,
        }
    }

    /// What is said of a name that cannot be one. It is not repeated: it may be a value that went to the wrong place.
    pub(crate) fn not_a_name(&self, kind: &Kind) -> Error {
        let cluster = self.name();
        Error::Invalid(format!(
            "the name of a {kind} in cluster {cluster} cannot be one: correct it"
        ))
    }

    pub(crate) fn place(&self, kind: &Kind, resource: &Resource, name: &ObjectName) -> Result<(String, String), Error> {
        let cluster = self.name();
        let problem = match &name.namespace {
            None if resource.namespaced => "is namespaced: set metadata.namespace",
            Some(_) if !resource.namespaced => "is cluster-scoped: leave metadata.namespace out",
            _ if name.name.is_empty() => "has no metadata.name: set it",
            _ if !path::is_name(&name.name) => return Err(self.not_a_name(kind)),
            _ => return Ok((resource.path(name.namespace.as_deref())?, name.name.to_string())),
        };
        Err(Error::Invalid(format!("{kind} {name} in cluster {cluster} {problem}")))
    }

    pub(crate) async fn send(
        &self,
        kind: &Kind,
        request: Result<http::Request<Vec<u8>>, kube::core::request::Error>,
    ) -> Result<Written, WriteError> {
        let request = request.map_err(|error| self.failed(kube::Error::BuildRequest(error)))?;
        match self.text(request).await {
            Ok(text) => Ok(RawObject::parse(&text).ok()),
            Err(error) => {
                self.forget_unserved(kind, &error).await;
                Err(error.into())
            }
        }
    }
}

pub(crate) fn params(manager: &str, force: bool) -> PatchParams {
    PatchParams {
        force,
        field_manager: Some(manager.to_owned()),
        ..PatchParams::default()
    }
}

pub(crate) fn identity(kind: &Kind, name: &ObjectName, uid: &str) -> Value {
    let mut object = json!({
        "apiVersion": kind.api_version.as_ref(),
        "kind": kind.kind.as_ref(),
        "metadata": {"name": name.name.as_ref(), "uid": uid},
    });
    if let Some(namespace) = &name.namespace {
        object["metadata"]["namespace"] = namespace.as_ref().into();
    }
    object
}
