//! The rows of a queue as plain values: its header and its keys.
//!
//! What they mean and how they change is core's ([`syncline_core::queue::line`]). An age names a row among all queues, so the database has
//! one index to find it by and cannot choose another: what it guesses of a table that fills and empties within minutes is often wrong.
//!
//! **Running.** Which keys run is said by the pace alone, which names the age of each call's key: beginning a run writes no row.
//! [`Calls::mark`] tells rows that were read.
//!
//! The line's bounds save a search the entries of rows that are gone and that the database has not cleared away yet.

use std::collections::{HashMap, HashSet};

use syncline_core::queue::Place;
use syncline_core::queue::group::Group;
use syncline_core::queue::line::{Line, Row, RowState};
use syncline_core::time::Timestamp;

use super::groups::Groups;
use super::{Cursor, Entry, Rules, SetPace, pace};
use crate::Error;
use crate::database::{FromRow, Row as Cells};

/// What the keys of a queue share.
#[derive(Debug, Clone)]
pub(crate) struct Header {
    pub(crate) id: i32,
    pub(crate) pace: String,
    pub(crate) line: Line,
    pub(crate) changes: i64,
    /// Whether a key was ever given something to carry: only then is it worth a look.
    pub(crate) carries: bool,
    /// Whether somebody holds the queue: nothing starts.
    pub(crate) held: bool,
    /// Groups have this number or a higher one; 0 if there are none.
    pub(crate) grouped_since: i64,
    /// Keys in line from this rank on may be in no group yet.
    pub(crate) regroup_at: Option<i64>,
    /// What counts instead of the configuration, as it is kept.
    pub(crate) set_pace: Option<String>,
    /// The store's clock when the header was read.
    pub(crate) now_ms: i64,
    /// The groups that this transaction has to do with.
    pub(crate) groups: Groups,
}

/// A group and its name.
#[derive(Debug, Clone)]
pub(crate) struct GroupRow {
    pub(crate) name: String,
    pub(crate) group: Group,
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
    pub(crate) input: Option<String>,
}

/// The calls under way, by the ages of their keys.
#[derive(Debug, Default)]
pub(crate) struct Calls(HashMap<i64, i64>);

/// What a key in line carries.
#[derive(Debug, Default)]
pub(crate) struct Details {
    pub(crate) arrival_no: i64,
    pub(crate) input: Option<String>,
    pub(crate) expires_at: Option<i64>,
}

/// A run that brought a result.
#[derive(Debug)]
pub(crate) struct Success {
    /// The key's age, by which its row is found.
    pub(crate) arrival_no: i64,
    /// Its order among the results.
    pub(crate) rank: i64,
    pub(crate) result: String,
}

impl Header {
    pub(crate) fn now(&self) -> Timestamp {
        timestamp(self.now_ms)
    }

    /// The calls under way.
    pub(crate) fn calls(&self) -> Calls {
        Calls::read(&self.pace)
    }

    /// `rules`, but for what was set while the queue runs.
    pub(crate) fn in_force(&self, rules: &Rules) -> Rules {
        let set = self.set_pace.as_deref().and_then(|text| serde_json::from_str::<SetPace>(text).ok());
        set.map_or(*rules, |set| set.over(rules))
    }

    /// A queue that nothing was put into yet.
    pub(crate) fn empty() -> Self {
        Self {
            id: 0,
            pace: pace::empty(),
            line: Line::default(),
            changes: 0,
            carries: false,
            held: false,
            grouped_since: 0,
            regroup_at: None,
            set_pace: None,
            now_ms: 0,
            groups: Groups::default(),
        }
    }
}

/// The number of a place in the tables.
pub(crate) fn number(at: RowState) -> i16 {
    match at {
        RowState::Line => 0,
        RowState::Retrying => 1,
        RowState::Done => 2,
        RowState::Failed => 3,
        RowState::Dead => 4,
    }
}

fn from_number(number: i16) -> Result<RowState, Error> {
    match number {
        0 => Ok(RowState::Line),
        1 => Ok(RowState::Retrying),
        2 => Ok(RowState::Done),
        3 => Ok(RowState::Failed),
        4 => Ok(RowState::Dead),
        other => {
            let reason = format!("{other} is no place of a queue");
            Err(Error::Unreadable { store: "a queue".to_owned(), reason })
        }
    }
}

impl Calls {
    /// The calls that a pace, as it is stored, tells of; none if it cannot be read.
    pub(crate) fn read(pace: &str) -> Self {
        let Some((pace, calls)) = pace::decode(pace) else { return Self::default() };
        let ids = pace.calls.iter().map(|call| i64::try_from(call.id).unwrap_or(i64::MAX));
        Self(calls.ages.into_iter().zip(ids).collect())
    }

    pub(crate) fn ages(&self) -> Vec<i64> {
        self.0.keys().copied().collect()
    }

    /// The ages of the keys of these calls, as far as they are under way.
    pub(crate) fn ages_of(&self, calls: &[u64]) -> HashMap<u64, i64> {
        let wanted: HashSet<u64> = calls.iter().copied().collect();
        let ids = self.0.iter().map(|(age, call)| (call.unsigned_abs(), *age));
        ids.filter(|(call, _)| wanted.contains(call)).collect()
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
    pub(crate) fn age(&self) -> i64 {
        self.row.arrival_no
    }

    /// What others may know of it, given the calls under way at the moment it was read.
    pub(crate) fn entry(mut self, calls: &Calls) -> Entry {
        calls.mark([&mut self.row]);
        let Row { key, at, rank, call, attempts, priority, again, group_name, .. } = self.row;
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
            input: None,
            group: group_name,
            changed_at: timestamp(self.changed_at),
            cursor: Cursor { order, rank },
        }
    }
}

pub(crate) fn timestamp(ms: i64) -> Timestamp {
    Timestamp::from_ms(u64::try_from(ms).unwrap_or(0))
}

impl FromRow for Header {
    fn from_row(mut row: Cells) -> Result<Self, Error> {
        let grouped_since: i64 = row.take(19)?;
        Ok(Self {
            id: row.take(0)?,
            pace: row.take(1)?,
            line: Line {
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
                grouped: grouped_since != 0,
                ..Line::default()
            },
            changes: row.take(16)?,
            carries: row.take(17)?,
            held: row.take(18)?,
            grouped_since,
            regroup_at: row.take(20)?,
            set_pace: row.take(21)?,
            now_ms: row.take(22)?,
            groups: Groups::default(),
        })
    }
}

fn read_row(row: &mut Cells) -> Result<Row, Error> {
    Ok(Row {
        key: row.take(0)?,
        at: from_number(row.take(1)?)?,
        rank: row.take(2)?,
        arrival_no: row.take(3)?,
        call: None,
        attempts: row.take(4)?,
        priority: row.take(5)?,
        again: row.take(6)?,
        group: row.take::<Option<i64>>(7)?.unwrap_or(0),
        group_name: row.take(8)?,
    })
}

impl Kept {
    fn read(row: &mut Cells) -> Result<Self, Error> {
        Ok(Self {
            row: read_row(row)?,
            due: row.take::<Option<i64>>(9)?.unwrap_or(0),
            reason: row.take(10)?,
            result: row.take(11)?,
            changed_at: row.take(12)?,
        })
    }
}

impl FromRow for Row {
    fn from_row(mut row: Cells) -> Result<Self, Error> {
        read_row(&mut row)
    }
}

impl FromRow for GroupRow {
    fn from_row(mut row: Cells) -> Result<Self, Error> {
        Ok(Self {
            name: row.take(1)?,
            group: Group {
                id: row.take(0)?,
                waiting: row.take(2)?,
                running: row.take(3)?,
                front: row.take(4)?,
                oldest: row.take(5)?,
                overtakes: row.take(6)?,
                next_at: row.take(7)?,
                failures: row.take(8)?,
                ready_at: row.take(9)?,
                turn: row.take(10)?,
                held: row.take(11)?,
            },
        })
    }
}

impl FromRow for Details {
    fn from_row(mut row: Cells) -> Result<Self, Error> {
        Ok(Self { arrival_no: row.take(0)?, input: row.take(1)?, expires_at: row.take(2)? })
    }
}

impl FromRow for Retry {
    fn from_row(mut row: Cells) -> Result<Self, Error> {
        Ok(Self { due: row.take(9)?, row: read_row(&mut row)? })
    }
}

impl FromRow for Kept {
    fn from_row(mut row: Cells) -> Result<Self, Error> {
        Self::read(&mut row)
    }
}

impl FromRow for Known {
    fn from_row(mut row: Cells) -> Result<Self, Error> {
        let pace: Option<String> = row.take(13)?;
        let (kept, input) = (Kept::read(&mut row)?, row.take(14)?);
        Ok(Self { kept, calls: Calls::read(&pace.unwrap_or_default()), input })
    }
}
