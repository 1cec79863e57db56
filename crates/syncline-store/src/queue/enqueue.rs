//! Putting keys into the line: what core decides, as rows.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use syncline_core::queue::line::{Entered, KeyUpdate, Row, RowState};
use syncline_core::queue::{Enqueued, Full, Kind};

use super::row::Header;
use super::table::{Table, Work};
use super::{NewTask, Rules, groups, leave};
use crate::Error;

/// Puts keys into the line, or none of them if there is no room.
pub(crate) struct Enqueue {
    pub(crate) rules: Rules,
    pub(crate) kind: Kind,
    pub(crate) tasks: Vec<NewTask>,
}

impl Work for Enqueue {
    type Made = Result<Enqueued, Full>;

    async fn run(self, table: &mut Table<'_, '_>) -> Result<Self::Made, Error> {
        let Self { rules, kind, tasks } = self;
        let keys: Vec<String> = tasks.iter().map(|task| task.key.clone()).collect();
        let mut header = table.open().await?;
        let in_force = header.in_force(&rules);
        header.groups.set_pace(&in_force);
        if in_force.groups.is_some() || tasks.iter().any(|task| task.group.is_some()) {
            groups::begin(table, &mut header);
        }
        // A result whose time is over is none any more.
        let forgotten = leave::forget_old(table, &mut header, &rules, tasks.len()).await?;
        let mut found = table.find(&keys).await?;
        header.calls().mark(&mut found);
        let head = head(table, &header, header.line.needs_head(kind)).await?;
        let has_run_ahead = |row: &&Row| matches!(row.at, RowState::Line | RowState::Retrying);
        let known: HashSet<String> = found.iter().filter(has_run_ahead).map(|row| row.key.clone()).collect();
        let Entered { told, mut rows, inputs } =
            match header.line.enqueue(&rules.limits, kind, &keys, found, head) {
                Ok(entered) => entered,
                Err(full) => return Ok(Err(full)),
            };
        if !rows.is_empty() {
            give_groups(&header, &mut rows, &tasks);
            groups::join(table, &mut header, &mut rows).await?;
            table.put(&rows).await?;
        }
        let carried = carry(table, &mut header, inputs.into_iter().map(|index| &tasks[index])).await?;
        delay(table, &mut header, rows, &tasks, &known).await?;
        if told.ignored < keys.len() || carried || forgotten > 0 {
            header.changes += 1;
            table.save(&mut header).await?;
        }
        Ok(Ok(told))
    }
}

/// Says which groups keys that are in none yet are to be in: the newest counts.
fn give_groups(header: &Header, rows: &mut [Row], tasks: &[NewTask]) {
    if header.grouped_since == 0 {
        return;
    }
    let given: HashMap<&str, &String> =
        tasks.iter().filter_map(|task| Some((task.key.as_str(), task.group.as_ref()?))).collect();
    for row in rows.iter_mut().filter(|row| row.group == 0 && row.is_waiting()) {
        if let Some(name) = given.get(row.key.as_str()) {
            row.group_name = Some((*name).clone());
        }
    }
}

/// Writes what keys carry; tells whether there was anything.
async fn carry(
    table: &mut Table<'_, '_>,
    header: &mut Header,
    tasks: impl Iterator<Item = &NewTask>,
) -> Result<bool, Error> {
    let now_ms = header.now_ms;
    let details: Vec<_> = tasks
        .filter(|task| task.input.is_some() || task.expires_in.is_some())
        .map(|task| {
            (task.key.as_str(), task.input.as_deref(), task.expires_in.map(|left| after(now_ms, left)))
        })
        .collect();
    if details.is_empty() {
        return Ok(false);
    }
    header.carries = true;
    table.set_details(&details).await?;
    Ok(true)
}

/// Takes keys that are to wait for a time out of the line until then. One that was in line already stays there.
async fn delay(
    table: &mut Table<'_, '_>,
    header: &mut Header,
    rows: Vec<Row>,
    tasks: &[NewTask],
    known: &HashSet<String>,
) -> Result<(), Error> {
    let delayed = tasks.iter().filter(|task| !known.contains(&task.key));
    let dues: HashMap<&str, i64> = delayed
        .filter_map(|task| Some((task.key.as_str(), after(header.now_ms, task.delay?))))
        .filter(|(_, due)| *due > header.now_ms)
        .collect();
    if dues.is_empty() {
        return Ok(());
    }
    let rows = rows.into_iter().filter_map(|row| Some((*dues.get(row.key.as_str())?, row)));
    let updates: Vec<KeyUpdate> = rows.map(|(due, row)| header.line.delay(row, due)).collect();
    table.replace(&updates).await
}

fn after(now_ms: i64, span: Duration) -> i64 {
    now_ms.saturating_add(i64::try_from(span.as_millis()).unwrap_or(i64::MAX))
}

/// The first in line, where it is wanted.
pub(super) async fn head(
    table: &mut Table<'_, '_>,
    header: &Header,
    is_wanted: bool,
) -> Result<Option<Row>, Error> {
    if !is_wanted {
        return Ok(None);
    }
    Ok(table.line(header.line.front, 1).await?.into_iter().next())
}
