//! Which entities there are: a set that merges, kept beside the `ids` that everybody can read.
//!
//! For each id the index knows when it was added or removed last; the later one counts. A reset is one stamp, the
//! floor: whatever was added before it is gone. Merging is commutative, associative and idempotent, so contexts that
//! have seen the same facts agree, in whatever order and however often they saw them.
//!
//! A document in storage is `{ids, stamps, gone, ...}`. Writers that know only `ids` are understood: an id without a stamp
//! was added, an id missing beside its stamp was removed. Where such a writer dropped the stamps altogether, an id
//! that is missing was removed unless it is news of the last [`PLAIN_WINDOW`](super::names::PLAIN_WINDOW): then the writer
//! had not seen it, or removes its value next.

use std::borrow::Cow;
use std::sync::Arc;

use super::json::{Json, NotJson, Reader, write_text};
use super::layout::{Layout, Place};
use super::names::{GONE_KEPT, HORIZON};
use super::sorted::{Map, Set, order};
use super::stamp::{Clock, ERAS, Stamp};
use super::value::is_id;
use crate::time::Timestamp;

/// The last thing known about one id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// When it happened.
    pub stamp: Stamp,
    /// Added, or removed.
    pub live: bool,
}

impl Entry {
    /// Of two at one stamp the removal counts.
    pub(super) fn beats(self, other: Self) -> bool {
        (self.stamp, !self.live) > (other.stamp, !other.live)
    }
}

/// All that is known about which entities there are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Index {
    floor: Stamp,
    layout: Layout,
    layout_since: Stamp,
    /// One for each key of the index that lists ids, so that a change to one key costs what that key holds.
    buckets: Vec<Map<Entry>>,
    live: usize,
}

impl Default for Index {
    fn default() -> Self {
        Self {
            floor: Stamp::ZERO,
            layout: Layout::B,
            layout_since: Stamp::ZERO,
            buckets: vec![Map::new()],
            live: 0,
        }
    }
}

/// What a document changed.
#[derive(Debug, Default)]
pub(super) struct Absorbed {
    /// Ids whose entry is another now.
    pub changed: Vec<Arc<str>>,
    /// The document does not say all that is known, or says what is not so.
    pub lacking: bool,
    /// Entities are kept elsewhere now.
    pub moved: bool,
    /// Somebody who knows nothing of stamps changed something.
    pub plain: bool,
    /// Recent ids that a writer without stamps did not list: it had not seen them, or was about to remove them.
    pub omitted: Vec<String>,
}

impl Index {
    /// What is known about `id`; what was added before the last reset is not known any more.
    #[must_use]
    pub fn entry(&self, id: &str) -> Option<Entry> {
        self.bucket(id).get(id).copied()
    }

    /// Whether the index lists `id`.
    #[must_use]
    pub fn lists(&self, id: &str) -> bool {
        self.entry(id).is_some_and(|entry| entry.live)
    }

    /// The listed ids.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        self.keys().map(|id| &**id)
    }

    /// The listed ids, for others to share.
    pub(super) fn keys(&self) -> impl Iterator<Item = &Arc<str>> {
        self.entries().filter(|(_, entry)| entry.live).map(|(id, _)| id)
    }

    /// How many ids are listed.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.live
    }

    /// Whether no id is listed.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.live == 0
    }

    /// Where entities are kept.
    #[must_use]
    pub const fn layout(&self) -> Layout {
        self.layout
    }

    /// Everything added at or before this stamp is gone.
    #[must_use]
    pub const fn floor(&self) -> Stamp {
        self.floor
    }

    /// Takes in one fact; whether it was news.
    pub fn join(&mut self, id: &str, entry: Entry) -> bool {
        if entry.stamp <= self.floor || self.entry(id).is_some_and(|known| !entry.beats(known)) {
            return false;
        }
        self.put_back(id, Some(entry));
        true
    }

    /// Makes `entry` what is known about `id`, news or not: for taking back a change that was not stored.
    pub(super) fn put_back(&mut self, id: &str, entry: Option<Entry>) {
        let bucket = &mut self.buckets[self.layout.bucket(id)];
        let before = match entry {
            Some(entry) => bucket.insert(id, entry),
            None => bucket.remove(id),
        };
        self.live -= usize::from(before.is_some_and(|entry| entry.live));
        self.live += usize::from(entry.is_some_and(|entry| entry.live));
    }

    /// Takes in a reset; returns the ids that were listed before and are not any more.
    pub fn raise_floor(&mut self, floor: Stamp) -> Vec<String> {
        if floor <= self.floor {
            return Vec::new();
        }
        self.floor = floor;
        let mut gone = Vec::new();
        for bucket in &mut self.buckets {
            bucket.retain(|id, entry| {
                let stays = entry.stamp > floor;
                if !stays && entry.live {
                    gone.push(id.to_owned());
                }
                stays
            });
        }
        self.live -= gone.len();
        gone
    }

    /// Takes back a reset that was not stored.
    pub(super) fn lower_floor(&mut self, floor: Stamp, entries: &[(String, Entry)]) {
        self.floor = floor;
        for (id, entry) in entries {
            self.join(id, *entry);
        }
    }

    /// Every entry, for [`lower_floor`](Self::lower_floor).
    pub(super) fn entries(&self) -> impl Iterator<Item = (&Arc<str>, &Entry)> {
        self.buckets.iter().flat_map(Map::iter)
    }

    /// The text of `id`, for others to share.
    pub(super) fn key(&self, id: &str) -> Arc<str> {
        self.bucket(id).key(id).unwrap_or_else(|| id.into())
    }

    fn bucket(&self, id: &str) -> &Map<Entry> {
        &self.buckets[self.layout.bucket(id)]
    }

    /// Takes in a change of layout; whether it was news.
    pub(super) fn join_layout(&mut self, layout: Layout, since: Stamp) -> bool {
        let news = since > self.layout_since;
        if news {
            self.put_back_layout(layout, since);
        }
        news
    }

    /// When the layout was chosen.
    pub(super) const fn layout_since(&self) -> Stamp {
        self.layout_since
    }

    /// Takes back a change of layout.
    pub(super) fn put_back_layout(&mut self, layout: Layout, since: Stamp) {
        self.layout_since = since;
        if layout == self.layout {
            return;
        }
        self.layout = layout;
        let empty = (0..layout.buckets()).map(|_| Map::new()).collect();
        for bucket in std::mem::replace(&mut self.buckets, empty) {
            for (id, entry) in bucket.iter() {
                self.buckets[layout.bucket(id)].insert(id, *entry);
            }
        }
    }

    /// What the document at `place` should say. Removals older than [`HORIZON`] are forgotten, except the last few.
    pub(super) fn document(&self, place: Place, wall: Timestamp) -> Document<'_> {
        let mut document = Document { meta: true, ..Document::default() };
        if place == Place::Whole {
            document.floor = self.floor;
            (document.layout, document.layout_since) = (self.layout, self.layout_since);
        }
        let bucket = match (self.layout, place) {
            (Layout::A | Layout::B, Place::Whole) => self.buckets.first(),
            (Layout::C(_), Place::Shard(shard)) => self.buckets.get(shard as usize),
            _ => None,
        };
        for (id, entry) in bucket.into_iter().flat_map(Map::iter) {
            if entry.live {
                document.stamps.push((Cow::Borrowed(id), entry.stamp));
                document.ids.push(Cow::Borrowed(id));
            } else {
                document.gone.push((Cow::Borrowed(id), entry.stamp));
            }
        }
        document.forget(wall);
        document
    }

    /// Takes in what a document says. `place`: where it was found, if it is a place of the present layout.
    pub(super) fn absorb(
        &mut self,
        document: &Document<'_>,
        place: Option<Place>,
        clock: &mut Clock,
        wall: Timestamp,
        recent: &dyn Fn(&str) -> bool,
    ) -> Absorbed {
        let mut absorbed = Absorbed::default();
        clock.meet(document.floor);
        absorbed.changed.extend(self.raise_floor(document.floor).into_iter().map(Arc::from));
        clock.meet(document.layout_since);
        absorbed.moved = self.join_layout(document.layout, document.layout_since);
        // Both are in order: the next id is mostly the one that is looked for.
        let mut ids = document.ids.iter().peekable();
        let both = document.stamps.iter().zip(std::iter::repeat(true));
        for ((id, stamp), added) in both.chain(document.gone.iter().zip(std::iter::repeat(false))) {
            let stamp = *stamp;
            clock.meet(stamp);
            let live = ids.next_if_eq(&id).is_some() || document.lists(id);
            let entry = match (added, live) {
                (true, true) | (false, false) => Entry { stamp, live },
                (true, false) => Entry { stamp: stamp.after(wall), live },
                // It is listed as well, and that counts.
                (false, true) => continue,
            };
            if self.join(id, entry) {
                absorbed.changed.push(self.key(id));
            }
        }
        if place != Some(Place::Whole) {
            absorbed.lacking = place.is_some_and(|place| !document.says(&self.document(place, wall), wall));
            return absorbed;
        }
        let facts = absorbed.changed.len();
        self.understand_plain(document, wall, recent, &mut absorbed);
        absorbed.plain = absorbed.changed.len() > facts;
        absorbed.lacking = !document.says(&self.document(Place::Whole, wall), wall);
        absorbed
    }

    /// What somebody who knows only `ids` meant.
    fn understand_plain(
        &mut self,
        document: &Document<'_>,
        wall: Timestamp,
        recent: &dyn Fn(&str) -> bool,
        absorbed: &mut Absorbed,
    ) {
        let mut facts = Vec::new();
        for id in document.ids.iter().filter(|id| find(&document.stamps, id).is_none()) {
            match self.entry(id) {
                None => facts.push((id.to_string(), Entry { stamp: self.floor.after(wall), live: true })),
                Some(entry) if !entry.live && !recent(id) => {
                    facts.push((id.to_string(), Entry { stamp: entry.stamp.after(wall), live: true }));
                }
                Some(_) => {}
            }
        }
        // In layout C the whole lists nothing, so that nothing can be missing from it.
        if !document.meta && !matches!(self.layout, Layout::C(_)) {
            if document.ids.is_empty() {
                let latest = self.entries().map(|(_, entry)| entry.stamp).max();
                let gone = self.raise_floor(latest.unwrap_or_default());
                absorbed.changed.extend(gone.into_iter().map(Arc::from));
                return;
            }
            let missing = self.entries().filter(|(id, entry)| entry.live && !document.lists(id));
            for (id, entry) in missing {
                if recent(id) {
                    absorbed.omitted.push(id.to_string());
                } else {
                    facts.push((id.to_string(), Entry { stamp: entry.stamp.after(wall), live: false }));
                }
            }
        }
        for (id, entry) in facts {
            if self.join(&id, entry) {
                absorbed.changed.push(id.into());
            }
        }
    }
}

/// The one rule of when a removal is forgotten.
#[must_use]
pub fn is_forgotten(removed: Stamp, wall: Timestamp) -> bool {
    wall.saturating_since(removed.wall()) > HORIZON
}

/// The same rule as ranges of stamps, one for each era: removals from the first and before the second one are forgotten.
pub fn forgotten_ranges(wall: Timestamp) -> impl Iterator<Item = (Stamp, Stamp)> + use<> {
    let horizon = wall.saturating_before(HORIZON);
    (0..ERAS).map(move |era| (Stamp::of(era, Timestamp::ZERO), Stamp::of(era, horizon)))
}

/// Stamps by id, in order of the ids.
type Stamps<'a> = Vec<(Cow<'a, str>, Stamp)>;

/// What one key of the index says. Ids are those of the text or of the index that it was made from: copies of thousands would
/// take most of the time and memory that a start takes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Document<'a> {
    /// In order.
    ids: Vec<Cow<'a, str>>,
    stamps: Stamps<'a>,
    gone: Stamps<'a>,
    floor: Stamp,
    layout: Layout,
    layout_since: Stamp,
    /// It has stamps at all.
    meta: bool,
}

impl<'a> Document<'a> {
    /// Reads a document; `None`: no document, foreign or poisoned.
    pub(super) fn read(text: &'a str) -> Option<Self> {
        let (mut ids, mut stamps, mut gone) = (None, None, None);
        let [mut floor, mut layout, mut since] = [const { None }; 3];
        let mut reader = Reader::new(text);
        reader.space();
        if reader.peek() != b'{' {
            return None;
        }
        let read = reader.members(|reader, name| {
            match &*name {
                "ids" => ids = read_ids(reader)?,
                "stamps" => stamps = read_stamps(reader)?,
                "gone" => gone = read_stamps(reader)?,
                "floor" => floor = Some(reader.value(1)?),
                "layout" => layout = Some(reader.value(1)?),
                "layoutSince" => since = Some(reader.value(1)?),
                _ => drop(reader.value(1)?),
            }
            Ok(())
        });
        read.and_then(|()| reader.end()).ok()?;
        let stamp = |json: Option<Json>| json.as_ref().and_then(Json::as_text).and_then(Stamp::read);
        let layout = layout.as_ref().and_then(Json::as_text).and_then(Layout::read);
        Some(Self {
            ids: ids?,
            meta: stamps.is_some(),
            stamps: stamps.unwrap_or_default(),
            gone: gone.unwrap_or_default(),
            floor: stamp(floor).unwrap_or_default(),
            layout: layout.unwrap_or_default(),
            layout_since: layout.and_then(|_| stamp(since)).unwrap_or_default(),
        })
    }

    /// Whether it lists `id`.
    pub(super) fn lists(&self, id: &str) -> bool {
        self.ids.binary_search_by(|other| order(other, id)).is_ok()
    }

    /// Drops removals that are forgotten by this time of day, except the last [`GONE_KEPT`].
    fn forget(&mut self, wall: Timestamp) {
        if self.gone.len() < GONE_KEPT {
            return;
        }
        // Texts order as the stamps do, and a sort of its own would be a good part of the module that pages load.
        let stamps: Set = self.gone.iter().map(|(_, stamp)| stamp.text()).collect();
        let earlier = stamps.len().checked_sub(GONE_KEPT);
        let Some(kept) = earlier.and_then(|at| stamps.iter().nth(at)).and_then(|text| Stamp::read(text))
        else {
            return;
        };
        self.gone.retain(|(_, stamp)| *stamp >= kept || !is_forgotten(*stamp, wall));
    }

    /// Whether it says all that `known` says, and nothing else but removals that may be forgotten: about these two clocks may
    /// differ, and nobody is to write because of it.
    fn says(&self, known: &Document<'_>, wall: Timestamp) -> bool {
        let told = |stamps: &Stamps<'_>, id: &str, stamp: Stamp| find(stamps, id) == Some(stamp);
        self.meta == known.meta
            && (self.floor, self.layout, self.layout_since) == (known.floor, known.layout, known.layout_since)
            && self.ids == known.ids
            && self.stamps == known.stamps
            && known.gone.iter().all(|(id, stamp)| told(&self.gone, id, *stamp))
            && self.gone.iter().all(|(id, stamp)| told(&known.gone, id, *stamp) || is_forgotten(*stamp, wall))
    }

    /// When its layout was chosen.
    pub(super) const fn layout_since(&self) -> Stamp {
        self.layout_since
    }

    /// Makes it one of ours.
    pub(super) fn mark_ours(&mut self) {
        self.meta = true;
    }

    /// What is stored.
    pub(super) fn text(&self) -> String {
        let mut out = String::from("{\"ids\":[");
        for (position, id) in self.ids.iter().enumerate() {
            if position > 0 {
                out.push(',');
            }
            write_text(id, &mut out);
        }
        out.push_str("],\"stamps\":");
        write_stamps(&self.stamps, &mut out);
        if !self.gone.is_empty() {
            out.push_str(",\"gone\":");
            write_stamps(&self.gone, &mut out);
        }
        let mut member = |name: &str, text: &str| {
            out.push_str(",\"");
            out.push_str(name);
            out.push_str("\":\"");
            out.push_str(text);
            out.push('"');
        };
        if self.floor > Stamp::ZERO {
            member("floor", &self.floor.text());
        }
        if self.layout_since > Stamp::ZERO {
            member("layout", &self.layout.text());
            member("layoutSince", &self.layout_since.text());
        }
        out.push('}');
        out
    }
}

fn find(stamps: &Stamps<'_>, id: &str) -> Option<Stamp> {
    let at = stamps.binary_search_by(|(other, _)| order(other, id)).ok()?;
    stamps.get(at).map(|(_, stamp)| *stamp)
}

/// The ids of a list; `None`: it is no list.
fn read_ids<'a>(reader: &mut Reader<'a>) -> Result<Option<Vec<Cow<'a, str>>>, NotJson> {
    if reader.peek() != b'[' {
        return reader.value(1).map(|_| None);
    }
    let mut ids: Vec<Cow<'a, str>> = Vec::new();
    let mut sorted = true;
    reader.sequence(b']', |reader| {
        if reader.peek() != b'"' {
            reader.value(2)?;
            return Ok(());
        }
        let id = reader.string()?;
        if is_id(&id) {
            sorted &= ids.last().is_none_or(|last| *last < id);
            ids.push(id);
        }
        Ok(())
    })?;
    if !sorted {
        let set: Set = ids.iter().map(|id| &**id).collect();
        ids.clear();
        set.iter().for_each(|id| ids.push(Cow::Owned(id.to_string())));
    }
    Ok(Some(ids))
}

/// The stamps by id of an object; `None`: it is no object.
fn read_stamps<'a>(reader: &mut Reader<'a>) -> Result<Option<Stamps<'a>>, NotJson> {
    let start = reader.place();
    let mut stamps: Stamps<'a> = Vec::new();
    let mut before = Cow::Borrowed("");
    let mut sorted = reader.peek() == b'{';
    if sorted {
        reader.members(|reader, id| {
            sorted &= before < id;
            if reader.peek() != b'"' {
                reader.value(2)?;
            } else if let Some(stamp) = Stamp::read(&reader.string()?).filter(|_| is_id(&id)) {
                stamps.push((id.clone(), stamp));
            }
            before = id;
            Ok(())
        })?;
    }
    if sorted {
        return Ok(Some(stamps));
    }
    // Somebody else wrote it: of two with one id the later one counts.
    reader.go_back(start);
    let Json::Map(members) = reader.value(1)? else { return Ok(None) };
    stamps.clear();
    for (id, json) in members {
        if let Some(stamp) = json.as_text().and_then(Stamp::read).filter(|_| is_id(&id)) {
            stamps.push((Cow::Owned(id), stamp));
        }
    }
    Ok(Some(stamps))
}

fn write_stamps(stamps: &Stamps<'_>, out: &mut String) {
    out.push('{');
    for (position, (id, stamp)) in stamps.iter().enumerate() {
        if position > 0 {
            out.push(',');
        }
        write_text(id, out);
        out.push_str(":\"");
        out.push_str(&stamp.text());
        out.push('"');
    }
    out.push('}');
}

#[cfg(test)]
mod tests;
