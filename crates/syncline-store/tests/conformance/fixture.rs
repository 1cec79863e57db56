//! A fresh store of either kind, and how to look past it at what is in the database.

use std::str::FromStr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use sqlx::postgres::PgConnectOptions;
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection, Row};
use syncline_core::kv::Key;
use syncline_core::schedule::Bucket;
use syncline_core::time::Timestamp;
use syncline_sim::postgres::{self, Cluster, Database};
pub(crate) use syncline_sim::until;
use syncline_store::{Backend, Store};
use tempfile::TempDir;

use super::pooler;

/// An open store with a database of its own.
pub(crate) struct Fixture {
    pub(crate) store: Store,
    pub(crate) url: String,
    /// Past any pooler.
    direct_url: String,
    /// Dropped last: the database goes with it.
    _home: Home,
}

enum Home {
    Folder(#[allow(dead_code)] TempDir),
    Database(#[allow(dead_code)] Database),
    /// On a cluster that goes with the process.
    Pooled,
}

impl Fixture {
    pub(crate) async fn sqlite() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", folder.path().join("store.db").display());
        let store = Store::open(&url).await.unwrap();
        Self { store, direct_url: url.clone(), url, _home: Home::Folder(folder) }
    }

    pub(crate) async fn postgres() -> Self {
        let database = tokio::task::spawn_blocking(postgres::database).await.unwrap();
        let url = database.url.clone();
        let store = Store::open(&url).await.unwrap();
        Self { store, direct_url: url.clone(), url, _home: Home::Database(database) }
    }

    /// PostgreSQL behind a pooler that keeps nothing between transactions.
    pub(crate) async fn pooled() -> Self {
        let (url, direct_url) = pooled_database().await;
        Self { store: Store::open(&url).await.unwrap(), direct_url, url, _home: Home::Pooled }
    }

    /// Another store on the same database, as another process would have it.
    pub(crate) async fn another(&self) -> Store {
        Store::open(&self.url).await.unwrap()
    }

    /// An address that no store has been opened at yet.
    pub(crate) async fn fresh_url(&self) -> (String, Box<dyn Send>) {
        match self.store.backend() {
            Backend::Postgres if self.url != self.direct_url => {
                let (url, _) = pooled_database().await;
                (url, Box::new(()))
            }
            Backend::Sqlite => {
                let folder = tempfile::tempdir().unwrap();
                let url = format!("sqlite:{}", folder.path().join("fresh/store.db").display());
                (url, Box::new(folder))
            }
            Backend::Postgres => {
                let database = postgres::database();
                (database.url.clone(), Box::new(database))
            }
        }
    }

    /// Whether one node's notices reach another.
    pub(crate) fn tells_others(&self) -> bool {
        self.store.backend() == Backend::Postgres && self.url == self.direct_url
    }

    /// Rows in a table, expired or not.
    pub(crate) async fn rows(&self, table: &'static str) -> i64 {
        let sql = self.named(&format!("SELECT count(*) FROM {table}"));
        match self.store.backend() {
            Backend::Sqlite => self.sqlite_connection().query_row(&sql, [], |row| row.get(0)).unwrap(),
            Backend::Postgres => {
                let mut connection = PgConnection::connect(&self.direct_url).await.unwrap();
                sqlx::query_scalar(AssertSqlSafe(sql)).fetch_one(&mut connection).await.unwrap()
            }
        }
    }

    /// A statement with our tables where this engine has them.
    pub(crate) fn named(&self, sql: &str) -> String {
        match self.store.backend() {
            Backend::Sqlite => sql.replace("syncline.", "syncline_"),
            Backend::Postgres => sql.to_owned(),
        }
    }

    /// A connection of one's own, past the store.
    pub(crate) fn sqlite_connection(&self) -> rusqlite::Connection {
        sqlite_at(&self.direct_url)
    }

    /// A connection of one's own, past the store and any pooler.
    pub(crate) async fn postgres_connection(&self) -> PgConnection {
        PgConnection::connect(&self.direct_url).await.unwrap()
    }

    /// Runs commands at an address that no store has been opened at yet.
    pub(crate) async fn execute_at(&self, url: &str, sql: &str) {
        let sql = self.named(sql);
        match self.store.backend() {
            Backend::Sqlite => {
                let file = std::path::Path::new(url.strip_prefix("sqlite:").unwrap());
                std::fs::create_dir_all(file.parent().unwrap()).unwrap();
                sqlite_at(url).execute_batch(&sql).unwrap();
            }
            Backend::Postgres => {
                // A pooler takes no such parameter, and the address may be one's.
                let options: PgConnectOptions = url.parse().unwrap();
                let mut connection =
                    PgConnection::connect_with(&options.extra_float_digits(None)).await.unwrap();
                sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut connection).await.unwrap();
                connection.close().await.unwrap();
            }
        }
    }

    /// All tables and sequences at an address, each with its schema on PostgreSQL.
    pub(crate) async fn tables_at(&self, url: &str) -> Vec<String> {
        match self.store.backend() {
            Backend::Sqlite => {
                let tables = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%' ORDER BY 1";
                let connection = sqlite_at(url);
                let mut tables = connection.prepare(tables).unwrap();
                tables.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
            }
            Backend::Postgres => {
                let options: PgConnectOptions = url.parse().unwrap();
                let mut connection =
                    PgConnection::connect_with(&options.extra_float_digits(None)).await.unwrap();
                let tables = "SELECT n.nspname || '.' || c.relname FROM pg_class AS c JOIN pg_namespace AS n \
                     ON n.oid = c.relnamespace WHERE c.relkind = 'r' AND n.nspname !~ '^pg_|^information' ORDER BY 1";
                // In the simple protocol, which needs no prepared statement: the address may be a pooler's.
                let rows = connection.fetch_all(sqlx::raw_sql(tables)).await.unwrap();
                rows.iter().map(|row| row.get(0)).collect()
            }
        }
    }

    /// Runs a command behind the store's back.
    pub(crate) async fn execute(&self, sql: &'static str) {
        let sql = self.named(sql);
        match self.store.backend() {
            Backend::Sqlite => self.sqlite_connection().execute_batch(&sql).unwrap(),
            Backend::Postgres => {
                let mut connection = PgConnection::connect(&self.direct_url).await.unwrap();
                sqlx::query(AssertSqlSafe(sql)).execute(&mut connection).await.unwrap();
            }
        }
    }
}

/// A connection past the store; the file is made where there is none.
fn sqlite_at(url: &str) -> rusqlite::Connection {
    let connection = rusqlite::Connection::open(url.strip_prefix("sqlite:").unwrap()).unwrap();
    connection.busy_timeout(std::time::Duration::from_secs(5)).unwrap();
    connection
}

/// A new database: its address by way of a pooler, and its own.
pub(crate) async fn pooled_database() -> (String, String) {
    // The pooler does not know how to prove who it is, so the server must be one that does not ask.
    static CLUSTER: OnceLock<Cluster> = OnceLock::new();
    static DATABASES: AtomicU32 = AtomicU32::new(0);
    let name = format!("pooled_{}", DATABASES.fetch_add(1, Ordering::Relaxed));
    let create = format!("CREATE DATABASE {name}");
    let direct_url = tokio::task::spawn_blocking(move || {
        let cluster = CLUSTER.get_or_init(|| Cluster::start().unwrap());
        cluster.execute("postgres", &create).unwrap();
        cluster.url(&create["CREATE DATABASE ".len()..])
    })
    .await
    .unwrap();
    let options = PgConnectOptions::from_str(&direct_url).unwrap();
    let server = format!("{}:{}", options.get_host(), options.get_port()).parse().unwrap();
    let address = pooler::start(server, options.get_username(), &name).await;
    (format!("postgres://{}@{address}/{name}", options.get_username()), direct_url)
}

pub(crate) fn key(text: &str) -> Key {
    Key::new(text).unwrap()
}

/// The `n`th minute of a day in 2025.
pub(crate) fn minute(n: u64) -> Bucket {
    Bucket::minute(Timestamp::from_ms(1_762_819_200_000 + n * 60_000))
}
