//! What a database must be able to do for queues: rows of one queue inside one transaction, and a few reads.

use std::convert::Infallible;

use super::registry::QueueRegistry;
use super::row::{Header, Kept, KeyUpdate, Known, Retry, Row, RowState, Success};
use super::{Cursor, List};
use crate::Error;

/// One change of one queue, made in one transaction.
pub(crate) trait Work: Send + 'static {
    /// What it brings.
    type Made: Send + 'static;

    /// Makes the change. Whatever was written is undone if it fails.
    fn run<T: Table>(self, table: &mut T) -> impl Future<Output = Result<Self::Made, T::Error>> + Send;
}

/// The tables of all queues.
pub(crate) trait Tables: Clone + Send + Sync + 'static {
    /// Runs `work` in a transaction and returns what it brings once that is durable.
    fn change<W: Work>(&self, queue: &str, work: W) -> impl Future<Output = Result<W::Made, Error>> + Send;

    /// The header as it is now; nobody is kept from changing it.
    fn peek(&self, queue: &str) -> impl Future<Output = Result<Option<Header>, Error>> + Send;

    /// All of one key's row, and the calls under way when it was read.
    fn entry(&self, queue: &str, key: &str) -> impl Future<Output = Result<Option<Known>, Error>> + Send;

    /// The rows of these ages in line, in no order.
    fn running(&self, ages: Vec<i64>) -> impl Future<Output = Result<Vec<Kept>, Error>> + Send;

    /// Rows of one list; of what waits, what runs is among them.
    fn list(
        &self,
        header: &Header,
        list: List,
        after: Option<Cursor>,
        limit: i64,
    ) -> impl Future<Output = Result<Vec<Kept>, Error>> + Send;

    /// The names of all queues.
    fn names(&self) -> impl Future<Output = Result<Vec<String>, Error>> + Send;

    /// How often each of these queues has changed, as far as it exists.
    fn versions(&self, queues: Vec<String>)
    -> impl Future<Output = Result<Vec<(String, i64)>, Error>> + Send;

    /// Passes what other processes announce on to the registry, until that fails. Where nothing is announced, for ever.
    fn listen(&self, registry: &QueueRegistry) -> impl Future<Output = Result<Infallible, Error>> + Send;

    /// Lets other processes hear of a change that was made here. A promise to nobody: they look, too.
    fn announce(&self, queue: &str);
}

/// The rows of one queue, in a transaction that is this queue's alone from [`open`](Table::open) on.
pub(crate) trait Table: Send {
    /// What goes wrong here.
    type Error: Send;

    /// Keeps all others from changing this queue until the transaction ends, and reads its header. A queue that is not
    /// there is made.
    fn open(&mut self) -> impl Future<Output = Result<Header, Self::Error>> + Send;

    /// Writes the header.
    fn save(&mut self, header: &Header) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// The rows of these keys, as far as there are any, in no order.
    fn find(&mut self, keys: &[String]) -> impl Future<Output = Result<Vec<Row>, Self::Error>> + Send;

    /// The first in line, by rank; what runs may be among them. None that waits has a rank below `from`.
    fn line(&mut self, from: i64, limit: usize)
    -> impl Future<Output = Result<Vec<Row>, Self::Error>> + Send;

    /// Those in line longest, by age; what runs may be among them. None that waits has an age below `from`, nor above `to`.
    fn ages(
        &mut self,
        from: i64,
        to: i64,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<Row>, Self::Error>> + Send;

    /// The rows in line of these ages, in no order.
    fn aged(&mut self, ages: &[i64]) -> impl Future<Output = Result<Vec<Row>, Self::Error>> + Send;

    /// Forgets that keys in line were asked for again. Looks at the whole line.
    fn forget_again(&mut self) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// The first retries, by due time.
    fn retries(&mut self, limit: usize) -> impl Future<Output = Result<Vec<Retry>, Self::Error>> + Send;

    /// The oldest of those that ended in this place, by rank.
    fn ended(
        &mut self,
        at: RowState,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<Row>, Self::Error>> + Send;

    /// Inserts rows that are in line, or replaces them by their keys.
    fn put(&mut self, rows: &[Row]) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// Keeps the results of runs whose keys are in line and were not asked for again; tells ages and keys of those.
    fn succeed(
        &mut self,
        successes: &[Success],
    ) -> impl Future<Output = Result<Vec<(i64, String)>, Self::Error>> + Send;

    /// Replaces rows in line, found by their ages.
    fn replace(&mut self, updates: &[KeyUpdate]) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// Deletes these keys.
    fn delete(&mut self, keys: &[String]) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// Deletes the `limit` oldest results, none of which has a rank below `from`. Tells the highest rank deleted and
    /// how many of them were done and how many failed.
    fn trim(&mut self, from: i64, limit: usize) -> impl Future<Output = Result<Trimmed, Self::Error>> + Send;
}

/// What was deleted of the oldest results.
#[derive(Debug, Default)]
pub(crate) struct Trimmed {
    pub(crate) up_to: Option<i64>,
    pub(crate) done: i64,
    pub(crate) failed: i64,
}
