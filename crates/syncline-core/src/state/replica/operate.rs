//! What callers ask for: done in memory at once, so that the view follows the hand; taken back if storage refuses.

use super::super::bridge::{Change, Kept};
use super::super::index::Entry;
use super::super::layout::{Kind, Layout, Place};
use super::super::message::Said;
use super::super::names::{
    BATCH_MAX, ENTITIES_MAX, INDEX_KEY, PACKED_KEY, SETTINGS_KEY, SHARD_IDS_MAX, SHARDS_MAX,
};
use super::super::port::{Effect, Error, Input};
use super::super::sorted::Set;
use super::super::stamp::Stamp;
use super::super::value::{Stored, Value, is_id};
use super::{Held, Replica};

/// Stands for all that a new layout needs, among the keys of an operation. No key of ours is called so.
const MOVING: &str = "";

/// The number of an operation that the node asked for.
pub(super) const REMOTE: u64 = u64::MAX;

/// What a caller asked for.
#[derive(Debug, Clone)]
pub(super) enum Request {
    Put(String, Value),
    Remove(Vec<String>),
    Reset,
    Settings(Value),
    Layout(Layout),
    Remote(Vec<Change>),
}

/// An operation under way.
#[derive(Debug, Clone)]
pub(super) struct Op {
    op: u64,
    request: Request,
    /// Counts operations; what was written before this one was begun does not hold it.
    number: u64,
    /// Keys that must be stored before it is done.
    keys: Set,
    undo: Undo,
}

/// How to take an operation back.
#[derive(Debug, Clone)]
pub(super) enum Undo {
    Nothing,
    Entities(Vec<Before>),
    Floor(Stamp, Vec<(String, Entry)>),
    Settings(Option<Value>),
    Layout(Layout, Stamp),
}

/// What an entity was before, and what the operation made of it.
#[derive(Debug, Clone)]
pub(super) struct Before {
    pub(super) id: String,
    entry: Option<Entry>,
    made: Option<Entry>,
    held: Option<Held>,
    /// The stamp of the value that the operation wrote.
    wrote: Option<Stamp>,
}

impl Op {
    pub(super) const fn undo(&self) -> &Undo {
        &self.undo
    }

    pub(super) fn waits_for(&self, keys: &Set) -> bool {
        self.keys.iter().any(|key| keys.contains(key))
    }
}

pub(super) fn request(input: Input) -> Option<(u64, Request)> {
    Some(match input {
        Input::Put { op, id, value } => (op, Request::Put(id, value)),
        Input::Remove { op, ids } => (op, Request::Remove(ids)),
        Input::Reset { op } => (op, Request::Reset),
        Input::SetSettings { op, value } => (op, Request::Settings(value)),
        Input::SetLayout { op, layout } => (op, Request::Layout(layout)),
        _ => return None,
    })
}

impl Replica {
    /// Begins the operations that wait.
    pub(super) fn begin_waiting(&mut self) {
        while self.moving.is_empty() && (self.solo == 0 || self.ops.is_empty()) {
            let Some((op, request)) = self.waiting.pop_front() else {
                self.solo = 0;
                return;
            };
            self.begin(op, request);
        }
    }

    fn begin(&mut self, op: u64, request: Request) {
        self.begun += 1;
        let begun = match &request {
            Request::Put(id, value) => self.put(id, value.clone()),
            Request::Remove(ids) => Ok(self.remove(ids)),
            Request::Reset => Ok(self.reset()),
            Request::Settings(value) => self.set_settings(value),
            Request::Layout(layout) => Ok(self.set_layout(*layout)),
            Request::Remote(changes) => Ok(self.take_remote(changes)),
        };
        match begun {
            Err(error) => self.finish(op, Some(error)),
            Ok((keys, _)) if keys.is_empty() => self.finish(op, None),
            Ok((keys, undo)) => {
                // Nothing of a new layout is to be looked at before it is written.
                if self.moving.is_empty() {
                    self.dirty.extend(keys.iter().cloned());
                }
                self.ops.push_back(Op { op, request, number: self.begun, keys, undo });
            }
        }
    }

    fn finish(&mut self, op: u64, error: Option<Error>) {
        self.solo = self.solo.saturating_sub(1);
        match (op, error) {
            // Nobody asked for operation 0: the replica itself did.
            (0, _) => {}
            (REMOTE, error) if self.is_bridged() => self.on_taken(error.as_ref()),
            (op, None) => self.out.push(Effect::Resolve { op }),
            (op, Some(error)) => self.out.push(Effect::Reject { op, error }),
        }
    }

    pub(super) fn refuse_waiting(&mut self, error: &Error) {
        for (op, _) in std::mem::take(&mut self.waiting) {
            self.finish(op, Some(error.clone()));
        }
    }

    fn put(&mut self, id: &str, value: Value) -> Result<(Set, Undo), Error> {
        if !is_id(id) {
            return Err(Error::BadId);
        }
        let listed = self.index.lists(id);
        if !listed && self.index.len() >= ENTITIES_MAX {
            return Err(Error::TooMany);
        }
        let held = self.values.get(id).cloned();
        if listed && held.as_ref().is_some_and(|held| held.stored.value == value && held.pending == 0) {
            return Ok((self.unstored(id).into_iter().collect(), Undo::Nothing));
        }
        let (layout, stamp) = (self.index.layout(), self.clock.tick(self.wall));
        let entry = self.index.entry(id);
        let mut keys = Set::from([layout.value_key(id)]);
        let mut made = None;
        if !listed {
            made = Some(Entry { stamp, live: true });
            self.index.join(id, Entry { stamp, live: true });
            self.recent.note(id);
            keys.insert(layout.index_key(id));
        }
        let stored = Stored { value, stamp: Some(stamp), version: self.config.schema_version };
        self.values.insert(id.to_owned(), Held { stored, pending: self.begun });
        self.mark(id);
        self.touch(id);
        let before = Before { id: id.to_owned(), entry, made, held, wrote: Some(stamp) };
        Ok((keys, Undo::Entities(vec![before])))
    }

    /// The key of the index that says whether `id` is listed, if an operation waits for it.
    fn unstored(&self, id: &str) -> Option<String> {
        let waited_for = |key: &String| self.ops.iter().any(|op| op.keys.contains(key));
        [self.index.layout().index_key(id), INDEX_KEY.to_owned()].into_iter().find(waited_for)
    }

    fn remove(&mut self, ids: &[String]) -> (Set, Undo) {
        let layout = self.index.layout();
        let (mut keys, mut undo) = (Set::new(), Vec::new());
        for id in ids.iter().filter(|id| is_id(id)) {
            if !self.index.lists(id) {
                // Removed by an operation that is not stored yet: then this one is not, either.
                keys.extend(self.unstored(id));
                continue;
            }
            let made = Entry { stamp: self.clock.tick(self.wall), live: false };
            let (entry, held) = (self.index.entry(id), self.values.get(id).cloned());
            self.index.join(id, made);
            self.recent.note(id);
            keys.insert(layout.index_key(id));
            let key = layout.value_key(id);
            if layout == Layout::A {
                keys.insert(key);
            } else {
                self.trash.insert(key);
            }
            self.mark(id);
            self.touch(id);
            undo.push(Before { id: id.clone(), entry, made: Some(made), held, wrote: None });
        }
        (keys, Undo::Entities(undo))
    }

    fn reset(&mut self) -> (Set, Undo) {
        let layout = self.index.layout();
        let before = self.index.floor();
        let entries = self.index.entries().map(|(id, entry)| (id.clone(), *entry)).collect();
        let gone = self.index.raise_floor(self.clock.tick(self.wall));
        self.mark("");
        for id in gone {
            // The old index is known, so nobody has to search for these, and there is room as soon as the reset is stored.
            if layout != Layout::A {
                self.trash.insert(layout.value_key(&id));
            }
            self.touch(&id);
            // The floor decides; shards follow for those who read them alone.
            self.dirty.insert(layout.index_key(&id));
        }
        self.clean.clear();
        (Set::from([INDEX_KEY.to_owned()]), Undo::Floor(before, entries))
    }

    fn set_settings(&mut self, value: &Value) -> Result<(Set, Undo), Error> {
        if !self.takes_settings(value) {
            return Err(Error::BadSettings);
        }
        let before = self.settings.replace(value.clone());
        if before != self.settings {
            self.out.push(Effect::Settings(self.settings.clone()));
        }
        self.settings_pending = true;
        Ok((Set::from([SETTINGS_KEY.to_owned()]), Undo::Settings(before)))
    }

    /// Writes everything where the new layout keeps it; the index says so afterwards.
    fn set_layout(&mut self, layout: Layout) -> (Set, Undo) {
        let (before, since) = (self.index.layout(), self.index.layout_since());
        if layout == before {
            return (Set::new(), Undo::Nothing);
        }
        let mut entries = Vec::new();
        match (before, layout) {
            (Layout::A, _) => {
                let entity = |(id, held): (&String, &Held)| (layout.value_key(id), held.stored.text());
                entries.extend(self.values.iter().map(entity));
            }
            (_, Layout::A) => entries.push((PACKED_KEY.to_owned(), self.packed())),
            _ => {}
        }
        if let Layout::C(shards) = layout {
            // For as long as it takes to ask: a copy would be larger than the way back.
            self.index.put_back_layout(layout, since);
            for shard in 0..shards {
                let place = Place::Shard(shard);
                entries.push((layout.key_of(place), self.index.document(place, self.wall).text()));
            }
            self.index.put_back_layout(before, since);
        }
        self.moving = entries.chunks(BATCH_MAX).map(<[_]>::to_vec).rev().collect();
        // An empty chunk last: the moment when all is written.
        self.moving.insert(0, Vec::new());
        (Set::from([MOVING.to_owned()]), Undo::Layout(before, since))
    }

    /// Everything lies where the new layout wants it: say so.
    pub(super) fn change_layout(&mut self) {
        let target = self.ops.iter_mut().find_map(|op| match op.request {
            Request::Layout(layout) if op.keys.remove(MOVING) => {
                op.keys.insert(INDEX_KEY.to_owned());
                Some(layout)
            }
            _ => None,
        });
        let Some(layout) = target else { return };
        let before = self.index.layout();
        for key in before.index_keys().filter(|key| key != INDEX_KEY) {
            self.sweep.suspect(key, self.now);
        }
        if (before == Layout::A) != (layout == Layout::A) {
            let keys: Set = self.index.ids().map(|id| before.value_key(id)).collect();
            keys.into_iter().for_each(|key| self.sweep.suspect(key, self.now));
        }
        self.index.join_layout(layout, self.clock.tick(self.wall));
        self.relocate();
    }

    /// After the layout changed, by whomever: see that everything known is there.
    pub(super) fn relocate(&mut self) {
        self.read_all();
        for at in 0..self.ops.len() {
            if let Request::Remote(changes) = &self.ops[at].request
                && self.is_bridged()
            {
                self.ops[at].keys = self.keys_of(changes.iter());
                self.dirty.extend(self.ops[at].keys.iter().cloned());
            }
        }
        for op in &mut self.ops {
            // What an operation wrote may lie where nobody looks any more.
            if let Undo::Entities(entities) = &op.undo {
                let layout = self.index.layout();
                op.keys = entities.iter().map(|before| layout.index_key(&before.id)).collect();
                op.keys.extend(
                    entities
                        .iter()
                        .filter(|before| before.wrote.is_some())
                        .map(|before| layout.value_key(&before.id)),
                );
                // One that found its work done waits for somebody else's write; reading the index tells it.
                if op.keys.is_empty() {
                    op.keys.insert(INDEX_KEY.to_owned());
                }
                // What was removed meanwhile is not among all there is to read.
                self.dirty.extend(op.keys.iter().cloned());
            }
        }
    }

    fn take_remote(&mut self, changes: &[Change]) -> (Set, Undo) {
        let mut news = Set::new();
        if !self.is_bridged() {
            return (news, Undo::Nothing);
        }
        for change in changes {
            match change {
                Change::Reset(floor) => {
                    let floor = self.clock.meet(*floor, self.wall);
                    let gone = self.index.raise_floor(floor);
                    gone.iter().for_each(|id| self.touch(id));
                    self.clean.clear();
                }
                Change::Entity { id, kept } => {
                    if self.take_entity(id, kept) {
                        news.insert(id.clone());
                    }
                }
            }
        }
        let stale = |change: &&Change| {
            change.id().is_empty() || news.contains(change.id()) || self.is_unstored(change.id())
        };
        (self.keys_of(changes.iter().filter(stale)), Undo::Nothing)
    }

    /// Whether it was news.
    fn take_entity(&mut self, id: &str, kept: &Kept) -> bool {
        let layout = self.index.layout();
        let stamp = self.clock.meet(kept.entry.stamp, self.wall);
        let mut news = self.index.join(id, Entry { stamp, ..kept.entry });
        if news {
            self.recent.note(id);
        }
        if news && !kept.entry.live && layout != Layout::A {
            self.trash.insert(layout.value_key(id));
        }
        if let Some(stored) = &kept.stored {
            // Met also where it is not listed: what is added again must be later.
            let stamp = stored.stamp.map(|stamp| self.clock.meet(stamp, self.wall));
            let later = self.values.get(id).is_none_or(|held| stamp.unwrap_or_default() > held.stamp());
            if later && self.index.lists(id) {
                let stored = Stored { stamp, ..stored.clone() };
                self.values.insert(id.to_owned(), Held { stored, pending: self.begun });
                news = true;
            }
        }
        if news {
            self.touch(id);
        }
        news
    }

    /// Whether storage may not say yet what is known of `id`.
    fn is_unstored(&self, id: &str) -> bool {
        !self.clean.contains_key(&self.index.layout().index_key(id))
            || self.values.get(id).is_some_and(|held| held.pending > 0)
    }

    /// The keys that changes from a node are stored in.
    fn keys_of<'a>(&self, changes: impl Iterator<Item = &'a Change>) -> Set {
        let layout = self.index.layout();
        let mut keys = Set::new();
        for change in changes {
            match change {
                Change::Reset(_) => {
                    keys.insert(INDEX_KEY.to_owned());
                }
                Change::Entity { id, .. } => {
                    keys.insert(layout.index_key(id));
                    if self.index.lists(id) && self.values.contains_key(id) {
                        keys.insert(layout.value_key(id));
                    }
                }
            }
        }
        keys
    }

    /// These keys hold what was known when operation `number` had been begun.
    pub(super) fn confirm(&mut self, keys: &Set, number: u64) {
        if keys.contains(SETTINGS_KEY)
            && !self.ops.iter().any(|op| op.number > number && op.keys.contains(SETTINGS_KEY))
        {
            self.settings_pending = false;
        }
        // What an operation put that a later one has removed is not stored before the removal is: that may be refused.
        let mut put_off = Vec::new();
        for (at, op) in self.ops.iter().enumerate() {
            let Undo::Entities(entities) = &op.undo else { continue };
            for Before { id, .. } in entities {
                if !self.index.lists(id)
                    && let Some(key) = self.unstored(id)
                    && !keys.contains(&key)
                {
                    put_off.push((at, key, self.values.get(id).cloned(), id.clone()));
                }
            }
        }
        self.settle_values(keys, number);
        for (at, key, held, id) in put_off {
            self.ops[at].keys.insert(key);
            held.into_iter().for_each(|held| drop(self.values.insert(id.clone(), held)));
        }
        let mut said = Vec::new();
        let mut done = Vec::new();
        for op in self.ops.iter_mut().take_while(|op| op.number <= number) {
            op.keys.retain(|key| !keys.contains(key));
            if !op.keys.is_empty() {
                continue;
            }
            done.push(op.op);
            if let Undo::Entities(entities) = &op.undo {
                said.extend(entities.iter().map(|before| (before.id.clone(), before.made)));
            }
        }
        self.ops.retain(|op| !op.keys.is_empty());
        done.into_iter().for_each(|op| self.finish(op, None));
        let said: Vec<_> = said.into_iter().filter_map(|(id, made)| self.saying(id, made)).collect();
        self.tell(&said);
    }

    /// The values behind these keys are stored, as far as operations up to `number` made them.
    fn settle_values(&mut self, keys: &Set, number: u64) {
        let layout = self.index.layout();
        let settle = |held: &mut Held| {
            if held.pending <= number {
                held.pending = 0;
            }
        };
        for key in keys {
            match layout.kind(key) {
                Kind::Entity(id) => self.values.get_mut(id).into_iter().for_each(settle),
                Kind::Packed => self.values.values_mut().for_each(settle),
                _ => {}
            }
        }
    }

    /// What others should hear about an entity; nothing when a later operation has changed it, which will tell when it is
    /// stored itself.
    fn saying(&self, id: String, made: Option<Entry>) -> Option<(String, Said)> {
        let said = match made.filter(|entry| !entry.live) {
            None => Said::Set(self.values.get(&id).filter(|held| held.pending == 0)?.stored.clone()),
            made if self.index.entry(&id) == made => Said::Removed(made.map(|entry| entry.stamp)),
            _ => return None,
        };
        Some((id, said))
    }

    /// The storage refused: one operation is told, several are tried again one by one.
    pub(super) fn refuse_ops(&mut self, error: &Error) {
        let single = self.ops.len() == 1;
        let taken_back = self.take_back_all();
        if single {
            self.waiting.pop_front().into_iter().for_each(|(op, _)| self.finish(op, Some(error.clone())));
        } else {
            self.solo = self.solo.max(taken_back);
        }
    }

    /// Takes back all operations under way; they wait again, in order. How many there were.
    pub(super) fn take_back_all(&mut self) -> usize {
        let count = self.ops.len();
        self.moving.clear();
        while let Some(op) = self.ops.pop_back() {
            self.dirty.extend(op.keys.iter().cloned());
            self.take_back(op.undo, op.number);
            self.waiting.push_front((op.op, op.request));
        }
        count
    }

    fn take_back(&mut self, undo: Undo, number: u64) {
        match undo {
            Undo::Nothing => {}
            Undo::Settings(before) => {
                self.settings = before;
                self.settings_pending = false;
                self.out.push(Effect::Settings(self.settings.clone()));
            }
            Undo::Layout(layout, since) => {
                self.index.put_back_layout(layout, since);
                self.read_all();
            }
            Undo::Floor(floor, entries) => {
                self.index.lower_floor(floor, &entries);
                for (id, _) in &entries {
                    self.trash.remove(&self.index.layout().value_key(id));
                    self.touch(id);
                }
                self.clean.clear();
            }
            Undo::Entities(entities) => {
                entities.into_iter().rev().for_each(|before| self.put_back(before, number));
            }
        }
    }

    fn put_back(&mut self, before: Before, number: u64) {
        // Unless something later has come from elsewhere.
        if before.made.is_some() && self.index.entry(&before.id) == before.made {
            // A reset that came meanwhile has taken it as well.
            let floor = self.index.floor();
            self.index.put_back(&before.id, before.entry.filter(|entry| entry.stamp > floor));
        }
        let ours = match before.wrote {
            Some(_) => self.values.get(&before.id).is_some_and(|held| held.pending == number),
            None => !self.values.contains_key(&before.id),
        };
        if ours {
            self.values.remove(&before.id);
            if let Some(mut held) = before.held {
                // The operation that made it may have been stored meanwhile.
                if !self.ops.iter().any(|op| op.number == held.pending) {
                    held.pending = 0;
                }
                self.values.insert(before.id.clone(), held);
            }
        }
        self.trash.remove(&self.index.layout().value_key(&before.id));
        self.touch(&before.id);
        self.dirty.insert(self.index.layout().value_key(&before.id));
    }

    /// Layout C grows before its shards get large.
    pub(super) fn grow(&mut self) {
        if let Layout::C(shards) = self.index.layout()
            && self.index.len() > shards as usize * SHARD_IDS_MAX / 2
            && shards < SHARDS_MAX
            && self.ops.is_empty()
            && self.waiting.is_empty()
        {
            self.begin(0, Request::Layout(Layout::C(shards * 2)));
        }
    }
}
