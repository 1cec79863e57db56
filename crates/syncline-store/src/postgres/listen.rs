//! Listening to what others announce (`LISTEN`), on a connection that is known to live.
//!
//! A network that forgets a connection tells neither end: a listener then waits for ever for what nobody can send. So a silent
//! connection is asked something every [`CHECK_EVERY`], and one that does not answer within [`CHECK_MAX`] counts as lost. The
//! connection is the listener's own: it is never given back to the pool, and a dead one takes no place there.

use std::time::Duration;

use sqlx::Executor;
use sqlx::pool::PoolOptions;
use sqlx::postgres::{PgListener, PgNotification, PgPool};
use tokio::time::timeout;

use super::CONNECT_MAX;

/// Together they are how long a lost connection can go unnoticed.
const CHECK_EVERY: Duration = Duration::from_secs(5);
const CHECK_MAX: Duration = Duration::from_secs(5);

/// What a listener receives.
pub(super) enum Received {
    /// Something was announced.
    Notice(PgNotification),
    /// Nothing, on a connection that lives.
    Silence,
}

/// A listening connection.
pub(super) struct Listener {
    /// The store's connections, whose end is this one's too.
    store: PgPool,
    listener: PgListener,
}

impl Listener {
    /// Begins to listen on `channel`, at the address that `store` leads to.
    pub(super) async fn open(store: &PgPool, channel: &str) -> sqlx::Result<Self> {
        let options = store.connect_options().as_ref().clone();
        let own =
            PoolOptions::new().max_connections(1).acquire_timeout(CONNECT_MAX).connect_lazy_with(options);
        let mut listener = PgListener::connect_with(&own).await?;
        listener.eager_reconnect(false);
        match timeout(CHECK_MAX, listener.listen(channel)).await {
            Ok(listening) => listening?,
            Err(_) => return Err(lost()),
        }
        Ok(Self { store: store.clone(), listener })
    }

    /// The next notice; `None` or an error once the connection is lost or the store closed.
    pub(super) async fn next(&mut self) -> sqlx::Result<Option<PgNotification>> {
        loop {
            match self.next_or_silence().await? {
                Some(Received::Silence) => {}
                Some(Received::Notice(notice)) => return Ok(Some(notice)),
                None => return Ok(None),
            }
        }
    }

    /// The same, and a word every [`CHECK_EVERY`] while the connection lives and nothing is heard.
    pub(super) async fn next_or_silence(&mut self) -> sqlx::Result<Option<Received>> {
        let Self { store, listener } = self;
        store
            .close_event()
            .do_until(async {
                if let Ok(heard) = timeout(CHECK_EVERY, listener.try_recv()).await {
                    return heard.map(|notice| notice.map(Received::Notice));
                }
                // In the simple protocol: no statement is prepared for it. What is announced meanwhile is kept.
                match timeout(CHECK_MAX, (&mut *listener).execute(sqlx::raw_sql("SELECT 1"))).await {
                    Ok(Ok(_)) => Ok(Some(Received::Silence)),
                    Ok(Err(error)) => Err(error),
                    Err(_) => Err(lost()),
                }
            })
            .await?
    }
}

fn lost() -> sqlx::Error {
    sqlx::Error::Io(std::io::Error::new(std::io::ErrorKind::TimedOut, "the listening connection is silent"))
}
