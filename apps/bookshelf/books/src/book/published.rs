//! A date of publication as far as it is known: a year, a month, or a day.
//!
//! Catalogues and shops write it in many ways (`2021-05`, `2021.5`, `[2021]`, `2021年05月中旬`, `c2021`); all of
//! them become the same text. What is not clearly a date is left out, never guessed.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A year, or a month of a year, or a day of a month.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Published {
    year: u16,
    month: Option<u8>,
    day: Option<u8>,
}

impl Published {
    /// Reads the date at the start of `text`, as precisely as it is given. `None` without a year of four digits.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut rest = text.trim_start_matches(is_lead);
        let (year, digits) = number(&mut rest)?;
        let year = (digits == 4 && year >= 1000).then_some(year)?;
        let mut part = |most: u16| {
            rest = rest.trim_start_matches(is_separator);
            let (value, digits) = number(&mut rest)?;
            (digits <= 2 && (1..=most).contains(&value)).then_some(value as u8)
        };
        let month = part(12);
        let day = month.and_then(|_| part(31));
        Some(Self { year, month, day })
    }

    /// The year.
    #[must_use]
    pub const fn year(self) -> u16 {
        self.year
    }

    /// The month, from 1, if known.
    #[must_use]
    pub const fn month(self) -> Option<u8> {
        self.month
    }

    /// The day of the month, from 1, if known.
    #[must_use]
    pub const fn day(self) -> Option<u8> {
        self.day
    }
}

/// What cataloguers put before a year: brackets, the copyright sign, "c" and "p".
fn is_lead(character: char) -> bool {
    character.is_whitespace() || matches!(character, '[' | '(' | '［' | '（' | '©' | 'c' | 'p' | '℗')
}

fn is_separator(character: char) -> bool {
    character.is_whitespace() || matches!(character, '-' | '.' | '/' | '年' | '月' | '．')
}

/// Takes the digits at the start of `rest`: their value and how many there are (none or more than four: `None`).
fn number(rest: &mut &str) -> Option<(u16, usize)> {
    let mut value = 0;
    let mut digits = 0;
    let mut characters = rest.chars();
    loop {
        let after = characters.as_str();
        let digit = match characters.next() {
            Some(character @ '0'..='9') => character as u16 - '0' as u16,
            Some(character @ '０'..='９') => (character as u32 - '０' as u32) as u16,
            _ => {
                *rest = after;
                return (digits > 0).then_some((value, digits));
            }
        };
        digits += 1;
        if digits > 4 {
            return None;
        }
        value = value * 10 + digit;
    }
}

impl fmt::Display for Published {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}", self.year)?;
        for part in [self.month, self.day].into_iter().flatten() {
            write!(f, "-{part:02}")?;
        }
        Ok(())
    }
}

impl Serialize for Published {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Published {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| serde::de::Error::custom("not a date of publication"))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn bk_04_dates_of_all_three_sources_are_read() {
        for (text, date) in [
            ("2021", "2021"),
            ("2021-05", "2021-05"),
            ("2021-05-09", "2021-05-09"),
            ("2021.5", "2021-05"),
            ("2021. 5. 9", "2021-05-09"),
            ("２０２１．５", "2021-05"),
            ("[2021]", "2021"),
            ("c2021", "2021"),
            ("©2021", "2021"),
            ("2021年05月09日", "2021-05-09"),
            ("2021年05月09日頃", "2021-05-09"),
            ("2021年05月中旬", "2021-05"),
            ("2021年", "2021"),
            ("1998（平成10）年3月", "1998"),
            ("2021-13", "2021"),
            ("2021-5-32", "2021-05"),
            ("2021-00", "2021"),
            ("2021-2022", "2021"),
            ("2021-05-09T00:00:00Z", "2021-05-09"),
        ] {
            assert_eq!(Published::parse(text).map(|date| date.to_string()).as_deref(), Some(date), "{text}");
        }
        for text in ["", "平成10年3月", "20210509", "21-05", "0021", "soon", "-2021", "199-"] {
            assert_eq!(Published::parse(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn bk_04_a_date_survives_its_text_and_nothing_panics(text in "[0-9０-９年月日. -]{0,12}", any in any::<String>()) {
            let _ = Published::parse(&any);
            if let Some(date) = Published::parse(&text) {
                prop_assert_eq!(Published::parse(&date.to_string()), Some(date));
            }
        }
    }
}
