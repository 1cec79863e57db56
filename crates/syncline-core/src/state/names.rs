//! Every action name, storage key and limit of shared state, in one place.
//!
//! Extensions, pages and nodes of different versions meet in the same storage: what is written here is a format.

use std::time::Duration;

/// Where the settings live.
pub const SETTINGS_KEY: &str = "syncSettings";
/// Where the version of the stored entities lives.
pub const SCHEMA_KEY: &str = "schemaVersion";
/// The index, and in every layout the place that says which layout it is.
pub const INDEX_KEY: &str = "trackedEntities:index";
/// Before `<shards>:<shard>` in layout C.
pub const SHARD_PREFIX: &str = "trackedEntities:index:";
/// All entities together, in layout A.
pub const PACKED_KEY: &str = "trackedEntities";
/// Before an entity's id, in layouts B and C.
pub const ENTITY_PREFIX: &str = "trackedEntity:";
/// Before the key whose contents nobody could read and which had to be overwritten.
pub const ASIDE_PREFIX: &str = "syncAside:";
/// Before the stamp of a change that the node has not confirmed yet, and the entity's id; without an id: a reset.
pub const UNSENT_PREFIX: &str = "syncUnsent:";
/// How far the node's changes have been taken over.
pub const CURSOR_KEY: &str = "syncCursor";

/// A message with new values and removals.
pub const ACTION_DELTA: &str = "entityDelta";
/// A message with a list of operations.
pub const ACTION_PATCH: &str = "entityPatch";
/// In a patch: store a value.
pub const OP_SET: &str = "set";
/// In a patch: remove an entity.
pub const OP_REMOVE: &str = "remove";
/// The member of a stored entity that carries its stamp; values may not have one of their own.
pub const STAMP_MEMBER: &str = "sync";

/// Longest entity id in bytes of UTF-8.
pub const ID_MAX_BYTES: usize = 256;
/// Largest value of an entity in bytes of JSON.
pub const VALUE_MAX_BYTES: usize = 256 * 1024;
/// Deepest nesting of a value.
pub const DEPTH_MAX: usize = 64;
/// Most entities a space holds.
pub const ENTITIES_MAX: usize = 200_000;
/// Most keys asked for at once, and most operations stored at once.
pub const BATCH_MAX: usize = 500;
/// Most keys asked for at once while loading, when nothing is written in between.
pub const LOAD_MAX: usize = 2_000;
/// Most messages and changes kept while loading; more means that everything is read again.
pub const QUEUE_MAX: usize = 1_024;
/// Most operations of callers that wait to be stored.
pub const OPS_MAX: usize = 10_000;
/// A batch for a node, or a page from it, is full when its values have this many bytes; the last one may exceed it.
pub const PAGE_MAX_BYTES: usize = 512 * 1024;
/// Most ids in one message, and most changes in one batch for a node or page from it.
pub const DELTA_MAX: usize = 500;
/// A shard of the index that holds more than this makes the index grow.
pub const SHARD_IDS_MAX: usize = 64;
/// Fewest shards of layout C.
pub const SHARDS_MIN: u32 = 16;
/// Most shards of layout C.
pub const SHARDS_MAX: u32 = 8_192;

/// How far a clock may be off the node's, and a stamp ahead of it before another era begins.
pub const AHEAD_MAX: Duration = Duration::from_secs(5 * 60);
/// Removals that each key of the index remembers however old they seem: a wrong clock must not forget them.
pub const GONE_KEPT: usize = 500;
/// How long a removal is remembered, everywhere.
pub const HORIZON: Duration = Duration::from_secs(30 * 24 * 3_600);
/// How long a writer that knows only `ids` may take from reading the index to writing it. Counted by each context from the
/// moment it learned of a change, not by the time of day.
pub const PLAIN_WINDOW: Duration = Duration::from_secs(2);
/// How long to wait for an acknowledgement.
pub const ACK_WAIT: Duration = Duration::from_millis(200);
/// How often a message is sent again.
pub const RESENDS_MAX: u32 = 2;
/// When the index is looked at again after a write, in case the news that somebody dropped it got lost.
pub const VERIFY_AFTER: Duration = Duration::from_millis(500);
/// How long a key must have been an orphan before it is removed.
pub const ORPHAN_GRACE: Duration = Duration::from_secs(60);
/// How often a node is asked without having told of anything, in case the news got lost.
pub const POLL_EVERY: Duration = Duration::from_secs(60);
/// Longest pause before a failed read or repair is tried again.
pub const BACKOFF_MAX: Duration = Duration::from_secs(60);
/// After a sleep this long, what is remembered is not trusted any more and read again.
pub const SLEEP_MAX: Duration = Duration::from_secs(24 * 3_600);
