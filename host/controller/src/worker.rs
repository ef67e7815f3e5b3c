//! One run, from the effect that begins it to the message that ends it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use patchbay_cluster::{Connection, Recorder, Severity, send_event};
use patchbay_core::{Kind, ObjectKey, PrimaryKey, RunId, RunResult, Wake};
use patchbay_plugin::contract::{self, Answer, ReferenceSet};
use patchbay_plugin::{Executor, JobError};
use serde_json::Value;
use tokio::sync::mpsc::Sender;
use tokio::sync::oneshot;

use crate::attached::Attached;
use crate::contention::Slowdown;
use crate::decide::{Blocked, Decision, GivenUp, World, decide};
use crate::hidden::{hide, says};
use crate::history::{Began, NamedQuery, RunRecord};
use crate::memory::LastRun;
use crate::messages::{Message, Reply};
use crate::report::{NOT_GRANTED, Report};
use crate::scrub::{ScrubbedLog, Secrets};
use crate::writer::Writer;

/// What a run is about, and whom it talks to.
pub(crate) struct RunContext {
    pub(crate) run: RunId,
    pub(crate) key: PrimaryKey,
    pub(crate) attached: Arc<Attached>,
    pub(crate) kind: Kind,
    /// The primary's cluster.
    pub(crate) connection: Arc<Connection>,
    /// The primary as an object of that cluster.
    pub(crate) object: ObjectKey,
    pub(crate) uid: String,
    /// The primary as it is read.
    pub(crate) text: Arc<str>,
    /// The finalizer of what the plugin protects.
    pub(crate) protection: Arc<str>,
    /// The clusters that the run's queries name.
    pub(crate) queried: Mutex<Vec<contract::Cluster>>,
    /// What must not be said about the run.
    pub(crate) secrets: Arc<Secrets>,
    /// The queries that the run has named last.
    pub(crate) named: Named,
    pub(crate) recorder: Recorder,
    pub(crate) driver: Sender<Message>,
}

/// The queries that a run has named in its last round.
#[derive(Default)]
pub(crate) struct Named(Mutex<Vec<NamedQuery>>);

impl Named {
    /// Replaces those of the round before.
    pub(crate) fn replace(&self, named: impl FnOnce(&[NamedQuery]) -> Vec<NamedQuery>) {
        let mut queries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let named = named(&queries);
        *queries = named;
    }

    pub(crate) fn take(&self) -> Vec<NamedQuery> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// What a run begins with.
pub(crate) struct Begun {
    pub(crate) primary: contract::Object,
    pub(crate) deleting: bool,
    pub(crate) wakes: Vec<Wake>,
    pub(crate) last: Option<Arc<LastRun>>,
    /// It runs in circles, so it was delayed.
    pub(crate) slowed: Option<Slowdown>,
}

/// How a run ended, before it is told to the driver.
struct Ended {
    result: RunResult,
    report: Report,
}

pub(crate) async fn run(context: Arc<RunContext>, executor: Arc<Executor>, mut begun: Begun) {
    let wakes = std::mem::take(&mut begun.wakes);
    let (began, before) = (Began::now(), begun.last.clone());
    // Made only if somebody reads it.
    tracing::debug!(primary = %context.name(), wakes = shown(&wakes, before.as_deref()), "run");
    let ended = conduct(&context, &executor, begun).await;
    let end = ended.as_ref().map(|ended| (&ended.result, &ended.report));
    let record = Arc::new(RunRecord::new(&context, &began, &wakes, before.as_deref(), end));
    let message = match ended {
        None => Message::PutOff(record),
        Some(Ended { result, mut report }) => {
            report.last.run = Some(record);
            Message::Finished {
                run: context.run,
                result,
                report: Box::new(report),
            }
        }
    };
    let _ = context.driver.send(message).await;
}

/// Why a run began, without the names that the one before has found to be made of Secrets.
fn shown(wakes: &[Wake], before: Option<&LastRun>) -> String {
    let told: Vec<String> = wakes.iter().map(ToString::to_string).collect();
    let hidden = before.and_then(|last| last.run.as_ref());
    let names = hidden.iter().flat_map(|run| run.hidden.iter().map(|name| &**name));
    hide(&told.join("; "), names)
}

async fn conduct(context: &Arc<RunContext>, executor: &Executor, begun: Begun) -> Option<Ended> {
    let last = begun.last.clone();
    let last = last.as_deref();
    let primary: Value = match serde_json::from_str(&begun.primary.json) {
        Ok(primary) => primary,
        Err(error) => return Some(context.blocked(last, &format!("the primary cannot be read: {error}"))),
    };
    let finalizer = context.attached.plugin.description().finalizer.as_deref();
    if begun.deleting && !finalizer.is_some_and(|finalizer| finalizers(&primary).iter().any(|held| held == finalizer)) {
        // Somebody else holds it, or nobody does: there is nothing for this plugin to finish.
        return Some(Ended {
            result: RunResult::Done {
                again_after: None,
                again: false,
            },
            report: Report::default(),
        });
    }
    let slowed = begun.slowed.clone();
    let decision = context.decided(executor, begun).await;
    let writer = Writer::new(context, &primary, last, slowed.is_some());
    match decision {
        Err(error) => Some(context.blocked(last, &error.to_string())),
        Ok(Decision::GivenUp) => None,
        Ok(Decision::Blocked(blocked)) => {
            let mut ended = context.blocked(last, &blocked.to_string());
            ended.result = RunResult::Failed {
                permanent: blocked.is_for_good(),
            };
            Some(ended)
        }
        Ok(Decision::Failure(failure)) => {
            let mut report = writer.status_only(failure.status.as_deref()).await;
            context.report_failure(last, &mut report, &failure.reason, &failure.message);
            // Until the status tells of it, not even a permanent failure is done with.
            let permanent = failure.permanent && !report.failed;
            Some(Ended {
                result: RunResult::Failed { permanent },
                report,
            })
        }
        Ok(Decision::Outcome { outcome, done }) => {
            if let Some(what) = unserved(&outcome) {
                let message = format!("the plugin asks for {what}, which this host does not serve");
                return Some(context.blocked(last, &message));
            }
            let Ok(mut report) = writer.write(&outcome, done).await else {
                return None;
            };
            if let Some(slowed) = slowed {
                context.report_contention(last, &mut report, &slowed, &writer.manager);
            }
            if report.failed {
                let result = context.write_failed(last, &mut report);
                return Some(Ended { result, report });
            }
            for event in outcome.events.iter().take(EVENTS) {
                let severity = match event.severity {
                    contract::EventSeverity::Normal => Severity::Normal,
                    contract::EventSeverity::Warning => Severity::Warning,
                };
                context.event(severity, &event.reason, &event.message);
            }
            let result = RunResult::Done {
                again_after: outcome.again_after.map(Duration::from_millis),
                again: outcome.again_if_written && report.changed,
            };
            Some(Ended { result, report })
        }
    }
}

/// Writes of one outcome. They are sent one after the other, and a run holds a permit meanwhile.
const WRITES: usize = 1000;
/// Events of one run that are sent. Further ones are dropped: nothing depends on them.
const EVENTS: usize = 16;

/// What an outcome asks for and this host does not do.
fn unserved(outcome: &contract::Outcome) -> Option<&'static str> {
    if outcome.writes.len() > WRITES {
        Some("more than 1000 writes at once")
    } else if outcome.protect.len() > WRITES {
        Some("protection of more than 1000 objects")
    } else if !outcome.controllers.is_empty() {
        Some("further controllers")
    } else {
        None
    }
}

impl RunContext {
    /// The primary's kind and name, for messages.
    pub(crate) fn name(&self) -> String {
        format!("{} {}", self.kind.kind, self.key.name)
    }

    /// Whether a name was made of a value of a Secret that the run was given. `known` are the queries that it named
    /// before it was given all of them.
    pub(crate) fn is_hidden(&self, name: &str, known: &[NamedQuery]) -> bool {
        let primary = &self.key.name;
        self.secrets.are_in(name)
            && *name != *primary.name
            && primary.namespace.as_deref() != Some(name)
            && !known.iter().any(|query| query.says(name))
            && !says(&self.text, name)
    }

    /// Has the plugin decide, on a plugin thread.
    async fn decided(self: &Arc<Self>, executor: &Executor, begun: Begun) -> Result<Decision, JobError> {
        let Begun {
            primary,
            deleting,
            last,
            ..
        } = begun;
        let told = contract::Primary {
            object: primary,
            parent: None,
            purpose: if deleting {
                contract::Purpose::Finalize
            } else {
                contract::Purpose::Reconcile
            },
            last_writes: last.map(|last| last.results.clone()).unwrap_or_default(),
            config: self.attached.config.clone(),
            time: now().as_second().unsigned_abs(),
        };
        let context = self.clone();
        executor.run(move || context.decide(&told, deleting)).await
    }

    fn decide(self: &Arc<Self>, primary: &contract::Primary, deleting: bool) -> Decision {
        let plugin = &self.attached.plugin;
        let log = ScrubbedLog::new(plugin.name(), self.name(), self.secrets.clone());
        if *self.kind.kind == *"Secret" {
            self.secrets.add([primary.object.json.as_str().into()]);
        }
        let mut world = Asking {
            context: self,
            unsettled: false,
        };
        let decision = decide(plugin, primary, deleting, Arc::new(log), &mut world);
        if world.unsettled {
            Decision::Blocked(Blocked::Unsettled)
        } else {
            decision
        }
    }

    /// The end of a run in which the plugin did not get to decide.
    fn blocked(self: &Arc<Self>, last: Option<&LastRun>, message: &str) -> Ended {
        let mut report = Report::unwritten(last);
        self.report_failure(last, &mut report, "RunFailed", message);
        Ended {
            result: RunResult::Failed { permanent: false },
            report,
        }
    }

    /// The end of a run whose writes failed. The next one comes at once, so that the plugin can say so. If that fails for want
    /// of the same grant, only a change can help.
    fn write_failed(self: &Arc<Self>, last: Option<&LastRun>, report: &mut Report) -> RunResult {
        let refusal = |results: &[contract::WriteResult]| {
            results.iter().find_map(|result| match &result.state {
                contract::WriteState::Failed(failure) if failure.reason == NOT_GRANTED => Some(failure.message.clone()),
                _ => None,
            })
        };
        match refusal(&report.last.results) {
            Some(message) if last.is_some_and(|last| refusal(&last.results).is_some()) => {
                self.report_failure(last, report, NOT_GRANTED, &message);
                RunResult::Failed { permanent: true }
            }
            _ => RunResult::WriteFailed,
        }
    }

    /// Tells of a failure, unless the run before failed in the same way: a primary that is tried again and again must not
    /// write events for ever.
    fn report_failure(self: &Arc<Self>, last: Option<&LastRun>, report: &mut Report, reason: &str, message: &str) {
        let message = self.secrets.masked(message, false);
        let failure = Some((reason.to_owned(), message.clone()));
        if last.is_none_or(|last| last.failure != failure) {
            let plugin = self.attached.plugin.name();
            tracing::warn!(plugin, primary = %self.name(), reason, "{message}");
            self.event(Severity::Warning, reason, &message);
        }
        report.last.failure = failure;
    }

    /// Tells who undoes the run's writes, unless the run before told the same.
    fn report_contention(
        self: &Arc<Self>,
        last: Option<&LastRun>,
        report: &mut Report,
        slowed: &Slowdown,
        manager: &str,
    ) {
        let told = last.and_then(|last| last.contended.as_ref());
        if !report.changed && !report.failed {
            // It was woken by what it wrote before, at most.
            report.last.contended = told.cloned();
            return;
        }
        let Some((what, advice)) = slowed.words(&report.contested, manager) else {
            return;
        };
        if told != Some(&what) {
            let message = self.secrets.masked(&format!("{what}; {advice}"), false);
            tracing::warn!(plugin = self.attached.plugin.name(), primary = %self.name(), "{message}");
            self.event(Severity::Warning, "Contended", &message);
        }
        report.last.contended = Some(what);
    }

    /// The clusters that the run's queries name.
    pub(crate) fn queried(&self) -> Vec<contract::Cluster> {
        self.queried.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn note_queried(&self, queries: &[contract::Query]) {
        let mut queried = self.queried.lock().unwrap_or_else(PoisonError::into_inner);
        queried.clear();
        for query in queries {
            let cluster = match &query.target {
                contract::QueryTarget::Named(named) => &named.object.cluster,
                contract::QueryTarget::Selected(selected) => &selected.cluster,
                contract::QueryTarget::Owned(owned) => &owned.cluster,
                contract::QueryTarget::Repository(_) => continue,
            };
            if !queried.contains(cluster) {
                queried.push(cluster.clone());
            }
        }
    }

    /// Sends an event about the primary, in its own time. One that cannot be sent is logged; nothing depends on it.
    fn event(self: &Arc<Self>, severity: Severity, reason: &str, message: &str) {
        let (context, reason, message) = (self.clone(), reason.to_owned(), self.secrets.masked(message, false));
        tokio::spawn(async move {
            let about = (&context.kind, &context.key.name, context.uid.as_str());
            let sent = send_event(
                &context.connection,
                &context.recorder,
                about,
                severity,
                &reason,
                &message,
            )
            .await;
            if let Err(error) = sent
                && context.recorder.may_complain()
            {
                tracing::warn!(
                    primary = %context.name(), reason, %error,
                    "an event could not be sent: grant create and patch on events.events.k8s.io. Further ones are told of \
                     once a minute at most"
                );
            }
        });
    }
}

/// Asks the driver, from a plugin thread. The driver answers from memory, so the thread waits for microseconds.
struct Asking<'a> {
    context: &'a Arc<RunContext>,
    unsettled: bool,
}

impl World for Asking<'_> {
    fn find(&mut self, set: &ReferenceSet) -> Result<Vec<Answer>, GivenUp> {
        self.context.note_queried(&set.queries);
        let (reply, answer) = oneshot::channel();
        let message = Message::Ask {
            context: self.context.clone(),
            set: set.clone(),
            reply,
        };
        self.context.driver.blocking_send(message).map_err(|_| GivenUp)?;
        match answer.blocking_recv() {
            Ok(Reply::Answers { answers, secrets }) => {
                self.context.secrets.add(secrets);
                Ok(answers)
            }
            Ok(Reply::Unsettled) => {
                self.unsettled = true;
                Err(GivenUp)
            }
            Ok(Reply::GivenUp) | Err(_) => Err(GivenUp),
        }
    }
}

/// An object's finalizers.
pub(crate) fn finalizers(object: &Value) -> Vec<String> {
    let finalizers = object["metadata"]["finalizers"].as_array();
    finalizers
        .into_iter()
        .flatten()
        .filter_map(|name| name.as_str().map(str::to_owned))
        .collect()
}

pub(crate) fn now() -> jiff::Timestamp {
    jiff::Timestamp::now()
}
