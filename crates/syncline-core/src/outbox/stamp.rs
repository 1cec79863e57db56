//! Which of two changes of one entity is the newer one.
//!
//! Changes of one sender are in the order of their entry ids, whatever its clock did and whichever of its transactions
//! began first. Between senders the time of day decides, and where that is the same the sender's name. A sender that gives no
//! ids has the time of day alone.
//!
//! Both ends compare the same numbers: a time is kept as its sender wrote it, however wrong that clock was, and an edit is made
//! later than what it replaces. So both come to the same answer with clocks that are days apart. A clock that is ahead wins
//! against changes that have not seen its own, and loses against the first one that has.

use super::{Moment, SenderId};

/// No change is later than this, 1 January 9000. What says so is refused: an edit that has to be later still could not be
/// written down.
pub const LATEST: Moment = Moment::constant(221_845_392_000_000_000);

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
    fn ss_33_the_latest_moment_is_the_year_9000() {
        assert_eq!(LATEST.to_string(), "9000-01-01T00:00:00Z");
    }

    /// An edit by a clock that shows `wall`, over `held`: how both engines make it (`PUT` in `sql/inbox.*.sql`).
    fn edit(sender: &str, entry: i64, wall: i64, held: Option<&Stamp>) -> Stamp {
        stamp(sender, entry, held.map_or(wall, |held| wall.max(held.at.as_us() + 1)))
    }

    proptest! {
        /// Two sides edit one entity, in turn and at once, and hear of each other late or twice. Their clocks may be years apart.
        #[test]
        fn ss_33_two_sides_end_alike_however_far_apart_their_clocks_are(
            steps in prop::collection::vec((0..4_u8, 1..1_000_000_i64), 1..80), apart in -1_000_000_000_i64..1_000_000_000,
        ) {
            let clock = |side: usize, now: i64| now + [0, apart][side];
            let mut sides: [Option<Stamp>; 2] = [None, None];
            let mut sent: [Vec<Stamp>; 2] = [Vec::new(), Vec::new()];
            let mut heard = [0, 0];
            let (mut now, mut entry) = (2_000_000_000, 0);
            let hear = |sides: &mut [Option<Stamp>; 2], to: usize, new: &Stamp| {
                if sides[to].as_ref().is_none_or(|held| new.supersedes(held)) {
                    sides[to] = Some(new.clone());
                }
            };
            for (what, later) in steps {
                now += later;
                let (side, edits) = (usize::from(what & 1), what & 2 == 0);
                if edits {
                    entry += 1;
                    let made = edit(["a", "b"][side], entry, clock(side, now), sides[side].as_ref());
                    sent[side].push(made.clone());
                    sides[side] = Some(made);
                } else if let Some(next) = sent[1 - side].get(heard[side]) {
                    hear(&mut sides, side, next);
                    // Every third one comes once more.
                    heard[side] += usize::from(later % 3 != 0);
                }
            }
            for to in [0, 1] {
                for late in &sent[1 - to][heard[to]..] {
                    hear(&mut sides, to, late);
                }
            }
            prop_assert_eq!(&sides[0], &sides[1]);
        }

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
