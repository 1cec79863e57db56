//! Who is next: the rows that core chooses from.

use std::collections::HashSet;

use syncline_core::queue::Limits;
use syncline_core::queue::line::{Row, needs_ages};

use super::row::Header;
use super::table::Table;
use crate::Error;

/// The next `count` that wait, which must be that many; `running` are the ages of the others in line.
pub(super) async fn next(
    table: &mut Table<'_, '_>,
    header: &mut Header,
    limits: &Limits,
    running: &HashSet<i64>,
    count: usize,
) -> Result<Vec<Row>, Error> {
    let mut by_rank = table.line(header.line.front, count).await?;
    if !all_wait(&mut by_rank, running) {
        // Those that run are behind the front only where others overtook.
        by_rank = table.line(header.line.front, count + running.len()).await?;
        all_wait(&mut by_rank, running);
        by_rank.truncate(count);
    }
    let mut by_age = Vec::new();
    if needs_ages(&by_rank) {
        by_age = table.ages(header.line.oldest, header.line.tail, count + running.len()).await?;
        all_wait(&mut by_age, running);
        by_age.truncate(count);
    }
    Ok(header.line.next(limits, by_rank, by_age))
}

/// Leaves out what runs; tells whether nothing did.
fn all_wait(rows: &mut Vec<Row>, running: &HashSet<i64>) -> bool {
    let before = rows.len();
    rows.retain(|row| !running.contains(&row.arrival_no));
    rows.len() == before
}
