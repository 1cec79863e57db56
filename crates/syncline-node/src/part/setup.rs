//! What a part hands to the node while it is put together.

use std::any::type_name;
use std::fmt::Display;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use syncline_store::Store;
use syncline_store::kv::Kv;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::{BuildError, Page, Services, Topic};
use crate::access::Credentials;
use crate::config::Config;
use crate::events::Bus;
use crate::metrics::Registry;
use crate::node::NodeId;

type Starting = Box<dyn FnOnce(&CancellationToken, &TaskTracker) + Send>;
type Scraping = Box<dyn Fn() + Send + Sync>;
pub(crate) type Sweeping =
    Box<dyn Fn() -> Pin<Box<dyn Future<Output = Result<(), String>> + Send>> + Send + Sync>;

/// What the node offers a part, and where the part leaves what it brings.
pub struct Setup<'a> {
    /// What the node was told.
    pub config: &'a Config,
    /// The node's name among the nodes.
    pub node: &'a NodeId,
    /// Durable truth.
    pub store: &'a Store,
    /// The store's keys with a time to live.
    pub kv: &'a Arc<dyn Kv>,
    /// Where events are published.
    pub events: &'a Bus,
    /// Where series are registered.
    pub registry: &'a Registry,
    /// The keys and issuers of callers.
    pub(crate) credentials: &'a Credentials,
    pub(crate) built: Built,
}

/// What the parts have brought so far.
#[derive(Default)]
pub struct Built {
    pub(crate) services: Services,
    pub(crate) topics: Vec<Topic>,
    pub(crate) pages: Vec<(&'static str, Page)>,
    pub(crate) starts: Vec<Starting>,
    pub(crate) scrapes: Vec<Scraping>,
    pub(crate) sweeps: Vec<(&'static str, Sweeping)>,
}

impl Setup<'_> {
    /// Offers a service to later parts and to handlers.
    pub fn offer<T: Clone + Send + Sync + 'static>(&mut self, service: T) {
        self.built.services.offer(service);
    }

    /// A service of another part, if that part is on.
    pub fn find<T: Clone + Send + Sync + 'static>(&self) -> Option<T> {
        self.built.services.find()
    }

    /// A service without which the part cannot be put together.
    pub fn need<T: Clone + Send + Sync + 'static>(&self) -> Result<T, BuildError> {
        self.find().ok_or(BuildError::Missing { what: type_name::<T>() })
    }

    /// Adds a topic to `/api/events`.
    pub fn topic(&mut self, topic: Topic) {
        self.built.topics.push(topic);
    }

    /// Adds a page to the console. `class` is the part's name, for the menu's marks.
    pub fn page(&mut self, part: &'static str, page: Page) {
        self.built.pages.push((part, page));
    }

    /// Is called when the node starts: the place to spawn workers. They end when the token is cancelled, which happens
    /// after the last request was answered; the node waits for what the tracker tracks.
    pub fn on_start(&mut self, start: impl FnOnce(&CancellationToken, &TaskTracker) + Send + 'static) {
        self.built.starts.push(Box::new(start));
    }

    /// Is called before each look at `/metrics`, to bring gauges up to date.
    pub fn on_scrape(&mut self, measure: impl Fn() + Send + Sync + 'static) {
        self.built.scrapes.push(Box::new(measure));
    }

    /// Is called once a minute, to delete what is no longer needed; nothing may depend on it. `what` is for the log.
    pub fn on_sweep<F, E>(&mut self, what: &'static str, sweep: impl Fn() -> F + Send + Sync + 'static)
    where
        F: Future<Output = Result<(), E>> + Send + 'static,
        E: Display,
    {
        let sweep: Sweeping = Box::new(move || {
            let swept = sweep();
            Box::pin(async move { swept.await.map_err(|error| error.to_string()) })
        });
        self.built.sweeps.push((what, sweep));
    }
}
