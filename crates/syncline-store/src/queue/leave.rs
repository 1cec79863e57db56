//! Leaving the line: what outcomes make of rows, and how old results go.

use std::collections::HashMap;

use syncline_core::queue::{Answer, Limits, Outcome, Settled};

use super::row::{Header, KeyUpdate, Row, RowState, ms};
use super::table::{Table, Work};
use crate::Error;

/// Results beyond the limit that one transaction deletes, besides as many as it brings.
const TRIM_STEP: usize = 1_000;

/// Ends keys in line by outcomes that came from elsewhere; brings how many there were, and how many results were dropped for them.
pub(crate) struct Dequeue {
    pub(crate) limits: Limits,
    pub(crate) outcomes: Vec<(String, Outcome<String>)>,
}

impl Work for Dequeue {
    type Made = (usize, u64);

    async fn run(self, table: &mut Table<'_, '_>) -> Result<Self::Made, Error> {
        let mut header = table.open().await?;
        let keys: Vec<String> = self.outcomes.iter().map(|(key, _)| key.clone()).collect();
        let mut found = table.find(&keys).await?;
        header.calls().mark(&mut found);
        let in_line = found.into_iter().filter(|row| row.at == RowState::Line);
        let mut rows: HashMap<String, Row> = in_line.map(|row| (row.key.clone(), row)).collect();
        // A key named twice has left the line by the second time, or is back in it and stays there.
        let updates: Vec<KeyUpdate> = self
            .outcomes
            .into_iter()
            .filter_map(|(key, outcome)| Some(leave(&mut header, rows.remove(&key)?, outcome, None)))
            .collect();
        let left = updates.len();
        replace(table, &mut header, &self.limits, updates).await?;
        if left > 0 {
            header.changes += 1;
            table.save(&header).await?;
        }
        Ok((left, header.dropped))
    }
}

/// What `outcome` makes of a row in line. `reason` says why a retry is one.
pub(super) fn leave(
    header: &mut Header,
    mut row: Row,
    outcome: Outcome<String>,
    reason: Option<String>,
) -> KeyUpdate {
    let (arrival_no, again) = (row.arrival_no, row.again);
    header.count(&row, -1);
    if matches!(outcome, Outcome::Excused { .. }) {
        row.attempts = (row.attempts - 1).max(0);
    }
    let (mut due, mut kept, mut result) = (None, None, None);
    let (at, settled) = match outcome {
        // These start another run after `again` was asked for, which is the one more run.
        Outcome::Waiting => {
            row.attempts = (row.attempts - 1).max(0);
            row.wait(0, header.take_tail());
            (RowState::Line, Settled::Waiting)
        }
        Outcome::Retrying { due: at } | Outcome::Excused { due: at } => {
            (due, kept) = (Some(ms(at)), reason);
            header.next_due = Some(header.next_due.map_or(ms(at), |next| next.min(ms(at))));
            (RowState::Retrying, Settled::Retrying { due: at })
        }
        _ if again => {
            let tail = header.take_tail();
            row.wait(tail, tail);
            row.start_over();
            (RowState::Line, Settled::Again)
        }
        Outcome::Done(text) => {
            result = Some(text);
            header.done_total += 1;
            (RowState::Done, Settled::Done)
        }
        Outcome::Failed(why) => {
            kept = Some(why);
            header.failed_total += 1;
            (RowState::Failed, Settled::Failed)
        }
        Outcome::Dead(why) => {
            kept = Some(why);
            (RowState::Dead, Settled::Dead)
        }
    };
    if at != RowState::Line {
        (row.at, row.rank, row.call, row.again) = (at, header.take_tail(), None, false);
    }
    header.count(&row, 1);
    KeyUpdate { arrival_no, row, due, reason: kept.map(super::check::reason), result, settled }
}

/// Writes what became of rows, and lets the oldest results go where there are too many.
pub(super) async fn replace(
    table: &mut Table<'_, '_>,
    header: &mut Header,
    limits: &Limits,
    mut updates: Vec<KeyUpdate>,
) -> Result<(), Error> {
    if updates.is_empty() {
        return Ok(());
    }
    // First in line again, in the order they come in.
    let first = || updates.iter().filter(|update| update.settled == Settled::Waiting).count();
    let start = header.take_front(first());
    let unrun = updates.iter_mut().filter(|update| update.settled == Settled::Waiting);
    for (update, rank) in unrun.zip(start..) {
        update.row.rank = rank;
    }
    table.replace(&updates).await?;
    trim(table, header, limits, updates.len()).await
}

/// Lets the oldest results go where there are too many, now that `brought` more are there.
pub(super) async fn trim(
    table: &mut Table<'_, '_>,
    header: &mut Header,
    limits: &Limits,
    brought: usize,
) -> Result<(), Error> {
    let beyond =
        usize::try_from(header.done + header.failed).unwrap_or(0).saturating_sub(limits.max_results as usize);
    if beyond > 0 {
        let trimmed = table.trim(header.trimmed, beyond.min(brought + TRIM_STEP)).await?;
        header.done -= trimmed.done;
        header.failed -= trimmed.failed;
        header.dropped += (trimmed.done + trimmed.failed).unsigned_abs();
        header.trimmed = trimmed.up_to.map_or(header.trimmed, |rank| rank + 1);
    }
    Ok(())
}

/// Why an answer may lead to a retry.
pub(super) fn reason(answer: &Answer<String>) -> Option<String> {
    match answer {
        Answer::Throttled { .. } => Some("too many requests".to_owned()),
        Answer::Broken { reason, .. } => Some(reason.clone()),
        _ => None,
    }
}
