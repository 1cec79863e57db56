//! What becomes of an entry after it was sent, or could not be.

use std::time::Duration;

use crate::retry::Policy;

/// How entries are tried again unless configured otherwise: ten attempts within about two hours.
pub const POLICY: Policy = Policy {
    initial_delay: Duration::from_secs(1),
    max_delay: Duration::from_secs(3_600),
    multiplier: 3.0,
    max_attempts: 10,
    jitter: 0.5,
};

/// A receiver that asks to be left alone for longer than this is asked again after this.
pub const RETRY_AFTER_MAX: Duration = Duration::from_secs(3_600);

/// An entry whose failure is not counted is tried again after this at the latest, so that it leaves soon after the receiver is
/// well again, however often it had failed before.
pub const POSTPONE_MAX: Duration = Duration::from_secs(60);

/// What becomes of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The receiver has it.
    Done,
    /// It failed and is tried again.
    Retry {
        /// After this.
        after: Duration,
        /// Why it failed.
        reason: String,
    },
    /// It failed, and nothing says that this was its own fault: it is tried again, and no attempt is counted.
    Postpone {
        /// After this.
        after: Duration,
        /// Why it failed.
        reason: String,
    },
    /// It is given up, until somebody decides otherwise.
    Dead {
        /// Why.
        reason: String,
    },
    /// It was not tried, or not for long enough to say: it is in line again as if it had not been claimed.
    GiveBack,
}

impl Verdict {
    /// What becomes of an entry that failed once more, after `attempts` failures of its own before.
    ///
    /// `own_fault` tells whether the receiver is known to take other entries: only then the failure is counted, and the last
    /// one is the entry's end. `random` is a fresh number from 0 to 1.
    #[must_use]
    pub fn of_failure(
        policy: &Policy,
        attempts: u32,
        reason: String,
        retry_after: Option<Duration>,
        own_fault: bool,
        random: f64,
    ) -> Self {
        let attempt = attempts.saturating_add(1);
        let asked = retry_after.unwrap_or_default().min(RETRY_AFTER_MAX);
        if own_fault {
            return match policy.delay(attempt, random) {
                None => Self::Dead { reason: format!("given up after {attempt} attempts: {reason}") },
                Some(delay) => Self::Retry { after: delay.max(asked), reason },
            };
        }
        // As long as the same failure would take if it were its own, within bounds, and never the end.
        let max_delay = policy.max_delay.min(POSTPONE_MAX);
        let endless = Policy { max_attempts: u32::MAX, max_delay, ..*policy };
        let delay = endless.delay(attempt, random).unwrap_or(max_delay);
        Self::Postpone { after: delay.max(asked), reason }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(attempts: u32, retry_after_s: u64, own_fault: bool) -> Verdict {
        let retry_after = Some(Duration::from_secs(retry_after_s));
        Verdict::of_failure(&POLICY, attempts, "500".to_owned(), retry_after, own_fault, 0.0)
    }

    #[test]
    fn ss_23_the_tenth_failure_is_the_last_one_if_the_receiver_is_known_to_be_well() {
        let retry = |s| Verdict::Retry { after: Duration::from_secs(s), reason: "500".to_owned() };
        assert_eq!(failure(0, 0, true), retry(1));
        assert_eq!(failure(1, 0, true), retry(3));
        assert_eq!(failure(8, 0, true), retry(3_600));
        assert_eq!(
            failure(9, 0, true),
            Verdict::Dead { reason: "given up after 10 attempts: 500".to_owned() }
        );
    }

    #[test]
    fn ss_32_a_failure_that_may_be_the_receivers_is_not_counted_however_often_it_happens() {
        let postpone = |s| Verdict::Postpone { after: Duration::from_secs(s), reason: "500".to_owned() };
        assert_eq!(failure(0, 0, false), postpone(1));
        assert_eq!(failure(0, 120, false), postpone(120));
        assert_eq!(failure(3, 0, false), postpone(27));
        assert_eq!(failure(9, 0, false), postpone(60));
        assert_eq!(failure(u32::MAX, 0, false), postpone(60));
        // One attempt is all there is: an outage is still over after a second.
        let once = Policy { max_attempts: 1, ..POLICY };
        assert_eq!(Verdict::of_failure(&once, 0, "500".to_owned(), None, false, 0.0), postpone(1));
    }

    #[test]
    fn ss_23_retry_after_is_honoured_within_reason() {
        let after = |verdict| match verdict {
            Verdict::Retry { after, .. } => after.as_secs(),
            other => panic!("{other:?}"),
        };
        assert_eq!(after(failure(0, 120, true)), 120);
        assert_eq!(after(failure(0, 999_999, true)), 3_600);
        assert_eq!(after(failure(5, 1, true)), 243, "it never shortens a delay");
    }
}
