//! The lines of a queue, one for each group: who waits, in which order, and how many keys each group has.
//!
//! A queue without groups has the line number 0 alone. Lines whose number of waiting keys has changed are listed until somebody asks
//! ([`Queue::take_changed_groups`]), so that whoever paces the groups looks at those and no others.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::hash::{BuildHasher, Hash};

use super::super::chain::{By, Chain};
use super::super::slots::Slots;
use super::Queue;

#[derive(Debug)]
pub(super) struct Lines {
    lines: Vec<GroupLine>,
    /// Keys that wait, of all groups.
    waiting: usize,
    /// Whether keys belong to groups.
    grouped: bool,
    /// Where they do: no key that waits has a lower rank.
    pub(super) front: i64,
    /// Lines that have changed, the first to change first.
    changed: Vec<u32>,
}

/// The keys of one group.
#[derive(Debug)]
pub(super) struct GroupLine {
    pub(super) waiting: Chain,
    /// The waiting ones again, longest in line first.
    ages: Chain,
    /// The last that was put somewhere else than at the back. It may be gone since.
    pub(super) in_front: Option<u32>,
    /// Starts in a row that overtook an older key.
    overtakes: u32,
    /// Keys of the group, wherever they are.
    keys: usize,
    /// It is among those that have changed already.
    noted: bool,
}

impl GroupLine {
    const fn new() -> Self {
        let (waiting, ages) = (Chain::new(By::Rank), Chain::new(By::Age));
        Self { waiting, ages, in_front: None, overtakes: 0, keys: 0, noted: false }
    }

    /// Who runs next. It is still in line.
    pub(super) fn next(&mut self, max_overtakes: u32) -> Option<u32> {
        let first = self.waiting.first()?;
        let oldest = self.ages.first().expect("each waiting key has an age");
        if first == oldest || self.overtakes >= max_overtakes {
            self.overtakes = 0;
            return Some(oldest);
        }
        self.overtakes += 1;
        Some(first)
    }
}

impl Lines {
    pub(super) fn new() -> Self {
        Self { lines: vec![GroupLine::new()], waiting: 0, grouped: false, front: 0, changed: Vec::new() }
    }

    pub(super) const fn waiting(&self) -> usize {
        self.waiting
    }

    /// The one line of a queue without groups.
    pub(super) fn alone(&self) -> Option<&Chain> {
        (!self.grouped).then(|| &self.lines[0].waiting)
    }

    /// The line of a group that has keys.
    pub(super) fn of(&mut self, group: u32) -> &mut GroupLine {
        &mut self.lines[group as usize]
    }

    pub(super) fn get_mut(&mut self, group: u32) -> Option<&mut GroupLine> {
        self.lines.get_mut(group as usize)
    }

    pub(super) fn last_in_front(&self, group: u32) -> Option<u32> {
        self.lines.get(group as usize)?.in_front
    }

    pub(super) fn make_room_for(&mut self, group: u32) {
        if self.lines.len() <= group as usize {
            self.lines.resize_with(group as usize + 1, GroupLine::new);
        }
    }

    /// One more key is of this group, wherever it is.
    pub(super) fn enter(&mut self, group: u32) {
        self.of(group).keys += 1;
    }

    /// One key less is of this group.
    pub(super) fn leave(&mut self, group: u32) {
        let line = self.of(group);
        line.keys -= 1;
        if line.keys == 0 {
            self.note(group);
        }
    }

    /// Enters a key into the order of ages, behind all others.
    pub(super) fn age<K, T, S>(&mut self, slots: &mut Slots<K, T, S>, group: u32, slot: u32) {
        self.of(group).ages.push(slots, slot);
        self.waiting += 1;
        self.note(group);
    }

    /// Takes a key out of the line.
    pub(super) fn remove<K, T, S>(&mut self, slots: &mut Slots<K, T, S>, group: u32, slot: u32) {
        let line = self.of(group);
        line.waiting.remove(slots, slot);
        line.ages.remove(slots, slot);
        self.waiting -= 1;
        self.note(group);
    }

    /// Lines up keys that are kept as waiting, given in the order of their ranks and of their ages.
    pub(super) fn restore<K: Eq + Hash, T, S: BuildHasher>(
        &mut self,
        slots: &mut Slots<K, T, S>,
        ranks: &[(i64, u32)],
        ages: &[(i64, u32)],
        group_of: impl Fn(&T) -> u32,
    ) {
        self.grouped = self.lines.len() > 1;
        self.front = ranks.first().map_or(0, |(rank, _)| *rank);
        for &(_, slot) in ranks {
            let group = group_of(slots.entry(slot));
            self.of(group).waiting.push(slots, slot);
        }
        for &(_, slot) in ages {
            let group = group_of(slots.entry(slot));
            self.age(slots, group, slot);
        }
    }

    fn note(&mut self, group: u32) {
        if self.grouped && !std::mem::replace(&mut self.of(group).noted, true) {
            self.changed.push(group);
        }
    }
}

/// Groups.
impl<K: Eq + Hash, R, S: BuildHasher> Queue<K, R, S> {
    /// Has its keys in groups from now on. Those that are in line by then are in the group number 0, as is every key that is given none.
    pub fn begin_groups(&mut self) {
        if self.lines.grouped {
            return;
        }
        self.lines.grouped = true;
        let first = self.lines.of(0).waiting.first();
        self.lines.front = first.map_or(self.back, |slot| self.slots.entry(slot).rank);
        if first.is_some() {
            self.lines.note(0);
        }
    }

    /// Whether its keys are in groups.
    #[must_use]
    pub const fn has_groups(&self) -> bool {
        self.lines.grouped
    }

    /// How many keys of a group wait.
    #[must_use]
    pub fn waiting_of(&self, group: u32) -> usize {
        self.lines.lines.get(group as usize).map_or(0, |line| line.waiting.len())
    }

    /// Whether any key is of this group, wherever it is.
    #[must_use]
    pub fn knows_group(&self, group: u32) -> bool {
        self.lines.lines.get(group as usize).is_some_and(|line| line.keys > 0)
    }

    /// The groups of which keys have come into line or left it since the last time, or whose last key is gone; the first to change first.
    pub fn take_changed_groups(&mut self) -> Vec<u32> {
        let changed = std::mem::take(&mut self.lines.changed);
        for group in &changed {
            self.lines.of(*group).noted = false;
        }
        changed
    }

    /// All that wait, in the order of their ranks.
    pub(super) fn waiting_in_order(&self) -> impl Iterator<Item = u32> {
        let place = |slot: u32| Reverse((self.slots.entry(slot).rank, slot));
        let firsts = self.lines.lines.iter().filter_map(|line| line.waiting.first());
        let mut next: BinaryHeap<Reverse<(i64, u32)>> = firsts.map(place).collect();
        std::iter::from_fn(move || {
            let Reverse((_, slot)) = next.pop()?;
            let line = &self.lines.lines[self.slots.entry(slot).group as usize];
            next.extend(line.waiting.after(&self.slots, slot).map(place));
            Some(slot)
        })
    }
}
