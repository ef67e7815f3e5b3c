//! A primary: what it does, depends on and did.

use std::sync::Arc;

use jiff::SignedDuration;
use patchbay_core::{FailureReason, Finding, FoundObject, PrimaryKey, PrimaryReport, QueryReport, Time};
use serde::Deserialize;

use super::View;
use super::hide::{Names, doubtful};
use super::model::{FindingExplained, NextExplained, PrimaryExplained, PrimaryState, QueryExplained};
use super::object::{id_of, words};
use super::run::{rfc3339, watch};
use crate::history::{KeptRun, NamedQuery};
use crate::memory::LastRun;

/// Runs that are told of one primary.
const RUNS: usize = 10;
/// Objects that are named of those that a query finds.
const NAMES: usize = 5;

impl View<'_> {
    pub(super) fn primary(&self, key: &PrimaryKey) -> Option<PrimaryExplained> {
        let controller = (self.controller)(key.controller)?;
        let report = self.core.primary_report(key)?;
        let kept = self.runs(key);
        let runs = kept.iter().take(RUNS).map(|kept| self.run(&report.object, kept));
        let mut explained = PrimaryExplained {
            plugin: controller.plugin.to_owned(),
            plugin_version: controller.version.to_owned(),
            state: match report.state {
                patchbay_core::PrimaryState::Idle => PrimaryState::Idle,
                patchbay_core::PrimaryState::Queued => PrimaryState::Queued,
                patchbay_core::PrimaryState::Running => PrimaryState::Running,
                patchbay_core::PrimaryState::Waiting => PrimaryState::Waiting,
                patchbay_core::PrimaryState::Slowed(_) => PrimaryState::Slowed,
            },
            slowed_until: match report.state {
                patchbay_core::PrimaryState::Slowed(until) => Some(self.time(until)),
                _ => None,
            },
            failures: report.failures,
            wakes: report.wakes.iter().map(ToString::to_string).collect(),
            next: report.next.as_ref().map(|next| NextExplained {
                time: self.time(next.at),
                reason: next.wake.to_string(),
            }),
            queries: self.queries(&report, &kept),
            join_keys: report.join_keys.iter().map(ToString::to_string).collect(),
            protected: report.protected.iter().map(|object| self.object(object)).collect(),
            runs: runs.collect(),
        };
        hidden(&kept).hide_in(&mut explained);
        Some(explained)
    }

    /// What is kept of a primary's last run that came to an end.
    pub(super) fn last_run(&self, key: &PrimaryKey) -> Option<Arc<LastRun>> {
        self.core.last_writes(key)?.clone().downcast().ok()
    }

    /// The runs of a primary that are remembered, the newest first.
    fn runs(&self, key: &PrimaryKey) -> Vec<KeptRun> {
        let mut runs: Vec<_> = self.history.of(key).cloned().collect();
        if let Some(last) = self.last_run(key)
            && let Some(run) = &last.run
            && !runs.iter().any(|kept| Arc::ptr_eq(&kept.run, run))
        {
            runs.push(KeptRun::new(run.clone(), &last.results));
        }
        runs
    }

    /// The queries of a primary's newest run in the order of the plugin, then those that an earlier run has left.
    fn queries(&self, report: &PrimaryReport, runs: &[KeptRun]) -> Vec<QueryExplained> {
        let sets: Vec<&[NamedQuery]> = runs
            .iter()
            .map(|kept| &*kept.run.queries)
            .filter(|queries| !queries.is_empty())
            .collect();
        let newest = sets.first().copied().unwrap_or_default();
        let mut left: Vec<&QueryReport> = report.queries.iter().collect();
        let mut queries = Vec::new();
        for named in newest {
            match &named.asked {
                Err(refused) => queries.push(QueryExplained {
                    id: Some(named.id.to_string()),
                    earlier: false,
                    text: "not asked".to_owned(),
                    cluster: None,
                    finding: FindingExplained::Failed {
                        reason: refused.reason.to_string(),
                        message: refused.message.to_string(),
                    },
                    watches: Vec::new(),
                }),
                // Two ids may stand for equal queries.
                Ok(query) => {
                    if let Some(known) = report.queries.iter().find(|known| known.query == *query) {
                        left.retain(|left| left.query != *query);
                        queries.push(self.query(report, known, Some(&named.id)));
                    }
                }
            }
        }
        for known in left {
            let id = sets.iter().find_map(|named| id_of(named, &known.query));
            let mut query = self.query(report, known, id);
            query.earlier = id.is_some();
            if id.is_none() {
                // A run under way may have named it.
                Names(doubtful(&known.query, report)).hide_in_query(&mut query);
            }
            queries.push(query);
        }
        queries
    }

    fn query(&self, primary: &PrimaryReport, known: &QueryReport, id: Option<&str>) -> QueryExplained {
        let elsewhere = known.query.cluster != primary.object.cluster;
        QueryExplained {
            id: id.map(str::to_owned),
            earlier: false,
            text: words(&known.query),
            cluster: elsewhere.then(|| self.core.cluster_name(known.query.cluster)),
            finding: finding(known.finding.as_ref()),
            watches: known.watches.iter().map(watch).collect(),
        }
    }

    /// A moment of the machine's on the wall.
    fn time(&self, at: Time) -> String {
        let signed = |time: Time| SignedDuration::try_from(time.0).unwrap_or(SignedDuration::MAX);
        let ahead = signed(at).saturating_sub(signed(self.now));
        rfc3339(self.wall.checked_add(ahead).unwrap_or(self.wall))
    }
}

/// The names that these runs made of values of Secrets.
fn hidden(runs: &[KeptRun]) -> Names<'_> {
    let mut names: Vec<_> = runs
        .iter()
        .flat_map(|kept| kept.run.hidden.iter().map(|name| &**name))
        .collect();
    names.sort_unstable();
    names.dedup();
    Names(names)
}

fn finding(finding: Option<&Finding>) -> FindingExplained {
    match finding {
        None => FindingExplained::Pending,
        Some(Finding::Missing) => FindingExplained::Missing,
        Some(Finding::Found(object)) => FindingExplained::Found {
            resource_version: object.version.to_string(),
        },
        Some(Finding::Matches(objects)) => FindingExplained::Matches {
            count: objects.len(),
            names: objects.iter().take(NAMES).filter_map(name_of).collect(),
        },
        Some(Finding::Failed(failure)) => FindingExplained::Failed {
            reason: reason(failure.reason).to_owned(),
            message: failure.message.to_string(),
        },
    }
}

fn reason(reason: FailureReason) -> &'static str {
    match reason {
        FailureReason::NoSuchKind => "NoSuchKind",
        FailureReason::Forbidden => "Forbidden",
        FailureReason::Unreachable => "Unreachable",
        FailureReason::Invalid => "Invalid",
        FailureReason::TooLarge => "TooLarge",
    }
}

/// Namespace and name of an object, which are in its text whatever a query declares.
fn name_of(object: &FoundObject) -> Option<String> {
    #[derive(Deserialize)]
    struct Text {
        metadata: Names,
    }
    #[derive(Deserialize)]
    struct Names {
        namespace: Option<String>,
        name: String,
    }
    let Names { namespace, name } = serde_json::from_str::<Text>(&object.text).ok()?.metadata;
    Some(namespace.map_or(name.clone(), |namespace| format!("{namespace}/{name}")))
}
