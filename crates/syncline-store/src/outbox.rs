//! The outbox port (the specification calls it `SyncOutboxPort`): changes on their way to another system.
//!
//! An application inserts into `sync_outbox` in the same transaction as its own rows, with [`enqueue_in`] or with plain
//! SQL; a worker claims entries, sends them and settles them. The states of an entry are drawn in
//! [`syncline_core::outbox`].
//!
//! Guarantees, on every engine: an entry is in flight under one claim at a time, for as long as its lease lasts; entries
//! of one entity are claimed in the order of their ids, and never while an earlier one is in flight elsewhere or waits
//! for its retry, which holds nobody else up; settling is compare-and-set on the claim; what nobody settles comes back.
//! What was committed late is claimed late, never passed over. A claim and its end may be lost with the machine's power,
//! and then the entry is sent again; receipts and what an application inserts are not.
//!
//! Left to others: sending, what an answer means, when to try again.

use std::time::Duration;

use async_trait::async_trait;
use syncline_core::outbox::{Moment, SenderId, Verdict};
use tokio::sync::watch;

use crate::Error;
use crate::database::Value;

pub(crate) use self::insert::insert_at;
pub use self::insert::{enqueue_in, enqueue_in_postgres};
pub use self::route::{HandOver, ROUTE_MAX_BYTES};

pub(crate) mod check;
pub(crate) mod fit;
mod insert;
pub(crate) mod port;
pub(crate) mod route;
pub(crate) mod row;
pub(crate) mod update;
pub(crate) mod wakes;

/// Most entries in one claim, listing, settlement or enqueue.
pub const ENTRIES_MAX: usize = 1_000;
/// Payloads of one claim together; the first entry is always there.
pub(crate) const CLAIM_BYTES_MAX: usize = 8 * 1_024 * 1_024;
/// Longest lease.
pub const LEASE_MAX: Duration = Duration::from_secs(3_600);
/// Longest error kept with an entry; the rest of a longer one is cut off.
pub(crate) const ERROR_MAX_BYTES: usize = 512;
/// Processed entries are kept for this long, unless configured otherwise.
pub const KEEP_PROCESSED: Duration = Duration::from_secs(30 * 86_400);

/// A change to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewEntry {
    /// What kind of entity, see [`syncline_core::outbox::EntityType`].
    pub entity_type: String,
    /// Which one.
    pub entity_id: String,
    /// How it is now, as JSON; `null` if it is no more.
    pub payload: String,
}

/// A change as it was inserted. Applications insert by themselves, so nothing of it is checked but that it can be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its number: this sender's key of it, for ever.
    pub id: i64,
    /// What kind of entity.
    pub entity_type: String,
    /// Which one.
    pub entity_id: String,
    /// How it is now, as JSON.
    pub payload: String,
    /// When it was inserted, by the inserting side's clock.
    pub created_at: Moment,
    /// How often it has failed by its own fault.
    pub attempts: u32,
    /// Whether it has failed at all.
    pub failed_before: bool,
}

/// What kind of entries to claim: files take long and go one by one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Everything but files.
    Change,
    /// Entries whose type ends in `_file`: each stands for a file. Which files these are is the worker's configuration.
    File,
}

/// The name of one claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClaimId(pub i64);

/// What a claim is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    /// Changes or files.
    pub kind: Kind,
    /// Most entries.
    pub limit: usize,
    /// About how many of those may come back that have failed and are due, the longest due first. With none,
    /// [`Claimed::look_in`] does not count them.
    pub retries: usize,
    /// Whether the newest entries are wanted, where the oldest are otherwise. Entries of one entity keep their order in any case.
    pub newest_first: bool,
    /// How long they are held.
    pub lease: Duration,
}

/// Entries to work on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claimed {
    /// Shown when settling, renewing and giving back.
    pub claim: ClaimId,
    /// Oldest first; none if there is nothing to do.
    pub entries: Vec<Entry>,
    /// Numbers of entries that were found unreadable, and why. They are dead letters by now.
    pub unreadable: Vec<(i64, String)>,
    /// When there may be more, if nothing is inserted before: zero to claim again at once, `None` if nothing waits.
    pub look_in: Option<Duration>,
}

/// Counts, from the table as it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stats {
    /// Neither processed nor dead, the next three included.
    pub pending: u64,
    /// Claimed, and the lease lasts.
    pub in_flight: u64,
    /// Failed, and not yet due again.
    pub retrying: u64,
    /// Waiting for an earlier entry of the same entity.
    pub behind: u64,
    /// Given up.
    pub dead: u64,
    /// How old the oldest pending entry is.
    pub oldest: Option<Duration>,
    /// Entries delivered by workers since the outbox was created.
    pub delivered: u64,
    /// Entries processed in the last minute.
    pub delivered_last_minute: u64,
}

/// Where an entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// In line.
    Waiting,
    /// Claimed.
    InFlight,
    /// Failed, and tried again when due.
    Retrying,
    /// Waiting for an earlier entry of the same entity.
    Behind,
    /// Given up.
    Dead,
    /// Delivered.
    Processed,
}

impl State {
    /// Its name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::InFlight => "in flight",
            Self::Retrying => "retrying",
            Self::Behind => "behind",
            Self::Dead => "dead",
            Self::Processed => "processed",
        }
    }
}

/// An entry as operators see it, without its payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Detail {
    /// Its number.
    pub id: i64,
    /// What kind of entity.
    pub entity_type: String,
    /// Which one.
    pub entity_id: String,
    /// Length of the payload.
    pub bytes: u64,
    /// When it was inserted; `None` where that cannot be read.
    pub created_at: Option<Moment>,
    /// Where it is.
    pub state: State,
    /// How often it has failed.
    pub attempts: u32,
    /// When it is tried again, while it waits for that; when its lease ends, while it is in flight.
    pub due_in: Option<Duration>,
    /// The earlier entry it waits for.
    pub behind: Option<i64>,
    /// Who has claimed it last.
    pub claimed_by: Option<String>,
    /// Why it failed last.
    pub last_error: Option<String>,
    /// When it was processed or given up.
    pub ended_at: Option<Moment>,
}

/// A listing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum List {
    /// Neither processed nor dead, oldest first.
    Pending,
    /// Given up, oldest first.
    Dead,
    /// Processed, the last first.
    Processed,
}

/// Which entries an operator means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Which {
    /// These.
    Ids(Vec<i64>),
    /// All dead ones; up to [`ENTRIES_MAX`] at a time.
    AllDead,
}

/// What the receiver said it has of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receipt {
    /// The entry that stands for the file.
    pub entry: i64,
    /// Which file.
    pub file_id: String,
    /// Where it is now.
    pub file_url: String,
    /// Its length.
    pub bytes: u64,
    /// Its SHA-256, in hexadecimal.
    pub sha256: String,
}

/// What a receipt changes in a table of the application's: `UPDATE table SET ... WHERE id_column = file_id`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceiptUpdate {
    /// The table, with its schema where it has one: `invoices`, `media.files`. Where there is none, nothing is changed.
    pub table: String,
    /// The column that is compared with [`Receipt::file_id`]; a UUID is found however it is written.
    pub id_column: String,
    /// The columns to set, and what to.
    pub set: Vec<(String, Value)>,
}

/// What can be changed while workers run; `None` where nobody has set it.
///
/// Read from the application's table `system_settings`, if there is one: either a row with the columns
/// `sync_interval_sec`, `sync_batch_size`, `sync_enabled` and `sync_files_enabled`, or rows of `key` and `value`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Settings {
    /// How often to look although nothing was heard.
    pub interval: Option<Duration>,
    /// Entries to claim at once.
    pub batch_size: Option<usize>,
    /// Whether to send anything.
    pub enabled: Option<bool>,
    /// Whether to send files.
    pub files_enabled: Option<bool>,
}

/// Changes on their way.
#[async_trait]
pub trait Outbox: Send + Sync {
    /// The name under which receivers know the entries of this outbox.
    async fn sender(&self) -> Result<SenderId, Error>;

    /// Gives it another name from now on; to receivers it is a new sender, whose entries they do not know.
    async fn set_sender(&self, sender: &SenderId) -> Result<(), Error>;

    /// Inserts entries in a transaction of their own and gives their ids. For the caller's transaction: [`enqueue_in`].
    async fn enqueue(&self, entries: &[NewEntry]) -> Result<Vec<i64>, Error>;

    /// The oldest `limit` entries that are neither processed nor dead, whoever works on them; without those that cannot be
    /// read, which the next claim gives up.
    async fn fetch_pending(&self, limit: usize) -> Result<Vec<Entry>, Error>;

    /// Marks entries as processed, claimed or not, and tells how many were not so before. `None` means now.
    async fn mark_processed(&self, ids: &[i64], at: Option<Moment>) -> Result<u64, Error>;

    /// Claims up to `limit` entries for `lease`, oldest first, in the name of `worker`. What cannot be read becomes a dead
    /// letter with its reason, and holds nothing up.
    async fn claim(&self, worker: &str, kind: Kind, limit: usize, lease: Duration) -> Result<Claimed, Error> {
        self.claim_with(worker, Wanted { kind, limit, retries: limit, newest_first: false, lease }).await
    }

    /// The same, for what is wanted.
    async fn claim_with(&self, worker: &str, wanted: Wanted) -> Result<Claimed, Error>;

    /// Ends the claim of each of these entries as the verdict says. Gives the ids that were still held under the claim;
    /// the others are somebody else's by now and stay untouched.
    async fn settle(&self, claim: ClaimId, verdicts: &[(i64, Verdict)]) -> Result<Vec<i64>, Error>;

    /// Ends a claim by copying its entries into the tables of routes, in one transaction. Gives the ids that were still held; nothing
    /// happens to the others.
    async fn hand_over(&self, claim: ClaimId, to: &HandOver) -> Result<Vec<i64>, Error>;

    /// Lets the lease of what is still held last `lease` from now, and gives those ids.
    async fn renew(&self, claim: ClaimId, ids: &[i64], lease: Duration) -> Result<Vec<i64>, Error>;

    /// Counts.
    async fn stats(&self) -> Result<Stats, Error>;

    /// Up to `limit` entries from behind the one with the id `after` on.
    async fn list(&self, list: List, after: Option<i64>, limit: usize) -> Result<Vec<Detail>, Error>;

    /// One entry with its payload.
    async fn entry(&self, id: i64) -> Result<Option<(Detail, String)>, Error>;

    /// Puts entries that are dead or wait for their retry in line again, as if they had never failed.
    async fn retry(&self, which: &Which) -> Result<u64, Error>;

    /// Removes dead entries for good.
    async fn discard(&self, which: &Which) -> Result<u64, Error>;

    /// Removes up to `limit` entries that were processed longer than `older_than` ago, oldest first. Dead and pending ones
    /// stay whatever their age.
    async fn cleanup(&self, older_than: Duration, limit: usize) -> Result<u64, Error>;

    /// Changes when something may have been inserted, here or by another process. It may change without reason, and what
    /// it misses is found by looking now and then.
    fn wakes(&self) -> watch::Receiver<u64>;

    /// What can be changed while workers run.
    async fn settings(&self) -> Result<Settings, Error>;

    /// Changes some of it: what is `Some`. Creates the table `system_settings` where there is none.
    async fn set_settings(&self, settings: &Settings) -> Result<(), Error>;

    /// Writes down what the receiver has of a file and, in the same transaction, changes the application's row for it as
    /// `update` says. An update that fails fails the receipt too, and nothing else. Durable when it returns.
    async fn store_receipt(&self, receipt: &Receipt, update: Option<&ReceiptUpdate>) -> Result<(), Error>;

    /// The receipt of an entry, if it was stored.
    async fn receipt(&self, entry: i64) -> Result<Option<Receipt>, Error>;

    /// A receipt of the file, whichever entry stands for it.
    async fn receipt_of(&self, file_id: &str) -> Result<Option<Receipt>, Error>;
}
