//! What the bookshelf keeps: scanned books, their covers, and saved searches with what they found.
//!
//! Guarantees, on every engine: a scanned ISBN is there once, and for good once [`ShelfStore::add`] has answered; what is
//! written about a book that was removed meanwhile does not bring it back; the finds of a search change all at once.
//! The bounds on books and searches may be passed by what other nodes add in the same moment, not by more. What a book, a
//! cover or a search means is left to the rest of the bookshelf: here they are texts of bounded size.

mod sql;

use std::collections::HashSet;

use syncline_core::time::Timestamp;
use syncline_store::database::{Database, Transaction};
use syncline_store::{Backend, Error, Former, Migrations, Step, Store};

/// The bookshelf's tables; name them when a store is opened.
pub static MIGRATIONS: Migrations = Migrations {
    former: Some(Former {
        versions: &[4, 16],
        tables: &["shelf_books", "shelf_covers", "shelf_searches", "shelf_finds"],
        columns: &[],
        functions: &[],
        done: &[],
        sqlite: "",
        postgres: "",
    }),
    ..Migrations::new(
        "bookshelf",
        &[Step {
            version: 1,
            name: "books, covers and searches",
            sqlite: include_str!("../migrations/1_shelf.sqlite.sql"),
            postgres: include_str!("../migrations/1_shelf.postgres.sql"),
        }],
    )
};

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

/// Books, covers and saved searches. Clones share them.
#[derive(Debug, Clone)]
pub struct ShelfStore {
    database: Database,
}

impl ShelfStore {
    /// The shelf in `store`, which was opened with [`MIGRATIONS`].
    #[must_use]
    pub fn new(store: &Store) -> Self {
        Self { database: store.database() }
    }

    /// Puts ISBNs on the shelf, in order, and tells for each whether it is new there.
    pub async fn add(&self, isbns: &[String]) -> Result<Vec<bool>, Error> {
        sql::check_add(isbns)?;
        let (given, add) = (sql::json(isbns), self.either(sql::ADD_SQLITE, sql::ADD_POSTGRES));
        let more = isbns.len() as u64;
        let added = self.database.write(move |transaction| {
            Box::pin(async move {
                let held: i64 = transaction.value(sql::COUNT, &[]).await?;
                if held.unsigned_abs() + more > BOOKS_MAX as u64 {
                    return Err(sql::full_shelf());
                }
                let now_ms = transaction.now_ms().await?;
                let rows = transaction.all(add, &[given.into(), now_ms.into()]).await?;
                rows.iter().map(|row| row.get(0)).collect::<Result<HashSet<String>, Error>>()
            })
        });
        let mut added = added.await?;
        Ok(isbns.iter().map(|isbn| added.remove(isbn)).collect())
    }

    /// Writes down what was found of a book; the book as it is now, or `None` if it is not on the shelf.
    pub async fn found(&self, isbn: &str, book: &str) -> Result<Option<Shelved>, Error> {
        sql::check_isbn(isbn)?;
        sql::check_book(book)?;
        let (isbn, book) = (isbn.to_owned(), book.to_owned());
        let found = self.database.write(move |transaction| {
            Box::pin(async move {
                transaction.execute(sql::FOUND, &[(&isbn).into(), book.into()]).await?;
                by_isbn(transaction, &isbn).await
            })
        });
        found.await
    }

    /// Writes down where a cover is, or that there is none; the book if it is on the shelf.
    pub async fn set_cover(&self, isbn: &str, cover: Option<&str>) -> Result<Option<Shelved>, Error> {
        sql::check_isbn(isbn)?;
        sql::check_cover(cover)?;
        let (isbn, cover) = (isbn.to_owned(), cover.map(str::to_owned));
        let set = self.database.write(move |transaction| {
            Box::pin(async move {
                let now_ms = transaction.now_ms().await?;
                transaction.execute(sql::SET_COVER, &[(&isbn).into(), cover.into(), now_ms.into()]).await?;
                by_isbn(transaction, &isbn).await
            })
        });
        set.await
    }

    /// Takes a book off the shelf and tells whether it was there.
    pub async fn remove(&self, isbn: &str) -> Result<bool, Error> {
        let isbn = isbn.to_owned();
        let removed = self.database.write(|transaction| {
            Box::pin(async move { transaction.execute(sql::REMOVE, &[isbn.into()]).await })
        });
        Ok(removed.await? > 0)
    }

    /// One book.
    pub async fn book(&self, isbn: &str) -> Result<Option<Shelved>, Error> {
        let isbn = isbn.to_owned();
        self.database.read(|transaction| Box::pin(async move { by_isbn(transaction, &isbn).await })).await
    }

    /// Up to `limit` books, newest first, from behind the book with the number `after` on.
    pub async fn books(&self, after: Option<i64>, limit: usize) -> Result<Vec<Shelved>, Error> {
        let values = [after.unwrap_or(i64::MAX).into(), sql::check_list(limit)?.into()];
        let books = self.database.read(move |transaction| {
            Box::pin(
                async move { transaction.all(sql::BOOKS, &values).await?.iter().map(sql::shelved).collect() },
            )
        });
        books.await
    }

    /// How many books there are.
    pub async fn count(&self) -> Result<u64, Error> {
        let count = self.database.read(|transaction| Box::pin(transaction.value::<i64>(sql::COUNT, &[])));
        Ok(count.await?.unsigned_abs())
    }

    /// ISBNs still being looked for, oldest first, from behind the book with the number `after` on.
    pub async fn searching(&self, after: i64, limit: usize) -> Result<Vec<(i64, String)>, Error> {
        let searching = self.either(sql::SEARCHING_SQLITE, sql::SEARCHING_POSTGRES);
        let values = [after.into(), sql::check_list(limit)?.into()];
        let found = self.database.read(move |transaction| {
            Box::pin(async move {
                let rows = transaction.all(searching, &values).await?;
                rows.iter().map(|row| Ok((row.get(0)?, row.get(1)?))).collect()
            })
        });
        found.await
    }

    /// Saves a search, or marks one that was saved before as asked for again.
    pub async fn save_search(&self, search: &str) -> Result<Search, Error> {
        sql::check_search(search)?;
        let search = search.to_owned();
        let saved = self.database.write(move |transaction| {
            Box::pin(async move {
                let held: i64 = transaction.value(sql::SEARCH_COUNT, &[]).await?;
                let known = by_text(transaction, &search).await?;
                if known.is_none() && held.unsigned_abs() >= SEARCHES_MAX as u64 {
                    return Err(sql::too_many_searches());
                }
                let now_ms = transaction.now_ms().await?;
                transaction.execute(sql::SAVE_SEARCH, &[(&search).into(), now_ms.into()]).await?;
                by_text(transaction, &search).await?.ok_or_else(sql::too_many_searches)
            })
        });
        saved.await
    }

    /// Changes what a saved search looks for. Its finds stay until there are others. `None` if there is no such search;
    /// one that looks for the same already is refused.
    pub async fn change_search(&self, id: i64, search: &str) -> Result<Option<Search>, Error> {
        sql::check_search(search)?;
        let search = search.to_owned();
        let changed = self.database.write(move |transaction| {
            Box::pin(async move {
                if by_text(transaction, &search).await?.is_some_and(|known| known.id != id) {
                    return Err(sql::same_search());
                }
                let now_ms = transaction.now_ms().await?;
                transaction.execute(sql::CHANGE_SEARCH, &[id.into(), search.into(), now_ms.into()]).await?;
                by_id(transaction, id).await
            })
        });
        changed.await
    }

    /// Replaces what a search found; `None` if nobody saved this search.
    pub async fn collect(&self, search: &str, found: &Found) -> Result<Option<Search>, Error> {
        sql::check_found(search, found)?;
        let (lock, add) = (
            self.either(sql::FIND_SQLITE, sql::FIND_POSTGRES),
            self.either(sql::ADD_FINDS_SQLITE, sql::ADD_FINDS_POSTGRES),
        );
        let (search, books, total) = (search.to_owned(), sql::json(&found.books), sql::total(found));
        let ending = found.ending.clone();
        let collected = self.database.write(move |transaction| {
            Box::pin(async move {
                // Locked first, so that two nodes that found the same replace the finds one after the other.
                let Some(row) = transaction.first(lock, &[(&search).into()]).await? else { return Ok(None) };
                let id: i64 = row.get(0)?;
                transaction.execute(sql::FORGET_FINDS, &[id.into()]).await?;
                transaction.execute(add, &[id.into(), books.into()]).await?;
                let now_ms = transaction.now_ms().await?;
                let values = [id.into(), now_ms.into(), total.into(), ending.into()];
                transaction.execute(sql::COLLECTED, &values).await?;
                by_id(transaction, id).await
            })
        });
        collected.await
    }

    /// All saved searches, oldest first.
    pub async fn searches(&self) -> Result<Vec<Search>, Error> {
        let searches = self.database.read(|transaction| {
            Box::pin(
                async move { transaction.all(sql::SEARCHES, &[]).await?.iter().map(sql::search).collect() },
            )
        });
        searches.await
    }

    /// One of them.
    pub async fn search(&self, id: i64) -> Result<Option<Search>, Error> {
        self.database.read(move |transaction| Box::pin(by_id(transaction, id))).await
    }

    /// Up to `limit` finds of a search, from `from` on.
    pub async fn finds(&self, id: i64, from: u64, limit: usize) -> Result<Vec<Find>, Error> {
        let from = i64::try_from(from).unwrap_or(i64::MAX);
        let values = [id.into(), from.into(), sql::check_list(limit)?.into()];
        let finds = self.database.read(move |transaction| {
            Box::pin(
                async move { transaction.all(sql::FINDS, &values).await?.iter().map(sql::find).collect() },
            )
        });
        finds.await
    }

    /// Forgets a search with its finds and tells whether there was one.
    pub async fn remove_search(&self, id: i64) -> Result<bool, Error> {
        let removed = self.database.write(move |transaction| {
            Box::pin(async move { transaction.execute(sql::REMOVE_SEARCH, &[id.into()]).await })
        });
        Ok(removed.await? > 0)
    }

    /// The statement for the engine's dialect.
    fn either(&self, sqlite: &'static str, postgres: &'static str) -> &'static str {
        match self.database.backend() {
            Backend::Sqlite => sqlite,
            Backend::Postgres => postgres,
        }
    }
}

async fn by_isbn(transaction: &mut Transaction<'_>, isbn: &str) -> Result<Option<Shelved>, Error> {
    transaction.first(sql::BOOK, &[isbn.into()]).await?.as_ref().map(sql::shelved).transpose()
}

async fn by_text(transaction: &mut Transaction<'_>, search: &str) -> Result<Option<Search>, Error> {
    transaction.first(sql::SEARCH_BY_TEXT, &[search.into()]).await?.as_ref().map(sql::search).transpose()
}

async fn by_id(transaction: &mut Transaction<'_>, id: i64) -> Result<Option<Search>, Error> {
    transaction.first(sql::SEARCH, &[id.into()]).await?.as_ref().map(sql::search).transpose()
}
