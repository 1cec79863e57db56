//! Whose fault a failure is: the entry's or the receiver's.
//!
//! A receiver that answers 500 may be down, or may stumble over this one entry. Nothing in the answer tells them apart. What
//! tells is what the receiver does with other entries in the same minutes: a failure is the entry's own fault only if the
//! receiver took something else within the last [`RECENT`], and since the entry failed the last time. So an outage counts one
//! failure of an entry at most, whatever its length, and an entry that fails while others are taken comes to its last attempt.
//!
//! One for each worker and receiver, in memory. A worker that has just started knows nothing and believes the best of each
//! entry: forgetting makes an entry live longer, never shorter.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::time::Timestamp;

/// Most entries whose last failure is remembered. Of more, those with the lowest numbers are forgotten.
pub const REMEMBERED_MAX: usize = 100_000;

/// For how long an entry that was taken shows that the receiver is well. An outage that begins after that counts no failure, and
/// a receiver that comes and goes is known by it: what failed long after the last success was the receiver's fault.
pub const RECENT: Duration = Duration::from_secs(300);

/// What a receiver took, and which entries it failed on.
#[derive(Debug, Clone, Default)]
pub struct Evidence {
    /// How often the receiver has taken something.
    taken: u64,
    /// When it did so last.
    taken_at: Timestamp,
    /// What `taken` was when each entry failed last.
    failed: BTreeMap<i64, u64>,
}

impl Evidence {
    /// The receiver took something.
    pub(super) fn note_taken(&mut self, now: Timestamp) {
        self.taken += 1;
        self.taken_at = now;
    }

    /// The entry `id` failed. Tells whether that was its own fault. `beside` tells whether others were taken in the same batch,
    /// which is all there is to go by where the entry has not failed before.
    pub(super) fn note_failed(&mut self, id: i64, beside: bool, now: Timestamp) -> bool {
        let recent = now.saturating_since(self.taken_at) <= RECENT;
        let before = self.failed.insert(id, self.taken);
        if self.failed.len() > REMEMBERED_MAX {
            self.failed.pop_first();
        }
        before.map_or(beside, |taken| recent && self.taken > taken)
    }

    /// The entry `id` will not be tried again.
    pub(super) fn forget(&mut self, id: i64) {
        self.failed.remove(&id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ss_32_only_what_fails_while_others_are_taken_is_at_fault() {
        let mut evidence = Evidence::default();
        let now = Timestamp::from_ms(1_000);
        assert!(!evidence.note_failed(1, false, now), "nothing is known");
        assert!(!evidence.note_failed(1, false, now), "nothing was taken since");
        evidence.note_taken(now);
        assert!(evidence.note_failed(1, false, now));
        assert!(
            !evidence.note_failed(1, false, now),
            "what was taken before the last failure proves nothing"
        );
        assert!(evidence.note_failed(2, true, now), "others of its batch were taken");
        assert!(!evidence.note_failed(2, true, now), "and the same evidence counts once");
        evidence.forget(1);
        evidence.note_taken(now);
        assert!(!evidence.note_failed(1, false, now));
    }

    /// A receiver that is up for a minute in each hour takes something in that minute. Whatever is due in the rest of the hour
    /// fails, and that is not its fault.
    #[test]
    fn ss_32_what_was_taken_long_ago_proves_nothing() {
        let mut evidence = Evidence::default();
        let taken = Timestamp::from_ms(1_000);
        for (after, at_fault) in [(RECENT, true), (RECENT + Duration::from_millis(1), false)] {
            evidence.note_failed(1, false, taken);
            evidence.note_taken(taken);
            assert_eq!(evidence.note_failed(1, false, taken + after), at_fault);
        }
    }

    #[test]
    fn ss_32_what_is_remembered_is_bounded() {
        let mut evidence = Evidence::default();
        for id in 0..=REMEMBERED_MAX as i64 {
            evidence.note_failed(id, false, Timestamp::ZERO);
        }
        evidence.note_taken(Timestamp::ZERO);
        assert!(!evidence.note_failed(0, false, Timestamp::ZERO), "the first one is forgotten");
        assert!(evidence.note_failed(REMEMBERED_MAX as i64, false, Timestamp::ZERO));
    }
}
