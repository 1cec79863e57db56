//! Who is watching.
//!
//! A page runs a [`Heartbeat`]; the node it talks to keeps its session in a [`Roster`]; nodes tell each other a
//! [`Summary`] each. Times to live run on the monotonic clock of whoever counts, never on the time of day.

mod roster;
mod session;

pub use roster::{Beat, Change, REMOVED_PER_EXPIRE, Roster};
pub use session::{InvalidSession, SESSION_MAX_BYTES, SessionId};

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// How long a viewer counts after its last heartbeat.
pub const TTL: Duration = Duration::from_secs(60);

/// How many are watching.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// Live sessions.
    pub viewers: u64,
    /// Those whose page is in sight.
    pub visible: u64,
}
