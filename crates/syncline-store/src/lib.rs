//! Durable truth: what Syncline knows, on SQLite or PostgreSQL.
//!
//! A [`Store`] is opened from an address and handed out as ports, one per system ([`OutboxStore`]: the outbox alone, in an
//! application's own database):
//!
//! - [`kv`]: keys with a time to live ([`Store::kv`])
//! - [`queue`]: keyed work at a shared pace ([`Store::queues`])
//! - [`schedule`]: claims, history and totals of scheduled jobs ([`Store::schedule`])
//! - [`lock`]: leases with a fencing token ([`Store::locks`])
//! - [`inbox`]: entities that came from elsewhere ([`Store::inbox`])
//! - [`outbox`]: changes on their way to another system ([`Store::outbox`])
//! - [`state`]: what devices agree on, by space ([`Store::states`])
//! - [`access`]: the audit, keys and revocations ([`Store::access`])
//! - [`database`]: transactions for parts that have tables of their own ([`Store::database`])
//!
//! A port's flow is written once, over [`database`], with its statements in `sql/`. Below are two engines with the same meaning, held
//! to it by one suite of tests run against both:
//!
//! - `sqlite/`: one file on this machine, all waiting writes committed together
//! - `postgres/`: one database for several nodes
//!
//! They share `migration` (the history of each part's tables), `names` (where these tables are), `clock` (the steady
//! clock of the embedded engine), [`Error`]. [`parts`] has the tables of each system; [`Options`] say which of them a store is
//! opened for.
//!
//! SQLite is compiled into this crate. Set `LIBSQLITE3_FLAGS=-DSQLITE_DEFAULT_PCACHE_INITSZ=0` when you build a program with it:
//! otherwise SQLite takes twenty pages of memory for every statement with `RETURNING`, and locks take twice as long.
//!
//! Invariant: an acknowledged write survives `kill -9`. Invariant: expiry is decided by the store's clock, never
//! by a caller's. Invariant: nothing that comes from outside becomes part of a statement; it is always bound.

pub mod access;
pub mod database;
pub mod inbox;
pub mod kv;
pub mod lock;
pub mod outbox;
pub mod parts;
pub mod queue;
pub mod schedule;
pub mod state;

mod clock;
mod error;
mod messages;
mod migration;
mod minute;
mod names;
mod news;
mod options;
mod postgres;
mod sqlite;

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use syncline_core::outbox::EntityType;

use self::access::AccessStore;
use self::database::Database;
pub use self::error::{Error, REASON_MAX_BYTES};
use self::inbox::Inbox;
use self::kv::Kv;
use self::lock::Locks;
pub use self::messages::{MESSAGE_MAX_BYTES, MESSAGES_MAX, Message, Messages};
pub use self::migration::{Former, Migrations, Step, migration_sql};
pub use self::minute::{MINUTE, minute_before, next_minute};
pub use self::names::{DEFAULT_SCHEMA, SCHEMA_MAX_BYTES};
pub use self::news::{News, Topic};
pub use self::options::{CONNECTIONS, CONNECTIONS_MAX, CONNECTIONS_MIN, Options};
use self::outbox::Outbox;
use self::queue::Queues;
use self::queue::table::{QueueNotices, Tables};
use self::schedule::Schedule;
pub use self::sqlite::Copied;
use self::state::States;

/// The outbox in an application's own database, and nothing else of a store: no other table is made there.
///
/// A SQLite file that does not exist is an error, unless the address ends with `?mode=rwc`.
#[derive(Debug, Clone)]
pub struct OutboxStore(Store);

impl OutboxStore {
    /// Opens the outbox at `url`. The application's table is taken over, or made where there is none.
    pub async fn open(url: &str) -> Result<Self, Error> {
        Self::open_with(url, Options::default()).await
    }

    /// The same as `options` say. Whose tables they name has no meaning here.
    pub async fn open_with(url: &str, options: Options) -> Result<Self, Error> {
        Store::open_with(url, &Self::alone(options)).await.map(Self)
    }

    /// Opens an outbox that was taken over before, as it is and as `options` say: opening changes nothing.
    pub async fn open_prepared(url: &str, options: Options) -> Result<Self, Error> {
        Store::open_with(url, &Self::alone(options).looking()).await.map(Self)
    }

    /// Finds out whether [`OutboxStore::open`] would succeed, as far as that can be seen without changing anything.
    pub async fn check(url: &str) -> Result<(), Error> {
        Self::check_with(url, Options::default()).await
    }

    /// The same for [`OutboxStore::open_with`].
    pub async fn check_with(url: &str, options: Options) -> Result<(), Error> {
        let migrates = options.migrates();
        match Self::open_prepared(url, options).await {
            Ok(store) => {
                store.close().await;
                Ok(())
            }
            Err(Error::Unprepared { .. }) if migrates => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn alone(options: Options) -> Options {
        options.for_parts(&[&parts::OUTBOX]).create(false)
    }

    /// Changes on their way to another system.
    #[must_use]
    pub fn outbox(&self) -> Arc<dyn Outbox> {
        self.0.outbox()
    }

    /// What goes to one receiver: the outbox of a route, whose table is made where there is none.
    pub async fn open_route(&self, name: &str) -> Result<Arc<dyn Outbox>, Error> {
        if let Some(route) = self.0.route(name).await? {
            return Ok(route);
        }
        self.0.create_route(name).await?;
        let made = self.0.route(name).await?;
        made.ok_or_else(|| Error::invalid("route", format!("the table of `{name}` was not made")))
    }

    /// The same where the table is there already; `None` where it is not.
    pub async fn route(&self, name: &str) -> Result<Option<Arc<dyn Outbox>>, Error> {
        self.0.route(name).await
    }

    /// The routes that have a table here, whoever made it.
    pub async fn routes(&self) -> Result<Vec<String>, Error> {
        outbox::route::names(&self.0.database()).await
    }

    /// Its address without user, password or parameters: fit for logs and pages.
    #[must_use]
    pub fn name(&self) -> &str {
        self.0.name()
    }

    /// Finishes what is under way and closes it; later calls are refused.
    pub async fn close(&self) {
        self.0.close().await;
    }
}

/// An open store. Clones share it.
#[derive(Clone)]
pub struct Store {
    engine: Engine,
}

#[derive(Clone)]
enum Engine {
    Sqlite(sqlite::Engine),
    Postgres(postgres::Engine),
}

/// The kind of engine behind a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backend {
    /// A file on this machine.
    Sqlite,
    /// A database server.
    Postgres,
}

/// How a PostgreSQL server is copied to others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replication {
    /// Standbys that are connected now.
    pub standbys: u64,
    /// Whether a commit waits until one of them has it (`synchronous_standby_names` and `synchronous_commit`).
    pub is_confirmed: bool,
}

/// How well writes share commits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stats {
    /// Changes committed since the store was opened.
    pub writes: u64,
    /// The commits they took, each with its own sync to disk.
    pub commits: u64,
}

impl Store {
    /// Opens the store at `url` for all systems of the platform and brings their tables up to date.
    ///
    /// `sqlite:path/to/file.db` (the file and its folder are created), `sqlite::memory:` (gone when closed), or
    /// `postgres://user:password@host:port/database?sslmode=...`, directly or by way of a pooler in transaction
    /// mode.
    pub async fn open(url: &str) -> Result<Self, Error> {
        Self::open_with(url, &Options::default()).await
    }

    /// Opens the store at `url` for the parts that `options` name. A port of a part that they do not name finds no tables.
    pub async fn open_with(url: &str, options: &Options) -> Result<Self, Error> {
        let opening = options.checked()?;
        let engine = if sqlite::Engine::speaks(url) {
            if opening.listen_url.is_some() {
                let reason = "is SQLite's, and only PostgreSQL has an address for listening".to_owned();
                return Err(Error::Address { address: "sqlite:…".to_owned(), reason });
            }
            Engine::Sqlite(sqlite::Engine::open_for(url, Arc::new(clock::Machine), &opening).await?)
        } else if postgres::Engine::speaks(url) {
            Engine::Postgres(postgres::Engine::open_for(url, &opening).await?)
        } else {
            // It may hold a password in whatever place; only a scheme is safe to show.
            let scheme = url.split_once("://").map(|(scheme, _)| scheme);
            let scheme = scheme.filter(|scheme| scheme.chars().all(|c| c.is_ascii_alphanumeric()));
            let address = scheme.map_or_else(|| "…".to_owned(), |scheme| format!("{scheme}://…"));
            return Err(Error::Address { address, reason: "is neither sqlite: nor postgres://".to_owned() });
        };
        Ok(Self { engine })
    }

    /// Finds out whether [`Store::open`] would succeed, as far as that can be seen without changing anything. Whether the
    /// tables are up to date already.
    pub async fn check(url: &str) -> Result<bool, Error> {
        Self::check_with(url, &Options::default()).await
    }

    /// The same for [`Store::open_with`].
    pub async fn check_with(url: &str, options: &Options) -> Result<bool, Error> {
        match Self::open_with(url, &options.clone().looking()).await {
            Ok(store) => {
                store.close().await;
                Ok(true)
            }
            Err(Error::Unprepared { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Copies the SQLite database at `url` to the file `to`, while others use it. The copy is of one moment and has everything that was
    /// acknowledged before.
    pub async fn back_up(url: &str, to: &Path) -> Result<Copied, Error> {
        let (url, to) = (url.to_owned(), to.to_owned());
        blocking(move || sqlite::back_up(&url, &to)).await
    }

    /// Puts a copy in the place of the SQLite database at `url`, which nobody may have open. What was there is kept under another name.
    pub async fn restore(url: &str, from: &Path) -> Result<Copied, Error> {
        let (url, from) = (url.to_owned(), from.to_owned());
        blocking(move || sqlite::restore(&url, &from)).await
    }

    /// How the server at `url` is copied to others; `None` for SQLite. Changes nothing.
    pub async fn replication(url: &str) -> Result<Option<Replication>, Error> {
        match postgres::Engine::speaks(url) {
            true => postgres::replication(url).await.map(Some),
            false => Ok(None),
        }
    }

    /// Keys with a time to live: the users' space.
    #[must_use]
    pub fn kv(&self) -> Arc<dyn Kv> {
        let notices: Arc<dyn kv::watch::KeyNotices> = match &self.engine {
            Engine::Sqlite(engine) => Arc::new(engine.keys().clone()),
            Engine::Postgres(engine) => Arc::new(postgres::PostgresKeyNotices::new(engine.clone())),
        };
        Arc::new(kv::port::Port::new(self.database(), notices))
    }

    /// The keys of one part: nobody else can name, list or change them.
    pub fn kv_space(&self, part: &str) -> Result<Arc<dyn Kv>, Error> {
        kv::check_space(part)?;
        Ok(Arc::new(kv::port::Port::of_part(self.database(), part)))
    }

    /// Keyed work at a shared pace.
    #[must_use]
    pub fn queues(&self) -> Arc<dyn Queues> {
        let (notices, registry): (Arc<dyn QueueNotices>, _) = match &self.engine {
            Engine::Sqlite(engine) => (sqlite::SqliteQueueNotices::new(engine), engine.queue_registry()),
            Engine::Postgres(engine) => {
                (Arc::new(postgres::PostgresQueueNotices::new(engine.clone())), engine.queue_registry())
            }
        };
        Arc::new(queue::port::Port::new(Tables::new(self.database(), notices), registry.clone()))
    }

    /// Claims, history and totals of scheduled jobs.
    #[must_use]
    pub fn schedule(&self) -> Arc<dyn Schedule> {
        Arc::new(schedule::port::Port::new(self.database()))
    }

    /// Leases with a fencing token.
    #[must_use]
    pub fn locks(&self) -> Arc<dyn Locks> {
        match &self.engine {
            Engine::Sqlite(engine) => Arc::new(sqlite::SqliteLocks::new(engine.clone())),
            Engine::Postgres(engine) => Arc::new(postgres::PostgresLocks::new(engine.clone())),
        }
    }

    /// Changes on their way to another system.
    #[must_use]
    pub fn outbox(&self) -> Arc<dyn Outbox> {
        let database = match &self.engine {
            Engine::Sqlite(_) => self.database().on_entries(),
            Engine::Postgres(_) => self.database(),
        };
        self.outbox_in(database)
    }

    fn outbox_in(&self, database: Database) -> Arc<dyn Outbox> {
        let claims: Arc<dyn outbox::port::Claims> = match &self.engine {
            Engine::Sqlite(engine) => Arc::new(sqlite::SqliteClaims::new(engine.clone(), database.clone())),
            Engine::Postgres(engine) => {
                Arc::new(postgres::PostgresClaims::new(engine.clone(), database.clone()))
            }
        };
        Arc::new(outbox::port::Port::new(self.database(), database, claims))
    }

    /// The outbox of a route, if its table is there.
    async fn route(&self, name: &str) -> Result<Option<Arc<dyn Outbox>>, Error> {
        outbox::route::check_name(name)?;
        let there = outbox::route::exists(&self.database(), name).await?;
        Ok(there.then(|| self.outbox_in(self.database().on_route(name))))
    }

    /// Makes the table of a route.
    async fn create_route(&self, name: &str) -> Result<(), Error> {
        let create = outbox::route::create(name);
        match &self.engine {
            Engine::Sqlite(_) => {
                self.database()
                    .write(move |transaction| Box::pin(async move { transaction.script(create).await }))
                    .await
            }
            Engine::Postgres(engine) => engine.create_alone(create).await,
        }
    }

    /// Entities that came from elsewhere. Creates the tables of `types` that are missing.
    pub async fn inbox(&self, types: &[EntityType]) -> Result<Arc<dyn Inbox>, Error> {
        inbox::row::check_types(types)?;
        let wakes = match &self.engine {
            Engine::Sqlite(engine) => {
                inbox::port::create_tables(&self.database(), types).await?;
                engine.outbox_wakes()
            }
            Engine::Postgres(engine) => {
                engine.create_entity_tables(types).await?;
                engine.outbox_wakes()
            }
        };
        Ok(Arc::new(inbox::port::Port::new(self.database(), types, Arc::clone(wakes))))
    }

    /// Transactions of one's own, for tables of one's own.
    #[must_use]
    pub fn database(&self) -> Database {
        match &self.engine {
            Engine::Sqlite(engine) => Database::new(engine.clone()),
            Engine::Postgres(engine) => Database::new(engine.clone()),
        }
    }

    /// What devices agree on, by space.
    #[must_use]
    pub fn states(&self) -> Arc<dyn States> {
        let notices: Arc<dyn state::port::ChangeNotices> = match &self.engine {
            Engine::Sqlite(engine) => Arc::new(engine.changes().clone()),
            Engine::Postgres(engine) => Arc::new(postgres::PostgresNotices::new(engine.clone())),
        };
        Arc::new(state::port::Port::new(self.database(), notices))
    }

    /// The audit, keys and revocations.
    #[must_use]
    pub fn access(&self) -> AccessStore {
        AccessStore::new(self.database())
    }

    /// News of what other processes change, from now on.
    #[must_use]
    pub fn news(&self, topic: Topic) -> News {
        News::new(match &self.engine {
            Engine::Sqlite(engine) => match engine.stamp() {
                Some(stamp) => news::Source::File { stamp },
                None => news::Source::Memory,
            },
            Engine::Postgres(engine) => engine.news(topic),
        })
    }

    /// Lets other processes hear that something of this topic has changed. A promise to nobody: they look, too.
    pub async fn announce(&self, topic: Topic) -> Result<(), Error> {
        match &self.engine {
            // What was written is what others see.
            Engine::Sqlite(_) => Ok(()),
            Engine::Postgres(engine) => engine.announce(topic).await,
        }
    }

    /// Messages of the processes that share this store, from now on; `None` where there can be no other.
    #[must_use]
    pub fn messages(&self) -> Option<Messages> {
        match &self.engine {
            Engine::Sqlite(_) => None,
            Engine::Postgres(engine) => Some(engine.messages()),
        }
    }

    /// Sends messages to all who listen now, this process included: up to [`MESSAGES_MAX`] of up to [`MESSAGE_MAX_BYTES`].
    pub async fn send_messages(&self, messages: &[String]) -> Result<(), Error> {
        match &self.engine {
            Engine::Sqlite(_) => Ok(()),
            Engine::Postgres(engine) => engine.send_messages(messages).await,
        }
    }

    /// Checks that the store answers and takes writes.
    pub async fn ping(&self) -> Result<(), Error> {
        match &self.engine {
            Engine::Sqlite(engine) => engine.ping().await,
            Engine::Postgres(engine) => engine.ping().await,
        }
    }

    /// Makes the store commit a change that leaves nothing behind and needs the tables of no part: a store that answers may
    /// take no writes, because its disk is full or it was made read-only.
    pub async fn try_write(&self) -> Result<(), Error> {
        match &self.engine {
            Engine::Sqlite(engine) => engine.try_write().await,
            Engine::Postgres(engine) => engine.try_write().await,
        }
    }

    /// Finishes what is under way and closes the store for every clone and port; later calls are refused.
    pub async fn close(&self) {
        match &self.engine {
            Engine::Sqlite(engine) => engine.close().await,
            Engine::Postgres(engine) => engine.close().await,
        }
    }

    /// Which kind of engine it is.
    #[must_use]
    pub fn backend(&self) -> Backend {
        match &self.engine {
            Engine::Sqlite(_) => Backend::Sqlite,
            Engine::Postgres(_) => Backend::Postgres,
        }
    }

    /// Its address without user, password or parameters: fit for logs and pages.
    #[must_use]
    pub fn name(&self) -> &str {
        match &self.engine {
            Engine::Sqlite(engine) => engine.name(),
            Engine::Postgres(engine) => engine.name(),
        }
    }

    /// How writes shared commits; `None` where the database server sees to that.
    #[must_use]
    pub fn stats(&self) -> Option<Stats> {
        match &self.engine {
            Engine::Sqlite(engine) => {
                let (writes, commits) = engine.counts();
                Some(Stats { writes, commits })
            }
            Engine::Postgres(_) => None,
        }
    }
}

impl Backend {
    /// Its name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite",
            Self::Postgres => "postgres",
        }
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Store").field(&self.name()).finish()
    }
}

/// Compiles and runs the examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// Does `work`, which waits for the disk, without holding anything else up.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    let ended = |error: tokio::task::JoinError| {
        Err(Error::Engine { store: "the copy".to_owned(), reason: format!("it ended early: {error}") })
    };
    tokio::task::spawn_blocking(work).await.unwrap_or_else(ended)
}
