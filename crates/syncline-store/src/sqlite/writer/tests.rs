//! Tests of the writer: what shares a commit, what fails alone, what a full queue and a panic do.

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
    engine.script(sql).await
}

async fn children(engine: &Engine) -> i64 {
    let count = |connection: &mut Connection| {
        Ok(connection.query_row("SELECT count(*) FROM child", [], |row| row.get(0)).unwrap())
    };
    engine.read(count).await.unwrap()
}

/// Runs the changes so that they share one transaction: they queue up behind one that waits for them.
async fn together<const N: usize>(engine: &Engine, changes: [&'static str; N]) -> [Result<(), Error>; N] {
    let (started, has_started) = oneshot::channel();
    let (release, released) = oneshot::channel::<()>();
    let holder = tokio::spawn({
        let engine = engine.clone();
        async move {
            let hold = move |_: &mut Connection| {
                started.send(()).unwrap();
                released.blocking_recv().unwrap();
                Ok(Done::Kept(()))
            };
            engine.writer.write(Durability::Synced, hold).await
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

#[tokio::test]
async fn hs_06_what_is_undone_leaves_nothing_and_gives_its_result_all_the_same() {
    let engine = open().await;
    let undone = |connection: &mut Connection| {
        connection.execute("INSERT INTO child (id) VALUES (7)", []).unwrap();
        Ok(Done::Undone(7))
    };
    assert_eq!(engine.writer.write(Durability::Synced, undone).await, Ok(7));
    assert_eq!(children(&engine).await, 0);
}

#[tokio::test]
async fn hs_06_a_change_that_panics_is_undone_and_the_writer_goes_on() {
    let engine = open().await;
    let panics = |connection: &mut Connection| -> Result<Done<()>, Error> {
        connection.execute("INSERT INTO child (id) VALUES (7)", []).unwrap();
        panic!("on purpose")
    };
    let panicked = engine.writer.write(Durability::Synced, panics).await.unwrap_err();
    assert!(matches!(panicked, Error::Engine { .. }), "{panicked:?}");
    assert_eq!(children(&engine).await, 0);
    sql(&engine, "INSERT INTO child (id) VALUES (1)").await.unwrap();
    assert_eq!(children(&engine).await, 1);
}

/// A change may fail in its own words. One that said it was busy took along whatever shared its commit.
#[tokio::test]
async fn hs_06_a_change_that_fails_for_reasons_of_its_own_fails_alone_whatever_it_calls_them() {
    let engine = open().await;
    let (started, has_started) = oneshot::channel();
    let (release, released) = oneshot::channel::<()>();
    let writer = engine.writer.clone();
    let first = tokio::spawn(async move {
        let insert = move |connection: &mut Connection| {
            started.send(()).unwrap();
            released.blocking_recv().unwrap();
            connection.execute("INSERT INTO child (id) VALUES (1)", []).unwrap();
            Ok(Done::Kept(()))
        };
        writer.write(Durability::Synced, insert).await
    });
    has_started.await.unwrap();
    let writer = engine.writer.clone();
    let refuses = tokio::spawn(async move {
        let refuse = |connection: &mut Connection| -> Result<Done<()>, Error> {
            connection.execute("INSERT INTO child (id) VALUES (2)", []).unwrap();
            Err(Error::Busy { store: "a part".to_owned(), reason: "come again".to_owned() })
        };
        writer.write(Durability::Synced, refuse).await
    });
    while engine.writer.queue.capacity() > QUEUE_MAX - 1 {
        tokio::task::yield_now().await;
    }
    release.send(()).unwrap();
    assert_eq!(first.await.unwrap(), Ok(()));
    let refused = refuses.await.unwrap();
    assert!(matches!(&refused, Err(Error::Busy { store, .. }) if store == "a part"), "{refused:?}");
    assert_eq!(children(&engine).await, 1);
}

/// While another process held the file, each change that waited was refused after five seconds of its own: the twentieth after
/// more than a minute and a half.
#[tokio::test]
async fn hs_06_all_that_wait_for_another_process_are_refused_after_the_same_time() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("store.db");
    let url = format!("sqlite:{}", file.display());
    let engine = Engine::open(&url, Arc::new(Machine)).await.unwrap();
    sql(&engine, "CREATE TABLE notes (id INTEGER PRIMARY KEY)").await.unwrap();
    let other = rusqlite::Connection::open(&file).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let since = Instant::now();
    let refused = join_all((0..20).map(|_| sql(&engine, "INSERT INTO notes DEFAULT VALUES"))).await;
    let waited = since.elapsed();
    assert!(refused.iter().all(|refused| matches!(refused, Err(Error::Busy { .. }))), "{refused:?}");
    assert!(waited >= BUSY_WAIT && waited < 4 * BUSY_WAIT, "{waited:?}");
    other.execute_batch("COMMIT").unwrap();
    sql(&engine, "INSERT INTO notes DEFAULT VALUES").await.unwrap();
    // The next that meets another process is as patient as ever.
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let waiting = tokio::spawn({
        let engine = engine.clone();
        async move { sql(&engine, "INSERT INTO notes DEFAULT VALUES").await }
    });
    tokio::time::sleep(Duration::from_millis(500)).await;
    other.execute_batch("COMMIT").unwrap();
    waiting.await.unwrap().unwrap();
}

/// A group that is not synced does not take along a change that must be; one that is synced takes along whatever comes.
#[tokio::test]
async fn hs_06_a_change_that_must_be_synced_is_whatever_it_shares_its_commit_with() {
    let engine = open().await;
    let level = |durability| {
        let engine = engine.clone();
        async move {
            let read = |connection: &mut Connection| {
                let level = connection.query_row("SELECT * FROM pragma_synchronous", [], |row| row.get(0));
                Ok(Done::Kept(level.unwrap()))
            };
            let level: i64 = engine.writer.write(durability, read).await.unwrap();
            level
        }
    };
    let (first, started, release) = {
        let (started, has_started) = oneshot::channel();
        let (release, released) = oneshot::channel::<()>();
        let hold = move |_: &mut Connection| {
            started.send(()).unwrap();
            released.blocking_recv().unwrap();
            Ok(Done::Kept(()))
        };
        let writer = engine.writer.clone();
        let held = tokio::spawn(async move { writer.write(Durability::Unsynced, hold).await });
        (held, has_started, release)
    };
    started.await.unwrap();
    let mut waiting = Vec::new();
    for (n, durability) in
        [Durability::Unsynced, Durability::Synced, Durability::Unsynced].into_iter().enumerate()
    {
        waiting.push(tokio::spawn(level(durability)));
        while engine.writer.queue.capacity() > QUEUE_MAX - (n + 1) {
            tokio::task::yield_now().await;
        }
    }
    release.send(()).unwrap();
    first.await.unwrap().unwrap();
    let levels: Vec<i64> = join_all(waiting).await.into_iter().map(Result::unwrap).collect();
    assert_eq!(levels, [1, 2, 2]);
}
