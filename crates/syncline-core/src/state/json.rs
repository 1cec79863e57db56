//! JSON in one canonical form: members sorted, no spaces, one way to write each string.
//!
//! Equal values have equal texts, so that comparing deeply is comparing texts. Numbers stay the digits they came as:
//! browsers write each number in one way, and the code that reads and prints floating point would be a large part
//! of the module that pages load. That is also why this is not `serde_json`.
//!
//! Text that no JSON value could come from is refused with its position: half of a surrogate pair, nesting deeper
//! than [`DEPTH_MAX`], a number JSON has no word for.

use super::names::DEPTH_MAX;
use super::sorted::Map;

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
        let mut reader = Reader { bytes: text.as_bytes(), at: 0 };
        let value = reader.value(0)?;
        reader.space();
        if reader.at == reader.bytes.len() { Ok(value) } else { Err(reader.fail()) }
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
        Self::Map(members.into_iter().collect::<Map<_>>().into_iter().collect())
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

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn fail(&self) -> NotJson {
        NotJson { at: self.at }
    }

    fn peek(&self) -> u8 {
        self.bytes.get(self.at).copied().unwrap_or(0)
    }

    fn space(&mut self) {
        while matches!(self.peek(), b' ' | b'\n' | b'\r' | b'\t') {
            self.at += 1;
        }
    }

    fn take(&mut self, expected: &[u8]) -> Result<(), NotJson> {
        if !self.bytes[self.at..].starts_with(expected) {
            return Err(self.fail());
        }
        self.at += expected.len();
        Ok(())
    }

    fn value(&mut self, depth: usize) -> Result<Json, NotJson> {
        self.space();
        if depth > DEPTH_MAX {
            return Err(self.fail());
        }
        match self.peek() {
            b'n' => self.take(b"null").map(|()| Json::Null),
            b't' => self.take(b"true").map(|()| Json::Bool(true)),
            b'f' => self.take(b"false").map(|()| Json::Bool(false)),
            b'"' => self.string().map(Json::Text),
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
                self.sequence(b'}', |reader| {
                    let name = reader.string()?;
                    reader.space();
                    reader.take(b":")?;
                    members.push((name, reader.value(depth + 1)?));
                    Ok(())
                })?;
                Ok(Json::map(members))
            }
            _ => self.number(),
        }
    }

    /// What stands between brackets, separated by commas.
    fn sequence(
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

    fn number(&mut self) -> Result<Json, NotJson> {
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
        let digits = &self.bytes[start..self.at];
        if digits == b"-0" {
            return Err(NotJson { at: start });
        }
        Ok(Json::Number(digits.iter().map(|&byte| byte as char).collect()))
    }

    fn string(&mut self) -> Result<String, NotJson> {
        self.take(b"\"")?;
        let mut text = Vec::new();
        loop {
            match self.peek() {
                b'"' => break,
                b'\\' => {
                    let character = self.escape()?;
                    text.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                }
                // Also the end of the text, which reads as a zero.
                0..b' ' => return Err(self.fail()),
                byte => {
                    text.push(byte);
                    self.at += 1;
                }
            }
        }
        self.at += 1;
        String::from_utf8(text).map_err(|_| self.fail())
    }

    fn escape(&mut self) -> Result<char, NotJson> {
        let start = NotJson { at: self.at };
        let kind = self.bytes.get(self.at + 1).copied().unwrap_or(0);
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
    }
}
