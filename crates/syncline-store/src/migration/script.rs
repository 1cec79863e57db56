//! The steps as a script, for a database administrator who applies them by hand.

use crate::names::{self, Schema};
use crate::{Backend, Error, migration};

use super::{CREATE_TABLE, Migrations, with_needed};

const HEAD: &str = "\
-- Makes the tables of Syncline for: {parts}.
-- Everything of ours is {place}; only sync_outbox is the application's and stays where it is.
-- Nothing of the application's is altered but what is said at its step.
";

/// The SQL that makes the tables of `parts` and remembers that it did, for `psql` or `sqlite3` to run as it is.
///
/// One transaction. On PostgreSQL it can be repeated; on SQLite only where it does not add columns to `sync_outbox`, because
/// SQLite cannot add a column unless it is missing. It is for databases that have no tables of ours yet, or those of the
/// versions before the newest; tables from before parts were counted on their own are moved by `syncline migrate` alone.
pub fn migration_sql(backend: Backend, schema: &str, parts: &[&'static Migrations]) -> Result<String, Error> {
    let schema = Schema::new(schema)?;
    let parts = with_needed(parts);
    let names: Vec<&str> = parts.iter().map(|part| part.part).collect();
    let (place, begin, now_ms) = match backend {
        Backend::Sqlite => {
            ("behind the prefix syncline_".to_owned(), "BEGIN IMMEDIATE;\n", "unixepoch() * 1000")
        }
        Backend::Postgres => (
            format!("in the schema {}", schema.as_str()),
            "BEGIN;\n",
            "(extract(epoch FROM clock_timestamp()) * 1000)::bigint",
        ),
    };
    let mut sql = HEAD.replace("{parts}", &names.join(", ")).replace("{place}", &place);
    sql.push_str(begin);
    match backend {
        Backend::Postgres => sql.push_str(&format!("CREATE SCHEMA IF NOT EXISTS {};\n", schema.quoted())),
        Backend::Sqlite => sql.push_str(&format!("{};\n", crate::sqlite::CREATE_CLOCK)),
    }
    sql.push_str(&format!("{CREATE_TABLE};\n"));
    for part in parts {
        for step in part.steps {
            let statements = match backend {
                Backend::Sqlite => step.sqlite,
                Backend::Postgres => step.postgres,
            };
            sql.push_str(&format!("\n-- Part {}, step {}: {}.\n", part.part, step.version, step.name));
            if backend == Backend::Postgres && migration::indexes(statements).is_some() {
                sql.push_str(
                    "-- Who writes to the table waits while these are built. Where it is large, build them before, outside \
                     of\n-- this transaction and with CREATE INDEX CONCURRENTLY; they are then found and left as they are.\n",
                );
            }
            sql.push_str(&format!(
                "{}\nINSERT INTO syncline.migrations (part, version, name, applied_at) \
                 VALUES ('{}', {}, '{}', {now_ms}) ON CONFLICT DO NOTHING;\n",
                statements.trim_end(),
                part.part,
                step.version,
                step.name.replace('\'', "''"),
            ));
        }
    }
    sql.push_str("\nCOMMIT;\n");
    Ok(match backend {
        Backend::Sqlite => names::on_sqlite(&sql),
        Backend::Postgres => schema.apply(&sql),
    })
}
