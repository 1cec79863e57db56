//! Queues on PostgreSQL. Every change locks the queue's header first, so it may look first and write after.
//!
//! Many rows go in as arrays, one for each column, so that a batch is a handful of statements whatever its size.

mod notifier;

use std::convert::Infallible;

pub(super) use self::notifier::Notifier;
use super::{Engine, Session, now_ms};
use crate::Error;
use crate::queue::registry::QueueRegistry;
use crate::queue::row::{
    Header, Kept, KeyUpdate, Known, Retry, Row, RowState, Success, entry_columns, header_columns, row_columns,
};
use crate::queue::sql::{AGES, ENTRY, SAVE, ended, forget_again, line, retries, trim};
use crate::queue::table::{Table, Tables, Trimmed, Work};
use crate::queue::{Cursor, LIST_BYTES_MAX, List, QUEUES_MAX};

/// The clock is read when the row is ours, so that it is not older than the change before.
const OPEN: &str = concat!(
    "WITH header AS MATERIALIZED (SELECT * FROM syncline.queues WHERE name = $1 FOR NO KEY UPDATE) SELECT ",
    header_columns!(),
    ", ",
    now_ms!(),
    " AS now_ms FROM header"
);
const PEEK: &str =
    concat!("SELECT ", header_columns!(), ", ", now_ms!(), " AS now_ms FROM syncline.queues WHERE name = $1");
const CREATE: &str = "INSERT INTO syncline.queues (name, pace, tail, front, oldest, trimmed, overtakes, waiting, running, \
     retrying, done, failed, dead, done_total, failed_total, changes) \
     SELECT $1, $2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 WHERE (SELECT count(*) FROM syncline.queues) < $3 \
     ON CONFLICT (name) DO NOTHING";

// Queue statements pin their index: PostgreSQL plans from old statistics and would scan a queue it thinks is short. A
// statement names the queue by the expression of the one index it needs (migration 0010), and sub-selects that must not be
// flattened (`OFFSET 0`) make the server go from what was asked for to each row.
const LINE: &str = line!("(queue_id + 0)");
const FORGET_AGAIN: &str = forget_again!("(queue_id + 0)");
const RETRIES: &str = retries!("(queue_id * 1)");
const ENDED: &str = ended!("(queue_id + 0)");
const TRIM: &str = trim!("(queue_id + 0)");
const FIND: &str = concat!(
    "SELECT ",
    row_columns!("found."),
    " FROM unnest($2::text[]) AS asked (key), LATERAL (SELECT * FROM syncline.queue_keys AS k \
     WHERE k.queue_id = $1 AND k.key = asked.key OFFSET 0) AS found"
);
const AGED: &str = concat!(
    "SELECT ",
    row_columns!("found."),
    " FROM unnest($1::bigint[]) AS asked (arrival_no), LATERAL (SELECT * FROM syncline.queue_keys AS k \
     WHERE k.place = 0 AND k.arrival_no = asked.arrival_no OFFSET 0) AS found"
);

const PUT: &str = "INSERT INTO syncline.queue_keys \
     (queue_id, key, place, rank, arrival_no, attempts, priority, again, changed_at) \
     SELECT $1, key, 0, rank, arrival_no, attempts, priority, again, $8 \
     FROM unnest($2::text[], $3::bigint[], $4::bigint[], $5::integer[], $6::boolean[], $7::boolean[]) \
     AS new (key, rank, arrival_no, attempts, priority, again) \
     ON CONFLICT (queue_id, key) DO UPDATE SET place = 0, rank = excluded.rank, arrival_no = excluded.arrival_no, \
     attempts = excluded.attempts, priority = excluded.priority, again = excluded.again, \
     due = NULL, reason = NULL, result = NULL, changed_at = excluded.changed_at";
const SUCCEED: &str = "UPDATE syncline.queue_keys SET place = 2, rank = done.rank, attempts = attempts + 1, result = done.result, \
     changed_at = $4 FROM unnest($1::bigint[], $2::bigint[], $3::text[]) AS done (arrival_no, rank, result), \
     LATERAL (SELECT k.ctid AS at FROM syncline.queue_keys AS k \
     WHERE k.place = 0 AND k.arrival_no = done.arrival_no AND NOT k.again OFFSET 0) AS found \
     WHERE syncline.queue_keys.ctid = found.at RETURNING syncline.queue_keys.arrival_no, syncline.queue_keys.key";
const REPLACE: &str = "UPDATE syncline.queue_keys SET place = gone.place, rank = gone.rank, arrival_no = gone.age, \
     attempts = gone.attempts, priority = gone.priority, again = false, due = gone.due, reason = gone.reason, \
     result = gone.result, changed_at = $10 \
     FROM unnest($1::bigint[], $2::smallint[], $3::bigint[], $4::bigint[], $5::integer[], $6::boolean[], \
     $7::bigint[], $8::text[], $9::text[]) \
     AS gone (arrival_no, place, rank, age, attempts, priority, due, reason, result), \
     LATERAL (SELECT k.ctid AS at FROM syncline.queue_keys AS k WHERE k.place = 0 AND k.arrival_no = gone.arrival_no OFFSET 0) AS found \
     WHERE syncline.queue_keys.ctid = found.at";
const DELETE: &str = "DELETE FROM syncline.queue_keys USING unnest($2::text[]) AS asked (key), \
     LATERAL (SELECT k.ctid AS at FROM syncline.queue_keys AS k WHERE k.queue_id = $1 AND k.key = asked.key OFFSET 0) AS found \
     WHERE syncline.queue_keys.ctid = found.at";
/// The rank up to which results go, and how many of which kind those are.
const OLDEST: &str = "SELECT max(rank), count(*) FILTER (WHERE place = 2), count(*) FILTER (WHERE place = 3) FROM (\
     SELECT place, rank FROM (\
     (SELECT place, rank FROM syncline.queue_keys WHERE (queue_id + 0) = $1 AND place = 2 AND rank >= $2 ORDER BY rank LIMIT $3) \
     UNION ALL \
     (SELECT place, rank FROM syncline.queue_keys WHERE (queue_id + 0) = $1 AND place = 3 AND rank >= $2 ORDER BY rank LIMIT $3)\
     ) AS both_kinds ORDER BY rank LIMIT $3) AS oldest";

/// A listing is cut where its results together would be too long; the first is always there.
macro_rules! list {
    ($queue:literal, $which:literal, $order:literal) => {
        concat!(
            "SELECT ",
            entry_columns!(),
            " FROM (SELECT *, sum(coalesce(octet_length(result), 0)) OVER (ORDER BY ",
            $order,
            " ROWS UNBOUNDED PRECEDING) AS bytes, row_number() OVER (ORDER BY ",
            $order,
            ") AS number FROM (SELECT * FROM syncline.queue_keys WHERE ",
            $queue,
            " = $1 AND ",
            $which,
            " ORDER BY ",
            $order,
            " LIMIT $2) AS page) AS weighed WHERE bytes <= $3 OR number = 1 ORDER BY ",
            $order
        )
    };
}
const LIST_RUNNING: &str = concat!(
    "SELECT ",
    entry_columns!(),
    " FROM unnest($1::bigint[]) AS asked (age), LATERAL (SELECT * FROM syncline.queue_keys AS k \
     WHERE k.place = 0 AND k.arrival_no = asked.age OFFSET 0) AS found"
);
const LIST_WAITING: &str = list!("(queue_id + 0)", "place = 0 AND rank > $4", "rank");
const LIST_RETRYING: &str =
    list!("(queue_id * 1)", "due IS NOT NULL AND (due, rank) > ($4, $5)", "due, rank");
const LIST_ENDED: &str = list!("(queue_id + 0)", "place = $5 AND rank < $4", "rank DESC");

const VERSIONS: &str = "SELECT name, changes FROM syncline.queues WHERE name = ANY($1)";

/// The tables of queues on PostgreSQL.
#[derive(Debug, Clone)]
pub(crate) struct PostgresQueues {
    engine: Engine,
}

impl PostgresQueues {
    pub(crate) fn new(engine: Engine) -> Self {
        Self { engine }
    }
}

impl Tables for PostgresQueues {
    async fn change<W: Work>(&self, queue: &str, work: W) -> Result<W::Made, Error> {
        let session = self.engine.transaction().await?;
        let mut rows =
            Rows { engine: self.engine.clone(), session, queue: queue.to_owned(), id: 0, now_ms: 0 };
        let made = work.run(&mut rows).await?;
        rows.session.commit().await?;
        Ok(made)
    }

    async fn peek(&self, queue: &str) -> Result<Option<Header>, Error> {
        let mut session = self.engine.statement().await?;
        let header = session.first(self.engine.query(PEEK).bind(queue.to_owned())).await?;
        session.commit().await?;
        Ok(header)
    }

    async fn entry(&self, queue: &str, key: &str) -> Result<Option<Known>, Error> {
        let mut session = self.engine.statement().await?;
        let entry = self.engine.query(ENTRY).bind(queue.to_owned()).bind(key.to_owned());
        let entry = session.first(entry).await?;
        session.commit().await?;
        Ok(entry)
    }

    async fn running(&self, ages: Vec<i64>) -> Result<Vec<Kept>, Error> {
        let mut session = self.engine.transaction().await?;
        let running = session.all(self.engine.query(LIST_RUNNING).bind(ages)).await?;
        session.commit().await?;
        Ok(running)
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
        let query = |sql| self.engine.query(sql).bind(header.id).bind(limit).bind(LIST_BYTES_MAX as i64);
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
        let mut session = self.engine.transaction().await?;
        let entries = session.all(query).await?;
        session.commit().await?;
        Ok(entries)
    }

    async fn names(&self) -> Result<Vec<String>, Error> {
        let mut session = self.engine.statement().await?;
        let names: Vec<(String,)> =
            session.all(self.engine.query("SELECT name FROM syncline.queues ORDER BY name")).await?;
        session.commit().await?;
        Ok(names.into_iter().map(|(name,)| name).collect())
    }

    async fn versions(&self, queues: Vec<String>) -> Result<Vec<(String, i64)>, Error> {
        let mut session = self.engine.statement().await?;
        let versions = session.all(self.engine.query(VERSIONS).bind(queues)).await?;
        session.commit().await?;
        Ok(versions)
    }

    async fn listen(&self, registry: &QueueRegistry) -> Result<Infallible, Error> {
        self.engine.notifier.listen(&self.engine, registry).await
    }

    fn announce(&self, queue: &str) {
        self.engine.notifier.announce(&self.engine, queue);
    }
}

/// The rows of one queue while its header is locked.
struct Rows {
    engine: Engine,
    session: Session,
    queue: String,
    id: i32,
    now_ms: i64,
}

impl Table for Rows {
    type Error = Error;

    async fn open(&mut self) -> Result<Header, Error> {
        let open = |rows: &Self| rows.engine.query(OPEN).bind(rows.queue.clone());
        let mut header: Option<Header> = self.session.first(open(self)).await?;
        if header.is_none() {
            let create = self.engine.query(CREATE).bind(self.queue.clone()).bind(Header::empty().pace);
            self.session.execute(create.bind(QUEUES_MAX as i64)).await?;
            header = self.session.first(open(self)).await?;
        }
        let mut header =
            header.ok_or_else(|| Error::invalid("queue", format!("would be one more than {QUEUES_MAX}")))?;
        header.begin();
        (self.id, self.now_ms) = (header.id, header.now_ms);
        Ok(header)
    }

    async fn save(&mut self, header: &Header) -> Result<(), Error> {
        let save = self
            .engine
            .query(SAVE)
            .bind(header.id)
            .bind(header.pace.clone())
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
        self.session.execute(save).await.map(drop)
    }

    async fn find(&mut self, keys: &[String]) -> Result<Vec<Row>, Error> {
        self.session.all(self.engine.query(FIND).bind(self.id).bind(keys.to_vec())).await
    }

    async fn line(&mut self, from: i64, limit: usize) -> Result<Vec<Row>, Error> {
        self.session.all(self.engine.query(LINE).bind(self.id).bind(from).bind(limit as i64)).await
    }

    async fn ages(&mut self, from: i64, to: i64, limit: usize) -> Result<Vec<Row>, Error> {
        self.session.all(self.engine.query(AGES).bind(from).bind(to).bind(limit as i64)).await
    }

    async fn aged(&mut self, ages: &[i64]) -> Result<Vec<Row>, Error> {
        self.session.all(self.engine.query(AGED).bind(ages.to_vec())).await
    }

    async fn forget_again(&mut self) -> Result<(), Error> {
        self.session.execute(self.engine.query(FORGET_AGAIN).bind(self.id)).await.map(drop)
    }

    async fn retries(&mut self, limit: usize) -> Result<Vec<Retry>, Error> {
        self.session.all(self.engine.query(RETRIES).bind(self.id).bind(limit as i64)).await
    }

    async fn ended(&mut self, at: RowState, limit: usize) -> Result<Vec<Row>, Error> {
        let ended = self.engine.query(ENDED).bind(self.id).bind(limit as i64).bind(at.number());
        self.session.all(ended).await
    }

    async fn put(&mut self, rows: &[Row]) -> Result<(), Error> {
        let put = self
            .engine
            .query(PUT)
            .bind(self.id)
            .bind(column(rows, |row| row.key.clone()))
            .bind(column(rows, |row| row.rank))
            .bind(column(rows, |row| row.arrival_no))
            .bind(column(rows, Row::attempts_before))
            .bind(column(rows, |row| row.priority))
            .bind(column(rows, |row| row.again))
            .bind(self.now_ms);
        self.session.execute(put).await.map(drop)
    }

    async fn succeed(&mut self, successes: &[Success]) -> Result<Vec<(i64, String)>, Error> {
        let succeed = self
            .engine
            .query(SUCCEED)
            .bind(column(successes, |success| success.arrival_no))
            .bind(column(successes, |success| success.rank))
            .bind(column(successes, |success| success.result.clone()))
            .bind(self.now_ms);
        self.session.all(succeed).await
    }

    async fn replace(&mut self, updates: &[KeyUpdate]) -> Result<(), Error> {
        let replace = self
            .engine
            .query(REPLACE)
            .bind(column(updates, |update| update.arrival_no))
            .bind(column(updates, |update| update.row.at.number()))
            .bind(column(updates, |update| update.row.rank))
            .bind(column(updates, |update| update.row.arrival_no))
            .bind(column(updates, |update| update.row.attempts))
            .bind(column(updates, |update| update.row.priority))
            .bind(column(updates, |update| update.due))
            .bind(column(updates, |update| update.reason.clone()))
            .bind(column(updates, |update| update.result.clone()))
            .bind(self.now_ms);
        self.session.execute(replace).await.map(drop)
    }

    async fn delete(&mut self, keys: &[String]) -> Result<(), Error> {
        self.session.execute(self.engine.query(DELETE).bind(self.id).bind(keys.to_vec())).await.map(drop)
    }

    async fn trim(&mut self, from: i64, limit: usize) -> Result<Trimmed, Error> {
        let oldest = self.engine.query(OLDEST).bind(self.id).bind(from).bind(limit as i64);
        let oldest: Option<(Option<i64>, i64, i64)> = self.session.first(oldest).await?;
        let (up_to, done, failed) = oldest.unwrap_or_default();
        if let Some(up_to) = up_to {
            self.session.execute(self.engine.query(TRIM).bind(self.id).bind(from).bind(up_to)).await?;
        }
        Ok(Trimmed { up_to, done, failed })
    }
}

fn column<R, C>(rows: &[R], of: impl Fn(&R) -> C) -> Vec<C> {
    rows.iter().map(of).collect()
}
