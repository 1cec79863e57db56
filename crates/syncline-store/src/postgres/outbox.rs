//! What is PostgreSQL's own of the outbox: claims and their ends, and hearing of others.
//!
//! A claim is one statement that locks the first rows in line (`FOR UPDATE SKIP LOCKED`), looks at each for an earlier
//! entry of the same entity, and takes those that have none. What has to wait for another is moved out of the line, behind
//! that other, so that a long row of changes of one entity is looked at once and not with every claim. The other's row is
//! locked for that, so that it cannot be settled between looking and moving.
//!
//! Claims and their ends are committed without waiting for the disk: what the server's power takes with it is an entry
//! sent once more, which the receiver knows.

pub(super) mod fit;
mod listen;
pub(crate) mod sql;

use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Map, Value as Json};

use self::sql::*;
use super::Engine;
use crate::database::{Database, Transaction, Value, values};
use crate::outbox::check::{self, Fate, SettleRow};
use crate::outbox::port::{Attempt, Claims, Request};
use crate::outbox::row::{self, LineRow, SETTINGS};
use crate::outbox::update::quoted;
use crate::outbox::wakes::Wakes;
use crate::outbox::{CLAIM_BYTES_MAX, ClaimId, Kind, ReceiptUpdate};
use crate::{Error, names};

/// Claims on PostgreSQL.
#[derive(Debug)]
pub(crate) struct PostgresClaims {
    engine: Engine,
    database: Database,
}

impl PostgresClaims {
    /// Claims in the outbox that `database` means: the application's, or a route's.
    pub(crate) fn new(engine: Engine, database: Database) -> Self {
        Self { database, engine }
    }
}

#[async_trait]
impl Claims for PostgresClaims {
    async fn claim(&self, request: Request) -> Result<Attempt, Error> {
        self.database.write_unsynced(move |transaction| Box::pin(claim(transaction, request))).await
    }

    async fn settle(&self, claim: ClaimId, rows: Vec<SettleRow>) -> Result<(Vec<i64>, bool), Error> {
        self.database.write_unsynced(move |transaction| Box::pin(settle(transaction, claim, rows))).await
    }

    fn follow(&self) -> &Wakes {
        listen::follow(&self.engine);
        &self.engine.outbox
    }

    fn wakes(&self) -> &Wakes {
        &self.engine.outbox
    }
}

async fn claim(transaction: &mut Transaction<'_>, request: Request) -> Result<Attempt, Error> {
    let files = i64::from(request.kind == Kind::File);
    let Request { limit, retries, newest_first, claim, lease_ms, worker, orphans, .. } = request;
    let take = values![files, limit, claim.0, lease_ms, worker, CLAIM_BYTES_MAX as i64];
    let sql = if newest_first { *CLAIM_NEWEST } else { CLAIM };
    let rows: Vec<LineRow> = transaction.query(sql.into(), &take).await?;
    let mut found = row::sort_out(rows, limit);
    if !found.blocked.is_empty() {
        let (ids, blockers): (Vec<i64>, Vec<i64>) = std::mem::take(&mut found.blocked).into_iter().unzip();
        transaction.execute(DEFER, &values![ids, blockers]).await?;
    }
    if !found.unreadable.is_empty() {
        let (ids, reasons): (Vec<i64>, Vec<String>) = found.unreadable.iter().cloned().unzip();
        transaction.execute(BURY, &values![ids.clone(), reasons]).await?;
        transaction.execute(FREE, &values![ids]).await?;
    }
    let look_in = if found.more {
        Some(Duration::ZERO)
    } else if found.ours.is_empty() && orphans.are_due() && transaction.execute(FREE_ORPHANS, &[]).await? > 0
    {
        // Entries that wait in vain are let go now and then, while there is nothing else to do.
        Some(Duration::ZERO)
    } else {
        let next_ms: Option<i64> = transaction.value(NEXT_LOOK, &values![files, retries > 0]).await?;
        // A millisecond more, so that it is due by then.
        next_ms.map(|ms| if ms <= 0 { Duration::ZERO } else { row::duration(ms + 1) })
    };
    // For the next claim, which follows at once.
    let back = retries - found.ours.iter().filter(|entry| entry.failed_before).count() as i64;
    if look_in == Some(Duration::ZERO) && back > 0 {
        transaction.execute(BRING_BACK, &values![files, back]).await?;
    }
    Ok(Attempt { found, look_in })
}

pub(crate) async fn settle(
    transaction: &mut Transaction<'_>,
    claim: ClaimId,
    rows: Vec<SettleRow>,
) -> Result<(Vec<i64>, bool), Error> {
    let mut settled: Vec<i64> = Vec::new();
    for (sql, fate) in [(DONE, Fate::Done), (FAILED, Fate::Failed), (GIVEN_BACK, Fate::GivenBack)] {
        let these: Vec<&SettleRow> = rows.iter().filter(|row| row.fate() == fate).collect();
        if these.is_empty() {
            continue;
        }
        let mut settle = values![claim.0, these.iter().map(|row| row.id).collect::<Vec<i64>>()];
        if fate == Fate::Failed {
            let delays: Vec<Option<i64>> = these.iter().map(|row| row.after_ms).collect();
            let reasons: Vec<Option<String>> = these.iter().map(|row| row.reason.clone()).collect();
            let counted: Vec<i64> = these.iter().map(|row| row.counted()).collect();
            settle.extend(values![delays, reasons, counted]);
        }
        settled.extend(transaction.column::<i64>(sql.into(), &settle).await?);
    }
    let ended = check::ended(&rows, &settled);
    let freed = transaction.execute(FREE, &values![ended]).await?;
    Ok((settled, freed > 0))
}

/// Changes the application's row for a file, where it has such a table.
pub(crate) async fn update_row(
    transaction: &mut Transaction<'_>,
    file_id: String,
    update: ReceiptUpdate,
) -> Result<(), Error> {
    let columns: Vec<(String, String)> =
        transaction.query(COLUMNS.into(), &values![update.quoted_table()]).await?;
    if columns.is_empty() {
        return Ok(());
    }
    update.check_columns(&columns.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>())?;
    // Bound as what it is and cast to what the column is, be it an ENUM or a time.
    let kind = |name: &str| columns.iter().find(|column| column.0 == name).map_or("text", |column| &column.1);
    let set = update.set.iter().enumerate().map(|(n, (column, value))| {
        let given = if matches!(value, Value::Text(_)) { "::text" } else { "" };
        format!("{} = ${}{given}::{}", quoted(column), n + 2, kind(column))
    });
    let (set, id) = (set.collect::<Vec<_>>().join(", "), quoted(&update.id_column));
    let sql = format!(
        "UPDATE {} SET {set} WHERE {id}::text = CASE WHEN pg_typeof({id}) = 'uuid'::regtype THEN lower($1) ELSE $1 END",
        update.quoted_table()
    );
    let values: Vec<Value> =
        [file_id.into()].into_iter().chain(update.set.into_iter().map(|(_, value)| value)).collect();
    transaction.execute(names::kept(sql), &values).await.map(drop)
}

pub(crate) async fn read_settings(transaction: &mut Transaction<'_>) -> Result<[Option<String>; 4], Error> {
    let rows: Vec<String> = match transaction.value(HAS_SETTINGS, &[]).await? {
        true => transaction.column(SETTINGS_ROWS.into(), &[]).await?,
        false => Vec::new(),
    };
    let rows = rows.into_iter().filter_map(|row| serde_json::from_str(&row).ok());
    Ok(settings_in(&rows.collect::<Vec<_>>()))
}

/// The columns of the table of settings, which is made where there is none.
pub(crate) async fn settings_columns(transaction: &mut Transaction<'_>) -> Result<Vec<String>, Error> {
    if !transaction.value::<bool>(HAS_SETTINGS, &[]).await? {
        transaction.script(CREATE_SETTINGS).await?;
    }
    transaction.column(SETTINGS_COLUMNS.into(), &[]).await
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
