//! The rows of a queue as plain values: its header and its keys.
//!
//! **Ranks.** New ones are taken behind all others (`tail`) or in front of all that wait (`front`), so nothing is ever
//! renumbered but a head that makes room. A key that goes to the tail has the same rank and age, any other a lower
//! rank than age; so a first key in line whose rank is its age is also the one that waits longest.
//!
//! Each queue counts from a start of its own ([`Header::begin`]), so that an age names a row among all queues. The database
//! then has one index to find it by and cannot choose another: what it guesses of a table that fills and empties within
//! minutes is often wrong.
//!
//! **Running.** Which keys run is said by the pace alone, which names the age of each call's key: beginning a run writes no row.
//! [`Calls::mark`] tells rows that were read.
//!
//! `front`, `oldest`, `trimmed` and `next_due` are bounds, not values: nothing lies beyond them, but the first may lie
//! further in. They save a search the entries of rows that are gone and that the database has not cleared away yet.

use std::collections::HashMap;

use syncline_core::queue::{Counts, Place, Settled};
use syncline_core::time::Timestamp;

use super::{Cursor, Entry, pace};
use crate::Error;
use crate::database::{FromRow, Row as Cells};

/// How many ranks and ages a queue has: more than it lives to use.
const NUMBERS_BITS: u32 = 40;

/// What the keys of a queue share.
#[derive(Debug, Clone)]
pub(crate) struct Header {
    pub(crate) id: i32,
    pub(crate) pace: String,
    pub(crate) tail: i64,
    pub(crate) front: i64,
    pub(crate) oldest: i64,
    pub(crate) trimmed: i64,
    pub(crate) next_due: Option<i64>,
    pub(crate) overtakes: i64,
    pub(crate) waiting: i64,
    pub(crate) running: i64,
    pub(crate) retrying: i64,
    pub(crate) done: i64,
    pub(crate) failed: i64,
    pub(crate) dead: i64,
    pub(crate) done_total: i64,
    pub(crate) failed_total: i64,
    pub(crate) changes: i64,
    /// The store's clock when the header was read.
    pub(crate) now_ms: i64,
    /// Results that were dropped in this transaction because there were too many.
    pub(crate) dropped: u64,
}

/// Where a row is. Running and waiting are told apart by the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RowState {
    Line,
    Retrying,
    Done,
    Failed,
    Dead,
}

/// A key without its result.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub(crate) key: String,
    pub(crate) at: RowState,
    pub(crate) rank: i64,
    pub(crate) arrival_no: i64,
    /// The call under way, once [`Calls::mark`] has looked.
    pub(crate) call: Option<i64>,
    /// Runs begun, the one under way included.
    pub(crate) attempts: i32,
    pub(crate) priority: bool,
    pub(crate) again: bool,
}

/// A key that is to come back.
#[derive(Debug)]
pub(crate) struct Retry {
    pub(crate) due: i64,
    pub(crate) row: Row,
}

/// A key with all that is kept of it.
#[derive(Debug)]
pub(crate) struct Kept {
    row: Row,
    due: i64,
    reason: Option<String>,
    result: Option<String>,
    changed_at: i64,
}

/// The same, and the calls that were under way then.
#[derive(Debug)]
pub(crate) struct Known {
    pub(crate) kept: Kept,
    pub(crate) calls: Calls,
}

/// The calls under way, by the ages of their keys.
#[derive(Debug, Default)]
pub(crate) struct Calls(HashMap<i64, i64>);

/// A run that brought a result.
#[derive(Debug)]
pub(crate) struct Success {
    /// The key's age, by which its row is found.
    pub(crate) arrival_no: i64,
    /// Its order among the results.
    pub(crate) rank: i64,
    pub(crate) result: String,
}

/// A key that leaves the line, or comes back to it after a run.
#[derive(Debug)]
pub(crate) struct KeyUpdate {
    /// Its age until now, by which the row is found.
    pub(crate) arrival_no: i64,
    /// What it becomes.
    pub(crate) row: Row,
    pub(crate) due: Option<i64>,
    pub(crate) reason: Option<String>,
    pub(crate) result: Option<String>,
    pub(crate) settled: Settled,
}

impl Header {
    pub(crate) fn now(&self) -> Timestamp {
        timestamp(self.now_ms)
    }

    /// Gives a queue that was just made the numbers it counts with: a trillion, and those of no other queue.
    pub(crate) fn begin(&mut self) {
        if self.tail == 0 {
            self.tail = i64::from(self.id) << NUMBERS_BITS;
            (self.front, self.oldest, self.trimmed) = (self.tail, self.tail, self.tail);
        }
    }

    /// Nobody knows any more which keys run: they wait, and nothing is known of where the first that waits is.
    pub(crate) fn forget_calls(&mut self) {
        self.waiting += std::mem::take(&mut self.running);
        let lowest = (i64::from(self.id) << NUMBERS_BITS) - (1 << (NUMBERS_BITS - 1));
        (self.front, self.oldest) = (self.front.min(lowest), self.oldest.min(lowest));
    }

    /// The calls under way.
    pub(crate) fn calls(&self) -> Calls {
        Calls::read(&self.pace)
    }

    /// The next rank or age behind all others.
    pub(crate) fn take_tail(&mut self) -> i64 {
        self.tail += 1;
        self.tail - 1
    }

    /// The first of `count` ranks in front of all that wait.
    pub(crate) fn take_front(&mut self, count: usize) -> i64 {
        self.front -= i64::try_from(count).expect("memory ends before the ranks do");
        self.front
    }

    /// Counts `row` where it is, `by` 1 or -1.
    pub(crate) fn count(&mut self, row: &Row, by: i64) {
        match row.at {
            RowState::Line if row.call.is_some() => self.running += by,
            RowState::Line => self.waiting += by,
            RowState::Retrying => self.retrying += by,
            RowState::Done => self.done += by,
            RowState::Failed => self.failed += by,
            RowState::Dead => self.dead += by,
        }
    }

    /// Keys that must not be lost.
    pub(crate) fn held(&self) -> usize {
        whole(self.waiting + self.running + self.retrying + self.dead)
    }

    pub(crate) fn counts(&self) -> Counts {
        Counts {
            waiting: whole(self.waiting),
            running: whole(self.running),
            retrying: whole(self.retrying),
            done: whole(self.done),
            failed: whole(self.failed),
            dead: whole(self.dead),
        }
    }

    /// A queue that nothing was put into yet.
    pub(crate) fn empty() -> Self {
        Self {
            id: 0,
            pace: pace::empty(),
            tail: 0,
            front: 0,
            oldest: 0,
            trimmed: 0,
            next_due: None,
            overtakes: 0,
            waiting: 0,
            running: 0,
            retrying: 0,
            done: 0,
            failed: 0,
            dead: 0,
            done_total: 0,
            failed_total: 0,
            changes: 0,
            now_ms: 0,
            dropped: 0,
        }
    }
}

impl Row {
    /// A key that was not known.
    pub(crate) fn new(key: String, rank: i64, arrival_no: i64) -> Self {
        Self {
            key,
            at: RowState::Line,
            rank,
            arrival_no,
            call: None,
            attempts: 0,
            priority: false,
            again: false,
        }
    }

    /// Back to the line with a new age; what was asked for while it ran is what it waits for now.
    pub(crate) fn wait(&mut self, rank: i64, arrival_no: i64) {
        (self.at, self.rank, self.arrival_no, self.call, self.again) =
            (RowState::Line, rank, arrival_no, None, false);
    }

    /// It runs: a call that is not among those that are marked any more.
    pub(crate) fn begin(&mut self, call: u64) {
        self.call = Some(i64::try_from(call).unwrap_or(i64::MAX));
        self.attempts += 1;
    }

    /// Forgets what it has been through.
    pub(crate) fn start_over(&mut self) {
        (self.attempts, self.priority) = (0, false);
    }

    /// Runs that are over: what is stored.
    pub(crate) fn attempts_before(&self) -> i32 {
        self.attempts - i32::from(self.call.is_some())
    }

    pub(crate) fn is_waiting(&self) -> bool {
        self.at == RowState::Line && self.call.is_none()
    }
}

impl RowState {
    pub(crate) fn number(self) -> i16 {
        self as i16
    }

    fn from_number(number: i16) -> Result<Self, Error> {
        match number {
            0 => Ok(Self::Line),
            1 => Ok(Self::Retrying),
            2 => Ok(Self::Done),
            3 => Ok(Self::Failed),
            4 => Ok(Self::Dead),
            other => {
                let reason = format!("{other} is no place of a queue");
                Err(Error::Unreadable { store: "a queue".to_owned(), reason })
            }
        }
    }
}

impl Calls {
    /// The calls that a pace, as it is stored, tells of; none if it cannot be read.
    pub(crate) fn read(pace: &str) -> Self {
        let Some((pace, ages)) = pace::decode(pace) else { return Self::default() };
        let ids = pace.calls.iter().map(|call| i64::try_from(call.id).unwrap_or(i64::MAX));
        Self(ages.into_iter().zip(ids).collect())
    }

    pub(crate) fn ages(&self) -> Vec<i64> {
        self.0.keys().copied().collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Tells rows which of them run.
    pub(crate) fn mark<'r>(&self, rows: impl IntoIterator<Item = &'r mut Row>) {
        for row in rows.into_iter().filter(|row| row.at == RowState::Line) {
            row.call = self.0.get(&row.arrival_no).copied();
            row.attempts += i32::from(row.call.is_some());
        }
    }
}

impl Kept {
    /// What others may know of it, given the calls under way at the moment it was read.
    pub(crate) fn entry(mut self, calls: &Calls) -> Entry {
        calls.mark([&mut self.row]);
        let Row { key, at, rank, call, attempts, priority, again, .. } = self.row;
        let why = || self.reason.clone().unwrap_or_default().into_boxed_str();
        let place = match at {
            RowState::Line if call.is_some() => Place::Running { again },
            RowState::Line => Place::Waiting,
            RowState::Retrying => Place::Retrying { due: timestamp(self.due) },
            RowState::Done => Place::Done(self.result.unwrap_or_default()),
            RowState::Failed => Place::Failed(why()),
            RowState::Dead => Place::Dead(why()),
        };
        let order = match at {
            RowState::Line => call.unwrap_or(rank),
            RowState::Retrying => self.due,
            _ => rank,
        };
        Entry {
            key,
            place,
            attempts: u32::try_from(attempts).unwrap_or(0),
            priority,
            reason: self.reason,
            changed_at: timestamp(self.changed_at),
            cursor: Cursor { order, rank },
        }
    }
}

pub(crate) fn timestamp(ms: i64) -> Timestamp {
    Timestamp::from_ms(u64::try_from(ms).unwrap_or(0))
}

pub(crate) fn ms(timestamp: Timestamp) -> i64 {
    i64::try_from(timestamp.as_ms()).unwrap_or(i64::MAX)
}

fn whole(count: i64) -> usize {
    usize::try_from(count).unwrap_or(0)
}

impl FromRow for Header {
    fn from_row(mut row: Cells) -> Result<Self, Error> {
        Ok(Self {
            id: row.take(0)?,
            pace: row.take(1)?,
            tail: row.take(2)?,
            front: row.take(3)?,
            oldest: row.take(4)?,
            trimmed: row.take(5)?,
            next_due: row.take(6)?,
            overtakes: row.take(7)?,
            waiting: row.take(8)?,
            running: row.take(9)?,
            retrying: row.take(10)?,
            done: row.take(11)?,
            failed: row.take(12)?,
            dead: row.take(13)?,
            done_total: row.take(14)?,
            failed_total: row.take(15)?,
            changes: row.take(16)?,
            now_ms: row.take(17)?,
            dropped: 0,
        })
    }
}

impl Row {
    fn read(row: &mut Cells) -> Result<Self, Error> {
        Ok(Self {
            key: row.take(0)?,
            at: RowState::from_number(row.take(1)?)?,
            rank: row.take(2)?,
            arrival_no: row.take(3)?,
            call: None,
            attempts: row.take(4)?,
            priority: row.take(5)?,
            again: row.take(6)?,
        })
    }
}

impl Kept {
    fn read(row: &mut Cells) -> Result<Self, Error> {
        Ok(Self {
            row: Row::read(row)?,
            due: row.take::<Option<i64>>(7)?.unwrap_or(0),
            reason: row.take(8)?,
            result: row.take(9)?,
            changed_at: row.take(10)?,
        })
    }
}

impl FromRow for Row {
    fn from_row(mut row: Cells) -> Result<Self, Error> {
        Self::read(&mut row)
    }
}

impl FromRow for Retry {
    fn from_row(mut row: Cells) -> Result<Self, Error> {
        Ok(Self { due: row.take(7)?, row: Row::read(&mut row)? })
    }
}

impl FromRow for Kept {
    fn from_row(mut row: Cells) -> Result<Self, Error> {
        Self::read(&mut row)
    }
}

impl FromRow for Known {
    fn from_row(mut row: Cells) -> Result<Self, Error> {
        let pace: Option<String> = row.take(11)?;
        Ok(Self { kept: Kept::read(&mut row)?, calls: Calls::read(&pace.unwrap_or_default()) })
    }
}
