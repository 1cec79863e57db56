//! One small transaction interface for every engine. The systems' flows are written over it once, and parts with tables of their
//! own use the same.
//!
//! - `engine`: what an engine has to be able to do
//! - `sql`: statements in files, in the words of each engine
//! - `value`: what goes into a statement and comes out of its rows
//!
//! A part writes its flow once over [`Transaction`], with statements that name its tables `syncline.<table>`; where the two
//! dialects differ, it gives both texts ([`Sql::new`]). Rows are read by position.
//!
//! Guarantees: [`Database::write`] happens as a whole or not at all, and is durable when it returns. On SQLite it goes through
//! the one writer and shares its commits with other changes. Values are always bound, never part of a statement.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, PoisonError, RwLock};

use crate::{Backend, Error, names};

mod engine;
mod sql;
mod value;

pub(crate) use self::engine::{Access, Engine, Job, Made, Statements};
pub use self::sql::Sql;
pub(crate) use self::sql::{shared_statements, statement, statements, statements_of};
#[doc(hidden)]
pub use self::value::Cell;
pub use self::value::{FromCell, Row, Value};
pub(crate) use self::value::{FromRow, values};

/// What is done in a transaction, as a future that borrows it. An error undoes it.
pub type Work<'t, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 't>>;

/// The database behind a store. Clones share it.
#[derive(Debug, Clone)]
pub struct Database {
    engine: Arc<dyn Engine>,
    /// The table of ours that statements about `sync_outbox` mean.
    outbox: Option<Arc<OutboxStatements>>,
}

/// Each statement about `sync_outbox` as it is about a table of ours, made once.
#[derive(Debug)]
struct OutboxStatements {
    table: String,
    /// Where the payloads are.
    payloads: String,
    made: RwLock<HashMap<Sql, Sql>>,
}

/// A transaction of any engine.
pub struct Transaction<'c> {
    statements: &'c mut dyn Statements,
    /// The table of ours that statements about `sync_outbox` mean.
    outbox: Option<Arc<OutboxStatements>>,
    /// What was done is not to be kept, though it did not fail.
    undone: bool,
}

impl Database {
    pub(crate) fn new(engine: impl Engine + 'static) -> Self {
        Self { engine: Arc::new(engine), outbox: None }
    }

    /// The same database, in which statements about `sync_outbox` mean the table of a route. Its name is a checked one.
    pub(crate) fn on_route(self, route: &str) -> Self {
        let table = format!("route_{route}");
        let payloads = format!("syncline.{table}");
        self.on_outbox_table(table, payloads)
    }

    /// The same SQLite database, in which statements about `sync_outbox` mean our own table of its entries, and payloads are in the
    /// application's.
    pub(crate) fn on_entries(self) -> Self {
        self.on_outbox_table("outbox_entries".to_owned(), "sync_outbox".to_owned())
    }

    fn on_outbox_table(self, table: String, payloads: String) -> Self {
        let statements = OutboxStatements { table, payloads, made: RwLock::default() };
        Self { engine: self.engine, outbox: Some(Arc::new(statements)) }
    }

    /// Which dialect it speaks.
    #[must_use]
    pub fn backend(&self) -> Backend {
        self.engine.backend()
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
        self.run(Access::Write, work).await
    }

    /// The same for what may be lost with the machine's power: the commit does not wait for the disk.
    pub(crate) async fn write_unsynced<T, F>(&self, work: F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: for<'t> FnOnce(&'t mut Transaction<'_>) -> Work<'t, T> + Send + 'static,
    {
        self.run(Access::Unsynced, work).await
    }

    /// Runs `work`, which only reads, beside the writers. Its statements need not see one moment.
    pub async fn read<T, F>(&self, work: F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: for<'t> FnOnce(&'t mut Transaction<'_>) -> Work<'t, T> + Send + 'static,
    {
        self.run(Access::Read, work).await
    }

    /// Makes a change of one statement; how many rows it changed.
    pub(crate) async fn execute(&self, sql: Sql, values: Vec<Value>) -> Result<u64, Error> {
        self.run(Access::Execute, move |transaction| {
            Box::pin(async move { transaction.execute(sql, &values).await })
        })
        .await
    }

    /// The same for the rows that it gives.
    pub(crate) async fn change<T>(&self, sql: Sql, values: Vec<Value>) -> Result<Vec<T>, Error>
    where
        T: FromRow + Send + 'static,
    {
        self.run(Access::Statement, move |transaction| {
            Box::pin(async move { transaction.query(sql, &values).await })
        })
        .await
    }

    /// Reads the rows of one statement.
    pub(crate) async fn query<T>(&self, sql: Sql, values: Vec<Value>) -> Result<Vec<T>, Error>
    where
        T: FromRow + Send + 'static,
    {
        self.run(Access::Read, move |transaction| {
            Box::pin(async move { transaction.query(sql, &values).await })
        })
        .await
    }

    /// Reads the first row of one statement, if it gives one.
    pub(crate) async fn query_first<T>(&self, sql: Sql, values: Vec<Value>) -> Result<Option<T>, Error>
    where
        T: FromRow + Send + 'static,
    {
        Ok(self.query(sql, values).await?.into_iter().next())
    }

    async fn run<T, F>(&self, access: Access, work: F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: for<'t> FnOnce(&'t mut Transaction<'_>) -> Work<'t, T> + Send + 'static,
    {
        let outbox = self.outbox.clone();
        let job: Job = Box::new(move |transaction| {
            transaction.outbox = outbox;
            Box::pin(async move { work(transaction).await.map(|made| Box::new(made) as Made) })
        });
        let made = self.engine.run(access, job).await?;
        Ok(*made.downcast().expect("a job brings what it was made for"))
    }
}

impl OutboxStatements {
    fn of(&self, sql: Sql) -> Sql {
        if let Some(made) = self.made.read().unwrap_or_else(PoisonError::into_inner).get(&sql) {
            return *made;
        }
        let made = names::on_outbox_table(sql, &self.table, &self.payloads);
        self.made.write().unwrap_or_else(PoisonError::into_inner).insert(sql, made);
        made
    }
}

impl<'c> Transaction<'c> {
    pub(crate) fn new(statements: &'c mut dyn Statements) -> Self {
        Self { statements, outbox: None, undone: false }
    }

    /// The statement as this engine is to read it.
    fn text(&self, sql: Sql) -> &'static str {
        let sql = self.outbox.as_ref().map_or(sql, |outbox| outbox.of(sql));
        sql.for_engine(&*self.statements)
    }

    /// Which dialect it speaks.
    #[must_use]
    pub fn backend(&self) -> Backend {
        self.statements.backend()
    }

    /// Runs a statement and says how many rows it changed.
    pub async fn execute(&mut self, sql: impl Into<Sql>, values: &[Value]) -> Result<u64, Error> {
        let sql = self.text(sql.into());
        self.statements.execute(sql, values).await
    }

    /// Runs a statement for its rows.
    pub async fn all(&mut self, sql: impl Into<Sql>, values: &[Value]) -> Result<Vec<Row>, Error> {
        let sql = self.text(sql.into());
        self.statements.rows(sql, values).await
    }

    /// Runs a statement for its first row, if there is one.
    pub async fn first(&mut self, sql: impl Into<Sql>, values: &[Value]) -> Result<Option<Row>, Error> {
        Ok(self.all(sql, values).await?.into_iter().next())
    }

    /// Runs a statement for its only value.
    pub async fn value<T: FromCell>(&mut self, sql: impl Into<Sql>, values: &[Value]) -> Result<T, Error> {
        let row = self.first(sql, values).await?;
        row.ok_or_else(|| Error::invalid("statement", "gave no row"))?.get(0)
    }

    /// Runs a statement for its rows, as what they are.
    pub(crate) async fn query<T: FromRow>(&mut self, sql: Sql, values: &[Value]) -> Result<Vec<T>, Error> {
        self.all(sql, values).await?.into_iter().map(T::from_row).collect()
    }

    /// The same for the first row, if there is one.
    pub(crate) async fn query_first<T: FromRow>(
        &mut self,
        sql: Sql,
        values: &[Value],
    ) -> Result<Option<T>, Error> {
        self.first(sql, values).await?.map(T::from_row).transpose()
    }

    /// The values of one column.
    pub(crate) async fn column<T: FromCell>(&mut self, sql: Sql, values: &[Value]) -> Result<Vec<T>, Error> {
        self.all(sql, values).await?.into_iter().map(|mut row| row.take(0)).collect()
    }

    /// Runs commands without arguments, several at once if need be.
    pub(crate) async fn script(&mut self, sql: impl Into<Sql>) -> Result<(), Error> {
        let sql = self.text(sql.into());
        self.statements.script(sql).await
    }

    /// The time of day in milliseconds, by the store's clock.
    pub async fn now_ms(&mut self) -> Result<i64, Error> {
        self.statements.now_ms().await
    }

    /// Has what was done so far, and what follows, undone in the end, though the work does not fail.
    pub(crate) fn undo(&mut self) {
        self.undone = true;
    }

    pub(crate) fn is_undone(&self) -> bool {
        self.undone
    }
}
