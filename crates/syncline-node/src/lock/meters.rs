//! What is counted about locks.

use metrics::{Counter, Gauge, Histogram};
use syncline_core::lock::Refused;

use crate::metrics::Registry;

pub(super) struct Meters {
    pub(super) granted: Counter,
    pub(super) held: Counter,
    pub(super) renewed: Counter,
    pub(super) released: Counter,
    pub(super) forced: Counter,
    pub(super) wait: Histogram,
    pub(super) store_errors: Counter,
    refused_expired: Counter,
    refused_mismatch: Counter,
    waiting: Gauge,
}

impl Meters {
    pub(super) fn new(registry: &Registry) -> Meters {
        let counter = |name, help| registry.counter(name, help, &[]);
        let refused = |reason| {
            let help = "Renewals and releases refused, by reason.";
            registry.counter("syncline_lock_refused_total", help, &[("reason", reason)])
        };
        let wait = "Time from asking for a lock to its grant or refusal.";
        Meters {
            granted: counter("syncline_lock_granted_total", "Locks granted."),
            held: counter(
                "syncline_lock_held_total",
                "Requests that ended with somebody else as the holder.",
            ),
            renewed: counter("syncline_lock_renewed_total", "Leases renewed."),
            released: counter("syncline_lock_released_total", "Locks given back."),
            forced: counter("syncline_lock_forced_total", "Leases ended by an operator."),
            wait: registry.duration("syncline_lock_wait_seconds", wait, &[]),
            store_errors: registry.store_errors("lock"),
            refused_expired: refused("lease-expired"),
            refused_mismatch: refused("lease-mismatch"),
            waiting: registry.gauge("syncline_lock_waiting", "Requests that wait for a lock now.", &[]),
        }
    }

    pub(super) fn refused(&self, refused: Refused) -> &Counter {
        match refused {
            Refused::Expired => &self.refused_expired,
            Refused::NotHolder => &self.refused_mismatch,
        }
    }

    /// Counts as waiting for as long as it lives.
    pub(super) fn waiting(&self) -> Waits {
        self.waiting.increment(1.0);
        Waits(self.waiting.clone())
    }
}

pub(super) struct Waits(Gauge);

impl Drop for Waits {
    fn drop(&mut self) {
        self.0.decrement(1.0);
    }
}
