//! What the node counts and how long it takes, for Prometheus.
//!
//! Names are `syncline_<system>_<thing>_<unit>`. Every series is registered when the node starts and kept as a handle, so
//! that counting costs an addition and no look-up, and a scrape shows zeros instead of gaps. Each node has its own
//! [`Registry`]; nothing is global.

pub(crate) mod history;
mod process;

use std::sync::Arc;

use metrics::{Counter, Gauge, Histogram, Key, Label, Level, Metadata, Recorder};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle, PrometheusRecorder};

use crate::clock;

/// Upper bounds of the classes into which durations are sorted, in seconds.
const DURATION_BOUNDS_SEC: [f64; 11] =
    [0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.1, 0.5, 1.0, 5.0, 30.0];

const METADATA: Metadata<'static> = Metadata::new("syncline", Level::INFO, None);

/// Where series are registered and read from. Clones are the same registry.
#[derive(Clone)]
pub struct Registry {
    recorder: Arc<PrometheusRecorder>,
    handle: PrometheusHandle,
}

impl Registry {
    /// An empty registry.
    pub fn new() -> Registry {
        let recorder = PrometheusBuilder::new()
            .set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), &DURATION_BOUNDS_SEC)
            .expect("the list of bounds is not empty")
            .build_recorder();
        let handle = recorder.handle();
        let registry = Registry { recorder: Arc::new(recorder), handle };
        let version = [("version", env!("CARGO_PKG_VERSION"))];
        registry.gauge("syncline_node_info", "Always 1; its label names the version.", &version).set(1.0);
        let started_at =
            registry.gauge("syncline_node_start_time_seconds", "When the node started, since 1970.", &[]);
        started_at.set(clock::wall().as_ms() as f64 / 1_000.0);
        registry
    }

    /// Says what the node is called.
    pub(crate) fn name_node(&self, name: &str) {
        let help = "Always 1; its label is what people call the node.";
        self.gauge("syncline_node_name_info", help, &[("node", name)]).set(1.0);
    }

    /// Something that only grows. By convention its name ends in `_total`.
    pub fn counter(
        &self,
        name: &'static str,
        help: &'static str,
        labels: &[(&'static str, &str)],
    ) -> Counter {
        self.recorder.describe_counter(name.into(), None, help.into());
        self.recorder.register_counter(&key(name, labels), &METADATA)
    }

    /// Something that goes up and down.
    pub fn gauge(&self, name: &'static str, help: &'static str, labels: &[(&'static str, &str)]) -> Gauge {
        self.recorder.describe_gauge(name.into(), None, help.into());
        self.recorder.register_gauge(&key(name, labels), &METADATA)
    }

    /// How long something takes. Its name must end in `_seconds`.
    pub fn duration(
        &self,
        name: &'static str,
        help: &'static str,
        labels: &[(&'static str, &str)],
    ) -> Histogram {
        self.recorder.describe_histogram(name.into(), None, help.into());
        self.recorder.register_histogram(&key(name, labels), &METADATA)
    }

    /// Calls that the store did not answer as it should, by the system that made them.
    pub fn store_errors(&self, system: &'static str) -> Counter {
        let help = "Calls to the store that failed, by system.";
        self.counter("syncline_store_errors_total", help, &[("system", system)])
    }

    /// Everything in Prometheus' text format.
    pub fn render(&self) -> String {
        let mut text = self.handle.render();
        process::render(&mut text);
        text
    }

    /// Sorts recorded durations into their classes. Between scrapes somebody has to, or they pile up in memory.
    pub(crate) fn tidy(&self) {
        self.handle.run_upkeep();
    }
}

impl Default for Registry {
    fn default() -> Registry {
        Registry::new()
    }
}

/// Labels that Prometheus sets itself: it would rename ours, and every query and alert would read the wrong one.
const LABELS_OF_PROMETHEUS: [&str; 4] = ["job", "instance", "le", "quantile"];

fn key(name: &'static str, labels: &[(&'static str, &str)]) -> Key {
    let taken = labels.iter().find(|(label, _)| LABELS_OF_PROMETHEUS.contains(label));
    assert!(taken.is_none(), "{name} has the label {taken:?}, which is Prometheus' own");
    let labels = labels.iter().map(|(label, value)| Label::new(*label, (*value).to_owned()));
    Key::from_parts(name, labels.collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_are_there_before_anything_happened_and_two_nodes_do_not_mix() {
        let (one, other) = (Registry::new(), Registry::new());
        let counter = one.counter("syncline_test_things_total", "Things.", &[("kind", "good")]);
        assert!(one.render().contains("syncline_test_things_total{kind=\"good\"} 0"));
        counter.increment(2);
        assert!(one.render().contains("syncline_test_things_total{kind=\"good\"} 2"));
        assert!(!other.render().contains("syncline_test_things_total"));
    }

    /// Jobs were counted with a label `job`, which is what Prometheus calls its own targets: the alert named the wrong job.
    #[test]
    #[should_panic(expected = "Prometheus' own")]
    fn a_label_that_prometheus_sets_itself_is_refused() {
        let _ = Registry::new().counter("syncline_test_things_total", "Things.", &[("job", "report")]);
    }

    #[test]
    fn durations_are_sorted_into_classes() {
        let registry = Registry::new();
        registry.duration("syncline_test_wait_seconds", "Waiting.", &[]).record(0.02);
        registry.tidy();
        let text = registry.render();
        assert!(text.contains("syncline_test_wait_seconds_bucket{le=\"0.01\"} 0"), "{text}");
        assert!(text.contains("syncline_test_wait_seconds_bucket{le=\"0.025\"} 1"), "{text}");
    }
}
