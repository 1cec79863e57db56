//! Whether an application's `sync_outbox` can be used as it is. Said at the start, in words that name the mend: later it would
//! be a failure of every claim.

use rusqlite::{Connection, OptionalExtension};

use super::super::prepare;
use crate::Error;
use crate::outbox::fit::{CONTRACT, missing_column};

const KIND: &str = "SELECT type FROM sqlite_schema WHERE name = 'sync_outbox' COLLATE NOCASE \
     AND type IN ('table', 'view')";
/// name, declared type, NOT NULL, place in the primary key.
const COLUMNS: &str = "SELECT name, upper(type), \"notnull\", pk FROM pragma_table_info('sync_outbox')";
const WITHOUT_ROWID: &str = "SELECT coalesce(max(wr), 0) FROM pragma_table_list('sync_outbox')";

/// No table at all is fine: it will be made.
pub(in crate::sqlite) fn check(store: &str, connection: &Connection) -> Result<(), Error> {
    let failed = |error| Error::sqlite(store, &error);
    let unfit = |reason: String| Err(Error::Unfit { store: store.to_owned(), reason });
    let kind: Option<String> = connection.query_row(KIND, [], |row| row.get(0)).optional().map_err(failed)?;
    match kind.as_deref() {
        None => return Ok(()),
        Some("table") => {}
        Some(_) => return unfit("it is a view; entries are marked in the table itself".to_owned()),
    }
    let columns: Vec<(String, String, bool, i64)> =
        prepare::all(connection, COLUMNS, [], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))
            .map_err(failed)?;
    let named = |name: &str| columns.iter().find(|column| column.0.eq_ignore_ascii_case(name));
    if let Some(name) = CONTRACT.into_iter().find(|name| named(name).is_none()) {
        return unfit(missing_column(name));
    }
    let without_rowid: bool = connection.query_row(WITHOUT_ROWID, [], |row| row.get(0)).map_err(failed)?;
    let keys = columns.iter().filter(|column| column.3 > 0).count();
    let (_, declared, not_null, key) = named("id").expect("it is one of the contract's");
    let numbered = !without_rowid && keys == 1 && *key == 1 && declared == "INTEGER";
    if !numbered && (keys != 1 || *key != 1) {
        return unfit(
            "id is not its primary key; declare it as `id INTEGER PRIMARY KEY AUTOINCREMENT`".to_owned(),
        );
    }
    if !numbered && !not_null && !without_rowid {
        return unfit(format!(
            "its id is declared as `{declared}`, to which SQLite gives no numbers, so that ids are NULL; declare it as \
             `id INTEGER PRIMARY KEY AUTOINCREMENT`"
        ));
    }
    Ok(())
}
