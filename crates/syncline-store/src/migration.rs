//! The history of a part's tables: which steps a database has taken, and which it lacks.
//!
//! A part (a system of the platform, an app, anybody's own) brings its [`Migrations`] and is counted on its own: the table
//! `syncline.migrations` has a row for each part and version. A program names the parts it uses; opening a store applies what
//! these lack and touches nothing else. A part that is newer than the program is refused untouched.
//!
//! Each engine applies the steps under a lock of its own, so that several programs may start at once, and a crash leaves a
//! state from which the next start goes on. Steps that were released never change; a change is a new step.

mod script;

use crate::{Error, parts};

pub use self::script::migration_sql;

/// The steps of one part.
#[derive(Debug)]
pub struct Migrations {
    /// The part's name; two parts of one database have different names.
    pub part: &'static str,
    /// Parts whose tables this one uses too.
    pub needs: &'static [&'static Migrations],
    /// Its steps, numbered from 1.
    pub steps: &'static [Step],
    /// What becomes of its tables in a database from before parts were counted on their own.
    pub former: Option<Former>,
    /// Steps that a SQLite file which has none of the part's steps yet passes over: later ones make the same in another way.
    pub sqlite_upgrades: &'static [i64],
}

/// One step of a part, in both dialects. Our tables are named `syncline.<table>` in both.
///
/// A step whose statements can be repeated (`IF NOT EXISTS`) makes a script that can be repeated. On PostgreSQL a step of
/// nothing but indexes on a table that is there already is applied without a transaction and with `CONCURRENTLY`, so that
/// nobody who writes to that table waits.
#[derive(Debug)]
pub struct Step {
    /// Its number within the part.
    pub version: i64,
    /// What it does, in a few words.
    pub name: &'static str,
    /// The statements for SQLite.
    pub sqlite: &'static str,
    /// The statements for PostgreSQL.
    pub postgres: &'static str,
}

/// A part's tables in a database whose steps were counted together, before each part had its own count. They are moved to
/// where they belong now; then the part's steps run, which find them there.
#[derive(Debug)]
pub struct Former {
    /// The steps of the common count that made them. All of them must have been applied.
    pub versions: &'static [i64],
    /// Their names; on PostgreSQL sequences too. A name that ends in `*` stands for all tables that begin like it and have
    /// the columns of [`Former::columns`].
    pub tables: &'static [&'static str],
    /// The columns by which tables of a pattern are known as ours.
    pub columns: &'static [&'static str],
    /// Functions without arguments on PostgreSQL.
    pub functions: &'static [&'static str],
    /// The part's own steps that need not run any more.
    pub done: &'static [i64],
    /// What else has to change, after the move.
    pub sqlite: &'static str,
    /// The same on PostgreSQL.
    pub postgres: &'static str,
}

impl Migrations {
    /// The steps of a part that uses no other part's tables.
    #[must_use]
    pub const fn new(part: &'static str, steps: &'static [Step]) -> Self {
        Self { part, needs: &[], steps, former: None, sqlite_upgrades: &[] }
    }

    /// The newest version.
    pub(crate) fn newest(&self) -> i64 {
        self.steps.last().map_or(0, |step| step.version)
    }

    /// The tables and sequences of ours that its steps make on PostgreSQL, without the schema.
    pub(crate) fn made(&self) -> impl Iterator<Item = (Kind, &'static str)> {
        let created = |kind, word: &'static str| {
            let pieces = self.steps.iter().flat_map(move |step| step.postgres.split(word).skip(1));
            pieces.filter_map(move |piece| {
                let piece = piece.strip_prefix(" IF NOT EXISTS").unwrap_or(piece).trim_start();
                let name = piece.strip_prefix("syncline.")?;
                let end = name.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(name.len());
                Some((kind, &name[..end]))
            })
        };
        created(Kind::Table, "CREATE TABLE").chain(created(Kind::Sequence, "CREATE SEQUENCE"))
    }
}

/// What a step makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Table,
    Sequence,
}

/// The part under which steps of the common count are remembered, until their part is opened for the first time.
pub(crate) const FORMER: &str = "before parts";

/// The table that remembers what was applied; the same in both dialects.
pub(crate) const CREATE_TABLE: &str = "CREATE TABLE IF NOT EXISTS syncline.migrations \
     (part text NOT NULL, version bigint NOT NULL, name text NOT NULL, applied_at bigint NOT NULL, \
     PRIMARY KEY (part, version))";
/// Reads what was applied.
pub(crate) const READ_APPLIED: &str =
    "SELECT part, version, name FROM syncline.migrations ORDER BY part, version";
/// Remembers one step: part, version, name, time of day.
pub(crate) const RECORD: &str = "INSERT INTO syncline.migrations (part, version, name, applied_at) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING";
/// Forgets one step of the common count.
pub(crate) const FORGET_FORMER: &str =
    "DELETE FROM syncline.migrations WHERE part = 'before parts' AND version = $1";

/// Part, version and name of a step that was applied. Of a step of the common count the name is where its tables are.
pub(crate) type Applied = (String, i64, String);

/// A step that a database lacks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Task {
    pub(crate) part: &'static Migrations,
    pub(crate) step: &'static Step,
}

/// `parts` with all that they need, each once and after what it needs.
pub(crate) fn with_needed(parts: &[&'static Migrations]) -> Vec<&'static Migrations> {
    let mut all: Vec<&'static Migrations> = Vec::new();
    for part in parts {
        for part in with_needed(part.needs).into_iter().chain([*part]) {
            if !all.iter().any(|known| known.part == part.part) {
                all.push(part);
            }
        }
    }
    all
}

/// What `store`, in which `applied` was found, still lacks for `parts`.
pub(crate) fn missing(
    store: &str,
    applied: &[Applied],
    parts: &[&'static Migrations],
) -> Result<Vec<Task>, Error> {
    let mut tasks = Vec::new();
    for part in parts {
        let found: Vec<i64> = applied.iter().filter(|row| row.0 == part.part).map(|row| row.1).collect();
        if let Some(found) = found.iter().copied().max().filter(|found| *found > part.newest()) {
            let (store, known) = (store.to_owned(), part.newest());
            return Err(Error::Newer { store, part: part.part.to_owned(), found, known });
        }
        let lacking = part.steps.iter().filter(|step| !found.contains(&step.version));
        tasks.extend(lacking.map(|step| Task { part, step }));
    }
    Ok(tasks)
}

/// What is missing, in words; `None` if nothing is.
pub(crate) fn unprepared(missing: &[Task]) -> Option<String> {
    let Task { part, step } = missing.first()?;
    let first = format!("the tables of {} lack step {} ({})", part.part, step.version, step.name);
    Some(match missing.len() {
        1 => first,
        more => format!("{first} and {} more", more - 1),
    })
}

/// The parts whose tables are still where they were before parts were counted on their own: those of the platform, whichever
/// of them the store is opened for, and those it is opened for.
pub(crate) fn moves(
    store: &str,
    applied: &[Applied],
    opened: &[&'static Migrations],
) -> Result<Vec<(&'static Migrations, &'static Former)>, Error> {
    let has = |version: &i64| applied.iter().any(|row| row.0 == FORMER && row.1 == *version);
    let mut moves = Vec::new();
    for part in with_needed(&[parts::ALL, opened].concat()) {
        let Some(former) = part.former.as_ref().filter(|former| former.versions.iter().any(has)) else {
            continue;
        };
        if !former.versions.iter().all(has) {
            let reason =
                format!("its tables of {} are of an early version that is not known any more", part.part);
            return Err(Error::Unprepared { store: store.to_owned(), reason });
        }
        moves.push((part, former));
    }
    Ok(moves)
}

/// Whether our columns are in `sync_outbox` already, by what was applied.
pub(crate) fn has_outbox(applied: &[Applied]) -> bool {
    let is_it =
        |row: &Applied| (row.0 == parts::OUTBOX.part && row.1 == 2) || (row.0 == FORMER && row.1 == 6);
    applied.iter().any(is_it)
}

/// The single statements of a step of nothing but indexes; `None` for any other step.
pub(crate) fn indexes(sql: &'static str) -> Option<Vec<&'static str>> {
    let bare = |statement: &'static str| {
        let mut rest = statement.trim();
        while rest.starts_with("--") {
            rest = rest.split_once('\n').map_or("", |(_, rest)| rest.trim_start());
        }
        rest
    };
    // A comment may have a semicolon, but no step of indexes has one inside a statement.
    let statements: Vec<&str> =
        sql.split(";\n").map(bare).filter(|statement| !statement.is_empty()).collect();
    let is_index = |statement: &&str| {
        ["CREATE INDEX", "CREATE UNIQUE INDEX", "DROP INDEX"].iter().any(|word| statement.starts_with(word))
    };
    (!statements.is_empty() && statements.iter().all(is_index)).then_some(statements)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn applied(rows: &[(&str, i64)]) -> Vec<Applied> {
        rows.iter().map(|(part, version)| ((*part).to_owned(), *version, "public".to_owned())).collect()
    }

    fn lacking(rows: &[(&str, i64)], wanted: &[&'static Migrations]) -> Vec<String> {
        let tasks = missing("s", &applied(rows), &with_needed(wanted)).unwrap();
        tasks.iter().map(|task| format!("{} {}", task.part.part, task.step.version)).collect()
    }

    #[test]
    fn hs_04_steps_are_counted_for_each_part() {
        for part in parts::ALL {
            let versions: Vec<i64> = part.steps.iter().map(|step| step.version).collect();
            assert_eq!(versions, (1..=part.newest()).collect::<Vec<_>>(), "{}", part.part);
        }
        assert_eq!(lacking(&[], &[&parts::LOCK]), ["lock 1", "lock 2"]);
        assert_eq!(lacking(&[("lock", 1)], &[&parts::LOCK]), ["lock 2"]);
        assert_eq!(lacking(&[("lock", 1), ("lock", 2)], &[&parts::LOCK]), [""; 0]);
        assert_eq!(
            lacking(&[("outbox", 1), ("kv", 1)], &[&parts::OUTBOX]),
            ["outbox 2", "outbox 3", "outbox 4", "outbox 5", "outbox 6"]
        );
        let newer = missing("s", &applied(&[("lock", 9)]), &[&parts::LOCK]).unwrap_err();
        let refused = Error::Newer { store: "s".to_owned(), part: "lock".to_owned(), found: 9, known: 2 };
        assert_eq!(newer, refused);
        assert_eq!(
            lacking(&[("lock", 9)], &[&parts::KV]),
            ["kv 1", "kv 2"],
            "another part's version is not ours to judge"
        );
    }

    #[test]
    fn hs_03_a_part_brings_what_it_needs_and_no_more() {
        assert_eq!(lacking(&[], &[&parts::SCHEDULE]), ["lock 1", "lock 2", "schedule 1", "schedule 2"]);
        assert_eq!(
            lacking(&[], &[&parts::INBOX]),
            ["outbox 1", "outbox 2", "outbox 3", "outbox 4", "outbox 5", "outbox 6", "inbox 1"]
        );
        assert_eq!(with_needed(parts::ALL).len(), parts::ALL.len());
    }

    #[test]
    fn hs_04_steps_of_the_common_count_are_recognised() {
        let moved = |rows: &[(&str, i64)]| {
            let moves = moves("s", &applied(rows), &[&parts::LOCK]).unwrap();
            moves.iter().map(|(part, _)| part.part).collect::<Vec<_>>()
        };
        let all: Vec<(&str, i64)> = (1..=16).map(|version| (FORMER, version)).collect();
        let former = parts::ALL.iter().filter(|part| part.former.is_some()).count();
        assert_eq!(moved(&all).len(), former, "whatever it is opened for");
        assert_eq!(moved(&[(FORMER, 5)]), ["lock"]);
        assert_eq!(moved(&[("lock", 1)]), [""; 0]);
        assert!(has_outbox(&applied(&[(FORMER, 6)])) && has_outbox(&applied(&[("outbox", 2)])));
        let half = moves("s", &applied(&[(FORMER, 6)]), &[]).unwrap_err();
        assert!(matches!(half, Error::Unprepared { .. }), "{half}");
    }

    #[test]
    fn hs_04_the_tables_of_a_part_are_those_that_its_steps_make() {
        let made = |part: &Migrations| part.made().map(|(_, name)| name).collect::<Vec<_>>();
        assert_eq!(made(&parts::LOCK), ["locks", "lock_floor"]);
        assert_eq!(made(&parts::OUTBOX), ["sync_outbox_sender", "sync_receipts", "sync_outbox_asleep"]);
        assert!(parts::INBOX.made().any(|made| made == (Kind::Sequence, "inbox_place")));
    }

    #[test]
    fn ss_34_a_step_of_indexes_alone_can_be_applied_while_others_write() {
        let online: Vec<String> = parts::ALL
            .iter()
            .flat_map(|part| part.steps.iter().map(move |step| (part, step)))
            .filter(|(_, step)| indexes(step.postgres).is_some())
            .map(|(part, step)| format!("{} {}", part.part, step.version))
            .collect();
        assert_eq!(online, ["queue 4", "outbox 3", "outbox 4"]);
        let statements = indexes(parts::OUTBOX.steps[2].postgres).unwrap();
        assert_eq!(statements.len(), 9);
        assert!(statements[0].starts_with("CREATE INDEX IF NOT EXISTS sync_outbox_ready ON sync_outbox"));
    }
}
