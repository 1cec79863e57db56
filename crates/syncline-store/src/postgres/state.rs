//! Shared state on PostgreSQL. A batch holds its space's row, so that numbers are given in the order of commits.
//!
//! News is announced by `NOTIFY` after its transaction, because PostgreSQL lets transactions that announce something commit one
//! after the other; what comes while one announcement is under way goes with the next. Behind a pooler `LISTEN` does not work; there,
//! while the listening connection is lost, and where a node dies between commit and announcement, what other nodes took is found
//! when devices ask again by themselves.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use async_trait::async_trait;
use sqlx::postgres::PgPool;
use syncline_core::state::{Change, Kept, Space, Stamp, Start};
use syncline_core::time::Timestamp;
use tokio::sync::broadcast;

use super::listen::Listener;
use super::{Engine, Session};
use crate::Error;
use crate::state::space_log::{self, EntityRow, Header, Merged, NumberedRow, Row, Written};
use crate::state::{
    self, Asked, Batch, ChangeBroadcast, Listed, Page, Pushed, ROOM_STEP, SPACES_MAX, SpaceChanged, States,
    sql,
};

const LOCK: &str = "SELECT epoch, last, forgotten, floor, floor_number, entities, bytes FROM syncline.state_spaces \
     WHERE name = $1 FOR UPDATE";
/// space, ids. From each id to its row: with a list, the server may read the whole space and look for its rows in the list.
const KNOWN: &str = "SELECT found.id, found.stamp, found.live, found.value, found.number \
     FROM (SELECT DISTINCT id FROM unnest($2::text[]) AS given (id)) AS asked, LATERAL (SELECT * FROM syncline.state_entities AS e \
     WHERE e.space = $1 AND e.id = asked.id OFFSET 0) AS found";
/// space, and a list for each column.
const WRITE: &str = "INSERT INTO syncline.state_entities (space, id, stamp, live, value, bytes, number) \
     SELECT $1, given.* FROM unnest($2::text[], $3::text[], $4::bool[], $5::text[], $6::bigint[], $7::bigint[]) AS given \
     ON CONFLICT (space, id) DO UPDATE SET stamp = excluded.stamp, live = excluded.live, value = excluded.value, \
     bytes = excluded.bytes, number = excluded.number";
// Pages go by the numbers of a space, and by the one index that has them (migration 0014).
/// space, after, last, limit: the numbers of a page and what their values weigh.
const WEIGH: &str = "SELECT number, bytes FROM syncline.state_entities WHERE (space || '') = $1 AND number > $2 AND number <= $3 \
     ORDER BY number LIMIT $4";
/// space, after, last of the page.
const PAGE: &str = "SELECT id, stamp, live, value FROM syncline.state_entities WHERE (space || '') = $1 AND number > $2 \
     AND number <= $3 ORDER BY number";
/// stamp, limit: the oldest removals of all spaces.
const REMOVED: &str =
    "SELECT space, number FROM syncline.state_entities WHERE NOT live AND stamp < $1 ORDER BY stamp LIMIT $2";
/// space, limit: the oldest removals of one.
const OLDEST_REMOVED: &str = "SELECT number FROM syncline.state_entities WHERE (space || '') = $1 AND NOT live ORDER BY number LIMIT $2";
/// space, numbers. A number that was given anew since is another change and stays.
const FORGET_ALL: &str = "DELETE FROM syncline.state_entities WHERE (space || '') = $1 AND number = ANY($2) AND NOT live RETURNING number, bytes";
const NOTIFY: &str = "SELECT pg_notify($1, notice)::text FROM unnest($2::text[]) AS told (notice)";
const CHANNEL: &str = "state";
/// How long the listener rests after its connection could not be made.
const LISTEN_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// What all ports of one engine share.
#[derive(Debug)]
pub(super) struct Shared {
    changes: ChangeBroadcast,
    /// What our own notices begin with: the listeners here were notified already.
    own_prefix: String,
    started: AtomicBool,
    pending: Mutex<PendingNotices>,
}

/// Changes of which the other nodes are not notified yet.
#[derive(Debug, Default)]
struct PendingNotices {
    /// How far each space is.
    numbers: HashMap<String, u64>,
    /// Whether a task is sending them.
    sending: bool,
}

impl Default for Shared {
    fn default() -> Self {
        let own_prefix = format!("{:016x} ", rand::random::<u64>());
        Self {
            changes: ChangeBroadcast::default(),
            own_prefix,
            started: AtomicBool::new(false),
            pending: Mutex::default(),
        }
    }
}

/// The state port on PostgreSQL.
#[derive(Debug)]
pub(crate) struct PostgresStates {
    engine: Engine,
}

#[async_trait]
impl States for PostgresStates {
    async fn pull(&self, space: &Space, asked: &Asked) -> Result<Page, Error> {
        let mut session = self.engine.transaction().await?;
        let read = self.engine.query(sql::SPACE).bind(space.as_str().to_owned());
        let header = session.first::<Row>(read).await?.map_or_else(Header::none, Header::read);
        let start = header.start(asked);
        let after = if let Start::After(after) = start { after } else { 0 };
        let from = i64::try_from(after).unwrap_or(i64::MAX);
        let weigh = self.engine.query(WEIGH).bind(space.as_str().to_owned()).bind(from);
        let weighed: Vec<(i64, i64)> =
            session.all(weigh.bind(header.last).bind(space_log::WEIGHED_MAX)).await?;
        let (last, more) = space_log::cut(&weighed);
        let mut changes: Vec<Change> = header.floor_after(after).into_iter().collect();
        if let Some(last) = last {
            let page = self.engine.query(PAGE).bind(space.as_str().to_owned()).bind(from).bind(last);
            let rows: Vec<EntityRow> = session.all(page).await?;
            for row in rows {
                changes.push(space_log::change(row)?);
            }
        }
        let now = self.now(&mut session).await?;
        session.commit().await?;
        let cursor = last.filter(|_| more).unwrap_or(header.last).unsigned_abs();
        Ok(Page { epoch: header.epoch, start, cursor, more, now, changes })
    }

    async fn push(&self, space: &Space, mut batch: Batch) -> Result<Pushed, Error> {
        state::check_batch(&batch)?;
        let name = space.as_str();
        let mut session = self.engine.transaction().await?;
        let row: Option<Row> = session.first(self.engine.query(LOCK).bind(name.to_owned())).await?;
        let asked = Asked { after: batch.after, epoch: Some(batch.epoch), paging: false };
        let mut header = row.map_or_else(Header::none, Header::read);
        if !matches!(header.start(&asked), Start::After(_)) {
            session.rollback().await?;
            return Ok(Pushed::Reload);
        }
        let now = self.now(&mut session).await?;
        let ahead = space_log::cut_back(&mut batch.changes, now);
        let from = header.last.unsigned_abs();
        let reset = header.reset(&batch.changes);
        if reset {
            let reset = self.engine.query(sql::RESET).bind(name.to_owned()).bind(header.floor.text());
            session.execute(reset).await?;
            (header.entities, header.bytes) = self.measure(&mut session, name, &header).await?;
        }
        let mut known = self.known(&mut session, name, &batch.changes).await?;
        if !reset && header.is_short_of_room(&known, &batch.changes) {
            self.make_room(&mut session, name, &mut header, batch.changes.len()).await?;
            if !matches!(header.start(&asked), Start::After(_)) {
                session.commit().await?;
                return Ok(Pushed::Reload);
            }
            known = self.known(&mut session, name, &batch.changes).await?;
        }
        let Some(Merged { written, lost }) = header.merge(known, &batch.changes, batch.after) else {
            session.rollback().await?;
            return Ok(Pushed::Full);
        };
        let cursor = header.last.unsigned_abs();
        if cursor > from {
            if header.is_new() && !self.open(&mut session, name, &mut header).await? {
                // Somebody else was first, and this device has to ask what came of it.
                session.rollback().await?;
                return Ok(Pushed::Reload);
            }
            self.write(&mut session, name, written).await?;
            self.keep(&mut session, name, &header).await?;
        }
        session.commit().await?;
        if cursor > from {
            self.shared().changes.send(name, cursor);
            self.notify_other_nodes(name, cursor);
        }
        Ok(Pushed::Taken { epoch: header.epoch, from, cursor, ahead, lost, now })
    }

    async fn number(&self, space: &Space) -> Result<u64, Error> {
        let mut session = self.engine.statement().await?;
        let number = self.engine.query(sql::NUMBER).bind(space.as_str().to_owned());
        let number: Option<(i64,)> = session.first(number).await?;
        session.commit().await?;
        Ok(number.map_or(0, |(number,)| number.unsigned_abs()))
    }

    async fn list(&self, after: &str, limit: usize) -> Result<Vec<Listed>, Error> {
        let list = self.engine.query(sql::LIST).bind(after.to_owned()).bind(state::check_list(limit)?);
        let mut session = self.engine.statement().await?;
        let rows: Vec<(String, i64, i64, i64)> = session.all(list).await?;
        session.commit().await?;
        Ok(rows.into_iter().map(space_log::listed).collect())
    }

    async fn remove(&self, space: &Space) -> Result<bool, Error> {
        let mut session = self.engine.statement().await?;
        let remove = self.engine.query(sql::REMOVE).bind(space.as_str().to_owned());
        let removed = session.execute(remove).await?;
        session.commit().await?;
        Ok(removed > 0)
    }

    async fn forget(&self, limit: usize) -> Result<u64, Error> {
        let mut session = self.engine.statement().await?;
        session.execute(self.engine.query(sql::FORGET_UNUSED)).await?;
        session.commit().await?;
        let mut left = state::check_forget(limit)?;
        let mut forgotten = 0;
        while left > 0 {
            let step = self.forget_some(left).await?;
            if step == 0 {
                break;
            }
            (left, forgotten) = (left - step, forgotten + step);
        }
        Ok(forgotten.unsigned_abs())
    }

    fn listen(&self) -> broadcast::Receiver<SpaceChanged> {
        let shared = self.shared();
        if !self.engine.pooled && !shared.started.swap(true, Ordering::AcqRel) {
            let (pool, channel) = (self.engine.pool.clone(), self.engine.schema().channel(CHANNEL));
            tokio::spawn(listen(pool, channel, Arc::downgrade(&self.engine.states)));
        }
        shared.changes.listen()
    }
}

impl PostgresStates {
    pub(crate) fn new(engine: Engine) -> Self {
        Self { engine }
    }

    fn shared(&self) -> &Shared {
        &self.engine.states
    }

    /// Has other nodes told of a space, soon.
    fn notify_other_nodes(&self, space: &str, number: u64) {
        let mut pending = self.shared().pending.lock().unwrap_or_else(PoisonError::into_inner);
        let known = pending.numbers.entry(space.to_owned()).or_default();
        *known = number.max(*known);
        if !std::mem::replace(&mut pending.sending, true) {
            tokio::spawn(send_notices(self.engine.clone()));
        }
    }

    async fn now(&self, session: &mut Session) -> Result<Timestamp, Error> {
        Ok(Timestamp::from_ms(self.engine.now_ms(session).await?.unsigned_abs()))
    }

    /// Gives a space its row and its epoch; `false` if somebody else was first.
    async fn open(&self, session: &mut Session, name: &str, header: &mut Header) -> Result<bool, Error> {
        let spaces: i64 = session.value(self.engine.query(sql::COUNT_SPACES)).await?;
        if spaces >= SPACES_MAX {
            return Err(state::too_many_spaces());
        }
        header.epoch = space_log::fresh_epoch();
        let open = self.engine.query(sql::OPEN).bind(name.to_owned()).bind(header.epoch.clone());
        Ok(session.execute(open.bind(Stamp::ZERO.text())).await? > 0)
    }

    /// Forgets the oldest removals of a space, so that a batch of this size may fit.
    async fn make_room(
        &self,
        session: &mut Session,
        name: &str,
        header: &mut Header,
        batch: usize,
    ) -> Result<(), Error> {
        let wanted = i64::try_from(batch).unwrap_or(i64::MAX).max(ROOM_STEP);
        let oldest = self.engine.query(OLDEST_REMOVED).bind(name.to_owned()).bind(wanted);
        let oldest: Vec<(i64,)> = session.all(oldest).await?;
        let numbers = oldest.into_iter().map(|(number,)| number).collect();
        self.forget_all(session, name, header, numbers).await.map(drop)
    }

    async fn known(
        &self,
        session: &mut Session,
        space: &str,
        changes: &[Change],
    ) -> Result<HashMap<String, (Kept, i64)>, Error> {
        let ids: Vec<String> = changes.iter().map(|change| change.id().to_owned()).collect();
        let rows: Vec<NumberedRow> =
            session.all(self.engine.query(KNOWN).bind(space.to_owned()).bind(ids)).await?;
        rows.into_iter().map(space_log::numbered).collect()
    }

    async fn write(&self, session: &mut Session, space: &str, written: Vec<Written>) -> Result<(), Error> {
        let (mut ids, mut stamps, mut lives) = (Vec::new(), Vec::new(), Vec::new());
        let (mut values, mut bytes, mut numbers) = (Vec::new(), Vec::new(), Vec::new());
        for row in written {
            ids.push(row.id);
            stamps.push(row.stamp);
            lives.push(row.live);
            values.push(row.value);
            bytes.push(row.bytes);
            numbers.push(row.number);
        }
        let write = self.engine.query(WRITE).bind(space.to_owned()).bind(ids).bind(stamps).bind(lives);
        session.execute(write.bind(values).bind(bytes).bind(numbers)).await?;
        Ok(())
    }

    async fn keep(&self, session: &mut Session, space: &str, header: &Header) -> Result<(), Error> {
        let keep = self.engine.query(sql::KEEP_SPACE).bind(space.to_owned()).bind(header.last);
        let keep = keep.bind(header.forgotten).bind(header.floor.text()).bind(header.floor_number);
        session.execute(keep.bind(header.entities).bind(header.bytes)).await?;
        Ok(())
    }

    async fn measure(
        &self,
        session: &mut Session,
        space: &str,
        header: &Header,
    ) -> Result<(i64, i64), Error> {
        let measure = self.engine.query(sql::MEASURE).bind(space.to_owned()).bind(header.floor.text());
        let measured: Option<(i64, i64)> = session.first(measure).await?;
        Ok(measured.unwrap_or_default())
    }

    /// Forgets removals of the space that has the oldest; how many.
    async fn forget_some(&self, limit: i64) -> Result<i64, Error> {
        let mut session = self.engine.transaction().await?;
        let horizon = space_log::horizon(self.now(&mut session).await?);
        let removed = self.engine.query(REMOVED).bind(horizon).bind(limit);
        let removed: Vec<(String, i64)> = session.all(removed).await?;
        let Some(space) = removed.first().map(|(space, _)| space.clone()) else {
            session.commit().await?;
            return Ok(0);
        };
        let row: Option<Row> = session.first(self.engine.query(LOCK).bind(space.clone())).await?;
        let Some(mut header) = row.map(Header::read) else {
            session.commit().await?;
            return Ok(0);
        };
        let numbers = removed.into_iter().filter(|(of, _)| *of == space).map(|(_, number)| number).collect();
        let forgotten = self.forget_all(&mut session, &space, &mut header, numbers).await?;
        session.commit().await?;
        Ok(i64::try_from(forgotten).unwrap_or(i64::MAX))
    }

    /// Forgets these removals; how many were still there.
    async fn forget_all(
        &self,
        session: &mut Session,
        space: &str,
        header: &mut Header,
        numbers: Vec<i64>,
    ) -> Result<usize, Error> {
        let forget = self.engine.query(FORGET_ALL).bind(space.to_owned()).bind(numbers);
        let forgotten: Vec<(i64, i64)> = session.all(forget).await?;
        for (number, bytes) in &forgotten {
            header.forgotten = header.forgotten.max(*number);
            header.entities -= 1;
            header.bytes -= bytes;
        }
        self.keep(session, space, header).await?;
        Ok(forgotten.len())
    }
}

/// Announces what there is to tell, and what comes meanwhile, until there is nothing left.
async fn send_notices(engine: Engine) {
    loop {
        let numbers = {
            let mut pending = engine.states.pending.lock().unwrap_or_else(PoisonError::into_inner);
            pending.sending = !pending.numbers.is_empty();
            std::mem::take(&mut pending.numbers)
        };
        if numbers.is_empty() {
            return;
        }
        let own_prefix = &engine.states.own_prefix;
        let notices = numbers.iter().map(|(space, number)| format!("{own_prefix}{number} {space}"));
        if let Err(error) = announce(&engine, notices.collect()).await {
            tracing::debug!(%error, "other nodes could not be notified of changes; devices find them by asking");
        }
    }
}

async fn announce(engine: &Engine, notices: Vec<String>) -> Result<(), Error> {
    let mut session = engine.statement().await?;
    let notify = engine.query(NOTIFY).bind(engine.schema().channel(CHANNEL)).bind(notices);
    session.all::<(Option<String>,)>(notify).await?;
    session.commit().await
}

/// Passes on what other nodes announce, until the store is closed or gone.
async fn listen(pool: PgPool, channel: String, shared: Weak<Shared>) {
    while !pool.is_closed() && shared.strong_count() > 0 {
        if let Err(error) = listen_once(&pool, &channel, &shared).await {
            tracing::debug!(%error, "the listening connection for state changes failed; it is opened again");
        }
        tokio::time::sleep(LISTEN_AGAIN_AFTER).await;
    }
}

/// Listens for as long as the connection lasts.
async fn listen_once(pool: &PgPool, channel: &str, shared: &Weak<Shared>) -> sqlx::Result<()> {
    let mut listener = Listener::open(pool, channel).await?;
    while let Some(notice) = listener.next().await? {
        let Some(shared) = shared.upgrade() else { return Ok(()) };
        let payload = notice.payload();
        let told = payload.split_once(' ').filter(|_| !payload.starts_with(&shared.own_prefix));
        let told = told.and_then(|(_, told)| told.split_once(' '));
        if let Some((number, space)) = told.and_then(|(number, space)| Some((number.parse().ok()?, space))) {
            shared.changes.send(space, number);
        }
    }
    Ok(())
}
