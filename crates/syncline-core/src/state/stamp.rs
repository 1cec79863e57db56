//! Hybrid logical clock: stamps that follow the time of day where they can and causality always.
//!
//! A stamp is later than every stamp its maker had seen, and of two stamps one is always the later: first by time,
//! then by count, then by maker. Whoever has met a stamp makes later ones, so clocks that are years apart still count changes
//! in the order in which they were made. Where a node decides what time it is, a stamp from further ahead than
//! [`AHEAD_MAX`] is cut back to the present when it is met.

use std::time::Duration;

use super::names::{AHEAD_MAX, TRUSTED_AHEAD_MAX};
use crate::time::Timestamp;

/// When something was written, and by whom. Ordered; the text form is ordered in the same way.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stamp {
    /// Time of day in ms, 48 bits of it.
    ms: u64,
    /// Tells stamps of one millisecond apart.
    count: u16,
    /// Tells makers apart.
    maker: u32,
}

const MS_MAX: u64 = (1 << 48) - 1;
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
        Timestamp::from_ms(self.ms)
    }

    /// The first stamp after this one: whoever derives it makes the same one.
    #[must_use]
    pub const fn next(self) -> Self {
        if self.count < u16::MAX {
            Self { ms: self.ms, count: self.count + 1, maker: 0 }
        } else {
            Self { ms: self.ms + 1, count: 0, maker: 0 }
        }
    }

    /// The stamp for a change that somebody without a clock made about now to something stamped `self`.
    #[must_use]
    pub fn after(self, wall: Timestamp) -> Self {
        self.next().max(Self { ms: wall.as_ms().min(MS_MAX), count: 0, maker: 0 })
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
}

/// Makes stamps.
#[derive(Debug, Clone)]
pub struct Clock {
    latest: Stamp,
    maker: u32,
    /// How far ahead of the time of day a stamp may be before it is cut back.
    ahead_max: Duration,
}

impl Clock {
    /// A clock whose stamps differ from those of every other `maker`, which is best drawn at random.
    #[must_use]
    pub const fn new(maker: u32) -> Self {
        Self { latest: Stamp::ZERO, maker, ahead_max: AHEAD_MAX }
    }

    /// For contexts that share a storage and no clock that all would believe: no stamp that a clock can make is cut back.
    #[must_use]
    pub const fn trusting(self) -> Self {
        Self { ahead_max: TRUSTED_AHEAD_MAX, ..self }
    }

    /// A node has been found that knows what time it is.
    pub const fn doubt(&mut self) {
        self.ahead_max = AHEAD_MAX;
    }

    /// A stamp later than all that this clock made or met.
    pub fn tick(&mut self, wall: Timestamp) -> Stamp {
        let ms = wall.as_ms().min(MS_MAX);
        let next = if ms > self.latest.ms { Stamp { ms, count: 0, maker: 0 } } else { self.latest.next() };
        self.latest = Stamp { maker: self.maker, ..next };
        self.latest
    }

    /// Takes note of a stamp from outside and returns it as it counts here: cut back when it is from too far ahead.
    pub fn meet(&mut self, stamp: Stamp, wall: Timestamp) -> Stamp {
        let met = if self.is_ahead(stamp, wall) { Stamp { ms: present(wall), ..stamp } } else { stamp };
        self.latest = self.latest.max(met);
        met
    }

    /// Whether a stamp is from too far ahead.
    #[must_use]
    pub fn is_ahead(&self, stamp: Stamp, wall: Timestamp) -> bool {
        stamp.ms > limit(wall, self.ahead_max)
    }

    /// The latest stamp that was made or met.
    #[must_use]
    pub const fn latest(&self) -> Stamp {
        self.latest
    }

    /// Forgets what was met, after the time of day was set.
    pub fn restart(&mut self) {
        self.latest = Stamp::ZERO;
    }
}

/// Cuts a stamp back that is from too far ahead; whether it was.
pub(super) fn cut_back(stamp: &mut Stamp, wall: Timestamp) -> bool {
    let ahead = is_ahead(*stamp, wall);
    if ahead {
        stamp.ms = present(wall);
    }
    ahead
}

/// Whether a stamp is from too far ahead for a node.
#[must_use]
pub(super) fn is_ahead(stamp: Stamp, wall: Timestamp) -> bool {
    stamp.ms > limit(wall, AHEAD_MAX)
}

fn limit(wall: Timestamp, ahead_max: Duration) -> u64 {
    (wall + ahead_max).as_ms().min(MS_MAX - 1)
}

/// Now and no later: what is cut back must not be ahead for anybody whose clock is a little behind.
fn present(wall: Timestamp) -> u64 {
    wall.as_ms().min(MS_MAX - 1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NOON: Timestamp = Timestamp::from_ms(1_730_000_000_000);

    proptest! {
        #[test]
        fn st_23_texts_order_as_stamps_do(one in any::<(u64, u16, u32)>(), other in any::<(u64, u16, u32)>()) {
            let stamp = |(ms, count, maker): (u64, u16, u32)| Stamp { ms: ms & MS_MAX, count, maker };
            let (one, other) = (stamp(one), stamp(other));
            prop_assert_eq!(Stamp::read(&one.text()), Some(one));
            prop_assert_eq!(one.cmp(&other), one.text().cmp(&other.text()));
            prop_assert!(one < one.next() || one.ms == MS_MAX);
        }
    }

    #[test]
    fn st_23_a_tick_is_later_than_all_that_was_met_whatever_the_clock_says() {
        let (mut one, mut other) = (Clock::new(1), Clock::new(2));
        let mut latest = Stamp::ZERO;
        for back_ms in [0, 1_000, 200_000, 5] {
            let wall = Timestamp::from_ms(NOON.as_ms() - back_ms);
            for _ in 0..70_000 {
                let stamp = one.tick(wall);
                assert!(stamp > latest);
                latest = other.meet(stamp, wall);
            }
            let stamp = other.tick(wall);
            assert!(stamp > latest);
            latest = one.meet(stamp, wall);
        }
    }

    #[test]
    fn st_23_a_clock_that_was_years_ahead_does_not_win_for_ever() {
        let mut good = Clock::new(1);
        let bad = Clock::new(2).tick(NOON + std::time::Duration::from_secs(10 * 365 * 24 * 3_600));
        assert!(is_ahead(bad, NOON));
        let met = good.meet(bad, NOON);
        assert_eq!(met.wall(), NOON);
        assert!(good.tick(NOON) > met);
        let last = Stamp { ms: MS_MAX, count: u16::MAX, maker: u32::MAX };
        let met = good.meet(last, Timestamp::from_ms(u64::MAX));
        assert!(good.tick(Timestamp::from_ms(u64::MAX)) > met, "not even the last stamp there is");
    }

    #[test]
    fn st_34_clocks_years_apart_count_changes_in_the_order_in_which_they_were_made() {
        let years = Duration::from_secs(60 * 365 * 24 * 3_600);
        let walls = [NOON + years, Timestamp::from_ms(0), NOON, NOON + years];
        let mut clocks = [1, 2, 3, 4].map(|maker| Clock::new(maker).trusting());
        let mut latest = Stamp::ZERO;
        for turn in 0..40 {
            let at = turn * 7 % 4;
            assert_eq!(clocks[at].meet(latest, walls[at]), latest, "nothing is cut back");
            let made = clocks[at].tick(walls[at]);
            assert!(made > latest);
            latest = made;
        }
    }

    #[test]
    fn st_26_texts_that_are_no_stamps_are_refused() {
        for text in ["", "short", "----------------x", "---------------!", "日本語日本語"] {
            assert_eq!(Stamp::read(text), None, "{text}");
        }
    }
}
