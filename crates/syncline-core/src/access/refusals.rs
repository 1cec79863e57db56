//! Refusals on their way to the audit: gathered, sampled, bounded.
//!
//! Whoever is refused a thousand times a second must neither fill the audit nor slow the node. Refusals that are alike become
//! one with a count; as many kinds are remembered as there is room for; a batch leaves at the pace of an allowance. What
//! finds no room is counted, so nobody takes the audit for complete when it is not.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

use super::rate::{Allowance, Rate};
use crate::time::Timestamp;

/// Most kinds of refusals that wait to be written.
pub const REFUSAL_KINDS_MAX: usize = 512;

/// Most rows that refusals get in a minute, and at once.
pub const REFUSAL_ROWS_PER_MINUTE: u32 = 30;

/// Refusals that wait to be written.
#[derive(Debug)]
pub struct Refusals<K> {
    /// Each kind with the place at which it came and how many there were.
    waiting: HashMap<K, (u64, u64)>,
    arrived: u64,
    dropped: u64,
    rows: Allowance,
    rate: Rate,
}

impl<K> Default for Refusals<K> {
    fn default() -> Self {
        let rate = Rate::new(REFUSAL_ROWS_PER_MINUTE, Duration::from_secs(60), 2 * REFUSAL_ROWS_PER_MINUTE);
        Refusals { waiting: HashMap::new(), arrived: 0, dropped: 0, rows: Allowance::default(), rate }
    }
}

impl<K: Eq + Hash + Clone> Refusals<K> {
    /// Notes one. Says whether there was room.
    pub fn note(&mut self, kind: K) -> bool {
        let full = self.waiting.len() >= REFUSAL_KINDS_MAX;
        if full && !self.waiting.contains_key(&kind) {
            self.dropped += 1;
            return false;
        }
        self.arrived += 1;
        let arrived = self.arrived;
        self.waiting.entry(kind).or_insert((arrived, 0)).1 += 1;
        true
    }

    /// What may be written now: each kind with its count, those that came first before others.
    pub fn take(&mut self, now: Timestamp) -> Vec<(K, u64)> {
        let mut kinds: Vec<(u64, K)> =
            self.waiting.iter().map(|(kind, (arrived, _))| (*arrived, kind.clone())).collect();
        kinds.sort_by_key(|(arrived, _)| *arrived);
        let mut taken = Vec::new();
        for (_, kind) in kinds {
            if self.rows.take(now, self.rate, 1).is_err() {
                break;
            }
            if let Some((_, count)) = self.waiting.remove(&kind) {
                taken.push((kind, count));
            }
        }
        taken
    }

    /// Puts back what could not be written, as far as there is room.
    pub fn put_back(&mut self, taken: Vec<(K, u64)>) {
        for (kind, count) in taken {
            if self.waiting.len() >= REFUSAL_KINDS_MAX && !self.waiting.contains_key(&kind) {
                self.dropped += count;
                continue;
            }
            self.waiting.entry(kind).or_insert((0, 0)).1 += count;
        }
    }

    /// How many found no room since the last time somebody asked.
    pub fn take_dropped(&mut self) -> u64 {
        std::mem::take(&mut self.dropped)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ac_13_refusals_alike_are_one_row_with_a_count() {
        let mut refusals = Refusals::default();
        for _ in 0..1_000 {
            assert!(refusals.note("a"));
        }
        assert!(refusals.note("b"));
        assert_eq!(refusals.take(Timestamp::ZERO), [("a", 1_000), ("b", 1)]);
        assert_eq!(refusals.take(Timestamp::ZERO), []);
    }

    #[test]
    fn ac_13_what_finds_no_room_is_counted() {
        let mut refusals = Refusals::default();
        for kind in 0..REFUSAL_KINDS_MAX + 10 {
            assert_eq!(refusals.note(kind), kind < REFUSAL_KINDS_MAX);
        }
        assert!(refusals.note(0), "a kind that is known needs no room");
        assert_eq!((refusals.take_dropped(), refusals.take_dropped()), (10, 0));
    }

    proptest! {
        /// Every refusal is in exactly one row, or counted as dropped, or waits; and the rows keep their pace.
        #[test]
        fn ac_13_no_refusal_is_lost_or_doubled_and_rows_keep_their_pace(
            steps in prop::collection::vec((0_u16..2_000, 1_u8..20, 0_u64..90_000, any::<bool>()), 1..60),
        ) {
            let mut refusals = Refusals::default();
            let (mut noted, mut written, mut dropped, mut rows, mut now_ms) = (0_u64, 0, 0, 0_u64, 0);
            for (kind, times, pause_ms, fails) in steps {
                for one in 0..u16::from(times) * 8 {
                    refusals.note((kind + one) % 1_500);
                    noted += 1;
                }
                now_ms += pause_ms;
                let taken = refusals.take(Timestamp::from_ms(now_ms));
                rows += taken.len() as u64;
                if fails {
                    refusals.put_back(taken);
                } else {
                    written += taken.iter().map(|(_, count)| count).sum::<u64>();
                }
                dropped += refusals.take_dropped();
                prop_assert!(refusals.waiting.len() <= REFUSAL_KINDS_MAX);
            }
            let waiting: u64 = refusals.waiting.values().map(|(_, count)| count).sum();
            prop_assert_eq!(noted, written + dropped + waiting);
            prop_assert!(rows <= u64::from(REFUSAL_ROWS_PER_MINUTE) * (2 + now_ms.div_ceil(60_000)), "{}", rows);
        }
    }
}
