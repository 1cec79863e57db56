//! Calls of a telephone exchange: its kinds of entities, and recordings sent, received, kept and played.
//!
//! - [`CallsPart`]: what a node gets of it
//! - [`recording`]: recordings as a node receives, keeps and plays them
//! - [`file_kind`]: recordings as `serversync` sends them
//! - [`call_box`]: a box that takes calls, the sending side of an outbox
//! - [`invent`]: calls that nobody made, to try and to test
//! - [`commands`]: `syncline demo call`, which puts them into an outbox

pub mod call_box;
pub mod file_kind;
pub mod invent;
pub mod recording;

mod command;
mod part;

pub use command::commands;
pub use part::CallsPart;
