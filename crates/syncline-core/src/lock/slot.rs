//! The rule of the record: who is granted what, at which time of the store.
//!
//! A [`Slot`] is what is kept of one lock. Acquiring, renewing and releasing are functions from one slot to the next;
//! SQL says the same in one statement, a page says it between reading the record and replacing what was read.
//!
//! | asked | slot at `now` | answer |
//! |---|---|---|
//! | acquire | free, or its lease has ended (`expires_at <= now`) | granted, next token |
//! | acquire | held by the very lease that asks | granted again, same token |
//! | acquire | held by another | busy until it ends |
//! | acquire | held by another for longer than any lease lasts | in doubt: shortened to the longest, then busy |
//! | renew, release | held by the lease that asks | done |
//! | renew, release | held by it, but ended; held by another; free | refused, nothing changes |
//!
//! `now` is the time of whoever keeps the record, never of whoever asks.

use crate::lock::{LeaseId, Token, Ttl};
use crate::time::Timestamp;

/// What is kept of one lock. It outlives each lease, because the token must.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Slot {
    /// The highest token granted so far.
    pub token: Token,
    /// The lease in force, which may have ended since; `None` after a release.
    pub held: Option<Held>,
}

/// A lease as the record has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Held {
    /// Whose it is.
    pub lease: LeaseId,
    /// The first moment at which it is over.
    pub expires_at: Timestamp,
}

/// What asking for a lease came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Acquired {
    /// It is yours once `slot` is written.
    Granted {
        /// What to write.
        slot: Slot,
        /// Somebody's lease had run out without a release.
        took_over: bool,
    },
    /// Somebody has it.
    Busy {
        /// When that lease ends, unless it is renewed.
        until: Timestamp,
    },
    /// The record promises more than any lease may: a clock was set back, or something wrote nonsense. It counts as held
    /// for one longest lease from now, which has to be written, and reported.
    Doubtful {
        /// What to write.
        slot: Slot,
        /// When the shortened lease ends.
        until: Timestamp,
    },
}

/// Why a lease was not renewed or released. Nothing was changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Refused {
    /// It ran out; somebody else may have been granted it since, or be next.
    #[error("the lease has expired")]
    Expired,
    /// Another lease is in force, or none.
    #[error("the lease is not the one in force")]
    NotHolder,
}

impl Held {
    /// What a record that cannot be read stands for: somebody unknown, for longer than allowed.
    pub const UNREADABLE: Self = Self { lease: LeaseId::UNKNOWN, expires_at: Timestamp::from_ms(u64::MAX) };

    /// Whether it is over.
    #[must_use]
    pub fn ended(&self, now: Timestamp) -> bool {
        self.expires_at <= now
    }
}

impl Slot {
    /// Asks for the lock for `ttl`; `longest` is the longest lease that this store grants to anybody.
    #[must_use]
    pub fn acquire(self, now: Timestamp, lease: LeaseId, ttl: Ttl, longest: Ttl) -> Acquired {
        let granted = |token, took_over| {
            let held = Held { lease, expires_at: now + ttl.duration() };
            Acquired::Granted { slot: Self { token, held: Some(held) }, took_over }
        };
        let Some(held) = self.held else { return granted(self.token.next(), false) };
        if held.ended(now) {
            return granted(self.token.next(), true);
        }
        if held.lease == lease {
            return granted(self.token, false);
        }
        let at_most = now + longest.duration();
        if held.expires_at > at_most {
            let held = Held { expires_at: at_most, ..held };
            return Acquired::Doubtful { slot: Self { held: Some(held), ..self }, until: at_most };
        }
        Acquired::Busy { until: held.expires_at }
    }

    /// Extends the lease to `ttl` from now.
    pub fn renew(self, now: Timestamp, lease: LeaseId, ttl: Ttl) -> Result<Self, Refused> {
        self.check(now, lease)?;
        Ok(Self { held: Some(Held { lease, expires_at: now + ttl.duration() }), ..self })
    }

    /// Gives the lock back. The token stays.
    pub fn release(self, now: Timestamp, lease: LeaseId) -> Result<Self, Refused> {
        self.check(now, lease)?;
        Ok(Self { held: None, ..self })
    }

    /// Whether `lease` is the one in force.
    pub fn check(self, now: Timestamp, lease: LeaseId) -> Result<(), Refused> {
        match self.held {
            Some(held) if held.lease != lease => Err(Refused::NotHolder),
            Some(held) if held.ended(now) => Err(Refused::Expired),
            Some(_) => Ok(()),
            None => Err(Refused::NotHolder),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ANN: LeaseId = LeaseId::from_random([1; 16]);
    const BOB: LeaseId = LeaseId::from_random([2; 16]);
    const LONGEST: Ttl = Ttl::BROWSER_MAX;

    fn at(ms: u64) -> Timestamp {
        Timestamp::from_ms(ms)
    }

    fn held(token: u64, lease: LeaseId, expires_at_ms: u64) -> Slot {
        Slot { token: Token::new(token), held: Some(Held { lease, expires_at: at(expires_at_ms) }) }
    }

    #[test]
    fn lk_23_every_question_at_every_slot() {
        let free = Slot { token: Token::new(7), held: None };
        let (ann, bob) = (held(7, ANN, 20_000), held(7, BOB, 20_000));
        let ask = |slot: Slot, now_ms| slot.acquire(at(now_ms), ANN, Ttl::DEFAULT, LONGEST);
        let granted = |token, expires_at_ms, took_over| Acquired::Granted {
            slot: held(token, ANN, expires_at_ms),
            took_over,
        };
        assert_eq!(ask(free, 10_000), granted(8, 25_000, false));
        assert_eq!(ask(ann, 19_999), granted(7, 34_999, false));
        assert_eq!(ask(ann, 20_000), granted(8, 35_000, true));
        assert_eq!(ask(bob, 19_999), Acquired::Busy { until: at(20_000) });
        assert_eq!(ask(bob, 20_000), granted(8, 35_000, true));
        for change in [
            |slot: Slot, now_ms| slot.renew(at(now_ms), ANN, Ttl::DEFAULT).map(|_| ()),
            |slot: Slot, now_ms| slot.release(at(now_ms), ANN).map(|_| ()),
        ] {
            assert_eq!(change(free, 10_000), Err(Refused::NotHolder));
            assert_eq!(change(ann, 19_999), Ok(()));
            assert_eq!(change(ann, 20_000), Err(Refused::Expired));
            assert_eq!(change(bob, 10_000), Err(Refused::NotHolder));
            assert_eq!(change(bob, 30_000), Err(Refused::NotHolder));
        }
        assert_eq!(ann.renew(at(19_000), ANN, Ttl::DEFAULT), Ok(held(7, ANN, 34_000)));
        assert_eq!(ann.release(at(19_000), ANN), Ok(free));
    }

    #[test]
    fn lk_25_a_record_in_doubt_is_held_for_one_longest_lease_at_most() {
        let unreadable = Slot { token: Token::NONE, held: Some(Held::UNREADABLE) };
        let Acquired::Doubtful { slot, until } = unreadable.acquire(at(5_000), ANN, Ttl::DEFAULT, LONGEST)
        else {
            panic!("nonsense must not be believed for ever");
        };
        assert_eq!(until, at(65_000));
        // Whoever looks next finds the shortened record, and does not begin to count anew.
        assert_eq!(slot.acquire(at(64_999), BOB, Ttl::DEFAULT, LONGEST), Acquired::Busy { until });
        assert!(matches!(slot.acquire(until, BOB, Ttl::DEFAULT, LONGEST), Acquired::Granted { .. }));
        // Year 9999, and a holder whose clock was set back: it can still renew, being the one in force.
        let far = held(3, ANN, 253_402_300_799_000);
        assert!(matches!(far.acquire(at(5_000), BOB, Ttl::DEFAULT, LONGEST), Acquired::Doubtful { .. }));
        assert_eq!(far.renew(at(5_000), ANN, Ttl::DEFAULT), Ok(held(3, ANN, 20_000)));
    }

    proptest! {
        /// Any requests at times that only grow: tokens grow with each new holder, and the one in force stays so.
        #[test]
        fn lk_23_one_lease_in_force_and_tokens_that_only_grow(
            steps in proptest::collection::vec((0..20_000_u64, 0..3_u8, 1..4_u8), 1..200),
        ) {
            let (mut slot, mut now) = (Slot::default(), Timestamp::ZERO);
            let mut in_force: Option<(LeaseId, Timestamp, Token)> = None;
            for (pause_ms, action, who) in steps {
                now = at(now.as_ms() + pause_ms);
                let lease = LeaseId::from_random([who; 16]);
                in_force = in_force.filter(|(_, until, _)| *until > now);
                match action {
                    0 => if let Acquired::Granted { slot: granted, .. } =
                        slot.acquire(now, lease, Ttl::DEFAULT, LONGEST)
                    {
                        if let Some((holder, _, token)) = in_force {
                            prop_assert_eq!((holder, token), (lease, granted.token));
                        } else {
                            prop_assert!(granted.token > slot.token);
                        }
                        in_force = Some((lease, now + Ttl::DEFAULT.duration(), granted.token));
                        slot = granted;
                    },
                    1 => if let Ok(renewed) = slot.renew(now, lease, Ttl::DEFAULT) {
                        let (holder, _, token) = in_force.expect("only a lease in force is renewed");
                        prop_assert_eq!((holder, token), (lease, renewed.token));
                        in_force = Some((lease, now + Ttl::DEFAULT.duration(), token));
                        slot = renewed;
                    },
                    _ => if let Ok(released) = slot.release(now, lease) {
                        prop_assert_eq!(in_force.map(|(holder, ..)| holder), Some(lease));
                        prop_assert_eq!(released.token, slot.token);
                        (in_force, slot) = (None, released);
                    },
                }
            }
        }
    }
}
