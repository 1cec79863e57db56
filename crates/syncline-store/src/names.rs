//! Where our tables are: in a schema of our own on PostgreSQL, behind a prefix on SQLite.
//!
//! Statements are written with `syncline.` before each of our tables, so that they can be pasted into `psql` as they are.
//! This module turns that into the configured schema on PostgreSQL and into `syncline_` on SQLite, once for each statement.
//! Names travel in the statement itself, never in the connection's `search_path`, which a pooler may not keep.
//!
//! Guarantees: only checked identifiers become part of a statement.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, LazyLock, PoisonError, RwLock};

use syncline_core::outbox::EntityType;

use crate::database::Sql;
use crate::{Backend, Error};

/// The schema that is used where none is configured, and the word that stands for it in statements.
pub const DEFAULT_SCHEMA: &str = "syncline";
/// Longest name of a schema. `LISTEN` channels carry the schema's name too, and PostgreSQL cuts names at 63 bytes.
pub const SCHEMA_MAX_BYTES: usize = 40;
const PLACEHOLDER: &str = "syncline.";

/// The name of our schema on PostgreSQL: small letters, digits and underscores.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Schema(Arc<str>);

impl Schema {
    /// Checks a configured name.
    pub(crate) fn new(name: &str) -> Result<Self, Error> {
        if !is_identifier(name) || name.len() > SCHEMA_MAX_BYTES || name.starts_with("pg_") {
            let reason = format!(
                "`{name}` is no name for a schema: small letters, digits and underscores, at most {SCHEMA_MAX_BYTES}, \
                 and not beginning with pg_ or a digit"
            );
            return Err(Error::invalid("schema", reason));
        }
        Ok(Self(name.into()))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// As it stands in a statement: quoted, because it may be a word of SQL.
    pub(crate) fn quoted(&self) -> String {
        if &*self.0 == DEFAULT_SCHEMA { DEFAULT_SCHEMA.to_owned() } else { format!("\"{}\"", self.0) }
    }

    /// A channel for `LISTEN` that no other schema of the same database uses.
    pub(crate) fn channel(&self, name: &str) -> String {
        format!("{}.{name}", self.0)
    }

    /// `sql` with our names as PostgreSQL is to read them. Inside text (`'syncline.kv'`) and comments the name is not quoted.
    pub(crate) fn apply(&self, sql: &str) -> String {
        let quoted = format!("{}.", self.quoted());
        let plain = format!("{}.", self.0);
        let mut inside = Inside::Statement;
        let mut written = String::with_capacity(sql.len() + 64);
        let mut rest = sql;
        while let Some(next) = rest.chars().next() {
            if rest.starts_with(PLACEHOLDER) && begins_a_name(&written) {
                written.push_str(if inside == Inside::Statement { &quoted } else { &plain });
                rest = &rest[PLACEHOLDER.len()..];
                continue;
            }
            inside = inside.after(rest);
            written.push(next);
            rest = &rest[next.len_utf8()..];
        }
        written
    }
}

/// Where in the text of a statement one is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Inside {
    Statement,
    Text,
    Comment,
}

impl Inside {
    fn after(self, rest: &str) -> Self {
        match self {
            Self::Statement if rest.starts_with("--") => Self::Comment,
            Self::Statement if rest.starts_with('\'') => Self::Text,
            Self::Text if rest.starts_with('\'') => Self::Statement,
            Self::Comment if rest.starts_with('\n') => Self::Statement,
            same => same,
        }
    }
}

fn begins_a_name(before: &str) -> bool {
    !before.ends_with(|last: char| last.is_ascii_alphanumeric() || last == '_' || last == '.' || last == '"')
}

/// Whether `name` can stand in a statement without quotes, but for words of SQL.
pub(crate) fn is_identifier(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes.next().is_some_and(|first| first.is_ascii_lowercase() || first == b'_')
        && bytes.all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
}

/// Each statement with the names of one schema, made once.
#[derive(Debug)]
pub(crate) struct Statements {
    schema: Schema,
    named: RwLock<HashMap<Key, Arc<str>>>,
}

/// A statement of the program is known by where it is in memory.
type Key = (usize, usize);

fn key(sql: &'static str) -> Key {
    (sql.as_ptr() as usize, sql.len())
}

impl Statements {
    pub(crate) fn new(schema: Schema) -> Self {
        Self { schema, named: RwLock::default() }
    }

    pub(crate) fn schema(&self) -> &Schema {
        &self.schema
    }

    /// The statement as PostgreSQL is to read it.
    pub(crate) fn of(&self, sql: &'static str) -> Arc<str> {
        if let Some(named) = self.named.read().unwrap_or_else(PoisonError::into_inner).get(&key(sql)) {
            return Arc::clone(named);
        }
        let named: Arc<str> = self.schema.apply(sql).into();
        self.named.write().unwrap_or_else(PoisonError::into_inner).insert(key(sql), Arc::clone(&named));
        named
    }
}

/// `sql` with our names as SQLite is to read them.
pub(crate) fn on_sqlite(sql: &str) -> String {
    let mut written = String::with_capacity(sql.len());
    let mut rest = sql;
    while let Some(at) = rest.find(PLACEHOLDER) {
        written.push_str(&rest[..at]);
        let ours = begins_a_name(&written);
        written.push_str(if ours { "syncline_" } else { PLACEHOLDER });
        rest = &rest[at + PLACEHOLDER.len()..];
    }
    written.push_str(rest);
    written
}

/// The same for a statement of the program, made once and kept for as long as the program runs.
pub(crate) fn sqlite(sql: &'static str) -> &'static str {
    static NAMED: LazyLock<RwLock<HashMap<Key, &'static str>>> = LazyLock::new(RwLock::default);
    if let Some(named) = NAMED.read().unwrap_or_else(PoisonError::into_inner).get(&key(sql)) {
        return named;
    }
    let mut named = NAMED.write().unwrap_or_else(PoisonError::into_inner);
    named.entry(key(sql)).or_insert_with(|| on_sqlite(sql).leak())
}

/// A statement about `entity_sample`, about the table of a type instead.
pub(crate) fn for_type(sql: Sql, kind: &EntityType) -> Sql {
    let named = |sql: &'static str| {
        let sql = sql.replace("entity_sample", &format!("entity_{kind}"));
        kept(sql.replace("'sample'", &format!("'{kind}'")))
    };
    Sql::new(named(sql.of(Backend::Sqlite)), named(sql.of(Backend::Postgres)))
}

/// A statement about `sync_outbox`, about a table of ours instead, which has the same shape. Its indexes are named after it. What is ours
/// already (`syncline.sync_outbox_sender`) stays. `app_outbox` is where payloads are: `payloads`.
pub(crate) fn on_outbox_table(sql: Sql, table: &str, payloads: &str) -> Sql {
    let named = |sql: &'static str| {
        let mut parts = sql.split("sync_outbox");
        let mut written = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let ours = written.ends_with(PLACEHOLDER);
            written.push_str(if ours { "sync_outbox" } else { PLACEHOLDER });
            written.push_str(if ours { "" } else { table });
            written.push_str(part);
        }
        kept(written.replace("app_outbox", payloads))
    };
    Sql::new(named(sql.of(Backend::Sqlite)), named(sql.of(Backend::Postgres)))
}

/// A statement about `route_sample`, about the table of a route instead.
pub(crate) fn for_route(sql: Sql, route: &str) -> Sql {
    let named = |sql: &'static str| kept(sql.replace("route_sample", &format!("route_{route}")));
    Sql::new(named(sql.of(Backend::Sqlite)), named(sql.of(Backend::Postgres)))
}

/// A statement that was made from configured names, which are few: kept for as long as the program runs, each once.
pub(crate) fn kept(sql: String) -> &'static str {
    static KEPT: LazyLock<RwLock<HashSet<&'static str>>> = LazyLock::new(RwLock::default);
    let mut kept = KEPT.write().unwrap_or_else(PoisonError::into_inner);
    if let Some(same) = kept.get(sql.as_str()) {
        return same;
    }
    let leaked: &'static str = sql.leak();
    kept.insert(leaked);
    leaked
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hs_04_our_names_stand_in_the_configured_schema_and_nothing_else_does() {
        let sql = "INSERT INTO syncline.kv SELECT 'syncline.kv', mysyncline.x, s.syncline.y FROM sync_outbox -- syncline.kv's\n\
             WHERE syncline.kv.key = 'it''s' AND syncline.kv.value = $1";
        let schema = Schema::new("user").unwrap();
        let expected = "INSERT INTO \"user\".kv SELECT 'user.kv', mysyncline.x, s.syncline.y FROM sync_outbox -- user.kv's\n\
             WHERE \"user\".kv.key = 'it''s' AND \"user\".kv.value = $1";
        assert_eq!(schema.apply(sql), expected);
        assert_eq!(Schema::new(DEFAULT_SCHEMA).unwrap().apply(sql), sql);
        let expected = "INSERT INTO syncline_kv SELECT 'syncline_kv', mysyncline.x, s.syncline.y FROM sync_outbox -- syncline_kv's\n\
             WHERE syncline_kv.key = 'it''s' AND syncline_kv.value = $1";
        assert_eq!(sqlite(sql), expected);
        assert_eq!(sqlite(sql).as_ptr(), sqlite(sql).as_ptr(), "made once");
    }

    #[test]
    fn hs_04_only_a_plain_name_becomes_a_schema() {
        for name in ["syncline", "s", "_1", "team_7"] {
            assert!(Schema::new(name).is_ok(), "{name}");
        }
        let long = "s".repeat(SCHEMA_MAX_BYTES + 1);
        for name in ["", "1a", "Syncline", "a b", "a.b", "a\"b", "a;b", "pg_own", "ü", &long] {
            assert!(matches!(Schema::new(name), Err(Error::Invalid { field: "schema", .. })), "{name}");
        }
    }
}
