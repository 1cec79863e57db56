//! The keys of storage that there is something to do with: to be read, to be looked at again, to be removed.

use std::sync::Arc;

use super::super::names::{INDEX_KEY, VERIFY_AFTER};
use super::super::sorted::Set;
use crate::time::Timestamp;

/// Keys by what is to be done with them.
#[derive(Debug, Clone, Default)]
pub(super) struct Worklist {
    /// To be read, and written if they lack something.
    pub(super) dirty: Set,
    /// Keys of the index that lack something, to be written when all is loaded.
    after_loading: Set,
    /// To be looked at again, and when.
    verify: Set,
    verify_at: Option<Timestamp>,
    /// To be removed: of entities that were just removed, and of marks that say nothing any more.
    trash: Set,
}

impl Worklist {
    pub(super) fn read(&mut self, key: String) {
        self.dirty.insert(key);
    }

    pub(super) fn write_after_loading(&mut self, key: String) {
        self.after_loading.insert(key);
    }

    /// All is loaded: what was put off is to be done.
    pub(super) fn end_loading(&mut self) {
        self.dirty.append(&mut self.after_loading);
    }

    /// `keys` of the index were written, or values were told of: somebody may write over them, and the news of that may get lost.
    pub(super) fn verify(&mut self, keys: impl Iterator<Item = Arc<str>>, now: Timestamp) {
        self.verify.extend(keys);
        if !self.verify.is_empty() && self.verify_at.is_none() {
            self.verify_at = Some(now + VERIFY_AFTER);
        }
    }

    pub(super) const fn verify_at(&self) -> Option<Timestamp> {
        self.verify_at
    }

    /// Takes up what is to be looked at again, when it is time.
    pub(super) fn start_verifying(&mut self, now: Timestamp) {
        if self.verify_at.is_some_and(|at| at <= now) {
            self.verify_at = None;
            if self.verify.iter().any(|key| key.starts_with(INDEX_KEY)) {
                self.dirty.insert(INDEX_KEY.to_owned());
            }
            self.dirty.append(&mut self.verify);
        }
    }

    pub(super) fn remove(&mut self, key: String) {
        self.trash.insert(key);
    }

    pub(super) fn keep(&mut self, key: &str) {
        self.trash.remove(key);
    }

    pub(super) fn has_trash(&self) -> bool {
        !self.trash.is_empty()
    }

    /// The next keys to be removed, at most `max`. Those that are `wanted` again stay.
    pub(super) fn take_trash(&mut self, max: usize, wanted: impl Fn(&str) -> bool) -> Vec<String> {
        let mut keys = Vec::new();
        for key in std::mem::take(&mut self.trash).iter() {
            if wanted(key) {
                continue;
            }
            if keys.len() < max {
                keys.push(key.to_string());
            } else {
                self.trash.insert(key);
            }
        }
        keys
    }
}
