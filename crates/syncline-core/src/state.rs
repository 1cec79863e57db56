//! Shared state: every context shows the same entities and settings, and no change is lost.
//!
//! Contexts (tabs, popups, workers) share a storage area that has no compare-and-set. What they know is kept as facts
//! that merge ([`Index`], [`Stored`] values with stamps of a hybrid logical [`Clock`]), in a form that programs
//! which know only `ids` can read and write. A [`Replica`] turns inputs into effects over the ports ([`Input`], [`Effect`]);
//! whatever a later write dropped, somebody who knows it writes again.
//!
//! Invariants:
//! - merging is commutative, associative and idempotent: who has seen the same facts knows the same;
//! - of two changes to one thing the later stamp counts; stamps are compared and advanced, and never rewritten;
//! - a removal is remembered for one fixed horizon, and an edit does not undo it: only adding again does, and then no value of
//!   what was removed comes back, because each value says which addition it belongs to;
//! - an acknowledged change is lost only if every context that had heard of it dies before the next look.
//!
//! Settings are one document that the application checks; its fields are none of the rules' business.
//!
//! Storage, messages, timers, the view and the way to a node belong to the caller; [`port`] says what each effect asks of
//! it. What a node keeps of the [`Change`]s that devices send is decided by [`Kept`] and [`Start`]; what a server
//! writes without knowing stamps becomes a change by [`ServerWrite`].

mod bridge;
mod index;
pub mod json;
mod layout;
mod message;
pub mod names;
pub mod port;
mod replica;
mod server_write;
mod sorted;
mod space;
mod stamp;
mod value;

pub use bridge::{Change, Kept, Start};
pub use index::{Entry, Index, forgotten_ranges, is_forgotten};
pub use layout::Layout;
pub use port::{Effect, Error, Failure, Input, LinkStatus, Output, Report};
pub use replica::{CheckSettings, Config, Migrate, Replica};
pub use server_write::ServerWrite;
pub use space::{InvalidSpace, Space};
pub use stamp::{Clock, Stamp};
pub use value::{Refused, Stored, Value, is_id};
