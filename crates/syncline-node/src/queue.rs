//! Queues of keyed work, each with a pace that all nodes on one database keep together.
//!
//! [`Queues`] is what everybody else sees: keys go in, results come out, whichever node does the work. Behind it are the
//! workers, one for each queue, and what they do for a key is a `Work`: a call to an API declared in the
//! configuration, or a step of the bookshelf.
//!
//! - `queue/line.rs`: one queue of this node, and its status for people
//! - `queue/worker.rs`: claim, work, settle, renew, wake up
//! - `queue/api.rs`: any HTTP API as work
//! - `queue/board.rs`: events and gauges, kept up to date
//!
//! What holds is the store's promise and core's rules: a key survives `kill -9` and runs once at a time, no call starts
//! before the pace allows it. Nothing here remembers a result; who waits for one asks the store.

mod api;
mod board;
mod line;
mod meters;
mod worker;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use syncline_core::queue::{Answer, Enqueued, Kind, Limits, Outcome, Place, Settings};
use syncline_store::queue::{self as store, Cursor, Entry, GivenUp, List, Rules};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::config;
use crate::events::Bus;
use crate::metrics::Registry;

pub(crate) use api::ApiWork;
use line::Line;
pub use line::StatusView;
pub(crate) use meters::CallMeters;

/// Who waits for a result looks again after this long even if nobody said that anything changed.
const LOOK_AGAIN: Duration = Duration::from_secs(2);

/// What a queue is.
pub(crate) struct Spec {
    pub(crate) name: String,
    pub(crate) settings: Settings,
    /// Results kept.
    pub(crate) results_max: u32,
    /// Where its calls go, as it may be shown.
    pub(crate) url: Option<String>,
    /// Makes a key of a text, or says why it is none.
    pub(crate) check: Check,
}

/// What a text must be to be a key.
pub(crate) type Check = Arc<dyn Fn(&str) -> Result<String, String> + Send + Sync>;

/// What is done for a key.
#[async_trait]
pub(crate) trait Work: Send + Sync {
    /// Does it. A result is JSON.
    async fn run(&self, task: &Task) -> Answer<String>;

    /// Whether it lasts as long as other queues take: it is then renewed for as long as it does. If not, it ends when
    /// its time is up.
    fn is_step(&self) -> bool {
        false
    }

    /// Attempts at a key whose calls fail for another reason than 429 and may do better.
    fn failure_attempts(&self) -> u32 {
        if self.is_step() { u32::MAX } else { config::FAILURE_ATTEMPTS }
    }
}

/// A key to work on.
pub(crate) struct Task {
    pub(crate) key: String,
    pub(crate) calls: CallMeters,
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
pub struct Queues {
    lines: Arc<Vec<Arc<Line>>>,
    store: Arc<dyn store::Queues>,
}

impl Queues {
    /// Queues as specified. Nothing is worked on before [`Queues::start`].
    pub(crate) fn new(
        store: Arc<dyn store::Queues>,
        specs: Vec<Spec>,
        events: &Bus,
        registry: &Registry,
    ) -> Queues {
        let line = |spec| Arc::new(Line::new(spec, Arc::clone(&store), events.clone(), registry));
        Queues { lines: Arc::new(specs.into_iter().map(line).collect()), store }
    }

    /// Starts a worker for each of `works`, and a board for each queue. They end when `stop` is cancelled.
    pub(crate) fn start(
        &self,
        works: Vec<(&'static str, Arc<dyn Work>)>,
        declared: &[config::Queue],
        stop: &CancellationToken,
        tracker: &TaskTracker,
    ) {
        let client = crate::outbound::client();
        let apis = declared.iter().filter_map(|queue| {
            let work: Arc<dyn Work> = Arc::new(ApiWork::new(queue.api.clone()?, client.clone()));
            Some((queue.name.as_str(), work))
        });
        for (name, work) in works.into_iter().chain(apis) {
            match self.line(name) {
                Ok(line) => drop(tracker.spawn(worker::live(Arc::clone(line), work, stop.clone()))),
                Err(error) => tracing::error!(%error, "a queue has work and no name"),
            }
        }
        for line in self.lines.iter() {
            tracker.spawn(board::keep(Arc::clone(line), stop.clone()));
        }
    }

    /// How each queue is.
    pub async fn status(&self) -> Result<Vec<StatusView>, Error> {
        let views = self.lines.iter().map(|line| line.view());
        Ok(futures::future::try_join_all(views).await?)
    }

    /// How one queue is.
    pub async fn status_of(&self, name: &str) -> Result<StatusView, Error> {
        Ok(self.line(name)?.view().await?)
    }

    /// Puts keys into a queue.
    pub async fn enqueue(&self, name: &str, kind: Kind, keys: &[String]) -> Result<Enqueued, Error> {
        let line = self.line(name)?;
        if keys.is_empty() {
            return Ok(Enqueued::default());
        }
        let checked = keys.iter().map(|key| line.key(key)).collect::<Result<Vec<_>, _>>()?;
        Ok(self.store.enqueue(name, &line.rules, kind, &checked).await?)
    }

    /// All that is known of a key.
    pub async fn entry(&self, name: &str, key: &str) -> Result<Option<Entry>, Error> {
        let line = self.line(name)?;
        Ok(self.store.entry(name, &line.key(key)?).await?)
    }

    /// The same once the key has ended, or after `wait`, whichever is sooner.
    pub async fn entry_within(&self, name: &str, key: &str, wait: Duration) -> Result<Option<Entry>, Error> {
        match tokio::time::timeout(wait, self.ended(name, key)).await {
            Ok(entry) => entry,
            Err(_) => self.entry(name, key).await,
        }
    }

    /// Waits until a key has ended, on whatever node; `None` if there is no such key (any more).
    pub(crate) async fn ended(&self, name: &str, key: &str) -> Result<Option<Entry>, Error> {
        let mut changes = self.store.changes(name)?;
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
        self.line(name)?;
        Ok(self.store.list(name, list, after, limit).await?)
    }

    /// Gives keys that are dead or failed another chance: those named, or all that were given up in one of these ways.
    pub async fn revive(
        &self,
        name: &str,
        keys: Option<&[String]>,
        given_up: &[GivenUp],
    ) -> Result<usize, Error> {
        let line = self.line(name)?;
        let Some(keys) = keys else {
            let mut revived = 0;
            for way in given_up {
                revived += self.store.revive_all(name, *way).await?;
            }
            return Ok(revived);
        };
        let checked = keys.iter().map(|key| line.key(key)).collect::<Result<Vec<_>, _>>()?;
        Ok(self.store.revive(name, &checked).await?)
    }

    /// Forgets keys, wherever they are.
    pub async fn remove(&self, name: &str, keys: &[String]) -> Result<usize, Error> {
        let line = self.line(name)?;
        let checked = keys.iter().map(|key| line.key(key)).collect::<Result<Vec<_>, _>>()?;
        Ok(self.store.remove(name, &checked).await?)
    }

    /// Hears of everything that changes in a queue, on whatever node.
    pub(crate) fn changes(&self, name: &str) -> Result<watch::Receiver<u64>, Error> {
        Ok(self.store.changes(name)?)
    }

    /// Ends keys in line by results that came from elsewhere.
    pub(crate) async fn dequeue(&self, name: &str, results: Vec<(String, String)>) -> Result<usize, Error> {
        let line = self.line(name)?;
        let keys: Vec<String> = results.iter().map(|(key, _)| key.clone()).collect();
        let outcomes = results.into_iter().map(|(key, result)| (key, Outcome::Done(result))).collect();
        let kept = self.store.dequeue(name, &line.rules, outcomes).await?;
        line.meters.done.increment(kept as u64);
        keys.iter().for_each(|key| line.announce(key, "done"));
        Ok(kept)
    }

    fn line(&self, name: &str) -> Result<&Arc<Line>, Error> {
        let found = self.lines.iter().find(|line| line.name() == name);
        found.ok_or_else(|| Error::Unknown { name: name.to_owned() })
    }
}

/// A declared queue of an API.
pub(crate) fn declared(queue: &config::Queue) -> Option<Spec> {
    let api = queue.api.clone()?;
    Some(Spec {
        name: queue.name.clone(),
        settings: queue.settings,
        results_max: queue.results_max,
        url: Some(api.url.shown()),
        check: Arc::new(move |key| api.url.expand(key).map(|_| key.to_owned())),
    })
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
