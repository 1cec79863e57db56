//! What a node tells, for as long as it takes.
//!
//! Events are news, not truth: a stream breaks, a slow reader misses some, another node does the work. So the listener says
//! [`Heard::LookAgain`] whenever something may have been missed, and whoever waits then asks the node how things stand.

use std::time::Duration;

use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use serde_json::Value;

use crate::client::Client;
use crate::output;

/// How long to wait before a broken stream is opened again.
const RECONNECT_AFTER: Duration = Duration::from_secs(1);

/// How long nothing may be heard before it is time to look.
const QUIET_MAX: Duration = Duration::from_secs(2);

/// News.
pub enum Heard {
    /// Something may have been missed.
    LookAgain,
    /// This happened.
    Event {
        /// Its name.
        name: String,
        /// What exactly.
        data: Value,
    },
}

/// Listens to a node.
pub struct Listener<'a> {
    client: &'a Client,
    topics: &'static str,
    stream: Option<BoxStream<'static, anyhow::Result<(String, String)>>>,
    lost: bool,
}

impl<'a> Listener<'a> {
    /// Begins to listen. A node that cannot be reached now is an error; one that goes away later may come back.
    pub async fn open(client: &'a Client, topics: &'static str) -> anyhow::Result<Self> {
        let stream = Some(client.events(topics).await?.boxed());
        Ok(Self { client, topics, stream, lost: false })
    }

    /// Waits for news.
    pub async fn next(&mut self) -> anyhow::Result<Heard> {
        loop {
            let Some(stream) = &mut self.stream else {
                tokio::time::sleep(RECONNECT_AFTER).await;
                self.reopen().await;
                continue;
            };
            match tokio::time::timeout(QUIET_MAX, stream.try_next()).await {
                Ok(Ok(Some((name, data)))) => match name.as_str() {
                    "hello" | "lagged" => return Ok(Heard::LookAgain),
                    _ => return Ok(Heard::Event { name, data: serde_json::from_str(&data)? }),
                },
                Ok(Ok(None) | Err(_)) => {
                    self.stream = None;
                    if !self.lost {
                        self.lost = true;
                        output::remark("lost the node; waiting for it to come back")?;
                    }
                }
                Err(_) => return Ok(Heard::LookAgain),
            }
        }
    }

    async fn reopen(&mut self) {
        // What keeps it from coming back is told by whoever asks next, in words of its own.
        if let Ok(stream) = self.client.events(self.topics).await {
            self.stream = Some(stream.boxed());
            self.lost = false;
        }
    }
}
