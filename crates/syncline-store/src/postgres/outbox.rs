//! The outbox on PostgreSQL.
//!
//! A claim is one statement that locks the first rows in line (`FOR UPDATE SKIP LOCKED`), looks at each for an earlier
//! entry of the same entity, and takes those that have none. What has to wait for another is moved out of the line, behind
//! that other, so that a long row of changes of one entity is looked at once and not with every claim. The other's row is
//! locked for that, so that it cannot be settled between looking and moving.
//!
//! Claims and their ends are committed without waiting for the disk: what the server's power takes with it is an entry
//! sent once more, which the receiver knows.

mod admin;
pub(super) mod fit;
mod listen;
pub(super) mod sql;

use std::sync::Mutex;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use sqlx::PgConnection;
use sqlx::postgres::PgArguments;
use sqlx::query::QueryScalar;
use syncline_core::outbox::{Moment, SenderId, Verdict};
use tokio::sync::watch;

use self::sql::*;
use super::{Engine, Session};
use crate::Error;
use crate::outbox::check::{Fate, SettleRow};
use crate::outbox::row::{self, EntryRow, LineRow, ORPHANS_EVERY, ROUNDS_MAX};
use crate::outbox::{
    CLAIM_BYTES_MAX, ClaimId, Claimed, Detail, Entry, Kind, List, NewEntry, Outbox, Receipt, ReceiptUpdate,
    Settings, Stats, Which, check,
};

/// The outbox port on PostgreSQL.
#[derive(Debug)]
pub(crate) struct PostgresOutbox {
    engine: Engine,
    /// When entries that wait in vain were looked for last.
    orphans_at: Mutex<Option<Instant>>,
}

impl PostgresOutbox {
    pub(crate) fn new(engine: Engine) -> Self {
        Self { engine, orphans_at: Mutex::new(None) }
    }
}

#[async_trait]
impl Outbox for PostgresOutbox {
    async fn sender(&self) -> Result<SenderId, Error> {
        let mut session = self.engine.statement().await?;
        let sender: String = session.value(self.engine.query(SENDER)).await?;
        session.commit().await?;
        SenderId::new(sender).map_err(|error| Error::invalid("sender", error.to_string()))
    }

    async fn enqueue(&self, entries: &[NewEntry]) -> Result<Vec<i64>, Error> {
        check::new_entries(entries)?;
        let mut session = self.engine.statement().await?;
        let ids: Vec<(i64,)> = session.all(self.engine.query(INSERT).bind(as_json(entries))).await?;
        session.commit().await?;
        self.engine.outbox.wake();
        Ok(ids.into_iter().map(|(id,)| id).collect())
    }

    async fn fetch_pending(&self, limit: usize) -> Result<Vec<Entry>, Error> {
        let limit = check::count("entries", limit)?;
        let mut session = self.engine.transaction().await?;
        let rows: Vec<EntryRow> = session.all(self.engine.query(PENDING).bind(limit)).await?;
        session.commit().await?;
        Ok(rows.into_iter().filter_map(|row| row::entry(row).ok()).collect())
    }

    async fn mark_processed(&self, ids: &[i64], at: Option<Moment>) -> Result<u64, Error> {
        check::count("ids", ids.len())?;
        let mut session = self.engine.transaction().await?;
        let mark = self.engine.query(MARK).bind(ids.to_vec()).bind(at.map(|at| at.to_string()));
        let marked = session.execute(mark).await?;
        session.execute(self.engine.query(FREE).bind(ids.to_vec())).await?;
        session.commit().await?;
        self.engine.outbox.wake();
        Ok(marked)
    }

    async fn claim(&self, worker: &str, kind: Kind, limit: usize, lease: Duration) -> Result<Claimed, Error> {
        let (limit, lease_ms) = check::claim(worker, limit, lease)?;
        let claim = ClaimId(i64::from(rand::random::<u32>()) << 31 | i64::from(rand::random::<u32>() >> 1));
        for _ in 0..ROUNDS_MAX {
            let mut session = Session::unsynced(&self.engine).await?;
            let take = self
                .engine
                .query(CLAIM)
                .bind(i32::from(kind == Kind::File))
                .bind(limit)
                .bind(claim.0)
                .bind(lease_ms);
            let take = take.bind(worker.to_owned()).bind(CLAIM_BYTES_MAX as i64);
            let rows: Vec<LineRow> = session.all(take).await?;
            let found = row::sort_out(rows, limit);
            if !found.blocked.is_empty() {
                let (ids, blockers): (Vec<i64>, Vec<i64>) = found.blocked.into_iter().unzip();
                session.execute(self.engine.query(DEFER).bind(ids).bind(blockers)).await?;
            }
            if !found.unreadable.is_empty() {
                let (ids, reasons): (Vec<i64>, Vec<String>) = found.unreadable.iter().cloned().unzip();
                session.execute(self.engine.query(BURY).bind(ids.clone()).bind(reasons)).await?;
                session.execute(self.engine.query(FREE).bind(ids)).await?;
            }
            let (unreadable, idle) = (found.unreadable, found.ours.is_empty());
            let look_in = match found.more {
                true => Some(Duration::ZERO),
                false => self.next_look(&mut session, kind, idle).await?,
            };
            if look_in == Some(Duration::ZERO) {
                session.execute(self.engine.query(BRING_BACK)).await?;
            }
            session.commit().await?;
            if !idle {
                self.engine.outbox.note_found();
            }
            if !idle || !unreadable.is_empty() || look_in != Some(Duration::ZERO) {
                return Ok(Claimed { claim, entries: found.ours, unreadable, look_in });
            }
        }
        Ok(Claimed { claim, entries: Vec::new(), unreadable: Vec::new(), look_in: Some(Duration::ZERO) })
    }

    async fn settle(&self, claim: ClaimId, verdicts: &[(i64, Verdict)]) -> Result<Vec<i64>, Error> {
        let settle_rows = check::settle_rows(verdicts)?;
        if settle_rows.is_empty() {
            return Ok(Vec::new());
        }
        let mut session = Session::unsynced(&self.engine).await?;
        let mut settled: Vec<i64> = Vec::new();
        for (sql, fate) in [(DONE, Fate::Done), (FAILED, Fate::Failed), (GIVEN_BACK, Fate::GivenBack)] {
            let these: Vec<&SettleRow> = settle_rows.iter().filter(|row| row.fate() == fate).collect();
            if these.is_empty() {
                continue;
            }
            let ids: Vec<i64> = these.iter().map(|row| row.id).collect();
            let mut settle = self.engine.query(sql).bind(claim.0).bind(ids);
            if fate == Fate::Failed {
                let delays: Vec<Option<i64>> = these.iter().map(|row| row.after_ms).collect();
                let reasons: Vec<Option<String>> = these.iter().map(|row| row.reason.clone()).collect();
                settle = settle.bind(delays).bind(reasons);
            }
            settled.extend(session.all::<(i64,)>(settle).await?.into_iter().map(|(id,)| id));
        }
        let ended = check::ended(&settle_rows, &settled);
        let freed = session.execute(self.engine.query(FREE).bind(ended)).await?;
        session.commit().await?;
        if freed > 0 {
            self.engine.outbox.wake();
        }
        Ok(settled)
    }

    async fn renew(&self, claim: ClaimId, ids: &[i64], lease: Duration) -> Result<Vec<i64>, Error> {
        check::count("ids", ids.len())?;
        let lease_ms = check::lease_ms(lease)?;
        let mut session = Session::unsynced(&self.engine).await?;
        let renew = self.engine.query(RENEW).bind(claim.0).bind(ids.to_vec()).bind(lease_ms);
        let renewed: Vec<(i64,)> = session.all(renew).await?;
        session.commit().await?;
        Ok(renewed.into_iter().map(|(id,)| id).collect())
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
        let mut session = self.engine.transaction().await?;
        let removed: i64 = session.value(self.engine.query(CLEANUP).bind(older_than_ms).bind(limit)).await?;
        session.commit().await?;
        Ok(removed.unsigned_abs())
    }

    fn wakes(&self) -> watch::Receiver<u64> {
        listen::follow(&self.engine);
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
        let mut session = self.engine.statement().await?;
        let receipt: Option<row::ReceiptRow> = session.first(self.engine.query(RECEIPT).bind(entry)).await?;
        session.commit().await?;
        Ok(receipt.map(row::receipt))
    }

    async fn receipt_of(&self, file_id: &str) -> Result<Option<Receipt>, Error> {
        let mut session = self.engine.statement().await?;
        let receipt = self.engine.query(RECEIPT_OF).bind(file_id.to_owned());
        let receipt: Option<row::ReceiptRow> = session.first(receipt).await?;
        session.commit().await?;
        Ok(receipt.map(row::receipt))
    }
}

impl PostgresOutbox {
    /// When there may be more to claim. Entries that wait in vain are let go now and then, while there is nothing else to do.
    async fn next_look(
        &self,
        session: &mut Session,
        kind: Kind,
        idle: bool,
    ) -> Result<Option<Duration>, Error> {
        if idle && self.orphans_are_due() && session.execute(self.engine.query(FREE_ORPHANS)).await? > 0 {
            return Ok(Some(Duration::ZERO));
        }
        let next_ms: Option<i64> =
            session.value(self.engine.query(NEXT_LOOK).bind(i32::from(kind == Kind::File))).await?;
        // A millisecond more, so that it is due by then.
        Ok(next_ms.map(|ms| if ms <= 0 { Duration::ZERO } else { row::duration(ms + 1) }))
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

/// Inserts entries through a connection that is the caller's.
pub(crate) async fn insert(connection: &mut PgConnection, entries: &[NewEntry]) -> sqlx::Result<Vec<i64>> {
    let insert: QueryScalar<'_, _, i64, PgArguments> = sqlx::query_scalar(INSERT);
    insert.bind(as_json(entries)).fetch_all(connection).await
}

/// Entries as one JSON document: the server makes of each value what the column's type is, whichever that is.
fn as_json(entries: &[NewEntry]) -> String {
    let quoted = |text: &str| serde_json::to_string(text).expect("text has a JSON");
    let one = |entry: &NewEntry| {
        let (entity_type, entity_id) = (quoted(&entry.entity_type), quoted(&entry.entity_id));
        format!(r#"{{"entity_type":{entity_type},"entity_id":{entity_id},"payload":{}}}"#, entry.payload)
    };
    format!("[{}]", entries.iter().map(one).collect::<Vec<_>>().join(","))
}
