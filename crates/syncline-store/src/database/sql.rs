//! Statements with a name, in files: `sql/<system>.sqlite.sql`, `sql/<system>.postgres.sql`, and `sql/<system>.sql` for those
//! that both engines say alike.
//!
//! ```sql
//! -- name: GET
//! -- key
//! SELECT value FROM syncline.kv WHERE key = $1;
//! ```
//!
//! A line `-- name:` begins a statement; comment lines right below it explain its parameters and are not sent. A statement can be
//! pasted into `psql` as it is, and into `sqlite3` with `syncline_` for `syncline.`.
//!
//! **Time.** PostgreSQL's statements read the server's clock. SQLite has none that does not jump, so its statements name what they
//! need, and the engine gives it: `:now` is the steady clock and `:wall` the time of day, both in milliseconds.
//!
//! Guarantees: a name that is not in its file does not compile.

use crate::Backend;

/// A statement in the words of each engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Sql {
    sqlite: &'static str,
    postgres: &'static str,
}

impl Sql {
    /// One that the engines say differently.
    #[must_use]
    pub const fn new(sqlite: &'static str, postgres: &'static str) -> Self {
        Self { sqlite, postgres }
    }

    /// As this engine is to read it, but for the names of our tables.
    #[must_use]
    pub const fn of(self, backend: Backend) -> &'static str {
        match backend {
            Backend::Sqlite => self.sqlite,
            Backend::Postgres => self.postgres,
        }
    }
}

impl From<&'static str> for Sql {
    fn from(sql: &'static str) -> Self {
        Self::new(sql, sql)
    }
}

/// Constants for the statements of a system, from its file for each engine.
macro_rules! statements {
    ($system:literal: $($name:ident),+ $(,)?) => {$(
        pub(crate) const $name: $crate::database::Sql = $crate::database::Sql::new(
            $crate::database::statement(
                include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/sql/", $system, ".sqlite.sql")),
                stringify!($name),
            ),
            $crate::database::statement(
                include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/sql/", $system, ".postgres.sql")),
                stringify!($name),
            ),
        );
    )+};
}
/// The same for those that both engines say alike.
macro_rules! shared_statements {
    ($system:literal: $($name:ident),+ $(,)?) => {$(
        pub(crate) const $name: $crate::database::Sql = {
            let text = $crate::database::statement(
                include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/sql/", $system, ".sql")),
                stringify!($name),
            );
            $crate::database::Sql::new(text, text)
        };
    )+};
}
/// The same for those that only one engine has a use for, as plain texts.
macro_rules! statements_of {
    ($file:literal: $($name:ident),+ $(,)?) => {$(
        pub(crate) const $name: &str = $crate::database::statement(
            include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/sql/", $file, ".sql")),
            stringify!($name),
        );
    )+};
}
pub(crate) use {shared_statements, statements, statements_of};

const MARK: &[u8] = b"-- name: ";

/// The statement `name` of a file.
pub(crate) const fn statement(file: &'static str, name: &str) -> &'static str {
    let bytes = file.as_bytes();
    let mut line = 0;
    while line < bytes.len() {
        let end = end_of_line(bytes, line);
        if has(bytes, line, MARK)
            && end - line == MARK.len() + name.len()
            && has(bytes, line + MARK.len(), name.as_bytes())
        {
            return body(file, end + 1);
        }
        line = end + 1;
    }
    panic!("the file has no statement of this name")
}

/// What stands from the line at `from` on, up to the next name: without the comments before it and the semicolon behind.
const fn body(file: &'static str, from: usize) -> &'static str {
    let bytes = file.as_bytes();
    let mut start = from;
    while has(bytes, start, b"--") && !has(bytes, start, MARK) {
        start = end_of_line(bytes, start) + 1;
    }
    let mut end = start;
    while end < bytes.len() && !has(bytes, end, MARK) {
        end = end_of_line(bytes, end) + 1;
    }
    if end > bytes.len() {
        end = bytes.len();
    }
    while end > start && (bytes[end - 1] == b';' || bytes[end - 1].is_ascii_whitespace()) {
        end -= 1;
    }
    assert!(end > start, "a statement has no text");
    file.split_at(end).0.split_at(start).1
}

const fn end_of_line(bytes: &[u8], mut at: usize) -> usize {
    while at < bytes.len() && bytes[at] != b'\n' {
        at += 1;
    }
    at
}

const fn has(bytes: &[u8], at: usize, wanted: &[u8]) -> bool {
    if at + wanted.len() > bytes.len() {
        return false;
    }
    let mut n = 0;
    while n < wanted.len() {
        if bytes[at + n] != wanted[n] {
            return false;
        }
        n += 1;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "-- What the file is about.\n\n-- name: GET\n-- key\n-- and more\nSELECT 1 -- one\n  WHERE $1;\n\n\
         -- name: GET_ALL\nSELECT ';' ;\n-- name: LAST\nSELECT 3";

    #[test]
    fn hs_05_a_statement_is_found_by_its_whole_name() {
        assert_eq!(statement(FILE, "GET"), "SELECT 1 -- one\n  WHERE $1");
        assert_eq!(statement(FILE, "GET_ALL"), "SELECT ';'");
        assert_eq!(statement(FILE, "LAST"), "SELECT 3");
    }

    #[test]
    #[should_panic(expected = "no statement of this name")]
    fn hs_05_a_part_of_a_name_is_none() {
        statement(FILE, "GE");
    }
}
