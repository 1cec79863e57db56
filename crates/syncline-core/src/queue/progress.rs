//! How far a queue is and how long it will take.
//!
//! Keys are measured while the queue is at work alone: an hour without a key says nothing of how long the next one takes,
//! and neither does a pause. Of late counts more than long ago, so that the rate follows a change of pace within half a
//! minute. A key takes as long as they have taken, and no less than the interval; while nobody calls there is no telling.
//! No reading, however odd, overflows: what cannot be said is `None`.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::time::Timestamp;

/// How long a finished key counts for the rate: after this much work its weight has fallen to a third.
const MEMORY: Duration = Duration::from_secs(30);

/// Most time that counts as work before a look that finds keys ended, where the look before found none at work.
const UNSEEN_MAX: Duration = Duration::from_secs(1);

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
    /// Keys ended a second, of late and while it is at work; 0 while it is not.
    pub rate_per_s: f64,
    /// Time until the last key ends at this rate; `None` while nobody calls, and when there is no telling.
    pub time_left: Option<Duration>,
}

/// What the time left depends on besides what was measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outlook {
    /// How many keys are where.
    pub counts: Counts,
    /// No key takes less.
    pub interval: Duration,
    /// Nobody calls: a pause, or an API that is away.
    pub held: bool,
}

impl Outlook {
    /// Whether keys are being worked on, so that time that passes is work.
    const fn at_work(&self) -> bool {
        !self.held && (self.counts.waiting > 0 || self.counts.running > 0)
    }
}

/// Counts what ends, and the time it took.
#[derive(Debug, Clone, Copy)]
pub struct Meter {
    done: u64,
    failed: u64,
    /// Keys ended and seconds at work, those long ago counting less, as of `at`.
    ended: f64,
    worked_s: f64,
    at: Timestamp,
    /// Whether the queue was at work at `at`.
    at_work: bool,
}

impl Meter {
    /// A meter that knows of `counts`' results but has seen nothing end yet.
    #[must_use]
    pub const fn new(now: Timestamp, counts: Counts) -> Self {
        let (done, failed) = (counts.done as u64, counts.failed as u64);
        Self { done, failed, ended: 0.0, worked_s: 0.0, at: now, at_work: false }
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

    /// The queue looks like this now: whether the time from here on is work.
    pub fn look(&mut self, now: Timestamp, outlook: Outlook) {
        if self.at_work {
            self.work(now.saturating_since(self.at));
        }
        self.at = self.at.max(now);
        self.at_work = outlook.at_work();
    }

    /// Where things stand.
    #[must_use]
    pub fn progress(&self, now: Timestamp, outlook: Outlook) -> Progress {
        let counts = outlook.counts;
        let mut measured = *self;
        measured.look(now, outlook);
        let per_key = measured.per_key(outlook.interval);
        let rate_per_s = match per_key {
            Some(seconds) if outlook.at_work() && measured.ended > 0.0 => 1.0 / seconds,
            _ => 0.0,
        };
        Progress {
            waiting: counts.waiting,
            running: counts.running,
            retrying: counts.retrying,
            dead: counts.dead,
            done: self.done,
            failed: self.failed,
            rate_per_s,
            time_left: if counts.left() == 0 {
                Some(Duration::ZERO)
            } else {
                per_key.filter(|_| !outlook.held).and_then(|seconds| time_left(counts.left(), seconds))
            },
        }
    }

    fn count(&mut self, now: Timestamp) {
        let elapsed = now.saturating_since(self.at);
        self.work(if self.at_work { elapsed } else { elapsed.min(UNSEEN_MAX) });
        self.at = self.at.max(now);
        self.ended += 1.0;
    }

    fn work(&mut self, elapsed: Duration) {
        let kept = kept(elapsed);
        self.ended *= kept;
        self.worked_s = self.worked_s * kept + MEMORY.as_secs_f64() * (1.0 - kept);
    }

    /// Seconds for a key: what they have taken, and no less than the interval. While the first is under way it takes at least
    /// as long as it has by now.
    fn per_key(&self, interval: Duration) -> Option<f64> {
        // Time is told in milliseconds: what ended within one took up to one.
        let worked_s = if self.ended > 0.0 { self.worked_s.max(0.001) } else { self.worked_s };
        let measured = worked_s / self.ended.max(1.0);
        let seconds = measured.max(interval.as_secs_f64());
        (seconds > 0.0).then_some(seconds)
    }
}

/// The share of a key's weight that is left after so much work.
fn kept(elapsed: Duration) -> f64 {
    (-elapsed.as_secs_f64() / MEMORY.as_secs_f64()).exp()
}

fn time_left(left: usize, seconds_each: f64) -> Option<Duration> {
    let estimate = Duration::try_from_secs_f64(left as f64 * seconds_each).ok()?;
    (estimate <= TIME_LEFT_MAX).then_some(estimate)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(ms: u64) -> Timestamp {
        Timestamp::from_ms(ms)
    }

    fn outlook(waiting: usize, interval_ms: u64) -> Outlook {
        let counts = Counts { waiting, ..Counts::default() };
        Outlook { counts, interval: Duration::from_millis(interval_ms), held: false }
    }

    /// `keys` at once, each taking `each_ms`; tells what was said when `ended` of them had ended.
    fn after(
        meter: &mut Meter,
        began_ms: u64,
        (keys, each_ms, interval_ms): (u64, u64, u64),
        ended: u64,
    ) -> Progress {
        meter.look(at(began_ms), outlook(keys as usize, interval_ms));
        for key in 1..=ended {
            meter.done(at(began_ms + key * each_ms));
            meter.look(at(began_ms + key * each_ms), outlook((keys - key) as usize, interval_ms));
        }
        meter.progress(at(began_ms + ended * each_ms), outlook((keys - ended) as usize, interval_ms))
    }

    fn seconds(progress: &Progress) -> f64 {
        progress.time_left.unwrap().as_secs_f64()
    }

    /// The rate was taken over idle time as well: a hundred keys of 130 ms were said to take six minutes, and eight
    /// after a long rest 24 days.
    #[test]
    fn qu_34_times_left_are_of_the_work_whatever_was_before_it() {
        for idle_ms in [0, 1_000, 3_600_000, 24 * 3_600_000] {
            for (keys, each_ms, interval_ms) in
                [(100, 130, 100), (8, 150, 50), (10, 1_000, 1_000), (20, 5_000, 0)]
            {
                let mut meter = Meter::new(at(0), Counts::default());
                after(&mut meter, 10, (2, 100, 100), 2);
                for ended in [1, keys / 2] {
                    let mut meter = meter;
                    let progress = after(&mut meter, 500 + idle_ms, (keys, each_ms, interval_ms), ended);
                    let real = (keys - ended) as f64 * each_ms as f64 / 1_000.0;
                    let said = seconds(&progress);
                    assert!(
                        said > real / 4.0 && said < real * 2.0,
                        "{idle_ms}: {said} s for {real} s: {progress:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn qu_34_the_pace_tells_before_the_first_key_has_ended() {
        let mut meter = Meter::new(at(0), Counts::default());
        meter.look(at(1_000), outlook(100, 100));
        assert_eq!(seconds(&meter.progress(at(1_000), outlook(100, 100))), 10.0);
        // It takes longer than the interval, and has not ended yet.
        let said = seconds(&meter.progress(at(3_000), outlook(100, 100)));
        assert!((150.0..=200.0).contains(&said), "{said}");
        // Nothing is known at all.
        assert_eq!(Meter::new(at(0), Counts::default()).progress(at(0), outlook(9, 0)).time_left, None);
    }

    #[test]
    fn qu_34_nothing_is_said_while_nobody_calls_and_nothing_is_forgotten() {
        let mut meter = Meter::new(at(0), Counts::default());
        after(&mut meter, 0, (100, 200, 100), 50);
        let held = Outlook { held: true, ..outlook(50, 100) };
        meter.look(at(10_000), held);
        for ms in [0, 60_000, 3_600_000] {
            let progress = meter.progress(at(10_000 + ms), held);
            assert_eq!((progress.time_left, progress.rate_per_s), (None, 0.0));
        }
        meter.look(at(3_610_000), outlook(50, 100));
        let said = seconds(&meter.progress(at(3_610_000), outlook(50, 100)));
        assert!((said - 10.0).abs() < 1.0, "{said}");
    }

    #[test]
    fn qu_24_a_steady_pace_is_measured_and_extrapolated() {
        for minutes in [1, 60] {
            let mut meter = Meter::new(at(0), Counts::default());
            let progress = after(&mut meter, 0, (minutes * 600 + 500, 100, 100), minutes * 600);
            assert!((progress.rate_per_s - 10.0).abs() < 0.3, "{progress:?}");
            assert!((seconds(&progress) - 50.0).abs() < 2.0, "{progress:?}");
            assert_eq!(progress.done, minutes * 600);
        }
    }

    #[test]
    fn qu_24_what_ends_within_a_tick_of_the_clock_has_a_rate_too() {
        let mut meter = Meter::new(at(0), Counts::default());
        let progress = after(&mut meter, 0, (3, 0, 0), 1);
        assert!(progress.rate_per_s > 0.0 && seconds(&progress) > 0.0, "{progress:?}");
    }

    #[test]
    fn qu_24_an_idle_queue_has_no_rate_and_nothing_left() {
        let mut meter = Meter::new(at(0), Counts::default());
        let progress = after(&mut meter, 0, (10, 100, 0), 10);
        assert_eq!((progress.rate_per_s, progress.time_left), (0.0, Some(Duration::ZERO)));
    }

    #[test]
    fn qu_24_counts_are_of_what_ever_ended() {
        let mut meter = Meter::new(at(0), Counts { done: 3, failed: 1, ..Counts::default() });
        meter.done(at(1));
        meter.failed(at(2));
        meter.dead(at(3));
        let counts = Counts { dead: 1, ..Counts::default() };
        let progress = meter.progress(at(4), Outlook { counts, ..outlook(0, 0) });
        assert_eq!((progress.done, progress.failed, progress.dead), (4, 2, 1));
    }

    proptest! {
        #[test]
        fn qu_24_no_clock_or_count_overflows(
            began in any::<u64>(), ends in proptest::collection::vec(any::<u64>(), 0..50), now in any::<u64>(),
            counts in (any::<usize>(), any::<usize>(), any::<usize>()), interval in any::<u64>(), held in any::<bool>(),
        ) {
            let counts = Counts { waiting: counts.0, running: counts.1, retrying: counts.2, ..Counts::default() };
            let outlook = Outlook { counts, interval: Duration::from_millis(interval), held };
            let mut meter = Meter::new(at(began), counts);
            for ms in ends {
                meter.done(at(ms));
                meter.look(at(ms), outlook);
            }
            let progress = meter.progress(at(now), outlook);
            prop_assert!(progress.rate_per_s.is_finite() && progress.rate_per_s >= 0.0);
            prop_assert!(progress.time_left.is_none_or(|left| left <= TIME_LEFT_MAX));
        }
    }
}
