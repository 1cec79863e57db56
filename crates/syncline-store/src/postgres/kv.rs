//! The kv on PostgreSQL. Times to live are counted on the database's clock.
//!
//! The clock is read inside each statement. Where it only filters, it is read once at the start; where it decides
//! over a row that another transaction may hold, it is read again when the row is ours, so that waiting neither
//! shortens a time to live nor keeps an expired key alive.

use std::time::Duration;

use async_trait::async_trait;
use syncline_core::kv::Key;

use super::{Engine, Session, now_ms};
use crate::Error;
use crate::kv::{self, Entry, GARBAGE_TOLERATED, Kv, Range, Sweeper};

const PUT: &str = concat!(
    "INSERT INTO kv (key, value, expires_at) VALUES ($1, $2, ",
    now_ms!(),
    " + $3) ON CONFLICT (key) DO UPDATE SET value = excluded.value, expires_at = ",
    now_ms!(),
    " + $3"
);
const PUT_NEW: &str = concat!(
    "INSERT INTO kv (key, value, expires_at) VALUES ($1, $2, ",
    now_ms!(),
    " + $3) ON CONFLICT (key) DO UPDATE SET value = excluded.value, expires_at = ",
    now_ms!(),
    " + $3 WHERE kv.expires_at <= ",
    now_ms!()
);
const GET: &str = concat!(
    "SELECT key, value, expires_at - now FROM kv, (SELECT ",
    now_ms!(),
    " AS now) AS clock WHERE key = $1 AND (expires_at IS NULL OR expires_at > now)"
);
const DELETE: &str =
    concat!("DELETE FROM kv WHERE key = $1 RETURNING expires_at IS NULL OR expires_at > ", now_ms!());
/// The live rows beside a count of expired ones that reads no more of them than it may report. A sub-select
/// without a table is evaluated once per statement, which also lets the index be used.
const LIST: &str = concat!(
    "SELECT garbage.rows, live.key, live.value, live.ttl_left_ms FROM \
     (SELECT count(*) AS rows FROM (SELECT 1 FROM kv WHERE expires_at <= (SELECT ",
    now_ms!(),
    ") ORDER BY expires_at LIMIT $4) AS expired) AS garbage LEFT JOIN \
     (SELECT key, value, expires_at - (SELECT ",
    now_ms!(),
    ") AS ttl_left_ms FROM kv WHERE key >= $1 AND key < $2 AND (expires_at IS NULL OR expires_at > (SELECT ",
    now_ms!(),
    ")) ORDER BY key LIMIT $3) AS live ON true ORDER BY live.key"
);
/// Rows that others are changing at this moment are left to them: they are being renewed or removed.
const SWEEP: &str = concat!(
    "DELETE FROM kv WHERE key IN (SELECT key FROM kv WHERE expires_at <= (SELECT ",
    now_ms!(),
    ") ORDER BY expires_at LIMIT $1 FOR UPDATE SKIP LOCKED)"
);

/// The kv port on PostgreSQL.
#[derive(Debug, Clone)]
pub(crate) struct PostgresKv {
    engine: Engine,
    sweeper: Sweeper,
}

impl PostgresKv {
    pub(crate) fn new(engine: Engine) -> Self {
        Self { engine, sweeper: Sweeper::default() }
    }
}

/// What [`Kv::put_new`] does when its turn has come.
async fn put_new(
    engine: &Engine,
    session: &mut Session,
    key: &str,
    value: &str,
    ttl_ms: Option<i64>,
) -> Result<bool, Error> {
    let put = engine.query(PUT_NEW).bind(key.to_owned()).bind(value.to_owned()).bind(ttl_ms);
    Ok(session.execute(put).await? > 0)
}

#[async_trait]
impl Kv for PostgresKv {
    async fn put(&self, key: &Key, value: &str, ttl: Option<Duration>) -> Result<(), Error> {
        let ttl_ms = kv::check_put(value, ttl)?;
        let put = self.engine.query(PUT).bind(key.as_str().to_owned()).bind(value.to_owned()).bind(ttl_ms);
        let mut session = self.engine.statement().await?;
        session.execute(put).await?;
        session.commit().await
    }

    async fn put_new(&self, key: &Key, value: &str, ttl: Option<Duration>) -> Result<bool, Error> {
        let ttl_ms = kv::check_put(value, ttl)?;
        let mut session = self.engine.statement().await?;
        let won = put_new(&self.engine, &mut session, key.as_str(), value, ttl_ms).await?;
        session.commit().await?;
        Ok(won)
    }

    async fn get(&self, key: &Key) -> Result<Option<Entry>, Error> {
        let mut session = self.engine.statement().await?;
        let row = session.first(self.engine.query(GET).bind(key.as_str().to_owned())).await?;
        session.commit().await?;
        row.map(|(key, value, ttl_left_ms)| kv::entry(key, value, ttl_left_ms)).transpose()
    }

    async fn delete(&self, key: &Key) -> Result<bool, Error> {
        let mut session = self.engine.statement().await?;
        let lived = session.first(self.engine.query(DELETE).bind(key.as_str().to_owned())).await?;
        session.commit().await?;
        Ok(lived.is_some_and(|(lived,)| lived))
    }

    async fn list(&self, prefix: &str, limit: usize) -> Result<Vec<Entry>, Error> {
        let range = Range::of_prefix(prefix, limit)?;
        let list = self.engine.query(LIST).bind(range.from).bind(range.to).bind(range.limit);
        let mut session = self.engine.statement().await?;
        let rows = session.all(list.bind(GARBAGE_TOLERATED + 1)).await?;
        session.commit().await?;
        let (entries, garbage) = kv::listed(rows)?;
        if garbage > GARBAGE_TOLERATED {
            self.sweeper.start(self.clone());
        }
        Ok(entries)
    }

    async fn sweep(&self, limit: usize) -> Result<u64, Error> {
        let sweep = self.engine.query(SWEEP).bind(kv::check_sweep(limit)?);
        let mut session = self.engine.statement().await?;
        let swept = session.execute(sweep).await?;
        session.commit().await?;
        Ok(swept)
    }
}

#[cfg(test)]
mod tests {
    use sqlx::{AssertSqlSafe, Connection, PgConnection};
    use syncline_sim::postgres::database_with;

    use super::*;

    /// The server's language would order `a` beside `A` and pass over punctuation; keys must not care.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn vw_04_a_listing_searches_its_index_in_any_collation() {
        let icu = "TEMPLATE template0 LOCALE_PROVIDER icu ICU_LOCALE 'en-US' ENCODING 'UTF8'";
        let database = tokio::task::spawn_blocking(move || database_with(icu)).await.unwrap();
        let kv = PostgresKv::new(Engine::open(&database.url).await.unwrap());
        let mut connection = PgConnection::connect(&database.url).await.unwrap();
        let fill = "INSERT INTO kv SELECT 'viewer:' || n, '1', CASE WHEN n % 2 = 0 THEN n ELSE NULL END \
             FROM generate_series(1, 20000) AS n; ANALYZE kv";
        sqlx::raw_sql(fill).execute(&mut connection).await.unwrap();

        let explain = AssertSqlSafe(format!("EXPLAIN {LIST}"));
        let range = Range::of_prefix("viewer:", 1).unwrap();
        let plan: Vec<(String,)> = sqlx::query_as(explain)
            .bind(range.from)
            .bind(range.to)
            .bind(range.limit)
            .bind(GARBAGE_TOLERATED + 1)
            .fetch_all(&mut connection)
            .await
            .unwrap();
        let plan = plan.into_iter().map(|(line,)| line).collect::<Vec<_>>().join("\n");
        assert!(plan.contains("Index Scan using kv_pkey"), "{plan}");
        assert!(plan.contains("kv_expires_at"), "{plan}");
        assert!(!plan.contains("Seq Scan"), "{plan}");

        for text in ["b:a", "b:B", "b:_", "b:-a", "b:é", "b:z"] {
            kv.put(&Key::new(text).unwrap(), "", None).await.unwrap();
        }
        let listed = kv.list("b:", 10).await.unwrap();
        let listed: Vec<&str> = listed.iter().map(|entry| entry.key.as_str()).collect();
        assert_eq!(listed, ["b:-a", "b:B", "b:_", "b:a", "b:z", "b:é"]);
    }
}
