//! The kv on every engine. Its statements are in `sql/kv.*.sql`.
//!
//! A change with a condition locks the row, asks core, and writes. On PostgreSQL a row that is not there cannot be locked: then only
//! an insert that finds none succeeds, and the change looks again otherwise. The keys of a batch are taken in their order, so that no
//! two batches can wait for each other.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use syncline_core::kv::{self as rules, Key, Version};

use super::watch::{KeyNews, KeyNotices, KeyWatch};
use super::{
    Applied, Asked, Entry, GARBAGE_TOLERATED, Kv, LIST_BYTES_MAX, ListRow, Operation, Page, Range, Refusal,
    Refused, Sweeper,
};
use crate::Error;
use crate::database::{Database, Transaction, statements, values};
use crate::kv;

statements!("kv": PUT, PUT_NEW, PUT_VALUE, GET, LOCK, DELETE, LIST, GARBAGE, SWEEP);

/// How often a change looks again at a key that comes and goes under its hands.
const LOOKS_MAX: usize = 16;

/// The kv port of one space.
#[derive(Debug, Clone)]
pub(crate) struct Port {
    database: Database,
    sweeper: Sweeper,
    /// What its keys begin with in the table: nothing for users, a marked name for a part.
    space: Arc<str>,
    /// Who is told of changes; `None` where nobody watches.
    notices: Option<Arc<dyn KeyNotices>>,
}

/// A row as it was found: value, time left, version, and whether it lives.
type Found = (String, Option<i64>, i64, bool);

impl Port {
    /// The users' space.
    pub(crate) fn new(database: Database, notices: Arc<dyn KeyNotices>) -> Self {
        Self { database, sweeper: Sweeper::default(), space: "".into(), notices: Some(notices) }
    }

    /// The space of a part, whose name was checked.
    pub(crate) fn of_part(database: Database, name: &str) -> Self {
        let space = format!("{mark}{name}{mark}", mark = kv::SPACE_MARK).into();
        Self { database, sweeper: Sweeper::default(), space, notices: None }
    }

    fn stored(&self, key: &Key) -> String {
        format!("{}{key}", self.space)
    }

    fn tell(&self, news: Vec<KeyNews>) {
        if let Some(notices) = self.notices.as_ref().filter(|_| !news.is_empty()) {
            notices.send(news);
        }
    }
}

#[async_trait]
impl Kv for Port {
    async fn put(&self, key: &Key, value: &str, ttl: Option<Duration>) -> Result<Version, Error> {
        let ttl_ms = kv::check_put(value, ttl)?;
        let put: Vec<(i64,)> = self.database.change(PUT, values![self.stored(key), value, ttl_ms]).await?;
        let version = put.first().map_or(Version(0), |(number,)| kv::version_of(*number));
        self.tell(vec![put_news(key, version)]);
        Ok(version)
    }

    async fn put_new(&self, key: &Key, value: &str, ttl: Option<Duration>) -> Result<bool, Error> {
        let ttl_ms = kv::check_put(value, ttl)?;
        let put: Vec<(i64,)> =
            self.database.change(PUT_NEW, values![self.stored(key), value, ttl_ms]).await?;
        self.tell(put.iter().map(|(number,)| put_news(key, kv::version_of(*number))).collect());
        Ok(!put.is_empty())
    }

    async fn get(&self, key: &Key) -> Result<Option<Entry>, Error> {
        let row: Option<ListRow> = self.database.query_first(GET, values![self.stored(key)]).await?;
        row.map(|row| kv::entry(row, &self.space)).transpose()
    }

    async fn delete(&self, key: &Key) -> Result<bool, Error> {
        let lived: Vec<(bool,)> = self.database.change(DELETE, values![self.stored(key)]).await?;
        let lived = lived.first().is_some_and(|(lived,)| *lived);
        self.tell(lived.then(|| deleted_news(key)).into_iter().collect());
        Ok(lived)
    }

    async fn apply(&self, operations: Vec<Operation>) -> Result<Result<Vec<Applied>, Refusal>, Error> {
        kv::check_batch(&operations)?;
        let news_of = operations.clone();
        let batch = Batch { operations, space: Arc::clone(&self.space) };
        let reads = batch.operations.iter().all(|operation| matches!(operation, Operation::Get { .. }));
        let applied = if reads {
            self.database.read(move |transaction| Box::pin(batch.apply(transaction))).await?
        } else {
            self.database.write(move |transaction| Box::pin(batch.apply(transaction))).await?
        };
        if let Ok(applied) = &applied {
            let told = news_of.iter().zip(applied).filter_map(|(operation, applied)| match applied {
                Applied::Written(entry) => Some(put_news(operation.key(), entry.version)),
                Applied::Deleted(true) => Some(deleted_news(operation.key())),
                Applied::Read(_) | Applied::Deleted(false) => None,
            });
            self.tell(told.collect());
        }
        Ok(applied)
    }

    fn watch(&self) -> Option<KeyWatch> {
        self.notices.as_ref().map(|notices| notices.listen())
    }

    async fn page(&self, asked: Asked<'_>) -> Result<Page, Error> {
        let range = Range::of(asked, &self.space)?;
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
        kv::paged(rows, asked.limit, &self.space)
    }

    async fn sweep(&self, limit: usize) -> Result<u64, Error> {
        self.database.execute(SWEEP, values![kv::check_sweep(limit)?]).await
    }
}

/// Operations on one space.
struct Batch {
    operations: Vec<Operation>,
    space: Arc<str>,
}

impl Batch {
    async fn apply(self, transaction: &mut Transaction<'_>) -> Result<Result<Vec<Applied>, Refusal>, Error> {
        let mut order: Vec<usize> = (0..self.operations.len()).collect();
        order.sort_by_key(|&index| self.operations[index].key());
        let mut applied: Vec<Option<Applied>> = vec![None; order.len()];
        let mut read_bytes = 0;
        for index in order {
            let refused = match self.step(transaction, &self.operations[index]).await? {
                Ok(Applied::Read(Some(entry)))
                    if read_bytes > LIST_BYTES_MAX - entry.value.len().min(LIST_BYTES_MAX) =>
                {
                    Refused::TooMuchToRead
                }
                Ok(done) => {
                    if let Applied::Read(Some(entry)) = &done {
                        read_bytes += entry.value.len();
                    }
                    applied[index] = Some(done);
                    continue;
                }
                Err(why) => why,
            };
            transaction.undo();
            return Ok(Err(Refusal { index, why: refused }));
        }
        Ok(Ok(applied.into_iter().flatten().collect()))
    }

    async fn step(
        &self,
        transaction: &mut Transaction<'_>,
        operation: &Operation,
    ) -> Result<Result<Applied, Refused>, Error> {
        let stored = format!("{}{}", self.space, operation.key());
        if let Operation::Get { .. } = operation {
            let row: Option<ListRow> = transaction.query_first(GET, &values![stored]).await?;
            return row
                .map(|row| kv::entry(row, &self.space))
                .transpose()
                .map(|read| Ok(Applied::Read(read)));
        }
        for _ in 0..LOOKS_MAX {
            let found: Option<Found> = transaction.query_first(LOCK, &values![&stored]).await?;
            let is_row = found.is_some();
            let live = found.filter(|(.., lives)| *lives);
            let version = live.as_ref().map(|(_, _, number, _)| kv::version_of(*number));
            let (value, ttl) = match operation {
                Operation::Get { .. } => return Ok(Ok(Applied::Read(None))),
                Operation::Delete { condition, .. } => {
                    if !condition.holds(version) {
                        return Ok(Err(Refused::Unmet { found: version }));
                    }
                    if live.is_some() {
                        let _: Option<(bool,)> = transaction.query_first(DELETE, &values![&stored]).await?;
                    }
                    return Ok(Ok(Applied::Deleted(live.is_some())));
                }
                Operation::Put { condition, value, ttl, .. } => {
                    if !condition.holds(version) {
                        return Ok(Err(Refused::Unmet { found: version }));
                    }
                    (value.clone(), *ttl)
                }
                Operation::Increment { by, ttl, .. } => {
                    match rules::add(live.as_ref().map(|(value, ..)| value.as_str()), *by) {
                        Ok(sum) => (sum.to_string(), *ttl),
                        Err(why) => return Ok(Err(Refused::NotAdded(why))),
                    }
                }
            };
            let keeps_ttl = live.filter(|_| matches!(operation, Operation::Increment { .. }));
            let ttl_ms = kv::check_put(&value, ttl)?;
            let (statement, ttl_left, arguments) = match (keeps_ttl, is_row) {
                (Some((_, left_ms, ..)), _) => (PUT_VALUE, left_ms, values![&stored, &value]),
                (None, true) => (PUT, ttl_ms, values![&stored, &value, ttl_ms]),
                (None, false) => (PUT_NEW, ttl_ms, values![&stored, &value, ttl_ms]),
            };
            let written: Option<(i64,)> = transaction.query_first(statement, &arguments).await?;
            if let Some((number,)) = written {
                let row = (stored, value, ttl_left, number);
                return kv::entry(row, &self.space).map(|entry| Ok(Applied::Written(entry)));
            }
            // Somebody has set the key meanwhile: it is there to be locked now.
        }
        Err(Error::invalid("key", "is set and removed by others all the time; try again"))
    }
}

fn put_news(key: &Key, version: Version) -> KeyNews {
    KeyNews::Put { key: key.as_str().to_owned(), version }
}

fn deleted_news(key: &Key) -> KeyNews {
    KeyNews::Deleted { key: key.as_str().to_owned() }
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
    use crate::kv::watch::KeyBroadcast;
    use crate::{Backend, postgres, sqlite};

    const MINUTE: Duration = Duration::from_secs(60);
    const DECADE_MS: i64 = 10 * 365 * 86_400_000;

    /// The kv on SQLite, and the engine to close.
    async fn open(url: &str, machine: &Arc<FakeMachine>) -> (Port, sqlite::Engine) {
        let source = Arc::clone(machine) as Arc<dyn TimeSource>;
        let engine = sqlite::Engine::open(url, source).await.unwrap();
        (Port::new(Database::new(engine.clone()), Arc::new(KeyBroadcast::default())), engine)
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
        let engine = postgres::Engine::open(&database.url).await.unwrap();
        let kv = Port::new(Database::new(engine), Arc::new(KeyBroadcast::default()));
        let mut connection = PgConnection::connect(&database.url).await.unwrap();
        let fill = "INSERT INTO syncline.kv SELECT 'viewer:' || n, '1', CASE WHEN n % 2 = 0 THEN n ELSE NULL END \
             FROM generate_series(1, 20000) AS n; ANALYZE syncline.kv";
        sqlx::raw_sql(fill).execute(&mut connection).await.unwrap();

        let explained =
            |sql: Sql| sqlx::query_as(AssertSqlSafe(format!("EXPLAIN {}", sql.of(Backend::Postgres))));
        let asked = Asked { prefix: "viewer:", after: None, limit: 1, values: true };
        let range = Range::of(asked, "").unwrap();
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
