//! Statements with our names as SQLite is to read them; see [`names`].

use sqlx::query::{Query, QueryAs, QueryScalar};
use sqlx::sqlite::{Sqlite, SqliteArguments, SqliteRow};
use sqlx::{FromRow, RawSql};

use crate::names;

/// A statement.
pub(crate) fn query(sql: &'static str) -> Query<'static, Sqlite, SqliteArguments> {
    sqlx::query(names::sqlite(sql))
}

/// A statement for its rows.
pub(super) fn query_as<T>(sql: &'static str) -> QueryAs<'static, Sqlite, T, SqliteArguments>
where
    T: for<'r> FromRow<'r, SqliteRow>,
{
    sqlx::query_as(names::sqlite(sql))
}

/// A statement for one column.
pub(super) fn query_scalar<T>(sql: &'static str) -> QueryScalar<'static, Sqlite, T, SqliteArguments>
where
    (T,): for<'r> FromRow<'r, SqliteRow>,
{
    sqlx::query_scalar(names::sqlite(sql))
}

/// Statements without arguments.
pub(super) fn raw_sql(sql: &'static str) -> RawSql {
    sqlx::raw_sql(names::sqlite(sql))
}
