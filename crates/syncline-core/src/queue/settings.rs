//! How one queue is paced.

use std::time::Duration;

use crate::retry::Policy;

/// Most calls in flight at once.
pub const CONCURRENCY_MAX: u32 = 1_000;

/// Longest interval, delay, time-out or pause that can be set: a day.
pub const SPAN_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// The longest an API can pause a queue by naming a time. Longer ones are asked again after this.
pub const PAUSE_MAX: Duration = Duration::from_secs(60 * 60);

/// How much longer a slot stays taken than its call may last: time for the caller to notice, and for a call it
/// gave up to end at the API too.
const LEASE_MARGIN: Duration = Duration::from_secs(5);

/// The part of an interval within which a call that is allowed to start must do so, where several run at once.
pub(super) const START_SLACK_SHARE: u32 = 4;

/// The pace of one queue.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// Calls in flight at once, over all who share the pace.
    pub concurrency: u32,
    /// Least time from the end of the last call to the next start, and where several run at once, between starts.
    pub interval: Duration,
    /// A key never comes back sooner than this.
    pub retry_delay: Duration,
    /// Growth, jitter and ceiling of that delay, and how many attempts a key has.
    pub retry: Policy,
    /// When a call counts as lost, unless it is renewed.
    pub call_timeout: Duration,
    /// Failures in a row after which the whole queue is paused.
    pub breaker_threshold: u32,
    /// How long it is paused, growing from probe to probe. It never gives up: `max_attempts` is not looked at.
    pub breaker: Policy,
}

impl Settings {
    /// A pace with the usual ten attempts, delays that double up to 30 s, calls of 20 s at most and a breaker that
    /// opens after five failures in a row, for 5 s at first and a minute at most.
    #[must_use]
    pub const fn new(concurrency: u32, interval: Duration, retry_delay: Duration) -> Self {
        Self {
            concurrency,
            interval,
            retry_delay,
            retry: Policy {
                initial_delay: retry_delay,
                max_delay: Duration::from_secs(30),
                multiplier: 2.0,
                max_attempts: 10,
                jitter: 0.5,
            },
            call_timeout: Duration::from_secs(20),
            breaker_threshold: 5,
            breaker: Policy {
                initial_delay: Duration::from_secs(5),
                max_delay: Duration::from_secs(60),
                multiplier: 2.0,
                max_attempts: u32::MAX,
                jitter: 0.2,
            },
        }
    }

    /// Whether a queue can run like this.
    pub fn check(&self) -> Result<(), InvalidSettings> {
        if !(1..=CONCURRENCY_MAX).contains(&self.concurrency) {
            return Err(InvalidSettings::Concurrency { concurrency: self.concurrency });
        }
        let spans = [
            ("interval", self.interval),
            ("retry delay", self.retry_delay),
            ("longest retry delay", self.retry.max_delay),
            ("call time-out", self.call_timeout),
            ("longest breaker pause", self.breaker.max_delay),
        ];
        if let Some(&(name, span)) = spans.iter().find(|(_, span)| *span > SPAN_MAX) {
            return Err(InvalidSettings::TooLong { name, span });
        }
        let positive = [
            ("call time-out", !self.call_timeout.is_zero()),
            ("number of attempts", self.retry.max_attempts > 0),
            ("breaker threshold", self.breaker_threshold > 0),
        ];
        match positive.iter().find(|(_, holds)| !holds) {
            Some(&(name, _)) => Err(InvalidSettings::Zero { name }),
            None => Ok(()),
        }
    }

    /// The pause before the run that follows run number `attempt`, or `None` when that was the last.
    #[must_use]
    pub fn delay(&self, attempt: u32, random: f64) -> Option<Duration> {
        Some(self.retry.delay(attempt, random)?.max(self.retry_delay))
    }

    /// How long the queue rests after the breaker opened for the `trips`th time in a row.
    pub(super) fn breaker_pause(&self, trips: u32, random: f64) -> Duration {
        let endless = Policy { max_attempts: u32::MAX, ..self.breaker };
        endless.delay(trips.min(u32::MAX - 1), random).unwrap_or(self.breaker.max_delay)
    }

    /// How long after it was allowed to a call may begin. `None`: as long as its slot is its own, because nobody else
    /// starts meanwhile, or may start at any time.
    pub(super) fn start_slack(&self) -> Option<Duration> {
        (self.concurrency > 1 && !self.interval.is_zero()).then_some(self.interval / START_SLACK_SHARE)
    }

    /// How long a slot stays taken by a call that nobody ends or renews, and that asked for this time, if for any.
    pub(super) fn lease_of(&self, asked: Option<Duration>) -> Duration {
        asked.unwrap_or(self.call_timeout).min(SPAN_MAX).saturating_add(LEASE_MARGIN)
    }
}

/// Why a queue cannot run with some settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidSettings {
    /// None, or more than [`CONCURRENCY_MAX`].
    #[error("concurrency is {concurrency}; it must be from 1 to {CONCURRENCY_MAX}")]
    Concurrency {
        /// What it is.
        concurrency: u32,
    },
    /// Longer than [`SPAN_MAX`].
    #[error("{name} is {span:?}; a day is the most")]
    TooLong {
        /// Of what.
        name: &'static str,
        /// How long it is.
        span: Duration,
    },
    /// Zero where that cannot work.
    #[error("{name} must not be zero")]
    Zero {
        /// Of what.
        name: &'static str,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn qu_22_settings_are_bounded_and_say_what_is_wrong() {
        let good = Settings::new(1, Duration::from_millis(100), Duration::from_millis(500));
        assert_eq!(good.check(), Ok(()));
        let bad = [
            (Settings { concurrency: 0, ..good }, "concurrency is 0; it must be from 1 to 1000"),
            (Settings { concurrency: 1_001, ..good }, "concurrency is 1001; it must be from 1 to 1000"),
            (
                Settings { interval: Duration::from_secs(86_401), ..good },
                "interval is 86401s; a day is the most",
            ),
            (Settings { call_timeout: Duration::ZERO, ..good }, "call time-out must not be zero"),
            (Settings { breaker_threshold: 0, ..good }, "breaker threshold must not be zero"),
            (
                Settings { retry: Policy { max_attempts: 0, ..good.retry }, ..good },
                "number of attempts must not be zero",
            ),
        ];
        for (settings, message) in bad {
            assert_eq!(settings.check().unwrap_err().to_string(), message);
        }
    }

    #[test]
    fn qu_22_breaker_pauses_grow_to_their_ceiling_and_never_end() {
        let settings = Settings::new(1, Duration::ZERO, Duration::from_millis(500));
        let pauses: Vec<u64> = [1, 2, 3, 4, 5, 6, 1_000_000, u32::MAX]
            .map(|trips| settings.breaker_pause(trips, 0.0).as_secs())
            .into();
        assert_eq!(pauses, [5, 10, 20, 40, 60, 60, 60, 60]);
    }
}
