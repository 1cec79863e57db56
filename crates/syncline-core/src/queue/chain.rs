//! Order as links between slots: adding anywhere, removing anywhere, in constant time.
//!
//! A slot can be in two chains at once, one of each [`By`].

use super::slots::Slots;

/// What a chain is ordered by; tells its links from those of the other kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum By {
    /// By rank, among the keys in the same place.
    Rank,
    /// By time in line.
    Age,
}

/// The neighbours of one slot, for each [`By`].
#[derive(Debug, Clone, Copy)]
pub(super) struct Links([Link; 2]);

#[derive(Debug, Clone, Copy)]
struct Link {
    before: u32,
    after: u32,
}

/// No neighbour.
const NIL: u32 = u32::MAX;

impl Default for Links {
    fn default() -> Self {
        Self([Link { before: NIL, after: NIL }; 2])
    }
}

#[derive(Debug)]
pub(super) struct Chain {
    by: By,
    first: u32,
    last: u32,
    len: usize,
}

impl Chain {
    pub(super) const fn new(by: By) -> Self {
        Self { by, first: NIL, last: NIL, len: 0 }
    }

    pub(super) const fn len(&self) -> usize {
        self.len
    }

    pub(super) const fn first(&self) -> Option<u32> {
        some(self.first)
    }

    pub(super) const fn last(&self) -> Option<u32> {
        some(self.last)
    }

    /// Adds `slot` behind `before`, or in front of all.
    pub(super) fn insert<K, T, S>(&mut self, slots: &mut Slots<K, T, S>, before: Option<u32>, slot: u32) {
        let before = before.unwrap_or(NIL);
        let after = if before == NIL { self.first } else { self.link(slots, before).after };
        *self.link(slots, slot) = Link { before, after };
        *self.behind(slots, before) = slot;
        *self.in_front_of(slots, after) = slot;
        self.len += 1;
    }

    /// Adds `slot` behind all.
    pub(super) fn push<K, T, S>(&mut self, slots: &mut Slots<K, T, S>, slot: u32) {
        self.insert(slots, self.last(), slot);
    }

    pub(super) fn remove<K, T, S>(&mut self, slots: &mut Slots<K, T, S>, slot: u32) {
        let Link { before, after } = *self.link(slots, slot);
        *self.behind(slots, before) = after;
        *self.in_front_of(slots, after) = before;
        self.len -= 1;
    }

    /// Who comes after `slot`.
    pub(super) fn after<K, T, S>(&self, slots: &Slots<K, T, S>, slot: u32) -> Option<u32> {
        some(slots.links(slot).0[self.by as usize].after)
    }

    /// From the first on.
    pub(super) fn iter<K, T, S>(&self, slots: &Slots<K, T, S>) -> impl Iterator<Item = u32> {
        let by = self.by;
        std::iter::successors(self.first(), move |&slot| some(slots.links(slot).0[by as usize].after))
    }

    /// From the last on.
    pub(super) fn iter_back<K, T, S>(&self, slots: &Slots<K, T, S>) -> impl Iterator<Item = u32> {
        let by = self.by;
        std::iter::successors(self.last(), move |&slot| some(slots.links(slot).0[by as usize].before))
    }

    fn link<'a, K, T, S>(&self, slots: &'a mut Slots<K, T, S>, slot: u32) -> &'a mut Link {
        steps::count();
        &mut slots.links_mut(slot).0[self.by as usize]
    }

    /// What tells who comes after `before`.
    fn behind<'a, K, T, S>(&'a mut self, slots: &'a mut Slots<K, T, S>, before: u32) -> &'a mut u32 {
        if before == NIL { &mut self.first } else { &mut self.link(slots, before).after }
    }

    /// What tells who comes before `after`.
    fn in_front_of<'a, K, T, S>(&'a mut self, slots: &'a mut Slots<K, T, S>, after: u32) -> &'a mut u32 {
        if after == NIL { &mut self.last } else { &mut self.link(slots, after).before }
    }
}

const fn some(slot: u32) -> Option<u32> {
    if slot == NIL { None } else { Some(slot) }
}

/// The work done, counted without a clock, in tests.
pub(super) mod steps {
    #[cfg(test)]
    thread_local! {
        pub(in super::super) static STEPS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
    }

    /// A link was looked at, or two keys compared.
    #[inline]
    pub(in super::super) fn count() {
        #[cfg(test)]
        STEPS.with(|steps| steps.set(steps.get() + 1));
    }
}

#[cfg(test)]
mod tests {
    use std::hash::RandomState;

    use super::*;

    #[test]
    fn slots_are_added_and_removed_anywhere_in_two_chains_at_once() {
        let mut slots = Slots::new(RandomState::default());
        let all: Vec<u32> = (0..5).map(|key| slots.insert(key, ())).collect();
        let (mut ranks, mut ages) = (Chain::new(By::Rank), Chain::new(By::Age));
        for &slot in &all {
            ages.push(&mut slots, slot);
            ranks.insert(&mut slots, None, slot);
        }
        ranks.remove(&mut slots, all[2]);
        ranks.insert(&mut slots, Some(all[4]), all[2]);
        ages.remove(&mut slots, all[0]);
        ages.remove(&mut slots, all[4]);
        ages.insert(&mut slots, Some(all[3]), all[0]);

        assert_eq!(ranks.iter(&slots).collect::<Vec<_>>(), [4, 2, 3, 1, 0]);
        assert_eq!(ranks.iter_back(&slots).collect::<Vec<_>>(), [0, 1, 3, 2, 4]);
        assert_eq!(ages.iter(&slots).collect::<Vec<_>>(), [1, 2, 3, 0]);
        assert_eq!((ages.len(), ages.first(), ages.last()), (4, Some(1), Some(0)));
        for slot in [1, 2, 3, 0] {
            ages.remove(&mut slots, slot);
        }
        assert_eq!((ages.len(), ages.first(), ages.last()), (0, None, None));
    }
}
