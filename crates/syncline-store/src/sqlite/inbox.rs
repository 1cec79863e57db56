//! The inbox on SQLite. A batch is a statement for its numbers and one for each type in it; many rows go in as one JSON
//! array. Statements that name a table are built from checked types when the inbox is opened.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use sqlx::AssertSqlSafe;
use sqlx::sqlite::SqliteConnection;
use syncline_core::outbox::{EntityType, EntryResult, Moment, SenderId};

use super::outbox::sql::{LAST, microseconds};
use super::{Engine, statement};

use crate::inbox::batch::{Batch, Rows};
use crate::inbox::row::{self, EntityRow};
use crate::inbox::{Arrival, Entity, Inbox, LIST_BYTES_MAX, ListCursor, Put};
use crate::outbox::check;
use crate::{Error, names};

const OWN_SENDER: &str = "SELECT sender FROM syncline.sync_outbox_sender";
/// sender, pairs of number and digest, now. Gives the numbers that are new.
const NUMBER: &str = "INSERT INTO syncline.inbox_entries (sender, entry, digest, received_at) \
     SELECT $1, value ->> 0, value ->> 1, $3 FROM json_each($2) WHERE true \
     ON CONFLICT (sender, entry) DO NOTHING RETURNING entry";
const DIGESTS: &str = "SELECT i.entry, i.digest FROM json_each($2) AS asked CROSS JOIN syncline.inbox_entries AS i \
     WHERE i.sender = $1 AND i.entry = asked.value";
const ENQUEUE: &str = "INSERT INTO sync_outbox (entity_type, entity_id, payload, created_at) \
     VALUES ($1, $2, $3, $4)";
const FORGET: &str = "DELETE FROM syncline.inbox_entries WHERE (sender, entry) IN (SELECT sender, entry FROM syncline.inbox_entries \
     INDEXED BY syncline.inbox_entries_received WHERE received_at < $1 ORDER BY received_at LIMIT $2)";

/// The inbox port on SQLite.
#[derive(Debug)]
pub(crate) struct SqliteInbox {
    engine: Engine,
    types: Arc<[EntityType]>,
    tables: Arc<HashMap<String, Table>>,
}

/// What is said about the table of one type.
#[derive(Debug)]
struct Table {
    create: Arc<str>,
    last: Arc<str>,
    write: Arc<str>,
    same: Arc<str>,
    newest: Arc<str>,
    seen: Arc<str>,
    put: Arc<str>,
    entity: Arc<str>,
    list: Arc<str>,
}

impl SqliteInbox {
    /// Opens the inbox and creates the tables that are missing.
    pub(crate) async fn open(engine: Engine, types: &[EntityType]) -> Result<Self, Error> {
        row::check_types(types)?;
        let tables: HashMap<String, Table> =
            types.iter().map(|kind| (kind.as_str().to_owned(), Table::of(kind))).collect();
        let create: Vec<Arc<str>> = tables.values().map(|table| Arc::clone(&table.create)).collect();
        let created = engine.write(|connection| {
            Box::pin(async move {
                for sql in create {
                    sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut *connection).await?;
                }
                Ok(())
            })
        });
        created.await?;
        Ok(Self { engine, types: types.into(), tables: Arc::new(tables) })
    }

    fn table(&self, entity_type: &EntityType) -> Result<&Table, Error> {
        self.tables.get(entity_type.as_str()).ok_or_else(|| row::unknown_type(entity_type))
    }
}

#[async_trait]
impl Inbox for SqliteInbox {
    fn types(&self) -> &[EntityType] {
        &self.types
    }

    async fn apply(
        &self,
        sender: Option<&SenderId>,
        arrivals: &[Arrival],
    ) -> Result<Vec<EntryResult>, Error> {
        Batch::new(sender, arrivals, &self.types)?;
        let (sender, arrivals) = (sender.cloned(), arrivals.to_vec());
        let (tables, types) = (Arc::clone(&self.tables), Arc::clone(&self.types));
        let clock = self.engine.clock().clone();
        let applied = self.engine.write(move |connection| {
            Box::pin(async move {
                let Ok(batch) = Batch::new(sender.as_ref(), &arrivals, &types) else { return Ok(Vec::new()) };
                let name = sender.as_ref().map_or("", SenderId::as_str);
                apply(connection, batch, &tables, name, clock.wall_ms()).await
            })
        });
        applied.await
    }

    async fn put(
        &self,
        entity_type: &EntityType,
        id: &str,
        payload: &str,
        expected: Option<Moment>,
    ) -> Result<Put, Error> {
        self.table(entity_type)?;
        let entry = crate::outbox::NewEntry {
            entity_type: entity_type.as_str().to_owned(),
            entity_id: id.to_owned(),
            payload: payload.to_owned(),
        };
        check::new_entries(std::slice::from_ref(&entry))?;
        let (tables, clock) = (Arc::clone(&self.tables), self.engine.clock().clone());
        let put = self.engine.write(move |connection| {
            Box::pin(async move {
                let table = &tables[&entry.entity_type];
                if let Some(expected) = expected {
                    let seen = query(&table.seen).bind(entry.entity_id.clone());
                    if let Some(changed_at) =
                        row::other(seen.fetch_optional(&mut *connection).await?, expected)
                    {
                        return Ok(Put::Changed(changed_at));
                    }
                }
                put(connection, table, &entry, clock.wall_ms()).await.map(Put::Done)
            })
        });
        let put = put.await?;
        self.engine.outbox.wake();
        Ok(put)
    }

    async fn entity(&self, entity_type: &EntityType, id: &str) -> Result<Option<Entity>, Error> {
        let entity = query(&self.table(entity_type)?.entity).bind(id.to_owned());
        let row: Option<EntityRow> =
            self.engine.read(|connection| Box::pin(entity.fetch_optional(connection))).await?;
        Ok(row.map(row::entity))
    }

    async fn entities(
        &self,
        entity_type: &EntityType,
        after: Option<ListCursor>,
        limit: usize,
    ) -> Result<Vec<Entity>, Error> {
        let list = query(&self.table(entity_type)?.list).bind(after.unwrap_or(i64::MAX));
        let list = list.bind(row::check_list(limit)?).bind(LIST_BYTES_MAX as i64);
        let rows: Vec<EntityRow> =
            self.engine.read(|connection| Box::pin(list.fetch_all(connection))).await?;
        Ok(rows.into_iter().map(row::entity).collect())
    }

    async fn forget(&self, older_than: Duration, limit: usize) -> Result<u64, Error> {
        let limit = check::count("entries", limit)?;
        let older_than_ms = i64::try_from(older_than.as_millis()).unwrap_or(i64::MAX / 2);
        let before_ms = self.engine.clock().wall_ms().saturating_sub(older_than_ms);
        let forget = statement::query(FORGET).bind(before_ms).bind(limit);
        let forgotten = self.engine.write(|connection| Box::pin(forget.execute(connection))).await?;
        Ok(forgotten.rows_affected())
    }
}

async fn apply(
    connection: &mut SqliteConnection,
    mut batch: Batch<'_>,
    tables: &HashMap<String, Table>,
    sender: &str,
    wall_ms: i64,
) -> sqlx::Result<Vec<EntryResult>> {
    if let Some(numbers) = batch.numbers() {
        let pairs: Vec<_> = numbers.entries.iter().zip(&numbers.digests).collect();
        let number = statement::query_scalar(NUMBER).bind(sender).bind(json(&pairs)).bind(wall_ms);
        let new: HashSet<i64> = number.fetch_all(&mut *connection).await?.into_iter().collect();
        if new.len() < numbers.entries.len() {
            let old: Vec<i64> = numbers.entries.into_iter().filter(|entry| !new.contains(entry)).collect();
            let digests = statement::query_as(DIGESTS).bind(sender).bind(json(&old));
            batch.known_before(&digests.fetch_all(&mut *connection).await?);
        }
    }
    for (entity_type, rows) in batch.rows(Moment::from_us(wall_ms.saturating_mul(1_000))) {
        let (written, same) = write(connection, &tables[&entity_type], rows, sender, wall_ms).await?;
        batch.written(&entity_type, &written, &same);
    }
    Ok(batch.results())
}

/// Writes the rows of one type: the ids that were written, and those that were there just so.
async fn write(
    connection: &mut SqliteConnection,
    table: &Table,
    rows: Rows,
    sender: &str,
    wall_ms: i64,
) -> sqlx::Result<(Vec<String>, Vec<String>)> {
    let last: i64 = scalar(&table.last).fetch_one(&mut *connection).await?;
    let count = rows.ids.len();
    let given: Vec<_> = (rows.ids.iter().zip(&rows.payloads))
        .zip(rows.entries.iter().zip(&rows.changed_us))
        .zip(last + 1..)
        .map(|(((id, payload), (entry, changed_us)), place)| (id, payload, entry, changed_us, place))
        .collect();
    let write = scalar(&table.write).bind(json(&given)).bind(sender.to_owned()).bind(wall_ms * 1_000);
    let written: Vec<String> = write.fetch_all(&mut *connection).await?;
    if written.len() == count {
        return Ok((written, Vec::new()));
    }
    let given: Vec<_> = rows.ids.iter().zip(&rows.changed_us).collect();
    let same = scalar(&table.same).bind(json(&given)).bind(sender.to_owned());
    Ok((written, same.fetch_all(connection).await?))
}

/// Writes an entity and its entry in the outbox; newer than what was here or is on its way.
async fn put(
    connection: &mut SqliteConnection,
    table: &Table,
    entry: &crate::outbox::NewEntry,
    wall_ms: i64,
) -> sqlx::Result<Entity> {
    let sender: String = statement::query_scalar(OWN_SENDER).fetch_one(&mut *connection).await?;
    let newest: Option<i64> =
        scalar(&table.newest).bind(entry.entity_id.clone()).fetch_one(&mut *connection).await?;
    // The outbox keeps milliseconds here.
    let newest_ms = newest.map_or(0, |us| us.div_euclid(1_000) + 1);
    let at = Moment::from_us(wall_ms.max(newest_ms).saturating_mul(1_000));
    let enqueue = statement::query(ENQUEUE).bind(&entry.entity_type).bind(&entry.entity_id);
    enqueue.bind(&entry.payload).bind(at.to_string()).execute(&mut *connection).await?;
    let number: i64 = statement::query_scalar(LAST).bind(1).fetch_one(&mut *connection).await?;
    let last: i64 = scalar(&table.last).fetch_one(&mut *connection).await?;
    let put = query(&table.put).bind(entry.entity_id.clone()).bind(entry.payload.clone()).bind(sender);
    let put = put.bind(number).bind(at.as_us()).bind(wall_ms * 1_000).bind(last + 1);
    Ok(row::entity(put.fetch_one(connection).await?))
}

fn query<T>(sql: &Arc<str>) -> sqlx::query::QueryAs<'static, sqlx::Sqlite, T, sqlx::sqlite::SqliteArguments>
where
    T: for<'r> sqlx::FromRow<'r, sqlx::sqlite::SqliteRow>,
{
    sqlx::query_as(AssertSqlSafe(Arc::clone(sql)))
}

fn scalar<T>(
    sql: &Arc<str>,
) -> sqlx::query::QueryScalar<'static, sqlx::Sqlite, T, sqlx::sqlite::SqliteArguments>
where
    (T,): for<'r> sqlx::FromRow<'r, sqlx::sqlite::SqliteRow>,
{
    sqlx::query_scalar(AssertSqlSafe(Arc::clone(sql)))
}

fn json<T: serde::Serialize + ?Sized>(rows: &T) -> String {
    serde_json::to_string(rows).expect("numbers and text have a JSON")
}

impl Table {
    /// The only place where a name becomes part of a statement, and it is a checked one.
    fn of(kind: &EntityType) -> Self {
        let named = |sql: String| -> Arc<str> { names::on_sqlite(&sql).into() };
        let columns = "id, payload, sender, changed_at, received_at, place";
        let created = microseconds!("o.created_at");
        // Our own last change of an entity, delivered or not: it is newer than what arrives if it was made later.
        let own = |id: &str| {
            let last = |index: &str, which: &str| {
                format!(
                    "coalesce((SELECT {created} FROM sync_outbox AS o INDEXED BY {index} WHERE o.entity_type = '{kind}' \
                     AND o.entity_id = {id} AND {which} ORDER BY o.id DESC LIMIT 1), -1)"
                )
            };
            let pending = last("sync_outbox_pending_entity", "o.processed_at IS NULL AND o.dead_at IS NULL");
            let processed = last("sync_outbox_processed_entity", "o.processed_at IS NOT NULL");
            format!("max({pending}, {processed})")
        };
        Self {
            create: named(format!(
                "CREATE TABLE IF NOT EXISTS syncline.entity_{kind} (id TEXT NOT NULL PRIMARY KEY, payload TEXT NOT NULL, \
                 sender TEXT NOT NULL, entry INTEGER NOT NULL, changed_at INTEGER NOT NULL, \
                 received_at INTEGER NOT NULL, place INTEGER NOT NULL) STRICT; \
                 CREATE INDEX IF NOT EXISTS syncline.entity_{kind}_place ON syncline.entity_{kind} (place)"
            )),
            last: named(format!("SELECT coalesce(max(place), 0) FROM syncline.entity_{kind}")),
            // rows, sender, now.
            write: named(format!(
                "INSERT INTO syncline.entity_{kind} (id, payload, sender, entry, changed_at, received_at, place) \
                 SELECT n.value ->> 0, n.value ->> 1, $2, n.value ->> 2, n.value ->> 3, $3, n.value ->> 4 \
                 FROM json_each($1) AS n, (SELECT sender FROM syncline.sync_outbox_sender) AS us WHERE $2 = us.sender \
                 OR (n.value ->> 3, $2) > ({own}, us.sender) \
                 ON CONFLICT (id) DO UPDATE SET payload = excluded.payload, sender = excluded.sender, \
                 entry = excluded.entry, changed_at = excluded.changed_at, received_at = excluded.received_at, \
                 place = excluded.place WHERE CASE WHEN excluded.sender <> sender \
                 THEN (excluded.changed_at, excluded.sender) > (changed_at, sender) \
                 WHEN excluded.sender <> '' THEN excluded.entry > entry \
                 ELSE excluded.changed_at > changed_at \
                 OR (excluded.changed_at = changed_at AND excluded.payload <> payload) END RETURNING id",
                own = own("(n.value ->> 0)")
            )),
            same: named(format!(
                "SELECT t.id FROM json_each($1) AS n CROSS JOIN syncline.entity_{kind} AS t WHERE t.id = n.value ->> 0 \
                 AND t.changed_at = n.value ->> 1 AND t.sender = $2"
            )),
            newest: named(format!(
                "SELECT max(coalesce((SELECT changed_at FROM syncline.entity_{kind} WHERE id = $1), -1), {})",
                own("$1")
            )),
            seen: named(format!(
                "SELECT changed_at FROM syncline.entity_{kind} WHERE id = $1 AND payload <> 'null'"
            )),
            // id, payload, our name, number, changed, received, place.
            put: named(format!(
                "INSERT INTO syncline.entity_{kind} (id, payload, sender, entry, changed_at, received_at, place) \
                 VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (id) DO UPDATE SET payload = excluded.payload, \
                 sender = excluded.sender, entry = excluded.entry, changed_at = excluded.changed_at, \
                 received_at = excluded.received_at, place = excluded.place RETURNING {columns}"
            )),
            entity: named(format!(
                "SELECT {columns} FROM syncline.entity_{kind} WHERE id = $1 AND payload <> 'null'"
            )),
            list: named(format!(
                "SELECT {columns} FROM (SELECT *, sum(octet_length(payload)) OVER (ORDER BY place DESC) AS bytes, \
                 row_number() OVER (ORDER BY place DESC) AS number FROM (SELECT * FROM syncline.entity_{kind} \
                 WHERE place < $1 AND payload <> 'null' ORDER BY place DESC LIMIT $2)) \
                 WHERE bytes <= $3 OR number = 1 ORDER BY place DESC"
            )),
        }
    }
}
