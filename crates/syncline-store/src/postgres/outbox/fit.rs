//! Which table the outbox is, and whether it can be used as it is. Said at the start, in words that name the mend: later it
//! would be a failure of every claim, or silence.

use super::super::Engine;
use crate::Error;
use crate::outbox::fit::{CONTRACT, OURS, missing_column, own_column};

/// The tables called `sync_outbox` where one would look for it: schema, kind, whether it is the one that statements mean, and
/// whether its schema is on the search path.
const TABLES: &str = "SELECT n.nspname::text, c.relkind::text, pg_table_is_visible(c.oid), \
     n.nspname = ANY(current_schemas(false)) FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace \
     WHERE c.relname = 'sync_outbox' AND c.relkind IN ('r', 'p', 'v', 'm', 'f') \
     AND (n.nspname = ANY(current_schemas(false)) OR n.nspname = 'public') ORDER BY 3 DESC, 1";
/// name, base type, whether NULL is refused, and whether an index makes it unique by itself.
const COLUMNS: &str = "SELECT a.attname::text, coalesce(nullif(t.typbasetype, 0), t.oid)::regtype::text, a.attnotnull, \
     EXISTS (SELECT FROM pg_index AS i WHERE i.indrelid = a.attrelid AND i.indisunique AND i.indisvalid \
     AND i.indpred IS NULL AND i.indnkeyatts = 1 AND i.indkey[0] = a.attnum) \
     FROM pg_attribute AS a JOIN pg_type AS t ON t.oid = a.atttypid \
     WHERE a.attrelid = to_regclass('sync_outbox') AND a.attnum > 0 AND NOT a.attisdropped";
/// The sequences that number the entries, if each connection takes several numbers from one at once: name and how many.
const BLOCKS: &str = "SELECT s.seqrelid::regclass::text, s.seqcache FROM pg_sequence AS s WHERE s.seqcache > 1 AND s.seqrelid IN ( \
     SELECT d.objid FROM pg_depend AS d JOIN pg_attribute AS a ON a.attrelid = d.refobjid AND a.attnum = d.refobjsubid \
     WHERE d.classid = 'pg_class'::regclass AND d.refclassid = 'pg_class'::regclass AND d.deptype IN ('a', 'i') \
     AND d.refobjid = to_regclass('sync_outbox') AND a.attname = 'id' UNION ALL \
     SELECT d.refobjid FROM pg_attrdef AS f JOIN pg_attribute AS a ON a.attrelid = f.adrelid AND a.attnum = f.adnum \
     JOIN pg_depend AS d ON d.classid = 'pg_attrdef'::regclass AND d.objid = f.oid AND d.refclassid = 'pg_class'::regclass \
     WHERE f.adrelid = to_regclass('sync_outbox') AND a.attname = 'id')";
/// Our trigger is made together with our columns: the schema of its function, and whether a Syncline has its tables there.
const ANNOUNCES: &str = "SELECT n.nspname::text, EXISTS (SELECT FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid \
     WHERE c.relnamespace = n.oid AND c.relname = 'migrations' AND a.attname = 'part') \
     FROM pg_trigger AS t JOIN pg_proc AS p ON p.oid = t.tgfoid JOIN pg_namespace AS n ON n.oid = p.pronamespace \
     WHERE t.tgrelid = to_regclass('sync_outbox') AND t.tgname = 'sync_outbox_announce'";

const NUMBERS: [&str; 4] = ["smallint", "integer", "bigint", "numeric"];
const TIMES: [&str; 3] = ["timestamp with time zone", "timestamp without time zone", "date"];

/// An error unless the table, if there is one, can be used. `taken_over` tells that its columns were added and recorded.
pub(in crate::postgres) async fn check(engine: &Engine, taken_over: bool) -> Result<(), Error> {
    let mut session = engine.transaction().await?;
    let tables: Vec<(String, String, bool, bool)> = session.all(engine.query(TABLES)).await?;
    let columns: Vec<Column> = session.all(engine.query(COLUMNS)).await?;
    let announces: Option<(String, bool)> = session.first(engine.query(ANNOUNCES)).await?;
    let blocks: Option<(String, i64)> = session.first(engine.query(BLOCKS)).await?;
    session.commit().await?;
    let unfit = |reason| Error::Unfit { store: engine.name().to_owned(), reason };
    let Some(kind) = which(&tables).map_err(unfit)? else { return Ok(()) };
    if let Some((schema, true)) = &announces
        && schema != engine.schema().as_str()
    {
        let reason =
            format!("it belongs to a Syncline in the schema {schema}; use that schema, or another table");
        return Err(unfit(reason));
    }
    match shape(kind, &columns, taken_over || announces.is_some()).or(blocks.map(in_blocks)) {
        Some(reason) => Err(unfit(reason)),
        None => Ok(()),
    }
}

type Column = (String, String, bool, bool);

/// The kind of the table that statements mean; an error where it may not be the one that the application means.
fn which(tables: &[(String, String, bool, bool)]) -> Result<Option<&str>, String> {
    let on_path: Vec<&str> = tables.iter().filter(|table| table.3).map(|table| table.0.as_str()).collect();
    match (tables, on_path.as_slice()) {
        ([], _) => Ok(None),
        ([(schema, ..), ..], []) => Err(format!(
            "the table is in the schema {schema}, which is not on the search path of this role; add \
             ?options[search_path]={schema} to the address"
        )),
        (_, [used, others @ ..]) if !others.is_empty() => Err(format!(
            "there are several on the search path, in the schemas {used} and {}; drop the one that the application does not \
             write to, or name the other's schema with ?options[search_path]= in the address",
            others.join(", ")
        )),
        _ => Ok(tables.iter().find(|table| table.2).map(|table| table.1.as_str())),
    }
}

/// Entries of one entity go out in the order of their numbers, and a receiver takes a lower one that comes later for an older change.
fn in_blocks((sequence, numbers): (String, i64)) -> String {
    format!(
        "its numbers come from {sequence}, of which each connection takes {numbers} at once (CACHE {numbers}), so that a later \
         change can have a lower number; run ALTER SEQUENCE {sequence} CACHE 1 and restart the application"
    )
}

/// What is wrong with the table.
fn shape(kind: &str, columns: &[Column], taken_over: bool) -> Option<String> {
    match kind {
        "r" => {}
        "p" => return Some("it is partitioned; make it a plain table".to_owned()),
        _ => {
            return Some(
                "it is no table but a view or a foreign one; entries are marked in the table itself"
                    .to_owned(),
            );
        }
    }
    let named = |name: &str| columns.iter().find(|column| column.0 == name);
    if let Some(name) = CONTRACT.into_iter().find(|name| named(name).is_none()) {
        return Some(missing_column(name));
    }
    if let Some(name) = OURS.into_iter().find(|name| !taken_over && named(name).is_some()) {
        return Some(own_column(name));
    }
    let (_, kind, not_null, unique) = named("id")?;
    if !NUMBERS.contains(&kind.as_str()) {
        return Some(format!("its id is of the type {kind}; entries are numbered: make it a bigserial"));
    }
    if !not_null || !unique {
        return Some("its id is not unique and NOT NULL; make it the primary key".to_owned());
    }
    for name in ["created_at", "processed_at"] {
        let (_, kind, ..) = named(name)?;
        if !TIMES.contains(&kind.as_str()) {
            return Some(format!("its {name} is of the type {kind}; make it a timestamptz"));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(schema: &str, visible: bool, on_path: bool) -> (String, String, bool, bool) {
        (schema.to_owned(), "r".to_owned(), visible, on_path)
    }

    #[test]
    fn ss_34_the_table_is_the_only_one_that_can_be_meant() {
        assert_eq!(which(&[]).unwrap(), None);
        assert_eq!(which(&[table("public", true, true)]).unwrap(), Some("r"));
        assert_eq!(which(&[table("box", true, true), table("public", false, false)]).unwrap(), Some("r"));
        let two = which(&[table("box", true, true), table("public", false, true)]).unwrap_err();
        assert!(two.contains("box and public"), "{two}");
        let elsewhere = which(&[table("public", false, false)]).unwrap_err();
        assert!(elsewhere.contains("options[search_path]=public"), "{elsewhere}");
    }
}
