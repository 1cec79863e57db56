//! The schema's history, embedded in the program.
//!
//! Each engine applies what is missing in one transaction under a lock of its own, so that several programs may
//! start at once and a crash leaves the old schema or the new one. A schema newer than this program is refused
//! untouched. Applied files never change; a change is a new file.

use crate::Error;

/// One step of the schema, in both dialects.
#[derive(Debug)]
pub(crate) struct Migration {
    pub(crate) version: i64,
    pub(crate) name: &'static str,
    pub(crate) sqlite: &'static str,
    pub(crate) postgres: &'static str,
}

/// The step whose two files have this name.
macro_rules! step {
    ($version:literal, $name:literal, $file:literal) => {
        Migration {
            version: $version,
            name: $name,
            sqlite: include_str!(concat!("../migrations/sqlite/", $file)),
            postgres: include_str!(concat!("../migrations/postgres/", $file)),
        }
    };
}

/// Every step, oldest first.
pub(crate) const MIGRATIONS: &[Migration] = &[
    step!(1, "kv", "0001_kv.sql"),
    step!(2, "schedule", "0002_schedule.sql"),
    step!(3, "queue", "0003_queue.sql"),
    step!(4, "shelf", "0004_shelf.sql"),
    step!(5, "lock", "0005_lock.sql"),
    step!(6, "outbox", "0006_outbox.sql"),
    step!(7, "state", "0007_state.sql"),
    step!(8, "outbox order", "0008_outbox_order.sql"),
    step!(9, "queue call", "0009_queue_call.sql"),
    step!(10, "pinned indexes", "0010_pinned_indexes.sql"),
];

/// The version this program brings a schema to.
pub(crate) const KNOWN: i64 = MIGRATIONS[MIGRATIONS.len() - 1].version;

/// The table that remembers what was applied; the same in both dialects.
pub(crate) const CREATE_TABLE: &str = "CREATE TABLE IF NOT EXISTS syncline_migrations \
     (version bigint NOT NULL PRIMARY KEY, name text NOT NULL, applied_at bigint NOT NULL)";

/// Reads the newest applied version; zero on an empty database.
pub(crate) const READ_VERSION: &str = "SELECT coalesce(max(version), 0) FROM syncline_migrations";

/// Remembers one step.
pub(crate) const RECORD: &str =
    "INSERT INTO syncline_migrations (version, name, applied_at) VALUES ($1, $2, $3)";

/// What `store`, found at version `found`, still lacks.
pub(crate) fn missing(store: &str, found: i64) -> Result<&'static [Migration], Error> {
    if found > KNOWN {
        return Err(Error::Newer { store: store.to_owned(), found, known: KNOWN });
    }
    let from = MIGRATIONS.partition_point(|migration| migration.version <= found);
    Ok(&MIGRATIONS[from..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_count_up_from_one() {
        let versions: Vec<i64> = MIGRATIONS.iter().map(|migration| migration.version).collect();
        assert_eq!(versions, (1..=KNOWN).collect::<Vec<_>>());
    }

    #[test]
    fn only_the_missing_steps_are_taken_and_a_newer_schema_is_refused() {
        assert_eq!(missing("s", 0).unwrap().len(), MIGRATIONS.len());
        assert_eq!(missing("s", 1).unwrap()[0].version, 2);
        assert!(missing("s", KNOWN).unwrap().is_empty());
        let refused = Error::Newer { store: "s".to_owned(), found: KNOWN + 1, known: KNOWN };
        assert_eq!(missing("s", KNOWN + 1).unwrap_err(), refused);
    }
}
