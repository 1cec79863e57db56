//! What a call came back with, and what follows from it.
//!
//! An [`Answer`] is what the caller saw. Two questions are asked of it: what it says about the API as a whole
//! ([`Answer::signal`], for the pace) and what becomes of the key ([`Settings::judge`]).

use std::time::Duration;

use super::Settings;
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
            Self::NotMade => Signal::NotMade,
        }
    }
}

impl Settings {
    /// What becomes of a key whose run number `attempt` (counted from 1) ended with `answer` at `now`.
    ///
    /// `random` is a fresh number from 0 to 1.
    #[must_use]
    pub fn judge<R>(&self, answer: Answer<R>, attempt: u32, now: Timestamp, random: f64) -> Outcome<R> {
        let reason = match answer {
            Answer::Done(result) => return Outcome::Done(result),
            Answer::NotMade => return Outcome::Waiting,
            Answer::Refused { reason } | Answer::Broken { reason, retry: false } => {
                return Outcome::Failed(reason);
            }
            Answer::Throttled { .. } => "too many requests".to_owned(),
            Answer::Broken { reason, retry: true } => reason,
        };
        match self.delay(attempt, random) {
            Some(delay) => Outcome::Retrying { due: now + delay },
            None => Outcome::Dead(format!("given up after {attempt} attempts: {reason}")),
        }
    }
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
            assert_eq!(settings().judge(throttled.clone(), 1, NOW, random), Outcome::Retrying { due });
        }
    }

    #[test]
    fn qu_04_other_failures_end_with_an_empty_result_and_its_reason() {
        let broken = Answer::<()>::Broken { reason: "500".to_owned(), retry: false };
        assert_eq!(settings().judge(broken, 1, NOW, 0.0), Outcome::Failed("500".to_owned()));
        let refused = Answer::<()>::Refused { reason: "not XML".to_owned() };
        assert_eq!(settings().judge(refused, 1, NOW, 0.0), Outcome::Failed("not XML".to_owned()));
    }

    #[test]
    fn qu_22_delays_grow_have_jitter_and_end_on_the_dead_list() {
        let broken = Answer::<()>::Broken { reason: "no route".to_owned(), retry: true };
        let due = |random| settings().judge(broken.clone(), 2, NOW, random);
        assert_eq!(due(0.0), Outcome::Retrying { due: NOW + Duration::from_millis(1_000) });
        assert_eq!(due(0.5), Outcome::Retrying { due: NOW + Duration::from_millis(750) });
        let Outcome::Dead(reason) = settings().judge(broken, 3, NOW, 0.0) else {
            panic!("three attempts are all")
        };
        assert_eq!(reason, "given up after 3 attempts: no route");
    }

    #[test]
    fn reasons_are_cut_at_a_character() {
        assert_eq!(&*bounded("short".to_owned()), "short");
        let long = bounded("é".repeat(400));
        assert!(long.len() <= REASON_MAX_BYTES && long.chars().all(|character| character == 'é'));
        assert_eq!(bounded(format!("x{}", "é".repeat(400))).len(), 511);
    }
}
