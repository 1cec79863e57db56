//! The queues that this process uses: for each its pacer, and who is to be notified of changes.
//!
//! A pacer measures from the moment it saw a thing, so it must outlive the operation that saw it. A lock for each queue lets one
//! operation of this process at a time use the pacer.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use syncline_core::queue::{Clock, Pacer, Settings};
use syncline_core::time::Timestamp;
use tokio::sync::{MutexGuard, watch};

use super::row::timestamp;

const MILLISECOND: Duration = Duration::from_millis(1);

/// The queues that this process uses. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct QueueRegistry {
    clock: ProcessClock,
    states: Arc<Mutex<QueueStates>>,
    /// Whether other processes' changes are announced to this one.
    is_listening: Arc<AtomicBool>,
}

#[derive(Debug, Default)]
struct QueueStates {
    by_name: HashMap<String, Arc<QueueState>>,
    /// Somebody follows what other processes change.
    followed: bool,
}

/// One queue, as this process knows it.
#[derive(Debug)]
pub(crate) struct QueueState {
    pacer: tokio::sync::Mutex<Option<Pacer>>,
    changes: watch::Sender<u64>,
    /// Results that were dropped here because there were too many.
    dropped: AtomicU64,
}

impl QueueRegistry {
    pub(crate) fn new() -> Self {
        Self {
            clock: ProcessClock { origin: Instant::now() },
            states: Arc::default(),
            is_listening: Arc::default(),
        }
    }

    pub(crate) fn clock(&self) -> ProcessClock {
        self.clock
    }

    /// What this process knows of a queue.
    pub(crate) fn state(&self, queue: &str) -> Arc<QueueState> {
        let mut states = self.states();
        if let Some(state) = states.by_name.get(queue) {
            return Arc::clone(state);
        }
        let (pacer, changes) = (tokio::sync::Mutex::default(), watch::Sender::new(0));
        let state = Arc::new(QueueState { pacer, changes, dropped: AtomicU64::new(0) });
        states.by_name.insert(queue.to_owned(), Arc::clone(&state));
        state
    }

    /// Tells whoever waits in this process that a queue has changed.
    pub(crate) fn changed(&self, queue: &str) {
        if let Some(state) = self.states().by_name.get(queue) {
            state.changes.send_modify(|changes| *changes += 1);
        }
    }

    /// To hear of changes of a queue.
    pub(crate) fn changes(&self, queue: &str) -> watch::Receiver<u64> {
        self.state(queue).changes.subscribe()
    }

    /// Whether the caller is to follow what others change; nobody else does then.
    pub(crate) fn begin_following(&self) -> bool {
        !std::mem::replace(&mut self.states().followed, true)
    }

    pub(crate) fn stop_following(&self) {
        self.states().followed = false;
    }

    /// The queues that somebody watches; `None` if there are none, and nobody follows any more then.
    pub(crate) fn watched_or_stop(&self) -> Option<Vec<String>> {
        let mut states = self.states();
        let watched = states.by_name.iter().filter(|(_, state)| state.changes.receiver_count() > 0);
        let watched: Vec<String> = watched.map(|(queue, _)| queue.clone()).collect();
        states.followed = !watched.is_empty();
        states.followed.then_some(watched)
    }

    /// Whether somebody watches anything.
    pub(crate) fn is_watched(&self) -> bool {
        self.states().by_name.values().any(|state| state.changes.receiver_count() > 0)
    }

    /// Tells everybody who watches anything: changes may have been missed.
    pub(crate) fn all_changed(&self) {
        for state in self.states().by_name.values() {
            state.changes.send_modify(|changes| *changes += 1);
        }
    }

    pub(crate) fn is_listening(&self) -> bool {
        self.is_listening.load(Ordering::Relaxed)
    }

    pub(crate) fn set_listening(&self, is_listening: bool) {
        self.is_listening.store(is_listening, Ordering::Relaxed);
    }

    fn states(&self) -> std::sync::MutexGuard<'_, QueueStates> {
        self.states.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl QueueState {
    pub(crate) fn count_dropped(&self, results: u64) {
        self.dropped.fetch_add(results, Ordering::Relaxed);
    }

    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Waits for exclusive access to the pacer. A new one goes by `settings`; from then on whoever reads the header sets what is in
    /// force, and what was seen counts on.
    pub(crate) async fn enter(&self, settings: &Settings) -> PacerGuard<'_> {
        let mut guard = self.pacer.lock().await;
        guard.get_or_insert_with(|| Pacer::new(*settings));
        PacerGuard { guard }
    }
}

/// Exclusive access to this process's pacer for one queue.
pub(crate) struct PacerGuard<'a> {
    guard: MutexGuard<'a, Option<Pacer>>,
}

impl PacerGuard<'_> {
    pub(crate) fn pacer(&mut self) -> &mut Pacer {
        self.guard.as_mut().expect("entering has put one here")
    }

    /// Whether a call may start, as far as this process has seen.
    pub(crate) fn is_ready(&mut self, clock: ProcessClock) -> bool {
        let pacer = self.pacer();
        pacer.ready(clock.asking(pacer)).is_ok()
    }

    /// A copy to try a change on. It becomes the pacer once the change is stored: see [`keep`](Self::keep).
    pub(crate) fn copy(&mut self) -> Pacer {
        self.pacer().clone()
    }

    pub(crate) fn keep(&mut self, pacer: Pacer) {
        *self.guard = Some(pacer);
    }
}

/// This process's monotonic clock, in the core's milliseconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ProcessClock {
    origin: Instant,
}

impl ProcessClock {
    /// Now, never later than it is.
    pub(crate) fn now(&self) -> Timestamp {
        Timestamp::from_ms(u64::try_from(self.origin.elapsed().as_millis()).unwrap_or(u64::MAX))
    }

    /// Now, for noting that something has happened: never earlier than it is, so that no interval or pause measured from
    /// it is short by a part of a millisecond.
    pub(crate) fn seen(&self, wall: Timestamp) -> Clock {
        Clock { now: self.now() + MILLISECOND, wall }
    }

    /// Now, for asking whether a call may start: not later than it is, unless there is no interval to wait for and what
    /// was seen within this very millisecond would only be in the way.
    pub(crate) fn asking(&self, pacer: &Pacer) -> Timestamp {
        let now = self.now();
        let free = pacer.settings().interval.is_zero() && pacer.paused(now).is_none();
        if free { now + MILLISECOND } else { now }
    }

    pub(crate) fn instant(&self, at: Timestamp) -> Instant {
        self.origin + at.saturating_since(Timestamp::ZERO)
    }

    /// A moment of the store's clock, which shows `store_now_ms`, on this one.
    pub(crate) fn translate(&self, at_ms: i64, store_now_ms: i64) -> Timestamp {
        self.now() + timestamp(at_ms).saturating_since(timestamp(store_now_ms))
    }
}
