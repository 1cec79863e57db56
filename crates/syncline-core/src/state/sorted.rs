//! Maps and sets with texts as keys, in order of the keys, like those of the standard library.
//!
//! Those are generated anew for each type they hold, which would be a large part of the module that pages load. Here the
//! tree holds numbers alone, the same for all, and the values lie beside it.

use std::collections::BTreeMap;
use std::collections::btree_map::{IntoKeys, Keys};

/// Values by text.
#[derive(Debug, Clone)]
pub(super) struct Map<V> {
    /// Where in `slots` each value is.
    places: BTreeMap<String, u32>,
    slots: Vec<Option<V>>,
    free: Vec<u32>,
}

impl<V> Map<V> {
    pub(super) const fn new() -> Self {
        Self { places: BTreeMap::new(), slots: Vec::new(), free: Vec::new() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    pub(super) fn clear(&mut self) {
        *self = Self::new();
    }

    pub(super) fn get(&self, key: &str) -> Option<&V> {
        self.slots[*self.places.get(key)? as usize].as_ref()
    }

    pub(super) fn get_mut(&mut self, key: &str) -> Option<&mut V> {
        self.slots[*self.places.get(key)? as usize].as_mut()
    }

    pub(super) fn contains_key(&self, key: &str) -> bool {
        self.places.contains_key(key)
    }

    /// Returns the value before.
    pub(super) fn insert(&mut self, key: String, value: V) -> Option<V> {
        if let Some(known) = self.get_mut(&key) {
            return Some(std::mem::replace(known, value));
        }
        let place = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            u32::try_from(self.slots.len() - 1).expect("fewer entries than memory has bytes")
        });
        self.slots[place as usize] = Some(value);
        self.places.insert(key, place);
        None
    }

    pub(super) fn remove(&mut self, key: &str) -> Option<V> {
        let place = self.places.remove(key)?;
        self.free.push(place);
        self.slots[place as usize].take()
    }

    pub(super) fn keys(&self) -> Keys<'_, String, u32> {
        self.places.keys()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&String, &V)> {
        self.places.iter().filter_map(|(key, place)| Some((key, self.slots[*place as usize].as_ref()?)))
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &V> {
        self.iter().map(|(_, value)| value)
    }

    /// In no order.
    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut V> {
        self.slots.iter_mut().flatten()
    }

    pub(super) fn retain(&mut self, mut stays: impl FnMut(&String, &mut V) -> bool) {
        let (slots, free) = (&mut self.slots, &mut self.free);
        self.places.retain(|key, place| {
            let slot = &mut slots[*place as usize];
            let stays = slot.as_mut().is_some_and(|value| stays(key, value));
            if !stays {
                *slot = None;
                free.push(*place);
            }
            stays
        });
    }
}

impl<V> IntoIterator for Map<V> {
    type Item = (String, V);
    type IntoIter = std::vec::IntoIter<(String, V)>;

    fn into_iter(mut self) -> Self::IntoIter {
        let slots = &mut self.slots;
        let entries = self.places.into_iter();
        let entries = entries.filter_map(|(key, place)| Some((key, slots[place as usize].take()?)));
        entries.collect::<Vec<_>>().into_iter()
    }
}

impl<V> Default for Map<V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<V: PartialEq> PartialEq for Map<V> {
    fn eq(&self, other: &Self) -> bool {
        self.places.len() == other.places.len() && self.iter().eq(other.iter())
    }
}

impl<V: Eq> Eq for Map<V> {}

impl<V> FromIterator<(String, V)> for Map<V> {
    fn from_iter<I: IntoIterator<Item = (String, V)>>(entries: I) -> Self {
        let mut map = Self::new();
        for (key, value) in entries {
            map.insert(key, value);
        }
        map
    }
}

/// Texts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Set(BTreeMap<String, u32>);

impl Set {
    pub(super) const fn new() -> Self {
        Self(BTreeMap::new())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn contains(&self, key: &str) -> bool {
        self.0.contains_key(key)
    }

    pub(super) fn insert(&mut self, key: String) -> bool {
        self.0.insert(key, 0).is_none()
    }

    pub(super) fn remove(&mut self, key: &str) -> bool {
        self.0.remove(key).is_some()
    }

    pub(super) fn iter(&self) -> Keys<'_, String, u32> {
        self.0.keys()
    }

    pub(super) fn retain(&mut self, mut stays: impl FnMut(&String) -> bool) {
        self.0.retain(|key, _| stays(key));
    }

    /// Takes all of `other`.
    pub(super) fn append(&mut self, other: &mut Self) {
        self.extend(std::mem::take(other));
    }
}

impl Extend<String> for Set {
    fn extend<I: IntoIterator<Item = String>>(&mut self, keys: I) {
        for key in keys {
            self.insert(key);
        }
    }
}

impl FromIterator<String> for Set {
    fn from_iter<I: IntoIterator<Item = String>>(keys: I) -> Self {
        let mut set = Self::new();
        set.extend(keys);
        set
    }
}

impl<const N: usize> From<[String; N]> for Set {
    fn from(keys: [String; N]) -> Self {
        keys.into_iter().collect()
    }
}

impl IntoIterator for Set {
    type Item = String;
    type IntoIter = IntoKeys<String, u32>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_keys()
    }
}

impl<'a> IntoIterator for &'a Set {
    type Item = &'a String;
    type IntoIter = Keys<'a, String, u32>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}
