//! Counts by key.

use std::collections::HashMap;
use std::hash::Hash;

/// How often each key was added and not taken back. Keys that count nothing take no room.
pub(crate) struct Tally<K>(HashMap<K, usize>);

impl<K> Default for Tally<K> {
    fn default() -> Self {
        Tally(HashMap::new())
    }
}

impl<K: Eq + Hash> Tally<K> {
    pub(crate) fn add(&mut self, key: K) {
        *self.0.entry(key).or_default() += 1;
    }

    pub(crate) fn take(&mut self, key: &K) {
        if let Some(count) = self.0.get_mut(key) {
            *count -= 1;
            if *count == 0 {
                self.0.remove(key);
            }
        }
    }

    pub(crate) fn of(&self, key: &K) -> usize {
        self.0.get(key).copied().unwrap_or_default()
    }

    /// Forgets all that was added of a key.
    pub(crate) fn forget(&mut self, key: &K) {
        self.0.remove(key);
    }
}
