//! How other nodes hear of changes of shared state on PostgreSQL.
//!
//! A change is announced by `NOTIFY` after its transaction, because PostgreSQL lets transactions that announce something commit one
//! after the other; what comes while one announcement is under way goes with the next. Behind a pooler `LISTEN` does not work; there,
//! while the listening connection is lost, and where a node dies between commit and announcement, what other nodes took is found
//! when devices ask again by themselves.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use sqlx::postgres::PgPool;
use tokio::sync::broadcast;

use super::Engine;
use super::listen::Listener;
use crate::Error;
use crate::database::statements_of;
use crate::state::port::ChangeNotices;
use crate::state::{ChangeBroadcast, SpaceChanged};

statements_of!("state.postgres": NOTIFY);

const CHANNEL: &str = "state";
/// How long the listener rests after its connection could not be made.
const LISTEN_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// What all ports of one engine share.
#[derive(Debug)]
pub(super) struct Shared {
    changes: ChangeBroadcast,
    /// What our own notices begin with: the listeners here were notified already.
    own_prefix: String,
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

impl Default for Shared {
    fn default() -> Self {
        let own_prefix = format!("{:016x} ", rand::random::<u64>());
        Self {
            changes: ChangeBroadcast::default(),
            own_prefix,
            started: AtomicBool::new(false),
            pending: Mutex::default(),
        }
    }
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
        if !self.engine.pooled && !shared.started.swap(true, Ordering::AcqRel) {
            let (pool, channel) = (self.engine.pool.clone(), self.engine.schema().channel(CHANNEL));
            tokio::spawn(listen(pool, channel, Arc::downgrade(&self.engine.states)));
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
        let own_prefix = &engine.states.own_prefix;
        let notices = numbers.iter().map(|(space, number)| format!("{own_prefix}{number} {space}"));
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

/// Passes on what other nodes announce, until the store is closed or gone.
async fn listen(pool: PgPool, channel: String, shared: Weak<Shared>) {
    while !pool.is_closed() && shared.strong_count() > 0 {
        if let Err(error) = listen_once(&pool, &channel, &shared).await {
            tracing::debug!(%error, "the listening connection for state changes failed; it is opened again");
        }
        tokio::time::sleep(LISTEN_AGAIN_AFTER).await;
    }
}

/// Listens for as long as the connection lasts.
async fn listen_once(pool: &PgPool, channel: &str, shared: &Weak<Shared>) -> sqlx::Result<()> {
    let mut listener = Listener::open(pool, channel).await?;
    while let Some(notice) = listener.next().await? {
        let Some(shared) = shared.upgrade() else { return Ok(()) };
        let payload = notice.payload();
        let told = payload.split_once(' ').filter(|_| !payload.starts_with(&shared.own_prefix));
        let told = told.and_then(|(_, told)| told.split_once(' '));
        if let Some((number, space)) = told.and_then(|(number, space)| Some((number.parse().ok()?, space))) {
            shared.changes.send(space, number);
        }
    }
    Ok(())
}
