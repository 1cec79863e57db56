//! The `Retry-After` header: how long an API asks to be left alone.
//!
//! Either whole seconds or a date such as `Sun, 06 Nov 1994 08:49:37 GMT`, the one form that may be sent today.
//! Anything else says nothing: the queue then goes by its own delay. How long a pause may be at most is the
//! pacer's business.

use std::time::Duration;

use crate::time::Timestamp;

/// The time left to wait at `wall`, or `None` if `text` says nothing that can be understood. A date that has
/// passed means no time at all.
#[must_use]
pub fn parse(text: &str, wall: Timestamp) -> Option<Duration> {
    let text = text.trim_matches([' ', '\t']);
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        // More digits than fit are a very long time, not nonsense.
        return Some(Duration::from_secs(text.parse().unwrap_or(u64::MAX)));
    }
    Some(date(text)?.saturating_since(wall))
}

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// `Sun, 06 Nov 1994 08:49:37 GMT` since the Unix epoch. The day of the week is not checked: a wrong one does not
/// make the rest doubtful.
fn date(text: &str) -> Option<Timestamp> {
    let mut words = text.split(' ');
    let mut next = || words.next();
    next().filter(|weekday| weekday.len() == 4 && weekday.ends_with(','))?;
    let day = number(next()?, 2, 1, 31)?;
    let month_name = next()?;
    let month = MONTHS.iter().position(|name| *name == month_name)? as u64 + 1;
    let year = number(next()?, 4, 1970, 9999)?;
    let mut clock = next()?.split(':');
    let (hour, minute, second) = (clock.next()?, clock.next()?, clock.next()?);
    let of_day = number(hour, 2, 0, 23)? * 3_600 + number(minute, 2, 0, 59)? * 60 + number(second, 2, 0, 60)?;
    if clock.next().is_some() || next()? != "GMT" || next().is_some() {
        return None;
    }
    let seconds = days_since_epoch(year, month, day) * 86_400 + of_day;
    Some(Timestamp::from_ms(seconds * 1_000))
}

fn number(text: &str, digits: usize, least: u64, most: u64) -> Option<u64> {
    if text.len() != digits || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    text.parse().ok().filter(|number| (least..=most).contains(number))
}

/// Days from 1970-01-01 in the Gregorian calendar. A day past the end of its month runs into the next one.
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
            ("Sun, 06 Nov 1994 08:49:37 GMT", 0),
            ("Sun, 06 Nov 1994 08:50:37 GMT", 60),
            ("Tue, 29 Feb 2000 00:00:00 GMT", 951_782_400 - 784_111_777),
            ("Wed, 01 Mar 2000 00:00:00 GMT", 951_868_800 - 784_111_777),
            ("Fri, 31 Dec 9999 23:59:59 GMT", 253_402_300_799 - 784_111_777),
            ("Thu, 01 Jan 1970 00:00:00 GMT", 0),
        ];
        for (text, seconds) in table {
            assert_eq!(parse(text, WALL), Some(Duration::from_secs(seconds)), "{text:?}");
        }
        assert_eq!(parse("99999999999999999999999", WALL), Some(Duration::from_secs(u64::MAX)));
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
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "Sun Nov  6 08:49:37 1994",
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
