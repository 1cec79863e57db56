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

/// What is strange about the time that has passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Jump {
    /// The time of day did not move as far as the monotonic clock: somebody set it.
    Set,
    /// Nothing happened for so long that what is remembered cannot be trusted.
    Slept,
}

impl Time {
    pub(super) const fn new(clock: Clock) -> Self {
        Self { clock, now: Timestamp::ZERO, wall: Timestamp::ZERO }
    }

    /// Takes the time of an input; whether it is one that nobody expects.
    pub(super) fn pass(&mut self, now: Timestamp, wall: Timestamp) -> Option<Jump> {
        let first = self.wall == Timestamp::ZERO;
        let slept = now.saturating_since(self.now);
        // The time of day should have moved as far as the monotonic clock.
        let expected = self.wall + slept;
        let off = wall.saturating_since(expected).max(expected.saturating_since(wall));
        (self.now, self.wall) = (self.now.max(now), wall);
        let jump = if off > AHEAD_MAX {
            Some(Jump::Set)
        } else if slept > SLEEP_MAX {
            Some(Jump::Slept)
        } else {
            None
        };
        jump.filter(|_| !first)
    }

    /// A stamp later than all that were made or met.
    pub(super) fn tick(&mut self) -> Stamp {
        self.clock.tick(self.wall)
    }

    /// A stamp from outside, as it counts here.
    pub(super) fn meet(&mut self, stamp: Stamp) -> Stamp {
        self.clock.meet(stamp, self.wall)
    }

    /// Whether a stamp is from too far ahead.
    pub(super) fn is_ahead(&self, stamp: Stamp) -> bool {
        self.clock.is_ahead(stamp, self.wall)
    }
}
