//! The rule of the record with three clients, exhaustively: requests and answers that are late or lost, clients that
//! die, writes that are begun in time and arrive after it. At most one client is certain, tokens only grow, and a
//! resource that remembers the highest token accepts nothing from a holder of the past.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use syncline_core::lock::{Acquired, LeaseId, Moment, Slot, Token, Ttl, Validity};
use syncline_core::time::Timestamp;

const CLIENTS: usize = 3;
const TICK_MS: u64 = 450;

/// A defect put in on purpose, to see whether it is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Bug {
    None,
    /// The resource accepts whatever comes.
    NoFence,
    /// The holder counts from the answer, not from the question.
    CountFromTheAnswer,
    /// A grant does not raise the token.
    SameToken,
}

#[derive(Debug, Clone, Copy, Default, Hash)]
struct Client {
    /// How many lives and leases it has had; the next lease is made of it.
    number: u8,
    /// A question on its way to the store, and when it was asked.
    asked: Option<(Question, Moment)>,
    /// The answer on its way back: the token, where it was granted.
    answer: Option<(Option<Token>, Moment)>,
    held: Option<(Token, Validity)>,
    /// A write that was begun while the lease was certain.
    writing: Option<Token>,
}

#[derive(Debug, Clone, Copy, Hash)]
enum Question {
    Acquire,
    Renew,
    Release,
}

#[derive(Debug, Clone, Hash)]
struct World {
    bug: Bug,
    now_ms: u64,
    until_ms: u64,
    /// How many more questions are asked, in all.
    questions: u8,
    deaths: u8,
    slot: Slot,
    clients: [Client; CLIENTS],
    /// The highest token granted, and the highest that the resource has seen.
    granted: Token,
    seen: Token,
    /// The token of the last write that was accepted.
    accepted: Token,
}

#[derive(Debug, Clone, Copy)]
enum Action {
    Ask(usize, Question),
    Serve(usize),
    Hear(usize),
    LoseAnswer(usize),
    BeginWrite(usize),
    EndWrite(usize),
    Die(usize),
    Tick,
}

impl World {
    fn new(bug: Bug, ticks: u64, questions: u8) -> Self {
        Self {
            bug,
            now_ms: 0,
            until_ms: ticks * TICK_MS,
            questions,
            deaths: 1,
            slot: Slot::default(),
            clients: [Client::default(); CLIENTS],
            granted: Token::NONE,
            seen: Token::NONE,
            accepted: Token::NONE,
        }
    }

    fn moment(&self) -> Moment {
        let now = Timestamp::from_ms(self.now_ms);
        Moment { mono: now, wall: now }
    }

    fn certain(&self, client: &Client) -> bool {
        client.held.is_some_and(|(_, validity)| validity.certain(self.moment()))
    }

    fn actions(&self) -> Vec<Action> {
        let mut actions = Vec::new();
        for (index, client) in self.clients.iter().enumerate() {
            let idle = client.asked.is_none() && client.answer.is_none() && self.questions > 0;
            match client.held {
                None if idle => actions.push(Action::Ask(index, Question::Acquire)),
                Some(_) if idle => {
                    actions.extend([Question::Renew, Question::Release].map(|ask| Action::Ask(index, ask)));
                }
                _ => {}
            }
            actions.extend(client.asked.map(|_| Action::Serve(index)));
            if client.answer.is_some() {
                actions.extend([Action::Hear(index), Action::LoseAnswer(index)]);
            }
            if client.writing.is_some() {
                actions.push(Action::EndWrite(index));
            } else if self.certain(client) {
                actions.push(Action::BeginWrite(index));
            }
            actions.extend((self.deaths > 0 && client.held.is_some()).then_some(Action::Die(index)));
        }
        actions.extend((self.now_ms < self.until_ms).then_some(Action::Tick));
        actions
    }

    fn apply(&mut self, action: Action) -> Result<(), String> {
        let now = self.moment();
        match action {
            Action::Ask(index, question) => {
                self.questions -= 1;
                let client = &mut self.clients[index];
                client.asked = Some((question, now));
                // Whoever gives back has stopped.
                if matches!(question, Question::Release) {
                    client.held = None;
                }
            }
            Action::Serve(index) => self.serve(index)?,
            Action::Hear(index) => {
                let client = &mut self.clients[index];
                let (token, asked) = client.answer.take().expect("there is an answer");
                let from = if self.bug == Bug::CountFromTheAnswer { now } else { asked };
                client.held = token.map(|token| (token, Validity::new(from, Ttl::MIN)));
            }
            Action::LoseAnswer(index) => self.clients[index].answer = None,
            Action::BeginWrite(index) => {
                let client = &mut self.clients[index];
                client.writing = client.held.map(|(token, _)| token);
            }
            Action::EndWrite(index) => self.end_write(index)?,
            Action::Die(index) => {
                self.deaths -= 1;
                let Client { number, asked, writing, .. } = self.clients[index];
                // What it has sent still arrives.
                self.clients[index] = Client { number: number + 1, writing, asked, ..Client::default() };
            }
            Action::Tick => self.now_ms += TICK_MS,
        }
        let certain: Vec<_> = (0..CLIENTS).filter(|index| self.certain(&self.clients[*index])).collect();
        if certain.len() > 1 { Err(format!("clients {certain:?} are certain at once")) } else { Ok(()) }
    }

    fn serve(&mut self, index: usize) -> Result<(), String> {
        let now = self.moment().wall;
        let (question, asked) = self.clients[index].asked.take().expect("there is a question");
        let lease = LeaseId::from_random([index as u8 * 16 + self.clients[index].number + 1; 16]);
        let slot = match question {
            Question::Acquire => match self.slot.acquire(now, lease, Ttl::MIN, Ttl::MAX) {
                Acquired::Granted { slot, .. } => Some(slot),
                _ => None,
            },
            Question::Renew => self.slot.renew(now, lease, Ttl::MIN).ok(),
            Question::Release => self.slot.release(now, lease).ok(),
        };
        let before = self.slot.held.map(|held| held.lease);
        if let Some(mut slot) = slot {
            if self.bug == Bug::SameToken && slot.token == self.slot.token.next() {
                slot.token = Token::new(1);
            }
            let changed_hands = slot.held.is_some() && before != Some(lease);
            if changed_hands && slot.token <= self.granted {
                return Err(format!("token {} was granted after {}", slot.token, self.granted));
            }
            self.granted = self.granted.max(slot.token);
            self.slot = slot;
        }
        let token = slot.and_then(|slot| slot.held).map(|_| self.slot.token);
        self.clients[index].answer = Some((token, asked));
        Ok(())
    }

    fn end_write(&mut self, index: usize) -> Result<(), String> {
        let token = self.clients[index].writing.take().expect("a write is under way");
        if token >= self.seen || self.bug == Bug::NoFence {
            if token < self.accepted {
                return Err(format!("a write of token {token} was accepted after one of {}", self.accepted));
            }
            self.accepted = token;
        }
        self.seen = self.seen.max(token);
        Ok(())
    }
}

/// Visits every state; the number of them, or the way to one that must not be.
fn explore(start: World) -> Result<usize, (String, Vec<Action>)> {
    let mut visited = HashSet::new();
    let actions = start.actions();
    let mut path = vec![(start, actions, 0)];
    while let Some((world, actions, next)) = path.last_mut() {
        let Some(action) = actions.get(*next).copied() else {
            path.pop();
            continue;
        };
        *next += 1;
        let mut world = world.clone();
        if let Err(what) = world.apply(action) {
            return Err((what, path.iter().map(|(_, actions, next)| actions[next - 1]).collect()));
        }
        let mut hasher = DefaultHasher::new();
        world.hash(&mut hasher);
        if visited.insert(hasher.finish()) {
            let actions = world.actions();
            path.push((world, actions, 0));
        }
    }
    Ok(visited.len())
}

#[test]
fn lk_23_one_certain_holder_growing_tokens_and_no_stale_write() {
    let deep = std::env::var_os("SYNCLINE_ROUNDS").is_some();
    let (ticks, questions) = if deep { (6, 3) } else { (4, 3) };
    match explore(World::new(Bug::None, ticks, questions)) {
        Ok(states) => println!("{CLIENTS} clients, {questions} questions, {ticks} ticks: {states} states"),
        Err((what, trace)) => panic!("{what}\n{trace:?}"),
    }
}

#[test]
fn lk_23_planted_defects_are_found() {
    for (bug, expected) in [
        (Bug::NoFence, "was accepted after"),
        (Bug::CountFromTheAnswer, "certain at once"),
        (Bug::SameToken, "was granted after"),
    ] {
        let (what, trace) = explore(World::new(bug, 5, 3)).expect_err("the defect was not found");
        assert!(what.contains(expected), "{bug:?}: {what}\n{trace:?}");
        println!("{bug:?}: {what}, {} steps", trace.len());
    }
}
