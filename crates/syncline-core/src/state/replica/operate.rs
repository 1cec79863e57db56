//! What callers ask for: done in memory at once, so that the view follows the hand; taken back if storage refuses.

use std::sync::Arc;

use super::super::bridge::{Change, Kept};
use super::super::index::Entry;
use super::super::layout::{Kind, Layout, Place};
use super::super::message::EntityChange;
use super::super::names::{ENTITIES_MAX, INDEX_KEY, PACKED_KEY, SETTINGS_KEY, SHARD_IDS_MAX, SHARDS_MAX};
use super::super::port::{Effect, Error};
use super::super::sorted::Set;
use super::super::value::{Stored, Value, is_id};
use super::ops::{Before, Caller, Op, Request, Undo};
use super::{Held, Replica};

impl Replica {
    /// Begins the operations that wait.
    pub(super) fn begin_waiting(&mut self) {
        while let Some((caller, request)) = self.ops.take_next() {
            self.begin(caller, request);
        }
    }

    fn begin(&mut self, caller: Caller, request: Request) {
        self.ops.count_begin();
        let begun = match &request {
            Request::Put(id, value) => self.put(id, value.clone()),
            Request::Remove(ids) => Ok(self.remove(ids)),
            Request::Reset => Ok(self.reset()),
            Request::Settings(value) => self.set_settings(value),
            Request::Layout(layout) => Ok(self.set_layout(*layout)),
            Request::Remote(changes) => Ok(self.take_remote(changes)),
        };
        let (keys, undo) = match begun {
            Ok(begun) => begun,
            Err(error) => return self.finish(caller, Some(error)),
        };
        let op = Op { caller, request, number: self.ops.latest(), keys, moving: self.ops.is_moving(), undo };
        if op.is_done() {
            return self.finish(caller, None);
        }
        // Nothing of a new layout is to be looked at before it is written.
        if !op.moving {
            self.work.dirty.extend(op.keys.iter().cloned());
        }
        self.ops.under_way.push_back(op);
    }

    fn finish(&mut self, caller: Caller, error: Option<Error>) {
        self.ops.count_end();
        match (caller, error) {
            (Caller::Replica, _) => {}
            (Caller::Node, error) => {
                if self.is_bridged() {
                    self.on_taken(error.as_ref());
                }
            }
            (Caller::Application(op), None) => self.out.push(Effect::Resolve { op }),
            (Caller::Application(op), Some(error)) => self.out.push(Effect::Reject { op, error }),
        }
    }

    pub(super) fn refuse_waiting(&mut self, error: &Error) {
        for (caller, _) in self.ops.take_waiting() {
            self.finish(caller, Some(error.clone()));
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
        let (layout, stamp) = (self.index.layout(), self.time.tick());
        let entry = self.index.entry(id);
        let mut keys = Set::from([layout.value_key(id)]);
        let mut made = None;
        if !listed {
            made = Some(Entry { stamp, live: true });
            self.index.join(id, Entry { stamp, live: true });
            self.recent.note(id);
            self.ops.count_addition();
        }
        if !listed || self.ops.may_list() {
            keys.insert(layout.index_key(id));
        }
        // A value of what is listed; or of more than that, where the value was heard of before.
        let added = entry.filter(|_| listed).map(|entry| entry.stamp);
        let added = added.max(held.as_ref().filter(|_| listed).map(|held| held.stored.rank().0));
        let stored = Stored { value, stamp: Some(stamp), added, version: self.config.schema_version };
        self.values.insert(self.index.key(id), Held { stored, pending: self.ops.latest(), remote: false });
        self.mark(id);
        self.touch(id);
        let before = Before { id: id.to_owned(), entry, made, held, wrote: Some(stamp) };
        Ok((keys, Undo::Entities(vec![before])))
    }

    /// The key of the index that says whether `id` is listed, if an operation waits for it.
    fn unstored(&self, id: &str) -> Option<String> {
        let keys = [self.index.layout().index_key(id), INDEX_KEY.to_owned()];
        keys.into_iter().find(|key| self.ops.wait_for(key))
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
            let made = Entry { stamp: self.time.tick(), live: false };
            let (entry, held) = (self.index.entry(id), self.values.get(id).cloned());
            self.index.join(id, made);
            self.recent.note(id);
            keys.insert(layout.index_key(id));
            let key = layout.value_key(id);
            if layout == Layout::A {
                keys.insert(key);
            } else {
                self.work.remove(key);
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
        let entries = self.index.entries().map(|(id, entry)| (id.to_string(), *entry)).collect();
        let gone = self.index.raise_floor(self.time.tick());
        self.mark("");
        for id in gone {
            // The old index is known, so nobody has to search for these, and there is room as soon as the reset is stored.
            if layout != Layout::A {
                self.work.remove(layout.value_key(&id));
            }
            self.touch(&id);
            // The floor decides; shards follow for those who read them alone.
            self.work.read(layout.index_key(&id));
        }
        self.seen.outdate_all();
        (Set::from([INDEX_KEY.to_owned()]), Undo::Floor(before, entries))
    }

    fn set_settings(&mut self, value: &Value) -> Result<(Set, Undo), Error> {
        if !self.takes_settings(value) {
            return Err(Error::BadSettings);
        }
        let before = self.settings.value.replace(value.clone());
        if before != self.settings.value {
            self.out.push(Effect::Settings(self.settings.value.clone()));
        }
        self.settings.pending = true;
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
                let entity = |(id, held): (&Arc<str>, &Held)| (layout.value_key(id), held.stored.text());
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
                entries.push((layout.key_of(place), self.index.document(place, self.time.wall).text()));
            }
            self.index.put_back_layout(before, since);
        }
        self.ops.start_move(&entries);
        (Set::new(), Undo::Layout(before, since))
    }

    /// Everything lies where the new layout wants it: say so.
    pub(super) fn change_layout(&mut self) {
        let Some(layout) = self.ops.end_move(INDEX_KEY) else { return };
        let before = self.index.layout();
        for key in before.index_keys().filter(|key| key != INDEX_KEY) {
            self.sweep.suspect(key, self.time.now);
        }
        if (before == Layout::A) != (layout == Layout::A) {
            let keys: Vec<String> = self.index.ids().map(|id| before.value_key(id)).collect();
            keys.into_iter().for_each(|key| self.sweep.suspect(key, self.time.now));
        }
        self.index.join_layout(layout, self.time.tick());
        self.relocate();
    }

    /// After the layout changed, by whomever: see that everything known is there.
    pub(super) fn relocate(&mut self) {
        self.read_all();
        for at in 0..self.ops.under_way.len() {
            if let Request::Remote(changes) = &self.ops.under_way[at].request
                && self.is_bridged()
            {
                self.ops.under_way[at].keys = self.keys_of(changes.iter());
                self.work.dirty.extend(self.ops.under_way[at].keys.iter().cloned());
            }
        }
        for op in &mut self.ops.under_way {
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
                self.work.dirty.extend(op.keys.iter().cloned());
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
                    self.time.clock.meet(*floor);
                    let gone = self.index.raise_floor(*floor);
                    gone.iter().for_each(|id| self.touch(id));
                    self.seen.outdate_all();
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
        self.time.clock.meet(kept.entry.stamp);
        let mut news = self.index.join(id, kept.entry);
        if news {
            self.recent.note(id);
            self.ops.count_addition();
        }
        // The node took it for news because it has forgotten a later removal or reset, or never heard of it.
        match self.index.entry(id) {
            None => self.mark(""),
            Some(known) if known.beats(kept.entry) => self.mark(id),
            Some(_) => {}
        }
        if news && !kept.entry.live && layout != Layout::A {
            self.work.remove(layout.value_key(id));
        }
        if let Some(stored) = &kept.stored {
            // Met also where it is not listed: what is added again must be later.
            self.time.clock.meet(stored.stamp.unwrap_or_default());
            let later = self.values.get(id).is_none_or(|held| stored.rank() > held.stored.rank());
            if later && self.index.lists(id) {
                let held = Held { stored: stored.clone(), pending: self.ops.latest(), remote: true };
                self.values.insert(id.to_owned(), held);
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
        !self.seen.is_complete(&self.index.layout().index_key(id))
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
        // Thousands of operations may be under way, and none of them waits for nothing.
        if keys.is_empty() {
            return;
        }
        if keys.contains(SETTINGS_KEY)
            && !self.ops.under_way.iter().any(|op| op.number > number && op.keys.contains(SETTINGS_KEY))
        {
            self.settings.pending = false;
        }
        // What an operation put that a later one has removed is not stored before the removal is: that may be refused.
        let mut put_off = Vec::new();
        for (at, op) in self.ops.under_way.iter().enumerate() {
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
            self.ops.under_way[at].keys.insert(key);
            held.into_iter().for_each(|held| drop(self.values.insert(id.clone(), held)));
        }
        let mut changes = Vec::new();
        let mut done = Vec::new();
        for op in self.ops.under_way.iter_mut().take_while(|op| op.number <= number) {
            op.keys.retain(|key| !keys.contains(key));
            if !op.is_done() {
                continue;
            }
            done.push(op.caller);
            if let Undo::Entities(entities) = &op.undo {
                changes.extend(entities.iter().map(|before| (before.id.clone(), before.made)));
            }
        }
        self.ops.under_way.retain(|op| !op.is_done());
        done.into_iter().for_each(|caller| self.finish(caller, None));
        let changes: Vec<_> = changes.into_iter().filter_map(|(id, made)| self.change_of(id, made)).collect();
        self.announce(&changes);
    }

    /// The values behind these keys are stored, as far as operations up to `number` made them. Keys of a layout that is not in use
    /// any more say nothing: values are looked for elsewhere.
    fn settle_values(&mut self, keys: &Set, number: u64) {
        let layout = self.index.layout();
        let settle = |held: &mut Held| {
            if held.pending <= number {
                held.pending = 0;
            }
        };
        for key in keys.iter() {
            match layout.kind(key) {
                Kind::Entity(id) if layout != Layout::A => {
                    self.values.get_mut(id).into_iter().for_each(settle);
                }
                Kind::Packed if layout == Layout::A => self.values.for_each_value(settle),
                _ => {}
            }
        }
    }

    /// What other contexts are told about an entity; nothing when a later operation has changed it, which will tell when it is
    /// stored itself.
    fn change_of(&self, id: String, made: Option<Entry>) -> Option<(String, EntityChange)> {
        let change = match made.filter(|entry| !entry.live) {
            None => EntityChange::Set(self.values.get(&id).filter(|held| held.pending == 0)?.stored.clone()),
            made if self.index.entry(&id) == made => EntityChange::Removed(made.map(|entry| entry.stamp)),
            _ => return None,
        };
        Some((id, change))
    }

    /// The storage refused: one operation is told, several are tried again one by one.
    pub(super) fn refuse_ops(&mut self, error: &Error) {
        let single = self.ops.under_way.len() == 1;
        let taken_back = self.take_back_all();
        if single {
            self.ops.take_refused().into_iter().for_each(|caller| self.finish(caller, Some(error.clone())));
        } else {
            self.ops.separate(taken_back);
        }
    }

    /// Takes back all operations under way; they wait again, in order. How many there were.
    pub(super) fn take_back_all(&mut self) -> usize {
        let count = self.ops.under_way.len();
        self.ops.stop_move();
        while let Some(op) = self.ops.take_last() {
            self.work.dirty.extend(op.keys.iter().cloned());
            self.take_back(op.undo, op.number);
            self.ops.wait_again(op.caller, op.request);
        }
        count
    }

    fn take_back(&mut self, undo: Undo, number: u64) {
        match undo {
            Undo::Nothing => {}
            Undo::Settings(before) => {
                self.settings.value = before;
                self.settings.pending = false;
                self.out.push(Effect::Settings(self.settings.value.clone()));
            }
            Undo::Layout(layout, since) => {
                self.index.put_back_layout(layout, since);
                self.read_all();
            }
            Undo::Floor(floor, entries) => {
                self.index.lower_floor(floor, &entries);
                for (id, _) in &entries {
                    self.work.keep(&self.index.layout().value_key(id));
                    self.touch(id);
                }
                self.seen.outdate_all();
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
                if !self.ops.under_way.iter().any(|op| op.number == held.pending) {
                    held.pending = 0;
                }
                self.values.insert(before.id.clone(), held);
            }
        }
        self.work.keep(&self.index.layout().value_key(&before.id));
        self.touch(&before.id);
        self.work.read(self.index.layout().value_key(&before.id));
    }

    /// Layout C grows before its shards get large.
    pub(super) fn grow(&mut self) {
        if let Layout::C(shards) = self.index.layout()
            && self.index.len() > shards as usize * SHARD_IDS_MAX / 2
            && shards < SHARDS_MAX
            && self.ops.is_empty()
        {
            self.begin(Caller::Replica, Request::Layout(Layout::C(shards * 2)));
        }
    }
}
