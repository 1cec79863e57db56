//! What is SQLite's own of the outbox: claims and their ends, and hearing of others.
//!
//! The writer runs one change at a time, so a claim may look first and take after. Claims and their ends are not synced: what a
//! loss of power takes with it is an entry sent once more, which the receiver knows. Applications are other processes with
//! connections of their own; that they have committed something is noticed by [`signal`].

pub(super) mod fit;
#[cfg(test)]
mod plans;
mod signal;
pub(crate) mod sql;

use std::collections::HashSet;
use std::time::Duration;

use async_trait::async_trait;
use serde::Serialize;

use self::sql::*;
use super::Engine;
use crate::database::{Database, Transaction, Value, values};
use crate::outbox::check::{self, SettleRow};
use crate::outbox::port::{Attempt, Claims, Request};
use crate::outbox::row::{self, Found, LineRow, SETTINGS};
use crate::outbox::update::quoted;
use crate::outbox::wakes::Wakes;
use crate::outbox::{CLAIM_BYTES_MAX, ClaimId, Kind, ReceiptUpdate};
use crate::{Error, names};

/// Claims on SQLite.
#[derive(Debug)]
pub(crate) struct SqliteClaims {
    engine: Engine,
    database: Database,
}

impl SqliteClaims {
    /// Claims in the outbox that `database` means: the application's, or a route's.
    pub(crate) fn new(engine: Engine, database: Database) -> Self {
        Self { database, engine }
    }

    /// When there may be more to claim.
    async fn next_look(&self, kind: Kind, retries: bool) -> Result<Option<Duration>, Error> {
        let next: Option<(Option<i64>,)> =
            self.database.query_first(NEXT_LOOK.into(), values![kind == Kind::File, retries]).await?;
        // A millisecond more, so that it is due by then.
        Ok(next.and_then(|(ms,)| ms).map(|ms| row::duration(ms.max(0) + 1)))
    }

    async fn free_orphans(&self) -> Result<u64, Error> {
        self.database
            .write_unsynced(|transaction| {
                Box::pin(async move { transaction.execute(FREE_ORPHANS, &[]).await })
            })
            .await
    }
}

#[async_trait]
impl Claims for SqliteClaims {
    async fn claim(&self, request: Request) -> Result<Attempt, Error> {
        let (kind, retries) = (request.kind, request.retries > 0);
        // Looking costs nobody anything; a claim that finds nothing should not wake those who watch the file.
        let look: Option<(bool,)> =
            self.database.query_first(LOOK.into(), values![kind == Kind::File, retries]).await?;
        if look != Some((true,)) {
            let freed = request.orphans.are_due() && self.free_orphans().await? > 0;
            if !freed {
                return Ok(Attempt {
                    found: Found::default(),
                    look_in: self.next_look(kind, retries).await?,
                });
            }
        }
        let taken = self.database.write_unsynced(move |transaction| Box::pin(take(transaction, request)));
        let found = taken.await?;
        let look_in = if found.more { Some(Duration::ZERO) } else { self.next_look(kind, retries).await? };
        Ok(Attempt { found, look_in })
    }

    async fn settle(&self, claim: ClaimId, rows: Vec<SettleRow>) -> Result<(Vec<i64>, bool), Error> {
        self.database.write_unsynced(move |transaction| Box::pin(settle(transaction, claim, rows))).await
    }

    fn follow(&self) -> &Wakes {
        signal::follow(&self.engine);
        &self.engine.outbox
    }

    fn wakes(&self) -> &Wakes {
        &self.engine.outbox
    }
}

/// What was found. What is ours is taken, what has to wait is moved behind, and what cannot be read is buried.
async fn take(transaction: &mut Transaction<'_>, request: Request) -> Result<Found, Error> {
    if request.retries > 0 {
        transaction.execute(BRING_BACK, &values![request.kind == Kind::File, request.retries]).await?;
    }
    let line = values![request.kind == Kind::File, request.limit, CLAIM_BYTES_MAX as i64];
    let sql = if request.newest_first { *LINE_NEWEST } else { LINE };
    let rows: Vec<LineRow> = transaction.query(sql.into(), &line).await?;
    let mut found = row::sort_out(rows, request.limit);
    let typeless: Vec<i64> = transaction.column(BURY_TYPELESS.into(), &[]).await?;
    found.unreadable.extend(typeless.into_iter().map(|id| (id, "entity_type is NULL".to_owned())));
    if !found.ours.is_empty() {
        let ids: Vec<i64> = found.ours.iter().map(|entry| entry.id).collect();
        let take = values![ids, request.claim.0, request.lease_ms, request.worker];
        transaction.execute(TAKE, &take).await?;
    }
    if !found.blocked.is_empty() {
        transaction.execute(DEFER, &values![json(&found.blocked)]).await?;
    }
    if !found.unreadable.is_empty() {
        transaction.execute(BURY, &values![json(&found.unreadable)]).await?;
        let ids: Vec<i64> = found.unreadable.iter().map(|(id, _)| *id).collect();
        transaction.execute(FREE, &values![ids]).await?;
    }
    Ok(found)
}

/// The ids that were still held, and whether others need not wait for them any more.
pub(crate) async fn settle(
    transaction: &mut Transaction<'_>,
    claim: ClaimId,
    rows: Vec<SettleRow>,
) -> Result<(Vec<i64>, bool), Error> {
    let given: Vec<_> = rows.iter().map(|row| (row.id, row.verdict, row.after_ms, &row.reason)).collect();
    let settled: Vec<i64> = transaction.column(SETTLE.into(), &values![claim.0, json(&given)]).await?;
    let ended = check::ended(&rows, &settled);
    if ended.is_empty() {
        return Ok((settled, false));
    }
    let done: HashSet<i64> = ended.iter().copied().collect();
    let delivered = rows.iter().filter(|row| row.verdict == 0 && done.contains(&row.id)).map(|row| row.id);
    let delivered: Vec<i64> = delivered.collect();
    transaction.execute(COUNT, &values![i64::try_from(delivered.len()).unwrap_or(0)]).await?;
    transaction.execute(MARK_PAYLOADS, &values![delivered]).await?;
    let freed = transaction.execute(FREE, &values![ended]).await?;
    Ok((settled, freed > 0))
}

/// Changes the application's row for a file, where it has such a table. An id that is a blob is the UUID it is.
pub(crate) async fn update_row(
    transaction: &mut Transaction<'_>,
    file_id: String,
    update: ReceiptUpdate,
) -> Result<(), Error> {
    let columns: Vec<String> = transaction.column(COLUMNS.into(), &values![&update.table]).await?;
    if columns.is_empty() {
        return Ok(());
    }
    update.check_columns(&columns.iter().map(String::as_str).collect::<Vec<_>>())?;
    let set = update.set.iter().enumerate();
    let set = set.map(|(n, (column, _))| format!("{} = ${}", quoted(column), n + 2)).collect::<Vec<_>>();
    let id = quoted(&update.id_column);
    let sql = format!(
        "UPDATE {} SET {} WHERE {id} = $1 OR (typeof({id}) = 'blob' AND lower(hex({id})) = lower(replace($1, '-', '')))",
        update.quoted_table(),
        set.join(", "),
    );
    let values: Vec<Value> =
        [file_id.into()].into_iter().chain(update.set.into_iter().map(|(_, value)| value)).collect();
    transaction.execute(names::kept(sql), &values).await.map(drop)
}

/// In the order of [`SETTINGS`]: from columns, or from keys with values.
pub(crate) async fn read_settings(transaction: &mut Transaction<'_>) -> Result<[Option<String>; 4], Error> {
    let columns: Vec<String> = transaction.column(SETTINGS_COLUMNS.into(), &[]).await?;
    let has = |name: &str| columns.iter().any(|column| column == name);
    let by_key = match (has("value"), has("key"), has("name")) {
        (true, true, _) => Some(READ_BY_KEY),
        (true, _, true) => Some(READ_BY_NAME),
        _ => None,
    };
    let mut texts = [const { None }; 4];
    for ((name, read), text) in SETTINGS.into_iter().zip(READ_SETTINGS).zip(&mut texts) {
        let (sql, values) = match (has(name), by_key) {
            (true, _) => (read, values![]),
            (false, Some(by_key)) => (by_key, values![name]),
            (false, None) => continue,
        };
        let found: Option<(Option<String>,)> = transaction.query_first(sql.into(), &values).await?;
        *text = found.and_then(|(text,)| text);
    }
    Ok(texts)
}

/// The columns of the table of settings, which is made where there is none.
pub(crate) async fn settings_columns(transaction: &mut Transaction<'_>) -> Result<Vec<String>, Error> {
    let columns: Vec<String> = transaction.column(SETTINGS_COLUMNS.into(), &[]).await?;
    if !columns.is_empty() {
        return Ok(columns);
    }
    transaction.script(CREATE_SETTINGS).await?;
    transaction.column(SETTINGS_COLUMNS.into(), &[]).await
}

fn json<T: Serialize + ?Sized>(rows: &T) -> String {
    serde_json::to_string(rows).expect("numbers and text have a JSON")
}
