//! Queues on SQLite. The writer runs one change at a time, so a change may look first and write after.
//!
//! Many rows go in as one JSON array, so that a batch is a handful of statements whatever its size.

#[cfg(test)]
mod plans;

use std::convert::Infallible;

use serde::Serialize;
use sqlx::sqlite::SqliteConnection;

use super::{Engine, statement};
use crate::Error;
use crate::clock::SteadyClock;
use crate::queue::registry::QueueRegistry;
use crate::queue::row::{
    Header, Kept, KeyUpdate, Known, Retry, Row, RowState, Success, entry_columns, header_columns, row_columns,
};
use crate::queue::sql::{AGES, ENTRY, SAVE, ended, forget_again, line, retries, trim};
use crate::queue::table::{Table, Tables, Trimmed, Work};
use crate::queue::{Cursor, LIST_BYTES_MAX, List, QUEUES_MAX};

const OPEN: &str =
    concat!("SELECT ", header_columns!(), ", $2 AS now_ms FROM syncline.queues WHERE name = $1");
const CREATE: &str = "INSERT INTO syncline.queues (name, pace, tail, front, oldest, trimmed, overtakes, waiting, running, \
     retrying, done, failed, dead, done_total, failed_total, changes) \
     SELECT $1, $2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 WHERE (SELECT count(*) FROM syncline.queues) < $3";

const LINE: &str = line!("queue_id");
const FORGET_AGAIN: &str = forget_again!("queue_id");
const RETRIES: &str = retries!("queue_id");
const ENDED: &str = ended!("queue_id");
const TRIM: &str = trim!("queue_id");

// A cross join is SQLite's way of saying which table comes first: what was asked for, then each by its index.
const FIND: &str = concat!(
    "SELECT ",
    row_columns!("k."),
    " FROM json_each($2) AS asked CROSS JOIN syncline.queue_keys AS k WHERE k.queue_id = $1 AND k.key = asked.value"
);
const AGED: &str = concat!(
    "SELECT ",
    row_columns!("k."),
    " FROM json_each($1) AS asked CROSS JOIN syncline.queue_keys AS k \
     WHERE k.place = 0 AND k.arrival_no = asked.value"
);

const PUT: &str = "INSERT INTO syncline.queue_keys \
     (queue_id, key, place, rank, arrival_no, attempts, priority, again, changed_at) \
     SELECT $1, value ->> 0, 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, $3 \
     FROM json_each($2) WHERE true \
     ON CONFLICT (queue_id, key) DO UPDATE SET place = 0, rank = excluded.rank, arrival_no = excluded.arrival_no, \
     attempts = excluded.attempts, priority = excluded.priority, again = excluded.again, \
     due = NULL, reason = NULL, result = NULL, changed_at = excluded.changed_at";
const SUCCEED: &str = "UPDATE syncline.queue_keys SET place = 2, rank = done.value ->> 1, attempts = attempts + 1, \
     result = done.value ->> 2, changed_at = $2 FROM json_each($1) AS done \
     WHERE place = 0 AND arrival_no = done.value ->> 0 AND NOT again RETURNING arrival_no, key";
const REPLACE: &str = "UPDATE syncline.queue_keys SET place = left.value ->> 1, rank = left.value ->> 2, \
     arrival_no = left.value ->> 3, attempts = left.value ->> 4, priority = left.value ->> 5, again = 0, \
     due = left.value ->> 6, reason = left.value ->> 7, result = left.value ->> 8, changed_at = $2 \
     FROM json_each($1) AS left WHERE place = 0 AND arrival_no = left.value ->> 0";
const DELETE: &str =
    "DELETE FROM syncline.queue_keys WHERE queue_id = $1 AND key IN (SELECT value FROM json_each($2))";
/// The rank up to which results go, and how many of which kind those are.
const OLDEST: &str = "SELECT max(rank), count(*) FILTER (WHERE place = 2), count(*) FILTER (WHERE place = 3) FROM \
     (SELECT place, rank FROM \
     (SELECT * FROM (SELECT place, rank FROM syncline.queue_keys WHERE queue_id = $1 AND place = 2 AND rank >= $2 \
     ORDER BY rank LIMIT $3) UNION ALL \
     SELECT * FROM (SELECT place, rank FROM syncline.queue_keys WHERE queue_id = $1 AND place = 3 AND rank >= $2 \
     ORDER BY rank LIMIT $3)) ORDER BY rank LIMIT $3)";

/// A listing is cut where its results together would be too long; the first is always there.
macro_rules! list {
    ($which:literal, $order:literal) => {
        concat!(
            "SELECT ",
            entry_columns!(),
            " FROM (SELECT *, sum(coalesce(octet_length(result), 0)) OVER (ORDER BY ",
            $order,
            " ROWS UNBOUNDED PRECEDING) AS bytes, row_number() OVER (ORDER BY ",
            $order,
            ") AS number FROM (SELECT * FROM syncline.queue_keys WHERE queue_id = $1 AND ",
            $which,
            " ORDER BY ",
            $order,
            " LIMIT $2)) WHERE bytes <= $3 OR number = 1 ORDER BY ",
            $order
        )
    };
}
const LIST_RUNNING: &str = concat!(
    "SELECT ",
    entry_columns!(),
    " FROM syncline.queue_keys WHERE place = 0 AND arrival_no IN (SELECT value FROM json_each($1))"
);
const LIST_WAITING: &str = list!("place = 0 AND rank > $4", "rank");
const LIST_RETRYING: &str = list!("due IS NOT NULL AND (due, rank) > ($4, $5)", "due, rank");
const LIST_ENDED: &str = list!("place = $5 AND rank < $4", "rank DESC");

const VERSIONS: &str =
    "SELECT name, changes FROM syncline.queues WHERE name IN (SELECT value FROM json_each($1))";

/// The tables of queues on SQLite.
#[derive(Debug, Clone)]
pub(crate) struct SqliteQueues {
    engine: Engine,
}

impl SqliteQueues {
    pub(crate) fn new(engine: Engine) -> Self {
        Self { engine }
    }
}

impl Tables for SqliteQueues {
    async fn change<W: Work>(&self, queue: &str, work: W) -> Result<W::Made, Error> {
        let (queue, clock) = (queue.to_owned(), self.engine.clock().clone());
        let made = self.engine.write(move |connection| {
            Box::pin(async move { work.run(&mut Rows { connection, clock, queue, id: 0, now_ms: 0 }).await })
        });
        made.await
    }

    async fn peek(&self, queue: &str) -> Result<Option<Header>, Error> {
        let open = statement::query_as(OPEN).bind(queue.to_owned()).bind(self.engine.clock().now_ms());
        self.engine.read(|connection| Box::pin(open.fetch_optional(connection))).await
    }

    async fn entry(&self, queue: &str, key: &str) -> Result<Option<Known>, Error> {
        let entry = statement::query_as(ENTRY).bind(queue.to_owned()).bind(key.to_owned());
        self.engine.read(|connection| Box::pin(entry.fetch_optional(connection))).await
    }

    async fn running(&self, ages: Vec<i64>) -> Result<Vec<Kept>, Error> {
        let running = statement::query_as(LIST_RUNNING).bind(json(&ages));
        self.engine.read(|connection| Box::pin(running.fetch_all(connection))).await
    }

    async fn list(
        &self,
        header: &Header,
        list: List,
        after: Option<Cursor>,
        limit: i64,
    ) -> Result<Vec<Kept>, Error> {
        let from = after.map_or(i64::MIN, |after| after.order);
        let before = after.map_or(i64::MAX, |after| after.order);
        let query = |sql| statement::query_as(sql).bind(header.id).bind(limit).bind(LIST_BYTES_MAX as i64);
        let ended = |at: RowState| query(LIST_ENDED).bind(before).bind(at.number());
        let query = match list {
            List::Running | List::Waiting => query(LIST_WAITING).bind(from),
            List::Retrying => {
                query(LIST_RETRYING).bind(from).bind(after.map_or(i64::MIN, |after| after.rank))
            }
            List::Done => ended(RowState::Done),
            List::Failed => ended(RowState::Failed),
            List::Dead => ended(RowState::Dead),
        };
        self.engine.read(|connection| Box::pin(query.fetch_all(connection))).await
    }

    async fn names(&self) -> Result<Vec<String>, Error> {
        let names = statement::query_scalar("SELECT name FROM syncline.queues ORDER BY name");
        self.engine.read(|connection| Box::pin(names.fetch_all(connection))).await
    }

    async fn versions(&self, queues: Vec<String>) -> Result<Vec<(String, i64)>, Error> {
        let versions = statement::query_as(VERSIONS).bind(json(&queues));
        self.engine.read(|connection| Box::pin(versions.fetch_all(connection))).await
    }

    async fn listen(&self, _registry: &QueueRegistry) -> Result<Infallible, Error> {
        std::future::pending().await
    }

    fn announce(&self, _queue: &str) {}
}

/// The rows of one queue while its change runs.
struct Rows<'c> {
    connection: &'c mut SqliteConnection,
    clock: SteadyClock,
    queue: String,
    id: i32,
    now_ms: i64,
}

impl Rows<'_> {
    async fn header(&mut self) -> sqlx::Result<Option<Header>> {
        let open = statement::query_as(OPEN).bind(&self.queue).bind(self.clock.now_ms());
        open.fetch_optional(&mut *self.connection).await
    }
}

impl Table for Rows<'_> {
    type Error = sqlx::Error;

    async fn open(&mut self) -> sqlx::Result<Header> {
        let mut header = match self.header().await? {
            Some(header) => header,
            None => {
                let create = statement::query(CREATE).bind(&self.queue).bind(Header::empty().pace);
                create.bind(QUEUES_MAX as i64).execute(&mut *self.connection).await?;
                self.header().await?.ok_or_else(|| sqlx::Error::Configuration(TOO_MANY.into()))?
            }
        };
        header.begin();
        (self.id, self.now_ms) = (header.id, header.now_ms);
        Ok(header)
    }

    async fn save(&mut self, header: &Header) -> sqlx::Result<()> {
        let save = statement::query(SAVE)
            .bind(header.id)
            .bind(&header.pace)
            .bind(header.tail)
            .bind(header.front)
            .bind(header.oldest)
            .bind(header.trimmed)
            .bind(header.next_due)
            .bind(header.overtakes)
            .bind(header.waiting)
            .bind(header.running)
            .bind(header.retrying)
            .bind(header.done)
            .bind(header.failed)
            .bind(header.dead)
            .bind(header.done_total)
            .bind(header.failed_total)
            .bind(header.changes);
        save.execute(&mut *self.connection).await.map(drop)
    }

    async fn find(&mut self, keys: &[String]) -> sqlx::Result<Vec<Row>> {
        statement::query_as(FIND).bind(self.id).bind(json(keys)).fetch_all(&mut *self.connection).await
    }

    async fn line(&mut self, from: i64, limit: usize) -> sqlx::Result<Vec<Row>> {
        let line = statement::query_as(LINE).bind(self.id).bind(from).bind(limit as i64);
        line.fetch_all(&mut *self.connection).await
    }

    async fn ages(&mut self, from: i64, to: i64, limit: usize) -> sqlx::Result<Vec<Row>> {
        let ages = statement::query_as(AGES).bind(from).bind(to).bind(limit as i64);
        ages.fetch_all(&mut *self.connection).await
    }

    async fn aged(&mut self, ages: &[i64]) -> sqlx::Result<Vec<Row>> {
        statement::query_as(AGED).bind(json(ages)).fetch_all(&mut *self.connection).await
    }

    async fn forget_again(&mut self) -> sqlx::Result<()> {
        statement::query(FORGET_AGAIN).bind(self.id).execute(&mut *self.connection).await.map(drop)
    }

    async fn retries(&mut self, limit: usize) -> sqlx::Result<Vec<Retry>> {
        statement::query_as(RETRIES).bind(self.id).bind(limit as i64).fetch_all(&mut *self.connection).await
    }

    async fn ended(&mut self, at: RowState, limit: usize) -> sqlx::Result<Vec<Row>> {
        let ended = statement::query_as(ENDED).bind(self.id).bind(limit as i64).bind(at.number());
        ended.fetch_all(&mut *self.connection).await
    }

    async fn put(&mut self, rows: &[Row]) -> sqlx::Result<()> {
        let rows: Vec<_> = rows
            .iter()
            .map(|row| (&row.key, row.rank, row.arrival_no, row.attempts_before(), row.priority, row.again))
            .collect();
        let put = statement::query(PUT).bind(self.id).bind(json(&rows)).bind(self.now_ms);
        put.execute(&mut *self.connection).await.map(drop)
    }

    async fn succeed(&mut self, successes: &[Success]) -> sqlx::Result<Vec<(i64, String)>> {
        let rows: Vec<_> =
            successes.iter().map(|success| (success.arrival_no, success.rank, &success.result)).collect();
        let succeed = statement::query_as(SUCCEED).bind(json(&rows)).bind(self.now_ms);
        succeed.fetch_all(&mut *self.connection).await
    }

    async fn replace(&mut self, updates: &[KeyUpdate]) -> sqlx::Result<()> {
        let rows: Vec<_> = updates
            .iter()
            .map(|KeyUpdate { arrival_no, row, due, reason, result, .. }| {
                let Row { rank, arrival_no: age, attempts, priority, .. } = row;
                (arrival_no, row.at.number(), rank, age, attempts, priority, due, reason, result)
            })
            .collect();
        let replace = statement::query(REPLACE).bind(json(&rows)).bind(self.now_ms);
        replace.execute(&mut *self.connection).await.map(drop)
    }

    async fn delete(&mut self, keys: &[String]) -> sqlx::Result<()> {
        let delete = statement::query(DELETE).bind(self.id).bind(json(keys));
        delete.execute(&mut *self.connection).await.map(drop)
    }

    async fn trim(&mut self, from: i64, limit: usize) -> sqlx::Result<Trimmed> {
        let oldest = statement::query_as(OLDEST).bind(self.id).bind(from).bind(limit as i64);
        let (up_to, done, failed): (Option<i64>, i64, i64) = oldest.fetch_one(&mut *self.connection).await?;
        if let Some(up_to) = up_to {
            let trim = statement::query(TRIM).bind(self.id).bind(from).bind(up_to);
            trim.execute(&mut *self.connection).await?;
        }
        Ok(Trimmed { up_to, done, failed })
    }
}

const TOO_MANY: &str = "there are as many queues as there may be";

fn json<T: Serialize + ?Sized>(rows: &T) -> String {
    serde_json::to_string(rows).expect("numbers and text have a JSON")
}
