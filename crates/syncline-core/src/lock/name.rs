//! What a lock may be called.
//!
//! A name is put into a URL, a SQL value, a log line and a terminal as it is, so it is short and made of characters
//! that mean nothing to any of them.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Longest name in bytes.
pub const NAME_MAX_BYTES: usize = 128;

/// A checked name: 1 to [`NAME_MAX_BYTES`] of `A-Z a-z 0-9 . _ : @ -`, beginning with a letter or digit.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Name(String);

impl Name {
    /// Checks `text` and makes a name of it.
    pub fn new(text: impl Into<String>) -> Result<Self, InvalidName> {
        let text = text.into();
        if text.len() > NAME_MAX_BYTES {
            return Err(InvalidName::TooLong { bytes: text.len() });
        }
        // A name that began with a dot or a dash could be taken for a path or an option.
        let Some(first) = text.bytes().next() else { return Err(InvalidName::Empty) };
        if !first.is_ascii_alphanumeric() {
            return Err(InvalidName::Start);
        }
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._:@-".contains(&byte);
        match text.bytes().position(|byte| !allowed(byte)) {
            Some(at) => Err(InvalidName::Character { at }),
            None => Ok(Self(text)),
        }
    }

    /// The name's text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Why a name was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidName {
    /// It has no characters.
    #[error("lock name is empty")]
    Empty,
    /// It is longer than [`NAME_MAX_BYTES`].
    #[error("lock name is {bytes} bytes long; at most {NAME_MAX_BYTES} are allowed")]
    TooLong {
        /// How long it is.
        bytes: usize,
    },
    /// Its first character is neither a letter nor a digit.
    #[error("lock name must begin with a letter or digit")]
    Start,
    /// It has a character that is not allowed.
    #[error("lock name may only have letters, digits and . _ : @ -; byte {at} is none of them")]
    Character {
        /// Where it stands.
        at: usize,
    },
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl AsRef<str> for Name {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl FromStr for Name {
    type Err = InvalidName;

    fn from_str(text: &str) -> Result<Self, InvalidName> {
        Self::new(text)
    }
}

impl TryFrom<String> for Name {
    type Error = InvalidName;

    fn try_from(text: String) -> Result<Self, InvalidName> {
        Self::new(text)
    }
}

impl From<Name> for String {
    fn from(name: Name) -> Self {
        name.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lk_23_names_are_short_and_plain() {
        let longest = "n".repeat(NAME_MAX_BYTES);
        for good in ["project", "0", "nightly:2025-11-11T12:00", "a.b_c@d-e", longest.as_str()] {
            assert_eq!(Name::new(good).unwrap().as_str(), good);
        }
        assert_eq!(Name::new(""), Err(InvalidName::Empty));
        assert_eq!(Name::new("n".repeat(129)), Err(InvalidName::TooLong { bytes: 129 }));
        for bad in [".", "..", "-x", "_x", "/etc", " a", "\0"] {
            assert_eq!(Name::new(bad), Err(InvalidName::Start), "{bad:?}");
        }
        for (bad, at) in [("a/b", 1), ("ab c", 2), ("a\n", 1), ("a'; --", 1), ("a%2f", 1), ("aé", 1)] {
            assert_eq!(Name::new(bad), Err(InvalidName::Character { at }), "{bad:?}");
        }
    }
}
