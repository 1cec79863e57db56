//! Who writes: replicas, and contexts that follow the plain algorithm (fetch, merge, store).

use std::collections::{BTreeMap, VecDeque};

use syncline_core::state::json::Json;
use syncline_core::state::{Config, Effect, Failure, Input, Replica, Value};
use syncline_core::time::Timestamp;

const INDEX: &str = "trackedEntities:index";

/// What a caller wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Wish {
    Put(String, u64),
    Remove(String),
    Reset,
    Layout(syncline_core::state::Layout),
}

/// How a wish ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    Open,
    Stored,
    Refused,
    /// It was stored, and then storage lost everything.
    Doubtful,
}

pub(crate) fn value(number: u64) -> Value {
    Value::read(&format!("{{\"checked\":true,\"n\":{number}}}")).expect("a value")
}

/// A context.
#[derive(Debug, Clone)]
pub(crate) struct Party {
    pub(crate) who: Who,
    /// Questions to storage, in order.
    pub(crate) asks: VecDeque<Effect>,
    /// What was not delivered yet.
    pub(crate) inbox: VecDeque<Input>,
    pub(crate) wake_at: Option<u64>,
    pub(crate) fates: Vec<(Wish, Fate)>,
    /// Messages to be passed on.
    pub(crate) said: Vec<String>,
    /// What the view shows, as told by effects.
    pub(crate) view: BTreeMap<String, Value>,
    /// Entities rendered, to see that an echo renders nothing.
    pub(crate) renders: u64,
    /// Whether loading is done.
    pub(crate) is_ready: bool,
}

#[derive(Debug, Clone)]
pub(crate) enum Who {
    Replica(Box<Replica>),
    Plain(Option<PlainStep>),
}

/// A plain writer between its reading and its writing.
#[derive(Debug, Clone)]
pub(crate) struct PlainStep {
    wish: Wish,
    op: usize,
    /// Spreads what it does not know instead of dropping it.
    spread: bool,
    stored: bool,
}

impl Party {
    pub(crate) fn replica(maker: u32) -> Self {
        // Contexts of both kinds meet on one storage.
        let swaps = maker.is_multiple_of(2);
        let config =
            Config { maker, schema_version: 1, migrate: None, check_settings: None, bridged: false, swaps };
        Self::new(Who::Replica(Box::new(Replica::new(config))))
    }

    pub(crate) fn plain() -> Self {
        Self::new(Who::Plain(None))
    }

    fn new(who: Who) -> Self {
        Self {
            who,
            asks: VecDeque::new(),
            inbox: VecDeque::new(),
            wake_at: None,
            fates: Vec::new(),
            said: Vec::new(),
            view: BTreeMap::new(),
            renders: 0,
            is_ready: false,
        }
    }

    pub(crate) fn as_replica(&self) -> Option<&Replica> {
        if let Who::Replica(replica) = &self.who { Some(replica) } else { None }
    }

    /// Whether a plain writer is in the middle of something.
    pub(crate) fn is_busy(&self) -> bool {
        matches!(self.who, Who::Plain(Some(_)))
    }

    pub(crate) fn wish(&mut self, now: u64, wall: u64, wish: Wish, spread: bool) {
        self.fates.push((wish.clone(), Fate::Open));
        let op = self.fates.len() as u64;
        if let Who::Plain(step) = &mut self.who {
            *step = Some(PlainStep { wish: wish.clone(), op: op as usize - 1, spread, stored: false });
            // The entity first, then the index; a removal only needs the index.
            self.asks.push_back(match wish {
                Wish::Put(id, number) => Effect::Set {
                    ask: 0,
                    entries: vec![(format!("trackedEntity:{id}"), value(number).text().to_owned())],
                },
                _ => Effect::Get { ask: 0, keys: vec![INDEX.to_owned()] },
            });
            return;
        }
        let input = match wish {
            Wish::Put(id, number) => Input::Put { op, id, value: value(number) },
            Wish::Remove(id) => Input::Remove { op, ids: vec![id] },
            Wish::Reset => Input::Reset { op },
            Wish::Layout(layout) => Input::SetLayout { op, layout },
        };
        self.handle(now, wall, input);
    }

    pub(crate) fn handle(&mut self, now: u64, wall: u64, input: Input) {
        match &mut self.who {
            Who::Replica(replica) => {
                let output = replica.handle(Timestamp::from_ms(now), Timestamp::from_ms(wall), input);
                self.wake_at = output.wake_at.map(Timestamp::as_ms);
                output.effects.into_iter().for_each(|effect| self.perform(effect));
            }
            Who::Plain(_) => self.go_on(input),
        }
    }

    fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::Get { .. }
            | Effect::Set { .. }
            | Effect::Swap { .. }
            | Effect::Remove { .. }
            | Effect::List { .. } => {
                self.asks.push_back(effect);
                assert!(self.asks.len() < 2, "one question at a time");
            }
            Effect::Send { text, .. } => self.said.push(text),
            Effect::Render { id, value } => {
                self.renders += 1;
                let before = match value.clone() {
                    Some(value) => self.view.insert(id.clone(), value),
                    None => self.view.remove(&id),
                };
                assert_ne!(before, value, "{id} was rendered without a change");
            }
            Effect::Clear => self.view.clear(),
            Effect::Resolve { op } => self.fates[op as usize - 1].1 = Fate::Stored,
            Effect::Reject { op, .. } => self.fates[op as usize - 1].1 = Fate::Refused,
            Effect::Ready => self.is_ready = true,
            Effect::Settings(_) | Effect::Report(_) => {}
            Effect::Pull { .. } | Effect::Push { .. } | Effect::Link(_) => {
                panic!("nobody is linked: {effect:?}")
            }
        }
    }

    /// The plain algorithm.
    fn go_on(&mut self, input: Input) {
        let Who::Plain(step) = &mut self.who else { return };
        let Some(doing) = step else { return };
        match input {
            Input::Stored { .. } if doing.stored => {
                self.fates[doing.op].1 = Fate::Stored;
                *step = None;
            }
            Input::Stored { .. } => self.asks.push_back(Effect::Get { ask: 0, keys: vec![INDEX.to_owned()] }),
            Input::Got { found, .. } => {
                let text = found[0].1.clone().unwrap_or_else(|| "{\"ids\":[]}".to_owned());
                let json = Json::read(&text).expect("an index");
                let Some(Json::List(ids)) = json.member("ids") else { panic!("{text}") };
                let mut ids = ids.clone();
                match &doing.wish {
                    Wish::Put(id, _) if !ids.contains(&Json::Text(id.clone())) => {
                        ids.push(Json::Text(id.clone()));
                    }
                    Wish::Put(..) | Wish::Layout(_) => {}
                    Wish::Remove(id) => ids.retain(|other| *other != Json::Text(id.clone())),
                    Wish::Reset => ids.clear(),
                }
                // An empty list would be a reset: such a writer cannot say that only the last one is gone, and leaves it.
                if matches!(doing.wish, Wish::Remove(_)) && ids.is_empty() {
                    self.fates[doing.op].1 = Fate::Refused;
                    *step = None;
                    return;
                }
                let mut members = match json {
                    Json::Map(members) if doing.spread => members,
                    _ => Vec::new(),
                };
                members.push(("ids".to_owned(), Json::List(ids)));
                doing.stored = true;
                let entries = vec![(INDEX.to_owned(), Json::map(members).text())];
                self.asks.push_back(Effect::Set { ask: 0, entries });
            }
            Input::Failed { failure: Failure::Quota, .. } => {
                self.fates[doing.op].1 = Fate::Refused;
                *step = None;
            }
            _ => {}
        }
    }
}
