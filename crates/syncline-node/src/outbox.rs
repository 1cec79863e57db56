//! Carries what an application committed to its front end: what `serversync` runs.
//!
//! ```text
//!   sync_outbox ──claim──▶ lane of changes ──▶ flights: one request for a batch ──┐
//!        ▲      ──claim──▶ lane of files   ──▶ flights: one upload for a recording ┤──▶ front end
//!        └────────────────────────── settle: done, again later, dead, given back ◀─┘
//! ```
//!
//! - [`settings`]: what it is told ([`Settings`])
//! - `lane`: when to claim, how much, and how long to leave a front end alone that is down
//! - `flight`: a batch on its way; `carry`: a recording on its way
//! - `sender`: the calls themselves; `recording`: the files, beneath their folder and nowhere else
//! - `reserve`: room for bad times; `chores`: cleaning up, settings that change; `status`: `/metrics` and `/healthz`
//!
//! Guarantees: an entry is marked only after the front end took it, a recording is deleted only after its receipt is stored, and
//! what a dead worker had claimed comes back. The rules are `syncline_core::outbox`'s, the table is
//! `syncline_store::outbox`'s.

mod carry;
mod chores;
mod flight;
mod lane;
mod meters;
mod recording;
mod reserve;
mod sender;
pub mod settings;
mod status;

pub use settings::{InvalidSettings, Settings};

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use syncline_core::outbox::{POLICY, SenderId, Verdict};
use syncline_core::retry::Policy;
use syncline_store::outbox::{ClaimId, Entry, Kind, Outbox};
use syncline_store::{Error, OutboxStore};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::metrics::Registry;
use crate::node::{NodeId, StartError};
use lane::Lane;
use meters::Meters;
use reserve::Reserve;
use sender::Sender;

/// How long a claim lasts without being renewed: what a dead worker had is sent by the next one after this.
const LEASE_MIN: Duration = Duration::from_secs(2);
const LEASE_MAX: Duration = Duration::from_secs(30);

/// How long to wait before asking a store again that did not answer: at first, and at most.
const STORE_PAUSE: Duration = Duration::from_millis(100);
const STORE_PAUSE_MAX: Duration = Duration::from_secs(5);

/// When a worker is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// When it is told to stop.
    Stopped,
    /// When nothing is due.
    Idle,
    /// When nothing is pending, or the front end has been down for too long.
    Drained,
}

/// What a worker did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Entries that the front end took.
    pub sent: u64,
    /// Attempts that failed.
    pub failed: u64,
    /// Entries that were given up.
    pub dead: u64,
    /// Why nothing more could be sent in the end, if that was so.
    pub down: Option<String>,
    /// What is switched off, and therefore was not sent, if anything is.
    pub off: Option<Off>,
}

/// What is switched off in the database's settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Off {
    /// Everything.
    All,
    /// Recordings.
    Recordings,
}

/// How far it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Entries that the front end took since the start.
    pub sent: u64,
    /// Entries that it does not have yet.
    pub pending: u64,
}

/// Where our tables are in the application's database, and whether a start may make them.
#[derive(Debug, Clone)]
pub struct Tables {
    /// Our schema on PostgreSQL.
    pub schema: String,
    /// Whether a start makes the tables and brings them up to date.
    pub migrate: bool,
}

/// A worker: opened, not yet at work.
pub struct Worker {
    shared: Arc<Shared>,
    store: OutboxStore,
    status: Option<(tokio::net::TcpListener, SocketAddr)>,
    registry: Registry,
    reserve: Reserve,
}

impl Worker {
    /// Finds out whether [`Worker::open`] would succeed, as far as that can be seen without changing or sending anything.
    pub async fn check(settings: &Settings, tables: &Tables) -> Result<(), StartError> {
        let listener = settings.metrics_listen.map(status::listen).transpose()?;
        drop(listener);
        let url = settings.database_url.expose();
        Ok(OutboxStore::check_in(url, &tables.schema, tables.migrate).await?)
    }

    /// Opens the database, and the place for metrics if there is one.
    pub async fn open(settings: &Settings, tables: &Tables) -> Result<Worker, StartError> {
        let status = settings.metrics_listen.map(status::listen).transpose()?;
        let url = settings.database_url.expose();
        let store = OutboxStore::open_in(url, &tables.schema, tables.migrate).await?;
        let outbox = store.outbox();
        let sender_id = outbox.sender().await?;
        let registry = Registry::new();
        let meters = Meters::new(&registry);
        let policy = Policy { max_attempts: settings.max_attempts, ..POLICY };
        let shared = Arc::new(Shared {
            name: NodeId::random().to_string(),
            sender: Sender::new(settings, meters.upload_bytes.clone()),
            sender_id,
            policy,
            timeout: settings.timeout,
            lease: settings.timeout.clamp(LEASE_MIN, LEASE_MAX),
            recordings: settings.recordings.clone(),
            live: watch::Sender::new(Live::of(settings)),
            usual: Live::of(settings),
            counts: Counts::default(),
            meters,
            outbox,
            full: tokio::sync::Notify::new(),
            drained: CancellationToken::new(),
        });
        // Before anything is sent: it may be switched off.
        chores::tune(&shared).await;
        let reserve = Reserve::new(&reserve::place(url, &settings.recordings));
        tracing::info!(
            worker = shared.name, database = store.name(), frontend = %settings.frontend, "serversync started"
        );
        Ok(Worker { shared, store, status, registry, reserve })
    }

    /// Where `/metrics` is, with the port the system chose if it was asked to.
    pub fn address(&self) -> Option<SocketAddr> {
        self.status.as_ref().map(|(_, address)| *address)
    }

    /// Tells how far it is, also while it runs.
    pub fn odometer(&self) -> Odometer {
        Odometer(Arc::clone(&self.shared))
    }

    /// Works until it is done or told to stop; then what is under way is finished or given back.
    pub async fn run(self, until: Until, stop: impl Future<Output = ()> + Send + 'static) -> Outcome {
        let Worker { shared, store, status, registry, reserve } = self;
        let (asked, stop) = (stop, CancellationToken::new());
        let token = stop.clone();
        let listening = tokio::spawn(async move {
            asked.await;
            token.cancel();
        });
        let (chores, halt) = (TaskTracker::new(), CancellationToken::new());
        if let Some((listener, _)) = status {
            chores.spawn(status::serve(listener, Arc::clone(&shared), registry.clone(), halt.clone()));
        }
        chores.spawn(chores::keep(Arc::clone(&shared), reserve, registry, halt.clone()));
        chores.close();
        let changes = Lane::new(Kind::Change, Arc::clone(&shared)).live(until, stop.clone());
        let files = Lane::new(Kind::File, Arc::clone(&shared)).live(until, stop);
        // Two tasks, so that neither waits for the other to be polled.
        let (changes, files) = (tokio::spawn(changes), tokio::spawn(files));
        let down = match (changes.await, files.await) {
            (Ok(changes), Ok(files)) => changes.or(files),
            (Err(error), _) | (_, Err(error)) => Some(format!("the worker failed inside: {error}")),
        };
        listening.abort();
        halt.cancel();
        chores.wait().await;
        let off = off(&shared).await;
        store.close().await;
        let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let counts = &shared.counts;
        let outcome = Outcome {
            sent: count(&counts.sent),
            failed: count(&counts.failed),
            dead: count(&counts.dead),
            down,
            off,
        };
        tracing::info!(
            sent = outcome.sent,
            failed = outcome.failed,
            dead = outcome.dead,
            "serversync stopped"
        );
        outcome
    }
}

/// What is switched off and holds something back.
async fn off(shared: &Shared) -> Option<Off> {
    let off = shared.live.borrow().off()?;
    let waits = shared.outbox.stats().await.map_or(true, |stats| stats.pending > 0);
    (off == Off::All || waits).then_some(off)
}

/// Tells how far a worker is.
pub struct Odometer(Arc<Shared>);

impl Odometer {
    /// How far it is now.
    pub async fn read(&self) -> Result<Progress, Error> {
        let sent = self.0.counts.sent.load(Ordering::Relaxed);
        Ok(Progress { sent, pending: self.0.outbox.stats().await?.pending })
    }
}

/// What can be changed while the worker runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Live {
    poll_interval: Duration,
    batch_size: usize,
    enabled: bool,
    recordings_enabled: bool,
}

impl Live {
    fn of(settings: &Settings) -> Live {
        let Settings { poll_interval, batch_size, .. } = settings;
        Live {
            poll_interval: *poll_interval,
            batch_size: *batch_size,
            enabled: true,
            recordings_enabled: true,
        }
    }

    fn off(self) -> Option<Off> {
        match (self.enabled, self.recordings_enabled) {
            (false, _) => Some(Off::All),
            (true, false) => Some(Off::Recordings),
            (true, true) => None,
        }
    }

    fn sends(self, kind: Kind) -> bool {
        self.enabled && (kind == Kind::Change || self.recordings_enabled)
    }
}

#[derive(Default)]
struct Counts {
    sent: AtomicU64,
    failed: AtomicU64,
    dead: AtomicU64,
}

/// What lanes and flights have in common.
struct Shared {
    name: String,
    outbox: Arc<dyn Outbox>,
    sender: Sender,
    sender_id: SenderId,
    policy: Policy,
    timeout: Duration,
    lease: Duration,
    recordings: PathBuf,
    live: watch::Sender<Live>,
    /// What the environment says, where nobody has changed it.
    usual: Live,
    counts: Counts,
    meters: Meters,
    /// A write found no room.
    full: tokio::sync::Notify,
    /// A lane that drains saw that nothing is pending, of either kind.
    drained: CancellationToken,
}

impl Shared {
    /// Passes on what the store answered, and tells when that was a failure.
    async fn asked<T>(
        &self,
        what: &'static str,
        question: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let answer = question.await;
        if let Err(error) = &answer {
            self.meters.store_errors.increment(1);
            match error {
                Error::Unreachable { .. } => tracing::warn!(%error, what, "the database did not answer"),
                _ => tracing::warn!(%error, what, "the database could not do what was asked"),
            }
            if matches!(error, Error::Full { .. }) {
                self.full.notify_one();
            }
        }
        answer
    }

    /// Asks until the store has answered, for or against: what is known must not be forgotten because a database restarts.
    async fn persist<T, F>(&self, what: &'static str, question: impl Fn() -> F) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let mut pause = STORE_PAUSE;
        loop {
            match self.asked(what, question()).await {
                Err(error) if error.retryable() => {}
                answer => return answer,
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(STORE_PAUSE_MAX);
        }
    }

    /// Renews a claim for as long as this is polled. Ends when all of it is lost to others.
    async fn hold(&self, claim: ClaimId, ids: &[i64]) {
        loop {
            tokio::time::sleep(self.lease / 3).await;
            // A store that does not answer now may do so before the lease ends.
            if let Ok(held) = self.asked("renew", self.outbox.renew(claim, ids, self.lease)).await
                && held.is_empty()
            {
                tracing::warn!(entries = ids.len(), "a claim was lost to another worker");
                return;
            }
        }
    }

    /// Settles until the store has taken it. When the worker stops and it does not, the lease will end by itself.
    async fn settle(&self, claim: ClaimId, verdicts: &[(i64, Verdict)], give_up: &CancellationToken) {
        if verdicts.is_empty() {
            return;
        }
        let mut pause = STORE_PAUSE;
        while self.asked("settle", self.outbox.settle(claim, verdicts)).await.is_err() {
            if give_up.run_until_cancelled(tokio::time::sleep(pause)).await.is_none() {
                return;
            }
            pause = (pause * 2).min(STORE_PAUSE_MAX);
        }
    }

    /// Counts and tells of entries that the store could not read and has given up.
    fn told_unreadable(&self, unreadable: &[(i64, String)]) {
        for (id, reason) in unreadable {
            self.counts.failed.fetch_add(1, Ordering::Relaxed);
            self.counts.dead.fetch_add(1, Ordering::Relaxed);
            self.meters.failed.increment(1);
            self.meters.died.increment(1);
            tracing::error!(id, reason, "an entry cannot be read and is given up");
        }
    }

    /// Counts what became of an entry, and tells of what failed.
    fn told(&self, entry: &Entry, verdict: &Verdict) {
        let count = |count: &AtomicU64| count.fetch_add(1, Ordering::Relaxed);
        let (id, kind, entity) = (entry.id, &entry.entity_type, &entry.entity_id);
        match verdict {
            Verdict::Done => {
                count(&self.counts.sent);
                self.meters.sent.increment(1);
            }
            Verdict::Retry { after, reason } => {
                count(&self.counts.failed);
                self.meters.failed.increment(1);
                let after_ms = after.as_millis() as u64;
                tracing::debug!(id, kind, entity, after_ms, reason, "an entry failed and is tried again");
            }
            Verdict::Dead { reason } => {
                count(&self.counts.failed);
                count(&self.counts.dead);
                self.meters.failed.increment(1);
                self.meters.died.increment(1);
                tracing::error!(
                    id,
                    kind,
                    entity,
                    reason,
                    "an entry is given up; `syncline outbox show` tells more"
                );
            }
            Verdict::GiveBack => {}
        }
    }
}
