//! Counts and durations of requests by route, and the page Prometheus reads.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::IntoResponse;
use http::{StatusCode, header};
use metrics::{Counter, Histogram};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::Error;
use super::body::Query;
use crate::Context;
use crate::metrics::Registry;
use crate::metrics::history::SAMPLE_EVERY;

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

/// Most names in one question.
const NAMES_MAX: usize = 32;

#[derive(Debug, Deserialize, IntoParams)]
pub(crate) struct Names {
    /// Names of series, with commas between, 32 at most.
    #[param(example = "syncline_queue_waiting,syncline_queue_done_total")]
    names: String,
}

/// The last hour of some series.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MetricHistory {
    /// How far apart samples are, in milliseconds.
    step_ms: u64,
    /// When each was taken, in milliseconds since 1970.
    at: Vec<u64>,
    series: Vec<MetricSeries>,
}

/// One series.
#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({ "name": "syncline_queue_waiting", "labels": { "queue": "words" }, "values": [0, 12, 7] }))]
pub(crate) struct MetricSeries {
    name: String,
    labels: BTreeMap<String, String>,
    /// A value for each time.
    values: Vec<f64>,
}

/// The last hour of what this node counts, a sample each ten seconds, for charts. A series that was never anything but zero is absent.
#[utoipa::path(get, path = "/api/metrics", tag = "health", params(Names),
    responses((status = 200, body = MetricHistory), (status = 400)))]
pub(crate) async fn history(
    State(context): State<Arc<Context>>,
    Query(asked): Query<Names>,
) -> Result<axum::Json<MetricHistory>, Error> {
    let names: Vec<&str> = asked.names.split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
    if !(1..=NAMES_MAX).contains(&names.len()) {
        return Err(Error::invalid("invalid-names", format!("ask for 1 to {NAMES_MAX} names")));
    }
    let (at, past) = context.history.of(&names);
    let series = past.into_iter().map(|past| MetricSeries {
        name: past.name,
        labels: past.labels,
        values: past.values,
    });
    let step_ms = u64::try_from(SAMPLE_EVERY.as_millis()).unwrap_or(u64::MAX);
    Ok(axum::Json(MetricHistory { step_ms, at, series: series.collect() }))
}
