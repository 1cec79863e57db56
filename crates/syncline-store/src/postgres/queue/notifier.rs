//! Notifying other processes of changed queues: `NOTIFY` and `LISTEN`.
//!
//! A change is announced after it is committed, outside its transaction: committing with a `NOTIFY` in it waits for every
//! other such commit in the whole cluster. While one notification is on its way, those that come after it gather and go
//! together. What a crash swallows is found by polling.

use std::collections::HashSet;
use std::mem;
use std::sync::{Arc, Mutex, PoisonError};

use super::super::Engine;
use super::super::notices::Heard;
use crate::Error;
use crate::queue::registry::QueueRegistry;

const CHANNEL: &str = "queue";
/// The payload is who notifies, so that nobody wakes itself, and the queue.
const NOTIFY: &str =
    "SELECT pg_notify('syncline.queue', $1 || ' ' || queue) FROM unnest($2::text[]) AS queue";

/// What is to be announced. Clones share it.
#[derive(Debug, Clone)]
pub(in crate::postgres) struct Notifier {
    waiting: Arc<Mutex<Waiting>>,
}

#[derive(Debug, Default)]
struct Waiting {
    queues: HashSet<String>,
    /// Somebody is announcing and will take these along.
    under_way: bool,
}

impl Notifier {
    pub(in crate::postgres) fn new() -> Self {
        Self { waiting: Arc::default() }
    }

    /// Notifies other processes, soon, that `queue` has changed.
    pub(super) fn announce(&self, engine: &Engine, queue: &str) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.queues.insert(queue.to_owned());
        if !mem::replace(&mut waiting.under_way, true) {
            let (notifier, engine) = (self.clone(), engine.clone());
            tokio::spawn(async move {
                while let Some(queues) = notifier.take() {
                    if let Err(error) = notifier.notify(&engine, queues).await {
                        tracing::debug!(%error, "a change of a queue could not be announced to other nodes");
                    }
                }
            });
        }
    }

    /// What is to be announced now; `None` if nothing is, and nobody announces any more then.
    fn take(&self) -> Option<Vec<String>> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.under_way = !waiting.queues.is_empty();
        waiting.under_way.then(|| mem::take(&mut waiting.queues).into_iter().collect())
    }

    async fn notify(&self, engine: &Engine, queues: Vec<String>) -> Result<(), Error> {
        let mut session = engine.statement().await?;
        session.execute(engine.query(NOTIFY).bind(engine.notices.own().to_string()).bind(queues)).await?;
        session.commit().await
    }

    /// Passes on what others announce, until the store is gone.
    pub(super) async fn listen(&self, engine: &Engine, registry: &QueueRegistry) {
        let (mut heard, own) = (engine.notices.subscribe(engine, CHANNEL), Arc::clone(engine.notices.own()));
        if heard.is_listening() {
            registry.set_listening(true);
        }
        while let Some(heard) = heard.next().await {
            match heard {
                Heard::Listening => {
                    registry.set_listening(true);
                    registry.all_changed();
                }
                Heard::Lost => registry.set_listening(false),
                Heard::Notice(payload) => match payload.split_once(' ') {
                    Some((notifier, _)) if *notifier == *own => {}
                    Some((_, queue)) => registry.changed(queue),
                    None => registry.all_changed(),
                },
            }
        }
        registry.set_listening(false);
    }
}
