//! Counts and durations of requests by route, and the page Prometheus reads.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::IntoResponse;
use http::{StatusCode, header};
use metrics::{Counter, Histogram};

use crate::Context;
use crate::metrics::Registry;

pub(crate) struct Series {
    /// By the first digit of the status: 2xx to 5xx.
    by_class: [Counter; 4],
    duration: Histogram,
}

impl Series {
    pub(crate) fn new(registry: &Registry, route: &str, method: &str) -> Series {
        let by_class = ["2xx", "3xx", "4xx", "5xx"].map(|class| {
            let labels = [("route", route), ("method", method), ("status", class)];
            registry.counter(
                "syncline_http_requests_total",
                "Requests by route, method and class of status.",
                &labels,
            )
        });
        let help = "Time from a request's headers to the start of its answer.";
        let labels = [("route", route), ("method", method)];
        Series {
            by_class,
            duration: registry.duration("syncline_http_request_duration_seconds", help, &labels),
        }
    }

    pub(crate) fn record(&self, status: StatusCode, took: Duration) {
        let class = usize::from(status.as_u16() / 100).saturating_sub(2).min(self.by_class.len() - 1);
        self.by_class[class].increment(1);
        self.duration.record(took);
    }
}

/// Everything the node counts, in Prometheus' text format.
#[utoipa::path(get, path = "/metrics", tag = "health", responses((status = 200, content_type = "text/plain")))]
pub(crate) async fn metrics(State(context): State<Arc<Context>>) -> impl IntoResponse {
    context.measure();
    let format = "text/plain; version=0.0.4; charset=utf-8";
    ([(header::CONTENT_TYPE, format)], context.registry.render())
}
