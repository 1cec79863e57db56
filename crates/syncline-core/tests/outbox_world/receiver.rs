//! The other side: a database that outlives crashes, behind a server that lies, fails and forgets to answer.

use std::collections::{BTreeMap, BTreeSet};

use syncline_core::outbox::{EntryResult, IngestReply, Moment, Response, SenderId, Stamp};
use syncline_sim::{Context, Event};

use super::{Bug, Note, Shared};

/// What the other side has.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    /// Entries it knows.
    pub(crate) known: BTreeSet<i64>,
    /// Each entity's last change.
    pub(crate) entities: BTreeMap<u32, (Stamp, i64)>,
    /// Every effect, in order: entity and entry.
    pub(crate) effects: Vec<(u32, i64)>,
    /// When each entry came first.
    pub(crate) arrived_ms: BTreeMap<i64, u64>,
}

/// How a receiver can be out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outage {
    /// It answers everything with this.
    Status(u16),
    /// It does not answer.
    Silence,
}

/// How a receiver behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manner {
    /// Knows entries and tells what became of each.
    Ours,
    /// Knows the plain contract: overwrites, and answers for the whole request.
    Plain,
}

pub(crate) struct Receiver {
    pub(crate) shared: Shared,
    pub(crate) manner: Manner,
    pub(crate) bug: Option<Bug>,
}

impl Receiver {
    pub(crate) fn handle(&mut self, event: &Event<Note>, context: &mut Context<'_, Note>) {
        let Event::Message { from, body: Note::Request { call, entries } } = event else { return };
        let now_ms = context.world_ms();
        let outage =
            self.shared.outages.iter().find(|(from_ms, to_ms, _)| (*from_ms..*to_ms).contains(&now_ms));
        if let Some((.., outage)) = outage {
            if let Outage::Status(status) = outage {
                context.send(*from, Note::Response { call: *call, response: page(*status) });
            }
            return;
        }
        let calm = now_ms >= self.shared.calm_from_ms;
        let mood = if calm { 100 } else { context.dice().pick(0..=99) };
        let response = match mood {
            // A proxy answers in its place.
            0..=4 => page(200),
            5..=7 => page(302),
            8..=12 => page(503),
            13..=17 => page(500),
            // It did the work and then failed.
            18..=22 => {
                self.take(entries, now_ms);
                page(500)
            }
            _ => self.take(entries, now_ms),
        };
        context.send(*from, Note::Response { call: *call, response });
    }

    fn take(&mut self, entries: &[(i64, u32)], now_ms: u64) -> Response {
        let poisonous = |entity: &u32| self.shared.poison.contains(entity);
        match self.manner {
            Manner::Plain if entries.iter().any(|(_, entity)| poisonous(entity)) => page(500),
            Manner::Plain => {
                for (entry, entity) in entries {
                    self.apply(*entry, *entity, now_ms);
                }
                said(None)
            }
            Manner::Ours => {
                let results = entries.iter().map(|(entry, entity)| match poisonous(entity) {
                    true => EntryResult::Refused { reason: "poison".to_owned() },
                    false => self.apply(*entry, *entity, now_ms),
                });
                let results = results.collect();
                said(Some(results))
            }
        }
    }

    fn apply(&self, entry: i64, entity: u32, now_ms: u64) -> EntryResult {
        let mut kept = self.shared.kept.borrow_mut();
        kept.arrived_ms.entry(entry).or_insert(now_ms);
        let stamp = Stamp { sender: SenderId::new("box").ok(), entry, at: Moment::from_us(0) };
        let careless = self.manner == Manner::Plain || self.bug == Some(Bug::KnowsNothing);
        if !kept.known.insert(entry) && !careless {
            return EntryResult::Duplicate;
        }
        if !careless && kept.entities.get(&entity).is_some_and(|(held, _)| !stamp.supersedes(held)) {
            return EntryResult::Stale;
        }
        kept.effects.push((entity, entry));
        kept.entities.insert(entity, (stamp, entry));
        EntryResult::Applied
    }
}

fn page(status: u16) -> Response {
    Response { status, reply: None, retry_after: None, detail: "<html>".to_owned() }
}

fn said(results: Option<Vec<EntryResult>>) -> Response {
    let ok = results.iter().flatten().all(EntryResult::is_taken);
    Response {
        status: 200,
        reply: Some(IngestReply { ok, results }),
        retry_after: None,
        detail: String::new(),
    }
}
