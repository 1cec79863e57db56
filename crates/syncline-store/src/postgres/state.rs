//! How other nodes hear of changes of shared state on PostgreSQL.
//!
//! A change is announced by `NOTIFY` after its transaction, because PostgreSQL lets transactions that announce something commit one
//! after the other; what comes while one announcement is under way goes with the next. Where announcements are not heard, and where a
//! node dies between commit and announcement, what other nodes took is found when devices ask again by themselves.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::broadcast;

use super::Engine;
use super::notices::{Heard, Subscription};
use crate::Error;
use crate::database::statements_of;
use crate::state::port::ChangeNotices;
use crate::state::{ChangeBroadcast, SpaceChanged};

statements_of!("state.postgres": NOTIFY);

const CHANNEL: &str = "state";

/// What all ports of one engine share.
#[derive(Debug, Default)]
pub(super) struct Shared {
    changes: ChangeBroadcast,
    started: AtomicBool,
    pending: Mutex<PendingNotices>,
}

/// Changes of which the other nodes are not notified yet.
#[derive(Debug, Default)]
struct PendingNotices {
    /// How far each space is.
    numbers: HashMap<String, u64>,
    /// Whether a task is sending them.
    sending: bool,
}

/// The notices of one engine.
#[derive(Debug)]
pub(crate) struct PostgresNotices {
    engine: Engine,
}

impl PostgresNotices {
    pub(crate) fn new(engine: Engine) -> Self {
        Self { engine }
    }
}

impl ChangeNotices for PostgresNotices {
    fn send(&self, space: &str, number: u64) {
        let shared = &self.engine.states;
        shared.changes.send(space, number);
        let mut pending = shared.pending.lock().unwrap_or_else(PoisonError::into_inner);
        let known = pending.numbers.entry(space.to_owned()).or_default();
        *known = number.max(*known);
        if !std::mem::replace(&mut pending.sending, true) {
            tokio::spawn(send_notices(self.engine.clone()));
        }
    }

    fn listen(&self) -> broadcast::Receiver<SpaceChanged> {
        let shared = &self.engine.states;
        if !shared.started.swap(true, Ordering::AcqRel) {
            let heard = self.engine.notices.subscribe(&self.engine, CHANNEL);
            let own_prefix = format!("{} ", self.engine.notices.own());
            tokio::spawn(follow(heard, own_prefix, Arc::downgrade(shared)));
        }
        shared.changes.listen()
    }
}

/// Announces what there is to tell, and what comes meanwhile, until there is nothing left.
async fn send_notices(engine: Engine) {
    loop {
        let numbers = {
            let mut pending = engine.states.pending.lock().unwrap_or_else(PoisonError::into_inner);
            pending.sending = !pending.numbers.is_empty();
            std::mem::take(&mut pending.numbers)
        };
        if numbers.is_empty() {
            return;
        }
        let own = engine.notices.own();
        let notices = numbers.iter().map(|(space, number)| format!("{own} {number} {space}"));
        if let Err(error) = announce(&engine, notices.collect()).await {
            tracing::debug!(%error, "other nodes could not be notified of changes; devices find them by asking");
        }
    }
}

async fn announce(engine: &Engine, notices: Vec<String>) -> Result<(), Error> {
    let mut session = engine.statement().await?;
    let notify = engine.query(NOTIFY).bind(engine.schema().channel(CHANNEL)).bind(notices);
    session.all::<(Option<String>,)>(notify).await?;
    session.commit().await
}

/// Passes on what other nodes announce, until the store is gone.
async fn follow(mut heard: Subscription, own_prefix: String, shared: Weak<Shared>) {
    while let Some(heard) = heard.next().await {
        let Heard::Notice(payload) = heard else { continue };
        let Some(shared) = shared.upgrade() else { return };
        let told = payload.split_once(' ').filter(|_| !payload.starts_with(&own_prefix));
        let told = told.and_then(|(_, told)| told.split_once(' '));
        if let Some((number, space)) = told.and_then(|(number, space)| Some((number.parse().ok()?, space))) {
            shared.changes.send(space, number);
        }
    }
}
