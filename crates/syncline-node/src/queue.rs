//! Queues of keyed work, each with a pace that all nodes on one database keep together.
//!
//! [`Queues`] is what everybody else sees: keys go in, results come out, whichever node does the work. Behind it are the
//! workers, one for each queue, and what they do for a key is a `Work`: a call to an API declared in the
//! configuration, or what a part brings.
//!
//! - `queue/handle.rs`: one queue of this node, and its status for people
//! - `queue/worker.rs`: claim, work, settle, renew, wake up
//! - `queue/api.rs`: any HTTP API as work
//! - `queue/status_feed.rs`: events and gauges, kept up to date
//!
//! What holds is the store's promise and core's rules: a key survives `kill -9` and runs once at a time, no call starts
//! before the pace allows it. Nothing here remembers a result; who waits for one asks the store.

mod api;
pub(crate) mod config;
mod handle;
mod http;
mod meters;
mod part;
mod status_feed;
mod template;
mod worker;

use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use async_trait::async_trait;
use syncline_core::queue::{Answer, Enqueued, Kind, Limits, Outcome, Place, Settings};
use syncline_store::queue::{self as store, Cursor, Entry, GivenUp, List, Rules};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::events::Bus;
use crate::metrics::Registry;

use api::ApiWork;
use config::FAILURE_ATTEMPTS;
pub use config::{Api, PartQueue, Queue, Statuses};
use handle::QueueHandle;
pub use handle::StatusView;
pub use meters::CallMeters;
pub use part::QueuePart;
pub use template::{Escape, Template, URL_MAX_BYTES};

/// Who waits for a result looks again after this long even if nobody said that anything changed.
const LOOK_AGAIN: Duration = Duration::from_secs(2);

/// What a queue is.
pub struct Spec {
    /// Its name.
    pub name: String,
    /// Its pace.
    pub settings: Settings,
    /// Results kept.
    pub results_max: u32,
    /// Where its calls go, as it may be shown.
    pub url: Option<String>,
    /// Makes a key of a text, or says why it is none.
    pub check: Check,
}

/// What a text must be to be a key.
pub type Check = Arc<dyn Fn(&str) -> Result<String, String> + Send + Sync>;

/// What is done for a key.
#[async_trait]
pub trait Work: Send + Sync {
    /// Does it. A result is JSON.
    async fn run(&self, task: &Task) -> Answer<String>;

    /// True for work that only waits for other queues: its lease is renewed until it ends. Other work ends when its time
    /// is up.
    fn waits_for_other_queues(&self) -> bool {
        false
    }

    /// Attempts at a key whose calls fail for another reason than 429 and may do better.
    fn failure_attempts(&self) -> u32 {
        if self.waits_for_other_queues() { u32::MAX } else { FAILURE_ATTEMPTS }
    }
}

/// A key to work on.
pub struct Task {
    /// The key.
    pub key: String,
    /// Where calls made for it are counted.
    pub calls: CallMeters,
}

/// Why a question about a queue has no answer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Nothing is called that.
    #[error("there is no queue called {name:?}")]
    Unknown {
        /// What was asked for.
        name: String,
    },
    /// A text that is no key of this queue.
    #[error("{key:?} is no key of {queue}: {reason}")]
    Key {
        /// The text.
        key: String,
        /// The queue.
        queue: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The store's.
    #[error(transparent)]
    Store(#[from] syncline_store::Error),
}

/// The queues of a node. Clones are the same.
#[derive(Clone)]
pub struct Queues(Arc<Inner>);

/// A queue, and what is to be done for each of its keys.
type Worker = (Arc<QueueHandle>, Arc<dyn Work>);

struct Inner {
    handles: RwLock<Vec<Arc<QueueHandle>>>,
    /// What is to be done for each queue once the node starts.
    works: Mutex<Vec<Worker>>,
    /// Paces that the file sets for queues of parts.
    paces: Vec<(String, Settings)>,
    store: Arc<dyn store::Queues>,
    events: Bus,
    registry: Registry,
}

impl Queues {
    /// The queues that are declared in the configuration. Nothing is worked on before [`Queues::start`].
    pub(crate) fn new(
        store: Arc<dyn store::Queues>,
        declared: &[Queue],
        events: &Bus,
        registry: &Registry,
    ) -> Queues {
        let of_parts = declared.iter().filter(|queue| queue.api.is_none());
        let paces = of_parts.map(|queue| (queue.name.clone(), queue.settings)).collect();
        let queues = Queues(Arc::new(Inner {
            handles: RwLock::default(),
            works: Mutex::default(),
            paces,
            store,
            events: events.clone(),
            registry: registry.clone(),
        }));
        let client = crate::outbound::client();
        for queue in declared {
            if let Some(api) = &queue.api {
                queues.add(spec(queue, api), Arc::new(ApiWork::new(api.clone(), client.clone())));
            }
        }
        queues
    }

    /// Adds a queue of a part, with what is to be done for each of its keys. Its pace is the file's where that has one.
    pub fn declare(&self, mut spec: Spec, pace: impl Fn(Settings) -> Settings, work: Arc<dyn Work>) {
        let set = self.0.paces.iter().find(|(name, _)| *name == spec.name).map(|(_, settings)| *settings);
        spec.settings = pace(set.unwrap_or(spec.settings));
        self.add(spec, work);
    }

    fn add(&self, spec: Spec, work: Arc<dyn Work>) {
        let Inner { store, events, registry, .. } = &*self.0;
        let handle = Arc::new(QueueHandle::new(spec, Arc::clone(store), events.clone(), registry));
        self.0.handles.write().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&handle));
        self.0.works.lock().unwrap_or_else(PoisonError::into_inner).push((handle, work));
    }

    /// Starts a worker and a status feed for each queue. They end when `stop` is cancelled.
    pub(crate) fn start(&self, stop: &CancellationToken, tracker: &TaskTracker) {
        let works = std::mem::take(&mut *self.0.works.lock().unwrap_or_else(PoisonError::into_inner));
        for (handle, work) in works {
            tracker.spawn(status_feed::publish(Arc::clone(&handle), stop.clone()));
            tracker.spawn(worker::run(handle, work, stop.clone()));
        }
    }

    /// How each queue is.
    pub async fn status(&self) -> Result<Vec<StatusView>, Error> {
        let handles = self.0.handles.read().unwrap_or_else(PoisonError::into_inner).clone();
        Ok(futures::future::try_join_all(handles.iter().map(|handle| handle.view())).await?)
    }

    /// How one queue is.
    pub async fn status_of(&self, name: &str) -> Result<StatusView, Error> {
        Ok(self.handle(name)?.view().await?)
    }

    /// Puts keys into a queue.
    pub async fn enqueue(&self, name: &str, kind: Kind, keys: &[String]) -> Result<Enqueued, Error> {
        let handle = self.handle(name)?;
        if keys.is_empty() {
            return Ok(Enqueued::default());
        }
        let checked = keys.iter().map(|key| handle.key(key)).collect::<Result<Vec<_>, _>>()?;
        Ok(self.0.store.enqueue(name, &handle.rules, kind, &checked).await?)
    }

    /// All that is known of a key.
    pub async fn entry(&self, name: &str, key: &str) -> Result<Option<Entry>, Error> {
        let handle = self.handle(name)?;
        Ok(self.0.store.entry(name, &handle.key(key)?).await?)
    }

    /// The same once the key has ended, or after `wait`, whichever is sooner.
    pub(crate) async fn entry_within(
        &self,
        name: &str,
        key: &str,
        wait: Duration,
    ) -> Result<Option<Entry>, Error> {
        match tokio::time::timeout(wait, self.ended(name, key)).await {
            Ok(entry) => entry,
            Err(_) => self.entry(name, key).await,
        }
    }

    /// Waits until a key has ended, on whatever node; `None` if there is no such key (any more).
    pub async fn ended(&self, name: &str, key: &str) -> Result<Option<Entry>, Error> {
        let mut changes = self.0.store.changes(name)?;
        loop {
            changes.mark_unchanged();
            match self.entry(name, key).await? {
                Some(entry) if !has_ended(&entry) => {}
                known => return Ok(known),
            }
            // A lost message must not cost more than a moment, and a closed channel not a busy loop.
            match tokio::time::timeout(LOOK_AGAIN, changes.changed()).await {
                Ok(Ok(())) | Err(_) => {}
                Ok(Err(_)) => tokio::time::sleep(LOOK_AGAIN).await,
            }
        }
    }

    /// Keys in one place.
    pub async fn list(
        &self,
        name: &str,
        list: List,
        after: Option<Cursor>,
        limit: usize,
    ) -> Result<Vec<Entry>, Error> {
        self.handle(name)?;
        Ok(self.0.store.list(name, list, after, limit).await?)
    }

    /// Gives keys that are dead or failed another chance: those named, or all that were given up in one of these ways.
    pub async fn revive(
        &self,
        name: &str,
        keys: Option<&[String]>,
        given_up: &[GivenUp],
    ) -> Result<usize, Error> {
        let handle = self.handle(name)?;
        let Some(keys) = keys else {
            let mut revived = 0;
            for way in given_up {
                revived += self.0.store.revive_all(name, *way).await?;
            }
            return Ok(revived);
        };
        let checked = keys.iter().map(|key| handle.key(key)).collect::<Result<Vec<_>, _>>()?;
        Ok(self.0.store.revive(name, &checked).await?)
    }

    /// Forgets keys, wherever they are.
    pub async fn remove(&self, name: &str, keys: &[String]) -> Result<usize, Error> {
        let handle = self.handle(name)?;
        let checked = keys.iter().map(|key| handle.key(key)).collect::<Result<Vec<_>, _>>()?;
        Ok(self.0.store.remove(name, &checked).await?)
    }

    /// Hears of everything that changes in a queue, on whatever node.
    pub fn changes(&self, name: &str) -> Result<watch::Receiver<u64>, Error> {
        Ok(self.0.store.changes(name)?)
    }

    /// Ends keys in line by results that came from elsewhere.
    pub async fn dequeue(&self, name: &str, results: Vec<(String, String)>) -> Result<usize, Error> {
        let handle = self.handle(name)?;
        let keys: Vec<String> = results.iter().map(|(key, _)| key.clone()).collect();
        let outcomes = results.into_iter().map(|(key, result)| (key, Outcome::Done(result))).collect();
        let kept = self.0.store.dequeue(name, &handle.rules, outcomes).await?;
        handle.meters.done.increment(kept as u64);
        keys.iter().for_each(|key| handle.announce(key, "done"));
        Ok(kept)
    }

    fn handle(&self, name: &str) -> Result<Arc<QueueHandle>, Error> {
        let handles = self.0.handles.read().unwrap_or_else(PoisonError::into_inner);
        let found = handles.iter().find(|handle| handle.name() == name).cloned();
        found.ok_or_else(|| Error::Unknown { name: name.to_owned() })
    }
}

/// A declared queue of an API.
fn spec(queue: &Queue, api: &Api) -> Spec {
    let url = api.url.clone();
    Spec {
        name: queue.name.clone(),
        settings: queue.settings,
        results_max: queue.results_max,
        url: Some(api.url.shown()),
        check: Arc::new(move |key| url.expand(key).map(|_| key.to_owned())),
    }
}

/// The word for where a key is.
pub(crate) fn state(place: &Place<String>) -> &'static str {
    match place {
        Place::Waiting => "waiting",
        Place::Running { .. } => "running",
        Place::Retrying { .. } => "retrying",
        Place::Done(_) => "done",
        Place::Failed(_) => "failed",
        Place::Dead(_) => "dead",
    }
}

fn has_ended(entry: &Entry) -> bool {
    matches!(entry.place, Place::Done(_) | Place::Failed(_) | Place::Dead(_))
}

fn rules(settings: Settings, results_max: u32) -> Rules {
    Rules { settings, limits: Limits { max_results: results_max, ..Limits::default() } }
}
