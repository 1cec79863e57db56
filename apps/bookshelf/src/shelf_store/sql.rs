//! Statements of the shelf, its bounds, and its rows as values. Statements that differ are there for each engine.

use syncline_core::time::Timestamp;
use syncline_store::Error;
use syncline_store::database::Row;

use super::{
    ADD_MAX, BOOK_MAX_BYTES, BOOKS_MAX, Cover, FINDS_MAX, Find, Found, ISBN_MAX_BYTES, LIST_MAX,
    SEARCHES_MAX, Search, Shelved, TEXT_MAX_BYTES,
};

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

/// ISBNs as JSON, time.
pub(super) const ADD_SQLITE: &str = "INSERT INTO syncline.shelf_books (isbn, added_at) \
     SELECT value, $2 FROM json_each($1) WHERE true ORDER BY key ON CONFLICT (isbn) DO NOTHING RETURNING isbn";
pub(super) const ADD_POSTGRES: &str = "INSERT INTO syncline.shelf_books (isbn, added_at) \
     SELECT isbn, $2 FROM jsonb_array_elements_text($1::text::jsonb) WITH ORDINALITY AS given (isbn, place) ORDER BY place \
     ON CONFLICT (isbn) DO NOTHING RETURNING isbn";
pub(super) const FOUND: &str = "UPDATE syncline.shelf_books SET book = $2 WHERE isbn = $1";
pub(super) const SET_COVER: &str = "INSERT INTO syncline.shelf_covers (isbn, cover, found_at) VALUES ($1, $2, $3) \
     ON CONFLICT (isbn) DO UPDATE SET cover = excluded.cover, found_at = excluded.found_at";
pub(super) const REMOVE: &str = "DELETE FROM syncline.shelf_books WHERE isbn = $1";
pub(super) const BOOK: &str = concat!(books!(), "WHERE b.isbn = $1");
pub(super) const BOOKS: &str = concat!(books!(), "WHERE b.id < $1 ORDER BY b.id DESC LIMIT $2");
pub(super) const COUNT: &str = "SELECT count(*) FROM syncline.shelf_books";
pub(super) const SEARCHING_SQLITE: &str =
    "SELECT id, isbn FROM syncline.shelf_books WHERE book IS NULL AND id > $1 ORDER BY id LIMIT $2";
/// In the order of the index of these alone: in that of the books' ids, all found books before them might be read.
pub(super) const SEARCHING_POSTGRES: &str = "SELECT id, isbn FROM syncline.shelf_books \
     WHERE book IS NULL AND (id + 0) > $1 ORDER BY (id + 0) LIMIT $2";

pub(super) const SAVE_SEARCH: &str = "INSERT INTO syncline.shelf_searches (search, created_at, asked_at) \
     VALUES ($1, $2, $2) ON CONFLICT (search) DO UPDATE SET asked_at = excluded.asked_at";
pub(super) const CHANGE_SEARCH: &str =
    "UPDATE syncline.shelf_searches SET search = $2, asked_at = $3 WHERE id = $1";
pub(super) const COLLECTED: &str =
    "UPDATE syncline.shelf_searches SET found_at = $2, total = $3, ending = $4 WHERE id = $1";
pub(super) const FIND_SQLITE: &str = "SELECT id FROM syncline.shelf_searches WHERE search = $1";
pub(super) const FIND_POSTGRES: &str = "SELECT id FROM syncline.shelf_searches WHERE search = $1 FOR UPDATE";
/// search, pairs of ISBN and book as JSON.
pub(super) const ADD_FINDS_SQLITE: &str = "INSERT INTO syncline.shelf_finds (search_id, position, isbn, book) \
     SELECT $1, key, value ->> 0, value ->> 1 FROM json_each($2)";
pub(super) const ADD_FINDS_POSTGRES: &str = "INSERT INTO syncline.shelf_finds (search_id, position, isbn, book) \
     SELECT $1, given.place - 1, given.pair ->> 0, given.pair ->> 1 \
     FROM jsonb_array_elements($2::text::jsonb) WITH ORDINALITY AS given (pair, place)";
pub(super) const FORGET_FINDS: &str = "DELETE FROM syncline.shelf_finds WHERE search_id = $1";
pub(super) const REMOVE_SEARCH: &str = "DELETE FROM syncline.shelf_searches WHERE id = $1";
pub(super) const SEARCH_COUNT: &str = "SELECT count(*) FROM syncline.shelf_searches";
pub(super) const SEARCHES: &str = concat!(searches!(), "ORDER BY s.id");
pub(super) const SEARCH: &str = concat!(searches!(), "WHERE s.id = $1");
pub(super) const SEARCH_BY_TEXT: &str = concat!(searches!(), "WHERE s.search = $1");
pub(super) const FINDS: &str = "SELECT f.position, f.isbn, f.book, c.isbn IS NOT NULL AS cover_known, c.cover \
     FROM syncline.shelf_finds f LEFT JOIN syncline.shelf_covers c ON c.isbn = f.isbn \
     WHERE f.search_id = $1 AND f.position >= $2 ORDER BY f.position LIMIT $3";

pub(super) fn check_add(isbns: &[String]) -> Result<(), Error> {
    if isbns.len() > ADD_MAX {
        return Err(invalid("isbns", format!("are {}; at most {ADD_MAX} are allowed", isbns.len())));
    }
    isbns.iter().try_for_each(|isbn| check_isbn(isbn))
}

pub(super) fn check_isbn(isbn: &str) -> Result<(), Error> {
    check_text("isbn", isbn, ISBN_MAX_BYTES)
}

pub(super) fn check_book(book: &str) -> Result<(), Error> {
    check_text("book", book, BOOK_MAX_BYTES)
}

pub(super) fn check_cover(cover: Option<&str>) -> Result<(), Error> {
    cover.map_or(Ok(()), |cover| check_text("cover", cover, TEXT_MAX_BYTES))
}

pub(super) fn check_search(search: &str) -> Result<(), Error> {
    check_text("search", search, TEXT_MAX_BYTES)
}

pub(super) fn check_found(search: &str, found: &Found) -> Result<(), Error> {
    check_search(search)?;
    check_text("ending", &found.ending, TEXT_MAX_BYTES)?;
    if found.books.len() > FINDS_MAX {
        let reason = format!("are {}; at most {FINDS_MAX} are allowed", found.books.len());
        return Err(invalid("finds", reason));
    }
    found.books.iter().try_for_each(|(isbn, book)| check_isbn(isbn).and_then(|()| check_book(book)))
}

pub(super) fn check_list(limit: usize) -> Result<i64, Error> {
    if limit > LIST_MAX {
        return Err(invalid("limit", format!("is {limit}; at most {LIST_MAX} are allowed")));
    }
    Ok(i64::try_from(limit).unwrap_or(i64::MAX))
}

pub(super) fn full_shelf() -> Error {
    invalid("shelf", format!("holds {BOOKS_MAX} books, which is all it can; remove some first"))
}

pub(super) fn too_many_searches() -> Error {
    invalid("searches", format!("are {SEARCHES_MAX}, which is the most; remove some first"))
}

pub(super) fn same_search() -> Error {
    invalid("search", "is saved already under another number".to_owned())
}

pub(super) fn total(found: &Found) -> Option<i64> {
    found.total.and_then(|total| i64::try_from(total).ok())
}

fn check_text(field: &'static str, text: &str, max_bytes: usize) -> Result<(), Error> {
    if text.is_empty() || text.len() > max_bytes || text.contains('\0') {
        return Err(invalid(field, format!("must have 1 to {max_bytes} bytes and no zero character")));
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

/// A book of [`BOOK`] or [`BOOKS`].
pub(super) fn shelved(row: &Row) -> Result<Shelved, Error> {
    Ok(Shelved {
        id: row.get(0)?,
        isbn: row.get(1)?,
        book: row.get(2)?,
        added_at: moment(row.get(3)?),
        cover: cover(row.get(4)?, row.get(5)?),
    })
}

/// A search of [`SEARCH`] and its kin.
pub(super) fn search(row: &Row) -> Result<Search, Error> {
    Ok(Search {
        id: row.get(0)?,
        search: row.get(1)?,
        created_at: moment(row.get(2)?),
        asked_at: moment(row.get(3)?),
        found_at: row.get::<Option<i64>>(4)?.map(moment),
        total: row.get::<Option<i64>>(5)?.map(i64::unsigned_abs),
        ending: row.get(6)?,
        finds: row.get::<i64>(7)?.unsigned_abs(),
    })
}

/// A find of [`FINDS`].
pub(super) fn find(row: &Row) -> Result<Find, Error> {
    Ok(Find {
        position: row.get::<i64>(0)?.unsigned_abs(),
        isbn: row.get(1)?,
        book: row.get(2)?,
        cover: cover(row.get(3)?, row.get(4)?),
    })
}

/// Texts, or pairs of texts, as one value to bind.
pub(super) fn json<T: serde::Serialize + ?Sized>(texts: &T) -> String {
    serde_json::to_string(texts).expect("texts have a JSON")
}

fn invalid(field: &'static str, reason: String) -> Error {
    Error::Invalid { field, reason }
}
