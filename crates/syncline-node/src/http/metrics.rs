//! Counts and durations of requests by route, and the page Prometheus reads.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::IntoResponse;
use http::{Method, StatusCode, header};
use metrics::{Counter, Histogram};
use utoipa::openapi::OpenApi;

use crate::Context;
use crate::metrics::Registry;

/// The series of every operation in the description of the API, registered once.
pub struct Routes {
    by_path: HashMap<String, Vec<(Method, Series)>>,
    /// Everything else: unknown paths and methods.
    other: Series,
}

pub(crate) struct Series {
    /// By the first digit of the status: 2xx to 5xx.
    by_class: [Counter; 4],
    duration: Histogram,
}

impl Routes {
    pub(crate) fn new(registry: &Registry, api: &OpenApi) -> Routes {
        let mut by_path: HashMap<String, Vec<(Method, Series)>> = HashMap::new();
        for (path, item) in &api.paths.paths {
            for (method, _) in super::openapi::operations(item) {
                let series = Series::new(registry, path, method.as_str());
                by_path.entry(path.clone()).or_default().push((method, series));
            }
        }
        Routes { by_path, other: Series::new(registry, "other", "any") }
    }

    pub(crate) fn series(&self, path: Option<&str>, method: &Method) -> &Series {
        // A HEAD is a GET that keeps its body to itself.
        let method = if method == Method::HEAD { &Method::GET } else { method };
        let methods = path.and_then(|path| self.by_path.get(path));
        let known = methods.and_then(|methods| methods.iter().find(|(known, _)| known == method));
        known.map_or(&self.other, |(_, series)| series)
    }
}

impl Series {
    fn new(registry: &Registry, route: &str, method: &str) -> Series {
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
    context.viewer.measure();
    let format = "text/plain; version=0.0.4; charset=utf-8";
    ([(header::CONTENT_TYPE, format)], context.registry.render())
}
