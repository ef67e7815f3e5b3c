//! Makes an outcome true: finalizer first, then the writes in their order, then the status.

use std::hash::{DefaultHasher, Hash, Hasher};

use patchbay_cluster::{ApplyMode, Connection, Propagation, WriteError, Written};
use patchbay_core::{Kind, ObjectKey, ObjectName, WrittenObject};
use patchbay_plugin::contract::{self, Outcome, Verbs, Write, WriteAction, WriteFailure, WriteResult, WriteState};
use serde_json::Value;
use tokio::sync::oneshot;

use crate::memory::{Applied, LastRun};
use crate::messages::{Located, Message};
use crate::status::merged_status;
use crate::translate::{kind_of, object_name_of};
use crate::worker::{RunContext, finalizers, now};
use std::sync::Arc;

/// What became of an outcome.
#[derive(Default)]
pub(crate) struct Report {
    pub(crate) last: LastRun,
    /// Objects as they were after they were written.
    pub(crate) written: Vec<WrittenObject>,
    /// Something was written that had to change.
    pub(crate) changed: bool,
    /// A write failed, and what came after it was skipped.
    pub(crate) failed: bool,
}

impl Report {
    /// Notes an object as it was after it was written. `own` says that this write surely made its version.
    fn note(&mut self, object: &ObjectKey, written: Written, own: bool) {
        self.written.extend(written.map(|written| WrittenObject {
            object: object.clone(),
            metadata: written.metadata,
            own,
        }));
    }

    /// Of a run that wrote nothing. What the run before applied is still so; what became of its writes has been told.
    pub(crate) fn unwritten(last: Option<&LastRun>) -> Self {
        let applied = last.map(|last| last.applied.clone()).unwrap_or_default();
        let status_time = last.and_then(|last| last.status_time.clone());
        Report {
            last: LastRun {
                applied,
                status_time,
                ..LastRun::default()
            },
            ..Report::default()
        }
    }
}

pub(crate) struct Writer<'a> {
    context: &'a Arc<RunContext>,
    primary: &'a Value,
    last: Option<&'a LastRun>,
    manager: String,
}

/// A write, ready to be sent unless it is wrong.
struct Planned<'a> {
    write: &'a Write,
    reference: contract::ObjectReference,
    action: WriteAction,
    /// What an apply applies.
    object: Value,
    /// What is wrong with it, as far as that can be told without a cluster.
    checked: Result<(), WriteError>,
}

impl<'a> Writer<'a> {
    pub(crate) fn new(context: &'a Arc<RunContext>, primary: &'a Value, last: Option<&'a LastRun>) -> Self {
        let manager = context
            .attached
            .field_manager(context.connection.uid(), &context.kind, &context.key.name);
        Writer {
            context,
            primary,
            last,
            manager,
        }
    }

    /// Writes an outcome. While the primary is being deleted, `done` says whether it may go afterwards.
    pub(crate) async fn write(&self, outcome: &Outcome, done: Option<bool>) -> Report {
        let mut report = Report::default();
        report.last.status_time = self.last.and_then(|last| last.status_time.clone());
        if done.is_none() {
            self.hold(&mut report).await;
        }
        self.write_all(&outcome.writes, &mut report).await;
        if report.failed {
            return report;
        }
        if done == Some(true) {
            self.release(&mut report).await;
        } else if let Some(status) = &outcome.status {
            self.write_status(status, &mut report).await;
        }
        report
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
            .add_finalizer(&context.kind, name, &context.uid, &finalizer, &manager)
            .await;
        self.record_primary(WriteAction::Apply, held, report);
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
        self.record_primary(WriteAction::Patch, released, report);
    }

    /// Writes to the primary by the host itself are told to the plugin only if they fail.
    fn record_primary(&self, action: WriteAction, result: Result<Written, WriteError>, report: &mut Report) {
        match result {
            Ok(written) => report.note(&self.context.object, written, false),
            Err(error) => {
                let error = self.masked(error);
                tracing::warn!(primary = %self.context.name(), %error, "the finalizer could not be changed");
                report.failed = true;
                report.last.results.push(WriteResult {
                    action,
                    object: self.primary_reference(),
                    state: failed(error),
                });
            }
        }
    }

    async fn write_all(&self, writes: &[Write], report: &mut Report) {
        let planned: Vec<_> = writes.iter().map(|write| self.plan(write)).collect();
        let located = match self.locate(&planned).await {
            Some(located) => located,
            // The host is stopping.
            None => return report.failed = true,
        };
        for (planned, located) in planned.into_iter().zip(located) {
            let state = if report.failed {
                WriteState::Skipped
            } else {
                match planned.checked.clone().and(located.map_err(refused)) {
                    Ok(located) => self.send(&planned, &located, report).await,
                    Err(error) => failed(error),
                }
            };
            let (action, object) = (planned.action, planned.reference);
            match &state {
                WriteState::Applied => report.changed = true,
                WriteState::Failed(failure) => {
                    report.failed = true;
                    let (name, message) = (
                        object_name_of(&object),
                        self.context.secrets.masked(&failure.message, false),
                    );
                    let what = match action {
                        WriteAction::Apply => "apply",
                        WriteAction::Delete => "delete",
                        WriteAction::Patch => "patch",
                        WriteAction::Status => "status",
                    };
                    tracing::debug!(
                        primary = %self.context.name(), kind = object.kind.kind, %name, error = message, "{what} failed"
                    );
                }
                WriteState::Unchanged | WriteState::Skipped => {}
            }
            report.last.results.push(WriteResult { action, object, state });
        }
    }

    /// Checks a write for everything that can be told without a cluster.
    fn plan<'w>(&self, write: &'w Write) -> Planned<'w> {
        let (action, verb) = match write {
            Write::Apply(_) => (WriteAction::Apply, Verbs::APPLY),
            Write::Delete(_) => (WriteAction::Delete, Verbs::DELETE),
            Write::Patch(_) => (WriteAction::Patch, Verbs::PATCH),
        };
        let (reference, object, problem) = match write {
            Write::Apply(apply) => {
                let (object, problem) = match serde_json::from_str::<Value>(&apply.object) {
                    Ok(object) => (object, None),
                    Err(error) => (Value::Null, Some(format!("the object to apply is not JSON: {error}"))),
                };
                (reference_of(apply.cluster.clone(), &object), object, problem)
            }
            Write::Delete(delete) => (delete.object.clone(), Value::Null, None),
            Write::Patch(patch) => (
                patch.object.clone(),
                Value::Null,
                (!tests_first(&patch.operations))
                    .then(|| "a patch must be a list of JSON Patch operations that begins with a test".to_owned()),
            ),
        };
        let problem = problem.or_else(|| nameless(&reference)).map(invalid).or_else(|| {
            let kind = &reference.kind;
            self.context
                .attached
                .grants
                .check_objects(&kind.api_version, &kind.kind, verb)
                .err()
                .map(refused)
        });
        Planned {
            write,
            reference,
            action,
            object,
            checked: problem.map_or(Ok(()), Err),
        }
    }

    /// Asks the driver where the objects are. None if it has gone.
    async fn locate(&self, planned: &[Planned<'_>]) -> Option<Vec<Result<Located, String>>> {
        if planned.is_empty() {
            return Some(Vec::new());
        }
        let objects = planned.iter().map(|Planned { reference, .. }| {
            let (kind, name) = (kind_of(&reference.kind), object_name_of(reference));
            (reference.cluster.clone(), kind, name)
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

    async fn send(&self, planned: &Planned<'_>, located: &Located, report: &mut Report) -> WriteState {
        let (kind, name) = (&located.object.kind, &located.object.name);
        let connection = &located.connection;
        match planned.write {
            Write::Apply(apply) => self.apply(apply, &planned.object, located, report).await,
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

    /// Applies an object, unless it is as the last run left it and is wanted as the last run wanted it.
    async fn apply(
        &self,
        apply: &contract::Apply,
        object: &Value,
        located: &Located,
        report: &mut Report,
    ) -> WriteState {
        let key = &located.object;
        let desired = hash(apply);
        let last = self.last.and_then(|last| last.applied.get(key));
        if let (Some(last), Some(observed)) = (last, located.observed)
            && (last.desired, last.version) == (desired, observed)
        {
            report.last.applied.insert(key.clone(), last.clone());
            return WriteState::Unchanged;
        }
        let mode = match &apply.mode {
            contract::ApplyMode::Create => ApplyMode::Create,
            contract::ApplyMode::Update(uid) => ApplyMode::Update(uid.clone()),
            contract::ApplyMode::Upsert => ApplyMode::Upsert,
        };
        let applied = located
            .connection
            .apply(&key.kind, object, &self.manager, &mode, apply.force)
            .await;
        let written = match applied {
            Err(error) => return failed(error),
            Ok(None) => return WriteState::Applied,
            Ok(Some(written)) => written,
        };
        let (version, time) = (written.metadata.version, written.applied_at(&self.manager, None));
        let before = last.map(|last| last.version).into_iter().chain(located.observed);
        let unchanged = before.into_iter().any(|before| before == version);
        let own = !unchanged && is_later(last.and_then(|last| last.time.as_ref()), time.as_ref());
        report
            .last
            .applied
            .insert(key.clone(), Applied { desired, version, time });
        report.note(key, Some(written), own);
        if unchanged {
            WriteState::Unchanged
        } else {
            WriteState::Applied
        }
    }

    async fn write_status(&self, status: &str, report: &mut Report) {
        let wanted: Value = match serde_json::from_str(status) {
            Ok(status) => status,
            Err(error) => return self.status_failed(invalid(format!("the status is not JSON: {error}")), report),
        };
        let present = &self.primary["status"];
        let merged = merged_status(present, &wanted, &now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string());
        let time = self.last.and_then(|last| last.status_time.clone());
        report.last.status_time.clone_from(&time);
        if *present == merged {
            return;
        }
        let context = self.context;
        let connection: &Connection = &context.connection;
        match connection
            .apply_status(&context.kind, &context.key.name, &context.uid, &merged, &self.manager)
            .await
        {
            Ok(written) => {
                let now = written
                    .as_ref()
                    .and_then(|written| written.applied_at(&self.manager, Some("status")));
                let own = is_later(time.as_ref(), now.as_ref());
                report.last.status_time = now;
                report.note(&context.object, written, own);
            }
            // The primary has gone, and its status with it.
            Err(error) if error.code == 404 => {}
            Err(error) => self.status_failed(error, report),
        }
    }

    fn status_failed(&self, error: WriteError, report: &mut Report) {
        let error = self.masked(error);
        tracing::warn!(primary = %self.context.name(), %error, "the status could not be written");
        report.failed = true;
        let (action, object) = (WriteAction::Status, self.primary_reference());
        report.last.results.push(WriteResult {
            action,
            object,
            state: failed(error),
        });
    }

    /// An error as it may be said: API servers quote what they refuse.
    fn masked(&self, error: WriteError) -> WriteError {
        let message = self.context.secrets.masked(&error.message, false);
        WriteError { message, ..error }
    }

    fn primary_reference(&self) -> contract::ObjectReference {
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
fn settled(result: Result<Written, WriteError>, located: &Located, report: &mut Report) -> WriteState {
    match result {
        Err(error) => failed(error),
        Ok(written) => {
            report.note(&located.object, written, false);
            WriteState::Applied
        }
    }
}

/// Whether a time that the API server told is another than the one before. If it is not, an apply may have changed nothing.
fn is_later(before: Option<&Arc<str>>, now: Option<&Arc<str>>) -> bool {
    before.is_some() && now.is_some() && before != now
}

fn hash(apply: &contract::Apply) -> u64 {
    let mut hasher = DefaultHasher::new();
    apply.hash(&mut hasher);
    hasher.finish()
}

fn contract_kind(kind: &Kind) -> contract::ObjectKind {
    contract::ObjectKind {
        api_version: kind.api_version.to_string(),
        kind: kind.kind.to_string(),
    }
}

fn reference_of(cluster: contract::Cluster, object: &Value) -> contract::ObjectReference {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let metadata = &object["metadata"];
    contract::ObjectReference {
        cluster,
        kind: contract::ObjectKind {
            api_version: text(&object["apiVersion"]),
            kind: text(&object["kind"]),
        },
        namespace: metadata["namespace"]
            .as_str()
            .filter(|name| !name.is_empty())
            .map(str::to_owned),
        name: text(&metadata["name"]),
    }
}

fn nameless(reference: &contract::ObjectReference) -> Option<String> {
    let missing = if reference.kind.api_version.is_empty() {
        "apiVersion"
    } else if reference.kind.kind.is_empty() {
        "kind"
    } else if reference.name.is_empty() {
        "metadata.name"
    } else {
        return None;
    };
    Some(format!("the object to write has no {missing}"))
}

fn tests_first(operations: &str) -> bool {
    let operations: Value = serde_json::from_str(operations).unwrap_or_default();
    operations[0]["op"] == "test"
}

fn invalid(message: String) -> WriteError {
    WriteError {
        code: 0,
        reason: "Invalid".to_owned(),
        message,
    }
}

fn refused(message: String) -> WriteError {
    WriteError {
        code: 0,
        reason: "NotGranted".to_owned(),
        message,
    }
}

fn failed(error: WriteError) -> WriteState {
    WriteState::Failed(WriteFailure {
        code: error.code,
        reason: error.reason,
        message: error.message,
    })
}
