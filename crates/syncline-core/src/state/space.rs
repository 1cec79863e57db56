//! What a space of a node may be called.
//!
//! A name is put into a URL, a SQL value and a log line as it is, so it is short and made of characters that mean
//! nothing to any of them.

use std::fmt;

/// Longest name in bytes.
const NAME_MAX_BYTES: usize = 64;

/// The checked name of a space: 1 to 64 of `A-Z a-z 0-9 . _ -`, beginning with a letter or digit.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Space(String);

/// Why a name was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "a space's name has 1 to {NAME_MAX_BYTES} letters, digits, dots, underscores or dashes, the first a letter or digit"
)]
pub struct InvalidSpace;

impl Space {
    /// Checks a name.
    pub fn new(name: impl Into<String>) -> Result<Self, InvalidSpace> {
        let name = name.into();
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        let begins = name.bytes().next().is_some_and(|first| first.is_ascii_alphanumeric());
        if begins && name.len() <= NAME_MAX_BYTES && name.bytes().all(allowed) {
            Ok(Self(name))
        } else {
            Err(InvalidSpace)
        }
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Space {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn st_23_names_of_spaces_are_short_and_plain() {
        for name in ["a", "team-7.list_2", &"x".repeat(NAME_MAX_BYTES)] {
            assert_eq!(Space::new(name).unwrap().as_str(), name);
        }
        for name in ["", ".a", "-a", "a b", "a/b", "日", &"x".repeat(NAME_MAX_BYTES + 1)] {
            assert_eq!(Space::new(name), Err(InvalidSpace), "{name}");
        }
    }
}
