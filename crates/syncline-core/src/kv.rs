//! What a key and a value of the key-value store may be.
//!
//! Every door to the store (HTTP, commands, the node's own keys) passes through these checks, so the adapters
//! never meet a key they could not store or a value that would fill the disk. Storing is theirs.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Longest key in bytes of UTF-8.
pub const KEY_MAX_BYTES: usize = 512;

/// Largest value in bytes of UTF-8.
pub const VALUE_MAX_BYTES: usize = 256 * 1024;

/// Most entries one listing may return.
pub const LIST_MAX: usize = 1_000;

/// A checked key: 1 to [`KEY_MAX_BYTES`] bytes without control characters.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Key(String);

impl Key {
    /// Checks `text` and makes a key of it.
    pub fn new(text: impl Into<String>) -> Result<Self, Invalid> {
        let text = text.into();
        if text.is_empty() {
            return Err(Invalid::EmptyKey);
        }
        check_prefix(&text)?;
        Ok(Self(text))
    }

    /// The key's text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Checks the prefix of a listing: as a key, but it may be empty, which means every key.
pub fn check_prefix(prefix: &str) -> Result<(), Invalid> {
    if prefix.len() > KEY_MAX_BYTES {
        return Err(Invalid::KeyTooLong { bytes: prefix.len() });
    }
    match prefix.char_indices().find(|(_, character)| character.is_control()) {
        Some((at, _)) => Err(Invalid::ControlCharacter { at }),
        None => Ok(()),
    }
}

/// Checks a value before it is stored.
pub fn check_value(value: &str) -> Result<(), Invalid> {
    if value.len() > VALUE_MAX_BYTES {
        return Err(Invalid::ValueTooLarge { bytes: value.len() });
    }
    // PostgreSQL's text cannot hold it, and a value must mean the same in every store.
    match value.find('\0') {
        Some(at) => Err(Invalid::ZeroInValue { at }),
        None => Ok(()),
    }
}

/// Why a key or value was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Invalid {
    /// The key has no characters.
    #[error("key is empty")]
    EmptyKey,
    /// The key is longer than [`KEY_MAX_BYTES`].
    #[error("key is {bytes} bytes long; at most {KEY_MAX_BYTES} are allowed")]
    KeyTooLong {
        /// How long it is.
        bytes: usize,
    },
    /// The key contains a control character.
    #[error("key has a control character at byte {at}")]
    ControlCharacter {
        /// Where it stands.
        at: usize,
    },
    /// The value is larger than [`VALUE_MAX_BYTES`].
    #[error("value is {bytes} bytes long; at most {VALUE_MAX_BYTES} are allowed")]
    ValueTooLarge {
        /// How large it is.
        bytes: usize,
    },
    /// The value contains a zero character.
    #[error("value has a zero character at byte {at}")]
    ZeroInValue {
        /// Where it stands.
        at: usize,
    },
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl AsRef<str> for Key {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Key {
    type Error = Invalid;

    fn try_from(text: String) -> Result<Self, Invalid> {
        Self::new(text)
    }
}

impl From<Key> for String {
    fn from(key: Key) -> Self {
        key.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vw_03_keys_are_bounded_and_free_of_control_characters() {
        let longest = "k".repeat(KEY_MAX_BYTES);
        for good in ["viewer:1", "genlock:2025-11-11T12:00", " ", "日本語", longest.as_str()] {
            assert_eq!(Key::new(good).unwrap().as_str(), good);
        }
        assert_eq!(Key::new(""), Err(Invalid::EmptyKey));
        assert_eq!(Key::new("k".repeat(513)), Err(Invalid::KeyTooLong { bytes: 513 }));
        // The bound counts bytes: 171 characters of three bytes each are too many.
        assert_eq!(Key::new("日".repeat(171)), Err(Invalid::KeyTooLong { bytes: 513 }));
        for (bad, at) in [("\n", 0), ("a\0", 1), ("ab\u{7f}", 2), ("日\u{85}", 3)] {
            assert_eq!(Key::new(bad), Err(Invalid::ControlCharacter { at }), "{bad:?}");
        }
    }

    #[test]
    fn vw_03_a_prefix_may_be_empty_but_not_malformed() {
        assert_eq!(check_prefix(""), Ok(()));
        assert_eq!(check_prefix("a\t"), Err(Invalid::ControlCharacter { at: 1 }));
        assert_eq!(check_prefix(&"k".repeat(600)), Err(Invalid::KeyTooLong { bytes: 600 }));
    }

    #[test]
    fn vw_03_values_are_bounded() {
        assert_eq!(check_value(""), Ok(()));
        assert_eq!(check_value(&"v".repeat(VALUE_MAX_BYTES)), Ok(()));
        let over = VALUE_MAX_BYTES + 1;
        assert_eq!(check_value(&"v".repeat(over)), Err(Invalid::ValueTooLarge { bytes: over }));
        assert_eq!(check_value("a\0"), Err(Invalid::ZeroInValue { at: 1 }));
    }
}
