//! The inbox on PostgreSQL. A batch is a statement for its numbers and one for each type in it.
//!
//! Rows are written in the order of their keys, so that batches that overlap wait for each other in one direction.
//! Statements that name a table are built from checked types when the inbox is opened.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use sqlx::AssertSqlSafe;
use syncline_core::outbox::{EntityType, EntryResult, Moment, SenderId};

use super::outbox::sql::{force_index_by_entity, microseconds, number};
use super::session::Statement;
use super::{Engine, Session, now_ms, prepare};
use crate::Error;
use crate::inbox::batch::{Batch, Rows};
use crate::inbox::row::{self, EntityRow};
use crate::inbox::{Arrival, Entity, Inbox, LIST_BYTES_MAX, ListCursor, Put};
use crate::names::Schema;
use crate::outbox::check;

/// The database's clock in microseconds since the epoch.
macro_rules! now_us {
    () => {
        "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
    };
}

const OWN_SENDER: &str = "SELECT sender FROM syncline.sync_outbox_sender";
/// sender, numbers, digests. Gives the time, and the numbers that are new.
const NUMBER: &str = concat!(
    "WITH new AS (INSERT INTO syncline.inbox_entries (sender, entry, digest, received_at) SELECT $1, n.entry, n.digest, ",
    now_ms!(),
    " FROM unnest($2::bigint[], $3::bigint[]) AS n (entry, digest) ON CONFLICT (sender, entry) DO NOTHING RETURNING entry) \
     SELECT ",
    now_us!(),
    ", coalesce(array_agg(entry), '{}') FROM new"
);
const DIGESTS: &str = "SELECT e.entry, e.digest FROM unnest($2::bigint[]) AS n (entry), \
     LATERAL (SELECT * FROM syncline.inbox_entries AS i WHERE i.sender = $1 AND i.entry = n.entry OFFSET 0) AS e";
const ENQUEUE: &str = "INSERT INTO sync_outbox (entity_type, entity_id, payload, created_at) \
     SELECT entity_type, entity_id, coalesce(payload, 'null'), created_at FROM json_populate_record(NULL::sync_outbox, $1::text::json) \
     RETURNING id::bigint";
const FORGET: &str = concat!(
    "DELETE FROM syncline.inbox_entries AS i USING (SELECT sender, entry FROM syncline.inbox_entries WHERE received_at < (SELECT ",
    now_ms!(),
    ") - $1 ORDER BY received_at LIMIT $2 FOR UPDATE SKIP LOCKED) AS old WHERE i.sender = old.sender AND i.entry = old.entry"
);

/// The inbox port on PostgreSQL.
#[derive(Debug)]
pub(crate) struct PostgresInbox {
    engine: Engine,
    types: Vec<EntityType>,
    tables: HashMap<String, Table>,
}

/// What is said about the table of one type.
#[derive(Debug)]
struct Table {
    create: Arc<str>,
    write: Arc<str>,
    same: Arc<str>,
    seen: Arc<str>,
    put: Arc<str>,
    number: Arc<str>,
    entity: Arc<str>,
    list: Arc<str>,
}

impl PostgresInbox {
    /// Opens the inbox and creates the tables that are missing.
    pub(crate) async fn open(engine: Engine, types: &[EntityType]) -> Result<Self, Error> {
        row::check_types(types)?;
        let tables: HashMap<String, Table> =
            types.iter().map(|kind| (kind.as_str().to_owned(), Table::of(kind, engine.schema()))).collect();
        // Several nodes may start at once, and two that create one table fail.
        let mut session = prepare::alone_in_time(&engine).await?;
        for kind in types {
            let table = engine.schema().apply(&format!("syncline.entity_{kind}"));
            let there = engine.query("SELECT to_regclass($1) IS NOT NULL").bind(table);
            if !session.value::<bool>(there).await? {
                session.control(AssertSqlSafe(Arc::clone(&tables[kind.as_str()].create))).await?;
            }
        }
        session.commit().await?;
        Ok(Self { engine, types: types.to_vec(), tables })
    }

    fn table(&self, entity_type: &EntityType) -> Result<&Table, Error> {
        self.tables.get(entity_type.as_str()).ok_or_else(|| row::unknown_type(entity_type))
    }

    fn query(&self, sql: &Arc<str>) -> Statement {
        sqlx::query(AssertSqlSafe(Arc::clone(sql))).persistent(self.engine.keeps_statements)
    }

    /// Writes the rows of one type: the ids that were written, and those that were there just so.
    async fn write(
        &self,
        session: &mut Session,
        (entity_type, rows): (&str, Rows),
        sender: &str,
    ) -> Result<(Vec<String>, Vec<String>), Error> {
        let table = &self.tables[entity_type];
        let count = rows.ids.len();
        let write = self
            .query(&table.write)
            .bind(rows.ids.clone())
            .bind(rows.payloads)
            .bind(rows.entries)
            .bind(rows.changed_us.clone())
            .bind(sender.to_owned());
        let written: Vec<(String,)> = session.all(write).await?;
        let written: Vec<String> = written.into_iter().map(|(id,)| id).collect();
        if written.len() == count {
            return Ok((written, Vec::new()));
        }
        let same = self.query(&table.same).bind(rows.ids).bind(rows.changed_us).bind(sender.to_owned());
        let same: Vec<(String,)> = session.all(same).await?;
        Ok((written, same.into_iter().map(|(id,)| id).collect()))
    }
}

#[async_trait]
impl Inbox for PostgresInbox {
    fn types(&self) -> &[EntityType] {
        &self.types
    }

    async fn apply(
        &self,
        sender: Option<&SenderId>,
        arrivals: &[Arrival],
    ) -> Result<Vec<EntryResult>, Error> {
        let mut batch = Batch::new(sender, arrivals, &self.types)?;
        let mut session = self.engine.transaction().await?;
        let name = sender.map_or("", SenderId::as_str);
        let given = batch.numbers().unwrap_or_default();
        let number = self.engine.query(NUMBER).bind(name.to_owned());
        let number = number.bind(given.entries.clone()).bind(given.digests);
        let (now_us, new): (i64, Vec<i64>) = session.only(number).await?;
        if new.len() < given.entries.len() {
            let new: HashSet<i64> = new.into_iter().collect();
            let old: Vec<i64> = given.entries.into_iter().filter(|entry| !new.contains(entry)).collect();
            let digests = self.engine.query(DIGESTS).bind(name.to_owned()).bind(old);
            batch.known_before(&session.all::<(i64, i64)>(digests).await?);
        }
        for (entity_type, rows) in batch.rows(Moment::from_us(now_us)) {
            let (written, same) = self.write(&mut session, (&entity_type, rows), name).await?;
            batch.written(&entity_type, &written, &same);
        }
        session.commit().await?;
        Ok(batch.results())
    }

    async fn put(
        &self,
        entity_type: &EntityType,
        id: &str,
        payload: &str,
        expected: Option<Moment>,
    ) -> Result<Put, Error> {
        let table = self.table(entity_type)?;
        let entry = crate::outbox::NewEntry {
            entity_type: entity_type.as_str().to_owned(),
            entity_id: id.to_owned(),
            payload: payload.to_owned(),
        };
        check::new_entries(std::slice::from_ref(&entry))?;
        let mut session = self.engine.transaction().await?;
        if let Some(expected) = expected {
            // Nobody changes it from here on; of two that add it at once neither was expected.
            let seen = self.query(&table.seen).bind(id.to_owned());
            let seen: Option<(i64,)> = session.first(seen).await?;
            if let Some(changed_at) = row::other(seen, expected) {
                session.rollback().await?;
                return Ok(Put::Changed(changed_at));
            }
        }
        let sender: String = session.value(self.engine.query(OWN_SENDER)).await?;
        // The row first: who holds it has the last word and the last number.
        let put = self.query(&table.put).bind(id.to_owned()).bind(payload.to_owned()).bind(sender);
        let put: Option<EntityRow> = session.first(put.bind(entity_type.as_str().to_owned())).await?;
        let put = put.ok_or_else(|| Error::invalid("entity", "could not be written"))?;
        let entity = row::entity(put);
        let quoted = |text: &str| serde_json::to_string(text).expect("text has a JSON");
        let enqueue = self.engine.query(ENQUEUE).bind(format!(
            r#"{{"entity_type":"{entity_type}","entity_id":{},"payload":{payload},"created_at":"{}"}}"#,
            quoted(id),
            entity.changed_at
        ));
        let entry: i64 = session.value(enqueue).await?;
        session.execute(self.query(&table.number).bind(id.to_owned()).bind(entry)).await?;
        session.commit().await?;
        self.engine.outbox.wake();
        Ok(Put::Done(entity))
    }

    async fn entity(&self, entity_type: &EntityType, id: &str) -> Result<Option<Entity>, Error> {
        let entity = self.query(&self.table(entity_type)?.entity).bind(id.to_owned());
        let mut session = self.engine.statement().await?;
        let row: Option<EntityRow> = session.first(entity).await?;
        session.commit().await?;
        Ok(row.map(row::entity))
    }

    async fn entities(
        &self,
        entity_type: &EntityType,
        after: Option<ListCursor>,
        limit: usize,
    ) -> Result<Vec<Entity>, Error> {
        let list = self.query(&self.table(entity_type)?.list).bind(after.unwrap_or(i64::MAX));
        let list = list.bind(row::check_list(limit)?).bind(LIST_BYTES_MAX as i64);
        let mut session = self.engine.transaction().await?;
        let rows: Vec<EntityRow> = session.all(list).await?;
        session.commit().await?;
        Ok(rows.into_iter().map(row::entity).collect())
    }

    async fn forget(&self, older_than: Duration, limit: usize) -> Result<u64, Error> {
        let limit = check::count("entries", limit)?;
        let older_than_ms = i64::try_from(older_than.as_millis()).unwrap_or(i64::MAX / 2);
        let mut session = self.engine.transaction().await?;
        let forgotten = session.execute(self.engine.query(FORGET).bind(older_than_ms).bind(limit)).await?;
        session.commit().await?;
        Ok(forgotten)
    }
}

impl Table {
    /// The only place where a name becomes part of a statement, and it is a checked one.
    fn of(kind: &EntityType, schema: &Schema) -> Self {
        let named = |sql: String| -> Arc<str> { schema.apply(&sql).into() };
        let columns = "id, payload, sender, changed_at, received_at, place";
        // Our own last change of an entity, delivered or not: it is newer than what arrives if it was made later.
        let own = |which: &str| {
            format!(
                "(SELECT {created} FROM sync_outbox AS o \
                 WHERE o.entity_type = '{kind}' AND o.entity_id::text = n.id AND {which} AND {by_entity} \
                 ORDER BY o.entity_type DESC, o.entity_id::text DESC, {number} DESC LIMIT 1)",
                created = microseconds!("o.created_at"),
                by_entity = force_index_by_entity!("o."),
                number = number!("o.")
            )
        };
        let own = format!(
            "greatest({}, {})",
            own("o.processed_at IS NULL AND o.dead_at IS NULL"),
            own("o.processed_at IS NOT NULL")
        );
        Self {
            create: named(format!(
                "CREATE TABLE syncline.entity_{kind} (id text COLLATE \"C\" PRIMARY KEY, payload text NOT NULL, \
                 removed boolean GENERATED ALWAYS AS (payload = 'null') STORED, sender text COLLATE \"C\" NOT NULL, \
                 entry bigint NOT NULL, changed_at bigint NOT NULL, received_at bigint NOT NULL, place bigint NOT NULL); \
                 CREATE INDEX entity_{kind}_place ON syncline.entity_{kind} (place) WHERE NOT removed"
            )),
            // ids, payloads, numbers, changed, sender.
            write: named(format!(
                "INSERT INTO syncline.entity_{kind} AS t (id, payload, sender, entry, changed_at, received_at, place) \
                 SELECT n.id, n.payload, $5, n.entry, n.changed_at, {now_us}, nextval('syncline.inbox_place') \
                 FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[]) AS n (id, payload, entry, changed_at), \
                 (SELECT sender FROM syncline.sync_outbox_sender) AS us \
                 WHERE (n.changed_at, $5 COLLATE \"C\") > (coalesce({own}, n.changed_at - 1), us.sender COLLATE \"C\") \
                 OR $5 = us.sender \
                 ON CONFLICT (id) DO UPDATE SET payload = excluded.payload, sender = excluded.sender, \
                 entry = excluded.entry, changed_at = excluded.changed_at, received_at = excluded.received_at, \
                 place = excluded.place WHERE CASE WHEN excluded.sender <> t.sender \
                 THEN (excluded.changed_at, excluded.sender) > (t.changed_at, t.sender) \
                 WHEN excluded.sender <> '' THEN excluded.entry > t.entry \
                 ELSE excluded.changed_at > t.changed_at \
                 OR (excluded.changed_at = t.changed_at AND excluded.payload <> t.payload) END RETURNING id",
                now_us = now_us!()
            )),
            same: named(format!(
                "SELECT t.id FROM unnest($1::text[], $2::bigint[]) AS n (id, changed_at), LATERAL (SELECT * FROM \
                 syncline.entity_{kind} AS e WHERE e.id = n.id OFFSET 0) AS t WHERE t.changed_at = n.changed_at AND t.sender = $3"
            )),
            seen: named(format!(
                "SELECT changed_at FROM syncline.entity_{kind} WHERE id = $1 AND NOT removed FOR UPDATE"
            )),
            // id, payload, our name, type.
            put: named(format!(
                "INSERT INTO syncline.entity_{kind} AS t (id, payload, sender, entry, changed_at, received_at, place) \
                 SELECT n.id, $2, $3, 0, greatest({now_us}, {own} + 1), {now_us}, nextval('syncline.inbox_place') \
                 FROM (SELECT $1::text AS id, $4::text AS kind) AS n \
                 ON CONFLICT (id) DO UPDATE SET payload = excluded.payload, sender = excluded.sender, \
                 changed_at = greatest(excluded.changed_at, t.changed_at + 1), received_at = excluded.received_at, \
                 place = excluded.place RETURNING {columns}",
                now_us = now_us!()
            )),
            number: named(format!("UPDATE syncline.entity_{kind} SET entry = $2 WHERE id = $1")),
            entity: named(format!(
                "SELECT {columns} FROM syncline.entity_{kind} WHERE id = $1 AND NOT removed"
            )),
            list: named(format!(
                "SELECT {columns} FROM (SELECT *, sum(octet_length(payload)) OVER (ORDER BY place DESC) AS bytes, \
                 row_number() OVER (ORDER BY place DESC) AS number FROM (SELECT * FROM syncline.entity_{kind} \
                 WHERE place < $1 AND NOT removed ORDER BY place DESC LIMIT $2) AS page) AS weighed \
                 WHERE bytes <= $3 OR number = 1 ORDER BY place DESC"
            )),
        }
    }
}
