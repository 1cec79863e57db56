//! What storage says, taken in key by key.
//!
//! Each function answers whether the key lacks something that is known, or is not to be trusted as an event told it: then
//! it is to be read, and after reading, written.

use super::super::index::{Document, Entry};
use super::super::json::Json;
use super::super::layout::{Kind, Layout, Place};
use super::super::names::{INDEX_KEY, PACKED_KEY, SETTINGS_KEY};
use super::super::port::{Effect, Report};
use super::super::sorted::Set;
use super::super::stamp::Stamp;
use super::super::value::{Refused, Stored, Value, is_id};
use super::{Held, Phase, Replica};

/// How something became known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    /// Storage was read just now.
    Read,
    /// Told, perhaps late.
    Event,
}

impl Replica {
    pub(super) fn on_changed(&mut self, mut changes: Vec<(String, Option<String>)>) {
        self.sort_index_first(&mut changes);
        for (key, text) in changes {
            if self.absorb(&key, text.as_deref(), Source::Event) {
                self.work.read(key);
            }
        }
    }

    pub(super) fn absorb(&mut self, key: &str, text: Option<&str>, source: Source) -> bool {
        self.seen.read_again(key, text);
        match self.index.layout().kind(key) {
            Kind::Settings => self.absorb_settings(text, source),
            Kind::Schema => self.absorb_schema(text),
            Kind::Index(place) => self.absorb_index(key, place, text, source),
            Kind::Packed => self.absorb_packed(text, source),
            Kind::Entity(id) => {
                let stored = text.map(Stored::read);
                if matches!(stored, Some(Err(_))) {
                    self.poison(key, text.unwrap_or_default());
                }
                if text.is_none() && self.recent.take_omitted(id) {
                    self.remove_plainly(id);
                }
                let ours = self.index.layout() != Layout::A;
                self.absorb_value(id, stored, source) && ours
            }
            Kind::Mark(stamp, id) if self.is_bridged() => {
                let mark = (id.to_owned(), stamp);
                if text.is_some() {
                    self.marks.note(mark, self.time.now);
                } else {
                    self.marks.drop(&mark);
                }
                false
            }
            Kind::Cursor if self.is_bridged() => self.absorb_cursor(text),
            // Another context on this storage talks to a node: it is to hear of what is changed here, too.
            Kind::Cursor => {
                self.marks.wanted |= text.is_some();
                false
            }
            Kind::Mark(..) | Kind::Foreign => false,
        }
    }

    fn poison(&mut self, key: &str, text: &str) {
        if self.seen.poison(key, text) {
            self.report(Report::Poisoned { key: key.to_owned() });
        }
    }

    fn absorb_settings(&mut self, text: Option<&str>, source: Source) -> bool {
        let settings = match text.map(Value::read) {
            Some(Ok(settings)) if self.takes_settings(&settings) => Some(settings),
            Some(_) => {
                self.poison(SETTINGS_KEY, text.unwrap_or_default());
                return self.settings.pending;
            }
            // Nobody has set any, or somebody has cleared the storage.
            None => return self.settings.pending || self.settings.value.is_some(),
        };
        if settings == self.settings.value {
            return false;
        }
        if self.settings.pending || source == Source::Event {
            return true;
        }
        self.settings.value = settings;
        self.out.push(Effect::Settings(self.settings.value.clone()));
        false
    }

    fn absorb_schema(&mut self, text: Option<&str>) -> bool {
        let stored = text.and_then(|text| text.parse().ok()).unwrap_or(1_u32).max(1);
        self.schema.stored = self.schema.stored.max(stored);
        if stored > self.config.schema_version {
            self.report(Report::NewerSchema { stored });
            self.close();
            return false;
        }
        // Behind what it is to be, or what it was before somebody cleared the storage.
        stored < self.schema.stored || self.schema.due && stored < self.config.schema_version
    }

    fn absorb_index(&mut self, key: &str, place: Option<Place>, text: Option<&str>, source: Source) -> bool {
        if self.seen.was_complete(key, text) {
            return false;
        }
        let document = match text {
            Some(text) => {
                let document = Document::read(text);
                if document.is_none() {
                    self.poison(key, text);
                    self.seen.rebuild |= self.phase == Phase::Loading && !self.seen.index && key == INDEX_KEY;
                    return place.is_some() && !self.seen.rebuild;
                }
                document
            }
            // Not there yet, or not any more: then somebody has cleared the storage.
            None => {
                let mut empty = Document::default();
                empty.mark_ours();
                if place.is_none_or(|place| self.index.document(place, self.time.wall) == empty) {
                    return false;
                }
                if source == Source::Read && place == Some(Place::Whole) && self.seen.index {
                    self.on_cleared();
                }
                Some(empty)
            }
        };
        let Some(document) = document else { return false };
        self.seen.index |= text.is_some() && place == Some(Place::Whole);
        let recent = |id: &str| self.recent.holds(id);
        let absorbed = self.index.absorb(&document, place, &mut self.time.clock, self.time.wall, &recent);
        self.recent.note_omitted(absorbed.omitted);
        if absorbed.plain {
            absorbed.changed.iter().for_each(|id| self.mark(id));
        }
        if absorbed.moved {
            self.seen.outdate_all();
            self.relocate();
        }
        for id in &absorbed.changed {
            if self.phase == Phase::Ready {
                self.recent.note(id);
            }
            self.touch(id);
            let layout = self.index.layout();
            if place != Some(layout.place(id)) {
                // A fact from a place where nobody looks for it any more.
                self.work.read(layout.index_key(id));
            }
        }
        let lacking = absorbed.lacking && place.is_some();
        if lacking && source == Source::Read && self.doubt_values(&document, place) {
            self.seen.outdate(key);
            self.work.read(key.to_owned());
            return false;
        }
        if let Some(text) = text.filter(|_| !lacking && place.is_some() && !absorbed.moved) {
            self.seen.note_complete(key, text);
        }
        lacking
    }

    /// Somebody who knows nothing of stamps has removed it from the index, and now its value.
    fn remove_plainly(&mut self, id: &str) {
        let pending = self.values.get(id).is_some_and(|held| held.pending > 0);
        if let Some(entry) = self.index.entry(id).filter(|entry| entry.live && !pending) {
            self.index.join(id, Entry { stamp: entry.stamp.after(self.time.wall), live: false });
            self.mark(id);
            self.touch(id);
            self.work.read(self.index.layout().index_key(id));
        }
    }

    /// Storage was cleared under this context. Whoever knows something writes it again, for the node too.
    fn on_cleared(&mut self) {
        (self.seen.index, self.seen.proved) = (false, None);
        self.report(Report::Cleared);
        self.read_all();
        if self.is_bridged() {
            // Removals and the last reset too: what was not sent of them was marked there.
            let ids: Set = self.index.entries().map(|(id, _)| id).collect();
            ids.iter().for_each(|id| self.mark(id));
            if self.index.floor() > Stamp::ZERO {
                self.mark("");
            }
        }
    }

    /// A document does not list what was stored: whoever dropped it may have dropped the values as well, so that these are to be
    /// read before they are listed again. Whether there are any.
    fn doubt_values(&mut self, document: &Document, place: Option<Place>) -> bool {
        let moved = place == Some(Place::Whole) && document.layout_since() < self.index.layout_since();
        if moved && self.seen.proved.is_none() {
            // Not even where things lie: all of it is in doubt.
            self.seen.proved = Some(Set::new());
            self.read_all();
            return true;
        }
        let layout = self.index.layout();
        let dropped = self.index.ids().filter(|id| Some(layout.place(id)) == place && !document.lists(id));
        let stored = dropped.filter(|id| self.values.get(id).is_some_and(|held| held.pending == 0));
        let proved = self.seen.proved.get_or_insert_default();
        let doubted: Vec<String> =
            stored.map(|id| layout.value_key(id)).filter(|key| !proved.contains(key)).collect();
        let any = !doubted.is_empty();
        self.work.dirty.extend(doubted);
        any
    }

    fn absorb_packed(&mut self, text: Option<&str>, source: Source) -> bool {
        let ours = self.index.layout() == Layout::A;
        let members = match text.map(Json::read) {
            None => Vec::new(),
            Some(Ok(Json::Map(members))) => members,
            Some(_) => {
                self.poison(PACKED_KEY, text.unwrap_or_default());
                return ours && (source == Source::Event || !self.values.is_empty());
            }
        };
        let mut lacking = false;
        let mut found = Set::new();
        for (id, json) in members {
            let stored = Stored::from_json(json);
            let plain = matches!(&stored, Ok(stored) if stored.stamp.is_none());
            if ours && plain && self.index.entry(&id).is_none() && is_id(&id) {
                let entry = Entry { stamp: self.index.floor().after(self.time.wall), live: true };
                if self.index.join(&id, entry) {
                    self.mark(&id);
                    self.work.read(INDEX_KEY.to_owned());
                }
            }
            if !self.index.lists(&id) {
                // Not shown, and left out when the key is written next.
                continue;
            }
            lacking |= self.absorb_value(&id, Some(stored), source);
            found.insert(id);
        }
        lacking |= self.values.keys().any(|id| self.index.lists(id) && !found.contains(id));
        lacking && ours
    }

    /// Takes in what the storage holds for one entity.
    pub(super) fn absorb_value(
        &mut self,
        id: &str,
        stored: Option<Result<Stored, Refused>>,
        source: Source,
    ) -> bool {
        if !self.index.lists(id) {
            return false;
        }
        let Some(Ok(stored)) = stored else { return self.values.contains_key(id) };
        stored.stamp.into_iter().for_each(|stamp| self.time.clock.meet(stamp));
        let Some(held) = self.values.get_mut(id) else {
            self.adopt(id, stored, Stamp::ZERO);
            return self.is_migrated(id);
        };
        let known = held.stored.rank();
        let found = stored.stamp.map(|_| stored.rank());
        if held.stored.value == stored.value {
            let news = found.is_some_and(|found| found > known);
            if news {
                (held.stored.stamp, held.stored.added) = (stored.stamp, stored.added);
                held.stored.version = held.stored.version.max(stored.version);
            }
            let older = found.is_some_and(|found| found.0 < known.0);
            return older || !news && found.is_some() && stored.version < held.stored.version;
        }
        match found {
            // What is to be written now is the later one, whatever the clocks said; what the node had is not.
            Some(found) if found > known && held.pending > 0 && !held.remote => {
                if source == Source::Read {
                    held.stored.stamp = Some(self.time.tick());
                    held.stored.added = Some(known.0.max(found.0));
                    // A mark of the stamp before says nothing of this one.
                    self.mark(id);
                }
                true
            }
            Some(found) if found > known => {
                self.adopt(id, stored, Stamp::ZERO);
                self.is_migrated(id)
            }
            Some(found) if found < known => true,
            // The same stamp or none: somebody who knows nothing of stamps wrote. What storage says last counts.
            _ if held.pending > 0 || source == Source::Event => true,
            _ => {
                // A node orders by stamps alone.
                let stamp = if self.is_bridged() { self.time.tick() } else { known.1 };
                let added = self.index.entry(id).map(|entry| entry.stamp).max(Some(known.0));
                self.adopt(id, Stored { stamp: None, added, ..stored }, stamp);
                self.mark(id);
                self.is_migrated(id)
            }
        }
    }

    fn adopt(&mut self, id: &str, stored: Stored, known: Stamp) {
        let stamp = stored.stamp.unwrap_or(known);
        let version = match (stored.version, stored.stamp) {
            (0, None) => self.schema.stored,
            (0, Some(_)) => 1,
            (version, _) => version,
        };
        let mut stored = Stored { stamp: Some(stamp), version, ..stored };
        while stored.version < self.config.schema_version {
            let next = self.config.migrate.as_ref().map(|migrate| migrate(stored.version, id, &stored.value));
            match next.unwrap_or_else(|| Some(stored.value.clone())) {
                // Whoever migrates this value makes the same stamp, so that nobody has to give way.
                Some(value) => {
                    let added = Some(stored.rank().0);
                    stored = Stored { value, version: stored.version + 1, stamp: Some(stamp.next()), added };
                }
                None => {
                    self.report(Report::NotMigrated { id: id.to_owned() });
                    break;
                }
            }
        }
        let changed = stored.version != version;
        self.values.insert(self.index.key(id), Held { stored, pending: 0, remote: false });
        if changed {
            let key = self.index.layout().value_key(id);
            self.work.read(key);
        }
        self.show(id);
    }

    /// Whether the value that was just adopted is to be written as it is now.
    fn is_migrated(&self, id: &str) -> bool {
        self.work.dirty.contains(&self.index.layout().value_key(id))
    }
}
