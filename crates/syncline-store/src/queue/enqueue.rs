//! Putting keys into the line: what [`Kind::decide`] says, as rows.

use std::collections::HashMap;

use syncline_core::queue::{Enqueued, Full, Kind, Limits, Move, Standing};

use super::row::{Header, Row, RowState};
use super::table::{Table, Work};
use crate::Error;

/// Puts keys into the line, or none of them if there is no room.
pub(crate) struct Enqueue {
    pub(crate) limits: Limits,
    pub(crate) kind: Kind,
    pub(crate) keys: Vec<String>,
}

impl Work for Enqueue {
    type Made = Result<Enqueued, Full>;

    async fn run(self, table: &mut Table<'_, '_>) -> Result<Self::Made, Error> {
        let Self { limits, kind, keys } = self;
        let mut header = table.open().await?;
        let mut found = table.find(&keys).await?;
        header.calls().mark(&mut found);
        let head = head(table, &header, kind).await?;
        let mut plan = Plan::new(&mut header, found, head);
        if let Err(full) = plan.check_room(&limits, kind, &keys) {
            return Ok(Err(full));
        }
        let told = plan.place(kind, &keys);
        let rows = plan.rows;
        if !rows.is_empty() {
            table.put(&rows).await?;
            header.changes += 1;
            table.save(&header).await?;
        }
        Ok(Ok(told))
    }
}

/// The key that nothing may be put in front of, where `kind` could want to. While something runs there is none.
async fn head(table: &mut Table<'_, '_>, header: &Header, kind: Kind) -> Result<Option<Row>, Error> {
    let matters = matches!(kind, Kind::Retry | Kind::Priority);
    if !matters || header.running > 0 || header.waiting == 0 {
        return Ok(None);
    }
    Ok(table.line(header.front, 1).await?.into_iter().next())
}

/// Rows to write, one for each key that changes.
struct Plan<'a> {
    header: &'a mut Header,
    found: HashMap<String, Row>,
    head: Option<Row>,
    rows: Vec<Row>,
}

impl<'a> Plan<'a> {
    fn new(header: &'a mut Header, found: Vec<Row>, head: Option<Row>) -> Self {
        let found = found.into_iter().map(|row| (row.key.clone(), row)).collect();
        Self { header, found, head, rows: Vec::new() }
    }

    fn check_room(&self, limits: &Limits, kind: Kind, keys: &[String]) -> Result<(), Full> {
        let (held, limit) = (self.header.held(), limits.max_keys);
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

    fn place(&mut self, kind: Kind, keys: &[String]) -> Enqueued {
        let mut told = Enqueued::default();
        let mut express: Vec<Row> = Vec::new();
        let mut taken: HashMap<&str, Move> = HashMap::new();
        for key in keys {
            // Named twice: the first time has put it where it should be.
            if let Some(before) = taken.get(key.as_str()) {
                told.again += usize::from(*before == Move::RunAgain);
                told.ignored += usize::from(*before != Move::RunAgain);
                continue;
            }
            let found = self.found.remove(key);
            let decided = kind.decide(self.standing(found.as_ref()));
            taken.insert(key, decided);
            match decided {
                Move::Ignore => told.ignored += 1,
                Move::RunAgain => {
                    let mut row = found.expect("a running key is known");
                    row.again = true;
                    self.rows.push(row);
                    told.again += 1;
                }
                Move::Append => {
                    let row = self.append(key, found);
                    self.rows.push(row);
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
        make_room(self.header, self.head.take(), &mut express);
        self.rows.append(&mut express);
        told
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
                self.header.count(&row, -1);
                row.wait(0, self.header.take_tail());
                row
            }
            None => Row::new(key.to_owned(), 0, self.header.take_tail()),
        };
        self.header.count(&row, 1);
        row
    }
}

/// Gives `express` the ranks right after the head, whose own goes down to make room; it is added to them then.
pub(super) fn make_room(header: &mut Header, head: Option<Row>, express: &mut Vec<Row>) {
    if express.is_empty() {
        return;
    }
    let start = header.take_front(express.len());
    for (row, rank) in express.iter_mut().zip(start..) {
        row.rank = rank;
    }
    if let Some(mut head) = head {
        head.rank = header.take_front(1);
        express.push(head);
    }
}
