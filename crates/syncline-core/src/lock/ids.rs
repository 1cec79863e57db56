//! The small values of a lease: its id, its fencing token, its length.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

const UUID_TEXT_BYTES: usize = 36;
const HEX: &[u8; 16] = b"0123456789abcdef";

/// The id of one lease: a UUID, whose canonical text is lower case with dashes.
///
/// Whoever wants the lease makes the id, so that an answer that got lost can be asked for again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct LeaseId(u128);

impl LeaseId {
    /// Stands for a holder nobody knows: a record that could not be read is held by it.
    pub const UNKNOWN: Self = Self(0);

    /// A version 4 UUID of sixteen random bytes.
    #[must_use]
    pub const fn from_random(mut random: [u8; 16]) -> Self {
        random[6] = random[6] & 0x0f | 0x40;
        random[8] = random[8] & 0x3f | 0x80;
        Self(u128::from_be_bytes(random))
    }

    /// Reads a UUID of any version, in either case.
    pub fn parse(text: &str) -> Result<Self, InvalidLeaseId> {
        let bytes = text.as_bytes();
        if bytes.len() != UUID_TEXT_BYTES {
            return Err(InvalidLeaseId);
        }
        let mut value = 0_u128;
        for (at, byte) in bytes.iter().enumerate() {
            if matches!(at, 8 | 13 | 18 | 23) {
                if *byte != b'-' {
                    return Err(InvalidLeaseId);
                }
                continue;
            }
            let digit = char::from(*byte).to_digit(16).ok_or(InvalidLeaseId)?;
            value = value << 4 | u128::from(digit);
        }
        Ok(Self(value))
    }

    /// The canonical text.
    #[must_use]
    pub fn text(self) -> String {
        let mut text = String::with_capacity(UUID_TEXT_BYTES);
        for (index, byte) in self.0.to_be_bytes().into_iter().enumerate() {
            if matches!(index, 4 | 6 | 8 | 10) {
                text.push('-');
            }
            text.push(char::from(HEX[usize::from(byte >> 4)]));
            text.push(char::from(HEX[usize::from(byte & 0x0f)]));
        }
        text
    }
}

/// A text that is no UUID.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("leaseId must be a UUID like 0f8fad5b-d9cb-469f-a165-70867728950e")]
pub struct InvalidLeaseId;

/// The number of a grant. For one name it only grows, over releases and restarts; a resource that remembers the
/// highest it has seen refuses everybody who comes with a smaller one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Token(u64);

impl Token {
    /// Before the first grant.
    pub const NONE: Self = Self(0);

    /// The largest: what a signed column of SQL can hold.
    pub const MAX: Self = Self(i64::MAX as u64);

    /// The token with this number; beyond [`Self::MAX`] it is the largest.
    #[must_use]
    pub const fn new(number: u64) -> Self {
        if number > Self::MAX.0 { Self::MAX } else { Self(number) }
    }

    /// Its number.
    #[must_use]
    pub const fn number(self) -> u64 {
        self.0
    }

    /// The token of the grant after this one. It stays at the largest, which a grant every nanosecond reaches in three
    /// centuries.
    #[must_use]
    pub const fn next(self) -> Self {
        Self::new(self.0 + 1)
    }
}

/// How long a lease lasts when it is not renewed: between [`Self::MIN`] and [`Self::MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ttl(u32);

impl Ttl {
    /// The shortest: below it, the time of an answer's way and of a timer's delay would be most of the lease.
    pub const MIN: Self = Self(1_000);
    /// Where nobody asks for another.
    pub const DEFAULT: Self = Self(15_000);
    /// The longest anywhere: it is how long a dead holder keeps everybody waiting.
    pub const MAX: Self = Self(3_600_000);
    /// The longest in a browser, and so the longest that a record which cannot be read there is respected.
    pub const BROWSER_MAX: Self = Self(60_000);

    /// No more than this is kept between the end of a holder's certainty and the end of the lease.
    const MARGIN_MAX_MS: u32 = 2_000;

    /// Checks `ms` and makes a length of it.
    pub const fn from_ms(ms: u64) -> Result<Self, InvalidTtl> {
        if ms < Self::MIN.as_ms() || ms > Self::MAX.as_ms() {
            return Err(InvalidTtl { ms });
        }
        Ok(Self(ms as u32))
    }

    /// In milliseconds.
    #[must_use]
    pub const fn as_ms(self) -> u64 {
        self.0 as u64
    }

    /// As a duration.
    #[must_use]
    pub const fn duration(self) -> Duration {
        Duration::from_millis(self.as_ms())
    }

    /// How long before its end a lease is no longer certain: a tenth, two seconds at most. What was begun just before
    /// must have come to its end when the next holder begins.
    #[must_use]
    pub const fn margin(self) -> Duration {
        let tenth = self.0 / 10;
        let ms = if tenth > Self::MARGIN_MAX_MS { Self::MARGIN_MAX_MS } else { tenth };
        Duration::from_millis(ms as u64)
    }

    /// Pause between renewals: a third, so that two may fail.
    #[must_use]
    pub const fn renew_every(self) -> Duration {
        Duration::from_millis(self.as_ms() / 3)
    }
}

/// A length out of bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a lease of {ms} ms is out of bounds; {} to {} ms are allowed", Ttl::MIN.as_ms(), Ttl::MAX.as_ms())]
pub struct InvalidTtl {
    /// What was asked for.
    pub ms: u64,
}

impl Default for Ttl {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl fmt::Display for LeaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text())
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for LeaseId {
    type Err = InvalidLeaseId;

    fn from_str(text: &str) -> Result<Self, InvalidLeaseId> {
        Self::parse(text)
    }
}

impl TryFrom<String> for LeaseId {
    type Error = InvalidLeaseId;

    fn try_from(text: String) -> Result<Self, InvalidLeaseId> {
        Self::parse(&text)
    }
}

impl From<LeaseId> for String {
    fn from(lease: LeaseId) -> Self {
        lease.text()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lk_01_a_lease_id_is_a_uuid_and_nothing_else() {
        let text = "0f8fad5b-d9cb-469f-a165-70867728950e";
        assert_eq!(LeaseId::parse(text).unwrap().text(), text);
        assert_eq!(LeaseId::parse(&text.to_uppercase()).unwrap().text(), text);
        assert_eq!(LeaseId::from_random([0xff; 16]).text(), "ffffffff-ffff-4fff-bfff-ffffffffffff");
        let long = format!("{text}0");
        for bad in ["", "0f8fad5b", &text[1..], long.as_str(), "0f8fad5b-d9cb-469f-a165_70867728950e"] {
            assert_eq!(LeaseId::parse(bad), Err(InvalidLeaseId), "{bad:?}");
        }
        assert_eq!(LeaseId::parse("0f8fad5b-d9cb-469f-a165-7086772895ég"), Err(InvalidLeaseId));
    }

    #[test]
    fn lk_23_a_token_grows_and_fits_a_signed_column() {
        assert_eq!(Token::NONE.next(), Token::new(1));
        assert_eq!(Token::new(u64::MAX), Token::MAX);
        assert_eq!(Token::MAX.next(), Token::MAX);
        assert!(i64::try_from(Token::MAX.number()).is_ok());
    }

    #[test]
    fn lk_03_lengths_are_bounded_and_leave_a_margin() {
        assert_eq!(Ttl::from_ms(15_000), Ok(Ttl::DEFAULT));
        for ms in [0, 999, 3_600_001, u64::MAX] {
            assert_eq!(Ttl::from_ms(ms), Err(InvalidTtl { ms }));
        }
        for ttl in [Ttl::MIN, Ttl::DEFAULT, Ttl::BROWSER_MAX, Ttl::MAX] {
            // Two renewals may fail before the lease becomes uncertain.
            assert!(ttl.renew_every() * 2 + ttl.margin() < ttl.duration(), "{ttl:?}");
        }
        assert_eq!(Ttl::DEFAULT.margin(), Duration::from_millis(1_500));
        assert_eq!(Ttl::MAX.margin(), Duration::from_secs(2));
    }
}
