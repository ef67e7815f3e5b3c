//! One run's calls of a plugin, from the first `references` to the outcome.
//!
//! It runs on a plugin thread and knows no cluster: whoever calls it brings a [`World`] that answers queries. The host
//! brings its core, `patchbay render` brings files.

use std::collections::HashSet;
use std::sync::Arc;

use patchbay_plugin::contract::{Answer, Failure, Finding, Outcome, Primary, Query, QueryFailureReason, ReferenceSet};
use patchbay_plugin::{CallError, LogSink, Plugin};

/// Rounds of `references` that one run may take: more than any chain of a configuration, a credential, a cluster and an
/// object in it needs.
pub const ROUNDS: usize = 8;

/// Queries that one set may have. Each costs the host a look-up per run, and the first time a read.
pub const QUERIES: usize = 1000;

/// What answers a run's queries.
pub trait World {
    /// Answers the queries of a whole set, in their order.
    ///
    /// # Errors
    /// The run is to be given up.
    fn find(&mut self, set: &ReferenceSet) -> Result<Vec<Answer>, GivenUp>;
}

/// A run is given up: its primary has gone, or it runs again once its queries can be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GivenUp;

/// What a run came to.
#[derive(Debug)]
pub enum Decision {
    /// What should be true. While the primary is being deleted, `done` says whether it may go.
    Outcome {
        /// What the plugin wants.
        outcome: Outcome,
        /// For `finalize` only.
        done: Option<bool>,
    },
    /// The plugin could not decide.
    Failure(Failure),
    /// The host could not let it: a query failed, the plugin broke or asked for nonsense. A message for people.
    Blocked(Blocked),
    /// Nothing is to be told: the run is given up.
    GivenUp,
}

/// Why the plugin did not get to decide.
#[derive(Debug, thiserror::Error)]
pub enum Blocked {
    /// A query failed that the plugin does not tolerate.
    #[error("query {id:?} failed: {message}")]
    Query {
        /// The query's id.
        id: String,
        /// What went wrong.
        message: String,
        /// The plugin has no grant for it.
        not_granted: bool,
    },
    /// The plugin trapped, ran out of time or memory, or answered too much.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The plugin's queries are not a set.
    #[error("the plugin named two queries {0:?}: ids must be unique in a run's queries")]
    Duplicate(String),
    /// The plugin names more queries than the host answers.
    #[error("the plugin named {0} queries, and {QUERIES} are allowed: select by labels what belongs together")]
    TooMany(usize),
    /// The plugin publishes more join keys than the host keeps.
    #[error("the plugin published {0} join keys, and {QUERIES} are allowed")]
    TooManyJoinKeys(usize),
    /// The plugin's queries never came to an end.
    #[error("the plugin's queries are not complete after {ROUNDS} rounds: `references` must come to an end")]
    Rounds,
    /// The plugin's queries are others each time that it is asked.
    #[error(
        "the plugin names other queries each time it is asked: `references` must depend on nothing but its arguments"
    )]
    Unsettled,
}

impl Blocked {
    /// Whether only a change can help. Grants change when the host starts anew.
    pub(crate) fn is_for_good(&self) -> bool {
        matches!(self, Blocked::Query { not_granted: true, .. })
    }
}

/// Runs a plugin for one primary.
pub fn decide(
    plugin: &Plugin,
    primary: &Primary,
    deleting: bool,
    log: Arc<dyn LogSink>,
    world: &mut dyn World,
) -> Decision {
    run(plugin, primary, deleting, log, world).unwrap_or_else(|stopped| match stopped {
        Stopped::GivenUp => Decision::GivenUp,
        Stopped::Failure(failure) => Decision::Failure(failure),
        Stopped::Blocked(blocked) => Decision::Blocked(blocked),
    })
}

enum Stopped {
    GivenUp,
    Failure(Failure),
    Blocked(Blocked),
}

impl<B: Into<Blocked>> From<B> for Stopped {
    fn from(blocked: B) -> Self {
        Stopped::Blocked(blocked.into())
    }
}

fn run(
    plugin: &Plugin,
    primary: &Primary,
    deleting: bool,
    log: Arc<dyn LogSink>,
    world: &mut dyn World,
) -> Result<Decision, Stopped> {
    let mut instance = plugin.instantiate(log)?;
    let mut answers = Vec::new();
    let mut queries = Vec::new();
    let mut complete = false;
    for _ in 0..ROUNDS {
        let set = instance.references(primary, &answers)?.map_err(Stopped::Failure)?;
        if set.queries.len() > QUERIES {
            return Err(Blocked::TooMany(set.queries.len()).into());
        }
        if set.join_keys.len() > QUERIES {
            return Err(Blocked::TooManyJoinKeys(set.join_keys.len()).into());
        }
        unique(&set.queries)?;
        complete = set.complete;
        answers = world.find(&set).map_err(|GivenUp| Stopped::GivenUp)?;
        queries = set.queries;
        if complete {
            break;
        }
    }
    if !complete {
        return Err(Blocked::Rounds.into());
    }
    tolerated(&queries, &answers)?;
    if deleting {
        let finalization = instance.finalize(primary, &answers)?.map_err(Stopped::Failure)?;
        Ok(Decision::Outcome {
            outcome: finalization.outcome,
            done: Some(finalization.done),
        })
    } else {
        let outcome = instance.reconcile(primary, &answers)?.map_err(Stopped::Failure)?;
        Ok(Decision::Outcome { outcome, done: None })
    }
}

fn unique(queries: &[Query]) -> Result<(), Blocked> {
    let mut ids = HashSet::new();
    match queries.iter().find(|query| !ids.insert(&query.id)) {
        Some(query) => Err(Blocked::Duplicate(query.id.clone())),
        None => Ok(()),
    }
}

/// Forbidden must never look like empty: a failed query that the plugin does not tolerate ends the run.
fn tolerated(queries: &[Query], answers: &[Answer]) -> Result<(), Blocked> {
    for (query, answer) in queries.iter().zip(answers) {
        if let (false, Finding::Failed(failure)) = (query.tolerate, &answer.finding) {
            return Err(Blocked::Query {
                id: query.id.clone(),
                message: failure.message.clone(),
                not_granted: failure.reason == QueryFailureReason::NotGranted,
            });
        }
    }
    Ok(())
}
