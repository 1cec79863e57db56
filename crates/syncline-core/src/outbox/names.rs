//! What an entity, its type and a sender may be called, and how large a change may be.
//!
//! A type becomes the name of a table and part of an address, so it is a short identifier and nothing else; the adapters
//! build their statements from checked types alone. Entity ids are values: bound, never built in.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Longest entity type in bytes: with its prefix it must fit PostgreSQL's 63.
pub const ENTITY_TYPE_MAX_BYTES: usize = 40;
/// Longest entity id in bytes.
pub const ENTITY_ID_MAX_BYTES: usize = 200;
/// Largest payload, as JSON, in bytes.
pub const PAYLOAD_MAX_BYTES: usize = 1_024 * 1_024;
/// Longest sender id in bytes.
const SENDER_MAX_BYTES: usize = 64;

/// A checked entity type: a small letter, then small letters, digits and `_`, 40 bytes at most.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct EntityType(String);

impl EntityType {
    /// Checks `text` and makes a type of it.
    pub fn new(text: impl Into<String>) -> Result<Self, Invalid> {
        let text = text.into();
        let begins = text.bytes().next().is_some_and(|byte| byte.is_ascii_lowercase());
        let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        if !begins || text.len() > ENTITY_TYPE_MAX_BYTES || !text.bytes().all(allowed) {
            return Err(Invalid::EntityType);
        }
        Ok(Self(text))
    }

    /// The type's text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Who sends entries: the name that an outbox gave itself when it was created.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SenderId(String);

impl SenderId {
    /// Checks `text` and makes a sender id of it: 1 to 64 of `A-Z a-z 0-9 -`.
    pub fn new(text: impl Into<String>) -> Result<Self, Invalid> {
        let text = text.into();
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        if text.is_empty() || text.len() > SENDER_MAX_BYTES || !text.bytes().all(allowed) {
            return Err(Invalid::Sender);
        }
        Ok(Self(text))
    }

    /// The id's text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Checks an entity id: 1 to [`ENTITY_ID_MAX_BYTES`] bytes without control characters.
pub fn check_entity_id(id: &str) -> Result<(), Invalid> {
    if id.is_empty() || id.len() > ENTITY_ID_MAX_BYTES || id.chars().any(char::is_control) {
        return Err(Invalid::EntityId);
    }
    Ok(())
}

/// Checks how large a payload is; that it is JSON is for whoever reads JSON.
pub fn check_payload_size(bytes: usize) -> Result<(), Invalid> {
    if bytes > PAYLOAD_MAX_BYTES { Err(Invalid::Payload { bytes }) } else { Ok(()) }
}

/// Why a name or a payload was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Invalid {
    /// The type is no identifier.
    #[error(
        "entityType must begin with a small letter and have {ENTITY_TYPE_MAX_BYTES} small letters, digits or \
         underscores at most"
    )]
    EntityType,
    /// The id is empty, too long or has control characters.
    #[error("entityId must have 1 to {ENTITY_ID_MAX_BYTES} bytes and no control characters")]
    EntityId,
    /// The payload is too large.
    #[error("payload is {bytes} bytes long; at most {PAYLOAD_MAX_BYTES} are allowed")]
    Payload {
        /// How long it is.
        bytes: usize,
    },
    /// The sender's id is none.
    #[error("sender must have 1 to {SENDER_MAX_BYTES} letters, digits or dashes")]
    Sender,
}

macro_rules! text {
    ($name:ident) => {
        impl TryFrom<String> for $name {
            type Error = Invalid;

            fn try_from(text: String) -> Result<Self, Invalid> {
                Self::new(text)
            }
        }

        impl FromStr for $name {
            type Err = Invalid;

            fn from_str(text: &str) -> Result<Self, Invalid> {
                Self::new(text)
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> Self {
                name.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}
text!(EntityType);
text!(SenderId);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ss_06_any_short_identifier_is_an_entity_type() {
        for name in ["a", "order", "order_line", "photo_file", "price_list_2"] {
            assert_eq!(EntityType::new(name).unwrap().as_str(), name);
        }
    }

    #[test]
    fn ss_27_what_could_be_more_than_a_name_is_refused() {
        let long = "a".repeat(ENTITY_TYPE_MAX_BYTES + 1);
        for name in ["", "_a", "1a", "Order", "order-line", "order line", "a;drop", "a\"", "注", "a\0", &long]
        {
            assert_eq!(EntityType::new(name), Err(Invalid::EntityType), "{name}");
        }
        for id in ["", "a\nb", "\0", &"x".repeat(ENTITY_ID_MAX_BYTES + 1)] {
            assert_eq!(check_entity_id(id), Err(Invalid::EntityId), "{id}");
        }
        assert!(check_entity_id("018c-呼 '\"").is_ok());
        assert!(SenderId::new("a b").is_err() && SenderId::new("").is_err());
        assert!(check_payload_size(PAYLOAD_MAX_BYTES).is_ok());
        assert!(check_payload_size(PAYLOAD_MAX_BYTES + 1).is_err());
    }

    proptest! {
        #[test]
        fn ss_27_whatever_passes_is_an_identifier(text in "\\PC*") {
            if let Ok(name) = EntityType::new(text) {
                prop_assert!(name.as_str().bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_'));
            }
        }
    }
}
