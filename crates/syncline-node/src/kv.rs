//! Keys with a time to live, over HTTP, and the keys that other parts keep for themselves.
//!
//! [`ReservedKeys`] is what parts see: a part reserves the prefixes under which it writes, so that nobody else changes them
//! there, or shows under a prefix what is no key of the store at all ([`Keys`]). `nodes`: which nodes there are.

mod http;
mod nodes;
mod part;
mod reserved;

pub use part::KvPart;
pub use reserved::{Keys, ReservedKeys, Stored};
