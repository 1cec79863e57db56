//! What a holder may still believe about its lease.
//!
//! The record lies elsewhere, so the holder reckons by itself, and in its own disfavour: from the moment *before* it
//! asked, on two clocks of which the faster counts, and with a margin. The monotonic clock is deaf to a clock that is
//! set, but stands still while a laptop sleeps (on Linux); the time of day hears both.
//!
//! Two jumps of the time of day that cancel each other between two checks cannot be seen from here. Against those, and
//! against a write that was begun and then delayed, only the keeper of the record helps: a fencing
//! [`Token`](super::Token), or a write under the record's own exclusion.

use std::time::Duration;

use crate::lock::Ttl;
use crate::time::Timestamp;

/// One moment on two clocks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Moment {
    /// Monotonic, from any origin.
    pub mono: Timestamp,
    /// The time of day, since the Unix epoch.
    pub wall: Timestamp,
}

/// A lease as its holder reckons it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Validity {
    asked: Moment,
    ttl: Ttl,
}

impl Validity {
    /// A lease of `ttl` that was asked for at `asked`: the moment before the request left, not when the answer came.
    #[must_use]
    pub const fn new(asked: Moment, ttl: Ttl) -> Self {
        Self { asked, ttl }
    }

    /// How long the lease lasts.
    #[must_use]
    pub const fn ttl(&self) -> Ttl {
        self.ttl
    }

    /// Whether the holder may act on it now.
    #[must_use]
    pub fn certain(&self, now: Moment) -> bool {
        self.elapsed(now) < self.ttl.duration() - self.ttl.margin()
    }

    /// Whether it is over, as far as the holder can tell. Between the end of certainty and this it may still be renewed.
    #[must_use]
    pub fn ended(&self, now: Moment) -> bool {
        self.elapsed(now) >= self.ttl.duration()
    }

    /// The monotonic moment at which certainty ends, if the time of day does not end it before.
    #[must_use]
    pub fn certain_until(&self) -> Timestamp {
        self.asked.mono + (self.ttl.duration() - self.ttl.margin())
    }

    /// The monotonic moment at which the lease is over, if the time of day does not end it before.
    #[must_use]
    pub fn ends_at(&self) -> Timestamp {
        self.asked.mono + self.ttl.duration()
    }

    /// The longer of what passed on the two clocks. One that went back counts as standing still.
    fn elapsed(&self, now: Moment) -> Duration {
        let mono = now.mono.saturating_since(self.asked.mono);
        mono.max(now.wall.saturating_since(self.asked.wall))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(mono_ms: u64, wall_ms: u64) -> Moment {
        Moment { mono: Timestamp::from_ms(mono_ms), wall: Timestamp::from_ms(wall_ms) }
    }

    #[test]
    fn lk_24_a_lease_is_certain_only_while_both_clocks_say_so() {
        let validity = Validity::new(moment(1_000, 500_000), Ttl::DEFAULT);
        assert_eq!(validity.certain_until(), Timestamp::from_ms(14_500));
        assert_eq!(validity.ends_at(), Timestamp::from_ms(16_000));
        for (mono_ms, wall_ms, certain, ended) in [
            (1_000, 500_000, true, false),
            (14_499, 513_499, true, false),
            (14_500, 513_499, false, false),
            // Asleep: only the time of day went on.
            (1_000, 513_500, false, false),
            (1_000, 515_000, false, true),
            // The clock was set back by an hour, or the monotonic clock restarted: the other one decides.
            (14_499, 0, true, false),
            (16_000, 0, false, true),
            (0, 513_499, true, false),
            (0, 515_000, false, true),
        ] {
            let now = moment(mono_ms, wall_ms);
            let said = (validity.certain(now), validity.ended(now));
            assert_eq!(said, (certain, ended), "at {now:?}");
        }
    }
}
