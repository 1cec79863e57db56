//! What is there and what this role may do with it, found out without changing anything.
//!
//! A role that may neither create nor alter is enough once the tables are there: it needs `USAGE` of our schema and the four
//! rights of rows on our tables and on `sync_outbox`. What it lacks is named with the statement that grants it.

use super::Engine;
use crate::migration::{Applied, FORMER, Former, Kind, READ_APPLIED};
use crate::options::Opening;
use crate::{Error, parts};

/// Whether our schema is there, and whether it may be used.
const SCHEMA: &str = "SELECT has_schema_privilege(oid, 'USAGE') FROM pg_namespace WHERE nspname = $1";
/// The schema in which all steps were counted together, before each part had its own count.
const FORMER_SCHEMA: &str = "SELECT n.nspname::text FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace \
     WHERE c.oid = to_regclass('syncline_migrations') AND NOT EXISTS (SELECT FROM pg_attribute AS a \
     WHERE a.attrelid = c.oid AND a.attname = 'part' AND NOT a.attisdropped)";
const READ_FORMER: &str = "SELECT 'before parts', version, '' FROM syncline_migrations ORDER BY version";
/// Tables that are not there, or that this role may not use.
const LACKING: &str = "SELECT wanted.name, to_regclass(wanted.name) IS NOT NULL, quote_ident(current_user) \
     FROM unnest($1::text[]) AS wanted (name) WHERE to_regclass(wanted.name) IS NULL \
     OR NOT (has_table_privilege(to_regclass(wanted.name), 'SELECT') AND has_table_privilege(to_regclass(wanted.name), 'INSERT') \
     AND has_table_privilege(to_regclass(wanted.name), 'UPDATE') AND has_table_privilege(to_regclass(wanted.name), 'DELETE'))";
/// Whether changes of our own are inserted. Whether this role may do with `sync_outbox` what a worker does.
const MAY_SEND: &str = "SELECT has_table_privilege(to_regclass('sync_outbox'), 'SELECT') \
     AND has_table_privilege(to_regclass('sync_outbox'), 'UPDATE') AND has_table_privilege(to_regclass('sync_outbox'), 'DELETE') \
     AND (NOT $1 OR has_table_privilege(to_regclass('sync_outbox'), 'INSERT')), quote_ident(current_user)";
/// Our functions use it as their owner.
const OF_FUNCTIONS: [&str; 1] = ["sync_outbox_asleep"];
const LACKING_SEQUENCES: &str = "SELECT wanted.name, to_regclass(wanted.name) IS NOT NULL, quote_ident(current_user) \
     FROM unnest($1::text[]) AS wanted (name) WHERE to_regclass(wanted.name) IS NULL \
     OR NOT has_sequence_privilege(to_regclass(wanted.name), 'USAGE')";

/// What was found.
#[derive(Debug)]
pub(super) struct Found {
    /// Whether our schema is there.
    pub(super) schema: bool,
    pub(super) applied: Vec<Applied>,
    /// Where steps are still counted together.
    pub(super) former: Option<String>,
}

impl Found {
    /// Where the tables of a part from before are.
    pub(super) fn tables_were_in(&self, former: &Former) -> &str {
        if let Some(schema) = &self.former {
            return schema;
        }
        let first = former.versions.first().copied().unwrap_or_default();
        let row = self.applied.iter().find(|row| row.0 == FORMER && row.1 == first);
        row.map_or("public", |row| row.2.as_str())
    }
}

/// Reads what was applied, without a lock and without the right to create anything.
pub(super) async fn find(engine: &Engine) -> Result<Found, Error> {
    let mut session = engine.transaction().await?;
    let denied = |reason| Error::Denied { store: engine.name().to_owned(), reason };
    let encoding: String = session.value(engine.query("SHOW server_encoding")).await?;
    if encoding != "UTF8" {
        return Err(denied(format!("the database's encoding is {encoding}; it must be UTF8")));
    }
    let schema = engine.query(SCHEMA).bind(engine.schema().as_str().to_owned());
    let usable: Option<(bool,)> = session.first(schema).await?;
    if usable == Some((false,)) {
        let user: String = session.value(engine.query("SELECT quote_ident(current_user)")).await?;
        let quoted = engine.schema().quoted();
        return Err(denied(format!(
            "the role may not use our schema: GRANT USAGE ON SCHEMA {quoted} TO {user}"
        )));
    }
    let mut applied: Vec<Applied> = Vec::new();
    if usable.is_some()
        && session.value(engine.query("SELECT to_regclass('syncline.migrations') IS NOT NULL")).await?
    {
        let readable = "SELECT has_table_privilege(to_regclass('syncline.migrations'), 'SELECT')";
        if !session.value::<bool>(engine.query(readable)).await? {
            let user: String = session.value(engine.query("SELECT quote_ident(current_user)")).await?;
            return Err(denied(grant("SELECT", &engine.schema().apply("syncline.migrations"), &user)));
        }
        applied = session.all(engine.query(READ_APPLIED)).await?;
    }
    let former: Option<(String,)> = session.first(engine.query(FORMER_SCHEMA)).await?;
    if former.is_some() {
        applied.extend(session.all::<Applied>(engine.query(READ_FORMER)).await?);
    }
    session.commit().await?;
    Ok(Found { schema: usable.is_some(), applied, former: former.map(|(schema,)| schema) })
}

/// An error that names what this role lacks, and how it is granted.
pub(super) async fn check(engine: &Engine, opening: &Opening) -> Result<(), Error> {
    let made = |kind: Kind| {
        let ours = opening
            .parts
            .iter()
            .flat_map(|part| part.made())
            .filter(move |(made, name)| *made == kind && !OF_FUNCTIONS.contains(name));
        ours.map(|(_, name)| engine.schema().apply(&format!("syncline.{name}"))).collect::<Vec<_>>()
    };
    let (tables, sequences) = (made(Kind::Table), made(Kind::Sequence));
    let mut session = engine.transaction().await?;
    let mut lacking: Vec<String> = Vec::new();
    if opening.has(&parts::OUTBOX) {
        let inserts = opening.has(&parts::INBOX);
        let (may, user): (bool, String) = session.only(engine.query(MAY_SEND).bind(inserts)).await?;
        let rights = if inserts { "SELECT, INSERT, UPDATE, DELETE" } else { "SELECT, UPDATE, DELETE" };
        lacking.extend((!may).then(|| grant(rights, "sync_outbox", &user)));
    }
    let tables: Vec<(String, bool, String)> = session.all(engine.query(LACKING).bind(tables)).await?;
    let sequences: Vec<(String, bool, String)> =
        session.all(engine.query(LACKING_SEQUENCES).bind(sequences)).await?;
    session.commit().await?;
    if let Some((name, ..)) = tables.iter().chain(&sequences).find(|row| !row.1) {
        let reason = format!("there is no table {name}, although it was made once");
        return Err(Error::Unprepared { store: engine.name().to_owned(), reason });
    }
    let tables = tables.iter().map(|(name, _, user)| grant("SELECT, INSERT, UPDATE, DELETE", name, user));
    let sequences = sequences.iter().map(|(name, _, user)| grant("USAGE", &format!("SEQUENCE {name}"), user));
    lacking.extend(tables.chain(sequences));
    match lacking.is_empty() {
        true => Ok(()),
        false => {
            let reason = format!("the role lacks rights: {}", lacking.join("; "));
            Err(Error::Denied { store: engine.name().to_owned(), reason })
        }
    }
}

fn grant(rights: &str, name: &str, user: &str) -> String {
    format!("GRANT {rights} ON {name} TO {user}")
}
