//! Primaries that wake each other in a circle, and primaries whose writes somebody else sets back.
//!
//! A write of a run wakes others, whose writes may wake the first again. Each wake therefore carries the way that it came:
//! an edit by a person begins a new one, a wake by a run's write goes on with that run's. A way that comes by the same
//! primary again and again is a circle, and each further turn of it is delayed more.

use std::sync::Arc;
use std::time::Duration;

use crate::name::{ObjectKey, PrimaryKey};
use crate::time::Time;

/// Primaries that are remembered of a way.
const REMEMBERED: usize = 32;
/// Turns of a circle, or writes in a row that were set back, before the next is delayed. Two controllers that settle on
/// something take a few.
const AT_ONCE: u32 = 5;
/// The first delay. It doubles with each further turn.
const FIRST: Duration = Duration::from_millis(250);
/// After so long without being set back, the count begins anew.
const FORGOTTEN: Duration = Duration::from_secs(180);

/// The runs by whose writes a wake came, the newest last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Way {
    path: Vec<Arc<PrimaryKey>>,
    /// How often it came by a primary that it had come by before.
    again: u32,
}

impl Way {
    /// The way on from a run that was woken by another way, or by none.
    pub(crate) fn through(before: Option<&Way>, primary: &Arc<PrimaryKey>) -> Arc<Way> {
        let mut path = before.map(|way| way.path.clone()).unwrap_or_default();
        let again = u32::from(path.contains(primary));
        path.push(primary.clone());
        if path.len() > REMEMBERED {
            path.remove(0);
        }
        let again = before.map_or(0, |way| way.again) + again;
        Arc::new(Way { path, again })
    }

    /// How long to wait before a primary is run by this wake.
    pub(crate) fn delay(&self, primary: &PrimaryKey, most: Duration) -> Option<Duration> {
        let length = self.length(primary)?;
        delay(self.again / u32::try_from(length).unwrap_or(u32::MAX), most)
    }

    /// How many primaries the circle has that a primary is in.
    fn length(&self, primary: &PrimaryKey) -> Option<usize> {
        let last = self.path.iter().rposition(|other| **other == *primary)?;
        Some(self.path.len() - last)
    }

    /// The primaries of the circle that a primary is in, from itself on.
    pub(crate) fn circle(&self, primary: &PrimaryKey) -> Vec<PrimaryKey> {
        let length = self.length(primary).unwrap_or_default();
        self.path[self.path.len() - length..]
            .iter()
            .map(|key| (**key).clone())
            .collect()
    }

    /// The one of two ways that came by more turns.
    pub(crate) fn longer(one: Option<Arc<Way>>, other: Option<Arc<Way>>) -> Option<Arc<Way>> {
        match (one, other) {
            (Some(one), Some(other)) => Some(if other.again > one.again { other } else { one }),
            (one, other) => one.or(other),
        }
    }
}

/// Writes of a primary that were set back.
#[derive(Debug, Default)]
pub(crate) struct Reverted {
    count: u32,
    last: Time,
    objects: Vec<ObjectKey>,
}

impl Reverted {
    pub(crate) fn again(&mut self, objects: Vec<ObjectKey>, now: Time) {
        if now.0.saturating_sub(self.last.0) > FORGOTTEN {
            self.count = 0;
        }
        self.count += 1;
        self.last = now;
        self.objects = objects;
    }

    /// How long to wait before a primary is run by a change of this object.
    pub(crate) fn delay(&self, object: &ObjectKey, now: Time, most: Duration) -> Option<Duration> {
        let recent = now.0.saturating_sub(self.last.0) <= FORGOTTEN;
        let contended = recent && self.objects.contains(object);
        contended.then(|| delay(self.count, most)).flatten()
    }
}

fn delay(turns: u32, most: Duration) -> Option<Duration> {
    let further = turns.checked_sub(AT_ONCE + 1)?;
    Some(FIRST.saturating_mul(1 << further.min(16)).min(most))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::{ControllerId, ObjectName};

    fn key(name: &str) -> Arc<PrimaryKey> {
        Arc::new(PrimaryKey {
            controller: ControllerId(1),
            name: ObjectName::new(None, name),
        })
    }

    #[test]
    fn a_long_way_is_no_circle() {
        let mut way = None;
        for number in 0..100 {
            way = Some(Way::through(way.as_deref(), &key(&number.to_string())));
        }
        let way = way.expect("a way");
        assert_eq!(way.delay(&key("100"), Duration::MAX), None);
        assert_eq!(way.delay(&key("99"), Duration::MAX), None, "it has come by once");
        assert_eq!(way.path.len(), REMEMBERED);
    }

    #[test]
    fn a_circle_is_delayed_more_and_more_up_to_a_limit() {
        let most = Duration::from_secs(60);
        let (mut way, mut delays) = (None, Vec::new());
        for number in 0..60 {
            let primary = key(["a", "b"][number % 2]);
            delays.extend(way.as_deref().and_then(|way: &Way| way.delay(&primary, most)));
            way = Some(Way::through(way.as_deref(), &primary));
        }
        assert!(delays.is_sorted() && delays[0] == FIRST && delays.last() == Some(&most));
        assert_eq!(
            way.expect("a way").circle(&key("a")),
            [(*key("a")).clone(), (*key("b")).clone()]
        );
    }

    #[test]
    fn what_was_set_back_long_ago_is_forgotten() {
        let object = ObjectKey {
            cluster: crate::name::ClusterId::HOST,
            kind: crate::name::Kind::new("v1", "ConfigMap"),
            name: ObjectName::new(Some("n"), "a"),
        };
        let (mut reverted, mut now) = (Reverted::default(), Time::default());
        for _ in 0..AT_ONCE + 1 {
            assert_eq!(reverted.delay(&object, now, Duration::MAX), None);
            reverted.again(vec![object.clone()], now);
        }
        assert_eq!(reverted.delay(&object, now, Duration::MAX), Some(FIRST));
        now = now + FORGOTTEN + Duration::from_secs(1);
        assert_eq!(reverted.delay(&object, now, Duration::MAX), None);
    }
}
