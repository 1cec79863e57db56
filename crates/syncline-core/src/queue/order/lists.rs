//! The lists inside a queue, and how a key moves between them.
//!
//! A key is in the list of its place and, while it waits, in its group's list of ages; in no other. Ranks follow the lists:
//! they are what a store needs to put the keys into the same order again. New ones are taken at either end, so
//! nothing is ever renumbered but a head that makes room.

use std::cmp::Ordering;
use std::hash::{BuildHasher, Hash};

use super::super::chain::steps;
use super::super::{Kind, Move, Place, Standing};
use super::{Entry, Full, Queue};
use crate::time::Timestamp;

/// Where in line.
#[derive(Debug, Clone, Copy)]
pub(super) enum Position {
    /// Behind all.
    Back,
    /// Behind `before`, or in front of all.
    Behind { before: Option<u32>, rank: i64 },
}

/// The order of retries, and of groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct Due {
    pub(in super::super) at: Timestamp,
    /// Of those due at once, the first to fail comes first.
    pub(in super::super) rank: i64,
}

impl Ord for Due {
    fn cmp(&self, other: &Self) -> Ordering {
        steps::count();
        (self.at, self.rank).cmp(&(other.at, other.rank))
    }
}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Places right after the head, to be taken one after the other.
#[derive(Debug)]
pub(super) struct FrontPlaces {
    /// The head, if there is one.
    head: Option<u32>,
    next: i64,
    start: i64,
    end: i64,
}

impl FrontPlaces {
    /// Whether this key has got one of them: it was named twice.
    pub(super) const fn has<R>(&self, entry: &Entry<R>) -> bool {
        matches!(entry.place, Place::Waiting) && self.start <= entry.rank && entry.rank < self.end
    }
}

impl<K: Eq + Hash, R, S: BuildHasher> Queue<K, R, S> {
    pub(super) fn check_room(&mut self, kind: Kind, keys: &[K]) -> Result<(), Full> {
        let held = self.lines.waiting() + self.running.len() + self.retrying.len() + self.dead.len();
        let limit = self.limits.max_keys;
        // Looking at each key is only worth it when they would not all fit.
        if held.saturating_add(keys.len()) <= limit as usize {
            self.slots.reserve(keys.len());
            return Ok(());
        }
        let comes_in = |key: &&K| {
            let standing = self.standing_of(self.slots.find(*key));
            matches!(standing, Standing::Unknown | Standing::Settled) && kind.decide(standing) != Move::Ignore
        };
        let asked = keys.iter().filter(comes_in).count();
        if asked > 0 && held.saturating_add(asked) > limit as usize {
            return Err(Full { held, asked, limit });
        }
        Ok(())
    }

    pub(super) fn standing_of(&self, found: Option<u32>) -> Standing {
        let Some(slot) = found else { return Standing::Unknown };
        match self.slots.entry(slot).place {
            Place::Waiting if self.head() == Some(slot) => Standing::Head,
            Place::Waiting => Standing::Waiting,
            Place::Running { .. } => Standing::Running,
            Place::Retrying { .. } => Standing::Retrying,
            Place::Done(_) | Place::Failed(_) => Standing::Settled,
            Place::Dead(_) => Standing::Dead,
        }
    }

    pub(super) fn is_waiting(&self, slot: u32) -> bool {
        matches!(self.slots.entry(slot).place, Place::Waiting)
    }

    /// No key in line has a lower rank; the next at the back when nobody waits.
    fn front(&self) -> i64 {
        match self.lines.alone() {
            Some(line) => line.first().map_or(self.back, |slot| self.slots.entry(slot).rank),
            None if self.lines.waiting() == 0 => self.back,
            None => self.lines.front,
        }
    }

    /// Places for `count` keys right after the head: the rank of a head that waits goes down to make room.
    pub(super) fn make_room(&mut self, count: usize) -> FrontPlaces {
        let end = self.front();
        let start = end - i64::try_from(count).expect("memory ends before the ranks do");
        let head = self.head();
        if let Some(head) = head {
            self.slots.entry_mut(head).rank = start - 1;
            self.note(head);
        }
        self.lines.front = start;
        FrontPlaces { head, next: start, start, end }
    }

    /// The next of these places, for a key of this group: behind the last of the group that took one.
    pub(super) fn take_front(&mut self, places: &mut FrontPlaces, group: u32) -> Position {
        let is_last = |slot: &u32| {
            let content = self.slots.content(*slot);
            content.is_some_and(|(_, entry)| entry.group == group && places.has(entry))
        };
        let before = self.lines.last_in_front(group).filter(is_last).or(places.head);
        places.next += 1;
        Position::Behind { before, rank: places.next - 1 }
    }

    /// Puts a key into the line of its group, adding it if it is not known.
    pub(super) fn line_up(
        &mut self,
        found: Option<u32>,
        key: K,
        group: Option<u32>,
        places: Option<&mut FrontPlaces>,
    ) -> u32 {
        if let Some(slot) = found {
            let waits = self.is_waiting(slot);
            let entry = self.slots.entry_mut(slot);
            if let Some(group) = group.filter(|group| !waits && *group != entry.group) {
                let former = std::mem::replace(&mut entry.group, group);
                self.lines.make_room_for(group);
                self.lines.enter(group);
                self.lines.leave(former);
            }
            let group = self.slots.entry(slot).group;
            let position = places.map_or(Position::Back, |places| self.take_front(places, group));
            self.wait(slot, position);
            return slot;
        }
        let group = group.unwrap_or(0);
        // Before it has a slot: that may be the one of the last in front, which is gone since.
        let position = places.map_or(Position::Back, |places| self.take_front(places, group));
        let entry = Entry {
            place: Place::Waiting,
            rank: 0,
            since: 0,
            attempts: 0,
            priority: false,
            group,
            noted: false,
        };
        let slot = self.slots.insert(key, entry);
        self.lines.make_room_for(group);
        self.lines.enter(group);
        self.age(slot);
        self.insert_waiting(slot, position);
        slot
    }

    /// Puts a known key into the line. One that is there moves and keeps its age.
    pub(super) fn wait(&mut self, slot: u32, position: Position) {
        if self.is_waiting(slot) {
            let group = self.slots.entry(slot).group;
            self.lines.of(group).waiting.remove(&mut self.slots, slot);
        } else {
            self.unlink(slot);
            self.slots.entry_mut(slot).place = Place::Waiting;
            self.age(slot);
        }
        self.insert_waiting(slot, position);
    }

    /// In front of all that wait, the head too: it has had its turn.
    pub(super) fn put_first(&mut self, slot: u32) {
        let rank = self.front() - 1;
        self.lines.front = rank;
        self.wait(slot, Position::Behind { before: None, rank });
    }

    /// Moves a key into the list of a place that is not the line, behind all others there.
    pub(super) fn leave_line(&mut self, slot: u32, place: Place<R>) {
        self.unlink(slot);
        let rank = self.take_back();
        let entry = self.slots.entry_mut(slot);
        (entry.place, entry.rank) = (place, rank);
        self.link(slot);
        self.note(slot);
    }

    /// Enters a key that does not wait behind all others in the list of its place.
    pub(super) fn link(&mut self, slot: u32) {
        let entry = self.slots.entry(slot);
        match entry.place {
            Place::Waiting => unreachable!("a waiting key has a spot"),
            Place::Retrying { due } => drop(self.retrying.insert(Due { at: due, rank: entry.rank }, slot)),
            Place::Running { .. } => self.running.push(&mut self.slots, slot),
            Place::Done(_) => self.settled.push(&mut self.slots, slot),
            Place::Failed(_) => {
                self.failed += 1;
                self.settled.push(&mut self.slots, slot);
            }
            Place::Dead(_) => self.dead.push(&mut self.slots, slot),
        }
    }

    fn unlink(&mut self, slot: u32) {
        let entry = self.slots.entry(slot);
        match entry.place {
            Place::Waiting => {
                let group = entry.group;
                self.lines.remove(&mut self.slots, group, slot);
            }
            Place::Retrying { due } => drop(self.retrying.remove(&Due { at: due, rank: entry.rank })),
            Place::Running { .. } => self.running.remove(&mut self.slots, slot),
            Place::Done(_) => self.settled.remove(&mut self.slots, slot),
            Place::Failed(_) => {
                self.failed -= 1;
                self.settled.remove(&mut self.slots, slot);
            }
            Place::Dead(_) => self.dead.remove(&mut self.slots, slot),
        }
    }

    /// Forgets what a key has been through.
    pub(super) fn start_over(&mut self, slot: u32) {
        let entry = self.slots.entry_mut(slot);
        (entry.attempts, entry.priority) = (0, false);
    }

    pub(super) fn drop_old_results(&mut self) {
        while self.settled.len() > self.limits.max_results as usize {
            let oldest = self.settled.first().expect("longer than some length");
            self.forget(oldest);
        }
    }

    pub(super) fn forget(&mut self, slot: u32) -> Place<R> {
        self.unlink(slot);
        let (key, entry) = self.slots.remove(slot);
        self.lines.leave(entry.group);
        self.journal.remove(key);
        entry.place
    }

    pub(super) fn note(&mut self, slot: u32) {
        self.journal.note(slot, &mut self.slots.entry_mut(slot).noted);
    }

    /// The waiting key that nothing may be put in front of. While something runs there is none, nor where there are groups.
    fn head(&self) -> Option<u32> {
        self.lines.alone()?.first().filter(|_| self.running.len() == 0)
    }

    fn insert_waiting(&mut self, slot: u32, position: Position) {
        let group = self.slots.entry(slot).group;
        let (before, rank) = match position {
            Position::Back => (self.lines.of(group).waiting.last(), self.take_back()),
            Position::Behind { before, rank } => (before, rank),
        };
        self.slots.entry_mut(slot).rank = rank;
        let line = self.lines.of(group);
        line.waiting.insert(&mut self.slots, before, slot);
        if !matches!(position, Position::Back) {
            line.in_front = Some(slot);
        }
        self.note(slot);
    }

    fn age(&mut self, slot: u32) {
        let since = self.take_back();
        let entry = self.slots.entry_mut(slot);
        entry.since = since;
        let group = entry.group;
        self.lines.age(&mut self.slots, group, slot);
    }

    fn take_back(&mut self) -> i64 {
        self.back += 1;
        self.back - 1
    }
}
