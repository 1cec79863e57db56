//! What operators and uploads ask of the outbox: counts, listings, settings, receipts.

use serde_json::{Map, Value};

use super::PostgresOutbox;
use super::sql::*;
use crate::Error;
use crate::outbox::row::{self, DetailRow, SETTINGS, StatsRow};
use crate::outbox::{Detail, List, Receipt, Settings, Stats};

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

    pub(super) async fn write_receipt(&self, receipt: &Receipt) -> Result<(), Error> {
        let bytes = i64::try_from(receipt.bytes).unwrap_or(i64::MAX);
        let mut session = self.engine.transaction().await?;
        let store = self.engine.query(STORE_RECEIPT).bind(receipt.entry).bind(receipt.recording_id.clone());
        let store = store.bind(receipt.file_url.clone()).bind(bytes).bind(receipt.sha256.clone());
        session.execute(store).await?;
        if session.value(self.engine.query(HAS_RECORDINGS)).await? {
            let uploaded = self.engine.query(UPLOADED).bind(receipt.recording_id.clone());
            session.execute(uploaded.bind(receipt.file_url.clone())).await?;
        }
        session.commit().await
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
fn settings_in(rows: &[Map<String, Value>]) -> [Option<String>; 4] {
    SETTINGS.map(|name| {
        rows.iter().find_map(|row| {
            let named = |row: &&Map<String, Value>| {
                ["key", "name"].iter().any(|key| row.get(*key).and_then(Value::as_str) == Some(name))
            };
            let value = row.get(name).or_else(|| Some(row).filter(named)?.get("value"))?;
            match value {
                Value::Null => None,
                Value::String(text) => Some(text.clone()),
                other => Some(other.to_string()),
            }
        })
    })
}
