//! The kv on SQLite. Times to live are counted on the store's steady clock.

use std::time::Duration;

use async_trait::async_trait;
use futures::TryStreamExt as _;
use sqlx::sqlite::SqliteConnection;
use syncline_core::kv::Key;

use super::{Engine, statement};
use crate::Error;
use crate::kv::{self, Asked, Entry, GARBAGE_TOLERATED, Kv, LIST_BYTES_MAX, ListRow, Page, Range, Sweeper};

const PUT: &str = "INSERT INTO syncline.kv (key, value, expires_at) VALUES ($1, $2, $3) \
     ON CONFLICT (key) DO UPDATE SET value = excluded.value, expires_at = excluded.expires_at";
const PUT_NEW: &str = "INSERT INTO syncline.kv (key, value, expires_at) VALUES ($1, $2, $3) \
     ON CONFLICT (key) DO UPDATE SET value = excluded.value, expires_at = excluded.expires_at \
     WHERE syncline.kv.expires_at <= $4";
const GET: &str = "SELECT key, value, expires_at - $2 FROM syncline.kv \
     WHERE key = $1 AND (expires_at IS NULL OR expires_at > $2)";
const DELETE: &str = "DELETE FROM syncline.kv WHERE key = $1 RETURNING expires_at IS NULL OR expires_at > $2";
/// from, to, limit, now, whether values are wanted.
const LIST: &str = "SELECT key, CASE WHEN $5 THEN value ELSE '' END, expires_at - $4 FROM syncline.kv \
     WHERE key >= $1 AND key < $2 AND (expires_at IS NULL OR expires_at > $4) ORDER BY key LIMIT $3";
/// now, limit: how many are expired, as far as that is worth knowing.
const GARBAGE: &str = "SELECT count(*) FROM (SELECT 1 FROM syncline.kv WHERE expires_at <= $1 LIMIT $2)";
const SWEEP: &str = "DELETE FROM syncline.kv WHERE rowid IN \
     (SELECT rowid FROM syncline.kv WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2)";

/// The kv port on SQLite.
#[derive(Debug, Clone)]
pub(crate) struct SqliteKv {
    engine: Engine,
    sweeper: Sweeper,
}

impl SqliteKv {
    pub(crate) fn new(engine: Engine) -> Self {
        Self { engine, sweeper: Sweeper::default() }
    }
}

/// What [`Kv::put_new`] does when its turn has come.
async fn put_new(
    connection: &mut SqliteConnection,
    key: &str,
    value: &str,
    ttl_ms: Option<i64>,
    now_ms: i64,
) -> sqlx::Result<bool> {
    let done = statement::query(PUT_NEW)
        .bind(key)
        .bind(value)
        .bind(ttl_ms.map(|ttl_ms| now_ms + ttl_ms))
        .bind(now_ms)
        .execute(connection)
        .await?;
    Ok(done.rows_affected() > 0)
}

/// The rows of a page, read one by one and no further than they fit, and how much garbage there is.
async fn read_page(
    connection: &mut SqliteConnection,
    range: Range,
    now_ms: i64,
    values: bool,
) -> sqlx::Result<(Vec<ListRow>, i64)> {
    let garbage = statement::query_scalar(GARBAGE).bind(now_ms).bind(GARBAGE_TOLERATED + 1);
    let garbage = garbage.fetch_one(&mut *connection).await?;
    let list = statement::query_as::<ListRow>(LIST).bind(range.from).bind(range.to).bind(range.limit);
    let mut reading = list.bind(now_ms).bind(values).fetch(connection);
    let (mut rows, mut bytes) = (Vec::new(), 0);
    while bytes < LIST_BYTES_MAX
        && let Some(row) = reading.try_next().await?
    {
        bytes += row.0.len() + row.1.len();
        rows.push(row);
    }
    Ok((rows, garbage))
}

#[async_trait]
impl Kv for SqliteKv {
    async fn put(&self, key: &Key, value: &str, ttl: Option<Duration>) -> Result<(), Error> {
        let ttl_ms = kv::check_put(value, ttl)?;
        let put = statement::query(PUT).bind(key.as_str().to_owned()).bind(value.to_owned());
        let clock = self.engine.clock().clone();
        let done = self.engine.write(move |connection| {
            // Read when its turn has come: a wait in the queue must not eat into the time to live.
            let expires_at = ttl_ms.map(|ttl_ms| clock.now_ms() + ttl_ms);
            Box::pin(put.bind(expires_at).execute(connection))
        });
        done.await.map(drop)
    }

    async fn put_new(&self, key: &Key, value: &str, ttl: Option<Duration>) -> Result<bool, Error> {
        let ttl_ms = kv::check_put(value, ttl)?;
        let (key, value) = (key.as_str().to_owned(), value.to_owned());
        let clock = self.engine.clock().clone();
        self.engine
            .write(move |connection| {
                Box::pin(async move { put_new(connection, &key, &value, ttl_ms, clock.now_ms()).await })
            })
            .await
    }

    async fn get(&self, key: &Key) -> Result<Option<Entry>, Error> {
        let get = statement::query_as(GET).bind(key.as_str().to_owned()).bind(self.engine.clock().now_ms());
        let row = self.engine.read(|connection| Box::pin(get.fetch_optional(connection))).await?;
        row.map(|(key, value, ttl_left_ms)| kv::entry(key, value, ttl_left_ms)).transpose()
    }

    async fn delete(&self, key: &Key) -> Result<bool, Error> {
        let delete = statement::query_scalar(DELETE).bind(key.as_str().to_owned());
        let clock = self.engine.clock().clone();
        let lived = self
            .engine
            .write(move |connection| Box::pin(delete.bind(clock.now_ms()).fetch_optional(connection)));
        Ok(lived.await?.unwrap_or(false))
    }

    async fn page(&self, asked: Asked<'_>) -> Result<Page, Error> {
        let (range, now_ms) = (Range::of(asked)?, self.engine.clock().now_ms());
        let values = asked.values;
        let (rows, garbage) = self
            .engine
            .read(move |connection| Box::pin(read_page(connection, range, now_ms, values)))
            .await?;
        if garbage > GARBAGE_TOLERATED {
            self.sweeper.start(self.clone());
        }
        kv::paged(rows, asked.limit)
    }

    async fn sweep(&self, limit: usize) -> Result<u64, Error> {
        let sweep = statement::query(SWEEP).bind(self.engine.clock().now_ms()).bind(kv::check_sweep(limit)?);
        let swept = self.engine.write(|connection| Box::pin(sweep.execute(connection)));
        Ok(swept.await?.rows_affected())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::clock::TimeSource;
    use crate::clock::fake::FakeMachine;

    const MINUTE: Duration = Duration::from_secs(60);
    const DECADE_MS: i64 = 10 * 365 * 86_400_000;

    async fn open(url: &str, machine: &Arc<FakeMachine>) -> SqliteKv {
        let source = Arc::clone(machine) as Arc<dyn TimeSource>;
        SqliteKv::new(Engine::open(url, source).await.unwrap())
    }

    async fn lives(kv: &SqliteKv, key: &Key) -> bool {
        kv.get(key).await.unwrap().is_some()
    }

    #[tokio::test]
    async fn vw_24_wall_clock_jumps_change_no_time_to_live() {
        let machine = Arc::new(FakeMachine::new());
        let kv = open("sqlite::memory:", &machine).await;
        let key = Key::new("viewer:1").unwrap();
        for jump_ms in [DECADE_MS, -DECADE_MS, 3_600_000, -3_600_000] {
            kv.put(&key, "1", Some(MINUTE)).await.unwrap();
            machine.jump(jump_ms);
            assert_eq!(kv.get(&key).await.unwrap().unwrap().ttl_left, Some(MINUTE));
            machine.advance(59_999);
            assert!(lives(&kv, &key).await);
            machine.jump(-jump_ms);
            machine.advance(1);
            assert!(!lives(&kv, &key).await);
        }
    }

    #[tokio::test]
    async fn vw_24_two_processes_and_a_restart_count_the_same_time_across_a_jump() {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", folder.path().join("store.db").display());
        let machine = Arc::new(FakeMachine::new());
        let key = Key::new("viewer:1").unwrap();
        let first = open(&url, &machine).await;
        first.put(&key, "1", Some(MINUTE)).await.unwrap();

        machine.jump(DECADE_MS);
        machine.advance(20_000);
        let second = open(&url, &machine).await;
        let left = second.get(&key).await.unwrap().unwrap().ttl_left;
        assert_eq!(left, Some(Duration::from_secs(40)));
        assert_eq!(second.sweep(10).await.unwrap(), 0, "nothing that lives is swept");

        first.engine.close().await;
        second.engine.close().await;
        let third = open(&url, &machine).await;
        assert!(lives(&third, &key).await);
        machine.advance(40_000);
        assert!(!lives(&third, &key).await);
    }

    #[tokio::test]
    async fn a_new_boot_takes_the_time_of_day_anew() {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", folder.path().join("store.db").display());
        let machine = Arc::new(FakeMachine::new());
        let key = Key::new("last_snapshot").unwrap();
        let before = open(&url, &machine).await;
        before.put(&key, "{}", Some(2 * MINUTE)).await.unwrap();
        before.engine.close().await;

        machine.advance(60_000);
        machine.reboot();
        let after = open(&url, &machine).await;
        assert_eq!(after.get(&key).await.unwrap().unwrap().ttl_left, Some(MINUTE));
        machine.advance(60_000);
        assert!(!lives(&after, &key).await);
    }

    /// Reads of the kv must find their rows by an index whatever the table's size; SQLite says how it would.
    #[tokio::test]
    async fn vw_04_a_listing_and_a_sweep_search_their_index() {
        let kv = open("sqlite::memory:", &Arc::new(FakeMachine::new())).await;
        let plan = |statement: &'static str| {
            let engine = kv.engine.clone();
            async move {
                let sql =
                    sqlx::AssertSqlSafe(crate::names::on_sqlite(&format!("EXPLAIN QUERY PLAN {statement}")));
                let plan = sqlx::query_as(sql);
                let rows: Vec<(i64, i64, i64, String)> =
                    engine.read(|connection| Box::pin(plan.fetch_all(connection))).await.unwrap();
                rows.into_iter().map(|row| row.3).collect::<Vec<_>>().join("\n")
            }
        };
        let list = plan(LIST).await;
        assert!(
            list.contains("SEARCH syncline_kv USING INDEX sqlite_autoindex_syncline_kv_1 (key>? AND key<?)"),
            "{list}"
        );
        let garbage = plan(GARBAGE).await;
        assert!(
            garbage.contains("SEARCH syncline_kv USING COVERING INDEX syncline_kv_expires_at (expires_at<?)"),
            "{garbage}"
        );
        let sweep = plan(SWEEP).await;
        assert!(
            sweep.contains("SEARCH syncline_kv USING COVERING INDEX syncline_kv_expires_at (expires_at<?)"),
            "{sweep}"
        );
        for plan in [list, garbage, sweep] {
            assert!(!plan.contains("SCAN syncline_kv") && !plan.contains("TEMP B-TREE"), "{plan}");
        }
    }
}
