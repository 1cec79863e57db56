//! Entries found by key or by number.
//!
//! A number stays the entry's own until it is removed, so ordered lists hold four bytes instead of a second copy
//! of the key. Numbers of removed entries are used again.

use std::borrow::Borrow;
use std::hash::{BuildHasher, Hash};

use hashbrown::HashTable;

#[derive(Debug)]
pub(super) struct Slots<K, T, S> {
    hasher: S,
    index: HashTable<u32>,
    entries: Vec<Option<(K, T)>>,
    free: Vec<u32>,
}

impl<K: Eq + Hash, T, S: BuildHasher> Slots<K, T, S> {
    pub(super) fn new(hasher: S) -> Self {
        Self { hasher, index: HashTable::new(), entries: Vec::new(), free: Vec::new() }
    }

    pub(super) fn find<Q>(&self, key: &Q) -> Option<u32>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        let same = |&slot: &u32| self.key(slot).borrow() == key;
        self.index.find(self.hasher.hash_one(key), same).copied()
    }

    /// Adds a key that is not there yet.
    pub(super) fn insert(&mut self, key: K, entry: T) -> u32 {
        let hash = self.hasher.hash_one(&key);
        let slot = match self.free.pop() {
            Some(slot) => {
                self.entries[slot as usize] = Some((key, entry));
                slot
            }
            None => {
                let slot = u32::try_from(self.entries.len()).expect("memory ends long before 4 billion entries");
                self.entries.push(Some((key, entry)));
                slot
            }
        };
        let Self { hasher, index, entries, .. } = self;
        let rehash = |&slot: &u32| hasher.hash_one(occupied(entries, slot).0);
        index.insert_unique(hash, slot, rehash);
        slot
    }

    pub(super) fn remove(&mut self, slot: u32) -> (K, T) {
        let hash = self.hasher.hash_one(self.key(slot));
        self.index
            .find_entry(hash, |&other| other == slot)
            .expect("every entry is indexed")
            .remove();
        self.free.push(slot);
        self.entries[slot as usize].take().expect(LINKED)
    }

    pub(super) fn contains(&self, slot: u32) -> bool {
        self.entries[slot as usize].is_some()
    }

    pub(super) fn key(&self, slot: u32) -> &K {
        occupied(&self.entries, slot).0
    }

    pub(super) fn entry(&self, slot: u32) -> &T {
        occupied(&self.entries, slot).1
    }

    pub(super) fn entry_mut(&mut self, slot: u32) -> &mut T {
        &mut self.entries[slot as usize].as_mut().expect(LINKED).1
    }

    /// All entries, in no order that means anything.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&K, &T)> {
        self.entries.iter().flatten().map(|(key, entry)| (key, entry))
    }
}

const LINKED: &str = "lists hold only slots in use";

fn occupied<K, T>(entries: &[Option<(K, T)>], slot: u32) -> (&K, &T) {
    let (key, entry) = entries[slot as usize].as_ref().expect(LINKED);
    (key, entry)
}

#[cfg(test)]
mod tests {
    use std::hash::RandomState;

    use super::*;

    #[test]
    fn entries_are_found_by_key_until_removed_and_their_numbers_return() {
        let mut slots = Slots::new(RandomState::default());
        let numbers: Vec<u32> = (0..100).map(|key| slots.insert(format!("k{key}"), key)).collect();
        assert!((0..100).all(|key| slots.find(format!("k{key}").as_str()) == Some(numbers[key as usize])));

        assert_eq!(slots.remove(numbers[7]), ("k7".to_owned(), 7));
        assert_eq!(slots.find("k7"), None);
        assert!(!slots.contains(numbers[7]));
        assert_eq!(slots.insert("new".to_owned(), -1), numbers[7]);
        assert_eq!(slots.entry(numbers[7]), &-1);
        assert_eq!(slots.iter().count(), 100);
    }
}
