//! Letting an Object go.
//!
//! References are not resolved any more: a source may be gone already. What the target is, the status tells.

use patchbay_sdk::{
    Answers, Cluster, Delete, Finalization, Finding, ObjectReference, Outcome, Primary, Query, ReferenceSet,
    WriteAction,
};

use crate::problem::Problem;
use crate::reference::Reference;
use crate::spec::Spec;
use crate::{nothing, provider_config, status, target};

const WAY_OUT: &str = "set spec.deletionPolicy to Orphan, which lets the Object go and leaves the target";

/// What has to be done before an Object may go.
enum Work {
    /// Nothing, since the target stays.
    Nothing,
    /// Nothing can be: the target was never seen, and its name comes from a reference.
    GiveUp,
    /// The target is deleted.
    Delete,
}

impl Work {
    fn of(primary: &Primary, spec: &Spec) -> Work {
        if !spec.deletes_target() {
            return Work::Nothing;
        }
        // Deleting what the manifest names without its references could hit an object of somebody else.
        let is_renamed =
            || Reference::parse_all(&spec.references).map_or(true, |all| all.iter().any(Reference::may_rename_target));
        if last_seen(primary, Cluster::PrimaryCluster).is_none() && is_renamed() {
            return Work::GiveUp;
        }
        Work::Delete
    }
}

/// The ProviderConfig; then whether the target exists. Nothing if the target stays.
pub fn references(primary: &Primary, answers: &Answers) -> Result<ReferenceSet, Problem> {
    let spec = Spec::of(primary)?;
    let Work::Delete = Work::of(primary, &spec) else {
        return Ok(nothing());
    };
    let mut queries = vec![provider_config::query(&spec.provider_config_ref.name)];
    if !provider_config::is_answered(answers) {
        return Ok(ReferenceSet::partial(queries));
    }
    // Without a cluster there is no target to ask for; `finalization` tells why.
    if let Ok(target) = target(primary, &spec, answers) {
        queries.push(Query::object(target::QUERY, target).existence_only().tolerate().into());
    }
    Ok(ReferenceSet::complete(queries))
}

/// Deletes the target, and lets the Object go when it is gone.
pub fn finalization(primary: &Primary, answers: &Answers) -> Result<Finalization, Problem> {
    let spec = Spec::of(primary)?;
    match Work::of(primary, &spec) {
        Work::Nothing => return Ok(Finalization::done()),
        Work::GiveUp => {
            let message = "the target's name comes from a reference and was never resolved, so nothing was deleted";
            return Ok(Finalization::done_after(
                Outcome::new().warning("CannotDeleteExternalResource", message),
            ));
        }
        Work::Delete => {}
    }
    Problem::of_last_write(primary, WriteAction::Delete)?;
    let target = target(primary, &spec, answers)?;
    let shown = format!(
        "{target} in {}",
        target::cluster_name(&target.cluster, &spec.provider_config_ref.name)
    );
    match answers.finding(target::QUERY) {
        Some(Finding::Missing) => Ok(Finalization::done()),
        Some(Finding::Found(found)) => {
            let outcome = Outcome::new().status(status::deleting(primary)).again_if_written();
            if found.is_deleting() {
                return Ok(Finalization::waiting(outcome));
            }
            let delete = Delete::new(target, found.uid()).propagation(spec.propagation());
            let outcome = outcome
                .delete(delete)
                .normal("DeletedExternalResource", format!("deleted {shown}"));
            Ok(Finalization::waiting(outcome))
        }
        Some(Finding::Failed(failure)) => Err(Problem::unknown(&format!("cannot delete the target {shown}"), failure)
            .map(|message| format!("{message}; if the cluster or its credentials are gone for good, {WAY_OUT}"))),
        _ => Err(Problem::retry(format!(
            "the target {shown} was not looked for in this run"
        ))),
    }
}

/// The target as it was last seen, or else as the manifest has it without its references.
fn target(primary: &Primary, spec: &Spec, answers: &Answers) -> Result<ObjectReference, Problem> {
    let cluster = provider_config::cluster(&spec.provider_config_ref.name, primary, answers)
        .map_err(|problem| problem.map(|message| format!("cannot delete the target: {message}; or {WAY_OUT}")))?;
    if let Some(target) = last_seen(primary, cluster.clone()) {
        return Ok(target);
    }
    target::identify(&mut spec.for_provider.manifest.clone(), primary.name(), cluster)
}

fn last_seen(primary: &Primary, cluster: Cluster) -> Option<ObjectReference> {
    target::last_seen(&primary.status()["atProvider"]["manifest"], cluster)
}
