//! The database that several workers share: a queue and a pace, changed in transactions.

use std::collections::BTreeMap;
use std::hash::RandomState;

use syncline_core::queue::{Answer, Health, Kind, Limits, Outcome, Pace, Queue, RunId, Settings, Settled};
use syncline_core::time::Timestamp;
use syncline_sim::{ActorId, Context, Event};

use super::ledger;
use super::{Bug, Note, number};

/// What a transaction does besides replacing the pace.
#[derive(Debug, Clone)]
pub(super) enum Change {
    /// The pace could not be read.
    Repair,
    /// The next key runs under this call.
    Claim { call: u64 },
    /// A call ended. For the ledger: when the API sent the answer, and the pause it named.
    Settle { call: u64, answer: Answer<u32>, named: Option<(u64, u64)> },
    /// Calls were lost.
    Lose { calls: Vec<u64> },
}

/// What the database answers.
#[derive(Debug, Clone)]
pub(super) struct Told {
    pub(super) token: u64,
    pub(super) pace: Option<Pace>,
    pub(super) wall: Timestamp,
    pub(super) work: bool,
    /// Whether the transaction went through, and the key it claimed.
    pub(super) applied: bool,
    pub(super) key: Option<u32>,
}

pub(super) struct Store {
    pub(super) queue: Queue<u32, u32>,
    settings: Settings,
    ledger: ledger::Shared,
    bug: Option<Bug>,
    pace: Option<Pace>,
    /// Changes with every write: what compare-and-set compares.
    token: u64,
    calls: BTreeMap<u64, RunId>,
}

impl Store {
    pub(super) fn new(settings: Settings, ledger: ledger::Shared, bug: Option<Bug>) -> Self {
        let queue = Queue::new(Limits::default(), RandomState::default());
        let pace = Some(Pace::default());
        Self { queue, settings, ledger, bug, pace, token: 0, calls: BTreeMap::new() }
    }

    /// Makes the pace unreadable, unless that would hide a call or a pause nobody can know of then.
    pub(super) fn corrupt(&mut self, now_ms: u64) {
        let quiet = self.pace.as_ref().is_some_and(|pace| pace.calls.is_empty());
        let mut ledger = self.ledger.borrow_mut();
        if quiet && !ledger.is_paused(now_ms) && ledger.is_calm() {
            ledger.tally.add("unreadable paces");
            self.pace = None;
            self.token += 1;
        }
    }

    pub(super) fn enqueue(&mut self, kind: Kind, keys: &[u32]) {
        let kind = if self.bug == Some(Bug::AgainIsNew) && kind == Kind::Again { Kind::New } else { kind };
        let mut ledger = self.ledger.borrow_mut();
        for &key in keys {
            let told = self.queue.enqueue(kind, vec![key]).expect("there is room");
            if told.again > 0 {
                ledger.tally.add("agains while running");
            }
            if told.moved > 0 {
                ledger.tally.add("moved up");
            }
        }
    }

    /// Writes down what was asked for: every key for `Again`, else those that were unknown.
    pub(super) fn note_asked(&mut self, kind: Kind, keys: &[u32]) {
        let mut ledger = self.ledger.borrow_mut();
        for &key in keys {
            if kind == Kind::Again || (kind != Kind::Retry && self.queue.record(&key).is_none()) {
                let tick = ledger.tick();
                ledger.asked(key, tick);
            }
        }
    }

    pub(super) fn revive_all(&mut self) {
        let dead: Vec<u32> = self.queue.dead().map(|record| *record.key).collect();
        let mut ledger = self.ledger.borrow_mut();
        for key in dead {
            let tick = ledger.tick();
            ledger.asked(key, tick);
            ledger.tally.add("revivals");
            assert!(self.queue.revive(&key));
        }
    }

    pub(super) fn handle(&mut self, event: Event<Note>, context: &mut Context<'_, Note>) {
        match event {
            Event::Message { from, body: Note::Read { ask } } => self.tell(from, ask, false, None, context),
            Event::Message { from, body: Note::Write { ask, token, pace, change } } => {
                let writer = number(from);
                let (applied, key) = if token == self.token {
                    self.apply(writer, pace, change, context)
                } else {
                    (false, None)
                };
                if !applied {
                    self.ledger.borrow_mut().tally.add("races lost");
                }
                self.tell(from, ask, applied, key, context);
            }
            Event::Message { body: Note::Enqueue { kind, keys }, .. } => {
                self.note_asked(kind, &keys);
                self.enqueue(kind, &keys);
            }
            _ => {}
        }
    }

    fn tell(
        &mut self,
        to: ActorId,
        ask: u64,
        applied: bool,
        key: Option<u32>,
        context: &mut Context<'_, Note>,
    ) {
        self.queue.enqueue_due(Timestamp::from_ms(context.now_ms()));
        let told = Told {
            token: self.token,
            pace: self.pace.clone(),
            wall: Timestamp::from_ms(context.wall_ms()),
            work: self.queue.counts().waiting > 0,
            applied,
            key,
        };
        context.send(to, Note::Told { ask, told });
    }

    /// One transaction: all of it or nothing.
    fn apply(
        &mut self,
        writer: usize,
        mut pace: Pace,
        change: Change,
        context: &mut Context<'_, Note>,
    ) -> (bool, Option<u32>) {
        let mut claimed = None;
        match change {
            Change::Repair => {}
            Change::Claim { call } => {
                let Some(run) = self.queue.start() else { return (false, None) };
                claimed = Some(*run.key);
                self.calls.insert(call, run.id);
                let mut ledger = self.ledger.borrow_mut();
                let tick = ledger.tick();
                ledger.claimed(call, *run.key, tick);
            }
            Change::Settle { call, answer, named } => {
                if let Some((sent_ms, length_ms)) = named {
                    let mut ledger = self.ledger.borrow_mut();
                    let tick = ledger.tick();
                    ledger.paused(tick, sent_ms, length_ms);
                }
                self.ledger.borrow_mut().end_stored(writer, call);
                self.settle(call, answer, self.health_after(call, &pace), context);
            }
            Change::Lose { calls } => {
                for call in calls {
                    self.ledger.borrow_mut().tally.add("calls lost");
                    let answer = Answer::Broken { reason: "lost".to_owned(), retry: true, away: true };
                    self.settle(call, answer, Health::default(), context);
                }
            }
        }
        let since = self.pace.as_ref().map_or(pace.version, |pace| pace.version);
        pace.date_pause(since, Timestamp::from_ms(context.wall_ms()));
        let before = self.pace.as_ref().map(|pace| pace.breaker);
        self.ledger.borrow_mut().pace_stored(before, pace.breaker);
        self.pace = Some(pace);
        self.token += 1;
        (true, claimed)
    }

    /// How the API is, now that this call leaves the pace like this.
    fn health_after(&self, call: u64, pace: &Pace) -> Health {
        self.pace.as_ref().map_or_else(Health::default, |before| Health::after(before, call, pace.breaker))
    }

    fn settle(&mut self, call: u64, answer: Answer<u32>, health: Health, context: &mut Context<'_, Note>) {
        let Some(id) = self.calls.remove(&call) else { return };
        let attempt = self.queue.run(id).expect("runs end through their call").attempt;
        let random = context.dice().pick(0..=1_000) as f64 / 1_000.0;
        let now = Timestamp::from_ms(context.now_ms());
        let outcome: Outcome<u32> = self.settings.judge(answer, attempt, health, now, random);
        let settled: Settled = self.queue.settle_run(id, outcome).expect("it was just there");
        self.ledger.borrow_mut().stored(call, settled);
    }
}
