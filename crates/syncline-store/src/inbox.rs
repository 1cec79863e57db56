//! The inbox port: entities that came from elsewhere.
//!
//! Each entity type has a table of its own, `entity_<type>`, created when the inbox is opened with it. What arrives is
//! never put into an outbox; what is edited here is, in the same transaction.
//!
//! Guarantees, on every engine: an entry takes effect once, however often it arrives; an older change never replaces a
//! newer one ([`syncline_core::outbox::Stamp`]), be that one received or made here and still in our own outbox; removals
//! are remembered as such. A batch is one transaction of a few statements.

use async_trait::async_trait;
use syncline_core::outbox::{EntityType, EntryResult, Moment, SenderId};

use crate::Error;

mod batch;
pub(crate) mod port;
pub(crate) mod row;

/// Most entries in one batch.
pub const BATCH_MAX: usize = 1_000;
/// Most entities in one listing.
pub const LIST_MAX: usize = 1_000;
/// Payloads of one listing together; the first is always there.
pub const LIST_BYTES_MAX: usize = 8 * 1_024 * 1_024;
/// Most entity types.
pub const TYPES_MAX: usize = 100;

/// What is said of an entity type that is not known here, and what to do about it.
#[must_use]
pub fn unknown_type(name: &str) -> String {
    let name: String = name.chars().filter(|c| !c.is_control()).take(60).collect();
    format!(
        "unknown entity type '{name}': add [[entities]] with name = \"{name}\" to the receiver's syncline.toml"
    )
}

/// An entry as it arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arrival {
    /// The sender's number of it, where the sender gives numbers.
    pub entry: Option<i64>,
    /// What kind of entity; one that is not known here is refused.
    pub entity_type: String,
    /// Which one.
    pub entity_id: String,
    /// How it is now, as JSON; `null` if it is no more.
    pub payload: String,
    /// When it changed, by the sender's clock.
    pub created_at: Moment,
}

/// What became of a change made here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Put {
    /// It is stored and in the outbox.
    Done(Entity),
    /// Somebody else has changed the entity, at this moment; it stays as it is.
    Changed(Moment),
}

/// An entity as it is here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entity {
    /// Which one.
    pub id: String,
    /// How it is, as JSON; `null` if it was removed.
    pub payload: String,
    /// When it changed last.
    pub changed_at: Moment,
    /// Who changed it; `None` for senders that do not say.
    pub sender: Option<SenderId>,
    /// When that arrived here.
    pub received_at: Moment,
    /// Where it is in listings, which go from the last changed to the first.
    pub place: ListCursor,
}

/// Where a listing goes on.
pub type ListCursor = i64;

/// What came from elsewhere.
#[async_trait]
pub trait Inbox: Send + Sync {
    /// The types it was opened with.
    fn types(&self) -> &[EntityType];

    /// Takes a batch in its order: the result of each entry. `sender` where the sender gave its name; then each entry
    /// must have its number.
    async fn apply(&self, sender: Option<&SenderId>, arrivals: &[Arrival])
    -> Result<Vec<EntryResult>, Error>;

    /// Changes an entity here: writes it and puts the change into this store's outbox, in one transaction. The change is
    /// newer than whatever was here. With `expected`, an entity that is here and was changed at another moment stays as
    /// it is.
    async fn put(
        &self,
        entity_type: &EntityType,
        id: &str,
        payload: &str,
        expected: Option<Moment>,
    ) -> Result<Put, Error>;

    /// One entity; removed ones are none.
    async fn entity(&self, entity_type: &EntityType, id: &str) -> Result<Option<Entity>, Error>;

    /// Up to `limit` entities of a type, the last changed here first, from behind `after` on; without removed ones.
    async fn entities(
        &self,
        entity_type: &EntityType,
        after: Option<ListCursor>,
        limit: usize,
    ) -> Result<Vec<Entity>, Error>;

    /// Forgets up to `limit` entry numbers that arrived longer than `older_than` ago. Stale changes are known without
    /// them; what is lost is telling a repeat from a stale one.
    async fn forget(&self, older_than: std::time::Duration, limit: usize) -> Result<u64, Error>;
}
