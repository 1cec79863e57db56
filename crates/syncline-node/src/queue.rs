//! Queues of keyed work, each with a pace that all nodes on one database keep together.
//!
//! [`Queues`] is what everybody else sees: keys go in, results come out, whichever node does the work. Behind it are the
//! workers, one for each queue, and what they do for a key is a `Work`: a call to an API declared in the
//! configuration, or what a part brings.
//!
//! - `queue/handle.rs`: one queue of this node, and its status for people
//! - `queue/worker.rs`: claim, work, settle, renew, wake up
//! - `queue/claims.rs`: the same for workers elsewhere, which ask over HTTP
//! - `queue/api.rs`: any HTTP API as work
//! - `queue/status_feed.rs`: events and gauges, kept up to date
//!
//! What holds is the store's promise and core's rules: a key survives `kill -9` and runs once at a time, no call starts
//! before the pace allows it. Nothing here remembers a result; who waits for one asks the store.

mod api;
mod claims;
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
use serde_json::Value;
use syncline_core::queue::{Answer, Enqueued, GroupSettings, Kind, Limits, Outcome, Place, Settings};
use syncline_store::queue::{
    self as store, Cursor, Entry, GivenUp, GroupStatus, List, NewTask, Next, Rules, SetPace,
};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::events::Bus;
use crate::metrics::Registry;

use api::ApiWork;
use config::FAILURE_ATTEMPTS;
pub use config::{Api, Doer, PartQueue, Queue, Statuses};
use handle::QueueHandle;
pub use handle::{GroupPaceView, StatusView};
pub use meters::CallMeters;
pub use part::QueuePart;
pub use template::{Escape, Filling, GroupTemplate, Template, URL_MAX_BYTES};

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
    /// Says why a key cannot be worked on with this input, where inputs mean something.
    pub check_input: Option<CheckInput>,
    /// The queue that keys with results go to.
    pub then: Option<String>,
    /// The pace of its groups, where it has any.
    pub groups: Option<GroupSettings>,
    /// Names the group of a key that comes without one.
    pub group: Option<GroupTemplate>,
    /// How long results are kept; until there are too many if absent.
    pub result_ttl: Option<Duration>,
}

/// What a text must be to be a key.
pub type Check = Arc<dyn Fn(&str) -> Result<String, String> + Send + Sync>;

/// What an input must be.
pub type CheckInput = Arc<dyn Fn(&str, Option<&Value>) -> Result<(), String> + Send + Sync>;

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
    /// What it was given when it was added.
    pub input: Option<Value>,
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
    /// The node works on this queue itself.
    #[error("the node itself works on {name:?}; declare a queue with workers = true to claim its keys")]
    NoWorkers {
        /// The queue.
        name: String,
    },
    /// The store's.
    #[error(transparent)]
    Store(#[from] syncline_store::Error),
}

/// The queues of a node. Clones are the same.
#[derive(Clone)]
pub struct Queues(Arc<Inner>);

/// A queue, and what this node does for each of its keys, if it does anything.
type Worker = (Arc<QueueHandle>, Option<Arc<dyn Work>>);

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
        let of_parts = declared.iter().filter(|queue| matches!(queue.doer, Doer::Part));
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
            match &queue.doer {
                Doer::Api(api) => {
                    let work = ApiWork::new((**api).clone(), client.clone());
                    queues.add(spec_of_api(queue, api, &client), Some(Arc::new(work)));
                }
                Doer::Workers => queues.add(spec(queue), None),
                Doer::Part => {}
            }
        }
        queues
    }

    /// Adds a queue of a part, with what is to be done for each of its keys. Its pace is the file's where that has one.
    pub fn declare(&self, mut spec: Spec, pace: impl Fn(Settings) -> Settings, work: Arc<dyn Work>) {
        let set = self.0.paces.iter().find(|(name, _)| *name == spec.name).map(|(_, settings)| *settings);
        spec.settings = pace(set.unwrap_or(spec.settings));
        self.add(spec, Some(work));
    }

    fn add(&self, spec: Spec, work: Option<Arc<dyn Work>>) {
        let Inner { store, events, registry, .. } = &*self.0;
        let claimable = work.is_none();
        let handle = QueueHandle::new(spec, claimable, Arc::clone(store), events.clone(), registry);
        let handle = Arc::new(handle);
        self.0.handles.write().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&handle));
        self.0.works.lock().unwrap_or_else(PoisonError::into_inner).push((handle, work));
    }

    /// Starts a worker and a status feed for each queue. They end when `stop` is cancelled.
    pub(crate) fn start(&self, stop: &CancellationToken, tracker: &TaskTracker) {
        let works = std::mem::take(&mut *self.0.works.lock().unwrap_or_else(PoisonError::into_inner));
        for (handle, work) in works {
            // Only now all queues are there.
            handle.set_next(self.next(&handle));
            tracker.spawn(handle::forget_old_results(Arc::clone(&handle), stop.clone()));
            tracker.spawn(status_feed::publish(Arc::clone(&handle), stop.clone()));
            if let Some(work) = work {
                tracker.spawn(worker::run(handle, work, stop.clone()));
            }
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
        self.enqueue_tasks(name, kind, keys.iter().cloned().map(NewTask::from).collect()).await
    }

    /// Puts keys into a queue together with what they carry.
    pub async fn enqueue_tasks(
        &self,
        name: &str,
        kind: Kind,
        mut tasks: Vec<NewTask>,
    ) -> Result<Enqueued, Error> {
        let handle = self.handle(name)?;
        if tasks.is_empty() {
            return Ok(Enqueued::default());
        }
        for task in &mut tasks {
            task.key = handle.key(&task.key)?;
            handle.check_input(task, kind)?;
            handle.name_group(task)?;
        }
        Ok(self.0.store.enqueue_tasks(name, &handle.rules(), kind, tasks).await?)
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

    /// Forgets every key in one place.
    pub async fn clear(&self, name: &str, list: List) -> Result<usize, Error> {
        self.handle(name)?;
        Ok(self.0.store.clear(name, list).await?)
    }

    /// Starts nothing any more, on no node, until [`resume`](Self::resume).
    pub async fn pause(&self, name: &str) -> Result<StatusView, Error> {
        let handle = self.handle(name)?;
        self.0.store.pause(name).await?;
        Ok(handle.view().await?)
    }

    /// Starts again, and lifts whatever pause there is.
    pub async fn resume(&self, name: &str) -> Result<StatusView, Error> {
        let handle = self.handle(name)?;
        self.0.store.resume(name, &handle.rules()).await?;
        Ok(handle.view().await?)
    }

    /// Groups of a queue by name, from behind `after` on.
    pub async fn groups(
        &self,
        name: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<GroupStatus>, Error> {
        self.handle(name)?;
        Ok(self.0.store.groups(name, after, limit).await?)
    }

    /// Starts nothing of a group any more, or starts it again and lifts whatever pause it has.
    pub async fn hold_group(&self, name: &str, group: &str, held: bool) -> Result<(), Error> {
        let handle = self.handle(name)?;
        match held {
            true => self.0.store.pause_group(name, group).await?,
            false => self.0.store.resume_group(name, &handle.rules(), group).await?,
        }
        Ok(())
    }

    /// Sets the pace of a queue on all nodes; with `None` that of the configuration counts again.
    pub async fn set_pace(&self, name: &str, pace: Option<SetPace>) -> Result<StatusView, Error> {
        let handle = self.handle(name)?;
        self.0.store.set_pace(name, &handle.rules(), pace).await?;
        Ok(handle.view().await?)
    }

    /// Takes over the paces of queues as they are declared now; tells which have changed.
    pub(crate) fn reload(&self, declared: &[Queue]) -> Vec<String> {
        let mut changed = Vec::new();
        for queue in declared {
            let Ok(handle) = self.handle(&queue.name) else { continue };
            if handle.take_over(queue) {
                changed.push(format!("pace of queue {}", queue.name));
            }
        }
        changed
    }

    /// Where keys with results of a queue go.
    fn next(&self, handle: &QueueHandle) -> Option<Next> {
        let then = self.handle(handle.then()?).ok()?;
        Some(Next { queue: then.name().to_owned(), rules: then.rules(), group: then.group_by() })
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
        let kept = self.0.store.dequeue(name, &handle.rules(), outcomes).await?;
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

/// A declared queue that calls nobody.
fn spec(queue: &Queue) -> Spec {
    Spec {
        name: queue.name.clone(),
        settings: queue.settings,
        results_max: queue.results_max,
        url: None,
        check: Arc::new(|key| Ok(key.to_owned())),
        check_input: None,
        then: queue.then.clone(),
        groups: queue.groups,
        group: queue.group.clone(),
        result_ttl: queue.result_ttl,
    }
}

/// A declared queue of an API. What could not be called is refused before it is in line.
fn spec_of_api(queue: &Queue, api: &Api, client: &reqwest::Client) -> Spec {
    let shown = Some(api.url.shown());
    if !api.needs_input() {
        let url = api.url.clone();
        let check: Check = Arc::new(move |key| url.expand(key).map(|_| key.to_owned()));
        return Spec { url: shown, check, ..spec(queue) };
    }
    let (api, client) = (api.clone(), client.clone());
    let check_input: CheckInput =
        Arc::new(move |key, input| api.request(&client, Filling { key, input }).map(drop));
    Spec { url: shown, check_input: Some(check_input), ..spec(queue) }
}

fn has_ended(entry: &Entry) -> bool {
    matches!(entry.place, Place::Done(_) | Place::Failed(_) | Place::Dead(_))
}

fn rules(spec: &Spec) -> Rules {
    let limits = Limits { max_results: spec.results_max, ..Limits::default() };
    Rules { settings: spec.settings, limits, groups: spec.groups, result_ttl: spec.result_ttl }
}
