//! One replica under test: its effects are looked at, and carried out when the test says so.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use syncline_core::state::json::Json;
use syncline_core::state::{Config, Effect, Failure, Input, Replica, Value};
use syncline_core::time::Timestamp;

pub(crate) struct Harness {
    pub(crate) replica: Replica,
    pub(crate) storage: BTreeMap<String, String>,
    /// Questions to storage.
    pub(crate) asks: VecDeque<Effect>,
    /// Everything else, in order.
    pub(crate) told: Vec<Effect>,
    pub(crate) is_ready: bool,
    pub(crate) view: BTreeMap<String, String>,
    pub(crate) now: Timestamp,
    pub(crate) wall: Timestamp,
    pub(crate) wake_at: Option<Timestamp>,
}

pub(crate) fn value(n: u64) -> Value {
    Value::read(&format!("{{\"n\":{n}}}")).expect("a value")
}

/// What a reader that knows only `ids` sees.
pub(crate) fn index_of(storage: &BTreeMap<String, String>) -> Vec<String> {
    let json = Json::read(&storage["trackedEntities:index"]).expect("an index");
    let Some(Json::List(ids)) = json.member("ids") else { panic!("{json:?}") };
    ids.iter().map(|id| id.as_text().expect("an id").to_owned()).collect()
}

pub(crate) fn config(maker: u32) -> Config {
    Config { maker, schema_version: 1, migrate: None, check_settings: None, bridged: false, swaps: false }
}

impl Harness {
    pub(crate) fn new(config: Config, storage: BTreeMap<String, String>) -> Self {
        Self {
            replica: Replica::new(config),
            storage,
            asks: VecDeque::new(),
            told: Vec::new(),
            is_ready: false,
            view: BTreeMap::new(),
            now: Timestamp::from_ms(1_000),
            wall: Timestamp::from_ms(1_730_000_000_000),
            wake_at: None,
        }
    }

    /// Not started; storage holds this many entities as a plain writer leaves them.
    pub(crate) fn filled(count: u64) -> Self {
        let mut storage = BTreeMap::new();
        let id = |n| format!("e{n:04}");
        let ids: Vec<String> = (0..count).map(|n| format!("\"{}\"", id(n))).collect();
        storage.insert("trackedEntities:index".to_owned(), format!("{{\"ids\":[{}]}}", ids.join(",")));
        (0..count).for_each(|n| {
            storage.insert(format!("trackedEntity:{}", id(n)), format!("{{\"n\":{n}}}"));
        });
        Self::new(config(1), storage)
    }

    pub(crate) fn started() -> Self {
        let mut harness = Self::new(config(1), BTreeMap::new());
        harness.start();
        harness
    }

    pub(crate) fn start(&mut self) {
        self.give(Input::Start);
        self.settle();
        assert!(self.is_ready);
    }

    pub(crate) fn give(&mut self, input: Input) {
        let output = self.replica.handle(self.now, self.wall, input);
        self.wake_at = output.wake_at;
        for effect in output.effects {
            match effect {
                Effect::Get { .. }
                | Effect::Set { .. }
                | Effect::Swap { .. }
                | Effect::Remove { .. }
                | Effect::List { .. } => {
                    self.asks.push_back(effect);
                }
                other => {
                    match &other {
                        Effect::Render { id, value: Some(value) } => {
                            self.view.insert(id.clone(), value.text().to_owned());
                        }
                        Effect::Render { id, value: None } => {
                            self.view.remove(id);
                        }
                        Effect::Clear => self.view.clear(),
                        Effect::Ready => self.is_ready = true,
                        _ => {}
                    }
                    self.told.push(other);
                }
            }
        }
    }

    /// The keys of the question to storage.
    pub(crate) fn asked(&self) -> Vec<String> {
        match self.asks.front() {
            Some(Effect::Get { keys, .. }) => {
                let mut keys = keys.clone();
                keys.sort();
                keys
            }
            _ => Vec::new(),
        }
    }

    /// Carries out the question to storage; the answer is not given yet.
    pub(crate) fn answer(&mut self) -> Input {
        match self.asks.pop_front().expect("a question") {
            Effect::Get { ask, keys } => {
                let read = |key: String| (key.clone(), self.storage.get(&key).cloned());
                Input::Got { ask, found: keys.into_iter().map(read).collect() }
            }
            Effect::Set { ask, entries } => {
                self.storage.extend(entries);
                Input::Stored { ask }
            }
            Effect::Swap { ask, entries } => {
                let swap = |(key, text): (String, String)| (key.clone(), self.storage.insert(key, text));
                Input::Swapped { ask, before: entries.into_iter().map(swap).collect() }
            }
            Effect::Remove { ask, keys } => {
                keys.iter().for_each(|key| {
                    self.storage.remove(key);
                });
                Input::Stored { ask }
            }
            Effect::List { ask } => Input::Listed { ask, keys: self.storage.keys().cloned().collect() },
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn serve(&mut self) {
        let answer = self.answer();
        self.give(answer);
    }

    pub(crate) fn refuse(&mut self, failure: Failure) {
        let (Effect::Get { ask, .. }
        | Effect::Set { ask, .. }
        | Effect::Swap { ask, .. }
        | Effect::Remove { ask, .. }
        | Effect::List { ask }) = self.asks.pop_front().expect("a question")
        else {
            panic!("not a question")
        };
        self.give(Input::Failed { ask, failure });
    }

    /// Carries out everything there is to ask.
    pub(crate) fn settle(&mut self) {
        while !self.asks.is_empty() {
            self.serve();
        }
    }

    /// Somebody else writes a key, and the replica hears of it.
    pub(crate) fn write(&mut self, key: &str, text: &str) {
        self.storage.insert(key.to_owned(), text.to_owned());
        self.give(Input::Changed(vec![(key.to_owned(), Some(text.to_owned()))]));
    }

    /// Lets time go by, timers firing when they are due.
    pub(crate) fn pass(&mut self, duration: Duration) {
        let until = self.now + duration;
        while self.now < until {
            let next = self.wake_at.filter(|at| *at > self.now).unwrap_or(until).min(until);
            self.wall = self.wall + next.saturating_since(self.now);
            self.now = next;
            self.give(Input::Timer);
            self.settle();
        }
    }
}
