//! What goes into a statement and what comes out of its rows, the same for both engines.

use sqlx::Row as _;
use sqlx::postgres::{PgArguments, PgRow, Postgres};
use sqlx::query::Query;
use sqlx::sqlite::{Sqlite, SqliteArguments, SqliteRow};

use crate::Error;

/// A value to bind. `None` is NULL of that type.
///
/// Many rows go in as one JSON text: `json_each($1)` on SQLite, `jsonb_array_elements($1::text::jsonb)` on PostgreSQL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// A truth value.
    Bool(Option<bool>),
    /// A whole number.
    Int(Option<i64>),
    /// Text.
    Text(Option<String>),
    /// Bytes.
    Bytes(Option<Vec<u8>>),
}

macro_rules! value_from {
    ($variant:ident: $($from:ty),+) => {$(
        impl From<$from> for Value {
            fn from(value: $from) -> Self {
                Self::$variant(Some(value.into()))
            }
        }
        impl From<Option<$from>> for Value {
            fn from(value: Option<$from>) -> Self {
                Self::$variant(value.map(Into::into))
            }
        }
    )+};
}
value_from!(Bool: bool);
value_from!(Int: i64, i32, u32);
value_from!(Text: String, &str, &String);
value_from!(Bytes: Vec<u8>, &[u8]);

macro_rules! bind_all {
    ($query:expr, $values:expr) => {
        $values.iter().cloned().fold($query, |query, value| match value {
            Value::Bool(value) => query.bind(value),
            Value::Int(value) => query.bind(value),
            Value::Text(value) => query.bind(value),
            Value::Bytes(value) => query.bind(value),
        })
    };
}

pub(crate) fn bind_sqlite(
    query: Query<'static, Sqlite, SqliteArguments>,
    values: &[Value],
) -> Query<'static, Sqlite, SqliteArguments> {
    bind_all!(query, values)
}

pub(crate) fn bind_postgres(
    query: Query<'static, Postgres, PgArguments>,
    values: &[Value],
) -> Query<'static, Postgres, PgArguments> {
    bind_all!(query, values)
}

/// A row that a statement gave.
pub struct Row(Cells);

enum Cells {
    Sqlite(SqliteRow),
    Postgres(PgRow),
}

impl Row {
    pub(super) fn sqlite(row: SqliteRow) -> Self {
        Self(Cells::Sqlite(row))
    }

    pub(super) fn postgres(row: PgRow) -> Self {
        Self(Cells::Postgres(row))
    }

    /// The value at `position`, from 0. PostgreSQL's `integer` and `count(*)` differ: whole numbers are read as `bigint`.
    pub fn get<T: FromCell>(&self, position: usize) -> Result<T, Error> {
        let read = match &self.0 {
            Cells::Sqlite(row) => T::from_sqlite(row, position),
            Cells::Postgres(row) => T::from_postgres(row, position),
        };
        read.map_err(|error| Error::Unreadable { store: "a row".to_owned(), reason: error.to_string() })
    }
}

/// What a cell of a row can be read as.
pub trait FromCell: Sized {
    /// Reads it from a row of SQLite.
    #[doc(hidden)]
    fn from_sqlite(row: &SqliteRow, position: usize) -> sqlx::Result<Self>;

    /// Reads it from a row of PostgreSQL.
    #[doc(hidden)]
    fn from_postgres(row: &PgRow, position: usize) -> sqlx::Result<Self>;
}

macro_rules! from_cell {
    ($($kind:ty),+) => {$(
        impl FromCell for $kind {
            fn from_sqlite(row: &SqliteRow, position: usize) -> sqlx::Result<Self> {
                row.try_get(position)
            }

            fn from_postgres(row: &PgRow, position: usize) -> sqlx::Result<Self> {
                row.try_get(position)
            }
        }
    )+};
}
from_cell!(bool, i64, String, Vec<u8>, Option<bool>, Option<i64>, Option<String>, Option<Vec<u8>>);
