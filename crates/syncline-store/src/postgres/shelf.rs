//! The shelf on PostgreSQL.
//!
//! A search's row is locked before its finds are replaced, so that two nodes that found the same do it one after the
//! other. The bounds on books and searches may be passed by what other nodes add in the same moment, not by more.

use async_trait::async_trait;

use super::session::Statement;
use super::{Engine, Session};
use crate::Error;
use crate::shelf::{BOOKS_MAX, Find, Found, SEARCHES_MAX, Search, Shelf, Shelved, sql};

const LOCK_SEARCH: &str = "SELECT id FROM syncline.shelf_searches WHERE search = $1 FOR UPDATE";
/// In the order of the index of these alone: in that of the books' ids, all found books before them might be read.
const SEARCHING: &str = "SELECT id, isbn FROM syncline.shelf_books WHERE book IS NULL AND (id + 0) > $1 ORDER BY (id + 0) LIMIT $2";
const ADD_ALL: &str = "INSERT INTO syncline.shelf_books (isbn, added_at) \
     SELECT isbn, $2 FROM unnest($1) WITH ORDINALITY AS given (isbn, place) ORDER BY place \
     ON CONFLICT (isbn) DO NOTHING RETURNING isbn";
const ADD_FINDS: &str = "INSERT INTO syncline.shelf_finds (search_id, position, isbn, book) \
     SELECT $1, given.place - 1, given.isbn, given.book \
     FROM unnest($2, $3) WITH ORDINALITY AS given (isbn, book, place)";

/// The shelf port on PostgreSQL.
#[derive(Debug)]
pub(crate) struct PostgresShelf {
    engine: Engine,
}

#[async_trait]
impl Shelf for PostgresShelf {
    async fn add(&self, isbns: &[String]) -> Result<Vec<bool>, Error> {
        sql::check_add(isbns)?;
        let mut session = self.engine.transaction().await?;
        let held: i64 = session.value(self.engine.query(sql::COUNT)).await?;
        if held.unsigned_abs() + isbns.len() as u64 > BOOKS_MAX as u64 {
            session.rollback().await?;
            return Err(sql::full_shelf());
        }
        let now_ms = self.engine.now_ms(&mut session).await?;
        let mut distinct: Vec<String> = Vec::with_capacity(isbns.len());
        let mut seen = std::collections::HashSet::new();
        distinct.extend(isbns.iter().filter(|isbn| seen.insert(isbn.as_str())).cloned());
        let add = self.engine.query(ADD_ALL).bind(distinct).bind(now_ms);
        let added: Vec<(String,)> = session.all(add).await?;
        session.commit().await?;
        let mut added: std::collections::HashSet<String> = added.into_iter().map(|(isbn,)| isbn).collect();
        Ok(isbns.iter().map(|isbn| added.remove(isbn)).collect())
    }

    async fn found(&self, isbn: &str, book: &str) -> Result<Option<Shelved>, Error> {
        sql::check_isbn(isbn)?;
        sql::check_book(book)?;
        let mut session = self.engine.transaction().await?;
        let found = self.engine.query(sql::FOUND).bind(isbn.to_owned()).bind(book.to_owned());
        session.execute(found).await?;
        let book = session.first(self.engine.query(sql::BOOK).bind(isbn.to_owned())).await?;
        session.commit().await?;
        Ok(book)
    }

    async fn set_cover(&self, isbn: &str, cover: Option<&str>) -> Result<Option<Shelved>, Error> {
        sql::check_isbn(isbn)?;
        sql::check_cover(cover)?;
        let mut session = self.engine.transaction().await?;
        let now_ms = self.engine.now_ms(&mut session).await?;
        let set = self.engine.query(sql::SET_COVER).bind(isbn.to_owned()).bind(cover.map(str::to_owned));
        session.execute(set.bind(now_ms)).await?;
        let book = session.first(self.engine.query(sql::BOOK).bind(isbn.to_owned())).await?;
        session.commit().await?;
        Ok(book)
    }

    async fn remove(&self, isbn: &str) -> Result<bool, Error> {
        self.change(self.engine.query(sql::REMOVE).bind(isbn.to_owned())).await
    }

    async fn book(&self, isbn: &str) -> Result<Option<Shelved>, Error> {
        Ok(self.read(self.engine.query(sql::BOOK).bind(isbn.to_owned())).await?.pop())
    }

    async fn books(&self, after: Option<i64>, limit: usize) -> Result<Vec<Shelved>, Error> {
        let limit = sql::check_list(limit)?;
        self.read(self.engine.query(sql::BOOKS).bind(after.unwrap_or(i64::MAX)).bind(limit)).await
    }

    async fn count(&self) -> Result<u64, Error> {
        let count: Vec<(i64,)> = self.read(self.engine.query(sql::COUNT)).await?;
        Ok(count.first().map_or(0, |(count,)| count.unsigned_abs()))
    }

    async fn searching(&self, after: i64, limit: usize) -> Result<Vec<(i64, String)>, Error> {
        self.read(self.engine.query(SEARCHING).bind(after).bind(sql::check_list(limit)?)).await
    }

    async fn save_search(&self, search: &str) -> Result<Search, Error> {
        sql::check_search(search)?;
        let mut session = self.engine.transaction().await?;
        let known: Option<Search> = session.first(self.by_text(search)).await?;
        let held: i64 = session.value(self.engine.query(sql::SEARCH_COUNT)).await?;
        if known.is_none() && held.unsigned_abs() >= SEARCHES_MAX as u64 {
            session.rollback().await?;
            return Err(sql::too_many_searches());
        }
        let now_ms = self.engine.now_ms(&mut session).await?;
        session.execute(self.engine.query(sql::SAVE_SEARCH).bind(search.to_owned()).bind(now_ms)).await?;
        let saved = session.first(self.by_text(search)).await?;
        session.commit().await?;
        saved.ok_or_else(sql::too_many_searches)
    }

    async fn change_search(&self, id: i64, search: &str) -> Result<Option<Search>, Error> {
        sql::check_search(search)?;
        let mut session = self.engine.transaction().await?;
        let known: Option<Search> = session.first(self.by_text(search)).await?;
        if known.is_some_and(|known| known.id != id) {
            session.rollback().await?;
            return Err(sql::same_search());
        }
        let now_ms = self.engine.now_ms(&mut session).await?;
        let change = self.engine.query(sql::CHANGE_SEARCH).bind(id).bind(search.to_owned()).bind(now_ms);
        session.execute(change).await?;
        let changed = session.first(self.engine.query(sql::SEARCH).bind(id)).await?;
        session.commit().await?;
        Ok(changed)
    }

    async fn collect(&self, search: &str, found: &Found) -> Result<Option<Search>, Error> {
        sql::check_found(search, found)?;
        let mut session = self.engine.transaction().await?;
        let locked = self.engine.query(LOCK_SEARCH).bind(search.to_owned());
        let Some((id,)) = session.first::<(i64,)>(locked).await? else {
            session.rollback().await?;
            return Ok(None);
        };
        self.replace_finds(&mut session, id, found).await?;
        let collected = session.first(self.by_text(search)).await?;
        session.commit().await?;
        Ok(collected)
    }

    async fn searches(&self) -> Result<Vec<Search>, Error> {
        self.read(self.engine.query(sql::SEARCHES)).await
    }

    async fn search(&self, id: i64) -> Result<Option<Search>, Error> {
        Ok(self.read(self.engine.query(sql::SEARCH).bind(id)).await?.pop())
    }

    async fn finds(&self, id: i64, from: u64, limit: usize) -> Result<Vec<Find>, Error> {
        let from = i64::try_from(from).unwrap_or(i64::MAX);
        self.read(self.engine.query(sql::FINDS).bind(id).bind(from).bind(sql::check_list(limit)?)).await
    }

    async fn remove_search(&self, id: i64) -> Result<bool, Error> {
        self.change(self.engine.query(sql::REMOVE_SEARCH).bind(id)).await
    }
}

impl PostgresShelf {
    pub(crate) fn new(engine: Engine) -> Self {
        Self { engine }
    }

    fn by_text(&self, search: &str) -> Statement {
        self.engine.query(sql::SEARCH_BY_TEXT).bind(search.to_owned())
    }

    async fn replace_finds(&self, session: &mut Session, id: i64, found: &Found) -> Result<(), Error> {
        session.execute(self.engine.query(sql::FORGET_FINDS).bind(id)).await?;
        let (isbns, books): (Vec<String>, Vec<String>) = found.books.iter().cloned().unzip();
        session.execute(self.engine.query(ADD_FINDS).bind(id).bind(isbns).bind(books)).await?;
        let now_ms = self.engine.now_ms(session).await?;
        let collected = self.engine.query(sql::COLLECTED).bind(id).bind(now_ms).bind(sql::total(found));
        session.execute(collected.bind(found.ending.clone())).await?;
        Ok(())
    }

    async fn change(&self, statement: Statement) -> Result<bool, Error> {
        let mut session = self.engine.statement().await?;
        let changed = session.execute(statement).await?;
        session.commit().await?;
        Ok(changed > 0)
    }

    async fn read<T>(&self, statement: Statement) -> Result<Vec<T>, Error>
    where
        T: for<'r> sqlx::FromRow<'r, sqlx::postgres::PgRow>,
    {
        let mut session = self.engine.statement().await?;
        let rows = session.all(statement).await?;
        session.commit().await?;
        Ok(rows)
    }
}
