//! A running node: its parts put together, started and stopped in order.

use std::fmt;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use bytes::Bytes;
use metrics::Counter;
use syncline_bookshelf::shelf_store::ShelfStore;
use syncline_store::kv::Kv;
use syncline_store::{Options, Store};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::clock;
use crate::config::Config;
use crate::entity::Entities;
use crate::events::Bus;
use crate::gallery::Gallery;
use crate::http::auth::Auth;
use crate::http::guard::Guard;
use crate::http::metrics::Routes;
use crate::http::{self, Readiness, Streams};
use crate::lock::Locks;
use crate::metrics::Registry;
use crate::queue::{self, Queues};
use crate::rationed::Rationed;
use crate::recording::{self, Recordings};
use crate::schedule::{Scheduler, Surroundings};
use crate::server;
use crate::shelf::{self, Shelf};
use crate::state::States;
use crate::viewer::Viewers;

/// How often recorded durations are sorted into classes.
const TIDY_EVERY: Duration = Duration::from_secs(5);

/// How often expired keys are swept, and how many at most. Reading never depends on it.
const SWEEP_EVERY: Duration = Duration::from_secs(60);
const SWEEP_LIMIT: usize = 1_000;

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
    /// The recordings folder cannot be used.
    #[error("cannot use the recordings folder {}: {cause}", path.display())]
    Recordings {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        cause: recording::Error,
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
pub struct NodeId(Arc<str>);

impl NodeId {
    /// The machine's name, for people, and something random, for uniqueness.
    pub fn random() -> NodeId {
        let system = rustix::system::uname();
        let host = system.nodename().to_string_lossy().into_owned();
        let fits = |c: &char| c.is_ascii_alphanumeric() || "-_".contains(*c);
        let host: String = host.split('.').next().unwrap_or_default().chars().filter(fits).take(32).collect();
        NodeId(format!("{host}-{:010x}", rand::random::<u64>() >> 24).into())
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The parts of a node, as handlers and workers see them.
pub struct Context {
    /// What it was told.
    pub config: Config,
    /// Its name among the nodes.
    pub node: NodeId,
    /// Durable truth.
    pub store: Store,
    /// The store's kv.
    pub kv: Arc<dyn Kv>,
    /// Who is watching.
    pub viewer: Arc<Viewers>,
    /// Who may do what alone.
    pub locks: Locks,
    /// What devices agree on.
    pub states: Arc<States>,
    /// What runs when.
    pub scheduler: Scheduler,
    /// What the built-in job painted.
    pub gallery: Gallery,
    /// Keyed work at a pace.
    pub queues: Queues,
    /// The bookshelf, if this node has one.
    pub shelf: Option<Shelf>,
    /// What came from elsewhere.
    pub entities: Entities,
    /// Recordings of calls.
    pub recordings: Recordings,
    /// What happens.
    pub events: Bus,
    /// What is counted.
    pub registry: Registry,
    /// Cancelled when the node is to stop.
    pub stop: CancellationToken,
    pub(crate) auth: Auth,
    pub(crate) guard: Guard,
    pub(crate) streams: Streams,
    pub(crate) readiness: Readiness,
    /// The memory of large answers that are being read.
    pub(crate) answers: Arc<Semaphore>,
    /// Requests that a limit refused.
    pub(crate) limited: Rationed,
    pub(crate) routes: Routes,
    pub(crate) openapi: Bytes,
    pub(crate) policies: http::Policies,
    kv_errors: Counter,
}

impl Context {
    /// Puts the parts together for a node that listens on `address`. Starts nothing.
    pub fn new(config: Config, store: Store, address: SocketAddr) -> Arc<Context> {
        let registry = Registry::new();
        let (events, node) = (Bus::new(), NodeId::random());
        let kv = store.kv();
        let clock = Arc::new(clock::now);
        let viewer =
            Viewers::new(&config.viewer, node.clone(), Arc::clone(&kv), events.clone(), clock, &registry);
        let viewer = Arc::new(viewer);
        let locks = Locks::new(store.locks(), events.clone(), &registry);
        let states = Arc::new(States::new(store.states(), events.clone(), &registry));
        let gallery = Gallery::new(Arc::clone(&kv));
        let around = Surroundings {
            node: node.to_string(),
            viewers: Arc::clone(&viewer),
            store: store.schedule(),
            kv: Arc::clone(&kv),
            gallery: gallery.clone(),
            events: events.clone(),
            metrics: registry.clone(),
        };
        let (queues, shelf) = queues(&config, &store, &events, &registry);
        let https = config.public_base_url.as_ref().is_some_and(|url| url.scheme() == "https");
        let (openapi, routes) = http::description(&registry);
        Arc::new(Context {
            auth: Auth::new(config.token.as_ref(), https, Arc::clone(&kv), &registry),
            readiness: Readiness::default(),
            answers: Arc::new(Semaphore::new(http::ANSWERS_MAX_BYTES)),
            limited: Rationed::default(),
            guard: Guard::new(&config, address),
            streams: Streams::new(config.limits.event_streams, &registry),
            kv_errors: registry.store_errors("kv"),
            policies: http::Policies::new(&config.shelf.cover_origins()),
            scheduler: Scheduler::new(&config.jobs, &around),
            recordings: Recordings::new(&config.recordings, &registry),
            entities: Entities::new(&config.entities, &store, &events, &registry),
            viewer,
            locks,
            states,
            gallery,
            queues,
            shelf,
            stop: CancellationToken::new(),
            config,
            node,
            store,
            kv,
            events,
            registry,
            routes,
            openapi,
        })
    }

    /// Passes on what the kv answered, and counts when that is the store's own failure.
    pub(crate) fn stored<T>(&self, answer: Result<T, syncline_store::Error>) -> Result<T, http::Error> {
        answer.map_err(http::Error::from).inspect_err(|error| {
            if error.status().is_server_error() {
                self.kv_errors.increment(1);
            }
        })
    }
}

/// What a node opens its store for: all systems, and the bookshelf.
#[must_use]
pub fn store_options() -> Options {
    Options::default().with(&syncline_bookshelf::shelf_store::MIGRATIONS)
}

/// The queues of a node, and the shelf on top of them.
fn queues(config: &Config, store: &Store, events: &Bus, registry: &Registry) -> (Queues, Option<Shelf>) {
    let mut specs: Vec<_> = config.queues.iter().filter_map(queue::declared).collect();
    if config.shelf.enabled {
        specs.extend(shelf::specs(&config.shelf, &config.queues));
    }
    let queues = Queues::new(store.queues(), specs, events, registry);
    let shelf = config
        .shelf
        .enabled
        .then(|| Shelf::new(&config.shelf, ShelfStore::new(store), queues.clone(), events.clone()));
    (queues, shelf)
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
        let store = Store::open_with(config.database_url.expose(), &store_options()).await?;
        let context = Context::new(config, store, address);
        context.entities.prepare().await?;
        let recordings = context.recordings.prepare().await;
        let path = context.config.recordings.dir.clone();
        recordings.map_err(|cause| StartError::Recordings { path, cause })?;
        let workers = TaskTracker::new();
        // Requests in flight still need the workers, so these are stopped after the server.
        let halt = CancellationToken::new();
        let viewer = Arc::clone(&context.viewer);
        let viewer_halt = halt.clone();
        workers.spawn(async move { viewer.run(viewer_halt).await });
        let (states, states_halt) = (Arc::clone(&context.states), halt.clone());
        workers.spawn(async move { states.run(states_halt).await });
        context.scheduler.start(&halt, &workers);
        context.entities.start(&halt, &workers);
        let works = context.shelf.as_ref().map(Shelf::works).unwrap_or_default();
        context.queues.start(works, &context.config.queues, &halt, &workers);
        context.shelf.iter().for_each(|shelf| shelf.start(&halt, &workers));
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
    let mut tidy = tokio::time::interval(TIDY_EVERY);
    let mut sweep = tokio::time::interval(SWEEP_EVERY);
    let mut readiness = tokio::time::interval(READINESS_EVERY);
    loop {
        tokio::select! {
            () = halt.cancelled() => return,
            _ = tidy.tick() => context.registry.tidy(),
            _ = readiness.tick() => context.readiness.look(context.node.as_str(), &*context.kv).await,
            _ = sweep.tick() => {
                if let Err(error) = context.kv.sweep(SWEEP_LIMIT).await {
                    context.kv_errors.increment(1);
                    tracing::warn!(%error, "expired keys could not be swept");
                }
                if let Err(error) = context.locks.sweep(SWEEP_LIMIT).await {
                    tracing::warn!(%error, "names of locks could not be forgotten");
                }
                if let Err(error) = context.entities.sweep().await {
                    tracing::warn!(%error, "numbers of old entries could not be forgotten");
                }
                if let Err(error) = context.states.forget(SWEEP_LIMIT).await {
                    tracing::warn!(%error, "removals in shared state could not be forgotten");
                }
            }
        }
    }
}
