//! The thread that writes grants into the table of locks: group commit without a sync.
//!
//! A grant takes microseconds, far less than the way to another thread and back for every statement, which is what the
//! asynchronous driver costs. So this one thread owns a plain connection of its own (the same SQLite library, linked
//! once) and runs whatever waits as one transaction: eight callers that come together cost one commit, and one way here
//! and back.
//!
//! Guarantees: an answer is given only after the commit succeeded; an error fails every change of its transaction and
//! undoes them all, because only the store itself can fail here: the changes' input is checked before. Commits are not
//! synced (`synchronous=NORMAL`): they survive the process, not the machine. After a failing disk it takes no more.
//!
//! A caller that goes away while waiting does not undo its change. What is changed, and what has to be synced ahead of
//! it, is left to the port.

use std::path::Path;
use std::sync::Arc;
use std::thread;

use rusqlite::{Connection, OpenFlags, TransactionBehavior};
use tokio::sync::{mpsc, oneshot};

use crate::Error;
use crate::sqlite::writer::{ADMISSION_MAX, BATCH_MAX, QUEUE_MAX, WriteLock};
use crate::sqlite::{BUSY_WAIT, LOG_KEPT_BYTES};

/// Different statements this thread runs; each is prepared once.
const STATEMENTS: usize = 16;

/// The way to the thread. Dropping every handle ends it after what is queued is committed.
#[derive(Debug)]
pub(super) struct GrantWriter {
    store: Arc<str>,
    queue: mpsc::Sender<Message>,
}

enum Message {
    Change(Box<dyn Change>),
    Close(oneshot::Sender<()>),
}

impl GrantWriter {
    /// Opens `file` a second time and starts the thread.
    pub(super) async fn open(
        store: Arc<str>,
        file: &Path,
        in_memory: bool,
        write_lock: WriteLock,
    ) -> Result<Self, Error> {
        let (queue, changes) = mpsc::channel(QUEUE_MAX);
        let (opened, wait) = oneshot::channel();
        let (file, name) = (file.to_owned(), Arc::clone(&store));
        let run = move || match connect(&file, in_memory) {
            Ok(connection) => {
                // Whoever opened this has gone, and the queue with it.
                let _ = opened.send(Ok(()));
                let mut worker = Worker { store: name, connection, write_lock, changes, closing: Vec::new() };
                worker.run();
                worker.close();
            }
            Err(error) => drop(opened.send(Err(Error::rusqlite(&name, &error)))),
        };
        let failed = |reason: String| Error::Engine { store: store.to_string(), reason };
        let started = thread::Builder::new().name("syncline-locks".to_owned()).spawn(run);
        started.map_err(|error| failed(format!("no thread for locks: {error}")))?;
        wait.await.map_err(|_| failed("the thread for locks ended".to_owned()))??;
        Ok(Self { store, queue })
    }

    /// Runs `work` in a transaction and returns its result once that is committed.
    pub(super) async fn write<T, F>(&self, work: F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    {
        let (answer, answered) = oneshot::channel();
        let change = Message::Change(Box::new(Pending { work: Some(work), result: None, answer }));
        match self.queue.send_timeout(change, ADMISSION_MAX).await {
            Ok(()) => answered.await.unwrap_or_else(|_| Err(self.closed())),
            Err(mpsc::error::SendTimeoutError::Closed(_)) => Err(self.closed()),
            Err(mpsc::error::SendTimeoutError::Timeout(_)) => Err(Error::Busy {
                store: self.store.to_string(),
                reason: format!("{QUEUE_MAX} changes of locks are waiting already"),
            }),
        }
    }

    /// Commits what is queued, closes the connection and refuses everything after.
    pub(super) async fn close(&self) {
        let (closed, wait) = oneshot::channel();
        if self.queue.send(Message::Close(closed)).await.is_ok() {
            // An error means that the thread has ended, which is what was asked for.
            let _ = wait.await;
        }
    }

    fn closed(&self) -> Error {
        Error::Closed { store: self.store.to_string() }
    }
}

/// The same file by the same rules for names as the asynchronous driver has.
fn connect(file: &Path, in_memory: bool) -> rusqlite::Result<Connection> {
    let mut flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_URI
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    if in_memory {
        flags |= OpenFlags::SQLITE_OPEN_MEMORY | OpenFlags::SQLITE_OPEN_SHARED_CACHE;
    }
    let connection = Connection::open_with_flags(file, flags)?;
    connection.busy_timeout(BUSY_WAIT)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    if !in_memory {
        connection.pragma_update(None, "synchronous", "NORMAL")?;
        connection.pragma_update_and_check(None, "journal_size_limit", LOG_KEPT_BYTES, |_| Ok(()))?;
    }
    Ok(connection)
}

/// A change that waits to be run, its result type forgotten.
trait Change: Send {
    /// Runs the change and keeps its result.
    fn run(&mut self, connection: &Connection) -> rusqlite::Result<()>;

    /// Gives the answer: the result, or why there is none.
    fn answer(self: Box<Self>, committed: Result<(), Error>);
}

struct Pending<T, F> {
    work: Option<F>,
    result: Option<T>,
    answer: oneshot::Sender<Result<T, Error>>,
}

impl<T, F> Change for Pending<T, F>
where
    T: Send,
    F: FnOnce(&Connection) -> rusqlite::Result<T> + Send,
{
    fn run(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        let work = self.work.take().expect("a change is run once");
        self.result = Some(work(connection)?);
        Ok(())
    }

    fn answer(self: Box<Self>, committed: Result<(), Error>) {
        let Self { result, answer, .. } = *self;
        // Nobody waits for the answer any more; that is the caller's choice.
        let _ = answer.send(committed.map(|()| result.expect("what is committed was run")));
    }
}

/// What the thread has.
struct Worker {
    store: Arc<str>,
    connection: Connection,
    write_lock: WriteLock,
    changes: mpsc::Receiver<Message>,
    /// Who waits for the end.
    closing: Vec<oneshot::Sender<()>>,
}

impl Worker {
    fn run(&mut self) {
        let mut together: Vec<Box<dyn Change>> = Vec::new();
        let mut halted: Option<Error> = None;
        while let Some(message) = self.changes.blocking_recv() {
            together.extend(change_of(message, &mut self.changes, &mut self.closing));
            if together.is_empty() {
                continue;
            }
            let committed = match &halted {
                Some(error) => Err(error.clone()),
                None => self.commit(&mut together),
            };
            if let Err(error @ (Error::Disk { .. } | Error::Corrupt { .. })) = &committed
                && halted.is_none()
            {
                tracing::error!(%error, "the database failed for good: no locks are granted until the program is restarted");
                halted = Some(error.clone());
            }
            for change in together.drain(..) {
                change.answer(committed.clone());
            }
        }
    }

    /// One transaction: what is in `together`, and whatever waits by the time each change before it has run.
    fn commit(&mut self, together: &mut Vec<Box<dyn Change>>) -> Result<(), Error> {
        let write_lock = Arc::clone(&self.write_lock);
        let _ours = write_lock.blocking_lock();
        let store = Arc::clone(&self.store);
        let failed = |error| Error::rusqlite(&store, &error);
        let transaction =
            rusqlite::Transaction::new_unchecked(&self.connection, TransactionBehavior::Immediate)
                .map_err(failed)?;
        let mut done = 0;
        while let Some(change) = together.get_mut(done) {
            change.run(&transaction).map_err(failed)?;
            done += 1;
            if done < BATCH_MAX
                && let Ok(message) = self.changes.try_recv()
            {
                together.extend(change_of(message, &mut self.changes, &mut self.closing));
            }
        }
        // Dropped without it, after an error, everything is undone.
        transaction.commit().map_err(failed)
    }

    fn close(self) {
        if let Err((_, error)) = self.connection.close() {
            tracing::warn!(store = %self.store, %error, "the database was not closed cleanly");
        }
        for closed in self.closing {
            let _ = closed.send(());
        }
    }
}

/// The change in a message. Told to close: what is queued is still received and committed, what is sent from now on is
/// refused.
fn change_of(
    message: Message,
    changes: &mut mpsc::Receiver<Message>,
    closing: &mut Vec<oneshot::Sender<()>>,
) -> Option<Box<dyn Change>> {
    match message {
        Message::Change(change) => Some(change),
        Message::Close(closed) => {
            changes.close();
            closing.push(closed);
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::future::join_all;

    use super::*;

    struct World {
        _folder: tempfile::TempDir,
        grant_writer: GrantWriter,
        write_lock: WriteLock,
    }

    async fn open() -> World {
        let folder = tempfile::tempdir().unwrap();
        let write_lock = WriteLock::default();
        let file = folder.path().join("store.db");
        let grant_writer =
            GrantWriter::open("store".into(), &file, false, Arc::clone(&write_lock)).await.unwrap();
        let create = "CREATE TABLE kept (id INTEGER PRIMARY KEY CHECK (id > 0)) STRICT";
        grant_writer.write(move |connection| connection.execute_batch(create)).await.unwrap();
        World { _folder: folder, grant_writer, write_lock }
    }

    impl World {
        async fn keep(&self, id: i64) -> Result<usize, Error> {
            self.grant_writer
                .write(move |connection| connection.execute("INSERT INTO kept VALUES (?1)", [id]))
                .await
        }

        /// Keeps them in one transaction: the thread waits for the write lock until all of them are queued.
        async fn keep_together(&self, ids: &[i64]) -> Vec<Result<usize, Error>> {
            let others = self.write_lock.lock().await;
            let queued = async {
                // The first one has been taken from the queue.
                while self.grant_writer.queue.capacity() != QUEUE_MAX - (ids.len() - 1) {
                    tokio::task::yield_now().await;
                }
                drop(others);
            };
            tokio::join!(join_all(ids.iter().map(|id| self.keep(*id))), queued).0
        }

        async fn kept(&self) -> i64 {
            let count = "SELECT count(*) FROM kept";
            self.grant_writer
                .write(|connection| connection.query_row(count, [], |row| row.get(0)))
                .await
                .unwrap()
        }
    }

    #[tokio::test]
    async fn changes_that_come_together_are_kept_together_or_not_at_all() {
        let world = open().await;
        assert!(world.keep_together(&[1, 2, 3]).await.iter().all(Result::is_ok));
        assert_eq!(world.kept().await, 3);
        for failed in world.keep_together(&[4, -1]).await {
            assert!(matches!(failed, Err(Error::Refused { .. })), "{failed:?}");
        }
        assert_eq!(world.kept().await, 3);
        assert_eq!(world.keep(4).await, Ok(1), "and it goes on");
    }

    #[tokio::test]
    async fn closing_commits_what_is_queued_and_refuses_what_comes_after() {
        let world = open().await;
        let (kept, ()) =
            tokio::join!(join_all((1..=50).map(|id| world.keep(id))), world.grant_writer.close());
        assert!(kept.iter().all(Result::is_ok), "{kept:?}");
        assert!(matches!(world.keep(51).await, Err(Error::Closed { .. })));
        // Whoever closes it once more need not wait.
        world.grant_writer.close().await;
    }

    #[tokio::test]
    async fn a_file_that_cannot_be_opened_is_told_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let opened = GrantWriter::open("store".into(), folder.path(), false, WriteLock::default()).await;
        assert!(matches!(opened, Err(Error::Denied { .. })), "{opened:?}");
    }
}
