//! What happened, by the world's true time, and whether it may.
//!
//! The checkers judge the moment something happens and panic with the name of the broken promise:
//!
//! - P1 a heartbeat answered with success within 60 s before the tick means the job is not skipped for want of it;
//! - P2 nobody for 60 s means it is skipped by the second tick at the latest;
//! - P3 one generation for each minute while the store can be read, by whoever wins its claim;
//! - P4 when the store cannot be read the job runs, at most once for each process and minute;
//! - P5 memory is bounded;
//! - VW-25 occupied and vacated alternate.
//!
//! P6 (wall-clock jumps change no time to live) is P1 and P2 holding while clocks jump.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use syncline_core::schedule::{Bucket, Decision, Gate, Reason, Tally, Trigger};
use syncline_core::viewer::{OccupancyChange, SessionId};

const TTL_MS: u64 = 60_000;

/// Two ticks after the last heartbeat's minute nobody may still be counted.
const FORGOTTEN_AFTER_MS: u64 = 2 * TTL_MS;

/// Readings this far apart leave a node in doubt about when a report was written; so does having just started after a clock
/// was set, or after a store that stood still for as long has stored what had been sent to it meanwhile.
///
/// A node that has just started takes a report to be as old as the younger of two clocks says: the store's, which counts from
/// the storing, and its writer's. It cannot tell a store that was slow from a clock that was set, and believing the older
/// one would take back the promise of somebody who is watching. So a report that was stored late is counted for as
/// long as it promised from its storing, which is less than [`STEADY_FOR_MS`]; then nobody may be.
const STEADY_GAP_MS: u64 = 10_000;
const STEADY_FOR_MS: u64 = 130_000;

/// A table of 40 sessions never needs more.
const MEMORY_MAX_BYTES: usize = 8_192;

#[derive(Default)]
pub(crate) struct Trace {
    /// Answered heartbeats, the newest for each session: any page, and pages in sight.
    accepted: [HashMap<SessionId, Accepted>; 2],
    /// When a session was last taken back: by a goodbye, or, for pages in sight, by being hidden.
    void: [HashMap<SessionId, u64>; 2],
    /// The newest heartbeat in any session table, answered or not: any page, and pages in sight.
    last_beat_ms: [Option<u64>; 2],
    /// Since when each living node has read the store without a gap, and its last reading.
    steady: BTreeMap<String, (u64, u64)>,
    /// Buckets that some node claimed, and those that a node is done with.
    claimed: BTreeSet<Bucket>,
    settled: BTreeSet<(Bucket, String)>,
    runs: BTreeMap<Bucket, Runs>,
    occupied: BTreeMap<String, bool>,
    started_at_ms: BTreeMap<String, u64>,
    /// The store's clock has jumped, and some node's has.
    pub(crate) store_jumped: bool,
    pub(crate) node_jumped: bool,
    /// When a report was last stored so late that its age is in doubt.
    stored_late_ms: Option<u64>,
    pub(crate) tally: Tally,
    pub(crate) counts: Counts,
}

struct Accepted {
    beat_ms: u64,
    answered_ms: u64,
}

#[derive(Default)]
struct Runs {
    claimed: u32,
    by: Vec<String>,
}

/// How much happened; a run in which little happened proves little.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Counts {
    pub(crate) beats: u64,
    pub(crate) accepted: u64,
    pub(crate) byes: u64,
    pub(crate) ticks: u64,
    pub(crate) arrivals: u64,
    pub(crate) owed_ticks: u64,
    pub(crate) starts: u64,
    pub(crate) failed_reads: u64,
    pub(crate) changes: u64,
    pub(crate) jumps: u64,
    pub(crate) pauses: u64,
    pub(crate) judged: u64,
}

/// A decision under way.
pub(crate) struct Pending {
    pub(crate) trigger: Trigger,
    pub(crate) bucket: Bucket,
    gate: Gate,
    begun_ms: u64,
    /// Sessions whose viewer the job must not ignore.
    owed: Vec<SessionId>,
}

impl Trace {
    pub(crate) fn started(&mut self, node: &str, at_ms: u64) {
        self.counts.starts += 1;
        // Two clocks tell how old a report is, unless one of them was set or they began to count at different moments.
        let stored_late = self.stored_late_ms.is_some_and(|late_ms| at_ms - late_ms < STEADY_FOR_MS);
        let doubtful = self.store_jumped || self.node_jumped || stored_late;
        let since_ms = if doubtful { at_ms } else { at_ms.saturating_sub(STEADY_FOR_MS) };
        self.steady.insert(node.to_owned(), (since_ms, at_ms));
        self.started_at_ms.insert(node.to_owned(), at_ms);
    }

    /// The store has stored a report.
    pub(crate) fn stored(&mut self, written_ms: u64, at_ms: u64) {
        if at_ms - written_ms > STEADY_GAP_MS {
            self.stored_late_ms = Some(at_ms);
        }
    }

    pub(crate) fn read(&mut self, node: &str, at_ms: u64, complete: bool) {
        let (since_ms, last_ms) = self.steady.get_mut(node).expect("a node reads after it started");
        if !complete {
            self.counts.failed_reads += 1;
            return;
        }
        if at_ms - *last_ms > STEADY_GAP_MS {
            *since_ms = at_ms;
        }
        *last_ms = at_ms;
    }

    pub(crate) fn beat(&mut self, session: SessionId, visible: bool, at_ms: u64, memory_bytes: usize) {
        assert!(memory_bytes <= MEMORY_MAX_BYTES, "P5: a session table grew to {memory_bytes} bytes");
        self.counts.beats += 1;
        self.last_beat_ms[0] = Some(at_ms);
        if visible {
            self.last_beat_ms[1] = Some(at_ms);
        } else {
            self.void[1].insert(session, at_ms);
        }
    }

    pub(crate) fn accepted(&mut self, session: SessionId, visible: bool, beat_ms: u64, answered_ms: u64) {
        self.counts.accepted += 1;
        for kind in 0..=usize::from(visible) {
            let newest = self.accepted[kind].entry(session).or_insert(Accepted { beat_ms, answered_ms });
            if newest.beat_ms < beat_ms {
                *newest = Accepted { beat_ms, answered_ms };
            }
        }
    }

    pub(crate) fn bye(&mut self, session: SessionId, at_ms: u64) {
        self.counts.byes += 1;
        self.void.iter_mut().for_each(|void| _ = void.insert(session, at_ms));
    }

    pub(crate) fn changed(&mut self, node: &str, change: OccupancyChange) {
        self.counts.changes += 1;
        let occupied = change == OccupancyChange::Occupied;
        let before = self.occupied.insert(node.to_owned(), occupied).unwrap_or(false);
        assert_ne!(before, occupied, "VW-25: {change:?} twice in a row at {node}");
    }

    pub(crate) fn claimed(&mut self, bucket: Bucket) {
        self.claimed.insert(bucket);
    }

    pub(crate) fn begun(&mut self, trigger: Trigger, bucket: Bucket, gate: Gate, begun_ms: u64) -> Pending {
        let kind = kind(gate);
        let alive =
            |accepted: &Accepted| accepted.answered_ms <= begun_ms && begun_ms < accepted.beat_ms + TTL_MS;
        self.accepted[kind].retain(|_, accepted| begun_ms < accepted.beat_ms + TTL_MS);
        let owed = self.accepted[kind].iter().filter(|(session, accepted)| {
            alive(accepted) && self.void[kind].get(*session).is_none_or(|void_ms| *void_ms < accepted.beat_ms)
        });
        let owed: Vec<_> = owed.map(|(session, _)| *session).collect();
        match trigger {
            Trigger::Tick => {
                self.counts.ticks += 1;
                self.counts.owed_ticks += u64::from(!owed.is_empty());
            }
            Trigger::Arrival | Trigger::Manual => self.counts.arrivals += 1,
        }
        Pending { trigger, bucket, gate, begun_ms, owed }
    }

    pub(crate) fn decided(&mut self, node: &str, pending: &Pending, decision: Decision, readable: bool) {
        self.tally.count(decision);
        let (bucket, kind) = (pending.bucket, kind(pending.gate));
        match decision {
            Decision::Skip(Reason::NoViewer) => {
                assert!(readable, "P4: {node} skipped {bucket} though it could not read the store");
                let taken_back =
                    |session| self.void[kind].get(session).is_some_and(|at| *at >= pending.begun_ms);
                let still_owed = pending.owed.iter().find(|session| !taken_back(*session));
                // A node that has just started goes by the clocks of store and writer, and both were set.
                let age_ms = pending.begun_ms.saturating_sub(self.started_at_ms[node]);
                if self.store_jumped && self.node_jumped && age_ms < 2 * TTL_MS {
                    return;
                }
                assert_eq!(still_owed, None, "P1: {node} skipped {bucket} though it was being watched");
            }
            Decision::Skip(Reason::AnotherNode) => {
                let taken =
                    self.claimed.contains(&bucket) || self.settled.contains(&(bucket, node.to_owned()));
                assert!(taken, "P3: {node} left {bucket} to another node, but no node has it");
            }
            Decision::Skip(Reason::UnchangedInput) => _ = self.settled.insert((bucket, node.to_owned())),
            Decision::Skip(_) => {}
            Decision::Run(reason) => {
                self.settled.insert((bucket, node.to_owned()));
                if reason == Reason::Watched {
                    self.judge_forgetting(node, pending);
                }
                let runs = self.runs.entry(bucket).or_default();
                runs.claimed += u32::from(readable);
                assert!(runs.claimed <= 1, "P3: {bucket} was claimed and run twice, last by {node}");
                assert!(!runs.by.iter().any(|by| by == node), "P4: {node} ran {bucket} twice");
                runs.by.push(node.to_owned());
            }
        }
    }

    fn judge_forgetting(&mut self, node: &str, pending: &Pending) {
        let (since_ms, last_ms) = self.steady[node];
        let steady = last_ms.saturating_sub(since_ms) >= STEADY_FOR_MS;
        self.counts.judged += u64::from(steady);
        let last_beat_ms = self.last_beat_ms[kind(pending.gate)].unwrap_or(0);
        let alone_ms = pending.begun_ms.saturating_sub(last_beat_ms);
        let forgotten = alone_ms > FORGOTTEN_AFTER_MS;
        let bucket = pending.bucket;
        assert!(
            !(steady && forgotten),
            "P2: {node} ran {bucket} for a viewer not heard of for {alone_ms} ms"
        );
    }

    /// Minutes for which somebody generated something.
    pub(crate) fn generated(&self) -> u64 {
        self.runs.len() as u64
    }
}

fn kind(gate: Gate) -> usize {
    usize::from(gate == Gate::VisibleViewers)
}
