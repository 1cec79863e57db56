//! Into the line: keys that are enqueued, retries that are due, keys that are revived.

use std::collections::HashMap;

use super::super::kind::{Kind, Move, Standing};
use super::super::order::{Enqueued, Full, Limits};
use super::{Line, Row, RowState};

/// What enqueuing keys comes to.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Entered {
    /// What became of them.
    pub told: Enqueued,
    /// The rows to write, one for each key that changes.
    pub rows: Vec<Row>,
    /// Which of the keys, by their position, take over the input they came with; of a key that is named twice, the last.
    pub inputs: Vec<usize>,
}

impl Line {
    /// Whether a decision about keys of this kind needs the head: the key that nothing may be put in front of. While something runs there
    /// is none.
    #[must_use]
    pub fn needs_head(&self, kind: Kind) -> bool {
        matches!(kind, Kind::Retry | Kind::Priority) && self.has_head()
    }

    /// Whether the first in line is a head, which is to run before anything that comes.
    #[must_use]
    pub fn has_head(&self) -> bool {
        self.running == 0 && self.waiting > 0 && !self.grouped
    }

    /// Puts keys into the line, or none of them if there is no room. `found` are the rows of those that are known, `head` is the first in
    /// line where [`needs_head`](Line::needs_head) says so.
    pub fn enqueue(
        &mut self,
        limits: &Limits,
        kind: Kind,
        keys: &[String],
        found: Vec<Row>,
        head: Option<Row>,
    ) -> Result<Entered, Full> {
        let found = found.into_iter().map(|row| (row.key.clone(), row)).collect();
        let mut plan = Plan { line: self, found, head, entered: Entered::default() };
        plan.check_room(limits, kind, keys)?;
        plan.place(kind, keys);
        Ok(plan.entered)
    }

    /// Puts retries that are due right after the head. The rows to write.
    #[must_use]
    pub fn bring_back(&mut self, mut rows: Vec<Row>, head: Option<Row>) -> Vec<Row> {
        for row in &mut rows {
            self.count(row, -1);
            let arrival_no = self.take_tail();
            row.wait(0, arrival_no);
            self.count(row, 1);
        }
        self.make_room(head, &mut rows);
        rows
    }

    /// Gives keys that were given up all their attempts once more: right after the head if they came as priority, else at the tail.
    /// The rows to write.
    #[must_use]
    pub fn revive(&mut self, given_up: Vec<Row>, head: Option<Row>) -> Vec<Row> {
        let (mut express, mut rows): (Vec<Row>, Vec<Row>) =
            given_up.into_iter().partition(|row| row.priority);
        for row in express.iter_mut().chain(&mut rows) {
            self.count(row, -1);
            let tail = self.take_tail();
            row.wait(tail, tail);
            row.attempts = 0;
            self.count(row, 1);
        }
        self.make_room(head, &mut express);
        rows.append(&mut express);
        rows
    }

    /// Gives `express` the ranks right after the head, whose own goes down to make room; it is added to them then.
    fn make_room(&mut self, head: Option<Row>, express: &mut Vec<Row>) {
        if express.is_empty() {
            return;
        }
        let start = self.take_front(express.len());
        for (row, rank) in express.iter_mut().zip(start..) {
            row.rank = rank;
        }
        if let Some(mut head) = head {
            head.rank = self.take_front(1);
            express.push(head);
        }
    }
}

/// Rows to write, one for each key that changes.
struct Plan<'a> {
    line: &'a mut Line,
    found: HashMap<String, Row>,
    head: Option<Row>,
    entered: Entered,
}

impl Plan<'_> {
    fn check_room(&self, limits: &Limits, kind: Kind, keys: &[String]) -> Result<(), Full> {
        let (held, limit) = (self.line.held(), limits.max_keys);
        let comes_in = |key: &&String| {
            let standing = self.standing(self.found.get(*key));
            matches!(standing, Standing::Unknown | Standing::Settled) && kind.decide(standing) != Move::Ignore
        };
        let asked = keys.iter().filter(comes_in).count();
        if asked > 0 && held.saturating_add(asked) > limit as usize {
            return Err(Full { held, asked, limit });
        }
        Ok(())
    }

    fn place(&mut self, kind: Kind, keys: &[String]) {
        let mut told = Enqueued::default();
        let mut express: Vec<Row> = Vec::new();
        let mut taken: HashMap<&str, (Move, Option<usize>)> = HashMap::new();
        for (index, key) in keys.iter().enumerate() {
            // Named twice: the first time has put it where it should be.
            if let Some((before, input)) = taken.get_mut(key.as_str()) {
                told.again += usize::from(*before == Move::RunAgain);
                told.ignored += usize::from(*before != Move::RunAgain);
                *input = input.map(|_| index);
                continue;
            }
            let found = self.found.remove(key);
            let standing = self.standing(found.as_ref());
            let decided = kind.decide(standing);
            taken.insert(key, (decided, kind.takes_input(standing).then_some(index)));
            match decided {
                Move::Ignore => told.ignored += 1,
                Move::RunAgain => {
                    let mut row = found.expect("a running key is known");
                    row.again = true;
                    self.entered.rows.push(row);
                    told.again += 1;
                }
                Move::Append => {
                    let row = self.append(key, found);
                    self.entered.rows.push(row);
                    told.added += 1;
                }
                Move::AfterHead => {
                    if found.as_ref().is_some_and(Row::is_waiting) {
                        told.moved += 1;
                    } else {
                        told.added += 1;
                    }
                    let mut row = self.line_up(key, found);
                    row.priority |= kind == Kind::Priority;
                    express.push(row);
                }
            }
        }
        let head = self.head.take();
        self.line.make_room(head, &mut express);
        let mut inputs: Vec<usize> = taken.into_values().filter_map(|(_, input)| input).collect();
        inputs.sort_unstable();
        self.entered.rows.append(&mut express);
        (self.entered.told, self.entered.inputs) = (told, inputs);
    }

    fn standing(&self, found: Option<&Row>) -> Standing {
        let Some(row) = found else { return Standing::Unknown };
        match row.at {
            RowState::Line if row.call.is_some() => Standing::Running,
            RowState::Line if self.head.as_ref().is_some_and(|head| head.arrival_no == row.arrival_no) => {
                Standing::Head
            }
            RowState::Line => Standing::Waiting,
            RowState::Retrying => Standing::Retrying,
            RowState::Done | RowState::Failed => Standing::Settled,
            RowState::Dead => Standing::Dead,
        }
    }

    /// To the tail, as if it were new.
    fn append(&mut self, key: &str, found: Option<Row>) -> Row {
        let mut row = self.line_up(key, found);
        row.rank = row.arrival_no;
        row.start_over();
        row
    }

    /// Into the line, counted, its rank still to be given. One that waits keeps its age.
    fn line_up(&mut self, key: &str, found: Option<Row>) -> Row {
        let row = match found {
            Some(row) if row.is_waiting() => return row,
            Some(mut row) => {
                self.line.count(&row, -1);
                let arrival_no = self.line.take_tail();
                row.wait(0, arrival_no);
                row
            }
            None => Row::new(key.to_owned(), 0, self.line.take_tail()),
        };
        self.line.count(&row, 1);
        row
    }
}
