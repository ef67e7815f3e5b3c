//! What runs did, kept for those who ask why something changed.
//!
//! The last run of every primary is kept with the primary. Beside it the host keeps its last runs, whosever they are,
//! within fixed bounds. What is kept are names, versions, field paths and masked messages, never a value of an object.

mod fields;
mod record;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use patchbay_core::PrimaryKey;
use patchbay_plugin::contract::{WriteResult, WriteState};

use crate::hidden::hide_in;
pub(crate) use record::{Began, NamedQuery, Refused, RunEnd, RunRecord};

/// Runs that are kept beside the last one of each primary.
const RUNS: usize = 10_000;
/// What they may take. Most take less than a kilobyte, so this bound is met only where runs write or fail at length.
const BYTES: usize = 32 << 20;
/// Writes of one run that are kept, its first ones.
const WRITES: usize = 32;

/// A run and what became of its writes.
#[derive(Clone)]
pub(crate) struct KeptRun {
    pub(crate) run: Arc<RunRecord>,
    pub(crate) writes: Box<[WriteResult]>,
    /// Further ones, of which no more is known.
    pub(crate) more_writes: usize,
}

impl KeptRun {
    /// A run with the results that the next one is told. Their messages may quote a Secret, so those that were masked
    /// take their place.
    pub(crate) fn new(run: Arc<RunRecord>, results: &[WriteResult]) -> Self {
        let mut problems = run.problems.iter();
        let masked = results.iter().take(WRITES).cloned().map(|mut result| {
            if let WriteState::Failed(failure) = &mut result.state {
                failure.message = problems.next().map(ToString::to_string).unwrap_or_default();
            }
            hide_in(&mut result.object, &run.hidden);
            result
        });
        KeptRun {
            writes: masked.collect(),
            more_writes: results.len().saturating_sub(WRITES),
            run,
        }
    }

    /// About what it takes.
    fn bytes(&self) -> usize {
        let texts = |result: &WriteResult| {
            let object = &result.object;
            let message = match &result.state {
                WriteState::Failed(failure) => failure.message.len() + failure.reason.len(),
                _ => 0,
            };
            let namespace = object.namespace.as_ref().map_or(0, String::len);
            object.kind.api_version.len() + object.kind.kind.len() + namespace + object.name.len() + message
        };
        let writes: usize = self
            .writes
            .iter()
            .map(|write| size_of::<WriteResult>() + texts(write))
            .sum();
        size_of::<Self>() + writes + self.run.bytes()
    }
}

/// The last runs of the host.
#[derive(Default)]
pub(crate) struct History {
    runs: VecDeque<KeptRun>,
    bytes: usize,
}

impl History {
    /// Adds a run, and forgets the oldest ones beyond the bounds.
    pub(crate) fn add(&mut self, run: KeptRun) {
        self.bytes += run.bytes();
        self.runs.push_back(run);
        while self.runs.len() > RUNS || self.bytes > BYTES {
            let Some(oldest) = self.runs.pop_front() else { break };
            self.bytes -= oldest.bytes();
        }
    }

    /// Each primary's newest run that named anything.
    pub(crate) fn named(&self) -> HashMap<&PrimaryKey, &RunRecord> {
        let named = self.runs.iter().map(|kept| (&kept.run.primary, &*kept.run));
        named.filter(|(_, run)| !run.queries.is_empty()).collect()
    }

    /// The runs of a primary that are kept, the newest first.
    pub(crate) fn of<'a>(&'a self, primary: &'a PrimaryKey) -> impl Iterator<Item = &'a KeptRun> {
        self.runs.iter().rev().filter(move |kept| kept.run.primary == *primary)
    }
}

#[cfg(test)]
mod tests {
    use patchbay_core::{ControllerId, ObjectName};
    use patchbay_plugin::contract::{Cluster, ObjectKind, ObjectReference, WriteAction, WriteFailure};

    use super::*;

    fn primary(name: &str) -> PrimaryKey {
        PrimaryKey {
            controller: ControllerId(0),
            name: ObjectName::new(None, name),
        }
    }

    fn failed(message: &str) -> WriteResult {
        WriteResult {
            action: WriteAction::Apply,
            object: ObjectReference {
                cluster: Cluster::PrimaryCluster,
                kind: ObjectKind {
                    api_version: "v1".to_owned(),
                    kind: "Secret".to_owned(),
                },
                namespace: None,
                name: "s".to_owned(),
            },
            state: WriteState::Failed(WriteFailure {
                code: 422,
                reason: "Invalid".to_owned(),
                message: message.to_owned(),
            }),
        }
    }

    fn run(name: &str, problem: &str, results: &[WriteResult]) -> KeptRun {
        let mut run = RunRecord::empty(primary(name));
        run.problems = [problem.into()].into();
        KeptRun::new(Arc::new(run), results)
    }

    #[test]
    fn the_oldest_runs_are_forgotten_beyond_their_number() {
        let mut history = History::default();
        for number in 0..RUNS + 5 {
            history.add(run(&number.to_string(), "", &[]));
        }
        assert_eq!(history.runs.len(), RUNS);
        assert_eq!(history.of(&primary("4")).count(), 0);
        assert_eq!(history.of(&primary("5")).count(), 1);
    }

    #[test]
    fn the_oldest_runs_are_forgotten_beyond_their_size() {
        let mut history = History::default();
        let long = "x".repeat(BYTES / 4);
        for _ in 0..9 {
            history.add(run("p", &long, &[]));
        }
        assert_eq!(history.runs.len(), 3);
        assert_eq!(history.bytes, history.runs.iter().map(KeptRun::bytes).sum::<usize>());
    }

    #[test]
    fn what_an_api_server_quotes_is_kept_masked() {
        let kept = run(
            "p",
            "data.k: [hidden] is too short",
            &[failed("data.k: hunter2 is too short")],
        );
        let WriteState::Failed(failure) = &kept.writes[0].state else {
            panic!("it failed")
        };
        assert_eq!(failure.message, "data.k: [hidden] is too short");
    }

    #[test]
    fn the_newest_run_comes_first_and_the_writes_beyond_a_bound_are_counted() {
        let mut history = History::default();
        for results in [3, WRITES + 2] {
            history.add(run("p", "", &vec![failed(""); results]));
            history.add(run("q", "", &[]));
        }
        let found: Vec<_> = history
            .of(&primary("p"))
            .map(|kept| (kept.writes.len(), kept.more_writes))
            .collect();
        assert_eq!(found, [(WRITES, 2), (3, 0)]);
    }
}
