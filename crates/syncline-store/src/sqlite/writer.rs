//! The one writer of a SQLite file: a thread with the one connection that writes, and group commit.
//!
//! Whatever waits when a transaction begins, and whatever arrives before it commits, shares its commit and so its one `fsync`;
//! under load a thousand changes cost a handful of syncs, and a lone change waits for nobody. A change is one way to the thread
//! and back, however many statements it has.
//!
//! **What a crash does.** A change is synced or not ([`Durability`]), and so is the commit of a group:
//!
//! - The process is killed: nothing that was answered is lost. What is committed is the system's to write.
//! - The machine loses power: nothing that was synced is lost. What was not synced may be, and its caller makes that good. A
//!   synced commit takes all commits before it to the disk.
//!
//! A group that began unsynced ends where a change comes that must be synced; one that is synced takes along whatever comes.
//!
//! Guarantees: each change of several statements runs in a savepoint of its own, so that one that fails takes nothing from its
//! neighbours; an answer is given only after the commit succeeded; a commit that fails fails every change in it.
//! A change waits for another process's transaction for [`BUSY_WAIT`] at most, however many wait before it.
//! A disk that could not confirm a commit is never asked again (a second `fsync` may claim success for pages
//! the first one lost): the writer halts and answers [`Error::Disk`] until the store is opened anew.
//!
//! A caller that goes away while waiting does not undo its change. What a change does is up to the ports.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use super::BUSY_WAIT;
use crate::Error;

/// Changes that may wait for the writer; beyond that callers wait for a place.
pub(crate) const QUEUE_MAX: usize = 1_024;
/// Most changes in one transaction.
pub(crate) const BATCH_MAX: usize = 512;
/// How long a caller waits for a place in the queue before it is told that the store is busy.
pub(crate) const ADMISSION_MAX: Duration = Duration::from_secs(10);
/// How long a change that has waited long enough still waits for another process.
const BUSY_WAIT_LEAST: Duration = Duration::from_millis(10);

/// What has to survive a loss of power.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Durability {
    /// The change: its commit is synced before it is answered.
    Synced,
    /// Nothing: somebody makes good what is lost.
    Unsynced,
}

/// What became of a change that did not fail.
pub(crate) enum Done<T> {
    /// It is to be kept.
    Kept(T),
    /// What it did is undone; this is its result.
    Undone(T),
}

/// The way to the writer. Dropping every handle ends the writer after what is queued is committed.
#[derive(Debug, Clone)]
pub(crate) struct Writer {
    store: Arc<str>,
    queue: mpsc::Sender<Message>,
    counters: Arc<Counters>,
}

/// Of what is synced.
#[derive(Debug, Default)]
struct Counters {
    writes: AtomicU64,
    commits: AtomicU64,
}

enum Message {
    Change(Durability, Box<dyn Change>),
    Close(oneshot::Sender<()>),
}

impl Writer {
    /// Takes `connection` over and starts the thread.
    pub(super) fn start(store: Arc<str>, connection: Connection) -> Result<Self, Error> {
        let (queue, changes) = mpsc::channel(QUEUE_MAX);
        let counters = Arc::new(Counters::default());
        let worker = Worker {
            store: Arc::clone(&store),
            connection,
            durability: Durability::Synced,
            changes,
            next: None,
            was_busy: false,
            counters: Arc::clone(&counters),
            closing: Vec::new(),
        };
        let started = thread::Builder::new().name("syncline-writer".to_owned()).spawn(|| worker.run());
        started.map_err(|error| Error::Engine {
            store: store.to_string(),
            reason: format!("no thread for its writer: {error}"),
        })?;
        Ok(Self { store, queue, counters })
    }

    /// Runs `work` in a transaction and returns its result once that is committed.
    pub(super) async fn write<T, F>(&self, durability: Durability, work: F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: FnOnce(&mut Connection) -> Result<Done<T>, Error> + Send + 'static,
    {
        self.queue(durability, true, work).await
    }

    /// The same for work of which one statement writes and nothing fails after it. SQLite undoes a statement that fails by itself,
    /// so that this needs no savepoint.
    pub(super) async fn write_once<T, F>(&self, durability: Durability, work: F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: FnOnce(&mut Connection) -> Result<Done<T>, Error> + Send + 'static,
    {
        self.queue(durability, false, work).await
    }

    async fn queue<T, F>(&self, durability: Durability, has_savepoint: bool, work: F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: FnOnce(&mut Connection) -> Result<Done<T>, Error> + Send + 'static,
    {
        let (answer, answered) = oneshot::channel();
        let asked_at = Instant::now();
        let change = Box::new(Pending { work: Some(work), has_savepoint, asked_at, result: None, answer });
        match self.queue.send_timeout(Message::Change(durability, change), ADMISSION_MAX).await {
            Ok(()) => answered.await.unwrap_or_else(|_| Err(self.closed())),
            Err(mpsc::error::SendTimeoutError::Closed(_)) => Err(self.closed()),
            Err(mpsc::error::SendTimeoutError::Timeout(_)) => Err(Error::Busy {
                store: self.store.to_string(),
                reason: format!("{QUEUE_MAX} changes are waiting already"),
            }),
        }
    }

    /// Commits what is queued, closes the connection and refuses everything after.
    pub(crate) async fn close(&self) {
        let (closed, wait) = oneshot::channel();
        if self.queue.send(Message::Close(closed)).await.is_ok() {
            // An error means that the writer has ended, which is what was asked for.
            let _ = wait.await;
        }
    }

    /// Changes that were synced and the commits they took.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.counters.writes.load(Ordering::Relaxed), self.counters.commits.load(Ordering::Relaxed))
    }

    fn closed(&self) -> Error {
        Error::Closed { store: self.store.to_string() }
    }
}

/// A change that waits to be run, its result type forgotten.
trait Change: Send {
    /// Whether it is undone on its own if it fails.
    fn has_savepoint(&self) -> bool;

    /// How long it has waited.
    fn waited(&self) -> Duration;

    /// Runs the change and keeps its result; whether what it did is to be kept.
    fn run(&mut self, connection: &mut Connection) -> Result<bool, Error>;

    /// Gives the answer: the result, or why there is none.
    fn answer(self: Box<Self>, committed: Result<(), Error>);
}

struct Pending<T, F> {
    work: Option<F>,
    has_savepoint: bool,
    asked_at: Instant,
    result: Option<Result<T, Error>>,
    answer: oneshot::Sender<Result<T, Error>>,
}

impl<T, F> Change for Pending<T, F>
where
    T: Send,
    F: FnOnce(&mut Connection) -> Result<Done<T>, Error> + Send,
{
    fn has_savepoint(&self) -> bool {
        self.has_savepoint
    }

    fn waited(&self) -> Duration {
        self.asked_at.elapsed()
    }

    fn run(&mut self, connection: &mut Connection) -> Result<bool, Error> {
        let work = self.work.take().expect("a change is run once");
        // One that panics is undone like one that fails, and harms nobody else.
        let panicked = |_| {
            let reason = "a change panicked; it is undone".to_owned();
            Err(Error::Engine { store: "sqlite".to_owned(), reason })
        };
        let ran = catch_unwind(AssertUnwindSafe(|| work(connection))).unwrap_or_else(panicked);
        let (result, kept) = match ran {
            Ok(Done::Kept(made)) => (Ok(made), Ok(true)),
            Ok(Done::Undone(made)) => (Ok(made), Ok(false)),
            Err(error) => (Err(error.clone()), Err(error)),
        };
        self.result = Some(result);
        kept
    }

    fn answer(self: Box<Self>, committed: Result<(), Error>) {
        let Self { result, answer, .. } = *self;
        let result = committed.and_then(|()| result.expect("what is committed was run"));
        // Nobody waits for the answer any more; that is the caller's choice.
        let _ = answer.send(result);
    }
}

/// What the thread has.
struct Worker {
    store: Arc<str>,
    connection: Connection,
    /// How the connection commits.
    durability: Durability,
    changes: mpsc::Receiver<Message>,
    /// A change that was received and belongs to the next group.
    next: Option<(Durability, Box<dyn Change>)>,
    /// Whether another process was in the way of the last group.
    was_busy: bool,
    counters: Arc<Counters>,
    /// Who waits for the end.
    closing: Vec<oneshot::Sender<()>>,
}

impl Worker {
    fn run(mut self) {
        let mut halted: Option<Error> = None;
        while let Some((durability, first)) = self.receive() {
            let error = match &halted {
                Some(error) => {
                    first.answer(Err(error.clone()));
                    continue;
                }
                None => self.commit_together(durability, first).err(),
            };
            if let Some(error @ (Error::Disk { .. } | Error::Corrupt { .. })) = error {
                tracing::error!(%error, "the database failed for good: nothing is written until the program is restarted");
                halted = Some(error);
            }
        }
        if let Err((_, error)) = self.connection.close() {
            tracing::warn!(store = %self.store, %error, "the database was not closed cleanly");
        }
        for closed in self.closing {
            let _ = closed.send(());
        }
    }

    /// The next change; `None` when there will be no more.
    fn receive(&mut self) -> Option<(Durability, Box<dyn Change>)> {
        if let Some(next) = self.next.take() {
            return Some(next);
        }
        loop {
            match self.changes.blocking_recv()? {
                Message::Change(durability, change) => return Some((durability, change)),
                Message::Close(closed) => self.close(closed),
            }
        }
    }

    /// A change that is there already and may be in the group that is being made.
    fn receive_waiting(&mut self) -> Option<(Durability, Box<dyn Change>)> {
        loop {
            match self.changes.try_recv().ok()? {
                Message::Change(Durability::Synced, change) if self.durability == Durability::Unsynced => {
                    self.next = Some((Durability::Synced, change));
                    return None;
                }
                Message::Change(durability, change) => return Some((durability, change)),
                Message::Close(closed) => self.close(closed),
            }
        }
    }

    fn close(&mut self, closed: oneshot::Sender<()>) {
        // What is queued is still received and committed; what is sent from now on is refused.
        self.changes.close();
        self.closing.push(closed);
    }

    /// One transaction: `first` and whatever waits by the time each change before it has run.
    fn commit_together(&mut self, durability: Durability, first: Box<dyn Change>) -> Result<(), Error> {
        let begun = self.begin(durability, first.waited());
        self.was_busy = matches!(begun, Err(Error::Busy { .. }));
        if let Err(error) = begun {
            first.answer(Err(error.clone()));
            return Err(error);
        }
        let (mut done, mut synced): (Vec<Box<dyn Change>>, u64) = (Vec::new(), 0);
        let mut next = Some((durability, first));
        let mut committed = Ok(());
        while let Some((durability, mut change)) = next {
            let ran = self.run_apart(&mut *change);
            done.push(change);
            synced += u64::from(ran == Ok(true) && durability == Durability::Synced);
            committed = ran.map(drop);
            next = if committed.is_ok() && done.len() < BATCH_MAX { self.receive_waiting() } else { None };
        }
        committed = committed.and_then(|()| self.statement("COMMIT"));
        if committed.is_err() {
            // SQLite may have rolled back by itself, and then there is nothing left to roll back.
            let _ = self.statement("ROLLBACK");
        } else if self.durability == Durability::Synced {
            self.counters.writes.fetch_add(synced, Ordering::Relaxed);
            self.counters.commits.fetch_add(1, Ordering::Relaxed);
        }
        for change in done {
            change.answer(committed.clone());
        }
        committed
    }

    fn begin(&mut self, durability: Durability, waited: Duration) -> Result<(), Error> {
        // Those that wait behind a change that met another process have waited for it as well.
        let patience = if self.was_busy { BUSY_WAIT.saturating_sub(waited) } else { BUSY_WAIT };
        self.connection
            .busy_timeout(patience.max(BUSY_WAIT_LEAST))
            .map_err(|error| Error::sqlite(&self.store, &error))?;
        if durability != self.durability {
            let level = match durability {
                Durability::Synced => "PRAGMA synchronous = FULL",
                Durability::Unsynced => "PRAGMA synchronous = NORMAL",
            };
            // It takes effect while it is prepared, so it must not be kept prepared.
            self.connection.execute_batch(level).map_err(|error| Error::sqlite(&self.store, &error))?;
            self.durability = durability;
        }
        self.statement("BEGIN IMMEDIATE").map_err(|error| match error {
            // A connection that cannot even begin is of no use any more.
            Error::Engine { store, reason } => Error::Disk { store, reason },
            passing => passing,
        })
    }

    /// Runs one change: whether it succeeded. An error means that the transaction around it does not stand.
    fn run_apart(&mut self, change: &mut dyn Change) -> Result<bool, Error> {
        let has_savepoint = change.has_savepoint();
        if has_savepoint {
            self.statement("SAVEPOINT change")?;
        }
        let ran = match change.run(&mut self.connection) {
            // After these nothing may be built on what the group has written.
            Err(error @ (Error::Full { .. } | Error::Disk { .. } | Error::Corrupt { .. })) => {
                return Err(error);
            }
            // SQLite rolled the whole transaction back. Otherwise it is this change's failure alone, whatever it is called.
            Err(error) if self.connection.is_autocommit() => return Err(error),
            ran => ran,
        };
        if has_savepoint {
            if !matches!(ran, Ok(true)) {
                self.statement("ROLLBACK TO change")?;
            }
            self.statement("RELEASE change")?;
        }
        Ok(ran.is_ok())
    }

    fn statement(&self, sql: &'static str) -> Result<(), Error> {
        let done = self.connection.prepare_cached(sql).and_then(|mut statement| statement.raw_execute());
        done.map(drop).map_err(|error| Error::sqlite(&self.store, &error))
    }
}

#[cfg(test)]
mod tests;
