//! Leaving the line: rows for what core decides.

use std::collections::HashMap;

use syncline_core::queue::line::{KeyUpdate, Row, RowState};
use syncline_core::queue::{Answer, Outcome};

use super::row::Header;
use super::table::{Table, Trimmed, Work};
use super::{Rules, groups};
use crate::Error;

/// Results that one transaction forgets because of their age, besides as many as come.
const FORGET_STEP: usize = 1_000;

/// Ends keys in line by outcomes that came from elsewhere; brings how many there were, and how many results were dropped for them.
pub(crate) struct Dequeue {
    pub(crate) rules: Rules,
    pub(crate) outcomes: Vec<(String, Outcome<String>)>,
}

impl Work for Dequeue {
    type Made = (usize, u64);

    async fn run(self, table: &mut Table<'_, '_>) -> Result<Self::Made, Error> {
        let mut header = table.open().await?;
        header.groups.set_pace(&header.in_force(&self.rules));
        let keys: Vec<String> = self.outcomes.iter().map(|(key, _)| key.clone()).collect();
        let mut found = table.find(&keys).await?;
        header.calls().mark(&mut found);
        let in_line = found.into_iter().filter(|row| row.at == RowState::Line);
        let mut rows: HashMap<String, Row> = in_line.map(|row| (row.key.clone(), row)).collect();
        // A key named twice has left the line by the second time, or is back in it and stays there.
        let updates: Vec<KeyUpdate> = self
            .outcomes
            .into_iter()
            .filter_map(|(key, outcome)| Some(header.line.leave(rows.remove(&key)?, outcome, None)))
            .collect();
        let left = updates.len();
        replace(table, &mut header, &self.rules, updates).await?;
        if left > 0 {
            header.changes += 1;
            table.save(&mut header).await?;
        }
        Ok((left, header.line.dropped))
    }
}

/// Writes what became of rows, and lets the oldest results go where there are too many.
pub(super) async fn replace(
    table: &mut Table<'_, '_>,
    header: &mut Header,
    rules: &Rules,
    mut updates: Vec<KeyUpdate>,
) -> Result<(), Error> {
    if updates.is_empty() {
        return Ok(());
    }
    header.line.put_first(&mut updates);
    for update in &mut updates {
        update.reason = update.reason.take().map(super::check::reason);
    }
    table.replace(&updates).await?;
    rejoin(table, header, &updates).await?;
    trim(table, header, rules, updates.len()).await
}

/// Lets the oldest results go where there are too many, now that `brought` more are there.
pub(super) async fn trim(
    table: &mut Table<'_, '_>,
    header: &mut Header,
    rules: &Rules,
    brought: usize,
) -> Result<(), Error> {
    let beyond = header.line.results_beyond(&rules.limits, brought);
    if beyond > 0 {
        let Trimmed { up_to, done, failed } = table.trim(header.line.trimmed, beyond).await?;
        header.line.trim(done, failed, up_to);
    }
    forget_old(table, header, rules, brought).await.map(drop)
}

/// Lets results go that were kept for as long as they are to be; tells how many.
pub(super) async fn forget_old(
    table: &mut Table<'_, '_>,
    header: &mut Header,
    rules: &Rules,
    brought: usize,
) -> Result<usize, Error> {
    let Some(ttl) = rules.result_ttl.filter(|_| header.line.done + header.line.failed > 0) else {
        return Ok(0);
    };
    let before = header.now_ms.saturating_sub(i64::try_from(ttl.as_millis()).unwrap_or(i64::MAX));
    let trimmed = table.trim_old(header.line.trimmed, brought + FORGET_STEP, before).await?;
    let Trimmed { up_to, done, failed } = trimmed;
    let dropped = header.line.dropped;
    header.line.trim(done, failed, up_to);
    // These are no surprise to anybody.
    header.line.dropped = dropped;
    Ok(usize::try_from(done + failed).unwrap_or(0))
}

/// Puts keys that are back in line and in no group into theirs.
async fn rejoin(table: &mut Table<'_, '_>, header: &mut Header, updates: &[KeyUpdate]) -> Result<(), Error> {
    if header.grouped_since == 0 {
        return Ok(());
    }
    let back = updates.iter().filter(|update| update.row.is_waiting());
    let mut rows: Vec<Row> = back.map(|update| update.row.clone()).collect();
    let outside: Vec<bool> = rows.iter().map(|row| row.group == 0).collect();
    groups::join(table, header, &mut rows).await?;
    let joined = rows.iter().zip(outside).filter(|(_, outside)| *outside);
    let joined: Vec<(i64, i64)> = joined.map(|(row, _)| (row.arrival_no, row.group)).collect();
    if !joined.is_empty() {
        table.set_groups(&joined).await?;
    }
    Ok(())
}

/// Lets some of the results go that were kept for as long as they are to be; brings how many, and whether there may be more.
pub(crate) struct ForgetOld(pub(crate) Rules);

impl Work for ForgetOld {
    type Made = (usize, bool);

    async fn run(self, table: &mut Table<'_, '_>) -> Result<Self::Made, Error> {
        let mut header = table.open().await?;
        let forgotten = forget_old(table, &mut header, &self.0, 0).await?;
        if forgotten > 0 {
            header.changes += 1;
            table.save(&mut header).await?;
        }
        Ok((forgotten, forgotten == FORGET_STEP))
    }
}

/// Why an answer may lead to a retry.
pub(super) fn reason(answer: &Answer<String>) -> Option<String> {
    match answer {
        Answer::Throttled { .. } => Some("too many requests".to_owned()),
        Answer::Broken { reason, .. } | Answer::Returned { reason, .. } => Some(reason.clone()),
        _ => None,
    }
}
