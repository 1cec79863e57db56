//! JSON in one canonical form: members sorted, no spaces, one way to write each string.
//!
//! Equal values have equal texts, so that comparing deeply is comparing texts. Numbers stay the digits they came as:
//! browsers write each number in one way, and the code that reads and prints floating point would be a large part
//! of the module that pages load. That is also why this is not `serde_json`.
//!
//! Text that no JSON value could come from is refused with its position: half of a surrogate pair, nesting deeper
//! than [`DEPTH_MAX`], a number JSON has no word for.

use std::borrow::Cow;
use std::sync::Arc;

use super::names::DEPTH_MAX;
use super::sorted::{Map, Set};

/// A JSON value. Members are sorted by name and unique.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Json {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number, as its digits.
    Number(String),
    /// A string.
    Text(String),
    /// An array.
    List(Vec<Json>),
    /// An object.
    Map(Vec<(String, Json)>),
}

/// Where a text stops being JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no JSON at byte {at}")]
pub struct NotJson {
    /// The byte.
    pub at: usize,
}

impl Json {
    /// Reads a whole text.
    pub fn read(text: &str) -> Result<Self, NotJson> {
        let mut reader = Reader::new(text);
        let value = reader.value(0)?;
        reader.end()?;
        Ok(value)
    }

    /// Appends the canonical text.
    pub fn write(&self, out: &mut String) {
        match self {
            Self::Null => out.push_str("null"),
            Self::Bool(true) => out.push_str("true"),
            Self::Bool(false) => out.push_str("false"),
            Self::Number(digits) => out.push_str(digits),
            Self::Text(text) => write_text(text, out),
            Self::List(items) => {
                out.push('[');
                for (position, item) in items.iter().enumerate() {
                    if position > 0 {
                        out.push(',');
                    }
                    item.write(out);
                }
                out.push(']');
            }
            Self::Map(members) => {
                out.push('{');
                for (position, (name, value)) in members.iter().enumerate() {
                    if position > 0 {
                        out.push(',');
                    }
                    write_text(name, out);
                    out.push(':');
                    value.write(out);
                }
                out.push('}');
            }
        }
    }

    /// The canonical text.
    #[must_use]
    pub fn text(&self) -> String {
        let mut out = String::new();
        self.write(&mut out);
        out
    }

    /// The member `name` of an object.
    #[must_use]
    pub fn member(&self, name: &str) -> Option<&Self> {
        let Self::Map(members) = self else { return None };
        let at = members.binary_search_by(|(other, _)| other.as_str().cmp(name)).ok()?;
        Some(&members[at].1)
    }

    /// The string this is.
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }

    /// The whole number this is.
    #[must_use]
    pub fn as_whole(&self) -> Option<u64> {
        if let Self::Number(digits) = self { digits.parse().ok() } else { None }
    }

    /// An object of `members` in any order; of two with one name the later one counts.
    #[must_use]
    pub fn map(members: Vec<(String, Self)>) -> Self {
        // Most come as they were written, in order.
        if members.is_sorted_by(|one, other| one.0 < other.0) {
            return Self::Map(members);
        }
        let mut sorted: Map<Self> = members.into_iter().collect();
        let names: Set = sorted.keys().collect();
        let member = |name: &Arc<str>| Some((name.to_string(), sorted.remove(name)?));
        Self::Map(names.iter().filter_map(member).collect())
    }
}

/// Appends `text` as a JSON string.
pub fn write_text(text: &str, out: &mut String) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            control if control < ' ' => {
                const HEX: &[u8; 16] = b"0123456789abcdef";
                out.push_str("\\u00");
                out.push(HEX[(control as usize) >> 4] as char);
                out.push(HEX[(control as usize) & 15] as char);
            }
            other => out.push(other),
        }
    }
    out.push('"');
}

/// Whether `text` is an object in canonical form that does not have the member `without`. Nothing is made of it, which takes
/// a tenth of the time of reading it. `false`: it may be one all the same, and has to be read.
pub(super) fn is_canonical(text: &str, without: &str) -> bool {
    let mut reader = Reader::new(text);
    reader.peek() == b'{' && reader.skim(0, without) && reader.at == text.len()
}

/// Reads a text part by part.
pub(super) struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    fn fail(&self) -> NotJson {
        NotJson { at: self.at }
    }

    pub(super) fn peek(&self) -> u8 {
        self.text.as_bytes().get(self.at).copied().unwrap_or(0)
    }

    /// Where it is, for [`go_back`](Self::go_back).
    pub(super) const fn place(&self) -> usize {
        self.at
    }

    pub(super) const fn go_back(&mut self, place: usize) {
        self.at = place;
    }

    /// What was read up to here, from `start` on.
    fn since(&self, start: usize) -> &'a str {
        self.text.get(start..self.at).unwrap_or_default()
    }

    /// The text ends here.
    pub(super) fn end(&mut self) -> Result<(), NotJson> {
        self.space();
        if self.at == self.text.len() { Ok(()) } else { Err(self.fail()) }
    }

    pub(super) fn space(&mut self) {
        while matches!(self.peek(), b' ' | b'\n' | b'\r' | b'\t') {
            self.at += 1;
        }
    }

    fn take(&mut self, expected: &[u8]) -> Result<(), NotJson> {
        if !self.text.as_bytes().get(self.at..).is_some_and(|rest| rest.starts_with(expected)) {
            return Err(self.fail());
        }
        self.at += expected.len();
        Ok(())
    }

    /// The value here, which is nested so deeply.
    pub(super) fn value(&mut self, depth: usize) -> Result<Json, NotJson> {
        self.space();
        if depth > DEPTH_MAX {
            return Err(self.fail());
        }
        match self.peek() {
            b'n' => self.take(b"null").map(|()| Json::Null),
            b't' => self.take(b"true").map(|()| Json::Bool(true)),
            b'f' => self.take(b"false").map(|()| Json::Bool(false)),
            b'"' => self.string().map(|text| Json::Text(text.into_owned())),
            b'[' => {
                let mut items = Vec::new();
                self.sequence(b']', |reader| {
                    items.push(reader.value(depth + 1)?);
                    Ok(())
                })?;
                Ok(Json::List(items))
            }
            b'{' => {
                let mut members = Vec::new();
                self.members(|reader, name| {
                    members.push((name.into_owned(), reader.value(depth + 1)?));
                    Ok(())
                })?;
                Ok(Json::map(members))
            }
            _ => self.number().map(|digits| Json::Number(digits.to_owned())),
        }
    }

    /// The members of an object, each to be read by `member`.
    pub(super) fn members(
        &mut self,
        mut member: impl FnMut(&mut Self, Cow<'a, str>) -> Result<(), NotJson>,
    ) -> Result<(), NotJson> {
        self.sequence(b'}', |reader| {
            let name = reader.string()?;
            reader.space();
            reader.take(b":")?;
            reader.space();
            member(reader, name)
        })
    }

    /// Passes a value in canonical form without escapes; whether it is one.
    fn skim(&mut self, depth: usize, without: &str) -> bool {
        let kind = self.peek();
        match kind {
            b'"' => self.skim_text().is_some(),
            b'n' => self.take(b"null").is_ok(),
            b't' => self.take(b"true").is_ok(),
            b'f' => self.take(b"false").is_ok(),
            b'[' | b'{' if depth > DEPTH_MAX => false,
            b'[' | b'{' => {
                let mut before = "";
                self.at += 1;
                // In ASCII a closing bracket comes two after its opening one.
                if self.peek() == kind + 2 {
                    self.at += 1;
                    return true;
                }
                loop {
                    if kind == b'{' {
                        let first = before.is_empty();
                        let Some(name) = self.skim_text().filter(|name| first || before < *name) else {
                            return false;
                        };
                        // An empty name is rare, and would be taken for none.
                        if name.is_empty() || name == without || self.take(b":").is_err() {
                            return false;
                        }
                        before = name;
                    }
                    if depth >= DEPTH_MAX || !self.skim(depth + 1, "") {
                        return false;
                    }
                    self.at += 1;
                    match self.text.as_bytes().get(self.at - 1) {
                        Some(b',') => {}
                        last => return last == Some(&(kind + 2)),
                    }
                }
            }
            _ => self.number().is_ok(),
        }
    }

    /// Passes a string without escapes.
    fn skim_text(&mut self) -> Option<&'a str> {
        self.take(b"\"").ok()?;
        let start = self.at;
        while !matches!(self.peek(), b'"' | b'\\' | 0..b' ') {
            self.at += 1;
        }
        let text = self.since(start);
        self.take(b"\"").ok()?;
        Some(text)
    }

    /// What stands between brackets, separated by commas.
    pub(super) fn sequence(
        &mut self,
        close: u8,
        mut item: impl FnMut(&mut Self) -> Result<(), NotJson>,
    ) -> Result<(), NotJson> {
        self.at += 1;
        self.space();
        if self.peek() == close {
            self.at += 1;
            return Ok(());
        }
        loop {
            self.space();
            item(self)?;
            self.space();
            if self.peek() == close {
                self.at += 1;
                return Ok(());
            }
            self.take(b",")?;
        }
    }

    fn digits(&mut self) -> Result<usize, NotJson> {
        let start = self.at;
        while self.peek().is_ascii_digit() {
            self.at += 1;
        }
        if self.at == start { Err(self.fail()) } else { Ok(self.at - start) }
    }

    fn number(&mut self) -> Result<&'a str, NotJson> {
        let start = self.at;
        if self.peek() == b'-' {
            self.at += 1;
        }
        let zero = self.peek() == b'0';
        if self.digits()? > 1 && zero {
            return Err(NotJson { at: start });
        }
        if self.peek() == b'.' {
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.peek(), b'e' | b'E') {
            self.at += 1;
            if matches!(self.peek(), b'+' | b'-') {
                self.at += 1;
            }
            self.digits()?;
        }
        let digits = self.since(start);
        if digits == "-0" {
            return Err(NotJson { at: start });
        }
        Ok(digits)
    }

    /// A string; it is copied only where it has escapes.
    pub(super) fn string(&mut self) -> Result<Cow<'a, str>, NotJson> {
        self.take(b"\"")?;
        let mut text = Cow::Borrowed("");
        loop {
            let start = self.at;
            while !matches!(self.peek(), b'"' | b'\\' | 0..b' ') {
                self.at += 1;
            }
            let part = self.since(start);
            if text.is_empty() {
                text = Cow::Borrowed(part);
            } else {
                text.to_mut().push_str(part);
            }
            match self.peek() {
                b'"' => break,
                b'\\' => {
                    let character = self.escape()?;
                    text.to_mut().push(character);
                }
                // Also the end of the text, which reads as a zero.
                _ => return Err(self.fail()),
            }
        }
        self.at += 1;
        Ok(text)
    }

    fn escape(&mut self) -> Result<char, NotJson> {
        let start = NotJson { at: self.at };
        let kind = self.text.as_bytes().get(self.at + 1).copied().unwrap_or(0);
        self.at += 2;
        Ok(match kind {
            b'"' | b'\\' | b'/' => kind as char,
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'u' => {
                let first = self.unit()?;
                let units = if (0xd800..0xdc00).contains(&first) {
                    self.take(b"\\u").map_err(|_| start)?;
                    [first, self.unit()?]
                } else {
                    [first, 0]
                };
                let decoded = char::decode_utf16(units).next();
                decoded.and_then(Result::ok).ok_or(start)?
            }
            _ => return Err(start),
        })
    }

    fn unit(&mut self) -> Result<u16, NotJson> {
        let mut unit = 0;
        for _ in 0..4 {
            let digit = (self.peek() as char).to_digit(16).ok_or(self.fail())?;
            unit = unit << 4 | digit as u16;
            self.at += 1;
        }
        Ok(unit)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn st_13_equal_values_have_equal_texts() {
        for (text, canonical) in [
            ("{ \"b\" : [ 1 , -2.5e+3 ] , \"a\" : null }", "{\"a\":null,\"b\":[1,-2.5e+3]}"),
            ("{\"a\":1,\"a\":2}", "{\"a\":2}"),
            ("\"\\u0041\\/\\u00e9\\ud83d\\ude00\\b\"", "\"A/é😀\\u0008\""),
            (" [] ", "[]"),
            ("{}", "{}"),
            ("[true,false,0,\"\"]", "[true,false,0,\"\"]"),
        ] {
            assert_eq!(Json::read(text).unwrap().text(), canonical, "{text}");
        }
    }

    #[test]
    fn st_26_what_is_not_json_is_refused_with_its_place() {
        for (text, at) in [
            ("", 0),
            ("nul", 0),
            ("[1,]", 3),
            ("{\"a\"}", 4),
            ("01", 0),
            ("-0", 0),
            ("1.", 2),
            ("NaN", 0),
            ("\"\\ud800\"", 1),
            ("\"\\ud800\\u0041\"", 1),
            ("\"\\udc00\"", 1),
            ("\"\\x\"", 1),
            ("\"open", 5),
            ("1 2", 2),
        ] {
            assert_eq!(Json::read(text), Err(NotJson { at }), "{text}");
        }
        let deep = |levels| "[".repeat(levels) + &"]".repeat(levels);
        assert!(Json::read(&deep(DEPTH_MAX)).is_ok());
        assert!(Json::read(&deep(100_000)).is_err(), "and the stack holds");
    }

    proptest! {
        #[test]
        fn st_26_no_text_breaks_the_reader_and_what_it_reads_it_writes(text in ".{0,40}", junk in "[\\[\\]{}\",:\\\\u0-9dte. -]{0,30}") {
            let mut quoted = String::new();
            write_text(&text, &mut quoted);
            prop_assert_eq!(Json::read(&quoted), Ok(Json::Text(text)));
            if let Ok(value) = Json::read(&junk) {
                prop_assert_eq!(Json::read(&value.text()), Ok(value));
            }
        }

        #[test]
        fn st_26_what_passes_for_canonical_is(junk in "\\{[\\[\\]{}\",:\\\\ab0-9dtelurfns. -]{0,12}\\}", number in "-?[0-9.eE+-]{1,5}") {
            for text in [junk, format!("{{\"a\":{number}}}")] {
                if is_canonical(&text, "") {
                    prop_assert_eq!(Json::read(&text).map(|json| json.text()), Ok(text));
                }
            }
        }
    }

    #[test]
    fn st_26_canonical_texts_pass_and_others_are_read() {
        let deep = |levels: usize| format!("{}[]{}", "{\"a\":".repeat(levels), "}".repeat(levels));
        for text in ["{}", "{\"a\":[1,{\"b\":null,\"c\":\"é\"}],\"b\":-2.5e+3}", &deep(DEPTH_MAX)] {
            assert!(is_canonical(text, "sync"), "{text}");
            assert_eq!(Json::read(text).unwrap().text(), text);
        }
        for text in [
            "",
            "[]",
            "{ }",
            "{\"b\":1,\"a\":2}",
            "{\"a\":1,\"a\":2}",
            "{\"a\":1,}",
            "{\"a\":\"\\n\"}",
            "{\"a\":1",
            "{\"a\":1}}",
            "{\"sync\":1}",
            "{\"a\":[1}",
            &deep(DEPTH_MAX + 1),
        ] {
            assert!(!is_canonical(text, "sync"), "{text}");
        }
        assert!(is_canonical("{\"a\":{\"sync\":1}}", "sync"), "it is reserved at the top alone");
    }
}
