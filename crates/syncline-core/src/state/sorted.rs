//! Maps and sets with texts as keys, in order of the keys, like those of the standard library.
//!
//! Those are generated anew for each type they hold, which would be a large part of the module that pages load. Here the
//! keys are kept once for all types, and the values lie beside them. Keys lie in short sorted runs that are filled when they come
//! in order, which takes half the memory of a tree; maps can share the texts of their keys.

use std::cmp::Ordering;
use std::sync::Arc;

/// Longest run of keys, and most values that lie together.
const RUN_MAX: usize = 128;

/// As texts order. They mostly begin alike, and the comparison that a module for pages is given goes byte by byte.
#[inline(never)]
pub(super) fn order(one: &str, other: &str) -> Ordering {
    let (mut one, mut other) = (one.as_bytes(), other.as_bytes());
    while let (Some((first, one_rest)), Some((second, other_rest))) =
        (one.split_first_chunk::<8>(), other.split_first_chunk::<8>())
        && u64::from_ne_bytes(*first) == u64::from_ne_bytes(*second)
    {
        (one, other) = (one_rest, other_rest);
    }
    one.cmp(other)
}

/// Numbers by text. No run is empty.
#[derive(Debug, Clone, Default)]
struct Keys {
    runs: Vec<Vec<(Arc<str>, u32)>>,
}

impl Keys {
    /// Where `key` is, or where it belongs: which run, which place there, and whether it is there.
    fn find(&self, key: &str) -> (usize, usize, bool) {
        // Keys mostly come in order.
        if let Some(keys) = self.runs.last()
            && keys.last().is_some_and(|(last, _)| order(last, key).is_lt())
        {
            return (self.runs.len() - 1, keys.len(), false);
        }
        let begins =
            |run: &Vec<(Arc<str>, u32)>| run.first().is_some_and(|(first, _)| order(first, key).is_le());
        let run = self.runs.partition_point(begins).saturating_sub(1);
        let found = self.runs.get(run).map(|keys| keys.binary_search_by(|(other, _)| order(other, key)));
        match found {
            Some(Ok(at)) => (run, at, true),
            Some(Err(at)) => (run, at, false),
            None => (0, 0, false),
        }
    }

    fn entry(&self, key: &str) -> Option<&(Arc<str>, u32)> {
        let (run, at, found) = self.find(key);
        if found { self.runs.get(run)?.get(at) } else { None }
    }

    fn number(&self, key: &str) -> Option<usize> {
        Some(self.entry(key)?.1 as usize)
    }

    /// Whether it is new.
    fn insert(&mut self, key: Arc<str>, number: u32) -> bool {
        let (mut run, mut at, found) = self.find(&key);
        if found {
            return false;
        }
        if self.runs.is_empty() {
            self.runs.push(Vec::new());
        }
        if self.runs[run].len() >= RUN_MAX {
            // Keys mostly come in order: then the run stays full, and the next one begins.
            let kept = if at == RUN_MAX { RUN_MAX } else { RUN_MAX / 2 };
            let rest = self.runs[run].split_off(kept);
            self.runs.insert(run + 1, rest);
            if at >= kept {
                (run, at) = (run + 1, at - kept);
            }
        }
        self.runs[run].insert(at, (key, number));
        true
    }

    fn remove(&mut self, key: &str) -> Option<usize> {
        let (run, at, found) = self.find(key);
        if !found {
            return None;
        }
        let (_, number) = self.runs[run].remove(at);
        if self.runs[run].is_empty() {
            self.runs.remove(run);
        }
        Some(number as usize)
    }

    fn len(&self) -> usize {
        self.runs.iter().map(Vec::len).sum()
    }

    const fn iter(&self) -> Iter<'_> {
        Iter { keys: self, run: 0, at: 0 }
    }

    fn retain(&mut self, stays: &mut dyn FnMut(&str) -> bool) {
        for run in &mut self.runs {
            run.retain(|(key, _)| stays(key));
        }
        self.runs.retain(|run| !run.is_empty());
    }
}

/// Keys in order. Written out, because adapters of the standard library are generated anew wherever they are used.
pub(super) struct Iter<'a> {
    keys: &'a Keys,
    run: usize,
    at: usize,
}

impl<'a> Iter<'a> {
    #[inline(never)]
    fn entry(&mut self) -> Option<&'a (Arc<str>, u32)> {
        let run = self.keys.runs.get(self.run)?;
        let entry = run.get(self.at);
        self.at += 1;
        if self.at >= run.len() {
            (self.run, self.at) = (self.run + 1, 0);
        }
        entry
    }
}

impl<'a> Iterator for Iter<'a> {
    type Item = &'a Arc<str>;

    fn next(&mut self) -> Option<Self::Item> {
        self.entry().map(|(key, _)| key)
    }
}

/// What can become a key.
pub(super) trait Key {
    fn into_key(self) -> Arc<str>;
}

impl Key for Arc<str> {
    fn into_key(self) -> Arc<str> {
        self
    }
}

impl Key for &Arc<str> {
    fn into_key(self) -> Arc<str> {
        Arc::clone(self)
    }
}

impl Key for &str {
    #[inline(never)]
    fn into_key(self) -> Arc<str> {
        self.into()
    }
}

impl Key for String {
    #[inline(never)]
    fn into_key(self) -> Arc<str> {
        self.as_str().into_key()
    }
}

/// Values by text.
#[derive(Debug, Clone)]
pub(super) struct Map<V> {
    /// Where each value is.
    keys: Keys,
    /// Runs of values: one long run would be copied as a whole whenever it grows.
    slots: Vec<Vec<Option<V>>>,
    free: Vec<u32>,
}

impl<V> Map<V> {
    pub(super) const fn new() -> Self {
        Self { keys: Keys { runs: Vec::new() }, slots: Vec::new(), free: Vec::new() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.keys.runs.is_empty()
    }

    pub(super) fn clear(&mut self) {
        *self = Self::new();
    }

    fn slot(&mut self, number: usize) -> Option<&mut Option<V>> {
        self.slots.get_mut(number / RUN_MAX)?.get_mut(number % RUN_MAX)
    }

    fn value(&self, number: usize) -> Option<&V> {
        self.slots.get(number / RUN_MAX)?.get(number % RUN_MAX)?.as_ref()
    }

    pub(super) fn get(&self, key: &str) -> Option<&V> {
        self.value(self.keys.number(key)?)
    }

    pub(super) fn get_mut(&mut self, key: &str) -> Option<&mut V> {
        let number = self.keys.number(key)?;
        self.slot(number)?.as_mut()
    }

    pub(super) fn contains_key(&self, key: &str) -> bool {
        self.keys.entry(key).is_some()
    }

    /// The text of a key, for another map to share.
    pub(super) fn key(&self, key: &str) -> Option<Arc<str>> {
        Some(Arc::clone(&self.keys.entry(key)?.0))
    }

    /// Returns the value before.
    pub(super) fn insert(&mut self, key: impl Key, value: V) -> Option<V> {
        self.insert_shared(key.into_key(), value)
    }

    #[inline(never)]
    fn insert_shared(&mut self, key: Arc<str>, value: V) -> Option<V> {
        if let Some(known) = self.get_mut(&key) {
            return Some(std::mem::replace(known, value));
        }
        let number = if let Some(number) = self.free.pop() {
            number as usize
        } else {
            if self.slots.last().is_none_or(|run| run.len() >= RUN_MAX) {
                self.slots.push(Vec::new());
            }
            let full = (self.slots.len() - 1) * RUN_MAX;
            let run = self.slots.last_mut().expect("one was just added");
            run.push(None);
            full + run.len() - 1
        };
        *self.slot(number).expect("it was just added, or is free") = Some(value);
        self.keys.insert(key, number as u32);
        None
    }

    pub(super) fn remove(&mut self, key: &str) -> Option<V> {
        let number = self.keys.remove(key)?;
        self.free.push(number as u32);
        self.slot(number)?.take()
    }

    pub(super) const fn keys(&self) -> Iter<'_> {
        self.keys.iter()
    }

    pub(super) const fn iter(&self) -> Entries<'_, V> {
        Entries { map: self, keys: self.keys.iter() }
    }

    /// Does something with each value, in no order.
    pub(super) fn for_each_value(&mut self, mut act: impl FnMut(&mut V)) {
        for run in &mut self.slots {
            for value in run.iter_mut().flatten() {
                act(value);
            }
        }
    }

    pub(super) fn retain(&mut self, mut stays: impl FnMut(&str, &mut V) -> bool) {
        let mut gone = Vec::new();
        let mut keys = self.keys.iter();
        while let Some((key, number)) = keys.entry() {
            let number = *number as usize;
            let slot = self.slots.get_mut(number / RUN_MAX).and_then(|run| run.get_mut(number % RUN_MAX));
            if !slot.and_then(Option::as_mut).is_some_and(|value| stays(key, value)) {
                gone.push(Arc::clone(key));
            }
        }
        for key in gone {
            self.remove(&key);
        }
    }
}

/// Keys and values, in order of the keys.
pub(super) struct Entries<'a, V> {
    map: &'a Map<V>,
    keys: Iter<'a>,
}

impl<'a, V> Iterator for Entries<'a, V> {
    type Item = (&'a Arc<str>, &'a V);

    fn next(&mut self) -> Option<Self::Item> {
        let (key, number) = self.keys.entry()?;
        Some((key, self.map.value(*number as usize)?))
    }
}

impl<V> Default for Map<V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<V: PartialEq> PartialEq for Map<V> {
    fn eq(&self, other: &Self) -> bool {
        self.keys.len() == other.keys.len() && self.iter().eq(other.iter())
    }
}

impl<V: Eq> Eq for Map<V> {}

impl<K: Key, V> FromIterator<(K, V)> for Map<V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let mut map = Self::new();
        for (key, value) in entries {
            map.insert(key, value);
        }
        map
    }
}

/// Texts.
#[derive(Debug, Clone, Default)]
pub(super) struct Set(Keys);

impl Set {
    pub(super) const fn new() -> Self {
        Self(Keys { runs: Vec::new() })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.runs.is_empty()
    }

    pub(super) fn contains(&self, key: &str) -> bool {
        self.0.entry(key).is_some()
    }

    pub(super) fn insert(&mut self, key: impl Key) -> bool {
        self.0.insert(key.into_key(), 0)
    }

    pub(super) fn remove(&mut self, key: &str) -> bool {
        self.0.remove(key).is_some()
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) const fn iter(&self) -> Iter<'_> {
        self.0.iter()
    }

    pub(super) fn retain(&mut self, mut stays: impl FnMut(&str) -> bool) {
        self.0.retain(&mut stays);
    }

    /// Takes all of `other`.
    pub(super) fn append(&mut self, other: &mut Self) {
        let other = std::mem::take(other);
        self.extend(other.iter());
    }
}

impl PartialEq for Set {
    fn eq(&self, other: &Self) -> bool {
        self.0.len() == other.0.len() && self.iter().eq(other.iter())
    }
}

impl Eq for Set {}

impl<K: Key> Extend<K> for Set {
    fn extend<I: IntoIterator<Item = K>>(&mut self, keys: I) {
        for key in keys {
            self.insert(key);
        }
    }
}

impl<K: Key> FromIterator<K> for Set {
    fn from_iter<I: IntoIterator<Item = K>>(keys: I) -> Self {
        let mut set = Self::new();
        set.extend(keys);
        set
    }
}

impl<K: Key, const N: usize> From<[K; N]> for Set {
    fn from(keys: [K; N]) -> Self {
        keys.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn st_37_texts_order_as_those_of_the_standard_library_do(start in ".{0,20}", one in ".{0,12}", other in ".{0,12}") {
            let (one, other) = (start.clone() + &one, start + &other);
            prop_assert_eq!(order(&one, &other), one.cmp(&other));
        }

        #[test]
        fn st_37_a_map_holds_what_one_of_the_standard_library_does(
            steps in proptest::collection::vec((0_u8..4, 0_u16..600), 0..900),
            ascending in 0_u16..600,
        ) {
            let (mut ours, mut theirs) = (Map::new(), BTreeMap::new());
            let name = |number: u16| format!("entity-{number:04}");
            for number in 0..ascending {
                prop_assert_eq!(ours.insert(name(number), number), theirs.insert(name(number), number));
            }
            for (step, number) in steps {
                let key = name(number);
                match step {
                    0 => prop_assert_eq!(ours.remove(&key), theirs.remove(&key)),
                    1 => prop_assert_eq!(ours.get_mut(&key), theirs.get_mut(&key)),
                    2 if number < 5 => {
                        ours.retain(|_, value| *value % 3 != number);
                        theirs.retain(|_, value| *value % 3 != number);
                    }
                    _ => prop_assert_eq!(ours.insert(key.clone(), number), theirs.insert(key, number)),
                }
            }
            prop_assert!(ours.iter().map(|(key, value)| (&**key, value)).eq(theirs.iter().map(|(key, value)| (key.as_str(), value))));
            let keys: Set = ours.keys().collect();
            prop_assert_eq!(keys.len(), theirs.len());
            prop_assert!(keys.iter().map(ToString::to_string).eq(theirs.keys().cloned()));
        }
    }
}
