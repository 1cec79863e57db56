//! One of several workers on a shared pace, as the store drives it: it reads and adopts, changes a copy of its pacer, and keeps
//! the copy once its change is committed. Here a change is refused where somebody came between; in a database he waits.

use syncline_core::queue::{Answer, Clock, Pacer, Permit, Settings, Signal};
use syncline_core::time::Timestamp;
use syncline_sim::{ActorId, Context, Event};

use super::api::{asked_for, timed_out};
use super::ledger;
use super::store::{Change, Told};
use super::{Bug, Note};

/// How often a worker looks when it has nothing better to go by.
const LOOK_EVERY_MS: u64 = 400;
/// When a question to the database is asked anew.
const ASK_AGAIN_MS: u64 = 1_000;

/// The one timer: what it means depends on what the worker does.
const TIMER: u64 = 0;

pub(super) struct Worker {
    api: ActorId,
    store: ActorId,
    pacer: Pacer,
    ledger: ledger::Shared,
    bug: Option<Bug>,
    doing: Doing,
    asks: u64,
    /// The copy that a change on its way to the store was made on.
    copy: Option<Pacer>,
}

#[derive(Debug, Clone)]
enum Doing {
    Resting,
    Looking,
    Writing,
    Claiming(Permit),
    Calling(Permit),
    /// Reading in order to end this, or writing its end.
    Ending(Ended),
}

#[derive(Debug, Clone)]
struct Ended {
    call: u64,
    answer: Answer<u32>,
    named: Option<(u64, u64)>,
    written: bool,
}

impl Worker {
    pub(super) fn new(
        api: ActorId,
        store: ActorId,
        settings: Settings,
        ledger: ledger::Shared,
        bug: Option<Bug>,
    ) -> Self {
        Self {
            api,
            store,
            pacer: Pacer::new(settings),
            ledger,
            bug,
            doing: Doing::Resting,
            asks: 0,
            copy: None,
        }
    }

    /// The call that the API is working on for it.
    pub(super) fn call(&self) -> Option<u64> {
        match &self.doing {
            Doing::Calling(permit) => Some(permit.call),
            _ => None,
        }
    }

    pub(super) fn handle(&mut self, event: Event<Note>, context: &mut Context<'_, Note>) {
        match event {
            Event::Start => self.look(context),
            Event::Timer(_) => match self.doing.clone() {
                Doing::Calling(permit) => {
                    self.ledger.borrow_mut().tally.add("time-outs");
                    let abort = Note::Abort { call: permit.call, sent_ms: context.world_ms() };
                    context.send(self.api, abort);
                    self.end(permit.call, timed_out(), None, context);
                }
                Doing::Ending(ended) => self.end(ended.call, ended.answer, ended.named, context),
                _ => self.look(context),
            },
            Event::Message { body: Note::Told { ask, told }, .. } if ask == self.asks => {
                self.told(told, context);
            }
            Event::Message { body: Note::Response { call, response }, .. } if self.call() == Some(call) => {
                let named = response.names_ms.map(|length_ms| (response.sent_ms, length_ms));
                self.end(call, response.answer(), named, context);
            }
            _ => {}
        }
    }

    fn told(&mut self, told: Told, context: &mut Context<'_, Note>) {
        let clock = Clock { now: Timestamp::from_ms(context.now_ms()), wall: told.wall };
        let unreadable = told.pace.is_none();
        if let Some(copy) = self.copy.take().filter(|_| told.applied) {
            self.pacer = copy;
        }
        self.pacer.adopt(clock, told.pace);
        if unreadable {
            self.doing = Doing::Writing;
            let pacer = self.pacer.clone();
            return self.write(told.token, pacer, Change::Repair, context);
        }
        match self.doing.clone() {
            Doing::Ending(ended) if ended.written && told.applied => self.look(context),
            Doing::Ending(ended) => {
                let signal = match self.bug {
                    // Planted: the key waits, the queue does not.
                    Some(Bug::PausesOnlyTheKey) if asked_for(&ended.answer).is_some() => {
                        Signal::Throttled { retry_after: None }
                    }
                    _ => ended.answer.signal(),
                };
                let random = context.dice().pick(0..=1_000) as f64 / 1_000.0;
                let mut pacer = self.pacer.clone();
                pacer.end(clock, ended.call, signal, random);
                let Ended { call, answer, named, .. } = ended.clone();
                self.doing = Doing::Ending(Ended { written: true, ..ended });
                self.write(told.token, pacer, Change::Settle { call, answer, named }, context);
            }
            Doing::Claiming(permit) if told.applied => {
                let key = told.key.expect("a claim that went through has its key");
                if clock.now <= permit.start_by {
                    self.doing = Doing::Calling(permit);
                    context.send(self.api, Note::Request { call: permit.call, key });
                    context.set_timer(TIMER, permit.deadline.as_ms());
                } else {
                    self.ledger.borrow_mut().tally.add("calls too late to make");
                    self.end(permit.call, Answer::NotMade, None, context);
                }
            }
            _ => self.decide(clock, told.token, told.work, context),
        }
    }

    fn decide(&mut self, clock: Clock, token: u64, work: bool, context: &mut Context<'_, Note>) {
        let mut pacer = self.pacer.clone();
        let calls: Vec<u64> = std::iter::from_fn(|| pacer.lose(clock.now)).collect();
        if !calls.is_empty() {
            self.doing = Doing::Writing;
            return self.write(token, pacer, Change::Lose { calls }, context);
        }
        let mut look_at_ms = clock.now.as_ms() + LOOK_EVERY_MS;
        if work {
            match pacer.start(clock.now) {
                Ok(permit) => {
                    self.doing = Doing::Claiming(permit);
                    return self.write(token, pacer, Change::Claim { call: permit.call }, context);
                }
                Err(wait) => look_at_ms = look_at_ms.min(wait.until.as_ms()),
            }
        }
        self.doing = Doing::Resting;
        context.set_timer(TIMER, look_at_ms);
    }

    fn look(&mut self, context: &mut Context<'_, Note>) {
        self.doing = Doing::Looking;
        self.read(context);
    }

    fn end(
        &mut self,
        call: u64,
        answer: Answer<u32>,
        named: Option<(u64, u64)>,
        context: &mut Context<'_, Note>,
    ) {
        self.doing = Doing::Ending(Ended { call, answer, named, written: false });
        self.read(context);
    }

    fn read(&mut self, context: &mut Context<'_, Note>) {
        self.asks += 1;
        self.copy = None;
        context.send(self.store, Note::Read { ask: self.asks });
        context.set_timer(TIMER, context.now_ms() + ASK_AGAIN_MS);
    }

    /// Sends a change that was made on a copy of the pacer.
    fn write(&mut self, token: u64, pacer: Pacer, change: Change, context: &mut Context<'_, Note>) {
        self.asks += 1;
        let mut pace = pacer.pace().clone();
        if self.bug == Some(Bug::IntervalFromTheStart) && matches!(change, Change::Settle { .. }) {
            // Planted: an end does not begin the interval anew, and nobody remembers it.
            pace.ends = self.pacer.pace().ends;
        } else {
            self.copy = Some(pacer);
        }
        context.send(self.store, Note::Write { ask: self.asks, token, pace, change });
        context.set_timer(TIMER, context.now_ms() + ASK_AGAIN_MS);
    }
}
