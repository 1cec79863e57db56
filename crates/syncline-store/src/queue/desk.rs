//! What one process knows of the queues it uses: when it saw what, and who wants to hear of changes.
//!
//! A pacer measures from the moment it saw a thing, so it must outlive the operation that saw it. Each queue has a lane:
//! of all the operations of this process that look at its pace, one goes at a time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use syncline_core::queue::{Clock, Pacer, Settings};
use syncline_core::time::Timestamp;
use tokio::sync::{MutexGuard, watch};

use super::row::timestamp;

/// The queues that this process uses. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct Desk {
    clock: ProcessClock,
    lanes: Arc<Mutex<HashMap<String, Arc<Lane>>>>,
}

/// One queue, as this process knows it.
#[derive(Debug)]
pub(crate) struct Lane {
    pacer: tokio::sync::Mutex<Option<Pacer>>,
    changes: watch::Sender<u64>,
}

impl Desk {
    pub(crate) fn new() -> Self {
        Self { clock: ProcessClock { origin: Instant::now() }, lanes: Arc::default() }
    }

    pub(crate) fn clock(&self) -> ProcessClock {
        self.clock
    }

    /// The lane of a queue.
    pub(crate) fn lane(&self, queue: &str) -> Arc<Lane> {
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lane) = lanes.get(queue) {
            return Arc::clone(lane);
        }
        let lane = Arc::new(Lane { pacer: tokio::sync::Mutex::default(), changes: watch::Sender::new(0) });
        lanes.insert(queue.to_owned(), Arc::clone(&lane));
        lane
    }

    /// Tells whoever waits in this process that a queue has changed.
    pub(crate) fn changed(&self, queue: &str) {
        self.lane(queue).changes.send_modify(|changes| *changes += 1);
    }

    /// To hear of changes of a queue.
    pub(crate) fn changes(&self, queue: &str) -> watch::Receiver<u64> {
        self.lane(queue).changes.subscribe()
    }
}

impl Lane {
    /// Waits for its turn. The pacer inside goes by `settings`; what an earlier one with other settings saw is
    /// forgotten, which costs an interval.
    pub(crate) async fn enter(&self, settings: &Settings) -> Turnstile<'_> {
        let mut guard = self.pacer.lock().await;
        if guard.as_ref().is_none_or(|pacer| pacer.settings() != settings) {
            *guard = Some(Pacer::new(*settings));
        }
        Turnstile { guard }
    }
}

/// The lane, held.
pub(crate) struct Turnstile<'a> {
    guard: MutexGuard<'a, Option<Pacer>>,
}

impl Turnstile<'_> {
    pub(crate) fn pacer(&mut self) -> &mut Pacer {
        self.guard.as_mut().expect("entering has put one here")
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
    /// Now, for asking whether something may happen: never later than it is.
    pub(crate) fn now(&self) -> Timestamp {
        Timestamp::from_ms(u64::try_from(self.origin.elapsed().as_millis()).unwrap_or(u64::MAX))
    }

    /// Now, for noting that something has happened: never earlier than it is, so that no interval measured from it is
    /// short by a part of a millisecond.
    pub(crate) fn seen(&self, settings: &Settings, wall: Timestamp) -> Clock {
        let part = if settings.interval.is_zero() { Duration::ZERO } else { Duration::from_millis(1) };
        Clock { now: self.now() + part, wall }
    }

    pub(crate) fn instant(&self, at: Timestamp) -> Instant {
        self.origin + at.saturating_since(Timestamp::ZERO)
    }

    /// A moment of the store's clock, which shows `store_now_ms`, on this one.
    pub(crate) fn translate(&self, at_ms: i64, store_now_ms: i64) -> Timestamp {
        self.now() + timestamp(at_ms).saturating_since(timestamp(store_now_ms))
    }
}
