//! Server-side apply.

use kube::core::Request;
use kube::core::params::{Patch, PostParams};
use patchbay_core::{Kind, ObjectName};
use serde_json::Value;

use crate::connection::Connection;
use crate::error::WriteError;
use crate::migration::{migration, patch};
use crate::normal::normal;
use crate::object::RawObject;
use crate::write::{Written, params};

/// When an apply may write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApplyMode {
    /// Only if the object does not exist.
    Create,
    /// Only if the object exists with this uid.
    Update(String),
    /// In any case.
    Upsert,
}

/// What an apply came to: the object after each request that it took, in their order. Empty if the answer could not be
/// read.
#[derive(Debug, Default)]
pub struct Applied {
    /// The last one is how the object is now.
    pub states: Vec<AppliedState>,
}

/// An object as it was after a request.
#[derive(Clone, Debug)]
pub struct AppliedState {
    /// The object.
    pub object: RawObject,
    /// Whether this request surely made this version. An apply that changes nothing is answered with a version that
    /// somebody else made.
    pub own: bool,
}

impl Connection {
    /// Applies an object with a field manager. Fields of other managers are taken over only by `force`; a creation takes
    /// none over.
    ///
    /// What the manager owns of the object by a creation, or by an update of old, is given to its applies, so that later
    /// ones can take it off. If somebody else writes the object meanwhile, the next apply does so.
    ///
    /// # Errors
    /// The kind is not served, the mode does not allow it, other managers own fields, or the API server refuses or cannot be
    /// reached.
    pub async fn apply(
        &self,
        kind: &Kind,
        object: &Value,
        manager: &str,
        mode: &ApplyMode,
        force: bool,
    ) -> Result<Applied, WriteError> {
        let object = normal(object);
        let mut applied = Applied::default();
        let Some(first) = self.apply_once(kind, &object, manager, mode, force).await? else {
            return Ok(applied);
        };
        let created = *mode == ApplyMode::Create;
        let observed: Value = serde_json::from_str(first.text()).unwrap_or_default();
        let migration = migration(&observed, manager, created.then_some(&*object));
        applied.push(Some(first.clone()), created);
        let Some(migration) = migration else {
            return Ok(applied);
        };
        let patch = patch(&first.metadata.version.to_string(), &migration.managed_fields);
        match self.patch(kind, &first.name, None, &patch).await {
            Ok(migrated) => applied.push(migrated, true),
            Err(error) => {
                tracing::debug!(cluster = self.name(), %kind, %error, "managed fields are mended later");
                return Ok(applied);
            }
        }
        if migration.surplus {
            let same = ApplyMode::Update(first.metadata.uid.to_string());
            applied.push(self.apply_once(kind, &object, manager, &same, force).await?, false);
        }
        Ok(applied)
    }

    /// Sends one apply.
    pub(crate) async fn apply_once(
        &self,
        kind: &Kind,
        object: &Value,
        manager: &str,
        mode: &ApplyMode,
        force: bool,
    ) -> Result<Written, WriteError> {
        let resource = self.resource(kind).await?;
        let object_name = object_name(object);
        let (path, name) = self.place(kind, &resource, &object_name)?;
        let request = Request::new(path);
        match mode {
            ApplyMode::Create => {
                let params = PostParams {
                    field_manager: Some(manager.to_owned()),
                    ..PostParams::default()
                };
                let request = request.create(&params, object.to_string().into_bytes());
                self.send(kind, request).await
            }
            ApplyMode::Update(uid) => {
                // With a uid that no object has, the API server refuses instead of creating one.
                let mut object = object.clone();
                object["metadata"]["uid"] = uid.as_str().into();
                let request = request.patch(&name, &params(manager, force), &Patch::Apply(object));
                let written = self.send(kind, request).await;
                written.map_err(|error| self.other_uid(error, kind, &object_name, uid))
            }
            ApplyMode::Upsert => {
                let request = request.patch(&name, &params(manager, force), &Patch::Apply(object));
                self.send(kind, request).await
            }
        }
    }

    /// Says in words what the API server says of a uid, which nobody has set: "field is immutable".
    fn other_uid(&self, error: WriteError, kind: &Kind, name: &ObjectName, uid: &str) -> WriteError {
        if !error.message.contains("metadata.uid") && !error.message.contains("uid mismatch") {
            return error;
        }
        let cluster = self.name();
        let message = format!("{kind} {name} in cluster {cluster} with uid {uid} has gone: it was deleted meanwhile");
        WriteError { message, ..error }
    }
}

impl Applied {
    /// The object as it is now.
    pub fn last(&self) -> Option<&RawObject> {
        self.states.last().map(|state| &state.object)
    }

    fn push(&mut self, written: Written, own: bool) {
        self.states.extend(written.map(|object| AppliedState { object, own }));
    }
}

/// The name of an object of which nothing but JSON is known.
fn object_name(object: &Value) -> ObjectName {
    let metadata = &object["metadata"];
    ObjectName::new(
        metadata["namespace"].as_str(),
        metadata["name"].as_str().unwrap_or_default(),
    )
}
