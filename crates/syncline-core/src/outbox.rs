//! What was committed here arrives there, once, in order for each entity, through any outage.
//!
//! ```text
//!                 ┌──────────── given back, or its lease ended ────────────┐
//!                 ▼                                                        │
//! insert ▶ in line ── claim ──▶ in flight ── the receiver took it ──▶ processed
//!            ▲   ▲                 │ │
//!            │   └── due ── waiting┘ └── attempts used up ──▶ dead ── retry ──▶ in line
//!            └── an earlier change of the same entity is settled ── behind it
//! ```
//!
//! - [`EntityType`], [`SenderId`] and the limits: what an entry may be
//! - [`Moment`] and [`Stamp`]: which of two changes of an entity is newer
//! - [`Posted`]: a batch as it is posted
//! - [`IngestReply`], [`interpret`] and [`Answer`]: what the receiver's answer to a batch means
//! - [`Delivery`]: one batch on its way: sent whole, and split down to the poisonous entry when that fails
//! - [`Evidence`]: whether a failure was the entry's fault or the receiver's
//! - [`Health`]: how long to leave a receiver alone, and how much to ask of it at once
//! - [`Verdict`]: what becomes of each entry
//!
//! Invariants: an entry is settled once for each time it was claimed; a later change of an entity is not sent while an
//! earlier one of the same batch has failed; an entry dies only for failures of its own, never of an outage; an entry that has
//! not failed never waits for one of another entity that has.
//!
//! Left to others: claiming and keeping entries (the store), sending them (the node), reading JSON.

mod answer;
mod delivery;
mod evidence;
mod health;
mod moment;
mod names;
mod posted;
mod stamp;
mod verdict;

pub use answer::{Answer, EntryResult, IngestReply, Response, interpret};
pub use delivery::{Candidate, Delivery, ReceiverState};
pub use evidence::{Evidence, RECENT, REMEMBERED_MAX};
pub use health::{DOUBT_PAUSE, Health, PAUSE, Pauses};
pub use moment::{InvalidMoment, Moment};
pub use names::{
    ENTITY_ID_MAX_BYTES, ENTITY_TYPE_MAX_BYTES, EntityType, Invalid, PAYLOAD_MAX_BYTES, SenderId,
    check_entity_id, check_payload_size,
};
pub use posted::{Posted, PostedEntry};
pub use stamp::{LATEST, Stamp};
pub use verdict::{POLICY, POSTPONE_MAX, RETRY_AFTER_MAX, Verdict};
