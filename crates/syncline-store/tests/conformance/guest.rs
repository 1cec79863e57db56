//! A guest in a foreign database: which tables are made, whose they are, and what becomes of those from before.

use std::time::Duration;

use syncline_core::lock::{LeaseId, Name, Token, Ttl};
use syncline_core::outbox::{EntityType, Moment};
use syncline_core::state::Space;
use syncline_store::lock::{Acquired, Request};
use syncline_store::outbox::{Kind, NewEntry};
use syncline_store::state::Asked;
use syncline_store::{Backend, Error, Former, Migrations, Options, OutboxStore, Step, Store, parts};

use super::fixture::{Fixture, key};

/// The steps of the common count, as they were.
macro_rules! before {
    ($engine:literal) => {
        [
            include_str!(concat!("../fixtures/before_parts/", $engine, "/0001_kv.sql")),
            include_str!(concat!("../fixtures/before_parts/", $engine, "/0002_schedule.sql")),
            include_str!(concat!("../fixtures/before_parts/", $engine, "/0003_queue.sql")),
            include_str!(concat!("../fixtures/before_parts/", $engine, "/0004_shelf.sql")),
            include_str!(concat!("../fixtures/before_parts/", $engine, "/0005_lock.sql")),
            include_str!(concat!("../fixtures/before_parts/", $engine, "/0006_outbox.sql")),
            include_str!(concat!("../fixtures/before_parts/", $engine, "/0007_state.sql")),
            include_str!(concat!("../fixtures/before_parts/", $engine, "/0008_outbox_order.sql")),
            include_str!(concat!("../fixtures/before_parts/", $engine, "/0009_queue_call.sql")),
            include_str!(concat!("../fixtures/before_parts/", $engine, "/0010_outbox_numbers.sql")),
            include_str!(concat!("../fixtures/before_parts/", $engine, "/0011_inbox.sql")),
            include_str!(concat!("../fixtures/before_parts/", $engine, "/0012_queue_indexes.sql")),
            include_str!(concat!("../fixtures/before_parts/", $engine, "/0013_schedule_indexes.sql")),
            include_str!(concat!("../fixtures/before_parts/", $engine, "/0014_state_indexes.sql")),
            include_str!(concat!("../fixtures/before_parts/", $engine, "/0015_outbox_dead.sql")),
            include_str!(concat!("../fixtures/before_parts/", $engine, "/0016_shelf_indexes.sql")),
        ]
    };
}

/// An app that had tables in the common count, and whose own step finds them.
static SHELF: Migrations = Migrations {
    former: Some(Former {
        versions: &[4, 16],
        tables: &["shelf_books", "shelf_covers", "shelf_searches", "shelf_finds"],
        columns: &[],
        functions: &[],
        done: &[],
        sqlite: "",
        postgres: "",
    }),
    ..Migrations::new(
        "shelf",
        &[Step {
            version: 1,
            name: "shelf",
            sqlite: "CREATE TABLE IF NOT EXISTS syncline.shelf_books (isbn TEXT)",
            postgres: "CREATE TABLE IF NOT EXISTS syncline.shelf_books (isbn text)",
        }],
    )
};

/// What a node and its application had written.
const ROWS: &str = "\
    INSERT INTO kv (key, value) VALUES ('kept', 'v'), ('viewers:n', 'report'), ('node-session:secret', 's'), ('viewersx', 'u');
    INSERT INTO schedule_runs (job, bucket, node, reason, state, started_at, cost_micro_usd)
        VALUES ('paint', 'b', 'n', 'watched', 'done', 1, 1);
    INSERT INTO queues (name, pace, tail, front, oldest, trimmed, overtakes, waiting, running, retrying, done, failed, dead,
        done_total, failed_total, changes) VALUES ('words', '', 9, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1);
    INSERT INTO queue_keys (queue_id, key, place, rank, since, attempts, priority, again, changed_at)
        VALUES (1, 'word', 0, 1, 1, 0, FALSE, FALSE, 1);
    INSERT INTO locks (name, lease_id, holder, token, granted_at, expires_at)
        VALUES ('project', NULL, 'ann', 7000000000000000, 1, 1);
    INSERT INTO sync_outbox (entity_type, entity_id, payload, processed_at) VALUES ('call_log', 'old', '1', CURRENT_TIMESTAMP);
    INSERT INTO sync_outbox (entity_type, entity_id, payload) VALUES ('call_log', 'new', '2'), ('recording_file', 'f', '{}');
    INSERT INTO sync_receipts VALUES (1, 'r1', 'https://f.example/1', 5, 'ab', 1);
    UPDATE sync_outbox_sender SET sender = 'box-7', delivered = 4;
    INSERT INTO inbox_entries VALUES ('other', 3, 4, 5);
    INSERT INTO shelf_books (isbn, added_at) VALUES ('9780000000001', 1);
    INSERT INTO state_spaces (name, epoch, floor) VALUES ('list', 'e', '');
";
const ENTITY: &str = "INSERT INTO entity_call_log (id, payload, sender, entry, changed_at, received_at, place) \
     VALUES ('c1', '{\"id\":\"c1\"}', 'other', 3, 1000, 1000, 1)";

/// A database as it was before each part had its own count, with rows in it.
async fn before_parts(fixture: &Fixture, url: &str) {
    let sqlite = fixture.store.backend() == Backend::Sqlite;
    let steps = if sqlite { before!("sqlite") } else { before!("postgres") };
    let counted = "CREATE TABLE syncline_migrations (version bigint NOT NULL PRIMARY KEY, name text NOT NULL, \
         applied_at bigint NOT NULL)";
    fixture.execute_at(url, counted).await;
    for (n, step) in steps.into_iter().enumerate() {
        let record = format!("{step}\nINSERT INTO syncline_migrations VALUES ({}, 'step', 1)", n + 1);
        fixture.execute_at(url, &record).await;
    }
    let entities = if sqlite {
        "CREATE TABLE entity_call_log (id TEXT NOT NULL PRIMARY KEY, payload TEXT NOT NULL, sender TEXT NOT NULL, \
         entry INTEGER NOT NULL, changed_at INTEGER NOT NULL, received_at INTEGER NOT NULL, place INTEGER NOT NULL) STRICT; \
         CREATE INDEX entity_call_log_place ON entity_call_log (place)"
    } else {
        "CREATE TABLE entity_call_log (id text COLLATE \"C\" PRIMARY KEY, payload text NOT NULL, \
         removed boolean GENERATED ALWAYS AS (payload = 'null') STORED, sender text COLLATE \"C\" NOT NULL, \
         entry bigint NOT NULL, changed_at bigint NOT NULL, received_at bigint NOT NULL, place bigint NOT NULL); \
         CREATE INDEX entity_call_log_place ON entity_call_log (place) WHERE NOT removed"
    };
    // The application's own; only its name is like one of ours.
    let own = "CREATE TABLE entity_own (id text); INSERT INTO entity_own VALUES ('mine')";
    let promised = if sqlite { "UPDATE lock_reserve SET token_ceiling = 7000000000000000" } else { "" };
    for sql in [entities, ENTITY, ROWS, promised, own] {
        fixture.execute_at(url, sql).await;
    }
}

/// Our tables of these names as the engine has them, in order.
fn ours(fixture: &Fixture, names: &[&str]) -> Vec<String> {
    let mut tables: Vec<String> =
        names.iter().map(|name| fixture.named(&format!("syncline.{name}"))).collect();
    tables.sort();
    tables
}

pub(crate) async fn hs_03_a_store_opened_for_locks_alone_has_their_tables_and_nothing_else(
    fixture: &Fixture,
) {
    let (url, _home) = fixture.fresh_url().await;
    let store = Store::open_with(&url, &Options::of(&[&parts::LOCK])).await.unwrap();
    let request = Request {
        name: &Name::new("project").unwrap(),
        lease: LeaseId::from_random(rand::random()),
        holder: "ann",
        ttl: Ttl::DEFAULT,
        waits: false,
    };
    assert!(matches!(store.locks().acquire(request).await.unwrap(), Acquired::Granted { .. }));
    store.ping().await.unwrap();
    store.close().await;
    let names: &[&str] = match fixture.store.backend() {
        Backend::Sqlite => &["lock_reserve", "locks", "migrations", "steady_clock"],
        Backend::Postgres => &["lock_floor", "locks", "migrations"],
    };
    assert_eq!(fixture.tables_at(&url).await, ours(fixture, names));
    // Another part later finds what it needs, and the lock is still there.
    let more = Store::open_with(&url, &Options::of(&[&parts::SCHEDULE])).await.unwrap();
    assert_eq!(more.locks().list("", None, 10).await.unwrap().len(), 1);
    more.close().await;
}

/// A table of the application's called `kv`, `locks` or `queues` kept `serversync` and a node from starting.
pub(crate) async fn hs_04_tables_of_the_application_that_have_our_names_are_left_alone(fixture: &Fixture) {
    let (url, _home) = fixture.fresh_url().await;
    let theirs = [
        "kv",
        "locks",
        "queues",
        "queue_keys",
        "schedule_runs",
        "state_spaces",
        "inbox_entries",
        "entity_call_log",
        "migrations",
        "sync_receipts",
        "sync_outbox_sender",
        "steady_clock",
        "lock_floor",
        "kv_expires_at",
    ];
    // The role of these tests is called like our schema, which is therefore the first on its search path.
    let home = if fixture.store.backend() == Backend::Sqlite { "main" } else { "public" };
    for table in theirs {
        let create = format!(
            "CREATE TABLE {home}.{table} (mine text); INSERT INTO {home}.{table} VALUES ('untouched')"
        );
        fixture.execute_at(&url, &create).await;
    }
    let store = Store::open(&url).await.unwrap();
    store.kv().put(&key("k"), "v", None).await.unwrap();
    let inbox = store.inbox(&[EntityType::new("call_log").unwrap()]).await.unwrap();
    inbox.put(&EntityType::new("call_log").unwrap(), "c1", "{}", None).await.unwrap();
    assert_eq!(store.outbox().fetch_pending(10).await.unwrap().len(), 1);
    store.states().pull(&Space::new("list").unwrap(), &Asked::default()).await.unwrap();
    store.close().await;
    for table in theirs {
        let same =
            format!("INSERT INTO {home}.{table} SELECT mine FROM {home}.{table} WHERE mine = 'untouched'");
        let check = format!("{same}; DROP TABLE {home}.{table}");
        fixture.execute_at(&url, &check).await;
    }
    let again = Store::open(&url).await.unwrap();
    assert_eq!(again.kv().get(&key("k")).await.unwrap().unwrap().value, "v");
    again.close().await;
}

pub(crate) async fn hs_04_a_database_from_before_parts_is_taken_over_with_its_rows(fixture: &Fixture) {
    let (url, _home) = fixture.fresh_url().await;
    before_parts(fixture, &url).await;
    assert!(!Store::check(&url).await.unwrap(), "looking changes nothing");
    let store = Store::open(&url).await.unwrap();
    assert_eq!(store.kv().get(&key("kept")).await.unwrap().unwrap().value, "v");
    // What nodes keep for themselves has moved to a space of its own.
    let keys: Vec<String> =
        store.kv().list("", 10).await.unwrap().into_iter().map(|entry| entry.key.into()).collect();
    assert_eq!(keys, ["kept", "viewersx"]);
    let node = store.kv_space("node").unwrap();
    assert_eq!(node.get(&key("viewers:n")).await.unwrap().unwrap().value, "report");
    assert_eq!(node.get(&key("node-session:secret")).await.unwrap().unwrap().value, "s");
    assert!(store.schedule().totals(None).await.unwrap().runs.is_empty());
    let queued = store.queues().entry("words", "word").await.unwrap().unwrap();
    assert_eq!(queued.key, "word");
    assert_eq!(store.states().list("", 10).await.unwrap().len(), 1);
    let call_log = EntityType::new("call_log").unwrap();
    let inbox = store.inbox(std::slice::from_ref(&call_log)).await.unwrap();
    let entity = inbox.entity(&call_log, "c1").await.unwrap().unwrap();
    assert_eq!(entity.changed_at, Moment::from_us(1_000));
    inbox.put(&call_log, "c2", "{}", None).await.unwrap();
    let request = Request {
        name: &Name::new("project").unwrap(),
        lease: LeaseId::from_random(rand::random()),
        holder: "bob",
        ttl: Ttl::DEFAULT,
        waits: false,
    };
    let Acquired::Granted { token } = store.locks().acquire(request).await.unwrap() else { panic!("held") };
    assert!(token > Token::new(7_000_000_000_000_000), "tokens go on");
    the_outbox_goes_on(&*store.outbox(), "c2").await;
    store.close().await;
    let tables = fixture.tables_at(&url).await;
    let theirs: Vec<&str> =
        tables.iter().filter(|table| !table.starts_with("syncline")).map(String::as_str).collect();
    // The shelf's tables wait for the app that they belong to.
    let home = if fixture.store.backend() == Backend::Sqlite { "" } else { "public." };
    let expected =
        ["entity_own", "shelf_books", "shelf_covers", "shelf_finds", "shelf_searches", "sync_outbox"];
    assert_eq!(theirs, expected.map(|table| format!("{home}{table}")));
    let app = Store::open_with(&url, &Options::default().with(&SHELF)).await.unwrap();
    let books = "SELECT isbn FROM syncline.shelf_books";
    let database = app.database();
    let read = database
        .read(move |transaction| Box::pin(async move { transaction.value::<String>(books, &[]).await }));
    assert_eq!(read.await.unwrap(), "9780000000001");
    app.close().await;
    Store::open(&url).await.unwrap().close().await;
}

/// What is in line, whose it is, what was receipted; and `last` was enqueued since.
async fn the_outbox_goes_on(outbox: &dyn syncline_store::outbox::Outbox, last: &str) {
    assert_eq!(outbox.sender().await.unwrap().as_str(), "box-7");
    assert_eq!(outbox.stats().await.unwrap().delivered, 4);
    assert_eq!(outbox.receipt(1).await.unwrap().unwrap().file_url, "https://f.example/1");
    let changes = outbox.claim("w", Kind::Change, 10, Duration::from_secs(9)).await.unwrap();
    let ids: Vec<&str> = changes.entries.iter().map(|entry| entry.entity_id.as_str()).collect();
    assert_eq!(ids, ["new", last]);
    let files = outbox.claim("w", Kind::File, 10, Duration::from_secs(9)).await.unwrap();
    assert_eq!(files.entries.len(), 1);
}

/// `serversync` is started first, then a node on the same database.
pub(crate) async fn hs_04_an_outbox_from_before_parts_goes_on_and_the_rest_follows(fixture: &Fixture) {
    let (url, _home) = fixture.fresh_url().await;
    before_parts(fixture, &url).await;
    let store = OutboxStore::open(&url).await.unwrap();
    let mut wakes = store.outbox().wakes();
    wakes.mark_unchanged();
    let entry = |id: &str| NewEntry {
        entity_type: "call_log".to_owned(),
        entity_id: id.to_owned(),
        payload: "3".to_owned(),
    };
    store.outbox().enqueue(&[entry("later")]).await.unwrap();
    the_outbox_goes_on(&*store.outbox(), "later").await;
    store.close().await;
    let node = Store::open(&url).await.unwrap();
    assert_eq!(node.kv().get(&key("kept")).await.unwrap().unwrap().value, "v");
    node.close().await;
}

pub(crate) async fn hs_04_without_the_right_to_migrate_what_is_missing_is_named(fixture: &Fixture) {
    let (url, _home) = fixture.fresh_url().await;
    let options = Options::of(&[&parts::LOCK]).migrate(false);
    fixture.execute_at(&url, "CREATE TABLE mine (a text)").await;
    let missing = Store::open_with(&url, &options).await.unwrap_err();
    assert!(missing.to_string().contains("the tables of lock lack step 1"), "{missing}");
    assert!(missing.hint().unwrap().contains("syncline migrate"), "{missing}");
    let sql = syncline_store::migration_sql(fixture.store.backend(), "syncline", &[&parts::LOCK]).unwrap();
    fixture.execute_at(&url, &sql).await;
    fixture.execute_at(&url, &sql).await;
    let store = Store::open_with(&url, &options).await.unwrap();
    assert!(store.locks().list("", None, 10).await.unwrap().is_empty());
    store.close().await;
    fixture.execute_at(&url, "DELETE FROM syncline.migrations WHERE version = 2").await;
    let old = Store::open_with(&url, &options).await.unwrap_err();
    assert!(matches!(&old, Error::Unprepared { .. }), "{old}");
}
