//! Shared state on SQLite. The writer runs one change at a time, so that a batch may look first and write after.

use std::collections::HashMap;

use async_trait::async_trait;
use sqlx::sqlite::SqliteConnection;
use syncline_core::state::{Change, Kept, Space, Stamp, Start};
use syncline_core::time::Timestamp;
use tokio::sync::broadcast;

use super::{Engine, statement};
use crate::Error;
use crate::state::space_log::{self, EntityRow, Header, Merged, Row, Written};
use crate::state::{
    self, Asked, Batch, Listed, Page, Pushed, ROOM_STEP, SPACES_MAX, SpaceChanged, States, sql,
};

/// space, id.
const KNOWN: &str =
    "SELECT id, stamp, live, value, number FROM syncline.state_entities WHERE space = $1 AND id = $2";
/// space, id, stamp, live, value, bytes, number.
const WRITE: &str = "INSERT INTO syncline.state_entities (space, id, stamp, live, value, bytes, number) \
     VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (space, id) DO UPDATE SET stamp = excluded.stamp, \
     live = excluded.live, value = excluded.value, bytes = excluded.bytes, number = excluded.number";

/// The state port on SQLite.
#[derive(Debug)]
pub(crate) struct SqliteStates {
    engine: Engine,
}

/// What a batch came to inside the writer.
enum Outcome {
    Pushed(Pushed),
    NoRoom,
    TooManySpaces,
    Damaged(Error),
}

#[async_trait]
impl States for SqliteStates {
    async fn pull(&self, space: &Space, asked: &Asked) -> Result<Page, Error> {
        let header = self.header(space).await?.unwrap_or_else(Header::none);
        let start = header.start(asked);
        let after = if let Start::After(after) = start { after } else { 0 };
        let from = i64::try_from(after).unwrap_or(i64::MAX);
        let weigh = statement::query_as(sql::WEIGH).bind(space.as_str().to_owned()).bind(from);
        let weigh = weigh.bind(header.last).bind(space_log::WEIGHED_MAX);
        let weighed: Vec<(i64, i64)> =
            self.engine.read(|connection| Box::pin(weigh.fetch_all(connection))).await?;
        let (last, more) = space_log::cut(&weighed);
        let mut changes: Vec<Change> = header.floor_after(after).into_iter().collect();
        if let Some(last) = last {
            let page = statement::query_as(sql::PAGE).bind(space.as_str().to_owned()).bind(from).bind(last);
            let rows: Vec<EntityRow> =
                self.engine.read(|connection| Box::pin(page.fetch_all(connection))).await?;
            for row in rows {
                changes.push(space_log::change(row)?);
            }
        }
        let cursor = last.filter(|_| more).unwrap_or(header.last).unsigned_abs();
        Ok(Page { epoch: header.epoch, start, cursor, more, now: self.now(), changes })
    }

    async fn push(&self, space: &Space, mut batch: Batch) -> Result<Pushed, Error> {
        state::check_batch(&batch)?;
        let (name, now) = (space.as_str().to_owned(), self.now());
        let ahead = space_log::cut_back(&mut batch.changes, now);
        let outcome =
            self.engine.write(move |connection| Box::pin(push(connection, name, batch, ahead, now)));
        match outcome.await? {
            Outcome::Pushed(pushed) => {
                if let Pushed::Taken { from, cursor, .. } = &pushed
                    && cursor > from
                {
                    self.engine.changes().send(space.as_str(), *cursor);
                }
                Ok(pushed)
            }
            Outcome::NoRoom => Ok(Pushed::Full),
            Outcome::TooManySpaces => Err(state::too_many_spaces()),
            Outcome::Damaged(error) => Err(error),
        }
    }

    async fn number(&self, space: &Space) -> Result<u64, Error> {
        let number = statement::query_scalar(sql::NUMBER).bind(space.as_str().to_owned());
        let number: Option<i64> =
            self.engine.read(|connection| Box::pin(number.fetch_optional(connection))).await?;
        Ok(number.unwrap_or(0).unsigned_abs())
    }

    async fn list(&self, after: &str, limit: usize) -> Result<Vec<Listed>, Error> {
        let list = statement::query_as(sql::LIST).bind(after.to_owned()).bind(state::check_list(limit)?);
        let rows: Vec<(String, i64, i64, i64)> =
            self.engine.read(|connection| Box::pin(list.fetch_all(connection))).await?;
        Ok(rows.into_iter().map(space_log::listed).collect())
    }

    async fn remove(&self, space: &Space) -> Result<bool, Error> {
        let remove = statement::query(sql::REMOVE).bind(space.as_str().to_owned());
        let removed = self.engine.write(|connection| Box::pin(remove.execute(connection))).await?;
        Ok(removed.rows_affected() > 0)
    }

    async fn forget(&self, limit: usize) -> Result<u64, Error> {
        let unused = statement::query(sql::FORGET_UNUSED);
        self.engine.write(|connection| Box::pin(unused.execute(connection))).await?;
        let (mut left, horizon) = (state::check_forget(limit)?, space_log::horizon(self.now()));
        let mut forgotten = 0;
        while left > 0 {
            let horizon = horizon.clone();
            let step =
                self.engine.write(move |connection| Box::pin(forget(connection, horizon, left))).await?;
            if step == 0 {
                break;
            }
            (left, forgotten) = (left - step, forgotten + step);
        }
        Ok(forgotten.unsigned_abs())
    }

    fn listen(&self) -> broadcast::Receiver<SpaceChanged> {
        self.engine.changes().listen()
    }
}

impl SqliteStates {
    pub(crate) fn new(engine: Engine) -> Self {
        Self { engine }
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_ms(self.engine.clock().wall_ms().unsigned_abs())
    }

    async fn header(&self, space: &Space) -> Result<Option<Header>, Error> {
        let space = statement::query_as(sql::SPACE).bind(space.as_str().to_owned());
        let row: Option<Row> =
            self.engine.read(|connection| Box::pin(space.fetch_optional(connection))).await?;
        Ok(row.map(Header::read))
    }
}

async fn push(
    connection: &mut SqliteConnection,
    name: String,
    batch: Batch,
    ahead: u64,
    now: Timestamp,
) -> sqlx::Result<Outcome> {
    let asked = Asked { after: batch.after, epoch: Some(batch.epoch), paging: false };
    let row: Option<Row> =
        statement::query_as(sql::SPACE).bind(&name).fetch_optional(&mut *connection).await?;
    let mut header = row.map_or_else(Header::none, Header::read);
    if !matches!(header.start(&asked), Start::After(_)) {
        return Ok(Outcome::Pushed(Pushed::Reload));
    }
    let from = header.last;
    let reset = header.reset(&batch.changes);
    if reset {
        (header.entities, header.bytes) = measure(connection, &name, &header).await?;
    }
    let mut known = match known_of(connection, &name, &batch.changes).await? {
        Ok(known) => known,
        Err(damaged) => return Ok(Outcome::Damaged(damaged)),
    };
    if !reset && header.is_short_of_room(&known, &batch.changes) {
        make_room(connection, &name, &mut header, batch.changes.len()).await?;
        if !matches!(header.start(&asked), Start::After(_)) {
            return Ok(Outcome::Pushed(Pushed::Reload));
        }
        known = match known_of(connection, &name, &batch.changes).await? {
            Ok(known) => known,
            Err(damaged) => return Ok(Outcome::Damaged(damaged)),
        };
    }
    // Nothing of it has been written yet.
    let Some(Merged { written, lost }) = header.merge(known, &batch.changes, batch.after) else {
        return Ok(Outcome::NoRoom);
    };
    if header.last == from {
        return Ok(Outcome::Pushed(taken(&header, from, ahead, lost, now)));
    }
    if header.is_new() && !open(connection, &name, &mut header).await? {
        return Ok(Outcome::TooManySpaces);
    }
    if reset {
        statement::query(sql::RESET).bind(&name).bind(header.floor.text()).execute(&mut *connection).await?;
    }
    for Written { id, stamp, live, value, bytes, number } in written {
        let write = statement::query(WRITE).bind(&name).bind(id).bind(stamp).bind(live).bind(value);
        write.bind(bytes).bind(number).execute(&mut *connection).await?;
    }
    keep(connection, name, &header).await?;
    Ok(Outcome::Pushed(taken(&header, from, ahead, lost, now)))
}

/// What is known of the entities of a batch, by id with their numbers.
async fn known_of(
    connection: &mut SqliteConnection,
    name: &str,
    changes: &[Change],
) -> sqlx::Result<Result<HashMap<String, (Kept, i64)>, Error>> {
    let mut known = HashMap::new();
    for change in changes {
        let row =
            statement::query_as(KNOWN).bind(name).bind(change.id()).fetch_optional(&mut *connection).await?;
        match row.map(space_log::numbered).transpose() {
            Ok(row) => known.extend(row),
            Err(damaged) => return Ok(Err(damaged)),
        }
    }
    Ok(Ok(known))
}

fn taken(header: &Header, from: i64, ahead: u64, lost: bool, now: Timestamp) -> Pushed {
    let (from, cursor) = (from.unsigned_abs(), header.last.unsigned_abs());
    Pushed::Taken { epoch: header.epoch.clone(), from, cursor, ahead, lost, now }
}

/// Gives a space its row and its epoch, unless there are too many.
async fn open(connection: &mut SqliteConnection, name: &str, header: &mut Header) -> sqlx::Result<bool> {
    let spaces: i64 = statement::query_scalar(sql::COUNT_SPACES).fetch_one(&mut *connection).await?;
    if spaces >= SPACES_MAX {
        return Ok(false);
    }
    header.epoch = space_log::fresh_epoch();
    let open = statement::query(sql::OPEN).bind(name).bind(&header.epoch).bind(Stamp::ZERO.text());
    open.execute(connection).await?;
    Ok(true)
}

/// Forgets the oldest removals of a space, so that a batch of this size may fit.
async fn make_room(
    connection: &mut SqliteConnection,
    name: &str,
    header: &mut Header,
    batch: usize,
) -> sqlx::Result<()> {
    let wanted = i64::try_from(batch).unwrap_or(i64::MAX).max(ROOM_STEP);
    let oldest = statement::query_scalar(sql::OLDEST_REMOVED).bind(name).bind(wanted);
    let oldest: Vec<i64> = oldest.fetch_all(&mut *connection).await?;
    if oldest.is_empty() { Ok(()) } else { forget_all(connection, name, header, &oldest).await }
}

async fn keep(connection: &mut SqliteConnection, name: String, header: &Header) -> sqlx::Result<()> {
    let keep = statement::query(sql::KEEP_SPACE).bind(name).bind(header.last).bind(header.forgotten);
    let keep = keep.bind(header.floor.text()).bind(header.floor_number);
    keep.bind(header.entities).bind(header.bytes).execute(connection).await?;
    Ok(())
}

async fn measure(
    connection: &mut SqliteConnection,
    space: &str,
    header: &Header,
) -> sqlx::Result<(i64, i64)> {
    statement::query_as(sql::MEASURE).bind(space).bind(header.floor.text()).fetch_one(connection).await
}

/// Forgets removals of one space; how many.
async fn forget(connection: &mut SqliteConnection, horizon: String, limit: i64) -> sqlx::Result<i64> {
    let space: Option<String> =
        statement::query_scalar(sql::FORGETFUL).bind(&horizon).fetch_optional(&mut *connection).await?;
    let Some(space) = space else { return Ok(0) };
    let removed = statement::query_scalar(sql::REMOVED).bind(&space).bind(horizon).bind(limit);
    let removed: Vec<i64> = removed.fetch_all(&mut *connection).await?;
    let row: Row = statement::query_as(sql::SPACE).bind(&space).fetch_one(&mut *connection).await?;
    forget_all(connection, &space, &mut Header::read(row), &removed).await?;
    Ok(i64::try_from(removed.len()).unwrap_or(i64::MAX))
}

async fn forget_all(
    connection: &mut SqliteConnection,
    space: &str,
    header: &mut Header,
    removed: &[i64],
) -> sqlx::Result<()> {
    for number in removed {
        statement::query(sql::FORGET).bind(space).bind(number).execute(&mut *connection).await?;
    }
    header.forgotten = removed.iter().copied().max().unwrap_or(0).max(header.forgotten);
    (header.entities, header.bytes) = measure(connection, space, header).await?;
    keep(connection, space.to_owned(), header).await
}
