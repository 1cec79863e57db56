//! What a node keeps of one space: each entity's last change, numbered in the order in which it was news.

use std::collections::BTreeMap;

use super::super::index::{Entry, is_forgotten};
use super::super::names::{DELTA_MAX, ENTITIES_MAX};
use super::super::stamp::{Clock, Stamp};
use super::super::value::Stored;
use super::Change;
use crate::time::Timestamp;

/// The changes of one space.
#[derive(Debug, Clone)]
pub struct Log {
    clock: Clock,
    /// The number of the last news.
    last: u64,
    /// Removals up to this number have been forgotten.
    forgotten: u64,
    floor: Stamp,
    floor_number: u64,
    entities: BTreeMap<String, Kept>,
    by_number: BTreeMap<u64, String>,
}

#[derive(Debug, Clone)]
struct Kept {
    entry: Entry,
    stored: Option<Stored>,
    number: u64,
}

/// What a device gets when it asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// The changes, oldest news first.
    pub changes: Vec<Change>,
    /// What to ask after next time.
    pub cursor: u64,
    /// More is there to be asked for.
    pub more: bool,
    /// One of the pages that hold everything there is: what the device has and they do not, is gone, except what the
    /// device has not sent yet.
    pub whole: bool,
}

impl Log {
    /// An empty log.
    #[must_use]
    pub fn new() -> Self {
        Self {
            clock: Clock::new(0),
            last: 0,
            forgotten: 0,
            floor: Stamp::ZERO,
            floor_number: 0,
            entities: BTreeMap::new(),
            by_number: BTreeMap::new(),
        }
    }

    /// The log as it was stored: each change with its number, and up to which number removals were forgotten.
    #[must_use]
    pub fn restore(rows: Vec<(u64, Change)>, forgotten: u64) -> Self {
        let mut log = Self { forgotten, last: forgotten, ..Self::new() };
        for (number, change) in rows {
            log.last = log.last.max(number);
            match change {
                Change::Reset(floor) => (log.floor, log.floor_number) = (floor, number),
                Change::Entity { id, entry, stored } => {
                    log.by_number.insert(number, id.clone());
                    log.entities.insert(id, Kept { entry, stored, number });
                }
            }
        }
        log
    }

    /// Up to which number removals were forgotten.
    #[must_use]
    pub const fn forgotten(&self) -> u64 {
        self.forgotten
    }

    /// Merges a change. `Some`: it was news, and this is what to store and pass on, under this number.
    pub fn merge(&mut self, change: &Change, wall: Timestamp) -> Option<(u64, Change)> {
        match change {
            Change::Reset(floor) => {
                let floor = self.clock.meet(*floor, wall);
                if floor <= self.floor {
                    return None;
                }
                self.floor = floor;
                let by_number = &mut self.by_number;
                self.entities.retain(|_, kept| {
                    let stays = kept.entry.stamp > floor;
                    if !stays {
                        by_number.remove(&kept.number);
                    }
                    stays
                });
                self.last += 1;
                self.floor_number = self.last;
                Some((self.last, Change::Reset(floor)))
            }
            Change::Entity { id, entry, stored } => self.merge_entity(id, *entry, stored.as_ref(), wall),
        }
    }

    fn merge_entity(
        &mut self,
        id: &str,
        entry: Entry,
        stored: Option<&Stored>,
        wall: Timestamp,
    ) -> Option<(u64, Change)> {
        let entry = Entry { stamp: self.clock.meet(entry.stamp, wall), ..entry };
        let stored = stored.map(|stored| {
            let stamp = stored.stamp.map(|stamp| self.clock.meet(stamp, wall));
            Stored { stamp, ..stored.clone() }
        });
        let known = self.entities.get(id);
        // Unknown and that old: it may have been removed so long ago that nobody remembers.
        let latest = stored
            .as_ref()
            .and_then(|stored| stored.stamp)
            .map_or(entry.stamp, |stamp| stamp.max(entry.stamp));
        let refused = known.is_none() && (is_forgotten(latest, wall) || self.entities.len() >= ENTITIES_MAX);
        if entry.stamp <= self.floor || refused {
            return None;
        }
        let merged = known.map_or(entry, |known| {
            let later = (entry.stamp, !entry.live) > (known.entry.stamp, !known.entry.live);
            if later { entry } else { known.entry }
        });
        let known_value = known.and_then(|known| known.stored.clone());
        let value = if merged.live { later(known_value, stored) } else { None };
        if known.is_some_and(|known| known.entry == merged && known.stored == value) {
            return None;
        }
        if let Some(known) = known {
            self.by_number.remove(&known.number);
        }
        self.last += 1;
        self.by_number.insert(self.last, id.to_owned());
        let kept = Kept { entry: merged, stored: value.clone(), number: self.last };
        self.entities.insert(id.to_owned(), kept);
        Some((self.last, Change::Entity { id: id.to_owned(), entry: merged, stored: value }))
    }

    /// What is news after `cursor`; 0: everything. `within_whole`: the page before this one was [`Page::whole`], with more
    /// to come.
    #[must_use]
    pub fn page(&self, cursor: u64, within_whole: bool) -> Page {
        let starts_over = cursor == 0 || cursor > self.last || !within_whole && cursor < self.forgotten;
        let whole = within_whole || starts_over;
        let after = if starts_over { 0 } else { cursor };
        let mut changes = Vec::new();
        if self.floor_number > after {
            changes.push(Change::Reset(self.floor));
        }
        let mut reached = after;
        let mut more = false;
        for (number, id) in self.by_number.range(after + 1..) {
            if changes.len() > DELTA_MAX {
                more = true;
                break;
            }
            reached = *number;
            if let Some(kept) = self.entities.get(id) {
                let (entry, stored) = (kept.entry, kept.stored.clone());
                changes.push(Change::Entity { id: id.clone(), entry, stored });
            }
        }
        let cursor = if more { reached } else { self.last };
        Page { changes, cursor, more, whole }
    }

    /// Forgets removals beyond the horizon; the numbers of the rows that may be deleted.
    pub fn forget(&mut self, wall: Timestamp) -> Vec<u64> {
        let mut numbers = Vec::new();
        self.entities.retain(|_, kept| {
            let stays = kept.entry.live || !is_forgotten(kept.entry.stamp, wall);
            if !stays {
                numbers.push(kept.number);
            }
            stays
        });
        for number in &numbers {
            self.by_number.remove(number);
            self.forgotten = self.forgotten.max(*number);
        }
        numbers
    }
}

impl Default for Log {
    fn default() -> Self {
        Self::new()
    }
}

/// The value with the later stamp; of two with one stamp the larger text, so that everybody decides alike.
fn later(one: Option<Stored>, other: Option<Stored>) -> Option<Stored> {
    match (one, other) {
        (Some(one), Some(other)) => {
            let other_wins = (other.stamp, &other.value) > (one.stamp, &one.value);
            Some(if other_wins { other } else { one })
        }
        (one, other) => one.or(other),
    }
}
