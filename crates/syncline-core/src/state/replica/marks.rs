//! Marks in storage: which changes have not reached the node yet.
//!
//! A mark's key holds the stamp of the change it stands for. So whoever takes a mark away takes away none that another
//! context has set since, and nobody has to compare before removing. A mark is written with its change or before it; one
//! whose change is not there after a while (its context died) stands for what is there.

use super::super::bridge::{Change, Kept};
use super::super::names::{DELTA_MAX, ORPHAN_GRACE, PAGE_MAX_BYTES, UNSENT_PREFIX};
use super::super::sorted::{Map, Set};
use super::super::stamp::Stamp;
use super::Replica;
use super::ops::Undo;
use crate::time::Timestamp;

/// A change: whose, and its stamp. The empty id stands for a reset.
pub(super) type Mark = (String, Stamp);

/// What is unsent.
#[derive(Debug, Clone, Default)]
pub(super) struct Marks {
    /// This context has no bridge, and another one on its storage has.
    pub(super) wanted: bool,
    /// To be marked with the next write.
    pub(super) fresh: Set,
    /// In storage, by id: the stamps, and since when each is known here.
    stored: Map<Vec<(Stamp, Timestamp)>>,
    /// Of the batch that was sent last.
    under_way: Vec<Mark>,
    /// Storage has not been searched for marks yet.
    pub(super) unread: bool,
}

impl Marks {
    /// When a mark without a change is to be looked at again.
    pub(super) fn due(&self) -> Option<Timestamp> {
        self.stored.iter().flat_map(|(_, marks)| marks).map(|(_, since)| *since + ORPHAN_GRACE).min()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.stored.is_empty() && self.fresh.is_empty()
    }

    pub(super) fn holds(&self, id: &str) -> bool {
        self.stored.contains_key(id) || self.fresh.contains(id)
    }

    pub(super) fn note(&mut self, (id, stamp): Mark, now: Timestamp) {
        match self.stored.get_mut(&id) {
            Some(marks) if marks.iter().any(|(known, _)| *known == stamp) => {}
            Some(marks) => marks.push((stamp, now)),
            None => drop(self.stored.insert(id, vec![(stamp, now)])),
        }
    }

    pub(super) fn drop(&mut self, (id, stamp): &Mark) {
        if let Some(marks) = self.stored.get_mut(id) {
            marks.retain(|(known, _)| known != stamp);
            if marks.is_empty() {
                self.stored.remove(id);
            }
        }
    }
}

pub(super) fn key((id, stamp): &Mark) -> String {
    format!("{UNSENT_PREFIX}{}{id}", stamp.text())
}

impl Replica {
    /// How many entities have changes that the node has not confirmed; a reset counts as one.
    #[must_use]
    pub fn unsent(&self) -> usize {
        let fresh = self.marks.fresh.iter().filter(|id| !self.marks.stored.contains_key(id));
        // Marks of what a reset took away stand for nothing.
        let stands = |id: &&std::sync::Arc<str>| id.is_empty() || self.index.entry(id).is_some();
        self.marks.stored.keys().chain(fresh).filter(stands).count()
    }

    /// A change to `id` (none: a reset) is for the node, too.
    pub(super) fn mark(&mut self, id: &str) {
        if self.is_bridged() || self.marks.wanted {
            self.marks.fresh.insert(id.to_owned());
        }
    }

    /// The marks that the next write should hold.
    pub(super) fn take_fresh(&mut self) -> Vec<Mark> {
        let ids = std::mem::take(&mut self.marks.fresh);
        ids.iter().filter_map(|id| Some((id.to_string(), stamp_of(&self.change(id)?)))).collect()
    }

    /// Marks are stored; earlier ones of the same entities say nothing more.
    pub(super) fn on_marked(&mut self, marks: Vec<Mark>) {
        for (id, stamp) in marks {
            let known = self.marks.stored.get(&id).into_iter().flatten();
            let earlier: Vec<Stamp> = known.map(|(known, _)| *known).filter(|known| *known < stamp).collect();
            for earlier in earlier {
                self.discard(&(id.clone(), earlier));
            }
            self.marks.note((id, stamp), self.time.now);
        }
    }

    fn discard(&mut self, mark: &Mark) {
        self.marks.drop(mark);
        self.work.remove(key(mark));
    }

    /// A batch of changes for the node: those whose marks are stored and that nothing is under way for.
    pub(super) fn take_unsent(&mut self) -> Vec<Change> {
        let (mut changes, mut bytes) = (Vec::new(), 0);
        self.marks.under_way.clear();
        let mut busy = Set::new();
        for op in &self.ops.under_way {
            match &op.undo {
                Undo::Floor(..) => return changes,
                Undo::Entities(entities) => busy.extend(entities.iter().map(|before| before.id.clone())),
                _ => {}
            }
        }
        let mut under_way = Vec::new();
        for (id, marks) in self.marks.stored.iter() {
            if changes.len() >= DELTA_MAX || bytes >= PAGE_MAX_BYTES {
                break;
            }
            let known = self.change(id);
            let known_stamp = known.as_ref().map_or(Stamp::ZERO, stamp_of);
            let ripe = |(stamp, since): &&(Stamp, Timestamp)| {
                known_stamp >= *stamp || *since + ORPHAN_GRACE <= self.time.now
            };
            let before = under_way.len();
            if !busy.contains(id) {
                under_way.extend(marks.iter().filter(ripe).map(|(stamp, _)| (id.to_string(), *stamp)));
            }
            if under_way.len() > before {
                bytes += known.as_ref().map_or(0, weight);
                changes.extend(known);
            }
        }
        self.marks.under_way = under_way;
        if changes.is_empty() {
            // Marks of nothing: there is nothing to send for them.
            self.on_sent();
        }
        changes
    }

    /// Everything there is, from behind `after` on: for a node that knows nothing of it.
    pub(super) fn all_after(&self, after: &str) -> Vec<Change> {
        let (mut changes, mut bytes) = (Vec::new(), 0);
        let ids: Set = self.index.ids().filter(|id| *id > after).map(str::to_owned).collect();
        for id in ids.iter() {
            if changes.len() >= DELTA_MAX || bytes >= PAGE_MAX_BYTES {
                break;
            }
            let change = self.change(id);
            bytes += change.as_ref().map_or(0, weight);
            changes.extend(change);
        }
        changes
    }

    /// What was to be sent of `id` is of no use any more.
    pub(super) fn unmark(&mut self, id: &str) {
        for (stamp, _) in self.marks.stored.remove(id).unwrap_or_default() {
            self.work.remove(key(&(id.to_owned(), stamp)));
        }
    }

    /// The last batch has reached the node.
    pub(super) fn on_sent(&mut self) {
        for mark in std::mem::take(&mut self.marks.under_way) {
            self.discard(&mark);
        }
    }

    /// What a node should hear about an entity, or with the empty id about the last reset.
    pub(super) fn change(&self, id: &str) -> Option<Change> {
        if id.is_empty() {
            return Some(Change::Reset(self.index.floor()));
        }
        let entry = self.index.entry(id)?;
        let stored = if entry.live { self.values.get(id).map(|held| held.stored.clone()) } else { None };
        // A value that nobody stamped is as old as its entity.
        let stored = stored.map(|mut stored| {
            stored.stamp = stored.stamp.filter(|stamp| *stamp > Stamp::ZERO).or(Some(entry.stamp));
            stored
        });
        Some(Change::Entity { id: id.to_owned(), kept: Kept { entry, stored } })
    }
}

/// When it was made. Of what is listed, the value says so: that it is listed may be heard of before its value is.
fn stamp_of(change: &Change) -> Stamp {
    match change {
        Change::Reset(floor) => *floor,
        Change::Entity { kept: Kept { entry, stored }, .. } => {
            stored.as_ref().and_then(|stored| stored.stamp).unwrap_or(entry.stamp)
        }
    }
}

fn weight(change: &Change) -> usize {
    match change {
        Change::Entity { kept: Kept { stored: Some(stored), .. }, .. } => stored.value.text().len(),
        _ => 0,
    }
}
