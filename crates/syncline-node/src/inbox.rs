//! Entities that came from elsewhere, and the settings among them that are edited here.
//!
//! [`Entities`] is what the HTTP side sees: batches in, entities out, edits into this node's own outbox. What an entry
//! does, once and never older over newer, is the store's promise; here it is decided what is refused whole, and everybody who
//! listens is told what changed.
//!
//! - `inbox/batch.rs`: what was posted, checked
//! - `inbox/outbox_feed.rs`: how the outbox is, shown while somebody looks

mod batch;
pub(crate) mod config;
mod http;
mod outbox_feed;
mod part;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use metrics::{Counter, Histogram};
use serde::Serialize;
use serde_json::value::RawValue;
use syncline_core::outbox::{EntityType, EntryResult, Moment, SenderId};
use syncline_core::text::excerpt;
use syncline_store::Store;
use syncline_store::inbox::{Arrival, Entity, Inbox, ListCursor, Put, unknown_type};
use syncline_store::outbox::Outbox;
use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::events::Bus;
use crate::metrics::Registry;
pub(crate) use batch::{Batch, Refused};
pub use batch::{DEPTH_MAX, is_deep};
pub use config::{EntityKind, FileType};
pub use part::OutboxPart;

/// Changes of a batch that are told one by one; whoever wants the others reads again.
const TOLD_MAX: usize = 100;

/// Largest payload that is told along.
const TOLD_MAX_BYTES: usize = 4 * 1024;

/// Numbers of entries are remembered this long, and forgotten in steps of this many.
const REMEMBERED: Duration = Duration::from_secs(90 * 86_400);
const FORGOTTEN_MAX: usize = 1_000;

/// Why a question about entities has no answer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Nothing is called that.
    #[error("{}; there are {}", unknown_type(name), known.join(", "))]
    Unknown {
        /// What was asked for.
        name: String,
        /// What there is.
        known: Vec<String>,
    },
    /// Only the box changes these.
    #[error("entities of the kind {0} are not edited here: they say what happened")]
    ReadOnly(EntityType),
    /// Somebody else was faster.
    #[error("it was changed meanwhile, at {0}")]
    Changed(Moment),
    /// The store's.
    #[error(transparent)]
    Store(#[from] syncline_store::Error),
}

/// The entities of a node. Clones are the same.
#[derive(Clone)]
pub struct Entities {
    kinds: Arc<[EntityKind]>,
    files: Arc<[FileType]>,
    store: Store,
    inbox: Arc<OnceCell<Arc<dyn Inbox>>>,
    outbox: Arc<dyn Outbox>,
    events: Bus,
    meters: Arc<Meters>,
}

impl Entities {
    /// Entities of these kinds. Their tables are made when they are first needed, or by [`Entities::prepare`].
    pub(crate) fn new(
        kinds: &[EntityKind],
        files: &[FileType],
        store: &Store,
        events: &Bus,
        registry: &Registry,
    ) -> Entities {
        Entities {
            kinds: kinds.into(),
            files: files.into(),
            store: store.clone(),
            inbox: Arc::default(),
            outbox: store.outbox(),
            events: events.clone(),
            meters: Arc::new(Meters::new(registry)),
        }
    }

    /// Makes the tables that are missing.
    pub async fn prepare(&self) -> Result<(), syncline_store::Error> {
        self.inbox().await.map(|_| ())
    }

    /// Shows how the outbox is to whoever listens, until `stop`.
    pub(crate) fn start(&self, stop: &CancellationToken, tracker: &TaskTracker) {
        tracker.spawn(outbox_feed::publish(self.clone(), self.events.clone(), stop.clone()));
    }

    /// The kinds there are.
    pub(crate) fn kinds(&self) -> &[EntityKind] {
        &self.kinds
    }

    /// The kind of file that entries of this name stand for.
    pub(crate) fn file(&self, name: &str) -> Option<FileType> {
        self.files.iter().copied().find(|file| file.name == name)
    }

    /// The kind of this name.
    pub(crate) fn kind(&self, name: &str) -> Result<&EntityKind, Error> {
        let found = self.kinds.iter().find(|kind| kind.entity_type.as_str() == name);
        found.ok_or_else(|| {
            let known = self.kinds.iter().map(|kind| kind.entity_type.to_string()).collect();
            Error::Unknown { name: excerpt(name), known }
        })
    }

    /// Takes a batch; what became of each entry, in its order.
    pub(crate) async fn apply(&self, batch: Batch) -> Result<Vec<EntryResult>, Error> {
        let started = Instant::now();
        let inbox = self.inbox().await?;
        let results = inbox.apply(batch.sender.as_ref(), &batch.arrivals).await.inspect_err(|_| {
            self.meters.store_errors.increment(1);
        })?;
        self.meters.seconds.record(started.elapsed());
        for result in &results {
            self.meters.of(result).increment(1);
        }
        self.tell(&batch.arrivals, &results);
        Ok(results)
    }

    /// Changes a setting here. It goes to the box through the outbox. `expected` is the change that the editor had seen; a
    /// setting that was changed since stays as it is.
    pub(crate) async fn put(
        &self,
        name: &str,
        id: &str,
        payload: &str,
        expected: Option<Moment>,
    ) -> Result<Entity, Error> {
        let kind = self.kind(name)?;
        if !kind.editable {
            return Err(Error::ReadOnly(kind.entity_type.clone()));
        }
        let entity = match self.inbox().await?.put(&kind.entity_type, id, payload, expected).await? {
            Put::Done(entity) => entity,
            Put::Changed(changed_at) => return Err(Error::Changed(changed_at)),
        };
        let told = Told::new(name, id, payload, entity.changed_at);
        self.events.publish_in("entity.changed", name, &Changes { changes: vec![told], omitted: 0 });
        Ok(entity)
    }

    /// One entity.
    pub(crate) async fn entity(&self, name: &str, id: &str) -> Result<Option<Entity>, Error> {
        let kind = self.kind(name)?;
        Ok(self.inbox().await?.entity(&kind.entity_type, id).await?)
    }

    /// Several, the last changed first.
    pub(crate) async fn entities(
        &self,
        name: &str,
        after: Option<ListCursor>,
        limit: usize,
    ) -> Result<Vec<Entity>, Error> {
        let kind = self.kind(name)?;
        Ok(self.inbox().await?.entities(&kind.entity_type, after, limit).await?)
    }

    /// What is on its way out.
    pub(crate) fn outbox(&self) -> &Arc<dyn Outbox> {
        &self.outbox
    }

    /// Forgets some numbers of entries that arrived long ago.
    pub(crate) async fn sweep(&self) -> Result<u64, Error> {
        Ok(self.inbox().await?.forget(REMEMBERED, FORGOTTEN_MAX).await?)
    }

    /// Where what came from elsewhere is kept.
    pub async fn inbox(&self) -> Result<&Arc<dyn Inbox>, syncline_store::Error> {
        let types: Vec<EntityType> = self.kinds.iter().map(|kind| kind.entity_type.clone()).collect();
        self.inbox.get_or_try_init(|| async { self.store.inbox(&types).await }).await
    }

    /// Tells which entities are different now, kind by kind: who may read one kind need not hear of another.
    fn tell(&self, arrivals: &[Arrival], results: &[EntryResult]) {
        if !self.events.has_listeners() {
            return;
        }
        let pairs = arrivals.iter().zip(results);
        let applied = pairs.filter(|(_, result)| matches!(result, EntryResult::Applied));
        let mut kinds: BTreeMap<&str, Changes<'_>> = BTreeMap::new();
        let mut told = 0;
        for (arrival, _) in applied {
            let changes = kinds.entry(&arrival.entity_type).or_default();
            if told == TOLD_MAX {
                changes.omitted += 1;
                continue;
            }
            told += 1;
            let Arrival { entity_type, entity_id, payload, created_at, .. } = arrival;
            changes.changes.push(Told::new(entity_type, entity_id, payload, *created_at));
        }
        for (kind, changes) in kinds {
            self.events.publish_in("entity.changed", kind, &changes);
        }
    }
}

/// What is told of the entities of one kind in a batch.
#[derive(Default, Serialize)]
struct Changes<'a> {
    changes: Vec<Told<'a>>,
    /// Further changes that are not told one by one.
    omitted: usize,
}

/// What is told of one change.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Told<'a> {
    entity_type: &'a str,
    entity_id: &'a str,
    /// How it is now; absent where it is too large to be told.
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<&'a RawValue>,
    changed_at: String,
}

impl<'a> Told<'a> {
    fn new(entity_type: &'a str, entity_id: &'a str, payload: &'a str, changed_at: Moment) -> Told<'a> {
        let small = Some(payload).filter(|payload| payload.len() <= TOLD_MAX_BYTES);
        let payload = small.and_then(|payload| serde_json::from_str(payload).ok());
        Told { entity_type, entity_id, payload, changed_at: changed_at.to_string() }
    }
}

/// Who sent a batch, where it says so.
pub(crate) type Sender = Option<SenderId>;

/// What is counted.
struct Meters {
    applied: Counter,
    duplicate: Counter,
    stale: Counter,
    refused: Counter,
    seconds: Histogram,
    store_errors: Counter,
}

impl Meters {
    fn new(registry: &Registry) -> Meters {
        let entries = |result| {
            let help = "Entries received, by what became of them.";
            registry.counter("syncline_inbox_entries_total", help, &[("result", result)])
        };
        Meters {
            applied: entries("applied"),
            duplicate: entries("duplicate"),
            stale: entries("stale"),
            refused: entries("refused"),
            seconds: registry.duration(
                "syncline_inbox_batch_seconds",
                "How long the store takes to take a batch.",
                &[],
            ),
            store_errors: registry.store_errors("inbox"),
        }
    }

    fn of(&self, result: &EntryResult) -> &Counter {
        match result {
            EntryResult::Applied => &self.applied,
            EntryResult::Duplicate => &self.duplicate,
            EntryResult::Stale => &self.stale,
            EntryResult::Refused { .. } => &self.refused,
        }
    }
}
