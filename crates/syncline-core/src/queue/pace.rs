//! What all who call one API share: a small plain value, changed by compare-and-set.
//!
//! It holds no time but one. Whoever sees a start or an end counts the interval, and whoever sees a call the lease,
//! from the moment *they* saw it, on their own monotonic clock. That moment is never before the change was made, so
//! nobody is ever early, whatever the clocks of the others say. The one exception is a pause, which can be
//! long and must outlive restarts: it names a time of day, and its length for those who doubt it.
//!
//! Each function here is one change: it takes the value from one version to the next. When a change may be made
//! is for the [`Pacer`](super::Pacer) to say, storing it is for others.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::settings::CONCURRENCY_MAX;
use crate::time::Timestamp;

/// Versions a stored pace may have: databases and JavaScript hold them exactly, and no pace lives to reach it.
pub(super) const VERSION_MAX: u64 = (1 << 53) - 1;

/// The shared state of one pace. `Pace::default()` is an API that nobody has called yet.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pace {
    /// Grows with every change: what compare-and-set compares.
    pub version: u64,
    /// Grows with every start of a call.
    pub starts: u64,
    /// Grows with every end of a call: the interval counts from the last.
    pub ends: u64,
    /// Calls in flight, by id.
    pub calls: Vec<Call>,
    /// The pause the API is in, or was in last.
    pub pause: Option<Pause>,
    /// Whether the API is well.
    pub breaker: Breaker,
}

/// A call in flight. It takes a slot until it ends, or until somebody has seen it unchanged for a whole lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    /// The version that the call began with, so no two calls share one.
    pub id: u64,
    /// Grows with every renewal.
    pub beat: u32,
    /// Whether it decides if the breaker closes.
    pub probe: bool,
    /// How long it may go on without a renewal, where its caller asked for another time than the queue's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_ms: Option<u64>,
}

/// A time in which nobody calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pause {
    /// The version it began with.
    pub id: u64,
    /// When it ends, by the time of day.
    pub until: Timestamp,
    /// How long it is: no reading of a clock can make it longer.
    pub length_ms: u64,
    /// Why it is.
    pub reason: PauseReason,
}

/// Why nobody calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PauseReason {
    /// The API asked for it.
    RetryAfter,
    /// The API keeps failing.
    Breaker,
}

/// Whether an API is well.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Breaker {
    /// As far as is known.
    Closed {
        /// Failures since the last answer.
        failures: u32,
    },
    /// It kept failing. After the pause one call will probe it.
    Open {
        /// How many times in a row it has opened.
        trips: u32,
    },
    /// That call is under way; nobody else calls.
    HalfOpen {
        /// How many times in a row it has opened.
        trips: u32,
    },
}

impl Default for Breaker {
    fn default() -> Self {
        Self::Closed { failures: 0 }
    }
}

impl Pace {
    /// Whether this can be what somebody wrote.
    #[must_use]
    pub fn is_plausible(&self) -> bool {
        let ids = self.calls.iter().map(|call| call.id);
        let probes = self.calls.iter().filter(|call| call.probe).count();
        self.version <= VERSION_MAX
            && self.starts.max(self.ends) <= self.version
            && self.calls.len() <= CONCURRENCY_MAX as usize
            && ids.clone().is_sorted_by(|one, other| one < other)
            && ids.chain(self.pause.map(|pause| pause.id)).all(|id| id <= self.version)
            // Without its probe a half-open breaker would never close.
            && probes == usize::from(matches!(self.breaker, Breaker::HalfOpen { .. }))
    }

    /// The call of this id, if it is in flight.
    #[must_use]
    pub fn call(&self, id: u64) -> Option<&Call> {
        self.position(id).map(|index| &self.calls[index])
    }

    /// A call begins; tells its id. The first one after a breaker's pause is a probe.
    pub fn start(&mut self) -> u64 {
        self.start_for(None)
    }

    /// The same with a lease of its own.
    pub fn start_for(&mut self, lease_ms: Option<u64>) -> u64 {
        self.version += 1;
        self.starts += 1;
        let probe = match self.breaker {
            Breaker::Open { trips } => {
                self.breaker = Breaker::HalfOpen { trips };
                true
            }
            _ => false,
        };
        self.calls.push(Call { id: self.version, beat: 0, probe, lease_ms });
        self.version
    }

    /// A call goes on for longer than a lease; false if it is not in flight.
    pub fn renew(&mut self, id: u64) -> bool {
        let Some(index) = self.position(id) else { return false };
        self.version += 1;
        self.calls[index].beat = self.calls[index].beat.wrapping_add(1);
        true
    }

    /// Lifts the pause, whoever asked for it. An API that kept failing is probed by the next call.
    pub fn lift_pause(&mut self) {
        if self.pause.take().is_some() {
            self.version += 1;
        }
    }

    /// A call ended, in time or not, and left the breaker like this and the API paused or not.
    pub fn end(&mut self, id: u64, breaker: Breaker, pause: Option<Pause>) {
        self.version += 1;
        self.ends += 1;
        if let Some(index) = self.position(id) {
            self.calls.remove(index);
        }
        self.breaker = breaker;
        if let Some(pause) = pause {
            self.pause = Some(Pause { id: self.version, ..pause });
        }
    }

    /// Whether a pause began after version `since`.
    #[must_use]
    pub fn has_paused_since(&self, since: u64) -> bool {
        self.pause.is_some_and(|pause| pause.id > since)
    }

    /// Dates the pause that began after version `since`, if one did. Where the value is shared, whoever stores it calls this in
    /// the same transaction, right before the write, with the clock that all who read it go by: a clock that is set while the
    /// transaction runs would otherwise make the pause seem over.
    pub fn date_pause(&mut self, since: u64, wall: Timestamp) {
        if let Some(pause) = self.pause.as_mut().filter(|pause| pause.id > since) {
            pause.until = wall + Duration::from_millis(pause.length_ms);
        }
    }

    /// A call was not heard of for a whole lease. Nothing is known of the API, so a lost probe is made again.
    pub fn lose(&mut self, id: u64) {
        let breaker = match (self.call(id), self.breaker) {
            (Some(Call { probe: true, .. }), Breaker::HalfOpen { trips }) => Breaker::Open { trips },
            (_, breaker) => breaker,
        };
        self.end(id, breaker, None);
    }

    pub(super) fn position(&self, id: u64) -> Option<usize> {
        self.calls.binary_search_by_key(&id, |call| call.id).ok()
    }
}
