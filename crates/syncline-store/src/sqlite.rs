//! The embedded engine: one SQLite file on this machine.
//!
//! - [`prepare`]: the tables, brought up to date, and the clock
//! - [`writer`]: every change but those of locks, committed in groups through one connection
//! - [`kv`], [`lock`], [`outbox`], [`queue`], [`schedule`]: the ports
//!
//! Guarantees: WAL with `synchronous=FULL`, so that an acknowledged write survives the death of the process and
//! of the machine; reads run beside the writer and see every write acknowledged before they began; the file and
//! its folder are private to their owner when we create them. Several processes may share a file; each waits up
//! to [`BUSY_WAIT`] for the other's transaction and then says [`Error::Busy`].
//!
//! `sqlite::memory:` lives as long as the store is open and is gone with it; there the writer also reads.

mod inbox;
mod kv;
mod lock;
pub(crate) mod outbox;
mod prepare;
mod queue;
mod schedule;
mod state;
mod statement;
mod writer;

use std::fs::{self, DirBuilder, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use sqlx::ConnectOptions;
use sqlx::pool::{PoolConnection, PoolOptions};
use sqlx::sqlite::{Sqlite, SqliteConnectOptions, SqliteConnection, SqlitePool, SqliteSynchronous};
use tokio::sync::OnceCell;

use crate::clock::{SteadyClock, TimeSource};
use crate::options::{Mode, Opening};
use crate::outbox::wakes::Wakes;
use crate::queue::registry::QueueRegistry;
use crate::state::ChangeBroadcast;
use crate::{Error, database, parts};

pub(crate) use self::inbox::SqliteInbox;
pub(crate) use self::kv::SqliteKv;
pub(crate) use self::lock::SqliteLocks;
pub(crate) use self::outbox::SqliteOutbox;
pub(crate) use self::prepare::CREATE_CLOCK;
pub(crate) use self::queue::SqliteQueues;
pub(crate) use self::schedule::SqliteSchedule;
pub(crate) use self::state::SqliteStates;
pub(crate) use self::statement::query;
use self::writer::{Work, WriteLock, Writer};

/// How long one process waits for another's transaction.
pub(crate) const BUSY_WAIT: Duration = Duration::from_secs(5);
/// Connections that only read.
const READERS: u32 = 4;
/// The log is cut back to this after a checkpoint, so that one burst does not keep its disk space for ever.
const LOG_KEPT_BYTES: &str = "67108864";
const SCHEME: &str = "sqlite:";
/// An open SQLite store.
#[derive(Debug, Clone)]
pub(crate) struct Engine {
    store: Arc<str>,
    writer: Writer,
    /// Writes what may be lost with the machine's power; opened by the first who does.
    unsynced: Arc<Unsynced>,
    /// `None` in memory, where only the writer's connection sees the data.
    readers: Option<SqlitePool>,
    clock: SteadyClock,
    /// What all lock ports of this engine share; `None` where the store was opened without locks.
    locks: Option<Arc<lock::Shared>>,
    registry: QueueRegistry,
    /// Who hears of new entries of the outbox.
    outbox: Arc<Wakes>,
    /// Who hears of news in shared state.
    changes: ChangeBroadcast,
    /// The file, and which one that was when it was opened; `None` in memory.
    file: Option<(Arc<Path>, Option<Identity>)>,
}

/// Tells a file from another one of the same name: its device and its number there.
type Identity = (u64, u64);

fn identity_of(file: &Path) -> Option<Identity> {
    fs::metadata(file).ok().map(|metadata| (metadata.dev(), metadata.ino()))
}

impl Engine {
    /// Whether `url` is for this engine.
    pub(crate) fn speaks(url: &str) -> bool {
        url.starts_with(SCHEME)
    }

    /// Opens the file for all systems, as most do.
    #[cfg(test)]
    pub(crate) async fn open(url: &str, source: Arc<dyn TimeSource>) -> Result<Self, Error> {
        Self::open_for(url, source, &Opening::all()).await
    }

    /// Opens the file as `opening` says: brings its tables up to date, or finds them so.
    pub(crate) async fn open_for(
        url: &str,
        source: Arc<dyn TimeSource>,
        opening: &Opening,
    ) -> Result<Self, Error> {
        let Address { options, file, in_memory, creates } = Address::read(url)?;
        let store: Arc<str> =
            if in_memory { url.into() } else { format!("{SCHEME}{}", file.display()).into() };
        let creates = creates || opening.create;
        if !in_memory && creates && opening.mode == Mode::Migrate {
            create_private(&store, &file)?;
        } else if !in_memory && !file.exists() {
            let (store, reason) = (store.to_string(), "there is no file yet".to_owned());
            return Err(if creates { Error::Unprepared { store, reason } } else { Error::Missing { store } });
        }
        let options = options.busy_timeout(BUSY_WAIT).foreign_keys(true).synchronous(SqliteSynchronous::Full);
        let failed = |error| Error::sqlite(&store, &error);
        let (mut connection, clock) = prepare::connect(&store, &options, in_memory, source, opening).await?;
        let quiet_until_ms = match opening.has(&parts::LOCK) {
            true => Some(lock::quiet_until_ms(&mut connection).await.map_err(failed)?),
            false => None,
        };
        let write_lock = WriteLock::default();
        let writer = Writer::start(Arc::clone(&store), connection, Arc::clone(&write_lock));
        let locks = match quiet_until_ms {
            // Grants are not synced one by one, so they have a connection of their own.
            Some(quiet_until_ms) => {
                let (store, write_lock) = (Arc::clone(&store), Arc::clone(&write_lock));
                let shared = lock::Shared::open(store, &file, in_memory, write_lock, quiet_until_ms).await?;
                Some(Arc::new(shared))
            }
            None => None,
        };
        let unsynced = Arc::new(Unsynced { options: options.clone(), write_lock, writer: OnceCell::new() });
        let readers = (!in_memory).then(|| {
            PoolOptions::new()
                .max_connections(READERS)
                .acquire_timeout(BUSY_WAIT)
                .connect_lazy_with(options.read_only(true))
        });
        Ok(Self {
            store,
            writer,
            unsynced,
            readers,
            clock,
            locks,
            registry: QueueRegistry::new(),
            outbox: Arc::default(),
            changes: ChangeBroadcast::default(),
            file: (!in_memory).then(|| (Arc::from(&*file), identity_of(&file))),
        })
    }

    /// Runs `work` as a change; see [`Writer::write`].
    pub(crate) async fn write<T, F>(&self, work: F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: for<'c> FnOnce(&'c mut SqliteConnection) -> Work<'c, T> + Send + 'static,
    {
        self.writer.write(work).await
    }

    /// The same for work that may fail for reasons of its own; see [`Writer::write_checked`].
    pub(crate) async fn write_checked<T, F>(&self, work: F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: for<'c> FnOnce(&'c mut SqliteConnection) -> database::Work<'c, T> + Send + 'static,
    {
        self.writer.write_checked(work).await
    }

    /// A connection that only reads; `None` in memory, where only the writer's connection sees the data.
    pub(crate) async fn reader(&self) -> Result<Option<PoolConnection<Sqlite>>, Error> {
        let Some(readers) = &self.readers else { return Ok(None) };
        readers.acquire().await.map(Some).map_err(|error| Error::sqlite(&self.store, &error))
    }

    /// The same for what may be lost with the machine's power: the commit is not synced.
    pub(crate) async fn write_unsynced<T, F>(&self, work: F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: for<'c> FnOnce(&'c mut SqliteConnection) -> Work<'c, T> + Send + 'static,
    {
        self.unsynced.writer(self).await?.write(work).await
    }

    /// Runs `work`, which only reads, beside the writer.
    pub(crate) async fn read<T, F>(&self, work: F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: for<'c> FnOnce(&'c mut SqliteConnection) -> Work<'c, T> + Send + 'static,
    {
        let Some(readers) = &self.readers else { return self.writer.write(work).await };
        let failed = |error| Error::sqlite(&self.store, &error);
        let mut reader = readers.acquire().await.map_err(failed)?;
        work(&mut reader).await.map_err(failed)
    }

    /// Checks that the store reads and takes writes, and that its file is still where it was: one that was removed takes
    /// everything until the process ends, and keeps nothing.
    pub(crate) async fn ping(&self) -> Result<(), Error> {
        if let Some((file, identity)) = &self.file
            && identity_of(file) != *identity
        {
            let reason = "its file was removed or replaced".to_owned();
            return Err(Error::Disk { store: self.store.to_string(), reason });
        }
        let read = statement::query("SELECT max(version) FROM syncline.migrations");
        self.read(|connection| Box::pin(read.execute(connection))).await?;
        self.write(|_| Box::pin(async { Ok(()) })).await
    }

    /// Commits a row that comes and goes in one change: its page is written and synced, and is as before.
    pub(crate) async fn try_write(&self) -> Result<(), Error> {
        let add = statement::query(
            "INSERT INTO syncline.steady_clock (boot_id, offset_ms) VALUES ('trial write', 0)",
        );
        let remove = statement::query("DELETE FROM syncline.steady_clock WHERE boot_id = 'trial write'");
        let written = self.write(move |connection| {
            Box::pin(async move {
                add.execute(&mut *connection).await?;
                remove.execute(connection).await
            })
        });
        written.await.map(drop)
    }

    /// Commits what is queued and closes the file.
    pub(crate) async fn close(&self) {
        // The writer goes last: the last connection to leave folds the log into the database.
        if let Some(readers) = &self.readers {
            readers.close().await;
        }
        if let Some(locks) = &self.locks {
            locks.close().await;
        }
        if let Some(unsynced) = self.unsynced.writer.get() {
            unsynced.close().await;
        }
        self.writer.close().await;
    }

    /// Changes committed and the commits they took.
    pub(crate) fn counts(&self) -> (u64, u64) {
        self.writer.counts()
    }

    pub(crate) fn name(&self) -> &str {
        &self.store
    }

    pub(crate) fn clock(&self) -> &SteadyClock {
        &self.clock
    }

    /// Who hears of news in shared state.
    pub(crate) fn changes(&self) -> &ChangeBroadcast {
        &self.changes
    }

    /// What this process knows of its queues.
    pub(crate) fn queue_registry(&self) -> &QueueRegistry {
        &self.registry
    }
}

/// The writer whose commits are not synced.
#[derive(Debug)]
struct Unsynced {
    options: SqliteConnectOptions,
    write_lock: WriteLock,
    writer: OnceCell<Writer>,
}

impl Unsynced {
    async fn writer(&self, engine: &Engine) -> Result<&Writer, Error> {
        let start = async || {
            // In memory there is one connection, and nothing to sync.
            if engine.readers.is_none() {
                return Ok(engine.writer.clone());
            }
            let options = self.options.clone().synchronous(SqliteSynchronous::Normal);
            let connection = options.pragma("journal_size_limit", LOG_KEPT_BYTES).connect().await;
            let connection = connection.map_err(|error| Error::sqlite(&engine.store, &error))?;
            Ok(Writer::start(Arc::clone(&engine.store), connection, Arc::clone(&self.write_lock)))
        };
        self.writer.get_or_try_init(start).await
    }
}

/// Creates folder and file for our eyes only. Both are left as they are where they exist.
fn create_private(store: &str, file: &Path) -> Result<(), Error> {
    let denied = |what: &str, path: &Path, error: &io::Error| Error::Denied {
        store: store.to_owned(),
        reason: format!("{what} {}: {error}", path.display()),
    };
    if let Some(folder) = file.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .map_err(|error| denied("cannot create the folder", folder, &error))?;
    }
    if fs::metadata(file).is_ok_and(|found| found.is_dir()) {
        return Err(denied("cannot open", file, &io::Error::from(io::ErrorKind::IsADirectory)));
    }
    // SQLite gives the log and the index beside the file the same mode.
    OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(file)
        .map_err(|error| denied("cannot write", file, &error))?;
    Ok(())
}

/// What an address says.
struct Address {
    options: SqliteConnectOptions,
    file: PathBuf,
    in_memory: bool,
    /// `?mode=rwc`: the file is made where there is none, whoever opens it.
    creates: bool,
}

impl Address {
    fn read(url: &str) -> Result<Self, Error> {
        let refused = |reason: &str| Error::Address { address: url.to_owned(), reason: reason.to_owned() };
        let (plain, creates) = match url.split_once('?') {
            None => (url, false),
            Some((plain, "mode=rwc")) => (plain, true),
            Some(_) => return Err(refused("takes no parameter but mode=rwc, which creates the file")),
        };
        let options = SqliteConnectOptions::from_str(plain).map_err(|error| refused(&error.to_string()))?;
        let file = options.get_filename().to_owned();
        if file.as_os_str().is_empty() {
            return Err(refused("names no file"));
        }
        Ok(Self { options, file, in_memory: plain.ends_with(":memory:"), creates })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Machine;

    #[tokio::test]
    async fn the_settings_that_make_writes_durable_are_in_force() {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", folder.path().join("store.db").display());
        let engine = Engine::open(&url, Arc::new(Machine)).await.unwrap();
        let settings = sqlx::query_as(
            "SELECT (SELECT * FROM pragma_journal_mode), (SELECT * FROM pragma_synchronous), \
             (SELECT * FROM pragma_foreign_keys)",
        );
        let settings: (String, i64, i64) =
            engine.write(|connection| Box::pin(settings.fetch_one(connection))).await.unwrap();
        // 2 is FULL: https://www.sqlite.org/pragma.html#pragma_synchronous
        assert_eq!(settings, ("wal".to_owned(), 2, 1));
    }

    #[tokio::test]
    async fn readers_cannot_write() {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", folder.path().join("store.db").display());
        let engine = Engine::open(&url, Arc::new(Machine)).await.unwrap();
        let delete = statement::query("DELETE FROM syncline.kv");
        let written = engine.read(|connection| Box::pin(delete.execute(connection)));
        assert!(matches!(written.await.unwrap_err(), Error::Denied { .. }));
    }
}
