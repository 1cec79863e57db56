//! How long to leave a receiver alone that is down, and how much to ask of it at once.
//!
//! One for each worker and receiver. A receiver that is down is asked again after pauses that grow; one that cannot take
//! large requests is asked for less, and for more again while all goes well.

use std::time::Duration;

use super::{RETRY_AFTER_MAX, ReceiverState};
use crate::retry::Policy;

/// Pauses while a receiver is down: never long, because nothing else tells that it is back.
pub const PAUSE: Policy = Policy {
    initial_delay: Duration::from_millis(500),
    max_delay: Duration::from_secs(30),
    multiplier: 2.0,
    max_attempts: u32::MAX,
    jitter: 0.5,
};

/// What is known of a receiver.
#[derive(Debug, Clone)]
pub struct Health {
    pause: Policy,
    /// Batches in a row that found it down.
    failures: u32,
    batch: usize,
    batch_max: usize,
}

impl Health {
    /// A receiver that nothing is known of, which may be sent `batch_max` entries at once.
    #[must_use]
    pub fn new(pause: Policy, batch_max: usize) -> Self {
        let batch_max = batch_max.max(1);
        Self { pause, failures: 0, batch: batch_max, batch_max }
    }

    /// Takes note of what a batch showed; the pause to make before the next one. `random` is a fresh number from 0 to 1.
    pub fn observe(&mut self, receiver: &ReceiverState, random: f64) -> Duration {
        match receiver {
            ReceiverState::Up { too_large } => {
                self.failures = 0;
                self.batch =
                    if *too_large { (self.batch / 2).max(1) } else { self.batch_max.min(self.batch * 2) };
                Duration::ZERO
            }
            ReceiverState::Down { retry_after, .. } => {
                self.failures = self.failures.saturating_add(1);
                let pause = self.pause.delay(self.failures, random).unwrap_or(self.pause.max_delay);
                pause.max(retry_after.unwrap_or_default().min(RETRY_AFTER_MAX))
            }
        }
    }

    /// How many entries to send at once.
    #[must_use]
    pub fn batch(&self) -> usize {
        // One that is down is asked with little until it answers.
        if self.failures > 0 { self.batch.min(PROBE) } else { self.batch }
    }

    /// Lets the batch be this large from now on.
    pub fn set_batch_max(&mut self, batch_max: usize) {
        self.batch_max = batch_max.max(1);
        self.batch = self.batch.min(self.batch_max);
    }

    /// Whether the last batch found it down.
    #[must_use]
    pub fn is_down(&self) -> bool {
        self.failures > 0
    }
}

/// Entries that a receiver is asked with while it is down.
const PROBE: usize = 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ss_23_pauses_grow_to_a_bound_and_end_with_the_first_answer() {
        let mut health = Health::new(PAUSE, 100);
        let down = ReceiverState::Down { reason: String::new(), retry_after: None };
        let pauses: Vec<u128> = (0..8).map(|_| health.observe(&down, 0.0).as_millis()).collect();
        assert_eq!(pauses, [500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000]);
        assert!(health.is_down() && health.batch() == PROBE);
        assert_eq!(health.observe(&ReceiverState::Up { too_large: false }, 0.0), Duration::ZERO);
        assert!(!health.is_down() && health.batch() == 100);
        assert_eq!(health.observe(&down, 0.0).as_millis(), 500);
    }

    #[test]
    fn ss_23_retry_after_lengthens_a_pause_up_to_an_hour() {
        let mut health = Health::new(PAUSE, 100);
        let down =
            |s| ReceiverState::Down { reason: String::new(), retry_after: Some(Duration::from_secs(s)) };
        assert_eq!(health.observe(&down(90), 0.0).as_secs(), 90);
        assert_eq!(health.observe(&down(u64::MAX), 0.0), RETRY_AFTER_MAX);
    }

    #[test]
    fn ss_21_a_receiver_that_cannot_take_much_is_sent_less_and_more_again() {
        let mut health = Health::new(PAUSE, 100);
        let sizes: Vec<usize> = [true, true, true, false, false, false, false]
            .map(|too_large| {
                health.observe(&ReceiverState::Up { too_large }, 0.0);
                health.batch()
            })
            .to_vec();
        assert_eq!(sizes, [50, 25, 12, 24, 48, 96, 100]);
        health.set_batch_max(10);
        assert_eq!(health.batch(), 10);
    }
}
