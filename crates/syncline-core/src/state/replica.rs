//! One context's view of the shared state.
//!
//! A replica knows facts (which entities were added, removed and changed, and when) and merges all that it ever meets. What
//! it wants written it first reads, merges, and writes only if storage does not say it all ([`flush`]). That one
//! loop is the start, every update and every repair: a change that another context's write dropped is found
//! missing, by the change event or by a second look, and written again by whoever knows it.
//!
//! Invariants:
//! - what is known only grows, except that an operation the storage refused is taken back;
//! - one question to storage is under way at a time, and everything that came up meanwhile goes into the next;
//! - an operation is resolved when each key it touches was stored, or found saying the same, after it was made;
//! - an entity's value is stored before the index lists it, and its key removed after the index does not; where the index
//!   has lost an entity that was listed, its value is looked for before it is listed again;
//! - events never decide what a value is when stamps cannot: then storage is read, and that counts;
//! - nothing is ever written to, or removed from, a key that is not ours.

mod absorb;
mod flush;
mod link;
mod marks;
mod operate;
mod ops;
mod recent;
mod requests;
mod seen;
mod sweep;
mod time;
mod unacked;
mod worklist;

use std::collections::VecDeque;
use std::rc::Rc;

use super::index::Index;
use super::layout::Layout;
use super::names::{CURSOR_KEY, INDEX_KEY, QUEUE_MAX, SCHEMA_KEY, SETTINGS_KEY};
use super::port::{Effect, Error, Input, Output, Report};
use super::sorted::{Map, Set};
use super::stamp::Clock;
use super::value::{Stored, Value};
use crate::time::Timestamp;

use link::Link;
use marks::Marks;
use ops::{Caller, Operations};
use recent::Recent;
use requests::Requests;
use seen::Seen;
use sweep::Sweep;
use time::Time;
use unacked::Unacked;
use worklist::Worklist;

/// Brings a value from one version of the schema to the next: version, id, value. `None`: it cannot be done.
pub type Migrate = Rc<dyn Fn(u32, &str, &Value) -> Option<Value>>;

/// Whether settings are such as the application takes. What it refuses is never written, and not followed when read.
pub type CheckSettings = Rc<dyn Fn(&Value) -> bool>;

/// What a replica is told once.
#[derive(Clone)]
pub struct Config {
    /// Tells this context's stamps from others'; draw it at random.
    pub maker: u32,
    /// The version of the schema that the application's values follow, from 1.
    pub schema_version: u32,
    /// Migrations, if there are earlier versions.
    pub migrate: Option<Migrate>,
    /// The application's check of its settings; without one every object will do.
    pub check_settings: Option<CheckSettings>,
    /// Whether changes are to be marked for a node.
    pub bridged: bool,
    /// Whether the storage can write keys and read what they held before in one step ([`Effect::Swap`]). Then a new value of an
    /// entity takes one question instead of two.
    pub swaps: bool,
}

/// One context's view of the shared state.
#[derive(Debug, Clone)]
pub struct Replica {
    config: Config,
    phase: Phase,
    time: Time,
    /// Which entities there are, and their values, as far as is known.
    index: Index,
    values: Map<Held>,
    settings: Settings,
    schema: Schema,
    /// What the view shows.
    shown: Map<Value>,
    backlog: Backlog,
    ops: Operations,
    work: Worklist,
    requests: Requests,
    seen: Seen,
    recent: Recent,
    sweep: Sweep,
    marks: Marks,
    link: Link,
    unacked: Unacked,
    out: Vec<Effect>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Cold,
    Loading,
    Ready,
    Closed,
}

/// An entity's value as it is known.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Held {
    stored: Stored,
    /// The operation that made it, while it is not stored.
    pending: u64,
    /// That was the node, and not somebody who had seen what is stored.
    remote: bool,
}

/// The settings in force.
#[derive(Debug, Clone, Default)]
struct Settings {
    value: Option<Value>,
    /// They were set here, and are not stored yet.
    pending: bool,
}

/// The version that stored values follow.
#[derive(Debug, Clone)]
struct Schema {
    stored: u32,
    /// The application's is later, and is to be stored.
    due: bool,
}

/// What came in while loading.
#[derive(Debug, Clone, Default)]
struct Backlog {
    inputs: VecDeque<Input>,
    overflowed: bool,
}

impl Backlog {
    /// Keeps an input for later; whether it is the first that there is no room for.
    fn push(&mut self, input: Input) -> bool {
        if self.inputs.len() < QUEUE_MAX {
            self.inputs.push_back(input);
            return false;
        }
        !std::mem::replace(&mut self.overflowed, true)
    }

    /// Whether there was no room for all; then none of it counts.
    fn take_overflow(&mut self) -> bool {
        let overflowed = std::mem::take(&mut self.overflowed);
        if overflowed {
            self.inputs.clear();
        }
        overflowed
    }
}

impl Replica {
    /// A replica that has read nothing yet.
    #[must_use]
    pub fn new(config: Config) -> Self {
        let time = Time::new(Clock::new(config.maker));
        Self {
            config,
            phase: Phase::Cold,
            time,
            index: Index::default(),
            values: Map::new(),
            settings: Settings::default(),
            schema: Schema { stored: 1, due: false },
            shown: Map::new(),
            backlog: Backlog::default(),
            ops: Operations::default(),
            work: Worklist::default(),
            requests: Requests::default(),
            seen: Seen::default(),
            recent: Recent::default(),
            sweep: Sweep::default(),
            marks: Marks::default(),
            link: Link::default(),
            unacked: Unacked::default(),
            out: Vec::new(),
        }
    }

    /// Takes one input. `now` is monotonic, `wall` the time of day.
    pub fn handle(&mut self, now: Timestamp, wall: Timestamp, input: Input) -> Output {
        self.pass_time(now, wall);
        self.take(input);
        self.fire_timers();
        self.pump();
        if self.is_bridged() {
            self.pump_link();
            // What the node said may be there to be stored.
            self.pump();
        }
        Output { effects: std::mem::take(&mut self.out), wake_at: self.wake_at() }
    }

    /// An entity's value as the view shows it.
    #[must_use]
    pub fn value(&self, id: &str) -> Option<&Value> {
        self.shown.get(id)
    }

    /// All entities as the view shows them.
    pub fn entities(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.shown.iter().map(|(id, value)| (&**id, value))
    }

    /// The settings in force, if anybody has set any.
    #[must_use]
    pub const fn settings(&self) -> Option<&Value> {
        self.settings.value.as_ref()
    }

    fn takes_settings(&self, settings: &Value) -> bool {
        self.config.check_settings.as_ref().is_none_or(|check| check(settings))
    }

    /// Where entities are kept.
    #[must_use]
    pub const fn layout(&self) -> Layout {
        self.index.layout()
    }

    /// A module for pages without a bridge is compiled without the feature: all that this guards is left out of it.
    const fn is_bridged(&self) -> bool {
        cfg!(feature = "bridge") && self.config.bridged
    }

    fn take(&mut self, input: Input) {
        if self.phase == Phase::Closed {
            let op = if let Input::Sweep { op } = input {
                Some(op)
            } else {
                ops::request(input).map(|(op, _)| op)
            };
            self.out.extend(op.map(|op| Effect::Reject { op, error: Error::Closed }));
            return;
        }
        match input {
            Input::Start if self.phase == Phase::Cold => self.load(),
            Input::Start | Input::Timer => {}
            Input::Got { ask, found } => self.on_got(ask, found),
            Input::Stored { ask } => self.on_stored(ask, Vec::new()),
            Input::Swapped { ask, before } => self.on_stored(ask, before),
            Input::Listed { ask, keys } => self.on_listed(ask, &keys),
            Input::Failed { ask, failure } => self.on_failed(ask, failure),
            Input::Acked { send } => self.unacked.forget(send),
            Input::NoReceiver { send } => {
                self.unacked.forget(send);
                self.report(Report::NoReceiver);
            }
            Input::Close => self.close(),
            Input::Refresh => self.read_all(),
            Input::Link { .. } | Input::Told { .. } | Input::Answered { .. } | Input::Unanswered { .. }
                if !self.is_bridged() => {}
            Input::Link { up } => self.on_link(up),
            Input::Told { number } => self.on_told(number),
            Input::Answered { ask, text } => self.on_answered(ask, &text),
            Input::Unanswered { ask, refusal, random } => self.on_unanswered(ask, refusal, random),
            Input::Changed(_) | Input::Message(_) if self.phase != Phase::Ready => {
                if self.backlog.push(input) {
                    self.report(Report::Overflow);
                }
            }
            Input::Changed(changes) => self.on_changed(changes),
            Input::Message(text) => self.on_message(&text),
            Input::Sweep { op } => self.sweep.request(op),
            other => {
                let Some((op, request)) = ops::request(other) else { return };
                if self.ops.is_full() {
                    self.out.push(Effect::Reject { op, error: Error::Busy });
                } else {
                    self.ops.push(Caller::Application(op), request);
                }
            }
        }
    }

    fn pass_time(&mut self, now: Timestamp, wall: Timestamp) {
        let jump = self.time.pass(now, wall);
        self.recent.pass_time(self.time.now);
        let running = matches!(self.phase, Phase::Loading | Phase::Ready);
        if jump && running {
            self.report(Report::ClockJumped);
            if self.is_bridged() {
                self.relink();
            }
            self.forget();
        }
    }

    /// Starts over: what is remembered may have been removed too long ago for anybody to remember it.
    fn forget(&mut self) {
        self.take_back_all();
        self.requests.take();
        self.index = Index::default();
        self.values.clear();
        self.time.clock.unsettle();
        self.unacked.forget_all();
        self.seen.outdate_all();
        self.ops.stop_move();
        self.seen.index = false;
        self.load();
    }

    fn load(&mut self) {
        self.phase = Phase::Loading;
        self.work.dirty = [SETTINGS_KEY, SCHEMA_KEY, INDEX_KEY, CURSOR_KEY].map(str::to_owned).into();
        self.marks.unread = self.is_bridged();
    }

    /// Marks everything to be read again.
    fn read_all(&mut self) {
        self.seen.outdate_all();
        self.work.dirty.extend([SETTINGS_KEY, SCHEMA_KEY].map(str::to_owned));
        self.work.dirty.extend(self.index.layout().index_keys());
        self.work.dirty.extend(self.index.ids().map(|id| self.index.layout().value_key(id)));
    }

    /// Everything was read: from now on what happens is shown.
    fn finish_loading(&mut self) {
        if self.backlog.take_overflow() {
            return self.read_all();
        }
        if self.config.schema_version > self.schema.stored && !self.schema.due {
            // The version is written when every value has been: keys of entities go before it.
            self.schema.due = true;
            self.work.read(SCHEMA_KEY.to_owned());
            return;
        }
        self.phase = Phase::Ready;
        self.work.end_loading();
        let mut ids: Set = self.index.keys().collect();
        ids.extend(self.shown.keys());
        ids.iter().for_each(|id| self.show(id));
        self.out.push(Effect::Ready);
        for input in std::mem::take(&mut self.backlog.inputs) {
            self.take(input);
        }
    }

    /// Brings the view of one entity up to date; a context's own echo changes nothing.
    fn show(&mut self, id: &str) {
        if self.phase != Phase::Ready {
            return;
        }
        let value = self.values.get(id).filter(|_| self.index.lists(id)).map(|held| &held.stored.value);
        if value == self.shown.get(id) {
            return;
        }
        let value = value.cloned();
        match &value {
            Some(value) => {
                self.shown.insert(self.index.key(id), value.clone());
            }
            None if self.index.is_empty() => {
                self.shown.clear();
                return self.out.push(Effect::Clear);
            }
            None => {
                self.shown.remove(id);
            }
        }
        self.out.push(Effect::Render { id: id.to_owned(), value });
    }

    /// After a fact about `id` changed.
    fn touch(&mut self, id: &str) {
        let layout = self.index.layout();
        self.seen.outdate_listing(layout, id);
        if !self.index.lists(id) {
            self.values.remove(id);
        } else if !self.values.contains_key(id) {
            self.work.read(layout.value_key(id));
        }
        self.show(id);
    }

    fn close(&mut self) {
        self.take_back_all();
        self.refuse_waiting(&Error::Closed);
        self.sweep.reject(&mut self.out);
        self.phase = Phase::Closed;
        self.backlog.inputs.clear();
        self.unacked = Unacked::default();
    }

    fn fire_timers(&mut self) {
        if self.phase != Phase::Ready {
            return;
        }
        self.resend();
        self.work.start_verifying(self.time.now);
    }

    fn wake_at(&self) -> Option<Timestamp> {
        match self.phase {
            Phase::Cold | Phase::Closed => return None,
            Phase::Loading | Phase::Ready => {}
        }
        let pause = self.requests.due(self.time.now);
        let link = if self.is_bridged() { self.link_due() } else { None };
        [self.unacked.due(), self.work.verify_at(), self.sweep.due(), pause, link].into_iter().flatten().min()
    }

    fn report(&mut self, report: Report) {
        self.out.push(Effect::Report(report));
    }
}

impl std::fmt::Debug for Config {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Config").field("maker", &self.maker).finish_non_exhaustive()
    }
}
