//! The loop between knowledge and storage: read what is dirty, merge, write what storage does not say, look again.

use std::sync::Arc;

use super::super::layout::{Kind, Layout, Place};
use super::super::names::{
    ASIDE_PREFIX, BATCH_MAX, CURSOR_KEY, ENTITY_PREFIX, LOAD_MAX, SCHEMA_KEY, SETTINGS_KEY,
};
use super::super::port::{Effect, Error, Failure, Report};
use super::super::sorted::Set;
use super::super::value::write_member;
use super::absorb::Source;
use super::marks;
use super::requests::InFlight;
use super::{Phase, Replica};

/// After this many failed reads in a row callers are told.
const READS_MAX: u32 = 3;

impl Replica {
    /// Asks storage the next thing there is to ask.
    pub(super) fn pump(&mut self) {
        if self.phase == Phase::Ready {
            self.begin_waiting();
        }
        loop {
            if !self.requests.is_idle(self.time.now) || matches!(self.phase, Phase::Cold | Phase::Closed) {
                return;
            }
            if !self.work.dirty.is_empty() {
                if self.may_swap() {
                    return self.ask_swap();
                }
                return self.ask_dirty();
            }
            if self.phase == Phase::Loading {
                if self.seen.rebuild || self.is_bridged() && self.marks.unread {
                    return self.ask_list();
                }
                self.finish_loading();
                if self.phase == Phase::Ready {
                    self.begin_waiting();
                }
                continue;
            }
            if let Some(chunk) = self.ops.next_chunk() {
                if chunk.is_empty() {
                    self.change_layout();
                    continue;
                }
                let ask = self.requests.number();
                self.requests.send(InFlight::Move { ask });
                return self.out.push(Effect::Set { ask, entries: chunk });
            }
            if self.work.has_trash() {
                self.ask_remove();
                if self.requests.is_waiting() {
                    return;
                }
                continue;
            }
            if !self.marks.fresh.is_empty() {
                return self.write(Vec::new(), Set::new(), false);
            }
            if self.sweep.wants_list() || self.is_bridged() && self.marks.unread {
                return self.ask_list();
            }
            if self.ask_probe() {
                return;
            }
            self.grow();
            if self.work.dirty.is_empty() && !self.ops.is_moving() {
                return;
            }
        }
    }

    fn ask_list(&mut self) {
        let ask = self.requests.number();
        self.requests.send(InFlight::List { ask });
        self.out.push(Effect::List { ask });
    }

    /// Whether nothing but new values of listed entities is to be written: then what is there need not be read before, because the
    /// storage says what it was.
    fn may_swap(&self) -> bool {
        let layout = self.index.layout();
        // Keys of the index come first, so that this is soon known.
        let is_new = |key: &Arc<str>| match layout.kind(key) {
            Kind::Entity(id) => {
                layout != Layout::A
                    && self.index.lists(id)
                    && self.values.get(id).is_some_and(|held| held.pending > 0 && !held.remote)
            }
            _ => false,
        };
        self.config.swaps && self.phase == Phase::Ready && self.work.dirty.iter().all(is_new)
    }

    fn ask_swap(&mut self) {
        let keys: Set = self.work.dirty.iter().take(BATCH_MAX).cloned().collect();
        self.work.dirty.retain(|key| !keys.contains(key));
        let entry = |key: &Arc<str>| Some((key.to_string(), self.text_of(key)?));
        let entries = keys.iter().filter_map(entry).collect();
        self.write(entries, keys, true);
    }

    /// What values were written over. Those that were later than ours, or that nobody can read, were not known before: then this
    /// was not the last word, as if they had been read first. Returns the keys that have to be written once more.
    fn on_swapped(&mut self, before: Vec<(String, Option<String>)>) -> Set {
        let (mut again, mut asides) = (Set::new(), Vec::new());
        for (key, text) in before {
            let Some(id) = key.strip_prefix(ENTITY_PREFIX).map(str::to_owned) else { continue };
            let known = self.values.get(&id).map(|held| held.stored.clone());
            self.absorb(&key, text.as_deref(), Source::Read);
            if let Some(aside) = self.seen.take_poisoned(&key) {
                asides.push(([ASIDE_PREFIX, &key].concat(), aside));
            }
            if self.values.get(&id).map(|held| &held.stored) != known.as_ref() {
                again.insert(key);
            }
        }
        self.work.dirty.extend(again.iter());
        if !asides.is_empty() {
            self.write(asides, Set::new(), false);
        }
        again
    }

    /// Entities first: the index is taken up when no entity is left over, so that it never lists what is not stored.
    fn ask_dirty(&mut self) {
        let layout = self.index.layout();
        let is_value = |key: &&Arc<str>| matches!(layout.kind(key), Kind::Entity(_) | Kind::Packed);
        // While loading nothing is listed yet, and entities that are read in the order of their keys are read as ranges.
        let loading = self.phase == Phase::Loading;
        let is_index = |key: &Arc<str>| matches!(layout.kind(key), Kind::Index(_));
        // Keys of the index come before those of entities.
        let any_index = self.work.dirty.iter().take_while(|key| &***key < ENTITY_PREFIX).any(is_index);
        // An index that was cleared meanwhile waits for its values, and must not go before them for ever.
        let first = loading && self.seen.proved.is_none() && any_index;
        let most = if loading { LOAD_MAX } else { BATCH_MAX };
        let batch = if first { 0 } else { most };
        let mut keys: Vec<Arc<str>> = self.work.dirty.iter().filter(is_value).take(batch).cloned().collect();
        let more_values = self.work.dirty.iter().filter(is_value).nth(batch).is_some();
        if first || !more_values {
            let room = most - keys.len() + 1;
            keys.extend(self.work.dirty.iter().filter(|key| !is_value(key)).take(room).cloned());
        }
        keys.iter().for_each(|key| {
            self.work.dirty.remove(key);
        });
        let ask = self.requests.number();
        self.out.push(Effect::Get { ask, keys: keys.iter().map(ToString::to_string).collect() });
        self.requests.send(InFlight::Get { ask, keys: keys.into_iter().collect() });
    }

    pub(super) fn on_got(&mut self, ask: u64, mut found: Vec<(String, Option<String>)>) {
        match self.requests.take() {
            InFlight::Get { ask: asked, keys } if asked == ask => {
                self.requests.succeed();
                self.sort_index_first(&mut found);
                let asked = keys;
                let (mut lacking, mut saying) = (Set::new(), Set::new());
                self.seen.proved.iter_mut().for_each(|proved| proved.extend(asked.iter()));
                for (key, text) in found.into_iter().filter(|(key, _)| asked.contains(key)) {
                    let lacks = self.absorb(&key, text.as_deref(), Source::Read);
                    let index = matches!(self.index.layout().kind(&key), Kind::Index(_));
                    if lacks && index && self.phase == Phase::Loading {
                        self.work.write_after_loading(key);
                    } else if lacks && self.is_put_off(&key, &asked, &lacking) {
                        self.work.read(key);
                    } else if lacks {
                        lacking.insert(key);
                    } else if !self.work.dirty.contains(&key) || self.seen.is_complete(&key) {
                        // What is to be read again may not say all.
                        saying.insert(key);
                    }
                }
                self.confirm(&saying, self.ops.latest());
                if !lacking.is_empty() && self.phase != Phase::Closed {
                    self.write_lacking(lacking, &asked);
                }
            }
            InFlight::Probe { ask: asked, keys } if asked == ask => self.on_probed(&keys, found),
            other => self.requests.send(other),
        }
    }

    /// Whether the entity under `key` waits for an index that was `asked` for, does not say all and is to be read again: the two
    /// are written at once, so that a put that is refused leaves nothing behind. An index that is `lacking` is written now.
    fn is_put_off(&self, key: &str, asked: &Set, lacking: &Set) -> bool {
        let layout = self.index.layout();
        let Kind::Entity(id) = layout.kind(key) else { return false };
        let index = layout.index_key(id);
        let again = asked.contains(&index) && self.work.dirty.contains(&index);
        again && !lacking.contains(&index) && !self.seen.is_complete(&index) && self.ops.wait_for(&index)
    }

    /// Changes to the index are taken in before entities, so that these are known to be listed.
    pub(super) fn sort_index_first(&self, found: &mut Vec<(String, Option<String>)>) {
        let mut ranks: [Vec<_>; 5] = Default::default();
        for entry in found.drain(..) {
            let rank = match self.index.layout().kind(&entry.0) {
                Kind::Settings | Kind::Cursor => 0,
                Kind::Schema => 1,
                Kind::Index(Some(Place::Whole)) => 2,
                Kind::Index(_) => 3,
                Kind::Packed | Kind::Entity(_) | Kind::Mark(..) | Kind::Foreign => 4,
            };
            ranks[rank].push(entry);
        }
        found.extend(ranks.into_iter().flatten());
    }

    /// Writes `keys`, which were `read` just now along with others.
    fn write_lacking(&mut self, mut keys: Set, read: &Set) {
        let layout = self.index.layout();
        let index = |key: &str| matches!(layout.kind(key), Kind::Index(_));
        if keys.iter().any(|key| index(key)) {
            // Entities added since the question was asked are listed now: they have to be stored as well.
            let unread = |key: &&Arc<str>| match layout.kind(key) {
                Kind::Entity(id) => self.values.get(id).is_some_and(|held| held.pending > 0),
                Kind::Packed => true,
                _ => false,
            };
            let unread: Vec<Arc<str>> = self.work.dirty.iter().filter(unread).cloned().collect();
            if unread.iter().any(|key| matches!(layout.kind(key), Kind::Packed) && !read.contains(key)) {
                // That key holds what others wrote too. Read both, which happens once: then it is among those read.
                self.work.dirty.extend(keys.iter().filter(|key| index(key)).cloned());
                keys.retain(|key| !index(key));
            } else {
                unread.iter().for_each(|key| {
                    self.work.dirty.remove(key);
                });
                keys.extend(unread);
            }
        }
        // In the order in which they are to be written.
        let mut ranks: [Vec<(String, String)>; 6] = Default::default();
        for key in keys.iter() {
            let Some(text) = self.text_of(key) else { continue };
            if let Some(aside) = self.seen.take_poisoned(key) {
                ranks[0].push(([ASIDE_PREFIX, key].concat(), aside));
            }
            let rank = match layout.kind(key) {
                Kind::Entity(_) => 1,
                Kind::Packed => 2,
                Kind::Index(Some(Place::Whole)) => 4,
                Kind::Index(_) => 3,
                _ => 5,
            };
            ranks[rank].push((key.to_string(), text));
        }
        let entries: Vec<_> = ranks.into_iter().flatten().collect();
        if !entries.is_empty() {
            self.write(entries, keys, false);
        }
    }

    fn write(&mut self, mut entries: Vec<(String, String)>, keys: Set, swap: bool) {
        let marks = self.take_fresh();
        let marked = marks.iter().map(|mark| (marks::key(mark), "true".to_owned()));
        entries.splice(0..0, marked);
        let ask = self.requests.number();
        self.requests.send(InFlight::Set { ask, keys, number: self.ops.latest(), marks });
        self.out.push(if swap { Effect::Swap { ask, entries } } else { Effect::Set { ask, entries } });
    }

    /// What a key should say, as far as this replica knows.
    fn text_of(&self, key: &str) -> Option<String> {
        match self.index.layout().kind(key) {
            Kind::Settings => self.settings.value.as_ref().map(|settings| settings.text().to_owned()),
            Kind::Schema => Some(self.config.schema_version.to_string()),
            Kind::Index(place) => Some(self.index.document(place?, self.time.wall).text()),
            Kind::Packed => Some(self.packed()),
            Kind::Entity(id) => Some(self.values.get(id).filter(|_| self.index.lists(id))?.stored.text()),
            Kind::Cursor => self.is_bridged().then(|| self.cursor_text()),
            Kind::Mark(..) | Kind::Foreign => None,
        }
    }

    pub(super) fn packed(&self) -> String {
        let mut out = String::from("{");
        for (id, held) in self.values.iter().filter(|(id, _)| self.index.lists(id)) {
            if out.len() > 1 {
                out.push(',');
            }
            write_member(id, &held.stored, &mut out);
        }
        out.push('}');
        out
    }

    /// It is written; `before`: what some of the keys held until then, if that is known.
    pub(super) fn on_stored(&mut self, ask: u64, before: Vec<(String, Option<String>)>) {
        match self.requests.take() {
            InFlight::Set { ask: asked, mut keys, number, marks } if asked == ask => {
                let again = self.on_swapped(before);
                keys.retain(|key| !again.contains(key));
                let layout = self.index.layout();
                let is_index = |key: &&Arc<str>| matches!(layout.kind(key), Kind::Index(_));
                if keys.iter().any(|key| is_index(&key)) {
                    self.seen.proved = None;
                }
                self.work.verify(keys.iter().filter(is_index).cloned(), self.time.now);
                if self.is_bridged() {
                    self.on_marked(marks);
                    if keys.contains(CURSOR_KEY) {
                        self.on_cursor_stored();
                    }
                }
                if keys.contains(SCHEMA_KEY) {
                    self.schema.stored = self.config.schema_version;
                }
                self.confirm(&keys, number);
            }
            InFlight::Remove { ask: asked } | InFlight::Move { ask: asked } if asked == ask => {}
            other => self.requests.send(other),
        }
    }

    /// Removes what the index has stopped listing.
    fn ask_remove(&mut self) {
        let index = &self.index;
        let is_listed = |key: &str| key.strip_prefix(ENTITY_PREFIX).is_some_and(|id| index.lists(id));
        let keys = self.work.take_trash(BATCH_MAX, is_listed);
        if !keys.is_empty() {
            let ask = self.requests.number();
            self.requests.send(InFlight::Remove { ask });
            self.out.push(Effect::Remove { ask, keys });
        }
    }

    pub(super) fn on_failed(&mut self, ask: u64, failure: Failure) {
        let error = if failure == Failure::Quota { Error::Quota } else { Error::Storage };
        let flight = self.requests.take();
        let (InFlight::Get { ask: asked, .. }
        | InFlight::Set { ask: asked, .. }
        | InFlight::Move { ask: asked }
        | InFlight::Remove { ask: asked }
        | InFlight::List { ask: asked }
        | InFlight::Probe { ask: asked, .. }) = flight
        else {
            return;
        };
        if asked != ask {
            self.requests.send(flight);
            return;
        }
        match flight {
            InFlight::Get { keys, .. } => {
                self.work.dirty.extend(keys.iter());
                self.rest(failure);
                if self.requests.failures() >= READS_MAX {
                    self.refuse_all(&error);
                }
            }
            InFlight::Set { keys, marks, .. } => {
                let ours = self.ops.wait_for_any(&keys);
                self.work.dirty.extend(keys.iter());
                self.marks.fresh.extend(marks.into_iter().map(|(id, _)| id));
                match (failure, ours) {
                    // Read again and written with what is there now.
                    (Failure::Overtaken, _) => {}
                    (_, true) => self.refuse_ops(&error),
                    (_, false) => self.rest(failure),
                }
            }
            InFlight::Move { .. } => self.refuse_ops(&error),
            InFlight::Probe { .. } | InFlight::List { .. } | InFlight::Remove { .. } | InFlight::None => {
                self.sweep.reject(&mut self.out);
                self.rest(failure);
            }
        }
        if failure == Failure::Gone {
            self.close();
        }
    }

    /// Waits before the next question, longer each time.
    fn rest(&mut self, failure: Failure) {
        self.requests.fail(self.time.now);
        self.report(Report::StorageFailed(failure));
    }

    /// Every operation is told that it was not stored.
    fn refuse_all(&mut self, error: &Error) {
        self.take_back_all();
        self.refuse_waiting(error);
        self.ops.stop_separating();
        if !self.settings.pending {
            self.work.read(SETTINGS_KEY.to_owned());
        }
    }
}
