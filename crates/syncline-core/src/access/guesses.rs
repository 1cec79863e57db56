//! Wrong credentials of one address: answered ever more slowly, and then not looked at for ever longer.
//!
//! Each wrong one is a strike; strikes wear off, one in [`WEARS_OFF`]. The first [`FREE`] cost nothing: people mistype. From
//! there the answer to each is held back, twice as long as the one before, up to [`DELAY_MAX`]. Beyond [`LOOKED_AT`] none is
//! looked at until enough have worn off, and every further try adds to the wait, up to [`LOCKED_MAX`].
//!
//! What cannot be guessed (256 random bits, a signature that was checked before) is no matter of this: whoever shows such a
//! credential need not wait for others behind the same address.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

use crate::time::Timestamp;

/// Wrong ones that are answered at once.
pub const FREE: u32 = 5;
/// Wrong ones that are looked at.
pub const LOOKED_AT: u32 = 30;
/// How long a strike counts.
pub const WEARS_OFF: Duration = Duration::from_secs(2);
/// How long the first answer behind the free ones is held back.
const DELAY_FIRST: Duration = Duration::from_millis(50);
/// How long an answer is held back at most.
pub const DELAY_MAX: Duration = Duration::from_secs(2);
/// How long an address is not looked at, at most.
pub const LOCKED_MAX: Duration = Duration::from_secs(300);
/// Addresses that are remembered: some 4 MB.
pub const GUESSERS_MAX: usize = 65_536;

/// What becomes of a wrong credential.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Struck {
    /// How long its answer is held back.
    pub delay: Duration,
}

/// The strikes of addresses, bounded. Addresses for which there is no room share one place.
#[derive(Debug, Clone)]
pub struct Guesses<K> {
    max: usize,
    /// When the strikes of each address will have worn off.
    over_at: HashMap<K, Timestamp>,
    shared: Timestamp,
}

impl<K: Eq + Hash> Default for Guesses<K> {
    fn default() -> Self {
        Guesses { max: GUESSERS_MAX, over_at: HashMap::new(), shared: Timestamp::ZERO }
    }
}

impl<K: Eq + Hash> Guesses<K> {
    /// How long this address is not looked at; `None` if it is.
    #[must_use]
    pub fn locked(&self, address: &K, now: Timestamp) -> Option<Duration> {
        let full = self.over_at.len() >= self.max;
        let over_at = self.over_at.get(address).copied().or_else(|| full.then_some(self.shared))?;
        let left = over_at.saturating_since(now);
        let looked_at = WEARS_OFF * LOOKED_AT;
        // One more strike has to fit.
        (left + WEARS_OFF > looked_at).then(|| left + WEARS_OFF - looked_at)
    }

    /// Counts a wrong one, looked at or not.
    pub fn strike(&mut self, address: K, now: Timestamp) -> Struck {
        let over_at = self.place(address, now);
        let left = over_at.saturating_since(now);
        let strikes = u32::try_from(left.as_millis() / WEARS_OFF.as_millis()).unwrap_or(u32::MAX);
        *over_at = now + (left + WEARS_OFF).min(WEARS_OFF * (LOOKED_AT - 1) + LOCKED_MAX);
        let beyond = strikes.checked_sub(FREE);
        let delay = beyond.map_or(Duration::ZERO, |beyond| DELAY_FIRST * 2_u32.pow(beyond.min(10)));
        Struck { delay: delay.min(DELAY_MAX) }
    }

    fn place(&mut self, address: K, now: Timestamp) -> &mut Timestamp {
        if !self.over_at.contains_key(&address) && self.over_at.len() >= self.max {
            self.over_at.retain(|_, over_at| now < *over_at);
            if self.over_at.len() >= self.max {
                return &mut self.shared;
            }
        }
        self.over_at.entry(address).or_insert(Timestamp::ZERO)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(ms: u64) -> Timestamp {
        Timestamp::from_ms(1_000_000 + ms)
    }

    #[test]
    fn ac_12_wrong_credentials_are_answered_ever_more_slowly() {
        let mut guesses = Guesses::default();
        let delays: Vec<u128> =
            (0..LOOKED_AT).map(|_| guesses.strike("a", at(0)).delay.as_millis()).collect();
        assert_eq!(delays[..12], [0, 0, 0, 0, 0, 50, 100, 200, 400, 800, 1_600, 2_000]);
        assert_eq!(guesses.locked(&"a", at(0)), Some(WEARS_OFF));
        assert_eq!(guesses.locked(&"b", at(0)), None);
        assert_eq!(guesses.locked(&"a", at(2_000)), None, "one has worn off");
        for _ in 0..10 {
            guesses.strike("a", at(0));
        }
        assert_eq!(guesses.locked(&"a", at(0)), Some(11 * WEARS_OFF), "who goes on waits longer");
        for _ in 0..10_000 {
            guesses.strike("a", at(0));
        }
        assert_eq!(guesses.locked(&"a", at(0)), Some(LOCKED_MAX), "and not for ever");
        let later = at(u64::try_from((LOCKED_MAX + WEARS_OFF * LOOKED_AT).as_millis()).unwrap());
        assert_eq!(guesses.strike("a", later).delay, Duration::ZERO, "everything wears off");
    }

    #[test]
    fn ac_12_the_addresses_are_bounded_and_those_without_room_share() {
        let mut guesses = Guesses { max: 4, ..Guesses::default() };
        for address in 0..1_000 {
            guesses.strike(address, at(0));
            assert!(guesses.over_at.len() <= 4);
        }
        assert!(guesses.locked(&2_000, at(0)).is_some(), "strangers share the wait of those without room");
        assert_eq!(guesses.locked(&0, at(0)), None, "who has a place has its own");
        guesses.strike(3_000, at(600_000));
        assert_eq!(guesses.over_at.len(), 1);
    }

    proptest! {
        /// However the tries are spread: in no minute are many more looked at than are free and wear off.
        #[test]
        fn ac_12_no_minute_has_more_looks_than_allowed(
            pauses_ms in prop::collection::vec(0_u64..4_000, 1..400),
        ) {
            let (mut guesses, mut now_ms, mut looks) = (Guesses::default(), 0, Vec::new());
            for pause_ms in pauses_ms {
                now_ms += pause_ms;
                if guesses.locked(&(), at(now_ms)).is_none() {
                    looks.push(now_ms);
                }
                guesses.strike((), at(now_ms));
            }
            for (from, first_ms) in looks.iter().enumerate() {
                let within = looks[from..].iter().filter(|at_ms| **at_ms < first_ms + 60_000).count();
                prop_assert!(within <= 2 * LOOKED_AT as usize, "{}", within);
            }
        }
    }
}
