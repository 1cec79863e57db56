//! Calls of a telephone exchange: its kinds of entities, and recordings sent, received, kept and played.
//!
//! - [`CallsPart`]: what a node gets of it
//! - [`recording`]: recordings as a node receives, keeps and plays them
//! - [`file_kind`]: recordings as `serversync` sends them
//! - [`invent`]: calls that nobody made, to try and to test

pub mod file_kind;
pub mod invent;
pub mod recording;

mod part;

pub use part::CallsPart;
