//! The outbox on every engine. How entries are claimed and settled, and how others are heard, is the engine's ([`Claims`]): their
//! locking differs.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use syncline_core::outbox::{Moment, SenderId, Verdict};
use tokio::sync::watch;

use super::check::{self, SettleRow};
use super::route::{self, HandOver};
use super::row::{self, DetailRow, EntryRow, Found, ORPHANS_EVERY, ReceiptRow, SETTINGS, StatsRow};
use super::wakes::Wakes;
use super::{
    ClaimId, Claimed, Detail, Entry, Kind, List, NewEntry, Outbox, Receipt, ReceiptUpdate, Settings, Stats,
    Wanted, Which,
};
use crate::database::{Database, Sql, Transaction, values};
use crate::postgres::outbox::sql as postgres;
use crate::sqlite::outbox::sql as sqlite;
use crate::{Backend, Error};

macro_rules! statements {
    ($($name:ident),+) => {$(const $name: Sql = Sql::new(sqlite::$name, postgres::$name);)+};
}
statements!(SENDER, SET_SENDER, PENDING, MARK, FREE, RENEW, STATS, LIST_PENDING, LIST_DEAD, LIST_PROCESSED);
statements!(LIST_PROCESSED_AFTER, DETAIL, PAYLOAD, RETRY, RETRY_DEAD);
statements!(RECEIPT, RECEIPT_OF, STORE_RECEIPT);

/// What a claim asks for.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) kind: Kind,
    pub(crate) limit: i64,
    /// How many of those that failed may come back.
    pub(crate) retries: i64,
    pub(crate) newest_first: bool,
    pub(crate) lease_ms: i64,
    pub(crate) claim: ClaimId,
    pub(crate) worker: String,
    /// When entries that wait in vain were looked for last, which is done if there is nothing else to do.
    pub(crate) orphans: Arc<Orphans>,
}

/// When entries that wait in vain were looked for last.
#[derive(Debug, Default)]
pub(crate) struct Orphans(Mutex<Option<Instant>>);

impl Orphans {
    /// Whether it is time to look again; then it counts as done.
    pub(crate) fn are_due(&self) -> bool {
        let mut at = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let due = at.is_none_or(|at| at.elapsed() >= ORPHANS_EVERY);
        if due {
            *at = Some(Instant::now());
        }
        due
    }
}

/// What one attempt at a claim came to.
pub(crate) struct Attempt {
    pub(crate) found: Found,
    /// When there may be more, if nothing is inserted before.
    pub(crate) look_in: Option<Duration>,
}

/// What is each engine's.
#[async_trait]
pub(crate) trait Claims: fmt::Debug + Send + Sync {
    /// One attempt: what is found in line is taken, what has to wait is moved behind, what cannot be read is buried.
    async fn claim(&self, request: Request) -> Result<Attempt, Error>;

    /// Ends claims. The ids that were still held, and whether others need not wait for them any more.
    async fn settle(&self, claim: ClaimId, rows: Vec<SettleRow>) -> Result<(Vec<i64>, bool), Error>;

    /// Who hears of new entries; other processes are followed from now on.
    fn follow(&self) -> &Wakes;

    /// The same, without following anybody.
    fn wakes(&self) -> &Wakes;
}

/// The outbox port.
#[derive(Debug)]
pub(crate) struct Port {
    database: Database,
    /// The same, in which `sync_outbox` is the application's table.
    application: Database,
    claims: Arc<dyn Claims>,
    orphans: Arc<Orphans>,
}

impl Port {
    pub(crate) fn new(application: Database, database: Database, claims: Arc<dyn Claims>) -> Self {
        Self { database, application, claims, orphans: Arc::default() }
    }

    /// Changes these, or all dead ones.
    async fn change_dead(&self, these: Sql, all: Sql, which: &Which) -> Result<u64, Error> {
        match check::which(which)? {
            Some(ids) => self.database.execute(these, values![ids]).await,
            None => self.database.execute(all, values![]).await,
        }
    }

    /// Removes these, or all dead ones, and the application's rows with them.
    async fn discard_on_sqlite(&self, which: &Which) -> Result<u64, Error> {
        let (sql, values) = match check::which(which)? {
            Some(ids) => (sqlite::DISCARD, values![ids]),
            None => (sqlite::DISCARD_DEAD, values![]),
        };
        let discarded = self.database.write(move |transaction| {
            Box::pin(async move {
                let gone: Vec<i64> = transaction.column(sql.into(), &values).await?;
                let count = gone.len() as u64;
                transaction.execute(sqlite::REMOVE_PAYLOADS, &values![gone]).await?;
                Ok(count)
            })
        });
        discarded.await
    }
}

#[async_trait]
impl Outbox for Port {
    async fn sender(&self) -> Result<SenderId, Error> {
        let sender: Option<(String,)> = self.database.query_first(SENDER, values![]).await?;
        let (sender,) = sender.ok_or_else(|| Error::invalid("sender", "is not in the database"))?;
        SenderId::new(sender).map_err(|error| Error::invalid("sender", error.to_string()))
    }

    async fn set_sender(&self, sender: &SenderId) -> Result<(), Error> {
        self.database.execute(SET_SENDER, values![sender.as_str()]).await.map(drop)
    }

    async fn enqueue(&self, entries: &[NewEntry]) -> Result<Vec<i64>, Error> {
        check::new_entries(entries)?;
        let entries = entries.to_vec();
        let inserted =
            self.application.write(move |transaction| Box::pin(super::insert::insert(transaction, entries)));
        let ids = inserted.await?;
        self.claims.wakes().wake();
        Ok(ids)
    }

    async fn fetch_pending(&self, limit: usize) -> Result<Vec<Entry>, Error> {
        let limit = check::count("entries", limit)?;
        let rows: Vec<EntryRow> = self.database.query(PENDING, values![limit]).await?;
        Ok(rows.into_iter().filter_map(|row| row::entry(row).ok()).collect())
    }

    async fn mark_processed(&self, ids: &[i64], at: Option<Moment>) -> Result<u64, Error> {
        check::count("ids", ids.len())?;
        let (ids, at) = (ids.to_vec(), at.map(|at| at.to_string()));
        let marked = self.database.write(move |transaction| {
            Box::pin(async move {
                let marked = transaction.execute(MARK, &values![ids.clone(), at]).await?;
                if transaction.backend() == Backend::Sqlite {
                    transaction.execute(sqlite::MARK_PAYLOADS, &values![ids.clone()]).await?;
                }
                transaction.execute(FREE, &values![ids]).await?;
                Ok(marked)
            })
        });
        let marked = marked.await?;
        self.claims.wakes().wake();
        Ok(marked)
    }

    async fn claim_with(&self, worker: &str, wanted: Wanted) -> Result<Claimed, Error> {
        let Wanted { kind, limit, retries, newest_first, lease } = wanted;
        let (limit, lease_ms) = check::claim(worker, limit, lease)?;
        let retries = check::count("retries", retries)?.min(limit);
        let claim = ClaimId(i64::from(rand::random::<u32>()) << 31 | i64::from(rand::random::<u32>() >> 1));
        let worker = worker.to_owned();
        let orphans = Arc::clone(&self.orphans);
        let request = Request { kind, limit, retries, newest_first, lease_ms, claim, worker, orphans };
        // The newest entries of one entity may all have to wait for older ones, however often they are looked at.
        let rounds = if newest_first { 1 } else { row::ROUNDS_MAX };
        for _ in 0..rounds {
            let Attempt { found, look_in } = self.claims.claim(request.clone()).await?;
            let Found { ours: entries, unreadable, .. } = found;
            if !entries.is_empty() {
                self.claims.wakes().note_found();
            }
            if !entries.is_empty() || !unreadable.is_empty() || look_in != Some(Duration::ZERO) {
                return Ok(Claimed { claim, entries, unreadable, look_in });
            }
        }
        Ok(Claimed { claim, entries: Vec::new(), unreadable: Vec::new(), look_in: Some(Duration::ZERO) })
    }

    async fn settle(&self, claim: ClaimId, verdicts: &[(i64, Verdict)]) -> Result<Vec<i64>, Error> {
        let rows = check::settle_rows(verdicts)?;
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        let (settled, freed) = self.claims.settle(claim, rows).await?;
        if freed {
            self.claims.wakes().wake();
        }
        Ok(settled)
    }

    async fn hand_over(&self, claim: ClaimId, to: &HandOver) -> Result<Vec<i64>, Error> {
        to.routes.iter().try_for_each(|(route, _)| route::check_name(route))?;
        let to = to.clone();
        let held = self
            .database
            .write_unsynced(move |transaction| Box::pin(route::hand_over(transaction, claim, to)))
            .await?;
        self.claims.wakes().wake();
        Ok(held)
    }

    async fn renew(&self, claim: ClaimId, ids: &[i64], lease: Duration) -> Result<Vec<i64>, Error> {
        check::count("ids", ids.len())?;
        let renew = values![claim.0, ids.to_vec(), check::lease_ms(lease)?];
        self.database
            .write_unsynced(move |transaction| {
                Box::pin(async move { transaction.column(RENEW, &renew).await })
            })
            .await
    }

    async fn stats(&self) -> Result<Stats, Error> {
        let row: Option<StatsRow> = self.database.query_first(STATS, values![]).await?;
        Ok(row::stats(row.unwrap_or_default()))
    }

    async fn list(&self, list: List, after: Option<i64>, limit: usize) -> Result<Vec<Detail>, Error> {
        let limit = check::count("entries", limit)?;
        let (sql, values) = match (list, after) {
            (List::Pending, after) => (LIST_PENDING, values![after.unwrap_or(i64::MIN), limit]),
            (List::Dead, after) => (LIST_DEAD, values![after.unwrap_or(i64::MIN), limit]),
            (List::Processed, None) => (LIST_PROCESSED, values![limit]),
            (List::Processed, Some(after)) => (LIST_PROCESSED_AFTER, values![after, limit]),
        };
        let rows: Vec<DetailRow> = self.database.query(sql, values).await?;
        Ok(rows.into_iter().map(row::detail).collect())
    }

    async fn entry(&self, id: i64) -> Result<Option<(Detail, String)>, Error> {
        let entry = self.database.read(move |transaction| {
            Box::pin(async move {
                let detail: Option<DetailRow> = transaction.query_first(DETAIL, &values![id]).await?;
                let payload = transaction.first(PAYLOAD, &values![id]).await?;
                let payload = payload.map(|payload| match payload.get::<String>(0) {
                    Err(Error::Unreadable { .. }) => Ok(row::UNREADABLE.to_owned()),
                    read => read,
                });
                Ok(detail.zip(payload.transpose()?))
            })
        });
        Ok(entry.await?.map(|(detail, payload)| (row::detail(detail), payload)))
    }

    async fn retry(&self, which: &Which) -> Result<u64, Error> {
        let retried = self.change_dead(RETRY, RETRY_DEAD, which).await?;
        self.claims.wakes().wake();
        Ok(retried)
    }

    async fn discard(&self, which: &Which) -> Result<u64, Error> {
        match self.database.backend() {
            Backend::Sqlite => self.discard_on_sqlite(which).await,
            Backend::Postgres => {
                self.change_dead(postgres::DISCARD.into(), postgres::DISCARD_DEAD.into(), which).await
            }
        }
    }

    async fn cleanup(&self, older_than: Duration, limit: usize) -> Result<u64, Error> {
        let limit = check::count("entries", limit)?;
        let older_than_ms = i64::try_from(older_than.as_millis()).unwrap_or(i64::MAX / 2);
        self.database.write(move |transaction| Box::pin(cleanup(transaction, older_than_ms, limit))).await
    }

    fn wakes(&self) -> watch::Receiver<u64> {
        self.claims.follow().subscribe()
    }

    async fn settings(&self) -> Result<Settings, Error> {
        let texts = self.database.read(|transaction| {
            Box::pin(async move {
                match transaction.backend() {
                    Backend::Sqlite => crate::sqlite::outbox::read_settings(transaction).await,
                    Backend::Postgres => crate::postgres::outbox::read_settings(transaction).await,
                }
            })
        });
        Ok(row::settings(texts.await?))
    }

    async fn set_settings(&self, settings: &Settings) -> Result<(), Error> {
        let texts = row::settings_texts(settings);
        self.database.write(move |transaction| Box::pin(write_settings(transaction, texts))).await
    }

    async fn store_receipt(&self, receipt: &Receipt, update: Option<&ReceiptUpdate>) -> Result<(), Error> {
        check::receipt(receipt)?;
        update.map_or(Ok(()), ReceiptUpdate::check)?;
        let (receipt, update) = (receipt.clone(), update.cloned());
        let stored = self.database.write(move |transaction| {
            Box::pin(async move {
                let Receipt { entry, file_id, file_url, bytes, sha256 } = receipt;
                let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
                transaction
                    .execute(STORE_RECEIPT, &values![entry, &file_id, file_url, bytes, sha256])
                    .await?;
                match (update, transaction.backend()) {
                    (None, _) => Ok(()),
                    (Some(update), Backend::Sqlite) => {
                        crate::sqlite::outbox::update_row(transaction, file_id, update).await
                    }
                    (Some(update), Backend::Postgres) => {
                        crate::postgres::outbox::update_row(transaction, file_id, update).await
                    }
                }
            })
        });
        stored.await
    }

    async fn receipt(&self, entry: i64) -> Result<Option<Receipt>, Error> {
        let receipt: Option<ReceiptRow> = self.database.query_first(RECEIPT, values![entry]).await?;
        Ok(receipt.map(row::receipt))
    }

    async fn receipt_of(&self, file_id: &str) -> Result<Option<Receipt>, Error> {
        let receipt: Option<ReceiptRow> = self.database.query_first(RECEIPT_OF, values![file_id]).await?;
        Ok(receipt.map(row::receipt))
    }
}

/// Removes what was processed longer ago, with its receipts.
async fn cleanup(transaction: &mut Transaction<'_>, older_than_ms: i64, limit: i64) -> Result<u64, Error> {
    if transaction.backend() == Backend::Postgres {
        let removed: i64 = transaction.value(postgres::CLEANUP, &values![older_than_ms, limit]).await?;
        return Ok(removed.unsigned_abs());
    }
    let before_ms = transaction.now_ms().await?.saturating_sub(older_than_ms);
    let before = Moment::from_us(before_ms.saturating_mul(1_000)).to_string();
    let old: Vec<i64> = transaction.column(sqlite::OLD.into(), &values![before, before_ms, limit]).await?;
    let removed = old.len() as u64;
    if removed > 0 {
        transaction.execute(sqlite::REMOVE_RECEIPTS, &values![old.clone()]).await?;
        transaction.execute(sqlite::REMOVE, &values![old.clone()]).await?;
        transaction.execute(sqlite::REMOVE_PAYLOADS, &values![old]).await?;
    }
    Ok(removed)
}

async fn write_settings(transaction: &mut Transaction<'_>, texts: [Option<String>; 4]) -> Result<(), Error> {
    let backend = transaction.backend();
    let columns = match backend {
        Backend::Sqlite => crate::sqlite::outbox::settings_columns(transaction).await?,
        Backend::Postgres => crate::postgres::outbox::settings_columns(transaction).await?,
    };
    let set = match backend {
        Backend::Sqlite => sqlite::SET_SETTINGS,
        Backend::Postgres => postgres::SET_SETTINGS,
    };
    for ((name, text), set) in SETTINGS.into_iter().zip(texts).zip(set) {
        let Some(text) = text else { continue };
        if !columns.iter().any(|column| column == name) {
            return Err(row::no_such_setting(name));
        }
        transaction.execute(set, &values![text]).await?;
    }
    Ok(())
}
