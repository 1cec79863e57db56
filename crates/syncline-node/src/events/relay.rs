//! Events between the nodes that share a database.
//!
//! Each node tells the others which topics its readers want. An event is sent to them only while some other node wants its topic,
//! so nodes without readers cost nothing. Events are gathered for [`GATHERED_FOR`] and sent together. A message has a bound
//! (PostgreSQL's for a notification); an event that is larger is told as missed, and so is everything that was sent while a
//! node could not hear.
//!
//! Guarantees: none of delivery, as for every event; but whoever missed some is told so. What a message says is checked before it
//! reaches a stream.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use syncline_store::{MESSAGE_MAX_BYTES, MESSAGES_MAX, Message, Messages, Store};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{Bus, Event};
use crate::node::NodeId;

/// How long events are gathered before they are sent.
const GATHERED_FOR: Duration = Duration::from_millis(3);
/// Events that wait to be sent. More are told as missed.
const WAITING_MAX: usize = 4_096;
/// How often a node says what its readers want while that stays the same, and how long others believe it.
const SAID_EVERY: Duration = Duration::from_secs(60);
const BELIEVED_FOR: Duration = Duration::from_secs(150);
/// Bytes of a message beside its events.
const ENVELOPE_BYTES: usize = 200;
/// Longest name of an event.
const NAME_MAX_BYTES: usize = 64;
/// Most topics that a node is believed to want.
const TOPICS_MAX: usize = 256;

/// What one node tells the others.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Note {
    from: String,
    /// The topics its readers want; `None` if this says nothing of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    wants: Option<Vec<String>>,
    /// Whether the others should say what theirs want.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    asks: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    events: Vec<Sent>,
    /// Events that could not be sent.
    #[serde(default, skip_serializing_if = "is_zero")]
    missed: u64,
}

#[derive(Debug, Serialize, Deserialize)]
struct Sent {
    name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    about: Option<String>,
    data: Box<RawValue>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks by reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// What the readers of other nodes want, as publishers see it.
#[derive(Debug, Default)]
pub(super) struct Elsewhere {
    wanted: RwLock<HashSet<String>>,
    waiting: Mutex<Option<mpsc::Sender<Event>>>,
    missed: AtomicU64,
}

impl Elsewhere {
    pub(super) fn wants(&self, name: &str) -> bool {
        let topic = name.split('.').next().unwrap_or(name);
        self.wanted.read().unwrap_or_else(PoisonError::into_inner).contains(topic)
    }

    pub(super) fn wants_anything(&self) -> bool {
        !self.wanted.read().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    pub(super) fn send(&self, event: Event) {
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(Err(_)) = waiting.as_ref().map(|waiting| waiting.try_send(event)) {
            self.missed.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn set_wanted(&self, topics: HashSet<String>) {
        *self.wanted.write().unwrap_or_else(PoisonError::into_inner) = topics;
    }
}

/// This node among those that share its store.
pub(crate) struct Relay {
    bus: Bus,
    store: Store,
    node: NodeId,
    messages: Messages,
    waiting: mpsc::Receiver<Event>,
    /// What each of the others wants, and until when that is believed.
    others: HashMap<String, (Vec<String>, Instant)>,
    /// What this node has said that its readers want.
    said: Vec<&'static str>,
    said_at: Instant,
    heard_before: bool,
}

impl Relay {
    /// `None` where there can be no other node.
    pub(crate) fn new(bus: &Bus, store: &Store, node: &NodeId) -> Option<Relay> {
        let messages = store.messages()?;
        let (sender, waiting) = mpsc::channel(WAITING_MAX);
        *bus.elsewhere.waiting.lock().unwrap_or_else(PoisonError::into_inner) = Some(sender);
        Some(Relay {
            bus: bus.clone(),
            store: store.clone(),
            node: node.clone(),
            messages,
            waiting,
            others: HashMap::new(),
            said: Vec::new(),
            said_at: Instant::now(),
            heard_before: false,
        })
    }

    /// Sends and hears until `halt` is cancelled.
    pub(crate) async fn run(mut self, halt: CancellationToken) {
        let router = std::sync::Arc::clone(&self.bus.router);
        loop {
            let say_again = tokio::time::Instant::from(self.said_at + SAID_EVERY);
            tokio::select! {
                () = halt.cancelled() => break,
                message = self.messages.next() => match message {
                    None => break,
                    Some(Message::Text(text)) => self.receive(&text).await,
                    Some(Message::Listening) => self.begin().await,
                    Some(Message::Lost) => {}
                },
                Some(event) = self.waiting.recv() => self.send_waiting(event).await,
                () = router.topics_changed() => self.say_if_changed().await,
                () = tokio::time::sleep_until(say_again), if !self.said.is_empty() => self.say(false).await,
            }
            self.forget_silent();
        }
        if !self.said.is_empty() {
            self.said.clear();
            self.send(&[Note { wants: Some(Vec::new()), ..self.note() }]).await;
        }
    }

    /// Messages are heard from now on: says what is wanted here, and asks the others.
    async fn begin(&mut self) {
        if std::mem::replace(&mut self.heard_before, true) {
            self.bus.router.tell_missed(None);
        }
        self.say(true).await;
    }

    async fn say_if_changed(&mut self) {
        let topics = self.bus.router.topics();
        // What nobody wants any more is left to be said with the rest: readers come and go.
        if topics.iter().any(|topic| !self.said.contains(topic)) {
            self.say(false).await;
        }
    }

    async fn say(&mut self, asks: bool) {
        self.said = self.bus.router.topics();
        self.said_at = Instant::now();
        let wants = Some(self.said.iter().map(ToString::to_string).collect());
        self.send(&[Note { wants, asks, ..self.note() }]).await;
    }

    fn note(&self) -> Note {
        Note { from: self.node.as_str().to_owned(), ..Note::default() }
    }

    async fn receive(&mut self, text: &str) {
        let Ok(note) = serde_json::from_str::<Note>(text) else {
            return tracing::debug!("a message that no node of this version sends was ignored");
        };
        if note.from == self.node.as_str() {
            return;
        }
        if let Some(mut wants) = note.wants {
            wants.truncate(TOPICS_MAX);
            self.others.insert(note.from, (wants, Instant::now() + BELIEVED_FOR));
            self.update_wanted();
        }
        for Sent { name, about, data } in note.events {
            if is_name(&name) && !data.get().contains(['\n', '\r']) {
                let (about, data) = (about.map(Into::into), Box::<str>::from(data).into());
                self.bus.deliver(Event { name: name.into(), about, data });
            }
        }
        if note.missed > 0 {
            self.bus.router.tell_missed(Some(note.missed));
        }
        if note.asks && !self.bus.router.topics().is_empty() {
            self.say(false).await;
        }
    }

    fn forget_silent(&mut self) {
        let now = Instant::now();
        if self.others.values().any(|(_, until)| *until <= now) {
            self.others.retain(|_, (_, until)| *until > now);
            self.update_wanted();
        }
    }

    fn update_wanted(&self) {
        let wanted = self.others.values().flat_map(|(topics, _)| topics.iter().cloned()).collect();
        self.bus.elsewhere.set_wanted(wanted);
    }

    /// Sends `first` and what else waits, or comes within a moment.
    async fn send_waiting(&mut self, first: Event) {
        tokio::time::sleep(GATHERED_FOR).await;
        let mut events = vec![first];
        while events.len() < WAITING_MAX
            && let Ok(event) = self.waiting.try_recv()
        {
            events.push(event);
        }
        let missed = self.bus.elsewhere.missed.swap(0, Ordering::Relaxed);
        let notes = pack(self.node.as_str(), &events, missed);
        self.send(&notes).await;
    }

    async fn send(&self, notes: &[Note]) {
        let texts: Vec<String> = notes.iter().filter_map(|note| serde_json::to_string(note).ok()).collect();
        for some in texts.chunks(MESSAGES_MAX) {
            if let Err(error) = self.store.send_messages(some).await {
                let lost: usize = notes.iter().map(|note| note.events.len()).sum();
                self.bus.elsewhere.missed.fetch_add(lost as u64, Ordering::Relaxed);
                return tracing::debug!(%error, lost, "events could not be told to the other nodes");
            }
        }
    }
}

/// Events as messages, each as long as it may be.
fn pack(node: &str, events: &[Event], mut missed: u64) -> Vec<Note> {
    let mut notes: Vec<Note> = Vec::new();
    let mut room = 0;
    for event in events {
        let (name, about) = (event.name.to_string(), event.about.as_deref().map(ToOwned::to_owned));
        let Ok(data) = RawValue::from_string(event.data.to_string()) else { continue };
        let sent = Sent { name, about, data };
        let bytes = serde_json::to_string(&sent).map_or(usize::MAX, |text| text.len() + 1);
        if bytes > MESSAGE_MAX_BYTES - ENVELOPE_BYTES {
            missed += 1;
            continue;
        }
        if bytes > room {
            notes.push(Note { from: node.to_owned(), ..Note::default() });
            room = MESSAGE_MAX_BYTES - ENVELOPE_BYTES;
        }
        room -= bytes;
        if let Some(note) = notes.last_mut() {
            note.events.push(sent);
        }
    }
    if missed > 0 {
        notes.push(Note { from: node.to_owned(), missed, ..Note::default() });
    }
    notes
}

/// Whether this can be the name of an event: it becomes a line of a stream.
fn is_name(name: &str) -> bool {
    let plain = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || b".-_".contains(&c);
    (1..=NAME_MAX_BYTES).contains(&name.len()) && name.bytes().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(about: Option<&str>, data: &str) -> Event {
        Event { name: "lock.acquired".into(), about: about.map(Into::into), data: data.into() }
    }

    #[test]
    fn op_04_messages_are_as_long_as_they_may_be_and_no_longer() {
        let data = format!("\"{}\"", "é\\n".repeat(300));
        let events: Vec<Event> = (0..100).map(|_| event(Some("a\"b"), &data)).collect();
        let notes = pack(&"n".repeat(43), &events, 0);
        assert_eq!(notes.iter().map(|note| note.events.len()).sum::<usize>(), 100);
        assert!(notes.len() < 25, "{}", notes.len());
        for note in &notes {
            let text = serde_json::to_string(note).unwrap();
            assert!(text.len() <= MESSAGE_MAX_BYTES, "{}", text.len());
            let read: Note = serde_json::from_str(&text).unwrap();
            assert_eq!(read.events[0].data.get(), data);
            assert_eq!(read.events[0].about.as_deref(), Some("a\"b"));
        }
    }

    #[test]
    fn op_04_an_event_that_fits_into_no_message_is_told_as_missed() {
        let large = format!("\"{}\"", "x".repeat(MESSAGE_MAX_BYTES));
        let notes = pack("a", &[event(None, &large), event(None, "1")], 2);
        let told: Vec<(usize, u64)> = notes.iter().map(|note| (note.events.len(), note.missed)).collect();
        assert_eq!(told, [(1, 0), (0, 3)]);
    }

    #[test]
    fn op_04_a_name_from_elsewhere_cannot_forge_a_line() {
        assert!(is_name("queue.result") && is_name("a-b_c.d1"));
        for wrong in ["", "a\nb", "a: b", "A", "ä", &"x".repeat(65)] {
            assert!(!is_name(wrong), "{wrong:?}");
        }
    }
}
