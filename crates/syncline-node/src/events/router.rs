//! Who hears what at this node: readers by topic, and by the thing they asked for.
//!
//! One task takes events from the bus. It looks up the readers of the event's topic and thing, so a stream of something else
//! is not even woken. Each reader that may hear of it gets the same frame. A reader has a backlog of its own: one that
//! does not read loses its own oldest events, is told how many, and costs nobody else anything.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::Stream;
use futures::task::AtomicWaker;
use tokio::sync::{Notify, broadcast};

use super::{Event, frame};

/// Events that a reader may be behind before it loses the oldest.
const BACKLOG_MAX: usize = 1_024;
/// The same in bytes: events of one reader alone are held by nobody else.
const BACKLOG_MAX_BYTES: usize = 256 * 1024;

/// A topic, and what of it a reader wants to hear of alone; all of it if that is empty.
#[derive(Debug, Clone)]
pub(crate) struct Interest {
    pub(crate) topic: &'static str,
    pub(crate) about: Vec<String>,
    /// Whether `about` says what things begin with. Then it also hears of events about nothing in particular.
    pub(crate) by_prefix: bool,
}

/// What a reader hears.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    /// An event.
    Frame(Bytes),
    /// It was too slow, or the node was not told: so many events are missing here. `None` if nobody knows how many.
    Missed(Option<u64>),
}

type MayHear = Box<dyn Fn(&Event) -> bool + Send + Sync>;

#[derive(Default)]
pub(super) struct Router {
    readers: RwLock<Readers>,
    count: AtomicUsize,
    is_running: AtomicBool,
    /// Topics have got their first reader, or lost their last one.
    topics_changed: Notify,
}

#[derive(Default)]
struct Readers {
    /// What the next reader is known by.
    next: u64,
    topics: HashMap<&'static str, TopicReaders>,
}

#[derive(Default)]
struct TopicReaders {
    of_everything: HashMap<u64, Arc<Reader>>,
    of_things: HashMap<String, HashMap<u64, Arc<Reader>>>,
    of_prefixes: HashMap<u64, (Vec<String>, Arc<Reader>)>,
}

impl TopicReaders {
    fn is_empty(&self) -> bool {
        self.of_everything.is_empty() && self.of_things.is_empty() && self.of_prefixes.is_empty()
    }

    fn all(&self) -> impl Iterator<Item = &Arc<Reader>> {
        let by_thing = self.of_things.values().flat_map(HashMap::values);
        self.of_everything.values().chain(by_thing).chain(self.of_prefixes.values().map(|(_, reader)| reader))
    }

    /// Those who want to hear of an event about this.
    fn wanting(&self, about: Option<&str>) -> impl Iterator<Item = &Arc<Reader>> {
        let of_thing = about.and_then(|about| self.of_things.get(about));
        let begins = move |prefixes: &[String]| {
            about.is_none_or(|about| prefixes.iter().any(|prefix| about.starts_with(prefix.as_str())))
        };
        let by_prefix = self.of_prefixes.values().filter(move |(prefixes, _)| begins(prefixes));
        let by_prefix = by_prefix.map(|(_, reader)| reader);
        self.of_everything.values().chain(of_thing.into_iter().flat_map(HashMap::values)).chain(by_prefix)
    }
}

struct Reader {
    may_hear: MayHear,
    backlog: Mutex<Backlog>,
    waker: AtomicWaker,
}

#[derive(Default)]
struct Backlog {
    frames: VecDeque<Bytes>,
    bytes: usize,
    /// Events that were lost before those in `frames`.
    missed: u64,
    /// Whether others than those may be missing.
    unknown: bool,
}

impl Router {
    /// Starts the task that takes events from the bus, unless it runs. It ends with the bus.
    pub(super) fn run(self: &Arc<Self>, bus: &broadcast::Sender<Event>) {
        if !self.is_running.swap(true, Ordering::AcqRel) {
            tokio::spawn(route(bus.subscribe(), Arc::downgrade(self)));
        }
    }

    pub(super) fn is_running(&self) -> bool {
        self.is_running.load(Ordering::Acquire)
    }

    pub(super) fn has_readers(&self) -> bool {
        self.count.load(Ordering::Acquire) > 0
    }

    pub(super) fn subscribe(self: &Arc<Self>, interests: Vec<Interest>, may_hear: MayHear) -> Subscription {
        let reader = Arc::new(Reader { may_hear, backlog: Mutex::default(), waker: AtomicWaker::new() });
        let mut readers = self.readers.write().unwrap_or_else(PoisonError::into_inner);
        let id = readers.next;
        readers.next += 1;
        for Interest { topic, about, by_prefix } in &interests {
            let topic = readers.topics.entry(topic).or_insert_with(|| {
                self.topics_changed.notify_one();
                TopicReaders::default()
            });
            if about.is_empty() {
                topic.of_everything.insert(id, Arc::clone(&reader));
            }
            if *by_prefix && !about.is_empty() {
                topic.of_prefixes.insert(id, (about.clone(), Arc::clone(&reader)));
                continue;
            }
            for thing in about {
                topic.of_things.entry(thing.clone()).or_default().insert(id, Arc::clone(&reader));
            }
        }
        drop(readers);
        self.count.fetch_add(1, Ordering::AcqRel);
        Subscription { router: Arc::clone(self), reader, interests, id }
    }

    fn unsubscribe(&self, id: u64, interests: &[Interest]) {
        let mut readers = self.readers.write().unwrap_or_else(PoisonError::into_inner);
        for Interest { topic, about, .. } in interests {
            let Some(listening) = readers.topics.get_mut(topic) else { continue };
            listening.of_everything.remove(&id);
            listening.of_prefixes.remove(&id);
            for thing in about {
                if let Some(some) = listening.of_things.get_mut(thing) {
                    some.remove(&id);
                    if some.is_empty() {
                        listening.of_things.remove(thing);
                    }
                }
            }
            if listening.is_empty() {
                readers.topics.remove(topic);
                self.topics_changed.notify_one();
            }
        }
        drop(readers);
        self.count.fetch_sub(1, Ordering::AcqRel);
    }

    /// The topics that somebody listens to here, in order.
    pub(super) fn topics(&self) -> Vec<&'static str> {
        let mut topics: Vec<_> = self.read().topics.keys().copied().collect();
        topics.sort_unstable();
        topics
    }

    /// Waits until [`topics`](Self::topics) may have changed.
    pub(super) async fn topics_changed(&self) {
        self.topics_changed.notified().await;
    }

    /// Tells all readers that events are missing; how many nobody knows where that is `None`.
    pub(super) fn tell_missed(&self, missed: Option<u64>) {
        let readers = self.read();
        readers.topics.values().flat_map(TopicReaders::all).for_each(|reader| reader.miss(missed));
    }

    fn deliver(&self, event: &Event) {
        let readers = self.read();
        let Some(topic) = readers.topics.get(event.topic()) else { return };
        let mut written = None;
        for reader in topic.wanting(event.about.as_deref()) {
            if (reader.may_hear)(event) {
                let frame = written.get_or_insert_with(|| frame(&event.name, &event.data));
                reader.push(frame.clone());
            }
        }
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, Readers> {
        self.readers.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Router {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Router").field("readers", &self.count).finish_non_exhaustive()
    }
}

async fn route(mut events: broadcast::Receiver<Event>, router: Weak<Router>) {
    loop {
        let event = events.recv().await;
        let Some(router) = router.upgrade() else { return };
        match event {
            Ok(event) => router.deliver(&event),
            Err(broadcast::error::RecvError::Lagged(missed)) => router.tell_missed(Some(missed)),
            Err(broadcast::error::RecvError::Closed) => return,
        }
    }
}

impl Reader {
    fn push(&self, frame: Bytes) {
        let mut backlog = self.backlog();
        backlog.bytes += frame.len();
        backlog.frames.push_back(frame);
        while backlog.frames.len() > BACKLOG_MAX
            || backlog.bytes > BACKLOG_MAX_BYTES && backlog.frames.len() > 1
        {
            let lost = backlog.frames.pop_front().map_or(0, |frame| frame.len());
            backlog.bytes -= lost;
            backlog.missed += 1;
        }
        drop(backlog);
        self.waker.wake();
    }

    fn miss(&self, missed: Option<u64>) {
        let mut backlog = self.backlog();
        // What it has not read yet came before: it is lost with the rest, so that the count stands where the gap is.
        let unread = backlog.frames.len() as u64;
        backlog.frames.clear();
        backlog.bytes = 0;
        backlog.missed += unread + missed.unwrap_or(0);
        backlog.unknown |= missed.is_none();
        drop(backlog);
        self.waker.wake();
    }

    fn backlog(&self) -> MutexGuard<'_, Backlog> {
        self.backlog.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What one reader hears, for as long as it is kept.
pub(crate) struct Subscription {
    router: Arc<Router>,
    reader: Arc<Reader>,
    interests: Vec<Interest>,
    id: u64,
}

impl Stream for Subscription {
    type Item = Heard;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Heard>> {
        // Before the look: what comes after it wakes.
        self.reader.waker.register(context.waker());
        let mut backlog = self.reader.backlog();
        if backlog.missed > 0 || backlog.unknown {
            let (missed, unknown) =
                (std::mem::take(&mut backlog.missed), std::mem::take(&mut backlog.unknown));
            return Poll::Ready(Some(Heard::Missed((!unknown).then_some(missed))));
        }
        match backlog.frames.pop_front() {
            Some(frame) => {
                backlog.bytes -= frame.len();
                Poll::Ready(Some(Heard::Frame(frame)))
            }
            None => Poll::Pending,
        }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.router.unsubscribe(self.id, &self.interests);
    }
}

#[cfg(test)]
mod tests {
    use futures::StreamExt;

    use super::super::Bus;
    use super::*;

    fn interest(topic: &'static str, about: &[&str]) -> Vec<Interest> {
        let about = about.iter().map(|&thing| thing.to_owned()).collect();
        vec![Interest { topic, about, by_prefix: false }]
    }

    async fn next(subscription: &mut Subscription) -> String {
        match subscription.next().await.unwrap() {
            Heard::Frame(frame) => String::from_utf8(frame.to_vec()).unwrap(),
            Heard::Missed(missed) => format!("missed {missed:?}"),
        }
    }

    #[tokio::test]
    async fn op_04_a_reader_hears_its_topic_its_thing_and_what_it_may() {
        let bus = Bus::new();
        let mut all = bus.subscribe(interest("job", &[]), |_| true);
        let mut one = bus.subscribe(interest("job", &["b", "c"]), |_| true);
        let mut barred = bus.subscribe(interest("job", &[]), |event| event.about.as_deref() == Some("c"));
        bus.publish("viewer", &0);
        bus.publish_in("job.ended", "a", &1);
        bus.publish_in("job", "b", &2);
        bus.publish("job", &3);
        bus.publish_in("job", "c", &4);
        assert_eq!(next(&mut all).await, "event: job.ended\ndata: 1\n\n");
        assert_eq!(next(&mut one).await, "event: job\ndata: 2\n\n");
        assert_eq!(next(&mut one).await, "event: job\ndata: 4\n\n");
        assert_eq!(next(&mut barred).await, "event: job\ndata: 4\n\n");
        for expected in ["2", "3", "4"] {
            assert_eq!(next(&mut all).await, format!("event: job\ndata: {expected}\n\n"));
        }
    }

    #[tokio::test]
    async fn op_04_a_reader_of_prefixes_hears_what_begins_with_them_and_what_is_about_nothing() {
        let bus = Bus::new();
        let about = vec!["cart/".to_owned(), "user/7".to_owned()];
        let mut some = bus.subscribe(vec![Interest { topic: "kv", about, by_prefix: true }], |_| true);
        for key in ["cart/1", "car", "user/77", "user/8"] {
            bus.publish_here_in("kv.put", key, &key);
        }
        bus.publish_here("kv.missed", &0);
        for expected in ["put\ndata: \"cart/1\"", "put\ndata: \"user/77\"", "missed\ndata: 0"] {
            assert_eq!(next(&mut some).await, format!("event: kv.{expected}\n\n"));
        }
        drop(some);
        assert!(bus.router.topics().is_empty());
    }

    #[tokio::test]
    async fn op_04_all_who_hear_of_an_event_share_its_bytes() {
        let bus = Bus::new();
        let mut readers: Vec<_> = (0..3).map(|_| bus.subscribe(interest("job", &[]), |_| true)).collect();
        bus.publish("job", &"news");
        let mut frames = Vec::new();
        for reader in &mut readers {
            let Some(Heard::Frame(frame)) = reader.next().await else { panic!("an event is heard") };
            frames.push(frame.as_ptr());
        }
        assert!(frames.windows(2).all(|pair| pair[0] == pair[1]), "{frames:?}");
    }

    #[tokio::test]
    async fn op_04_a_slow_reader_loses_its_own_oldest_events_and_nobody_elses() {
        let bus = Bus::new();
        let mut slow = bus.subscribe(interest("job", &[]), |_| true);
        let mut quick = bus.subscribe(interest("job", &[]), |_| true);
        for number in 0..BACKLOG_MAX + 7 {
            bus.publish("job", &number);
            assert_eq!(next(&mut quick).await, format!("event: job\ndata: {number}\n\n"));
        }
        assert_eq!(next(&mut slow).await, "missed Some(7)");
        assert_eq!(next(&mut slow).await, "event: job\ndata: 7\n\n");
        // And by their size.
        let large = "x".repeat(BACKLOG_MAX_BYTES / 4);
        for _ in 0..8 {
            bus.publish("job", &large);
            next(&mut quick).await;
        }
        let missed = next(&mut slow).await;
        assert!(missed.starts_with("missed Some("), "{missed}");
    }

    #[tokio::test]
    async fn op_04_who_leaves_leaves_nothing_behind() {
        let bus = Bus::new();
        let one = bus.subscribe(interest("job", &["a"]), |_| true);
        let other = bus.subscribe(interest("lock", &[]), |_| true);
        assert_eq!(bus.router.topics(), ["job", "lock"]);
        drop(one);
        assert_eq!(bus.router.topics(), ["lock"]);
        drop(other);
        assert!(bus.router.topics().is_empty() && !bus.has_listeners());
    }
}
