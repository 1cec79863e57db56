//! Who is watching.
//!
//! A page runs a [`Heartbeat`]; the node it talks to keeps its session in a [`SessionTable`] and promises the
//! others, in a [`Report`], that somebody is here; who is in which room is in its [`RoomTable`]; every node adds up what its [`Peers`] report. Times to live run on the
//! monotonic clock of whoever counts, never on the time of day.

mod heartbeat;
mod peers;
mod report;
mod rooms;
mod session;
mod sessions;
mod shared_rooms;

pub use heartbeat::{Heartbeat, Input, Message, Output, PING_EVERY};
pub use peers::Peers;
pub use report::{Draft, OwnReport, REPORT_EVERY, REPORT_PREFIX, REPORT_TTL, Report, SLACK, report_key};
pub use rooms::{
    PEOPLE_LIST_MAX, Person, ROOM_NAME_MAX_BYTES, RoomChange, RoomCounts, RoomRefused, RoomTable, Visitor,
    check_room_name,
};
pub use session::{InvalidSession, SESSION_MAX_BYTES, SessionId};
pub use sessions::{BeatOutcome, OccupancyChange, REMOVED_PER_EXPIRE, SessionTable};
pub use shared_rooms::{
    PEOPLE_SHARED_MAX, ROOM_RECORDS_MAX, ROOM_SHARDS, ROOMS_EVERY, ROOMS_PREFIX, RoomDifference, RoomPeers,
    RoomRecord, SharedRoom, merge as merge_person, room_record, room_shard,
};

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
