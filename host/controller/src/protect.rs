//! Objects that must not be deleted while a primary exists.

use std::sync::Arc;

use patchbay_cluster::Connection;
use patchbay_core::{ClusterId, Kind, ObjectKey, Protection};
use patchbay_plugin::contract::{ObjectReference, Verbs, WriteAction};
use tokio::sync::mpsc::Sender;
use tokio::sync::oneshot;

use crate::messages::{LetGo, Message};
use crate::report::{Report, failed, invalid, refused, unlocated};
use crate::translate::{kind_of, object_name_of};
use crate::writer::{Parked, Writer};

impl Writer<'_> {
    /// Puts the finalizer that protects objects on those that lack it. What comes of it is told to the plugin only if it fails.
    pub(crate) async fn protect(&self, objects: &[ObjectReference], report: &mut Report) {
        if objects.is_empty() {
            return;
        }
        let grants = &self.context.attached.grants;
        for reference in objects {
            let kind = &reference.kind;
            if let Err(message) = grants.check_objects(&kind.api_version, &kind.kind, Verbs::APPLY) {
                let state = failed(refused(message));
                return self.told(WriteAction::Apply, reference.clone(), state, report);
            }
        }
        let (reply, answer) = oneshot::channel();
        let message = Message::Protect {
            context: self.context.clone(),
            objects: objects.iter().map(in_cluster).collect(),
            reply,
        };
        let (Ok(()), Ok(answers)) = (self.context.driver.send(message).await, answer.await) else {
            // The host is stopping.
            return report.failed = true;
        };
        for (reference, answer) in objects.iter().zip(answers) {
            let error = match answer {
                Err(message) => unlocated(message),
                Ok((_, Protection::Gone | Protection::Held)) => continue,
                Ok((located, Protection::Unqueried)) => invalid(format!(
                    "protect names {} {}, which no query of `references` finds: query it by name",
                    located.object.kind, located.object.name
                )),
                Ok((located, Protection::Bare { uid })) => {
                    let (ObjectKey { kind, name, .. }, finalizer) = (&located.object, &*self.context.protection);
                    let manager = manager(finalizer);
                    match located.connection.protect(kind, name, &uid, finalizer, &manager).await {
                        Ok(written) => {
                            report.note(&located.object, written, false);
                            continue;
                        }
                        Err(error) => error,
                    }
                }
            };
            return self.told(WriteAction::Apply, reference.clone(), failed(error), report);
        }
    }

    /// Releases what the primary was the last to protect, before it goes.
    ///
    /// # Errors
    /// It is not known yet who else protects it.
    pub(crate) async fn let_go(&self, report: &mut Report) -> Result<(), Parked> {
        let (reply, answer) = oneshot::channel();
        let message = Message::LetGo {
            context: self.context.clone(),
            reply,
        };
        let (Ok(()), Ok(answer)) = (self.context.driver.send(message).await, answer.await) else {
            // The host is stopping.
            return Err(Parked);
        };
        let LetGo::Now(held) = answer else {
            return Err(Parked);
        };
        for held in held {
            let released = match &held.located {
                Err(message) => Err(unlocated(message.clone())),
                Ok(located) => {
                    let (key, finalizer) = (&located.object, &*self.context.protection);
                    let manager = manager(finalizer);
                    let released = located
                        .connection
                        .release(&key.kind, &key.name, &held.uid, finalizer, &manager);
                    released.await.map(|written| report.note(key, written, false))
                }
            };
            if let Err(error) = released {
                self.told(WriteAction::Patch, held.object, failed(error), report);
                break;
            }
        }
        Ok(())
    }
}

pub(crate) fn in_cluster(
    reference: &ObjectReference,
) -> (patchbay_plugin::contract::Cluster, Kind, patchbay_core::ObjectName) {
    (
        reference.cluster.clone(),
        kind_of(&reference.kind),
        object_name_of(reference),
    )
}

/// The field manager that owns a finalizer on all objects, so that it is there once however many primaries want it.
fn manager(finalizer: &str) -> String {
    let name = finalizer.rsplit_once('/').map_or(finalizer, |(_, name)| name);
    format!("{name}-protection")
}

/// Takes a finalizer off an object that nobody protects any longer. `shown` is its name as it may be told.
pub(crate) fn start_release(
    connection: Arc<Connection>,
    object: ObjectKey,
    shown: String,
    uid: Arc<str>,
    finalizer: Arc<str>,
    driver: Sender<Message>,
) {
    tokio::spawn(async move {
        let manager = manager(&finalizer);
        let released = connection
            .release(&object.kind, &object.name, &uid, &finalizer, &manager)
            .await;
        if let Err(error) = &released {
            let (cluster, kind) = (connection.name(), &object.kind);
            tracing::warn!(cluster, %kind, name = shown, %error, "an object that nobody needs any longer could not be released");
        }
        let message = Message::Released {
            object,
            finalizer,
            done: released.is_ok(),
        };
        let _ = driver.send(message).await;
    });
}

/// Looks through a kind for objects that carry a finalizer.
pub(crate) fn start_sweep(
    connection: Arc<Connection>,
    cluster: ClusterId,
    kind: Kind,
    finalizer: Arc<str>,
    driver: Sender<Message>,
) {
    tokio::spawn(async move {
        let mut found = Vec::new();
        let listed = connection.list_metadata(&kind, None, None, |object| {
            if object.metadata.finalizers.contains(&finalizer) {
                let key = ObjectKey {
                    cluster,
                    kind: kind.clone(),
                    name: object.name,
                };
                found.push((key, object.metadata.uid));
            }
        });
        let listed = listed.await;
        if let Err(error) = &listed {
            tracing::warn!(%kind, %finalizer, %error, "protected objects could not be listed");
        }
        let message = Message::Swept {
            cluster,
            kind,
            finalizer,
            found: listed.is_ok().then_some(found),
        };
        let _ = driver.send(message).await;
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manager_of_a_finalizer_fits() {
        let longest = format!("protect.patchbay.dev/{}", "x".repeat(63));
        assert!(manager(&longest).len() <= 128);
        assert_eq!(
            manager("protect.patchbay.dev/object-1234abcd"),
            "object-1234abcd-protection"
        );
        assert_ne!(manager("protect.patchbay.dev/a"), manager("protect.patchbay.dev/b"));
    }
}
