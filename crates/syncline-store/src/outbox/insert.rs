//! Putting entries into the outbox, in a transaction of ours or of the application's.

use sqlx::PgConnection;
use syncline_core::outbox::Moment;

use super::{NewEntry, check};
use crate::database::{Transaction, values};
use crate::postgres::outbox::sql as postgres;
use crate::sqlite::outbox::sql as sqlite;
use crate::{Backend, Error};

/// Inserts entries and gives their numbers.
pub(crate) async fn insert(
    transaction: &mut Transaction<'_>,
    entries: Vec<NewEntry>,
) -> Result<Vec<i64>, Error> {
    if transaction.backend() == Backend::Postgres {
        return transaction.column(postgres::INSERT.into(), &values![as_documents(&entries)]).await;
    }
    transaction.execute(sqlite::INSERT, &values![as_rows(&entries)]).await?;
    let count = i64::try_from(entries.len()).unwrap_or(0);
    let mut ids: Vec<i64> = transaction.column(sqlite::LAST.into(), &values![count]).await?;
    ids.reverse();
    Ok(ids)
}

/// Inserts an entry that is to have this time, and gives its number.
pub(crate) async fn insert_at(
    transaction: &mut Transaction<'_>,
    entry: &NewEntry,
    at: Moment,
) -> Result<i64, Error> {
    let NewEntry { entity_type, entity_id, payload } = entry;
    if transaction.backend() == Backend::Postgres {
        let document = format!(
            r#"{{"entity_type":{},"entity_id":{},"payload":{payload},"created_at":"{at}"}}"#,
            quoted(entity_type),
            quoted(entity_id)
        );
        return transaction.value(postgres::INSERT_AT, &values![document]).await;
    }
    let values = values![entity_type, entity_id, payload, at.to_string()];
    transaction.execute(sqlite::INSERT_AT, &values).await?;
    transaction.value(sqlite::LAST, &values![1_i64]).await
}

/// Inserts an entry in the caller's open transaction, so that it is committed with the caller's own rows or not at all.
///
/// ```no_run
/// # fn example(mut database: rusqlite::Connection) -> Result<(), Box<dyn std::error::Error>> {
/// use syncline_store::outbox::{NewEntry, enqueue_in};
///
/// let transaction = database.transaction()?;
/// transaction.execute("INSERT INTO orders (id) VALUES ('o1')", [])?;
/// let entry = NewEntry {
///     entity_type: "order".to_owned(),
///     entity_id: "o1".to_owned(),
///     payload: r#"{"id":"o1"}"#.to_owned(),
/// };
/// enqueue_in(&transaction, &entry)?;
/// transaction.commit()?;
/// # Ok(())
/// # }
/// ```
pub fn enqueue_in(connection: &rusqlite::Connection, entry: &NewEntry) -> Result<i64, Error> {
    let entries = std::slice::from_ref(entry);
    check::new_entries(entries)?;
    // The number is the last one: one that was given before is replaced by the table's trigger, after the statement's own answer.
    let inserted = connection
        .execute(sqlite::INSERT, [as_rows(entries)])
        .and_then(|_| connection.query_row(sqlite::LAST, [1], |row| row.get(0)));
    inserted.map_err(|error| Error::sqlite("sqlite", &error))
}

/// The same on PostgreSQL.
///
/// ```no_run
/// # async fn example(mut database: sqlx::PgConnection) -> Result<(), Box<dyn std::error::Error>> {
/// # let entry = syncline_store::outbox::NewEntry { entity_type: "order".to_owned(), entity_id: "o1".to_owned(), payload: "{}".to_owned() };
/// use sqlx::Connection;
/// use syncline_store::outbox::enqueue_in_postgres;
///
/// let mut transaction = database.begin().await?;
/// sqlx::query("INSERT INTO orders (id) VALUES ('o1')").execute(&mut *transaction).await?;
/// enqueue_in_postgres(&mut transaction, &entry).await?;
/// transaction.commit().await?;
/// # Ok(())
/// # }
/// ```
pub async fn enqueue_in_postgres(connection: &mut PgConnection, entry: &NewEntry) -> Result<i64, Error> {
    let entries = std::slice::from_ref(entry);
    check::new_entries(entries)?;
    let insert = sqlx::query_scalar(postgres::INSERT).bind(as_documents(entries));
    insert.fetch_one(connection).await.map_err(|error| Error::postgres("postgres", &error))
}

fn as_rows(entries: &[NewEntry]) -> String {
    let rows: Vec<_> =
        entries.iter().map(|entry| (&entry.entity_type, &entry.entity_id, &entry.payload)).collect();
    serde_json::to_string(&rows).expect("text has a JSON")
}

/// Entries as one JSON document: the server makes of each value what the column's type is, whichever that is.
fn as_documents(entries: &[NewEntry]) -> String {
    let one = |entry: &NewEntry| {
        let (entity_type, entity_id) = (quoted(&entry.entity_type), quoted(&entry.entity_id));
        format!(r#"{{"entity_type":{entity_type},"entity_id":{entity_id},"payload":{}}}"#, entry.payload)
    };
    format!("[{}]", entries.iter().map(one).collect::<Vec<_>>().join(","))
}

fn quoted(text: &str) -> String {
    serde_json::to_string(text).expect("text has a JSON")
}
