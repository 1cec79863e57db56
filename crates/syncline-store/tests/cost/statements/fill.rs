//! Tables of any size, counted by the server at a moment that makes it believe something wrong.

use std::time::Duration;

use sqlx::PgConnection;
use syncline_core::outbox::EntityType;
use syncline_core::queue::{Kind, Settings};
use syncline_core::state::{Change, Entry, Kept, Space, Stamp, Stored, Value};
use syncline_core::time::Timestamp;
use syncline_store::Store;
use syncline_store::queue::{KEYS_MAX, Rules};
use syncline_store::state::{Asked, Batch};

use super::execute;

/// The server counted the tables while they were ...
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Belief {
    /// ... empty.
    Empty,
    /// ... full of others' rows.
    Foreign,
    /// ... full of these rows, as they are now.
    Own,
    /// ... full of these rows, all of them in another state: ended, expired, removed, still to do.
    Turned,
}

impl Belief {
    pub(super) const ALL: [Self; 4] = [Self::Empty, Self::Foreign, Self::Own, Self::Turned];
}

/// Each row in another state, and back.
const TURNS: [(&str, &str, &str); 7] = [
    ("syncline.queue_keys", "place = 4, due = 5", "place = 0, due = NULL"),
    ("syncline.kv", "expires_at = 1", "expires_at = NULL"),
    ("syncline.locks", "expires_at = 1", "expires_at = 4000000000000"),
    ("sync_outbox", "dead_at = 1, due_at = 5, behind = 1", "dead_at = NULL, due_at = NULL, behind = NULL"),
    (
        "syncline.schedule_runs",
        "state = 'running'",
        "state = CASE WHEN id % 2 = 0 THEN 'skipped' ELSE 'done' END",
    ),
    ("syncline.state_entities", "live = false", "live = true"),
    ("syncline.inbox_entries", "received_at = 1", "received_at = 4000000000000"),
];

pub(super) async fn fill(url: &str, connection: &mut PgConnection, belief: Belief, size: usize) {
    let store = Store::open(url).await.unwrap();
    store.inbox(&[EntityType::new("order").unwrap()]).await.unwrap();
    match belief {
        Belief::Empty => {
            execute(connection, "ANALYZE").await;
            rows(&store, connection, "own", size).await;
        }
        Belief::Foreign => {
            rows(&store, connection, "foreign", size).await;
            execute(connection, "ANALYZE").await;
            rows(&store, connection, "own", size).await;
        }
        Belief::Own => {
            rows(&store, connection, "own", size).await;
            execute(connection, "ANALYZE").await;
        }
        Belief::Turned => {
            rows(&store, connection, "own", size).await;
            for (table, other, _) in TURNS {
                execute(connection, format!("UPDATE {table} SET {other}")).await;
            }
            execute(connection, "ANALYZE").await;
            for (table, _, back) in TURNS {
                execute(connection, format!("UPDATE {table} SET {back}")).await;
            }
            // Takes the old versions away and counts nothing but rows.
            execute(connection, "VACUUM").await;
        }
    }
    store.close().await;
}

pub(super) fn rules() -> Rules {
    let mut settings = Settings::new(100, Duration::ZERO, Duration::from_secs(60));
    settings.retry.max_attempts = 1;
    settings.breaker_threshold = u32::MAX;
    Rules::from(settings)
}

/// Rows of one owner in every table.
async fn rows(store: &Store, connection: &mut PgConnection, owner: &str, size: usize) {
    let keys: Vec<String> = (0..size).map(|n| format!("key {n}")).collect();
    for some in keys.chunks(KEYS_MAX) {
        store.queues().enqueue(owner, &rules(), Kind::New, some).await.unwrap();
    }
    space(store, connection, owner, size).await;
    for sql in [
        "INSERT INTO syncline.kv SELECT 'OWNER:' || n, '1', NULL FROM generate_series(1, SIZE) AS n",
        "INSERT INTO syncline.locks SELECT 'OWNER:' || n, NULL, 'h', n, 1, 4000000000000 FROM generate_series(1, SIZE) AS n",
        "INSERT INTO sync_outbox (entity_type, entity_id, payload, processed_at) SELECT 'order', 'OWNER' || n, '{}', \
         CASE WHEN n <= SIZE / 2 THEN now() - interval '1 day' END FROM generate_series(1, SIZE) AS n",
        "INSERT INTO syncline.sync_receipts SELECT id, 'r', 'u', 1, 's', 1 FROM sync_outbox WHERE processed_at IS NOT NULL \
         ON CONFLICT DO NOTHING",
        "INSERT INTO syncline.inbox_entries SELECT 'OWNER', n, n, 4000000000000 FROM generate_series(1, SIZE) AS n",
        "INSERT INTO syncline.entity_order (id, payload, sender, entry, changed_at, received_at, place) \
         SELECT 'OWNER' || n, '{}', 'OWNER', n, 1, 1, nextval('syncline.inbox_place') FROM generate_series(1, SIZE) AS n",
        "INSERT INTO syncline.schedule_runs (job, bucket, node, reason, state, started_at, cost_micro_usd) \
         SELECT 'OWNER', 'b' || n, 'node', 'watched', CASE WHEN n % 2 = 0 THEN 'skipped' ELSE 'done' END, \
         4000000000000, 1 FROM generate_series(1, SIZE) AS n",
        "INSERT INTO syncline.schedule_totals SELECT 'OWNER' || n, 'run', 'watched', 1, 0, 0, 1 FROM generate_series(1, SIZE) AS n",
    ] {
        execute(connection, sql.replace("OWNER", owner).replace("SIZE", &size.to_string())).await;
    }
}

/// A space of so many entities: one that was pushed, and copies of its row.
async fn space(store: &Store, connection: &mut PgConnection, owner: &str, size: usize) {
    let space = Space::new(owner).unwrap();
    let page = store.states().pull(&space, &Asked::default()).await.unwrap();
    let batch = Batch { after: page.cursor, epoch: page.epoch, changes: vec![put("entity", page.now)] };
    store.states().push(&space, batch).await.unwrap();
    for sql in [
        "INSERT INTO syncline.state_entities SELECT space, id || n, stamp, live, value, bytes, n + 1 FROM syncline.state_entities, \
         generate_series(1, SIZE) AS n WHERE space = 'OWNER' AND id = 'entity'",
        "UPDATE syncline.state_spaces SET last = SIZE + 1, entities = SIZE + 1 WHERE name = 'OWNER'",
    ] {
        execute(connection, sql.replace("OWNER", owner).replace("SIZE", &size.to_string())).await;
    }
}

pub(super) fn put(id: &str, at: Timestamp) -> Change {
    let stamp = Stamp::ZERO.after(at);
    let stored = Stored { value: Value::read("{}").unwrap(), stamp: Some(stamp), added: None, version: 1 };
    Change::Entity {
        id: id.to_owned(),
        kept: Kept { entry: Entry { stamp, live: true }, stored: Some(stored) },
    }
}

pub(super) fn removed(id: &str, at: Timestamp) -> Change {
    let entry = Entry { stamp: Stamp::ZERO.after(at), live: false };
    Change::Entity { id: id.to_owned(), kept: Kept { entry, stored: None } }
}
