//! The line of a queue that is kept in a database: who stands where, decided over a few rows.
//!
//! A database holds far more keys than a decision may read. So a decision gets the queue's [`Line`], which is a few numbers, and
//! the rows it is about; it changes the numbers and says which rows become what. Reading and writing rows is left to others.
//!
//! - `line/enter.rs`: enqueuing, retries that come back, keys that are revived
//! - `line/next.rs`: who is next
//! - `line/leave.rs`: what outcomes make of keys
//!
//! **Ranks.** New ones are taken behind all others (`tail`) or in front of all that wait (`front`), so nothing is ever
//! renumbered but a head that makes room. A key that goes to the tail has the same rank and age, any other a lower
//! rank than age; so a first key in line whose rank is its age is also the one that waits longest.
//!
//! Each queue counts from a start of its own ([`Line::begin`]), so that an age names a row among all queues.
//!
//! `front`, `oldest`, `trimmed` and `next_due` are bounds, not values: nothing lies beyond them, but the first may lie further in.

mod enter;
mod leave;
mod next;

pub use enter::Entered;
pub use leave::KeyUpdate;
pub use next::needs_ages;

use std::collections::BTreeMap;

use super::group::GroupChange;
use super::progress::Counts;

/// How many ranks and ages a queue has: more than it lives to use.
const NUMBERS_BITS: u32 = 40;

/// What the keys of a queue share: the ends of its ranks and ages, and how many keys are where.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Line {
    /// The next rank and age behind all others.
    pub tail: i64,
    /// No key that waits has a lower rank.
    pub front: i64,
    /// No key that waits has a lower age.
    pub oldest: i64,
    /// No result has a lower rank.
    pub trimmed: i64,
    /// No retry is due before, in milliseconds of the store's clock.
    pub next_due: Option<i64>,
    /// Starts in a row that overtook an older key.
    pub overtakes: i64,
    /// Keys that wait.
    pub waiting: i64,
    /// Keys that run.
    pub running: i64,
    /// Keys that come back.
    pub retrying: i64,
    /// Results.
    pub done: i64,
    /// Empty results.
    pub failed: i64,
    /// Keys that were given up.
    pub dead: i64,
    /// Results that ever were.
    pub done_total: i64,
    /// Empty ones that ever were.
    pub failed_total: i64,
    /// Results that were dropped just now because there were too many.
    pub dropped: u64,
    /// Whether keys in line belong to groups: they take turns, and no key is the head of all.
    pub grouped: bool,
    /// What happened to the keys of groups just now, by the group's number.
    pub groups: BTreeMap<i64, GroupChange>,
}

/// Where a row is. Running and waiting are told apart by the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowState {
    /// In line.
    Line,
    /// Comes back.
    Retrying,
    /// Has a result.
    Done,
    /// Has an empty result.
    Failed,
    /// Was given up.
    Dead,
}

/// A key without its result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// The key.
    pub key: String,
    /// Where it is.
    pub at: RowState,
    /// Its order among those in the same place, lowest first.
    pub rank: i64,
    /// Its age: its order by how long it has been in line.
    pub arrival_no: i64,
    /// The call under way.
    pub call: Option<i64>,
    /// Runs begun, the one under way included.
    pub attempts: i32,
    /// It was enqueued as a priority.
    pub priority: bool,
    /// One more run was asked for while it runs.
    pub again: bool,
    /// The number of its group while it is in line, where the queue has groups; 0 if it is in none.
    pub group: i64,
    /// Its group's name, where it was ever given one.
    pub group_name: Option<String>,
}

impl Line {
    /// Gives the queue `id`, if it was just made, the numbers it counts with: a trillion, and those of no other queue.
    pub fn begin(&mut self, id: i32) {
        if self.tail == 0 {
            self.tail = i64::from(id) << NUMBERS_BITS;
            (self.front, self.oldest, self.trimmed) = (self.tail, self.tail, self.tail);
        }
    }

    /// Whether there is nothing to do, now or later.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.waiting == 0 && self.running == 0 && self.retrying == 0
    }

    /// Nobody knows any more which keys of the queue `id` run: they wait, and nothing is known of where the first that waits is.
    pub fn forget_calls(&mut self, id: i32) {
        self.waiting += std::mem::take(&mut self.running);
        let lowest = (i64::from(id) << NUMBERS_BITS) - (1 << (NUMBERS_BITS - 1));
        (self.front, self.oldest) = (self.front.min(lowest), self.oldest.min(lowest));
    }

    /// The next rank or age behind all others.
    pub fn take_tail(&mut self) -> i64 {
        self.tail += 1;
        self.tail - 1
    }

    /// The first of `count` ranks in front of all that wait.
    fn take_front(&mut self, count: usize) -> i64 {
        self.front -= i64::try_from(count).expect("memory ends before the ranks do");
        self.front
    }

    /// Counts `row` where it is, `by` 1 or -1.
    fn count(&mut self, row: &Row, by: i64) {
        match row.at {
            RowState::Line if row.call.is_some() => self.running += by,
            RowState::Line => {
                self.waiting += by;
                if row.group != 0 {
                    self.groups.entry(row.group).or_default().waiting += by;
                }
            }
            RowState::Retrying => self.retrying += by,
            RowState::Done => self.done += by,
            RowState::Failed => self.failed += by,
            RowState::Dead => self.dead += by,
        }
    }

    /// Puts a row that waits and has no group into one.
    pub fn join(&mut self, row: &mut Row, group: i64) {
        row.group = group;
        self.groups.entry(group).or_default().waiting += 1;
    }

    /// Notes the places of rows that were put into the line, for their groups.
    pub fn note_places<'r>(&mut self, rows: impl IntoIterator<Item = &'r Row>) {
        for row in rows.into_iter().filter(|row| row.group != 0 && row.is_waiting()) {
            let change = self.groups.entry(row.group).or_default();
            change.front = change.front.min(row.rank);
            change.oldest = change.oldest.min(row.arrival_no);
        }
    }

    /// That many that waited run.
    pub(super) fn begin_grouped(&mut self, started: usize) {
        let started = i64::try_from(started).expect("memory ends before the numbers do");
        self.waiting -= started;
        self.running += started;
        if self.waiting == 0 {
            (self.front, self.oldest) = (self.tail, self.tail);
        }
    }

    /// Forgets rows, wherever they are. A call under way keeps its slot until it ends.
    pub fn remove(&mut self, rows: &[Row]) {
        rows.iter().for_each(|row| self.count(row, -1));
    }

    /// Keys that must not be lost.
    #[must_use]
    pub fn held(&self) -> usize {
        whole(self.waiting + self.running + self.retrying + self.dead)
    }

    /// How many keys are where.
    #[must_use]
    pub fn counts(&self) -> Counts {
        Counts {
            waiting: whole(self.waiting),
            running: whole(self.running),
            retrying: whole(self.retrying),
            done: whole(self.done),
            failed: whole(self.failed),
            dead: whole(self.dead),
        }
    }
}

impl Row {
    /// A key that was not known.
    #[must_use]
    pub fn new(key: String, rank: i64, arrival_no: i64) -> Self {
        let (call, attempts, priority, again) = (None, 0, false, false);
        let (group, group_name) = (0, None);
        Self { key, at: RowState::Line, rank, arrival_no, call, attempts, priority, again, group, group_name }
    }

    /// It runs: a call that is not among those that are marked any more.
    pub fn begin(&mut self, call: u64) {
        self.call = Some(i64::try_from(call).unwrap_or(i64::MAX));
        self.attempts += 1;
    }

    /// Runs that are over.
    #[must_use]
    pub fn attempts_before(&self) -> i32 {
        self.attempts - i32::from(self.call.is_some())
    }

    /// Whether it is in line and does not run.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        self.at == RowState::Line && self.call.is_none()
    }

    /// Back to the line with a new age; what was asked for while it ran is what it waits for now.
    fn wait(&mut self, rank: i64, arrival_no: i64) {
        (self.at, self.rank, self.arrival_no, self.call, self.again) =
            (RowState::Line, rank, arrival_no, None, false);
    }

    /// Forgets what it has been through.
    fn start_over(&mut self) {
        (self.attempts, self.priority) = (0, false);
    }
}

fn whole(count: i64) -> usize {
    usize::try_from(count).unwrap_or(0)
}

#[cfg(test)]
mod tests;
