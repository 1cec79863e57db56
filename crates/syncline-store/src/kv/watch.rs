//! Hearing which keys were changed, in this process and in others.
//!
//! Guarantees: a change that this process has committed is told to its own listeners once, after the commit. Where changes may have
//! been missed (a listener was slow, an announcement was lost), listeners are told [`KeyNews::Missed`] and read again. That a key has
//! expired is nobody's change and is not told.

use std::fmt;

use syncline_core::kv::Version;
use tokio::sync::broadcast;

/// Changes that a slow listener may be behind before it misses some.
const HEARD_MAX: usize = 4_096;

/// What a listener hears.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyNews {
    /// A key was written.
    Put {
        /// Which.
        key: String,
        /// What it was written as.
        version: Version,
    },
    /// A key was removed.
    Deleted {
        /// Which.
        key: String,
    },
    /// Keys may have changed that nobody heard of.
    Missed,
}

/// Hears of changes from the moment it was made.
pub struct KeyWatch(broadcast::Receiver<KeyNews>);

impl KeyWatch {
    /// The next change; `None` when the store is gone.
    pub async fn next(&mut self) -> Option<KeyNews> {
        match self.0.recv().await {
            Ok(news) => Some(news),
            Err(broadcast::error::RecvError::Lagged(_)) => Some(KeyNews::Missed),
            Err(broadcast::error::RecvError::Closed) => None,
        }
    }
}

/// How an engine tells of changes of keys.
pub(crate) trait KeyNotices: fmt::Debug + Send + Sync {
    /// Tells of changes that were committed.
    fn send(&self, news: Vec<KeyNews>);

    /// Hears of changes from this moment on.
    fn listen(&self) -> KeyWatch;
}

/// Tells the listeners of this process.
#[derive(Debug, Clone)]
pub(crate) struct KeyBroadcast(broadcast::Sender<KeyNews>);

impl KeyBroadcast {
    pub(crate) fn tell(&self, news: KeyNews) {
        // An error only says that nobody listens.
        drop(self.0.send(news));
    }
}

impl KeyNotices for KeyBroadcast {
    fn send(&self, news: Vec<KeyNews>) {
        if self.0.receiver_count() > 0 {
            news.into_iter().for_each(|news| self.tell(news));
        }
    }

    fn listen(&self) -> KeyWatch {
        KeyWatch(self.0.subscribe())
    }
}

impl Default for KeyBroadcast {
    fn default() -> Self {
        Self(broadcast::Sender::new(HEARD_MAX))
    }
}
