//! What `serversync` counts.

use metrics::{Counter, Gauge, Histogram};

use crate::metrics::Registry;

/// Handles of every series.
#[derive(Clone)]
pub(super) struct Meters {
    /// Computed from the table when asked for, so that a worker that hangs shows as a rising age.
    pub(super) pending: Gauge,
    pub(super) oldest_age: Gauge,
    pub(super) dead: Gauge,
    pub(super) sent: Counter,
    pub(super) failed: Counter,
    pub(super) died: Counter,
    pub(super) uploads: Counter,
    pub(super) upload_bytes: Counter,
    pub(super) batch: Histogram,
    pub(super) in_flight: Gauge,
    pub(super) down: Gauge,
    pub(super) disk_free: Gauge,
    pub(super) store_errors: Counter,
}

impl Meters {
    /// The series of one receiver; `route` is its name where there are several.
    pub(super) fn new(registry: &Registry, route: Option<&str>) -> Meters {
        let labels: Vec<(&'static str, &str)> = route.map(|route| ("route", route)).into_iter().collect();
        let gauge = |name, help| registry.gauge(name, help, &labels);
        let counter = |name, help| registry.counter(name, help, &labels);
        Meters {
            pending: gauge("syncline_outbox_pending", "Changes that the front end does not have yet."),
            oldest_age: gauge("syncline_outbox_oldest_age_seconds", "Age of the oldest of them."),
            dead: gauge("syncline_outbox_dead", "Changes given up after too many attempts."),
            sent: counter("syncline_outbox_sent_total", "Changes that the front end took."),
            failed: counter("syncline_outbox_failed_total", "Attempts that failed, for one change each."),
            died: counter("syncline_outbox_dead_total", "Changes given up since the start."),
            uploads: counter("syncline_outbox_uploads_total", "Files that the front end has."),
            upload_bytes: counter(
                "syncline_outbox_upload_bytes_total",
                "Bytes of files sent, finished or not.",
            ),
            batch: registry.duration(
                "syncline_outbox_batch_seconds",
                "From the first request of a batch to what became of each change.",
                &labels,
            ),
            in_flight: gauge("syncline_outbox_in_flight", "Changes that are being sent."),
            down: gauge("syncline_outbox_receiver_down", "1 while the front end does not take anything."),
            disk_free: gauge("syncline_outbox_disk_free_bytes", "Room on the disk of the outbox."),
            store_errors: registry.store_errors("outbox"),
        }
    }
}
