//! What is counted about a queue, for Prometheus.

use std::time::Duration;

use metrics::{Counter, Gauge, Histogram};
use syncline_core::queue::Breaker;
use syncline_store::queue::Status;

use crate::metrics::Registry;

/// Classes of how a call ended; `none` is no answer at all.
const CLASSES: [&str; 6] = ["2xx", "3xx", "4xx", "429", "5xx", "none"];

/// Calls of one queue. Clones are the same.
#[derive(Clone)]
pub struct CallMeters {
    by_class: [Counter; 6],
    seconds: Histogram,
}

impl CallMeters {
    /// A call that ended with `status`, or with none.
    pub fn count(&self, status: Option<u16>, took: Duration) {
        let class = match status {
            Some(429) => 3,
            Some(200..=299) => 0,
            Some(300..=399) => 1,
            Some(500..) => 4,
            Some(_) => 2,
            None => 5,
        };
        self.by_class[class].increment(1);
        self.seconds.record(took);
    }
}

pub(super) struct Meters {
    pub(super) calls: CallMeters,
    pub(super) done: Counter,
    pub(super) failed: Counter,
    pub(super) store_errors: Counter,
    /// Results that were dropped because there were too many.
    pub(super) dropped: Counter,
    waiting: Gauge,
    running: Gauge,
    retrying: Gauge,
    dead: Gauge,
    failed_now: Gauge,
    next_call: Gauge,
    breaker: Gauge,
}

impl Meters {
    pub(super) fn new(registry: &Registry, queue: &str) -> Meters {
        let labels = [("queue", queue)];
        let gauge = |name, help| registry.gauge(name, help, &labels);
        let call = |class| {
            let help = "Calls by this node, by queue and class of status.";
            registry.counter("syncline_queue_calls_total", help, &[("queue", queue), ("status", class)])
        };
        Meters {
            calls: CallMeters {
                by_class: CLASSES.map(call),
                seconds: registry.duration("syncline_queue_call_seconds", "How long calls take.", &labels),
            },
            done: registry.counter(
                "syncline_queue_done_total",
                "Keys this node ended with a result.",
                &labels,
            ),
            failed: registry.counter(
                "syncline_queue_failed_total",
                "Keys this node ended without a result, dead ones included.",
                &labels,
            ),
            store_errors: registry.store_errors("queue"),
            dropped: registry.counter(
                "syncline_queue_results_dropped_total",
                "Results this node dropped because the queue had more than its results_max.",
                &labels,
            ),
            waiting: gauge("syncline_queue_waiting", "Keys in line, on all nodes."),
            running: gauge("syncline_queue_running", "Keys being worked on, on all nodes."),
            retrying: gauge("syncline_queue_retrying", "Keys that come back later."),
            failed_now: gauge("syncline_queue_failed", "Keys without a result that can be retried."),
            dead: gauge("syncline_queue_dead", "Keys given up after too many attempts."),
            next_call: gauge(
                "syncline_queue_next_call_seconds",
                "Time until the next call may start, when last looked at; 0 if none waits.",
            ),
            breaker: gauge(
                "syncline_queue_breaker",
                "0 while the API is well, 1 while the queue is paused because it is not, 2 while it is probed.",
            ),
        }
    }

    /// Shows how the queue is.
    pub(super) fn show(&self, status: &Status) {
        self.waiting.set(status.counts.waiting as f64);
        self.running.set(status.counts.running as f64);
        self.retrying.set(status.counts.retrying as f64);
        self.dead.set(status.counts.dead as f64);
        self.failed_now.set(status.counts.failed as f64);
        let left = status.next_call_at.map(|at| at.saturating_duration_since(std::time::Instant::now()));
        self.next_call.set(left.unwrap_or_default().as_secs_f64());
        self.breaker.set(match status.breaker {
            Breaker::Closed { .. } => 0.0,
            Breaker::Open { .. } => 1.0,
            Breaker::HalfOpen { .. } => 2.0,
        });
    }
}
