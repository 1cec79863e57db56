//! Hearing what others announce (`LISTEN`): one connection for everything in a store, and it is known to live.
//!
//! A network that forgets a connection tells neither end: a listener then waits for ever for what nobody can send. So a silent
//! connection has to answer every [`CHECK_EVERY`], and one that does not within [`CHECK_MAX`] counts as lost. The question is a
//! `Sync` of the protocol: it runs no statement and begins no transaction, so an idle database stays idle. A connection counts
//! as listening after it has heard an announcement that was made through the store's own connections: an address that leads to
//! another database, or a pooler that gives the server connection to somebody else, hears nothing.
//!
//! Guarantees: whoever subscribed is told when announcements are heard from now on, and within [`CHECK_EVERY`] plus
//! [`CHECK_MAX`] when they are not any more. What was announced in between is not heard. The connection is never one of the
//! store's own: a dead one takes no place there.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sqlx::pool::PoolOptions;
use sqlx::postgres::{PgListener, PgNotification, PgPool};
use sqlx::{Acquire, AssertSqlSafe, Connection, Executor};
use tokio::sync::{Notify, broadcast};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::servers::Servers;
use super::{ANSWER_MAX, CONNECT_MAX, Engine, no_answer, pooler};
use crate::Error;
use crate::names::Schema;

/// Together they are how long a lost connection can go unnoticed.
const CHECK_EVERY: Duration = Duration::from_secs(2);
const CHECK_MAX: Duration = Duration::from_secs(3);
/// How long the listener rests after its connection failed.
const AGAIN_AFTER: Duration = Duration::from_secs(1);
/// Announcements that a subscriber may be behind. One that is further behind is told that it missed some.
const BACKLOG_MAX: usize = 1_024;
/// The channel of the announcement that a new connection has to hear.
const PROOF: &str = "proof";

/// What a subscriber is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Heard {
    /// Announcements are heard from now on, or some were missed just now.
    Listening,
    /// Something was announced, with this payload.
    Notice(Arc<str>),
    /// Announcements are not heard any more.
    Lost,
}

/// Everything that a store hears.
#[derive(Debug)]
pub(super) struct Notices {
    /// Tells this store's announcements from those of others.
    own: Arc<str>,
    topics: Arc<Topics>,
    /// Ends with this, whether or not the store was closed.
    listening: Mutex<JoinSet<()>>,
}

#[derive(Debug, Default)]
struct Topics {
    all: Mutex<Vec<Topic>>,
    /// There is a topic whose channel is not listened to yet.
    added: Notify,
}

#[derive(Debug)]
struct Topic {
    channel: String,
    heard: broadcast::Sender<Heard>,
    is_listening: Arc<AtomicBool>,
}

/// What one subscriber hears of one topic.
pub(crate) struct Subscription {
    heard: broadcast::Receiver<Heard>,
    is_listening: Arc<AtomicBool>,
}

impl Default for Notices {
    fn default() -> Self {
        let own = format!("{:016x}", rand::random::<u64>()).into();
        Self { own, topics: Arc::default(), listening: Mutex::default() }
    }
}

impl Notices {
    /// What this store's own announcements begin with, where they say who announces.
    pub(super) fn own(&self) -> &Arc<str> {
        &self.own
    }

    /// Subscribes to what is announced on the channel `name` of the engine's schema. The first subscription opens the connection.
    pub(super) fn subscribe(&self, engine: &Engine, name: &str) -> Subscription {
        let subscription = self.topics.subscribe(engine.schema().channel(name));
        if let Some(source) = Source::of(engine) {
            let mut listening = self.listening.lock().unwrap_or_else(PoisonError::into_inner);
            if listening.is_empty() {
                listening.spawn(listen(source, Arc::clone(&self.topics)));
            }
        }
        subscription
    }
}

impl Topics {
    fn subscribe(&self, channel: String) -> Subscription {
        let mut all = self.all();
        let topic = match all.iter().position(|topic| topic.channel == channel) {
            Some(known) => &all[known],
            None => {
                let (heard, is_listening) = (broadcast::Sender::new(BACKLOG_MAX), Arc::default());
                all.push(Topic { channel, heard, is_listening });
                self.added.notify_one();
                &all[all.len() - 1]
            }
        };
        Subscription { heard: topic.heard.subscribe(), is_listening: Arc::clone(&topic.is_listening) }
    }

    fn not_listened_to(&self) -> Vec<String> {
        let all = self.all();
        let silent = all.iter().filter(|topic| !topic.is_listening.load(Ordering::Acquire));
        silent.map(|topic| topic.channel.clone()).collect()
    }

    fn set_listening(&self, channels: &[String]) {
        for topic in self.all().iter().filter(|topic| channels.contains(&topic.channel)) {
            topic.is_listening.store(true, Ordering::Release);
            // Nobody may have subscribed yet, or any more.
            let _ = topic.heard.send(Heard::Listening);
        }
    }

    fn set_lost(&self) {
        for topic in self.all().iter() {
            if topic.is_listening.swap(false, Ordering::AcqRel) {
                let _ = topic.heard.send(Heard::Lost);
            }
        }
    }

    fn pass_on(&self, notice: &PgNotification) {
        if let Some(topic) = self.all().iter().find(|topic| topic.channel == notice.channel()) {
            let _ = topic.heard.send(Heard::Notice(notice.payload().into()));
        }
    }

    fn all(&self) -> std::sync::MutexGuard<'_, Vec<Topic>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Subscription {
    /// What is heard next; `None` once the store is gone.
    pub(crate) async fn next(&mut self) -> Option<Heard> {
        match self.heard.recv().await {
            Ok(heard) => Some(heard),
            Err(broadcast::error::RecvError::Lagged(_)) => Some(Heard::Listening),
            Err(broadcast::error::RecvError::Closed) => None,
        }
    }

    /// Forgets what was announced until now.
    pub(crate) fn skip_heard(&mut self) {
        self.heard = self.heard.resubscribe();
    }

    /// Whether announcements are heard at the moment.
    pub(crate) fn is_listening(&self) -> bool {
        self.is_listening.load(Ordering::Acquire)
    }
}

/// Where to listen, and where announcements are made.
struct Source {
    store: Arc<str>,
    schema: Schema,
    pool: PgPool,
    /// The servers of the listener's own address.
    own: Option<Arc<Servers>>,
}

impl Source {
    /// `None` behind a pooler without an address of the listener's own: there `LISTEN` does not work.
    fn of(engine: &Engine) -> Option<Self> {
        (!engine.pooled || engine.listen_servers.is_some()).then(|| Self {
            store: Arc::clone(&engine.store),
            schema: engine.schema().clone(),
            pool: engine.pool.clone(),
            own: engine.listen_servers.clone(),
        })
    }

    /// A connection that has heard an announcement made through the store's connections.
    async fn connect(&self) -> Result<PgListener, Failure> {
        let options = match &self.own {
            Some(servers) => {
                servers.find(&servers.describe()).await.map_err(Failure::Server)?;
                servers.options()
            }
            None => self.pool.connect_options().as_ref().clone(),
        };
        let own =
            PoolOptions::new().max_connections(1).acquire_timeout(CONNECT_MAX).connect_lazy_with(options);
        let mut listener = PgListener::connect_with(&own).await?;
        listener.eager_reconnect(false);
        let (channel, nonce) = (self.schema.channel(PROOF), format!("{:016x}", rand::random::<u64>()));
        within(listener.listen(&channel)).await?;
        // In the simple protocol, which every pooler carries. Both texts are ours: an identifier and hexadecimal digits.
        let announce = AssertSqlSafe(format!("SELECT pg_notify('{channel}', '{nonce}')"));
        within(self.pool.execute(sqlx::raw_sql(announce))).await?;
        match timeout(CHECK_MAX, hears(&mut listener, &nonce)).await {
            Ok(Ok(true)) => Ok(listener),
            Ok(Err(error)) => Err(error.into()),
            Ok(Ok(false)) | Err(_) => Err(Failure::Deaf),
        }
    }
}

/// Why nothing is heard.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("what is announced through the store's connections is not heard")]
    Deaf,
    #[error(transparent)]
    Server(Error),
    #[error(transparent)]
    Connection(#[from] sqlx::Error),
}

/// Finds out whether announcements are heard at the listener's own address, where it has one.
pub(super) async fn check(engine: &Engine) -> Result<(), Error> {
    let Some((source, servers)) = Source::of(engine).zip(engine.listen_servers.as_ref()) else {
        return Ok(());
    };
    let address = servers.describe();
    servers.find(&address).await?;
    // Before anything is listened to: what a pooler's connection listens to is sent to whoever has it next.
    let between = match timeout(ANSWER_MAX, pooler::is_between(&servers.options())).await {
        Ok(answer) => answer.map_err(|error| Error::postgres(&address, &error))?,
        Err(_) => return Err(no_answer(&address, ANSWER_MAX)),
    };
    if between {
        let reason = "leads to a pooler, which gives a connection to one client after the other: name the server itself";
        return Err(Error::Address { address, reason: reason.to_owned() });
    }
    match source.connect().await {
        Ok(_) => Ok(()),
        Err(Failure::Server(error)) => Err(error),
        Err(Failure::Connection(error)) => Err(Error::postgres(&address, &error)),
        Err(Failure::Deaf) => {
            let reason = format!(
                "hears nothing of what is announced at {}: it leads to another database",
                engine.name()
            );
            Err(Error::Address { address, reason })
        }
    }
}

/// Listens until the store is closed or gone.
async fn listen(source: Source, topics: Arc<Topics>) {
    while !source.pool.is_closed() {
        let listened = source.pool.close_event().do_until(listen_once(&source, &topics)).await;
        topics.set_lost();
        if let Ok(Err(error)) = listened {
            tracing::debug!(store = %source.store, %error, "the listening connection failed; it is opened again");
        }
        // Ends early when the store is closed, which is what the loop looks for.
        let _ = source.pool.close_event().do_until(tokio::time::sleep(AGAIN_AFTER)).await;
    }
}

/// Listens for as long as the connection lasts.
async fn listen_once(source: &Source, topics: &Topics) -> Result<(), Failure> {
    let mut listener = source.connect().await?;
    loop {
        let new = topics.not_listened_to();
        if !new.is_empty() {
            within(listener.listen_all(new.iter().map(String::as_str))).await?;
            topics.set_listening(&new);
        }
        let heard = timeout(CHECK_EVERY, async {
            tokio::select! {
                heard = listener.try_recv() => heard.map(Some),
                () = topics.added.notified() => Ok(None),
            }
        });
        match heard.await {
            Ok(Ok(Some(Some(notice)))) => topics.pass_on(&notice),
            Ok(Ok(Some(None))) => return Ok(()),
            Ok(Ok(None)) => {}
            Ok(Err(error)) => return Err(error.into()),
            // What is announced while it answers is kept.
            Err(_) => within(async { (&mut listener).acquire().await?.ping().await }).await?,
        }
    }
}

/// Waits for an announcement; false if the connection is lost before.
async fn hears(listener: &mut PgListener, payload: &str) -> sqlx::Result<bool> {
    while let Some(notice) = listener.try_recv().await? {
        if notice.payload() == payload {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The answer of the listening connection; an error if it is silent.
async fn within<T>(answer: impl Future<Output = sqlx::Result<T>>) -> sqlx::Result<T> {
    timeout(CHECK_MAX, answer).await.unwrap_or_else(|_| {
        Err(sqlx::Error::Io(std::io::Error::new(
            std::io::ErrorKind::TimedOut,
            "the listening connection is silent",
        )))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn op_05_who_is_too_far_behind_is_told_that_it_missed_something() {
        let topics = Topics::default();
        let mut heard = topics.subscribe("s.queue".to_owned());
        assert_eq!(topics.not_listened_to(), ["s.queue"]);
        topics.set_listening(&["s.queue".to_owned()]);
        assert!(heard.is_listening() && topics.not_listened_to().is_empty());
        assert_eq!(heard.next().await, Some(Heard::Listening));
        let announce = |payload: String| {
            let all = topics.all();
            all[0].heard.send(Heard::Notice(payload.into())).unwrap();
        };
        (0..=BACKLOG_MAX).for_each(|n| announce(n.to_string()));
        assert_eq!(heard.next().await, Some(Heard::Listening), "anything may have been announced");
        assert_eq!(heard.next().await, Some(Heard::Notice("1".into())));
        topics.set_lost();
        topics.set_lost();
        heard.skip_heard();
        assert!(!heard.is_listening());
        drop(topics);
        assert_eq!(heard.next().await, None);
    }
}
