//! The inbox on every engine. Its statements are in `sql/inbox.*.sql`; those that name the table of a type are made from checked
//! types when the inbox is opened.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use syncline_core::outbox::{EntityType, EntryResult, Moment, SenderId};

use super::batch::{Batch, Rows};
use super::row::{self, EntityRow};
use super::{Arrival, Entity, Inbox, LIST_BYTES_MAX, ListCursor, Put};
use crate::database::{Database, Sql, Transaction, statements, values};
use crate::outbox::wakes::Wakes;
use crate::outbox::{self, NewEntry, check};
use crate::{Backend, Error, names};

statements!("inbox":
    CREATE, CREATE_INDEX, NUMBER, DIGESTS, FORGET, WRITE, SAME, SEEN, PUT, SET_ENTRY, ENTITY, LIST);

/// The inbox port.
#[derive(Debug)]
pub(crate) struct Port {
    database: Database,
    types: Arc<[EntityType]>,
    tables: Arc<HashMap<String, Table>>,
    /// Who hears of new entries of the outbox.
    outbox: Arc<Wakes>,
}

/// What is said about the table of one type.
#[derive(Debug)]
pub(crate) struct Table {
    /// In the order in which they are to be run.
    pub(crate) create: [Sql; 2],
    write: Sql,
    same: Sql,
    seen: Sql,
    put: Sql,
    set_entry: Sql,
    entity: Sql,
    list: Sql,
}

impl Table {
    /// The only place where a name becomes part of a statement, and it is a checked one.
    pub(crate) fn of(kind: &EntityType) -> Self {
        let named = |sql: Sql| names::for_type(sql, kind);
        Self {
            create: [named(CREATE), named(CREATE_INDEX)],
            write: named(WRITE),
            same: named(SAME),
            seen: named(SEEN),
            put: named(PUT),
            set_entry: named(SET_ENTRY),
            entity: named(ENTITY),
            list: named(LIST),
        }
    }
}

/// Creates the tables that are missing, where one process at a time can change a table's shape.
pub(crate) async fn create_tables(database: &Database, types: &[EntityType]) -> Result<(), Error> {
    let create: Vec<Sql> = types.iter().flat_map(|kind| Table::of(kind).create).collect();
    database
        .write(move |transaction| {
            Box::pin(async move {
                for sql in create {
                    transaction.script(sql).await?;
                }
                Ok(())
            })
        })
        .await
}

impl Port {
    /// The inbox on a database that has the tables of `types` already.
    pub(crate) fn new(database: Database, types: &[EntityType], outbox: Arc<Wakes>) -> Self {
        let tables = types.iter().map(|kind| (kind.as_str().to_owned(), Table::of(kind))).collect();
        Self { database, types: types.into(), tables: Arc::new(tables), outbox }
    }

    fn table(&self, entity_type: &EntityType) -> Result<&Table, Error> {
        self.tables.get(entity_type.as_str()).ok_or_else(|| row::unknown_type(entity_type))
    }
}

#[async_trait]
impl Inbox for Port {
    fn types(&self) -> &[EntityType] {
        &self.types
    }

    async fn apply(
        &self,
        sender: Option<&SenderId>,
        arrivals: &[Arrival],
    ) -> Result<Vec<EntryResult>, Error> {
        let batch = Batch::new(sender.cloned(), arrivals.to_vec(), &self.types)?;
        let tables = Arc::clone(&self.tables);
        self.database.write(move |transaction| Box::pin(apply(transaction, batch, tables))).await
    }

    async fn put(
        &self,
        entity_type: &EntityType,
        id: &str,
        payload: &str,
        expected: Option<Moment>,
    ) -> Result<Put, Error> {
        self.table(entity_type)?;
        let entry = NewEntry {
            entity_type: entity_type.as_str().to_owned(),
            entity_id: id.to_owned(),
            payload: payload.to_owned(),
        };
        check::new_entries(std::slice::from_ref(&entry))?;
        let tables = Arc::clone(&self.tables);
        let put = self.database.write(move |transaction| Box::pin(put(transaction, tables, entry, expected)));
        let put = put.await?;
        self.outbox.wake();
        Ok(put)
    }

    async fn entity(&self, entity_type: &EntityType, id: &str) -> Result<Option<Entity>, Error> {
        let row: Option<EntityRow> =
            self.database.query_first(self.table(entity_type)?.entity, values![id]).await?;
        Ok(row.map(row::entity))
    }

    async fn entities(
        &self,
        entity_type: &EntityType,
        after: Option<ListCursor>,
        limit: usize,
    ) -> Result<Vec<Entity>, Error> {
        let list = values![after.unwrap_or(i64::MAX), row::check_list(limit)?, LIST_BYTES_MAX as i64];
        let rows: Vec<EntityRow> = self.database.query(self.table(entity_type)?.list, list).await?;
        Ok(rows.into_iter().map(row::entity).collect())
    }

    async fn forget(&self, older_than: Duration, limit: usize) -> Result<u64, Error> {
        let limit = check::count("entries", limit)?;
        let older_than_ms = i64::try_from(older_than.as_millis()).unwrap_or(i64::MAX / 2);
        self.database.execute(FORGET, values![older_than_ms, limit]).await
    }
}

async fn apply(
    transaction: &mut Transaction<'_>,
    mut batch: Batch,
    tables: Arc<HashMap<String, Table>>,
) -> Result<Vec<EntryResult>, Error> {
    let sender = batch.sender().to_owned();
    let given = batch.numbers().unwrap_or_default();
    let new = number(transaction, &sender, &given.entries, given.digests).await?;
    if new.len() < given.entries.len() {
        let old: Vec<i64> = given.entries.into_iter().filter(|entry| !new.contains(entry)).collect();
        let known: Vec<(i64, i64)> = transaction.query(DIGESTS, &values![&sender, old]).await?;
        batch.known_before(&known);
    }
    for (entity_type, rows) in batch.rows() {
        let (written, same) = write(transaction, &tables[&entity_type], rows, &sender).await?;
        batch.written(&entity_type, &written, &same);
    }
    Ok(batch.results())
}

/// Takes note of numbers; gives those that are new.
async fn number(
    transaction: &mut Transaction<'_>,
    sender: &str,
    entries: &[i64],
    digests: Vec<i64>,
) -> Result<HashSet<i64>, Error> {
    if entries.is_empty() {
        return Ok(HashSet::new());
    }
    let values = match transaction.backend() {
        Backend::Postgres => values![sender, entries.to_vec(), digests],
        Backend::Sqlite => values![sender, json(&entries.iter().zip(digests).collect::<Vec<_>>())],
    };
    Ok(transaction.column(NUMBER, &values).await?.into_iter().collect())
}

/// Writes the rows of one type: the ids that were written, and those that were there just so.
async fn write(
    transaction: &mut Transaction<'_>,
    table: &Table,
    rows: Rows,
    sender: &str,
) -> Result<(Vec<String>, Vec<String>), Error> {
    let Rows { ids, payloads, entries, changed_us } = rows;
    let as_columns = transaction.backend() == Backend::Postgres;
    let write = match as_columns {
        true => values![sender, ids.clone(), payloads, entries, changed_us.clone()],
        false => {
            let rows = (ids.iter().zip(&payloads)).zip(entries.iter().zip(&changed_us));
            let rows: Vec<_> = rows.map(|((id, payload), (entry, us))| (id, payload, entry, us)).collect();
            values![sender, json(&rows)]
        }
    };
    let written: Vec<String> = transaction.column(table.write, &write).await?;
    if written.len() == ids.len() {
        return Ok((written, Vec::new()));
    }
    let same = match as_columns {
        true => values![sender, ids, changed_us],
        false => values![sender, json(&ids.iter().zip(&changed_us).collect::<Vec<_>>())],
    };
    Ok((written, transaction.column(table.same, &same).await?))
}

/// Writes an entity and its entry in the outbox.
async fn put(
    transaction: &mut Transaction<'_>,
    tables: Arc<HashMap<String, Table>>,
    entry: NewEntry,
    expected: Option<Moment>,
) -> Result<Put, Error> {
    let table = &tables[&entry.entity_type];
    let id = &entry.entity_id;
    if let Some(expected) = expected {
        let seen: Option<(i64,)> = transaction.query_first(table.seen, &values![id]).await?;
        if let Some(changed_at) = row::other(seen, expected) {
            return Ok(Put::Changed(changed_at));
        }
    }
    let written: Option<EntityRow> = transaction.query_first(table.put, &values![id, &entry.payload]).await?;
    let written = written.ok_or_else(|| Error::invalid("entity", "could not be written"))?;
    let entity = row::entity(written);
    let number = outbox::insert_at(transaction, &entry, entity.changed_at).await?;
    transaction.execute(table.set_entry, &values![id, number]).await?;
    Ok(Put::Done(entity))
}

fn json<T: serde::Serialize + ?Sized>(rows: &T) -> String {
    serde_json::to_string(rows).expect("numbers and text have a JSON")
}
