//! Finalizers: put on by server-side apply, taken off for certain.

use patchbay_core::{Kind, ObjectName};
use serde_json::json;

use crate::apply::ApplyMode;
use crate::connection::Connection;
use crate::error::WriteError;
use crate::write::{Written, identity};

/// How often a finalizer that is not the manager's alone is tried to be taken off, while others change the finalizers.
const TRIES: usize = 5;

impl Connection {
    /// Puts a finalizer on an object, by a manager that owns nothing else, so that it does not get in anybody's way.
    ///
    /// # Errors
    /// No object has this uid, it is being deleted, or the API server refuses or cannot be reached.
    pub async fn protect(
        &self,
        kind: &Kind,
        name: &ObjectName,
        uid: &str,
        finalizer: &str,
        manager: &str,
    ) -> Result<Written, WriteError> {
        let mut object = identity(kind, name, uid);
        object["metadata"]["finalizers"] = json!([finalizer]);
        let mode = ApplyMode::Update(uid.to_owned());
        self.apply_once(kind, &object, manager, &mode, true).await
    }

    /// Takes a finalizer off an object that [`Connection::protect`] put on, also if somebody else owns it as well. An object
    /// that has gone, or of which another one has the name now, is released.
    ///
    /// # Errors
    /// The API server refuses or cannot be reached, or others change the finalizers all the time.
    pub async fn release(
        &self,
        kind: &Kind,
        name: &ObjectName,
        uid: &str,
        finalizer: &str,
        manager: &str,
    ) -> Result<Written, WriteError> {
        let nothing = identity(kind, name, uid);
        let mode = ApplyMode::Update(uid.to_owned());
        let mut object = match self.apply_once(kind, &nothing, manager, &mode, true).await {
            Ok(Some(object)) => Some(object),
            Ok(None) => self.get(kind, name).await?,
            Err(error) => match self.get(kind, name).await {
                Ok(None) => None,
                Ok(Some(object)) if *object.metadata.uid != *uid => None,
                _ => return Err(error),
            },
        };
        for _ in 0..TRIES {
            let Some(held) = object.filter(|object| *object.metadata.uid == *uid) else {
                return Ok(None);
            };
            if held.metadata.finalizers.iter().all(|other| **other != *finalizer) {
                return Ok(Some(held));
            }
            let finalizers = &held.metadata.finalizers;
            object = match self.remove_finalizer(kind, name, uid, finalizer, finalizers).await {
                Ok(Some(object)) => Some(object),
                // Gone, or its finalizers are others by now.
                Err(error) if !matches!(error.code, 404 | 409 | 422) => return Err(error),
                _ => self.get(kind, name).await?,
            };
        }
        Err(WriteError {
            code: 409,
            reason: "Conflict".to_owned(),
            message: format!(
                "the finalizer {finalizer} could not be taken off {kind} {name} in cluster {}: others change its \
                 finalizers all the time",
                self.name()
            ),
        })
    }

    /// Takes a finalizer off, whoever put it there. `finalizers` are those that the object was seen with; if others were
    /// added or taken off meanwhile, the API server refuses.
    ///
    /// # Errors
    /// The API server refuses or cannot be reached.
    pub async fn remove_finalizer(
        &self,
        kind: &Kind,
        name: &ObjectName,
        uid: &str,
        finalizer: &str,
        finalizers: &[impl AsRef<str>],
    ) -> Result<Written, WriteError> {
        let Some(position) = finalizers.iter().position(|other| other.as_ref() == finalizer) else {
            return Ok(None);
        };
        let path = format!("/metadata/finalizers/{position}");
        let operations = json!([
            {"op": "test", "path": "/metadata/uid", "value": uid},
            {"op": "test", "path": path, "value": finalizer},
            {"op": "remove", "path": path},
        ]);
        self.patch(kind, name, None, &operations).await
    }
}
