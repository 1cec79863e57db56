//! What an entity may hold, and how it is stored.
//!
//! Storage areas change what they cannot keep without a word: dates become `{}`, not-a-number becomes nothing, half a
//! surrogate pair becomes a question mark. So values come as JSON, are read here and written in one canonical form; who makes
//! JSON of values of another language refuses what would be lost (`js/state-value.js`). The stored form is the value itself
//! with one member more, its stamp, which readers that know nothing of it may ignore.

use std::sync::Arc;

use super::json::{Json, write_text};
use super::names::{ID_MAX_BYTES, STAMP_MEMBER, VALUE_MAX_BYTES};
use super::stamp::Stamp;

/// A JSON object in its canonical form.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Value(Arc<str>);

impl Value {
    /// Checks the text of an object.
    pub fn read(text: &str) -> Result<Self, Refused> {
        if text.len() > VALUE_MAX_BYTES {
            return Err(Refused::TooLarge);
        }
        let json = Json::read(text).map_err(|_| Refused::NotJson)?;
        if json.member(STAMP_MEMBER).is_some() {
            return Err(Refused::Reserved);
        }
        Self::from_json(&json)
    }

    /// The canonical text.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.0
    }

    fn from_json(json: &Json) -> Result<Self, Refused> {
        if !matches!(json, Json::Map(_)) {
            return Err(Refused::NotAnObject);
        }
        let text = json.text();
        if text.len() > VALUE_MAX_BYTES {
            return Err(Refused::TooLarge);
        }
        Ok(Self(text.into()))
    }
}

/// A value as it lies in storage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    /// What the application sees.
    pub value: Value,
    /// When it was written; `None`: by somebody who knows nothing of stamps.
    pub stamp: Option<Stamp>,
    /// The schema it follows; 0: written by somebody who does not say.
    pub version: u32,
}

impl Stored {
    /// Reads the contents of an entity's key.
    pub fn read(text: &str) -> Result<Self, Refused> {
        let json = Json::read(text).map_err(|_| Refused::NotJson)?;
        Self::from_json(json)
    }

    /// As [`read`](Self::read), of JSON already read.
    pub fn from_json(mut json: Json) -> Result<Self, Refused> {
        let mut mark = None;
        if let Json::Map(members) = &mut json {
            members.retain(|(name, value)| {
                let ours = name == STAMP_MEMBER;
                if ours {
                    mark = value.as_text().map(str::to_owned);
                }
                !ours
            });
        }
        let mark = mark.unwrap_or_default();
        let (stamp, version) = mark.split_once('.').unwrap_or((&mark, "0"));
        Ok(Self {
            value: Value::from_json(&json)?,
            stamp: Stamp::read(stamp),
            version: version.parse().unwrap_or(0).max(u32::from(!mark.is_empty())),
        })
    }

    /// Appends the contents of an entity's key.
    pub fn write(&self, out: &mut String) {
        let text = self.value.text();
        out.push('{');
        if let Some(stamp) = self.stamp {
            out.push('"');
            out.push_str(STAMP_MEMBER);
            out.push_str("\":\"");
            out.push_str(&stamp.text());
            if self.version > 1 {
                out.push('.');
                out.push_str(&self.version.to_string());
            }
            out.push_str(if text == "{}" { "\"" } else { "\"," });
        }
        // A value begins with its brace. Slices would bring the words of a panic with them, which pages would load.
        out.push_str(text.strip_prefix('{').unwrap_or("}"));
    }

    /// The contents of an entity's key.
    #[must_use]
    pub fn text(&self) -> String {
        let mut out = String::new();
        self.write(&mut out);
        out
    }
}

/// Whether `id` may name an entity: 1 to [`ID_MAX_BYTES`] bytes without control characters.
#[must_use]
pub fn is_id(id: &str) -> bool {
    !id.is_empty() && id.len() <= ID_MAX_BYTES && !id.chars().any(char::is_control)
}

/// Why a value is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// No JSON at all, or nested more deeply than the limit allows.
    #[error("no JSON")]
    NotJson,
    /// JSON, but no object.
    #[error("not an object")]
    NotAnObject,
    /// The member that carries the stamp.
    #[error("the name is reserved")]
    Reserved,
    /// More than the limit allows.
    #[error("too large")]
    TooLarge,
}

/// Appends `"id":` and the stored value: a member of a packed object or a delta.
pub(super) fn write_member(id: &str, stored: &Stored, out: &mut String) {
    write_text(id, out);
    out.push(':');
    stored.write(out);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn st_26_a_value_comes_back_as_it_went_in() {
        let value = Value::read("{\"list\":[1e+21,\"é😀\",null],\"checked\":true}").unwrap();
        assert_eq!(value.text(), "{\"checked\":true,\"list\":[1e+21,\"é😀\",null]}");
        let stored = Stored { value, stamp: Stamp::read("0123456789abcdef"), version: 3 };
        assert_eq!(Stored::read(&stored.text()), Ok(stored.clone()));
        assert!(stored.text().starts_with("{\"sync\":\"0123456789abcdef.3\",\"checked\""));
        let empty = Stored { value: Value::read("{}").unwrap(), ..stored };
        assert_eq!(Stored::read(&empty.text()), Ok(empty));
    }

    #[test]
    fn st_26_only_objects_without_the_reserved_member_are_values() {
        for (text, why) in [
            ("[]", Refused::NotAnObject),
            ("null", Refused::NotAnObject),
            ("{\"a\":\"\\ud800\"}", Refused::NotJson),
            ("{\"a\":-Infinity}", Refused::NotJson),
            ("{\"sync\":1}", Refused::Reserved),
            ("{", Refused::NotJson),
        ] {
            assert_eq!(Value::read(text).unwrap_err(), why, "{text}");
        }
        let large = format!("{{\"a\":\"{}\"}}", "x".repeat(VALUE_MAX_BYTES));
        assert_eq!(Value::read(&large), Err(Refused::TooLarge));
        assert!(is_id("a") && is_id("日本語") && !is_id("") && !is_id("a\n") && !is_id(&"x".repeat(257)));
    }
}
