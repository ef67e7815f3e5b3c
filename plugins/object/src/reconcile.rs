//! Keeping the target as the Object says.

use patchbay_sdk::{Answers, Apply, Finding, Outcome, Primary, ReferenceSet, WriteAction};
use serde::Deserialize;

use crate::plan::Plan;
use crate::problem::Problem;
use crate::reference::Reference;
use crate::spec::Spec;
use crate::{provider_config, readiness, status, target};

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct Config {
    sanitize_secrets: bool,
}

/// The ProviderConfig and all sources; then the target, whose cluster, name and kind they may decide.
pub fn references(primary: &Primary, answers: &Answers) -> Result<ReferenceSet, Problem> {
    let (spec, references) = read(primary)?;
    let mut queries = vec![provider_config::query(&spec.provider_config_ref.name)];
    queries.extend(references.iter().map(Reference::query));
    if !provider_config::is_answered(answers) {
        return Ok(ReferenceSet::partial(queries));
    }
    // Without a plan there is no target to ask for; `outcome` tells why.
    if let Ok(plan) = Plan::of(primary, &spec, &references, answers) {
        queries.push(plan.query());
    }
    Ok(ReferenceSet::complete(queries))
}

/// Applies the target, and shows what is there.
pub fn outcome(primary: &Primary, answers: &Answers) -> Result<Outcome, Problem> {
    let config: Config = primary
        .config()
        .map_err(|failure| Problem::permanent(failure.message))?;
    let (spec, references) = read(primary)?;
    let plan = Plan::of(primary, &spec, &references, answers)?;
    let outcome = with_plan(primary, &spec, &plan, &config, answers);
    outcome.map_err(|problem| problem.map(|message| plan.hide(&message)))
}

fn read(primary: &Primary) -> Result<(Spec, Vec<Reference>), Problem> {
    let spec = Spec::of(primary)?;
    spec.check_served()?;
    let references = Reference::parse_all(&spec.references)?;
    Ok((spec, references))
}

/// What to do once the target is known. Messages of its errors may hold values from references.
fn with_plan(
    primary: &Primary,
    spec: &Spec,
    plan: &Plan,
    config: &Config,
    answers: &Answers,
) -> Result<Outcome, Problem> {
    Problem::of_last_write(primary, WriteAction::Apply)?;
    let apply = Apply::new(plan.manifest.clone())
        .cluster(plan.target.cluster.clone())
        .force();
    let outcome = Outcome::new().apply(apply).again_if_written();
    match answers.finding(target::QUERY) {
        Some(Finding::Found(found)) => {
            let ready = readiness::condition(spec.readiness.policy, &found.value);
            let shown = status::shown(&found.value, &plan.target.kind, config.sanitize_secrets);
            Ok(outcome.status(status::observed(primary, shown, ready)))
        }
        // The status waits for the next run, which sees what came of the apply.
        Some(Finding::Missing) => Ok(outcome.normal(
            "CreatedExternalResource",
            plan.hide(&format!("created {}", plan.shown_target())),
        )),
        Some(Finding::Failed(failure)) => Err(Problem::unknown(
            &format!("cannot read the target {}", plan.shown_target()),
            failure,
        )),
        _ => Err(Problem::retry(format!(
            "the target {} was not looked for in this run",
            plan.shown_target()
        ))),
    }
}
