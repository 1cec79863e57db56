//! The `Retry-After` header: how long an API asks to be left alone.
//!
//! Whole seconds, or a date in one of the three forms of HTTP: `Sun, 06 Nov 1994 08:49:37 GMT`, which is the one that may be
//! sent today, `Sunday, 06-Nov-94 08:49:37 GMT` and `Sun Nov  6 08:49:37 1994`. Anything else says nothing: the queue then
//! goes by its own delay. Everybody who reads the header reads it here.

use std::time::Duration;

use super::settings::PAUSE_MAX;
use crate::time::Timestamp;

/// The time left to wait at `wall`, at most [`PAUSE_MAX`], or `None` if `text` says nothing that can be understood. A date
/// that has passed means no time at all.
#[must_use]
pub fn parse(text: &str, wall: Timestamp) -> Option<Duration> {
    let text = text.trim_matches([' ', '\t']);
    let wait = if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        // More digits than fit are a very long time, not nonsense.
        text.parse().map_or(PAUSE_MAX, Duration::from_secs)
    } else {
        date(text, wall)?.saturating_since(wall)
    };
    Some(wait.min(PAUSE_MAX))
}

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const WEEKDAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// A date of HTTP since the Unix epoch. Whether the day of the week is the right one is not checked: a wrong one does not
/// make the rest doubtful.
fn date(text: &str, wall: Timestamp) -> Option<Timestamp> {
    let words: Vec<&str> = text.split(' ').collect();
    let (day, month, year, clock) = match words[..] {
        [weekday, day, month, year, clock, "GMT"] => {
            is_weekday(weekday.strip_suffix(',')?, true)?;
            (number(day, 2, 1, 31)?, month, number(year, 4, 1970, 9999)?, clock)
        }
        [weekday, date, clock, "GMT"] => {
            is_weekday(weekday.strip_suffix(',')?, false)?;
            let mut parts = date.split('-');
            let (day, month, year) = (parts.next()?, parts.next()?, parts.next()?);
            if parts.next().is_some() {
                return None;
            }
            (number(day, 2, 1, 31)?, month, century(number(year, 2, 0, 99)?, wall), clock)
        }
        [weekday, month, day, clock, year] => {
            is_weekday(weekday, true)?;
            (number(day, 2, 1, 31)?, month, number(year, 4, 1970, 9999)?, clock)
        }
        // A day below ten has a space in front.
        [weekday, month, "", day, clock, year] => {
            is_weekday(weekday, true)?;
            (number(day, 1, 1, 9)?, month, number(year, 4, 1970, 9999)?, clock)
        }
        _ => return None,
    };
    let month = MONTHS.iter().position(|name| *name == month)? as u64 + 1;
    if day > days_in(year, month) {
        return None;
    }
    let seconds = days_since_epoch(year, month, day) * 86_400 + of_day(clock)?;
    Some(Timestamp::from_ms(seconds * 1_000))
}

fn is_weekday(text: &str, short: bool) -> Option<()> {
    WEEKDAYS.iter().any(|name| if short { &name[..3] == text } else { *name == text }).then_some(())
}

fn of_day(clock: &str) -> Option<u64> {
    let mut parts = clock.split(':');
    let (hour, minute, second) = (parts.next()?, parts.next()?, parts.next()?);
    let seconds =
        number(hour, 2, 0, 23)? * 3_600 + number(minute, 2, 0, 59)? * 60 + number(second, 2, 0, 60)?;
    parts.next().is_none().then_some(seconds)
}

/// The year of two digits that is nearest to now: no more than fifty years away.
fn century(year: u64, wall: Timestamp) -> u64 {
    const YEAR_MS: u64 = 31_556_952_000;
    let now = 1970 + (wall.as_ms() / YEAR_MS).min(7_000);
    let year = now - now % 100 + year;
    let year = if year > now + 50 {
        year - 100
    } else if year + 50 < now {
        year + 100
    } else {
        year
    };
    year.max(1970)
}

fn days_in(year: u64, month: u64) -> u64 {
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    match month {
        2 => 28 + u64::from(leap),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

fn number(text: &str, digits: usize, least: u64, most: u64) -> Option<u64> {
    if text.len() != digits || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    text.parse().ok().filter(|number| (least..=most).contains(number))
}

/// Days from 1970-01-01 in the Gregorian calendar.
fn days_since_epoch(year: u64, month: u64, day: u64) -> u64 {
    // Years counted from March put the leap day last, so that months before it have fixed lengths.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let before_year = year * 365 + year / 4 - year / 100 + year / 400;
    let before_month = (153 * month + 2) / 5;
    const EPOCH: u64 = 719_468;
    before_year + before_month + day - 1 - EPOCH
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const WALL: Timestamp = Timestamp::from_ms(784_111_777_000);

    #[test]
    fn qu_22_seconds_and_dates_are_understood() {
        let table = [
            ("0", 0),
            ("120", 120),
            (" 7\t", 7),
            ("3600", 3_600),
            ("3601", 3_600),
            ("999999999", 3_600),
            ("99999999999999999999999", 3_600),
            ("Sun, 06 Nov 1994 08:49:37 GMT", 0),
            ("Sun, 06 Nov 1994 08:50:37 GMT", 60),
            ("Sunday, 06-Nov-94 08:51:37 GMT", 120),
            ("Sunday, 06-Nov-24 08:51:37 GMT", 3_600),
            ("Sunday, 06-Nov-93 08:51:37 GMT", 0),
            ("Sun Nov  6 08:52:37 1994", 180),
            ("Sun Nov 16 08:52:37 1994", 3_600),
            ("Tue, 29 Feb 2000 00:00:00 GMT", 3_600),
            ("Fri, 31 Dec 9999 23:59:59 GMT", 3_600),
            ("Thu, 01 Jan 1970 00:00:00 GMT", 0),
        ];
        for (text, seconds) in table {
            assert_eq!(parse(text, WALL), Some(Duration::from_secs(seconds)), "{text:?}");
        }
    }

    #[test]
    fn qu_22_days_are_counted_over_leap_years() {
        for (text, seconds) in [
            ("Tue, 29 Feb 2000 00:00:00 GMT", 951_782_400),
            ("Wed, 01 Mar 2000 00:00:00 GMT", 951_868_800),
            ("Fri, 31 Dec 9999 23:59:59 GMT", 253_402_300_799),
        ] {
            assert_eq!(date(text, WALL), Some(Timestamp::from_ms(seconds * 1_000)), "{text}");
        }
    }

    #[test]
    fn qu_22_anything_else_says_nothing() {
        let malformed = [
            "",
            " ",
            "-1",
            "1.5",
            "soon",
            "1 2",
            "0x10",
            "٣",
            "1e3",
            "NaN",
            "Sun, 06 Nov 1994 08:49:37",
            "Sun, 06 Nov 1994 08:49:37 PST",
            "Sun, 6 Nov 1994 08:49:37 GMT",
            "Sun, 06 Foo 1994 08:49:37 GMT",
            "Sun, 06 Nov 1994 24:49:37 GMT",
            "Sun, 06 Nov 1994 08:49:37:1 GMT",
            "Sun, 00 Nov 1994 08:49:37 GMT",
            "Sun, 06 Nov 1969 08:49:37 GMT",
            "Sun, 06 Nov 1994 08:49:37 GMT x",
            "Sun, 31 Feb 1995 08:49:37 GMT",
            "Wed, 29 Feb 1995 08:49:37 GMT",
            "Sun, 06-Nov-94 08:49:37 GMT",
            "Sunday, 06-Nov-1994 08:49:37 GMT",
            "Sun Nov 6 08:49:37 1994",
            "Xyz, 06 Nov 1994 08:49:37 GMT",
            "30 seconds",
        ];
        for text in malformed {
            assert_eq!(parse(text, WALL), None, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn qu_22_no_header_makes_the_parser_panic(text in ".{0,40}", wall in any::<u64>()) {
            let _ = parse(&text, Timestamp::from_ms(wall));
        }

        #[test]
        fn qu_22_no_date_makes_the_parser_panic(
            text in "[A-Z][a-z]{2}, [0-9]{2} (Jan|Feb|Dec|Xyz) [0-9]{4} [0-9]{2}:[0-9]{2}:[0-9]{2} GMT",
        ) {
            let _ = parse(&text, WALL);
        }
    }
}
