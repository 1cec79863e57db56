//! The International Standard Book Number, always in its 13-digit form.
//!
//! An [`Isbn13`] that exists is right: prefix 978 or 979, check digit verified. People type and scan it with
//! hyphens, spaces, full-width digits or as the older ISBN-10; all of these are read and mean the same key.
//! Whether a book with that number exists is for the libraries to say.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Longest text that is looked at: generous for a number of 13 digits with any kind of separators.
pub const TEXT_MAX_BYTES: usize = 64;

/// A verified ISBN-13. Order is the order of the numbers.
///
/// Held as the nine digits between prefix and check digit, plus 1,000,000,000 for prefix 979: all there is to
/// know in four bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Isbn13(u32);

const PREFIX_979: u32 = 1_000_000_000;

impl Isbn13 {
    /// Reads an ISBN-13 or ISBN-10, with or without hyphens and spaces, and verifies its check digit.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        // As scanners and databases write it: most are.
        if let Ok(digits) = text.as_bytes().try_into()
            && text.bytes().all(|byte| byte.is_ascii_digit())
        {
            return from_thirteen(digits);
        }
        let text = text.trim();
        if text.len() > TEXT_MAX_BYTES {
            return Err(Invalid::TooLong { bytes: text.len() });
        }
        let (digits, len) = significant(text)?;
        match len {
            0 => Err(Invalid::Empty),
            10 => from_ten(&digits),
            13 => from_thirteen(&digits),
            digits => Err(Invalid::Length { digits }),
        }
    }

    /// The 13 digits as ASCII.
    #[must_use]
    pub fn digits(self) -> [u8; 13] {
        let mut digits = if self.0 < PREFIX_979 { *b"9780000000000" } else { *b"9790000000000" };
        let mut rest = self.0 % PREFIX_979;
        for digit in digits[3..12].iter_mut().rev() {
            *digit = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        digits[12] = check_thirteen(&digits);
        digits
    }

    /// The ISBN-10 of the same book; only the prefix 978 has one.
    #[must_use]
    pub fn to_isbn10(self) -> Option<String> {
        if self.0 >= PREFIX_979 {
            return None;
        }
        let nine = &self.digits()[3..12];
        Some(nine.iter().chain(&[check_ten(nine)]).map(|digit| char::from(*digit)).collect())
    }

    /// The number in its four-byte form, below 2,000,000,000.
    pub(crate) const fn number(self) -> u32 {
        self.0
    }

    /// The inverse of [`number`](Self::number).
    pub(crate) const fn from_number(number: u32) -> Option<Self> {
        // 979-0 belongs to printed music.
        if number >= 2 * PREFIX_979 || (number >= PREFIX_979 && number < PREFIX_979 + PREFIX_979 / 10) {
            return None;
        }
        Some(Self(number))
    }
}

/// Why a text is not an ISBN.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Invalid {
    /// Nothing but separators.
    #[error("the ISBN is empty")]
    Empty,
    /// Longer than [`TEXT_MAX_BYTES`].
    #[error("the text is {bytes} bytes long; an ISBN has at most {TEXT_MAX_BYTES}")]
    TooLong {
        /// How long it is.
        bytes: usize,
    },
    /// A character that no ISBN has, or an X that is not the tenth character.
    #[error("{character:?} at position {position} does not belong in an ISBN")]
    Character {
        /// The character.
        character: char,
        /// Where it stands, counted in characters from 1.
        position: usize,
    },
    /// Neither 10 nor 13 digits.
    #[error("an ISBN has 13 or 10 digits, not {digits}")]
    Length {
        /// How many there are.
        digits: usize,
    },
    /// 13 digits of something else.
    #[error("an ISBN-13 begins with 978 or 979, not {prefix:03}")]
    Prefix {
        /// How it begins.
        prefix: u16,
    },
    /// The second barcode of a Japanese book: its class and price.
    #[error("this is the price barcode of a Japanese book, not its ISBN")]
    PriceBarcode,
    /// 979-0: an ISMN.
    #[error("979-0 is the number of printed music, not an ISBN")]
    Music,
    /// A digit was misread or mistyped.
    #[error("the check digit is {found}, but the other digits call for {expected}")]
    CheckDigit {
        /// What it should be.
        expected: char,
        /// What it is.
        found: char,
    },
}

impl Invalid {
    /// What the person at the scanner can do about it.
    #[must_use]
    pub const fn hint(self) -> &'static str {
        match self {
            Self::PriceBarcode => "scan the upper of the two barcodes, the one that begins with 978",
            Self::CheckDigit { .. } => "compare the digits with the back of the book",
            Self::Music => "only books can be looked up",
            _ => "an ISBN looks like 978-4-00-000000-0 or 4-00-000000-0",
        }
    }
}

/// The digits of `text` as ASCII, `X` included, and how many there are (more than 13 are counted, not kept).
fn significant(text: &str) -> Result<([u8; 13], usize), Invalid> {
    let mut digits = [0; 13];
    let mut len = 0;
    for (index, character) in text.chars().enumerate() {
        let digit = match character {
            '0'..='9' => character as u8,
            '０'..='９' => b'0' + (character as u32 - '０' as u32) as u8,
            'X' | 'x' | 'Ｘ' | 'ｘ' if len == 9 => b'X',
            ' ' | '\u{3000}' | '\u{a0}' | '-' | '‐' | '‑' | '‒' | '–' | '—' | '−' | 'ー' | '－' =>
            {
                continue;
            }
            _ => return Err(Invalid::Character { character, position: index + 1 }),
        };
        if let Some(place) = digits.get_mut(len) {
            *place = digit;
        }
        len += 1;
    }
    Ok((digits, len))
}

fn from_ten(digits: &[u8; 13]) -> Result<Isbn13, Invalid> {
    let (nine, found) = (&digits[..9], digits[9]);
    verify(check_ten(nine), found)?;
    Ok(Isbn13(value(nine)))
}

fn from_thirteen(digits: &[u8; 13]) -> Result<Isbn13, Invalid> {
    // The tenth character may have been an X; here it is one too many letters.
    if digits[9] == b'X' {
        return Err(Invalid::Length { digits: 13 });
    }
    let base = match &digits[..3] {
        b"978" => 0,
        b"979" if digits[3] == b'0' => return Err(Invalid::Music),
        b"979" => PREFIX_979,
        b"191" | b"192" => return Err(Invalid::PriceBarcode),
        other => return Err(Invalid::Prefix { prefix: value(other) as u16 }),
    };
    verify(check_thirteen(digits), digits[12])?;
    Ok(Isbn13(base + value(&digits[3..12])))
}

fn verify(expected: u8, found: u8) -> Result<(), Invalid> {
    if expected == found {
        return Ok(());
    }
    Err(Invalid::CheckDigit { expected: char::from(expected), found: char::from(found) })
}

/// The number that at most nine ASCII digits spell.
fn value(digits: &[u8]) -> u32 {
    digits.iter().fold(0, |sum, digit| sum * 10 + u32::from(digit - b'0'))
}

/// The check digit that belongs to the first twelve digits: weights 1 and 3, modulo 10.
fn check_thirteen(digits: &[u8; 13]) -> u8 {
    let sum: u32 = digits[..12].iter().zip([1, 3].iter().cycle()).map(|(d, w)| u32::from(d - b'0') * w).sum();
    b'0' + ((10 - sum % 10) % 10) as u8
}

/// The check character that belongs to nine digits: weights 10 down to 2, modulo 11.
fn check_ten(nine: &[u8]) -> u8 {
    let sum: u32 =
        nine.iter().zip((2..=10).rev()).map(|(digit, weight)| u32::from(digit - b'0') * weight).sum();
    match (11 - sum % 11) % 11 {
        10 => b'X',
        digit => b'0' + digit as u8,
    }
}

impl fmt::Display for Isbn13 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(std::str::from_utf8(&self.digits()).expect("digits are ASCII"))
    }
}

impl fmt::Debug for Isbn13 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Isbn13({self})")
    }
}

impl FromStr for Isbn13 {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        Self::parse(text)
    }
}

impl Serialize for Isbn13 {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Isbn13 {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        Self::parse(&text).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn bk_01_every_way_of_writing_an_isbn_is_the_same_key() {
        let cases = [
            ("9784000000079", "9784000000079"),
            ("978-4-00-000007-9", "9784000000079"),
            (" 978 4 00 000007 9\r\n", "9784000000079"),
            ("９７８－４－００－０００００７－９", "9784000000079"),
            ("978‐4‐00‐000007‐9", "9784000000079"),
            ("4-00-000007-1", "9784000000079"),
            ("4000000071", "9784000000079"),
            ("080442957X", "9780804429573"),
            ("0-8044-2957-x", "9780804429573"),
            ("０８０４４２９５７Ｘ", "9780804429573"),
            ("979-8-88645-174-0", "9798886451740"),
        ];
        for (text, isbn) in cases {
            assert_eq!(Isbn13::parse(text).map(|isbn| isbn.to_string()), Ok(isbn.into()), "{text:?}");
        }
    }

    #[test]
    fn bk_01_anything_else_is_refused_with_the_reason() {
        let cases = [
            ("", Invalid::Empty),
            (" - ", Invalid::Empty),
            ("978400000007", Invalid::Length { digits: 12 }),
            ("97840000000790", Invalid::Length { digits: 14 }),
            ("978400000X079", Invalid::Length { digits: 13 }),
            ("9784000000078", Invalid::CheckDigit { expected: '9', found: '8' }),
            ("4000000072", Invalid::CheckDigit { expected: '1', found: '2' }),
            ("0804429570", Invalid::CheckDigit { expected: 'X', found: '0' }),
            ("4006381333931", Invalid::Prefix { prefix: 400 }),
            ("1920093012004", Invalid::PriceBarcode),
            ("9790345246805", Invalid::Music),
            ("97840000X0079", Invalid::Character { character: 'X', position: 9 }),
            ("978-4-00-00000a-9", Invalid::Character { character: 'a', position: 15 }),
            ("ISBN 9784000000079", Invalid::Character { character: 'I', position: 1 }),
            ("9784000000079;DROP", Invalid::Character { character: ';', position: 14 }),
        ];
        for (text, reason) in cases {
            assert_eq!(Isbn13::parse(text), Err(reason), "{text:?}");
            assert!(!reason.hint().is_empty());
        }
        let long = "9".repeat(TEXT_MAX_BYTES + 1);
        assert_eq!(Isbn13::parse(&long), Err(Invalid::TooLong { bytes: TEXT_MAX_BYTES + 1 }));
    }

    #[test]
    fn bk_01_only_978_has_an_isbn_10() {
        assert_eq!(Isbn13::parse("9780804429573").unwrap().to_isbn10().as_deref(), Some("080442957X"));
        assert_eq!(Isbn13::parse("9798886451740").unwrap().to_isbn10(), None);
    }

    #[test]
    fn bk_01_json_carries_the_thirteen_digits_and_is_verified_on_the_way_in() {
        let isbn: Isbn13 = serde_json::from_str("\"4-00-000007-1\"").unwrap();
        assert_eq!(serde_json::to_string(&isbn).unwrap(), "\"9784000000079\"");
        let error = serde_json::from_str::<Isbn13>("\"9784000000078\"").unwrap_err();
        assert!(error.to_string().contains("check digit is 8"), "{error}");
    }

    proptest! {
        #[test]
        fn bk_01_every_number_survives_text_and_isbn_10(number in 0..2 * PREFIX_979) {
            let Some(isbn) = Isbn13::from_number(number) else {
                prop_assert!((1_000_000_000..1_100_000_000).contains(&number));
                return Ok(());
            };
            prop_assert_eq!(Isbn13::parse(&isbn.to_string()), Ok(isbn));
            match isbn.to_isbn10() {
                Some(ten) => prop_assert_eq!(Isbn13::parse(&ten), Ok(isbn)),
                None => prop_assert!(isbn.to_string().starts_with("979")),
            }
        }

        #[test]
        fn bk_01_one_wrong_digit_is_always_noticed(number in 0..PREFIX_979, at in 3..13_usize, by in 1..10_u8) {
            let mut digits = Isbn13::from_number(number).unwrap().digits();
            digits[at] = b'0' + (digits[at] - b'0' + by) % 10;
            let text = std::str::from_utf8(&digits).unwrap();
            let noticed = matches!(Isbn13::parse(text), Err(Invalid::CheckDigit { .. }));
            prop_assert!(noticed, "{}", text);
        }

        #[test]
        fn bk_01_no_text_makes_the_reader_panic(text in any::<String>()) {
            let _ = Isbn13::parse(&text);
        }
    }
}
