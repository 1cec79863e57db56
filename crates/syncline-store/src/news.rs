//! Hearing that another process has changed something, and letting others hear: for what a node keeps a copy of.
//!
//! Guarantees: [`News::heard`] ends soon after somebody announced something, and after the caller's own time to look where nothing
//! can be heard. Otherwise it ends once a minute, so an idle database is left alone. It may end without news; whoever waits looks.

use std::time::Duration;

use crate::minute::next_minute;
use crate::postgres::{Heard, Subscription};
use crate::sqlite::FileStamp;

/// What news are about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Topic {
    /// Keys and revocations. Announced with the change itself.
    Access,
    /// Reports of nodes about their viewers. Announced by [`Store::announce`](crate::Store::announce).
    Viewer,
    /// Somebody wants to know which nodes there are. Announced by [`Store::announce`](crate::Store::announce).
    Nodes,
}

impl Topic {
    /// The channel of its announcements.
    pub(crate) fn channel(self) -> &'static str {
        match self {
            Self::Access => "access",
            Self::Viewer => "viewer",
            Self::Nodes => "nodes",
        }
    }
}

/// News of one topic.
pub struct News(Source);

pub(crate) enum Source {
    /// Announcements, those of this process left out.
    Announced { heard: Subscription, own: std::sync::Arc<str> },
    /// The file, as it was when somebody looked last.
    File { stamp: FileStamp },
    /// There are no other processes.
    Memory,
}

impl News {
    pub(crate) fn new(source: Source) -> Self {
        Self(source)
    }

    /// Whether announcements of other processes are heard now.
    #[must_use]
    pub fn is_listening(&self) -> bool {
        matches!(&self.0, Source::Announced { heard, .. } if heard.is_listening())
    }

    /// Ends when there may be news. Where nothing can be heard it looks every `look_every`: on SQLite whether anybody has written
    /// to the file, on PostgreSQL behind a pooler in any case.
    pub async fn heard(&mut self, look_every: Duration) {
        match &mut self.0 {
            Source::Announced { heard, own } => announced(heard, own, look_every).await,
            Source::File { stamp } => {
                tokio::select! {
                    () = next_minute() => stamp.take_change(),
                    () = written(stamp, look_every) => true,
                };
            }
            Source::Memory => next_minute().await,
        }
    }
}

async fn announced(heard: &mut Subscription, own: &str, look_every: Duration) {
    loop {
        let is_listening = heard.is_listening();
        let next = tokio::select! {
            next = heard.next() => next,
            () = tokio::time::sleep(look_every), if !is_listening => return,
            () = next_minute(), if is_listening => return,
        };
        match next {
            Some(Heard::Notice(payload)) if *payload == *own => {}
            Some(Heard::Notice(_) | Heard::Listening) => return heard.skip_heard(),
            Some(Heard::Lost) => {}
            // The store is closed; whoever asks it is told so.
            None => return tokio::time::sleep(look_every).await,
        }
    }
}

async fn written(stamp: &mut FileStamp, look_every: Duration) {
    loop {
        tokio::time::sleep(look_every).await;
        if stamp.take_change() {
            return;
        }
    }
}
