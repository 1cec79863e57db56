//! An API with moods: well, flooded (429 with all sorts of `Retry-After`), ill.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use syncline_core::queue::{Answer, retry_after};
use syncline_core::time::Timestamp;
use syncline_sim::{ActorId, Context, Event};

use super::ledger;
use super::{Note, number};

/// The API gives up on its own work after this.
const LONGEST_MS: u64 = 22_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mood {
    Well,
    Flooded,
    Ill,
}

/// What the API says, as it goes over the wire.
#[derive(Debug, Clone)]
pub(super) struct Response {
    status: u16,
    retry_after: Option<String>,
    /// The `Date` header.
    date: Timestamp,
    body: u32,
    /// For the ledger: when it was sent by the world's clock, and the pause that it names if it names one.
    pub(super) sent_ms: u64,
    pub(super) names_ms: Option<u64>,
}

impl Response {
    /// As a client reads it.
    pub(super) fn answer(&self) -> Answer<u32> {
        match self.status {
            200 => Answer::Done(self.body),
            429 => {
                // Against the API's own date: the two sides need not agree on the time.
                let read = |text: &String| retry_after::parse(text, self.date);
                Answer::Throttled { retry_after: self.retry_after.as_ref().and_then(read) }
            }
            404 => Answer::Refused { reason: "404".to_owned() },
            status => {
                let away = matches!(status, 502..=504);
                Answer::Broken { reason: status.to_string(), retry: true, away }
            }
        }
    }
}

pub(super) struct Api {
    ledger: ledger::Shared,
    mood: Mood,
    mood_until_ms: u64,
    /// Nothing but answers from now on.
    pub(super) recovered: bool,
    /// By caller and call: the timer that ends it, and what will be said, if anything.
    open: BTreeMap<(ActorId, u64), (u64, Option<Response>)>,
    /// Connections closed before their request came through.
    closed: BTreeSet<(ActorId, u64)>,
    timers: u64,
}

impl Api {
    pub(super) fn new(ledger: ledger::Shared) -> Self {
        Self {
            ledger,
            mood: Mood::Well,
            mood_until_ms: 0,
            recovered: false,
            open: BTreeMap::new(),
            closed: BTreeSet::new(),
            timers: 0,
        }
    }

    pub(super) fn handle(&mut self, event: &Event<Note>, context: &mut Context<'_, Note>) {
        match *event {
            Event::Message { from, body: Note::Request { call, key } } => {
                self.request(from, call, key, context);
            }
            Event::Message { from, body: Note::Abort { call, sent_ms } } => {
                self.close(from, call, sent_ms, context);
            }
            Event::Message { body: Note::Closed { caller, call }, .. } => {
                self.close(caller, call, context.world_ms(), context);
            }
            Event::Timer(timer) => {
                let due = self.open.iter().find(|(_, (token, _))| *token == timer).map(|(id, _)| *id);
                let Some((caller, call)) = due else { return };
                let (_, response) = self.open.remove(&(caller, call)).expect("just found");
                self.ledger.borrow_mut().ended(context.world_ms(), number(caller), call);
                if let Some(mut response) = response {
                    response.sent_ms = context.world_ms();
                    context.send(caller, Note::Response { call, response });
                }
            }
            _ => {}
        }
    }

    fn request(&mut self, caller: ActorId, call: u64, key: u32, context: &mut Context<'_, Note>) {
        self.ledger.borrow_mut().arrived(context.world_ms(), number(caller), call);
        if self.closed.contains(&(caller, call)) {
            self.ledger.borrow_mut().ended(context.world_ms(), number(caller), call);
            return;
        }
        let (takes_ms, response) = self.consider(key, context);
        self.timers += 1;
        self.open.insert((caller, call), (self.timers, response));
        context.set_timer(self.timers, context.now_ms() + takes_ms.min(LONGEST_MS));
    }

    fn close(&mut self, caller: ActorId, call: u64, given_up_ms: u64, context: &mut Context<'_, Note>) {
        self.closed.insert((caller, call));
        if let Some((timer, _)) = self.open.remove(&(caller, call)) {
            context.clear_timer(timer);
            self.ledger.borrow_mut().ended(given_up_ms, number(caller), call);
        }
    }

    /// How long a request takes, and what is said in the end, if anything.
    fn consider(&mut self, key: u32, context: &mut Context<'_, Note>) -> (u64, Option<Response>) {
        let date = Timestamp::from_ms(context.wall_ms());
        let now_ms = context.now_ms();
        let dice = context.dice();
        if now_ms >= self.mood_until_ms {
            self.mood = *dice.choose(&[Mood::Well, Mood::Flooded, Mood::Flooded, Mood::Ill]).expect("some");
            self.mood_until_ms = now_ms + dice.pick(1_000..=40_000);
        }
        let plain = |status| Response {
            status,
            retry_after: None,
            date,
            body: key.wrapping_mul(7),
            sent_ms: 0,
            names_ms: None,
        };
        if self.recovered {
            return (dice.pick(1..=50), Some(plain(200)));
        }
        let takes_ms = if dice.chance(0.04) { dice.pick(1_000..=LONGEST_MS) } else { dice.pick(1..=200) };
        let mut ledger = self.ledger.borrow_mut();
        let response = match self.mood {
            Mood::Well if dice.chance(0.02) => plain(404),
            Mood::Well => plain(200),
            Mood::Ill if dice.chance(0.3) => {
                ledger.tally.add("silences");
                return (LONGEST_MS, None);
            }
            Mood::Ill => plain(500),
            Mood::Flooded => {
                let (text, names_ms) = match dice.pick(0..=39) {
                    0..=15 => (None, None),
                    16..=23 => (Some((*dice.choose(&MALFORMED).expect("some")).to_owned()), None),
                    24 => (Some("86400".to_owned()), Some(86_400_000)),
                    _ => {
                        let seconds = dice.pick(1..=12);
                        (Some(seconds.to_string()), Some(seconds * 1_000))
                    }
                };
                ledger.tally.add(match (&text, names_ms) {
                    (None, _) => "429 without Retry-After",
                    (Some(_), None) => "429 with a malformed one",
                    (Some(_), Some(_)) => "429 with Retry-After",
                });
                Response { retry_after: text, names_ms, ..plain(429) }
            }
        };
        (takes_ms, Some(response))
    }
}

const MALFORMED: [&str; 6] = ["", "soon", "-5", "1.5", "Sun, 99 Foo 2025 00:00:00 GMT", "\u{fffd}"];

/// The answer of a client that gave up waiting.
pub(super) fn timed_out() -> Answer<u32> {
    Answer::Broken { reason: "time-out".to_owned(), retry: true, away: true }
}

/// What a client takes from an answer, for the ledger.
pub(super) fn asked_for(answer: &Answer<u32>) -> Option<Duration> {
    match answer {
        Answer::Throttled { retry_after } => *retry_after,
        _ => None,
    }
}
