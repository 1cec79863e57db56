//! The last hour of what a node counts, in memory, for charts.
//!
//! Every ten seconds the registry is read once, as Prometheus would read it. Guarantees: at most [`SERIES_MAX`] series of [`SAMPLES_MAX`]
//! samples are kept, so that the memory is bounded whatever is counted; a series begins with its first value that is not zero. Classes of
//! histograms are left out: their sum and count give the mean. A restart begins anew, and whoever needs more than an hour asks Prometheus.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use syncline_core::time::Timestamp;

/// How often a sample is taken.
pub(crate) const SAMPLE_EVERY: Duration = Duration::from_secs(10);
/// Samples of each series: an hour of them.
pub(crate) const SAMPLES_MAX: usize = 360;
/// Series that are kept; those that begin later are left out.
pub(crate) const SERIES_MAX: usize = 2_000;

/// What was counted, sample by sample.
#[derive(Default)]
pub(crate) struct History(Mutex<Samples>);

#[derive(Default)]
struct Samples {
    at: VecDeque<u64>,
    /// By the name with its labels, as the registry writes it. Each has as many values as there are times.
    series: BTreeMap<String, VecDeque<f64>>,
}

/// One series.
#[derive(Debug, PartialEq)]
pub(crate) struct Past {
    pub(crate) name: String,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) values: Vec<f64>,
}

impl History {
    /// Takes a sample from the registry's text.
    pub(crate) fn sample(&self, now: Timestamp, text: &str) {
        let samples = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = samples.at.len();
        samples.at.push_back(now.as_ms());
        for (series, value) in text.lines().filter_map(value_of) {
            let has_room = samples.series.len() < SERIES_MAX;
            match samples.series.get_mut(series) {
                Some(values) => values.push_back(value),
                None if value != 0.0 && has_room => {
                    let values = std::iter::repeat_n(0.0, before).chain([value]).collect();
                    samples.series.insert(series.to_owned(), values);
                }
                None => {}
            }
        }
        for values in samples.series.values_mut() {
            // A series that is no longer written stays where it was.
            if values.len() <= before {
                values.push_back(values.back().copied().unwrap_or_default());
            }
        }
        if samples.at.len() > SAMPLES_MAX {
            samples.at.pop_front();
            for values in samples.series.values_mut() {
                values.pop_front();
            }
        }
    }

    /// When samples were taken, and the series with these names.
    pub(crate) fn of(&self, names: &[&str]) -> (Vec<u64>, Vec<Past>) {
        let samples = &*self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let wanted = samples.series.iter().filter_map(|(series, values)| {
            let (name, labels) = parse(series);
            let values = values.iter().copied().collect();
            names.contains(&name).then(|| Past { name: name.to_owned(), labels, values })
        });
        (samples.at.iter().copied().collect(), wanted.collect())
    }
}

/// The series and the value of a line; none for comments and for the classes of histograms.
fn value_of(line: &str) -> Option<(&str, f64)> {
    let (series, value) = line.rsplit_once(' ').filter(|_| !line.starts_with('#'))?;
    let is_class = series.split('{').next().is_some_and(|name| name.ends_with("_bucket"));
    value.parse().ok().filter(|value: &f64| value.is_finite() && !is_class).map(|value| (series, value))
}

/// A name and its labels out of `name{label="value",…}`.
fn parse(series: &str) -> (&str, BTreeMap<String, String>) {
    let mut labels = BTreeMap::new();
    let Some((name, rest)) = series.split_once('{') else { return (series, labels) };
    let mut rest = rest.trim_end_matches('}');
    while let Some((label, behind)) = rest.split_once("=\"") {
        let mut value = String::new();
        let mut characters = behind.char_indices();
        let mut end = behind.len();
        while let Some((at, character)) = characters.next() {
            match character {
                '"' => {
                    end = at + 1;
                    break;
                }
                '\\' => match characters.next() {
                    Some((_, 'n')) => value.push('\n'),
                    Some((_, other)) => value.push(other),
                    None => {}
                },
                other => value.push(other),
            }
        }
        labels.insert(label.trim_start_matches(',').to_owned(), value);
        rest = &behind[end..];
    }
    (name, labels)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cn_04_samples_are_aligned_and_bounded_and_classes_are_left_out() {
        let history = History::default();
        let at = |n: u64| Timestamp::from_ms(n * 10_000);
        history.sample(at(0), "# TYPE a counter\na{queue=\"x \\\"y\\\"\"} 0\nb 1\nc_bucket{le=\"1\"} 5\n");
        history.sample(at(1), "a{queue=\"x \\\"y\\\"\",kind=\"k\"} 3\nb 2\nc_bucket{le=\"1\"} 6\n");
        let (times, series) = history.of(&["a", "b", "c_bucket"]);
        assert_eq!(times, [0, 10_000]);
        let labels =
            BTreeMap::from([("queue", "x \"y\""), ("kind", "k")].map(|(a, b)| (a.to_owned(), b.to_owned())));
        assert_eq!(
            series,
            [
                Past { name: "a".to_owned(), labels, values: vec![0.0, 3.0] },
                Past { name: "b".to_owned(), labels: BTreeMap::new(), values: vec![1.0, 2.0] },
            ]
        );
        for n in 2..1_000 {
            history.sample(at(n), "b 2\n");
        }
        let (times, series) = history.of(&["a", "b"]);
        assert_eq!((times.len(), times[0]), (SAMPLES_MAX, (1_000 - SAMPLES_MAX as u64) * 10_000));
        assert!(series.iter().all(|past| past.values.len() == SAMPLES_MAX), "{series:?}");
        let many: String = (0..SERIES_MAX + 50).map(|n| format!("many{{n=\"{n}\"}} 1\n")).collect();
        history.sample(at(1_000), &many);
        assert_eq!(history.of(&["many"]).1.len(), SERIES_MAX - 2);
    }
}
