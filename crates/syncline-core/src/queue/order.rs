//! The queue itself: distinct keys in order, and a result per key.
//!
//! The line is what runs, followed by what waits. "Right after the head" is behind whatever runs, or behind the
//! first that waits when nothing does, so nothing is ever put in front of work that has begun. Keys are held once and
//! linked into the list of the place they are in: everything takes constant time, but for retries, which are
//! ordered by due time in O(log n).
//!
//! **Nobody starves.** Keys put right after the head overtake the others, but after
//! [`max_overtakes`](Limits::max_overtakes) starts in a row that overtook an older key, the key that has been in
//! line longest goes next. So a key with `a` older keys in line starts within `(a + 1) * (max_overtakes + 1)`
//! starts, whatever is enqueued meanwhile. A key that comes back for a retry has its age counted anew.
//!
//! **Groups.** Keys may belong to groups, which are numbers here: then each group has a line of its own (`order/groups.rs`), no key is the
//! head of all, and who asks for the next key says of which group. Whose turn it is and at what pace is for others.
//!
//! Time enters only as the due time of a retry; pacing is the [`Pacer`](super::Pacer)'s.

#[cfg(test)]
mod cost;
mod groups;
mod keep;
mod lists;

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hash, RandomState};

use groups::Lines;
use keep::Journal;
pub(super) use lists::Due;
use lists::Position;

use super::answer::bounded;
use super::chain::{By, Chain};
use super::slots::Slots;
use super::{Counts, Kind, Move, Outcome, Place, Record, Settled};
use crate::time::Timestamp;

/// How much a queue holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Keys that wait, run, are to be retried or are dead. Beyond it, enqueuing is refused: none of these may be lost.
    pub max_keys: u32,
    /// Results kept; beyond it the oldest goes.
    pub max_results: u32,
    /// Starts in a row that may overtake an older key.
    pub max_overtakes: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self { max_keys: 1_000_000, max_results: 1_000_000, max_overtakes: 32 }
    }
}

/// What became of the keys of one [`Queue::enqueue`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Enqueued {
    /// Newly in line.
    pub added: usize,
    /// Were in line and moved up.
    pub moved: usize,
    /// Are running and will run once more.
    pub again: usize,
    /// Were where they should be.
    pub ignored: usize,
}

/// The queue cannot take these keys; it took none of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the queue holds {held} keys and would take {asked} more; {limit} is the most")]
pub struct Full {
    /// Keys it holds.
    pub held: usize,
    /// Keys that would be new, each repetition counted.
    pub asked: usize,
    /// [`Limits::max_keys`].
    pub limit: u32,
}

/// A key that has just begun to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run<'a, K> {
    /// The key.
    pub key: &'a K,
    /// Which run this is since it was enqueued, counted from 1.
    pub attempt: u32,
    /// For [`Queue::settle_run`].
    pub id: RunId,
}

/// One run of one key. It means nothing once that run is over, even if the same key runs again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunId {
    slot: u32,
    rank: i64,
}

/// Distinct keys in order, and a result per key.
///
/// `S` hashes the keys. Where they come from outside it must be keyed with a secret; [`RandomState`] is. Nothing
/// that can be observed depends on it.
#[derive(Debug)]
pub struct Queue<K, R, S = RandomState> {
    limits: Limits,
    slots: Slots<K, Entry<R>, S>,
    /// The waiting ones, by group.
    lines: Lines,
    running: Chain,
    retrying: BTreeMap<Due, u32>,
    /// Done and failed, oldest first.
    settled: Chain,
    /// How many of the settled are failed.
    failed: usize,
    dead: Chain,
    /// The next rank at the back, of any list: it only grows.
    back: i64,
    journal: Journal<K>,
}

#[derive(Debug)]
struct Entry<R> {
    place: Place<R>,
    rank: i64,
    since: i64,
    attempts: u32,
    priority: bool,
    /// The number of its group.
    group: u32,
    /// It is in the journal's list already.
    noted: bool,
}

impl<K: Eq + Hash, R, S: BuildHasher> Queue<K, R, S> {
    /// An empty queue.
    #[must_use]
    pub fn new(limits: Limits, hasher: S) -> Self {
        Self {
            limits,
            slots: Slots::new(hasher),
            lines: Lines::new(),
            running: Chain::new(By::Rank),
            retrying: BTreeMap::new(),
            settled: Chain::new(By::Rank),
            failed: 0,
            dead: Chain::new(By::Rank),
            back: 0,
            journal: Journal::closed(),
        }
    }

    /// Puts `keys` into the line as `kind` says, keeping their order. All or none: a queue that cannot hold them
    /// stays as it was.
    pub fn enqueue(&mut self, kind: Kind, keys: Vec<K>) -> Result<Enqueued, Full> {
        self.enqueue_in(kind, keys, &[])
    }

    /// The same for keys of groups, whose numbers stand in the same order; a key without one keeps the one it has. A key that is in line
    /// stays in its group, one that comes into line takes the one it is given. From the first number on the queue has groups.
    ///
    /// Numbers are small: there is a place for each up to the highest.
    pub fn enqueue_in(&mut self, kind: Kind, keys: Vec<K>, groups: &[Option<u32>]) -> Result<Enqueued, Full> {
        self.check_room(kind, &keys)?;
        if groups.iter().any(Option::is_some) {
            self.begin_groups();
        }
        let (mut told, mut express, count) = (Enqueued::default(), None, keys.len());
        for (index, key) in keys.into_iter().enumerate() {
            let (found, group) = (self.slots.find(&key), groups.get(index).copied().flatten());
            match kind.decide(self.standing_of(found)) {
                Move::Ignore => told.ignored += 1,
                Move::RunAgain => {
                    let slot = found.expect("a running key is known");
                    self.slots.entry_mut(slot).place = Place::Running { again: true };
                    self.note(slot);
                    told.again += 1;
                }
                Move::Append => {
                    let slot = self.line_up(found, key, group, None);
                    self.start_over(slot);
                    told.added += 1;
                }
                Move::AfterHead => {
                    let express = express.get_or_insert_with(|| self.make_room(count));
                    match found {
                        Some(slot) if express.has(self.slots.entry(slot)) => {
                            told.ignored += 1;
                            continue;
                        }
                        Some(slot) if self.is_waiting(slot) => told.moved += 1,
                        _ => told.added += 1,
                    }
                    let slot = self.line_up(found, key, group, Some(express));
                    self.slots.entry_mut(slot).priority |= kind == Kind::Priority;
                }
            }
        }
        Ok(told)
    }

    /// Brings every key whose retry is due at `now` back, right after the head; tells how many.
    pub fn enqueue_due(&mut self, now: Timestamp) -> usize {
        let is_due = |(due, _): &(&Due, &u32)| due.at <= now;
        let due: Vec<u32> = self.retrying.iter().take_while(is_due).map(|(_, &slot)| slot).collect();
        if !due.is_empty() {
            let mut express = self.make_room(due.len());
            for &slot in &due {
                let group = self.slots.entry(slot).group;
                let position = self.take_front(&mut express, group);
                self.wait(slot, position);
            }
        }
        due.len()
    }

    /// When the next retry is due.
    #[must_use]
    pub fn next_due(&self) -> Option<Timestamp> {
        self.retrying.first_key_value().map(|(due, _)| due.at)
    }

    /// Begins to run the next key in line, if one waits; of a queue with groups, the next that is in none.
    pub fn start(&mut self) -> Option<Run<'_, K>> {
        self.start_of(0)
    }

    /// Begins to run the next key of this group, if one waits.
    pub fn start_of(&mut self, group: u32) -> Option<Run<'_, K>> {
        let slot = self.lines.get_mut(group)?.next(self.limits.max_overtakes)?;
        self.leave_line(slot, Place::Running { again: false });
        let entry = self.slots.entry_mut(slot);
        entry.attempts = entry.attempts.saturating_add(1);
        let (attempt, id) = (entry.attempts, RunId { slot, rank: entry.rank });
        Some(Run { key: self.slots.key(slot), attempt, id })
    }

    /// Ends keys with these outcomes. Kept only for keys in line, running or waiting; tells how many those were.
    pub fn dequeue(&mut self, outcomes: impl IntoIterator<Item = (K, Outcome<R>)>) -> usize {
        outcomes.into_iter().filter_map(|(key, outcome)| self.settle(&key, outcome)).count()
    }

    /// Ends one key with `outcome`, unless it is not in line.
    pub fn settle<Q>(&mut self, key: &Q, outcome: Outcome<R>) -> Option<Settled>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        let slot = self.slots.find(key)?;
        let in_line = matches!(self.slots.entry(slot).place, Place::Waiting | Place::Running { .. });
        in_line.then(|| self.settle_slot(slot, outcome))
    }

    /// Ends one run with `outcome`, unless it is over.
    pub fn settle_run(&mut self, id: RunId, outcome: Outcome<R>) -> Option<Settled> {
        self.run(id)?;
        Some(self.settle_slot(id.slot, outcome))
    }

    /// The key of a run and which attempt it is, unless it is over.
    #[must_use]
    pub fn run(&self, id: RunId) -> Option<Run<'_, K>> {
        let (key, entry) = self.slots.content(id.slot)?;
        let same = entry.rank == id.rank && matches!(entry.place, Place::Running { .. });
        same.then_some(Run { key, attempt: entry.attempts, id })
    }

    /// Puts a running key whose run was lost first in line again; the run counts. False if it does not run.
    pub fn release<Q>(&mut self, key: &Q) -> bool
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        let Some(slot) = self.slots.find(key) else { return false };
        let runs = matches!(self.slots.entry(slot).place, Place::Running { .. });
        if runs {
            self.put_first(slot);
        }
        runs
    }

    /// Gives a key that is dead or failed all its attempts once more: right after the head if it came as priority, else at
    /// the tail. False if it is neither.
    pub fn revive<Q>(&mut self, key: &Q) -> bool
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        let Some(slot) = self.slots.find(key) else { return false };
        let entry = self.slots.entry_mut(slot);
        if !matches!(entry.place, Place::Dead(_) | Place::Failed(_)) {
            return false;
        }
        entry.attempts = 0;
        let (priority, group) = (entry.priority, entry.group);
        let position = if priority {
            let mut places = self.make_room(1);
            self.take_front(&mut places, group)
        } else {
            Position::Back
        };
        self.wait(slot, position);
        true
    }

    /// Forgets a key, wherever it is; a result that comes for it later is not kept. Tells where it was.
    pub fn remove<Q>(&mut self, key: &Q) -> Option<Place<R>>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        let slot = self.slots.find(key)?;
        Some(self.forget(slot))
    }

    fn settle_slot(&mut self, slot: u32, outcome: Outcome<R>) -> Settled {
        let again = matches!(self.slots.entry(slot).place, Place::Running { again: true });
        let (place, settled) = match outcome {
            // These start another run after `again` was asked for, which is the one more run.
            Outcome::Waiting => {
                self.put_first(slot);
                let entry = self.slots.entry_mut(slot);
                entry.attempts = entry.attempts.saturating_sub(1);
                return Settled::Waiting;
            }
            Outcome::Retrying { due } => (Place::Retrying { due }, Settled::Retrying { due }),
            Outcome::Excused { due } => {
                let entry = self.slots.entry_mut(slot);
                entry.attempts = entry.attempts.saturating_sub(1);
                (Place::Retrying { due }, Settled::Retrying { due })
            }
            _ if again => {
                self.wait(slot, Position::Back);
                self.start_over(slot);
                return Settled::Again;
            }
            Outcome::Done(result) => (Place::Done(result), Settled::Done),
            Outcome::Failed(reason) => (Place::Failed(bounded(reason)), Settled::Failed),
            Outcome::Dead(reason) => (Place::Dead(bounded(reason)), Settled::Dead),
        };
        self.leave_line(slot, place);
        self.drop_old_results();
        settled
    }
}

/// Questions.
impl<K: Eq + Hash, R, S: BuildHasher> Queue<K, R, S> {
    /// How many keys are where.
    #[must_use]
    pub fn counts(&self) -> Counts {
        Counts {
            waiting: self.lines.waiting(),
            running: self.running.len(),
            retrying: self.retrying.len(),
            done: self.settled.len() - self.failed,
            failed: self.failed,
            dead: self.dead.len(),
        }
    }

    /// All that is known of a key.
    pub fn record<Q>(&self, key: &Q) -> Option<Record<&K, &Place<R>>>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        self.slots.find(key).map(|slot| self.record_at(slot))
    }

    /// The line: what runs, in order of start, then what waits, in order.
    pub fn line(&self) -> impl Iterator<Item = Record<&K, &Place<R>>> {
        self.running.iter(&self.slots).chain(self.waiting_in_order()).map(|slot| self.record_at(slot))
    }

    /// What comes back later, soonest first.
    pub fn retrying(&self) -> impl Iterator<Item = Record<&K, &Place<R>>> {
        self.retrying.values().map(|&slot| self.record_at(slot))
    }

    /// The results, empty ones too, newest first.
    pub fn results(&self) -> impl Iterator<Item = Record<&K, &Place<R>>> {
        self.settled.iter_back(&self.slots).map(|slot| self.record_at(slot))
    }

    /// The dead list, newest first.
    pub fn dead(&self) -> impl Iterator<Item = Record<&K, &Place<R>>> {
        self.dead.iter_back(&self.slots).map(|slot| self.record_at(slot))
    }

    fn record_at(&self, slot: u32) -> Record<&K, &Place<R>> {
        record(self.slots.key(slot), self.slots.entry(slot))
    }
}

fn record<'a, K, R>(key: &'a K, entry: &'a Entry<R>) -> Record<&'a K, &'a Place<R>> {
    Record {
        key,
        place: &entry.place,
        rank: entry.rank,
        since: entry.since,
        attempts: entry.attempts,
        priority: entry.priority,
        group: entry.group,
    }
}
