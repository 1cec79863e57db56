//! A running node: its parts put together, started and stopped in order.

use std::fmt;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use bytes::Bytes;
use metrics::Counter;
use syncline_store::kv::Kv;
use syncline_store::{Store, next_minute};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::access::{AuditLog, Credentials, Quotas};
use crate::config::Config;
use crate::events::{Bus, Relay};
use crate::http::auth::Auth;
use crate::http::guard::Guard;
use crate::http::{self, Console, Endpoints, Readiness, Streams};
use crate::log_throttle::LogThrottle;
use crate::metrics::Registry;
use crate::metrics::history::{History, SAMPLE_EVERY};
use crate::part::{BuildError, Built, Services, Setup, Sweeping, Topic};
use crate::server;

/// How often recorded durations are sorted into classes.
const TIDY_EVERY: Duration = Duration::from_secs(5);

/// Expired keys are swept once a minute, so many at most. Reading never depends on it.
pub(crate) const SWEEP_LIMIT: usize = 1_000;

/// How often it is tried whether the store takes writes, while somebody wants to know.
const READINESS_EVERY: Duration = Duration::from_secs(5);

/// Why a node did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The data folder cannot be made.
    #[error("cannot create the data folder {}: {cause}", path.display())]
    Data {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        cause: io::Error,
    },
    /// A part cannot be put together.
    #[error("cannot start {part}: {cause}")]
    Part {
        /// Its name.
        part: &'static str,
        /// What it said.
        cause: BuildError,
    },
    /// The address is taken, or not ours.
    #[error("cannot listen on {address}: {cause}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        cause: io::Error,
    },
    /// The database cannot be opened.
    #[error("cannot open the database: {cause}{}", cause.hint().map(|hint| format!(" ({hint})")).unwrap_or_default())]
    Store {
        /// What the store said.
        cause: syncline_store::Error,
    },
}

impl From<syncline_store::Error> for StartError {
    fn from(cause: syncline_store::Error) -> StartError {
        StartError::Store { cause }
    }
}

/// The name of one process among the nodes, which no other process has or had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeId {
    whole: Arc<str>,
    /// Up to where it is the name that people know.
    name_len: usize,
}

impl NodeId {
    /// The machine's name, for people, and something random, for uniqueness.
    pub fn random() -> NodeId {
        let system = rustix::system::uname();
        let host = system.nodename().to_string_lossy().into_owned();
        let fits = |c: &char| c.is_ascii_alphanumeric() || "-_".contains(*c);
        let host: String = host.split('.').next().unwrap_or_default().chars().filter(fits).take(32).collect();
        let id = NodeId::named(&host);
        NodeId { name_len: id.whole.len(), ..id }
    }

    /// A name that somebody gave, which stays the same over restarts, and something random, for uniqueness.
    pub fn named(name: &str) -> NodeId {
        NodeId { whole: format!("{name}-{:010x}", rand::random::<u64>() >> 24).into(), name_len: name.len() }
    }

    /// What no other process has or had.
    pub fn as_str(&self) -> &str {
        &self.whole
    }

    /// What people call it: the name that somebody gave, or all of it where nobody did.
    pub fn name(&self) -> &str {
        &self.whole[..self.name_len]
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.whole)
    }
}

/// A node as handlers and workers see it: the frame, and the services that its parts offer.
pub struct Context {
    /// What it was told.
    pub config: Config,
    /// Its name among the nodes.
    pub node: NodeId,
    /// Durable truth.
    pub store: Store,
    /// The store's kv.
    pub kv: Arc<dyn Kv>,
    /// What happens.
    pub events: Bus,
    /// What is counted.
    pub registry: Registry,
    /// Cancelled when the node is to stop.
    pub stop: CancellationToken,
    pub(crate) topics: Vec<Topic>,
    pub(crate) console: Console,
    pub(crate) auth: Auth,
    /// Where actions and refusals are recorded, if they are.
    pub(crate) audit: Option<AuditLog>,
    /// What callers have used of their quotas.
    pub(crate) quotas: Arc<Quotas>,
    pub(crate) guard: Guard,
    pub(crate) streams: Streams,
    pub(crate) readiness: Readiness,
    /// The memory of large answers that are being read.
    pub(crate) answers: Arc<Semaphore>,
    /// Requests that a limit refused.
    pub(crate) limited: LogThrottle,
    pub(crate) endpoints: Endpoints,
    pub(crate) openapi: Bytes,
    /// What was counted within the last hour.
    pub(crate) history: History,
    services: Services,
    /// What the parts asked to be called for.
    built: Mutex<Built>,
    kv_errors: Counter,
}

impl Context {
    /// Puts the parts together for a node that listens on `address`. Starts nothing.
    pub async fn new(config: Config, store: Store, address: SocketAddr) -> Result<Arc<Context>, StartError> {
        let registry = Registry::new();
        let (events, node) = (Bus::new(), config.node.as_deref().map_or_else(NodeId::random, NodeId::named));
        registry.name_node(node.name());
        let kv = store.kv();
        let credentials = Credentials::new(&config.credentials);
        let mut setup = Setup {
            config: &config,
            node: &node,
            store: &store,
            kv: &kv,
            events: &events,
            registry: &registry,
            credentials: &credentials,
            built: Built::default(),
        };
        for part in config.parts.on() {
            let built = part.build(&mut setup).await;
            built.map_err(|cause| StartError::Part { part: part.name(), cause })?;
        }
        let mut built = setup.built;
        let node_keys = store.kv_space(crate::kv::NODE_SPACE).expect("the name is a constant that fits");
        let https = config.public_base_url.as_ref().is_some_and(|url| url.scheme() == "https");
        let console = Console::new(&config.parts, std::mem::take(&mut built.pages), &built.topics);
        let (openapi, endpoints) = http::description(&config.parts, &console, &registry);
        Ok(Arc::new(Context {
            auth: Auth::new(&config.owner_tokens(), credentials, https, node_keys, &registry),
            readiness: Readiness::default(),
            answers: Arc::new(Semaphore::new(http::ANSWERS_MAX_BYTES)),
            limited: LogThrottle::default(),
            guard: Guard::new(&config, address),
            streams: Streams::new(config.limits.event_streams, &registry),
            kv_errors: registry.store_errors("kv"),
            topics: std::mem::take(&mut built.topics),
            audit: built.services.find(),
            quotas: Arc::default(),
            services: std::mem::take(&mut built.services),
            built: Mutex::new(built),
            stop: CancellationToken::new(),
            console,
            config,
            node,
            store,
            kv,
            events,
            registry,
            endpoints,
            openapi,
            history: History::default(),
        }))
    }

    /// A service that a part offers, if the part is on.
    pub fn find<T: Clone + Send + Sync + 'static>(&self) -> Option<T> {
        self.services.find()
    }

    /// Starts the workers of all parts and those of credentials. They end when `halt` is cancelled.
    pub fn start(&self, halt: &CancellationToken, workers: &TaskTracker) {
        self.auth.credentials().start(halt, workers);
        let starts = std::mem::take(&mut self.built().starts);
        starts.into_iter().for_each(|start| start(halt, workers));
        if let Some(relay) = Relay::new(&self.events, &self.store, &self.node) {
            workers.spawn(relay.run(halt.clone()));
        }
    }

    /// Brings the gauges of all parts up to date.
    pub(crate) fn measure(&self) {
        self.built().scrapes.iter().for_each(|measure| measure());
    }

    /// Remembers what is counted now.
    fn sample(&self) {
        self.measure();
        self.history.sample(crate::clock::wall(), &self.registry.render());
    }

    fn built(&self) -> std::sync::MutexGuard<'_, Built> {
        self.built.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Passes on what the kv answered, and counts when that is the store's own failure.
    pub fn count_store_errors<T>(&self, answer: Result<T, syncline_store::Error>) -> Result<T, http::Error> {
        answer.map_err(http::Error::from).inspect_err(|error| {
            if error.status().is_server_error() {
                self.kv_errors.increment(1);
            }
        })
    }
}

/// Starts nodes.
pub struct Node;

impl Node {
    /// Opens the store, listens, and answers from then on.
    pub async fn start(config: Config) -> Result<Running, StartError> {
        Node::start_with(config, http::app).await
    }

    /// The same, with other routes than the API's or more of them. [`http::behind_door`] puts the door in front.
    pub async fn start_with(
        config: Config,
        app: impl FnOnce(&Arc<Context>) -> Router,
    ) -> Result<Running, StartError> {
        let data = config.data.clone();
        fs::create_dir_all(&data).map_err(|cause| StartError::Data { path: data, cause })?;
        let address = config.listen;
        let listening = |cause| StartError::Listen { address, cause };
        let listener = server::listen(address).map_err(listening)?;
        let address = listener.local_addr().map_err(listening)?;
        let store = Store::open_with(config.database_url.expose(), &config.store_options()).await?;
        let context = Context::new(config, store, address).await?;
        let workers = TaskTracker::new();
        // Requests in flight still need the workers, so these are stopped after the server.
        let halt = CancellationToken::new();
        context.start(&halt, &workers);
        workers.spawn(keep_house(Arc::clone(&context), halt.clone()));
        workers.close();
        let app = app(&context);
        let serving = {
            let context = Arc::clone(&context);
            tokio::spawn(async move {
                server::run(listener, app, &context.config.limits, &context.registry, context.stop.clone())
                    .await;
            })
        };
        tracing::info!(node = %context.node, %address, database = context.store.name(), "node started");
        Ok(Running { address, context, workers, halt, serving })
    }
}

/// A node that answers.
pub struct Running {
    address: SocketAddr,
    context: Arc<Context>,
    workers: TaskTracker,
    halt: CancellationToken,
    serving: tokio::task::JoinHandle<()>,
}

impl Running {
    /// Where it listens, with the port the system chose if it was asked to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its parts.
    pub fn context(&self) -> &Arc<Context> {
        &self.context
    }

    /// Stops it: no new connections, answers in flight finish within the drain time, then the workers, then the store.
    pub async fn stop(self) {
        self.context.stop.cancel();
        if let Err(error) = self.serving.await {
            tracing::error!(%error, "the accept loop did not end by itself");
        }
        self.halt.cancel();
        self.workers.wait().await;
        self.context.store.close().await;
        tracing::info!(node = %self.context.node, "node stopped");
    }
}

/// Small chores that nothing depends on.
async fn keep_house(context: Arc<Context>, halt: CancellationToken) {
    let sweeps = std::mem::take(&mut context.built().sweeps);
    let mut tidy = tokio::time::interval(TIDY_EVERY);
    sweep(&context, &sweeps).await;
    let mut readiness = tokio::time::interval(READINESS_EVERY);
    let mut samples = tokio::time::interval(SAMPLE_EVERY);
    loop {
        tokio::select! {
            () = halt.cancelled() => return,
            _ = tidy.tick() => context.registry.tidy(),
            _ = samples.tick() => context.sample(),
            _ = readiness.tick() => context.readiness.look(&context.store).await,
            () = next_minute() => sweep(&context, &sweeps).await,
        }
    }
}

/// Deletes what has expired.
async fn sweep(context: &Context, sweeps: &[(&'static str, Sweeping)]) {
    if context.config.has_kv()
        && let Err(error) = context.kv.sweep(SWEEP_LIMIT).await
    {
        context.kv_errors.increment(1);
        tracing::warn!(%error, "expired keys could not be deleted");
    }
    for (what, sweep) in sweeps {
        if let Err(error) = sweep().await {
            tracing::warn!(error, "{what} could not be deleted");
        }
    }
}
