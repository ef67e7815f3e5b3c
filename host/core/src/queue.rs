//! Primaries that are ready to run, in a fair order.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use crate::name::{ControllerId, PrimaryKey};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Priority {
    /// Nothing is known to have changed: the full pass, or a new version of the plugin.
    Low,
    /// Something changed.
    Normal,
}

/// A place in the queue. One that its primary has given up, for a better one or because it has gone, is passed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket(u64);

/// One in so many runs of a controller comes from the low lane while both have entries, so that it does not starve.
const LOW_LANE_SHARE: u32 = 8;

/// Controllers take turns, whatever the length of their lanes. Invariant: a controller is in `turns` exactly once while
/// it has lanes. That a primary holds one ticket at most is kept by its state.
#[derive(Default)]
pub(crate) struct Queue {
    lanes: HashMap<ControllerId, Lanes>,
    turns: VecDeque<ControllerId>,
    next: u64,
}

#[derive(Default)]
struct Lanes {
    normal: VecDeque<(Ticket, Arc<PrimaryKey>)>,
    low: VecDeque<(Ticket, Arc<PrimaryKey>)>,
    taken: u32,
}

impl Queue {
    pub(crate) fn push(&mut self, key: Arc<PrimaryKey>, priority: Priority) -> Ticket {
        let ticket = Ticket(self.next);
        self.next += 1;
        let controller = key.controller;
        let lanes = self.lanes.entry(controller).or_insert_with(|| {
            self.turns.push_back(controller);
            Lanes::default()
        });
        match priority {
            Priority::Normal => lanes.normal.push_back((ticket, key)),
            Priority::Low => lanes.low.push_back((ticket, key)),
        }
        ticket
    }

    /// The next entry of a controller that may run now.
    pub(crate) fn pop(&mut self, may_run: impl Fn(ControllerId) -> bool) -> Option<(Ticket, Arc<PrimaryKey>)> {
        let turn = self.turns.iter().position(|controller| may_run(*controller))?;
        let controller = self.turns.remove(turn)?;
        let lanes = self.lanes.get_mut(&controller)?;
        lanes.taken = lanes.taken.wrapping_add(1);
        let entry = if lanes.taken.is_multiple_of(LOW_LANE_SHARE) {
            lanes.low.pop_front().or_else(|| lanes.normal.pop_front())
        } else {
            lanes.normal.pop_front().or_else(|| lanes.low.pop_front())
        };
        if lanes.normal.is_empty() && lanes.low.is_empty() {
            self.lanes.remove(&controller);
        } else {
            self.turns.push_back(controller);
        }
        entry
    }

    /// Forgets a controller's entries.
    pub(crate) fn remove(&mut self, controller: ControllerId) {
        self.lanes.remove(&controller);
        self.turns.retain(|other| *other != controller);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::ObjectName;

    fn key(controller: u32, name: &str) -> Arc<PrimaryKey> {
        Arc::new(PrimaryKey {
            controller: ControllerId(controller),
            name: ObjectName::new(None, name),
        })
    }

    fn take(queue: &mut Queue, count: usize) -> Vec<Arc<PrimaryKey>> {
        (0..count)
            .filter_map(|_| queue.pop(|_| true))
            .map(|(_, key)| key)
            .collect()
    }

    #[test]
    fn a_controller_with_many_keys_does_not_delay_one_with_few() {
        let mut queue = Queue::default();
        for number in 0..1000 {
            queue.push(key(1, &number.to_string()), Priority::Normal);
        }
        for number in 0..10 {
            queue.push(key(2, &number.to_string()), Priority::Normal);
        }
        let first = take(&mut queue, 20);
        assert_eq!(first.iter().filter(|key| key.controller == ControllerId(2)).count(), 10);
    }

    #[test]
    fn a_controller_that_may_not_run_holds_nobody_up() {
        let mut queue = Queue::default();
        queue.push(key(1, "a"), Priority::Normal);
        queue.push(key(2, "b"), Priority::Normal);
        let popped = queue.pop(|controller| controller == ControllerId(2)).expect("an entry");
        assert_eq!(popped.1, key(2, "b"));
        assert!(queue.pop(|controller| controller == ControllerId(2)).is_none());
        assert_eq!(take(&mut queue, 2), [key(1, "a")]);
    }

    #[test]
    fn changes_run_before_the_full_pass_which_still_gets_its_share() {
        let mut queue = Queue::default();
        for number in 0..16 {
            queue.push(key(1, &format!("low-{number}")), Priority::Low);
            queue.push(key(1, &format!("normal-{number}")), Priority::Normal);
        }
        let first = take(&mut queue, 16);
        assert_eq!(first.iter().filter(|key| key.name.name.starts_with("low")).count(), 2);
    }

    #[test]
    fn an_empty_queue_holds_nothing() {
        let mut queue = Queue::default();
        queue.push(key(1, "a"), Priority::Low);
        queue.push(key(2, "b"), Priority::Normal);
        queue.remove(ControllerId(2));
        assert_eq!(take(&mut queue, 5), [key(1, "a")]);
        assert!(queue.lanes.is_empty() && queue.turns.is_empty());
    }
}
