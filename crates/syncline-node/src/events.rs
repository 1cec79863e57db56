//! What happens in this node, told to whoever listens: one bounded bus in memory.
//!
//! Publishing never waits and never fails: a listener that is too slow misses events and is told so. Nothing here is
//! stored; what must not be missed is read from the store. Across nodes, each has its own bus.

use std::sync::Arc;

use serde::Serialize;
use tokio::sync::broadcast;

/// Events a slow listener may be behind before it loses the oldest.
const CAPACITY: usize = 1_024;

/// One thing that happened.
#[derive(Debug, Clone)]
pub struct Event {
    /// Its name: a topic, or a topic and a word, as in `viewer.occupied`.
    pub name: &'static str,
    /// What it is about, for readers who want to hear of that alone.
    pub about: Option<Arc<str>>,
    /// Its facts as JSON.
    pub data: Arc<str>,
}

impl Event {
    /// The system it belongs to: the part of the name before the dot.
    pub fn topic(&self) -> &'static str {
        self.name.split('.').next().unwrap_or(self.name)
    }
}

/// Where events are published and listened to. Clones are the same bus.
#[derive(Debug, Clone)]
pub struct Bus {
    sender: broadcast::Sender<Event>,
}

impl Bus {
    /// A bus nobody listens to yet.
    pub fn new() -> Bus {
        Bus { sender: broadcast::Sender::new(CAPACITY) }
    }

    /// Tells everybody who listens now. Costs next to nothing when nobody does.
    pub fn publish(&self, name: &'static str, facts: &impl Serialize) {
        self.send(name, None, facts);
    }

    /// The same, about one thing among many.
    pub fn publish_in(&self, name: &'static str, about: &str, facts: &impl Serialize) {
        self.send(name, Some(about), facts);
    }

    fn send(&self, name: &'static str, about: Option<&str>, facts: &impl Serialize) {
        if self.sender.receiver_count() == 0 {
            return;
        }
        match serde_json::to_string(facts) {
            // An error only says that the last listener has just gone.
            Ok(data) => {
                drop(self.sender.send(Event { name, about: about.map(Into::into), data: data.into() }));
            }
            Err(error) => tracing::error!(name, %error, "an event could not be written as JSON"),
        }
    }

    /// Whether anybody listens now.
    pub(crate) fn has_listeners(&self) -> bool {
        self.sender.receiver_count() > 0
    }

    /// Hears everything published from now on.
    pub fn listen(&self) -> broadcast::Receiver<Event> {
        self.sender.subscribe()
    }
}

impl Default for Bus {
    fn default() -> Bus {
        Bus::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn listeners_hear_what_is_published_after_they_came() {
        let bus = Bus::new();
        bus.publish("viewer", &1);
        let mut listener = bus.listen();
        bus.publish("viewer.occupied", &serde_json::json!({ "viewers": 1 }));
        let event = listener.recv().await.unwrap();
        assert_eq!(
            (event.name, event.topic(), &*event.data),
            ("viewer.occupied", "viewer", "{\"viewers\":1}")
        );
    }

    #[tokio::test]
    async fn a_slow_listener_loses_the_oldest_and_is_told() {
        let bus = Bus::new();
        let mut listener = bus.listen();
        for number in 0..CAPACITY + 5 {
            bus.publish("viewer", &number);
        }
        assert!(matches!(listener.recv().await, Err(broadcast::error::RecvError::Lagged(5))));
        assert_eq!(&*listener.recv().await.unwrap().data, "5");
    }
}
