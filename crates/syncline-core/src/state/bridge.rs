//! Devices in step through a node: what travels, and what the node keeps.
//!
//! A device's changes wait as marks in its own storage and are sent when the node answers. The node merges each by the rule
//! of [`Kept::merge`], the same as replicas', and numbers what is news; a device asks for all after the number it has
//! seen. So a change may be sent twice and arrive late: merged again it is no news.
//!
//! A removal is remembered to the one horizon ([`is_forgotten`](super::is_forgotten)) and by then has a number too. A device
//! that last asked before that gets everything instead ([`Start::Whole`]) before it may send, and drops what is not in it,
//! unless it added that since. So what was removed does not come back. A node that does not know the device's numbers says
//! so ([`Start::Unknown`]), and is sent everything the device has.
//!
//! Storing rows and moving bytes are the caller's; when a device talks to the node is its replica's to say.

use super::index::Entry;
use super::json::{Json, write_text};
use super::stamp::{Stamp, check_ahead};
use super::value::{Stored, is_id};
use crate::time::Timestamp;

/// What is known about one entity, or that there was a reset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// An entity was added, changed or removed.
    Entity {
        /// The entity.
        id: String,
        /// What is known of it.
        kept: Kept,
    },
    /// Everything added up to this stamp is gone.
    Reset(Stamp),
}

/// What is known of an entity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// When it was added or removed.
    pub entry: Entry,
    /// Its latest value. A node keeps that of a removed entity, too, for as long as it remembers the removal: added again
    /// with a value that is older than one that somebody still has, everybody must end with the same.
    pub stored: Option<Stored>,
}

/// Where a device's question begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// After this number: it has everything before.
    After(u64),
    /// At the beginning, because removals it has not heard of are forgotten.
    Whole,
    /// At the beginning, because this node has never heard of it.
    Unknown,
}

impl Start {
    /// Decides. `known`: the device named this log, and `paging`: it is being given everything and goes on after `after`.
    #[must_use]
    pub const fn of(after: u64, known: bool, paging: bool, last: u64, forgotten: u64) -> Self {
        if !known || after > last {
            Self::Unknown
        } else if after < forgotten && !paging {
            Self::Whole
        } else {
            Self::After(after)
        }
    }
}

impl Kept {
    /// What is to be kept after `news`; `None`: it says nothing new. `floor` is the last reset.
    #[must_use]
    pub fn merge(known: Option<&Self>, floor: Stamp, news: &Self) -> Option<Self> {
        let Some(known) = known.filter(|known| known.entry.stamp > floor) else {
            return (news.entry.stamp > floor).then(|| news.clone());
        };
        let entry = if news.entry.beats(known.entry) { news.entry } else { known.entry };
        let stored = later(known.stored.as_ref(), news.stored.as_ref());
        let kept = Self { entry, stored: stored.cloned() };
        (kept != *known).then_some(kept)
    }

    /// Whether devices would see the same.
    #[must_use]
    pub fn shows(&self, other: &Self) -> bool {
        self.entry == other.entry && (!self.entry.live || self.stored == other.stored)
    }

    /// When it was last changed in any way.
    #[must_use]
    pub fn stamp(&self) -> Stamp {
        self.stored.as_ref().and_then(|stored| stored.stamp).unwrap_or_default().max(self.entry.stamp)
    }
}

/// The value with the higher rank; of two with one rank the larger text, so that everybody decides alike.
fn later<'a>(one: Option<&'a Stored>, other: Option<&'a Stored>) -> Option<&'a Stored> {
    match (one, other) {
        (Some(one), Some(other)) => {
            let other_wins = (other.rank(), &other.value) > (one.rank(), &one.value);
            Some(if other_wins { other } else { one })
        }
        (one, other) => one.or(other),
    }
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

    /// Whether its latest stamp is from too far ahead. A node asks; in the last era such stamps are cut back.
    pub fn check_ahead(&mut self, wall: Timestamp) -> bool {
        match self {
            Self::Reset(floor) => check_ahead(floor, wall),
            Self::Entity { kept, .. } => {
                let mut latest = kept.stamp();
                if let Some(stored) = &mut kept.stored {
                    for stamp in stored.stamp.iter_mut().chain(&mut stored.added) {
                        check_ahead(stamp, wall);
                    }
                }
                check_ahead(&mut kept.entry.stamp, wall);
                check_ahead(&mut latest, wall)
            }
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
            Self::Entity { id, kept } => {
                out.push_str("{\"id\":");
                write_text(id, out);
                out.push_str(if kept.entry.live { ",\"added\":\"" } else { ",\"gone\":\"" });
                out.push_str(&kept.entry.stamp.text());
                out.push('"');
                if let Some(stored) = kept.stored.as_ref().filter(|_| kept.entry.live) {
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
        // Devices order values by their stamps alone; a removed entity has none.
        let sensible = stored.as_ref().is_none_or(|stored| entry.live && stored.stamp.is_some());
        sensible.then_some(Self::Entity { id, kept: Kept { entry, stored } })
    }

    /// Writes a list of changes.
    pub fn write_all(changes: &[Self], out: &mut String) {
        out.push('[');
        for (position, change) in changes.iter().enumerate() {
            if position > 0 {
                out.push(',');
            }
            change.write(out);
        }
        out.push(']');
    }

    /// Reads a list of changes; the position of the first that makes no sense.
    pub fn read_all(json: &Json) -> Result<Vec<Self>, usize> {
        let Json::List(changes) = json else { return Err(0) };
        changes.iter().enumerate().map(|(at, change)| Self::read(change).ok_or(at)).collect()
    }
}
