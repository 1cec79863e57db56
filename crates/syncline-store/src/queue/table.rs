//! The tables of queues, on every engine: rows of one queue inside one transaction, and a few reads. Statements are in
//! `sql/queue*.sql`.
//!
//! Many rows go in as one JSON array on SQLite and as one array for each column on PostgreSQL, so that a batch is a handful of
//! statements whatever its size.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use serde::Serialize;
use syncline_core::queue::line::{KeyUpdate, Row, RowState};
use syncline_core::time::Timestamp;

use super::registry::QueueRegistry;
use super::row::{Details, Header, Kept, Known, Retry, Success, number, timestamp};
use super::{Cursor, LIST_BYTES_MAX, List, QUEUES_MAX};
use crate::database::{Database, Transaction, shared_statements, statements, statements_of, values};
use crate::{Backend, Error};

shared_statements!("queue": SAVE, AGES, ENTRY, NAMES);
statements!("queue":
    OPEN, PEEK, CLOCK, CREATE, LINE, FORGET_AGAIN, RETRIES, ENDED, TRIM, FIND, AGED, PUT, SUCCEED, REPLACE, SET_DETAILS, DETAILS, DELETE, OLDEST,
    LIST_RUNNING, LIST_WAITING, LIST_RETRYING, LIST_ENDED, VERSIONS);
statements_of!("queue.postgres": ANNOUNCE);

/// One change of one queue, made in one transaction.
pub(crate) trait Work: Send + 'static {
    /// What it brings.
    type Made: Send + 'static;

    /// Makes the change. Whatever was written is undone if it fails.
    fn run(self, table: &mut Table<'_, '_>) -> impl Future<Output = Result<Self::Made, Error>> + Send;
}

/// How other processes hear of changes.
#[async_trait]
pub(crate) trait QueueNotices: fmt::Debug + Send + Sync {
    /// Passes what other processes announce on to the registry, until the store is closed. Where nothing is announced, for ever.
    async fn listen(&self, registry: &QueueRegistry);

    /// Lets other processes hear of a change that was made here. A promise to nobody: they look, too.
    fn announce(&self, queue: &str);

    /// Whether another process may have changed something since the last time that this was asked.
    fn may_have_changed(&self) -> bool;
}

/// The tables of all queues.
#[derive(Debug, Clone)]
pub(crate) struct Tables {
    database: Database,
    notices: Arc<dyn QueueNotices>,
}

impl Tables {
    pub(crate) fn new(database: Database, notices: Arc<dyn QueueNotices>) -> Self {
        Self { database, notices }
    }

    pub(crate) fn notices(&self) -> &dyn QueueNotices {
        &*self.notices
    }

    /// Runs `work` in a transaction and returns what it brings once that is durable.
    pub(crate) async fn change<W: Work>(&self, queue: &str, work: W) -> Result<W::Made, Error> {
        let queue = queue.to_owned();
        self.database
            .write(move |transaction| {
                Box::pin(async move {
                    work.run(&mut Table { transaction, queue, id: 0, now_ms: 0, was_idle: false }).await
                })
            })
            .await
    }

    /// The header as it is now; nobody is kept from changing it.
    pub(crate) async fn peek(&self, queue: &str) -> Result<Option<Header>, Error> {
        self.database.query_first(PEEK, values![queue]).await
    }

    /// All of one key's row, and the calls under way when it was read.
    pub(crate) async fn entry(&self, queue: &str, key: &str) -> Result<Option<Known>, Error> {
        self.database.query_first(ENTRY, values![queue, key]).await
    }

    /// The rows of these ages in line, in no order.
    pub(crate) async fn running(&self, ages: Vec<i64>) -> Result<Vec<Kept>, Error> {
        self.database.query(LIST_RUNNING, values![ages]).await
    }

    /// Rows of one list; of what waits, what runs is among them.
    pub(crate) async fn list(
        &self,
        header: &Header,
        list: List,
        after: Option<Cursor>,
        limit: i64,
    ) -> Result<Vec<Kept>, Error> {
        let from = after.map_or(i64::MIN, |after| after.order);
        let before = after.map_or(i64::MAX, |after| after.order);
        let mut values = values![header.id, limit, LIST_BYTES_MAX as i64];
        let mut ended = |at: RowState| {
            values.extend(values![before, number(at)]);
            LIST_ENDED
        };
        let sql = match list {
            List::Done => ended(RowState::Done),
            List::Failed => ended(RowState::Failed),
            List::Dead => ended(RowState::Dead),
            List::Running | List::Waiting => {
                values.extend(values![from]);
                LIST_WAITING
            }
            List::Retrying => {
                values.extend(values![from, after.map_or(i64::MIN, |after| after.rank)]);
                LIST_RETRYING
            }
        };
        self.database.query(sql, values).await
    }

    /// The names of all queues.
    pub(crate) async fn names(&self) -> Result<Vec<String>, Error> {
        let names: Vec<(String,)> = self.database.query(NAMES, values![]).await?;
        Ok(names.into_iter().map(|(name,)| name).collect())
    }

    /// How often each of these queues has changed, as far as it exists.
    pub(crate) async fn versions(&self, queues: Vec<String>) -> Result<Vec<(String, i64)>, Error> {
        self.database.query(VERSIONS, values![queues]).await
    }
}

/// The rows of one queue, in a transaction that is this queue's alone from [`open`](Table::open) on.
pub(crate) struct Table<'t, 'c> {
    transaction: &'t mut Transaction<'c>,
    queue: String,
    id: i32,
    now_ms: i64,
    /// Whether there was nothing to do in it.
    was_idle: bool,
}

/// What was deleted of the oldest results.
#[derive(Debug, Default)]
pub(crate) struct Trimmed {
    pub(crate) up_to: Option<i64>,
    pub(crate) done: i64,
    pub(crate) failed: i64,
}

impl<'c> Table<'_, 'c> {
    /// Another queue, in the same transaction.
    pub(crate) fn beside(&mut self, queue: String) -> Table<'_, 'c> {
        Table { transaction: &mut *self.transaction, queue, id: 0, now_ms: 0, was_idle: false }
    }
}

impl Table<'_, '_> {
    /// Keeps all others from changing this queue until the transaction ends, and reads its header. A queue that is not
    /// there is made.
    pub(crate) async fn open(&mut self) -> Result<Header, Error> {
        let name = values![&self.queue];
        let mut header: Option<Header> = self.transaction.query_first(OPEN, &name).await?;
        if header.is_none() {
            let create = values![&self.queue, Header::empty().pace, QUEUES_MAX as i64];
            self.transaction.execute(CREATE, &create).await?;
            header = self.transaction.query_first(OPEN, &name).await?;
        }
        let mut header =
            header.ok_or_else(|| Error::invalid("queue", format!("would be one more than {QUEUES_MAX}")))?;
        header.line.begin(header.id);
        (self.id, self.now_ms, self.was_idle) = (header.id, header.now_ms, header.line.is_idle());
        Ok(header)
    }

    /// The store's clock at this moment, which may be later than when the header was read.
    pub(crate) async fn now(&mut self) -> Result<Timestamp, Error> {
        let now: Option<(i64,)> = self.transaction.query_first(CLOCK, &values![]).await?;
        Ok(timestamp(now.map_or(self.now_ms, |(now_ms,)| now_ms)))
    }

    /// Writes the header. Where the queue had nothing to do and now has, that is announced with the transaction itself: nobody looks
    /// at an idle queue more than once a minute, and a process may die between a commit and what it announces afterwards. A busy
    /// queue is looked at, and its transactions do not pay for that.
    pub(crate) async fn save(&mut self, header: &Header) -> Result<(), Error> {
        let values = values![
            header.id,
            &header.pace,
            header.line.tail,
            header.line.front,
            header.line.oldest,
            header.line.trimmed,
            header.line.next_due,
            header.line.overtakes,
            header.line.waiting,
            header.line.running,
            header.line.retrying,
            header.line.done,
            header.line.failed,
            header.line.dead,
            header.line.done_total,
            header.line.failed_total,
            header.changes,
            header.carries,
            header.held,
        ];
        self.transaction.execute(SAVE, &values).await?;
        if self.was_idle && !header.line.is_idle() && self.transaction.backend() == Backend::Postgres {
            self.transaction.execute(ANNOUNCE, &values![&self.queue]).await?;
        }
        Ok(())
    }

    /// The rows of these keys, as far as there are any, in no order.
    pub(crate) async fn find(&mut self, keys: &[String]) -> Result<Vec<Row>, Error> {
        self.transaction.query(FIND, &values![self.id, keys.to_vec()]).await
    }

    /// The first in line, by rank; what runs may be among them. None that waits has a rank below `from`.
    pub(crate) async fn line(&mut self, from: i64, limit: usize) -> Result<Vec<Row>, Error> {
        self.transaction.query(LINE, &values![self.id, from, limit as i64]).await
    }

    /// Those in line longest, by age; what runs may be among them. None that waits has an age below `from`, nor above `to`.
    pub(crate) async fn ages(&mut self, from: i64, to: i64, limit: usize) -> Result<Vec<Row>, Error> {
        self.transaction.query(AGES, &values![from, to, limit as i64]).await
    }

    /// The rows in line of these ages, in no order.
    pub(crate) async fn aged(&mut self, ages: &[i64]) -> Result<Vec<Row>, Error> {
        self.transaction.query(AGED, &values![ages.to_vec()]).await
    }

    /// Forgets that keys in line were asked for again. Looks at the whole line.
    pub(crate) async fn forget_again(&mut self) -> Result<(), Error> {
        self.transaction.execute(FORGET_AGAIN, &values![self.id]).await.map(drop)
    }

    /// The first retries, by due time.
    pub(crate) async fn retries(&mut self, limit: usize) -> Result<Vec<Retry>, Error> {
        self.transaction.query(RETRIES, &values![self.id, limit as i64]).await
    }

    /// The oldest of those that ended in this place, by rank.
    pub(crate) async fn ended(&mut self, at: RowState, limit: usize) -> Result<Vec<Row>, Error> {
        self.transaction.query(ENDED, &values![self.id, limit as i64, number(at)]).await
    }

    /// Inserts rows that are in line, or replaces them by their keys.
    pub(crate) async fn put(&mut self, rows: &[Row]) -> Result<(), Error> {
        let mut values = values![self.id, self.now_ms];
        match self.transaction.backend() {
            Backend::Sqlite => values.push(json(rows, |row| {
                (&row.key, row.rank, row.arrival_no, row.attempts_before(), row.priority, row.again)
            })),
            Backend::Postgres => values.extend(values![
                column(rows, |row| row.key.clone()),
                column(rows, |row| row.rank),
                column(rows, |row| row.arrival_no),
                column(rows, |row| i64::from(row.attempts_before())),
                column(rows, |row| row.priority),
                column(rows, |row| row.again),
            ]),
        }
        self.transaction.execute(PUT, &values).await.map(drop)
    }

    /// Keeps the results of runs whose keys are in line and were not asked for again; tells ages and keys of those.
    pub(crate) async fn succeed(&mut self, successes: &[Success]) -> Result<Vec<(i64, String)>, Error> {
        let mut values = values![self.now_ms];
        match self.transaction.backend() {
            Backend::Sqlite => {
                values.push(json(successes, |success| (success.arrival_no, success.rank, &success.result)));
            }
            Backend::Postgres => values.extend(values![
                column(successes, |success| success.arrival_no),
                column(successes, |success| success.rank),
                column(successes, |success| success.result.clone()),
            ]),
        }
        self.transaction.query(SUCCEED, &values).await
    }

    /// Replaces rows in line, found by their ages.
    pub(crate) async fn replace(&mut self, updates: &[KeyUpdate]) -> Result<(), Error> {
        let mut values = values![self.now_ms];
        match self.transaction.backend() {
            Backend::Sqlite => {
                values.push(json(updates, |KeyUpdate { arrival_no, row, due, reason, result, .. }| {
                    let Row { rank, arrival_no: age, attempts, priority, .. } = row;
                    (*arrival_no, number(row.at), *rank, *age, *attempts, *priority, *due, reason, result)
                }));
            }
            Backend::Postgres => values.extend(values![
                column(updates, |update| update.arrival_no),
                column(updates, |update| i64::from(number(update.row.at))),
                column(updates, |update| update.row.rank),
                column(updates, |update| update.row.arrival_no),
                column(updates, |update| i64::from(update.row.attempts)),
                column(updates, |update| update.row.priority),
                column(updates, |update| update.due),
                column(updates, |update| update.reason.clone()),
                column(updates, |update| update.result.clone()),
            ]),
        }
        self.transaction.execute(REPLACE, &values).await.map(drop)
    }

    /// Gives keys what they carry: each with its input, which leaves the old one if there is none, and its end.
    pub(crate) async fn set_details(
        &mut self,
        tasks: &[(&str, Option<&str>, Option<i64>)],
    ) -> Result<(), Error> {
        let mut values = values![self.id];
        match self.transaction.backend() {
            Backend::Sqlite => values.push(json(tasks, |task| task)),
            Backend::Postgres => values.extend(values![
                column(tasks, |task| task.0.to_owned()),
                column(tasks, |task| task.1.map(str::to_owned)),
                column(tasks, |task| task.2),
            ]),
        }
        self.transaction.execute(SET_DETAILS, &values).await.map(drop)
    }

    /// What the keys in line of these ages carry, in no order.
    pub(crate) async fn details(&mut self, ages: &[i64]) -> Result<Vec<Details>, Error> {
        self.transaction.query(DETAILS, &values![ages.to_vec()]).await
    }

    /// Deletes these keys.
    pub(crate) async fn delete(&mut self, keys: &[String]) -> Result<(), Error> {
        self.transaction.execute(DELETE, &values![self.id, keys.to_vec()]).await.map(drop)
    }

    /// Deletes the `limit` oldest results, none of which has a rank below `from`. Tells the highest rank deleted and
    /// how many of them were done and how many failed.
    pub(crate) async fn trim(&mut self, from: i64, limit: usize) -> Result<Trimmed, Error> {
        let oldest = self.transaction.query_first(OLDEST, &values![self.id, from, limit as i64]).await?;
        let (up_to, done, failed): (Option<i64>, i64, i64) = oldest.unwrap_or_default();
        if let Some(up_to) = up_to {
            self.transaction.execute(TRIM, &values![self.id, from, up_to]).await?;
        }
        Ok(Trimmed { up_to, done, failed })
    }
}

/// Rows as one JSON array of arrays.
fn json<'r, R, C: Serialize>(rows: &'r [R], of: impl Fn(&'r R) -> C) -> crate::database::Value {
    let rows: Vec<C> = rows.iter().map(of).collect();
    serde_json::to_string(&rows).expect("numbers and text have a JSON").into()
}

fn column<R, C>(rows: &[R], of: impl Fn(&R) -> C) -> Vec<C> {
    rows.iter().map(of).collect()
}
