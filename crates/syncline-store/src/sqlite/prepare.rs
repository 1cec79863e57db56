//! The writing connection: its tables brought up to date, or found so, and the clock set.
//!
//! Everything happens in one transaction, so that several processes may open a file at once and a crash leaves it as it was.

use std::sync::Arc;

use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection, SqliteJournalMode};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection};

use super::{LOG_KEPT_BYTES, lock, outbox, statement};
use crate::clock::{SteadyClock, TimeSource};
use crate::migration::{self, Applied, FORMER, Former, Migrations, Task};
use crate::options::{Mode, Opening};
use crate::{Error, names, parts};

/// Every part counts on the steady clock, so every file has it: steady = milliseconds since boot + offset_ms. Kept for as long
/// as the machine is up, so that every process on this file and every restart count the same time, whatever the wall clock did.
pub(crate) const CREATE_CLOCK: &str = "CREATE TABLE IF NOT EXISTS syncline.steady_clock \
     (boot_id TEXT NOT NULL PRIMARY KEY, offset_ms INTEGER NOT NULL) STRICT";
const EXISTS: &str = "SELECT count(*) > 0 FROM sqlite_schema WHERE type = 'table' AND name = $1";
/// Whether there is a table of what was applied, and whether it counts each part on its own.
const COUNTED: &str =
    "SELECT count(*) > 0, coalesce(sum(name = 'part'), 0) > 0 FROM pragma_table_info('syncline_migrations')";
const READ_FORMER: &str = "SELECT 'before parts', version, 'main' FROM syncline_migrations ORDER BY version";
/// pattern, columns as JSON. Tables of the pattern that have all of the columns.
const MATCHING: &str = "SELECT name FROM sqlite_schema AS t WHERE type = 'table' AND name GLOB $1 \
     AND NOT EXISTS (SELECT 1 FROM json_each($2) AS c WHERE c.value NOT IN (SELECT name FROM pragma_table_info(t.name)))";
const INDEXES: &str =
    "SELECT name FROM sqlite_schema WHERE type = 'index' AND tbl_name = $1 AND sql IS NOT NULL";

/// Opens the writing connection as `opening` says.
pub(super) async fn connect(
    store: &Arc<str>,
    options: &SqliteConnectOptions,
    in_memory: bool,
    source: Arc<dyn TimeSource>,
    opening: &Opening,
) -> Result<(SqliteConnection, SteadyClock), Error> {
    let failed = |error| Error::sqlite(store, &error);
    if opening.mode == Mode::Look {
        return look_at(store, options, source, opening).await;
    }
    let options = if in_memory {
        options.clone()
    } else {
        options.clone().journal_mode(SqliteJournalMode::Wal).pragma("journal_size_limit", LOG_KEPT_BYTES)
    };
    let mut connection = options.connect().await.map_err(failed)?;
    if !in_memory {
        // A log left behind by a failed disk may be whole in memory and torn on the disk. What can be read of it
        // is copied into the database and synced there before anything is written after it.
        sqlx::query("PRAGMA wal_checkpoint(PASSIVE)").execute(&mut connection).await.map_err(failed)?;
    }
    let clock = SteadyClock::anchored_now(source);
    let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await.map_err(failed)?;
    match opening.mode {
        Mode::Migrate => bring_up_to_date(store, &mut transaction, &clock, opening).await?,
        Mode::Trust | Mode::Look => find_up_to_date(store, &mut transaction, opening).await?,
    }
    let clock = settle_clock(&mut transaction, clock).await.map_err(failed)?;
    transaction.commit().await.map_err(failed)?;
    Ok((connection, clock))
}

/// A connection to a file that is used as it is: nothing is converted, created or written by opening it.
async fn look_at(
    store: &Arc<str>,
    options: &SqliteConnectOptions,
    source: Arc<dyn TimeSource>,
    opening: &Opening,
) -> Result<(SqliteConnection, SteadyClock), Error> {
    let failed = |error| Error::sqlite(store, &error);
    let mut connection = options.connect().await.map_err(failed)?;
    find_up_to_date(store, &mut connection, opening).await?;
    let clock = SteadyClock::anchored_now(source);
    let fixed = fixed_offset_ms(&mut connection, &clock).await.map_err(failed)?;
    let clock = match fixed {
        Some(offset_ms) => clock.with_offset(offset_ms),
        None => clock,
    };
    Ok((connection, clock))
}

/// An error unless nothing is missing.
async fn find_up_to_date(
    store: &str,
    connection: &mut SqliteConnection,
    opening: &Opening,
) -> Result<(), Error> {
    let applied = applied(connection).await.map_err(|error| Error::sqlite(store, &error))?;
    let missing = migration::missing(store, &applied, &opening.parts)?;
    check_outbox(store, connection, &applied, opening).await?;
    if let Some(reason) = migration::unprepared(&missing) {
        return Err(Error::Unprepared { store: store.to_owned(), reason });
    }
    let clock: bool = sqlx::query_scalar(EXISTS)
        .bind("syncline_steady_clock")
        .fetch_one(connection)
        .await
        .map_err(|error| Error::sqlite(store, &error))?;
    match clock {
        true => Ok(()),
        false => {
            let reason = "it has no table syncline_steady_clock".to_owned();
            Err(Error::Unprepared { store: store.to_owned(), reason })
        }
    }
}

async fn check_outbox(
    store: &str,
    connection: &mut SqliteConnection,
    applied: &[Applied],
    opening: &Opening,
) -> Result<(), Error> {
    match opening.has(&parts::OUTBOX) {
        true => outbox::fit::check(store, connection, migration::has_outbox(applied)).await,
        false => Ok(()),
    }
}

/// What was applied, in whichever way it was counted.
async fn applied(connection: &mut SqliteConnection) -> sqlx::Result<Vec<Applied>> {
    let (there, by_part): (bool, bool) = sqlx::query_as(COUNTED).fetch_one(&mut *connection).await?;
    match (there, by_part) {
        (false, _) => Ok(Vec::new()),
        (true, false) => sqlx::query_as(READ_FORMER).fetch_all(connection).await,
        (true, true) => statement::query_as(migration::READ_APPLIED).fetch_all(connection).await,
    }
}

/// Applies what is missing.
async fn bring_up_to_date(
    store: &str,
    connection: &mut SqliteConnection,
    clock: &SteadyClock,
    opening: &Opening,
) -> Result<(), Error> {
    let failed = |error| Error::sqlite(store, &error);
    let found = applied(connection).await.map_err(failed)?;
    check_outbox(store, connection, &found, opening).await?;
    // A file that is newer is refused before anything is changed in it.
    migration::missing(store, &found, &opening.parts)?;
    count_by_part(connection).await.map_err(failed)?;
    for (part, former) in migration::moves(store, &found, &opening.parts)? {
        move_tables(connection, part, former, clock.wall_ms()).await.map_err(failed)?;
    }
    for create in [migration::CREATE_TABLE, CREATE_CLOCK] {
        statement::query(create).execute(&mut *connection).await.map_err(failed)?;
    }
    let found = applied(connection).await.map_err(failed)?;
    for Task { part, step } in migration::missing(store, &found, &opening.parts)? {
        statement::raw_sql(step.sqlite).execute(&mut *connection).await.map_err(failed)?;
        record(connection, part, step.version, step.name, clock.wall_ms()).await.map_err(failed)?;
    }
    Ok(())
}

async fn record(
    connection: &mut SqliteConnection,
    part: &Migrations,
    version: i64,
    name: &str,
    wall_ms: i64,
) -> sqlx::Result<()> {
    let record = statement::query(migration::RECORD).bind(part.part).bind(version).bind(name.to_owned());
    record.bind(wall_ms).execute(connection).await?;
    Ok(())
}

/// Turns the table of the common count into the table of all parts, which has the same name.
async fn count_by_part(connection: &mut SqliteConnection) -> sqlx::Result<()> {
    let (there, by_part): (bool, bool) = sqlx::query_as(COUNTED).fetch_one(&mut *connection).await?;
    if !there || by_part {
        return Ok(());
    }
    sqlx::query("ALTER TABLE syncline_migrations RENAME TO syncline_migrations_former")
        .execute(&mut *connection)
        .await?;
    statement::query(migration::CREATE_TABLE).execute(&mut *connection).await?;
    statement::query(
        "INSERT INTO syncline.migrations SELECT $1, version, 'main', applied_at FROM syncline.migrations_former",
    )
    .bind(FORMER)
    .execute(&mut *connection)
    .await?;
    statement::query("DROP TABLE syncline.migrations_former").execute(&mut *connection).await?;
    if sqlx::query_scalar(EXISTS).bind("steady_clock").fetch_one(&mut *connection).await? {
        statement::query("ALTER TABLE steady_clock RENAME TO syncline.steady_clock")
            .execute(connection)
            .await?;
    }
    Ok(())
}

/// Gives a part's tables the names they have now. Their indexes are made anew by the part's first step: SQLite cannot rename
/// them, and a name may be the application's.
async fn move_tables(
    connection: &mut SqliteConnection,
    part: &Migrations,
    former: &Former,
    wall_ms: i64,
) -> sqlx::Result<()> {
    for table in former.tables {
        let columns = if table.ends_with('*') { former.columns } else { &[] };
        let columns = serde_json::to_string(columns).expect("names have a JSON");
        let matching = sqlx::query_scalar(MATCHING).bind(*table).bind(&columns);
        let tables: Vec<String> = matching.fetch_all(&mut *connection).await?;
        for table in tables.into_iter().filter(|table| names::is_identifier(table)) {
            let indexes: Vec<String> =
                sqlx::query_scalar(INDEXES).bind(&table).fetch_all(&mut *connection).await?;
            for index in indexes.iter().filter(|index| names::is_identifier(index)) {
                sqlx::query(AssertSqlSafe(format!("DROP INDEX {index}"))).execute(&mut *connection).await?;
            }
            let rename = format!("ALTER TABLE {table} RENAME TO syncline_{table}");
            sqlx::query(AssertSqlSafe(rename)).execute(&mut *connection).await?;
        }
    }
    statement::raw_sql(former.sqlite).execute(&mut *connection).await?;
    for version in former.versions {
        statement::query(migration::FORGET_FORMER).bind(version).execute(&mut *connection).await?;
    }
    for version in former.done {
        record(connection, part, *version, "taken over", wall_ms).await?;
    }
    Ok(())
}

/// Takes the offset that was fixed earlier in this boot, or fixes it now; locks from before are ended then.
async fn settle_clock(connection: &mut SqliteConnection, clock: SteadyClock) -> sqlx::Result<SteadyClock> {
    if let Some(offset_ms) = fixed_offset_ms(connection, &clock).await? {
        return Ok(clock.with_offset(offset_ms));
    }
    // Whether or not this store was opened for them.
    if sqlx::query_scalar(EXISTS).bind("syncline_lock_reserve").fetch_one(&mut *connection).await? {
        lock::forget_before_boot(connection, clock.now_ms()).await?;
    }
    let Some(boot_id) = clock.boot_id() else { return Ok(clock) };
    statement::query("DELETE FROM syncline.steady_clock").execute(&mut *connection).await?;
    statement::query("INSERT INTO syncline.steady_clock (boot_id, offset_ms) VALUES ($1, $2)")
        .bind(&boot_id)
        .bind(clock.offset_ms())
        .execute(&mut *connection)
        .await?;
    Ok(clock)
}

/// The offset that was fixed earlier in this boot.
async fn fixed_offset_ms(
    connection: &mut SqliteConnection,
    clock: &SteadyClock,
) -> sqlx::Result<Option<i64>> {
    let Some(boot_id) = clock.boot_id() else { return Ok(None) };
    let fixed = statement::query_scalar("SELECT offset_ms FROM syncline.steady_clock WHERE boot_id = $1");
    fixed.bind(&boot_id).fetch_optional(connection).await
}
