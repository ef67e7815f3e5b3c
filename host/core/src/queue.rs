//! Primaries that are ready to run, in a fair order.

use std::collections::{HashMap, VecDeque};

use crate::name::{ControllerId, PrimaryKey};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Priority {
    /// Something changed.
    Normal,
    /// Nothing is known to have changed: the full pass.
    Low,
}

/// One in so many runs of a controller comes from the low lane while both have entries, so that it does not starve.
const LOW_LANE_SHARE: u32 = 8;

/// Controllers take turns, whatever the length of their lanes. Invariant: a controller is in `turns` exactly once while
/// one of its lanes has an entry. That a key is queued once only is kept by its primary's state.
#[derive(Default)]
pub(crate) struct Queue {
    lanes: HashMap<ControllerId, Lanes>,
    turns: VecDeque<ControllerId>,
}

#[derive(Default)]
struct Lanes {
    normal: VecDeque<PrimaryKey>,
    low: VecDeque<PrimaryKey>,
    taken: u32,
}

impl Queue {
    pub(crate) fn push(&mut self, key: PrimaryKey, priority: Priority) {
        let controller = key.controller;
        let lanes = self.lanes.entry(controller).or_insert_with(|| {
            self.turns.push_back(controller);
            Lanes::default()
        });
        match priority {
            Priority::Normal => lanes.normal.push_back(key),
            Priority::Low => lanes.low.push_back(key),
        }
    }

    pub(crate) fn pop(&mut self) -> Option<PrimaryKey> {
        let controller = self.turns.pop_front()?;
        let lanes = self.lanes.get_mut(&controller)?;
        lanes.taken = lanes.taken.wrapping_add(1);
        let key = if lanes.taken.is_multiple_of(LOW_LANE_SHARE) {
            lanes.low.pop_front().or_else(|| lanes.normal.pop_front())
        } else {
            lanes.normal.pop_front().or_else(|| lanes.low.pop_front())
        };
        if lanes.normal.is_empty() && lanes.low.is_empty() {
            self.lanes.remove(&controller);
        } else {
            self.turns.push_back(controller);
        }
        key
    }

    /// Moves a key that waits in the low lane to the normal one.
    pub(crate) fn raise(&mut self, key: &PrimaryKey) {
        if let Some(lanes) = self.lanes.get_mut(&key.controller)
            && let Some(position) = lanes.low.iter().position(|low| low == key)
            && let Some(key) = lanes.low.remove(position)
        {
            lanes.normal.push_back(key);
        }
    }

    pub(crate) fn remove(&mut self, key: &PrimaryKey) {
        if let Some(lanes) = self.lanes.get_mut(&key.controller) {
            lanes.normal.retain(|other| other != key);
            lanes.low.retain(|other| other != key);
            if lanes.normal.is_empty() && lanes.low.is_empty() {
                self.lanes.remove(&key.controller);
                self.turns.retain(|controller| *controller != key.controller);
            }
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.lanes
            .values()
            .map(|lanes| lanes.normal.len() + lanes.low.len())
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::ObjectName;

    fn key(controller: u32, name: &str) -> PrimaryKey {
        PrimaryKey {
            controller: ControllerId(controller),
            name: ObjectName::new(None, name),
        }
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
        let first: Vec<_> = (0..20).filter_map(|_| queue.pop()).collect();
        assert_eq!(first.iter().filter(|key| key.controller == ControllerId(2)).count(), 10);
    }

    #[test]
    fn changes_run_before_the_full_pass_which_still_gets_its_share() {
        let mut queue = Queue::default();
        for number in 0..16 {
            queue.push(key(1, &format!("low-{number}")), Priority::Low);
            queue.push(key(1, &format!("normal-{number}")), Priority::Normal);
        }
        let first: Vec<_> = (0..16).filter_map(|_| queue.pop()).collect();
        assert_eq!(first.iter().filter(|key| key.name.name.starts_with("low")).count(), 2);
    }

    #[test]
    fn a_removed_or_raised_key_leaves_nothing_behind() {
        let mut queue = Queue::default();
        queue.push(key(1, "a"), Priority::Low);
        queue.raise(&key(1, "a"));
        queue.push(key(1, "b"), Priority::Low);
        assert_eq!(queue.pop(), Some(key(1, "a")));
        queue.remove(&key(1, "b"));
        assert_eq!(queue.pop(), None);
        assert!(queue.lanes.is_empty() && queue.turns.is_empty());
    }
}
