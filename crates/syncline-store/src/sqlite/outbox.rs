//! The outbox on SQLite. The writer runs one change at a time, so a claim may look first and take after.
//!
//! Claims and their ends go through the connection whose commits are not synced: what a loss of power takes with it is
//! an entry sent once more, which the receiver knows. Applications are other processes with connections of their own; that
//! they have committed something is noticed by [`signal`].

mod admin;
pub(super) mod fit;
#[cfg(test)]
mod plans;
mod signal;
pub(super) mod sql;

use std::sync::Mutex;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use serde::Serialize;
use sqlx::sqlite::SqliteConnection;
use syncline_core::outbox::{Moment, SenderId, Verdict};
use tokio::sync::watch;

use self::sql::*;
use super::{Engine, statement};
use crate::Error;
use crate::outbox::check::SettleRow;
use crate::outbox::row::{self, EntryRow, Found, LineRow, ORPHANS_EVERY, ROUNDS_MAX};
use crate::outbox::{
    CLAIM_BYTES_MAX, ClaimId, Claimed, Detail, Entry, Kind, List, NewEntry, Outbox, Receipt, ReceiptUpdate,
    Settings, Stats, Which, check,
};

/// The outbox port on SQLite.
#[derive(Debug)]
pub(crate) struct SqliteOutbox {
    engine: Engine,
    /// When entries that wait in vain were looked for last.
    orphans_at: Mutex<Option<Instant>>,
}

impl SqliteOutbox {
    pub(crate) fn new(engine: Engine) -> Self {
        Self { engine, orphans_at: Mutex::new(None) }
    }
}

#[async_trait]
impl Outbox for SqliteOutbox {
    async fn sender(&self) -> Result<SenderId, Error> {
        let sender = statement::query_scalar(SENDER);
        let sender: String = self.engine.read(|connection| Box::pin(sender.fetch_one(connection))).await?;
        SenderId::new(sender).map_err(|error| Error::invalid("sender", error.to_string()))
    }

    async fn enqueue(&self, entries: &[NewEntry]) -> Result<Vec<i64>, Error> {
        check::new_entries(entries)?;
        let entries = entries.to_vec();
        let inserted =
            self.engine.write(move |connection| Box::pin(async move { insert(connection, &entries).await }));
        let ids = inserted.await?;
        self.engine.outbox.wake();
        Ok(ids)
    }

    async fn fetch_pending(&self, limit: usize) -> Result<Vec<Entry>, Error> {
        let pending = statement::query_as(PENDING).bind(check::count("entries", limit)?);
        let rows: Vec<EntryRow> =
            self.engine.read(|connection| Box::pin(pending.fetch_all(connection))).await?;
        Ok(rows.into_iter().filter_map(|row| row::entry(row).ok()).collect())
    }

    async fn mark_processed(&self, ids: &[i64], at: Option<Moment>) -> Result<u64, Error> {
        check::count("ids", ids.len())?;
        let ids = json(&ids);
        let marked = self.engine.write(move |connection| {
            Box::pin(async move {
                let mark = statement::query(MARK).bind(&ids).bind(at.map(|at| at.to_string()));
                let marked = mark.execute(&mut *connection).await?.rows_affected();
                statement::query(FREE).bind(ids).execute(connection).await?;
                Ok(marked)
            })
        });
        let marked = marked.await?;
        self.engine.outbox.wake();
        Ok(marked)
    }

    async fn claim(&self, worker: &str, kind: Kind, limit: usize, lease: Duration) -> Result<Claimed, Error> {
        let (limit, lease_ms) = check::claim(worker, limit, lease)?;
        let claim = ClaimId(i64::from(rand::random::<u32>()) << 31 | i64::from(rand::random::<u32>() >> 1));
        let none = |look_in| Claimed { claim, entries: Vec::new(), unreadable: Vec::new(), look_in };
        for _ in 0..ROUNDS_MAX {
            // Looking costs nobody anything; a claim that finds nothing should not wake those who watch the file.
            if !self.engine.read(look(kind, self.engine.clock().now_ms())).await? {
                let freed = self.orphans_are_due() && self.free_orphans().await? > 0;
                if !freed {
                    return Ok(none(self.next_look(kind).await?));
                }
            }
            let taking = Taking { kind, limit, lease_ms, claim, worker: worker.to_owned() };
            let clock = self.engine.clock().clone();
            let taken = self.engine.write_unsynced(move |connection| {
                Box::pin(async move { taking.take(connection, clock.now_ms(), clock.wall_ms()).await })
            });
            let Found { ours: entries, unreadable, more, .. } = taken.await?;
            if !entries.is_empty() || !unreadable.is_empty() {
                let look_in = if more { Some(Duration::ZERO) } else { self.next_look(kind).await? };
                return Ok(Claimed { claim, entries, unreadable, look_in });
            }
        }
        Ok(none(Some(Duration::ZERO)))
    }

    async fn settle(&self, claim: ClaimId, verdicts: &[(i64, Verdict)]) -> Result<Vec<i64>, Error> {
        let settle_rows = check::settle_rows(verdicts)?;
        if settle_rows.is_empty() {
            return Ok(Vec::new());
        }
        let clock = self.engine.clock().clone();
        let settled = self.engine.write_unsynced(move |connection| {
            Box::pin(async move {
                let (now_ms, wall_ms) = (clock.now_ms(), clock.wall_ms());
                settle(connection, claim, &settle_rows, now_ms, wall_ms).await
            })
        });
        let (settled, freed) = settled.await?;
        if freed {
            self.engine.outbox.wake();
        }
        Ok(settled)
    }

    async fn renew(&self, claim: ClaimId, ids: &[i64], lease: Duration) -> Result<Vec<i64>, Error> {
        check::count("ids", ids.len())?;
        let until_ms = self.engine.clock().now_ms() + check::lease_ms(lease)?;
        let renew = statement::query_scalar(RENEW).bind(claim.0).bind(json(&ids)).bind(until_ms);
        self.engine.write_unsynced(|connection| Box::pin(renew.fetch_all(connection))).await
    }

    async fn stats(&self) -> Result<Stats, Error> {
        self.read_stats().await
    }

    async fn list(&self, list: List, after: Option<i64>, limit: usize) -> Result<Vec<Detail>, Error> {
        self.read_list(list, after, check::count("entries", limit)?).await
    }

    async fn entry(&self, id: i64) -> Result<Option<(Detail, String)>, Error> {
        self.read_entry(id).await
    }

    async fn retry(&self, which: &Which) -> Result<u64, Error> {
        let retried = self.change_dead(RETRY, RETRY_DEAD, check::which(which)?).await?;
        self.engine.outbox.wake();
        Ok(retried)
    }

    async fn discard(&self, which: &Which) -> Result<u64, Error> {
        self.change_dead(DISCARD, DISCARD_DEAD, check::which(which)?).await
    }

    async fn cleanup(&self, older_than: Duration, limit: usize) -> Result<u64, Error> {
        let limit = check::count("entries", limit)?;
        let older_than_ms = i64::try_from(older_than.as_millis()).unwrap_or(i64::MAX / 2);
        let before_ms = self.engine.clock().wall_ms().saturating_sub(older_than_ms);
        self.remove_processed(before_ms, limit).await
    }

    fn wakes(&self) -> watch::Receiver<u64> {
        signal::follow(&self.engine);
        self.engine.outbox.subscribe()
    }

    async fn settings(&self) -> Result<Settings, Error> {
        self.read_settings().await
    }

    async fn set_settings(&self, settings: &Settings) -> Result<(), Error> {
        self.write_settings(settings).await
    }

    async fn store_receipt(&self, receipt: &Receipt, update: Option<&ReceiptUpdate>) -> Result<(), Error> {
        check::receipt(receipt)?;
        update.map_or(Ok(()), ReceiptUpdate::check)?;
        self.write_receipt(receipt, update).await
    }

    async fn receipt(&self, entry: i64) -> Result<Option<Receipt>, Error> {
        let receipt = statement::query_as(RECEIPT).bind(entry);
        let receipt: Option<row::ReceiptRow> =
            self.engine.read(|connection| Box::pin(receipt.fetch_optional(connection))).await?;
        Ok(receipt.map(row::receipt))
    }

    async fn receipt_of(&self, file_id: &str) -> Result<Option<Receipt>, Error> {
        let receipt = statement::query_as(RECEIPT_OF).bind(file_id.to_owned());
        let receipt: Option<row::ReceiptRow> =
            self.engine.read(|connection| Box::pin(receipt.fetch_optional(connection))).await?;
        Ok(receipt.map(row::receipt))
    }
}

impl SqliteOutbox {
    /// When there may be more to claim.
    async fn next_look(&self, kind: Kind) -> Result<Option<Duration>, Error> {
        let next = statement::query_scalar(NEXT_LOOK).bind(kind == Kind::File);
        let next_ms: Option<i64> =
            self.engine.read(|connection| Box::pin(next.fetch_one(connection))).await?;
        Ok(next_ms.map(|at_ms| row::duration((at_ms - self.engine.clock().now_ms()).max(0) + 1)))
    }

    async fn free_orphans(&self) -> Result<u64, Error> {
        let free = statement::query(FREE_ORPHANS);
        let freed = self.engine.write_unsynced(|connection| Box::pin(free.execute(connection))).await?;
        Ok(freed.rows_affected())
    }

    fn orphans_are_due(&self) -> bool {
        let mut at = self.orphans_at.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let due = at.is_none_or(|at| at.elapsed() >= ORPHANS_EVERY);
        if due {
            *at = Some(Instant::now());
        }
        due
    }
}

/// Whether there is anything to claim, or to bring back into line.
fn look(
    kind: Kind,
    now_ms: i64,
) -> impl for<'c> FnOnce(&'c mut SqliteConnection) -> super::writer::Work<'c, bool> + Send + 'static {
    let look = statement::query_scalar(LOOK).bind(kind == Kind::File).bind(now_ms);
    move |connection| Box::pin(look.fetch_one(connection))
}

/// What a claim asks for.
struct Taking {
    kind: Kind,
    limit: i64,
    lease_ms: i64,
    claim: ClaimId,
    worker: String,
}

impl Taking {
    /// What was found. What is ours is taken, what has to wait is moved behind, and what cannot be read is buried.
    async fn take(self, connection: &mut SqliteConnection, now_ms: i64, wall_ms: i64) -> sqlx::Result<Found> {
        statement::query(BRING_BACK).bind(now_ms).execute(&mut *connection).await?;
        let line = statement::query_as(LINE).bind(self.kind == Kind::File).bind(self.limit).bind(now_ms);
        let rows: Vec<LineRow> = line.bind(CLAIM_BYTES_MAX as i64).fetch_all(&mut *connection).await?;
        let mut found = row::sort_out(rows, self.limit);
        let typeless: Vec<i64> =
            statement::query_scalar(BURY_TYPELESS).bind(wall_ms).fetch_all(&mut *connection).await?;
        found.unreadable.extend(typeless.into_iter().map(|id| (id, "entity_type is NULL".to_owned())));
        if !found.ours.is_empty() {
            let ids: Vec<i64> = found.ours.iter().map(|entry| entry.id).collect();
            let take =
                statement::query(TAKE).bind(json(&ids)).bind(self.claim.0).bind(now_ms + self.lease_ms);
            take.bind(self.worker).execute(&mut *connection).await?;
        }
        if !found.blocked.is_empty() {
            statement::query(DEFER).bind(json(&found.blocked)).execute(&mut *connection).await?;
        }
        if found.numberless {
            statement::query(BURY_NUMBERLESS).bind(wall_ms).execute(&mut *connection).await?;
        }
        if !found.unreadable.is_empty() {
            statement::query(BURY)
                .bind(json(&found.unreadable))
                .bind(wall_ms)
                .execute(&mut *connection)
                .await?;
            let ids: Vec<i64> = found.unreadable.iter().map(|(id, _)| *id).collect();
            statement::query(FREE).bind(json(&ids)).execute(connection).await?;
        }
        Ok(found)
    }
}

/// The ids that were still held, and whether others need not wait for them any more.
async fn settle(
    connection: &mut SqliteConnection,
    claim: ClaimId,
    settle_rows: &[SettleRow],
    now_ms: i64,
    wall_ms: i64,
) -> sqlx::Result<(Vec<i64>, bool)> {
    let rows: Vec<_> = settle_rows
        .iter()
        .map(|given| (given.id, given.verdict, given.after_ms.map(|after| now_ms + after), &given.reason))
        .collect();
    let settle = statement::query_scalar(SETTLE).bind(claim.0).bind(json(&rows)).bind(wall_ms);
    let settled: Vec<i64> = settle.fetch_all(&mut *connection).await?;
    let ended = check::ended(settle_rows, &settled);
    if ended.is_empty() {
        return Ok((settled, false));
    }
    let done: std::collections::HashSet<i64> = ended.iter().copied().collect();
    let delivered = settle_rows.iter().filter(|given| given.verdict == 0 && done.contains(&given.id)).count();
    statement::query(COUNT).bind(i64::try_from(delivered).unwrap_or(0)).execute(&mut *connection).await?;
    let freed = statement::query(FREE).bind(json(&ended)).execute(connection).await?.rows_affected();
    Ok((settled, freed > 0))
}

/// Inserts entries through any connection and gives their numbers. They are the last ones: a number that was given before
/// is replaced by the table's trigger, after the statement's own answer.
pub(crate) async fn insert(
    connection: &mut SqliteConnection,
    entries: &[NewEntry],
) -> sqlx::Result<Vec<i64>> {
    let rows: Vec<_> =
        entries.iter().map(|entry| (&entry.entity_type, &entry.entity_id, &entry.payload)).collect();
    statement::query(INSERT).bind(json(&rows)).execute(&mut *connection).await?;
    let last = statement::query_scalar(LAST).bind(i64::try_from(entries.len()).unwrap_or(0));
    let mut ids: Vec<i64> = last.fetch_all(connection).await?;
    ids.reverse();
    Ok(ids)
}

fn json<T: Serialize + ?Sized>(rows: &T) -> String {
    serde_json::to_string(rows).expect("numbers and text have a JSON")
}
