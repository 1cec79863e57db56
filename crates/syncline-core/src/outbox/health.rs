//! How long to leave a receiver alone that is down, and how much to ask of it at once.
//!
//! One for each worker and receiver. A receiver that is down is asked again after pauses that grow; one that cannot take
//! large requests is asked for less, and for more again while all goes well.
//!
//! Doubt is no outage. A receiver that fails on all it is sent may be down, or may have been sent poison alone; so entries that
//! have never failed are sent to it at once, as ever. Only entries that have failed come back more slowly: a few at first, ever
//! more of them after pauses that grow. The first entry that it takes ends the doubt, and all that is due goes out.
//!
//! Poison that has never failed looks like any other entry, and there may be thousands. Around a doubt the sender is therefore
//! wary: it sends many small batches at once, and takes every second one from the newest end. So an entry that has just been
//! written waits for a few others, and one in the midst of poison for a small part of it.

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

/// Pauses between groups of failed entries while the receiver is in doubt. With the growing groups, a thousand entries have
/// been tried again within two minutes, and a receiver that is well again is noticed within ten seconds.
pub const DOUBT_PAUSE: Policy = Policy { max_delay: Duration::from_secs(10), ..PAUSE };

/// Failed entries in the first group that comes back to a receiver in doubt.
const DOUBT_GROUP: usize = 3;

/// So many batches after the last doubt the sender is wary: where there is poison, entries that are taken come between.
const WARY_BATCHES: u32 = 32;
/// Entries that are sent at once by a sender that is wary: one after the other, as a rule.
const WARY_BATCH: usize = 20;
/// Batches that it has under way at a time.
const WARY_SENDS: usize = 16;

/// How long to wait.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pauses {
    /// Before anything is sent.
    pub all: Duration,
    /// Before entries that have failed are sent.
    pub retries: Duration,
}

/// What is known of a receiver.
#[derive(Debug, Clone)]
pub struct Health {
    pause: Policy,
    /// Batches in a row that found it down.
    failures: u32,
    batch: usize,
    batch_max: usize,
    /// Batches in a row of which it took nothing, and did not say why.
    doubts: u32,
    /// For how many more batches the sender is wary.
    wary: u32,
    /// Whether the last claim of a sender that is wary was for the newest entries.
    newest_last: bool,
}

impl Health {
    /// A receiver that nothing is known of, which may be sent `batch_max` entries at once.
    #[must_use]
    pub fn new(pause: Policy, batch_max: usize) -> Self {
        let batch_max = batch_max.max(1);
        Self { pause, failures: 0, batch: batch_max, batch_max, doubts: 0, wary: 0, newest_last: false }
    }

    /// Takes note of what a batch showed; how long to wait before the next one. `random` is a fresh number from 0 to 1.
    pub fn observe(&mut self, receiver: &ReceiverState, random: f64) -> Pauses {
        match receiver {
            ReceiverState::Up { too_large } => {
                (self.failures, self.doubts) = (0, 0);
                self.wary = self.wary.saturating_sub(1);
                self.batch =
                    if *too_large { (self.batch / 2).max(1) } else { self.batch_max.min(self.batch * 2) };
                Pauses::default()
            }
            ReceiverState::Doubtful { .. } => {
                // It answered, at least.
                self.failures = 0;
                self.doubts = self.doubts.saturating_add(1);
                self.wary = WARY_BATCHES;
                let retries = DOUBT_PAUSE.delay(self.doubts, random).unwrap_or(DOUBT_PAUSE.max_delay);
                Pauses { all: Duration::ZERO, retries }
            }
            ReceiverState::Down { retry_after, .. } => {
                self.failures = self.failures.saturating_add(1);
                let pause = self.pause.delay(self.failures, random).unwrap_or(self.pause.max_delay);
                let all = pause.max(retry_after.unwrap_or_default().min(RETRY_AFTER_MAX));
                Pauses { all, retries: all }
            }
        }
    }

    /// How many entries that have failed may be among those that are sent at once.
    #[must_use]
    pub fn retries(&self) -> usize {
        match self.doubts {
            0 => self.batch(),
            doubts => (DOUBT_GROUP << doubts.min(16).saturating_sub(1)).min(self.batch),
        }
    }

    /// How many entries to send at once; more, if more may come back.
    #[must_use]
    pub fn batch(&self) -> usize {
        match (self.failures, self.wary) {
            (0, 0) => self.batch,
            (0, _) => self.batch.min(WARY_BATCH),
            // One that is down is asked with little until it answers.
            _ => self.batch.min(PROBE),
        }
    }

    /// How many batches may be under way at a time, where `usual` may otherwise.
    #[must_use]
    pub fn sends(&self, usual: usize) -> usize {
        match (self.failures, self.wary) {
            (0, 0) => usual,
            (0, _) => usual.max(WARY_SENDS),
            // One that is down is asked by one.
            _ => 1,
        }
    }

    /// Whether the next claim is for the newest entries: every second one while the sender is wary.
    pub fn newest_first(&mut self) -> bool {
        self.newest_last = self.wary > 0 && !self.newest_last;
        self.newest_last
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
        let pauses: Vec<u128> = (0..8).map(|_| health.observe(&down, 0.0).all.as_millis()).collect();
        assert_eq!(pauses, [500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000]);
        assert!(health.is_down() && health.batch() == PROBE);
        assert_eq!(health.observe(&ReceiverState::Up { too_large: false }, 0.0), Pauses::default());
        assert!(!health.is_down() && health.batch() == 100);
        assert_eq!(health.observe(&down, 0.0).all.as_millis(), 500);
    }

    #[test]
    fn ss_23_retry_after_lengthens_a_pause_up_to_an_hour() {
        let mut health = Health::new(PAUSE, 100);
        let down =
            |s| ReceiverState::Down { reason: String::new(), retry_after: Some(Duration::from_secs(s)) };
        assert_eq!(health.observe(&down(90), 0.0).all.as_secs(), 90);
        assert_eq!(health.observe(&down(u64::MAX), 0.0).all, RETRY_AFTER_MAX);
    }

    #[test]
    fn ss_32_doubt_slows_only_what_has_failed_and_ends_with_the_first_entry_taken() {
        let mut health = Health::new(PAUSE, 100);
        assert_eq!(health.retries(), 100);
        let doubtful = ReceiverState::Doubtful { reason: String::new() };
        let seen: Vec<(u128, usize)> = (0..8)
            .map(|_| {
                let pauses = health.observe(&doubtful, 0.0);
                assert_eq!(pauses.all, Duration::ZERO);
                assert_eq!((health.batch(), health.sends(4)), (20, 16), "small batches, and many");
                (pauses.retries.as_millis(), health.retries())
            })
            .collect();
        let expected = [
            (500, 3),
            (1_000, 6),
            (2_000, 12),
            (4_000, 24),
            (8_000, 48),
            (10_000, 96),
            (10_000, 100),
            (10_000, 100),
        ];
        assert_eq!(seen, expected);
        assert!(!health.is_down());
        assert_eq!(health.observe(&ReceiverState::Up { too_large: false }, 0.0), Pauses::default());
        assert_eq!(health.retries(), 20, "the sender is wary for a while");
        let turns: Vec<bool> = (0..4).map(|_| health.newest_first()).collect();
        assert_eq!(turns, [true, false, true, false]);
        for _ in 1..WARY_BATCHES {
            health.observe(&ReceiverState::Up { too_large: false }, 0.0);
        }
        assert_eq!((health.retries(), health.batch(), health.sends(4)), (100, 100, 4));
        assert!(!health.newest_first() && !health.newest_first());
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
