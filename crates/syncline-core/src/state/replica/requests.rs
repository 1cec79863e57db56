//! Requests to storage: one is under way at a time, and after a failure none for a while.

use std::time::Duration;

use super::super::names::BACKOFF_MAX;
use super::super::sorted::Set;
use super::marks::Mark;
use crate::retry;
use crate::time::Timestamp;

/// The first pause after a failure; each is twice the one before, up to [`BACKOFF_MAX`].
const BACKOFF_INITIAL: Duration = Duration::from_millis(100);

/// The request that storage has not answered yet.
#[derive(Debug, Clone, Default)]
pub(super) enum InFlight {
    #[default]
    None,
    Get {
        ask: u64,
        keys: Set,
    },
    Set {
        ask: u64,
        keys: Set,
        number: u64,
        marks: Vec<Mark>,
    },
    /// A chunk of what a new layout needs.
    Move {
        ask: u64,
    },
    Remove {
        ask: u64,
    },
    List {
        ask: u64,
    },
    /// Orphans are looked at for the last time.
    Probe {
        ask: u64,
        keys: Vec<String>,
    },
}

/// What storage was asked, and when it may be asked again.
#[derive(Debug, Clone, Default)]
pub(super) struct Requests {
    in_flight: InFlight,
    /// Numbers requests, to storage and to the node.
    asked: u64,
    /// None before this moment, after a failure.
    paused_until: Timestamp,
    /// In a row.
    failures: u32,
}

impl Requests {
    /// A number for the next request.
    pub(super) fn number(&mut self) -> u64 {
        self.asked += 1;
        self.asked
    }

    pub(super) fn send(&mut self, flight: InFlight) {
        self.in_flight = flight;
    }

    pub(super) fn is_waiting(&self) -> bool {
        !matches!(self.in_flight, InFlight::None)
    }

    /// Whether a mark of `id` is being written.
    pub(super) fn writes_mark(&self, id: &str) -> bool {
        matches!(&self.in_flight, InFlight::Set { marks, .. } if marks.iter().any(|(of, _)| of == id))
    }

    /// Whether the next one may be sent.
    pub(super) fn is_idle(&self, now: Timestamp) -> bool {
        !self.is_waiting() && now >= self.paused_until
    }

    /// The request that is under way; it is not any more, unless it is put back with [`Requests::send`].
    pub(super) fn take(&mut self) -> InFlight {
        std::mem::take(&mut self.in_flight)
    }

    /// Whether `ask` is the search for keys, which is over then.
    pub(super) fn ends_list(&mut self, ask: u64) -> bool {
        let ends = matches!(self.in_flight, InFlight::List { ask: asked } if asked == ask);
        if ends {
            self.in_flight = InFlight::None;
        }
        ends
    }

    /// A read was answered.
    pub(super) fn succeed(&mut self) {
        self.failures = 0;
    }

    /// Waits before the next one, longer each time.
    pub(super) fn fail(&mut self, now: Timestamp) {
        self.failures += 1;
        self.paused_until = now + retry::doubled(BACKOFF_INITIAL, BACKOFF_MAX, self.failures, 0);
    }

    pub(super) const fn failures(&self) -> u32 {
        self.failures
    }

    /// When the pause is over.
    pub(super) fn due(&self, now: Timestamp) -> Option<Timestamp> {
        (self.paused_until > now).then_some(self.paused_until)
    }
}
