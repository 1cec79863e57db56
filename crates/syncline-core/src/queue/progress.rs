//! How far a queue is and how long it will take.
//!
//! The rate forgets exponentially, so it follows a pause or a change of pace within half a minute and does not
//! jump with each key. No reading, however odd, overflows: what cannot be said is `None`.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::time::Timestamp;

/// How long a finished key counts for the rate: after this its weight has fallen to a third.
const MEMORY: Duration = Duration::from_secs(30);

/// The shortest time a rate is measured over, so that the first key does not promise thousands a second.
const MEASURED_LEAST: Duration = Duration::from_secs(1);

/// Estimates beyond this are as good as none.
const TIME_LEFT_MAX: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// How many keys are in which place now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// In line.
    pub waiting: usize,
    /// Being worked on.
    pub running: usize,
    /// To come back.
    pub retrying: usize,
    /// With a result.
    pub done: usize,
    /// With an empty result.
    pub failed: usize,
    /// Given up.
    pub dead: usize,
}

impl Counts {
    /// Keys that have not ended.
    #[must_use]
    pub const fn left(&self) -> usize {
        self.waiting.saturating_add(self.running).saturating_add(self.retrying)
    }
}

/// How far a queue is.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// Keys in line.
    pub waiting: usize,
    /// Keys being worked on.
    pub running: usize,
    /// Keys to come back.
    pub retrying: usize,
    /// Keys on the dead list.
    pub dead: usize,
    /// Keys ever ended with a result; unlike the results kept, these never get fewer.
    pub done: u64,
    /// Keys ever ended with an empty result.
    pub failed: u64,
    /// Keys ended a second, of late.
    pub rate_per_s: f64,
    /// Time until the last key ends at this rate; `None` when nothing has ended for so long that there is no telling.
    pub time_left: Option<Duration>,
}

/// Counts what ends.
#[derive(Debug, Clone, Copy)]
pub struct Meter {
    done: u64,
    failed: u64,
    /// Keys ended, those long ago counting less, as of `at`.
    weight: f64,
    at: Timestamp,
    began_at: Timestamp,
}

impl Meter {
    /// A meter that knows of `counts`' results but has seen nothing end yet.
    #[must_use]
    pub const fn new(now: Timestamp, counts: Counts) -> Self {
        Self { done: counts.done as u64, failed: counts.failed as u64, weight: 0.0, at: now, began_at: now }
    }

    /// A key ended with a result.
    pub fn done(&mut self, now: Timestamp) {
        self.done = self.done.saturating_add(1);
        self.count(now);
    }

    /// A key ended with an empty result.
    pub fn failed(&mut self, now: Timestamp) {
        self.failed = self.failed.saturating_add(1);
        self.count(now);
    }

    /// A key was given up. It is counted where it lies, on the dead list.
    pub fn dead(&mut self, now: Timestamp) {
        self.count(now);
    }

    /// Where things stand.
    #[must_use]
    pub fn progress(&self, now: Timestamp, counts: Counts) -> Progress {
        let rate_per_s = self.rate_per_s(now);
        Progress {
            waiting: counts.waiting,
            running: counts.running,
            retrying: counts.retrying,
            dead: counts.dead,
            done: self.done,
            failed: self.failed,
            rate_per_s,
            time_left: time_left(counts.left(), rate_per_s),
        }
    }

    fn count(&mut self, now: Timestamp) {
        self.weight = self.weight_at(now) + 1.0;
        self.at = self.at.max(now);
    }

    fn weight_at(&self, now: Timestamp) -> f64 {
        // Many keys may end within one millisecond; nothing fades then.
        if now <= self.at { self.weight } else { self.weight * kept(now.saturating_since(self.at)) }
    }

    fn rate_per_s(&self, now: Timestamp) -> f64 {
        let measured = now.saturating_since(self.began_at).max(MEASURED_LEAST);
        // Divided by the weight that one key a second would have gathered by now.
        self.weight_at(now) / (MEMORY.as_secs_f64() * (1.0 - kept(measured)))
    }
}

/// The share of a key's weight that is left after `elapsed`.
fn kept(elapsed: Duration) -> f64 {
    (-elapsed.as_secs_f64() / MEMORY.as_secs_f64()).exp()
}

fn time_left(left: usize, rate_per_s: f64) -> Option<Duration> {
    if left == 0 {
        return Some(Duration::ZERO);
    }
    let estimate = Duration::try_from_secs_f64(left as f64 / rate_per_s).ok()?;
    (estimate <= TIME_LEFT_MAX).then_some(estimate)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(ms: u64) -> Timestamp {
        Timestamp::from_ms(ms)
    }

    fn waiting(waiting: usize) -> Counts {
        Counts { waiting, ..Counts::default() }
    }

    #[test]
    fn qu_24_a_steady_pace_is_measured_and_extrapolated() {
        for seconds in [5, 60, 3_600] {
            let mut meter = Meter::new(at(0), Counts::default());
            (1..=seconds * 10).for_each(|key| meter.done(at(key * 100)));
            let progress = meter.progress(at(seconds * 1_000), waiting(500));
            assert!((progress.rate_per_s - 10.0).abs() < 0.3, "after {seconds} s: {progress:?}");
            let left = progress.time_left.unwrap().as_secs_f64();
            assert!((left - 50.0).abs() < 2.0, "after {seconds} s: {progress:?}");
            assert_eq!(progress.done, seconds * 10);
        }
    }

    #[test]
    fn qu_24_the_rate_follows_a_pause_and_then_says_nothing() {
        let mut meter = Meter::new(at(0), Counts::default());
        (1..=600).for_each(|key| meter.done(at(key * 100)));
        let paused = |ms: u64| meter.progress(at(60_000 + ms), waiting(10));
        assert!(paused(30_000).rate_per_s < 4.5);
        assert_eq!(paused(3_600_000).time_left, None);
        assert_eq!(meter.progress(at(u64::MAX), waiting(0)).time_left, Some(Duration::ZERO));
    }

    #[test]
    fn qu_24_the_first_key_promises_nothing_wild() {
        let mut meter = Meter::new(at(7), Counts::default());
        meter.done(at(7));
        let progress = meter.progress(at(7), waiting(10));
        assert!(progress.rate_per_s < 1.1, "{progress:?}");
    }

    #[test]
    fn qu_24_counts_are_of_what_ever_ended() {
        let mut meter = Meter::new(at(0), Counts { done: 3, failed: 1, ..Counts::default() });
        meter.done(at(1));
        meter.failed(at(2));
        meter.dead(at(3));
        let progress = meter.progress(at(4), Counts { dead: 1, ..Counts::default() });
        assert_eq!((progress.done, progress.failed, progress.dead), (4, 2, 1));
    }

    proptest! {
        #[test]
        fn qu_24_no_clock_or_count_overflows(
            began in any::<u64>(), ends in proptest::collection::vec(any::<u64>(), 0..50), now in any::<u64>(),
            counts in (any::<usize>(), any::<usize>(), any::<usize>()),
        ) {
            let counts = Counts { waiting: counts.0, running: counts.1, retrying: counts.2, ..Counts::default() };
            let mut meter = Meter::new(at(began), counts);
            ends.into_iter().for_each(|ms| meter.done(at(ms)));
            let progress = meter.progress(at(now), counts);
            prop_assert!(progress.rate_per_s.is_finite() && progress.rate_per_s >= 0.0);
            prop_assert!(progress.time_left.is_none_or(|left| left <= TIME_LEFT_MAX));
        }
    }
}
