//! Shared state as this node serves it: spaces that devices keep in step with.
//!
//! What is merged and numbered is the store's and core's to say. This counts, and tells whoever listens: the event `state` says
//! which space has news and up to which number, for what this node took at once and for what other nodes took as soon as the
//! store tells of it. Events are a courtesy; a device that misses one finds out when it asks.

mod http;
mod part;
mod quota;

use std::sync::Arc;

use metrics::Counter;
use serde::Serialize;
use syncline_core::state::{ServerWrite, Space};
use syncline_store::Error;
use syncline_store::state::{
    Asked, Batch, Condition, Entity, EntityPage, Listed, Page, Pushed, SpaceChanged, States as Port, Wrote,
};
use tokio::sync::broadcast::error::RecvError;
use tokio_util::sync::CancellationToken;

use crate::events::Bus;
use crate::metrics::Registry;

/// The name of the event, and its topic.
pub(crate) const EVENT: &str = "state";

pub use part::StatePart;

/// The spaces of a node.
pub struct States {
    store: Arc<dyn Port>,
    events: Bus,
    meters: Meters,
}

struct Meters {
    pulls: Counter,
    changes: Counter,
    news: Counter,
    ahead: Counter,
    reloads: Counter,
    full: Counter,
    forgotten: Counter,
    store_errors: Counter,
}

/// A space has news.
#[derive(Serialize)]
pub(crate) struct News<'a> {
    pub(crate) space: &'a str,
    pub(crate) number: u64,
}

impl States {
    pub(crate) fn new(store: Arc<dyn Port>, events: Bus, registry: &Registry) -> States {
        States { store, events, meters: Meters::new(registry) }
    }

    /// Answers a device.
    pub async fn pull(&self, space: &Space, asked: &Asked) -> Result<Page, Error> {
        self.meters.pulls.increment(1);
        self.count_store_errors(self.store.pull(space, asked).await)
    }

    /// Takes a batch of a device.
    pub async fn push(&self, space: &Space, batch: Batch) -> Result<Pushed, Error> {
        self.meters.changes.increment(batch.changes.len() as u64);
        let pushed = self.count_store_errors(self.store.push(space, batch).await)?;
        match &pushed {
            Pushed::Taken { from, cursor, ahead, .. } => {
                self.meters.news.increment(cursor - from);
                self.meters.ahead.increment(*ahead);
            }
            Pushed::Reload => self.meters.reloads.increment(1),
            Pushed::Full => self.meters.full.increment(1),
        }
        Ok(pushed)
    }

    /// One entity, if it is there.
    pub async fn entity(&self, space: &Space, id: &str) -> Result<Option<Entity>, Error> {
        self.count_store_errors(self.store.entity(space, id).await)
    }

    /// Up to `limit` entities behind an id.
    pub async fn entities(&self, space: &Space, after: &str, limit: usize) -> Result<EntityPage, Error> {
        self.count_store_errors(self.store.entities(space, after, limit).await)
    }

    /// Writes one entity for a server, if the condition holds.
    pub async fn write(
        &self,
        space: &Space,
        id: &str,
        write: ServerWrite,
        condition: Condition,
    ) -> Result<Wrote, Error> {
        self.meters.changes.increment(1);
        let wrote = self.count_store_errors(self.store.write(space, id, write, condition).await)?;
        match &wrote {
            Wrote::Stored(_) | Wrote::Removed => self.meters.news.increment(1),
            Wrote::Full => self.meters.full.increment(1),
            Wrote::Absent | Wrote::Changed => {}
        }
        Ok(wrote)
    }

    /// The number of a space's last news.
    pub async fn number(&self, space: &Space) -> Result<u64, Error> {
        self.count_store_errors(self.store.number(space).await)
    }

    /// Up to `limit` spaces behind `after`, by name.
    pub async fn list(&self, after: &str, limit: usize) -> Result<Vec<Listed>, Error> {
        self.count_store_errors(self.store.list(after, limit).await)
    }

    /// Removes a space; whether it was there.
    pub async fn remove(&self, space: &Space) -> Result<bool, Error> {
        self.count_store_errors(self.store.remove(space).await)
    }

    /// Forgets up to `limit` removals beyond the horizon.
    pub async fn forget(&self, limit: usize) -> Result<(), Error> {
        let forgotten = self.count_store_errors(self.store.forget(limit).await)?;
        self.meters.forgotten.increment(forgotten);
        Ok(())
    }

    /// Tells whoever listens to this node of what the store tells of, until halted.
    pub async fn run(&self, halt: CancellationToken) {
        let mut news = self.store.listen();
        loop {
            let heard = tokio::select! {
                () = halt.cancelled() => return,
                heard = news.recv() => heard,
            };
            match heard {
                Ok(SpaceChanged { space, number }) => {
                    self.events.publish_here_in(EVENT, &space, &News { space: &space, number });
                }
                Err(RecvError::Lagged(missed)) => tracing::warn!(
                    missed,
                    "changes of shared state were not announced; devices find them at their next pull"
                ),
                Err(RecvError::Closed) => return,
            }
        }
    }

    fn count_store_errors<T>(&self, answer: Result<T, Error>) -> Result<T, Error> {
        answer.inspect_err(|error| {
            if !matches!(error, Error::Invalid { .. }) {
                self.meters.store_errors.increment(1);
            }
        })
    }
}

impl Meters {
    fn new(registry: &Registry) -> Meters {
        let counter = |name, help| registry.counter(name, help, &[]);
        Meters {
            pulls: counter("syncline_state_pulls_total", "Questions of devices for what is new."),
            changes: counter("syncline_state_changes_total", "Changes that devices have sent."),
            news: counter("syncline_state_news_total", "Changes among them that were news."),
            ahead: counter("syncline_state_ahead_total", "Changes from clocks too far ahead."),
            reloads: counter(
                "syncline_state_reloads_total",
                "Batches refused because the device has to ask for everything first.",
            ),
            full: counter("syncline_state_full_total", "Batches refused because the space is full."),
            forgotten: counter("syncline_state_forgotten_total", "Removals beyond the horizon, forgotten."),
            store_errors: registry.store_errors("state"),
        }
    }
}
