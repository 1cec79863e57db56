//! The outbox as the store keeps it: claims with leases, in order for each entity. Durable: it outlives every crash.

use std::collections::BTreeMap;

use syncline_core::outbox::Verdict;

use super::Bug;

/// One entry.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub(crate) entity: u32,
    pub(crate) attempts: u32,
    pub(crate) state: State,
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
    claims: u64,
    pub(crate) bug: Option<Bug>,
}

impl Table {
    pub(crate) fn insert(&mut self, entity: u32) -> i64 {
        let id = self.rows.len() as i64 + 1;
        let row = Row { entity, attempts: 0, state: State::Pending, claim: None, due_ms: 0 };
        self.rows.insert(id, row);
        id
    }

    /// The claim's name and what it holds.
    pub(crate) fn claim(&mut self, limit: usize, now_ms: u64, lease_ms: u64) -> (u64, Vec<i64>) {
        self.claims += 1;
        let (mut taken, mut stuck) = (Vec::new(), Vec::new());
        for (id, row) in &mut self.rows {
            if row.state != State::Pending || taken.len() == limit {
                continue;
            }
            let free = row.due_ms <= now_ms && row.claim.is_none_or(|(_, until_ms)| until_ms <= now_ms);
            let in_order = !stuck.contains(&row.entity) || self.bug == Some(Bug::AnyOrder);
            if free && in_order {
                row.claim = Some((self.claims, now_ms + lease_ms));
                taken.push(*id);
            } else {
                stuck.push(row.entity);
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
                Verdict::Retry { after, .. } => {
                    row.attempts += 1;
                    row.due_ms = now_ms + after.as_millis() as u64;
                }
                Verdict::Dead { .. } => row.state = State::Dead,
                Verdict::GiveBack => {}
            }
        }
    }

    pub(crate) fn count(&self, state: State) -> usize {
        self.rows.values().filter(|row| row.state == state).count()
    }
}
