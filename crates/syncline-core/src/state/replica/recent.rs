//! What became known lately, by the monotonic clock: what a writer that knows only `ids` may not have seen.
//!
//! Two generations are kept, each for [`PLAIN_WINDOW`]: something is recent for one window at least and two at most, and
//! nothing has to be sorted out.

use super::super::names::PLAIN_WINDOW;
use super::super::sorted::Set;
use crate::time::Timestamp;

/// Ids by what happened to them lately.
#[derive(Debug, Clone, Default)]
pub(super) struct Recent {
    young: Set,
    old: Set,
    /// Ids that a writer without stamps left out although they were recent. If their values go too, they were removed.
    omitted: Set,
    turn_at: Timestamp,
}

impl Recent {
    pub(super) fn pass_time(&mut self, now: Timestamp) {
        if now < self.turn_at {
            return;
        }
        let both = now >= self.turn_at + PLAIN_WINDOW;
        self.old = std::mem::take(&mut self.young);
        self.omitted = Set::new();
        if both {
            self.old = Set::new();
        }
        self.turn_at = now + PLAIN_WINDOW;
    }

    /// It was added or removed just now, as far as this context knows.
    pub(super) fn note(&mut self, id: &str) {
        self.young.insert(id.to_owned());
    }

    pub(super) fn holds(&self, id: &str) -> bool {
        self.young.contains(id) || self.old.contains(id)
    }

    pub(super) fn note_omitted(&mut self, ids: Vec<String>) {
        self.omitted.extend(ids);
    }

    /// Whether it was left out; told once.
    pub(super) fn take_omitted(&mut self, id: &str) -> bool {
        self.omitted.remove(id)
    }
}
