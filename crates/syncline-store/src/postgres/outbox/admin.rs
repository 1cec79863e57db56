//! What operators and uploads ask of the outbox: counts, listings, settings, receipts.

use serde_json::{Map, Value as Json};
use sqlx::AssertSqlSafe;

use super::super::Session;
use super::PostgresOutbox;
use super::sql::*;
use crate::Error;
use crate::database::{self, Value};
use crate::outbox::row::{self, DetailRow, SETTINGS, StatsRow};
use crate::outbox::update::quoted;
use crate::outbox::{Detail, List, Receipt, ReceiptUpdate, Settings, Stats};

impl PostgresOutbox {
    pub(super) async fn read_stats(&self) -> Result<Stats, Error> {
        let mut session = self.engine.transaction().await?;
        let row: Option<StatsRow> = session.first(self.engine.query(STATS)).await?;
        session.commit().await?;
        Ok(row::stats(row.unwrap_or_default()))
    }

    pub(super) async fn read_list(
        &self,
        list: List,
        after: Option<i64>,
        limit: i64,
    ) -> Result<Vec<Detail>, Error> {
        let query = |sql| self.engine.query(sql);
        let query = match (list, after) {
            (List::Pending, after) => query(LIST_PENDING).bind(after.unwrap_or(i64::MIN)).bind(limit),
            (List::Dead, after) => query(LIST_DEAD).bind(after.unwrap_or(i64::MIN)).bind(limit),
            (List::Processed, None) => query(LIST_PROCESSED).bind(limit),
            (List::Processed, Some(after)) => query(LIST_PROCESSED_AFTER).bind(after).bind(limit),
        };
        let mut session = self.engine.transaction().await?;
        let rows: Vec<DetailRow> = session.all(query).await?;
        session.commit().await?;
        Ok(rows.into_iter().map(row::detail).collect())
    }

    pub(super) async fn read_entry(&self, id: i64) -> Result<Option<(Detail, String)>, Error> {
        let mut session = self.engine.transaction().await?;
        let detail: Option<DetailRow> = session.first(self.engine.query(DETAIL).bind(id)).await?;
        let payload: Option<(String,)> = session.first(self.engine.query(PAYLOAD).bind(id)).await?;
        session.commit().await?;
        Ok(detail.zip(payload).map(|(detail, (payload,))| (row::detail(detail), payload)))
    }

    /// Changes these, or all dead ones.
    pub(super) async fn change_dead(
        &self,
        these: &'static str,
        all: &'static str,
        ids: Option<Vec<i64>>,
    ) -> Result<u64, Error> {
        let mut session = self.engine.transaction().await?;
        let changed = match ids {
            Some(ids) => session.execute(self.engine.query(these).bind(ids)).await?,
            None => session.execute(self.engine.query(all)).await?,
        };
        session.commit().await?;
        Ok(changed)
    }

    pub(super) async fn write_receipt(
        &self,
        receipt: &Receipt,
        update: Option<&ReceiptUpdate>,
    ) -> Result<(), Error> {
        let bytes = i64::try_from(receipt.bytes).unwrap_or(i64::MAX);
        let mut session = self.engine.transaction().await?;
        let store = self.engine.query(STORE_RECEIPT).bind(receipt.entry).bind(receipt.file_id.clone());
        let store = store.bind(receipt.file_url.clone()).bind(bytes).bind(receipt.sha256.clone());
        session.execute(store).await?;
        if let Some(update) = update {
            self.update_row(&mut session, &receipt.file_id, update).await?;
        }
        session.commit().await
    }

    /// Changes the application's row for a file, where it has such a table.
    async fn update_row(
        &self,
        session: &mut Session,
        file_id: &str,
        update: &ReceiptUpdate,
    ) -> Result<(), Error> {
        let columns = self.engine.query(COLUMNS).bind(update.quoted_table());
        let columns: Vec<(String, String)> = session.all(columns).await?;
        if columns.is_empty() {
            return Ok(());
        }
        update.check_columns(&columns.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>())?;
        // Bound as what it is and cast to what the column is, be it an ENUM or a time.
        let kind =
            |name: &str| columns.iter().find(|column| column.0 == name).map_or("text", |column| &column.1);
        let set = update.set.iter().enumerate().map(|(n, (column, value))| {
            let given = if matches!(value, Value::Text(_)) { "::text" } else { "" };
            format!("{} = ${}{given}::{}", quoted(column), n + 2, kind(column))
        });
        let (set, id) = (set.collect::<Vec<_>>().join(", "), quoted(&update.id_column));
        let sql = format!(
            "UPDATE {} SET {set} WHERE {id}::text = CASE WHEN pg_typeof({id}) = 'uuid'::regtype THEN lower($1) ELSE $1 END",
            update.quoted_table()
        );
        let statement = sqlx::query(AssertSqlSafe(sql)).persistent(false).bind(file_id.to_owned());
        let values: Vec<Value> = update.set.iter().map(|(_, value)| value.clone()).collect();
        session.execute(database::bind_postgres(statement, &values)).await.map(drop)
    }

    pub(super) async fn read_settings(&self) -> Result<Settings, Error> {
        let mut session = self.engine.transaction().await?;
        let rows: Vec<(String,)> = match session.value(self.engine.query(HAS_SETTINGS)).await? {
            true => session.all(self.engine.query(SETTINGS_ROWS)).await?,
            false => Vec::new(),
        };
        session.commit().await?;
        let rows = rows.into_iter().filter_map(|(row,)| serde_json::from_str(&row).ok());
        Ok(row::settings(settings_in(&rows.collect::<Vec<_>>())))
    }

    pub(super) async fn write_settings(&self, settings: &Settings) -> Result<(), Error> {
        let mut session = self.engine.transaction().await?;
        if !session.value::<bool>(self.engine.query(HAS_SETTINGS)).await? {
            session.control(CREATE_SETTINGS).await?;
        }
        for ((name, text), set) in SETTINGS.into_iter().zip(row::settings_texts(settings)).zip(SET_SETTINGS) {
            let Some(text) = text else { continue };
            if !session.value::<bool>(self.engine.query(HAS_SETTING).bind(name)).await? {
                session.rollback().await?;
                return Err(row::no_such_setting(name));
            }
            session.execute(self.engine.query(set).bind(text)).await?;
        }
        session.commit().await
    }
}

/// What rows of `system_settings` say, in the order of [`SETTINGS`]: as columns, or as keys with values.
fn settings_in(rows: &[Map<String, Json>]) -> [Option<String>; 4] {
    SETTINGS.map(|name| {
        rows.iter().find_map(|row| {
            let named = |row: &&Map<String, Json>| {
                ["key", "name"].iter().any(|key| row.get(*key).and_then(Json::as_str) == Some(name))
            };
            let value = row.get(name).or_else(|| Some(row).filter(named)?.get("value"))?;
            match value {
                Json::Null => None,
                Json::String(text) => Some(text.clone()),
                other => Some(other.to_string()),
            }
        })
    })
}
