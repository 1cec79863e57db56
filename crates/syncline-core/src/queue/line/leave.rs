//! Out of the line: what outcomes make of keys, and how many results go.

use super::super::answer::{Outcome, Settled};
use super::super::order::Limits;
use super::{Line, Row, RowState, whole};
use crate::time::Timestamp;

/// Results beyond the limit that go at a time, besides as many as come.
const TRIM_STEP: usize = 1_000;

/// A key that leaves the line, or comes back to it after a run.
#[derive(Debug, PartialEq, Eq)]
pub struct KeyUpdate {
    /// Its age until now, by which the row is found.
    pub arrival_no: i64,
    /// What it becomes.
    pub row: Row,
    /// When it comes back, in milliseconds of the store's clock.
    pub due: Option<i64>,
    /// Why it comes back, failed or was given up.
    pub reason: Option<String>,
    /// What it brought.
    pub result: Option<String>,
    /// Where that leaves it.
    pub settled: Settled,
}

impl Line {
    /// What `outcome` makes of a row in line. `reason` says why a retry is one.
    #[must_use]
    pub fn leave(&mut self, mut row: Row, outcome: Outcome<String>, reason: Option<String>) -> KeyUpdate {
        let (arrival_no, again) = (row.arrival_no, row.again);
        self.count(&row, -1);
        if matches!(outcome, Outcome::Excused { .. }) {
            row.attempts = (row.attempts - 1).max(0);
        }
        let (mut due, mut kept, mut result) = (None, None, None);
        let (at, settled) = match outcome {
            // These start another run after `again` was asked for, which is the one more run.
            Outcome::Waiting => {
                row.attempts = (row.attempts - 1).max(0);
                let arrival_no = self.take_tail();
                row.wait(0, arrival_no);
                (RowState::Line, Settled::Waiting)
            }
            Outcome::Retrying { due: at } | Outcome::Excused { due: at } => {
                (due, kept) = (Some(ms(at)), reason);
                self.next_due = Some(self.next_due.map_or(ms(at), |next| next.min(ms(at))));
                (RowState::Retrying, Settled::Retrying { due: at })
            }
            _ if again => {
                let tail = self.take_tail();
                row.wait(tail, tail);
                row.start_over();
                (RowState::Line, Settled::Again)
            }
            Outcome::Done(text) => {
                result = Some(text);
                self.done_total += 1;
                (RowState::Done, Settled::Done)
            }
            Outcome::Failed(why) => {
                kept = Some(why);
                self.failed_total += 1;
                (RowState::Failed, Settled::Failed)
            }
            Outcome::Dead(why) => {
                kept = Some(why);
                (RowState::Dead, Settled::Dead)
            }
        };
        if at != RowState::Line {
            (row.at, row.rank, row.call, row.again) = (at, self.take_tail(), None, false);
        }
        self.count(&row, 1);
        KeyUpdate { arrival_no, row, due, reason: kept, result, settled }
    }

    /// Takes a row that was just put into the line out of it until `due`, in milliseconds of the store's clock.
    #[must_use]
    pub fn delay(&mut self, mut row: Row, due: i64) -> KeyUpdate {
        let arrival_no = row.arrival_no;
        self.count(&row, -1);
        (row.at, row.rank) = (RowState::Retrying, self.take_tail());
        self.count(&row, 1);
        self.next_due = Some(self.next_due.map_or(due, |next| next.min(due)));
        let settled = Settled::Retrying { due: Timestamp::from_ms(due.unsigned_abs()) };
        KeyUpdate { arrival_no, row, due: Some(due), reason: None, result: None, settled }
    }

    /// Gives runs that were not made after all the first ranks, in the order they come in.
    pub fn put_first(&mut self, updates: &mut [KeyUpdate]) {
        let unrun = || |update: &&mut KeyUpdate| update.settled == Settled::Waiting;
        let count = updates.iter_mut().filter(unrun()).count();
        let start = self.take_front(count);
        for (update, rank) in updates.iter_mut().filter(unrun()).zip(start..) {
            update.row.rank = rank;
        }
    }

    /// Counts results that were kept without a look at their rows.
    pub fn succeed(&mut self, kept: usize) {
        let kept = i64::try_from(kept).expect("memory ends before the numbers do");
        self.running -= kept;
        self.done += kept;
        self.done_total += kept;
    }

    /// How many of the oldest results go, now that `brought` more are there.
    #[must_use]
    pub fn results_beyond(&self, limits: &Limits, brought: usize) -> usize {
        let beyond = whole(self.done + self.failed).saturating_sub(limits.max_results as usize);
        beyond.min(brought + TRIM_STEP)
    }

    /// Results that are gone: so many with an answer, so many without, and the highest rank among them.
    pub fn trim(&mut self, done: i64, failed: i64, up_to: Option<i64>) {
        self.done -= done;
        self.failed -= failed;
        self.dropped += (done + failed).unsigned_abs();
        self.trimmed = up_to.map_or(self.trimmed, |rank| rank + 1);
    }
}

fn ms(timestamp: Timestamp) -> i64 {
    i64::try_from(timestamp.as_ms()).unwrap_or(i64::MAX)
}
