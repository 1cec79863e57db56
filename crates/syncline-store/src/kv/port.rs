//! The kv on every engine. Its statements are in `sql/kv.*.sql`.

use std::time::Duration;

use async_trait::async_trait;
use syncline_core::kv::Key;

use super::{Asked, Entry, GARBAGE_TOLERATED, Kv, LIST_BYTES_MAX, ListRow, Page, Range, Sweeper};
use crate::Error;
use crate::database::{Database, statements, values};
use crate::kv;

statements!("kv": PUT, PUT_NEW, GET, DELETE, LIST, GARBAGE, SWEEP);

/// The kv port.
#[derive(Debug, Clone)]
pub(crate) struct Port {
    database: Database,
    sweeper: Sweeper,
}

impl Port {
    pub(crate) fn new(database: Database) -> Self {
        Self { database, sweeper: Sweeper::default() }
    }
}

#[async_trait]
impl Kv for Port {
    async fn put(&self, key: &Key, value: &str, ttl: Option<Duration>) -> Result<(), Error> {
        let ttl_ms = kv::check_put(value, ttl)?;
        self.database.execute(PUT, values![key.as_str(), value, ttl_ms]).await.map(drop)
    }

    async fn put_new(&self, key: &Key, value: &str, ttl: Option<Duration>) -> Result<bool, Error> {
        let ttl_ms = kv::check_put(value, ttl)?;
        Ok(self.database.execute(PUT_NEW, values![key.as_str(), value, ttl_ms]).await? > 0)
    }

    async fn get(&self, key: &Key) -> Result<Option<Entry>, Error> {
        let row: Option<ListRow> = self.database.query_first(GET, values![key.as_str()]).await?;
        row.map(|(key, value, ttl_left_ms)| kv::entry(key, value, ttl_left_ms)).transpose()
    }

    async fn delete(&self, key: &Key) -> Result<bool, Error> {
        let lived: Vec<(bool,)> = self.database.change(DELETE, values![key.as_str()]).await?;
        Ok(lived.first().is_some_and(|(lived,)| *lived))
    }

    async fn page(&self, asked: Asked<'_>) -> Result<Page, Error> {
        let range = Range::of(asked)?;
        let list = values![range.from, range.to, range.limit, LIST_BYTES_MAX as i64, asked.values];
        let read = self.database.read(move |transaction| {
            Box::pin(async move {
                let rows: Vec<ListRow> = transaction.query(LIST, &list).await?;
                let garbage: i64 = transaction.value(GARBAGE, &values![GARBAGE_TOLERATED + 1]).await?;
                Ok((rows, garbage))
            })
        });
        let (rows, garbage) = read.await?;
        if garbage > GARBAGE_TOLERATED {
            self.sweeper.start(self.clone());
        }
        kv::paged(rows, asked.limit)
    }

    async fn sweep(&self, limit: usize) -> Result<u64, Error> {
        self.database.execute(SWEEP, values![kv::check_sweep(limit)?]).await
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use sqlx::{AssertSqlSafe, Connection, PgConnection};
    use syncline_sim::postgres::database_with;

    use super::*;
    use crate::clock::TimeSource;
    use crate::clock::fake::FakeMachine;
    use crate::database::Sql;
    use crate::{Backend, postgres, sqlite};

    const MINUTE: Duration = Duration::from_secs(60);
    const DECADE_MS: i64 = 10 * 365 * 86_400_000;

    /// The kv on SQLite, and the engine to close.
    async fn open(url: &str, machine: &Arc<FakeMachine>) -> (Port, sqlite::Engine) {
        let source = Arc::clone(machine) as Arc<dyn TimeSource>;
        let engine = sqlite::Engine::open(url, source).await.unwrap();
        (Port::new(Database::new(engine.clone())), engine)
    }

    async fn lives(kv: &Port, key: &Key) -> bool {
        kv.get(key).await.unwrap().is_some()
    }

    #[tokio::test]
    async fn vw_24_wall_clock_jumps_change_no_time_to_live() {
        let machine = Arc::new(FakeMachine::new());
        let (kv, _) = open("sqlite::memory:", &machine).await;
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
        let (first, first_engine) = open(&url, &machine).await;
        first.put(&key, "1", Some(MINUTE)).await.unwrap();

        machine.jump(DECADE_MS);
        machine.advance(20_000);
        let (second, second_engine) = open(&url, &machine).await;
        let left = second.get(&key).await.unwrap().unwrap().ttl_left;
        assert_eq!(left, Some(Duration::from_secs(40)));
        assert_eq!(second.sweep(10).await.unwrap(), 0, "nothing that lives is swept");

        first_engine.close().await;
        second_engine.close().await;
        let (third, _) = open(&url, &machine).await;
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
        let (before, engine) = open(&url, &machine).await;
        before.put(&key, "{}", Some(2 * MINUTE)).await.unwrap();
        engine.close().await;

        machine.advance(60_000);
        machine.reboot();
        let (after, _) = open(&url, &machine).await;
        assert_eq!(after.get(&key).await.unwrap().unwrap().ttl_left, Some(MINUTE));
        machine.advance(60_000);
        assert!(!lives(&after, &key).await);
    }

    /// Reads of the kv must find their rows by an index whatever the table's size; SQLite says how it would.
    #[tokio::test]
    async fn vw_04_a_listing_and_a_sweep_search_their_index() {
        let engine = sqlite::Engine::open("sqlite::memory:", Arc::new(FakeMachine::new())).await.unwrap();
        let list = sqlite::plan(&engine, LIST).await;
        let by_key = "SEARCH syncline_kv USING INDEX sqlite_autoindex_syncline_kv_1 (key>? AND key<?)";
        assert!(list.contains(by_key), "{list}");
        let value = "SEARCH k USING INDEX sqlite_autoindex_syncline_kv_1 (key=?)";
        assert!(list.contains(value), "{list}");
        let garbage = sqlite::plan(&engine, GARBAGE).await;
        let sweep = sqlite::plan(&engine, SWEEP).await;
        for plan in [&garbage, &sweep] {
            let by_end = "SEARCH syncline_kv USING COVERING INDEX syncline_kv_expires_at (expires_at<?)";
            assert!(plan.contains(by_end), "{plan}");
        }
        for plan in [&list, &garbage, &sweep] {
            assert!(!plan.contains("SCAN syncline_kv") && !plan.contains("SCAN k"), "{plan}");
        }
        // A listing sorts its page; nothing else sorts at all.
        assert!(!garbage.contains("TEMP B-TREE") && !sweep.contains("TEMP B-TREE"), "{garbage}\n{sweep}");
    }

    /// The server's language would order `a` beside `A` and pass over punctuation; keys must not care.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn vw_04_a_listing_searches_its_index_in_any_collation() {
        let icu = "TEMPLATE template0 LOCALE_PROVIDER icu ICU_LOCALE 'en-US' ENCODING 'UTF8'";
        let database = tokio::task::spawn_blocking(move || database_with(icu)).await.unwrap();
        let kv = Port::new(Database::new(postgres::Engine::open(&database.url).await.unwrap()));
        let mut connection = PgConnection::connect(&database.url).await.unwrap();
        let fill = "INSERT INTO syncline.kv SELECT 'viewer:' || n, '1', CASE WHEN n % 2 = 0 THEN n ELSE NULL END \
             FROM generate_series(1, 20000) AS n; ANALYZE syncline.kv";
        sqlx::raw_sql(fill).execute(&mut connection).await.unwrap();

        let explained =
            |sql: Sql| sqlx::query_as(AssertSqlSafe(format!("EXPLAIN {}", sql.of(Backend::Postgres))));
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
