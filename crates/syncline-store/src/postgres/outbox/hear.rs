//! Hearing of new entries: the table's trigger says `NOTIFY` once for each inserting statement.
//!
//! Behind a pooler `LISTEN` does not work; there, and while the listening connection is lost, whoever waits is told to
//! look every [`LOOK_EVERY_DEAF`].

use std::sync::{Arc, Weak};
use std::time::Duration;

use sqlx::postgres::PgPool;

use super::super::Engine;
use super::super::listen::Listener;
use crate::outbox::wakes::Wakes;

const CHANNEL: &str = "sync_outbox";
const LOOK_EVERY_DEAF: Duration = Duration::from_millis(200);

/// Begins to follow what other processes insert, once for each engine.
pub(super) fn follow(engine: &Engine) {
    let (pool, wakes) = (engine.pool.clone(), Arc::downgrade(&engine.outbox));
    let channel = (!engine.pooled).then(|| engine.schema().channel(CHANNEL));
    engine.outbox.follow(|| listen(pool, wakes, channel));
}

/// Without a channel nothing can be heard.
async fn listen(pool: PgPool, wakes: Weak<Wakes>, channel: Option<String>) {
    while !pool.is_closed() {
        if let Some(channel) = &channel
            && let Err(error) = hear(&pool, channel, &wakes).await
        {
            tracing::debug!(%error, "the listening connection for new outbox entries failed; it is opened again");
        }
        wake(&wakes);
        tokio::time::sleep(LOOK_EVERY_DEAF).await;
    }
}

/// Listens for as long as the connection lasts.
async fn hear(pool: &PgPool, channel: &str, wakes: &Weak<Wakes>) -> sqlx::Result<()> {
    let mut listener = Listener::open(pool, channel).await?;
    // What was announced before this moment was not heard.
    wake(wakes);
    while listener.next().await?.is_some() {
        wake(wakes);
    }
    Ok(())
}

fn wake(wakes: &Weak<Wakes>) {
    if let Some(wakes) = wakes.upgrade() {
        wakes.wake();
    }
}
