//! The simulation as tests: some hundred seeds, each planted bug, and what `cargo xtask simulate` calls.

use super::world::Counted;
use super::{Plan, play};
use crate::planted::Planted;

fn plan(seed: u64) -> Plan {
    Plan { seed, planted: None }
}

/// Plays a seed once more with a trace, and says what was wrong with it.
fn report(plan: Plan) -> String {
    let played = play(plan, true);
    let violation = played
        .violation
        .unwrap_or_else(|| "nothing, the second time".to_owned());
    format!("seed {}: {violation}\n{}", plan.seed, played.lines)
}

/// What `cargo xtask simulate` runs and reads: a line for each hundred worlds, a block for each that fails, and the sums.
#[test]
#[ignore = "called by `cargo xtask simulate`"]
fn simulate() {
    let set = |name: &str| std::env::var(name).ok()?.parse::<u64>().ok();
    let first = set("PATCHBAY_SIMULATE_SEED").unwrap_or(0);
    let count = set("PATCHBAY_SIMULATE_SEEDS").unwrap_or(1);
    let (mut sum, mut failed) = (Counted::default(), 0);
    for seed in first..first.saturating_add(count) {
        let plan = plan(seed);
        let played = play(plan, false);
        sum.add(played.counted);
        if played.violation.is_some() {
            failed += 1;
            println!("{}", report(plan));
        }
        if (seed - first).is_multiple_of(100) {
            println!("played {} of {count}", seed - first);
        }
    }
    let Counted {
        steps,
        runs,
        reads,
        faults,
    } = sum;
    let worlds = if count == 1 { "world" } else { "worlds" };
    println!("{count} {worlds}, {steps} steps, {runs} runs, {reads} reads, {faults} faults: {failed} failed");
    assert_eq!(failed, 0, "see above");
}

#[test]
fn every_world_comes_to_rest_as_it_must() {
    for seed in 0..300 {
        let plan = plan(seed);
        if play(plan, false).violation.is_some() {
            panic!("{}", report(plan));
        }
    }
}

#[test]
fn a_seed_is_played_the_same_way_each_time() {
    for seed in 0..20 {
        let (one, other) = (play(plan(seed), true), play(plan(seed), true));
        assert_eq!(one.digest, other.digest, "seed {seed}");
    }
}

/// The worlds that are played to catch a bug.
const WORLDS: u64 = 10_000;

fn is_caught(bug: Planted) {
    let caught = (0..WORLDS).find(|seed| {
        let plan = Plan {
            planted: Some(bug),
            ..plan(*seed)
        };
        let caught = play(plan, false).violation;
        // Not by a world that fails without it, too.
        let caught = caught.filter(|_| play(self::plan(*seed), false).violation.is_none());
        caught.inspect(|what| println!("{bug:?} in {seed}: {what}")).is_some()
    });
    assert!(caught.is_some(), "{bug:?} is not caught in {WORLDS} worlds");
}

macro_rules! planted {
    ($($name:ident: $bug:ident,)*) => {
        $(
            #[test]
            fn $name() {
                is_caught(Planted::$bug);
            }
        )*
    };
}

planted! {
    a_query_registered_after_its_read_is_caught: RegisterAfterRead,
    matching_by_new_labels_only_is_caught: NewLabelsOnly,
    a_set_kept_instead_of_united_after_a_failure_is_caught: SetKeptAfterFailure,
    a_drop_during_a_read_in_flight_is_caught: DropDuringRead,
    older_over_newer_is_caught: OlderOverNewer,
    revival_after_deletion_is_caught: RevivalAfterDeletion,
    deletions_lost_after_a_gap_are_caught: LostDeletionsAfter410,
    a_recreated_object_taken_for_the_same_is_caught: RecreatedUid,
    release_on_an_incomplete_index_is_caught: ReleaseOnIncompleteIndex,
    an_own_write_that_wakes_nobody_else_is_caught: OwnWriteSwallowsOthers,
}
