//! What to look for in the library's catalogue, as a value, a key and a request.
//!
//! A [`Search`] is one ISBN or a saved search of several terms that must all hold. Its JSON is its key in the
//! queues: equal searches have equal keys. Terms become quoted CQL, so nothing typed into a search can change
//! its structure.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use super::page::RECORDS_MAX;
use crate::book::Published;
use crate::isbn::Isbn13;
use crate::request::{Base, Request};

/// Longest term, in characters.
pub const TERM_MAX_CHARS: usize = 200;

/// How many records are asked for at once: few enough for an answer within seconds, many enough to seldom turn
/// the page.
pub const PAGE_RECORDS: u32 = 200;

/// What to look for. All that is given must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Search {
    /// One book.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub isbn: Option<Isbn13>,
    /// Words anywhere in the record.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub any: Option<String>,
    /// Words of the title.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// An author.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub creator: Option<String>,
    /// A publisher.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub publisher: Option<String>,
    /// A class of the Nippon Decimal Classification; its first digits suffice.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ndc: Option<String>,
    /// Published then or later.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<Published>,
    /// Published then or earlier.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Published>,
}

/// One page of one search: the key of a single request.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PageKey {
    /// What to look for.
    pub search: Search,
    /// The first record wanted, counted from 1.
    pub start_record: u32,
}

impl Search {
    /// Looks for one book.
    #[must_use]
    pub fn of_isbn(isbn: Isbn13) -> Self {
        Self { isbn: Some(isbn), ..Self::default() }
    }

    /// The search as text: JSON with its fields in a fixed order, so that equal searches are equal texts.
    #[must_use]
    pub fn key(&self) -> String {
        serde_json::to_string(self).expect("texts and numbers always serialise")
    }

    /// Reads a key back, checking it as if it had been typed.
    pub fn from_key(key: &str) -> Result<Self, InvalidSearch> {
        let search: Self = serde_json::from_str(key).map_err(|_| InvalidSearch::Key)?;
        search.cql()?;
        Ok(search)
    }

    /// The search in the query language of SRU.
    pub fn cql(&self) -> Result<String, InvalidSearch> {
        let isbn = self.isbn.map(|isbn| isbn.to_string());
        let (from, until) = (self.from.map(|date| date.to_string()), self.until.map(|date| date.to_string()));
        let terms = [
            ("isbn", isbn.as_deref()),
            ("anywhere", self.any.as_deref()),
            ("title", self.title.as_deref()),
            ("creator", self.creator.as_deref()),
            ("publisher", self.publisher.as_deref()),
            ("ndc", self.ndc.as_deref()),
            ("from", from.as_deref()),
            ("until", until.as_deref()),
        ];
        let mut cql = String::new();
        for (index, term) in terms.into_iter().filter_map(|(index, term)| Some((index, term?))) {
            let separator = if cql.is_empty() { "" } else { " AND " };
            let _ = write!(cql, "{separator}{index}={}", quote(index, term)?);
        }
        if self.isbn.is_none() {
            if [&self.any, &self.title, &self.creator, &self.publisher, &self.ndc]
                .iter()
                .all(|term| term.is_none())
            {
                return Err(InvalidSearch::Empty);
            }
            // Articles and recordings have no ISBN and would only fill the pages.
            cql.push_str(" AND mediatype=\"books\"");
        }
        Ok(cql)
    }

    /// Asks for the page that begins with record `start_record` (from 1) and has at most `records` records.
    pub fn request(&self, base: &Base, start_record: u32, records: u32) -> Result<Request, InvalidSearch> {
        let query = [
            ("operation", "searchRetrieve"),
            ("version", "1.2"),
            ("recordSchema", "dcndl"),
            ("recordPacking", "xml"),
            ("onlyBib", "true"),
            ("startRecord", &start_record.max(1).to_string()),
            ("maximumRecords", &records.clamp(1, RECORDS_MAX as u32).to_string()),
            ("query", &self.cql()?),
        ];
        Ok(Request::get(base.endpoint(&["api", "sru"]), &query, "application/xml"))
    }
}

impl PageKey {
    /// The first page of a search.
    #[must_use]
    pub const fn first(search: Search) -> Self {
        Self { search, start_record: 1 }
    }

    /// The page as text, equal for equal pages.
    #[must_use]
    pub fn key(&self) -> String {
        serde_json::to_string(self).expect("texts and numbers always serialise")
    }

    /// Reads a key back, checking it as if it had been typed.
    pub fn from_key(key: &str) -> Result<Self, InvalidSearch> {
        let page: Self = serde_json::from_str(key).map_err(|_| InvalidSearch::Key)?;
        page.search.cql()?;
        Ok(page)
    }
}

/// Why a search cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidSearch {
    /// Nothing to look for; dates alone would bring the whole library.
    #[error("the search names nothing to look for")]
    Empty,
    /// A term of nothing but spaces.
    #[error("the search for {field} is empty")]
    EmptyTerm {
        /// Which.
        field: &'static str,
    },
    /// A term longer than [`TERM_MAX_CHARS`].
    #[error("the search for {field} has {characters} characters; at most {TERM_MAX_CHARS} are allowed")]
    TooLong {
        /// Which.
        field: &'static str,
        /// How long it is.
        characters: usize,
    },
    /// A term with a control character.
    #[error("the search for {field} has a control character")]
    ControlCharacter {
        /// Which.
        field: &'static str,
    },
    /// Not the JSON of a search.
    #[error("the key is not that of a search")]
    Key,
}

/// A term in quotation marks, with everything that CQL would read as more than itself escaped.
fn quote(field: &'static str, term: &str) -> Result<String, InvalidSearch> {
    let term = term.trim();
    let characters = term.chars().count();
    if characters == 0 {
        return Err(InvalidSearch::EmptyTerm { field });
    }
    if characters > TERM_MAX_CHARS {
        return Err(InvalidSearch::TooLong { field, characters });
    }
    if term.contains(char::is_control) {
        return Err(InvalidSearch::ControlCharacter { field });
    }
    let mut quoted = String::from("\"");
    for character in term.chars() {
        if matches!(character, '"' | '\\' | '*' | '?' | '^') {
            quoted.push('\\');
        }
        quoted.push(character);
    }
    quoted.push('"');
    Ok(quoted)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(text: &str) -> Option<String> {
        Some(text.into())
    }

    #[test]
    fn bk_02_an_isbn_search_is_one_request() {
        let search = Search::of_isbn("9784000000079".parse().unwrap());
        let base = Base::parse(super::super::BASE_URL).unwrap();
        let request = search.request(&base, 1, PAGE_RECORDS).unwrap();
        assert_eq!(
            request.url,
            "https://ndlsearch.ndl.go.jp/api/sru?operation=searchRetrieve&version=1.2&recordSchema=dcndl\
             &recordPacking=xml&onlyBib=true&startRecord=1&maximumRecords=200&query=isbn%3D%229784000000079%22"
        );
        assert_eq!(search.key(), r#"{"isbn":"9784000000079"}"#);
        assert_eq!(request.headers, [("accept", "application/xml")]);
    }

    #[test]
    fn bk_02_a_saved_search_joins_its_terms_and_stays_within_the_limits() {
        let search = Search {
            title: text(" 潮汐 "),
            creator: text("湊 さわこ"),
            ndc: text("913"),
            from: Published::parse("2019-04"),
            until: Published::parse("2021"),
            ..Search::default()
        };
        assert_eq!(
            search.cql().unwrap(),
            "title=\"潮汐\" AND creator=\"湊 さわこ\" AND ndc=\"913\" AND from=\"2019-04\" AND until=\"2021\" \
             AND mediatype=\"books\""
        );
        let base = Base::parse("http://127.0.0.1:4000").unwrap();
        let url = search.request(&base, 0, 9_999).unwrap().url;
        assert!(url.starts_with("http://127.0.0.1:4000/api/sru?"), "{url}");
        assert!(url.contains("&startRecord=1&maximumRecords=500&"), "{url}");
    }

    #[test]
    fn bk_02_a_search_for_nothing_or_too_much_is_refused() {
        let cases = [
            (Search::default(), InvalidSearch::Empty),
            (Search { from: Published::parse("2020"), ..Search::default() }, InvalidSearch::Empty),
            (Search { any: text("  "), ..Search::default() }, InvalidSearch::EmptyTerm { field: "anywhere" }),
            (
                Search { title: Some("長".repeat(201)), ..Search::default() },
                InvalidSearch::TooLong { field: "title", characters: 201 },
            ),
            (
                Search { ndc: text("9\n1"), ..Search::default() },
                InvalidSearch::ControlCharacter { field: "ndc" },
            ),
        ];
        for (search, reason) in cases {
            assert_eq!(search.cql(), Err(reason));
        }
        for key in ["", "[]", "{}", r#"{"isbn":"1"}"#, r#"{"title":"a","x":1}"#, r#"{"title":7}"#] {
            assert!(Search::from_key(key).is_err(), "{key}");
        }
    }

    proptest! {
        #[test]
        fn bk_02_no_term_escapes_its_quotation_marks(term in "[ -~潮]{1,20}") {
            let search = Search { title: Some(term.clone()), ..Search::default() };
            let Ok(cql) = search.cql() else { return Ok(()) };
            let inner = cql.strip_prefix("title=\"").unwrap().strip_suffix("\" AND mediatype=\"books\"").unwrap();
            let mut unescaped = String::new();
            let mut characters = inner.chars();
            while let Some(character) = characters.next() {
                prop_assert_ne!(character, '"');
                unescaped.push(if character == '\\' { characters.next().unwrap() } else { character });
            }
            prop_assert_eq!(unescaped, term.trim());
        }

        #[test]
        fn bk_02_equal_pages_have_equal_keys_and_keys_read_back(title in "[^\u{0}-\u{1f}\u{7f}-\u{9f} ]{1,20}", start in 1..u32::MAX) {
            prop_assume!(!title.trim().is_empty());
            let search = Search { title: Some(title), ..Search::default() };
            let page = PageKey { search: search.clone(), start_record: start };
            prop_assert_eq!(PageKey::from_key(&page.key()), Ok(page));
            prop_assert_eq!(Search::from_key(&search.key()), Ok(search));
        }
    }
}
