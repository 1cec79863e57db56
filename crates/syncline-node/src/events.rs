//! What happens, told to whoever listens: one bounded bus in memory, and through it the streams of this node and the other nodes.
//!
//! ```text
//!   part ──publish──▶ bus ──▶ router ──▶ the readers of that topic, and of that thing
//!                      │ ▲
//!                      ▼ │
//!                     relay ◀──NOTIFY──▶ the relays of other nodes that have readers of the topic
//! ```
//!
//! Publishing never waits and never fails: a listener that is too slow misses events and is told so. Nothing here is
//! stored; what must not be missed is read from the store.

mod relay;
mod router;

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use serde::Serialize;
use tokio::sync::broadcast;

use relay::Elsewhere;
pub(crate) use relay::Relay;
use router::Router;
pub(crate) use router::{Heard, Interest, Subscription};

/// Events that a listener of everything may be behind before it loses the oldest. The router is one of them.
const CAPACITY: usize = 4_096;

/// One thing that happened.
#[derive(Debug, Clone)]
pub struct Event {
    /// Its name: a topic, or a topic and a word, as in `viewer.occupied`.
    pub name: Cow<'static, str>,
    /// What it is about, for readers who want to hear of that alone.
    pub about: Option<Arc<str>>,
    /// Its facts as JSON, in one line.
    pub data: Arc<str>,
}

impl Event {
    /// The system it belongs to: the part of the name before the dot.
    pub fn topic(&self) -> &str {
        self.name.split('.').next().unwrap_or(&self.name)
    }
}

/// An event as a stream of server-sent events carries it. All who hear of it get the same bytes.
pub(crate) fn frame(name: &str, data: &str) -> Bytes {
    format!("event: {name}\ndata: {data}\n\n").into()
}

/// Where events are published and listened to. Clones are the same bus.
#[derive(Debug, Clone)]
pub struct Bus {
    sender: broadcast::Sender<Event>,
    router: Arc<Router>,
    elsewhere: Arc<Elsewhere>,
}

impl Bus {
    /// A bus nobody listens to yet.
    pub fn new() -> Bus {
        let (router, elsewhere) = (Arc::default(), Arc::default());
        Bus { sender: broadcast::Sender::new(CAPACITY), router, elsewhere }
    }

    /// Tells everybody who listens now, at any node. Costs next to nothing when nobody does.
    pub fn publish(&self, name: &'static str, facts: &impl Serialize) {
        self.send(name, None, facts, true);
    }

    /// The same, about one thing among many.
    pub fn publish_in(&self, name: &'static str, about: &str, facts: &impl Serialize) {
        self.send(name, Some(about), facts, true);
    }

    /// Tells those who listen at this node: for what each node finds out by itself.
    pub fn publish_here(&self, name: &'static str, facts: &impl Serialize) {
        self.send(name, None, facts, false);
    }

    /// The same, about one thing among many.
    pub fn publish_here_in(&self, name: &'static str, about: &str, facts: &impl Serialize) {
        self.send(name, Some(about), facts, false);
    }

    fn send(&self, name: &'static str, about: Option<&str>, facts: &impl Serialize, anywhere: bool) {
        let anywhere = anywhere && self.elsewhere.wants(name);
        if !anywhere && !self.has_local_listeners() {
            return;
        }
        match serde_json::to_string(facts) {
            Ok(data) => {
                let event = Event { name: name.into(), about: about.map(Into::into), data: data.into() };
                if anywhere {
                    self.elsewhere.send(event.clone());
                }
                self.deliver(event);
            }
            Err(error) => tracing::error!(name, %error, "an event could not be written as JSON"),
        }
    }

    /// Passes an event on to those who listen at this node.
    fn deliver(&self, event: Event) {
        // An error only says that the last listener has just gone.
        drop(self.sender.send(event));
    }

    fn has_local_listeners(&self) -> bool {
        self.sender.receiver_count() > usize::from(self.router.is_running()) || self.router.has_readers()
    }

    /// Whether anybody listens now, at this node or at another.
    pub(crate) fn has_listeners(&self) -> bool {
        self.has_local_listeners() || self.elsewhere.wants_anything()
    }

    /// Hears everything published from now on, also what others than this node publish while it has readers of that.
    pub fn listen(&self) -> broadcast::Receiver<Event> {
        self.sender.subscribe()
    }

    /// Hears what `interests` name and `may_hear` allows, as frames. One that is slow is judged by its own backlog.
    pub(crate) fn subscribe(
        &self,
        interests: Vec<Interest>,
        may_hear: impl Fn(&Event) -> bool + Send + Sync + 'static,
    ) -> Subscription {
        // Before the reader is there, so that it hears whatever comes after.
        self.router.run(&self.sender);
        self.router.subscribe(interests, Box::new(may_hear))
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
            (&*event.name, event.topic(), &*event.data),
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

    #[tokio::test]
    async fn op_04_nothing_is_written_down_while_nobody_listens() {
        struct Unwritable;
        impl Serialize for Unwritable {
            fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
                panic!("nobody listens")
            }
        }
        let bus = Bus::new();
        bus.publish("viewer", &Unwritable);
        drop(bus.subscribe(Vec::new(), |_| true));
        bus.publish("viewer", &Unwritable);
    }
}
