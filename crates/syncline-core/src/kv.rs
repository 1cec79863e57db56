//! What a key and a value of the key-value store may be, and when a conditional change may happen.
//!
//! Every door to the store (HTTP, commands, the node's own keys) passes through these checks, so the adapters
//! never meet a key they could not store or a value that would fill the disk. Storing is theirs.
//!
//! A live key has a [`Version`], which grows with every write. A key that is removed and set again begins at a random one,
//! so a version read before never holds for the new value by mistake (no ABA problem).

use std::fmt;

use serde::{Deserialize, Serialize};

/// Longest key in bytes of UTF-8.
pub const KEY_MAX_BYTES: usize = 512;

/// Largest value in bytes of UTF-8.
pub const VALUE_MAX_BYTES: usize = 256 * 1024;

/// Most entries one listing may return.
pub const LIST_MAX: usize = 1_000;

/// Most operations of one batch.
pub const BATCH_MAX: usize = 128;

/// The greatest whole number that an increment reaches, either way: every reader of JSON holds it exactly.
pub const NUMBER_MAX: i64 = (1 << 53) - 1;

/// Which write of a key it was. Below 2^53: a page can hold it as a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Version(pub u64);

/// What a change of a key may depend on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Condition {
    /// Nothing.
    #[default]
    None,
    /// The key is not there, or has expired (put if absent).
    Absent,
    /// The key lives.
    Present,
    /// The key lives and was last written by one of these (compare-and-set).
    Matches(Vec<Version>),
}

impl Condition {
    /// Whether it holds where the live key has the version `found`; `None` for no live key.
    #[must_use]
    pub fn holds(&self, found: Option<Version>) -> bool {
        match self {
            Self::None => true,
            Self::Absent => found.is_none(),
            Self::Present => found.is_some(),
            Self::Matches(versions) => found.is_some_and(|found| versions.contains(&found)),
        }
    }
}

/// Why nothing was added to a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotAdded {
    /// The value is no whole number.
    #[error("the value is no whole number")]
    NotANumber,
    /// The sum is beyond [`NUMBER_MAX`].
    #[error("the sum is beyond ±{NUMBER_MAX}")]
    OutOfRange,
}

/// What a value is after `by` was added to it. A key that is not there counts as zero.
pub fn add(value: Option<&str>, by: i64) -> Result<i64, NotAdded> {
    let number: i64 = value.unwrap_or("0").parse().map_err(|_| NotAdded::NotANumber)?;
    let sum = number.checked_add(by).filter(|sum| (-NUMBER_MAX..=NUMBER_MAX).contains(sum));
    sum.ok_or(NotAdded::OutOfRange)
}

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
    fn vw_33_a_condition_is_about_the_live_key_alone() {
        let (one, two) = (Version(1), Version(2));
        for (condition, absent, first, second) in [
            (Condition::None, true, true, true),
            (Condition::Absent, true, false, false),
            (Condition::Present, false, true, true),
            (Condition::Matches(vec![one]), false, true, false),
            (Condition::Matches(vec![one, two]), false, true, true),
            (Condition::Matches(Vec::new()), false, false, false),
        ] {
            let holds = [None, Some(one), Some(two)].map(|found| condition.holds(found));
            assert_eq!(holds, [absent, first, second], "{condition:?}");
        }
    }

    #[test]
    fn vw_33_whole_numbers_are_added_within_what_json_can_hold() {
        assert_eq!(add(None, 5), Ok(5));
        assert_eq!(add(Some("-7"), 3), Ok(-4));
        assert_eq!(add(Some("9007199254740990"), 1), Ok(NUMBER_MAX));
        assert_eq!(add(Some("9007199254740991"), 1), Err(NotAdded::OutOfRange));
        assert_eq!(add(Some("9223372036854775807"), 1), Err(NotAdded::OutOfRange));
        assert_eq!(add(Some("-9007199254740991"), -1), Err(NotAdded::OutOfRange));
        for text in ["", " 1", "1.5", "one", "9223372036854775808"] {
            assert_eq!(add(Some(text), 1), Err(NotAdded::NotANumber), "{text:?}");
        }
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
