//! The schema's history, embedded in the program.
//!
//! Each engine applies what is missing under a lock of its own, so that several programs may start at once and a crash leaves
//! a state from which the next start goes on. A step belongs to one system; a program that uses one system alone applies
//! that system's steps and creates nothing else, and a later program applies the rest. So what was applied is a set of
//! versions, not a highest one. A schema newer than this program is refused untouched. Applied files never change; a change
//! is a new file.

use crate::Error;

/// To which system a step belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum System {
    Kv,
    Schedule,
    Queue,
    Shelf,
    Lock,
    Outbox,
    Inbox,
    State,
}

/// Whose steps a program applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Those of all systems.
    All,
    /// Those of the outbox: what `serversync` needs in an application's database.
    Outbox,
}

/// One step of the schema, in both dialects.
#[derive(Debug)]
pub(crate) struct Migration {
    pub(crate) version: i64,
    pub(crate) system: System,
    pub(crate) name: &'static str,
    pub(crate) sqlite: &'static str,
    pub(crate) postgres: &'static str,
}

/// The step whose two files have this name.
macro_rules! step {
    ($version:ident, $system:ident, $name:literal, $file:literal) => {
        step!(@ $version, $system, $name, $file)
    };
    ($version:literal, $system:ident, $name:literal, $file:literal) => {
        step!(@ $version, $system, $name, $file)
    };
    (@ $version:expr, $system:ident, $name:literal, $file:literal) => {
        Migration {
            version: $version,
            system: System::$system,
            name: $name,
            sqlite: include_str!(concat!("../migrations/sqlite/", $file)),
            postgres: include_str!(concat!("../migrations/postgres/", $file)),
        }
    };
}

/// The steps that others have to know by their versions.
pub(crate) const LOCK: i64 = 5;
pub(crate) const OUTBOX: i64 = 6;
pub(crate) const OUTBOX_ORDER: i64 = 8;
pub(crate) const OUTBOX_DEAD: i64 = 15;

/// Every step, oldest first.
pub(crate) const MIGRATIONS: &[Migration] = &[
    step!(1, Kv, "kv", "0001_kv.sql"),
    step!(2, Schedule, "schedule", "0002_schedule.sql"),
    step!(3, Queue, "queue", "0003_queue.sql"),
    step!(4, Shelf, "shelf", "0004_shelf.sql"),
    step!(LOCK, Lock, "lock", "0005_lock.sql"),
    step!(OUTBOX, Outbox, "outbox", "0006_outbox.sql"),
    step!(7, State, "state", "0007_state.sql"),
    step!(OUTBOX_ORDER, Outbox, "outbox order", "0008_outbox_order.sql"),
    step!(9, Queue, "queue call", "0009_queue_call.sql"),
    step!(10, Outbox, "outbox numbers", "0010_outbox_numbers.sql"),
    step!(11, Inbox, "inbox", "0011_inbox.sql"),
    step!(12, Queue, "queue indexes", "0012_queue_indexes.sql"),
    step!(13, Schedule, "schedule indexes", "0013_schedule_indexes.sql"),
    step!(14, State, "state indexes", "0014_state_indexes.sql"),
    step!(OUTBOX_DEAD, Outbox, "outbox dead", "0015_outbox_dead.sql"),
    step!(16, Shelf, "shelf indexes", "0016_shelf_indexes.sql"),
];

/// The newest version this program has.
pub(crate) const KNOWN: i64 = MIGRATIONS[MIGRATIONS.len() - 1].version;

/// The table that remembers what was applied; the same in both dialects.
pub(crate) const CREATE_TABLE: &str = "CREATE TABLE IF NOT EXISTS syncline_migrations \
     (version bigint NOT NULL PRIMARY KEY, name text NOT NULL, applied_at bigint NOT NULL)";

/// Reads what was applied.
pub(crate) const READ_APPLIED: &str = "SELECT version FROM syncline_migrations ORDER BY version";

/// Remembers one step.
pub(crate) const RECORD: &str =
    "INSERT INTO syncline_migrations (version, name, applied_at) VALUES ($1, $2, $3)";

/// What `store`, in which `applied` was found, still lacks for `scope`.
pub(crate) fn missing(store: &str, applied: &[i64], scope: Scope) -> Result<Vec<&'static Migration>, Error> {
    if let Some(found) = applied.iter().copied().max().filter(|found| *found > KNOWN) {
        return Err(Error::Newer { store: store.to_owned(), found, known: KNOWN });
    }
    let wanted = |migration: &&Migration| {
        let ours = scope == Scope::All || migration.system == System::Outbox;
        ours && !applied.contains(&migration.version)
    };
    Ok(MIGRATIONS.iter().filter(wanted).collect())
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
        let versions = |applied: &[i64], scope| {
            let missing = missing("s", applied, scope).unwrap();
            missing.iter().map(|migration| migration.version).collect::<Vec<_>>()
        };
        let all: Vec<i64> = (1..=KNOWN).collect();
        assert_eq!(versions(&[], Scope::All), all);
        assert_eq!(versions(&[1], Scope::All), all[1..]);
        assert!(versions(&all, Scope::All).is_empty() && versions(&all, Scope::Outbox).is_empty());
        let refused = Error::Newer { store: "s".to_owned(), found: KNOWN + 1, known: KNOWN };
        assert_eq!(missing("s", &[KNOWN + 1], Scope::Outbox).unwrap_err(), refused);
    }

    #[test]
    fn ss_03_an_outbox_alone_takes_its_own_steps_and_the_rest_follows_later() {
        let outbox: Vec<i64> =
            missing("s", &[], Scope::Outbox).unwrap().iter().map(|step| step.version).collect();
        assert_eq!(outbox, [OUTBOX, OUTBOX_ORDER, 10, OUTBOX_DEAD]);
        let rest = missing("s", &outbox, Scope::All).unwrap();
        assert_eq!(rest.len(), MIGRATIONS.len() - outbox.len());
        assert!(rest.iter().all(|step| step.system != System::Outbox));
    }
}
