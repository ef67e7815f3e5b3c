//! Time as a parameter.

use std::time::Duration;

/// A moment, counted from any fixed beginning. The driver gives it; a simulation makes it up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Time(pub Duration);

impl std::ops::Add<Duration> for Time {
    type Output = Time;

    fn add(self, delay: Duration) -> Time {
        Time(self.0.saturating_add(delay))
    }
}
