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
use crate::kv::{self, Asked, Entry, GARBAGE_TOLERATED, Kv, LIST_BYTES_MAX, Page, Range, Sweeper};

const PUT: &str = concat!(
    "INSERT INTO syncline.kv (key, value, expires_at) VALUES ($1, $2, ",
    now_ms!(),
    " + $3) ON CONFLICT (key) DO UPDATE SET value = excluded.value, expires_at = ",
    now_ms!(),
    " + $3"
);
const PUT_NEW: &str = concat!(
    "INSERT INTO syncline.kv (key, value, expires_at) VALUES ($1, $2, ",
    now_ms!(),
    " + $3) ON CONFLICT (key) DO UPDATE SET value = excluded.value, expires_at = ",
    now_ms!(),
    " + $3 WHERE syncline.kv.expires_at <= ",
    now_ms!()
);
const GET: &str = concat!(
    "SELECT key, value, expires_at - now FROM syncline.kv, (SELECT ",
    now_ms!(),
    " AS now) AS clock WHERE key = $1 AND (expires_at IS NULL OR expires_at > now)"
);
const DELETE: &str = concat!(
    "DELETE FROM syncline.kv WHERE key = $1 RETURNING expires_at IS NULL OR expires_at > ",
    now_ms!()
);
/// from, to, limit, most bytes, whether values are wanted. A row comes while those before it have fewer bytes than are
/// wanted; lengths are known without reading the values. A sub-select without a table is evaluated once per statement, which
/// also lets the index be used.
const LIST: &str = concat!(
    "SELECT key, value, ttl_left_ms FROM (SELECT key, CASE WHEN $5 THEN value ELSE '' END AS value, ttl_left_ms, \
     sum(octet_length(key) + CASE WHEN $5 THEN octet_length(value) ELSE 0 END) OVER \
     (ORDER BY key ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before FROM \
     (SELECT key, value, expires_at - (SELECT ",
    now_ms!(),
    ") AS ttl_left_ms FROM syncline.kv WHERE key >= $1 AND key < $2 AND (expires_at IS NULL OR expires_at > (SELECT ",
    now_ms!(),
    ")) ORDER BY key LIMIT $3) AS live) AS weighed WHERE coalesce(before, 0) < $4 ORDER BY key"
);
/// limit: how many are expired, as far as that is worth knowing.
const GARBAGE: &str = concat!(
    "SELECT count(*) FROM (SELECT 1 FROM syncline.kv WHERE expires_at <= (SELECT ",
    now_ms!(),
    ") LIMIT $1) AS expired"
);
/// Rows that others are changing at this moment are left to them: they are being renewed or removed.
const SWEEP: &str = concat!(
    "DELETE FROM syncline.kv WHERE key IN (SELECT key FROM syncline.kv WHERE expires_at <= (SELECT ",
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

    async fn page(&self, asked: Asked<'_>) -> Result<Page, Error> {
        let range = Range::of(asked)?;
        let list = self.engine.query(LIST).bind(range.from).bind(range.to).bind(range.limit);
        let mut session = self.engine.statement().await?;
        let rows = session.all(list.bind(LIST_BYTES_MAX as i64).bind(asked.values)).await?;
        let garbage: i64 = session.value(self.engine.query(GARBAGE).bind(GARBAGE_TOLERATED + 1)).await?;
        session.commit().await?;
        if garbage > GARBAGE_TOLERATED {
            self.sweeper.start(self.clone());
        }
        kv::paged(rows, asked.limit)
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
        let fill = "INSERT INTO syncline.kv SELECT 'viewer:' || n, '1', CASE WHEN n % 2 = 0 THEN n ELSE NULL END \
             FROM generate_series(1, 20000) AS n; ANALYZE syncline.kv";
        sqlx::raw_sql(fill).execute(&mut connection).await.unwrap();

        let explained = |sql| sqlx::query_as(AssertSqlSafe(format!("EXPLAIN {sql}")));
        let asked = Asked { prefix: "viewer:", after: None, limit: 1, values: true };
        let range = Range::of(asked).unwrap();
        let list = explained(LIST).bind(range.from).bind(range.to).bind(range.limit);
        let list = list.bind(LIST_BYTES_MAX as i64).bind(true).fetch_all(&mut connection).await.unwrap();
        let garbage = explained(GARBAGE).bind(GARBAGE_TOLERATED + 1);
        let garbage = garbage.fetch_all(&mut connection).await.unwrap();
        let text = |plan: Vec<(String,)>| plan.into_iter().map(|(line,)| line).collect::<Vec<_>>().join("\n");
        let (list, garbage) = (text(list), text(garbage));
        assert!(list.contains("Index Scan using kv_pkey"), "{list}");
        assert!(garbage.contains("kv_expires_at"), "{garbage}");
        assert!(!list.contains("Seq Scan") && !garbage.contains("Seq Scan"), "{list}\n{garbage}");

        for text in ["b:a", "b:B", "b:_", "b:-a", "b:é", "b:z"] {
            kv.put(&Key::new(text).unwrap(), "", None).await.unwrap();
        }
        let listed = kv.list("b:", 10).await.unwrap();
        let listed: Vec<&str> = listed.iter().map(|entry| entry.key.as_str()).collect();
        assert_eq!(listed, ["b:-a", "b:B", "b:_", "b:a", "b:z", "b:é"]);
    }
}
