//! What operators and uploads ask of the outbox: counts, listings, settings, receipts.

use sqlx::AssertSqlSafe;
use sqlx::sqlite::SqliteConnection;
use syncline_core::outbox::Moment;

use super::super::statement;
use super::sql::*;
use super::{SqliteOutbox, json};
use crate::Error;
use crate::database::{self, Value};
use crate::outbox::row::{self, DetailRow, SETTINGS, StatsRow};
use crate::outbox::update::quoted;
use crate::outbox::{Detail, List, Receipt, ReceiptUpdate, Settings, Stats};

impl SqliteOutbox {
    pub(super) async fn read_stats(&self) -> Result<Stats, Error> {
        let (now_ms, wall_ms) = (self.engine.clock().now_ms(), self.engine.clock().wall_ms());
        let stats = statement::query_as(STATS).bind(now_ms).bind(wall_ms);
        let row: StatsRow = self.engine.read(|connection| Box::pin(stats.fetch_one(connection))).await?;
        Ok(row::stats(row))
    }

    pub(super) async fn read_list(
        &self,
        list: List,
        after: Option<i64>,
        limit: i64,
    ) -> Result<Vec<Detail>, Error> {
        let query = |sql| statement::query_as(sql).bind(self.engine.clock().now_ms());
        let query = match list {
            List::Pending => query(LIST_PENDING).bind(after.unwrap_or(i64::MIN)),
            List::Dead => query(LIST_DEAD).bind(after.unwrap_or(i64::MIN)),
            List::Processed => query(LIST_PROCESSED).bind(after),
        };
        let query = query.bind(limit);
        let rows: Vec<DetailRow> =
            self.engine.read(|connection| Box::pin(query.fetch_all(connection))).await?;
        Ok(rows.into_iter().map(row::detail).collect())
    }

    pub(super) async fn read_entry(&self, id: i64) -> Result<Option<(Detail, String)>, Error> {
        let detail = statement::query_as(DETAIL).bind(self.engine.clock().now_ms()).bind(id);
        let detail: Option<DetailRow> =
            self.engine.read(|connection| Box::pin(detail.fetch_optional(connection))).await?;
        let payload = statement::query_scalar(PAYLOAD).bind(id);
        let payload: Option<String> =
            match self.engine.read(|connection| Box::pin(payload.fetch_optional(connection))).await {
                Err(Error::Unreadable { .. }) => Some(row::UNREADABLE.to_owned()),
                read => read?,
            };
        Ok(detail.zip(payload).map(|(detail, payload)| (row::detail(detail), payload)))
    }

    /// Changes these, or all dead ones.
    pub(super) async fn change_dead(
        &self,
        these: &'static str,
        all: &'static str,
        ids: Option<Vec<i64>>,
    ) -> Result<u64, Error> {
        let change = match ids {
            Some(ids) => statement::query(these).bind(json(&ids)),
            None => statement::query(all),
        };
        let changed = self.engine.write(|connection| Box::pin(change.execute(connection))).await?;
        Ok(changed.rows_affected())
    }

    /// Removes what was processed before a time of day, with its receipts.
    pub(super) async fn remove_processed(&self, before_ms: i64, limit: i64) -> Result<u64, Error> {
        let before = Moment::from_us(before_ms.saturating_mul(1_000)).to_string();
        let removed = self.engine.write(move |connection| {
            Box::pin(async move {
                let old = statement::query_scalar(OLD).bind(before).bind(before_ms).bind(limit);
                let old: Vec<i64> = old.fetch_all(&mut *connection).await?;
                if !old.is_empty() {
                    statement::query(REMOVE_RECEIPTS).bind(json(&old)).execute(&mut *connection).await?;
                    statement::query(REMOVE).bind(json(&old)).execute(connection).await?;
                }
                Ok(old.len() as u64)
            })
        });
        removed.await
    }

    pub(super) async fn write_receipt(
        &self,
        receipt: &Receipt,
        update: Option<&ReceiptUpdate>,
    ) -> Result<(), Error> {
        let (receipt, update, now_ms) = (receipt.clone(), update.cloned(), self.engine.clock().wall_ms());
        let store = self.engine.name().to_owned();
        let stored = self.engine.write_checked(move |connection| {
            Box::pin(async move {
                let failed = |error| Error::sqlite(&store, &error);
                let bytes = i64::try_from(receipt.bytes).unwrap_or(i64::MAX);
                let keep = statement::query(STORE_RECEIPT).bind(receipt.entry).bind(&receipt.file_id);
                let keep = keep.bind(&receipt.file_url).bind(bytes).bind(&receipt.sha256).bind(now_ms);
                keep.execute(&mut *connection).await.map_err(failed)?;
                let Some(update) = update else { return Ok(()) };
                let columns = statement::query_scalar(COLUMNS).bind(&update.table);
                let columns: Vec<String> = columns.fetch_all(&mut *connection).await.map_err(failed)?;
                if columns.is_empty() {
                    return Ok(());
                }
                update.check_columns(&columns.iter().map(String::as_str).collect::<Vec<_>>())?;
                update_row(connection, &receipt.file_id, &update).await.map_err(failed)
            })
        });
        stored.await
    }

    pub(super) async fn read_settings(&self) -> Result<Settings, Error> {
        let texts = self.engine.read(|connection| Box::pin(read_settings(connection))).await?;
        Ok(row::settings(texts))
    }

    pub(super) async fn write_settings(&self, settings: &Settings) -> Result<(), Error> {
        let texts = row::settings_texts(settings);
        let written =
            self.engine.write(move |connection| Box::pin(write_settings(connection, texts))).await?;
        written.map_or(Ok(()), |missing| Err(row::no_such_setting(missing)))
    }
}

/// Changes the application's row for a file. An id that is a blob is the UUID it is.
async fn update_row(
    connection: &mut SqliteConnection,
    file_id: &str,
    update: &ReceiptUpdate,
) -> sqlx::Result<()> {
    let set = update.set.iter().enumerate();
    let set = set.map(|(n, (column, _))| format!("{} = ${}", quoted(column), n + 2)).collect::<Vec<_>>();
    let id = quoted(&update.id_column);
    let sql = format!(
        "UPDATE {} SET {} WHERE {id} = $1 OR (typeof({id}) = 'blob' AND lower(hex({id})) = lower(replace($1, '-', '')))",
        update.quoted_table(),
        set.join(", "),
    );
    let values: Vec<Value> = update.set.iter().map(|(_, value)| value.clone()).collect();
    let statement = sqlx::query(AssertSqlSafe(sql)).persistent(false).bind(file_id.to_owned());
    database::bind_sqlite(statement, &values).execute(connection).await?;
    Ok(())
}

/// In the order of [`SETTINGS`]: from columns, or from keys with values.
async fn read_settings(connection: &mut SqliteConnection) -> sqlx::Result<[Option<String>; 4]> {
    let columns: Vec<String> = statement::query_scalar(SETTINGS_COLUMNS).fetch_all(&mut *connection).await?;
    let has = |name: &str| columns.iter().any(|column| column == name);
    let by_key = match (has("value"), has("key"), has("name")) {
        (true, true, _) => Some(READ_BY_KEY),
        (true, _, true) => Some(READ_BY_NAME),
        _ => None,
    };
    let mut texts = [const { None }; 4];
    for ((name, read), text) in SETTINGS.into_iter().zip(READ_SETTINGS).zip(&mut texts) {
        let read = match (has(name), by_key) {
            (true, _) => statement::query_scalar(read),
            (false, Some(by_key)) => statement::query_scalar(by_key).bind(name),
            (false, None) => continue,
        };
        *text = read.fetch_optional(&mut *connection).await?.flatten();
    }
    Ok(texts)
}

/// Gives the name of a setting that there is no column for, and then nothing is to be kept.
async fn write_settings(
    connection: &mut SqliteConnection,
    texts: [Option<String>; 4],
) -> sqlx::Result<Option<&'static str>> {
    let mut columns: Vec<String> =
        statement::query_scalar(SETTINGS_COLUMNS).fetch_all(&mut *connection).await?;
    if columns.is_empty() {
        statement::raw_sql(CREATE_SETTINGS).execute(&mut *connection).await?;
        columns = SETTINGS.map(str::to_owned).to_vec();
    }
    let given = || SETTINGS.into_iter().zip(SET_SETTINGS).zip(&texts);
    let missing =
        given().find(|((name, _), text)| text.is_some() && !columns.iter().any(|column| column == name));
    if let Some(((name, _), _)) = missing {
        return Ok(Some(name));
    }
    for ((_, set), text) in given() {
        if let Some(text) = text {
            statement::query(set).bind(text).execute(&mut *connection).await?;
        }
    }
    Ok(None)
}
