//! Who is next: by rank, but nobody is overtaken for ever.

use std::collections::HashSet;

use super::super::order::Limits;
use super::{Line, Row};

/// Whether the order by age has to be looked at, too, to choose from these, the first in line by rank. Where each has the rank of its
/// age, each is also the oldest when its turn comes.
#[must_use]
pub fn needs_ages(by_rank: &[Row]) -> bool {
    by_rank.iter().any(|row| row.rank != row.arrival_no)
}

impl Line {
    /// The next that run, of the first in line by rank and, where [`needs_ages`] says so, as many by age. After
    /// [`max_overtakes`](Limits::max_overtakes) in a row that overtook an older key, the one that has been in line longest goes next.
    #[must_use]
    pub fn next(&mut self, limits: &Limits, by_rank: Vec<Row>, by_age: Vec<Row>) -> Vec<Row> {
        let next = if needs_ages(&by_rank) {
            self.interleave(limits, by_rank, by_age)
        } else {
            if let Some(last) = by_rank.last() {
                (self.front, self.oldest) = (last.rank + 1, last.arrival_no + 1);
            }
            self.overtakes = 0;
            by_rank
        };
        let started = i64::try_from(next.len()).expect("memory ends before the numbers do");
        self.waiting -= started;
        self.running += started;
        if self.waiting == 0 {
            (self.front, self.oldest) = (self.tail, self.tail);
        }
        next
    }

    /// As many as there are in each of two orders of the same line.
    fn interleave(&mut self, limits: &Limits, by_rank: Vec<Row>, by_age: Vec<Row>) -> Vec<Row> {
        let count = by_rank.len().min(by_age.len());
        let (mut ranks, mut ages) = (by_rank.into_iter().peekable(), by_age.into_iter().peekable());
        let (mut taken, mut next) = (HashSet::with_capacity(count), Vec::with_capacity(count));
        while next.len() < count {
            while ranks.next_if(|row| taken.contains(&row.arrival_no)).is_some() {}
            while ages.next_if(|row| taken.contains(&row.arrival_no)).is_some() {}
            let (Some(first), Some(oldest)) = (ranks.peek(), ages.peek()) else { break };
            let is_oldest = first.arrival_no == oldest.arrival_no;
            let row = if is_oldest || self.overtakes >= i64::from(limits.max_overtakes) {
                self.overtakes = 0;
                self.oldest = oldest.arrival_no + 1;
                ages.next()
            } else {
                self.overtakes += 1;
                self.front = first.rank + 1;
                ranks.next()
            };
            let row = row.expect("it was just looked at");
            taken.insert(row.arrival_no);
            next.push(row);
        }
        next
    }
}
