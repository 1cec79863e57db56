//! One small transaction interface for both engines, for parts that have tables of their own.
//!
//! A part writes its flow once over [`Transaction`], with statements that name its tables `syncline.<table>`; where the two
//! dialects differ, [`Database::backend`] says which one it is. Rows are read by position.
//!
//! Guarantees: [`Database::write`] happens as a whole or not at all, and is durable when it returns. On SQLite it goes through
//! the one writer and shares its commits with other changes. Values are always bound, never part of a statement.

use std::pin::Pin;

use sqlx::postgres::PgRow;
use sqlx::sqlite::{SqliteConnection, SqliteRow};

use crate::{Backend, Error, postgres, sqlite};

mod value;

pub use self::value::{FromCell, Row, Value};
pub(crate) use self::value::{bind_postgres, bind_sqlite};

/// What is done in a transaction, as a future that borrows it. An error undoes it.
pub type Work<'t, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 't>>;

/// The database behind a store. Clones share it.
#[derive(Debug, Clone)]
pub struct Database {
    engine: Engine,
}

#[derive(Debug, Clone)]
enum Engine {
    Sqlite(sqlite::Engine),
    Postgres(postgres::Engine),
}

/// A transaction of either engine.
pub struct Transaction<'t> {
    inner: Inner<'t>,
}

enum Inner<'t> {
    Sqlite { connection: &'t mut SqliteConnection, store: &'t str, wall_ms: i64 },
    Postgres { session: &'t mut postgres::Session, engine: &'t postgres::Engine },
}

impl Database {
    pub(crate) fn sqlite(engine: sqlite::Engine) -> Self {
        Self { engine: Engine::Sqlite(engine) }
    }

    pub(crate) fn postgres(engine: postgres::Engine) -> Self {
        Self { engine: Engine::Postgres(engine) }
    }

    /// Which dialect it speaks.
    #[must_use]
    pub fn backend(&self) -> Backend {
        match &self.engine {
            Engine::Sqlite(_) => Backend::Sqlite,
            Engine::Postgres(_) => Backend::Postgres,
        }
    }

    /// Runs `work` in a transaction and returns its result once that is durable.
    ///
    /// ```no_run
    /// # async fn example(store: syncline_store::Store) -> Result<(), syncline_store::Error> {
    /// let database = store.database();
    /// let added = database.write(|transaction| {
    ///     Box::pin(async move {
    ///         let add = "INSERT INTO syncline.notes (id, text) VALUES ($1, $2)";
    ///         transaction.execute(add, &["n1".into(), "milk".into()]).await
    ///     })
    /// });
    /// assert_eq!(added.await?, 1);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn write<T, F>(&self, work: F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: for<'t> FnOnce(&'t mut Transaction<'_>) -> Work<'t, T> + Send + 'static,
    {
        match &self.engine {
            Engine::Sqlite(engine) => {
                let (store, clock) = (engine.name().to_owned(), engine.clock().clone());
                let written = engine.write_checked(move |connection| {
                    Box::pin(async move {
                        let inner = Inner::Sqlite { connection, store: &store, wall_ms: clock.wall_ms() };
                        work(&mut Transaction { inner }).await
                    })
                });
                written.await
            }
            Engine::Postgres(engine) => on_postgres(engine, work).await,
        }
    }

    /// Runs `work`, which only reads, beside the writers.
    pub async fn read<T, F>(&self, work: F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: for<'t> FnOnce(&'t mut Transaction<'_>) -> Work<'t, T> + Send + 'static,
    {
        match &self.engine {
            Engine::Sqlite(engine) => {
                let Some(mut reader) = engine.reader().await? else { return self.write(work).await };
                let (store, wall_ms) = (engine.name(), engine.clock().wall_ms());
                let inner = Inner::Sqlite { connection: &mut reader, store, wall_ms };
                work(&mut Transaction { inner }).await
            }
            Engine::Postgres(engine) => on_postgres(engine, work).await,
        }
    }
}

async fn on_postgres<T, F>(engine: &postgres::Engine, work: F) -> Result<T, Error>
where
    F: for<'t> FnOnce(&'t mut Transaction<'_>) -> Work<'t, T> + Send + 'static,
{
    let mut session = engine.transaction().await?;
    let inner = Inner::Postgres { session: &mut session, engine };
    let done = work(&mut Transaction { inner }).await;
    match done {
        Ok(done) => session.commit().await.map(|()| done),
        Err(error) => {
            // What failed is what the caller wants to know; a session that cannot roll back takes its connection with it.
            let _ = session.rollback().await;
            Err(error)
        }
    }
}

impl Transaction<'_> {
    /// Which dialect it speaks.
    #[must_use]
    pub fn backend(&self) -> Backend {
        match &self.inner {
            Inner::Sqlite { .. } => Backend::Sqlite,
            Inner::Postgres { .. } => Backend::Postgres,
        }
    }

    /// Runs a statement and says how many rows it changed.
    pub async fn execute(&mut self, sql: &'static str, values: &[Value]) -> Result<u64, Error> {
        match &mut self.inner {
            Inner::Sqlite { connection, store, .. } => {
                let done = bind_sqlite(sqlite::query(sql), values).execute(&mut **connection).await;
                Ok(done.map_err(|error| Error::sqlite(store, &error))?.rows_affected())
            }
            Inner::Postgres { session, engine } => {
                session.execute(bind_postgres(engine.query(sql), values)).await
            }
        }
    }

    /// Runs a statement for its rows.
    pub async fn all(&mut self, sql: &'static str, values: &[Value]) -> Result<Vec<Row>, Error> {
        match &mut self.inner {
            Inner::Sqlite { connection, store, .. } => {
                let rows = bind_sqlite(sqlite::query(sql), values).fetch_all(&mut **connection).await;
                let rows: Vec<SqliteRow> = rows.map_err(|error| Error::sqlite(store, &error))?;
                Ok(rows.into_iter().map(Row::sqlite).collect())
            }
            Inner::Postgres { session, engine } => {
                let rows: Vec<PgRow> = session.rows(bind_postgres(engine.query(sql), values)).await?;
                Ok(rows.into_iter().map(Row::postgres).collect())
            }
        }
    }

    /// Runs a statement for its first row, if there is one.
    pub async fn first(&mut self, sql: &'static str, values: &[Value]) -> Result<Option<Row>, Error> {
        Ok(self.all(sql, values).await?.into_iter().next())
    }

    /// Runs a statement for its only value.
    pub async fn value<T: FromCell>(&mut self, sql: &'static str, values: &[Value]) -> Result<T, Error> {
        let row = self.first(sql, values).await?;
        row.ok_or_else(|| Error::invalid("statement", "gave no row"))?.get(0)
    }

    /// The time of day in milliseconds, by the store's clock.
    pub async fn now_ms(&mut self) -> Result<i64, Error> {
        match &mut self.inner {
            Inner::Sqlite { wall_ms, .. } => Ok(*wall_ms),
            Inner::Postgres { session, engine } => engine.now_ms(session).await,
        }
    }
}
