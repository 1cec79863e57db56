//! How other nodes hear of changed keys on PostgreSQL.
//!
//! Changes are announced by `NOTIFY` after their transactions, because PostgreSQL lets transactions that announce something commit one
//! after the other. What comes within [`ANNOUNCE_EVERY`] goes together, so that however many keys are written, announcements stay few.
//! More than [`PENDING_MAX`] at once are announced as "keys may have changed". A node that dies between commit and announcement tells
//! nobody: a watch is a hint to look, not a log.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use syncline_core::kv::Version;

use super::Engine;
use super::notices::{Heard, Subscription};
use crate::Error;
use crate::database::statements_of;
use crate::kv::watch::{KeyBroadcast, KeyNews, KeyNotices, KeyWatch};

statements_of!("kv.postgres": NOTIFY);

const CHANNEL: &str = "kv";
/// How long changes wait for others to be announced with.
const ANNOUNCE_EVERY: Duration = Duration::from_millis(20);
/// Keys that are announced one by one.
const PENDING_MAX: usize = 1_000;

/// What all ports of one engine share.
#[derive(Debug, Default)]
pub(super) struct Shared {
    changes: KeyBroadcast,
    started: AtomicBool,
    pending: Mutex<Pending>,
}

/// Changes of which the other nodes are not notified yet.
#[derive(Debug, Default)]
struct Pending {
    /// The last version of each key; `None` for a removed one.
    keys: HashMap<String, Option<Version>>,
    /// There were more keys than are told one by one.
    missed: bool,
    /// Whether a task is sending them.
    sending: bool,
}

/// The notices of one engine.
#[derive(Debug)]
pub(crate) struct PostgresKeyNotices {
    engine: Engine,
}

impl PostgresKeyNotices {
    pub(crate) fn new(engine: Engine) -> Self {
        Self { engine }
    }
}

impl KeyNotices for PostgresKeyNotices {
    fn send(&self, news: Vec<KeyNews>) {
        let shared = &self.engine.keys;
        {
            let mut pending = shared.pending.lock().unwrap_or_else(PoisonError::into_inner);
            news.iter().for_each(|news| pending.add(news));
            if !std::mem::replace(&mut pending.sending, true) {
                tokio::spawn(send_notices(self.engine.clone()));
            }
        }
        shared.changes.send(news);
    }

    fn listen(&self) -> KeyWatch {
        let shared = &self.engine.keys;
        if !shared.started.swap(true, Ordering::AcqRel) {
            let heard = self.engine.notices.subscribe(&self.engine, CHANNEL);
            let own_prefix = format!("{} ", self.engine.notices.own());
            tokio::spawn(follow(heard, own_prefix, Arc::downgrade(shared)));
        }
        shared.changes.listen()
    }
}

impl Pending {
    fn add(&mut self, news: &KeyNews) {
        let (key, version) = match news {
            KeyNews::Put { key, version } => (key, Some(*version)),
            KeyNews::Deleted { key } => (key, None),
            KeyNews::Missed => return self.missed = true,
        };
        if self.keys.len() < PENDING_MAX || self.keys.contains_key(key) {
            self.keys.insert(key.clone(), version);
        } else {
            self.missed = true;
        }
    }

    /// What there is to announce: version and key, `-` for a removed one, nothing at all for what was missed.
    fn take(&mut self) -> Vec<String> {
        let said = |(key, version): (String, Option<Version>)| match version {
            Some(Version(number)) => format!("{number} {key}"),
            None => format!("- {key}"),
        };
        let mut notices: Vec<String> = self.keys.drain().map(said).collect();
        notices.extend(std::mem::take(&mut self.missed).then(String::new));
        self.sending = !notices.is_empty();
        notices
    }
}

/// Announces what there is to tell, and what comes meanwhile, until there is nothing left.
async fn send_notices(engine: Engine) {
    loop {
        tokio::time::sleep(ANNOUNCE_EVERY).await;
        let notices = engine.keys.pending.lock().unwrap_or_else(PoisonError::into_inner).take();
        if notices.is_empty() {
            return;
        }
        let own = engine.notices.own();
        let notices = notices.into_iter().map(|notice| format!("{own} {notice}")).collect();
        if let Err(error) = announce(&engine, notices).await {
            tracing::debug!(%error, "other nodes could not be notified of changed keys");
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
        let Some(shared) = shared.upgrade() else { return };
        let news = match &heard {
            // What was announced before this moment was not heard.
            Heard::Listening => Some(KeyNews::Missed),
            Heard::Notice(payload) if payload.starts_with(&own_prefix) => None,
            Heard::Notice(payload) => payload.split_once(' ').map(|(_, notice)| news_of(notice)),
            Heard::Lost => None,
        };
        if let Some(news) = news {
            shared.changes.tell(news);
        }
    }
}

fn news_of(notice: &str) -> KeyNews {
    match notice.split_once(' ') {
        Some(("-", key)) => KeyNews::Deleted { key: key.to_owned() },
        Some((version, key)) => version
            .parse()
            .map_or(KeyNews::Missed, |number| KeyNews::Put { key: key.to_owned(), version: Version(number) }),
        None => KeyNews::Missed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vw_33_a_change_is_announced_as_it_was_last_and_too_many_as_missed() {
        let mut pending = Pending::default();
        let put = |key: &str, number| KeyNews::Put { key: key.to_owned(), version: Version(number) };
        for news in [put("a b", 1), put("a b", 2), KeyNews::Deleted { key: "c".to_owned() }] {
            pending.add(&news);
        }
        let mut heard: Vec<KeyNews> = pending.take().iter().map(|notice| news_of(notice)).collect();
        heard.sort_by_key(|news| matches!(news, KeyNews::Deleted { .. }));
        assert_eq!(heard, [put("a b", 2), KeyNews::Deleted { key: "c".to_owned() }]);
        assert!(pending.take().is_empty() && !pending.sending);
        for n in 0..=PENDING_MAX {
            pending.add(&put(&n.to_string(), 1));
        }
        let notices = pending.take();
        assert_eq!(notices.len(), PENDING_MAX + 1);
        assert_eq!(news_of(notices.last().unwrap()), KeyNews::Missed);
    }
}
