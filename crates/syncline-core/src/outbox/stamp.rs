//! Which of two changes of one entity is the newer one.
//!
//! Changes of one sender are in the order of their entry ids, whatever its clock did and whichever of its transactions
//! began first. Between senders the time of day decides, and where that is the same the sender's name, so that both ends
//! come to the same answer. A sender that gives no ids has the time of day alone.

use std::time::Duration;

use super::{Moment, SenderId};

/// A moment further ahead of the receiver's clock than this counts as this far ahead: a wrong clock may win now, but not
/// for ever.
pub const AHEAD_MAX: Duration = Duration::from_secs(5 * 60);

/// Where a change comes from and when it was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stamp {
    /// Who sent it; `None` where the sender knows only the plain contract.
    pub sender: Option<SenderId>,
    /// The sender's number of it; 0 where it gave none.
    pub entry: i64,
    /// When it was made, by the sender's clock.
    pub at: Moment,
}

impl Stamp {
    /// Whether a change with this stamp replaces one with the stamp `held`.
    #[must_use]
    pub fn supersedes(&self, held: &Self) -> bool {
        match (&self.sender, &held.sender) {
            // Many clocks count in seconds; of two changes in one, the later arrival is the later change.
            (None, None) => self.at >= held.at,
            (ours, theirs) if ours == theirs => self.entry > held.entry,
            (ours, theirs) => (self.at, ours) > (held.at, theirs),
        }
    }

    /// The stamp as a receiver whose clock shows `now` takes it.
    #[must_use]
    pub fn received(mut self, now: Moment) -> Self {
        self.at = self.at.min(now.plus(AHEAD_MAX));
        self
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn stamp(sender: &str, entry: i64, at: i64) -> Stamp {
        Stamp { sender: SenderId::new(sender).ok(), entry, at: Moment::from_us(at) }
    }

    #[test]
    fn ss_10_the_newer_change_wins() {
        let table = [
            // One sender: its numbers, although its clock was set back.
            (stamp("a", 2, 10), stamp("a", 1, 20), true),
            (stamp("a", 1, 20), stamp("a", 2, 10), false),
            (stamp("a", 1, 20), stamp("a", 1, 20), false),
            // Two senders: their clocks, then their names.
            (stamp("a", 1, 20), stamp("b", 9, 10), true),
            (stamp("b", 9, 10), stamp("a", 1, 20), false),
            (stamp("a", 1, 10), stamp("b", 1, 10), false),
            (stamp("b", 1, 10), stamp("a", 1, 10), true),
            // The plain contract has the clock alone.
            (stamp("", 0, 11), stamp("", 0, 10), true),
            (stamp("", 0, 10), stamp("", 0, 10), true),
            (stamp("", 0, 9), stamp("", 0, 10), false),
            (stamp("", 0, 11), stamp("a", 5, 10), true),
            (stamp("a", 5, 9), stamp("", 0, 10), false),
        ];
        for (new, held, expected) in table {
            assert_eq!(new.supersedes(&held), expected, "{new:?} over {held:?}");
        }
    }

    #[test]
    fn ss_10_a_clock_far_ahead_does_not_win_for_ever() {
        let now = Moment::from_us(1_000_000_000);
        assert_eq!(stamp("a", 1, i64::MAX).received(now).at, now.plus(AHEAD_MAX));
        assert_eq!(stamp("a", 1, 5).received(now).at, Moment::from_us(5));
    }

    proptest! {
        #[test]
        fn ss_10_of_two_changes_one_at_most_replaces_the_other(
            senders in ("[ab]?", "[ab]?"), entries in (0..4_i64, 0..4_i64), at in (0..4_i64, 0..4_i64),
        ) {
            let one = stamp(&senders.0, entries.0, at.0);
            let two = stamp(&senders.1, entries.1, at.1);
            prop_assume!(one.sender.is_some() || two.sender.is_some());
            prop_assert!(!(one.supersedes(&two) && two.supersedes(&one)));
        }
    }
}
