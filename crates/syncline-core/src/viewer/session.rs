//! The id a page goes by.
//!
//! Up to 64 bytes of visible ASCII, held inline: a table of a million sessions makes no million allocations, and
//! an id can be put into a key, a log line or a header as it is.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Longest session id in bytes.
pub const SESSION_MAX_BYTES: usize = 64;

/// A checked session id: 1 to [`SESSION_MAX_BYTES`] characters from `!` to `~`.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SessionId {
    /// Filled up with zeros, which no valid id contains, so that comparing the arrays compares the ids.
    bytes: [u8; SESSION_MAX_BYTES],
    len: u8,
}

impl SessionId {
    /// Checks `text` and makes an id of it.
    pub fn new(text: &str) -> Result<Self, InvalidSession> {
        let len = text.len();
        if len == 0 {
            return Err(InvalidSession::Missing);
        }
        if len > SESSION_MAX_BYTES {
            return Err(InvalidSession::TooLong { bytes: len });
        }
        if let Some(at) = text.bytes().position(|byte| !byte.is_ascii_graphic()) {
            return Err(InvalidSession::Character { at });
        }
        let mut bytes = [0; SESSION_MAX_BYTES];
        bytes[..len].copy_from_slice(text.as_bytes());
        Ok(Self { bytes, len: len as u8 })
    }

    /// A version 4 UUID of sixteen random bytes, for pages where `crypto.randomUUID` does not exist.
    #[must_use]
    pub fn from_random(mut random: [u8; 16]) -> Self {
        const HEX: &[u8; 16] = b"0123456789abcdef";
        random[6] = random[6] & 0x0f | 0x40;
        random[8] = random[8] & 0x3f | 0x80;
        let mut bytes = [0; SESSION_MAX_BYTES];
        let mut at = 0;
        for (index, byte) in random.into_iter().enumerate() {
            if matches!(index, 4 | 6 | 8 | 10) {
                bytes[at] = b'-';
                at += 1;
            }
            bytes[at] = HEX[usize::from(byte >> 4)];
            bytes[at + 1] = HEX[usize::from(byte & 0x0f)];
            at += 2;
        }
        Self { bytes, len: at as u8 }
    }

    /// The id's text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        str::from_utf8(self.as_bytes()).expect("only ASCII is let in")
    }

    /// The id's text as bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

/// Why a session id was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidSession {
    /// There is none, or it is empty.
    #[error("sessionId is required")]
    Missing,
    /// It is longer than [`SESSION_MAX_BYTES`].
    #[error("sessionId is {bytes} bytes long; at most {SESSION_MAX_BYTES} are allowed")]
    TooLong {
        /// How long it is.
        bytes: usize,
    },
    /// It has a space, a control character or something beyond ASCII.
    #[error("sessionId may only have visible ASCII characters; byte {at} is not one")]
    Character {
        /// Where it stands.
        at: usize,
    },
}

impl FromStr for SessionId {
    type Err = InvalidSession;

    fn from_str(text: &str) -> Result<Self, InvalidSession> {
        Self::new(text)
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SessionId({self})")
    }
}

impl Serialize for SessionId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for SessionId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;

        impl de::Visitor<'_> for Text {
            type Value = SessionId;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a session id of 1 to {SESSION_MAX_BYTES} visible ASCII characters")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<SessionId, E> {
                SessionId::new(text).map_err(E::custom)
            }
        }

        deserializer.deserialize_str(Text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vw_01_ids_are_bounded_visible_ascii() {
        let longest = "s".repeat(64);
        for good in ["1", "!~", "550e8400-e29b-41d4-a716-446655440000", longest.as_str()] {
            assert_eq!(SessionId::new(good).unwrap().as_str(), good);
        }
        assert_eq!(SessionId::new(""), Err(InvalidSession::Missing));
        assert_eq!(InvalidSession::Missing.to_string(), "sessionId is required");
        assert_eq!(SessionId::new(&"s".repeat(65)), Err(InvalidSession::TooLong { bytes: 65 }));
        for (bad, at) in [(" ", 0), ("a b", 1), ("ab\n", 2), ("a\0", 1), ("é", 0), ("x\u{7f}", 1)] {
            assert_eq!(SessionId::new(bad), Err(InvalidSession::Character { at }), "{bad:?}");
        }
    }

    #[test]
    fn vw_24_random_bytes_become_a_version_4_uuid() {
        assert_eq!(SessionId::from_random([0; 16]).as_str(), "00000000-0000-4000-8000-000000000000");
        assert_eq!(SessionId::from_random([0xff; 16]).as_str(), "ffffffff-ffff-4fff-bfff-ffffffffffff");
        let counted = SessionId::from_random(std::array::from_fn(|byte| byte as u8));
        assert_eq!(counted.as_str(), "00010203-0405-4607-8809-0a0b0c0d0e0f");
        assert_eq!(SessionId::new(counted.as_str()), Ok(counted));
    }

    #[test]
    fn ids_of_different_length_differ() {
        assert_ne!(SessionId::new("a"), SessionId::new("aa"));
    }
}
