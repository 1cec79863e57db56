//! The state port: what devices agree on, by space, as a log they ask for.
//!
//! Guarantees, on every engine: a batch is merged by core's rule ([`Kept::merge`](syncline_core::state::Kept::merge)) in one
//! transaction, one batch of a space at a time, so that numbers are given in the order in which they are committed and
//! nobody who asks after a number misses one below it; the same batch again is no news; an acknowledged batch survives
//! `kill -9`; stamps are judged by the store's clock. What is news is told to everybody who listens, on PostgreSQL to other
//! nodes too.
//!
//! Servers take part without stamps: [`States::write`] stamps for them, by core's rule ([`ServerWrite`]).
//!
//! What changes mean is core's; spaces, entities and bytes are bounded here.

mod entities;
pub(crate) mod port;
mod space_log;

use async_trait::async_trait;
use syncline_core::state::names::{DELTA_MAX, ENTITIES_MAX};
use syncline_core::state::{Change, ServerWrite, Space, Start};
use syncline_core::time::Timestamp;
use tokio::sync::broadcast;

use crate::Error;

/// Most spaces.
pub(crate) const SPACES_MAX: i64 = 10_000;
/// What the log of a space is called that has none yet. Asking for a space makes nothing; the first batch with news, which
/// names this epoch, makes it and gives it one of its own.
pub const NEW_EPOCH: &str = "new";
/// Most spaces in one listing.
pub const LIST_MAX: usize = 1_000;
/// Most entities of a space, removals that are remembered included. Removals give way: where there is no room, the oldest
/// are forgotten before their time.
pub const SPACE_ENTITIES_MAX: i64 = ENTITIES_MAX as i64;
/// Most bytes that the values of a space have together.
pub(crate) const SPACE_MAX_BYTES: i64 = 256 * 1024 * 1024;
/// Most changes in one batch.
pub const BATCH_MAX: usize = DELTA_MAX + 1;
/// Most removals one call of [`States::forget`] forgets.
pub const FORGET_MAX: usize = 10_000;
/// Removals that are forgotten at a time when a space needs room.
pub(crate) const ROOM_STEP: i64 = 1_000;
/// What a slow listener may be behind before it misses something.
const HEARD_MAX: usize = 1_024;

/// What a device asks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Asked {
    /// The number up to which it has everything.
    pub after: u64,
    /// Of which log.
    pub epoch: Option<String>,
    /// It is being given everything, and this is not the first page.
    pub paging: bool,
}

/// What it gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// Which log this is.
    pub epoch: String,
    /// Where the page begins, and why.
    pub start: Start,
    /// What to ask after next time.
    pub cursor: u64,
    /// Whether more is there already.
    pub more: bool,
    /// The store's time of day.
    pub now: Timestamp,
    /// The changes, oldest news first.
    pub changes: Vec<Change>,
}

/// What a device sends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    /// The number up to which it has everything.
    pub after: u64,
    /// Of which log.
    pub epoch: String,
    /// The changes, [`BATCH_MAX`] at most.
    pub changes: Vec<Change>,
}

/// What became of a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pushed {
    /// It is stored.
    Taken {
        /// The log it is in: the one that was named, or the new one of a space that was made for it.
        epoch: String,
        /// The number of the last news before it.
        from: u64,
        /// The number of the last news in it.
        cursor: u64,
        /// Stamps that were from too far ahead.
        ahead: u64,
        /// The device sent something older than what it should have had: it has to ask for everything again.
        lost: bool,
        /// The store's time of day.
        now: Timestamp,
    },
    /// Nothing was stored: the device has not heard of removals that are forgotten, or this is another log. It has to ask
    /// first.
    Reload,
    /// Nothing was stored: the space cannot hold it.
    Full,
}

/// An entity as a server reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entity {
    /// Its id.
    pub id: String,
    /// Its value, a JSON object.
    pub value: String,
    /// The version of the application's schema that the value follows.
    pub schema: u32,
    /// The log that it is in, and the number of its last change there. Another change has another one.
    pub version: EntityVersion,
    /// When it was changed last, by the clock of whoever changed it.
    pub changed_at: Timestamp,
}

/// Which change of an entity is meant: no two of a space's changes have the same, not even after the space was removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntityVersion {
    /// Of which log.
    pub epoch: String,
    /// The number in it.
    pub number: u64,
}

/// Entities of a space, by id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntityPage {
    /// Those that are there.
    pub entities: Vec<Entity>,
    /// What to ask behind for the rest. A page may be short, or empty, and have one: what was removed is passed over.
    pub next: Option<String>,
}

/// What must hold for a server's write to happen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Condition {
    /// Nothing.
    None,
    /// The entity is there, in one of these versions; in any where there is no list.
    Matches(Option<Vec<EntityVersion>>),
    /// The entity is not there.
    Absent,
}

/// What became of a server's write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wrote {
    /// The entity is this now.
    Stored(Entity),
    /// It is gone now.
    Removed,
    /// It was not there to be removed.
    Absent,
    /// Nothing was written: the condition does not hold.
    Changed,
    /// Nothing was written: the space cannot hold it.
    Full,
}

/// A space as it is listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Its name.
    pub name: String,
    /// Its entities, removals that are remembered included.
    pub entities: u64,
    /// The bytes of their values.
    pub bytes: u64,
    /// The number of its last news.
    pub number: u64,
}

impl Listed {
    /// The entities and bytes that a space can hold.
    pub const MOST: (u64, u64) = (SPACE_ENTITIES_MAX as u64, SPACE_MAX_BYTES as u64);

    /// Whether it has nine tenths of what it can hold, or more.
    #[must_use]
    pub const fn is_nearly_full(&self) -> bool {
        let (entities, bytes) = Self::MOST;
        self.entities >= entities / 10 * 9 || self.bytes >= bytes / 10 * 9
    }
}

/// A space has changed: its last change has this number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpaceChanged {
    /// Which space.
    pub space: String,
    /// The number.
    pub number: u64,
}

/// Spaces.
#[async_trait]
pub trait States: Send + Sync {
    /// Answers a device. Changes nothing: a space that is not there reads as an empty one with the epoch [`NEW_EPOCH`].
    async fn pull(&self, space: &Space, asked: &Asked) -> Result<Page, Error>;

    /// Takes a batch.
    async fn push(&self, space: &Space, batch: Batch) -> Result<Pushed, Error>;

    /// One entity; `None` if it is not there, or was removed.
    async fn entity(&self, space: &Space, id: &str) -> Result<Option<Entity>, Error>;

    /// Up to `limit` entities behind the id `after`, by id; fewer where their values are long.
    async fn entities(&self, space: &Space, after: &str, limit: usize) -> Result<EntityPage, Error>;

    /// Writes an entity for somebody who knows no stamps, if the condition holds, as one change that devices hear of.
    async fn write(
        &self,
        space: &Space,
        id: &str,
        write: ServerWrite,
        condition: Condition,
    ) -> Result<Wrote, Error>;

    /// The number of a space's last news; 0 if there is no such space.
    async fn number(&self, space: &Space) -> Result<u64, Error>;

    /// Up to `limit` spaces behind `after`, by name.
    async fn list(&self, after: &str, limit: usize) -> Result<Vec<Listed>, Error>;

    /// Removes a space and all that is in it, and says whether it was there. Devices that have something of it still send it
    /// again: their next question finds a log that they do not know.
    async fn remove(&self, space: &Space) -> Result<bool, Error>;

    /// Forgets up to `limit` removals beyond the horizon, and says how many, and spaces that never had news. Nothing depends
    /// on it being called; it gives the space back.
    async fn forget(&self, limit: usize) -> Result<u64, Error>;

    /// Hears of news from this moment on. Hearing is a courtesy: what is missed is found by asking.
    fn listen(&self) -> broadcast::Receiver<SpaceChanged>;
}

/// Tells the listeners of this process which space has changed.
#[derive(Debug, Clone)]
pub(crate) struct ChangeBroadcast(broadcast::Sender<SpaceChanged>);

impl ChangeBroadcast {
    pub(crate) fn send(&self, space: &str, number: u64) {
        // An error only says that nobody listens.
        drop(self.0.send(SpaceChanged { space: space.to_owned(), number }));
    }

    pub(crate) fn listen(&self) -> broadcast::Receiver<SpaceChanged> {
        self.0.subscribe()
    }
}

impl port::ChangeNotices for ChangeBroadcast {
    fn send(&self, space: &str, number: u64) {
        ChangeBroadcast::send(self, space, number);
    }

    fn listen(&self) -> broadcast::Receiver<SpaceChanged> {
        ChangeBroadcast::listen(self)
    }
}

impl Default for ChangeBroadcast {
    fn default() -> Self {
        Self(broadcast::Sender::new(HEARD_MAX))
    }
}

pub(crate) fn check_batch(batch: &Batch) -> Result<(), Error> {
    if batch.changes.len() > BATCH_MAX {
        let reason = format!("are {}; at most {BATCH_MAX} are allowed", batch.changes.len());
        return Err(Error::invalid("changes", reason));
    }
    Ok(())
}

pub(crate) fn check_forget(limit: usize) -> Result<i64, Error> {
    if limit > FORGET_MAX {
        return Err(Error::invalid("limit", format!("is {limit}; at most {FORGET_MAX} are allowed")));
    }
    Ok(i64::try_from(limit).expect("FORGET_MAX fits"))
}

pub(crate) fn check_list(limit: usize) -> Result<i64, Error> {
    if limit > LIST_MAX {
        return Err(Error::invalid("limit", format!("is {limit}; at most {LIST_MAX} are allowed")));
    }
    Ok(i64::try_from(limit).expect("LIST_MAX fits"))
}

pub(crate) fn too_many_spaces() -> Error {
    Error::invalid("space", format!("is one too many: {SPACES_MAX} is the most; remove one"))
}
