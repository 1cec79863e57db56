//! A time zone: which offset from UTC holds when.
//!
//! The rules come from a TZif file of the IANA database, which the node reads: this module does no I/O. What a change of the clocks means for a job is
//! [`super::Cron`]'s to say.

use jiff::tz::TimeZone;

/// Longest name of a zone in bytes.
pub const ZONE_MAX_BYTES: usize = 64;

/// Clocks that are changed at all are usually changed within this time.
const LOOK_BACK_SEC: i64 = 400 * 86_400;

/// Why a time zone was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidZone {
    /// It cannot be one's name.
    #[error("expected the name of a time zone, such as Europe/Berlin")]
    Name,
    /// Its data makes no sense.
    #[error("the data of the time zone cannot be read: {problem}")]
    Data {
        /// What is wrong with it.
        problem: String,
    },
}

/// A time zone with its rules.
#[derive(Debug, Clone)]
pub struct Zone {
    name: String,
    rules: TimeZone,
}

/// A stretch of time during which one offset holds, in seconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Segment {
    /// When it began, and the offset before that; `None` if it always held.
    pub(super) start: Option<(i64, i64)>,
    /// When it ends.
    pub(super) end: Option<i64>,
    /// Local time less UTC.
    pub(super) offset: i64,
}

impl Zone {
    /// UTC, in which no clock is ever changed.
    #[must_use]
    pub fn utc() -> Self {
        Self { name: "UTC".to_owned(), rules: TimeZone::UTC }
    }

    /// The zone whose TZif file has these bytes.
    pub fn from_tzif(name: &str, data: &[u8]) -> Result<Self, InvalidZone> {
        check_zone_name(name)?;
        let rules =
            TimeZone::tzif(name, data).map_err(|error| InvalidZone::Data { problem: error.to_string() })?;
        Ok(Self { name: name.to_owned(), rules })
    }

    /// Its name, such as `Europe/Berlin`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The stretch around a second.
    pub(super) fn segment(&self, second: i64) -> Segment {
        let moment = |second: i64| {
            let (least, most) = (jiff::Timestamp::MIN.as_second(), jiff::Timestamp::MAX.as_second());
            jiff::Timestamp::from_second(second.clamp(least, most)).expect("clamped to jiff's range")
        };
        let offset = |second: i64| i64::from(self.rules.to_offset(moment(second)).seconds());
        // Looked for forwards from some way back: rules without a list of changes have none that precede.
        let began = [LOOK_BACK_SEC, 100 * LOOK_BACK_SEC, i64::MAX].into_iter().find_map(|back| {
            let from = moment(second.saturating_sub(back));
            let changes = self.rules.following(from).map(|change| change.timestamp().as_second());
            changes.take_while(|change| *change <= second).last()
        });
        let end = self.rules.following(moment(second)).next().map(|change| change.timestamp().as_second());
        Segment { start: began.map(|start| (start, offset(start - 1))), end, offset: offset(second) }
    }
}

/// Checks what may be the name of a zone: it becomes a part of a path.
pub fn check_zone_name(name: &str) -> Result<(), InvalidZone> {
    let part = |part: &str| {
        let fits = |c: char| c.is_ascii_alphanumeric() || "_+-".contains(c);
        part.starts_with(|c: char| c.is_ascii_alphanumeric()) && part.chars().all(fits)
    };
    let fits = name.len() <= ZONE_MAX_BYTES && name.split('/').all(part) && name.split('/').count() <= 3;
    if fits { Ok(()) } else { Err(InvalidZone::Name) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vw_31_a_name_cannot_lead_out_of_the_folder() {
        for good in ["UTC", "Europe/Berlin", "America/Argentina/Buenos_Aires", "Etc/GMT+9"] {
            assert_eq!(check_zone_name(good), Ok(()), "{good}");
        }
        let long = "a".repeat(ZONE_MAX_BYTES + 1);
        for bad in [
            "",
            "/etc/passwd",
            "../passwd",
            "Europe/../x",
            "Europe//Berlin",
            "a/b/c/d",
            "Europe/",
            "x\0",
            &long,
        ] {
            assert_eq!(check_zone_name(bad), Err(InvalidZone::Name), "{bad}");
        }
        assert!(matches!(Zone::from_tzif("UTC", b"nonsense"), Err(InvalidZone::Data { .. })));
    }

    #[test]
    fn vw_31_in_utc_one_offset_always_holds() {
        for second in [i64::MIN / 2, 0, 1_762_862_400, i64::MAX / 2] {
            assert_eq!(Zone::utc().segment(second), Segment { start: None, end: None, offset: 0 });
        }
    }
}
