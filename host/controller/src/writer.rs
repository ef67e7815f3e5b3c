//! Makes an outcome true: finalizers first, then the writes in their order, then the status.

use std::sync::Arc;

use patchbay_cluster::{ApplySet, Propagation, WriteError, Written};
use patchbay_core::ObjectName;
use patchbay_plugin::contract::{self, Outcome, Write, WriteAction, WriteState};
use serde_json::Value;
use tokio::sync::oneshot;

use crate::hidden::{hide, parts_of};
use crate::memory::LastRun;
use crate::messages::{Located, Message};
use crate::plan::{Planned, contract_kind, plan};
use crate::report::{Report, failed, unlocated};
use crate::translate::{kind_of, object_name_of};
use crate::worker::{RunContext, finalizers};

pub(crate) struct Writer<'a> {
    pub(crate) context: &'a Arc<RunContext>,
    pub(crate) primary: &'a Value,
    pub(crate) last: Option<&'a LastRun>,
    pub(crate) manager: String,
    /// The run was delayed because somebody undoes its writes, and who that is should be told.
    pub(crate) contended: bool,
}

/// The run is over, and nothing is to be told of it.
#[derive(Debug)]
pub(crate) struct Parked;

impl<'a> Writer<'a> {
    pub(crate) fn new(
        context: &'a Arc<RunContext>,
        primary: &'a Value,
        last: Option<&'a LastRun>,
        contended: bool,
    ) -> Self {
        let manager = context
            .attached
            .field_manager(context.connection.uid(), &context.kind, &context.key.name);
        Writer {
            context,
            primary,
            last,
            manager,
            contended,
        }
    }

    /// Writes an outcome. While the primary is being deleted, `done` says whether it may go afterwards.
    ///
    /// # Errors
    /// It may not go yet, since core does not know everything that hangs on it.
    pub(crate) async fn write(&self, outcome: &Outcome, done: Option<bool>) -> Result<Report, Parked> {
        let mut report = Report::default();
        report.last.status_time = self.last.and_then(|last| last.status_time.clone());
        if done.is_none() {
            self.hold(&mut report).await;
        }
        if done != Some(true) && !report.failed {
            self.protect(&outcome.protect, &mut report).await;
        }
        self.write_objects(outcome, done == Some(true), &mut report).await;
        if report.failed {
            return Ok(report);
        }
        if done == Some(true) {
            self.let_go(&mut report).await?;
            if !report.failed {
                self.release(&mut report).await;
            }
        } else if let Some(status) = &outcome.status {
            self.write_status(status, &mut report).await;
        }
        Ok(report)
    }

    /// Writes nothing but a status, for a run that failed.
    pub(crate) async fn status_only(&self, status: Option<&str>) -> Report {
        let mut report = Report::unwritten(self.last);
        if let Some(status) = status {
            self.write_status(status, &mut report).await;
        }
        report
    }

    /// Puts the plugin's finalizer on the primary, before anything is written for it.
    async fn hold(&self, report: &mut Report) {
        let Some(finalizer) = self.context.attached.plugin.description().finalizer.clone() else {
            return;
        };
        if finalizers(self.primary).contains(&finalizer) {
            return;
        }
        let manager = format!("{}-finalizer", self.manager);
        let (context, name) = (self.context, &self.context.key.name);
        let held = context
            .connection
            .protect(&context.kind, name, &context.uid, &finalizer, &manager)
            .await;
        // It was not there, and nobody but this manager can have put it on by its name.
        self.record_primary(WriteAction::Apply, held, true, report);
    }

    /// Takes the plugin's finalizer off the primary.
    async fn release(&self, report: &mut Report) {
        let Some(finalizer) = self.context.attached.plugin.description().finalizer.clone() else {
            return;
        };
        let (context, name, held) = (self.context, &self.context.key.name, finalizers(self.primary));
        let released = context
            .connection
            .remove_finalizer(&context.kind, name, &context.uid, &finalizer, &held)
            .await;
        self.record_primary(WriteAction::Patch, released, false, report);
    }

    /// Writes to the primary by the host itself are told to the plugin only if they fail. `own` says that this write surely
    /// made the primary's version.
    fn record_primary(&self, action: WriteAction, result: Result<Written, WriteError>, own: bool, report: &mut Report) {
        match result {
            Ok(written) => report.note(&self.context.object, written, own),
            Err(error) => {
                let error = self.masked(error);
                tracing::warn!(primary = %self.context.name(), %error, "the finalizer could not be changed");
                report.tell(action, self.primary_reference(), failed(error));
            }
        }
    }

    async fn write_objects(&self, outcome: &Outcome, done: bool, report: &mut Report) {
        let set = outcome.prune.as_ref().map(|set| self.set(set));
        let grants = &self.context.attached.grants;
        let planned: Vec<_> = outcome
            .writes
            .iter()
            .map(|write| plan(write, grants, set.as_ref()))
            .collect();
        let objects = planned.iter().map(|planned| planned.reference.clone()).collect();
        let Some(located) = self.locate(objects).await else {
            // The host is stopping.
            return report.failed = true;
        };
        let pruning = match set.clone() {
            Some(set) if !report.failed => self.record(set, done, &planned, &located, report).await,
            _ => None,
        };
        for (planned, located) in planned.into_iter().zip(located) {
            let state = if report.failed {
                WriteState::Skipped
            } else {
                match planned.checked.clone().and(located.map_err(unlocated)) {
                    Ok(located) => self.send(&planned, &located, set.as_ref(), report).await,
                    Err(error) => failed(error),
                }
            };
            self.told(planned.action, planned.reference, state, report);
        }
        if let Some(pruning) = pruning.filter(|_| !report.failed) {
            self.prune(pruning, report).await;
        }
    }

    /// Tells the plugin of a write, and the log if it failed.
    pub(crate) fn told(
        &self,
        action: WriteAction,
        object: contract::ObjectReference,
        state: WriteState,
        report: &mut Report,
    ) {
        if let WriteState::Failed(failure) = &state {
            let name = object_name_of(&object).to_string();
            let hidden = parts_of(&object)
                .into_iter()
                .filter(|part| self.context.secrets.are_in(part));
            let name = hide(&name, hidden);
            let message = self.context.secrets.masked(&failure.message, false);
            let what = match action {
                WriteAction::Apply => "apply",
                WriteAction::Delete => "delete",
                WriteAction::Patch => "patch",
                WriteAction::Status => "status",
            };
            tracing::debug!(
                primary = %self.context.name(), kind = object.kind.kind, name, error = message, "{what} failed"
            );
        }
        report.tell(action, object, state);
    }

    /// Asks the driver where objects are. None if it has gone.
    pub(crate) async fn locate(&self, objects: Vec<contract::ObjectReference>) -> Option<Vec<Result<Located, String>>> {
        if objects.is_empty() {
            return Some(Vec::new());
        }
        let objects = objects.into_iter().map(|reference| {
            let (kind, name) = (kind_of(&reference.kind), object_name_of(&reference));
            (reference.cluster, kind, name)
        });
        let (reply, located) = oneshot::channel();
        let message = Message::Locate {
            context: self.context.clone(),
            objects: objects.collect(),
            reply,
        };
        self.context.driver.send(message).await.ok()?;
        located.await.ok()
    }

    async fn send(
        &self,
        planned: &Planned<'_>,
        located: &Located,
        set: Option<&ApplySet>,
        report: &mut Report,
    ) -> WriteState {
        let (kind, name) = (&located.object.kind, &located.object.name);
        let connection = &located.connection;
        match planned.write {
            Write::Apply(apply) => self.apply(apply, &planned.object, located, set, report).await,
            Write::Delete(delete) => {
                let propagation = match delete.propagation {
                    contract::Propagation::Background => Propagation::Background,
                    contract::Propagation::Foreground => Propagation::Foreground,
                    contract::Propagation::Orphan => Propagation::Orphan,
                };
                let version = delete.resource_version.as_deref();
                let deleted = connection.delete(kind, name, &delete.uid, version, propagation).await;
                settled(deleted, located, report)
            }
            Write::Patch(patch) => {
                let operations = serde_json::from_str(&patch.operations).unwrap_or_default();
                settled(
                    connection
                        .patch(kind, name, patch.subresource.as_deref(), &operations)
                        .await,
                    located,
                    report,
                )
            }
        }
    }

    /// An error as it may be said: API servers quote what they refuse.
    pub(crate) fn masked(&self, error: WriteError) -> WriteError {
        let message = self.context.secrets.masked(&error.message, false);
        WriteError { message, ..error }
    }

    pub(crate) fn primary_reference(&self) -> contract::ObjectReference {
        let ObjectName { namespace, name } = &self.context.key.name;
        contract::ObjectReference {
            cluster: contract::Cluster::PrimaryCluster,
            kind: contract_kind(&self.context.kind),
            namespace: namespace.as_ref().map(ToString::to_string),
            name: name.to_string(),
        }
    }
}

/// The result of a delete or a patch.
pub(crate) fn settled(result: Result<Written, WriteError>, located: &Located, report: &mut Report) -> WriteState {
    match result {
        Err(error) => failed(error),
        Ok(written) => {
            report.note(&located.object, written, false);
            WriteState::Applied
        }
    }
}
