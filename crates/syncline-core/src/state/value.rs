//! What an entity may hold, and how it is stored.
//!
//! Storage areas change what they cannot keep without a word: dates become `{}`, not-a-number becomes nothing, half a
//! surrogate pair becomes a question mark. So values come as JSON, are read here and written in one canonical form; who makes
//! JSON of values of another language refuses what would be lost (`js/state-value.js`). The stored form is the value itself
//! with one member more, its stamp, which readers that know nothing of it may ignore.

use std::sync::Arc;

use super::json::{Json, is_canonical, write_text};
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
        if is_canonical(text, STAMP_MEMBER) {
            return Ok(Self(text.into()));
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
    /// When the entity was added that it is a value of; `None`: it was added with this value.
    pub added: Option<Stamp>,
    /// The schema it follows; 0: written by somebody who does not say.
    pub version: u32,
}

impl Stored {
    /// Of two values of one entity the one with the higher rank counts. What was changed before the entity was removed and added
    /// again does not, whatever the clock of the one who changed it said.
    pub(super) fn rank(&self) -> (Stamp, Stamp) {
        let stamp = self.stamp.unwrap_or_default();
        (self.added.unwrap_or(stamp), stamp)
    }

    /// Reads the contents of an entity's key.
    pub fn read(text: &str) -> Result<Self, Refused> {
        if let Some(stored) = Self::read_ours(text) {
            return Ok(stored);
        }
        let json = Json::read(text).map_err(|_| Refused::NotJson)?;
        Self::from_json(json)
    }

    /// As [`write`](Self::write) wrote it, which most of what is read was. `None`: perhaps not.
    fn read_ours(text: &str) -> Option<Self> {
        let rest = text.strip_prefix("{\"")?.strip_prefix(STAMP_MEMBER)?.strip_prefix("\":\"")?;
        let (mark, rest) = rest.split_once('"')?;
        let (stamp, version, added) = read_mark(mark);
        // A comma and no member behind it is no JSON.
        let members = if rest == "}" { rest } else { rest.strip_prefix(',').filter(|rest| *rest != "}")? };
        let value = ["{", members].concat();
        let ours = stamp.is_some() && version > 0 && value.len() <= VALUE_MAX_BYTES;
        let plain = mark.bytes().all(|byte| byte > b' ' && byte != b'\\');
        if !ours || !plain || !is_canonical(&value, STAMP_MEMBER) {
            return None;
        }
        Some(Self { value: Value(value.into()), stamp, added, version })
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
        let (stamp, version, added) = read_mark(&mark.unwrap_or_default());
        Ok(Self { value: Value::from_json(&json)?, stamp, added, version })
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
            let added = self.added.filter(|added| *added != stamp);
            if self.version > 1 || added.is_some() {
                out.push('.');
                out.push_str(&self.version.to_string());
            }
            if let Some(added) = added {
                out.push('.');
                out.push_str(&added.text());
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

/// The stamp, the version of the schema and the stamp of the addition in a stored value's mark.
fn read_mark(mark: &str) -> (Option<Stamp>, u32, Option<Stamp>) {
    let (stamp, rest) = mark.split_once('.').unwrap_or((mark, "0"));
    let (version, added) = rest.split_once('.').unwrap_or((rest, ""));
    let version = version.parse().unwrap_or(0).max(u32::from(!mark.is_empty()));
    (Stamp::read(stamp), version, Stamp::read(added))
}

/// Whether `id` may name an entity: 1 to [`ID_MAX_BYTES`] bytes without control characters.
#[must_use]
pub fn is_id(id: &str) -> bool {
    let mut before = 0;
    // Control characters are those below the space, the one above the tilde, and thirty-two that take two bytes.
    let is_control = |byte: u8| {
        let lead = std::mem::replace(&mut before, byte);
        byte < b' ' || byte == 0x7f || lead == 0xc2 && byte < 0xa0
    };
    !id.is_empty() && id.len() <= ID_MAX_BYTES && !id.bytes().any(is_control)
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
        let stored = Stored { value, stamp: Stamp::read("0123456789abcdef"), added: None, version: 3 };
        assert_eq!(Stored::read(&stored.text()), Ok(stored.clone()));
        assert!(stored.text().starts_with("{\"sync\":\"0123456789abcdef.3\",\"checked\""));
        let empty = Stored { value: Value::read("{}").unwrap(), ..stored };
        assert_eq!(Stored::read(&empty.text()), Ok(empty.clone()));
        let changed = Stored { added: Stamp::read("0---------------"), version: 1, ..empty };
        assert_eq!(changed.text(), "{\"sync\":\"0123456789abcdef.1.0---------------\"}");
        assert_eq!(Stored::read(&changed.text()), Ok(changed));
    }

    /// What is read the short way is read the same as the long way.
    #[test]
    fn st_26_stored_values_are_read_alike_both_ways() {
        for text in [
            "{\"sync\":\"0123456789abcdef\",\"a\":[1,{}]}",
            "{\"sync\":\"0123456789abcdef.12\"}",
            "{\"sync\":\"0123456789abcdef.12.0---------------\",\"a\":1}",
            "{\"sync\":\"0123456789abcdef.12.0-\",\"a\":1}",
            "{\"sync\":\"0123456789abcdef.x\",\"a\":1}",
            "{\"sync\":\"0123456789abcdef\u{1}.2\",\"a\":1}",
            "{\"sync\":\"0123456789abcdef.\u{1}\",\"a\":1}",
            "{\"sync\":\"0123456789abcdef.\\n\",\"a\":1}",
            "{\"sync\":\"\",\"a\":1}",
            "{\"sync\":\"0123456789abcdef\",}",
            "{\"sync\":\"0123456789abcdef\",\"sync\":1}",
            "{\"sync\":\"0123456789abcdef\",\"b\":1,\"a\":2}",
            "{\"sync\":\"0123456789abcdef\" ,\"a\":2}",
        ] {
            let long = Json::read(text).map_err(|_| Refused::NotJson).and_then(Stored::from_json);
            assert_eq!(Stored::read(text), long, "{text}");
        }
    }

    #[test]
    fn st_26_no_control_character_is_in_an_id() {
        for character in (0..0x0011_0000).filter_map(char::from_u32) {
            let id = ['x', character, 'y'].iter().collect::<String>();
            assert_eq!(is_id(&id), !character.is_control(), "{character:?}");
        }
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
