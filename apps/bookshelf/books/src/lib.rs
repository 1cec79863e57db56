//! The bookshelf's domain: what a book is, where its cover is, and how the three book APIs are spoken to.
//!
//! Nothing here does I/O or reads a clock. Requests come out as values (method, URL, headers), answers go in
//! as status and bytes; whoever sends them, paces them and retries them is elsewhere. Everything that comes
//! from outside is bounded by a named limit, and an odd answer is a typed error or a partial result, never a
//! panic.
//!
//! - [`isbn`]: the key of everything on the shelf
//! - [`book`]: a book's data, and how records from several sources become one
//! - [`cover`]: cover URLs, their compressed forms, and the 2 MiB cache of a page
//! - [`request`]: what goes out: a base URL an operator may set, and a request as a value
//! - [`answer`]: what comes back: status, `Retry-After`, and why an answer is of no use
//! - [`ndl`]: NDL Search (SRU, XML) and its thumbnails, with the rule of paging
//! - [`google`]: Google Books (JSON)
//! - [`rakuten`]: Rakuten Books (JSON)
//!
//! The last five belong to the feature `api`, on by default; without it the crate is small enough for a page.

pub mod isbn;

pub mod book;
pub mod cover;

#[cfg(feature = "api")]
pub mod answer;
#[cfg(feature = "api")]
pub mod google;
#[cfg(feature = "api")]
pub mod ndl;
#[cfg(feature = "api")]
pub mod rakuten;
#[cfg(feature = "api")]
pub mod request;
#[cfg(feature = "api")]
mod text;

pub use book::Book;
pub use cover::CoverUrl;
pub use isbn::Isbn13;
