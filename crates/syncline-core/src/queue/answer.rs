//! What a call came back with, and what follows from it.
//!
//! An [`Answer`] is what the caller saw. Two questions are asked of it: what it says about the API as a whole
//! ([`Answer::signal`], for the pace) and what becomes of the key ([`Settings::judge`]).

use std::time::Duration;

use super::settings::SPAN_MAX;
use super::{Breaker, Pace, Settings};
use crate::time::Timestamp;

/// Longest reason kept with a key; the rest of a longer one is cut off.
pub const REASON_MAX_BYTES: usize = 512;

/// How a call ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer<R> {
    /// With a result.
    Done(R),
    /// With an answer nothing can be made of: the API is well, asking again would not help.
    Refused {
        /// For the log and for whoever asks after the key.
        reason: String,
    },
    /// 429: too many requests.
    Throttled {
        /// How long the API asks to be left alone, as [`retry_after::parse`](super::retry_after::parse) reads it.
        retry_after: Option<Duration>,
    },
    /// With no answer, or one that says the API is not well: connection, time-out, 5xx.
    Broken {
        /// For the log and for whoever asks after the key.
        reason: String,
        /// Whether another attempt is worth it; if not, the key ends here with an empty result.
        retry: bool,
        /// Whether it was not the API itself that answered: no connection, no answer in time, a gateway's 502, 503 or 504.
        away: bool,
    },
    /// Whoever did the work could not do it and asks for another attempt. It says nothing about anybody else's key.
    Returned {
        /// For the log and for whoever asks after the key.
        reason: String,
        /// How long to leave it; the queue's delay if absent.
        retry_after: Option<Duration>,
    },
    /// Not at all: it was not begun in time. The key is first in line again and the run does not count.
    NotMade,
}

/// What a call says about the API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// It is well.
    Answered,
    /// It wants fewer calls.
    Throttled {
        /// And none at all for this long.
        retry_after: Option<Duration>,
    },
    /// It is not well.
    Broken,
    /// Nothing: no call was made.
    NotMade,
}

/// What to do with a key whose run is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome<R> {
    /// Keep this result.
    Done(R),
    /// Keep an empty result, for this reason.
    Failed(String),
    /// Bring it back later.
    Retrying {
        /// When.
        due: Timestamp,
    },
    /// Bring it back later, and do not count the run: the API was not there.
    Excused {
        /// When.
        due: Timestamp,
    },
    /// Give it up, for this reason.
    Dead(String),
    /// Put it first in line again, as if it had not run.
    Waiting,
}

/// What became of a key whose run is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settled {
    /// It has a result.
    Done,
    /// It has an empty result.
    Failed,
    /// It comes back.
    Retrying {
        /// When.
        due: Timestamp,
    },
    /// It is on the dead list.
    Dead,
    /// It is first in line again.
    Waiting,
    /// It is in line once more, as was asked for while it ran; what this run brought is already out of date.
    Again,
}

impl<R> Answer<R> {
    /// What the call says about the API.
    #[must_use]
    pub const fn signal(&self) -> Signal {
        match self {
            Self::Done(_) | Self::Refused { .. } => Signal::Answered,
            Self::Throttled { retry_after } => Signal::Throttled { retry_after: *retry_after },
            Self::Broken { .. } => Signal::Broken,
            // Neither a success nor a failure of anything that all keys share.
            Self::Returned { .. } | Self::NotMade => Signal::NotMade,
        }
    }
}

/// How the API was when a call had ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Health {
    /// The breaker is open, or this call opened it, or this was its probe.
    pub out: bool,
    /// Calls in a row, this one included, that the API did not answer.
    pub failures: u32,
}

impl Health {
    /// The API after `call`, which was among the calls of `pace` and leaves its breaker like this.
    #[must_use]
    pub fn after(pace: &Pace, call: u64, breaker: Breaker) -> Self {
        let probe = pace.call(call).is_some_and(|call| call.probe);
        match breaker {
            Breaker::Closed { failures } => Self { out: probe, failures },
            Breaker::Open { .. } | Breaker::HalfOpen { .. } => Self { out: true, failures: 0 },
        }
    }

    /// Whether the API's absence explains that run number `attempt` brought no answer. An outage is no key's fault: no key is
    /// used up while the breaker finds out whether the API is back, nor before the breaker opens, if nobody has been answered
    /// since the key's first attempt.
    const fn excuses<R>(self, answer: &Answer<R>, attempt: u32) -> bool {
        match answer {
            Answer::Broken { away, .. } => self.out || (*away && self.failures >= attempt),
            _ => false,
        }
    }
}

impl Settings {
    /// What becomes of a key whose run number `attempt` (counted from 1) ended with `answer` at `now`, which left the API
    /// in this `health`.
    ///
    /// `random` is a fresh number from 0 to 1.
    #[must_use]
    pub fn judge<R>(
        &self,
        answer: Answer<R>,
        attempt: u32,
        health: Health,
        now: Timestamp,
        random: f64,
    ) -> Outcome<R> {
        if health.excuses(&answer, attempt) {
            let delay = self.delay(attempt.min(self.retry.max_attempts.saturating_sub(1)), random);
            return Outcome::Excused { due: now + delay.unwrap_or(self.retry_delay) };
        }
        let mut asked = None;
        let reason = match answer {
            Answer::Done(result) => return Outcome::Done(result),
            Answer::NotMade => return Outcome::Waiting,
            Answer::Refused { reason } | Answer::Broken { reason, retry: false, .. } => {
                return Outcome::Failed(reason);
            }
            Answer::Throttled { .. } => "too many requests".to_owned(),
            Answer::Broken { reason, retry: true, .. } => reason,
            Answer::Returned { reason, retry_after } => {
                asked = retry_after;
                reason
            }
        };
        match self.delay(attempt, random) {
            Some(delay) => Outcome::Retrying { due: now + asked.map_or(delay, |asked| asked.min(SPAN_MAX)) },
            None => Outcome::Dead(given_up(attempt, &reason)),
        }
    }
}

/// Why a key is dead.
pub(super) fn given_up(attempts: u32, reason: &str) -> String {
    let attempts = if attempts == 1 { "1 attempt".to_owned() } else { format!("{attempts} attempts") };
    format!("given up after {attempts}: {reason}")
}

/// `reason` as it is kept.
pub(super) fn bounded(mut reason: String) -> Box<str> {
    reason.truncate(reason.floor_char_boundary(REASON_MAX_BYTES));
    reason.into_boxed_str()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_ms(10_000);

    fn settings() -> Settings {
        let mut settings = Settings::new(1, Duration::from_millis(100), Duration::from_millis(500));
        settings.retry.max_attempts = 3;
        settings
    }

    #[test]
    fn qu_04_a_429_comes_back_after_the_delay() {
        let throttled = Answer::<()>::Throttled { retry_after: None };
        let due = NOW + Duration::from_millis(500);
        for random in [0.0, 0.5, 1.0, f64::NAN] {
            assert_eq!(
                settings().judge(throttled.clone(), 1, Health::default(), NOW, random),
                Outcome::Retrying { due }
            );
        }
    }

    #[test]
    fn qu_04_other_failures_end_with_an_empty_result_and_its_reason() {
        let broken = Answer::<()>::Broken { reason: "500".to_owned(), retry: false, away: false };
        assert_eq!(
            settings().judge(broken, 1, Health::default(), NOW, 0.0),
            Outcome::Failed("500".to_owned())
        );
        let refused = Answer::<()>::Refused { reason: "not XML".to_owned() };
        assert_eq!(
            settings().judge(refused, 1, Health::default(), NOW, 0.0),
            Outcome::Failed("not XML".to_owned())
        );
    }

    #[test]
    fn qu_22_delays_grow_have_jitter_and_end_on_the_dead_list() {
        let broken = Answer::<()>::Broken { reason: "no route".to_owned(), retry: true, away: true };
        let well = Health { out: false, failures: 1 };
        let due = |random| settings().judge(broken.clone(), 2, well, NOW, random);
        assert_eq!(due(0.0), Outcome::Retrying { due: NOW + Duration::from_millis(1_000) });
        assert_eq!(due(0.5), Outcome::Retrying { due: NOW + Duration::from_millis(750) });
        let Outcome::Dead(reason) = settings().judge(broken, 3, well, NOW, 0.0) else {
            panic!("three attempts are all")
        };
        assert_eq!(reason, "given up after 3 attempts: no route");
    }

    /// An API that was away for a minute used its keys up one by one: each probe of the breaker was an attempt of the key
    /// it was made for, and after three of them the key had failed.
    #[test]
    fn qu_34_an_outage_uses_up_no_attempt() {
        let broken = |away| Answer::<()>::Broken { reason: "no answer".to_owned(), retry: false, away };
        let judged = |away, attempt, out, failures| {
            let outcome = settings().judge(broken(away), attempt, Health { out, failures }, NOW, 0.0);
            matches!(outcome, Outcome::Excused { .. })
        };
        for (away, attempt, out, failures, excused) in [
            // The breaker is open: whatever came of its probe.
            (false, 3, true, 5, true),
            (true, 9, true, 5, true),
            // Nobody has been answered since the key's first attempt.
            (true, 3, false, 3, true),
            (true, 1, false, 1, true),
            // Others were: it is the key.
            (true, 3, false, 2, false),
            (true, 3, false, 0, false),
            // The API answered, and said that it failed on this key.
            (false, 3, false, 3, false),
        ] {
            assert_eq!(judged(away, attempt, out, failures), excused, "{away} {attempt} {out} {failures}");
        }
        let throttled = Answer::<()>::Throttled { retry_after: None };
        let out = Health { out: true, failures: 9 };
        assert!(matches!(settings().judge(throttled, 3, out, NOW, 0.0), Outcome::Dead(_)));
    }

    #[test]
    fn qu_31_what_a_worker_returns_comes_back_when_it_says_until_its_attempts_are_used_up() {
        let returned = |ms: Option<u64>| Answer::<()>::Returned {
            reason: "no disk".to_owned(),
            retry_after: ms.map(Duration::from_millis),
        };
        let judged = |ms, attempt| settings().judge(returned(ms), attempt, Health::default(), NOW, 0.0);
        assert_eq!(judged(None, 1), Outcome::Retrying { due: NOW + Duration::from_millis(500) });
        assert_eq!(judged(Some(0), 2), Outcome::Retrying { due: NOW });
        assert_eq!(judged(Some(90_000), 2), Outcome::Retrying { due: NOW + Duration::from_secs(90) });
        assert_eq!(judged(Some(0), 3), Outcome::Dead("given up after 3 attempts: no disk".to_owned()));
        assert_eq!(returned(None).signal(), Signal::NotMade, "it is no sign of anything that others share");
    }

    #[test]
    fn reasons_are_cut_at_a_character() {
        assert_eq!(&*bounded("short".to_owned()), "short");
        let long = bounded("é".repeat(400));
        assert!(long.len() <= REASON_MAX_BYTES && long.chars().all(|character| character == 'é'));
        assert_eq!(bounded(format!("x{}", "é".repeat(400))).len(), 511);
    }
}
