//! One run, as it is remembered.

use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use patchbay_core::{PrimaryKey, Query, RunResult, Wake};
use patchbay_plugin::contract::{QueryFailure, QueryFailureReason, WriteState};

use super::fields::changed_fields;
use crate::hidden::{hide, parts, parts_of};
use crate::memory::LastRun;
use crate::report::Report;
use crate::worker::{RunContext, now};

/// Wakes of one run that are kept. A primary with many more was woken by all that it depends on.
const WAKES: usize = 16;
/// Bytes of a message that are kept.
const MESSAGE: usize = 1024;

/// What a run was, why it was and how it ended.
pub(crate) struct RunRecord {
    pub(crate) primary: PrimaryKey,
    pub(crate) began: Timestamp,
    pub(crate) took: Duration,
    /// Why it ran, in sentences.
    pub(crate) wakes: Box<[Box<str>]>,
    /// Further reasons.
    pub(crate) more_wakes: usize,
    pub(crate) end: RunEnd,
    /// What it named last. Runs that name the same share this.
    pub(crate) queries: Arc<[NamedQuery]>,
    /// What is wrong with the writes that failed, in their order, masked.
    pub(crate) problems: Box<[Box<str>]>,
    /// Names in its queries and writes that were made of values of Secrets.
    pub(crate) hidden: Box<[Box<str>]>,
    /// The host changed the primary itself: its status or its finalizers.
    pub(crate) changed_primary: bool,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RunEnd {
    Done,
    WriteFailed,
    Failed {
        /// Only a change can help.
        permanent: bool,
        reason: Box<str>,
        message: Box<str>,
    },
    /// Not all that it named had an answer.
    PutOff,
}

/// A query under the id that the plugin gave it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct NamedQuery {
    pub(crate) id: Box<str>,
    /// The query as core knows it, or why it was not asked.
    pub(crate) asked: Result<Arc<Query>, Refused>,
    /// Names in it that were made of values of Secrets.
    pub(crate) hidden: Box<[Box<str>]>,
}

impl NamedQuery {
    /// Whether it tells this name, and not because a Secret does.
    pub(crate) fn says(&self, name: &str) -> bool {
        let Ok(query) = &self.asked else { return false };
        parts(query, None).contains(&name) && !self.hidden.iter().any(|hidden| **hidden == *name)
    }
}

/// Why a query was not asked.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Refused {
    pub(crate) reason: Box<str>,
    pub(crate) message: Box<str>,
}

impl Refused {
    pub(crate) fn new(failure: &QueryFailure, masked: impl Fn(&str) -> String) -> Self {
        Refused {
            reason: reason(failure.reason).into(),
            message: cut(&masked(&failure.message)),
        }
    }
}

/// A reason in the words of conditions.
fn reason(reason: QueryFailureReason) -> &'static str {
    match reason {
        QueryFailureReason::NoSuchKind => "NoSuchKind",
        QueryFailureReason::Forbidden => "Forbidden",
        QueryFailureReason::NotGranted => "NotGranted",
        QueryFailureReason::Unreachable => "Unreachable",
        QueryFailureReason::Invalid => "Invalid",
        QueryFailureReason::TooLarge => "TooLarge",
        QueryFailureReason::Unsupported => "Unsupported",
    }
}

/// When a run began.
pub(crate) struct Began {
    at: Timestamp,
    instant: Instant,
}

impl Began {
    pub(crate) fn now() -> Self {
        Began {
            at: now(),
            instant: Instant::now(),
        }
    }
}

impl RunRecord {
    /// Of a run that is over; without an end it was given up. `before` is what the run before left.
    pub(crate) fn new(
        context: &RunContext,
        began: &Began,
        wakes: &[Wake],
        before: Option<&LastRun>,
        ended: Option<(&RunResult, &Report)>,
    ) -> Self {
        let named = context.named.take();
        let results = ended
            .map(|(_, report)| report.last.results.as_slice())
            .unwrap_or_default();
        let written = results.iter().flat_map(|result| parts_of(&result.object));
        let mut hidden: Vec<Box<str>> = written
            .filter(|part| context.is_hidden(part, &named))
            .map(Box::from)
            .collect();
        hidden.extend(named.iter().flat_map(|query| query.hidden.iter().cloned()));
        hidden.sort();
        hidden.dedup();
        let before_hidden = before.and_then(|last| last.run.as_ref()).map(|run| &*run.hidden);
        let all_hidden = || {
            hidden
                .iter()
                .chain(before_hidden.into_iter().flatten())
                .map(|name| &**name)
        };
        let queries = match before.and_then(|last| last.run.as_ref()) {
            Some(run) if *run.queries == *named => run.queries.clone(),
            _ => named.into(),
        };
        let written = ended.map(|(_, report)| report.written.as_slice()).unwrap_or_default();
        let problems = results.iter().filter_map(|result| match &result.state {
            WriteState::Failed(failure) => Some(cut(&context.secrets.masked(&failure.message, false))),
            _ => None,
        });
        RunRecord {
            primary: context.key.clone(),
            began: began.at,
            took: began.instant.elapsed(),
            wakes: wakes
                .iter()
                .take(WAKES)
                .map(|wake| cut(&hide(&told(wake), all_hidden())))
                .collect(),
            more_wakes: wakes.len().saturating_sub(WAKES),
            end: RunEnd::of(ended),
            hidden: hidden.clone().into(),
            queries,
            problems: problems.collect(),
            changed_primary: written.iter().any(|written| written.object == context.object),
        }
    }

    /// About what it takes.
    pub(super) fn bytes(&self) -> usize {
        let texts = |texts: &[Box<str>]| -> usize { texts.iter().map(|text| size_of::<Box<str>>() + text.len()).sum() };
        let queries: usize = self
            .queries
            .iter()
            .map(|query| size_of::<NamedQuery>() + query.id.len())
            .sum();
        let end = match &self.end {
            RunEnd::Failed { reason, message, .. } => reason.len() + message.len(),
            RunEnd::Done | RunEnd::WriteFailed | RunEnd::PutOff => 0,
        };
        size_of::<Self>() + texts(&self.wakes) + texts(&self.problems) + texts(&self.hidden) + queries + end
    }
}

impl RunEnd {
    fn of(ended: Option<(&RunResult, &Report)>) -> Self {
        let Some((result, report)) = ended else {
            return RunEnd::PutOff;
        };
        match result {
            RunResult::Done { .. } => RunEnd::Done,
            RunResult::WriteFailed => RunEnd::WriteFailed,
            RunResult::Failed { permanent } => {
                let (reason, message) = report.last.failure.clone().unwrap_or_default();
                RunEnd::Failed {
                    permanent: *permanent,
                    reason: cut(&reason),
                    message: cut(&message),
                }
            }
        }
    }
}

/// A wake with the fields that changed.
fn told(wake: &Wake) -> String {
    let fields = match wake {
        Wake::Object {
            before: Some(before),
            after: Some(after),
            ..
        } => changed_fields(before, after),
        _ => Vec::new(),
    };
    if fields.is_empty() {
        wake.to_string()
    } else {
        format!("{wake}: {}", fields.join(", "))
    }
}

/// The beginning of a text.
fn cut(text: &str) -> Box<str> {
    if text.len() <= MESSAGE {
        return text.into();
    }
    format!("{}…", &text[..text.floor_char_boundary(MESSAGE)]).into()
}

#[cfg(test)]
impl RunRecord {
    pub(crate) fn empty(primary: PrimaryKey) -> Self {
        RunRecord {
            primary,
            began: Timestamp::UNIX_EPOCH,
            took: Duration::ZERO,
            wakes: Box::default(),
            more_wakes: 0,
            end: RunEnd::Done,
            queries: [].into(),
            problems: Box::default(),
            hidden: Box::default(),
            changed_primary: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_message_is_cut_between_letters() {
        let long = format!("{}é", "x".repeat(MESSAGE - 1));
        assert_eq!(&*cut(&long), format!("{}…", "x".repeat(MESSAGE - 1)));
        assert_eq!(&*cut("short"), "short");
    }
}
