//! When a job fires: a cron expression, read in UTC or in a time zone.
//!
//! **When the clocks change.** An expression whose hour is `*` (every minute, every quarter of an hour, hourly) follows time as it passes: it fires through
//! the hour that comes twice, and not for the hour that is left out. Any other names times of day: one that comes twice fires the first time, and one that is
//! left out fires when the clocks are changed.
//!
//! Five fields, or six with seconds in front, as `croner` reads them. An expression is refused when it is long,
//! malformed or never fires, so that a mistake shows when the configuration is read and not as silence later.

use std::fmt;

use croner::parser::{CronParser, Seconds, Year};
use jiff::civil::DateTime;
use jiff::tz::Offset;

use super::bucket::second_of;
use super::zone::Segment;
use super::{Bucket, Zone};
use crate::time::Timestamp;

/// Longest expression in bytes.
pub const CRON_MAX_BYTES: usize = 128;

/// Changes of the clocks that a search looks across: more than four hundred years have.
const SEGMENTS_MAX: usize = 1_000;

/// A checked cron expression.
#[derive(Debug, Clone)]
pub struct Cron {
    expression: String,
    schedule: croner::Cron,
    with_seconds: bool,
    /// It fires in every hour, so that a change of the clocks means nothing to it.
    every_hour: bool,
    zone: Zone,
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
        let every_hour = expression == "@hourly"
            || expression
                .split_whitespace()
                .nth(1 + usize::from(with_seconds))
                .is_some_and(|hour| hour.starts_with('*'));
        let cron = Self { expression, schedule, with_seconds, every_hour, zone: Zone::utc() };
        match cron.next_after(ANCHOR) {
            Some(_) => Ok(cron),
            None => Err(InvalidCron::Never { expression: cron.expression }),
        }
    }

    /// The same expression, read in a time zone.
    #[must_use]
    pub fn in_zone(self, zone: Zone) -> Self {
        Self { zone, ..self }
    }

    /// The zone it is read in.
    #[must_use]
    pub fn zone(&self) -> &Zone {
        &self.zone
    }

    /// The expression as it was written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.expression
    }

    /// The first firing strictly after `wall`; `None` only at the end of the calendar.
    #[must_use]
    pub fn next_after(&self, wall: Timestamp) -> Option<Timestamp> {
        let mut segment = self.zone.segment(second_of(wall));
        // Local time, from which on is searched, and whether it counts itself.
        let (mut from, mut inclusive) = (second_of(wall) + segment.offset, false);
        for _ in 0..SEGMENTS_MAX {
            if let Some(anew) = self.anew_from(segment).filter(|anew| from < *anew) {
                (from, inclusive) = (anew, true);
            }
            let local =
                self.schedule.find_next_occurrence(&civil(from)?, inclusive).ok().and_then(second_at)?;
            let Some(end) = segment.end.filter(|end| local - segment.offset >= *end) else {
                return wall_at(local - segment.offset);
            };
            let next = self.zone.segment(end);
            if !self.every_hour && local < end + next.offset {
                return wall_at(end);
            }
            (segment, from, inclusive) = (next, end + next.offset, true);
        }
        None
    }

    /// The last firing at or before `wall`; `None` when there was none since 1970.
    #[must_use]
    pub fn last_at(&self, wall: Timestamp) -> Option<Timestamp> {
        let mut segment = self.zone.segment(second_of(wall));
        let mut until = second_of(wall) + segment.offset;
        for _ in 0..SEGMENTS_MAX {
            let local =
                self.schedule.find_previous_occurrence(&civil(until)?, true).ok().and_then(second_at)?;
            let Some((start, before)) = segment.start else { return wall_at(local - segment.offset) };
            if local >= self.anew_from(segment).unwrap_or(start + segment.offset) {
                return wall_at(local - segment.offset);
            }
            if !self.every_hour && before < segment.offset && local >= start + before {
                return wall_at(start);
            }
            segment = self.zone.segment(start - 1);
            until = start - 1 + segment.offset;
        }
        None
    }

    /// Where the clocks were set back: the local time from which on times of day come for the first time.
    fn anew_from(&self, segment: Segment) -> Option<i64> {
        let (start, before) = segment.start.filter(|_| !self.every_hour)?;
        (before > segment.offset).then_some(start + before)
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

/// A local second as a date and time; `None` at the end of the calendar.
fn civil(local: i64) -> Option<DateTime> {
    Some(Offset::UTC.to_datetime(jiff::Timestamp::from_second(local).ok()?))
}

fn second_at(civil: DateTime) -> Option<i64> {
    Some(Offset::UTC.to_timestamp(civil).ok()?.as_second())
}

fn wall_at(second: i64) -> Option<Timestamp> {
    Some(Timestamp::from_ms(u64::try_from(second).ok()? * 1_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        second_at(text.parse().unwrap()).and_then(wall_at).unwrap()
    }

    /// A zone in the form of the system's files: the footer alone has the rules.
    fn zone(rules: &str) -> Zone {
        let mut header = Vec::from(*b"TZif2");
        header.extend([0; 15]);
        // Six counts; one type of local time with a name of four bytes.
        for count in [0_u32, 0, 0, 0, 1, 4] {
            header.extend(count.to_be_bytes());
        }
        let body = [&[0, 0, 0, 0, 0, 0][..], b"LMT\0"].concat();
        let footer = format!("\n{rules}\n");
        let data = [header.as_slice(), &body, &header, &body, footer.as_bytes()].concat();
        Zone::from_tzif("Test/Zone", &data).unwrap()
    }

    const BERLIN: &str = "CET-1CEST,M3.5.0,M10.5.0/3";

    fn firings(expression: &str, zone: Zone, from: &str, to: &str) -> Vec<String> {
        let cron = Cron::parse(expression).unwrap().in_zone(zone);
        let (mut wall, to) = (at(from), at(to));
        let mut fired = Vec::new();
        while let Some(next) = cron.next_after(wall).filter(|next| *next <= to) {
            assert_eq!(cron.last_at(next), Some(next), "{expression} {next:?}");
            let between = Timestamp::from_ms(next.as_ms() - 1_000);
            assert_eq!(cron.last_at(between).filter(|last| *last > wall), None, "{expression} {next:?}");
            fired.push(cron.bucket(next).to_string());
            wall = next;
        }
        fired
    }

    #[test]
    fn vw_31_a_time_of_day_is_read_in_its_zone_summer_and_winter() {
        let fired = |from, to| firings("30 3 * * *", zone(BERLIN), from, to);
        assert_eq!(fired("2025-01-14T12:00:00", "2025-01-15T12:00:00"), ["2025-01-15T02:30"]);
        assert_eq!(fired("2025-07-14T12:00:00", "2025-07-15T12:00:00"), ["2025-07-15T01:30"]);
        let kolkata = zone("IST-5:30");
        assert_eq!(
            firings("0 9 * * mon-fri", kolkata, "2025-07-13T00:00:00", "2025-07-14T12:00:00"),
            ["2025-07-14T03:30"]
        );
    }

    #[test]
    fn vw_31_an_hour_that_is_left_out_fires_when_the_clocks_are_changed() {
        // On the 30th of March 2025, 2:00 becomes 3:00 at 1:00 UTC.
        let fired =
            |expression| firings(expression, zone(BERLIN), "2025-03-29T22:00:00", "2025-03-30T03:00:00");
        assert_eq!(fired("30 2 * * *"), ["2025-03-30T01:00"]);
        assert_eq!(fired("10,50 2 * * *"), ["2025-03-30T01:00"], "once");
        assert_eq!(fired("0 2,3 * * *"), ["2025-03-30T01:00"], "two of them are one moment");
        assert_eq!(fired("30 1,2,3 * * *"), ["2025-03-30T00:30", "2025-03-30T01:00", "2025-03-30T01:30"]);
        let hourly = [
            "2025-03-29T22:30",
            "2025-03-29T23:30",
            "2025-03-30T00:30",
            "2025-03-30T01:30",
            "2025-03-30T02:30",
        ];
        assert_eq!(fired("30 * * * *"), hourly);
    }

    #[test]
    fn vw_31_an_hour_that_comes_twice_fires_the_first_time_unless_every_hour_does() {
        // On the 26th of October 2025, 3:00 becomes 2:00 at 1:00 UTC.
        let fired =
            |expression| firings(expression, zone(BERLIN), "2025-10-25T22:40:00", "2025-10-26T02:40:00");
        assert_eq!(fired("30 2 * * *"), ["2025-10-26T00:30"]);
        assert_eq!(fired("0 2,3 * * *"), ["2025-10-26T00:00", "2025-10-26T02:00"]);
        assert_eq!(fired("59 2 * * *"), ["2025-10-26T00:59"]);
        let hourly = ["2025-10-25T23:30", "2025-10-26T00:30", "2025-10-26T01:30", "2025-10-26T02:30"];
        assert_eq!(fired("30 * * * *"), hourly);
        assert_eq!(
            firings("* * * * *", zone(BERLIN), "2025-10-25T23:00:00", "2025-10-26T03:00:00").len(),
            240
        );
    }

    #[test]
    fn vw_31_years_of_firings_have_no_gap_and_no_double_day() {
        for rules in [BERLIN, "EST5EDT,M3.2.0,M11.1.0", "<+1030>-10:30<+11>-11,M10.1.0,M4.1.0", "UTC0"] {
            for expression in ["15 2 * * *", "0 0 * * *", "30 1 * * *", "45 2 * * *"] {
                let fired = firings(expression, zone(rules), "2025-01-01T12:00:00", "2028-01-01T12:00:00");
                assert_eq!(fired.len(), 365 * 3, "{expression} {rules}");
            }
        }
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
