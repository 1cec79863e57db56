//! A worker: claims, sends, settles. Every step is an event of its own, so that it can die between any two.

use std::time::Duration;

use syncline_core::outbox::{
    Answer, Candidate, Delivery, Evidence, Health, PAUSE, ReceiverState, Verdict, interpret,
};
use syncline_core::retry::Policy;
use syncline_core::time::Timestamp;
use syncline_sim::{ActorId, Context, Event};

use super::table::Row;
use super::{Bug, Note, Shared};

const LEASE_MS: u64 = 30_000;
const TIMEOUT_MS: u64 = 5_000;
const BATCH: usize = 16;
const LOOK_EVERY_MS: u64 = 5_000;
/// Shorter delays than the real one, so that entries die within the hour.
pub(crate) const POLICY: Policy = Policy {
    initial_delay: Duration::from_secs(1),
    max_delay: Duration::from_secs(60),
    multiplier: 2.0,
    max_attempts: 10,
    jitter: 0.5,
};

const LOOK: u64 = 0;
const SEND: u64 = 1;
const GIVE_UP: u64 = 2;
const SETTLE: u64 = 3;

pub(crate) struct Worker {
    shared: Shared,
    receiver: ActorId,
    bug: Option<Bug>,
    health: Health,
    evidence: Evidence,
    /// Nothing that has failed is claimed before this.
    retries_from_ms: u64,
    work: Option<Work>,
    /// Set apart by the life of the worker: an answer to an earlier one is not ours.
    call: u64,
}

struct Work {
    claim: u64,
    claimed_ms: u64,
    ids: Vec<i64>,
    delivery: Delivery,
    request: usize,
}

impl Worker {
    pub(crate) fn new(shared: Shared, receiver: ActorId, bug: Option<Bug>, life: u64) -> Self {
        let health = Health::new(PAUSE, BATCH);
        let evidence = Evidence::default();
        Self { shared, receiver, bug, health, evidence, retries_from_ms: 0, work: None, call: life << 32 }
    }

    pub(crate) fn handle(&mut self, event: &Event<Note>, context: &mut Context<'_, Note>) {
        match event {
            Event::Start | Event::Timer(LOOK) => self.look(context),
            Event::Timer(SEND) => self.send(context),
            Event::Timer(GIVE_UP) => {
                let reason = "no answer in time".to_owned();
                self.answered(Answer::Failed { reason, retry_after: None }, context);
            }
            Event::Timer(SETTLE) => self.settle(context),
            Event::Message { body: Note::Response { call, response }, .. } if *call == self.call => {
                let asked = self.work.as_ref().map_or(0, |work| work.request);
                let answer = match self.bug {
                    Some(Bug::BelievesAnything) if response.status < 300 => Answer::Accepted,
                    _ => interpret(response.clone(), asked),
                };
                self.answered(answer, context);
            }
            _ => {}
        }
    }

    fn look(&mut self, context: &mut Context<'_, Note>) {
        // The database's clock is the world's.
        let now_ms = context.world_ms();
        let retries = if now_ms < self.retries_from_ms { 0 } else { self.health.retries() };
        let mut table = self.shared.table.borrow_mut();
        let (claim, ids) = table.claim(self.health.batch(), retries, now_ms, LEASE_MS);
        drop(table);
        if ids.is_empty() {
            return after(context, LOOK, LOOK_EVERY_MS);
        }
        let table = self.shared.table.borrow();
        let delivery = Delivery::new(ids.iter().map(|id| {
            let Row { entity, attempts, failed_before, .. } = table.rows[id];
            Candidate { id: *id, entity, attempts, failed_before }
        }));
        drop(table);
        self.work = Some(Work { claim, claimed_ms: now_ms, ids, delivery, request: 0 });
        after(context, SEND, 1);
    }

    fn send(&mut self, context: &mut Context<'_, Note>) {
        let Some(work) = &mut self.work else { return };
        // A lease that may end while the answer is awaited is no good: what is left is given back.
        let leased = context.world_ms() + TIMEOUT_MS < work.claimed_ms + LEASE_MS;
        let Some(places) = work.delivery.next().filter(|_| leased) else {
            return after(context, SETTLE, 1);
        };
        work.request = places.len();
        let table = self.shared.table.borrow();
        let entries = places.iter().map(|place| work.ids[*place]).map(|id| (id, table.rows[&id].entity));
        let entries = entries.collect();
        self.call += 1;
        context.send(self.receiver, Note::Request { call: self.call, entries });
        after(context, GIVE_UP, TIMEOUT_MS);
    }

    fn answered(&mut self, answer: Answer, context: &mut Context<'_, Note>) {
        self.call += 1;
        context.clear_timer(GIVE_UP);
        if let Some(work) = &mut self.work {
            work.delivery.answered(answer);
        }
        after(context, SEND, 1);
    }

    fn settle(&mut self, context: &mut Context<'_, Note>) {
        let Some(work) = self.work.take() else { return };
        let now = Timestamp::from_ms(context.world_ms());
        let (verdicts, receiver) = work.delivery.finish(&POLICY, &mut self.evidence, now, || chance(context));
        let verdicts: Vec<(i64, Verdict)> = work.ids.into_iter().zip(verdicts).collect();
        self.shared.table.borrow_mut().settle(work.claim, &verdicts, context.world_ms());
        let seen = match receiver {
            ReceiverState::Down { .. } => "receiver found down",
            ReceiverState::Doubtful { .. } => "receiver in doubt",
            ReceiverState::Up { .. } => "receiver found up",
        };
        *self.shared.tally.borrow_mut().entry(seen).or_default() += 1;
        let pauses = self.health.observe(&receiver, chance(context));
        self.retries_from_ms = context.world_ms() + pauses.retries.as_millis() as u64;
        after(context, LOOK, 1 + pauses.all.as_millis() as u64);
    }
}

fn chance(context: &mut Context<'_, Note>) -> f64 {
    context.dice().pick(0..=1_000) as f64 / 1_000.0
}

fn after(context: &mut Context<'_, Note>, timer: u64, ms: u64) {
    context.set_timer(timer, context.now_ms() + ms);
}
