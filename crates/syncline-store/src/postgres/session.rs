//! One connection for one piece of work: a statement, or a transaction of several.
//!
//! Guarantees: all statements of a session share one deadline; work that is not ended with [`Session::commit`] or
//! [`Session::rollback`], be it because it failed, its caller went away or the server no longer answers, takes
//! its connection with it, and the server rolls back. No half-done work ever returns to the pool.

use std::pin::pin;
use std::time::Duration;

use sqlx::pool::PoolConnection;
use sqlx::postgres::{PgArguments, PgRow, Postgres};
use sqlx::query::Query;
use sqlx::{Executor, FromRow, SqlSafeStr};
use tokio::runtime::Handle;
use tokio::time::{Instant, timeout, timeout_at};

use super::{ANSWER_MAX, Engine, no_answer};
use crate::Error;

/// Rows are found by an index whatever the server believes of a table: what it counted is old where a table fills and empties
/// within minutes. And a statement ends on the server soon after its caller has stopped waiting ([`ANSWER_MAX`]), instead of
/// running on with its locks.
macro_rules! settings {
    ($set:literal) => {
        concat!(
            $set,
            " enable_seqscan = off; ",
            $set,
            " enable_hashjoin = off; ",
            $set,
            " enable_mergejoin = off; ",
            $set,
            " enable_bitmapscan = off; ",
            $set,
            " jit = off; ",
            $set,
            " statement_timeout = 12000"
        )
    };
}
/// For a connection that is ours alone, once.
pub(super) const SETTINGS: &str = settings!("SET");
/// Behind a pooler, with each transaction and until its end. One round trip.
const BEGIN_POOLED: &str = concat!("BEGIN; ", settings!("SET LOCAL"));
/// A long piece of work: its caller waits longer than [`ANSWER_MAX`].
pub(super) const UNTIMED: &str = "SET LOCAL statement_timeout = 0";
/// For work that may be lost with the server's power: the commit does not wait for the disk.
const BEGIN_UNSYNCED: &str = "BEGIN; SET LOCAL synchronous_commit = off";
const BEGIN_POOLED_UNSYNCED: &str =
    concat!("BEGIN; SET LOCAL synchronous_commit = off; ", settings!("SET LOCAL"));

/// A connection that has not come by then is a reason to ask which server takes writes.
const LOOK_AFTER: Duration = Duration::from_secs(1);

/// How long a server may take to answer on a connection that is given back.
const GIVE_BACK_MAX: Duration = Duration::from_secs(2);

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
        if !engine.keeps_statements || engine.pooled {
            session.begin("BEGIN", BEGIN_POOLED).await?;
        }
        Ok(session)
    }

    /// For several statements that happen together or not at all.
    pub(super) async fn transaction(engine: &Engine, answer_max: Duration) -> Result<Self, Error> {
        let mut session = Self::open(engine, answer_max).await?;
        session.begin("BEGIN", BEGIN_POOLED).await?;
        Ok(session)
    }

    /// For commands that begin and end their own transactions, or may not be in one; each may take as long as it needs.
    pub(super) async fn bare(engine: &Engine, answer_max: Duration) -> Result<Self, Error> {
        let mut session = Self::open(engine, answer_max).await?;
        if !engine.pooled {
            session.control("SET statement_timeout = 0").await?;
        }
        Ok(session)
    }

    /// Gives back a connection that was [`bare`](Self::bare), as it was.
    pub(super) async fn finish_bare(mut self) -> Result<(), Error> {
        if !self.engine.pooled {
            self.control(SETTINGS).await?;
        }
        self.commit().await
    }

    /// The same for work that may be lost with the server's power.
    pub(super) async fn unsynced(engine: &Engine) -> Result<Self, Error> {
        let mut session = Self::open(engine, ANSWER_MAX).await?;
        session.begin(BEGIN_UNSYNCED, BEGIN_POOLED_UNSYNCED).await?;
        Ok(session)
    }

    async fn begin(&mut self, alone: &'static str, pooled: &'static str) -> Result<(), Error> {
        self.control(if self.engine.pooled { pooled } else { alone }).await?;
        self.in_transaction = true;
        Ok(())
    }

    async fn open(engine: &Engine, answer_max: Duration) -> Result<Self, Error> {
        let connection = acquire(engine).await?;
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

    /// Runs a statement for its rows, as they are.
    pub(crate) async fn rows(&mut self, statement: Statement) -> Result<Vec<PgRow>, Error> {
        self.unsettled = true;
        let rows = timeout_at(self.deadline, statement.fetch_all(&mut *self.connection)).await;
        self.settle(rows)
    }

    /// Runs a statement for its rows.
    pub(crate) async fn all<T>(&mut self, statement: Statement) -> Result<Vec<T>, Error>
    where
        T: for<'r> FromRow<'r, PgRow>,
    {
        let rows = self.rows(statement).await?;
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
                let failed = result.map_err(self.engine.failed());
                // The server has become a standby, or the connection is lost: it is of no more use.
                self.unsettled = matches!(failed, Err(Error::Unreachable { .. }));
                if self.unsettled {
                    self.engine.servers.look(&self.engine.pool);
                }
                failed
            }
            Err(_) => {
                self.engine.servers.look(&self.engine.pool);
                Err(no_answer(self.engine.name(), self.answer_max))
            }
        }
    }
}

/// A connection to the server that takes writes. One that is long in coming may mean that it is another server by now.
async fn acquire(engine: &Engine) -> Result<PoolConnection<Postgres>, Error> {
    let mut coming = pin!(engine.pool.acquire());
    let come = match timeout(LOOK_AFTER, &mut coming).await {
        Ok(come) => come,
        Err(_) => {
            engine.servers.look(&engine.pool);
            coming.await
        }
    };
    come.map_err(|error| {
        engine.servers.look(&engine.pool);
        engine.servers.explain(engine.name(), &error)
    })
}

impl Drop for Session {
    fn drop(&mut self) {
        if self.in_transaction || self.unsettled {
            self.connection.close_on_drop();
        } else {
            give_back(&mut self.connection);
        }
    }
}

/// Gives a connection back to its pool. The pool asks the server once more, and a server that is frozen never answers: then the
/// connection is given up, so that it does not keep its place from those that lead elsewhere.
pub(super) fn give_back(connection: &mut PoolConnection<Postgres>) {
    if let Ok(runtime) = Handle::try_current() {
        let back = connection.return_to_pool();
        runtime.spawn(async move { timeout(GIVE_BACK_MAX, back).await });
    }
}
