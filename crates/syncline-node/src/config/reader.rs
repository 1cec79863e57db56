//! Reads `syncline.toml` value by value, remembering where each one stands.
//!
//! Guarantees: whatever is wrong ends up in the [`Report`] with line, column and key; a key nobody asked for is an error,
//! and the keys that were asked for are the ones it is compared with. What values mean is left to the callers.

use std::cell::RefCell;
use std::ops::{Range, RangeInclusive};
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::problem::{Place, Problem, closest};

/// A file's text and everything found wrong in it so far.
pub(crate) struct Report {
    path: PathBuf,
    text: String,
    problems: RefCell<Vec<Problem>>,
}

impl Report {
    pub(super) fn new(path: &Path, text: String) -> Report {
        Report { path: path.to_owned(), text, problems: RefCell::default() }
    }

    /// The document, or `None` after noting why it is not TOML.
    pub(super) fn parse(&self) -> Option<Spanned<DeTable<'_>>> {
        DeTable::parse(&self.text)
            .map_err(|error| {
                let at = error.span().unwrap_or(0..0);
                self.note(at, String::new(), error.message().replace('\n', "; "), None);
            })
            .ok()
    }

    pub(super) fn into_problems(self) -> Vec<Problem> {
        self.problems.into_inner()
    }

    fn note(&self, span: Range<usize>, key: String, what: String, hint: Option<String>) {
        let place = self.place(span);
        self.push(Problem { place, key, what, hint });
    }

    pub(super) fn push(&self, problem: Problem) {
        self.problems.borrow_mut().push(problem);
    }

    fn place(&self, span: Range<usize>) -> Place {
        let before = &self.text[..span.start.min(self.text.len())];
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().map_or(0, |tail| tail.chars().count()) + 1;
        Place::File { path: self.path.clone(), line, column }
    }
}

/// A value and where it stands.
#[derive(Clone)]
pub struct Found<T> {
    /// The value.
    pub value: T,
    span: Range<usize>,
    key: String,
}

/// One table of the file, or an absent one that answers every question with `None`.
pub struct Section<'a> {
    report: &'a Report,
    path: String,
    span: Range<usize>,
    table: Option<&'a DeTable<'a>>,
    asked: RefCell<Vec<&'static str>>,
}

impl<'a> Section<'a> {
    pub(crate) fn root(report: &'a Report, document: Option<&'a Spanned<DeTable<'a>>>) -> Section<'a> {
        Section {
            report,
            path: String::new(),
            span: 0..0,
            table: document.map(Spanned::get_ref),
            asked: RefCell::default(),
        }
    }

    /// A text.
    pub fn text(&self, key: &'static str) -> Option<Found<&'a str>> {
        self.value(key, "a text in quotes", DeValue::as_str)
    }

    /// True or false.
    pub fn boolean(&self, key: &'static str) -> Option<bool> {
        self.value(key, "true or false", DeValue::as_bool).map(|found| found.value)
    }

    /// A whole number within `range`.
    pub fn integer(&self, key: &'static str, range: RangeInclusive<u64>) -> Option<u64> {
        let expected = format!("a whole number from {} to {}", range.start(), range.end());
        let found = self.value(key, &expected, |value| {
            let integer = value.as_integer()?;
            u64::from_str_radix(&integer.as_str().replace('_', ""), integer.radix()).ok()
        })?;
        if range.contains(&found.value) {
            return Some(found.value);
        }
        self.wrong(&found, format!("expected {expected}, found {}", found.value));
        None
    }

    /// A number within `range`.
    pub fn number(&self, key: &'static str, range: RangeInclusive<f64>) -> Option<f64> {
        let expected = format!("a number from {} to {}", range.start(), range.end());
        let found = self.value(key, &expected, |value| {
            let digits = match value {
                DeValue::Float(float) => float.as_str(),
                DeValue::Integer(integer) if integer.radix() == 10 => integer.as_str(),
                _ => return None,
            };
            digits.replace('_', "").parse::<f64>().ok()
        })?;
        if range.contains(&found.value) {
            return Some(found.value);
        }
        self.wrong(&found, format!("expected {expected}, found {}", found.value));
        None
    }

    /// A list of texts; each keeps its own place.
    pub fn texts(&self, key: &'static str) -> Option<Vec<Found<&'a str>>> {
        let list = self.value(key, "a list of texts", DeValue::as_array)?;
        let items = list.value.iter().enumerate().map(|(index, item)| {
            self.convert(format!("{}[{index}]", list.key), item, "a text in quotes", DeValue::as_str)
        });
        items.collect()
    }

    /// The table under `key`; an absent one reads as empty.
    pub fn section(&self, key: &'static str) -> Section<'a> {
        let found = self.value(key, "a table", DeValue::as_table);
        let (span, table) = found.map_or((self.span.clone(), None), |found| (found.span, Some(found.value)));
        Section { report: self.report, path: self.path_of(key), span, table, asked: RefCell::default() }
    }

    /// The tables under `key`: `None` if there is no such key, so that `key = []` can mean "none at all".
    pub fn sections(&self, key: &'static str) -> Option<Vec<Section<'a>>> {
        let list =
            self.value(key, "tables, each opened by double brackets, or an empty list", DeValue::as_array)?;
        let tables = list.value.iter().enumerate().filter_map(|(index, item)| {
            let found = self.convert(format!("{}[{index}]", list.key), item, "a table", DeValue::as_table)?;
            Some(Section {
                report: self.report,
                path: found.key,
                span: found.span,
                table: Some(found.value),
                asked: RefCell::default(),
            })
        });
        Some(tables.collect())
    }

    /// Whether `key` is there, and as what kind of value.
    pub fn kind(&self, key: &'static str) -> Option<&'static str> {
        self.entry(key).map(|(_, value)| value.get_ref().type_str())
    }

    /// Every key with a text value, for tables whose keys are the user's own.
    pub fn pairs(&self) -> Vec<(Found<&'a str>, Found<&'a str>)> {
        let Some(table) = self.table else { return Vec::new() };
        let pairs = table.iter().filter_map(|(name, value)| {
            let key = self.path_of(name.get_ref());
            let value = self.convert(key.clone(), value, "a text in quotes", DeValue::as_str)?;
            let name = Found { value: name.get_ref().as_ref(), span: name.span(), key };
            Some((name, value))
        });
        pairs.collect()
    }

    /// Notes that `key` ought to be here.
    pub fn missing(&self, key: &'static str, expected: &str) {
        if self.table.is_some() && self.entry(key).is_none() {
            self.report.note(
                self.span.clone(),
                self.path_of(key),
                format!("missing, expected {expected}"),
                None,
            );
        }
    }

    /// Notes what is wrong with a value that was of the right type.
    pub fn wrong<T>(&self, found: &Found<T>, what: String) {
        self.report.note(found.span.clone(), found.key.clone(), what, None);
    }

    /// Notes what is wrong with the value under `key`, whatever its type.
    pub fn forbid(&self, key: &'static str, what: &str) {
        if let Some((_, value)) = self.entry(key) {
            self.report.note(value.span(), self.path_of(key), what.to_owned(), None);
        }
    }

    /// Notes that `found` is none of the `known` words, and which one it may have been meant to be.
    pub fn unknown_word(&self, found: &Found<&str>, known: &[&str]) {
        let what = format!("expected one of {}, found {:?}", known.join(", "), found.value);
        let hint = closest(found.value, known.iter().copied()).map(|word| format!("did you mean {word:?}?"));
        self.report.note(found.span.clone(), found.key.clone(), what, hint);
    }

    /// Where a value stands.
    pub fn place<T>(&self, found: &Found<T>) -> Place {
        self.report.place(found.span.clone())
    }

    /// Notes every key that nobody asked for. Call it last.
    pub fn finish(&self) {
        let Some(table) = self.table else { return };
        let asked = self.asked.borrow();
        for name in table.keys() {
            let word = name.get_ref().as_ref();
            if asked.contains(&word) {
                continue;
            }
            let hint = match closest(word, asked.iter().copied()) {
                Some(meant) => format!("did you mean `{meant}`?"),
                None => format!("known here: {}", asked.join(", ")),
            };
            self.report.note(name.span(), self.path_of(word), "unknown key".to_owned(), Some(hint));
        }
    }

    fn value<T>(
        &self,
        key: &'static str,
        expected: &str,
        read: impl FnOnce(&'a DeValue<'a>) -> Option<T>,
    ) -> Option<Found<T>> {
        let (_, value) = self.entry(key)?;
        self.convert(self.path_of(key), value, expected, read)
    }

    fn convert<T>(
        &self,
        key: String,
        value: &'a Spanned<DeValue<'a>>,
        expected: &str,
        read: impl FnOnce(&'a DeValue<'a>) -> Option<T>,
    ) -> Option<Found<T>> {
        let span = value.span();
        match read(value.get_ref()) {
            Some(value) => Some(Found { value, span, key }),
            None => {
                let found = value.get_ref().type_str();
                self.report.note(
                    span,
                    key,
                    format!("expected {expected}, found a value of type {found}"),
                    None,
                );
                None
            }
        }
    }

    fn entry(
        &self,
        key: &'static str,
    ) -> Option<(&'a Spanned<toml::de::DeString<'a>>, &'a Spanned<DeValue<'a>>)> {
        if !self.asked.borrow().contains(&key) {
            self.asked.borrow_mut().push(key);
        }
        self.table?.iter().find(|(name, _)| name.get_ref() == key)
    }

    fn path_of(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }
}
