//! The tables of queues, on every engine: rows of one queue inside one transaction, and a few reads. Statements are in
//! `sql/queue*.sql`.
//!
//! Many rows go in as one JSON array on SQLite and as one array for each column on PostgreSQL, so that a batch is a handful of
//! statements whatever its size.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use serde::Serialize;
use syncline_core::queue::group::Group;
use syncline_core::queue::line::{KeyUpdate, Row, RowState};
use syncline_core::time::Timestamp;

use super::registry::QueueRegistry;
use super::row::{Details, GroupRow, Header, Kept, Known, Retry, Success, number, timestamp};
use super::{Cursor, LIST_BYTES_MAX, List, QUEUES_MAX, groups};
use crate::database::{Database, Transaction, shared_statements, statements, statements_of, values};
use crate::{Backend, Error};

shared_statements!("queue": SAVE, AGES, ENTRY, NAMES, GROUPS, GROUPS_ANEW, GROUPS_PACED, GROUPS_HELD, FORGET_GROUPS);
statements!("queue":
    OPEN, PEEK, CLOCK, CREATE, LINE, FORGET_AGAIN, RETRIES, ENDED, TRIM, FIND, AGED, PUT, SUCCEED, REPLACE, SET_DETAILS, DETAILS, DELETE, OLDEST,
    LIST_RUNNING, LIST_WAITING, LIST_RETRYING, LIST_ENDED, VERSIONS, OLD_RESULTS, PUT_GROUPED, SET_GROUPS, GROUPS_NAMED, GROUPS_NUMBERED,
    GROUPS_READY, GROUP_READY_NEXT, GROUP_LINE, GROUP_AGES, PUT_GROUPS, DELETE_GROUPS);
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
                    let (id, now_ms, was_idle, grouped_since) = (0, 0, false, 0);
                    work.run(&mut Table { transaction, queue, id, now_ms, was_idle, grouped_since }).await
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

    /// Up to `limit` groups of a queue, by name.
    pub(crate) async fn groups(
        &self,
        header: &Header,
        after: &str,
        limit: i64,
    ) -> Result<Vec<GroupRow>, Error> {
        self.database.query(GROUPS, values![header.id, after, limit]).await
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
    /// Groups have this number or a higher one; 0 if there are none.
    grouped_since: i64,
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
        let (id, now_ms, was_idle, grouped_since) = (0, 0, false, 0);
        Table { transaction: &mut *self.transaction, queue, id, now_ms, was_idle, grouped_since }
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
        self.grouped_since = header.grouped_since;
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
    pub(crate) async fn save(&mut self, header: &mut Header) -> Result<(), Error> {
        groups::save(self, header).await?;
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
            header.grouped_since,
            header.regroup_at,
            header.set_pace.clone(),
        ];
        self.transaction.execute(SAVE, &values).await?;
        if self.was_idle && !header.line.is_idle() && self.transaction.backend() == Backend::Postgres {
            self.transaction.execute(ANNOUNCE, &values![&self.queue]).await?;
        }
        Ok(())
    }

    async fn rows(
        &mut self,
        sql: crate::database::Sql,
        values: &[crate::database::Value],
    ) -> Result<Vec<Row>, Error> {
        let mut rows: Vec<Row> = self.transaction.query(sql, values).await?;
        self.forget_old_groups(&mut rows);
        Ok(rows)
    }

    /// A number of a group that is not one any more, or that a row has kept from when it was in line, means nothing.
    fn forget_old_groups<'r>(&self, rows: impl IntoIterator<Item = &'r mut Row>) {
        for row in rows {
            if self.grouped_since == 0 || row.group < self.grouped_since || row.at != RowState::Line {
                row.group = 0;
            }
        }
    }

    /// The rows of these keys, as far as there are any, in no order.
    pub(crate) async fn find(&mut self, keys: &[String]) -> Result<Vec<Row>, Error> {
        self.rows(FIND, &values![self.id, keys.to_vec()]).await
    }

    /// The first in line, by rank; what runs may be among them. None that waits has a rank below `from`.
    pub(crate) async fn line(&mut self, from: i64, limit: usize) -> Result<Vec<Row>, Error> {
        self.rows(LINE, &values![self.id, from, limit as i64]).await
    }

    /// Those in line longest, by age; what runs may be among them. None that waits has an age below `from`, nor above `to`.
    pub(crate) async fn ages(&mut self, from: i64, to: i64, limit: usize) -> Result<Vec<Row>, Error> {
        self.rows(AGES, &values![from, to, limit as i64]).await
    }

    /// The rows in line of these ages, in no order.
    pub(crate) async fn aged(&mut self, ages: &[i64]) -> Result<Vec<Row>, Error> {
        self.rows(AGED, &values![ages.to_vec()]).await
    }

    /// Forgets that keys in line were asked for again. Looks at the whole line.
    pub(crate) async fn forget_again(&mut self) -> Result<(), Error> {
        self.transaction.execute(FORGET_AGAIN, &values![self.id]).await.map(drop)
    }

    /// The first retries, by due time.
    pub(crate) async fn retries(&mut self, limit: usize) -> Result<Vec<Retry>, Error> {
        let mut retries: Vec<Retry> =
            self.transaction.query(RETRIES, &values![self.id, limit as i64]).await?;
        self.forget_old_groups(retries.iter_mut().map(|retry| &mut retry.row));
        Ok(retries)
    }

    /// The oldest of those that ended in this place, by rank.
    pub(crate) async fn ended(&mut self, at: RowState, limit: usize) -> Result<Vec<Row>, Error> {
        self.rows(ENDED, &values![self.id, limit as i64, number(at)]).await
    }

    /// Inserts rows that are in line, or replaces them by their keys.
    pub(crate) async fn put(&mut self, rows: &[Row]) -> Result<(), Error> {
        let mut values = values![self.id, self.now_ms];
        if self.grouped_since != 0 {
            return self.put_grouped(rows, values).await;
        }
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

    /// The same with their groups.
    async fn put_grouped(
        &mut self,
        rows: &[Row],
        mut values: Vec<crate::database::Value>,
    ) -> Result<(), Error> {
        match self.transaction.backend() {
            Backend::Sqlite => values.push(json(rows, |row| {
                let Row { key, rank, arrival_no, priority, again, group, group_name, .. } = row;
                let group = (*group != 0).then_some(*group);
                (key, *rank, *arrival_no, row.attempts_before(), *priority, *again, group, group_name)
            })),
            Backend::Postgres => values.extend(values![
                column(rows, |row| row.key.clone()),
                column(rows, |row| row.rank),
                column(rows, |row| row.arrival_no),
                column(rows, |row| i64::from(row.attempts_before())),
                column(rows, |row| row.priority),
                column(rows, |row| row.again),
                column(rows, |row| (row.group != 0).then_some(row.group)),
                column(rows, |row| row.group_name.clone()),
            ]),
        }
        self.transaction.execute(PUT_GROUPED, &values).await.map(drop)
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
        self.trim_to(from, oldest.unwrap_or_default()).await
    }

    /// The same for up to `limit` of those that are from `before` or older.
    pub(crate) async fn trim_old(&mut self, from: i64, limit: usize, before: i64) -> Result<Trimmed, Error> {
        let values = values![self.id, from, limit as i64, before];
        let oldest = self.transaction.query_first(OLD_RESULTS, &values).await?;
        self.trim_to(from, oldest.unwrap_or_default()).await
    }

    async fn trim_to(
        &mut self,
        from: i64,
        (up_to, done, failed): (Option<i64>, i64, i64),
    ) -> Result<Trimmed, Error> {
        if let Some(up_to) = up_to {
            self.transaction.execute(TRIM, &values![self.id, from, up_to]).await?;
        }
        Ok(Trimmed { up_to, done, failed })
    }
}

/// Groups.
impl Table<'_, '_> {
    /// From here on rows are written with their groups.
    pub(crate) fn begin_groups(&mut self, grouped_since: i64) {
        self.grouped_since = grouped_since;
    }

    /// Puts keys in line, named by their ages, into groups.
    pub(crate) async fn set_groups(&mut self, joined: &[(i64, i64)]) -> Result<(), Error> {
        let values = match self.transaction.backend() {
            Backend::Sqlite => vec![json(joined, |joined| joined)],
            Backend::Postgres => {
                values![column(joined, |joined| joined.0), column(joined, |joined| joined.1)]
            }
        };
        self.transaction.execute(SET_GROUPS, &values).await.map(drop)
    }

    /// The groups of these names, as far as there are any, in no order.
    pub(crate) async fn groups_named(&mut self, names: Vec<String>) -> Result<Vec<GroupRow>, Error> {
        self.transaction.query(GROUPS_NAMED, &values![self.id, names]).await
    }

    /// The same by their numbers.
    pub(crate) async fn groups_numbered(&mut self, ids: Vec<i64>) -> Result<Vec<GroupRow>, Error> {
        self.transaction.query(GROUPS_NUMBERED, &values![ids]).await
    }

    /// The groups that may start at `now_ms`, in turn.
    pub(crate) async fn groups_ready(&mut self, now_ms: i64, limit: usize) -> Result<Vec<GroupRow>, Error> {
        self.transaction.query(GROUPS_READY, &values![self.id, now_ms, limit as i64]).await
    }

    /// When the next group may start.
    pub(crate) async fn group_ready_next(&mut self) -> Result<Option<i64>, Error> {
        let next: Option<(i64,)> = self.transaction.query_first(GROUP_READY_NEXT, &values![self.id]).await?;
        Ok(next.map(|(ready_at,)| ready_at))
    }

    /// The first in line of each of these groups, by rank; what runs may be among them. Each is asked for with how many.
    pub(crate) async fn group_line(&mut self, asked: &[(&Group, usize)]) -> Result<Vec<Row>, Error> {
        let asked: Vec<_> = asked.iter().map(|(group, most)| (group.id, group.front, *most as i64)).collect();
        self.of_groups(GROUP_LINE, &asked).await
    }

    /// The same by age.
    pub(crate) async fn group_ages(&mut self, asked: &[(&Group, usize)]) -> Result<Vec<Row>, Error> {
        let asked: Vec<_> =
            asked.iter().map(|(group, most)| (group.id, group.oldest, *most as i64)).collect();
        self.of_groups(GROUP_AGES, &asked).await
    }

    async fn of_groups(
        &mut self,
        sql: crate::database::Sql,
        asked: &[(i64, i64, i64)],
    ) -> Result<Vec<Row>, Error> {
        match self.transaction.backend() {
            // There a statement costs no more than its rows.
            Backend::Sqlite => {
                let mut rows = Vec::new();
                for (id, from, most) in asked {
                    rows.append(&mut self.rows(sql, &values![*id, *from, *most]).await?);
                }
                Ok(rows)
            }
            Backend::Postgres => {
                let values = values![
                    column(asked, |one| one.0),
                    column(asked, |one| one.1),
                    column(asked, |one| one.2)
                ];
                self.rows(sql, &values).await
            }
        }
    }

    /// Writes groups.
    pub(crate) async fn put_groups(&mut self, rows: &[GroupRow]) -> Result<(), Error> {
        let mut values = values![self.id];
        match self.transaction.backend() {
            Backend::Sqlite => values.push(json(rows, |GroupRow { name, group }| {
                let Group { id, waiting, running, front, oldest, overtakes, next_at, .. } = *group;
                let Group { failures, ready_at, turn, held, .. } = *group;
                (
                    id, name, waiting, running, front, oldest, overtakes, next_at, failures, ready_at, turn,
                    held,
                )
            })),
            Backend::Postgres => values.extend(values![
                column(rows, |row| row.group.id),
                column(rows, |row| row.name.clone()),
                column(rows, |row| row.group.waiting),
                column(rows, |row| row.group.running),
                column(rows, |row| row.group.front),
                column(rows, |row| row.group.oldest),
                column(rows, |row| row.group.overtakes),
                column(rows, |row| row.group.next_at),
                column(rows, |row| row.group.failures),
                column(rows, |row| row.group.ready_at),
                column(rows, |row| row.group.turn),
                column(rows, |row| row.group.held),
            ]),
        }
        self.transaction.execute(PUT_GROUPS, &values).await.map(drop)
    }

    /// Deletes groups by their numbers.
    pub(crate) async fn delete_groups(&mut self, ids: Vec<i64>) -> Result<(), Error> {
        self.transaction.execute(DELETE_GROUPS, &values![ids]).await.map(drop)
    }

    /// Has every group wait until `time_ms`, now that the clock tells nothing of how long they have waited.
    pub(crate) async fn groups_anew(&mut self, time_ms: i64) -> Result<(), Error> {
        self.transaction.execute(GROUPS_ANEW, &values![self.id, time_ms]).await.map(drop)
    }

    /// Has every group start as another pace allows, from `time_ms` on.
    pub(crate) async fn groups_paced(&mut self, concurrency: u32, time_ms: i64) -> Result<(), Error> {
        let concurrency = i64::from(concurrency);
        self.transaction.execute(GROUPS_PACED, &values![self.id, concurrency, time_ms]).await.map(drop)
    }

    /// The names of the groups that somebody holds.
    pub(crate) async fn groups_held(&mut self) -> Result<Vec<String>, Error> {
        let names: Vec<(String,)> = self.transaction.query(GROUPS_HELD, &values![self.id]).await?;
        Ok(names.into_iter().map(|(name,)| name).collect())
    }

    /// Deletes all groups.
    pub(crate) async fn forget_groups(&mut self) -> Result<(), Error> {
        self.transaction.execute(FORGET_GROUPS, &values![self.id]).await.map(drop)
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
