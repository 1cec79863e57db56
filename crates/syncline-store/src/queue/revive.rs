//! Bringing keys back that were given up, and forgetting keys.

use super::enqueue::make_room;
use super::row::{Header, Row, RowState};
use super::table::{Table, Work};
use crate::Error;

/// Keys that one transaction brings back, where all are to come.
const REVIVE_STEP: usize = 1_000;

/// Gives keys that are dead or failed all their attempts once more: right after the head if they came as priority, else at the tail.
pub(crate) struct Revive(pub(crate) Vec<String>);

/// The same for the oldest in one of these places; brings also whether there are more.
pub(crate) struct ReviveSome(pub(crate) RowState);

/// Forgets keys. A call under way keeps its slot until it ends.
pub(crate) struct Remove(pub(crate) Vec<String>);

impl Work for Revive {
    type Made = usize;

    async fn run(self, table: &mut Table<'_, '_>) -> Result<usize, Error> {
        let mut header = table.open().await?;
        let mut given_up = table.find(&self.0).await?;
        given_up.retain(|row| matches!(row.at, RowState::Dead | RowState::Failed));
        given_up.sort_by_key(|row| row.rank);
        line_up(table, &mut header, given_up).await
    }
}

impl Work for ReviveSome {
    type Made = (usize, bool);

    async fn run(self, table: &mut Table<'_, '_>) -> Result<(usize, bool), Error> {
        let mut header = table.open().await?;
        let given_up = table.ended(self.0, REVIVE_STEP).await?;
        let revived = line_up(table, &mut header, given_up).await?;
        Ok((revived, revived == REVIVE_STEP))
    }
}

impl Work for Remove {
    type Made = usize;

    async fn run(self, table: &mut Table<'_, '_>) -> Result<usize, Error> {
        let mut header = table.open().await?;
        let mut found = table.find(&self.0).await?;
        header.calls().mark(&mut found);
        for row in &found {
            header.count(row, -1);
        }
        let (removed, keys) = (found.len(), found.into_iter().map(|row| row.key).collect::<Vec<_>>());
        if removed > 0 {
            table.delete(&keys).await?;
            header.changes += 1;
            table.save(&header).await?;
        }
        Ok(removed)
    }
}

async fn line_up(table: &mut Table<'_, '_>, header: &mut Header, given_up: Vec<Row>) -> Result<usize, Error> {
    let revived = given_up.len();
    if revived == 0 {
        return Ok(0);
    }
    let (mut express, mut rows): (Vec<Row>, Vec<Row>) = given_up.into_iter().partition(|row| row.priority);
    let head = if express.is_empty() || header.running > 0 || header.waiting == 0 {
        None
    } else {
        table.line(header.front, 1).await?.into_iter().next()
    };
    for row in express.iter_mut().chain(&mut rows) {
        header.count(row, -1);
        let tail = header.take_tail();
        row.wait(tail, tail);
        row.attempts = 0;
        header.count(row, 1);
    }
    make_room(header, head, &mut express);
    rows.append(&mut express);
    table.put(&rows).await?;
    header.changes += 1;
    table.save(header).await?;
    Ok(revived)
}
