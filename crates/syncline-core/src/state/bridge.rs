//! Devices in step through a node: what travels, what the node keeps, what waits until it is reachable.
//!
//! A device's changes wait as marks in its own storage and are sent when the node answers. The node merges each into a
//! [`Log`] by the same rules as replicas and numbers what is news; a device asks for all after the number it has seen.
//! So a change may be sent twice and arrive late: merged again it is no news.
//!
//! A removal is remembered to the one horizon ([`is_forgotten`](super::is_forgotten)) and by then has a number too. A device
//! that last asked before that gets everything instead, and drops what is not in it ([`Page::whole`]); a change that is
//! older than the horizon and about something nobody knows is refused. So what was removed does not come back.
//!
//! Storing the log and moving bytes are the caller's.

mod log;
mod unsent;

use super::index::Entry;
use super::json::{Json, write_text};
use super::stamp::Stamp;
use super::value::{Stored, is_id};

pub use log::{Log, Page};
pub use unsent::Unsent;

/// What is known about one entity, or that there was a reset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// An entity was added, changed or removed.
    Entity {
        /// The entity.
        id: String,
        /// When it was added or removed.
        entry: Entry,
        /// Its value, if it is there.
        stored: Option<Stored>,
    },
    /// Everything added up to this stamp is gone.
    Reset(Stamp),
}

impl Change {
    /// The entity; empty for a reset.
    #[must_use]
    pub fn id(&self) -> &str {
        match self {
            Self::Entity { id, .. } => id,
            Self::Reset(_) => "",
        }
    }

    /// Appends the change as JSON: `{"id", "added" | "gone", "value"}` or `{"reset"}`.
    pub fn write(&self, out: &mut String) {
        match self {
            Self::Reset(stamp) => {
                out.push_str("{\"reset\":\"");
                out.push_str(&stamp.text());
                out.push_str("\"}");
            }
            Self::Entity { id, entry, stored } => {
                out.push_str("{\"id\":");
                write_text(id, out);
                out.push_str(if entry.live { ",\"added\":\"" } else { ",\"gone\":\"" });
                out.push_str(&entry.stamp.text());
                out.push('"');
                if let Some(stored) = stored {
                    out.push_str(",\"value\":");
                    stored.write(out);
                }
                out.push('}');
            }
        }
    }

    /// Reads one change; `None`: it makes no sense.
    #[must_use]
    pub fn read(json: &Json) -> Option<Self> {
        let stamp = |name| json.member(name).and_then(Json::as_text).and_then(Stamp::read);
        if let Some(stamp) = stamp("reset") {
            return Some(Self::Reset(stamp));
        }
        let id = json.member("id")?.as_text().filter(|id| is_id(id))?.to_owned();
        let entry = match (stamp("added"), stamp("gone")) {
            (Some(stamp), None) => Entry { stamp, live: true },
            (None, Some(stamp)) => Entry { stamp, live: false },
            _ => return None,
        };
        let stored = match json.member("value") {
            Some(value) => Some(Stored::from_json(value.clone()).ok()?),
            None => None,
        };
        Some(Self::Entity { id, entry, stored })
    }

    /// Writes a list of changes.
    #[must_use]
    pub fn write_all(changes: &[Self]) -> String {
        let mut out = String::from("[");
        for (position, change) in changes.iter().enumerate() {
            if position > 0 {
                out.push(',');
            }
            change.write(&mut out);
        }
        out.push(']');
        out
    }

    /// Reads a list of changes; `None` if any of them makes no sense.
    #[must_use]
    pub fn read_all(json: &Json) -> Option<Vec<Self>> {
        let Json::List(changes) = json else { return None };
        changes.iter().map(Self::read).collect()
    }
}
