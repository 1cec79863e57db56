//! When a job fires: a cron expression, read in UTC.
//!
//! Five fields, or six with seconds in front, as `croner` reads them. An expression is refused when it is long,
//! malformed or never fires, so that a mistake shows when the configuration is read and not as silence later.

use std::fmt;

use croner::parser::{CronParser, Seconds, Year};
use jiff::civil::DateTime;
use jiff::tz::Offset;

use super::Bucket;
use super::bucket::second_of;
use crate::time::Timestamp;

/// Longest expression in bytes.
pub const CRON_MAX_BYTES: usize = 128;

/// A checked cron expression.
#[derive(Debug, Clone)]
pub struct Cron {
    expression: String,
    schedule: croner::Cron,
    with_seconds: bool,
}

/// Why a cron expression was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidCron {
    /// It is longer than [`CRON_MAX_BYTES`].
    #[error("cron expression is {bytes} bytes long; at most {CRON_MAX_BYTES} are allowed")]
    TooLong {
        /// How long it is.
        bytes: usize,
    },
    /// It cannot be read.
    #[error("cron expression `{expression}`: {problem}")]
    Malformed {
        /// The expression as given.
        expression: String,
        /// What is wrong with it.
        problem: String,
    },
    /// No moment matches it, as with the 30th of February.
    #[error("cron expression `{expression}` never fires")]
    Never {
        /// The expression as given.
        expression: String,
    },
}

impl Cron {
    /// Reads an expression such as `* * * * *` (every minute) or `*/10 * * * * *` (every ten seconds).
    pub fn parse(expression: &str) -> Result<Self, InvalidCron> {
        if expression.len() > CRON_MAX_BYTES {
            return Err(InvalidCron::TooLong { bytes: expression.len() });
        }
        let expression = expression.trim().to_owned();
        let parser = CronParser::builder().seconds(Seconds::Optional).year(Year::Disallowed).build();
        let schedule = parser.parse(&expression).map_err(|error| InvalidCron::Malformed {
            expression: expression.clone(),
            problem: error.to_string(),
        })?;
        let with_seconds = expression.split_whitespace().count() == 6;
        let cron = Self { expression, schedule, with_seconds };
        match cron.next_after(ANCHOR) {
            Some(_) => Ok(cron),
            None => Err(InvalidCron::Never { expression: cron.expression }),
        }
    }

    /// The expression as it was written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.expression
    }

    /// The first firing strictly after `wall`; `None` only at the end of the calendar.
    #[must_use]
    pub fn next_after(&self, wall: Timestamp) -> Option<Timestamp> {
        self.schedule.find_next_occurrence(&civil(wall), false).ok().and_then(wall_of)
    }

    /// The last firing at or before `wall`; `None` when there was none since 1970.
    #[must_use]
    pub fn last_at(&self, wall: Timestamp) -> Option<Timestamp> {
        self.schedule.find_previous_occurrence(&civil(wall), true).ok().and_then(wall_of)
    }

    /// The name of the firing at `wall`.
    #[must_use]
    pub fn bucket(&self, wall: Timestamp) -> Bucket {
        if self.with_seconds { Bucket::second(wall) } else { Bucket::minute(wall) }
    }
}

impl fmt::Display for Cron {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.expression)
    }
}

/// Where the search for a first firing begins: any date would do, a fixed one makes the answer a pure function.
const ANCHOR: Timestamp = Timestamp::from_ms(1_704_067_200_000);

fn civil(wall: Timestamp) -> DateTime {
    let moment = jiff::Timestamp::from_second(second_of(wall)).expect("second_of keeps to jiff's range");
    Offset::UTC.to_datetime(moment)
}

fn wall_of(civil: DateTime) -> Option<Timestamp> {
    let second = Offset::UTC.to_timestamp(civil).ok()?.as_second();
    Some(Timestamp::from_ms(u64::try_from(second).ok()? * 1_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        wall_of(text.parse().unwrap()).unwrap()
    }

    #[test]
    fn vw_06_firings_are_read_in_utc() {
        // A Tuesday, between two seconds.
        let wall = at("2025-11-11T12:00:34") + std::time::Duration::from_millis(567);
        for (expression, last, next) in [
            ("* * * * *", "2025-11-11T12:00:00", "2025-11-11T12:01:00"),
            ("*/15 * * * *", "2025-11-11T12:00:00", "2025-11-11T12:15:00"),
            ("*/10 * * * * *", "2025-11-11T12:00:30", "2025-11-11T12:00:40"),
            ("30 3 * * *", "2025-11-11T03:30:00", "2025-11-12T03:30:00"),
            ("0 0 1 * *", "2025-11-01T00:00:00", "2025-12-01T00:00:00"),
            ("0 9 * * mon-fri", "2025-11-11T09:00:00", "2025-11-12T09:00:00"),
            ("0 0 29 2 *", "2024-02-29T00:00:00", "2028-02-29T00:00:00"),
            ("@hourly", "2025-11-11T12:00:00", "2025-11-11T13:00:00"),
        ] {
            let cron = Cron::parse(expression).unwrap();
            assert_eq!(cron.last_at(wall), Some(at(last)), "{expression}");
            assert_eq!(cron.next_after(wall), Some(at(next)), "{expression}");
        }
    }

    #[test]
    fn vw_06_a_firing_is_last_but_not_next_at_its_own_moment() {
        let (cron, noon) = (Cron::parse("* * * * *").unwrap(), at("2025-11-11T12:00:00"));
        assert_eq!(cron.last_at(noon), Some(noon));
        assert_eq!(cron.next_after(noon), Some(at("2025-11-11T12:01:00")));
    }

    #[test]
    fn vw_06_the_bucket_has_seconds_only_when_the_expression_has() {
        let wall = at("2025-11-11T12:00:30");
        let bucket = |expression| Cron::parse(expression).unwrap().bucket(wall).to_string();
        assert_eq!(bucket("* * * * *"), "2025-11-11T12:00");
        assert_eq!(bucket("*/10 * * * * *"), "2025-11-11T12:00:30");
        assert_eq!(bucket("@hourly"), "2025-11-11T12:00");
    }

    #[test]
    fn vw_20_mistakes_show_when_the_expression_is_read() {
        for bad in ["", "* * * *", "60 * * * *", "* * * * * * 2030", "every minute", "@reboot", "* * * * *\0"]
        {
            assert!(matches!(Cron::parse(bad), Err(InvalidCron::Malformed { .. })), "{bad:?}");
        }
        for never in ["0 0 30 2 *", "0 0 31 2,4,6,9,11 *"] {
            assert!(matches!(Cron::parse(never), Err(InvalidCron::Never { .. })), "{never:?}");
        }
        let long = format!("{} * * * *", ["1"; 80].join(","));
        assert_eq!(Cron::parse(&long).unwrap_err(), InvalidCron::TooLong { bytes: long.len() });
    }

    #[test]
    fn the_ends_of_the_calendar_are_no_trouble() {
        let cron = Cron::parse("* * * * *").unwrap();
        assert_eq!(cron.next_after(Timestamp::from_ms(u64::MAX)), None);
        assert!(cron.last_at(Timestamp::from_ms(u64::MAX)).is_some());
        assert_eq!(cron.last_at(Timestamp::ZERO), Some(Timestamp::ZERO));
        assert_eq!(Cron::parse("0 12 * * *").unwrap().last_at(Timestamp::ZERO), None);
    }
}
