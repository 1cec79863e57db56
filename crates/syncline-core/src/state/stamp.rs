//! Hybrid logical clock: stamps that follow the time of day where they can and causality always.
//!
//! A stamp is later than every stamp its maker had seen, and of two stamps one is always the later: first by era, then by time,
//! then by count, then by maker. Stamps are compared and advanced, and never rewritten. Whoever has met a stamp makes later ones, so
//! clocks that are years apart still count changes in the order in which they were made.
//!
//! - Everybody believes what is met: a clock that is ten years ahead takes all others along.
//! - A clock that a node confirmed, and that has met a stamp from more than [`AHEAD_MAX`] ahead of it, opens the next era: later than
//!   all that was met, and the time of day counts again.
//! - A clock whose stamps were overtaken by an era of an earlier time is the one that was wrong. It counts on from what it meets
//!   until a node confirms it.
//!
//! A space has [`ERAS`] of them. When they are used up, a node cuts back to its own time what is from ahead, so that nobody can make
//! a stamp that is the last one.

use std::time::Duration;

use super::names::AHEAD_MAX;
use crate::time::Timestamp;

/// When something was written, and by whom. Ordered; the text form is ordered in the same way.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stamp {
    /// The era, and the time of day in ms in the lower [`MS_BITS`].
    ms: u64,
    /// Tells stamps of one millisecond apart.
    count: u16,
    /// Tells makers apart.
    maker: u32,
}

/// Until the year 2248; all 48 bits have room for 32 eras.
const MS_BITS: u32 = 43;
const MS_MASK: u64 = (1 << MS_BITS) - 1;
const BITS_MAX: u64 = (1 << 48) - 1;
/// The latest time of day that is believed of any clock: well before the end of its era, so that there is room to count on.
const WALL_MAX: u64 = 3 << (MS_BITS - 2);
/// How many eras a space has; the rest of the bits is for those who count beyond the last one.
pub(super) const ERAS: u64 = 31;
/// In the order of ASCII, so that texts compare as the stamps do.
const ALPHABET: &[u8; 64] = b"-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz";

impl Stamp {
    /// Earlier than everything.
    pub const ZERO: Self = Self { ms: 0, count: 0, maker: 0 };

    /// Length of the text form.
    pub const TEXT_LEN: usize = 16;

    /// The time of day in it.
    #[must_use]
    pub const fn wall(self) -> Timestamp {
        Timestamp::from_ms(self.ms & MS_MASK)
    }

    const fn era(self) -> u64 {
        self.ms >> MS_BITS
    }

    /// The first stamp of a moment.
    #[must_use]
    pub fn of(era: u64, wall: Timestamp) -> Self {
        Self { ms: era << MS_BITS | wall.as_ms().min(WALL_MAX), count: 0, maker: 0 }
    }

    /// The first stamp of a moment in the era of this one.
    #[must_use]
    pub fn at(self, wall: Timestamp) -> Self {
        Self::of(self.era(), wall)
    }

    /// The first stamp after this one: whoever derives it makes the same one.
    #[must_use]
    pub const fn next(self) -> Self {
        if self.count < u16::MAX {
            Self { ms: self.ms, count: self.count + 1, maker: 0 }
        } else {
            Self { ms: if self.ms < BITS_MAX { self.ms + 1 } else { BITS_MAX }, count: 0, maker: 0 }
        }
    }

    /// The stamp for a change that somebody without a clock made about now to something stamped `self`.
    #[must_use]
    pub fn after(self, wall: Timestamp) -> Self {
        self.next().max(self.at(wall))
    }

    /// Sixteen characters.
    #[must_use]
    pub fn text(self) -> String {
        let bits = u128::from(self.ms) << 48 | u128::from(self.count) << 32 | u128::from(self.maker);
        let digit =
            |place: usize| ALPHABET[(bits >> (6 * (Self::TEXT_LEN - 1 - place))) as usize & 63] as char;
        (0..Self::TEXT_LEN).map(digit).collect()
    }

    /// Reads what [`text`](Self::text) wrote.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        if text.len() != Self::TEXT_LEN {
            return None;
        }
        let mut bits = 0_u128;
        for byte in text.bytes() {
            let digit = ALPHABET.binary_search(&byte).ok()?;
            bits = bits << 6 | digit as u128;
        }
        Some(Self { ms: (bits >> 48) as u64, count: (bits >> 32) as u16, maker: bits as u32 })
    }

    fn is_ahead(self, wall: Timestamp, ahead_max: Duration) -> bool {
        self.wall() > wall + ahead_max
    }
}

/// Makes stamps.
#[derive(Debug, Clone)]
pub struct Clock {
    latest: Stamp,
    maker: u32,
    /// A node has confirmed the time of day; how far ahead of it a stamp may be, by the node's time.
    confirmed: Option<Duration>,
    /// The last stamp that was made from the time of day.
    made: Stamp,
    /// The time of day is known to be wrong.
    overtaken: bool,
}

impl Clock {
    /// A clock whose stamps differ from those of every other `maker`, which is best drawn at random.
    #[must_use]
    pub const fn new(maker: u32) -> Self {
        Self { latest: Stamp::ZERO, maker, confirmed: None, made: Stamp::ZERO, overtaken: false }
    }

    /// A stamp later than all that this clock made or met.
    pub fn tick(&mut self, wall: Timestamp) -> Stamp {
        let latest = self.latest;
        let ahead = self.confirmed.is_some_and(|ahead_max| latest.is_ahead(wall, ahead_max));
        let era = latest.era() + u64::from(ahead && latest.era() + 1 < ERAS);
        let present = Stamp { maker: self.maker, ..Stamp::of(era, wall) };
        if present.ms > latest.ms && !self.overtaken {
            (self.latest, self.made) = (present, present);
        } else {
            self.latest = Stamp { maker: self.maker, ..latest.next() };
        }
        self.latest
    }

    /// Takes note of a stamp from outside.
    pub fn meet(&mut self, stamp: Stamp) {
        let earlier = self.made.is_ahead(stamp.wall(), AHEAD_MAX);
        self.overtaken |= self.confirmed.is_none() && earlier && stamp.era() > self.made.era();
        self.latest = self.latest.max(stamp);
    }

    /// A node says what time it is, which is near `wall`.
    pub fn confirm(&mut self, node: Timestamp, wall: Timestamp) {
        // Counted from this clock, so that it is the node's time that counts.
        self.confirmed = Some((node + AHEAD_MAX).saturating_since(wall));
        self.overtaken = false;
    }

    /// The time of day was set, or is off: nobody confirms it any more.
    pub fn unsettle(&mut self) {
        (self.confirmed, self.made, self.overtaken) = (None, Stamp::ZERO, false);
    }

    /// The latest stamp that was made or met.
    #[must_use]
    pub const fn latest(&self) -> Stamp {
        self.latest
    }
}

/// Whether a stamp is from too far ahead for a node, which cuts it back where there is no later era.
pub(super) fn check_ahead(stamp: &mut Stamp, wall: Timestamp) -> bool {
    let last = stamp.era() + 1 >= ERAS;
    let ahead = stamp.is_ahead(wall, AHEAD_MAX) || stamp.era() >= ERAS;
    if ahead && last {
        *stamp = Stamp { ms: Stamp::of(ERAS - 1, wall).ms, ..*stamp };
    }
    ahead
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NOON: Timestamp = Timestamp::from_ms(1_730_000_000_000);
    const YEARS: Duration = Duration::from_secs(10 * 365 * 24 * 3_600);

    proptest! {
        #[test]
        fn st_23_texts_order_as_stamps_do(one in any::<(u64, u16, u32)>(), other in any::<(u64, u16, u32)>()) {
            let stamp = |(ms, count, maker): (u64, u16, u32)| Stamp { ms: ms & BITS_MAX, count, maker };
            let (one, other) = (stamp(one), stamp(other));
            prop_assert_eq!(Stamp::read(&one.text()), Some(one));
            prop_assert_eq!(one.cmp(&other), one.text().cmp(&other.text()));
            prop_assert!(one < one.next() || one.ms == BITS_MAX);
        }

        /// Any number of clocks that are off by anything, set at any time, confirmed or not.
        #[test]
        fn st_34_a_tick_is_later_than_all_that_was_made_or_met(
            steps in prop::collection::vec((0_usize..4, any::<u64>(), 0_u8..8), 1..200),
        ) {
            let mut clocks = [1, 2, 3, 4].map(Clock::new);
            let mut latest = Stamp::ZERO;
            for (at, wall, what) in steps {
                let wall = Timestamp::from_ms(wall >> (what * 3));
                match what {
                    0 => clocks[at].unsettle(),
                    1 => clocks[at].confirm(wall, wall),
                    _ => {}
                }
                clocks[at].meet(latest);
                let made = clocks[at].tick(wall);
                prop_assert!(made > latest);
                latest = made;
            }
        }
    }

    #[test]
    fn st_23_a_tick_is_later_than_all_that_was_met_however_many_a_millisecond_has() {
        let (mut one, mut other) = (Clock::new(1), Clock::new(2));
        let mut latest = Stamp::ZERO;
        for back_ms in [0, 1_000, 200_000, 5] {
            let wall = Timestamp::from_ms(NOON.as_ms() - back_ms);
            for _ in 0..70_000 {
                let stamp = one.tick(wall);
                assert!(stamp > latest);
                other.meet(stamp);
                latest = stamp;
            }
            let stamp = other.tick(wall);
            assert!(stamp > latest);
            one.meet(stamp);
            latest = stamp;
        }
    }

    #[test]
    fn st_34_a_clock_that_was_years_ahead_does_not_win_for_ever() {
        let (mut bad, mut good) = (Clock::new(1), Clock::new(2));
        let ahead = bad.tick(NOON + YEARS);
        good.meet(ahead);
        let counted = good.tick(NOON);
        assert!(counted > ahead && counted.wall() == ahead.wall(), "taken along");
        good.confirm(NOON, NOON);
        let next = good.tick(NOON);
        assert!(next > counted && next.wall() == NOON, "the time of day counts again: {next:?}");
        // The one that was wrong takes nobody along a second time.
        bad.meet(next);
        let followed = bad.tick(NOON + YEARS);
        assert!(followed > next && followed.wall() == NOON, "{followed:?}");
        good.meet(followed);
        assert_eq!(good.tick(NOON + Duration::from_secs(1)).era(), next.era());
        // Until a node confirms it, in the time that it has been set to.
        bad.confirm(NOON, NOON);
        let later = NOON + Duration::from_secs(2);
        assert_eq!((bad.tick(later).wall(), bad.tick(later).era()), (later, next.era()));
    }

    #[test]
    fn st_34_a_few_minutes_are_no_reason_for_an_era_by_the_nodes_time() {
        let minutes = |minutes: u64| Duration::from_secs(60 * minutes);
        let ahead = Clock::new(1).tick(NOON + minutes(4));
        let mut behind = Clock::new(2);
        behind.confirm(NOON, NOON.saturating_before(minutes(4)));
        behind.meet(ahead);
        let next = behind.tick(NOON.saturating_before(minutes(4)));
        assert_eq!((next.era(), next.wall()), (0, ahead.wall()));
        behind.meet(Clock::new(3).tick(NOON + minutes(6)));
        assert_eq!(behind.tick(NOON.saturating_before(minutes(4))).era(), 1);
    }

    #[test]
    fn st_34_nobody_can_make_the_last_stamp_there_is() {
        let mut good = Clock::new(1);
        good.confirm(NOON, NOON);
        for ms in [BITS_MAX, ERAS << MS_BITS, (ERAS - 1) << MS_BITS | MS_MASK] {
            let mut last = Stamp { ms, count: u16::MAX, maker: u32::MAX };
            assert!(check_ahead(&mut last, NOON));
            good.meet(last);
            assert!(good.tick(NOON) > last);
            assert!(good.tick(Timestamp::from_ms(u64::MAX)).era() < ERAS);
        }
        let mut early = Stamp::of(3, NOON + YEARS);
        assert!(check_ahead(&mut early, NOON));
        assert_eq!(early, Stamp::of(3, NOON + YEARS), "before the last era nothing is cut back");
    }

    #[test]
    fn st_26_texts_that_are_no_stamps_are_refused() {
        for text in ["", "short", "----------------x", "---------------!", "日本語日本語"] {
            assert_eq!(Stamp::read(text), None, "{text}");
        }
    }
}
