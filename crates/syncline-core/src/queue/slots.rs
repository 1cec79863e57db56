//! Entries found by key or by number.
//!
//! A number stays the entry's own until it is removed, so lists and callers hold four bytes instead of a second copy
//! of the key. Numbers of removed entries are used again. Hashes are kept, so that a growing index neither hashes
//! again nor looks at keys.

use std::borrow::Borrow;
use std::hash::{BuildHasher, Hash};

use hashbrown::HashTable;

use super::chain::Links;

#[derive(Debug)]
pub(super) struct Slots<K, T, S> {
    hasher: S,
    index: HashTable<u32>,
    slots: Vec<Slot<K, T>>,
    free: Vec<u32>,
}

#[derive(Debug)]
struct Slot<K, T> {
    hash: u64,
    links: Links,
    content: Option<(K, T)>,
}

impl<K: Eq + Hash, T, S: BuildHasher> Slots<K, T, S> {
    pub(super) fn new(hasher: S) -> Self {
        Self { hasher, index: HashTable::new(), slots: Vec::new(), free: Vec::new() }
    }

    pub(super) fn find<Q>(&self, key: &Q) -> Option<u32>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        let hash = self.hasher.hash_one(key);
        let same = |&slot: &u32| self.slots[slot as usize].hash == hash && self.key(slot).borrow() == key;
        self.index.find(hash, same).copied()
    }

    /// Makes room for that many more at once, instead of a doubling at a time.
    pub(super) fn reserve(&mut self, additional: usize) {
        let Self { index, slots, free, .. } = self;
        index.reserve(additional, |&slot| slots[slot as usize].hash);
        slots.reserve(additional.saturating_sub(free.len()));
    }

    /// Adds a key that is not there yet.
    pub(super) fn insert(&mut self, key: K, entry: T) -> u32 {
        let hash = self.hasher.hash_one(&key);
        let filled = Slot { hash, links: Links::default(), content: Some((key, entry)) };
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = filled;
                slot
            }
            None => {
                self.slots.push(filled);
                u32::try_from(self.slots.len() - 1).expect("memory ends long before 4 billion entries")
            }
        };
        let slots = &self.slots;
        self.index.insert_unique(hash, slot, |&other| slots[other as usize].hash);
        slot
    }

    pub(super) fn remove(&mut self, slot: u32) -> (K, T) {
        let content = self.slots[slot as usize].content.take().expect(IN_USE);
        let indexed = self.index.find_entry(self.slots[slot as usize].hash, |&other| other == slot);
        indexed.expect("every entry is indexed").remove();
        self.free.push(slot);
        content
    }

    /// The entry of this number, if there is one now.
    pub(super) fn content(&self, slot: u32) -> Option<(&K, &T)> {
        self.slots.get(slot as usize)?.content.as_ref().map(|(key, entry)| (key, entry))
    }

    pub(super) fn key(&self, slot: u32) -> &K {
        self.content(slot).expect(IN_USE).0
    }

    pub(super) fn entry(&self, slot: u32) -> &T {
        self.content(slot).expect(IN_USE).1
    }

    pub(super) fn entry_mut(&mut self, slot: u32) -> &mut T {
        &mut self.slots[slot as usize].content.as_mut().expect(IN_USE).1
    }

    /// All entries, in no order that means anything.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&K, &T)> {
        self.slots.iter().filter_map(|slot| slot.content.as_ref()).map(|(key, entry)| (key, entry))
    }
}

impl<K, T, S> Slots<K, T, S> {
    pub(super) fn links(&self, slot: u32) -> &Links {
        &self.slots[slot as usize].links
    }

    pub(super) fn links_mut(&mut self, slot: u32) -> &mut Links {
        &mut self.slots[slot as usize].links
    }
}

const IN_USE: &str = "lists hold only numbers in use";

#[cfg(test)]
mod tests {
    use std::hash::RandomState;

    use super::*;

    #[test]
    fn entries_are_found_by_key_until_removed_and_their_numbers_return() {
        let mut slots = Slots::new(RandomState::default());
        slots.reserve(10);
        let numbers: Vec<u32> = (0..100).map(|key| slots.insert(format!("k{key}"), key)).collect();
        assert!((0..100).all(|key| slots.find(format!("k{key}").as_str()) == Some(numbers[key as usize])));

        assert_eq!(slots.remove(numbers[7]), ("k7".to_owned(), 7));
        assert_eq!(slots.find("k7"), None);
        assert_eq!(slots.content(numbers[7]), None);
        assert_eq!(slots.insert("new".to_owned(), -1), numbers[7]);
        assert_eq!((slots.find("new"), slots.entry(numbers[7])), (Some(numbers[7]), &-1));
        assert_eq!(slots.iter().count(), 100);
        assert_eq!(slots.content(1_000), None);
    }
}
