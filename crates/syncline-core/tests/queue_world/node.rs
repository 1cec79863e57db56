//! A node that has its queue to itself and keeps it on disk: nothing is acted on before it is written.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::hash::RandomState;
use std::rc::Rc;

use syncline_core::queue::{
    Answer, Change, Clock, Kind, Limits, Pace, Paced, Place, Record, Settings, Settled, Setup, Start, Step,
};
use syncline_core::time::Timestamp;
use syncline_sim::{ActorId, Context, Event};

use super::api::timed_out;
use super::ledger;
use super::{Bug, Note};

/// The disk, which outlives the node.
#[derive(Default)]
pub(super) struct Disk {
    rows: BTreeMap<u32, Record<u32, Place<u32>>>,
    pub(super) pace: Option<Pace>,
}

pub(super) type SharedDisk = Rc<RefCell<Disk>>;

const POLL: u64 = 0;
const WRITTEN: u64 = 1;
/// Timers from here on are deadlines of calls.
const DEADLINES: u64 = 2;

pub(super) struct Node {
    api: ActorId,
    settings: Settings,
    disk: SharedDisk,
    ledger: ledger::Shared,
    bug: Option<Bug>,
    /// `None` until it has started.
    pub(super) paced: Option<Paced<u32, u32>>,
    /// What to do once the write under way is done, and what to do after the next.
    writing: Option<Vec<Act>>,
    after: Vec<Act>,
    pub(super) calls: BTreeMap<u64, u64>,
    /// Planted: the interval as counted from the last start.
    not_before: Timestamp,
}

/// Something that must not happen before it is written.
enum Act {
    Call(Start<u32>, u64),
    Stored(u64, Settled),
    Accepted(u32, u64),
    Paused { tick: u64, sent_ms: u64, length_ms: u64 },
}

impl Node {
    pub(super) fn new(
        api: ActorId,
        settings: Settings,
        disk: SharedDisk,
        ledger: ledger::Shared,
        bug: Option<Bug>,
    ) -> Self {
        Self {
            api,
            settings,
            disk,
            ledger,
            bug,
            paced: None,
            writing: None,
            after: Vec::new(),
            calls: BTreeMap::new(),
            not_before: Timestamp::ZERO,
        }
    }

    pub(super) fn handle(&mut self, event: Event<Note>, context: &mut Context<'_, Note>) {
        let clock =
            Clock { now: Timestamp::from_ms(context.now_ms()), wall: Timestamp::from_ms(context.wall_ms()) };
        match event {
            Event::Start => self.restore(clock, context),
            Event::Timer(WRITTEN) => self.written(clock, context),
            Event::Timer(call) if call >= DEADLINES => {
                let call = call - DEADLINES;
                self.ledger.borrow_mut().tally.add("time-outs");
                context.send(self.api, Note::Abort { call, sent_ms: context.world_ms() });
                self.end(clock, call, timed_out(), None);
            }
            Event::Message { body: Note::Response { call, response }, .. } => {
                context.clear_timer(DEADLINES + call);
                let named = response.names_ms.map(|length_ms| (response.sent_ms, length_ms));
                self.end(clock, call, response.answer(), named);
            }
            Event::Message { body: Note::Enqueue { kind, keys }, .. } => self.enqueue(kind, &keys),
            Event::Message { body: Note::Revive, .. } => self.revive_all(),
            _ => {}
        }
        self.advance(clock, context);
    }

    fn paced(&mut self) -> &mut Paced<u32, u32> {
        self.paced.as_mut().expect("started")
    }

    fn restore(&mut self, clock: Clock, context: &mut Context<'_, Note>) {
        let mut settings = self.settings;
        if self.bug == Some(Bug::IntervalFromTheStart) {
            settings.interval = std::time::Duration::ZERO;
        }
        let setup = Setup {
            settings,
            limits: Limits::default(),
            groups: None,
            hasher: RandomState::default(),
            seed: context.dice().pick(0..=u64::MAX),
        };
        let disk = self.disk.borrow();
        let restored = Paced::restore(setup, clock, disk.rows.values().cloned(), disk.pace.clone(), []);
        self.paced = Some(restored.expect("the disk holds what was written"));
    }

    fn enqueue(&mut self, kind: Kind, keys: &[u32]) {
        for &key in keys {
            let unknown = self.paced().queue().record(&key).is_none();
            let kind_in =
                if self.bug == Some(Bug::AgainIsNew) && kind == Kind::Again { Kind::New } else { kind };
            let told = self.paced().enqueue(kind_in, vec![key]).expect("there is room");
            let mut ledger = self.ledger.borrow_mut();
            if told.again > 0 {
                ledger.tally.add("agains while running");
            }
            if kind == Kind::Again || (kind != Kind::Retry && unknown) {
                let tick = ledger.tick();
                self.after.push(Act::Accepted(key, tick));
            }
        }
    }

    fn revive_all(&mut self) {
        let dead: Vec<u32> = self.paced().queue().dead().map(|record| *record.key).collect();
        for key in dead {
            assert!(self.paced().revive(&key));
            let mut ledger = self.ledger.borrow_mut();
            ledger.tally.add("revivals");
            let tick = ledger.tick();
            self.after.push(Act::Accepted(key, tick));
        }
    }

    fn end(&mut self, clock: Clock, call: u64, answer: Answer<u32>, named: Option<(u64, u64)>) {
        if self.calls.remove(&call).is_none() {
            return;
        }
        let answer = match answer {
            // Planted: the key waits, the queue does not.
            Answer::Throttled { .. } if self.bug == Some(Bug::PausesOnlyTheKey) => {
                Answer::Throttled { retry_after: None }
            }
            answer => answer,
        };
        let settled = self.paced().settle(clock, call, answer);
        self.after.extend(settled.map(|(_, settled)| Act::Stored(call, settled)));
        let tick = self.ledger.borrow_mut().tick();
        self.after.extend(named.map(|(sent_ms, length_ms)| Act::Paused { tick, sent_ms, length_ms }));
    }

    /// Takes every step there is, and has them written.
    fn advance(&mut self, clock: Clock, context: &mut Context<'_, Note>) {
        loop {
            if clock.now < self.not_before {
                context.set_timer(POLL, self.not_before.as_ms());
                break;
            }
            match self.paced().poll(clock) {
                Step::Start(start) => {
                    if self.bug == Some(Bug::IntervalFromTheStart) {
                        self.not_before = clock.now + self.settings.interval;
                    }
                    let tick = self.ledger.borrow_mut().tick();
                    self.after.push(Act::Call(start, tick));
                }
                Step::Lost { call, settled, .. } => {
                    self.ledger.borrow_mut().tally.add("calls lost");
                    self.after.push(Act::Stored(call, settled));
                }
                Step::Wait(until) => {
                    if let Some(until) = until {
                        context.set_timer(POLL, until.as_ms());
                    }
                    break;
                }
            }
        }
        if self.writing.is_none() && !self.after.is_empty() {
            self.writing = Some(std::mem::take(&mut self.after));
            let takes_ms = context.dice().pick(1..=5);
            context.set_timer(WRITTEN, context.now_ms() + takes_ms);
        }
    }

    /// One write is done: everything that has changed up to now, so at least what it was begun for.
    fn written(&mut self, clock: Clock, context: &mut Context<'_, Note>) {
        let mut acts = self.writing.take().unwrap_or_default();
        acts.append(&mut self.after);
        let disk = Rc::clone(&self.disk);
        let mut disk = disk.borrow_mut();
        self.paced().drain_changes(|change| match change {
            Change::Put(record) => drop(disk.rows.insert(*record.key, record.cloned())),
            Change::Remove(key) => drop(disk.rows.remove(key)),
        });
        let (before, pace) = (disk.pace.as_ref().map(|pace| pace.breaker), self.paced().pace().clone());
        self.ledger.borrow_mut().pace_stored(before, pace.breaker);
        disk.pace = Some(pace);
        for act in acts {
            self.act(act, clock, context);
        }
    }

    fn act(&mut self, act: Act, clock: Clock, context: &mut Context<'_, Note>) {
        let mut ledger = self.ledger.borrow_mut();
        match act {
            Act::Call(start, tick) => {
                ledger.claimed(start.call, start.key, tick);
                self.calls.insert(start.call, tick);
                if clock.now <= start.start_by {
                    context.send(self.api, Note::Request { call: start.call, key: start.key });
                    context.set_timer(DEADLINES + start.call, start.deadline.as_ms());
                } else {
                    ledger.tally.add("calls too late to make");
                    drop(ledger);
                    self.end(clock, start.call, Answer::NotMade, None);
                }
            }
            Act::Stored(call, settled) => ledger.stored(call, settled),
            Act::Accepted(key, tick) => ledger.asked(key, tick),
            Act::Paused { tick, sent_ms, length_ms } => ledger.paused(tick, sent_ms, length_ms),
        }
    }
}
