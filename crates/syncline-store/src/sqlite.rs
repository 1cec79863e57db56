//! The embedded engine: one SQLite file on this machine.
//!
//! - [`prepare`]: the tables, brought up to date, and the clock
//! - [`writer`]: the one writer; every change is committed in groups through one connection
//! - [`readers`]: connections that only read, beside it
//! - [`connection`]: statements on one of these
//! - [`backup`]: copies of a database that is in use
//! - [`stamp`]: whether another process may have written something
//! - [`lock`], [`outbox`]: what the ports of these have of their own here
//!
//! Guarantees: WAL with `synchronous=FULL`, so that an acknowledged write survives the death of the process and
//! of the machine, but for what says that it need not; reads run beside the writer and see every write acknowledged before they
//! began; the file and its folder are private to their owner when we create them. Several processes may share a file; each waits
//! up to [`BUSY_WAIT`] for the other's transaction and then says [`Error::Busy`].
//!
//! `sqlite::memory:` lives as long as the store is open and is gone with it; there the writer also reads.

mod backup;
mod connection;
mod lock;
pub(crate) mod outbox;
mod prepare;
mod readers;
mod stamp;
mod writer;

use std::fs::{self, DirBuilder, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use percent_encoding::percent_decode_str;
use rusqlite::Connection;
use tokio::task::spawn_blocking;

use self::readers::Readers;
use self::writer::{Done, Durability, Writer};
use crate::clock::{SteadyClock, TimeSource};
use crate::database::{self, Access, Job, Made};
use crate::kv::watch::KeyBroadcast;
use crate::options::{Mode, Opening};
use crate::outbox::wakes::Wakes;
use crate::queue::registry::QueueRegistry;
use crate::state::ChangeBroadcast;
use crate::{Backend, Error, names, parts};

pub use self::backup::Copied;
pub(crate) use self::backup::{back_up, restore};
pub(crate) use self::lock::SqliteLocks;
pub(crate) use self::outbox::SqliteClaims;
pub(crate) use self::prepare::CREATE_CLOCK;
pub(crate) use self::stamp::{FileStamp, SqliteQueueNotices};

/// How long one process waits for another's transaction.
pub(crate) const BUSY_WAIT: Duration = Duration::from_secs(5);
/// How long a start waits for a file that others read or write all the time: switching it to WAL needs a moment in which nobody
/// has it.
const OPEN_MAX: Duration = Duration::from_secs(300);
/// How long others have the file to themselves between two attempts.
const AGAIN_AFTER: Duration = Duration::from_millis(20);
/// The log is cut back to this after a checkpoint, so that one burst does not keep its disk space for ever.
const LOG_KEPT_BYTES: i64 = 64 * 1_024 * 1_024;
const SCHEME: &str = "sqlite:";

/// An open SQLite store.
#[derive(Debug, Clone)]
pub(crate) struct Engine {
    store: Arc<str>,
    writer: Writer,
    /// `None` in memory, where only the writer's connection sees the data.
    readers: Option<Readers>,
    clock: SteadyClock,
    /// What all lock ports of this engine share; `None` where the store was opened without locks.
    locks: Option<Arc<lock::Shared>>,
    registry: QueueRegistry,
    /// Who hears of new entries of the outbox.
    outbox: Arc<Wakes>,
    /// Who hears of news in shared state.
    changes: ChangeBroadcast,
    /// Who hears of changed keys.
    keys: KeyBroadcast,
    /// The file, and which one that was when it was opened; `None` in memory.
    file: Option<(Arc<Path>, Option<Identity>)>,
}

/// Where the data is.
#[derive(Debug, Clone)]
enum Place {
    Memory,
    File(Arc<Path>),
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
        let (place, creates) = address(url)?;
        let store: Arc<str> = match &place {
            Place::Memory => url.into(),
            Place::File(file) => format!("{SCHEME}{}", file.display()).into(),
        };
        let opening = opening.clone();
        let opened = spawn_blocking(move || Self::open_at(store, place, creates, &source, &opening));
        opened.await.unwrap_or_else(|error| {
            Err(Error::Engine { store: url.to_owned(), reason: format!("opening it ended early: {error}") })
        })
    }

    fn open_at(
        store: Arc<str>,
        place: Place,
        creates: bool,
        source: &Arc<dyn TimeSource>,
        opening: &Opening,
    ) -> Result<Self, Error> {
        let creates = creates || opening.create;
        if let Place::File(file) = &place {
            if creates && opening.mode == Mode::Migrate {
                create_private(&store, file)?;
            } else if !file.exists() {
                let (store, reason) = (store.to_string(), "there is no file yet".to_owned());
                return Err(if creates {
                    Error::Unprepared { store, reason }
                } else {
                    Error::Missing { store }
                });
            }
        }
        let (connection, clock) = connect_in_time(&store, &place, source, opening)?;
        let locks = match opening.has(&parts::LOCK) {
            true => {
                let quiet =
                    lock::quiet_until_ms(&connection).map_err(|error| Error::sqlite(&store, &error))?;
                Some(Arc::new(lock::Shared::new(matches!(place, Place::Memory), quiet)))
            }
            false => None,
        };
        let (readers, file) = match place {
            Place::Memory => (None, None),
            Place::File(file) => {
                let identity = identity_of(&file);
                (Some(Readers::new(Arc::clone(&store), Arc::clone(&file))), Some((file, identity)))
            }
        };
        Ok(Self {
            writer: Writer::start(Arc::clone(&store), connection)?,
            store,
            readers,
            clock,
            locks,
            registry: QueueRegistry::new(),
            outbox: Arc::default(),
            changes: ChangeBroadcast::default(),
            keys: KeyBroadcast::default(),
            file,
        })
    }

    /// Runs `work`, which only reads, beside the writer.
    async fn read<T, F>(&self, work: F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: FnOnce(&mut Connection) -> Result<T, Error> + Send + 'static,
    {
        match &self.readers {
            Some(readers) => readers.read(work).await,
            None => {
                let work = move |connection: &mut Connection| work(connection).map(Done::Kept);
                self.writer.write(Durability::Unsynced, work).await
            }
        }
    }

    /// Runs statements without arguments as one synced change.
    async fn script(&self, sql: &'static str) -> Result<(), Error> {
        let store = Arc::clone(&self.store);
        let run = move |connection: &mut Connection| {
            let done = connection.execute_batch(names::sqlite(sql));
            done.map(Done::Kept).map_err(|error| Error::sqlite(&store, &error))
        };
        self.writer.write(Durability::Synced, run).await
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
        let store = Arc::clone(&self.store);
        let read = move |connection: &mut Connection| {
            let newest = names::sqlite("SELECT max(version) FROM syncline.migrations");
            let read = connection.query_row(newest, [], |_| Ok(()));
            read.map_err(|error| Error::sqlite(&store, &error))
        };
        self.read(read).await?;
        self.writer.write(Durability::Synced, |_| Ok(Done::Kept(()))).await
    }

    /// Commits a row that comes and goes in one change: its page is written and synced, and is as before.
    pub(crate) async fn try_write(&self) -> Result<(), Error> {
        self.script(
            "INSERT INTO syncline.steady_clock (boot_id, offset_ms) VALUES ('trial write', 0); \
             DELETE FROM syncline.steady_clock WHERE boot_id = 'trial write'",
        )
        .await
    }

    /// Commits what is queued and closes the file.
    pub(crate) async fn close(&self) {
        // The writer goes last: the last connection to leave folds the log into the database.
        self.outbox.stop().await;
        if let Some(readers) = &self.readers {
            readers.close().await;
        }
        self.writer.close().await;
        if let Some(locks) = &self.locks {
            locks.close();
        }
    }

    /// Changes that were synced and the commits they took.
    pub(crate) fn counts(&self) -> (u64, u64) {
        self.writer.counts()
    }

    pub(crate) fn name(&self) -> &str {
        &self.store
    }

    /// To see whether somebody wrote to the file; `None` in memory.
    pub(crate) fn stamp(&self) -> Option<FileStamp> {
        self.file.as_ref().map(|(file, _)| FileStamp::new(file))
    }

    pub(crate) fn clock(&self) -> &SteadyClock {
        &self.clock
    }

    /// Who hears of news in shared state.
    pub(crate) fn changes(&self) -> &ChangeBroadcast {
        &self.changes
    }

    /// Who hears of changed keys.
    pub(crate) fn keys(&self) -> &KeyBroadcast {
        &self.keys
    }

    /// Who hears of new entries of the outbox.
    pub(crate) fn outbox_wakes(&self) -> &Arc<Wakes> {
        &self.outbox
    }

    /// What this process knows of its queues.
    pub(crate) fn queue_registry(&self) -> &QueueRegistry {
        &self.registry
    }
}

#[async_trait]
impl database::Engine for Engine {
    fn backend(&self) -> Backend {
        Backend::Sqlite
    }

    async fn run(&self, access: Access, job: Job) -> Result<Made, Error> {
        let (store, clock) = (Arc::clone(&self.store), self.clock.clone());
        let work = move |connection: &mut Connection| connection::run_job(connection, (&store, &clock), job);
        match access {
            Access::Read => {
                let read = move |connection: &mut Connection| match work(connection)? {
                    Done::Kept(made) | Done::Undone(made) => Ok(made),
                };
                self.read(read).await
            }
            Access::Execute => self.writer.write_once(Durability::Synced, work).await,
            Access::Unsynced => self.writer.write(Durability::Unsynced, work).await,
            Access::Statement | Access::Write => self.writer.write(Durability::Synced, work).await,
        }
    }
}

/// Opens the writing connection, however long others take. A look does not wait: it changes nothing.
fn connect_in_time(
    store: &str,
    place: &Place,
    source: &Arc<dyn TimeSource>,
    opening: &Opening,
) -> Result<(Connection, SteadyClock), Error> {
    let until = Instant::now() + OPEN_MAX;
    let mut told = false;
    loop {
        match prepare::connect(store, place, Arc::clone(source), opening) {
            Err(Error::Busy { reason, .. }) if opening.mode != Mode::Look && Instant::now() < until => {
                if !told {
                    tracing::info!(
                        store,
                        reason,
                        "the file is in use, so it cannot be opened yet; it is tried again"
                    );
                    told = true;
                }
                thread::sleep(AGAIN_AFTER);
            }
            done => return done,
        }
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

/// What an address says: where the data is, and whether a file is made where there is none (`?mode=rwc`), whoever opens it.
fn address(url: &str) -> Result<(Place, bool), Error> {
    let refused = |reason: &str| Error::Address { address: url.to_owned(), reason: reason.to_owned() };
    let (plain, creates) = match url.split_once('?') {
        None => (url, false),
        Some((plain, "mode=rwc")) => (plain, true),
        Some(_) => return Err(refused("takes no parameter but mode=rwc, which creates the file")),
    };
    let path = plain.strip_prefix(SCHEME).unwrap_or(plain);
    let path = path.strip_prefix("//").unwrap_or(path);
    if path == ":memory:" {
        return Ok((Place::Memory, creates));
    }
    // A name may have a question mark in it, as %3F.
    let path = percent_decode_str(path).decode_utf8().map_err(|_| refused("is no text in UTF-8"))?;
    if path.is_empty() {
        return Err(refused("names no file"));
    }
    Ok((Place::File(Path::new(&*path).into()), creates))
}

/// How SQLite would run a statement, step by step.
#[cfg(test)]
pub(crate) async fn plan(engine: &Engine, sql: impl Into<database::Sql>) -> String {
    let sql = sql.into().of(Backend::Sqlite);
    let explain = move |connection: &mut Connection| {
        let sql = names::on_sqlite(&format!("EXPLAIN QUERY PLAN {sql}"));
        let mut statement = connection.prepare(&sql).unwrap();
        let steps =
            statement.raw_query().mapped(|row| row.get::<_, String>(3)).collect::<Result<Vec<_>, _>>();
        Ok(steps.unwrap().join("\n"))
    };
    engine.read(explain).await.unwrap()
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
        // 1 is NORMAL and 2 is FULL: https://www.sqlite.org/pragma.html#pragma_synchronous
        for (durability, level) in
            [(Durability::Synced, 2), (Durability::Unsynced, 1), (Durability::Synced, 2)]
        {
            let settings = "SELECT (SELECT * FROM pragma_journal_mode), (SELECT * FROM pragma_synchronous), \
                 (SELECT * FROM pragma_foreign_keys)";
            let read = move |connection: &mut Connection| {
                let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
                Ok(Done::Kept(connection.query_row(settings, [], read).unwrap()))
            };
            let settings: (String, i64, i64) = engine.writer.write(durability, read).await.unwrap();
            assert_eq!(settings, ("wal".to_owned(), level, 1));
        }
    }

    #[tokio::test]
    async fn readers_cannot_write() {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", folder.path().join("store.db").display());
        let engine = Engine::open(&url, Arc::new(Machine)).await.unwrap();
        let database = database::Database::new(engine);
        let written = database.read(|transaction| {
            Box::pin(async move { transaction.execute("DELETE FROM syncline.kv", &[]).await })
        });
        assert!(matches!(written.await.unwrap_err(), Error::Denied { .. }));
    }

    /// Whoever waited for entries of the outbox kept a connection for another second, so that the log stayed beside the file.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn hs_06_closing_leaves_one_file_whoever_followed_it() {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", folder.path().join("store.db").display());
        let store = crate::Store::open(&url).await.unwrap();
        let mut wakes = store.outbox().wakes();
        // It has a connection of its own once it has looked.
        wakes.changed().await.unwrap();
        store.close().await;
        let left: Vec<_> =
            fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap().file_name()).collect();
        assert_eq!(left, ["store.db"]);
    }

    /// Statements that nobody runs in a test would otherwise be found wanting by a user.
    #[tokio::test]
    async fn hs_05_sqlite_understands_every_statement_of_its_files() {
        let engine = Engine::open("sqlite::memory:", Arc::new(Machine)).await.unwrap();
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("sql");
        let files = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
        let is_ours = |file: &Path| !file.to_string_lossy().ends_with(".postgres.sql");
        let texts: Vec<String> =
            files.filter(|file| is_ours(file)).map(|file| fs::read_to_string(file).unwrap()).collect();
        let prepare = move |connection: &mut Connection| {
            connection.execute_batch(
                "CREATE TABLE syncline_entity_sample (id TEXT PRIMARY KEY, payload, sender, entry, changed_at, received_at, place); \
                 CREATE TABLE syncline_route_sample (id, entity_type, entity_id, payload, created_at); \
                 CREATE TABLE system_settings (key, name, value)",
            ).unwrap();
            let mut prepared = 0;
            for statement in texts.iter().flat_map(|text| text.split("-- name: ").skip(1)) {
                let (name, sql) = statement.split_once('\n').unwrap();
                if !name.starts_with("CREATE") {
                    // What an application inserts goes into its own table, all else is about ours.
                    let sql = match name.starts_with("INSERT") {
                        true => sql.to_owned(),
                        false => {
                            let sql = database::Sql::from(names::kept(sql.to_owned()));
                            let ours = names::on_outbox_table(sql, "outbox_entries", "sync_outbox");
                            ours.of(Backend::Sqlite).to_owned()
                        }
                    };
                    let done = connection.prepare(&names::on_sqlite(&sql)).map(drop);
                    assert_eq!(done, Ok(()), "{name}");
                    prepared += 1;
                }
            }
            Ok(prepared)
        };
        assert!(engine.read(prepare).await.unwrap() > 100);
    }

    #[test]
    fn an_address_names_a_file_or_memory() {
        let file = |url: &str| match address(url).unwrap() {
            (Place::File(file), creates) => (file.display().to_string(), creates),
            (Place::Memory, _) => panic!("{url}"),
        };
        assert_eq!(file("sqlite:a/b.db"), ("a/b.db".to_owned(), false));
        assert_eq!(file("sqlite:///a%3Fb.db?mode=rwc"), ("/a?b.db".to_owned(), true));
        assert!(matches!(address("sqlite::memory:"), Ok((Place::Memory, false))));
        for refused in ["sqlite:", "sqlite:x?mode=ro", "sqlite:%ff"] {
            assert!(matches!(address(refused), Err(Error::Address { .. })), "{refused}");
        }
    }
}
