//! Who is watching.
//!
//! A page runs a [`Heartbeat`]; the node it talks to keeps its session in a [`Roster`] and pledges to the others,
//! in a [`Report`], that somebody is here; every node adds up what [`Nodes`] it knows. Times to live run on the
//! monotonic clock of whoever counts, never on the time of day.

mod heartbeat;
mod nodes;
mod report;
mod roster;
mod session;

pub use heartbeat::{Heartbeat, Input, Message, Output, PING_EVERY};
pub use nodes::Nodes;
pub use report::{Draft, Pledge, REPORT_EVERY, REPORT_PREFIX, REPORT_TTL, Report, SLACK, report_key};
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
