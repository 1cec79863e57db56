//! A node as the real one works: session table, own report, peers, ticker and gate are the product's; what is simulated is the
//! wiring between them. Every promise the product makes is reported to the [`Trace`], which judges it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::hash::{BuildHasherDefault, DefaultHasher};
use std::rc::Rc;

use syncline_core::schedule::{
    Bucket, Claim, Cron, Decision, Facts, Gate, LocalRuns, Ticker, Trigger, decide,
};
use syncline_core::time::Timestamp;
use syncline_core::viewer::{
    BeatOutcome, Draft, OccupancyChange, OwnReport, Peers, Report, SessionId, SessionTable, Summary,
};
use syncline_sim::{ActorId, Context, Event};

use crate::store::{Request, Response};
use crate::trace::{Pending, Trace};
use crate::{Bug, Note};

/// Sessions a node holds at most; small, so that floods meet it.
pub(crate) const CAP: usize = 40;

const POLL_EVERY_MS: u64 = 5_000;
const STORE_TIMEOUT_MS: u64 = 2_000;

/// Timers; the time-outs of store operations are numbered from `OPERATION` on.
const POLL: u64 = 0;
const RUN_ENDS: u64 = 1;
const OPERATION: u64 = 100;

pub(crate) struct Node {
    /// Differs from life to life.
    name: String,
    store: ActorId,
    gate: Gate,
    bug: Option<Bug>,
    trace: Rc<RefCell<Trace>>,
    sessions: SessionTable<BuildHasherDefault<DefaultHasher>>,
    own_report: OwnReport,
    publishing: bool,
    peers: Peers,
    ticker: Option<Ticker>,
    local_runs: LocalRuns,
    running: bool,
    /// Pages whose beat is in the session table but not answered yet.
    waiting: Vec<Waiting>,
    operations: BTreeMap<u64, Operation>,
    last_operation: u64,
}

struct Waiting {
    page: ActorId,
    session: SessionId,
    visible: bool,
    beat_ms: u64,
}

enum Operation {
    Publish(Draft),
    Read {
        asked: u64,
    },
    /// Reading the viewers of others for a decision. Who counts is who watched when it fell due, however long the
    /// reading takes; our own were counted then.
    Look {
        pending: Pending,
        due: Timestamp,
        own: Summary,
        asked: u64,
    },
    /// Claiming the bucket for a decision that would run.
    Compete(Pending, Decision),
}

impl Node {
    pub(crate) fn new(
        name: String,
        store: ActorId,
        gate: Gate,
        bug: Option<Bug>,
        trace: Rc<RefCell<Trace>>,
    ) -> Self {
        let cap = if bug == Some(Bug::NoCap) { usize::MAX } else { CAP };
        Self {
            peers: Peers::new(name.clone()),
            name,
            store,
            gate,
            bug,
            trace,
            sessions: SessionTable::new(cap, BuildHasherDefault::default()),
            own_report: OwnReport::default(),
            publishing: false,
            ticker: None,
            local_runs: LocalRuns::default(),
            running: false,
            waiting: Vec::new(),
            operations: BTreeMap::new(),
            last_operation: 0,
        }
    }

    pub(crate) fn handle(&mut self, event: Event<Note>, context: &mut Context<'_, Note>) {
        match event {
            Event::Start => {
                let cron = Cron::parse("* * * * *").expect("a valid expression");
                self.ticker = Some(Ticker::new(cron, Timestamp::from_ms(context.wall_ms())));
                // Answers to what a former life asked must not be taken for ours.
                self.last_operation = context.dice().pick(0..=u64::from(u32::MAX)) << 20;
                self.trace.borrow_mut().started(&self.name, context.world_ms());
                self.poll(context);
            }
            Event::Timer(POLL) => self.poll(context),
            Event::Timer(RUN_ENDS) => self.running = false,
            Event::Timer(timeout) => self.reply(timeout - OPERATION, None, context),
            Event::Message { from, body: Note::Beat { session, visible } } => {
                self.beat(from, session, visible, context);
            }
            Event::Message { body: Note::Bye { session }, .. } => {
                let change = self.sessions.bye(self.now(context), &session);
                self.report_if_vacated(change, context);
                self.trace.borrow_mut().bye(session, context.world_ms());
                self.announce(change.as_slice(), context);
            }
            Event::Message { body: Note::Reply { op, response }, .. } => self.reply(op, response, context),
            Event::Message { .. } => {}
        }
    }

    /// The clock that every time to live runs on.
    fn now(&self, context: &Context<'_, Note>) -> Timestamp {
        let wrong = self.bug == Some(Bug::TimesToLiveOnTheWallClock);
        Timestamp::from_ms(if wrong { context.wall_ms() } else { context.now_ms() })
    }

    /// As production does after a goodbye: others should hear at once that nobody watches here any more.
    fn report_if_vacated(&mut self, change: Option<OccupancyChange>, context: &mut Context<'_, Note>) {
        if change.is_some() {
            self.own_report.want();
            if self.own_report.due(self.now(context), &self.sessions) {
                self.publish(context);
            }
        }
    }

    fn poll(&mut self, context: &mut Context<'_, Note>) {
        let change = self.sessions.expire(self.now(context));
        if change.is_some() {
            self.own_report.want();
        }
        self.announce(change.as_slice(), context);
        if self.own_report.due(self.now(context), &self.sessions) {
            self.publish(context);
        }
        self.ask(Request::List, Operation::Read { asked: self.own_report.stored_seq() }, context);
        let wall = Timestamp::from_ms(context.wall_ms());
        let ticker = self.ticker.as_mut().expect("set at the start");
        let due = ticker.due(wall);
        let next_ms =
            ticker.next_at().map_or(u64::MAX, |next| next.saturating_since(wall).as_millis() as u64);
        context.set_timer(POLL, context.now_ms() + next_ms.clamp(1, POLL_EVERY_MS));
        if let Some(bucket) = due {
            self.consider(Trigger::Tick, bucket, context);
        }
    }

    fn beat(&mut self, page: ActorId, session: SessionId, visible: bool, context: &mut Context<'_, Note>) {
        let BeatOutcome::Accepted { changes, .. } = self.sessions.beat(self.now(context), &session, visible)
        else {
            assert!(self.sessions.has_active(self.now(context)), "P5: a full table must be seen as watched");
            return context.send(page, Note::Answer);
        };
        let beat_ms = context.world_ms();
        self.trace.borrow_mut().beat(session, visible, beat_ms, self.sessions.memory_bytes());
        self.waiting.push(Waiting { page, session, visible, beat_ms });
        self.answer_covered(context);
        self.announce(changes, context);
    }

    fn announce(&mut self, changes: &[OccupancyChange], context: &mut Context<'_, Note>) {
        for &change in changes {
            self.trace.borrow_mut().changed(&self.name, change);
            let wall = Timestamp::from_ms(context.wall_ms());
            if let (OccupancyChange::Occupied, Some(ticker)) = (change, &self.ticker) {
                let bucket = ticker.current(wall).expect("every minute fires");
                self.consider(Trigger::Arrival, bucket, context);
            }
        }
    }

    /// Answers waiting pages once a stored promise covers them, and sees to it that one will.
    fn answer_covered(&mut self, context: &mut Context<'_, Note>) {
        let covered = self.own_report.covers(self.now(context), &self.sessions);
        if covered || self.bug == Some(Bug::AnswersBeforeThePromiseIsStored) {
            for Waiting { page, session, visible, beat_ms } in std::mem::take(&mut self.waiting) {
                self.trace.borrow_mut().accepted(session, visible, beat_ms, context.world_ms());
                context.send(page, Note::Answer);
            }
        }
        if !covered {
            self.publish(context);
        }
    }

    fn publish(&mut self, context: &mut Context<'_, Note>) {
        if !std::mem::replace(&mut self.publishing, true) {
            let draft = self.own_report.draft(self.now(context), &self.sessions);
            let report = Report { written_at_ms: context.wall_ms(), ..draft.report };
            let put = Request::Put { node: self.name.clone(), report, written_ms: context.world_ms() };
            self.ask(put, Operation::Publish(draft), context);
        }
    }

    fn consider(&mut self, trigger: Trigger, bucket: Bucket, context: &mut Context<'_, Note>) {
        let pending = self.trace.borrow_mut().begun(trigger, bucket, self.gate, context.world_ms());
        let due = self.now(context);
        let own = self.sessions.counts(due);
        let look = Operation::Look { pending, due, own, asked: self.own_report.stored_seq() };
        self.ask(Request::List, look, context);
    }

    fn ask(&mut self, request: Request, operation: Operation, context: &mut Context<'_, Note>) {
        self.last_operation += 1;
        let op = self.last_operation;
        self.operations.insert(op, operation);
        context.set_timer(OPERATION + op, context.now_ms() + STORE_TIMEOUT_MS);
        context.send(self.store, Note::Ask { op, request });
    }

    /// The store has answered, or will not: then `response` is `None`.
    fn reply(&mut self, op: u64, response: Option<Response>, context: &mut Context<'_, Note>) {
        let Some(operation) = self.operations.remove(&op) else { return };
        context.clear_timer(OPERATION + op);
        match operation {
            Operation::Publish(draft) => self.published(draft, response.is_some(), context),
            Operation::Read { asked } => _ = self.take_in(asked, response, context),
            Operation::Look { pending, due, own, asked } => {
                let complete = self.take_in(asked, response, context);
                self.look(pending, own, self.peers.total(due), complete, context);
            }
            Operation::Compete(pending, decision) => {
                self.compete(&pending, decision, response.as_ref(), context);
            }
        }
    }

    fn published(&mut self, draft: Draft, stored: bool, context: &mut Context<'_, Note>) {
        self.publishing = false;
        if stored {
            self.own_report.record_stored(draft);
            self.answer_covered(context);
        } else {
            self.own_report.record_failed();
            for Waiting { page, .. } in std::mem::take(&mut self.waiting) {
                context.send(page, Note::Answer);
            }
        }
    }

    fn take_in(&mut self, asked: u64, response: Option<Response>, context: &Context<'_, Note>) -> bool {
        let complete = if let Some(Response::Listed(reports)) = response {
            if self.bug == Some(Bug::RereadingRenews) {
                self.peers = Peers::new(self.name.clone());
            }
            let own = reports.iter().find(|(node, ..)| *node == self.name);
            self.own_report.confirm_in_store(asked, own.map(|(_, report, _)| report.seq));
            let wall = Timestamp::from_ms(context.wall_ms());
            let age_is_honoured = !matches!(self.bug, Some(Bug::RestartsRenew | Bug::RereadingRenews));
            let others = reports.iter().map(|(node, report, ttl_left)| {
                let read = if age_is_honoured { report.read(*ttl_left, wall) } else { *report };
                (node.as_str(), read)
            });
            self.peers.observe(self.now(context), others);
            true
        } else {
            false
        };
        self.trace.borrow_mut().read(&self.name, context.world_ms(), complete);
        complete
    }

    fn look(
        &mut self,
        pending: Pending,
        own: Summary,
        mut others: Summary,
        complete: bool,
        context: &mut Context<'_, Note>,
    ) {
        if self.bug == Some(Bug::IgnoresOtherNodes) {
            others = Summary::default();
        }
        let seen = Summary { viewers: own.viewers + others.viewers, visible: own.visible + others.visible };
        let readable = complete || self.bug == Some(Bug::FailsClosed);
        let audience = self.gate.audience(seen, readable);
        let decision =
            decide(Facts { trigger: pending.trigger, gate: self.gate, audience, running: self.running });
        if decision.runs() {
            let claim = Request::Claim { bucket: pending.bucket, node: self.name.clone() };
            self.ask(claim, Operation::Compete(pending, decision), context);
        } else {
            self.conclude(&pending, decision, complete, context);
        }
    }

    fn compete(
        &mut self,
        pending: &Pending,
        decision: Decision,
        response: Option<&Response>,
        context: &mut Context<'_, Note>,
    ) {
        let claim = match response {
            Some(Response::Won) => Claim::Won,
            Some(_) => Claim::Taken,
            None => Claim::Unreadable,
        };
        if self.bug == Some(Bug::ForgetsWhatItRan) {
            self.local_runs = LocalRuns::default();
        }
        let unchanged = context.dice().chance(0.1);
        let decision = decision.claimed(claim, pending.bucket, &mut self.local_runs).compared(unchanged);
        self.conclude(pending, decision, claim != Claim::Unreadable, context);
    }

    fn conclude(
        &mut self,
        pending: &Pending,
        decision: Decision,
        readable: bool,
        context: &mut Context<'_, Note>,
    ) {
        if decision.runs() {
            self.running = true;
            let longest_ms = if context.dice().chance(0.1) { 90_000 } else { 5_000 };
            let ends_ms = context.now_ms() + context.dice().pick(100..=longest_ms);
            context.set_timer(RUN_ENDS, ends_ms);
        }
        self.trace.borrow_mut().decided(&self.name, pending, decision, readable);
    }
}
