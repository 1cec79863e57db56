//! A device's side: what has not reached the node yet, and when to try.
//!
//! Marks in storage say what is unsent ([`Effect::Unsent`](crate::state::Effect::Unsent)), so that a crash loses nothing and a
//! change made twice is sent once, as it is by then.

use std::collections::BTreeSet;
use std::time::Duration;

use super::super::names::DELTA_MAX;
use crate::retry::Policy;
use crate::time::Timestamp;

/// Pauses after failures: from a second to a minute, for as long as it takes.
const POLICY: Policy = Policy {
    initial_delay: Duration::from_secs(1),
    max_delay: Duration::from_secs(60),
    multiplier: 2.0,
    max_attempts: u32::MAX,
    jitter: 0.5,
};

/// Entities whose last change the node has not confirmed.
#[derive(Debug, Clone, Default)]
pub struct Unsent {
    ids: BTreeSet<String>,
    under_way: BTreeSet<String>,
    failures: u32,
    not_before: Timestamp,
}

impl Unsent {
    /// These have changed; the empty id stands for a reset.
    pub fn add(&mut self, ids: impl IntoIterator<Item = String>) {
        self.ids.extend(ids);
    }

    /// What to send now: one batch at a time, none during the pause after a failure. A reset goes first.
    pub fn next(&mut self, now: Timestamp) -> Vec<String> {
        if !self.under_way.is_empty() || now < self.not_before {
            return Vec::new();
        }
        self.under_way = self.ids.iter().take(DELTA_MAX).cloned().collect();
        for id in &self.under_way {
            self.ids.remove(id);
        }
        self.under_way.iter().cloned().collect()
    }

    /// The batch has reached the node.
    pub fn confirm(&mut self) {
        self.under_way.clear();
        self.failures = 0;
    }

    /// The batch has not reached the node, or nobody knows; `random` is from 0 to 1.
    pub fn fail(&mut self, now: Timestamp, random: f64) {
        self.ids.append(&mut self.under_way);
        self.failures = self.failures.saturating_add(1);
        self.not_before = now + POLICY.delay(self.failures, random).unwrap_or(POLICY.max_delay);
    }

    /// The node is known to be back: no need to wait.
    pub fn hurry(&mut self) {
        self.not_before = Timestamp::ZERO;
    }

    /// When to ask [`next`](Self::next) again; `None`: when something is added or a batch ends.
    #[must_use]
    pub fn wake_at(&self) -> Option<Timestamp> {
        (self.under_way.is_empty() && !self.ids.is_empty()).then_some(self.not_before)
    }

    /// Whether the node knows everything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty() && self.under_way.is_empty()
    }
}
