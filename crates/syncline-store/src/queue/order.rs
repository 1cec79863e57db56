//! Who is next: by rank, but nobody is overtaken for ever.

use std::collections::HashSet;

use syncline_core::queue::Limits;

use super::row::{Header, Row};
use super::table::Table;
use crate::Error;

/// The next `count` that wait, which must be that many; `running` are the ages of the others in line. After [`max_overtakes`](Limits::max_overtakes) in a row that
/// overtook an older key, the one that has been in line longest goes next.
pub(super) async fn next(
    table: &mut Table<'_, '_>,
    header: &mut Header,
    limits: &Limits,
    running: &HashSet<i64>,
    count: usize,
) -> Result<Vec<Row>, Error> {
    let mut by_rank = table.line(header.front, count).await?;
    if !all_wait(&mut by_rank, running) {
        // Those that run are behind the front only where others overtook.
        by_rank = table.line(header.front, count + running.len()).await?;
        all_wait(&mut by_rank, running);
        by_rank.truncate(count);
    }
    // Each of these is also the oldest when its turn comes, see `row`.
    if by_rank.iter().all(|row| row.rank == row.arrival_no) {
        if let Some(last) = by_rank.last() {
            (header.front, header.oldest) = (last.rank + 1, last.arrival_no + 1);
        }
        header.overtakes = 0;
        return Ok(by_rank);
    }
    let mut by_age = table.ages(header.oldest, header.tail, count + running.len()).await?;
    all_wait(&mut by_age, running);
    by_age.truncate(count);
    Ok(interleave(header, limits, by_rank, by_age))
}

/// Leaves out what runs; tells whether nothing did.
fn all_wait(rows: &mut Vec<Row>, running: &HashSet<i64>) -> bool {
    let before = rows.len();
    rows.retain(|row| !running.contains(&row.arrival_no));
    rows.len() == before
}

/// As many as there are in each of two orders of the same line.
fn interleave(header: &mut Header, limits: &Limits, by_rank: Vec<Row>, by_age: Vec<Row>) -> Vec<Row> {
    let count = by_rank.len().min(by_age.len());
    let (mut ranks, mut ages) = (by_rank.into_iter().peekable(), by_age.into_iter().peekable());
    let (mut taken, mut next) = (HashSet::with_capacity(count), Vec::with_capacity(count));
    while next.len() < count {
        while ranks.next_if(|row| taken.contains(&row.arrival_no)).is_some() {}
        while ages.next_if(|row| taken.contains(&row.arrival_no)).is_some() {}
        let (Some(first), Some(oldest)) = (ranks.peek(), ages.peek()) else { break };
        let row =
            if first.arrival_no == oldest.arrival_no || header.overtakes >= i64::from(limits.max_overtakes) {
                header.overtakes = 0;
                header.oldest = oldest.arrival_no + 1;
                ages.next()
            } else {
                header.overtakes += 1;
                header.front = first.rank + 1;
                ranks.next()
            };
        let row = row.expect("it was just looked at");
        taken.insert(row.arrival_no);
        next.push(row);
    }
    next
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(rank: i64, arrival_no: i64) -> Row {
        Row::new(format!("{rank}"), rank, arrival_no)
    }

    #[test]
    fn qu_25_the_oldest_goes_after_so_many_that_overtook_it() {
        let rows = || (0..4).map(|n| row(n - 4, 10 + n)).chain([row(1, 1), row(2, 2)]);
        let by_rank: Vec<Row> = rows().collect();
        let mut by_age: Vec<Row> = rows().collect();
        by_age.sort_by_key(|row| row.arrival_no);
        let limits = Limits { max_overtakes: 2, ..Limits::default() };
        let mut header = Header { front: -4, tail: 20, ..Header::empty() };
        let order = interleave(&mut header, &limits, by_rank, by_age);
        let keys: Vec<&str> = order.iter().map(|row| row.key.as_str()).collect();
        assert_eq!(keys, ["-4", "-3", "1", "-2", "-1", "2"]);
        assert_eq!((header.front, header.oldest, header.overtakes), (0, 3, 0));
    }
}
