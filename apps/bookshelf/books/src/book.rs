//! What is known about a book, and how records of several sources become one.
//!
//! The readers of answers fill a [`Book`] with bounded, tidy text. Merging takes each field from the most
//! trusted source that has it, and depends on nothing but the set of records: in which order the answers came
//! in makes no difference.

mod published;

use std::cmp::Reverse;

use serde::{Deserialize, Serialize};

use crate::cover::CoverUrl;
use crate::isbn::Isbn13;

pub use published::Published;

/// Longest text of one field, in characters. Longer ones are cut.
pub const FIELD_MAX_CHARS: usize = 500;

/// Most authors that are kept of one book.
pub const AUTHORS_MAX: usize = 30;

/// A book on the shelf.
///
/// The order is arbitrary but total: it makes choices between equals repeatable.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Book {
    /// Its number.
    pub isbn: Isbn13,
    /// Its title, without volume; empty if no source named one.
    pub title: String,
    /// How the title is read (in kana).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title_reading: Option<String>,
    /// Its volume in a work of several, as printed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume: Option<String>,
    /// The series it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub series: Option<String>,
    /// Who wrote, drew, translated or edited it, in the order of the source.
    #[serde(default)]
    pub authors: Vec<String>,
    /// Who published it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub publisher: Option<String>,
    /// When it was published, as far as known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub published: Option<Published>,
    /// Pages and size, as the catalogue says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extent: Option<String>,
    /// Its price, as the catalogue says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<String>,
    /// Its class in the Nippon Decimal Classification.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ndc: Option<String>,
    /// Where its cover is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cover: Option<CoverUrl>,
}

/// Who said it. Earlier ones are trusted more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// The National Diet Library: catalogued by people.
    Ndl,
    /// Rakuten Books: a bookseller's data, with good pictures.
    Rakuten,
    /// Google Books: the widest, and the least even.
    Google,
}

/// What one source says about a book.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// The source.
    pub source: Source,
    /// What it says.
    pub book: Book,
}

impl Book {
    /// A book of which only the number is known.
    #[must_use]
    pub fn new(isbn: Isbn13) -> Self {
        Self {
            isbn,
            title: String::new(),
            title_reading: None,
            volume: None,
            series: None,
            authors: Vec::new(),
            publisher: None,
            published: None,
            extent: None,
            price: None,
            ndc: None,
            cover: None,
        }
    }

    /// Takes from `other` what is unknown here.
    fn fill_from(&mut self, other: Self) {
        if self.title.is_empty() {
            self.title = other.title;
        }
        if self.authors.is_empty() {
            self.authors = other.authors;
        }
        self.title_reading = self.title_reading.take().or(other.title_reading);
        self.volume = self.volume.take().or(other.volume);
        self.series = self.series.take().or(other.series);
        self.publisher = self.publisher.take().or(other.publisher);
        self.published = self.published.take().or(other.published);
        self.extent = self.extent.take().or(other.extent);
        self.price = self.price.take().or(other.price);
        self.ndc = self.ndc.take().or(other.ndc);
        self.cover = self.cover.take().or(other.cover);
    }

    fn known_fields(&self) -> usize {
        let known = [
            !self.title.is_empty(),
            !self.authors.is_empty(),
            self.title_reading.is_some(),
            self.volume.is_some(),
            self.series.is_some(),
            self.publisher.is_some(),
            self.published.is_some(),
            self.extent.is_some(),
            self.price.is_some(),
            self.ndc.is_some(),
            self.cover.is_some(),
        ];
        known.into_iter().filter(|known| *known).count()
    }
}

/// One book of everything that is said about `isbn`: each field from the most trusted source that knows it.
///
/// Of several records of one source the fullest comes first. Records of other books are left out; `None` if
/// none remains.
pub fn merge(isbn: Isbn13, records: impl IntoIterator<Item = Record>) -> Option<Book> {
    let mut records: Vec<_> = records.into_iter().filter(|record| record.book.isbn == isbn).collect();
    records.sort_by(|one, other| {
        let rank = |record: &Record| (record.source, Reverse(record.book.known_fields()));
        rank(one).cmp(&rank(other)).then_with(|| one.book.cmp(&other.book))
    });
    records.into_iter().map(|record| record.book).reduce(|mut merged, next| {
        merged.fill_from(next);
        merged
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn isbn() -> Isbn13 {
        "9784000000079".parse().unwrap()
    }

    fn cover(name: &str) -> Option<CoverUrl> {
        Some(CoverUrl::parse(format!("https://example.net/{name}.jpg")).unwrap())
    }

    #[test]
    fn bk_03_each_field_comes_from_the_most_trusted_source_that_has_it() {
        let google = Book {
            title: "Tide Tables of a Small Harbour".into(),
            authors: vec!["Minato Sawako".into()],
            published: Published::parse("2021"),
            cover: cover("google"),
            ..Book::new(isbn())
        };
        let rakuten = Book {
            title: "小さな港の潮汐表".into(),
            publisher: Some("汐見書房".into()),
            cover: cover("rakuten"),
            ..Book::new(isbn())
        };
        let ndl = Book { volume: Some("2".into()), ..Book::new(isbn()) };
        let expected = Book {
            title: "小さな港の潮汐表".into(),
            volume: Some("2".into()),
            authors: vec!["Minato Sawako".into()],
            publisher: Some("汐見書房".into()),
            published: Published::parse("2021"),
            cover: cover("rakuten"),
            ..Book::new(isbn())
        };
        let records = [(Source::Google, google), (Source::Rakuten, rakuten), (Source::Ndl, ndl)];
        let records = records.map(|(source, book)| Record { source, book });
        assert_eq!(merge(isbn(), records), Some(expected));
    }

    #[test]
    fn bk_03_other_books_and_silence_give_nothing() {
        let other = Record { source: Source::Ndl, book: Book::new("9780804429573".parse().unwrap()) };
        assert_eq!(merge(isbn(), []), None);
        assert_eq!(merge(isbn(), [other]), None);
    }

    #[test]
    fn bk_03_json_names_only_what_is_known() {
        let book = Book { title: "潮".into(), published: Published::parse("2021-05"), ..Book::new(isbn()) };
        let json = serde_json::to_string(&book).unwrap();
        assert_eq!(json, r#"{"isbn":"9784000000079","title":"潮","authors":[],"published":"2021-05"}"#);
        assert_eq!(serde_json::from_str::<Book>(&json).unwrap(), book);
    }

    fn records() -> impl Strategy<Value = Vec<Record>> {
        let source = prop_oneof![Just(Source::Ndl), Just(Source::Rakuten), Just(Source::Google)];
        let text = || prop::option::of("[a-c]");
        let record =
            (source, "[a-c]?", text(), text(), text(), prop::collection::vec("[a-c]", 0..3), any::<bool>())
                .prop_map(|(source, title, volume, publisher, name, authors, same)| Record {
                    source,
                    book: Book {
                        title,
                        volume,
                        publisher,
                        authors,
                        cover: name.and_then(|name| cover(&name)),
                        ..Book::new(if same { isbn() } else { "9780804429573".parse().unwrap() })
                    },
                });
        prop::collection::vec(record, 0..7)
    }

    proptest! {
        #[test]
        fn q5_the_merge_does_not_depend_on_the_order_of_arrival(
            (one, other) in records().prop_flat_map(|records| (Just(records.clone()), Just(records).prop_shuffle()))
        ) {
            prop_assert_eq!(merge(isbn(), one), merge(isbn(), other));
        }

        #[test]
        fn q5_a_record_that_arrives_twice_changes_nothing(records in records()) {
            let twice = records.iter().cloned().chain(records.iter().cloned());
            prop_assert_eq!(merge(isbn(), twice), merge(isbn(), records));
        }
    }
}
