//! The shelf on SQLite.
//!
//! The writer runs one change at a time, so a change may look first and write after; nobody comes between.

use async_trait::async_trait;
use sqlx::sqlite::SqliteConnection;

use super::{Engine, statement};
use crate::Error;
use crate::shelf::{BOOKS_MAX, Find, Found, SEARCHES_MAX, Search, Shelf, Shelved, sql};

const ADD_FIND: &str =
    "INSERT INTO syncline.shelf_finds (search_id, position, isbn, book) VALUES ($1, $2, $3, $4)";

/// The shelf port on SQLite.
#[derive(Debug)]
pub(crate) struct SqliteShelf {
    engine: Engine,
}

#[async_trait]
impl Shelf for SqliteShelf {
    async fn add(&self, isbns: &[String]) -> Result<Vec<bool>, Error> {
        sql::check_add(isbns)?;
        let (isbns, clock) = (isbns.to_vec(), self.engine.clock().clone());
        let added = self.engine.write(move |connection| {
            Box::pin(async move {
                let held: i64 = statement::query_scalar(sql::COUNT).fetch_one(&mut *connection).await?;
                if held.unsigned_abs() + isbns.len() as u64 > BOOKS_MAX as u64 {
                    return Ok(None);
                }
                let mut added = Vec::with_capacity(isbns.len());
                for isbn in isbns {
                    let add = statement::query(sql::ADD).bind(isbn).bind(clock.wall_ms());
                    added.push(add.execute(&mut *connection).await?.rows_affected() > 0);
                }
                Ok(Some(added))
            })
        });
        added.await?.ok_or_else(sql::full_shelf)
    }

    async fn found(&self, isbn: &str, book: &str) -> Result<Option<Shelved>, Error> {
        sql::check_isbn(isbn)?;
        sql::check_book(book)?;
        let (isbn, book) = (isbn.to_owned(), book.to_owned());
        self.engine
            .write(move |connection| {
                Box::pin(async move {
                    statement::query(sql::FOUND).bind(&isbn).bind(book).execute(&mut *connection).await?;
                    statement::query_as(sql::BOOK).bind(isbn).fetch_optional(connection).await
                })
            })
            .await
    }

    async fn set_cover(&self, isbn: &str, cover: Option<&str>) -> Result<Option<Shelved>, Error> {
        sql::check_isbn(isbn)?;
        sql::check_cover(cover)?;
        let (isbn, cover) = (isbn.to_owned(), cover.map(str::to_owned));
        let now_ms = self.engine.clock().wall_ms();
        self.engine
            .write(move |connection| {
                Box::pin(async move {
                    let set = statement::query(sql::SET_COVER).bind(&isbn).bind(cover).bind(now_ms);
                    set.execute(&mut *connection).await?;
                    statement::query_as(sql::BOOK).bind(isbn).fetch_optional(connection).await
                })
            })
            .await
    }

    async fn remove(&self, isbn: &str) -> Result<bool, Error> {
        let remove = statement::query(sql::REMOVE).bind(isbn.to_owned());
        let done = self.engine.write(move |connection| Box::pin(remove.execute(connection))).await?;
        Ok(done.rows_affected() > 0)
    }

    async fn book(&self, isbn: &str) -> Result<Option<Shelved>, Error> {
        let book = statement::query_as(sql::BOOK).bind(isbn.to_owned());
        self.engine.read(|connection| Box::pin(book.fetch_optional(connection))).await
    }

    async fn books(&self, after: Option<i64>, limit: usize) -> Result<Vec<Shelved>, Error> {
        let limit = sql::check_list(limit)?;
        let books = statement::query_as(sql::BOOKS).bind(after.unwrap_or(i64::MAX)).bind(limit);
        self.engine.read(|connection| Box::pin(books.fetch_all(connection))).await
    }

    async fn count(&self) -> Result<u64, Error> {
        let count = statement::query_scalar(sql::COUNT);
        let count: i64 = self.engine.read(|connection| Box::pin(count.fetch_one(connection))).await?;
        Ok(count.unsigned_abs())
    }

    async fn searching(&self, after: i64, limit: usize) -> Result<Vec<(i64, String)>, Error> {
        let searching = statement::query_as(sql::SEARCHING).bind(after).bind(sql::check_list(limit)?);
        self.engine.read(|connection| Box::pin(searching.fetch_all(connection))).await
    }

    async fn save_search(&self, search: &str) -> Result<Search, Error> {
        sql::check_search(search)?;
        let (search, clock) = (search.to_owned(), self.engine.clock().clone());
        let saved = self.engine.write(move |connection| {
            Box::pin(async move {
                let held: i64 =
                    statement::query_scalar(sql::SEARCH_COUNT).fetch_one(&mut *connection).await?;
                let known = by_text(connection, &search).await?;
                if known.is_none() && held.unsigned_abs() >= SEARCHES_MAX as u64 {
                    return Ok(None);
                }
                let save = statement::query(sql::SAVE_SEARCH).bind(&search).bind(clock.wall_ms());
                save.execute(&mut *connection).await?;
                by_text(connection, &search).await
            })
        });
        saved.await?.ok_or_else(sql::too_many_searches)
    }

    async fn change_search(&self, id: i64, search: &str) -> Result<Option<Search>, Error> {
        sql::check_search(search)?;
        let (search, clock) = (search.to_owned(), self.engine.clock().clone());
        let changed = self.engine.write(move |connection| {
            Box::pin(async move {
                if by_text(connection, &search).await?.is_some_and(|known| known.id != id) {
                    return Ok(None);
                }
                let change =
                    statement::query(sql::CHANGE_SEARCH).bind(id).bind(&search).bind(clock.wall_ms());
                change.execute(&mut *connection).await?;
                statement::query_as(sql::SEARCH).bind(id).fetch_optional(connection).await.map(Some)
            })
        });
        changed.await?.ok_or_else(sql::same_search)
    }

    async fn collect(&self, search: &str, found: &Found) -> Result<Option<Search>, Error> {
        sql::check_found(search, found)?;
        let (search, found) = (search.to_owned(), found.clone());
        let now_ms = self.engine.clock().wall_ms();
        self.engine.write(move |connection| Box::pin(collect(connection, search, found, now_ms))).await
    }

    async fn searches(&self) -> Result<Vec<Search>, Error> {
        let searches = statement::query_as(sql::SEARCHES);
        self.engine.read(|connection| Box::pin(searches.fetch_all(connection))).await
    }

    async fn search(&self, id: i64) -> Result<Option<Search>, Error> {
        let search = statement::query_as(sql::SEARCH).bind(id);
        self.engine.read(|connection| Box::pin(search.fetch_optional(connection))).await
    }

    async fn finds(&self, id: i64, from: u64, limit: usize) -> Result<Vec<Find>, Error> {
        let from = i64::try_from(from).unwrap_or(i64::MAX);
        let finds = statement::query_as(sql::FINDS).bind(id).bind(from).bind(sql::check_list(limit)?);
        self.engine.read(|connection| Box::pin(finds.fetch_all(connection))).await
    }

    async fn remove_search(&self, id: i64) -> Result<bool, Error> {
        let remove = statement::query(sql::REMOVE_SEARCH).bind(id);
        let done = self.engine.write(move |connection| Box::pin(remove.execute(connection))).await?;
        Ok(done.rows_affected() > 0)
    }
}

impl SqliteShelf {
    pub(crate) fn new(engine: Engine) -> Self {
        Self { engine }
    }
}

async fn by_text(connection: &mut SqliteConnection, search: &str) -> sqlx::Result<Option<Search>> {
    statement::query_as(sql::SEARCH_BY_TEXT).bind(search).fetch_optional(connection).await
}

async fn collect(
    connection: &mut SqliteConnection,
    search: String,
    found: Found,
    now_ms: i64,
) -> sqlx::Result<Option<Search>> {
    let Some(Search { id, .. }) = by_text(connection, &search).await? else { return Ok(None) };
    let total = sql::total(&found);
    statement::query(sql::FORGET_FINDS).bind(id).execute(&mut *connection).await?;
    for (position, (isbn, book)) in found.books.into_iter().enumerate() {
        let position = i64::try_from(position).unwrap_or(i64::MAX);
        let add = statement::query(ADD_FIND).bind(id).bind(position).bind(isbn).bind(book);
        add.execute(&mut *connection).await?;
    }
    let collected = statement::query(sql::COLLECTED).bind(id).bind(now_ms).bind(total).bind(found.ending);
    collected.execute(&mut *connection).await?;
    by_text(connection, &search).await
}
