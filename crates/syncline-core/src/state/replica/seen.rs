//! What storage was last seen to say: which keys need not be read again, and which cannot be read.

use super::super::layout::Layout;
use super::super::sorted::{Map, Set};

/// What was seen in storage.
#[derive(Debug, Clone, Default)]
pub(super) struct Seen {
    /// What keys of the index said when they said all, as fingerprints: the index is as long as everything else together.
    complete: Map<(usize, u64)>,
    /// What keys said that nobody can read.
    poisoned: Map<String>,
    /// The index was there.
    pub(super) index: bool,
    /// While the index lacks what was stored: the keys that were read since that was noticed.
    pub(super) proved: Option<Set>,
    /// The index cannot be read, and is to be made anew from the entities there are.
    pub(super) rebuild: bool,
}

impl Seen {
    /// `key` of the index says all that is known, with `text`.
    pub(super) fn note_complete(&mut self, key: &str, text: &str) {
        self.complete.insert(key, fingerprint(text));
    }

    /// Whether `key` said all that is known when it said `text`.
    pub(super) fn was_complete(&self, key: &str, text: Option<&str>) -> bool {
        match (self.complete.get(key), text) {
            (Some(known), Some(text)) => *known == fingerprint(text),
            _ => false,
        }
    }

    pub(super) fn is_complete(&self, key: &str) -> bool {
        self.complete.contains_key(key)
    }

    /// More is known than any key of the index said that lists `id`.
    pub(super) fn outdate_listing(&mut self, layout: Layout, id: &str) {
        // While thousands are loaded, nothing is complete yet.
        if !self.complete.is_empty() {
            self.complete.remove(&layout.index_key(id));
        }
    }

    /// More is known than `key` said.
    pub(super) fn outdate(&mut self, key: &str) {
        self.complete.remove(key);
    }

    pub(super) fn outdate_all(&mut self) {
        self.complete.clear();
    }

    /// Nobody can read what `key` says; whether that is news.
    pub(super) fn poison(&mut self, key: &str, text: &str) -> bool {
        self.poisoned.insert(key, text.to_owned()).is_none()
    }

    /// `key` says `text` now, which may be another than could not be read.
    pub(super) fn read_again(&mut self, key: &str, text: Option<&str>) {
        if text.is_some() && self.poisoned.get(key).map(String::as_str) != text {
            self.poisoned.remove(key);
        }
    }

    /// What could not be read, to be put aside before `key` is written.
    pub(super) fn take_poisoned(&mut self, key: &str) -> Option<String> {
        self.poisoned.remove(key)
    }
}

/// The length and a hash (FNV-1a): two texts of one length that somebody stored under one key differ in it.
fn fingerprint(text: &str) -> (usize, u64) {
    let hash = |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    (text.len(), text.bytes().fold(0xcbf2_9ce4_8422_2325, hash))
}
