//! A connection to SQLite, and statements on it as the flows above say them.

use std::future::ready;
use std::path::Path;

use futures::executor::block_on;
use futures::future::BoxFuture;
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{CachedStatement, Connection, OpenFlags, ToSql};

use super::{BUSY_WAIT, LOG_KEPT_BYTES};
use crate::clock::SteadyClock;
use crate::database::{Cell, Job, Made, Row, Statements, Transaction, Value};
use crate::sqlite::writer::Done;
use crate::{Backend, Error, names};

/// Statements that a connection keeps prepared: more than there are.
const STATEMENTS_KEPT: usize = 256;

/// Opens `file`, which is there, to read and write.
pub(super) fn open(file: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    prepared(Connection::open_with_flags(file, flags)?)
}

/// Opens a database that is in memory and this connection's alone.
pub(super) fn open_in_memory() -> rusqlite::Result<Connection> {
    prepared(Connection::open_in_memory()?)
}

/// Opens `file` to read.
pub(super) fn open_read_only(file: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    prepared(Connection::open_with_flags(file, flags)?)
}

fn prepared(connection: Connection) -> rusqlite::Result<Connection> {
    connection.busy_timeout(BUSY_WAIT)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_KEPT);
    connection.execute_batch("PRAGMA foreign_keys = ON; PRAGMA synchronous = FULL")?;
    Ok(connection)
}

/// Has the file keep a log, and the log its bounds.
pub(super) fn keep_log(connection: &Connection) -> rusqlite::Result<()> {
    connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
    connection.pragma_update_and_check(None, "journal_size_limit", LOG_KEPT_BYTES, |_| Ok(()))
}

/// Runs a job of the flows on a connection.
pub(super) fn run_job(
    connection: &mut Connection,
    (store, clock): (&str, &SteadyClock),
    job: Job,
) -> Result<Done<Made>, Error> {
    let mut statements = OnConnection { connection, store, clock };
    let mut transaction = Transaction::new(&mut statements);
    // Statements are done when they return, so that nothing is waited for here unless the job waits for others.
    let made = block_on(job(&mut transaction))?;
    Ok(if transaction.is_undone() { Done::Undone(made) } else { Done::Kept(made) })
}

/// A connection while a job has it.
struct OnConnection<'c> {
    connection: &'c mut Connection,
    store: &'c str,
    clock: &'c SteadyClock,
}

impl OnConnection<'_> {
    fn statement(&self, sql: &'static str, values: &[Value]) -> rusqlite::Result<CachedStatement<'_>> {
        let mut statement = self.connection.prepare_cached(names::sqlite(sql))?;
        bind(&mut statement, values, self.clock)?;
        Ok(statement)
    }

    fn read(&self, sql: &'static str, values: &[Value]) -> rusqlite::Result<Vec<Row>> {
        let mut statement = self.statement(sql, values)?;
        let columns = statement.column_count();
        let (mut rows, mut found) = (statement.raw_query(), Vec::new());
        while let Some(row) = rows.next()? {
            let cells = (0..columns).map(|column| row.get_ref(column).map(cell));
            found.push(Row::new(cells.collect::<rusqlite::Result<_>>()?));
        }
        Ok(found)
    }

    fn failed<T>(&self, done: rusqlite::Result<T>) -> Result<T, Error> {
        done.map_err(|error| Error::sqlite(self.store, &error))
    }
}

impl Statements for OnConnection<'_> {
    fn backend(&self) -> Backend {
        Backend::Sqlite
    }

    fn execute<'s>(
        &'s mut self,
        sql: &'static str,
        values: &'s [Value],
    ) -> BoxFuture<'s, Result<u64, Error>> {
        let done = self.statement(sql, values).and_then(|mut statement| statement.raw_execute());
        Box::pin(ready(self.failed(done).map(|changed| changed as u64)))
    }

    fn rows<'s>(
        &'s mut self,
        sql: &'static str,
        values: &'s [Value],
    ) -> BoxFuture<'s, Result<Vec<Row>, Error>> {
        Box::pin(ready(self.failed(self.read(sql, values))))
    }

    fn script(&mut self, sql: &'static str) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(ready(self.failed(self.connection.execute_batch(names::sqlite(sql)))))
    }

    fn now_ms(&mut self) -> BoxFuture<'_, Result<i64, Error>> {
        Box::pin(ready(Ok(self.clock.wall_ms())))
    }
}

/// Binds `$1`, `$2` ... from the values, and the moments that a statement asks for.
fn bind(statement: &mut CachedStatement<'_>, values: &[Value], clock: &SteadyClock) -> rusqlite::Result<()> {
    for index in 1..=statement.parameter_count() {
        let name = statement.parameter_name(index).unwrap_or_default();
        let unknown = || rusqlite::Error::InvalidParameterName(name.to_owned());
        match name {
            ":now" => statement.raw_bind_parameter(index, clock.now_ms())?,
            ":wall" => statement.raw_bind_parameter(index, clock.wall_ms())?,
            _ => {
                let number: usize =
                    name.get(1..).and_then(|number| number.parse().ok()).ok_or_else(unknown)?;
                let value = values.get(number.wrapping_sub(1)).ok_or_else(unknown)?;
                statement.raw_bind_parameter(index, value)?;
            }
        }
    }
    Ok(())
}

impl ToSql for Value {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        let json = |text: serde_json::Result<String>| {
            text.map(ToSqlOutput::from).map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))
        };
        match self {
            Self::Bool(value) => value.to_sql(),
            Self::Int(value) => value.to_sql(),
            Self::Text(value) => value.to_sql(),
            Self::Bytes(value) => value.to_sql(),
            Self::Ints(numbers) => json(serde_json::to_string(numbers)),
            Self::Texts(texts) => json(serde_json::to_string(texts)),
            Self::Bools(truths) => json(serde_json::to_string(truths)),
        }
    }
}

fn cell(value: ValueRef<'_>) -> Cell {
    match value {
        ValueRef::Null => Cell::Null,
        ValueRef::Integer(number) => Cell::Int(number),
        ValueRef::Real(_) => Cell::Foreign("REAL".to_owned()),
        ValueRef::Text(bytes) => match str::from_utf8(bytes) {
            Ok(text) => Cell::Text(text.to_owned()),
            Err(_) => Cell::Bytes(bytes.to_owned()),
        },
        ValueRef::Blob(bytes) => Cell::Bytes(bytes.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use syncline_core::state::{Stamp, Start};
    use syncline_core::time::Timestamp;

    use super::*;
    use crate::clock::Machine;
    use crate::sqlite::Engine;
    use crate::sqlite::writer::Durability;
    use crate::state::Asked;
    use crate::state::port::pull;

    /// A connection on which something happens right before one of the statements that read.
    struct Interrupted<'c> {
        inner: OnConnection<'c>,
        reads: usize,
        /// Before which of them, and what.
        happens: (usize, &'static str),
    }

    impl Statements for Interrupted<'_> {
        fn backend(&self) -> Backend {
            self.inner.backend()
        }

        fn execute<'s>(
            &'s mut self,
            sql: &'static str,
            values: &'s [Value],
        ) -> BoxFuture<'s, Result<u64, Error>> {
            self.inner.execute(sql, values)
        }

        fn rows<'s>(
            &'s mut self,
            sql: &'static str,
            values: &'s [Value],
        ) -> BoxFuture<'s, Result<Vec<Row>, Error>> {
            if self.reads == self.happens.0 {
                self.inner.connection.execute_batch(self.happens.1).unwrap();
            }
            self.reads += 1;
            self.inner.rows(sql, values)
        }

        fn script(&mut self, sql: &'static str) -> BoxFuture<'_, Result<(), Error>> {
            self.inner.script(sql)
        }

        fn now_ms(&mut self) -> BoxFuture<'_, Result<i64, Error>> {
            self.inner.now_ms()
        }
    }

    /// A page is read by several statements. A removal that was forgotten in between was not on the page, and the cursor went past it: the
    /// device kept the entity for ever.
    #[tokio::test]
    async fn st_23_a_removal_that_is_forgotten_while_a_page_is_read_is_not_passed_over() {
        for moment in 0..3 {
            let engine = Engine::open("sqlite::memory:", Arc::new(Machine)).await.unwrap();
            let clock = engine.clock().clone();
            let read = move |connection: &mut Connection| {
                let space = "INSERT INTO syncline_state_spaces (name, epoch, last, floor, entities) VALUES ('list', 'log', 2, ?1, 2)";
                let stamp = Stamp::ZERO.after(Timestamp::from_ms(1)).text();
                connection.execute(space, [&stamp]).unwrap();
                for (id, live, number) in [("kept", 1, 1), ("gone", 0, 2)] {
                    let entity =
                        "INSERT INTO syncline_state_entities VALUES ('list', ?1, ?2, ?3, NULL, 0, ?4)";
                    connection.execute(entity, rusqlite::params![id, &stamp, live, number]).unwrap();
                }
                let forget = "DELETE FROM syncline_state_entities WHERE id = 'gone'; \
                     UPDATE syncline_state_spaces SET forgotten = 2, entities = 1";
                let inner = OnConnection { connection, store: "sqlite", clock: &clock };
                let mut statements = Interrupted { inner, reads: 0, happens: (moment, forget) };
                let asked = Asked { after: 1, epoch: Some("log".to_owned()), paging: false };
                let mut transaction = Transaction::new(&mut statements);
                Ok(Done::Undone(block_on(pull(&mut transaction, "list".to_owned(), asked)).unwrap()))
            };
            let page = engine.writer.write(Durability::Synced, read).await.unwrap();
            let whole = page.start == Start::Whole && page.changes.len() == 1;
            let told = page.start == Start::After(1) && page.changes.len() == 1;
            assert!(whole || told, "before statement {moment}: {page:?}");
        }
    }
}
