//! Keys that are waited for, in the order in which they were handed over.

use std::collections::{BTreeMap, HashMap};

/// Keys without a result that are asked for in a row before the rest is left for later: work is done in the order in which
/// it was handed over, or nearly.
pub const IN_VAIN_MAX: usize = 20;

/// What is waited for.
pub struct Pending {
    places: HashMap<String, usize>,
    in_order: BTreeMap<usize, String>,
    total: usize,
}

impl Pending {
    /// All of `keys`; one that comes twice counts once.
    pub fn new(keys: impl IntoIterator<Item = String>) -> Self {
        let places: HashMap<String, usize> = keys.into_iter().zip(0..).collect();
        let in_order = places.iter().map(|(key, place)| (*place, key.clone())).collect();
        Self { total: places.len(), places, in_order }
    }

    /// Whether it is still waited for.
    pub fn contains(&self, key: &str) -> bool {
        self.places.contains_key(key)
    }

    /// Waits for it no longer; whether it was waited for.
    pub fn remove(&mut self, key: &str) -> bool {
        let place = self.places.remove(key);
        place.is_some_and(|place| self.in_order.remove(&place).is_some())
    }

    /// Those still waited for, first come first.
    pub fn keys(&self) -> Vec<String> {
        self.in_order.values().cloned().collect()
    }

    /// Whether all have come.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// How many are still waited for.
    pub fn left(&self) -> usize {
        self.places.len()
    }

    /// How many there were.
    pub fn total(&self) -> usize {
        self.total
    }

    /// How many have come.
    pub fn done(&self) -> usize {
        self.total - self.places.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_counted_once_and_kept_in_order() {
        let mut pending = Pending::new(["c", "a", "b", "a"].map(str::to_owned));
        assert_eq!((pending.total(), pending.left(), pending.done()), (3, 3, 0));
        assert_eq!(pending.keys(), ["c", "b", "a"]);
        assert!(pending.remove("b") && !pending.remove("b") && !pending.contains("b"));
        assert_eq!((pending.keys(), pending.done()), (vec!["c".to_owned(), "a".to_owned()], 1));
    }
}
