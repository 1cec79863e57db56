//! One storage area and its contexts, one step at a time.

use std::collections::BTreeMap;

use syncline_core::state::{Effect, Failure, Input};

use super::party::{Fate, Party, Who, Wish};

/// Faults to plant, each of which the ledger must find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bug {
    /// Replicas hear of no change and look at nothing twice.
    Deaf,
    /// Writes reach storage in the opposite order.
    IndexFirst,
    /// One context follows the plain algorithm and is held to what replicas promise each other.
    Plain,
}

/// A step that can be taken now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// A context gets its next wish.
    Wish(usize),
    /// Storage does what a context asked for, and answers.
    Storage(usize),
    /// A context hears of a change or a message.
    Deliver(usize),
}

#[derive(Debug, Clone)]
pub(crate) struct World {
    pub(crate) storage: BTreeMap<String, String>,
    pub(crate) parties: Vec<Option<Party>>,
    pub(crate) wishes: Vec<Vec<Wish>>,
    pub(crate) now: u64,
    pub(crate) wall: u64,
    pub(crate) bug: Option<Bug>,
    /// Changes are heard of at once, so that there are fewer orders to try.
    pub(crate) prompt: bool,
    pub(crate) writes: u64,
    /// Writes of contexts that had nothing of their own to store.
    pub(crate) repairs: u64,
    /// Storage has lost everything in this phase.
    pub(crate) vanished: bool,
    /// How far each context's clock is off, in ms.
    pub(crate) offs: Vec<i64>,
    /// Contexts that stand still: nothing reaches them and nothing of theirs is done.
    pub(crate) stopped: Option<usize>,
    makers: u32,
}

impl World {
    pub(crate) fn new(bug: Option<Bug>) -> Self {
        Self {
            storage: BTreeMap::new(),
            parties: Vec::new(),
            wishes: Vec::new(),
            now: 1_000,
            wall: 1_730_000_000_000,
            bug,
            prompt: false,
            writes: 0,
            repairs: 0,
            vanished: false,
            offs: Vec::new(),
            stopped: None,
            makers: 0,
        }
    }

    pub(crate) fn spawn_replica(&mut self) {
        self.parties.push(None);
        self.wishes.push(Vec::new());
        self.offs.push(0);
        self.restart(self.parties.len() - 1);
    }

    pub(crate) fn spawn_plain(&mut self) {
        self.parties.push(Some(Party::plain()));
        self.wishes.push(Vec::new());
        self.offs.push(0);
    }

    /// A new context in the place of one that died.
    pub(crate) fn restart(&mut self, at: usize) {
        self.makers += 1;
        let mut party = Party::replica(self.makers);
        party.handle(self.now, self.wall_of(at), Input::Start);
        self.parties[at] = Some(party);
    }

    fn wall_of(&self, at: usize) -> u64 {
        self.wall.saturating_add_signed(self.offs[at])
    }

    pub(crate) fn steps(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        for (at, party) in self.parties.iter().enumerate() {
            let Some(party) = party.as_ref().filter(|_| self.stopped != Some(at)) else { continue };
            if !self.wishes[at].is_empty() && !party.is_busy() {
                steps.push(Step::Wish(at));
            }
            if !party.asks.is_empty() {
                steps.push(Step::Storage(at));
            }
            if !party.inbox.is_empty() {
                steps.push(Step::Deliver(at));
            }
        }
        steps
    }

    pub(crate) fn take(&mut self, step: Step) {
        match step {
            Step::Wish(at) => {
                let wish = self.wishes[at].remove(0);
                let spread = self.writes.is_multiple_of(2);
                let (now, wall) = (self.now, self.wall_of(at));
                self.party(at).wish(now, wall, wish, spread);
            }
            Step::Storage(at) => self.serve(at, usize::MAX, None),
            Step::Deliver(at) => {
                if let Some(input) = self.party(at).inbox.pop_front() {
                    self.hand(at, input);
                }
            }
        }
        self.pass_on();
    }

    pub(crate) fn hand(&mut self, at: usize, input: Input) {
        let (now, wall) = (self.now, self.wall_of(at));
        if let Some(party) = &mut self.parties[at] {
            party.handle(now, wall, input);
        }
    }

    /// Storage loses everything: key by key, or as a database that is closed, both of which contexts hear of; or without a word
    /// when nobody is using it. What was stored before may be gone; what somebody knows and writes again may be back.
    pub(crate) fn vanish(&mut self, key_by_key: bool) {
        self.vanished = true;
        let gone = std::mem::take(&mut self.storage).into_keys().map(|key| (key, None)).collect::<Vec<_>>();
        let quiet = self.parties.iter().flatten().all(|party| party.asks.is_empty());
        for party in self.parties.iter_mut().flatten() {
            for (_, fate) in party.fates.iter_mut().filter(|(_, fate)| *fate == Fate::Stored) {
                *fate = Fate::Doubtful;
            }
            if !matches!(party.who, Who::Replica(_)) || quiet {
                continue;
            }
            let news = if key_by_key { Input::Changed(gone.clone()) } else { Input::Refresh };
            party.inbox.push_back(news);
        }
    }

    /// Whether the next thing that a context asks of storage is a write.
    pub(crate) fn writes_next(&self, at: usize) -> bool {
        let asks = self.parties[at].as_ref().map(|party| &party.asks);
        matches!(asks.and_then(|asks| asks.front()), Some(Effect::Set { .. } | Effect::Swap { .. }))
    }

    fn party(&mut self, at: usize) -> &mut Party {
        self.parties[at].as_mut().expect("alive")
    }

    /// Storage does what a context asked for: at most `entries` of it, and then the context dies; or it refuses.
    pub(crate) fn serve(&mut self, at: usize, entries: usize, refuse: Option<Failure>) {
        let Some(effect) = self.party(at).asks.pop_front() else { return };
        let read = |key: &String| (key.clone(), self.storage.get(key).cloned());
        let answer = match effect {
            Effect::Get { ask, .. }
            | Effect::Set { ask, .. }
            | Effect::Swap { ask, .. }
            | Effect::Remove { ask, .. }
            | Effect::List { ask }
                if refuse.is_some() =>
            {
                Input::Failed { ask, failure: refuse.expect("some") }
            }
            Effect::Get { ask, keys } => Input::Got { ask, found: keys.iter().map(read).collect() },
            Effect::List { ask } => Input::Listed { ask, keys: self.storage.keys().cloned().collect() },
            Effect::Remove { ask, keys } => {
                let changes = keys.into_iter().map(|key| (key, None)).collect();
                self.change(changes, entries);
                Input::Stored { ask }
            }
            Effect::Swap { ask, entries: set } => {
                self.writes += 1;
                let before = set.iter().map(|(key, _)| read(key)).collect();
                let changes = set.into_iter().map(|(key, text)| (key, Some(text))).collect();
                // All of it or nothing.
                self.change(changes, if entries == 0 { 0 } else { usize::MAX });
                Input::Swapped { ask, before }
            }
            Effect::Set { ask, entries: mut set } => {
                self.writes += 1;
                let idle = self.parties[at]
                    .iter()
                    .all(|party| party.fates.iter().all(|(_, fate)| *fate != Fate::Open));
                self.repairs += u64::from(idle);
                if self.bug == Some(Bug::IndexFirst) {
                    set.reverse();
                }
                let changes = set.into_iter().map(|(key, text)| (key, Some(text))).collect();
                self.change(changes, entries);
                Input::Stored { ask }
            }
            other => panic!("{other:?}"),
        };
        if entries == usize::MAX {
            self.hand(at, answer);
        } else {
            self.parties[at] = None;
        }
    }

    fn change(&mut self, changes: Vec<(String, Option<String>)>, entries: usize) {
        let mut real = Vec::new();
        for (key, text) in changes.into_iter().take(entries) {
            let before = match &text {
                Some(text) => self.storage.insert(key.clone(), text.clone()),
                None => self.storage.remove(&key),
            };
            if before != text {
                real.push((key, text));
            }
        }
        if real.is_empty() || self.bug == Some(Bug::Deaf) {
            return;
        }
        for at in 0..self.parties.len() {
            if let Some(party) = &mut self.parties[at]
                && matches!(party.who, Who::Replica(_))
            {
                party.inbox.push_back(Input::Changed(real.clone()));
            }
        }
        if self.prompt {
            for at in 0..self.parties.len() {
                while let Some(input) = self.parties[at].as_mut().and_then(|party| party.inbox.pop_front()) {
                    self.hand(at, input);
                }
            }
        }
    }

    /// Messages go to all others.
    fn pass_on(&mut self) {
        for at in 0..self.parties.len() {
            let said =
                self.parties[at].as_mut().map(|party| std::mem::take(&mut party.said)).unwrap_or_default();
            for (other, party) in self.parties.iter_mut().enumerate() {
                let Some(party) = party.as_mut().filter(|party| matches!(party.who, Who::Replica(_))) else {
                    continue;
                };
                if other != at && !self.prompt && self.bug != Some(Bug::Deaf) {
                    party.inbox.extend(said.iter().cloned().map(Input::Message));
                }
            }
        }
    }

    /// Lets time pass until a context wants to be woken, at most until `until`; whether one did.
    pub(crate) fn pass_time(&mut self, until: u64) -> bool {
        let awake = |(at, party): (usize, &Option<Party>)| {
            party.as_ref().filter(|_| self.stopped != Some(at)).and_then(|party| party.wake_at)
        };
        let due = self.parties.iter().enumerate().filter_map(awake).min();
        let to = due.unwrap_or(until).clamp(self.now, until);
        self.wall += to - self.now;
        self.now = to;
        let Some(due) = due.filter(|due| *due <= to) else { return false };
        for at in 0..self.parties.len() {
            if self.stopped == Some(at) {
                continue;
            }
            if self.parties[at].as_ref().and_then(|party| party.wake_at).is_some_and(|wake| wake <= due)
                && self.bug != Some(Bug::Deaf)
            {
                self.hand(at, Input::Timer);
            } else if let Some(party) = &mut self.parties[at]
                && self.bug == Some(Bug::Deaf)
            {
                party.wake_at = None;
            }
        }
        self.pass_on();
        true
    }

    /// Everything that is under way ends, and `ms` go by.
    pub(crate) fn calm(&mut self, ms: u64) {
        let until = self.now + ms;
        for round in 0.. {
            while let Some(&step) = self.steps().first() {
                self.take(step);
            }
            assert!(round < 5_000, "no end of it: {:?}", self.storage);
            if !self.pass_time(until) && self.steps().is_empty() {
                break;
            }
        }
    }
}
