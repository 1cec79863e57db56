//! Bringing keys back that were given up, and forgetting keys.

use syncline_core::queue::GroupSettings;
use syncline_core::queue::line::{Row, RowState};

use super::enqueue::head;
use super::row::Header;
use super::table::{Table, Work};
use super::{List, Rules, SetPace, groups};
use crate::Error;

/// Keys that one transaction brings back, where all are to come.
const REVIVE_STEP: usize = 1_000;

/// Gives keys that are dead or failed all their attempts once more: right after the head if they came as priority, else at the tail.
pub(crate) struct Revive(pub(crate) Vec<String>);

/// The same for the oldest in one of these places; brings also whether there are more.
pub(crate) struct ReviveSome(pub(crate) RowState);

/// Forgets keys. A call under way keeps its slot until it ends.
pub(crate) struct Remove(pub(crate) Vec<String>);

/// Forgets some of the keys in one place; brings how many, and whether there are more.
pub(crate) struct Clear(pub(crate) List);

/// Another pace than the configuration's, or that again.
pub(crate) struct ChangePace {
    pub(crate) rules: Rules,
    pub(crate) pace: Option<SetPace>,
}

/// Nothing starts any more.
pub(crate) struct Pause;

impl Work for Clear {
    type Made = (usize, bool);

    async fn run(self, table: &mut Table<'_, '_>) -> Result<(usize, bool), Error> {
        let mut header = table.open().await?;
        let calls = header.calls();
        let mut rows = match self.0 {
            List::Running => {
                return Err(Error::invalid("state", "must not be running: end those key by key"));
            }
            // What runs is in line, too, and stays.
            List::Waiting => table.line(header.line.front, REVIVE_STEP + calls.len()).await?,
            List::Retrying => table.retries(REVIVE_STEP).await?.into_iter().map(|retry| retry.row).collect(),
            List::Done => table.ended(RowState::Done, REVIVE_STEP).await?,
            List::Failed => table.ended(RowState::Failed, REVIVE_STEP).await?,
            List::Dead => table.ended(RowState::Dead, REVIVE_STEP).await?,
        };
        calls.mark(&mut rows);
        rows.retain(|row| row.call.is_none());
        let more = rows.len() >= REVIVE_STEP;
        Ok((forget(table, &mut header, rows).await?, more))
    }
}

impl Work for Pause {
    type Made = ();

    async fn run(self, table: &mut Table<'_, '_>) -> Result<(), Error> {
        let mut header = table.open().await?;
        header.held = true;
        header.changes += 1;
        table.save(&mut header).await
    }
}

impl Work for ChangePace {
    type Made = ();

    async fn run(self, table: &mut Table<'_, '_>) -> Result<(), Error> {
        let mut header = table.open().await?;
        header.set_pace = self.pace.map(|pace| serde_json::to_string(&pace).expect("numbers have a JSON"));
        if header.grouped_since != 0 {
            let groups = header.in_force(&self.rules).groups.unwrap_or(GroupSettings::UNPACED);
            table.groups_paced(groups.concurrency, header.now_ms).await?;
        }
        header.changes += 1;
        table.save(&mut header).await
    }
}

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
        forget(table, &mut header, found).await
    }
}

async fn forget(table: &mut Table<'_, '_>, header: &mut Header, rows: Vec<Row>) -> Result<usize, Error> {
    header.line.remove(&rows);
    let (removed, keys) = (rows.len(), rows.into_iter().map(|row| row.key).collect::<Vec<_>>());
    if removed > 0 {
        table.delete(&keys).await?;
        header.changes += 1;
        table.save(header).await?;
    }
    Ok(removed)
}

async fn line_up(table: &mut Table<'_, '_>, header: &mut Header, given_up: Vec<Row>) -> Result<usize, Error> {
    let revived = given_up.len();
    if revived == 0 {
        return Ok(0);
    }
    let has_head = header.line.has_head() && given_up.iter().any(|row| row.priority);
    let head = head(table, header, has_head).await?;
    let mut rows = header.line.revive(given_up, head);
    groups::join(table, header, &mut rows).await?;
    table.put(&rows).await?;
    header.changes += 1;
    table.save(header).await?;
    Ok(revived)
}
