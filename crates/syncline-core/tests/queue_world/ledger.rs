//! What really happened, by the world's own clock, and the judgement on it.
//!
//! Everybody writes here; nobody reads it to decide what to do. A broken promise panics at once, so that the seed which
//! broke it is told.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use syncline_core::queue::{Breaker, PAUSE_MAX, Settings, Settled};

pub(super) type Shared = Rc<RefCell<Ledger>>;

/// Messages to the API travel for 1 to 20 ms, so two sent the interval apart can arrive this much closer.
const TRAVEL_SPREAD_MS: u64 = 19;

/// How often things happened. A world in which little happens proves little.
#[derive(Debug, Default, Clone)]
pub(super) struct Tally(pub(super) BTreeMap<&'static str, u64>);

impl Tally {
    pub(super) fn add(&mut self, what: &'static str) {
        *self.0.entry(what).or_default() += 1;
    }

    pub(super) fn merge(&mut self, other: &Self) {
        other.0.iter().for_each(|(what, count)| *self.0.entry(what).or_default() += count);
    }
}

/// A pause that the API named and the caller has stored.
struct Named {
    /// Calls begun later must keep it.
    tick: u64,
    until_ms: u64,
}

pub(super) struct Ledger {
    interval_ms: u64,
    concurrency: usize,
    /// Calls the API is working on, by caller and call.
    open: BTreeSet<(usize, u64)>,
    last_arrival_ms: Option<u64>,
    /// When the API was done with each call.
    ends: BTreeMap<(usize, u64), u64>,
    /// Ends that were stored, with the tick: calls begun later must keep their distance.
    known_ends: Vec<(u64, u64)>,
    last_end_ms: Option<u64>,
    pub(super) smallest_gap_ms: u64,
    named: Vec<Named>,
    /// Orders what happens within one millisecond.
    tick: u64,
    /// Keys somebody wants, with the tick they last asked.
    wanted: BTreeMap<u32, u64>,
    /// Calls by id: for which key and since which tick.
    calls: BTreeMap<u64, (u32, u64)>,
    pub(super) accepted: BTreeSet<u32>,
    pub(super) tally: Tally,
}

impl Ledger {
    pub(super) fn new(settings: &Settings) -> Shared {
        Rc::new(RefCell::new(Self {
            interval_ms: settings.interval.as_millis() as u64,
            concurrency: settings.concurrency as usize,
            open: BTreeSet::new(),
            last_arrival_ms: None,
            ends: BTreeMap::new(),
            known_ends: Vec::new(),
            last_end_ms: None,
            smallest_gap_ms: u64::MAX,
            named: Vec::new(),
            tick: 0,
            wanted: BTreeMap::new(),
            calls: BTreeMap::new(),
            accepted: BTreeSet::new(),
            tally: Tally::default(),
        }))
    }

    pub(super) fn tick(&mut self) -> u64 {
        self.tick += 1;
        self.tick
    }

    /// Somebody was told that `key` is in the queue; it was put there at `tick`.
    pub(super) fn asked(&mut self, key: u32, tick: u64) {
        self.accepted.insert(key);
        self.wanted.insert(key, tick);
    }

    /// A call for `key` was begun, durably, at `tick`.
    pub(super) fn claimed(&mut self, call: u64, key: u32, tick: u64) {
        let former = self.calls.insert(call, (key, tick));
        assert_eq!(former, None, "two calls have the id {call}");
    }

    /// The end of a run was stored.
    pub(super) fn stored(&mut self, call: u64, settled: Settled) {
        let (key, began) = self.calls[&call];
        match settled {
            Settled::Retrying { .. } => self.tally.add("retries"),
            Settled::Again => self.tally.add("runs again"),
            Settled::Waiting => {}
            Settled::Done | Settled::Failed | Settled::Dead => {
                let asked = self.wanted.remove(&key);
                assert!(
                    asked.is_some_and(|asked| asked < began),
                    "lost wake-up: key {key} was asked for at {asked:?} and ended with the run begun at {began}"
                );
                self.tally.add(if settled == Settled::Dead { "deaths" } else { "ends" });
            }
        }
    }

    /// The API named a pause at `sent_ms`, and the caller has stored it at `tick`.
    pub(super) fn paused(&mut self, tick: u64, sent_ms: u64, length_ms: u64) {
        let until_ms = sent_ms + length_ms.min(PAUSE_MAX.as_millis() as u64);
        self.named.push(Named { tick, until_ms });
    }

    /// The pace was stored: counts what the breaker did.
    pub(super) fn pace_stored(&mut self, before: Option<Breaker>, after: Breaker) {
        match (before, after) {
            (Some(Breaker::Open { .. }), Breaker::Open { .. }) => {}
            (_, Breaker::Open { .. }) => self.tally.add("breaker openings"),
            (Some(Breaker::Open { .. }), Breaker::HalfOpen { .. }) => self.tally.add("probes"),
            (Some(Breaker::HalfOpen { .. }), Breaker::Closed { .. }) => self.tally.add("breaker closings"),
            _ => {}
        }
    }

    /// Whether the API has named a time that is still to come.
    pub(super) fn is_paused(&self, now_ms: u64) -> bool {
        self.named.iter().any(|named| now_ms < named.until_ms)
    }

    pub(super) fn is_calm(&self) -> bool {
        self.open.is_empty()
    }

    /// A request reached the API.
    pub(super) fn arrived(&mut self, now_ms: u64, caller: usize, call: u64) {
        self.tally.add("calls");
        let (key, began) = self.calls[&call];
        assert!(self.wanted.contains_key(&key), "key {key} was asked for again after its result was stored");
        // One after the other, every end is known before the next start. Side by side, those that were stored are.
        let known = self.known_ends.iter().filter(|(tick, _)| *tick < began).map(|(_, end_ms)| *end_ms);
        let end_ms = if self.concurrency == 1 { self.last_end_ms } else { known.max() };
        if let Some(end_ms) = end_ms {
            let gap_ms = now_ms.saturating_sub(end_ms);
            self.smallest_gap_ms = self.smallest_gap_ms.min(gap_ms);
            let least = self.interval_ms;
            assert!(gap_ms >= least, "pace exceeded: {gap_ms} ms after the last end, {least} at least");
        }
        if let Some(arrival_ms) = self.last_arrival_ms {
            let spread = if self.concurrency == 1 { 0 } else { TRAVEL_SPREAD_MS };
            let (gap_ms, least) = (now_ms - arrival_ms, self.interval_ms - spread);
            assert!(gap_ms >= least, "pace exceeded: {gap_ms} ms after the last start, {least} at least");
        }
        self.open.insert((caller, call));
        let (open, most) = (self.open.len(), self.concurrency);
        assert!(open <= most, "{open} calls at once, {most} at most");
        self.tally.add(if open > 1 { "calls beside others" } else { "calls alone" });
        let broken = self.named.iter().find(|named| named.tick < began && now_ms < named.until_ms);
        if let Some(Named { until_ms, .. }) = broken {
            panic!("call {call} at {now_ms} although the pause named before lasts until {until_ms}");
        }
        self.last_arrival_ms = Some(now_ms);
    }

    /// The API is done with a request; when the caller gave it up, that is when it did.
    pub(super) fn ended(&mut self, end_ms: u64, caller: usize, call: u64) {
        self.open.remove(&(caller, call));
        self.ends.insert((caller, call), end_ms);
        self.last_end_ms = self.last_end_ms.max(Some(end_ms));
    }

    /// The end of a call was stored.
    pub(super) fn end_stored(&mut self, caller: usize, call: u64) {
        let tick = self.tick();
        let end_ms = self.ends.get(&(caller, call)).copied();
        self.known_ends.extend(end_ms.map(|end_ms| (tick, end_ms)));
    }
}
