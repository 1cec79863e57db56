//! What an engine is to the flows above it: somewhere to run a job in a transaction, and statements inside it.
//!
//! A third engine implements these two traits, has a variant of [`Backend`] and its own texts of the statements that it says
//! differently. Locks, the claims of the outbox and the rows of queues lock in ways of their own and are each engine's.

use std::any::Any;
use std::fmt;

use async_trait::async_trait;
use futures::future::BoxFuture;

use super::{Row, Sql, Transaction, Value, Work};
use crate::{Backend, Error};

/// What a job brings, its type forgotten.
pub(crate) type Made = Box<dyn Any + Send>;

/// A piece of work on a transaction.
pub(crate) type Job = Box<dyn for<'t, 'c> FnOnce(&'t mut Transaction<'c>) -> Work<'t, Made> + Send>;

/// What a job needs of its transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// It only reads, and its statements need not agree on one moment.
    Read,
    /// It is one statement that changes something, and nothing can fail after it.
    Execute,
    /// It is one statement that changes something and gives rows.
    Statement,
    /// It happens as a whole or not at all, and is durable when it is answered.
    Write,
    /// The same, but it may be lost with the machine's power: the commit does not wait for the disk.
    Unsynced,
}

/// Where jobs run.
#[async_trait]
pub(crate) trait Engine: fmt::Debug + Send + Sync {
    /// Which dialect it speaks.
    fn backend(&self) -> Backend;

    /// Runs `job` and gives what it brings, once that is as durable as `access` says. An error undoes it.
    async fn run(&self, access: Access, job: Job) -> Result<Made, Error>;
}

/// Statements inside one transaction. Parameters are `$1`, `$2` ... in the order of `values`.
pub(crate) trait Statements: Send {
    fn backend(&self) -> Backend;

    /// Runs a statement and says how many rows it changed.
    fn execute<'s>(&'s mut self, sql: &'static str, values: &'s [Value])
    -> BoxFuture<'s, Result<u64, Error>>;

    /// Runs a statement for its rows.
    fn rows<'s>(
        &'s mut self,
        sql: &'static str,
        values: &'s [Value],
    ) -> BoxFuture<'s, Result<Vec<Row>, Error>>;

    /// Runs commands without arguments, several at once if need be.
    fn script(&mut self, sql: &'static str) -> BoxFuture<'_, Result<(), Error>>;

    /// The time of day in milliseconds, by the store's clock.
    fn now_ms(&mut self) -> BoxFuture<'_, Result<i64, Error>>;
}

impl Sql {
    /// As the engine of `statements` is to read it.
    pub(super) fn for_engine(self, statements: &dyn Statements) -> &'static str {
        self.of(statements.backend())
    }
}
