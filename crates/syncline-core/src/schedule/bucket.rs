//! The name of one firing: `2025-11-11T12:00`, in UTC.
//!
//! The bucket is what nodes compete for, so two nodes whose clocks differ by seconds must name the same firing
//! the same way: it is made of the moment the cron expression names, never of the moment a node woke up.

use std::fmt;
use std::str::FromStr;

use jiff::civil::DateTime;
use jiff::tz::Offset;
use serde::{Deserialize, Serialize};

use crate::time::Timestamp;

/// One firing of a job: its minute, or its second for schedules finer than a minute.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Bucket {
    second: i64,
    with_seconds: bool,
}

/// A text that is not a bucket.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a bucket looks like 2025-11-11T12:00 or 2025-11-11T12:00:30")]
pub struct InvalidBucket;

impl Bucket {
    /// The minute `wall` lies in.
    #[must_use]
    pub fn minute(wall: Timestamp) -> Self {
        Self { second: second_of(wall) / 60 * 60, with_seconds: false }
    }

    /// The second `wall` lies in: for schedules with seconds and for runs started by hand, which must not take a
    /// scheduled minute's place.
    #[must_use]
    pub fn second(wall: Timestamp) -> Self {
        Self { second: second_of(wall), with_seconds: true }
    }

    /// When it begins, on the wall clock.
    #[must_use]
    pub fn starts_at(self) -> Timestamp {
        Timestamp::from_ms(self.second.unsigned_abs() * 1_000)
    }
}

impl fmt::Display for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let moment = jiff::Timestamp::from_second(self.second).expect("second_of keeps to jiff's range");
        let civil = Offset::UTC.to_datetime(moment);
        let (year, month, day) = (civil.year(), civil.month(), civil.day());
        write!(f, "{year:04}-{month:02}-{day:02}T{:02}:{:02}", civil.hour(), civil.minute())?;
        if self.with_seconds { write!(f, ":{:02}", civil.second()) } else { Ok(()) }
    }
}

impl FromStr for Bucket {
    type Err = InvalidBucket;

    fn from_str(text: &str) -> Result<Self, InvalidBucket> {
        let with_seconds = match text.len() {
            16 => false,
            19 => true,
            _ => return Err(InvalidBucket),
        };
        let civil: DateTime = text.parse().map_err(|_| InvalidBucket)?;
        let moment = Offset::UTC.to_timestamp(civil).map_err(|_| InvalidBucket)?;
        let bucket = Self { second: moment.as_second(), with_seconds };
        // The parser is generous (`2025-11-11 12:00`); a name has one spelling.
        if bucket.second >= 0 && bucket.to_string() == text { Ok(bucket) } else { Err(InvalidBucket) }
    }
}

impl TryFrom<String> for Bucket {
    type Error = InvalidBucket;

    fn try_from(text: String) -> Result<Self, InvalidBucket> {
        text.parse()
    }
}

impl From<Bucket> for String {
    fn from(bucket: Bucket) -> Self {
        bucket.to_string()
    }
}

/// Whole seconds since the epoch, at most the last second that can be named (end of the year 9999).
pub(super) fn second_of(wall: Timestamp) -> i64 {
    i64::try_from(wall.as_ms() / 1_000).unwrap_or(i64::MAX).min(jiff::Timestamp::MAX.as_second())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2025-11-11T12:00:34.567Z
    const WALL: Timestamp = Timestamp::from_ms(1_762_862_434_567);

    #[test]
    fn vw_07_a_bucket_is_the_minute_in_utc() {
        assert_eq!(Bucket::minute(WALL).to_string(), "2025-11-11T12:00");
        assert_eq!(Bucket::second(WALL).to_string(), "2025-11-11T12:00:34");
        assert_eq!(Bucket::minute(WALL).starts_at(), Timestamp::from_ms(1_762_862_400_000));
        assert_eq!(Bucket::minute(Timestamp::ZERO).to_string(), "1970-01-01T00:00");
    }

    #[test]
    fn vw_07_a_bucket_reads_back_as_itself() {
        for bucket in
            [Bucket::minute(WALL), Bucket::second(WALL), Bucket::minute(Timestamp::from_ms(u64::MAX))]
        {
            assert_eq!(bucket.to_string().parse(), Ok(bucket));
        }
        for bad in
            ["", "2025-11-11", "2025-11-11 12:00", "2025-02-30T12:00", "1969-12-31T23:59", "2025-11-11T12:0x"]
        {
            assert_eq!(bad.parse::<Bucket>(), Err(InvalidBucket), "{bad}");
        }
    }
}
