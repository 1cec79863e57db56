//! A worker: claims, sends, settles, with several batches under way. Every step is an event of its own, so that it can die between
//! any two.

use std::collections::BTreeMap;
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

/// As many batches at once as the real one has.
const SENDS: usize = 4;

const LOOK: u64 = 0;
const SEND: u64 = 1;
const GIVE_UP: u64 = 2;
const SETTLE: u64 = 3;
/// The timers of a batch are told apart by its place.
const TIMERS: u64 = 4;

pub(crate) struct Worker {
    shared: Shared,
    receiver: ActorId,
    bug: Option<Bug>,
    health: Health,
    evidence: Evidence,
    /// Nothing that has failed is claimed before this.
    retries_from_ms: u64,
    /// Nothing is claimed before this.
    from_ms: u64,
    /// Batches under way, each in its place.
    works: BTreeMap<u64, Work>,
    /// Set apart by the life of the worker: an answer to an earlier one is not ours.
    call: u64,
}

struct Work {
    claim: u64,
    claimed_ms: u64,
    ids: Vec<i64>,
    delivery: Delivery,
    /// Whether entries in it had failed before.
    retried: bool,
    request: usize,
    /// The request under way; 0 if none is.
    call: u64,
}

impl Worker {
    pub(crate) fn new(shared: Shared, receiver: ActorId, bug: Option<Bug>, life: u64) -> Self {
        let health = Health::new(PAUSE, BATCH);
        let evidence = Evidence::default();
        let (works, call) = (BTreeMap::new(), life << 32);
        Self { shared, receiver, bug, health, evidence, retries_from_ms: 0, from_ms: 0, works, call }
    }

    pub(crate) fn handle(&mut self, event: &Event<Note>, context: &mut Context<'_, Note>) {
        match event {
            Event::Start => self.look(context),
            Event::Timer(timer) => match (timer % TIMERS, timer / TIMERS) {
                (SEND, place) => self.send(place, context),
                (GIVE_UP, place) => {
                    let reason = "no answer in time".to_owned();
                    self.answered(place, Answer::Failed { reason, retry_after: None }, context);
                }
                (SETTLE, place) => self.settle(place, context),
                _ => self.look(context),
            },
            Event::Message { body: Note::Response { call, response }, .. } => {
                let Some((place, work)) = self.works.iter().find(|(_, work)| work.call == *call) else {
                    return;
                };
                let answer = match self.bug {
                    Some(Bug::BelievesAnything) if response.status < 300 => Answer::Accepted,
                    _ => interpret(response.clone(), work.request),
                };
                self.answered(*place, answer, context);
            }
            _ => {}
        }
    }

    /// Claims and begins to send as many batches as may be under way.
    fn look(&mut self, context: &mut Context<'_, Note>) {
        // The database's clock is the world's.
        let now_ms = context.world_ms();
        if now_ms < self.from_ms {
            return after(context, LOOK, self.from_ms - now_ms);
        }
        let mut idle = 0;
        while self.works.len() < self.health.sends(SENDS) && idle < 2 {
            let retrying = self.works.values().any(|work| work.retried);
            let newest_first = self.health.newest_first();
            let retries = match retrying || newest_first || now_ms < self.retries_from_ms {
                true => 0,
                false => self.health.retries(),
            };
            let mut table = self.shared.table.borrow_mut();
            let limit = self.health.batch().max(retries);
            let (claim, ids) = table.claim(limit, retries, newest_first, now_ms, LEASE_MS);
            // From the other end there may be more.
            idle = if ids.is_empty() { idle + 1 } else { 0 };
            if ids.is_empty() {
                continue;
            }
            let candidates = ids.iter().map(|id| {
                let Row { entity, attempts, failed_before, .. } = table.rows[id];
                Candidate { id: *id, entity, attempts, failed_before }
            });
            let candidates: Vec<_> = candidates.collect();
            drop(table);
            let retried = candidates.iter().any(|candidate| candidate.failed_before);
            let delivery = Delivery::new(candidates);
            let place = (0..).find(|place| !self.works.contains_key(place)).expect("there are places");
            let work = Work { claim, claimed_ms: now_ms, ids, delivery, retried, request: 0, call: 0 };
            self.works.insert(place, work);
            after(context, SEND + place * TIMERS, 1);
        }
        after(context, LOOK, LOOK_EVERY_MS);
    }

    fn send(&mut self, place: u64, context: &mut Context<'_, Note>) {
        let Some(work) = self.works.get_mut(&place) else { return };
        // A lease that may end while the answer is awaited is no good: what is left is given back.
        let leased = context.world_ms() + TIMEOUT_MS < work.claimed_ms + LEASE_MS;
        let Some(places) = work.delivery.next().filter(|_| leased) else {
            return after(context, SETTLE + place * TIMERS, 1);
        };
        work.request = places.len();
        let table = self.shared.table.borrow();
        let entries = places.iter().map(|place| work.ids[*place]).map(|id| (id, table.rows[&id].entity));
        let entries = entries.collect();
        self.call += 1;
        work.call = self.call;
        context.send(self.receiver, Note::Request { call: self.call, entries });
        after(context, GIVE_UP + place * TIMERS, TIMEOUT_MS);
    }

    fn answered(&mut self, place: u64, answer: Answer, context: &mut Context<'_, Note>) {
        context.clear_timer(GIVE_UP + place * TIMERS);
        if let Some(work) = self.works.get_mut(&place) {
            work.call = 0;
            work.delivery.answered(answer);
        }
        after(context, SEND + place * TIMERS, 1);
    }

    fn settle(&mut self, place: u64, context: &mut Context<'_, Note>) {
        let Some(work) = self.works.remove(&place) else { return };
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
        self.from_ms = context.world_ms() + pauses.all.as_millis() as u64;
        after(context, LOOK, 1);
    }
}

fn chance(context: &mut Context<'_, Note>) -> f64 {
    context.dice().pick(0..=1_000) as f64 / 1_000.0
}

fn after(context: &mut Context<'_, Note>, timer: u64, ms: u64) {
    context.set_timer(timer, context.now_ms() + ms);
}
