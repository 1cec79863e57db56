//! What both engines say the same way: statements, bounds, and rows as values.

use sqlx::{ColumnIndex, Database, Decode, FromRow, Row, Type};
use syncline_core::time::Timestamp;

use super::{
    ADD_MAX, BOOK_MAX_BYTES, BOOKS_MAX, Cover, FINDS_MAX, Find, Found, ISBN_MAX_BYTES, LIST_MAX,
    SEARCHES_MAX, Search, Shelved, TEXT_MAX_BYTES,
};
use crate::Error;

/// A book beside its cover.
macro_rules! books {
    () => {
        "SELECT b.id, b.isbn, b.book, b.added_at, c.isbn IS NOT NULL AS cover_known, c.cover \
         FROM syncline.shelf_books b LEFT JOIN syncline.shelf_covers c ON c.isbn = b.isbn "
    };
}

/// A search beside the number of its finds, which are numbered without gaps.
macro_rules! searches {
    () => {
        "SELECT s.id, s.search, s.created_at, s.asked_at, s.found_at, s.total, s.ending, \
         (SELECT coalesce(max(f.position) + 1, 0) FROM syncline.shelf_finds f WHERE f.search_id = s.id) AS finds \
         FROM syncline.shelf_searches s "
    };
}

pub(crate) const ADD: &str =
    "INSERT INTO syncline.shelf_books (isbn, added_at) VALUES ($1, $2) ON CONFLICT (isbn) DO NOTHING";
pub(crate) const FOUND: &str = "UPDATE syncline.shelf_books SET book = $2 WHERE isbn = $1";
pub(crate) const SET_COVER: &str = "INSERT INTO syncline.shelf_covers (isbn, cover, found_at) VALUES ($1, $2, $3) \
     ON CONFLICT (isbn) DO UPDATE SET cover = excluded.cover, found_at = excluded.found_at";
pub(crate) const REMOVE: &str = "DELETE FROM syncline.shelf_books WHERE isbn = $1";
pub(crate) const BOOK: &str = concat!(books!(), "WHERE b.isbn = $1");
pub(crate) const BOOKS: &str = concat!(books!(), "WHERE b.id < $1 ORDER BY b.id DESC LIMIT $2");
pub(crate) const COUNT: &str = "SELECT count(*) FROM syncline.shelf_books";
pub(crate) const SEARCHING: &str =
    "SELECT id, isbn FROM syncline.shelf_books WHERE book IS NULL AND id > $1 ORDER BY id LIMIT $2";

pub(crate) const SAVE_SEARCH: &str = "INSERT INTO syncline.shelf_searches (search, created_at, asked_at) \
     VALUES ($1, $2, $2) ON CONFLICT (search) DO UPDATE SET asked_at = excluded.asked_at";
pub(crate) const CHANGE_SEARCH: &str =
    "UPDATE syncline.shelf_searches SET search = $2, asked_at = $3 WHERE id = $1";
pub(crate) const COLLECTED: &str =
    "UPDATE syncline.shelf_searches SET found_at = $2, total = $3, ending = $4 WHERE id = $1";
pub(crate) const FORGET_FINDS: &str = "DELETE FROM syncline.shelf_finds WHERE search_id = $1";
pub(crate) const REMOVE_SEARCH: &str = "DELETE FROM syncline.shelf_searches WHERE id = $1";
pub(crate) const SEARCH_COUNT: &str = "SELECT count(*) FROM syncline.shelf_searches";
pub(crate) const SEARCHES: &str = concat!(searches!(), "ORDER BY s.id");
pub(crate) const SEARCH: &str = concat!(searches!(), "WHERE s.id = $1");
pub(crate) const SEARCH_BY_TEXT: &str = concat!(searches!(), "WHERE s.search = $1");
pub(crate) const FINDS: &str = "SELECT f.position, f.isbn, f.book, c.isbn IS NOT NULL AS cover_known, c.cover \
     FROM syncline.shelf_finds f LEFT JOIN syncline.shelf_covers c ON c.isbn = f.isbn \
     WHERE f.search_id = $1 AND f.position >= $2 ORDER BY f.position LIMIT $3";

pub(crate) fn check_add(isbns: &[String]) -> Result<(), Error> {
    if isbns.len() > ADD_MAX {
        return Err(Error::invalid("isbns", format!("are {}; at most {ADD_MAX} are allowed", isbns.len())));
    }
    isbns.iter().try_for_each(|isbn| check_isbn(isbn))
}

pub(crate) fn check_isbn(isbn: &str) -> Result<(), Error> {
    check_text("isbn", isbn, ISBN_MAX_BYTES)
}

pub(crate) fn check_book(book: &str) -> Result<(), Error> {
    check_text("book", book, BOOK_MAX_BYTES)
}

pub(crate) fn check_cover(cover: Option<&str>) -> Result<(), Error> {
    cover.map_or(Ok(()), |cover| check_text("cover", cover, TEXT_MAX_BYTES))
}

pub(crate) fn check_search(search: &str) -> Result<(), Error> {
    check_text("search", search, TEXT_MAX_BYTES)
}

pub(crate) fn check_found(search: &str, found: &Found) -> Result<(), Error> {
    check_search(search)?;
    check_text("ending", &found.ending, TEXT_MAX_BYTES)?;
    if found.books.len() > FINDS_MAX {
        let reason = format!("are {}; at most {FINDS_MAX} are allowed", found.books.len());
        return Err(Error::invalid("finds", reason));
    }
    found.books.iter().try_for_each(|(isbn, book)| check_isbn(isbn).and_then(|()| check_book(book)))
}

pub(crate) fn check_list(limit: usize) -> Result<i64, Error> {
    if limit > LIST_MAX {
        return Err(Error::invalid("limit", format!("is {limit}; at most {LIST_MAX} are allowed")));
    }
    Ok(i64::try_from(limit).unwrap_or(i64::MAX))
}

pub(crate) fn full_shelf() -> Error {
    Error::invalid("shelf", format!("holds {BOOKS_MAX} books, which is all it can; remove some first"))
}

pub(crate) fn too_many_searches() -> Error {
    Error::invalid("searches", format!("are {SEARCHES_MAX}, which is the most; remove some first"))
}

pub(crate) fn same_search() -> Error {
    Error::invalid("search", "is saved already under another number")
}

pub(crate) fn total(found: &Found) -> Option<i64> {
    found.total.and_then(|total| i64::try_from(total).ok())
}

fn check_text(field: &'static str, text: &str, max_bytes: usize) -> Result<(), Error> {
    if text.is_empty() || text.len() > max_bytes || text.contains('\0') {
        return Err(Error::invalid(field, format!("must have 1 to {max_bytes} bytes and no zero character")));
    }
    Ok(())
}

fn moment(ms: i64) -> Timestamp {
    Timestamp::from_ms(u64::try_from(ms).unwrap_or(0))
}

fn cover(known: bool, cover: Option<String>) -> Cover {
    match (known, cover) {
        (false, _) => Cover::Unknown,
        (true, None) => Cover::None,
        (true, Some(cover)) => Cover::At(cover),
    }
}

impl<'r, R> FromRow<'r, R> for Shelved
where
    R: Row,
    &'static str: ColumnIndex<R>,
    i64: Decode<'r, R::Database> + Type<R::Database>,
    bool: Decode<'r, R::Database> + Type<R::Database>,
    String: Decode<'r, R::Database> + Type<R::Database>,
    R::Database: Database,
{
    fn from_row(row: &'r R) -> sqlx::Result<Self> {
        Ok(Self {
            id: row.try_get("id")?,
            isbn: row.try_get("isbn")?,
            book: row.try_get("book")?,
            cover: cover(row.try_get("cover_known")?, row.try_get("cover")?),
            added_at: moment(row.try_get("added_at")?),
        })
    }
}

impl<'r, R> FromRow<'r, R> for Search
where
    R: Row,
    &'static str: ColumnIndex<R>,
    i64: Decode<'r, R::Database> + Type<R::Database>,
    String: Decode<'r, R::Database> + Type<R::Database>,
    R::Database: Database,
{
    fn from_row(row: &'r R) -> sqlx::Result<Self> {
        Ok(Self {
            id: row.try_get("id")?,
            search: row.try_get("search")?,
            created_at: moment(row.try_get("created_at")?),
            asked_at: moment(row.try_get("asked_at")?),
            found_at: row.try_get::<Option<i64>, _>("found_at")?.map(moment),
            total: row.try_get::<Option<i64>, _>("total")?.map(i64::unsigned_abs),
            ending: row.try_get("ending")?,
            finds: row.try_get::<i64, _>("finds")?.unsigned_abs(),
        })
    }
}

impl<'r, R> FromRow<'r, R> for Find
where
    R: Row,
    &'static str: ColumnIndex<R>,
    i64: Decode<'r, R::Database> + Type<R::Database>,
    bool: Decode<'r, R::Database> + Type<R::Database>,
    String: Decode<'r, R::Database> + Type<R::Database>,
    R::Database: Database,
{
    fn from_row(row: &'r R) -> sqlx::Result<Self> {
        Ok(Self {
            position: row.try_get::<i64, _>("position")?.unsigned_abs(),
            isbn: row.try_get("isbn")?,
            book: row.try_get("book")?,
            cover: cover(row.try_get("cover_known")?, row.try_get("cover")?),
        })
    }
}
