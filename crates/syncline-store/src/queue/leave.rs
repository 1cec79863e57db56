//! Leaving the line: rows for what core decides.

use std::collections::HashMap;

use syncline_core::queue::line::{KeyUpdate, Row, RowState};
use syncline_core::queue::{Answer, Limits, Outcome};

use super::row::Header;
use super::table::{Table, Trimmed, Work};
use crate::Error;

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
            .filter_map(|(key, outcome)| Some(header.line.leave(rows.remove(&key)?, outcome, None)))
            .collect();
        let left = updates.len();
        replace(table, &mut header, &self.limits, updates).await?;
        if left > 0 {
            header.changes += 1;
            table.save(&header).await?;
        }
        Ok((left, header.line.dropped))
    }
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
    header.line.put_first(&mut updates);
    for update in &mut updates {
        update.reason = update.reason.take().map(super::check::reason);
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
    let beyond = header.line.results_beyond(limits, brought);
    if beyond > 0 {
        let Trimmed { up_to, done, failed } = table.trim(header.line.trimmed, beyond).await?;
        header.line.trim(done, failed, up_to);
    }
    Ok(())
}

/// Why an answer may lead to a retry.
pub(super) fn reason(answer: &Answer<String>) -> Option<String> {
    match answer {
        Answer::Throttled { .. } => Some("too many requests".to_owned()),
        Answer::Broken { reason, .. } | Answer::Returned { reason, .. } => Some(reason.clone()),
        _ => None,
    }
}
