//! Messages between the processes that share a store: one sends, all hear, nobody keeps them.
//!
//! Guarantees: none of delivery. A message that is sent while nobody listens is lost, and so are those of an outage; a listener is told
//! when it hears again. On SQLite there is nobody to tell: one process has the file to itself, or looks at it by itself.

use std::sync::Arc;

use crate::postgres::{self, Subscription};

/// Longest message, in bytes: PostgreSQL takes less than 8,000.
pub const MESSAGE_MAX_BYTES: usize = 7_900;

/// Most messages that are sent at once.
pub const MESSAGES_MAX: usize = 64;

/// What a listener hears.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// Messages are heard from now on. Any may have been missed before.
    Listening,
    /// A message of any process, this one included.
    Text(Arc<str>),
    /// Messages are not heard any more.
    Lost,
}

/// What is sent from now on.
pub struct Messages(Subscription);

impl Messages {
    pub(crate) fn new(heard: Subscription) -> Self {
        Self(heard)
    }

    /// The next one; `None` once the store is gone.
    pub async fn next(&mut self) -> Option<Message> {
        Some(match self.0.next().await? {
            postgres::Heard::Listening => Message::Listening,
            postgres::Heard::Notice(text) => Message::Text(text),
            postgres::Heard::Lost => Message::Lost,
        })
    }
}
