//! What is counted about viewers.

use metrics::{Counter, Gauge};

use crate::metrics::Registry;

pub(super) struct Meters {
    pub(super) heartbeats: Counter,
    pub(super) byes: Counter,
    pub(super) refused_full: Counter,
    pub(super) refused_fast: Counter,
    pub(super) refused_room: Counter,
    pub(super) rooms: Gauge,
    pub(super) store_errors: Counter,
    pub(super) sessions: Gauge,
    pub(super) visible: Gauge,
    pub(super) memory_bytes: Gauge,
    pub(super) occupied: Gauge,
}

impl Meters {
    pub(super) fn new(registry: &Registry) -> Meters {
        let refused = |reason| {
            let help = "Heartbeats refused, by reason.";
            registry.counter("syncline_viewer_refused_total", help, &[("reason", reason)])
        };
        Meters {
            heartbeats: registry.counter("syncline_viewer_heartbeats_total", "Heartbeats accepted.", &[]),
            byes: registry.counter("syncline_viewer_byes_total", "Goodbyes received.", &[]),
            refused_full: refused("full"),
            refused_fast: refused("too-fast"),
            refused_room: refused("room"),
            rooms: registry.gauge("syncline_viewer_rooms", "Rooms with somebody in them on this node.", &[]),
            store_errors: registry.store_errors("viewer"),
            sessions: registry.gauge("syncline_viewer_sessions", "Live sessions on this node.", &[]),
            visible: registry.gauge(
                "syncline_viewer_visible_sessions",
                "Live sessions with the page in sight.",
                &[],
            ),
            memory_bytes: registry.gauge("syncline_viewer_memory_bytes", "Memory the sessions take.", &[]),
            occupied: registry.gauge("syncline_viewer_occupied", "1 while anybody watches on any node.", &[]),
        }
    }
}
