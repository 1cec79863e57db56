//! When a change was made, as its sender wrote it down: microseconds, and ISO 8601 on the way.
//!
//! Databases keep microseconds; milliseconds would make changes of one transaction look simultaneous.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// The first moment of the year 1, and one late in the year 9999 that has that year in every time zone.
const LEAST_US: i64 = -62_135_596_800_000_000;
const MOST_US: i64 = 253_402_207_200_000_000;

/// Microseconds since the Unix epoch. Displayed as ISO 8601 in UTC, as `2026-02-07T10:20:30.123456Z`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(i64);

/// The text is no date and time of ISO 8601 with an offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("createdAt must be a date and time as in ISO 8601, with a time zone: 2026-02-07T10:20:30.123Z")]
pub struct InvalidMoment;

impl Moment {
    /// The moment `us` microseconds after the epoch, brought into what ISO 8601 can say.
    #[must_use]
    pub fn from_us(us: i64) -> Self {
        Self(us.clamp(LEAST_US, MOST_US))
    }

    /// A moment that is known to be one that can be said.
    pub(super) const fn constant(us: i64) -> Self {
        Self(us)
    }

    /// Microseconds since the epoch.
    #[must_use]
    pub const fn as_us(self) -> i64 {
        self.0
    }

    /// The moment `duration` later.
    #[must_use]
    pub fn plus(self, duration: Duration) -> Self {
        Self::from_us(self.0.saturating_add(i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)))
    }
}

impl FromStr for Moment {
    type Err = InvalidMoment;

    fn from_str(text: &str) -> Result<Self, InvalidMoment> {
        text.parse::<jiff::Timestamp>()
            .map(|at| Self::from_us(at.as_microsecond()))
            .map_err(|_| InvalidMoment)
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = jiff::Timestamp::from_microsecond(self.0).expect("a moment is one that can be said");
        at.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ss_05_moments_are_read_in_every_zone_and_written_in_utc() {
        for (text, us, written) in [
            ("1970-01-01T00:00:00Z", 0, "1970-01-01T00:00:00Z"),
            ("2026-02-07T10:20:30.123456Z", 1_770_459_630_123_456, "2026-02-07T10:20:30.123456Z"),
            ("2026-02-07T19:20:30.5+09:00", 1_770_459_630_500_000, "2026-02-07T10:20:30.5Z"),
            ("2026-02-07 10:20:30+00:00", 1_770_459_630_000_000, "2026-02-07T10:20:30Z"),
        ] {
            let moment: Moment = text.parse().unwrap();
            assert_eq!((moment.as_us(), moment.to_string().as_str()), (us, written), "{text}");
        }
        for text in ["", "now", "2026-02-07", "2026-02-07T10:20:30", "2026-13-07T10:20:30Z", "1770459630"] {
            assert_eq!(text.parse::<Moment>(), Err(InvalidMoment), "{text}");
        }
    }

    proptest! {
        #[test]
        fn ss_05_what_is_written_is_read_back(us in any::<i64>(), more in any::<u64>()) {
            let moment = Moment::from_us(us).plus(Duration::from_micros(more));
            prop_assert_eq!(moment.to_string().parse::<Moment>().unwrap(), moment);
        }
    }
}
