//! The shelf port: scanned books, their covers, and saved searches with what they found.
//!
//! Guarantees, on every engine: a scanned ISBN is there once, and for good once [`Shelf::add`] has answered; what is
//! written about a book that was removed meanwhile does not bring it back; the finds of a search change all at once.
//! What a book, a cover or a search means is the bookshelf's business: here they are texts of bounded size.

use async_trait::async_trait;
use syncline_core::time::Timestamp;

use crate::Error;

pub(crate) mod sql;

/// Most books on the shelf.
pub const BOOKS_MAX: usize = 100_000;
/// Most ISBNs in one call.
pub const ADD_MAX: usize = 1_000;
/// Most books in one listing.
pub const LIST_MAX: usize = 1_000;
/// Most saved searches.
pub const SEARCHES_MAX: usize = 200;
/// Most finds of one search.
pub const FINDS_MAX: usize = 20_000;
/// Longest book, as the bookshelf writes it.
pub const BOOK_MAX_BYTES: usize = 128 * 1_024;
/// Longest cover or search.
pub const TEXT_MAX_BYTES: usize = 4 * 1_024;
/// Longest ISBN.
pub const ISBN_MAX_BYTES: usize = 32;

/// A book on the shelf.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shelved {
    /// Its place: later ones have greater numbers.
    pub id: i64,
    /// Its ISBN.
    pub isbn: String,
    /// What is known of it; `None` while it is being looked for.
    pub book: Option<String>,
    /// What is known of its cover.
    pub cover: Cover,
    /// When it was scanned.
    pub added_at: Timestamp,
}

/// What is known of a cover.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cover {
    /// Nothing yet.
    Unknown,
    /// There is none.
    None,
    /// Where it is, compressed.
    At(String),
}

/// A saved search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Search {
    /// Its number.
    pub id: i64,
    /// What is looked for.
    pub search: String,
    /// When it was saved.
    pub created_at: Timestamp,
    /// When it was last asked for.
    pub asked_at: Timestamp,
    /// When its finds were last replaced.
    pub found_at: Option<Timestamp>,
    /// How many records the library has, if it said so.
    pub total: Option<u64>,
    /// How the last search ended.
    pub ending: Option<String>,
    /// How many books were found.
    pub finds: u64,
}

/// A book that a search found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Find {
    /// Its place among the finds, from 0.
    pub position: u64,
    /// Its ISBN.
    pub isbn: String,
    /// What is known of it.
    pub book: String,
    /// What is known of its cover.
    pub cover: Cover,
}

/// What a search brought.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// ISBN and book, in order.
    pub books: Vec<(String, String)>,
    /// How many records the library has, if it said so.
    pub total: Option<u64>,
    /// How it ended.
    pub ending: String,
}

/// Books, covers and saved searches.
#[async_trait]
pub trait Shelf: Send + Sync {
    /// Puts ISBNs on the shelf, in order, and tells for each whether it is new there.
    async fn add(&self, isbns: &[String]) -> Result<Vec<bool>, Error>;

    /// Writes down what was found of a book; the book as it is now, or `None` if it is not on the shelf.
    async fn found(&self, isbn: &str, book: &str) -> Result<Option<Shelved>, Error>;

    /// Writes down where a cover is, or that there is none; the book if it is on the shelf.
    async fn set_cover(&self, isbn: &str, cover: Option<&str>) -> Result<Option<Shelved>, Error>;

    /// Takes a book off the shelf and tells whether it was there.
    async fn remove(&self, isbn: &str) -> Result<bool, Error>;

    /// One book.
    async fn book(&self, isbn: &str) -> Result<Option<Shelved>, Error>;

    /// Up to `limit` books, newest first, from behind the book with the number `after` on.
    async fn books(&self, after: Option<i64>, limit: usize) -> Result<Vec<Shelved>, Error>;

    /// How many books there are.
    async fn count(&self) -> Result<u64, Error>;

    /// ISBNs still being looked for, oldest first, from behind the book with the number `after` on.
    async fn searching(&self, after: i64, limit: usize) -> Result<Vec<(i64, String)>, Error>;

    /// Saves a search, or marks one that was saved before as asked for again.
    async fn save_search(&self, search: &str) -> Result<Search, Error>;

    /// Changes what a saved search looks for. Its finds stay until there are others. `None` if there is no such search;
    /// one that looks for the same already is refused.
    async fn change_search(&self, id: i64, search: &str) -> Result<Option<Search>, Error>;

    /// Replaces what a search found; `None` if nobody saved this search.
    async fn collect(&self, search: &str, found: &Found) -> Result<Option<Search>, Error>;

    /// All saved searches, oldest first.
    async fn searches(&self) -> Result<Vec<Search>, Error>;

    /// One of them.
    async fn search(&self, id: i64) -> Result<Option<Search>, Error>;

    /// Up to `limit` finds of a search, from `from` on.
    async fn finds(&self, id: i64, from: u64, limit: usize) -> Result<Vec<Find>, Error>;

    /// Forgets a search with its finds and tells whether there was one.
    async fn remove_search(&self, id: i64) -> Result<bool, Error>;
}
