//! The one writer of a SQLite file: group commit.
//!
//! All changes go through one connection owned by one task. Whatever waits when a transaction begins, and
//! whatever arrives before it commits, shares its commit and so its one `fsync`; under load a thousand changes
//! cost a handful of syncs, and a lone change waits for nobody.
//!
//! Guarantees: each change runs in a savepoint of its own, so that one that fails takes nothing from its
//! neighbours; an answer is given only after the commit succeeded; a commit that fails fails every change in it.
//! A disk that could not confirm a commit is never asked again (a second `fsync` may claim success for pages
//! the first one lost): the writer halts and answers [`Error::Disk`] until the store is opened anew.
//!
//! The table of locks has a writer of its own, whose commits are not synced; the two take turns.
//!
//! A caller that goes away while waiting does not undo its change. What a change does is up to the adapters.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use sqlx::Connection;
use sqlx::sqlite::SqliteConnection;
use tokio::sync::{Mutex, mpsc, oneshot};

use crate::{Error, database};

/// Changes that may wait for the writer; beyond that callers wait for a place.
pub(crate) const QUEUE_MAX: usize = 1_024;
/// Most changes in one transaction.
pub(crate) const BATCH_MAX: usize = 512;
/// How long a caller waits for a place in the queue before it is told that the store is busy.
pub(crate) const ADMISSION_MAX: Duration = Duration::from_secs(10);

/// What is done on a connection, as a future that borrows it. An error undoes it.
pub(crate) type Work<'c, T> = Pin<Box<dyn Future<Output = sqlx::Result<T>> + Send + 'c>>;

/// Held from the beginning of a write transaction on a file to its end. SQLite would make the other wait
/// too, but by sleeping and looking again.
pub(crate) type WriteLock = Arc<Mutex<()>>;

/// The way to the writer. Dropping every handle ends the writer after what is queued is committed.
#[derive(Debug, Clone)]
pub(crate) struct Writer {
    store: Arc<str>,
    queue: mpsc::Sender<Message>,
    counters: Arc<Counters>,
}

#[derive(Debug, Default)]
struct Counters {
    writes: AtomicU64,
    commits: AtomicU64,
}

enum Message {
    Change(Box<dyn Change>),
    Close(oneshot::Sender<()>),
}

impl Writer {
    /// Takes `connection` over and starts writing.
    pub(crate) fn start(store: Arc<str>, connection: SqliteConnection, write_lock: WriteLock) -> Self {
        let (queue, changes) = mpsc::channel(QUEUE_MAX);
        let counters = Arc::new(Counters::default());
        let task = Task {
            store: Arc::clone(&store),
            connection,
            write_lock,
            changes,
            counters: Arc::clone(&counters),
            closing: Vec::new(),
        };
        tokio::spawn(task.run());
        Self { store, queue, counters }
    }

    /// Runs `work` in a transaction and returns its result once that is durable.
    pub(crate) async fn write<T, F>(&self, work: F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: for<'c> FnOnce(&'c mut SqliteConnection) -> Work<'c, T> + Send + 'static,
    {
        let (answer, answered) = oneshot::channel();
        self.queue(Message::Change(Box::new(Pending { work, answer })), answered).await
    }

    /// The same for work that may fail for reasons of its own.
    pub(crate) async fn write_checked<T, F>(&self, work: F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: for<'c> FnOnce(&'c mut SqliteConnection) -> database::Work<'c, T> + Send + 'static,
    {
        let (answer, answered) = oneshot::channel();
        self.queue(Message::Change(Box::new(Checked { work, answer })), answered).await
    }

    async fn queue<T>(
        &self,
        change: Message,
        answered: oneshot::Receiver<Result<T, Error>>,
    ) -> Result<T, Error> {
        match self.queue.send_timeout(change, ADMISSION_MAX).await {
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

    /// Changes committed and the commits they took.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.counters.writes.load(Ordering::Relaxed), self.counters.commits.load(Ordering::Relaxed))
    }

    fn closed(&self) -> Error {
        Error::Closed { store: self.store.to_string() }
    }
}

/// A change that waits to be run, its result type forgotten.
#[async_trait]
trait Change: Send {
    /// Runs the change; the result waits in what is returned.
    async fn run(self: Box<Self>, store: &str, connection: &mut SqliteConnection) -> Box<dyn Outcome>;

    /// Answers without running.
    fn refuse(self: Box<Self>, error: Error);
}

/// The result of a change whose transaction is not committed yet.
trait Outcome: Send {
    fn error(&self) -> Option<&Error>;

    /// Gives the answer: the result itself, or why it did not become durable.
    fn answer(self: Box<Self>, committed: Result<(), Error>);
}

struct Pending<T, F> {
    work: F,
    answer: oneshot::Sender<Result<T, Error>>,
}

struct Ran<T> {
    result: Result<T, Error>,
    answer: oneshot::Sender<Result<T, Error>>,
}

#[async_trait]
impl<T, F> Change for Pending<T, F>
where
    T: Send + 'static,
    F: for<'c> FnOnce(&'c mut SqliteConnection) -> Work<'c, T> + Send + 'static,
{
    async fn run(self: Box<Self>, store: &str, connection: &mut SqliteConnection) -> Box<dyn Outcome> {
        let result = (self.work)(connection).await.map_err(|error| Error::sqlite(store, &error));
        Box::new(Ran { result, answer: self.answer })
    }

    fn refuse(self: Box<Self>, error: Error) {
        // Nobody waits for the answer any more; that is the caller's choice.
        let _ = self.answer.send(Err(error));
    }
}

/// A change that may fail for reasons of its own.
struct Checked<T, F> {
    work: F,
    answer: oneshot::Sender<Result<T, Error>>,
}

#[async_trait]
impl<T, F> Change for Checked<T, F>
where
    T: Send + 'static,
    F: for<'c> FnOnce(&'c mut SqliteConnection) -> database::Work<'c, T> + Send + 'static,
{
    async fn run(self: Box<Self>, _store: &str, connection: &mut SqliteConnection) -> Box<dyn Outcome> {
        let result = (self.work)(connection).await;
        Box::new(Ran { result, answer: self.answer })
    }

    fn refuse(self: Box<Self>, error: Error) {
        let _ = self.answer.send(Err(error));
    }
}

impl<T: Send + 'static> Outcome for Ran<T> {
    fn error(&self) -> Option<&Error> {
        self.result.as_ref().err()
    }

    fn answer(self: Box<Self>, committed: Result<(), Error>) {
        let _ = self.answer.send(committed.and(self.result));
    }
}

/// The writer itself.
struct Task {
    store: Arc<str>,
    connection: SqliteConnection,
    write_lock: WriteLock,
    changes: mpsc::Receiver<Message>,
    counters: Arc<Counters>,
    /// Who waits for the end.
    closing: Vec<oneshot::Sender<()>>,
}

impl Task {
    async fn run(mut self) {
        let mut halted = None;
        while let Some(first) = self.next().await {
            if let Some(error) = &halted {
                first.refuse(Error::clone(error));
            } else if let Err(error @ (Error::Disk { .. } | Error::Corrupt { .. })) =
                self.commit_together(first).await
            {
                tracing::error!(%error, "the database failed for good: nothing is written until the program is restarted");
                halted = Some(error);
            }
        }
        if let Err(error) = self.connection.close().await {
            tracing::warn!(store = %self.store, %error, "the database was not closed cleanly");
        }
        for closed in self.closing {
            let _ = closed.send(());
        }
    }

    /// The next change; `None` when there will be no more.
    async fn next(&mut self) -> Option<Box<dyn Change>> {
        loop {
            match self.changes.recv().await? {
                Message::Change(change) => return Some(change),
                Message::Close(closed) => self.close(closed),
            }
        }
    }

    /// A change that is there already.
    fn next_waiting(&mut self) -> Option<Box<dyn Change>> {
        loop {
            match self.changes.try_recv().ok()? {
                Message::Change(change) => return Some(change),
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
    async fn commit_together(&mut self, first: Box<dyn Change>) -> Result<(), Error> {
        let write_lock = Arc::clone(&self.write_lock);
        let _ours = write_lock.lock().await;
        if let Err(error) = self.begin().await {
            first.refuse(error.clone());
            return Err(error);
        }
        let mut outcomes: Vec<Box<dyn Outcome>> = Vec::new();
        let mut next = Some(first);
        let mut committed = Ok(());
        while let Some(change) = next {
            let (outcome, undisturbed) = self.run_apart(change).await;
            outcomes.push(outcome);
            committed = undisturbed;
            next = if committed.is_ok() && outcomes.len() < BATCH_MAX { self.next_waiting() } else { None };
        }
        if committed.is_ok() {
            committed = self.statement("COMMIT").await;
        }
        if committed.is_err() {
            // SQLite may have rolled back by itself, and then there is nothing left to roll back.
            let _ = self.statement("ROLLBACK").await;
        } else {
            let succeeded = outcomes.iter().filter(|outcome| outcome.error().is_none()).count();
            self.counters.writes.fetch_add(succeeded as u64, Ordering::Relaxed);
            self.counters.commits.fetch_add(1, Ordering::Relaxed);
        }
        for outcome in outcomes {
            outcome.answer(committed.clone());
        }
        committed
    }

    async fn begin(&mut self) -> Result<(), Error> {
        self.statement("BEGIN IMMEDIATE").await.map_err(|error| match error {
            // A connection that cannot even begin is of no use any more.
            Error::Engine { store, reason } => Error::Disk { store, reason },
            passing => passing,
        })
    }

    /// Runs one change in its savepoint. The second value tells whether the transaction around it still stands.
    async fn run_apart(&mut self, change: Box<dyn Change>) -> (Box<dyn Outcome>, Result<(), Error>) {
        if let Err(error) = self.statement("SAVEPOINT change").await {
            return (Box::new(Unrun(change)), Err(error));
        }
        let outcome = change.run(&self.store, &mut self.connection).await;
        let undisturbed = match outcome.error() {
            None => self.statement("RELEASE change").await,
            // After these SQLite may have rolled the whole transaction back.
            Some(
                error @ (Error::Busy { .. }
                | Error::Full { .. }
                | Error::Disk { .. }
                | Error::Corrupt { .. }
                | Error::Denied { .. }),
            ) => Err(error.clone()),
            Some(_) => match self.statement("ROLLBACK TO change").await {
                Ok(()) => self.statement("RELEASE change").await,
                failed => failed,
            },
        };
        (outcome, undisturbed)
    }

    async fn statement(&mut self, sql: &'static str) -> Result<(), Error> {
        let done = sqlx::query(sql).execute(&mut self.connection).await;
        done.map(|_| ()).map_err(|error| Error::sqlite(&self.store, &error))
    }
}

/// A change that never ran because its savepoint could not be set.
struct Unrun(Box<dyn Change>);

impl Outcome for Unrun {
    fn error(&self) -> Option<&Error> {
        None
    }

    fn answer(self: Box<Self>, committed: Result<(), Error>) {
        if let Err(error) = committed {
            self.0.refuse(error);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::future::join_all;
    use tokio::sync::oneshot;

    use super::*;
    use crate::clock::Machine;
    use crate::sqlite::Engine;

    async fn open() -> Engine {
        let engine = Engine::open("sqlite::memory:", Arc::new(Machine)).await.unwrap();
        sql(&engine, "CREATE TABLE parent (id INTEGER PRIMARY KEY)").await.unwrap();
        let child = "CREATE TABLE child (id INTEGER PRIMARY KEY CHECK (id > 0), \
             parent INTEGER REFERENCES parent DEFERRABLE INITIALLY DEFERRED) ";
        sql(&engine, child).await.unwrap();
        engine
    }

    async fn sql(engine: &Engine, sql: &'static str) -> Result<(), Error> {
        let done = engine.write(move |connection| Box::pin(sqlx::raw_sql(sql).execute(connection)));
        done.await.map(drop)
    }

    async fn children(engine: &Engine) -> i64 {
        let count = sqlx::query_scalar("SELECT count(*) FROM child");
        engine.read(|connection| Box::pin(count.fetch_one(connection))).await.unwrap()
    }

    /// Runs the changes so that they share one transaction: they queue up behind one that waits for them.
    async fn together<const N: usize>(engine: &Engine, changes: [&'static str; N]) -> [Result<(), Error>; N] {
        let (started, has_started) = oneshot::channel();
        let (release, released) = oneshot::channel::<()>();
        let holder = tokio::spawn({
            let engine = engine.clone();
            async move {
                let hold = engine.write(move |_| {
                    Box::pin(async move {
                        started.send(()).unwrap();
                        released.await.unwrap();
                        Ok(())
                    })
                });
                hold.await
            }
        });
        has_started.await.unwrap();
        let commits = engine.counts().1;
        let waiting = changes.map(|change| {
            let engine = engine.clone();
            tokio::spawn(async move { sql(&engine, change).await })
        });
        while engine.writer.queue.capacity() > QUEUE_MAX - N {
            tokio::task::yield_now().await;
        }
        release.send(()).unwrap();
        let results = join_all(waiting).await;
        let committed = holder.await.unwrap().is_ok();
        assert_eq!(engine.counts().1, commits + u64::from(committed), "one transaction for all of them");
        let results: Vec<_> = results.into_iter().map(Result::unwrap).collect();
        results.try_into().unwrap()
    }

    #[tokio::test]
    async fn a_failing_change_takes_nothing_from_its_neighbours() {
        let engine = open().await;
        let [first, bad, last] = together(
            &engine,
            [
                "INSERT INTO child (id) VALUES (1)",
                "INSERT INTO child (id) VALUES (2); INSERT INTO child (id) VALUES (-1)",
                "INSERT INTO child (id) VALUES (3)",
            ],
        )
        .await;
        assert_eq!((first, last), (Ok(()), Ok(())));
        assert!(matches!(bad, Err(Error::Refused { .. })), "{bad:?}");
        assert_eq!(children(&engine).await, 2, "the failing change is undone as a whole");
    }

    #[tokio::test]
    async fn a_failed_commit_fails_every_change_in_it_and_keeps_none() {
        let engine = open().await;
        let results = together(
            &engine,
            [
                "INSERT INTO child (id) VALUES (1)",
                // Noticed only when the transaction is to be committed.
                "INSERT INTO child (id, parent) VALUES (2, 99)",
                "INSERT INTO child (id) VALUES (3)",
            ],
        )
        .await;
        for result in results {
            assert!(matches!(result, Err(Error::Refused { .. })), "{result:?}");
        }
        assert_eq!(children(&engine).await, 0);
        sql(&engine, "INSERT INTO child (id) VALUES (1)").await.unwrap();
        assert_eq!(children(&engine).await, 1, "the writer goes on");
    }

    #[tokio::test]
    async fn a_full_disk_is_named_fails_the_group_and_passes() {
        let engine = open().await;
        sql(&engine, "CREATE TABLE bulk (data BLOB)").await.unwrap();
        sql(&engine, "PRAGMA max_page_count = 40").await.unwrap();
        let results = together(
            &engine,
            ["INSERT INTO child (id) VALUES (1)", "INSERT INTO bulk VALUES (zeroblob(1000000))"],
        )
        .await;
        for result in results {
            let full = result.unwrap_err();
            assert!(matches!(full, Error::Full { .. }), "{full:?}");
            assert!(full.retryable());
        }
        assert_eq!(children(&engine).await, 0);
        sql(&engine, "PRAGMA max_page_count = 4000").await.unwrap();
        sql(&engine, "INSERT INTO bulk VALUES (zeroblob(1000000))").await.unwrap();
    }

    #[tokio::test]
    async fn closing_commits_what_is_queued_and_refuses_what_comes_after() {
        let engine = open().await;
        let changes = (1..=50).map(|_| sql(&engine, "INSERT INTO child DEFAULT VALUES"));
        let (results, ()) = tokio::join!(join_all(changes), async {
            // Every change above has been queued once this runs.
            engine.writer.close().await;
        });
        assert!(results.iter().all(Result::is_ok), "{results:?}");
        assert_eq!(engine.counts().0, 52);
        let late = sql(&engine, "INSERT INTO child DEFAULT VALUES").await.unwrap_err();
        assert!(matches!(late, Error::Closed { .. }), "{late:?}");
    }
}
