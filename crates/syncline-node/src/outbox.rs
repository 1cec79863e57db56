//! Sends what an application committed to its front end: the worker that `serversync` runs.
//!
//! ```text
//!   sync_outbox ──claim──▶ lane of changes ──▶ a request for each batch ──┐
//!        ▲      ──claim──▶ lane of files   ──▶ an upload for each file   ─┤──▶ front end
//!        └───────────────── settle: done, again later, dead, given back ◀─┘
//! ```
//!
//! - [`settings`]: the environment and the configuration file ([`Settings`])
//! - [`kind`]: which entries stand for files, and how those are sent ([`FileKind`]); [`template`]: values in texts
//! - `lane`: when to claim, how much, and how long to leave a receiver alone that is down
//! - `batch`: sends one batch; `upload`: sends one file; `file`: files beneath their folder and nowhere else
//! - `sender`: the calls themselves; `shared`: what all of these need
//! - `reserve`: room on the disk for bad times; `chores`: cleaning up, changed settings; `status`: `/metrics`, `/healthz`
//!
//! Guarantees: an entry is marked only after the front end took it, a file is removed only after its receipt is stored, and
//! entries that a dead worker had claimed come back. The rules are `syncline_core::outbox`'s, the table is
//! `syncline_store::outbox`'s. No application is known here: files of a certain application are a [`FileKind`] of its own.

mod batch;
mod chores;
mod file;
pub mod kind;
mod lane;
mod meters;
mod reserve;
mod sender;
pub mod settings;
mod shared;
mod status;
pub mod template;
mod upload;

pub use kind::{AfterReceipt, Attachment, FileKind, ReceiptRule};
pub use settings::{InvalidSettings, Settings};
pub use template::Template;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use syncline_core::outbox::POLICY;
use syncline_core::retry::Policy;
use syncline_store::outbox::Kind;
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
use shared::{Counts, Live, Shared};

/// How long a claim lasts without being renewed: entries of a dead worker are sent by the next one after this.
const LEASE_MIN: Duration = Duration::from_secs(2);
const LEASE_MAX: Duration = Duration::from_secs(30);

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

/// What a worker has done.
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
    /// Files.
    Files,
}

/// How far it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Entries that the front end took since the start.
    pub sent: u64,
    /// Entries that it does not have yet.
    pub pending: u64,
}

/// Why a worker cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// A kind of file that could not work.
    #[error("the files of {entity_type}: {setting}: {what}")]
    Kind {
        /// The type of its entries.
        entity_type: String,
        /// The setting that is wrong.
        setting: &'static str,
        /// What was expected.
        what: String,
    },
    /// The database or the address for metrics.
    #[error(transparent)]
    Start(#[from] StartError),
}

/// A worker: opened, not yet at work.
pub struct Worker {
    shared: Arc<Shared>,
    store: OutboxStore,
    status: Option<(tokio::net::TcpListener, SocketAddr)>,
    registry: Registry,
    reserve: Option<Reserve>,
}

impl Worker {
    /// Finds out whether [`Worker::open`] would succeed, as far as that can be seen without changing or sending anything.
    pub async fn check(settings: &Settings) -> Result<(), OpenError> {
        check_kinds(&settings.files)?;
        let listener = settings.metrics_listen.map(status::listen).transpose()?;
        drop(listener);
        let url = settings.database_url.expose();
        let checked = OutboxStore::check_with(url, settings.store_options()).await;
        Ok(checked.map_err(StartError::from)?)
    }

    /// Opens the database, and the place for metrics if there is one.
    pub async fn open(settings: &Settings) -> Result<Worker, OpenError> {
        check_kinds(&settings.files)?;
        let status = settings.metrics_listen.map(status::listen).transpose()?;
        let url = settings.database_url.expose();
        let store = OutboxStore::open_with(url, settings.store_options()).await;
        let store = store.map_err(StartError::from)?;
        let outbox = store.outbox();
        let sender_id = match &settings.sender {
            Some(named) => named.clone(),
            None => outbox.sender().await.map_err(StartError::from)?,
        };
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
            files: settings.files.iter().cloned().map(Arc::new).collect(),
            live: watch::Sender::new(Live::of(settings)),
            usual: Live::of(settings),
            tuned_at: tokio::sync::Mutex::default(),
            sends: AtomicUsize::new(0),
            counts: Counts::default(),
            meters,
            outbox,
            full: tokio::sync::Notify::new(),
            drained: CancellationToken::new(),
        });
        // Before anything is sent: sending may be switched off.
        chores::tune(&shared).await;
        let files = settings.files.first().map(|kind| kind.folder.as_path());
        let reserve = reserve::place(url, files).map(|folder| Reserve::new(&folder));
        tracing::info!(
            worker = shared.name, database = store.name(), frontend = %settings.frontend, "serversync started"
        );
        Ok(Worker { shared, store, status, registry, reserve })
    }

    /// Where `/metrics` is, with the port the system chose if it was asked to.
    pub fn address(&self) -> Option<SocketAddr> {
        self.status.as_ref().map(|(_, address)| *address)
    }

    /// Reads how far the worker is, also while it runs.
    pub fn progress(&self) -> ProgressReader {
        ProgressReader(Arc::clone(&self.shared))
    }

    /// Works until it is done or told to stop. What is under way then is finished or given back.
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
        chores.spawn(chores::run(Arc::clone(&shared), reserve, registry, halt.clone()));
        chores.close();
        let changes = Lane::new(Kind::Change, Arc::clone(&shared)).run(until, stop.clone());
        let files = Lane::new(Kind::File, Arc::clone(&shared)).run(until, stop);
        // Two tasks, so that neither waits for the other to be polled.
        let (changes, files) = (tokio::spawn(changes), tokio::spawn(files));
        let down = match (changes.await, files.await) {
            (Ok(changes), Ok(files)) => changes.or(files),
            (Err(error), _) | (_, Err(error)) => Some(format!("the worker failed inside: {error}")),
        };
        listening.abort();
        halt.cancel();
        chores.wait().await;
        let off = held_back(&shared).await;
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

/// Kinds that come from code have passed no configuration file.
fn check_kinds(kinds: &[FileKind]) -> Result<(), OpenError> {
    kinds.iter().try_for_each(|kind| match kind.check() {
        Ok(()) => Ok(()),
        Err(problems) => problems.into_iter().try_for_each(|(setting, what)| {
            Err(OpenError::Kind { entity_type: kind.entity_type.clone(), setting, what })
        }),
    })
}

/// What is switched off, if that holds anything back.
async fn held_back(shared: &Shared) -> Option<Off> {
    let off = shared.live.borrow().off()?;
    let waits = shared.outbox.stats().await.map_or(true, |stats| stats.pending > 0);
    (off == Off::All || waits).then_some(off)
}

/// Reads how far a worker is.
pub struct ProgressReader(Arc<Shared>);

impl ProgressReader {
    /// How far it is now.
    pub async fn read(&self) -> Result<Progress, Error> {
        let sent = self.0.counts.sent.load(Ordering::Relaxed);
        Ok(Progress { sent, pending: self.0.outbox.stats().await?.pending })
    }
}
