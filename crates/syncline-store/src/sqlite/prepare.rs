//! The writing connection: its tables brought up to date, or found so, and the clock set.
//!
//! Everything happens in one transaction, so that several processes may open a file at once and a crash leaves it as it was.

use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, Params, Row, TransactionBehavior, params};

use super::{Place, connection, lock, outbox};
use crate::clock::{SteadyClock, TimeSource};
use crate::migration::{self, Applied, FORMER, Former, Migrations, Task};
use crate::options::{Mode, Opening};
use crate::{Error, names, parts};

/// Every part counts on the steady clock, so every file has it: steady = milliseconds since boot + offset_ms. Kept for as long
/// as the machine is up, so that every process on this file and every restart count the same time, whatever the wall clock did.
pub(crate) const CREATE_CLOCK: &str = "CREATE TABLE IF NOT EXISTS syncline.steady_clock \
     (boot_id TEXT NOT NULL PRIMARY KEY, offset_ms INTEGER NOT NULL) STRICT";
const EXISTS: &str = "SELECT count(*) > 0 FROM sqlite_schema WHERE type = 'table' AND name = ?1";
/// Whether there is a table of what was applied, and whether it counts each part on its own.
const COUNTED: &str =
    "SELECT count(*) > 0, coalesce(sum(name = 'part'), 0) > 0 FROM pragma_table_info('syncline_migrations')";
const READ_FORMER: &str = "SELECT 'before parts', version, 'main' FROM syncline_migrations ORDER BY version";
/// pattern, columns as JSON. Tables of the pattern that have all of the columns.
const MATCHING: &str = "SELECT name FROM sqlite_schema AS t WHERE type = 'table' AND name GLOB ?1 \
     AND NOT EXISTS (SELECT 1 FROM json_each(?2) AS c WHERE c.value NOT IN (SELECT name FROM pragma_table_info(t.name)))";
const INDEXES: &str =
    "SELECT name FROM sqlite_schema WHERE type = 'index' AND tbl_name = ?1 AND sql IS NOT NULL";

/// Opens the writing connection as `opening` says.
pub(super) fn connect(
    store: &str,
    place: &Place,
    source: Arc<dyn TimeSource>,
    opening: &Opening,
) -> Result<(Connection, SteadyClock), Error> {
    let failed = |error| Error::sqlite(store, &error);
    let opened = match place {
        Place::Memory => connection::open_in_memory(),
        Place::File(file) => connection::open(file),
    };
    let mut connection = opened.map_err(failed)?;
    if opening.mode == Mode::Look {
        return look_at(store, connection, source, opening);
    }
    if matches!(place, Place::File(_)) {
        connection::keep_log(&connection).map_err(failed)?;
        // A log left behind by a failed disk may be whole in memory and torn on the disk. What can be read of it
        // is copied into the database and synced there before anything is written after it.
        connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(())).map_err(failed)?;
    }
    let clock = SteadyClock::anchored_now(source);
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
    match opening.mode {
        Mode::Migrate => bring_up_to_date(store, &transaction, &clock, opening)?,
        Mode::Trust | Mode::Look => find_up_to_date(store, &transaction, opening)?,
    }
    let clock = settle_clock(&transaction, clock).map_err(failed)?;
    transaction.commit().map_err(failed)?;
    Ok((connection, clock))
}

/// A connection to a file that is used as it is: nothing is converted, created or written by opening it.
fn look_at(
    store: &str,
    connection: Connection,
    source: Arc<dyn TimeSource>,
    opening: &Opening,
) -> Result<(Connection, SteadyClock), Error> {
    find_up_to_date(store, &connection, opening)?;
    let clock = SteadyClock::anchored_now(source);
    let fixed = fixed_offset_ms(&connection, &clock).map_err(|error| Error::sqlite(store, &error))?;
    let clock = match fixed {
        Some(offset_ms) => clock.with_offset(offset_ms),
        None => clock,
    };
    Ok((connection, clock))
}

/// An error unless nothing is missing.
fn find_up_to_date(store: &str, connection: &Connection, opening: &Opening) -> Result<(), Error> {
    let failed = |error| Error::sqlite(store, &error);
    let applied = applied(connection).map_err(failed)?;
    let missing = migration::missing(store, &applied, &opening.parts)?;
    check_outbox(store, connection, opening)?;
    if let Some(reason) = migration::unprepared(&missing) {
        return Err(Error::Unprepared { store: store.to_owned(), reason });
    }
    match exists(connection, "syncline_steady_clock").map_err(failed)? {
        true => Ok(()),
        false => {
            let reason = "it has no table syncline_steady_clock".to_owned();
            Err(Error::Unprepared { store: store.to_owned(), reason })
        }
    }
}

fn check_outbox(store: &str, connection: &Connection, opening: &Opening) -> Result<(), Error> {
    match opening.has(&parts::OUTBOX) {
        true => outbox::fit::check(store, connection),
        false => Ok(()),
    }
}

fn exists(connection: &Connection, table: &str) -> rusqlite::Result<bool> {
    connection.query_row(EXISTS, [table], |row| row.get(0))
}

/// The rows of a statement.
pub(super) fn all<T>(
    connection: &Connection,
    sql: &str,
    values: impl Params,
    read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<Vec<T>> {
    connection.prepare(sql)?.query_map(values, read)?.collect()
}

/// What was applied, in whichever way it was counted.
fn applied(connection: &Connection) -> rusqlite::Result<Vec<Applied>> {
    let read = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
    match connection.query_row(COUNTED, [], |row| Ok((row.get(0)?, row.get(1)?)))? {
        (false, _) => Ok(Vec::new()),
        (true, false) => all(connection, READ_FORMER, [], read),
        (true, true) => all(connection, names::sqlite(migration::READ_APPLIED), [], read),
    }
}

/// Applies what is missing.
fn bring_up_to_date(
    store: &str,
    connection: &Connection,
    clock: &SteadyClock,
    opening: &Opening,
) -> Result<(), Error> {
    let failed = |error| Error::sqlite(store, &error);
    let found = applied(connection).map_err(failed)?;
    check_outbox(store, connection, opening)?;
    // A file that is newer is refused before anything is changed in it.
    migration::missing(store, &found, &opening.parts)?;
    count_by_part(connection).map_err(failed)?;
    for (part, former) in migration::moves(store, &found, &opening.parts)? {
        move_tables(connection, part, former, clock.wall_ms()).map_err(failed)?;
    }
    for create in [migration::CREATE_TABLE, CREATE_CLOCK] {
        execute(connection, create, []).map_err(failed)?;
    }
    let found = applied(connection).map_err(failed)?;
    for Task { part, step } in migration::missing(store, &found, &opening.parts)? {
        let is_new = found.iter().all(|(known, ..)| known != part.part);
        if !(is_new && part.sqlite_upgrades.contains(&step.version)) {
            connection.execute_batch(names::sqlite(step.sqlite)).map_err(failed)?;
        }
        record(connection, part, step.version, step.name, clock.wall_ms()).map_err(failed)?;
    }
    Ok(())
}

fn execute(connection: &Connection, sql: &'static str, values: impl Params) -> rusqlite::Result<usize> {
    connection.execute(names::sqlite(sql), values)
}

fn record(
    connection: &Connection,
    part: &Migrations,
    version: i64,
    name: &str,
    wall_ms: i64,
) -> rusqlite::Result<()> {
    execute(connection, migration::RECORD, params![part.part, version, name, wall_ms]).map(drop)
}

/// Turns the table of the common count into the table of all parts, which has the same name.
fn count_by_part(connection: &Connection) -> rusqlite::Result<()> {
    let (there, by_part): (bool, bool) =
        connection.query_row(COUNTED, [], |row| Ok((row.get(0)?, row.get(1)?)))?;
    if !there || by_part {
        return Ok(());
    }
    connection.execute_batch("ALTER TABLE syncline_migrations RENAME TO syncline_migrations_former")?;
    execute(connection, migration::CREATE_TABLE, [])?;
    let copy = "INSERT INTO syncline_migrations SELECT ?1, version, 'main', applied_at FROM syncline_migrations_former";
    connection.execute(copy, [FORMER])?;
    connection.execute_batch("DROP TABLE syncline_migrations_former")?;
    if exists(connection, "steady_clock")? {
        connection.execute_batch("ALTER TABLE steady_clock RENAME TO syncline_steady_clock")?;
    }
    Ok(())
}

/// Gives a part's tables the names they have now. Their indexes are made anew by the part's first step: SQLite cannot rename
/// them, and a name may be the application's.
fn move_tables(
    connection: &Connection,
    part: &Migrations,
    former: &Former,
    wall_ms: i64,
) -> rusqlite::Result<()> {
    let name = |row: &Row<'_>| row.get::<_, String>(0);
    for table in former.tables {
        let columns = if table.ends_with('*') { former.columns } else { &[] };
        let columns = serde_json::to_string(columns).expect("names have a JSON");
        let tables = all(connection, MATCHING, [*table, columns.as_str()], name)?;
        for table in tables.into_iter().filter(|table| names::is_identifier(table)) {
            let indexes = all(connection, INDEXES, [&table], name)?;
            for index in indexes.iter().filter(|index| names::is_identifier(index)) {
                connection.execute_batch(&format!("DROP INDEX {index}"))?;
            }
            connection.execute_batch(&format!("ALTER TABLE {table} RENAME TO syncline_{table}"))?;
        }
    }
    connection.execute_batch(names::sqlite(former.sqlite))?;
    for version in former.versions {
        execute(connection, migration::FORGET_FORMER, [version])?;
    }
    for version in former.done {
        record(connection, part, *version, "taken over", wall_ms)?;
    }
    Ok(())
}

/// Takes the offset that was fixed earlier in this boot, or fixes it now; locks from before are ended then.
fn settle_clock(connection: &Connection, clock: SteadyClock) -> rusqlite::Result<SteadyClock> {
    if let Some(offset_ms) = fixed_offset_ms(connection, &clock)? {
        return Ok(clock.with_offset(offset_ms));
    }
    // Whether or not this store was opened for them.
    if exists(connection, "syncline_lock_reserve")? {
        lock::forget_before_boot(connection, clock.now_ms())?;
    }
    let Some(boot_id) = clock.boot_id() else { return Ok(clock) };
    connection.execute_batch("DELETE FROM syncline_steady_clock")?;
    let keep = "INSERT INTO syncline_steady_clock (boot_id, offset_ms) VALUES (?1, ?2)";
    connection.execute(keep, params![boot_id, clock.offset_ms()])?;
    Ok(clock)
}

/// The offset that was fixed earlier in this boot.
fn fixed_offset_ms(connection: &Connection, clock: &SteadyClock) -> rusqlite::Result<Option<i64>> {
    let Some(boot_id) = clock.boot_id() else { return Ok(None) };
    let fixed = "SELECT offset_ms FROM syncline_steady_clock WHERE boot_id = ?1";
    connection.query_row(fixed, [boot_id], |row| row.get(0)).optional()
}
