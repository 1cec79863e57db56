//! Shared state on every engine. Its statements are in `sql/state*.sql`; how other nodes hear of a change is the engine's
//! ([`ChangeNotices`]).

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use syncline_core::state::{Change, Kept, ServerWrite, Space, Stamp, Start, forgotten_ranges};
use syncline_core::time::Timestamp;
use tokio::sync::broadcast;

use super::space_log::{self, EntityRow, Header, Merged, NumberedRow, Row, Written};
use super::{
    Asked, Batch, Condition, Entity, EntityPage, Listed, Page, Pushed, ROOM_STEP, SPACES_MAX, SpaceChanged,
    States, Wrote, entities,
};
use crate::Error;
use crate::database::{Database, Transaction, shared_statements, statements, values};
use crate::state;

shared_statements!("state":
    OPEN, COUNT_SPACES, SPACE, NUMBER, KEEP_SPACE, RESET, MEASURE, LIST, REMOVE, FORGET_UNUSED, WEIGH_IDS, ENTITIES);
statements!("state": LOCK, KNOWN, WRITE, WEIGH, PAGE, REMOVED, OLDEST_REMOVED, FORGET_ALL);

/// How those who listen hear of changes, here and on other nodes.
pub(crate) trait ChangeNotices: fmt::Debug + Send + Sync {
    /// Tells of a change that was committed.
    fn send(&self, space: &str, number: u64);

    /// Hears of changes from this moment on.
    fn listen(&self) -> broadcast::Receiver<SpaceChanged>;
}

/// The state port.
#[derive(Debug)]
pub(crate) struct Port {
    database: Database,
    notices: Arc<dyn ChangeNotices>,
}

impl Port {
    pub(crate) fn new(database: Database, notices: Arc<dyn ChangeNotices>) -> Self {
        Self { database, notices }
    }

    pub(super) fn database(&self) -> &Database {
        &self.database
    }

    /// Tells those who listen of what a batch brought.
    pub(super) fn tell(&self, space: &Space, pushed: &Pushed) {
        if let Pushed::Taken { from, cursor, .. } = pushed
            && cursor > from
        {
            self.notices.send(space.as_str(), *cursor);
        }
    }
}

#[async_trait]
impl States for Port {
    async fn pull(&self, space: &Space, asked: &Asked) -> Result<Page, Error> {
        let (name, asked) = (space.as_str().to_owned(), asked.clone());
        self.database.read(move |transaction| Box::pin(pull(transaction, name, asked))).await
    }

    async fn push(&self, space: &Space, batch: Batch) -> Result<Pushed, Error> {
        state::check_batch(&batch)?;
        let name = space.as_str().to_owned();
        let pushed = self
            .database
            .write(move |transaction| {
                Box::pin(async move {
                    let pushed = push(transaction, &name, batch).await?;
                    // A space that has no room for it, or was made by somebody else at this moment, stays as it is.
                    if pushed.is_none() {
                        transaction.undo();
                    }
                    Ok(pushed)
                })
            })
            .await?;
        let Some(pushed) = pushed else { return Ok(Pushed::Full) };
        self.tell(space, &pushed);
        Ok(pushed)
    }

    async fn entity(&self, space: &Space, id: &str) -> Result<Option<Entity>, Error> {
        let (name, id) = (space.as_str().to_owned(), id.to_owned());
        self.database.read(move |transaction| Box::pin(entities::one(transaction, name, id))).await
    }

    async fn entities(&self, space: &Space, after: &str, limit: usize) -> Result<EntityPage, Error> {
        let (name, after, limit) = (space.as_str().to_owned(), after.to_owned(), state::check_list(limit)?);
        self.database.read(move |transaction| Box::pin(entities::page(transaction, name, after, limit))).await
    }

    async fn write(
        &self,
        space: &Space,
        id: &str,
        write: ServerWrite,
        condition: Condition,
    ) -> Result<Wrote, Error> {
        entities::write(self, space, id, &write, &condition).await
    }

    async fn number(&self, space: &Space) -> Result<u64, Error> {
        let number: Option<(i64,)> = self.database.query_first(NUMBER, values![space.as_str()]).await?;
        Ok(number.map_or(0, |(number,)| number.unsigned_abs()))
    }

    async fn list(&self, after: &str, limit: usize) -> Result<Vec<Listed>, Error> {
        let rows = self.database.query(LIST, values![after, state::check_list(limit)?]).await?;
        Ok(rows.into_iter().map(space_log::listed).collect())
    }

    async fn remove(&self, space: &Space) -> Result<bool, Error> {
        Ok(self.database.execute(REMOVE, values![space.as_str()]).await? > 0)
    }

    async fn forget(&self, limit: usize) -> Result<u64, Error> {
        self.database.execute(FORGET_UNUSED, values![]).await?;
        let (mut left, mut forgotten) = (state::check_forget(limit)?, 0);
        while left > 0 {
            let step =
                self.database.write(move |transaction| Box::pin(forget_some(transaction, left))).await?;
            if step == 0 {
                break;
            }
            (left, forgotten) = (left - step, forgotten + step);
        }
        Ok(forgotten.unsigned_abs())
    }

    fn listen(&self) -> broadcast::Receiver<SpaceChanged> {
        self.notices.listen()
    }
}

pub(super) async fn now(transaction: &mut Transaction<'_>) -> Result<Timestamp, Error> {
    Ok(Timestamp::from_ms(transaction.now_ms().await?.unsigned_abs()))
}

/// A page, from statements that do not see one moment. A removal that is forgotten while the rows are read is missing among them, and
/// the cursor passes it; so the header is looked at again, and the device is told to load everything where that happened.
pub(crate) async fn pull(
    transaction: &mut Transaction<'_>,
    name: String,
    asked: Asked,
) -> Result<Page, Error> {
    let mut header = read_header(transaction, &name).await?;
    loop {
        let start = header.start(&asked);
        let after = if let Start::After(after) = start { after } else { 0 };
        let from = i64::try_from(after).unwrap_or(i64::MAX);
        let weigh = values![&name, from, header.last, space_log::WEIGHED_MAX];
        let (last, more) = space_log::cut(&transaction.query(WEIGH, &weigh).await?);
        let mut changes: Vec<Change> = header.floor_after(after).into_iter().collect();
        if let Some(last) = last {
            let rows: Vec<EntityRow> = transaction.query(PAGE, &values![&name, from, last]).await?;
            for row in rows {
                changes.push(space_log::change(row)?);
            }
        }
        let cursor = last.filter(|_| more).unwrap_or(header.last).unsigned_abs();
        let news = header.last > from;
        let now_header = if news { read_header(transaction, &name).await? } else { header.clone() };
        if now_header.start(&asked) == start {
            let now = now(transaction).await?;
            return Ok(Page { epoch: header.epoch, start, cursor, more, now, changes });
        }
        header = now_header;
    }
}

pub(super) async fn read_header(transaction: &mut Transaction<'_>, name: &str) -> Result<Header, Error> {
    let row: Option<Row> = transaction.query_first(SPACE, &values![name]).await?;
    Ok(row.map_or_else(Header::none, Header::read))
}

/// What a batch came to; `None` where nothing of it may be kept, because there is no room.
pub(super) async fn push(
    transaction: &mut Transaction<'_>,
    name: &str,
    mut batch: Batch,
) -> Result<Option<Pushed>, Error> {
    let row: Option<Row> = transaction.query_first(LOCK, &values![name]).await?;
    let asked = Asked { after: batch.after, epoch: Some(batch.epoch), paging: false };
    let mut header = row.map_or_else(Header::none, Header::read);
    if !matches!(header.start(&asked), Start::After(_)) {
        return Ok(Some(Pushed::Reload));
    }
    let now = now(transaction).await?;
    let ahead = space_log::count_ahead(&mut batch.changes, now);
    let from = header.last.unsigned_abs();
    let reset = header.reset(&batch.changes);
    if reset {
        let floor = values![name, header.floor.text()];
        transaction.execute(RESET, &floor).await?;
        let measured: Option<(i64, i64)> = transaction.query_first(MEASURE, &floor).await?;
        (header.entities, header.bytes) = measured.unwrap_or_default();
    }
    let mut known = known(transaction, name, &batch.changes).await?;
    if !reset && header.is_short_of_room(&known, &batch.changes) {
        make_room(transaction, name, &mut header, batch.changes.len()).await?;
        if !matches!(header.start(&asked), Start::After(_)) {
            return Ok(Some(Pushed::Reload));
        }
        known = self::known(transaction, name, &batch.changes).await?;
    }
    let Some(Merged { written, lost }) = header.merge(known, &batch.changes, batch.after) else {
        return Ok(None);
    };
    let cursor = header.last.unsigned_abs();
    if cursor > from {
        if header.is_new() && !open(transaction, name, &mut header).await? {
            // Somebody else was first, and this device has to ask what came of it. A space without a row had none to reset.
            return Ok(Some(Pushed::Reload));
        }
        transaction.execute(WRITE, &values![name, rows_as_json(&written)]).await?;
        keep(transaction, name, &header).await?;
    }
    Ok(Some(Pushed::Taken { epoch: header.epoch, from, cursor, ahead, lost, now }))
}

/// What is known of the entities of a batch, by id with their numbers.
pub(super) async fn known(
    transaction: &mut Transaction<'_>,
    name: &str,
    changes: &[Change],
) -> Result<HashMap<String, (Kept, i64)>, Error> {
    let ids: Vec<String> = changes.iter().map(|change| change.id().to_owned()).collect();
    let rows: Vec<NumberedRow> = transaction.query(KNOWN, &values![name, ids]).await?;
    rows.into_iter().map(space_log::numbered).collect()
}

fn rows_as_json(written: &[Written]) -> String {
    serde_json::to_string(written).expect("numbers and text have a JSON")
}

/// Gives a space its row and its epoch; `false` if somebody else was first.
async fn open(transaction: &mut Transaction<'_>, name: &str, header: &mut Header) -> Result<bool, Error> {
    let spaces: i64 = transaction.value(COUNT_SPACES, &[]).await?;
    if spaces >= SPACES_MAX {
        return Err(state::too_many_spaces());
    }
    header.epoch = space_log::fresh_epoch();
    Ok(transaction.execute(OPEN, &values![name, &header.epoch, Stamp::ZERO.text()]).await? > 0)
}

async fn keep(transaction: &mut Transaction<'_>, name: &str, header: &Header) -> Result<(), Error> {
    let Header { last, forgotten, floor, floor_number, entities, bytes, .. } = header;
    let values = values![name, *last, *forgotten, floor.text(), *floor_number, *entities, *bytes];
    transaction.execute(KEEP_SPACE, &values).await.map(drop)
}

/// Forgets the oldest removals of a space, so that a batch of this size may fit.
async fn make_room(
    transaction: &mut Transaction<'_>,
    name: &str,
    header: &mut Header,
    batch: usize,
) -> Result<(), Error> {
    let wanted = i64::try_from(batch).unwrap_or(i64::MAX).max(ROOM_STEP);
    let oldest = transaction.column(OLDEST_REMOVED, &values![name, wanted]).await?;
    forget_all(transaction, name, header, oldest).await.map(drop)
}

/// Forgets removals of the space that has the oldest; how many.
async fn forget_some(transaction: &mut Transaction<'_>, limit: i64) -> Result<i64, Error> {
    let now = now(transaction).await?;
    let mut removed: Vec<(String, i64)> = Vec::new();
    for (from, to) in forgotten_ranges(now) {
        if removed.is_empty() {
            removed = transaction.query(REMOVED, &values![from.text(), to.text(), limit]).await?;
        }
    }
    let Some(space) = removed.first().map(|(space, _)| space.clone()) else { return Ok(0) };
    let row: Option<Row> = transaction.query_first(LOCK, &values![&space]).await?;
    let Some(mut header) = row.map(Header::read) else { return Ok(0) };
    let numbers = removed.into_iter().filter(|(of, _)| *of == space).map(|(_, number)| number).collect();
    let forgotten = forget_all(transaction, &space, &mut header, numbers).await?;
    Ok(i64::try_from(forgotten).unwrap_or(i64::MAX))
}

/// Forgets these removals; how many were still there.
async fn forget_all(
    transaction: &mut Transaction<'_>,
    space: &str,
    header: &mut Header,
    numbers: Vec<i64>,
) -> Result<usize, Error> {
    let forgotten: Vec<(i64, i64)> = transaction.query(FORGET_ALL, &values![space, numbers]).await?;
    for (number, bytes) in &forgotten {
        header.forgotten = header.forgotten.max(*number);
        header.entities -= 1;
        header.bytes -= bytes;
    }
    keep(transaction, space, header).await?;
    Ok(forgotten.len())
}
