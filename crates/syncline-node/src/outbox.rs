//! Sends what an application committed to its front end: the worker that `serversync` runs.
//!
//! ```text
//!   sync_outbox ──claim──▶ lane of changes ──▶ a request for each batch ──┐
//!        ▲      ──claim──▶ lane of files   ──▶ an upload for each file   ─┤──▶ front end
//!        └───────────────── settle: done, again later, dead, given back ◀─┘
//! ```
//!
//! - [`settings`]: the environment and the configuration file ([`Settings`])
//! - [`route`]: which entries go to which receiver ([`Route`]); `fan_out`: hands them over to it; `webhook`: signatures
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
mod fan_out;
mod file;
pub mod kind;
mod lane;
mod meters;
mod reserve;
pub mod route;
mod sender;
pub mod settings;
mod shared;
mod status;
pub mod template;
mod upload;
pub mod webhook;

pub use kind::{AfterReceipt, Attachment, FileKind, ReceiptRule};
pub use route::{Route, Shape};
pub use settings::{InvalidSettings, Settings};
pub use template::Template;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use syncline_core::outbox::{POLICY, SenderId};
use syncline_core::retry::Policy;
use syncline_store::outbox::{Kind, Outbox};
use syncline_store::{Error, OutboxStore};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::metrics::Registry;
use crate::node::{NodeId, StartError};
use fan_out::FanOut;
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
    /// One for each receiver.
    receivers: Vec<Arc<Shared>>,
    /// What hands entries over to them, where there are routes.
    fan_out: Option<FanOut>,
    store: OutboxStore,
    status: Option<(tokio::net::TcpListener, SocketAddr)>,
    registry: Registry,
    reserve: Option<Reserve>,
}

impl Worker {
    /// Finds out whether [`Worker::open`] would succeed, as far as that can be seen without changing or sending anything.
    pub async fn check(settings: &Settings) -> Result<(), OpenError> {
        check_kinds(settings)?;
        let listener = settings.metrics_listen.map(status::listen).transpose()?;
        drop(listener);
        let url = settings.database_url.expose();
        let checked = OutboxStore::check_with(url, settings.store_options()).await;
        Ok(checked.map_err(StartError::from)?)
    }

    /// Opens the database, and the place for metrics if there is one.
    pub async fn open(settings: &Settings) -> Result<Worker, OpenError> {
        check_kinds(settings)?;
        let status = settings.metrics_listen.map(status::listen).transpose()?;
        let url = settings.database_url.expose();
        let store = OutboxStore::open_with(url, settings.store_options()).await;
        let store = store.map_err(StartError::from)?;
        let outbox = store.outbox();
        let sender_id = match &settings.sender {
            // Whoever receives from both sides compares under this name.
            Some(named) => outbox.set_sender(named).await.map(|()| named.clone()),
            None => outbox.sender().await,
        };
        let sender_id = sender_id.map_err(StartError::from)?;
        let opening =
            Opening { settings, sender_id, http: crate::outbound::client(), registry: Registry::new() };
        let (receivers, fan_out) = match settings.routes.is_empty() {
            true => (vec![opening.receiver(None, outbox, None)], None),
            false => {
                let (receivers, fan_out) = opening.routes(&store, outbox).await?;
                (receivers, Some(fan_out))
            }
        };
        if let Err(error) = warn_of_routes_left(&store, &settings.routes).await {
            tracing::debug!(%error, "the tables of former routes cannot be read");
        }
        // Before anything is sent: sending may be switched off.
        for shared in receivers.iter().chain(fan_out.iter().map(|fan_out| &fan_out.shared)) {
            chores::tune(shared).await;
        }
        let files = settings.files.first().map(|kind| kind.folder.as_path());
        let reserve = reserve::place(url, files).map(|folder| Reserve::new(&folder));
        let frontend = settings.frontend.as_ref().map(tracing::field::display);
        let routes = settings.routes.len();
        tracing::info!(
            worker = receivers[0].name,
            database = store.name(),
            frontend,
            routes,
            "serversync started"
        );
        Ok(Worker { receivers, fan_out, store, status, registry: opening.registry, reserve })
    }

    /// Where `/metrics` is, with the port the system chose if it was asked to.
    pub fn address(&self) -> Option<SocketAddr> {
        self.status.as_ref().map(|(_, address)| *address)
    }

    /// Reads how far the worker is, also while it runs.
    pub fn progress(&self) -> ProgressReader {
        ProgressReader(self.receivers.clone())
    }

    /// Works until it is done or told to stop. What is under way then is finished or given back.
    pub async fn run(self, until: Until, stop: impl Future<Output = ()> + Send + 'static) -> Outcome {
        let Worker { receivers, fan_out, store, status, registry, reserve } = self;
        let (asked, stop) = (stop, CancellationToken::new());
        let token = stop.clone();
        let listening = tokio::spawn(async move {
            asked.await;
            token.cancel();
        });
        let (chores, halt) = (TaskTracker::new(), CancellationToken::new());
        if let Some((listener, _)) = status {
            chores.spawn(status::serve(listener, receivers.clone(), registry.clone(), halt.clone()));
        }
        let all: Vec<Arc<Shared>> =
            fan_out.iter().map(|fan_out| &fan_out.shared).chain(&receivers).cloned().collect();
        // The disk is looked at by one of them.
        let reserves = [reserve].into_iter().chain(std::iter::repeat_with(|| None));
        for (shared, reserve) in all.iter().cloned().zip(reserves) {
            chores.spawn(chores::run(shared, reserve, registry.clone(), halt.clone()));
        }
        chores.close();
        let down = send(&receivers, fan_out, until, stop).await;
        listening.abort();
        halt.cancel();
        chores.wait().await;
        let off = held_back(&receivers[0]).await;
        store.close().await;
        let count = |of: fn(&Counts) -> &AtomicU64| {
            all.iter().map(|shared| of(&shared.counts).load(Ordering::Relaxed)).sum()
        };
        let outcome = Outcome {
            sent: count(|counts| &counts.sent),
            failed: count(|counts| &counts.failed),
            dead: count(|counts| &counts.dead),
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

/// Runs the lanes of all receivers, and what hands entries over to them. Why a receiver was down in the end, if one was.
async fn send(
    receivers: &[Arc<Shared>],
    fan_out: Option<FanOut>,
    until: Until,
    stop: CancellationToken,
) -> Option<String> {
    let handing = match (fan_out, until) {
        // Once round: what is handed over is due at its receivers then.
        (Some(fan_out), Until::Idle) => {
            fan_out.run(until, stop.clone()).await;
            None
        }
        (fan_out, _) => fan_out.map(|fan_out| tokio::spawn(fan_out.run(until, stop.clone()))),
    };
    // A task for each, so that none waits for another to be polled.
    let lanes: Vec<_> = receivers
        .iter()
        .flat_map(|shared| [Kind::Change, Kind::File].map(|kind| Lane::new(kind, Arc::clone(shared))))
        .map(|lane| tokio::spawn(lane.run(until, stop.clone())))
        .collect();
    let mut down = None;
    for lane in lanes {
        let ended = lane.await.unwrap_or_else(|error| Some(format!("the worker failed inside: {error}")));
        down = down.or(ended);
    }
    if let Some(handing) = handing {
        // A receiver that stayed down ends a drain, and there may be entries that are still to be handed over.
        stop.cancel();
        if let Err(error) = handing.await {
            down = down.or(Some(format!("the worker failed inside: {error}")));
        }
    }
    down
}

/// What all receivers of a worker are opened with.
struct Opening<'a> {
    settings: &'a Settings,
    sender_id: SenderId,
    http: reqwest::Client,
    registry: Registry,
}

impl Opening<'_> {
    /// One receiver: that of `route`, or the front end where there are no routes.
    fn receiver(
        &self,
        route: Option<&Route>,
        outbox: Arc<dyn Outbox>,
        upstream: Option<Arc<dyn Outbox>>,
    ) -> Arc<Shared> {
        let Opening { settings, sender_id, http, registry } = self;
        let meters = Meters::new(registry, route.map(|route| route.name.as_str()));
        let nowhere = || "http://localhost".parse().expect("a constant that reads");
        let target = route.cloned().unwrap_or_else(|| {
            // Without routes there is a front end; with routes the application's outbox sends nothing itself.
            let url = settings.frontend.clone().unwrap_or_else(nowhere);
            Route::frontend(url, settings.token.clone(), settings.plain_entries)
        });
        Arc::new(Shared {
            name: NodeId::random().to_string(),
            sender: Sender::new(http.clone(), &target, settings, meters.upload_bytes.clone()),
            sender_id: sender_id.clone(),
            policy: Policy { max_attempts: settings.max_attempts, ..POLICY },
            evidence: Default::default(),
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
            upstream,
            full: tokio::sync::Notify::new(),
            drained: CancellationToken::new(),
        })
    }

    /// A receiver for each route, and what hands entries over to them.
    async fn routes(
        &self,
        store: &OutboxStore,
        outbox: Arc<dyn Outbox>,
    ) -> Result<(Vec<Arc<Shared>>, FanOut), StartError> {
        let mut receivers = Vec::new();
        for route in &self.settings.routes {
            let own = match self.settings.migrate {
                true => store.open_route(&route.name).await?,
                false => store.route(&route.name).await?.ok_or_else(|| Error::Invalid {
                    field: "route",
                    reason: format!("`{}` has no table yet, and SYNCLINE_MIGRATE is false", route.name),
                })?,
            };
            receivers.push(self.receiver(Some(route), own, Some(Arc::clone(&outbox))));
        }
        let shared = self.receiver(None, outbox, None);
        Ok((receivers, FanOut { shared, routes: self.settings.routes.clone() }))
    }
}

/// Kinds that come from code have passed no configuration file. A file has one receipt, after which it may be removed, so it goes to
/// one receiver; webhooks only tell of it.
fn check_kinds(settings: &Settings) -> Result<(), OpenError> {
    for kind in &settings.files {
        let wrong =
            |(setting, what)| OpenError::Kind { entity_type: kind.entity_type.clone(), setting, what };
        if let Some(problem) = kind.check().err().and_then(|problems| problems.into_iter().next()) {
            return Err(wrong(problem));
        }
        let takes = |route: &&Route| route.shape == Shape::Batch && route.takes(&kind.entity_type);
        let names: Vec<&str> =
            settings.routes.iter().filter(takes).map(|route| route.name.as_str()).collect();
        if let [one, other, ..] = names[..] {
            let what = format!(
                "{one} and {other} both take it, and a file goes to one receiver; name it in one of them"
            );
            return Err(wrong(("routes", what)));
        }
    }
    Ok(())
}

/// A route that was taken out of the configuration leaves its table behind, and entries in it wait for ever.
async fn warn_of_routes_left(store: &OutboxStore, routes: &[Route]) -> Result<(), Error> {
    for name in store.routes().await? {
        if routes.iter().any(|route| route.name == name) {
            continue;
        }
        let Some(left) = store.route(&name).await? else { continue };
        let pending = left.stats().await?.pending;
        if pending > 0 {
            tracing::warn!(
                route = name,
                pending,
                "entries wait for a route that is not in the configuration any more; put it back, or see `syncline outbox list --route`"
            );
        }
    }
    Ok(())
}

/// What is switched off, if that holds anything back.
async fn held_back(shared: &Shared) -> Option<Off> {
    let off = shared.live.borrow().off()?;
    let waits = shared.outbox.stats().await.map_or(true, |stats| stats.pending > 0);
    (off == Off::All || waits).then_some(off)
}

/// Reads how far a worker is.
pub struct ProgressReader(Vec<Arc<Shared>>);

impl ProgressReader {
    /// How far it is now.
    pub async fn read(&self) -> Result<Progress, Error> {
        let mut progress = Progress { sent: 0, pending: 0 };
        for shared in &self.0 {
            progress.sent += shared.counts.sent.load(Ordering::Relaxed);
            progress.pending += shared.pending().await?;
        }
        Ok(progress)
    }
}
