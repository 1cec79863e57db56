//! What only the embedded engine promises: group commit, private files, several processes on one file.

#![cfg(test)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use futures::future::join_all;
use syncline_core::kv::Key;
use syncline_core::outbox::Verdict;
use syncline_store::outbox::{Kind, NewEntry, Which};
use syncline_store::{Error, OutboxStore, Store};
use tempfile::TempDir;

struct Home {
    folder: TempDir,
}

impl Home {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn url(&self, path: &str) -> String {
        format!("sqlite:{}", self.folder.path().join(path).display())
    }

    /// What another process has; the file is made where there is none.
    fn connection(&self, path: &str) -> rusqlite::Connection {
        rusqlite::Connection::open(self.folder.path().join(path)).unwrap()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_puts_at_once_share_a_few_commits() {
    let home = Home::new();
    let store = Store::open(&home.url("store.db")).await.unwrap();
    let puts = (0..1_000).map(|n| {
        let kv = store.kv();
        async move { kv.put(&Key::new(format!("k:{n:04}")).unwrap(), "v", None).await }
    });
    for put in join_all(puts).await {
        put.unwrap();
    }
    let stats = store.stats().unwrap();
    println!("{} writes in {} commits", stats.writes, stats.commits);
    assert_eq!(stats.writes, 1_000);
    assert!(stats.commits <= 50, "{stats:?}");
    assert_eq!(store.kv().list("k:", 1_000).await.unwrap().len(), 1_000);
}

#[tokio::test]
async fn writes_that_come_one_by_one_are_committed_one_by_one() {
    let home = Home::new();
    let store = Store::open(&home.url("store.db")).await.unwrap();
    for n in 0..10 {
        store.kv().put(&Key::new(format!("k:{n}")).unwrap(), "v", None).await.unwrap();
    }
    let stats = store.stats().unwrap();
    assert_eq!((stats.writes, stats.commits), (10, 10));
}

#[tokio::test]
async fn folder_and_files_are_created_for_their_owner_alone() {
    let home = Home::new();
    let store = Store::open(&home.url("deep/er/store.db")).await.unwrap();
    store.kv().put(&Key::new("k").unwrap(), "v", None).await.unwrap();
    let mode = |path: &str| {
        let path = home.folder.path().join(path);
        fs::metadata(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display())).permissions().mode()
            & 0o777
    };
    assert_eq!((mode("deep"), mode("deep/er")), (0o700, 0o700));
    for file in ["deep/er/store.db", "deep/er/store.db-wal", "deep/er/store.db-shm"] {
        assert_eq!(mode(file), 0o600, "{file}");
    }
    store.close().await;
    assert!(!home.folder.path().join("deep/er/store.db-wal").exists(), "closing folds the log in");
}

#[tokio::test]
async fn a_path_that_cannot_be_a_database_is_refused_with_its_reason() {
    let home = Home::new();
    fs::write(home.folder.path().join("file"), "x").unwrap();
    fs::create_dir(home.folder.path().join("folder")).unwrap();
    fs::write(home.folder.path().join("text.db"), "This is no database. ".repeat(100)).unwrap();

    let denied = Store::open(&home.url("file/store.db")).await.unwrap_err();
    assert!(
        matches!(&denied, Error::Denied { reason, .. } if reason.contains("cannot create the folder")),
        "{denied}"
    );
    let denied = Store::open(&home.url("folder")).await.unwrap_err();
    assert!(matches!(&denied, Error::Denied { reason, .. } if reason.contains("cannot open")), "{denied}");
    let denied = Store::open("sqlite:/proc/store.db").await.unwrap_err();
    assert!(matches!(&denied, Error::Denied { reason, .. } if reason.contains("cannot write")), "{denied}");
    let corrupt = Store::open(&home.url("text.db")).await.unwrap_err();
    assert!(matches!(corrupt, Error::Corrupt { .. }), "{corrupt}");
    assert!(fs::read_to_string(home.folder.path().join("text.db")).unwrap().starts_with("This is"));
    for error in [denied, corrupt] {
        assert!(error.hint().is_some() && !error.retryable());
    }
}

#[tokio::test]
async fn an_address_that_names_no_store_is_refused_without_its_secrets() {
    for url in [
        "",
        "store.db",
        "mysql://user:hunter2@host/db",
        "user:hunter2@host",
        "hunter2:x",
        "sqlite:",
        "sqlite:x.db?mode=ro",
        "postgres://user:hunter2@host:not-a-port/db",
        "postgres://user:hunter2@host/db?pasword=hunter2",
    ] {
        let refused = Store::open(url).await.unwrap_err();
        assert!(matches!(refused, Error::Address { .. }), "{url}: {refused}");
        let shown = format!("{refused} {refused:?}");
        assert!(!shown.contains("hunter2"), "{shown}");
        assert!(refused.hint().is_some());
    }
    let store = Store::open("sqlite::memory:").await.unwrap();
    assert_eq!(store.name(), "sqlite::memory:");
}

#[tokio::test]
async fn a_store_in_memory_is_private_and_works_like_any_other() {
    let (one, two) = tokio::join!(Store::open("sqlite::memory:"), Store::open("sqlite::memory:"));
    let (one, two) = (one.unwrap(), two.unwrap());
    let key = Key::new("k").unwrap();
    one.kv().put(&key, "v", None).await.unwrap();
    assert_eq!(one.kv().get(&key).await.unwrap().unwrap().value, "v");
    assert_eq!(two.kv().get(&key).await.unwrap(), None);
}

#[tokio::test]
async fn a_transaction_of_another_process_makes_it_busy_and_then_passes() {
    let home = Home::new();
    let store = Store::open(&home.url("store.db")).await.unwrap();
    let key = Key::new("k").unwrap();
    let other = home.connection("store.db");
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let busy = store.kv().put(&key, "v", None).await.unwrap_err();
    assert!(matches!(busy, Error::Busy { .. }), "{busy}");
    assert!(busy.retryable());
    assert_eq!(store.kv().get(&key).await.unwrap(), None, "reading needs no turn");

    // The next one is already waiting when the other process is done.
    let kv = store.kv();
    let (put, ()) = tokio::join!(kv.put(&key, "v", Some(Duration::from_secs(60))), async {
        other.execute_batch("COMMIT").unwrap();
    });
    put.unwrap();
}

fn entry(id: &str) -> NewEntry {
    NewEntry { entity_type: "a".to_owned(), entity_id: id.to_owned(), payload: "1".to_owned() }
}

/// A table without AUTOINCREMENT gives the numbers of deleted rows again. A receiver that knew them refused the new changes,
/// and one that had forgotten them lost the changes without a word.
#[tokio::test]
async fn ss_31_a_number_is_never_given_twice_whoever_deletes_and_whatever_the_table_is() {
    for id in ["INTEGER PRIMARY KEY", "INTEGER PRIMARY KEY AUTOINCREMENT"] {
        let home = Home::new();
        let url = home.url("box.db");
        let application = home.connection("box.db");
        let table = format!(
            "CREATE TABLE sync_outbox (id {id}, entity_type TEXT, entity_id TEXT, payload TEXT, \
             created_at TEXT DEFAULT CURRENT_TIMESTAMP, processed_at TEXT)"
        );
        application.execute_batch(&table).unwrap();
        let store = OutboxStore::open(&url).await.unwrap();
        let outbox = store.outbox();
        let mut seen = std::collections::BTreeSet::new();
        for round in 0..4 {
            let mut given = outbox.enqueue(&[entry("x"), entry("y")]).await.unwrap();
            let insert = "INSERT INTO sync_outbox (entity_type, entity_id, payload) VALUES ('a', 'z', '1')";
            application.execute_batch(insert).unwrap();
            let pending = outbox.fetch_pending(10).await.unwrap();
            given.push(pending.last().unwrap().id);
            assert_eq!(pending.iter().map(|entry| entry.id).collect::<Vec<_>>(), given, "as they were told");
            for id in &given {
                assert!(seen.insert(*id), "{id} was given twice");
            }
            outbox.mark_processed(&given, None).await.unwrap();
            match round % 2 {
                // As soon as the clock has moved on.
                0 => {
                    let mut gone = 0;
                    while gone < 3 {
                        gone += outbox.cleanup(Duration::ZERO, 10).await.unwrap();
                    }
                }
                _ => application.execute_batch("DELETE FROM sync_outbox").unwrap(),
            }
        }
        store.close().await;
    }
}

/// PostgreSQL's table pasted into SQLite is accepted there, but ids are NULL: entries were sent for ever and never marked.
#[tokio::test]
async fn ss_31_a_table_that_cannot_be_an_outbox_is_refused_with_the_mend() {
    let rest = "entity_type TEXT, entity_id TEXT, payload TEXT, created_at TEXT, processed_at TEXT";
    let cases = [
        (
            format!("CREATE TABLE sync_outbox (id BIGSERIAL PRIMARY KEY, {rest})"),
            "INTEGER PRIMARY KEY AUTOINCREMENT",
        ),
        (format!("CREATE TABLE sync_outbox (id INTEGER, {rest})"), "INTEGER PRIMARY KEY AUTOINCREMENT"),
        (
            "CREATE TABLE sync_outbox (id INTEGER PRIMARY KEY, payload TEXT)".to_owned(),
            "no column entity_type",
        ),
        (
            "CREATE TABLE t (id INTEGER); CREATE VIEW sync_outbox AS SELECT id FROM t".to_owned(),
            "it is a view",
        ),
    ];
    for (sql, words) in cases {
        let home = Home::new();
        let url = home.url("box.db");
        let application = home.connection("box.db");
        application.execute_batch(&sql).unwrap();
        for refused in [OutboxStore::open(&url).await.map(drop), OutboxStore::check(&url).await] {
            let refused = refused.unwrap_err();
            assert!(matches!(&refused, Error::Unfit { reason, .. } if reason.contains(words)), "{refused}");
        }
    }
    // A table without row ids has no NULL to be afraid of; what is no number in it is buried and not met again.
    let home = Home::new();
    let url = home.url("box.db");
    let application = home.connection("box.db");
    let sql = format!(
        "CREATE TABLE sync_outbox (id INTEGER PRIMARY KEY, {rest}) WITHOUT ROWID; INSERT INTO sync_outbox VALUES \
         ('x', 'a', 'b', '1', '2026-01-01', NULL), (7, 'a', 'c', '1', '2026-01-01', NULL), (1.5, 'a', 'd', '1', '2026-01-01', NULL)"
    );
    application.execute_batch(&sql).unwrap();
    let store = OutboxStore::open(&url).await.unwrap();
    let claimed = store.outbox().claim("w", Kind::Change, 10, Duration::from_secs(9)).await.unwrap();
    assert_eq!(claimed.entries.iter().map(|entry| entry.id).collect::<Vec<_>>(), [7]);
    assert_eq!(store.outbox().stats().await.unwrap().dead, 2);
    store.close().await;
}

/// Columns of ours were added to the application's table, and SQLite refuses an insert without a list of columns once there are more.
#[tokio::test]
async fn ss_34_the_applications_table_stays_as_it_is_and_what_it_does_there_is_heard() {
    let home = Home::new();
    let (url, application) = (home.url("box.db"), home.connection("box.db"));
    application.busy_timeout(Duration::from_secs(10)).unwrap();
    let table = "CREATE TABLE sync_outbox (id INTEGER PRIMARY KEY, entity_type TEXT, entity_id TEXT, payload TEXT, \
         created_at TEXT, processed_at TEXT, attempts TEXT)";
    application.execute_batch(table).unwrap();
    let shape = "SELECT sql FROM sqlite_schema WHERE name = 'sync_outbox'";
    let before: String = application.query_row(shape, [], |row| row.get(0)).unwrap();
    let insert = |id: i64, entity: &str| {
        let insert = format!(
            "INSERT OR REPLACE INTO sync_outbox VALUES ({id}, 'order', '{entity}', '{{}}', '2026-02-07T10:20:30Z', NULL, 'mine')"
        );
        application.execute_batch(&insert).unwrap();
    };
    insert(1, "a");
    let store = OutboxStore::open(&url).await.unwrap();
    let outbox = store.outbox();
    insert(2, "b");
    insert(3, "c");
    insert(2, "replaced");
    let after: String = application.query_row(shape, [], |row| row.get(0)).unwrap();
    assert_eq!(before, after);
    let claimed = outbox.claim("w", Kind::Change, 10, Duration::from_secs(60)).await.unwrap();
    let entities: Vec<_> = claimed.entries.iter().map(|entry| entry.entity_id.as_str()).collect();
    assert_eq!(entities, ["a", "replaced", "c"]);
    let dead = Verdict::Dead { reason: "no".to_owned() };
    outbox.settle(claimed.claim, &[(1, Verdict::Done), (2, dead), (3, Verdict::GiveBack)]).await.unwrap();
    let processed = "SELECT count(processed_at), count(*) FROM sync_outbox";
    let counts = || application.query_row(processed, [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    assert_eq!(counts(), (1, 3), "the application sees what was processed");
    // What the application changes by itself counts: processed, not processed after all, deleted.
    application
        .execute_batch("UPDATE sync_outbox SET processed_at = '2026-02-07T10:20:31Z' WHERE id = 3")
        .unwrap();
    assert_eq!(outbox.stats().await.unwrap().pending, 0);
    application.execute_batch("UPDATE sync_outbox SET processed_at = NULL WHERE id = 1").unwrap();
    let pending = outbox.fetch_pending(10).await.unwrap();
    assert_eq!((pending.len(), pending[0].id, pending[0].payload.as_str()), (1, 1, "{}"));
    application.execute_batch("DELETE FROM sync_outbox WHERE id = 1").unwrap();
    assert_eq!(outbox.stats().await.unwrap().pending, 0);
    assert_eq!(outbox.discard(&Which::AllDead).await.unwrap(), 1);
    assert_eq!(counts(), (1, 1), "what was discarded is gone from there, too");
    outbox.cleanup(Duration::ZERO, 10).await.unwrap();
    assert_eq!(counts(), (0, 0));
    store.close().await;
}

/// A first start switches the file to WAL, for which nobody else may have it. It ended with an error where somebody had.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ss_34_a_first_start_waits_for_a_reader_and_gets_its_turn_beside_a_writer() {
    const TABLE: &str = "CREATE TABLE sync_outbox (id INTEGER PRIMARY KEY, entity_type TEXT, entity_id TEXT, payload TEXT, \
         created_at TEXT DEFAULT CURRENT_TIMESTAMP, processed_at TEXT)";
    let home = Home::new();
    let url = home.url("read.db");
    let reader = home.connection("read.db");
    reader.execute_batch(TABLE).unwrap();
    reader.execute_batch("BEGIN; SELECT count(*) FROM sync_outbox").unwrap();
    let opening = tokio::spawn(async move { OutboxStore::open(&url).await });
    // Longer than a connection waits for a lock by itself.
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert!(!opening.is_finished(), "it waits for the reader");
    reader.execute_batch("COMMIT").unwrap();
    opening.await.unwrap().unwrap().close().await;

    for round in 0..3 {
        let file = format!("written{round}.db");
        let (url, application) = (home.url(&file), home.connection(&file));
        application.execute_batch(TABLE).unwrap();
        application.busy_timeout(Duration::from_secs(10)).unwrap();
        let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        let stopped = std::sync::Arc::clone(&stop);
        let writer = std::thread::spawn(move || {
            let (mut written, mut longest) = (0_u64, Duration::ZERO);
            while !stopped.load(std::sync::atomic::Ordering::Relaxed) {
                let begun = std::time::Instant::now();
                let insert =
                    "INSERT INTO sync_outbox (entity_type, entity_id, payload) VALUES ('a', 'b', '1')";
                application.execute_batch(insert).unwrap();
                longest = longest.max(begun.elapsed());
                written += 1;
            }
            (written, longest)
        });
        let store = OutboxStore::open(&url).await.unwrap();
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        let (written, longest) = writer.join().unwrap();
        println!("{written} inserts without a pause beside a first start, the longest took {longest:?}");
        assert_eq!(store.outbox().stats().await.unwrap().pending, written);
        store.close().await;
    }
}

/// Writes to a file that was removed are taken until the process ends, and are lost then; readiness did not notice.
#[tokio::test]
async fn a_database_file_that_was_removed_makes_the_node_unready() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("store.db");
    let store = Store::open(&format!("sqlite:{}", file.display())).await.unwrap();
    store.ping().await.unwrap();
    let away = folder.path().join("away.db");
    std::fs::rename(&file, &away).unwrap();
    assert!(store.ping().await.unwrap_err().to_string().contains("removed or replaced"));
    std::fs::write(&file, "").unwrap();
    assert!(store.ping().await.is_err(), "another file of the same name is another file");
    std::fs::rename(&away, &file).unwrap();
    store.ping().await.unwrap();
}
