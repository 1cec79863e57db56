//! One batch against one space, without a database: what is kept, numbered and measured.

use std::collections::HashMap;

use serde::Serialize;
use syncline_core::state::names::{DELTA_MAX, PAGE_MAX_BYTES};
use syncline_core::state::{Change, Entry, Kept, Stamp, Start, Stored};
use syncline_core::time::Timestamp;

use super::{Asked, Listed, NEW_EPOCH, SPACE_ENTITIES_MAX, SPACE_MAX_BYTES};
use crate::Error;

/// A space's row: epoch, last, forgotten, floor, number of the floor, entities, bytes.
pub(crate) type Row = (String, i64, i64, String, i64, i64, i64);
/// An entity's row: id, stamp, live, value.
pub(crate) type EntityRow = (String, String, bool, Option<String>);
/// The same with its number.
pub(crate) type NumberedRow = (String, String, bool, Option<String>, i64);

/// A space as its row has it.
#[derive(Debug, Clone)]
pub(crate) struct Header {
    pub(crate) epoch: String,
    pub(crate) last: i64,
    pub(crate) forgotten: i64,
    pub(crate) floor: Stamp,
    pub(crate) floor_number: i64,
    pub(crate) entities: i64,
    pub(crate) bytes: i64,
}

/// An entity to be written.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Written {
    pub(crate) id: String,
    pub(crate) stamp: String,
    pub(crate) live: bool,
    pub(crate) value: Option<String>,
    pub(crate) bytes: i64,
    pub(crate) number: i64,
}

/// What a batch came to.
#[derive(Debug, Clone)]
pub(crate) struct Merged {
    pub(crate) written: Vec<Written>,
    /// The device sent something older than what it should have had.
    pub(crate) lost: bool,
}

impl Header {
    /// A space that is not there.
    pub(crate) fn none() -> Self {
        let (epoch, floor) = (NEW_EPOCH.to_owned(), Stamp::ZERO);
        Self { epoch, last: 0, forgotten: 0, floor, floor_number: 0, entities: 0, bytes: 0 }
    }

    /// Whether it has no row yet.
    pub(crate) fn is_new(&self) -> bool {
        self.epoch == NEW_EPOCH
    }

    /// Whether a batch would be too many entities, as far as removals that give way can help.
    pub(crate) fn is_short_of_room(&self, known: &HashMap<String, (Kept, i64)>, changes: &[Change]) -> bool {
        let unknown = changes.iter().filter(|change| !known.contains_key(change.id())).count();
        self.entities.saturating_add(i64::try_from(unknown).unwrap_or(i64::MAX)) > SPACE_ENTITIES_MAX
    }

    pub(crate) fn read((epoch, last, forgotten, floor, floor_number, entities, bytes): Row) -> Self {
        let floor = Stamp::read(&floor).unwrap_or_default();
        Self { epoch, last, forgotten, floor, floor_number, entities, bytes }
    }

    pub(crate) fn start(&self, asked: &Asked) -> Start {
        let known = asked.epoch.as_deref() == Some(self.epoch.as_str());
        Start::of(asked.after, known, asked.paging, self.last.unsigned_abs(), self.forgotten.unsigned_abs())
    }

    /// The highest reset in a batch, if it is news; it gets the next number.
    pub(crate) fn reset(&mut self, changes: &[Change]) -> bool {
        let floors = changes
            .iter()
            .filter_map(|change| if let Change::Reset(floor) = change { Some(*floor) } else { None });
        let news = floors.max().filter(|floor| *floor > self.floor);
        if let Some(floor) = news {
            self.last += 1;
            (self.floor, self.floor_number) = (floor, self.last);
        }
        news.is_some()
    }

    /// Merges a batch of a device that has everything up to `after` into what is `known` of its entities, by id with their
    /// numbers; `None`: there is no room for it.
    pub(crate) fn merge(
        &mut self,
        mut known: HashMap<String, (Kept, i64)>,
        changes: &[Change],
        after: u64,
    ) -> Option<Merged> {
        known.retain(|_, (kept, _)| kept.entry.stamp > self.floor);
        let (mut written, mut lost) = (HashMap::<&str, Written>::new(), false);
        for change in changes {
            let Change::Entity { id, kept: news } = change else { continue };
            let before = known.get(id);
            let seen = before.is_some_and(|(_, number)| number.unsigned_abs() <= after);
            let Some(kept) = Kept::merge(before.map(|(kept, _)| kept), self.floor, news) else {
                lost |= seen && before.is_some_and(|(kept, _)| !kept.shows(news));
                continue;
            };
            lost |= seen && !kept.shows(news);
            self.last += 1;
            let (value, bytes) = (kept.stored.as_ref().map(Stored::text), measure(id, &kept));
            self.entities += i64::from(before.is_none());
            self.bytes += bytes - before.map_or(0, |(before, _)| measure(id, before));
            let (stamp, live, number) = (kept.entry.stamp.text(), kept.entry.live, self.last);
            written.insert(id, Written { id: id.clone(), stamp, live, value, bytes, number });
            known.insert(id.clone(), (kept, number));
        }
        let fits = self.entities <= SPACE_ENTITIES_MAX && self.bytes <= SPACE_MAX_BYTES;
        fits.then(|| Merged { written: written.into_values().collect(), lost })
    }

    /// What a page says besides its rows.
    pub(crate) fn floor_after(&self, after: u64) -> Option<Change> {
        (self.floor_number.unsigned_abs() > after).then_some(Change::Reset(self.floor))
    }
}

/// How many changes are from clocks too far ahead; in the last era they are cut back.
pub(crate) fn count_ahead(changes: &mut [Change], wall: Timestamp) -> u64 {
    changes.iter_mut().map(|change| u64::from(change.check_ahead(wall))).sum()
}

/// How much of the numbers after a cursor fits on a page: the last of them, and whether more are left.
pub(crate) fn cut(weighed: &[(i64, i64)]) -> (Option<i64>, bool) {
    let (mut rows, mut bytes) = (0, 0);
    for (_, weight) in weighed {
        if rows >= DELTA_MAX || bytes >= PAGE_MAX_BYTES as i64 {
            break;
        }
        rows += 1;
        bytes += weight;
    }
    (rows.checked_sub(1).map(|last| weighed[last].0), rows < weighed.len())
}

/// What a row says of a space.
pub(crate) fn listed((name, entities, bytes, last): (String, i64, i64, i64)) -> Listed {
    let (entities, bytes, number) = (entities.unsigned_abs(), bytes.unsigned_abs(), last.unsigned_abs());
    Listed { name, entities, bytes, number }
}

/// The epoch of a new log.
pub(crate) fn fresh_epoch() -> String {
    format!("{:016x}", rand::random::<u64>())
}

/// What a row says to devices.
pub(crate) fn change(row: EntityRow) -> Result<Change, Error> {
    let (id, mut kept) = kept(row)?;
    kept.stored = kept.stored.filter(|_| kept.entry.live);
    Ok(Change::Entity { id, kept })
}

/// What a row with its number says.
pub(crate) fn numbered(
    (id, stamp, live, value, number): NumberedRow,
) -> Result<(String, (Kept, i64)), Error> {
    let (id, kept) = kept((id, stamp, live, value))?;
    Ok((id, (kept, number)))
}

/// How many numbers are weighed for a page.
pub(crate) const WEIGHED_MAX: i64 = DELTA_MAX as i64 + 1;

/// What a row says.
fn kept((id, stamp, live, value): EntityRow) -> Result<(String, Kept), Error> {
    let read = || {
        let entry = Entry { stamp: Stamp::read(&stamp)?, live };
        let stored = match &value {
            Some(text) => Some(Stored::read(text).ok()?),
            None => None,
        };
        Some(Kept { entry, stored })
    };
    let kept =
        read().ok_or_else(|| Error::invalid("state", format!("of {id} in the database makes no sense")))?;
    Ok((id, kept))
}

fn measure(id: &str, kept: &Kept) -> i64 {
    let value = kept.stored.as_ref().map_or(0, |stored| stored.value.text().len());
    i64::try_from(value + id.len()).unwrap_or(i64::MAX)
}
