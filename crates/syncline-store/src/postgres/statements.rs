//! Statements on a session as the flows above say them.

use async_trait::async_trait;
use futures::future::BoxFuture;
use sqlx::postgres::PgRow;
use sqlx::{Row as _, TypeInfo, ValueRef};

use super::session::{Session, Statement};
use super::{ANSWER_MAX, Engine};
use crate::database::{self, Access, Cell, Job, Made, Row, Statements, Transaction, Value};
use crate::{Backend, Error};

#[async_trait]
impl database::Engine for Engine {
    fn backend(&self) -> Backend {
        Backend::Postgres
    }

    async fn run(&self, access: Access, job: Job) -> Result<Made, Error> {
        let session = match access {
            Access::Read | Access::Execute | Access::Statement => {
                Session::statement(self, ANSWER_MAX).await?
            }
            Access::Write => Session::transaction(self, ANSWER_MAX).await?,
            Access::Unsynced => Session::unsynced(self).await?,
        };
        let mut statements = OnSession { engine: self, session };
        let mut transaction = Transaction::new(&mut statements);
        let made = job(&mut transaction).await;
        let kept = made.is_ok() && !transaction.is_undone();
        let session = statements.session;
        if kept {
            session.commit().await?;
        } else {
            // What failed is what the caller wants to know; a session that cannot roll back takes its connection with it.
            let _ = session.rollback().await;
        }
        made
    }
}

/// A session while a job has it.
struct OnSession<'e> {
    engine: &'e Engine,
    session: Session,
}

impl OnSession<'_> {
    fn statement(&self, sql: &'static str, values: &[Value]) -> Statement {
        bind(self.engine.query(sql), values)
    }
}

impl Statements for OnSession<'_> {
    fn backend(&self) -> Backend {
        Backend::Postgres
    }

    fn execute<'s>(
        &'s mut self,
        sql: &'static str,
        values: &'s [Value],
    ) -> BoxFuture<'s, Result<u64, Error>> {
        let statement = self.statement(sql, values);
        Box::pin(self.session.execute(statement))
    }

    fn rows<'s>(
        &'s mut self,
        sql: &'static str,
        values: &'s [Value],
    ) -> BoxFuture<'s, Result<Vec<Row>, Error>> {
        let statement = self.statement(sql, values);
        Box::pin(async move {
            let rows = self.session.rows(statement).await?;
            rows.iter().map(row).collect::<sqlx::Result<_>>().map_err(self.engine.failed())
        })
    }

    fn script(&mut self, sql: &'static str) -> BoxFuture<'_, Result<(), Error>> {
        let sql = self.engine.sql(sql);
        Box::pin(self.session.control(sql))
    }

    fn now_ms(&mut self) -> BoxFuture<'_, Result<i64, Error>> {
        Box::pin(self.engine.now_ms(&mut self.session))
    }
}

/// Binds values, each as what it is.
pub(super) fn bind(statement: Statement, values: &[Value]) -> Statement {
    values.iter().fold(statement, |statement, value| match value {
        Value::Bool(value) => statement.bind(*value),
        Value::Int(value) => statement.bind(*value),
        Value::Text(value) => statement.bind(value.as_deref()),
        Value::Bytes(value) => statement.bind(value.as_deref()),
        Value::Ints(numbers) => statement.bind(numbers),
        Value::Texts(texts) => statement.bind(texts),
        Value::Bools(truths) => statement.bind(truths),
    })
}

/// A row in the words of the flows.
fn row(row: &PgRow) -> sqlx::Result<Row> {
    let cell = |place: usize| {
        let value = row.try_get_raw(place)?;
        if value.is_null() {
            return Ok(Cell::Null);
        }
        Ok(match value.type_info().name() {
            "BOOL" => Cell::Bool(row.try_get(place)?),
            "INT8" => Cell::Int(row.try_get(place)?),
            "INT4" => Cell::Int(row.try_get::<i32, _>(place)?.into()),
            "INT2" => Cell::Int(row.try_get::<i16, _>(place)?.into()),
            "TEXT" | "VARCHAR" | "CHAR" | "NAME" => Cell::Text(row.try_get(place)?),
            "BYTEA" => Cell::Bytes(row.try_get(place)?),
            other => Cell::Foreign(other.to_owned()),
        })
    };
    (0..row.len()).map(cell).collect::<sqlx::Result<_>>().map(Row::new)
}
