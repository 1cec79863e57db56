//! How long to wait before a store is asked again that did not answer: the same for every worker of a node.

use std::time::Duration;

use syncline_core::retry::Policy;

/// The longest pause.
pub(crate) const PAUSE_MAX: Duration = Duration::from_secs(5);

const POLICY: Policy = Policy {
    initial_delay: Duration::from_millis(100),
    max_delay: PAUSE_MAX,
    multiplier: 2.0,
    max_attempts: u32::MAX,
    jitter: 0.5,
};

/// The pause after the store has failed so many times in a row.
pub(crate) fn pause(failures: u32) -> Duration {
    POLICY.delay(failures, rand::random()).unwrap_or(PAUSE_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hs_11_pauses_grow_up_to_the_longest_and_never_end() {
        for _ in 0..100 {
            assert!((50..=100).contains(&pause(1).as_millis()));
            assert!((100..=200).contains(&pause(2).as_millis()));
            assert!((PAUSE_MAX / 2..=PAUSE_MAX).contains(&pause(u32::MAX)));
        }
    }
}
