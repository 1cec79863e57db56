//! Orphans: keys of entities that the index does not list, and of layouts that are not in use any more.
//!
//! They do no harm, so there is no hurry: a key must have been an orphan for [`ORPHAN_GRACE`], be one still when index and key
//! are read again, and not have been written lately. Should somebody add the entity in the moment between that look and
//! the removal, the value is missing where everybody knows it, and is written again.

use super::super::index::Entry;
use super::super::layout::{Kind, Layout};
use super::super::names::{BATCH_MAX, ENTITY_PREFIX, INDEX_KEY, ORPHAN_GRACE};
use super::super::port::{Effect, Error};
use super::super::sorted::{Map, Set};
use super::super::value::{Stored, is_id};
use super::Replica;
use super::absorb::Source;
use super::requests::InFlight;
use crate::time::Timestamp;

/// What may be removed, and when.
#[derive(Debug, Clone, Default)]
pub(super) struct Sweep {
    suspects: Map<Timestamp>,
    /// Callers that asked for a search.
    callers: Vec<u64>,
}

impl Sweep {
    pub(super) fn request(&mut self, op: u64) {
        self.callers.push(op);
    }

    pub(super) fn wants_list(&self) -> bool {
        !self.callers.is_empty()
    }

    pub(super) fn suspect(&mut self, key: String, now: Timestamp) {
        if !self.suspects.contains_key(&key) {
            self.suspects.insert(key, now + ORPHAN_GRACE);
        }
    }

    pub(super) fn due(&self) -> Option<Timestamp> {
        self.suspects.iter().map(|(_, due)| *due).min()
    }

    pub(super) fn reject(&mut self, out: &mut Vec<Effect>) {
        out.extend(self.callers.drain(..).map(|op| Effect::Reject { op, error: Error::Storage }));
    }
}

impl Replica {
    pub(super) fn on_listed(&mut self, ask: u64, keys: &[String]) {
        if !self.requests.ends_list(ask) {
            return;
        }
        if std::mem::take(&mut self.seen.rebuild) {
            self.rebuild_index(keys);
        }
        if self.is_bridged() && std::mem::take(&mut self.marks.unread) {
            for key in keys {
                if let Kind::Mark(stamp, id) = self.index.layout().kind(key) {
                    self.marks.note((id.to_owned(), stamp), self.time.now);
                }
            }
            self.on_marks_read();
        }
        for key in keys {
            if self.is_orphan(key) {
                self.sweep.suspect(key.clone(), self.time.now);
            }
        }
        self.out.extend(self.sweep.callers.drain(..).map(|op| Effect::Resolve { op }));
    }

    /// The index could not be read: every entity there is, is listed again.
    fn rebuild_index(&mut self, keys: &[String]) {
        for id in keys.iter().filter_map(|key| key.strip_prefix(ENTITY_PREFIX)).filter(|id| is_id(id)) {
            let stamp = self.time.tick();
            if self.index.entry(id).is_none() && self.index.join(id, Entry { stamp, live: true }) {
                self.touch(id);
            }
        }
        self.seen.index = true;
        self.work.read(INDEX_KEY.to_owned());
    }

    fn is_orphan(&self, key: &str) -> bool {
        let layout = self.index.layout();
        match layout.kind(key) {
            Kind::Entity(id) => layout == Layout::A || !self.index.lists(id),
            Kind::Packed => layout != Layout::A,
            Kind::Index(place) => place.is_none(),
            Kind::Settings | Kind::Schema | Kind::Mark(..) | Kind::Cursor | Kind::Foreign => false,
        }
    }

    /// Looks at suspects whose time has come; whether there are any.
    pub(super) fn ask_probe(&mut self) -> bool {
        let due = self.sweep.suspects.iter().filter(|(_, due)| **due <= self.time.now);
        let suspects: Vec<String> = due.map(|(key, _)| key.to_string()).take(BATCH_MAX).collect();
        if suspects.is_empty() {
            return false;
        }
        let layout = self.index.layout();
        let mut keys = Set::from([INDEX_KEY.to_owned()]);
        keys.extend(
            suspects.iter().filter_map(|key| key.strip_prefix(ENTITY_PREFIX)).map(|id| layout.index_key(id)),
        );
        suspects.iter().for_each(|key| {
            self.sweep.suspects.remove(key);
        });
        keys.extend(suspects.iter().cloned());
        let ask = self.requests.number();
        self.out.push(Effect::Get { ask, keys: keys.iter().map(ToString::to_string).collect() });
        self.requests.send(InFlight::Probe { ask, keys: suspects });
        true
    }

    pub(super) fn on_probed(&mut self, suspects: &[String], mut found: Vec<(String, Option<String>)>) {
        self.sort_index_first(&mut found);
        let mut keys = Vec::new();
        for (key, text) in found {
            if self.absorb(&key, text.as_deref(), Source::Read) {
                self.work.read(key.clone());
            }
            if !suspects.contains(&key) || text.is_none() || !self.is_orphan(&key) {
                continue;
            }
            let stamp = text.and_then(|text| Stored::read(&text).ok()).and_then(|stored| stored.stamp);
            if stamp.is_some_and(|stamp| self.time.wall.saturating_since(stamp.wall()) < ORPHAN_GRACE) {
                self.sweep.suspect(key, self.time.now);
            } else {
                keys.push(key);
            }
        }
        if !keys.is_empty() {
            let ask = self.requests.number();
            self.requests.send(InFlight::Remove { ask });
            self.out.push(Effect::Remove { ask, keys });
        }
    }
}
