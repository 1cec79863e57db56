//! How much of something a caller may have in a time: the generic cell rate algorithm.
//!
//! All there is to remember of an allowance is the moment at which it would be whole again. A burst may come at once and
//! then refills steadily. [`AllowanceTable`] keeps one for each caller and is bounded: those that are whole again are
//! forgotten, and if that makes no room, new callers share one allowance instead of getting one each.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

use crate::time::Timestamp;

/// So many in a time, and so many at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    step_us: u64,
    burst_us: u64,
}

impl Rate {
    /// `count` in each `per`, of which `burst` may come at once. Neither is less than one.
    #[must_use]
    pub fn new(count: u32, per: Duration, burst: u32) -> Rate {
        let per_us = u64::try_from(per.as_micros()).unwrap_or(u64::MAX);
        let step_us = (per_us / u64::from(count.max(1))).max(1);
        Rate { step_us, burst_us: step_us.saturating_mul(u64::from(burst.max(1))) }
    }
}

/// What one caller has left.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Allowance {
    whole_at_us: u64,
}

impl Allowance {
    /// Takes `count`, or says how long to wait until that many are there. Nothing is taken then.
    pub fn take(&mut self, now: Timestamp, rate: Rate, count: u32) -> Result<(), Duration> {
        let next_us = self.next_us(now, rate, count);
        let latest_us = microseconds(now).saturating_add(rate.burst_us);
        if next_us > latest_us {
            return Err(Duration::from_micros(next_us - latest_us));
        }
        self.whole_at_us = next_us;
        Ok(())
    }

    /// How long one would have to wait for `count`; `None` if they are there.
    #[must_use]
    pub fn wait(&self, now: Timestamp, rate: Rate, count: u32) -> Option<Duration> {
        let mut tried = *self;
        tried.take(now, rate, count).err()
    }

    /// Whether there is nothing to remember any more.
    #[must_use]
    pub fn is_whole(&self, now: Timestamp) -> bool {
        self.whole_at_us <= microseconds(now)
    }

    /// More than a burst is given as a whole burst: it could never be there at once.
    fn next_us(&self, now: Timestamp, rate: Rate, count: u32) -> u64 {
        let cost_us = rate.step_us.saturating_mul(u64::from(count)).min(rate.burst_us);
        self.whole_at_us.max(microseconds(now)).saturating_add(cost_us)
    }
}

fn microseconds(moment: Timestamp) -> u64 {
    moment.as_ms().saturating_mul(1_000)
}

/// An allowance for each caller, bounded.
#[derive(Debug, Clone)]
pub struct AllowanceTable<K> {
    max: usize,
    own: HashMap<K, Allowance>,
    /// Of all for whom there is no room.
    shared: Allowance,
}

impl<K: Eq + Hash> AllowanceTable<K> {
    /// A table for `max` callers.
    #[must_use]
    pub fn new(max: usize) -> AllowanceTable<K> {
        AllowanceTable { max: max.max(1), own: HashMap::new(), shared: Allowance::default() }
    }

    /// Takes `count` of a caller's allowance, or says how long it has to wait.
    pub fn take(&mut self, caller: K, now: Timestamp, rate: Rate, count: u32) -> Result<(), Duration> {
        if !self.own.contains_key(&caller) && self.own.len() >= self.max {
            self.own.retain(|_, allowance| !allowance.is_whole(now));
            if self.own.len() >= self.max {
                return self.shared.take(now, rate, count);
            }
        }
        self.own.entry(caller).or_default().take(now, rate, count)
    }

    /// How long a caller would have to wait; `None` if it need not.
    #[must_use]
    pub fn wait(&self, caller: &K, now: Timestamp, rate: Rate, count: u32) -> Option<Duration> {
        let full = self.own.len() >= self.max;
        let known = self.own.get(caller).or_else(|| full.then_some(&self.shared));
        known.and_then(|allowance| allowance.wait(now, rate, count))
    }

    /// Callers that are remembered.
    #[must_use]
    pub fn len(&self) -> usize {
        self.own.len()
    }

    /// Whether nobody is remembered.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.own.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn at(ms: u64) -> Timestamp {
        Timestamp::from_ms(1_000_000 + ms)
    }

    #[test]
    fn ac_12_a_burst_may_come_at_once_and_refills_steadily() {
        let (rate, mut allowance) = (Rate::new(10, SECOND, 20), Allowance::default());
        for _ in 0..20 {
            allowance.take(at(0), rate, 1).unwrap();
        }
        assert_eq!(allowance.take(at(0), rate, 1), Err(Duration::from_millis(100)));
        assert_eq!(allowance.wait(at(50), rate, 1), Some(Duration::from_millis(50)));
        allowance.take(at(100), rate, 1).unwrap();
        assert_eq!(allowance.take(at(100), rate, 5), Err(Duration::from_millis(500)));
        assert!(!allowance.is_whole(at(2_099)) && allowance.is_whole(at(2_100)));
        allowance.take(at(5_000), rate, 1_000).unwrap();
        assert!(allowance.take(at(5_000), rate, 1).is_err(), "more than a burst is a whole burst");
    }

    #[test]
    fn ac_12_the_table_is_bounded_and_those_without_room_share() {
        let (rate, mut table) = (Rate::new(2, SECOND, 2), AllowanceTable::new(4));
        for caller in 0..1_000 {
            let let_in = table.take(caller, at(0), rate, 1).is_ok();
            assert_eq!(let_in, caller < 6, "four of their own, then two that are shared: {caller}");
            assert!(table.len() <= 4);
        }
        assert!(table.wait(&7, at(0), rate, 1).is_some(), "a stranger waits for the shared one");
        table.take(1, at(0), rate, 1).unwrap();
        table.take(2_000, at(5_000), rate, 1).unwrap();
        assert_eq!(table.len(), 1, "those that are whole again are forgotten");
    }

    proptest! {
        /// Whatever the moments and the counts: in any stretch of time no more is given than a burst and what refills.
        #[test]
        fn ac_12_no_stretch_of_time_gives_more_than_a_burst_and_its_refill(
            per_sec in 1_u32..50,
            burst in 1_u32..50,
            asks in prop::collection::vec((0_u64..400, 1_u32..4), 1..200),
        ) {
            let rate = Rate::new(per_sec, SECOND, burst);
            let (mut allowance, mut now_ms, mut given) = (Allowance::default(), 0, Vec::new());
            for (pause_ms, count) in asks {
                now_ms += pause_ms;
                let count = count.min(burst);
                match allowance.take(at(now_ms), rate, count) {
                    Ok(()) => given.push((now_ms, count)),
                    Err(wait) => {
                        let mut later = allowance;
                        let back_ms = now_ms + u64::try_from(wait.as_micros()).unwrap().div_ceil(1_000);
                        prop_assert!(later.take(at(back_ms), rate, count).is_ok(), "the wait that was told is enough");
                    }
                }
            }
            for from in 0..given.len() {
                let mut sum = 0;
                for (until_ms, count) in &given[from..] {
                    sum += u64::from(*count);
                    let refill = (until_ms - given[from].0) * u64::from(per_sec) / 1_000;
                    // A step that is no whole number of microseconds is cut: one in a million more.
                    prop_assert!(sum <= u64::from(burst) + refill + 1, "{sum} after {until_ms}");
                }
            }
        }
    }
}
