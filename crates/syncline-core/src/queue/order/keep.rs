//! A queue to records and back, and what changed in between.

use std::hash::{BuildHasher, Hash};

use super::super::{BadRecord, Change, Place, Record};
use super::{Entry, Limits, Queue, record};

/// Ranks a stored queue may have: exact as a JavaScript number too, and so far from overflow that no queue lives
/// long enough to reach it.
const RANK_MAX: u64 = (1 << 53) - 1;

/// Keys whose record is not what it was when last drained.
#[derive(Debug)]
pub(super) struct Journal<K> {
    puts: bool,
    removals: bool,
    changed: Vec<u32>,
    removed: Vec<K>,
}

impl<K> Journal<K> {
    pub(super) const fn closed() -> Self {
        Self { puts: false, removals: false, changed: Vec::new(), removed: Vec::new() }
    }

    /// `noted` is the entry's own mark, so that each is listed once.
    pub(super) fn note(&mut self, slot: u32, noted: &mut bool) {
        if self.puts && !std::mem::replace(noted, true) {
            self.changed.push(slot);
        }
    }

    pub(super) fn remove(&mut self, key: K) {
        if self.removals {
            self.removed.push(key);
        }
    }
}

impl<K: Eq + Hash, R, S: BuildHasher> Queue<K, R, S> {
    /// Every key's record, in no particular order.
    pub fn records(&self) -> impl Iterator<Item = Record<&K, &Place<R>>> {
        self.slots.iter().map(|(key, entry)| record(key, entry))
    }

    /// The queue that these records, in any order, were taken from. Places are taken over as they are, running ones
    /// and due times included; results beyond the limit are dropped, keys in line never.
    pub fn restore(
        limits: Limits,
        hasher: S,
        records: impl IntoIterator<Item = Record<K, Place<R>>>,
    ) -> Result<Self, BadRecord> {
        let mut queue = Self::new(limits, hasher);
        let (mut others, mut ranks, mut ages) = (Vec::new(), Vec::new(), Vec::new());
        for Record { key, place, rank, since, attempts, priority, group } in records {
            if rank.unsigned_abs() > RANK_MAX || since.unsigned_abs() > RANK_MAX {
                return Err(BadRecord::OutOfRange { rank, since });
            }
            if queue.slots.find(&key).is_some() {
                return Err(BadRecord::KeyTwice { rank });
            }
            queue.back = queue.back.max(rank + 1).max(since + 1);
            let waits = matches!(place, Place::Waiting);
            let entry = Entry { place, rank, since, attempts, priority, group, noted: false };
            let slot = queue.slots.insert(key, entry);
            queue.lines.make_room_for(group);
            queue.lines.enter(group);
            if waits {
                ranks.push((rank, slot));
                ages.push((since, slot));
            } else {
                others.push((rank, slot));
            }
        }
        others.sort_unstable();
        for (_, slot) in others {
            queue.link(slot);
        }
        let (ranks, ages) = (in_order(ranks)?, in_order(ages)?);
        queue.lines.restore(&mut queue.slots, &ranks, &ages, |entry| entry.group);
        queue.drop_old_results();
        Ok(queue)
    }

    /// From now on keeps track of what changes, for [`drain_changes`](Self::drain_changes). Whoever calls this must
    /// drain them: what is removed is remembered until then.
    pub fn keep_changes(&mut self) {
        self.journal.puts = true;
        self.journal.removals = true;
    }

    /// The same for what is removed alone: for a queue that is kept nowhere, but whose keys mean something elsewhere.
    pub fn keep_removals(&mut self) {
        self.journal.removals = true;
    }

    /// Hands out what changed since the last time, each key once, removals first, and forgets it.
    pub fn drain_changes(&mut self, mut visit: impl FnMut(Change<'_, K, R>)) {
        for key in self.journal.removed.drain(..) {
            visit(Change::Remove(&key));
        }
        for slot in self.journal.changed.drain(..) {
            // The slot may have been emptied, or emptied and used again, since it was noted.
            if self.slots.content(slot).is_some_and(|(_, entry)| entry.noted) {
                self.slots.entry_mut(slot).noted = false;
                visit(Change::Put(record(self.slots.key(slot), self.slots.entry(slot))));
            }
        }
    }
}

/// Sorted by rank or age, of which no two may be the same.
fn in_order(mut slots: Vec<(i64, u32)>) -> Result<Vec<(i64, u32)>, BadRecord> {
    slots.sort_unstable();
    match slots.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        Some(pair) => Err(BadRecord::OrderTwice { order: pair[1].0 }),
        None => Ok(slots),
    }
}
