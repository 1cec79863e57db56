//! What an entity may hold, and how it is stored.
//!
//! Storage areas change what they cannot keep without a word: dates become `{}`, not-a-number becomes nothing, half a
//! surrogate pair becomes a question mark. So values are encoded here, member by member, and what would not come
//! back as it went in is refused with its path. The stored form is the value itself with one member more, its stamp,
//! which readers that know nothing of it may ignore.

use std::sync::Arc;

use super::json::{Json, is_number, write_text};
use super::names::{DEPTH_MAX, ID_MAX_BYTES, STAMP_MEMBER, VALUE_MAX_BYTES};
use super::stamp::Stamp;

/// A JSON object in its canonical form.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Value(Arc<str>);

impl Value {
    /// Checks the text of an object.
    pub fn read(text: &str) -> Result<Self, Refused> {
        if text.len() > VALUE_MAX_BYTES {
            return Err(Refused { path: String::new(), why: Why::TooLarge });
        }
        let json = Json::read(text).map_err(|_| Refused { path: String::new(), why: Why::NotJson })?;
        if json.member(STAMP_MEMBER).is_some() {
            return Err(Refused { path: STAMP_MEMBER.to_owned(), why: Why::Reserved });
        }
        Self::from_json(&json)
    }

    /// The canonical text.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.0
    }

    fn from_json(json: &Json) -> Result<Self, Refused> {
        let why = if !matches!(json, Json::Map(_)) {
            Why::NotAnObject
        } else {
            let text = json.text();
            if text.len() <= VALUE_MAX_BYTES {
                return Ok(Self(text.into()));
            }
            Why::TooLarge
        };
        Err(Refused { path: String::new(), why })
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
        let json = Json::read(text).map_err(|_| Refused { path: String::new(), why: Why::NotJson })?;
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

/// A value that is not taken, and the place in it that is the reason.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{why}", place(path))]
pub struct Refused {
    /// Members and positions from the outside in: `list.2.due`. Empty: the value as a whole.
    pub path: String,
    /// What is wrong there.
    pub why: Why,
}

/// Why a value is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Why {
    /// No JSON at all.
    #[error("no JSON")]
    NotJson,
    /// JSON, but no object.
    #[error("not an object")]
    NotAnObject,
    /// Not a number, infinite, or negative zero.
    #[error("a number that JSON cannot hold")]
    Number,
    /// Half of a surrogate pair.
    #[error("text with half a surrogate pair")]
    Surrogate,
    /// Something that is no data: a function, a date, `undefined`.
    #[error("{0} cannot be stored")]
    Foreign(&'static str),
    /// The member that carries the stamp.
    #[error("the name is reserved")]
    Reserved,
    /// More than the limit allows.
    #[error("too large")]
    TooLarge,
    /// Nested more deeply than the limit allows, or in itself.
    #[error("nested too deeply")]
    TooDeep,
}

fn place(path: &str) -> String {
    if path.is_empty() { String::new() } else { format!("{path}: ") }
}

/// Encodes a value whose parts another language hands over one by one, depth first.
///
/// The first refusal is kept and is what [`finish`](Self::finish) returns.
#[derive(Debug, Default)]
pub struct Encoder {
    /// Open objects and arrays with what they hold so far.
    open: Vec<Open>,
    done: Option<Json>,
    refused: Option<Refused>,
    bytes: usize,
}

#[derive(Debug)]
enum Open {
    List(Vec<Json>),
    Map { members: Vec<(String, Json)>, name: String },
}

impl Encoder {
    /// An object begins.
    pub fn begin_map(&mut self) {
        self.begin(Open::Map { members: Vec::new(), name: String::new() });
    }

    /// An array begins.
    pub fn begin_list(&mut self) {
        self.begin(Open::List(Vec::new()));
    }

    /// The object or array that was opened last is complete.
    pub fn end(&mut self) {
        match self.open.pop() {
            Some(Open::List(items)) => self.put(Json::List(items)),
            Some(Open::Map { members, .. }) => self.put(Json::map(members)),
            None => self.refuse(Why::NotAnObject),
        }
    }

    /// The name of the member that comes next.
    pub fn name(&mut self, utf16: &[u16]) {
        let text = String::from_utf16(utf16);
        let outermost = self.open.len() == 1;
        if let Some(Open::Map { name, .. }) = self.open.last_mut() {
            *name = String::from_utf16_lossy(utf16);
        }
        match text {
            Err(_) => self.refuse(Why::Surrogate),
            Ok(text) if outermost && text == STAMP_MEMBER => self.refuse(Why::Reserved),
            Ok(text) => self.weigh(text.len()),
        }
    }

    /// A string, as UTF-16.
    pub fn text(&mut self, utf16: &[u16]) {
        match String::from_utf16(utf16) {
            Ok(text) => {
                self.weigh(text.len());
                self.put(Json::Text(text));
            }
            Err(_) => self.refuse(Why::Surrogate),
        }
    }

    /// A number, as the language prints it; negative zero as `-0`.
    pub fn number(&mut self, digits: &str) {
        if is_number(digits) {
            self.put(Json::Number(digits.to_owned()));
        } else {
            self.refuse(Why::Number);
        }
    }

    /// `true` or `false`.
    pub fn bool(&mut self, is: bool) {
        self.put(Json::Bool(is));
    }

    /// `null`.
    pub fn null(&mut self) {
        self.put(Json::Null);
    }

    /// Something that is no data; `what` names it.
    pub fn foreign(&mut self, what: &'static str) {
        self.refuse(Why::Foreign(what));
    }

    /// The value, or the first thing that is wrong with it.
    pub fn finish(self) -> Result<Value, Refused> {
        match (self.refused, self.done) {
            (Some(refused), _) => Err(refused),
            (None, Some(json)) => Value::from_json(&json),
            (None, None) => Err(Refused { path: String::new(), why: Why::NotAnObject }),
        }
    }

    /// Whether nothing that follows can change the answer, so that a caller may stop early.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        self.refused.is_some()
    }

    fn begin(&mut self, open: Open) {
        // Something that holds itself ends here too.
        if self.open.len() > DEPTH_MAX {
            self.refuse(Why::TooDeep);
        } else {
            self.open.push(open);
        }
    }

    fn weigh(&mut self, bytes: usize) {
        self.bytes += bytes;
        if self.bytes > VALUE_MAX_BYTES {
            self.refuse(Why::TooLarge);
        }
    }

    fn put(&mut self, json: Json) {
        self.weigh(1);
        match self.open.last_mut() {
            _ if self.refused.is_some() => {}
            Some(Open::List(items)) => items.push(json),
            Some(Open::Map { members, name }) => members.push((std::mem::take(name), json)),
            None => self.done = Some(json),
        }
    }

    fn refuse(&mut self, why: Why) {
        if self.refused.is_some() {
            return;
        }
        let mut path = String::new();
        for open in &self.open {
            if !path.is_empty() {
                path.push('.');
            }
            match open {
                Open::List(items) => path.push_str(&items.len().to_string()),
                Open::Map { name, .. } => path.push_str(name),
            }
        }
        self.refused = Some(Refused { path, why });
    }
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

    fn utf16(text: &str) -> Vec<u16> {
        text.encode_utf16().collect()
    }

    #[test]
    fn st_26_a_value_comes_back_as_it_went_in() {
        let mut encoder = Encoder::default();
        encoder.begin_map();
        encoder.name(&utf16("list"));
        encoder.begin_list();
        encoder.number("1e+21");
        encoder.text(&utf16("é😀"));
        encoder.null();
        encoder.end();
        encoder.name(&utf16("checked"));
        encoder.bool(true);
        encoder.end();
        let value = encoder.finish().unwrap();
        assert_eq!(value.text(), "{\"checked\":true,\"list\":[1e+21,\"é😀\",null]}");
        let stored = Stored { value, stamp: Stamp::read("0123456789abcdef"), version: 3 };
        assert_eq!(Stored::read(&stored.text()), Ok(stored.clone()));
        assert!(stored.text().starts_with("{\"sync\":\"0123456789abcdef.3\",\"checked\""));
        let empty = Stored { value: Value::read("{}").unwrap(), ..stored };
        assert_eq!(Stored::read(&empty.text()), Ok(empty));
    }

    #[test]
    fn st_26_what_would_be_lost_is_refused_with_its_path() {
        let refuse = |part: &dyn Fn(&mut Encoder)| {
            let mut encoder = Encoder::default();
            encoder.begin_map();
            encoder.name(&utf16("list"));
            encoder.begin_list();
            encoder.null();
            encoder.begin_map();
            encoder.name(&utf16("due"));
            part(&mut encoder);
            for _ in 0..3 {
                encoder.end();
            }
            encoder.finish().unwrap_err().to_string()
        };
        for number in ["NaN", "Infinity", "-Infinity", "-0"] {
            let told = refuse(&|encoder| encoder.number(number));
            assert_eq!(told, "list.1.due: a number that JSON cannot hold");
        }
        assert_eq!(refuse(&|encoder| encoder.foreign("a Date")), "list.1.due: a Date cannot be stored");
        assert_eq!(refuse(&|e| e.text(&[0x41, 0xd800])), "list.1.due: text with half a surrogate pair");
        assert!(refuse(&|e| (0..100).for_each(|_| e.begin_list())).ends_with("nested too deeply"));
        assert_eq!(refuse(&|e| e.text(&vec![0x41; VALUE_MAX_BYTES])), "list.1.due: too large");
    }

    #[test]
    fn st_26_only_objects_without_the_reserved_member_are_values() {
        for (text, why) in [
            ("[]", Why::NotAnObject),
            ("null", Why::NotAnObject),
            ("{\"a\":\"\\ud800\"}", Why::NotJson),
            ("{\"sync\":1}", Why::Reserved),
            ("{", Why::NotJson),
        ] {
            assert_eq!(Value::read(text).unwrap_err().why, why, "{text}");
        }
        let mut encoder = Encoder::default();
        encoder.begin_map();
        encoder.name(&utf16("sync"));
        encoder.null();
        encoder.end();
        assert_eq!(encoder.finish().unwrap_err(), Refused { path: "sync".to_owned(), why: Why::Reserved });
        assert!(is_id("a") && is_id("日本語") && !is_id("") && !is_id("a\n") && !is_id(&"x".repeat(257)));
    }
}
