//! A moment as milliseconds, and nothing else.
//!
//! Which clock a moment belongs to is the business of the function that takes it: parameters called `now` are
//! monotonic (they decide every time to live), parameters called `wall` are the time of day (they decide only
//! which minute a job fires in). Arithmetic saturates, so no clock reading can make the core panic.

use std::fmt;
use std::ops::Add;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Milliseconds since an origin the caller chose: the Unix epoch for wall time, anything for monotonic time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The origin itself.
    pub const ZERO: Self = Self(0);

    /// The moment `ms` milliseconds after the origin.
    #[must_use]
    pub const fn from_ms(ms: u64) -> Self {
        Self(ms)
    }

    /// Milliseconds since the origin.
    #[must_use]
    pub const fn as_ms(self) -> u64 {
        self.0
    }

    /// The time from `earlier` to `self`; zero when `earlier` is in fact later.
    #[must_use]
    pub const fn saturating_since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }

    /// The moment `duration` before `self`, at the origin at the earliest.
    #[must_use]
    pub fn saturating_before(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(whole_ms(duration)))
    }
}

impl Add<Duration> for Timestamp {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(whole_ms(duration)))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ms", self.0)
    }
}

/// Milliseconds of a duration, cut off.
pub(crate) fn whole_ms(duration: Duration) -> u64 {
    // Not `as_millis`: its 128 bits cost more than all else here where a processor has 64, and in WASM most of all.
    duration.as_secs().saturating_mul(1_000).saturating_add(duration.subsec_millis().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates_instead_of_wrapping() {
        let last = Timestamp::from_ms(u64::MAX);
        assert_eq!(last + Duration::from_millis(1), last);
        assert_eq!(Timestamp::ZERO + Duration::MAX, last);
        assert_eq!(Timestamp::from_ms(5).saturating_before(Duration::from_millis(9)), Timestamp::ZERO);
        assert_eq!(Timestamp::from_ms(9).saturating_before(Duration::from_millis(5)), Timestamp::from_ms(4));
    }

    #[test]
    fn a_clock_that_went_backwards_reads_as_no_time_passed() {
        let (earlier, later) = (Timestamp::from_ms(1_000), Timestamp::from_ms(3_500));
        assert_eq!(later.saturating_since(earlier), Duration::from_millis(2_500));
        assert_eq!(earlier.saturating_since(later), Duration::ZERO);
    }
}
