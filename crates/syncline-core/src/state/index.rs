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

use super::json::{Json, write_text};
use super::layout::{Layout, Place};
use super::names::{GONE_KEPT, HORIZON};
use super::sorted::{Map, Set};
use super::stamp::{Clock, Stamp};
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
    pub changed: Vec<String>,
    /// The document does not say all that is known, or says what is not so.
    pub lacking: bool,
    /// Entities are kept elsewhere now.
    pub moved: bool,
    /// Somebody who knows nothing of stamps changed something.
    pub plain: bool,
    /// Stamps were cut back.
    pub ahead: bool,
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
        self.entries().filter(|(_, entry)| entry.live).map(|(id, _)| id.as_str())
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
            Some(entry) => bucket.insert(id.to_owned(), entry),
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
                    gone.push(id.clone());
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
    pub(super) fn entries(&self) -> impl Iterator<Item = (&String, &Entry)> {
        self.buckets.iter().flat_map(Map::iter)
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
        for (id, entry) in std::mem::replace(&mut self.buckets, empty).into_iter().flatten() {
            self.buckets[layout.bucket(&id)].insert(id, entry);
        }
    }

    /// What the document at `place` should say. Removals older than [`HORIZON`] are forgotten, except the last few.
    pub(super) fn document(&self, place: Place, wall: Timestamp) -> Document {
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
                document.stamps.insert(id.clone(), entry.stamp);
                document.ids.insert(id.clone());
            } else {
                document.gone.insert(id.clone(), entry.stamp);
            }
        }
        document.forget(wall);
        document
    }

    /// Takes in what a document says. `place`: where it was found, if it is a place of the present layout.
    pub(super) fn absorb(
        &mut self,
        document: &Document,
        place: Option<Place>,
        clock: &mut Clock,
        wall: Timestamp,
        recent: &dyn Fn(&str) -> bool,
    ) -> Absorbed {
        let mut absorbed = Absorbed::default();
        let floor = clock.meet(document.floor, wall);
        absorbed.changed = self.raise_floor(floor);
        let since = clock.meet(document.layout_since, wall);
        absorbed.moved = self.join_layout(document.layout, since);
        let mut ahead = clock.is_ahead(document.floor, wall) || clock.is_ahead(document.layout_since, wall);
        let mut facts = Vec::new();
        for (id, &stamp) in document.stamps.iter() {
            ahead |= clock.is_ahead(stamp, wall);
            let stamp = clock.meet(stamp, wall);
            let live = document.ids.contains(id);
            facts.push((id, Entry { stamp: if live { stamp } else { stamp.after(wall) }, live }));
        }
        for (id, &stamp) in document.gone.iter() {
            ahead |= clock.is_ahead(stamp, wall);
            let stamp = clock.meet(stamp, wall);
            if !document.ids.contains(id) {
                facts.push((id, Entry { stamp, live: false }));
            }
        }
        for (id, entry) in facts {
            if self.join(id, entry) {
                absorbed.changed.push(id.clone());
            }
        }
        absorbed.ahead = ahead;
        if place != Some(Place::Whole) {
            absorbed.lacking = place.is_some_and(|place| !document.says(&self.document(place, wall), wall));
            return absorbed;
        }
        let facts = absorbed.changed.len();
        self.understand_plain(document, wall, recent, &mut absorbed);
        absorbed.plain = absorbed.changed.len() > facts;
        absorbed.lacking = ahead || !document.says(&self.document(Place::Whole, wall), wall);
        absorbed
    }

    /// What somebody who knows only `ids` meant.
    fn understand_plain(
        &mut self,
        document: &Document,
        wall: Timestamp,
        recent: &dyn Fn(&str) -> bool,
        absorbed: &mut Absorbed,
    ) {
        let mut facts = Vec::new();
        for id in document.ids.iter().filter(|id| !document.stamps.contains_key(id)) {
            match self.entry(id) {
                None => facts.push((id.clone(), Entry { stamp: self.floor.after(wall), live: true })),
                Some(entry) if !entry.live && !recent(id) => {
                    facts.push((id.clone(), Entry { stamp: entry.stamp.after(wall), live: true }));
                }
                Some(_) => {}
            }
        }
        // In layout C the whole lists nothing, so that nothing can be missing from it.
        if !document.meta && !matches!(self.layout, Layout::C(_)) {
            if document.ids.is_empty() {
                let latest = self.entries().map(|(_, entry)| entry.stamp).max();
                absorbed.changed.extend(self.raise_floor(latest.unwrap_or_default()));
                return;
            }
            let missing = self.entries().filter(|(id, entry)| entry.live && !document.ids.contains(id));
            for (id, entry) in missing {
                if recent(id) {
                    absorbed.omitted.push(id.clone());
                } else {
                    facts.push((id.clone(), Entry { stamp: entry.stamp.after(wall), live: false }));
                }
            }
        }
        for (id, entry) in facts {
            if self.join(&id, entry) {
                absorbed.changed.push(id);
            }
        }
    }
}

/// The one rule of when a removal is forgotten.
#[must_use]
pub fn is_forgotten(removed: Stamp, wall: Timestamp) -> bool {
    wall.saturating_since(removed.wall()) > HORIZON
}

/// What one key of the index says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Document {
    ids: Set,
    stamps: Map<Stamp>,
    gone: Map<Stamp>,
    floor: Stamp,
    layout: Layout,
    layout_since: Stamp,
    /// It has stamps at all.
    meta: bool,
}

impl Document {
    /// Reads a document; `None`: no document, foreign or poisoned.
    pub(super) fn read(text: &str) -> Option<Self> {
        let json = Json::read(text).ok()?;
        let Some(Json::List(ids)) = json.member("ids") else { return None };
        let ids = ids.iter().filter_map(Json::as_text).filter(|id| is_id(id)).map(str::to_owned).collect();
        let stamps = |name| match json.member(name) {
            Some(Json::Map(members)) => {
                let stamp = |(id, stamp): &(String, Json)| Some((id.clone(), Stamp::read(stamp.as_text()?)?));
                members.iter().filter(|(id, _)| is_id(id)).filter_map(stamp).collect()
            }
            _ => Map::new(),
        };
        let stamp =
            |name| json.member(name).and_then(Json::as_text).and_then(Stamp::read).unwrap_or_default();
        let layout = json.member("layout").and_then(Json::as_text).and_then(Layout::read);
        Some(Self {
            ids,
            stamps: stamps("stamps"),
            gone: stamps("gone"),
            floor: stamp("floor"),
            layout: layout.unwrap_or_default(),
            layout_since: if layout.is_some() { stamp("layoutSince") } else { Stamp::ZERO },
            meta: matches!(json.member("stamps"), Some(Json::Map(_))),
        })
    }

    /// Whether it lists `id`.
    pub(super) fn lists(&self, id: &str) -> bool {
        self.ids.contains(id)
    }

    /// Drops removals that are forgotten by this time of day, except the last [`GONE_KEPT`].
    fn forget(&mut self, wall: Timestamp) {
        // Texts order as the stamps do, and a sort of its own would be a good part of the module that pages load.
        let stamps: Set = self.gone.values().map(|stamp| stamp.text()).collect();
        let Some(kept) = stamps.iter().nth_back(GONE_KEPT - 1).and_then(|text| Stamp::read(text)) else {
            return;
        };
        self.gone.retain(|_, stamp| *stamp >= kept || !is_forgotten(*stamp, wall));
    }

    /// Whether it says all that `known` says, and nothing else but removals that may be forgotten: about these two clocks may
    /// differ, and nobody is to write because of it.
    fn says(&self, known: &Self, wall: Timestamp) -> bool {
        let told = |stamps: &Map<Stamp>, id: &String, stamp: &Stamp| stamps.get(id) == Some(stamp);
        self.meta == known.meta
            && (self.floor, self.layout, self.layout_since) == (known.floor, known.layout, known.layout_since)
            && self.ids == known.ids
            && self.stamps == known.stamps
            && known.gone.iter().all(|(id, stamp)| told(&self.gone, id, stamp))
            && self.gone.iter().all(|(id, stamp)| told(&known.gone, id, stamp) || is_forgotten(*stamp, wall))
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

fn write_stamps(stamps: &Map<Stamp>, out: &mut String) {
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
