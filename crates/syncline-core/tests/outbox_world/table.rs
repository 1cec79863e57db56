//! The outbox as the store keeps it: claims with leases, in order for each entity. Durable: it outlives every crash.

use std::collections::{BTreeMap, BTreeSet};

use syncline_core::outbox::Verdict;

use super::Bug;

/// One entry.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub(crate) entity: u32,
    pub(crate) attempts: u32,
    pub(crate) state: State,
    pub(crate) failed_before: bool,
    claim: Option<(u64, u64)>,
    due_ms: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Pending,
    Processed,
    Dead,
}

/// Ids count up from 1.
#[derive(Debug, Default)]
pub(crate) struct Table {
    pub(crate) rows: BTreeMap<i64, Row>,
    /// Those that have never failed.
    fresh: BTreeSet<i64>,
    /// When each of those that have failed is due.
    failed: BTreeSet<(u64, i64)>,
    /// Both, by entity.
    pending: BTreeMap<u32, BTreeSet<i64>>,
    claims: u64,
    pub(crate) bug: Option<Bug>,
}

impl Table {
    pub(crate) fn insert(&mut self, entity: u32) -> i64 {
        let id = self.rows.len() as i64 + 1;
        let state = State::Pending;
        let row = Row { entity, attempts: 0, state, failed_before: false, claim: None, due_ms: 0 };
        self.rows.insert(id, row);
        self.fresh.insert(id);
        self.pending.entry(entity).or_default().insert(id);
        id
    }

    /// The claim's name and what it holds, of which `retries` at most have failed before: those that have been due longest.
    pub(crate) fn claim(
        &mut self,
        limit: usize,
        retries: usize,
        newest_first: bool,
        now_ms: u64,
        lease_ms: u64,
    ) -> (u64, Vec<i64>) {
        self.claims += 1;
        let free = |id: &i64| self.rows[id].claim.is_none_or(|(_, until_ms)| until_ms <= now_ms);
        let before = |id: &i64| self.pending[&self.rows[id].entity].range(..id).next_back().copied();
        // What waits behind an earlier one of its entity takes no place among those that come back.
        let due =
            self.failed.iter().take_while(|(due_ms, _)| *due_ms <= now_ms && retries > 0).map(|(_, id)| id);
        let back = due.filter(|id| free(id) && before(id).is_none()).take(retries.min(limit));
        let mut taken: BTreeSet<i64> = back.copied().collect();
        // Of those that are looked at, each has to wait for an earlier one of its entity that is not ours.
        let mut look = |id: &i64| {
            let in_order = before(id).is_none_or(|before| taken.contains(&before));
            if taken.len() < limit && (in_order || self.bug == Some(Bug::AnyOrder)) {
                taken.insert(*id);
            }
            taken.len() < limit
        };
        if newest_first {
            let newest: BTreeSet<&i64> = self.fresh.iter().rev().filter(|id| free(id)).take(limit).collect();
            newest.into_iter().all(&mut look);
        } else {
            self.fresh.iter().filter(|id| free(id)).all(&mut look);
        }
        for id in &taken {
            let row = self.rows.get_mut(id).expect("what is pending is there");
            row.claim = Some((self.claims, now_ms + lease_ms));
        }
        (self.claims, taken.into_iter().collect())
    }

    /// Compare-and-set on the claim.
    pub(crate) fn settle(&mut self, claim: u64, verdicts: &[(i64, Verdict)], now_ms: u64) {
        for (id, verdict) in verdicts {
            let Some(row) = self.rows.get_mut(id) else { continue };
            if row.claim.is_none_or(|(held, _)| held != claim) || row.state != State::Pending {
                continue;
            }
            row.claim = None;
            let before = (row.due_ms, *id);
            match verdict {
                Verdict::Done => row.state = State::Processed,
                Verdict::Retry { after, .. } | Verdict::Postpone { after, .. } => {
                    row.attempts += u32::from(matches!(verdict, Verdict::Retry { .. }));
                    row.failed_before = true;
                    row.due_ms = now_ms + after.as_millis() as u64;
                }
                Verdict::Dead { .. } => row.state = State::Dead,
                Verdict::GiveBack => {}
            }
            if row.failed_before || row.state != State::Pending {
                self.fresh.remove(id);
                self.failed.remove(&before);
            }
            match row.state {
                State::Pending if row.failed_before => drop(self.failed.insert((row.due_ms, *id))),
                State::Pending => {}
                _ => drop(self.pending.get_mut(&row.entity).map(|ids| ids.remove(id))),
            }
        }
    }

    pub(crate) fn count(&self, state: State) -> usize {
        self.rows.values().filter(|row| row.state == state).count()
    }
}
