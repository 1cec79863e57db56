//! What one caller, and all callers of a tenant together, may use: so many in a time, and so many at once.
//!
//! Rates are allowances in virtual time ([`rate`](super::rate)); what is held at once (streams, locks) is counted by whoever
//! holds it, by [`Held`]. Each node counts for itself. Guarantees: tables are bounded; a refusal takes nothing; a caller who
//! keeps within its quota is never refused because of another caller of another tenant, unless the table is full.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

use super::rate::{AllowanceTable, Rate};
use crate::time::Timestamp;

/// Callers and tenants that are remembered at a time.
pub const QUOTA_CALLERS_MAX: usize = 65_536;

/// For how long a caller may save up what it does not use.
const BURST_SEC: u32 = 5;

/// What a caller may use. What is absent has no limit of its own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Quota {
    /// Requests in a second.
    pub requests_per_sec: Option<u32>,
    /// Requests in a second that change something.
    pub writes_per_sec: Option<u32>,
    /// Keys that are added to queues in a minute.
    pub adds_per_min: Option<u32>,
    /// Streams of events at once.
    pub streams: Option<u32>,
    /// Locks at once.
    pub locks: Option<u32>,
    /// Spaces of shared state.
    pub spaces: Option<u32>,
    /// Bytes in these spaces together.
    pub space_bytes: Option<u64>,
}

impl Quota {
    /// For people and for pages without a back end: enough for a busy page with some tabs, too little to harm a node.
    pub const USUAL: Quota = Quota {
        requests_per_sec: Some(50),
        writes_per_sec: Some(20),
        adds_per_min: Some(600),
        streams: Some(10),
        locks: Some(100),
        spaces: Some(100),
        space_bytes: Some(64 * 1024 * 1024),
    };

    /// Without limits: for servers of one's own, and for tenants of which nothing is said.
    pub const NONE: Quota = Quota {
        requests_per_sec: None,
        writes_per_sec: None,
        adds_per_min: None,
        streams: None,
        locks: None,
        spaces: None,
        space_bytes: None,
    };
}

/// What is used up as it is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Spent {
    /// A request.
    Request,
    /// A request that changes something.
    Write,
    /// So many keys for a queue.
    Adds(u32),
}

/// Of which more was asked for than the quota has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exceeded {
    /// The setting, as in `writes_per_sec`.
    pub setting: &'static str,
    /// When there is enough again.
    pub retry_after: Duration,
}

/// What callers have left of their rates.
#[derive(Debug, Clone)]
pub struct Rates<K> {
    requests: AllowanceTable<K>,
    writes: AllowanceTable<K>,
    adds: AllowanceTable<K>,
}

impl<K: Eq + Hash> Default for Rates<K> {
    fn default() -> Self {
        let table = || AllowanceTable::new(QUOTA_CALLERS_MAX);
        Rates { requests: table(), writes: table(), adds: table() }
    }
}

impl<K: Eq + Hash> Rates<K> {
    /// Takes what is spent from a caller's quota, or says when to come back.
    pub fn spend(&mut self, caller: K, quota: &Quota, spent: Spent, now: Timestamp) -> Result<(), Exceeded> {
        let (table, rate, count, setting) = self.of(quota, spent);
        let Some(rate) = rate else { return Ok(()) };
        let taken = table.take(caller, now, rate, count);
        taken.map_err(|retry_after| Exceeded { setting, retry_after })
    }

    /// Whether a caller could spend it now. Takes nothing.
    pub fn wait(&mut self, caller: &K, quota: &Quota, spent: Spent, now: Timestamp) -> Result<(), Exceeded> {
        let (table, rate, count, setting) = self.of(quota, spent);
        let wait = rate.and_then(|rate| table.wait(caller, now, rate, count));
        wait.map_or(Ok(()), |retry_after| Err(Exceeded { setting, retry_after }))
    }

    fn of(
        &mut self,
        quota: &Quota,
        spent: Spent,
    ) -> (&mut AllowanceTable<K>, Option<Rate>, u32, &'static str) {
        let second = |count: u32| Rate::new(count, Duration::from_secs(1), count.saturating_mul(BURST_SEC));
        let minute = |count: u32| Rate::new(count, Duration::from_secs(60), count);
        match spent {
            Spent::Request => (&mut self.requests, quota.requests_per_sec.map(second), 1, "requests_per_sec"),
            Spent::Write => (&mut self.writes, quota.writes_per_sec.map(second), 1, "writes_per_sec"),
            Spent::Adds(count) => (&mut self.adds, quota.adds_per_min.map(minute), count, "adds_per_min"),
        }
    }
}

/// Things that callers hold at once, each until a moment.
#[derive(Debug, Clone)]
pub struct Held<K, T> {
    by_caller: HashMap<K, HashMap<T, Timestamp>>,
}

impl<K, T> Default for Held<K, T> {
    fn default() -> Self {
        Held { by_caller: HashMap::new() }
    }
}

impl<K: Eq + Hash, T: Eq + Hash> Held<K, T> {
    /// Whether a caller may have one more; the same thing again is none more. Says when the first of them ends otherwise.
    pub fn has_room(&mut self, caller: &K, thing: &T, most: u32, now: Timestamp) -> Result<(), Duration> {
        let Some(held) = self.by_caller.get_mut(caller) else { return Ok(()) };
        held.retain(|_, until| now < *until);
        if held.contains_key(thing) || held.len() < most as usize {
            return Ok(());
        }
        let first = held.values().min().copied().unwrap_or(now);
        Err(first.saturating_since(now))
    }

    /// A caller has it until then.
    pub fn hold(&mut self, caller: K, thing: T, until: Timestamp) {
        self.by_caller.entry(caller).or_default().insert(thing, until);
    }

    /// A caller has it no longer.
    pub fn release(&mut self, caller: &K, thing: &T) {
        if let Some(held) = self.by_caller.get_mut(caller) {
            held.remove(thing);
            if held.is_empty() {
                self.by_caller.remove(caller);
            }
        }
    }

    /// Forgets what has ended. To be called now and then.
    pub fn forget(&mut self, now: Timestamp) {
        self.by_caller.retain(|_, held| {
            held.retain(|_, until| now < *until);
            !held.is_empty()
        });
    }

    /// Callers that are remembered.
    #[must_use]
    pub fn callers(&self) -> usize {
        self.by_caller.len()
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
    fn ac_12_each_thing_is_counted_on_its_own_and_what_has_no_limit_is_not() {
        let quota = Quota { writes_per_sec: Some(1), adds_per_min: Some(60), ..Quota::NONE };
        let mut rates = Rates::default();
        for _ in 0..1_000 {
            rates.spend("a", &quota, Spent::Request, at(0)).unwrap();
        }
        for _ in 0..BURST_SEC {
            rates.spend("a", &quota, Spent::Write, at(0)).unwrap();
        }
        let refused = rates.spend("a", &quota, Spent::Write, at(0)).unwrap_err();
        assert_eq!(refused, Exceeded { setting: "writes_per_sec", retry_after: Duration::from_secs(1) });
        rates.spend("b", &quota, Spent::Write, at(0)).unwrap();
        rates.spend("a", &quota, Spent::Adds(60), at(0)).unwrap();
        let refused = rates.spend("a", &quota, Spent::Adds(10), at(0)).unwrap_err();
        assert_eq!(refused, Exceeded { setting: "adds_per_min", retry_after: Duration::from_secs(10) });
        assert_eq!(rates.wait(&"a", &quota, Spent::Adds(10), at(10_000)), Ok(()));
    }

    #[test]
    fn ac_12_what_is_held_counts_until_it_is_released_or_ends() {
        let mut held = Held::default();
        for lock in ["x", "y"] {
            held.has_room(&"a", &lock, 2, at(0)).unwrap();
            held.hold("a", lock, at(if lock == "x" { 1_000 } else { 5_000 }));
        }
        assert_eq!(held.has_room(&"a", &"z", 2, at(0)), Err(Duration::from_secs(1)));
        assert_eq!(held.has_room(&"a", &"x", 2, at(0)), Ok(()), "what one has one may have");
        assert_eq!(held.has_room(&"b", &"z", 2, at(0)), Ok(()));
        assert_eq!(held.has_room(&"a", &"z", 2, at(1_000)), Ok(()), "one has ended");
        held.release(&"a", &"y");
        held.hold("b", "z", at(2_000));
        held.forget(at(2_000));
        assert_eq!(held.callers(), 0);
    }

    proptest! {
        /// One caller, whatever it does, takes nothing from another.
        #[test]
        fn ac_12_callers_do_not_feel_each_other(
            steps in prop::collection::vec((any::<bool>(), 0_u64..300), 1..300),
        ) {
            let quota = Quota { writes_per_sec: Some(10), ..Quota::NONE };
            let (mut together, mut alone, mut now_ms) = (Rates::default(), Rates::default(), 0);
            for (mine, pause_ms) in steps {
                now_ms += pause_ms;
                let caller = if mine { "me" } else { "other" };
                let spent = together.spend(caller, &quota, Spent::Write, at(now_ms));
                if mine {
                    prop_assert_eq!(spent, alone.spend(caller, &quota, Spent::Write, at(now_ms)));
                }
            }
        }
    }
}
