//! Bringing the schema up to date, one node at a time, without making an application wait.
//!
//! The lock between nodes is an advisory one that lasts as long as a transaction, so that it works behind any pooler. It is
//! tried and never waited for: whoever waited in a statement would hold a snapshot, for which a `CREATE INDEX CONCURRENTLY`
//! under the same lock would wait in turn, for ever.
//!
//! Every step gives up a table lock that it does not get within [`LOCK_MAX`] and is tried again, because behind a statement
//! that waits for a lock everybody else waits too. An application's own `sync_outbox` is taken over apart from the other
//! steps ([`take_over`]): its columns in one short transaction, its indexes concurrently. A start that dies in between is
//! gone on with by the next.

use std::time::Duration;

use sqlx::AssertSqlSafe;
use tokio::time::{Instant, sleep};

use super::{Engine, MIGRATION_MAX, Session, outbox, session};
use crate::{Error, Purpose, migrate};

/// Any number will do, as long as it is ours: "syncline" in ASCII.
const MIGRATION_LOCK: i64 = 0x7379_6e63_6c69_6e65;
/// How long a table's lock is waited for, and everybody who comes after with it.
const LOCK_MAX: &str = "SET LOCAL lock_timeout = '50ms'";
/// How long others have the table to themselves between two attempts.
const AGAIN_AFTER: Duration = Duration::from_millis(250);

/// From here on a step of the outbox makes tables that are nobody else's.
const OURS_BEGIN: &str = "-- Who sends, for those who receive";

const TAKE_OVER: &str = "CREATE OR REPLACE FUNCTION sync_outbox_announce() RETURNS trigger LANGUAGE plpgsql AS \
     $$ BEGIN PERFORM pg_notify('sync_outbox', ''); RETURN NULL; END $$; \
     ALTER TABLE sync_outbox ADD COLUMN attempts integer NOT NULL DEFAULT 0, ADD COLUMN due_at bigint, \
     ADD COLUMN behind bigint, ADD COLUMN claim bigint, ADD COLUMN leased_until bigint, ADD COLUMN claimed_by text, \
     ADD COLUMN last_error text, ADD COLUMN dead_at bigint; \
     ALTER TABLE sync_outbox SET (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05); \
     CREATE TRIGGER sync_outbox_announce AFTER INSERT ON sync_outbox \
     FOR EACH STATEMENT EXECUTE FUNCTION sync_outbox_announce()";

/// The indexes as the steps of the outbox leave them; each may be used by its own statements alone, see the eighth step.
const INDEXES: [(&str, &str); 8] = [
    (
        "sync_outbox_line",
        "((CASE WHEN entity_type = 'recording_file' THEN 1 ELSE 0 END), (id::bigint + 0)) \
         WHERE processed_at IS NULL AND dead_at IS NULL AND due_at IS NULL AND behind IS NULL",
    ),
    (
        "sync_outbox_pending",
        "((id::bigint + 0)) WHERE processed_at IS NULL AND dead_at IS NULL \
         AND (CASE WHEN attempts < 0 THEN 1 ELSE 0 END) = 0",
    ),
    (
        "sync_outbox_processed",
        "(processed_at, id) WHERE processed_at IS NOT NULL AND (CASE WHEN attempts < 0 THEN 1 ELSE 0 END) = 0",
    ),
    (
        "sync_outbox_pending_entity",
        "(entity_type, (entity_id::text), (id::bigint + 0)) WHERE processed_at IS NULL AND dead_at IS NULL \
         AND (CASE WHEN attempts < 0 THEN 2 ELSE 0 END) = 0",
    ),
    (
        "sync_outbox_processed_entity",
        "(entity_type, (entity_id::text), (id::bigint + 0)) WHERE processed_at IS NOT NULL \
         AND (CASE WHEN attempts < 0 THEN 2 ELSE 0 END) = 0",
    ),
    ("sync_outbox_due", "(due_at) WHERE due_at IS NOT NULL"),
    ("sync_outbox_behind", "(behind) WHERE behind IS NOT NULL"),
    ("sync_outbox_dead_order", "((id::bigint + 0)) WHERE dead_at IS NOT NULL"),
];

/// Whether an index of this name is on the table, and complete.
const INDEX: &str = "SELECT i.indisvalid FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indexrelid \
     WHERE i.indrelid = to_regclass('sync_outbox') AND c.relname = $1";

/// Finds the schema as `purpose` needs it, or makes it so.
pub(super) async fn prepare(engine: &Engine, purpose: Purpose) -> Result<(), Error> {
    let until = Instant::now() + MIGRATION_MAX;
    let mut told = false;
    loop {
        match attempt(engine, purpose).await {
            Err(Error::Busy { reason, .. }) if Instant::now() < until => {
                if !told {
                    tracing::info!(store = engine.name(), reason, "the schema is in use; it is tried again");
                    told = true;
                }
                sleep(AGAIN_AFTER).await;
            }
            done => return done,
        }
    }
}

/// A transaction in which nobody else changes the schema.
pub(super) async fn alone(engine: &Engine) -> Result<Session, Error> {
    let mut session = Session::transaction(engine, MIGRATION_MAX).await?;
    let lock = engine.query("SELECT pg_try_advisory_xact_lock($1)").bind(MIGRATION_LOCK);
    if session.value::<bool>(lock).await? {
        session.control(session::UNTIMED).await?;
        return Ok(session);
    }
    session.rollback().await?;
    let reason = "another process is changing the schema".to_owned();
    Err(Error::Busy { store: engine.name().to_owned(), reason })
}

/// The same, however long others take.
pub(super) async fn alone_in_time(engine: &Engine) -> Result<Session, Error> {
    let until = Instant::now() + MIGRATION_MAX;
    loop {
        match alone(engine).await {
            Err(Error::Busy { .. }) if Instant::now() < until => sleep(AGAIN_AFTER).await,
            done => return done,
        }
    }
}

async fn attempt(engine: &Engine, purpose: Purpose) -> Result<(), Error> {
    let applied = applied(engine).await?;
    let missing = migrate::missing(engine.name(), &applied, purpose.scope)?;
    let table = outbox::fit::check(engine, applied.contains(&migrate::OUTBOX)).await?;
    if missing.is_empty() {
        return Ok(());
    }
    if !purpose.prepares {
        return Err(Error::Unprepared { store: engine.name().to_owned() });
    }
    let mut session = alone(engine).await?;
    let taken_over = table.is_some() && !applied.contains(&migrate::OUTBOX);
    if taken_over {
        take_over(engine, table.is_some_and(|table| table.taken_over)).await?;
    } else if table.is_some() && !applied.contains(&migrate::OUTBOX_DEAD) {
        make_indexes(engine).await?;
    }
    session.control(LOCK_MAX).await?;
    session.control(migrate::CREATE_TABLE).await?;
    let found: Vec<(i64,)> = session.all(engine.query(migrate::READ_APPLIED)).await?;
    let found: Vec<i64> = found.into_iter().map(|(version,)| version).collect();
    if found != applied {
        // Somebody was faster.
        session.rollback().await?;
        return Err(Error::Busy {
            store: engine.name().to_owned(),
            reason: "it has just changed".to_owned(),
        });
    }
    for migration in missing {
        match migration.version {
            migrate::OUTBOX if taken_over => session.control(ours(migration.postgres)).await?,
            migrate::OUTBOX_ORDER if taken_over => {}
            _ => session.control(migration.postgres).await?,
        }
        let now_ms = engine.now_ms(&mut session).await?;
        let record = engine.query(migrate::RECORD).bind(migration.version).bind(migration.name).bind(now_ms);
        session.execute(record).await?;
    }
    session.commit().await
}

/// The part of the outbox's step that makes new tables.
fn ours(step: &'static str) -> &'static str {
    let begins = step.find(OURS_BEGIN).expect("the step says where it begins");
    &step[begins..]
}

/// Makes an outbox of the application's own table, while the application goes on writing into it.
async fn take_over(engine: &Engine, has_columns: bool) -> Result<(), Error> {
    if !has_columns {
        let mut session = Session::transaction(engine, MIGRATION_MAX).await?;
        session.control(session::UNTIMED).await?;
        session.control(LOCK_MAX).await?;
        session.control(TAKE_OVER).await?;
        session.commit().await?;
    }
    make_indexes(engine).await
}

/// Makes the indexes of the application's table that are not there yet.
async fn make_indexes(engine: &Engine) -> Result<(), Error> {
    let mut session = Session::bare(engine, MIGRATION_MAX).await?;
    for (name, definition) in INDEXES {
        let mut look = engine.statement().await?;
        let complete: Option<(bool,)> = look.first(engine.query(INDEX).bind(name)).await?;
        look.commit().await?;
        match complete {
            Some((true,)) => continue,
            // What a start that died has left: only we can be building it, and we are not.
            Some((false,)) => {
                session.control(AssertSqlSafe(format!("DROP INDEX CONCURRENTLY {name}"))).await?;
            }
            None => {}
        }
        let create = format!("CREATE INDEX CONCURRENTLY {name} ON sync_outbox {definition}");
        session.control(AssertSqlSafe(create)).await?;
    }
    session.finish_bare().await
}

/// What was applied, read without a lock and without the right to create anything.
async fn applied(engine: &Engine) -> Result<Vec<i64>, Error> {
    let mut session = engine.transaction().await?;
    let encoding: String = session.value(engine.query("SHOW server_encoding")).await?;
    if encoding != "UTF8" {
        let reason = format!("the database's encoding is {encoding}; it must be UTF8");
        return Err(Error::Denied { store: engine.name().to_owned(), reason });
    }
    let there = engine.query("SELECT to_regclass('syncline_migrations') IS NOT NULL");
    let applied: Vec<(i64,)> = match session.value(there).await? {
        true => session.all(engine.query(migrate::READ_APPLIED)).await?,
        false => Vec::new(),
    };
    session.commit().await?;
    Ok(applied.into_iter().map(|(version,)| version).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::migrate::Scope;

    #[test]
    fn ss_01_taking_a_table_over_makes_all_that_the_steps_make() {
        let steps = migrate::missing("s", &[], Scope::Outbox).unwrap();
        let step = steps.iter().find(|step| step.version == migrate::OUTBOX).unwrap().postgres;
        let made = ours(step);
        assert!(
            made.contains("CREATE TABLE sync_outbox_sender") && !made.contains("ALTER TABLE sync_outbox")
        );
        let order = steps.iter().find(|step| step.version == migrate::OUTBOX_ORDER).unwrap().postgres;
        let dead = steps.iter().find(|step| step.version == migrate::OUTBOX_DEAD).unwrap().postgres;
        for (name, _) in INDEXES {
            let made = [format!("INDEX {name}\n"), format!("INDEX {name} "), format!("EXISTS {name} ")];
            assert!(made.iter().any(|made| step.contains(made) || dead.contains(made)), "{name}");
        }
        // Indexes that the later step makes anew are those of the later step.
        let words = |sql: &str| sql.split_whitespace().collect::<Vec<_>>().join(" ");
        for (name, definition) in
            INDEXES.iter().filter(|(name, _)| order.contains(&format!("CREATE INDEX {name}")))
        {
            let made = words(&format!("CREATE INDEX {name} ON sync_outbox {definition};"));
            assert!(words(order).contains(&made), "{made}");
        }
    }
}
