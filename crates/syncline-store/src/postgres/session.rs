//! One connection for one piece of work: a statement, or a transaction of several.
//!
//! Guarantees: all statements of a session share one deadline; work that is not ended with [`Session::commit`] or
//! [`Session::rollback`], be it because it failed, its caller went away or the server no longer answers, takes
//! its connection with it, and the server rolls back. No half-done work ever returns to the pool.

use std::time::Duration;

use sqlx::pool::PoolConnection;
use sqlx::postgres::{PgArguments, PgRow, Postgres};
use sqlx::query::Query;
use sqlx::{Executor, FromRow, SqlSafeStr};
use tokio::time::{Instant, timeout_at};

use super::{ANSWER_MAX, Engine, no_answer};
use crate::Error;

/// One round trip. The settings end with the transaction.
pub(super) const BEGIN_BY_INDEX: &str = "BEGIN; SET LOCAL enable_seqscan = off; SET LOCAL enable_hashjoin = off; \
     SET LOCAL enable_mergejoin = off; SET LOCAL enable_bitmapscan = off; SET LOCAL jit = off";

/// The same, for work that may be lost with the server's power: the commit does not wait for the disk.
const BEGIN_BY_INDEX_UNSYNCED: &str = "BEGIN; SET LOCAL synchronous_commit = off; SET LOCAL enable_seqscan = off; \
     SET LOCAL enable_hashjoin = off; SET LOCAL enable_mergejoin = off; SET LOCAL enable_bitmapscan = off; \
     SET LOCAL jit = off";

/// A statement ready to be sent.
pub(crate) type Statement = Query<'static, Postgres, PgArguments>;

pub(crate) struct Session {
    engine: Engine,
    connection: PoolConnection<Postgres>,
    answer_max: Duration,
    deadline: Instant,
    in_transaction: bool,
    /// While set, the state of the connection is known only to the server.
    unsettled: bool,
}

impl Session {
    /// For one statement.
    pub(super) async fn statement(engine: &Engine, answer_max: Duration) -> Result<Self, Error> {
        let mut session = Self::open(engine, answer_max).await?;
        // A statement that is not kept is parsed and executed in two steps, and only a transaction makes a
        // pooler bring both to the same place.
        if !engine.keeps_statements {
            session.control("BEGIN").await?;
            session.in_transaction = true;
        }
        Ok(session)
    }

    /// For several statements that happen together or not at all.
    pub(super) async fn transaction(engine: &Engine, answer_max: Duration) -> Result<Self, Error> {
        let mut session = Self::open(engine, answer_max).await?;
        session.control("BEGIN").await?;
        session.in_transaction = true;
        Ok(session)
    }

    /// For commands that begin and end their own transactions, or may not be in one.
    pub(super) async fn bare(engine: &Engine, answer_max: Duration) -> Result<Self, Error> {
        Self::open(engine, answer_max).await
    }

    /// For several statements whose rows are found by an index whatever the server believes to know of the tables: what
    /// it knows is old where a table fills and empties within minutes.
    pub(super) async fn by_index(engine: &Engine) -> Result<Self, Error> {
        let mut session = Self::open(engine, ANSWER_MAX).await?;
        session.control(BEGIN_BY_INDEX).await?;
        session.in_transaction = true;
        Ok(session)
    }

    /// The same for work that may be lost with the server's power.
    pub(super) async fn by_index_unsynced(engine: &Engine) -> Result<Self, Error> {
        let mut session = Self::open(engine, ANSWER_MAX).await?;
        session.control(BEGIN_BY_INDEX_UNSYNCED).await?;
        session.in_transaction = true;
        Ok(session)
    }

    async fn open(engine: &Engine, answer_max: Duration) -> Result<Self, Error> {
        let connection = engine.pool.acquire().await.map_err(engine.failed())?;
        Ok(Self {
            engine: engine.clone(),
            connection,
            answer_max,
            deadline: Instant::now() + answer_max,
            in_transaction: false,
            unsettled: false,
        })
    }

    /// Runs a statement and says how many rows it changed.
    pub(crate) async fn execute(&mut self, statement: Statement) -> Result<u64, Error> {
        self.unsettled = true;
        let done = timeout_at(self.deadline, statement.execute(&mut *self.connection)).await;
        Ok(self.settle(done)?.rows_affected())
    }

    /// Runs a statement for its rows.
    pub(crate) async fn all<T>(&mut self, statement: Statement) -> Result<Vec<T>, Error>
    where
        T: for<'r> FromRow<'r, PgRow>,
    {
        self.unsettled = true;
        let rows = timeout_at(self.deadline, statement.fetch_all(&mut *self.connection)).await;
        let rows = self.settle(rows)?;
        rows.iter().map(T::from_row).collect::<sqlx::Result<_>>().map_err(self.engine.failed())
    }

    /// Runs a statement for its first row, if there is one.
    pub(crate) async fn first<T>(&mut self, statement: Statement) -> Result<Option<T>, Error>
    where
        T: for<'r> FromRow<'r, PgRow>,
    {
        Ok(self.all(statement).await?.into_iter().next())
    }

    /// Runs a statement for its only value.
    pub(crate) async fn value<T>(&mut self, statement: Statement) -> Result<T, Error>
    where
        (T,): for<'r> FromRow<'r, PgRow>,
    {
        let (value,) = self.only(statement).await?;
        Ok(value)
    }

    /// Runs a statement that gives one row.
    pub(crate) async fn only<T>(&mut self, statement: Statement) -> Result<T, Error>
    where
        T: for<'r> FromRow<'r, PgRow>,
    {
        let first = self.first(statement).await?;
        first.ok_or_else(|| self.engine.failed()(sqlx::Error::RowNotFound))
    }

    /// Runs commands without arguments, several at once if need be.
    pub(crate) async fn control(&mut self, sql: impl SqlSafeStr) -> Result<(), Error> {
        self.unsettled = true;
        let done = timeout_at(self.deadline, self.connection.execute(sqlx::raw_sql(sql))).await;
        self.settle(done)?;
        Ok(())
    }

    /// Ends the work and keeps it. An error here leaves open whether it was kept.
    pub(crate) async fn commit(mut self) -> Result<(), Error> {
        if self.in_transaction {
            self.control("COMMIT").await?;
            self.in_transaction = false;
        }
        Ok(())
    }

    /// Ends the work and undoes it.
    pub(crate) async fn rollback(mut self) -> Result<(), Error> {
        if self.in_transaction {
            self.control("ROLLBACK").await?;
            self.in_transaction = false;
        }
        Ok(())
    }

    fn settle<T>(&mut self, done: Result<sqlx::Result<T>, tokio::time::error::Elapsed>) -> Result<T, Error> {
        match done {
            Ok(result) => {
                self.unsettled = false;
                result.map_err(self.engine.failed())
            }
            Err(_) => Err(no_answer(self.engine.name(), self.answer_max)),
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if self.in_transaction || self.unsettled {
            self.connection.close_on_drop();
        }
    }
}
