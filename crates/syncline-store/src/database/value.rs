//! What goes into a statement and what comes out of its rows, the same for every engine.

use crate::Error;

/// A value to bind. `None` is NULL of that type.
///
/// Many rows go in as one JSON text: `json_each($1)` on SQLite, `jsonb_array_elements($1::text::jsonb)` on PostgreSQL.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Value {
    /// A truth value.
    Bool(Option<bool>),
    /// A whole number.
    Int(Option<i64>),
    /// Text.
    Text(Option<String>),
    /// Bytes.
    Bytes(Option<Vec<u8>>),
    /// Numbers: `json_each($1)` on SQLite, `ANY($1)` or `unnest($1)` on PostgreSQL.
    Ints(Vec<Option<i64>>),
    /// Texts, in the same way.
    Texts(Vec<Option<String>>),
    /// Truth values, in the same way.
    Bools(Vec<bool>),
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
value_from!(Int: i64, i32, i16, u32);
value_from!(Text: String, &str, &String);
value_from!(Bytes: Vec<u8>, &[u8]);

impl From<Vec<i64>> for Value {
    fn from(numbers: Vec<i64>) -> Self {
        Self::Ints(numbers.into_iter().map(Some).collect())
    }
}

impl From<Vec<Option<i64>>> for Value {
    fn from(numbers: Vec<Option<i64>>) -> Self {
        Self::Ints(numbers)
    }
}

impl From<Vec<String>> for Value {
    fn from(texts: Vec<String>) -> Self {
        Self::Texts(texts.into_iter().map(Some).collect())
    }
}

impl From<Vec<Option<String>>> for Value {
    fn from(texts: Vec<Option<String>>) -> Self {
        Self::Texts(texts)
    }
}

impl From<Vec<bool>> for Value {
    fn from(truths: Vec<bool>) -> Self {
        Self::Bools(truths)
    }
}

/// Values for a statement, each made from what it is.
macro_rules! values {
    ($($value:expr),* $(,)?) => {
        Vec::<$crate::database::Value>::from([$($crate::database::Value::from($value)),*])
    };
}
pub(crate) use values;

/// A row that a statement gave.
#[derive(Debug)]
pub struct Row(Vec<Cell>);

/// What is in one place of a row.
#[derive(Debug, Clone, PartialEq)]
#[doc(hidden)]
pub enum Cell {
    Null,
    Bool(bool),
    Int(i64),
    Text(String),
    Bytes(Vec<u8>),
    /// Of a type that nothing here reads, by its name.
    Foreign(String),
}

impl Row {
    pub(crate) fn new(cells: Vec<Cell>) -> Self {
        Self(cells)
    }

    /// The value at `position`, from 0.
    pub fn get<T: FromCell>(&self, position: usize) -> Result<T, Error> {
        read(position, self.0.get(position).cloned())
    }

    /// The same, for a value that is asked for once.
    pub(crate) fn take<T: FromCell>(&mut self, position: usize) -> Result<T, Error> {
        read(position, self.0.get_mut(position).map(|cell| std::mem::replace(cell, Cell::Null)))
    }
}

fn read<T: FromCell>(position: usize, cell: Option<Cell>) -> Result<T, Error> {
    let found = match &cell {
        None => "nothing".to_owned(),
        Some(Cell::Null) => "NULL".to_owned(),
        Some(Cell::Bool(_)) => "a truth value".to_owned(),
        Some(Cell::Int(_)) => "a number".to_owned(),
        Some(Cell::Text(_)) => "text".to_owned(),
        Some(Cell::Bytes(_)) => "bytes that are no text in UTF-8".to_owned(),
        Some(Cell::Foreign(kind)) => format!("a value of the type {kind}"),
    };
    cell.and_then(T::from_cell).ok_or_else(|| {
        let reason = format!("column {} of a row has {found}, which is not what is kept there", position + 1);
        Error::Unreadable { store: "a row".to_owned(), reason }
    })
}

/// What a cell of a row can be read as.
pub trait FromCell: Sized {
    /// Reads it, if it is of this kind.
    #[doc(hidden)]
    fn from_cell(cell: Cell) -> Option<Self>;
}

impl FromCell for bool {
    fn from_cell(cell: Cell) -> Option<Self> {
        match cell {
            Cell::Bool(value) => Some(value),
            // SQLite has numbers for them.
            Cell::Int(number) => Some(number != 0),
            _ => None,
        }
    }
}

impl FromCell for String {
    fn from_cell(cell: Cell) -> Option<Self> {
        if let Cell::Text(text) = cell { Some(text) } else { None }
    }
}

impl FromCell for Vec<u8> {
    fn from_cell(cell: Cell) -> Option<Self> {
        match cell {
            Cell::Bytes(bytes) => Some(bytes),
            Cell::Text(text) => Some(text.into_bytes()),
            _ => None,
        }
    }
}

macro_rules! whole_numbers {
    ($($kind:ty),+) => {$(
        impl FromCell for $kind {
            fn from_cell(cell: Cell) -> Option<Self> {
                if let Cell::Int(number) = cell { number.try_into().ok() } else { None }
            }
        }
    )+};
}
whole_numbers!(i64, i32, i16);

impl<T: FromCell> FromCell for Option<T> {
    fn from_cell(cell: Cell) -> Option<Self> {
        if cell == Cell::Null { Some(None) } else { T::from_cell(cell).map(Some) }
    }
}

/// What a row can be read as.
pub(crate) trait FromRow: Sized {
    /// Reads it, by position.
    fn from_row(row: Row) -> Result<Self, Error>;
}

impl FromRow for Row {
    fn from_row(row: Row) -> Result<Self, Error> {
        Ok(row)
    }
}

macro_rules! from_rows {
    ($($kind:ident $position:literal),+) => {
        impl<$($kind: FromCell),+> FromRow for ($($kind,)+) {
            fn from_row(mut row: Row) -> Result<Self, Error> {
                Ok(($(row.take::<$kind>($position)?,)+))
            }
        }
    };
}
from_rows!(A 0);
from_rows!(A 0, B 1);
from_rows!(A 0, B 1, C 2);
from_rows!(A 0, B 1, C 2, D 3);
from_rows!(A 0, B 1, C 2, D 3, E 4);
from_rows!(A 0, B 1, C 2, D 3, E 4, F 5);
from_rows!(A 0, B 1, C 2, D 3, E 4, F 5, G 6);
from_rows!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hs_05_a_cell_is_read_as_what_it_is_or_told_apart() {
        let mut row =
            Row::new(vec![Cell::Int(7), Cell::Text("a".to_owned()), Cell::Null, Cell::Int(1 << 40)]);
        assert_eq!(row.get::<i64>(0).unwrap(), 7);
        assert!(row.get::<bool>(0).unwrap());
        assert_eq!(row.get::<Option<String>>(2).unwrap(), None);
        assert_eq!(row.take::<String>(1).unwrap(), "a");
        for unreadable in [row.get::<String>(0).err(), row.get::<i32>(3).map(drop).err().or(None)] {
            assert!(matches!(unreadable, Some(Error::Unreadable { .. })), "{unreadable:?}");
        }
        assert!(row.get::<i64>(2).unwrap_err().to_string().contains("column 3 of a row has NULL"));
        assert!(row.get::<i64>(9).is_err());
    }
}
