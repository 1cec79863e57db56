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
    pending: BTreeSet<i64>,
    claims: u64,
    pub(crate) bug: Option<Bug>,
}

impl Table {
    pub(crate) fn insert(&mut self, entity: u32) -> i64 {
        let id = self.rows.len() as i64 + 1;
        let state = State::Pending;
        let row = Row { entity, attempts: 0, state, failed_before: false, claim: None, due_ms: 0 };
        self.rows.insert(id, row);
        self.pending.insert(id);
        id
    }

    /// The claim's name and what it holds, of which `retries` at most have failed before: those that have been due longest.
    pub(crate) fn claim(
        &mut self,
        limit: usize,
        retries: usize,
        now_ms: u64,
        lease_ms: u64,
    ) -> (u64, Vec<i64>) {
        self.claims += 1;
        let free =
            |row: &Row| row.due_ms <= now_ms && row.claim.is_none_or(|(_, until_ms)| until_ms <= now_ms);
        // What waits behind an earlier one of its entity takes no place among those that come back.
        let mut first = BTreeMap::new();
        for id in &self.pending {
            first.entry(self.rows[id].entity).or_insert(*id);
        }
        let leads = |id: &i64| first[&self.rows[id].entity] == *id;
        let retried =
            self.pending.iter().filter(|id| self.rows[id].failed_before && free(&self.rows[id]) && leads(id));
        let mut retried: Vec<(u64, i64)> = retried.map(|id| (self.rows[id].due_ms, *id)).collect();
        retried.sort_unstable();
        let back: BTreeSet<i64> = retried.into_iter().take(retries).map(|(_, id)| id).collect();
        let (mut taken, mut stuck) = (Vec::new(), BTreeSet::new());
        for id in &self.pending {
            if taken.len() == limit {
                break;
            }
            let row = self.rows.get_mut(id).expect("what is pending is there");
            let mine = free(row) && (!row.failed_before || back.contains(id));
            let in_order = !stuck.contains(&row.entity) || self.bug == Some(Bug::AnyOrder);
            if mine && in_order {
                row.claim = Some((self.claims, now_ms + lease_ms));
                taken.push(*id);
            } else {
                stuck.insert(row.entity);
            }
        }
        (self.claims, taken)
    }

    /// Compare-and-set on the claim.
    pub(crate) fn settle(&mut self, claim: u64, verdicts: &[(i64, Verdict)], now_ms: u64) {
        for (id, verdict) in verdicts {
            let Some(row) = self.rows.get_mut(id) else { continue };
            if row.claim.is_none_or(|(held, _)| held != claim) || row.state != State::Pending {
                continue;
            }
            row.claim = None;
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
            if row.state != State::Pending {
                self.pending.remove(id);
            }
        }
    }

    pub(crate) fn count(&self, state: State) -> usize {
        self.rows.values().filter(|row| row.state == state).count()
    }
}
