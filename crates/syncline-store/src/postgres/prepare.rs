//! Bringing the tables up to date, one node at a time, without making an application wait.
//!
//! The lock between nodes is an advisory one that lasts as long as a transaction, so that it works behind any pooler. It is
//! tried and never waited for: whoever waited in a statement would hold a snapshot, for which a `CREATE INDEX CONCURRENTLY`
//! under the same lock would wait in turn, for ever.
//!
//! Under that lock each step is a transaction of its own and is recorded in it, so that a start that dies is gone on with by
//! the next. Every step gives up a table lock that it does not get within [`LOCK_MAX`] and is tried again, because behind a
//! statement that waits for a lock everybody else waits too. A step of nothing but indexes on a table that is there already
//! is built concurrently.

use std::time::Duration;

use sqlx::AssertSqlSafe;
use tokio::time::{Instant, sleep};

use super::rights::{self, Found};
use super::{Engine, MIGRATION_MAX, Session, outbox, session};
use crate::migration::{self, Former, Migrations, Step, Task};
use crate::options::{Mode, Opening};
use crate::{Error, names, parts};

/// Any number will do, as long as it is ours: "syncline" in ASCII.
const MIGRATION_LOCK: i64 = 0x7379_6e63_6c69_6e65;
/// How long a table's lock is waited for, and everybody who comes after with it.
const LOCK_MAX: &str = "SET LOCAL lock_timeout = '50ms'";
/// How long others have the table to themselves between two attempts.
const AGAIN_AFTER: Duration = Duration::from_millis(250);

/// Whether an index of this name is on the table, and complete.
const INDEX: &str = "SELECT i.indisvalid, i.indexrelid::regclass::text FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indexrelid \
     WHERE i.indrelid = to_regclass($1) AND c.relname = $2";
/// schema, pattern, columns. Tables and sequences of the pattern that have all of the columns.
const MATCHING: &str = "SELECT c.relname::text FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace \
     WHERE n.nspname = $1 AND c.relname LIKE $2 AND c.relkind IN ('r', 'S') \
     AND NOT EXISTS (SELECT FROM unnest($3::text[]) AS wanted (name) WHERE NOT EXISTS (SELECT FROM pg_attribute AS a \
     WHERE a.attrelid = c.oid AND a.attname = wanted.name AND NOT a.attisdropped))";

/// Finds the tables as `opening` needs them, or makes them so.
pub(super) async fn prepare(engine: &Engine, opening: &Opening) -> Result<(), Error> {
    let until = Instant::now() + MIGRATION_MAX;
    let mut told = false;
    loop {
        match attempt(engine, opening).await {
            Err(Error::Busy { reason, .. }) if Instant::now() < until => {
                if !told {
                    tracing::info!(
                        store = engine.name(),
                        reason,
                        "the tables are in use, so they cannot be brought up to date yet; it is tried again"
                    );
                    told = true;
                }
                sleep(AGAIN_AFTER).await;
            }
            done => return done,
        }
    }
}

/// A transaction in which nobody else changes the tables' shape.
pub(super) async fn alone(engine: &Engine) -> Result<Session, Error> {
    let mut session = Session::transaction(engine, MIGRATION_MAX).await?;
    let lock = engine.query("SELECT pg_try_advisory_xact_lock($1)").bind(MIGRATION_LOCK);
    if session.value::<bool>(lock).await? {
        session.control(session::UNTIMED).await?;
        return Ok(session);
    }
    session.rollback().await?;
    let reason = "another process is changing the tables".to_owned();
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

async fn attempt(engine: &Engine, opening: &Opening) -> Result<(), Error> {
    let (found, missing) = look(engine, opening).await?;
    if missing.is_empty() {
        return rights::check(engine, opening).await;
    }
    if opening.mode != Mode::Migrate {
        let reason = migration::unprepared(&missing).unwrap_or_default();
        return Err(Error::Unprepared { store: engine.name().to_owned(), reason });
    }
    let lock = alone(engine).await?;
    let done = bring_up_to_date(engine, opening, found).await;
    lock.rollback().await?;
    done.map_err(|error| match error {
        Error::Denied { store, reason } => {
            let help = "an administrator can run what `syncline migrate --print` prints; --no-migrate then trusts it";
            Error::Denied { store, reason: format!("{reason}; {help}") }
        }
        other => other,
    })
}

/// What was applied, and what is missing. Nothing is locked or changed, and no right to create anything is needed.
async fn look(engine: &Engine, opening: &Opening) -> Result<(Found, Vec<Task>), Error> {
    let found = rights::find(engine).await?;
    let missing = migration::missing(engine.name(), &found.applied, &opening.parts)?;
    if opening.has(&parts::OUTBOX) {
        outbox::fit::check(engine, migration::has_outbox(&found.applied)).await?;
    }
    Ok((found, missing))
}

async fn bring_up_to_date(engine: &Engine, opening: &Opening, found: Found) -> Result<(), Error> {
    let mut session = short_transaction(engine).await?;
    if !found.schema {
        session
            .control(AssertSqlSafe(format!("CREATE SCHEMA IF NOT EXISTS {}", engine.schema().quoted())))
            .await?;
        let on_path =
            engine.query("SELECT $1 = ANY(current_schemas(false))").bind(engine.schema().as_str().to_owned());
        if session.value(on_path).await? {
            let schema = engine.schema().as_str();
            tracing::warn!(
                schema,
                "our schema is on the search path of this role; an application should use another role"
            );
        }
    }
    session.control(engine.sql(migration::CREATE_TABLE)).await?;
    if let Some(former) = &found.former {
        count_by_part(engine, &mut session, former).await?;
    }
    for (part, former) in migration::moves(engine.name(), &found.applied, &opening.parts)? {
        let from = found.tables_were_in(former);
        move_tables(engine, &mut session, from, (part, former)).await?;
    }
    session.commit().await?;
    // Seen under the lock: somebody may have been faster.
    let (_, missing) = look(engine, opening).await?;
    let mut online = Vec::new();
    for task in missing {
        match table_of_indexes(engine, task.step).await? {
            Some(table) => online.push((task, table)),
            None => apply(engine, task).await?,
        }
    }
    for (task, table) in online {
        build_indexes(engine, task.step, &table).await?;
        let mut session = engine.transaction().await?;
        record(engine, &mut session, task.part, task.step.version, task.step.name).await?;
        session.commit().await?;
    }
    Ok(())
}

/// A transaction that holds no table for long.
async fn short_transaction(engine: &Engine) -> Result<Session, Error> {
    let mut session = Session::transaction(engine, MIGRATION_MAX).await?;
    session.control(session::UNTIMED).await?;
    session.control(LOCK_MAX).await?;
    Ok(session)
}

async fn apply(engine: &Engine, Task { part, step }: Task) -> Result<(), Error> {
    let mut session = short_transaction(engine).await?;
    session.control(engine.sql(step.postgres)).await?;
    record(engine, &mut session, part, step.version, step.name).await?;
    session.commit().await
}

async fn record(
    engine: &Engine,
    session: &mut Session,
    part: &Migrations,
    version: i64,
    name: &str,
) -> Result<(), Error> {
    let now_ms = engine.now_ms(session).await?;
    let record =
        engine.query(migration::RECORD).bind(part.part).bind(version).bind(name.to_owned()).bind(now_ms);
    session.execute(record).await.map(drop)
}

/// The table that a step of nothing but indexes is about, if it is there: those who write to it must not wait.
async fn table_of_indexes(engine: &Engine, step: &Step) -> Result<Option<String>, Error> {
    let table = migration::indexes(step.postgres).and_then(|statements| {
        let (_, rest) = statements.first()?.split_once(" ON ")?;
        rest.split([' ', '(']).next().map(|table| engine.schema().apply(table))
    });
    let Some(table) = table else { return Ok(None) };
    let mut session = engine.statement().await?;
    let there: bool =
        session.value(engine.query("SELECT to_regclass($1) IS NOT NULL").bind(table.clone())).await?;
    session.commit().await?;
    Ok(there.then_some(table))
}

/// Makes the indexes that are not there yet, and drops those that are not needed any more.
async fn build_indexes(engine: &Engine, step: &'static Step, table: &str) -> Result<(), Error> {
    let mut session = Session::bare(engine, MIGRATION_MAX).await?;
    for statement in migration::indexes(step.postgres).unwrap_or_default() {
        let statement = engine.schema().apply(statement);
        let Some((begin, rest)) = statement.split_once(" INDEX ") else { continue };
        let (clause, name) = index_named(rest);
        if begin != "DROP" {
            let mut look = engine.statement().await?;
            let index = engine.query(INDEX).bind(table.to_owned()).bind(name.to_owned());
            let complete: Option<(bool, String)> = look.first(index).await?;
            look.commit().await?;
            match complete {
                Some((true, _)) => continue,
                // What a start that died has left: only we can be building it, and we are not.
                Some((false, torn)) => {
                    session.control(AssertSqlSafe(format!("DROP INDEX CONCURRENTLY {torn}"))).await?;
                }
                None => {}
            }
        }
        session
            .control(AssertSqlSafe(format!("{begin} INDEX CONCURRENTLY {clause}{}", &rest[clause.len()..])))
            .await?;
    }
    session.finish_bare().await
}

/// `IF [NOT] EXISTS `, where it stands, and the name after it.
fn index_named(rest: &str) -> (&str, &str) {
    let clause =
        ["IF NOT EXISTS ", "IF EXISTS "].into_iter().find(|clause| rest.starts_with(clause)).unwrap_or("");
    let name = rest[clause.len()..].split_whitespace().next().unwrap_or_default();
    (&rest[..clause.len()], name)
}

/// Takes over what was counted together, from before each part had its own count.
async fn count_by_part(engine: &Engine, session: &mut Session, former: &str) -> Result<(), Error> {
    let copy = format!(
        "INSERT INTO {ours}.migrations (part, version, name, applied_at) \
         SELECT '{}', version, '{former}', applied_at FROM \"{former}\".syncline_migrations ON CONFLICT DO NOTHING; \
         DROP TABLE \"{former}\".syncline_migrations",
        migration::FORMER,
        ours = engine.schema().quoted(),
    );
    session.control(AssertSqlSafe(copy)).await
}

/// Moves a part's tables into our schema; indexes and sequences of theirs go with them.
async fn move_tables(
    engine: &Engine,
    session: &mut Session,
    from: &str,
    (part, former): (&Migrations, &Former),
) -> Result<(), Error> {
    let ours = engine.schema();
    if from != ours.as_str() {
        for pattern in former.tables {
            let like = pattern.replace('_', "\\_").replace('*', "%");
            let columns: Vec<String> = match pattern.ends_with('*') {
                true => former.columns.iter().map(|column| (*column).to_owned()).collect(),
                false => Vec::new(),
            };
            let matching = engine.query(MATCHING).bind(from.to_owned()).bind(like).bind(columns);
            let tables: Vec<(String,)> = session.all(matching).await?;
            for (table,) in tables.iter().filter(|(table,)| names::is_identifier(table)) {
                let change = format!("ALTER TABLE \"{from}\".{table} SET SCHEMA {}", ours.quoted());
                session.control(AssertSqlSafe(change)).await?;
            }
        }
        for function in former.functions {
            let change = format!("ALTER FUNCTION \"{from}\".{function}() SET SCHEMA {}", ours.quoted());
            session.control(AssertSqlSafe(change)).await?;
        }
    }
    session.control(engine.sql(former.postgres)).await?;
    for version in former.versions {
        session.execute(engine.query(migration::FORGET_FORMER).bind(*version)).await?;
    }
    for version in former.done {
        record(engine, session, part, *version, "taken over").await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ss_34_an_index_is_known_by_its_name() {
        assert_eq!(index_named("IF NOT EXISTS a_b ON t (c)"), ("IF NOT EXISTS ", "a_b"));
        assert_eq!(index_named("IF EXISTS a_b"), ("IF EXISTS ", "a_b"));
        assert_eq!(index_named("a_b ON t (c)"), ("", "a_b"));
    }
}
