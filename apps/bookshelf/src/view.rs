//! The bookshelf as others see it: in answers and in events.

use crate::shelf_store::{Cover, Find, Search, Shelved};
use serde::Serialize;
use syncline_books::Isbn13;
use syncline_books::book::Book;
use syncline_books::cover::Compressed;
use syncline_books::isbn::Invalid;
use syncline_core::text::excerpt;
use utoipa::ToSchema;

/// What became of scans.
#[derive(Debug, Default, Serialize, ToSchema)]
pub struct Scanned {
    /// Books that are on the shelf now.
    pub scans: Vec<Scan>,
    /// What is no ISBN.
    pub refused: Vec<RefusedScan>,
}

/// A scanned book.
#[derive(Debug, Serialize, ToSchema)]
pub struct Scan {
    /// Its ISBN-13.
    pub isbn: String,
    /// `searching`, or `found` if it was there before.
    pub state: &'static str,
}

/// Something scanned that is no ISBN.
#[derive(Debug, Serialize, ToSchema)]
pub struct RefusedScan {
    /// What was scanned.
    pub input: String,
    /// What is wrong with it, and what to do.
    pub reason: String,
}

impl RefusedScan {
    pub(super) fn new(input: &str, invalid: Invalid) -> RefusedScan {
        RefusedScan { input: excerpt(input), reason: format!("{invalid}; {}", invalid.hint()) }
    }
}

/// A book on the shelf, or in a collection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct BookView {
    /// Its ISBN-13.
    pub isbn: String,
    /// Its title; empty while it is not known.
    pub title: String,
    /// How the title is read.
    pub title_reading: Option<String>,
    /// Its volume in a work of several.
    pub volume: Option<String>,
    /// The series it belongs to.
    pub series: Option<String>,
    /// Who made it.
    pub authors: Vec<String>,
    /// Who published it.
    pub publisher: Option<String>,
    /// When it was published: a year, a month or a day.
    pub published: Option<String>,
    /// Pages and size.
    pub extent: Option<String>,
    /// Its price.
    pub price: Option<String>,
    /// Its class in the Nippon Decimal Classification.
    pub ndc: Option<String>,
    /// `searching` or `found`.
    pub state: &'static str,
    /// Where its cover is.
    pub cover: Option<String>,
    /// `waiting` while it is being looked for, `found`, or `none`.
    pub cover_state: &'static str,
    /// When it was scanned, in milliseconds since 1970; absent in collections.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub added_at: Option<u64>,
}

impl BookView {
    pub(super) fn of(shelved: &Shelved) -> BookView {
        let added_at = Some(shelved.added_at.as_ms());
        BookView { added_at, ..BookView::new(&shelved.isbn, shelved.book.as_deref(), &shelved.cover) }
    }

    fn new(isbn: &str, book: Option<&str>, cover: &Cover) -> BookView {
        let read: Option<Book> = book.and_then(|book| serde_json::from_str(book).ok());
        let (url, cover_state) = match cover {
            Cover::Unknown => (None, "waiting"),
            Cover::None => (None, "none"),
            Cover::At(compressed) => match expanded(isbn, compressed) {
                Some(url) => (Some(url), "found"),
                None => (None, "none"),
            },
        };
        let (state, read) = match read {
            Some(read) => ("found", Some(read)),
            None => ("searching", None),
        };
        let mut view = BookView {
            isbn: isbn.to_owned(),
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
            state,
            cover: url,
            cover_state,
            added_at: None,
        };
        if let Some(book) = read {
            view.published = book.published.map(|published| published.to_string());
            (view.title, view.title_reading, view.authors) = (book.title, book.title_reading, book.authors);
            (view.volume, view.series, view.publisher) = (book.volume, book.series, book.publisher);
            (view.extent, view.price, view.ndc) = (book.extent, book.price, book.ndc);
        }
        view
    }
}

/// A part of the shelf.
#[derive(Debug, Serialize, ToSchema)]
pub struct BooksPage {
    /// Books, newest first.
    pub books: Vec<BookView>,
    /// How many there are in all.
    pub total: u64,
    /// What to pass as `after` for the books that follow; `null` at the end.
    pub next: Option<String>,
}

/// A saved search.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct SearchView {
    /// Its number.
    pub id: i64,
    /// What it looks for.
    #[schema(value_type = Object)]
    pub search: serde_json::Value,
    /// `searching` until its collection is as new as the last time it was asked for, then `found`.
    pub state: &'static str,
    /// Books in its collection.
    pub count: u64,
    /// Records the library has, if it said so.
    pub total: Option<u64>,
    /// How the last search ended: `complete`, `cap` or `not-advancing`.
    pub ending: Option<String>,
    /// When it was saved, asked for and found, in milliseconds since 1970.
    pub created_at: u64,
    /// When it was last asked for.
    pub asked_at: u64,
    /// When its collection was made.
    pub found_at: Option<u64>,
}

impl SearchView {
    pub(super) fn of(search: &Search) -> SearchView {
        let is_new = search.found_at.is_some_and(|found_at| found_at >= search.asked_at);
        SearchView {
            id: search.id,
            search: serde_json::from_str(&search.search).unwrap_or_default(),
            state: if is_new { "found" } else { "searching" },
            count: search.finds,
            total: search.total,
            ending: search.ending.clone(),
            created_at: search.created_at.as_ms(),
            asked_at: search.asked_at.as_ms(),
            found_at: search.found_at.map(syncline_core::time::Timestamp::as_ms),
        }
    }
}

/// A part of a collection.
#[derive(Debug, Serialize, ToSchema)]
pub struct FindsPage {
    /// The search it belongs to.
    #[serde(flatten)]
    pub search: SearchView,
    /// Books in the library's order.
    pub books: Vec<BookView>,
    /// What to pass as `after` for the books that follow; `null` at the end.
    pub next: Option<u64>,
}

impl FindsPage {
    pub(super) fn of(search: &Search, finds: &[Find], limit: usize) -> FindsPage {
        let next = finds.last().filter(|_| finds.len() == limit).map(|find| find.position + 1);
        let books = finds.iter().map(|find| BookView::new(&find.isbn, Some(&find.book), &find.cover));
        FindsPage { search: SearchView::of(search), books: books.collect(), next }
    }
}

/// The URL that `compressed` stands for.
fn expanded(isbn: &str, compressed: &str) -> Option<String> {
    let parts: Vec<String> = serde_json::from_str(compressed).ok()?;
    let isbn = Isbn13::parse(isbn).ok()?;
    let url = Compressed::from_parts(isbn, &parts).ok()?.expand(isbn).ok()?;
    Some(url.to_string())
}
