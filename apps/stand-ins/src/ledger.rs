//! What the stand-ins saw: every call with its arrival and its end, and what follows from them.
//!
//! This is the outside's view of a queue. Nothing here trusts what a node says of itself: the gap, the number of calls
//! at once and the keys that were asked for again are measured where the calls arrive.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::settings::{Api, Pace};

/// Calls that are remembered one by one, per API; the oldest make way.
pub const CALLS_MAX: usize = 100_000;

/// Keys that are remembered, per API. Later ones are counted as calls only.
pub const KEYS_MAX: usize = 1_000_000;

/// One call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Call {
    /// Its number, from 1.
    pub n: u64,
    /// What was asked for.
    pub key: String,
    /// When it arrived, in milliseconds since the stand-ins started.
    pub arrived_ms: f64,
    /// When it was answered. `None`: not yet, or its caller went away.
    pub ended_ms: Option<f64>,
    /// The answer's status; 0 where there was none.
    pub status: u16,
}

/// The figures of one API.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Which.
    pub api: String,
    /// The interval it asks for; 0 for any.
    pub interval_ms: u64,
    /// How often it was asked.
    pub calls: u64,
    /// How often it answered 429.
    pub too_many: u64,
    /// How often it answered 500 or half an answer.
    pub failed: u64,
    /// How often the caller went away before the answer.
    pub abandoned: u64,
    /// How many different keys it was asked for.
    pub keys: u64,
    /// Calls for a key that had been answered well before.
    pub asked_again: u64,
    /// Most calls under way at once.
    pub most_at_once: u32,
    /// Shortest time from a start or end to the next arrival, 0 for a call that overlapped one it should not. `None` where
    /// there is no pace, or fewer than two calls.
    pub smallest_gap_ms: Option<f64>,
}

/// What a call came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Well,
    TooMany,
    Failed,
    Abandoned,
}

/// The accounts of all APIs.
pub(super) struct Ledger {
    began: Instant,
    accounts: [Mutex<Account>; Api::ALL.len()],
}

#[derive(Default)]
struct Account {
    in_flight: u32,
    most_at_once: u32,
    /// The last start or end.
    last: Option<Instant>,
    smallest_gap: Option<Duration>,
    calls: u64,
    ends: [u64; 4],
    asked_again: u64,
    /// Each key, and whether it was ever answered well.
    keys: HashMap<String, bool>,
    journal: VecDeque<Call>,
}

/// A call under way. Dropped without an end it counts as abandoned.
pub(super) struct Open {
    ledger: Arc<Ledger>,
    api: Api,
    n: u64,
    key: String,
    ended: bool,
}

impl Ledger {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self { began: Instant::now(), accounts: Default::default() })
    }

    /// Writes down that a call has arrived; whether it came too early or was one too many.
    pub(super) fn arrive(self: &Arc<Self>, api: Api, key: String, pace: Pace) -> (Open, bool) {
        let mut account = self.account(api);
        // Under the lock, or two calls could be written down in the wrong order.
        let now = Instant::now();
        let crowded = pace.at_once != 0 && account.in_flight >= pace.at_once;
        let gap = match account.last {
            Some(_) if crowded => Some(Duration::ZERO),
            last => last.map(|last| now.saturating_duration_since(last)),
        };
        let too_fast = gap.is_some_and(|gap| gap < pace.interval) || crowded;
        account.smallest_gap = account.smallest_gap.into_iter().chain(gap).min();
        account.last = Some(now);
        account.in_flight += 1;
        account.most_at_once = account.most_at_once.max(account.in_flight);
        account.calls += 1;
        match account.keys.get(&key) {
            Some(true) => account.asked_again += 1,
            None if account.keys.len() < KEYS_MAX => drop(account.keys.insert(key.clone(), false)),
            Some(false) | None => {}
        }
        let n = account.calls;
        if account.journal.len() == CALLS_MAX {
            account.journal.pop_front();
        }
        let call = Call { n, key: key.clone(), arrived_ms: self.ms(now), ended_ms: None, status: 0 };
        account.journal.push_back(call);
        (Open { ledger: Arc::clone(self), api, n, key, ended: false }, too_fast)
    }

    /// The figures of an API that allows `pace`.
    pub(super) fn figures(&self, api: Api, pace: Pace) -> Figures {
        let account = self.account(api);
        let gap = account.smallest_gap.filter(|_| !pace.interval.is_zero());
        Figures {
            api: api.name().to_owned(),
            interval_ms: u64::try_from(pace.interval.as_millis()).unwrap_or(u64::MAX),
            calls: account.calls,
            too_many: account.ends[End::TooMany as usize],
            failed: account.ends[End::Failed as usize],
            abandoned: account.ends[End::Abandoned as usize],
            keys: account.keys.len() as u64,
            asked_again: account.asked_again,
            most_at_once: account.most_at_once,
            // Whole microseconds, rounded down: a gap must not look longer than it was.
            smallest_gap_ms: gap.map(|gap| gap.as_micros() as f64 / 1_000.0),
        }
    }

    /// The calls after number `after`, oldest first.
    pub(super) fn calls(&self, api: Api, after: u64, limit: usize) -> Vec<Call> {
        let account = self.account(api);
        account.journal.iter().filter(|call| call.n > after).take(limit).cloned().collect()
    }

    fn account(&self, api: Api) -> std::sync::MutexGuard<'_, Account> {
        // Figures are counted one by one; a panic between two of them leaves nothing half-written.
        self.accounts[api as usize].lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ms(&self, at: Instant) -> f64 {
        at.saturating_duration_since(self.began).as_secs_f64() * 1_000.0
    }
}

impl Open {
    /// Its number among the calls of its API.
    pub(super) fn n(&self) -> u64 {
        self.n
    }

    /// How many 429s its API has answered so far.
    pub(super) fn too_many_before(&self) -> u64 {
        self.ledger.account(self.api).ends[End::TooMany as usize]
    }

    /// The call is answered.
    pub(super) fn end(mut self, end: End, status: u16) {
        self.close(end, status);
    }

    fn close(&mut self, end: End, status: u16) {
        self.ended = true;
        let mut account = self.ledger.account(self.api);
        let now = Instant::now();
        account.in_flight -= 1;
        account.last = Some(now);
        account.ends[end as usize] += 1;
        if end == End::Well
            && let Some(well) = account.keys.get_mut(&self.key)
        {
            *well = true;
        }
        let first = account.journal.front().map_or(0, |call| call.n);
        let index = self.n.checked_sub(first).and_then(|index| usize::try_from(index).ok());
        if let Some(call) = index.and_then(|index| account.journal.get_mut(index)) {
            call.ended_ms = Some(self.ledger.ms(now));
            call.status = status;
        }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        if !self.ended {
            self.close(End::Abandoned, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACED: Pace = Pace { interval: Duration::from_secs(3_600), at_once: 1 };
    const FREE: Pace = Pace { interval: Duration::ZERO, at_once: 0 };

    #[test]
    fn qu_21_a_call_that_comes_early_or_at_the_same_time_is_seen() {
        let ledger = Ledger::new();
        let (first, early) = ledger.arrive(Api::Ndl, "a".into(), PACED);
        assert!(!early);
        let (second, early) = ledger.arrive(Api::Ndl, "b".into(), PACED);
        assert!(early, "one is under way");
        second.end(End::TooMany, 429);
        first.end(End::Well, 200);
        assert!(ledger.arrive(Api::Ndl, "c".into(), PACED).1, "the interval is not over");
        let figures = ledger.figures(Api::Ndl, PACED);
        assert_eq!((figures.calls, figures.too_many, figures.most_at_once), (3, 1, 2));
        assert_eq!(figures.smallest_gap_ms, Some(0.0));
        assert_eq!(figures.abandoned, 1, "the third was never answered");
    }

    #[test]
    fn qu_20_a_key_that_is_asked_for_after_a_good_answer_is_counted_and_one_after_a_bad_answer_is_not() {
        let ledger = Ledger::new();
        for (key, end) in
            [("a", End::TooMany), ("a", End::Failed), ("a", End::Well), ("b", End::Well), ("a", End::Well)]
        {
            ledger.arrive(Api::Words, key.into(), FREE).0.end(end, 200);
        }
        let figures = ledger.figures(Api::Words, FREE);
        assert_eq!((figures.calls, figures.keys, figures.asked_again), (5, 2, 1));
        assert_eq!(figures.smallest_gap_ms, None, "nobody asks for a pace here");
    }

    #[test]
    fn qu_20_the_journal_has_every_call_in_order_and_ends_are_written_to_the_right_one() {
        let ledger = Ledger::new();
        let one = ledger.arrive(Api::Words, "a".into(), FREE).0;
        let other = ledger.arrive(Api::Words, "b".into(), FREE).0;
        other.end(End::Well, 200);
        one.end(End::TooMany, 429);
        let calls = ledger.calls(Api::Words, 0, 10);
        let seen: Vec<_> = calls.iter().map(|call| (call.n, call.key.as_str(), call.status)).collect();
        assert_eq!(seen, [(1, "a", 429), (2, "b", 200)]);
        assert!(calls.iter().all(|call| call.ended_ms >= Some(call.arrived_ms)));
        assert_eq!(ledger.calls(Api::Words, 1, 10).len(), 1);
    }
}
