//! Drives the machine through random worlds on virtual time, lets everything come to rest, and compares with what a
//! recomputation from scratch says.
//!
//! A seed is a world: its servers ([`server`]), what people do in it ([`actors`]), how late, broken and out of order
//! the machine is told of it ([`streams`], [`reads`], [`runs`], [`work`]), and in which order all of that goes on
//! ([`schedule`]). The [`oracle`] says what must be so at rest, [`ledger`] what must have run by then, [`needs`] what may
//! be held, and [`quiet`] what must not happen. `cargo xtask simulate` plays many seeds, and replays one.

mod actors;
mod guards;
mod ledger;
mod needs;
mod object;
mod oracle;
mod plugin;
mod quiet;
mod reads;
mod runs;
mod schedule;
mod server;
mod streams;
mod tests;
mod trace;
mod work;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::planted::Planted;
use world::{Counted, World};

/// Which world to play.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) seed: u64,
    /// The bug that is switched on in the machine.
    pub(super) planted: Option<Planted>,
}

/// How a seed ended.
struct Played {
    counted: Counted,
    /// What was violated, if anything.
    violation: Option<String>,
    /// Of all lines of the trace, if they were written.
    digest: u64,
    /// The last lines of the trace.
    lines: String,
}

/// Plays a seed to its end. A panic counts as a violation.
fn play(plan: Plan, traced: bool) -> Played {
    let mut world = World::new(plan, traced);
    let played = catch_unwind(AssertUnwindSafe(|| play_world(&mut world)));
    if let Err(panic) = played {
        let said = panic.downcast_ref::<String>().map(String::as_str);
        let said = said.or_else(|| panic.downcast_ref::<&str>().copied());
        world.violated(format!("a panic: {}", said.unwrap_or("of no text")));
    }
    Played {
        counted: world.counted,
        violation: world.violation,
        digest: world.trace.digest(),
        lines: world.trace.lines(),
    }
}

fn play_world(world: &mut World) {
    world.set_up();
    for _ in 0..world.random.u32(1..=3) {
        let steps = world.random.u32(20..250);
        world.live(steps);
        world.calm();
        let acts: [fn(&mut World); 6] = [
            World::rest,
            World::check,
            World::be_silent,
            World::nudge,
            World::check,
            World::check,
        ];
        for act in acts {
            if world.violation.is_none() {
                act(world);
            }
        }
    }
    if world.violation.is_none() {
        world.tear_down();
    }
}
