//! A device: one storage area, its contexts, a clock of its own, and a way to the node that comes and goes.

use std::collections::{BTreeMap, VecDeque};

use syncline_core::state::{Config, Effect, Input, LinkStatus, Replica, Value};
use syncline_core::time::Timestamp;

use super::node::Node;

pub(crate) fn value(n: u64) -> Value {
    Value::read(&format!("{{\"n\":{n}}}")).expect("a value")
}

/// One context.
#[derive(Debug, Clone)]
pub(crate) struct Context {
    pub(crate) replica: Replica,
    /// Questions to storage and to the node, in order.
    pub(crate) asks: VecDeque<Effect>,
    pub(crate) calls: VecDeque<Effect>,
    inbox: VecDeque<Input>,
    wake_at: Option<u64>,
    pub(crate) view: BTreeMap<String, String>,
    pub(crate) status: LinkStatus,
    /// Operations that were answered, by number.
    pub(crate) done: Vec<u64>,
    /// How far its clock is off its device's, in ms.
    pub(crate) off: i64,
}

#[derive(Debug, Clone)]
pub(crate) struct Device {
    pub(crate) storage: BTreeMap<String, String>,
    pub(crate) contexts: Vec<Context>,
    pub(crate) now: u64,
    /// How far its clock is off, in ms.
    pub(crate) off: i64,
    pub(crate) online: bool,
    makers: u32,
}

/// The true time of day when everything begins.
pub(crate) const NOON: u64 = 1_730_000_000_000;

impl Device {
    pub(crate) fn new(number: u32, contexts: usize) -> Self {
        let mut device = Self {
            storage: BTreeMap::new(),
            contexts: Vec::new(),
            now: 1_000,
            off: 0,
            online: true,
            makers: number * 1_000,
        };
        (0..contexts).for_each(|_| device.open());
        device.calm();
        device
    }

    /// Another context starts; the first one talks to the node.
    pub(crate) fn open(&mut self) {
        self.open_as(true);
    }

    /// Another context starts, with a bridge or without.
    pub(crate) fn open_as(&mut self, bridged: bool) {
        self.open_off(bridged, 0);
    }

    /// Another context starts, with a clock of its own.
    pub(crate) fn open_off(&mut self, bridged: bool, off: i64) {
        self.makers += 1;
        let config = Config {
            maker: self.makers,
            schema_version: 1,
            migrate: None,
            check_settings: None,
            bridged,
            swaps: self.makers.is_multiple_of(2),
        };
        self.contexts.push(Context {
            replica: Replica::new(config),
            asks: VecDeque::new(),
            calls: VecDeque::new(),
            inbox: VecDeque::new(),
            wake_at: None,
            view: BTreeMap::new(),
            status: LinkStatus::Down,
            done: Vec::new(),
            off,
        });
        let at = self.contexts.len() - 1;
        self.hand(at, Input::Start);
        if at == 0 {
            self.hand(at, Input::Link { up: true });
        }
    }

    /// A context dies; the next one takes over.
    pub(crate) fn kill(&mut self, at: usize) {
        self.contexts.remove(at);
        if at == 0 && !self.contexts.is_empty() {
            self.hand(0, Input::Link { up: true });
        }
    }

    /// Somebody clears the storage; the browser closes it, and every context hears of that.
    pub(crate) fn clear(&mut self) {
        self.storage.clear();
        (0..self.contexts.len()).for_each(|context| self.hand(context, Input::Refresh));
    }

    pub(crate) fn wall(&self) -> u64 {
        (NOON + self.now).saturating_add_signed(self.off)
    }

    pub(crate) fn hand(&mut self, at: usize, input: Input) {
        let (now, wall) = (Timestamp::from_ms(self.now), self.wall());
        let Some(context) = self.contexts.get_mut(at) else { return };
        let wall = Timestamp::from_ms(wall.saturating_add_signed(context.off));
        let output = context.replica.handle(now, wall, input);
        context.wake_at = output.wake_at.map(Timestamp::as_ms);
        let mut said = Vec::new();
        for effect in output.effects {
            match effect {
                Effect::Get { .. }
                | Effect::Set { .. }
                | Effect::Swap { .. }
                | Effect::Remove { .. }
                | Effect::List { .. } => {
                    context.asks.push_back(effect);
                }
                Effect::Pull { .. } | Effect::Push { .. } => context.calls.push_back(effect),
                Effect::Render { id, value: Some(value) } => {
                    context.view.insert(id, value.text().to_owned());
                }
                Effect::Render { id, value: None } => {
                    context.view.remove(&id);
                }
                Effect::Clear => context.view.clear(),
                Effect::Link(status) => context.status = status,
                Effect::Resolve { op } => context.done.push(op),
                Effect::Reject { error, .. } => panic!("{error}"),
                Effect::Send { text, .. } => said.push(text),
                Effect::Ready | Effect::Settings(_) | Effect::Report(_) => {}
            }
        }
        for (other, context) in self.contexts.iter_mut().enumerate() {
            if other != at {
                context.inbox.extend(said.iter().cloned().map(Input::Message));
            }
        }
    }

    /// Carries out what a context asked of its storage; whether there was anything.
    pub(crate) fn serve(&mut self, at: usize) -> bool {
        let Some(effect) = self.contexts.get_mut(at).and_then(|context| context.asks.pop_front()) else {
            return false;
        };
        let mut changes = Vec::new();
        let answer = match effect {
            Effect::Get { ask, keys } => {
                let read = |key: String| (key.clone(), self.storage.get(&key).cloned());
                Input::Got { ask, found: keys.into_iter().map(read).collect() }
            }
            Effect::Set { ask, entries } => {
                self.write(entries, &mut changes);
                Input::Stored { ask }
            }
            Effect::Swap { ask, entries } => {
                Input::Swapped { ask, before: self.write(entries, &mut changes) }
            }
            Effect::Remove { ask, keys } => {
                changes.extend(
                    keys.into_iter().filter(|key| self.storage.remove(key).is_some()).map(|key| (key, None)),
                );
                Input::Stored { ask }
            }
            Effect::List { ask } => Input::Listed { ask, keys: self.storage.keys().cloned().collect() },
            other => panic!("{other:?}"),
        };
        if !changes.is_empty() {
            for context in &mut self.contexts {
                context.inbox.push_back(Input::Changed(changes.clone()));
            }
        }
        self.hand(at, answer);
        true
    }

    /// What the keys held before.
    fn write(
        &mut self,
        entries: Vec<(String, String)>,
        changes: &mut Vec<(String, Option<String>)>,
    ) -> Vec<(String, Option<String>)> {
        let mut before = Vec::new();
        for (key, text) in entries {
            before.push((key.clone(), self.storage.insert(key.clone(), text.clone())));
            if before.last().is_some_and(|(_, before)| before.as_ref() != Some(&text)) {
                changes.push((key, Some(text)));
            }
        }
        before
    }

    pub(crate) fn deliver(&mut self, at: usize) -> bool {
        let Some(input) = self.contexts.get_mut(at).and_then(|context| context.inbox.pop_front()) else {
            return false;
        };
        self.hand(at, input);
        true
    }

    /// Carries out what a context asked of the node. `lost`: the answer never comes, though the node has heard.
    pub(crate) fn call(&mut self, at: usize, node: &mut Node, wall: u64, lost: bool) -> bool {
        let Some(effect) = self.contexts.get_mut(at).and_then(|context| context.calls.pop_front()) else {
            return false;
        };
        let (ask, answer) = match effect {
            Effect::Pull { ask, .. } | Effect::Push { ask, .. } if !self.online => (ask, Err(None)),
            Effect::Pull { ask, query } => (ask, Ok(node.pull(&query, wall))),
            Effect::Push { ask, body } => (ask, node.push(&body, wall).map_err(|word| Some(word.to_owned()))),
            other => panic!("{other:?}"),
        };
        self.hand(
            at,
            match answer {
                Ok(text) if !lost => Input::Answered { ask, text },
                Ok(_) => Input::Unanswered { ask, refusal: None, random: 7 },
                Err(refusal) => Input::Unanswered { ask, refusal, random: 7 },
            },
        );
        true
    }

    /// Everything on this machine ends; the node is not called.
    pub(crate) fn calm(&mut self) {
        for at in 0.. {
            let busy = (0..self.contexts.len()).any(|at| self.serve(at) || self.deliver(at));
            assert!(at < 100_000, "no end of it");
            if !busy {
                return;
            }
        }
    }

    pub(crate) fn pass(&mut self, ms: u64) {
        let until = self.now + ms;
        while self.now < until {
            let due = self.contexts.iter().filter_map(|context| context.wake_at).min();
            self.now = due.unwrap_or(until).clamp(self.now + 1, until);
            for at in 0..self.contexts.len() {
                if self.contexts[at].wake_at.is_some_and(|at| at <= self.now) {
                    self.hand(at, Input::Timer);
                }
            }
            self.calm();
        }
    }

    /// Exchanges everything with the node.
    pub(crate) fn sync(&mut self, node: &mut Node) {
        for round in 0.. {
            self.calm();
            let wall = NOON + self.now;
            let called = (0..self.contexts.len()).any(|at| self.call(at, node, wall, false));
            if !called {
                self.calm();
                if self.contexts[0].calls.is_empty() {
                    return;
                }
            }
            assert!(round < 10_000, "no end of it: {:?}", self.contexts[0].status);
        }
    }

    /// The node is told to be asked, and everything is exchanged.
    pub(crate) fn meet(&mut self, node: &mut Node) {
        self.hand(0, Input::Link { up: true });
        self.sync(node);
    }

    pub(crate) fn put(&mut self, at: usize, op: u64, id: &str, n: u64) {
        self.hand(at, Input::Put { op, id: id.to_owned(), value: value(n) });
    }

    pub(crate) fn remove(&mut self, at: usize, op: u64, id: &str) {
        self.hand(at, Input::Remove { op, ids: vec![id.to_owned()] });
    }

    pub(crate) fn marks(&self) -> usize {
        self.storage.keys().filter(|key| key.starts_with("syncUnsent:")).count()
    }

    pub(crate) fn view(&self) -> &BTreeMap<String, String> {
        &self.contexts[0].view
    }
}
