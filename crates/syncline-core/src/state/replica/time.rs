//! The time as a replica knows it: a clock that does not jump, the time of day, and the stamps that follow from it.

use super::super::names::{AHEAD_MAX, SLEEP_MAX};
use super::super::stamp::{Clock, Stamp};
use crate::time::Timestamp;

/// The time of the last input.
#[derive(Debug, Clone)]
pub(super) struct Time {
    pub(super) clock: Clock,
    /// Monotonic.
    pub(super) now: Timestamp,
    /// The time of day.
    pub(super) wall: Timestamp,
}

impl Time {
    pub(super) const fn new(clock: Clock) -> Self {
        Self { clock, now: Timestamp::ZERO, wall: Timestamp::ZERO }
    }

    /// Takes the time of an input; whether it is one that nobody expects: the time of day did not move as far as the monotonic
    /// clock, so that it was set, or nothing happened for so long that what is remembered cannot be trusted.
    pub(super) fn pass(&mut self, now: Timestamp, wall: Timestamp) -> bool {
        let first = self.wall == Timestamp::ZERO;
        let slept = now.saturating_since(self.now);
        let expected = self.wall + slept;
        let off = wall.saturating_since(expected).max(expected.saturating_since(wall));
        (self.now, self.wall) = (self.now.max(now), wall);
        !first && (off > AHEAD_MAX || slept > SLEEP_MAX)
    }

    /// A stamp later than all that were made or met.
    pub(super) fn tick(&mut self) -> Stamp {
        self.clock.tick(self.wall)
    }
}
