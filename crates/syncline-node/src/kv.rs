//! Keys with a time to live, over HTTP, and the keys that other parts keep for themselves.
//!
//! [`ReservedKeys`] is what parts see: a part reserves the prefixes under which it writes, so that nobody else changes them
//! there, or shows under a prefix what is no key of the store at all ([`Keys`]). What a part writes for itself it keeps in a space of its
//! own (`Store::kv_space`). `changes`: conditions and batches; `watcher`: events of changed keys; `nodes`: which nodes there are.

mod changes;
mod http;
mod nodes;
mod part;
mod reserved;
mod watcher;

/// The space of what nodes keep for themselves: reports, inputs of jobs, sessions of browsers.
pub(crate) const NODE_SPACE: &str = "node";

pub use part::KvPart;
pub use reserved::{Keys, ReservedKeys, Stored};
