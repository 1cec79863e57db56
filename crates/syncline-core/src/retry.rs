//! How long to wait after a failure, and when to give up: one policy for everything that retries.
//!
//! The delay grows by a factor up to a cap and is then shortened by chance, so that many who failed together do
//! not return together. Shortened, never lengthened: `max_delay` is a promise. Waiting, drawing the random
//! number and knowing which failures are worth another attempt are the caller's.
//!
//! [`Policy`] is what somebody configures. [`doubled`] is the same curve with a factor of two in whole numbers, for modules
//! that pages load: computing with fractions would be a good part of them.

use std::time::Duration;

use crate::time::whole_ms;

/// A budget of attempts and the pauses between them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Policy {
    /// Pause after the first failure, before jitter.
    pub initial_delay: Duration,
    /// No pause is longer than this.
    pub max_delay: Duration,
    /// Each pause is this many times the one before; below 1 counts as 1.
    pub multiplier: f64,
    /// Attempts in all, the first included.
    pub max_attempts: u32,
    /// Share of each pause that chance may take away, from 0 (none) to 1 (all of it).
    pub jitter: f64,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            initial_delay: Duration::from_secs(1),
            max_delay: Duration::from_secs(30),
            multiplier: 2.0,
            max_attempts: 3,
            jitter: 0.5,
        }
    }
}

impl Policy {
    /// The pause after attempt number `attempt` (counted from 1) has failed, or `None` when that was the last.
    ///
    /// `random` is a fresh number from 0 to 1. Numbers out of range, not-a-number included, are taken as the
    /// nearest sensible one: a bad draw must not end the retries.
    #[must_use]
    pub fn delay(&self, attempt: u32, random: f64) -> Option<Duration> {
        if attempt >= self.max_attempts {
            return None;
        }
        let growth = self.multiplier.max(1.0).powf(f64::from(attempt.saturating_sub(1)));
        let grown = (self.initial_delay.as_secs_f64() * growth).min(self.max_delay.as_secs_f64());
        let kept = 1.0 - unit(self.jitter) * unit(random);
        Some(Duration::try_from_secs_f64(grown * kept).unwrap_or(self.max_delay).min(self.max_delay))
    }
}

/// The pause after `failures` failures in a row: `initial` after the first, twice as long after each further one, at most
/// `max`. Chance takes away up to half of it: none where `random` is 0, almost half where it is `u32::MAX`.
#[must_use]
pub fn doubled(initial: Duration, max: Duration, failures: u32, random: u32) -> Duration {
    let pause = initial.saturating_mul(1 << failures.saturating_sub(1).min(31)).min(max);
    let sooner_ms = (whole_ms(pause) / 2).saturating_mul(u64::from(random)) >> 32;
    pause.saturating_sub(Duration::from_millis(sooner_ms))
}

/// `share` brought into 0..=1; not-a-number becomes 0.
fn unit(share: f64) -> f64 {
    if share.is_nan() { 0.0 } else { share.clamp(0.0, 1.0) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const STEADY: Policy = Policy {
        initial_delay: Duration::from_millis(100),
        max_delay: Duration::from_millis(1_000),
        multiplier: 3.0,
        max_attempts: 6,
        jitter: 0.0,
    };

    #[test]
    fn delays_grow_to_the_cap_and_end_with_the_budget() {
        let delays: Vec<_> = (1..=6).map(|attempt| STEADY.delay(attempt, 0.7)).collect();
        let ms = |ms| Some(Duration::from_millis(ms));
        assert_eq!(delays, [ms(100), ms(300), ms(900), ms(1_000), ms(1_000), None]);
    }

    #[test]
    fn a_single_attempt_is_never_repeated() {
        let once = Policy { max_attempts: 1, ..STEADY };
        assert_eq!(once.delay(1, 0.0), None);
        assert_eq!(Policy { max_attempts: 0, ..STEADY }.delay(1, 0.0), None);
    }

    #[test]
    fn jitter_takes_away_up_to_its_share() {
        let half = Policy { jitter: 0.5, ..STEADY };
        assert_eq!(half.delay(1, 0.0), Some(Duration::from_millis(100)));
        assert_eq!(half.delay(1, 1.0), Some(Duration::from_millis(50)));
    }

    #[test]
    fn doubled_pauses_grow_to_the_longest_and_chance_takes_half_at_most() {
        let (initial, max) = (Duration::from_secs(1), Duration::from_secs(60));
        let pauses =
            [0, 1, 2, 3, 6, 7, 8, u32::MAX].map(|failures| doubled(initial, max, failures, 0).as_secs());
        assert_eq!(pauses, [1, 1, 2, 4, 32, 60, 60, 60]);
        let ms = |random| doubled(initial, max, 2, random).as_millis();
        assert_eq!((ms(0), ms(1 << 31), ms(u32::MAX)), (2_000, 1_500, 1_001));
        assert_eq!(doubled(Duration::MAX, Duration::MAX, 9, 0), Duration::MAX);
    }

    proptest! {
        #[test]
        fn whatever_the_numbers_the_cap_and_the_budget_hold(
            initial_ms in 0..u64::MAX, max_ms in 0..u64::MAX, multiplier in any::<f64>(),
            max_attempts in 0..1_000_u32, jitter in any::<f64>(), attempt in 0..2_000_u32, random in any::<f64>(),
        ) {
            let policy = Policy {
                initial_delay: Duration::from_millis(initial_ms),
                max_delay: Duration::from_millis(max_ms),
                multiplier,
                max_attempts,
                jitter,
            };
            match policy.delay(attempt, random) {
                Some(delay) => prop_assert!(delay <= policy.max_delay && attempt < max_attempts),
                None => prop_assert!(attempt >= max_attempts),
            }
        }
    }
}
