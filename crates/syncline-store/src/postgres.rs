//! The shared engine: one PostgreSQL database for several nodes.
//!
//! - [`servers`]: the servers that an address names, and which of them takes writes
//! - [`session`]: one connection for one piece of work
//! - [`pooler`]: whether connections are ours alone
//! - [`prepare`]: the tables, brought up to date while an application goes on
//! - [`rights`]: what is there, and what this role may do with it
//! - [`notices`]: hearing what others announce, on a connection that is known to live
//! - [`product`]: which databases speak this protocol and are none of ours
//! - [`statements`]: what the flows above say, on a session
//! - [`lock`], [`outbox`], [`queue`], [`state`]: what the ports of these have of their own here
//!
//! Guarantees: every moment that decides something is read from the database's clock inside the statement or
//! transaction that uses it, so nodes with wrong clocks agree; several nodes may open an empty database at once;
//! a lost server is found again without reopening, and so is the one that takes its place; no call waits longer than [`CONNECT_MAX`] for a connection
//! plus [`ANSWER_MAX`] for the answer, and no statement goes on for long after its caller has given up.
//!
//! **Plans.** Every statement finds its rows by the one index that fits it, whatever the server believes of a table:
//! settings keep it from going through tables ([`session`]), and no statement has two indexes to choose from (see the
//! migrations). A test counts the blocks that every statement reads.
//!
//! **Poolers.** Behind one nothing here outlives a transaction: no session settings, no session locks, and `LISTEN` only at an
//! address of its own that leads past the pooler. Prepared
//! statements are kept only on connections that are ours alone. Opening finds out whether a pooler stands between
//! ([`pooler`]); if so, nothing is prepared by name, and every statement, which is parsed and executed in two
//! steps, runs inside a transaction, so that both steps meet the same server connection: four round trips instead
//! of one. `statement-cache-capacity` in the address decides it instead: 0 as behind a pooler, more as on a
//! direct connection, which is right for poolers that carry prepared statements (PgBouncer 1.21 and later with
//! `max_prepared_statements`).

mod kv;
mod lock;
mod notices;
pub(crate) mod outbox;
mod pooler;
mod prepare;
mod product;
mod queue;
mod rights;
mod servers;
mod session;
mod state;
mod statements;

use std::sync::Arc;
use std::time::Duration;

use sqlx::pool::PoolOptions;
use sqlx::postgres::{PgConnection, PgPool, Postgres};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, Executor, Row};
use syncline_core::outbox::EntityType;
use tokio::time::timeout;

use crate::database::Sql;
use crate::inbox::port::Table;
use crate::messages::Messages;
use crate::names::{Schema, Statements};
use crate::news::{self, Topic};
use crate::options::Opening;
use crate::outbox::wakes::Wakes;
use crate::queue::registry::QueueRegistry;
use crate::{Backend, Error, Replication};

pub(crate) use self::kv::PostgresKeyNotices;
pub(crate) use self::lock::PostgresLocks;
use self::notices::Notices;
pub(crate) use self::notices::{Heard, Subscription};
pub(crate) use self::outbox::PostgresClaims;
use self::queue::Notifier;
pub(crate) use self::queue::PostgresQueueNotices;
use self::servers::Servers;
use self::session::Session;
use self::session::Statement;
pub(crate) use self::state::PostgresNotices;

/// The channel on which processes tell each other what happens.
const MESSAGES_CHANNEL: &str = "messages";

/// How long a call waits for a connection.
pub(crate) const CONNECT_MAX: Duration = Duration::from_secs(5);
/// How long a call waits for the server's answers.
pub(crate) const ANSWER_MAX: Duration = Duration::from_secs(10);
/// How long opening waits for the schema to be brought up to date, by us or by the node that was first.
const MIGRATION_MAX: Duration = Duration::from_secs(5 * 60);
/// An idle connection is given up after this.
const IDLE_MAX: Duration = Duration::from_secs(5 * 60);
/// A connection is replaced after this, so that one that leads to the wrong server after a failover ends.
const CONNECTION_AGE_MAX: Duration = Duration::from_secs(30 * 60);

/// Parameters of an address that are understood. Others are refused instead of passed over: a misspelt
/// `sslmode` must not mean an unencrypted connection.
const PARAMETERS: [&str; 14] = [
    "target_session_attrs",
    "sslmode",
    "sslrootcert",
    "sslcert",
    "sslkey",
    "statement-cache-capacity",
    "host",
    "hostaddr",
    "port",
    "dbname",
    "user",
    "password",
    "application_name",
    "options",
];

/// An open PostgreSQL store.
#[derive(Debug, Clone)]
pub(crate) struct Engine {
    store: Arc<str>,
    pool: PgPool,
    servers: Arc<Servers>,
    /// The servers to listen at, where they have an address of their own.
    listen_servers: Option<Arc<Servers>>,
    /// What is heard of other processes.
    notices: Arc<Notices>,
    /// Whether statements may be prepared and kept; see the module's words on poolers.
    keeps_statements: bool,
    /// Whether a pooler stands between us and the server.
    pooled: bool,
    /// Where our tables are.
    statements: Arc<Statements>,
    /// What all lock ports of this engine share.
    locks: Arc<lock::Shared>,
    /// What all state ports of this engine share.
    states: Arc<state::Shared>,
    /// What all kv ports of this engine share.
    keys: Arc<kv::Shared>,
    registry: QueueRegistry,
    notifier: Notifier,
    /// Who hears of new entries of the outbox.
    outbox: Arc<Wakes>,
}

impl Engine {
    /// Whether `url` is for this engine.
    pub(crate) fn speaks(url: &str) -> bool {
        url.starts_with("postgres://") || url.starts_with("postgresql://")
    }

    /// Opens the database for all systems, as most do.
    #[cfg(test)]
    pub(crate) async fn open(url: &str) -> Result<Self, Error> {
        Self::open_for(url, &Opening::all()).await
    }

    /// Connects, and brings the tables up to date or finds them so.
    pub(crate) async fn open_for(url: &str, opening: &Opening) -> Result<Self, Error> {
        let servers = Arc::new(Servers::of(url)?);
        let listen_servers = opening.listen_url.as_deref().map(Servers::of).transpose()?.map(Arc::new);
        let store: Arc<str> = servers.describe().into();
        // A standby refuses every change with words that help nobody.
        servers.find(&store).await?;
        let options = servers.options();
        // Beside its answer this brings an honest error: a pool would retry a refused connection until its time
        // is up and then tell only that it is.
        let between = match timeout(ANSWER_MAX, pooler::is_between(&options)).await {
            Ok(answer) => answer.map_err(|error| Error::postgres(&store, &error))?,
            Err(_) => return Err(no_answer(&store, ANSWER_MAX)),
        };
        let query = url.split_once('?').map_or("", |(_, query)| query);
        let told = query.split('&').find_map(|parameter| parameter.strip_prefix("statement-cache-capacity="));
        let engine = Self {
            store,
            registry: QueueRegistry::new(),
            notifier: Notifier::new(),
            keeps_statements: told.map_or(!between, |capacity| capacity != "0"),
            pooled: between,
            statements: Arc::new(Statements::new(opening.schema.clone())),
            locks: Arc::default(),
            outbox: Arc::default(),
            states: Arc::default(),
            keys: Arc::default(),
            pool: pool(&servers, between, opening.connections).connect_lazy_with(options),
            servers,
            listen_servers,
            notices: Arc::default(),
        };
        notices::check(&engine).await?;
        prepare::prepare(&engine, opening).await?;
        Ok(engine)
    }

    /// A statement that may be sent through this engine, with our tables where they are.
    pub(crate) fn query(&self, sql: &'static str) -> Statement {
        sqlx::query(self.sql(sql)).persistent(self.keeps_statements)
    }

    /// The text of a statement, with our tables where they are.
    pub(crate) fn sql(&self, sql: &'static str) -> AssertSqlSafe<Arc<str>> {
        AssertSqlSafe(self.statements.of(sql))
    }

    /// Where our tables are.
    pub(crate) fn schema(&self) -> &Schema {
        self.statements.schema()
    }

    /// A session for one statement.
    pub(crate) async fn statement(&self) -> Result<Session, Error> {
        Session::statement(self, ANSWER_MAX).await
    }

    /// A session for several statements that belong together.
    pub(crate) async fn transaction(&self) -> Result<Session, Error> {
        Session::transaction(self, ANSWER_MAX).await
    }

    /// The database's clock, for a transaction in which several statements must agree on the moment.
    pub(crate) async fn now_ms(&self, session: &mut Session) -> Result<i64, Error> {
        session.value(self.query("SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint")).await
    }

    /// News of what others announce on a topic.
    pub(crate) fn news(&self, topic: Topic) -> news::Source {
        let own = Arc::clone(self.notices.own());
        news::Source::Announced { heard: self.notices.subscribe(self, topic.channel()), own }
    }

    /// Announces that something of a topic has changed.
    pub(crate) async fn announce(&self, topic: Topic) -> Result<(), Error> {
        let (channel, own) = (self.schema().channel(topic.channel()), self.notices.own().to_string());
        let mut session = self.statement().await?;
        session.execute(self.query("SELECT pg_notify($1, $2)").bind(channel).bind(own)).await?;
        session.commit().await
    }

    /// What the processes that share the store tell each other.
    pub(crate) fn messages(&self) -> Messages {
        Messages::new(self.notices.subscribe(self, MESSAGES_CHANNEL))
    }

    /// Sends messages to all of them.
    pub(crate) async fn send_messages(&self, messages: &[String]) -> Result<(), Error> {
        let channel = self.schema().channel(MESSAGES_CHANNEL);
        let mut session = self.statement().await?;
        let send = "SELECT count(pg_notify($1, message)) FROM unnest($2::text[]) message";
        session.execute(self.query(send).bind(channel).bind(messages.to_vec())).await?;
        session.commit().await
    }

    /// Creates the tables of entities that are missing. Several nodes may start at once, and two that create one table fail.
    pub(crate) async fn create_entity_tables(&self, types: &[EntityType]) -> Result<(), Error> {
        let mut session = prepare::alone_in_time(self).await?;
        for kind in types {
            let table = self.schema().apply(&format!("syncline.entity_{kind}"));
            let there = self.query("SELECT to_regclass($1) IS NOT NULL").bind(table);
            if !session.value::<bool>(there).await? {
                for create in Table::of(kind).create {
                    session.control(self.sql(create.of(Backend::Postgres))).await?;
                }
            }
        }
        session.commit().await
    }

    /// Makes a table with its indexes. Several processes may start at once, and two that create one table fail.
    pub(crate) async fn create_alone(&self, create: Sql) -> Result<(), Error> {
        let mut session = prepare::alone_in_time(self).await?;
        session.control(self.sql(create.of(Backend::Postgres))).await?;
        session.commit().await
    }

    /// Checks that the database answers and takes writes.
    pub(crate) async fn ping(&self) -> Result<(), Error> {
        let mut session = self.statement().await?;
        let standby: bool = session.value(self.query("SELECT pg_is_in_recovery()")).await?;
        session.commit().await?;
        if standby { Err(servers::standby(&self.store)) } else { Ok(()) }
    }

    /// Commits a message to nobody: it is in the write-ahead log and in no table.
    pub(crate) async fn try_write(&self) -> Result<(), Error> {
        let mut session = self.transaction().await?;
        let read_only: bool =
            session.value(self.query("SELECT current_setting('transaction_read_only')::boolean")).await?;
        if read_only {
            session.rollback().await?;
            let reason = "the database is read-only (default_transaction_read_only)".to_owned();
            return Err(Error::Unreachable { store: self.store.to_string(), reason });
        }
        let message = "SELECT pg_logical_emit_message(true, 'syncline', ''::text)::text";
        session.execute(self.query(message)).await?;
        session.commit().await
    }

    /// Waits for what is under way and closes every connection; for no longer than any call takes.
    pub(crate) async fn close(&self) {
        if timeout(CONNECT_MAX + ANSWER_MAX, self.pool.close()).await.is_err() {
            tracing::warn!(store = %self.store, "the server did not answer while its connections were closed; they are given up");
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.store
    }

    /// Who hears of new entries of the outbox.
    pub(crate) fn outbox_wakes(&self) -> &Arc<Wakes> {
        &self.outbox
    }

    /// What this process knows of its queues.
    pub(crate) fn queue_registry(&self) -> &QueueRegistry {
        &self.registry
    }

    /// Sorts PostgreSQL's errors.
    pub(crate) fn failed(&self) -> impl Fn(sqlx::Error) -> Error + Send + Sync + use<> {
        let store = Arc::clone(&self.store);
        move |error| Error::postgres(&store, &error)
    }
}

/// Asks the server that takes writes how it is copied. In the simple protocol, which needs no prepared statement.
pub(crate) async fn replication(url: &str) -> Result<Replication, Error> {
    let servers = Servers::of(url)?;
    let store = servers.describe();
    servers.find(&store).await?;
    let ask = "SELECT (SELECT count(*) FROM pg_stat_replication), current_setting('synchronous_standby_names') <> '' \
         AND current_setting('synchronous_commit') NOT IN ('off', 'local')";
    let asked = async {
        let mut connection = servers.options().connect().await?;
        let row = connection.fetch_one(sqlx::raw_sql(ask)).await?;
        connection.close().await?;
        let standbys: i64 = row.try_get(0)?;
        sqlx::Result::Ok(Replication { standbys: standbys.unsigned_abs(), is_confirmed: row.try_get(1)? })
    };
    match timeout(ANSWER_MAX, asked).await {
        Ok(answer) => answer.map_err(|error| Error::postgres(&store, &error)),
        Err(_) => Err(no_answer(&store, ANSWER_MAX)),
    }
}

fn no_answer(store: &str, waited: Duration) -> Error {
    let reason = format!("no answer within {} s", waited.as_secs());
    Error::Unreachable { store: store.to_owned(), reason }
}

/// Connections to the server that takes writes.
fn pool(servers: &Arc<Servers>, pooled: bool, connections: u32) -> PoolOptions<Postgres> {
    let (greeter, checker) = (Arc::clone(servers), Arc::clone(servers));
    PoolOptions::new()
        .after_connect(move |connection: &mut PgConnection, _| {
            let servers = Arc::clone(&greeter);
            Box::pin(async move { servers.greet(connection, pooled).await })
        })
        // In place of the pool's own question, which waits for its answer for as long as the caller does.
        .test_before_acquire(false)
        .before_acquire(move |connection, about| {
            let servers = Arc::clone(&checker);
            Box::pin(async move { servers.is_usable(connection, about).await })
        })
        .max_connections(connections)
        .acquire_timeout(CONNECT_MAX)
        .idle_timeout(IDLE_MAX)
        .max_lifetime(CONNECTION_AGE_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A caller that had given up left its statement running on the server, with the locks it held, for as long as it took.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn qu_05_on_postgres_a_statement_ends_soon_after_its_caller_stopped_waiting() {
        let database = tokio::task::spawn_blocking(syncline_sim::postgres::database).await.unwrap();
        let engine = Engine::open(&database.url).await.unwrap();
        let pooled = Engine { pooled: true, ..engine.clone() };
        for engine in [engine, pooled] {
            for mut session in [engine.statement().await.unwrap(), engine.transaction().await.unwrap()] {
                let limit = "SELECT setting::bigint FROM pg_settings WHERE name = 'statement_timeout'";
                let limit_ms: i64 = session.value(engine.query(limit)).await.unwrap();
                let answer_max_ms = i64::try_from(ANSWER_MAX.as_millis()).unwrap();
                assert!((answer_max_ms..2 * answer_max_ms).contains(&limit_ms), "{limit_ms}");
                session.commit().await.unwrap();
            }
        }
    }
}
