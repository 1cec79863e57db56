//! The covers a page remembers, oldest forgotten first.
//!
//! In memory the cache holds the very text that is stored, and an index from ISBN to the place of its entry:
//! no allocation per cover, one entry per book, and an insert appends a few characters to one segment. Room is
//! made by dropping the oldest entries, exactly as many as needed. [`flush`](CoverCache::flush) hands out what has to
//! be written since the last time; writing it to localStorage, and when, are up to the page.
//!
//! Several tabs may share the storage without knowing of each other: each writes whole, valid segments, so the
//! worst that happens is that one tab's covers overwrite another's and are asked for again.

use std::cmp::Reverse;
use std::mem;

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use super::segment::{self, BODY_UNITS, KEY_PREFIX, OVERHEAD_UNITS, Part, SEGMENTS};
use super::{Compressed, CoverUrl, Refused, check, packed};
use crate::isbn::Isbn13;

/// Covers by ISBN in at most [`STORED_MAX_BYTES`](super::STORED_MAX_BYTES) of localStorage.
#[derive(Debug)]
pub struct CoverCache {
    /// The ring; a segment's sequence number modulo [`SEGMENTS`] is its place in it.
    segments: Vec<Segment>,
    /// Sequence number of the segment being filled.
    head: u32,
    /// What the head segment held one lap ago and has not yet been pushed out: the oldest entries of all.
    old: Segment,
    /// How many bytes of `old.text` have been pushed out already.
    old_start: usize,
    index: HashTable<Place>,
    /// One bit per segment that differs from what is stored.
    changed: u64,
    /// Keys under our prefix that are no segments.
    foreign: Vec<String>,
    /// UTF-16 units of all entries.
    units: usize,
    /// Kept between inserts so that they need not allocate.
    scratch: String,
}

/// Sequence number and entries of one segment.
#[derive(Debug, Default)]
struct Segment {
    sequence: u32,
    text: String,
    units: usize,
    entries: usize,
}

/// Where the entry of one ISBN is.
#[derive(Debug, Clone, Copy)]
struct Place {
    number: u32,
    /// Of the segment that holds it; if the ring has moved on from there, the entry is in `old`.
    sequence: u32,
    offset: u32,
}

/// What an insert did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Inserted {
    /// The same cover was there already; nothing needs to be written.
    Unchanged,
    /// The cover is the newest now.
    Stored {
        /// How many of the oldest covers made room for it.
        dropped: usize,
    },
}

/// One change to localStorage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Write {
    /// `setItem(key, text)`
    Set {
        /// The key.
        key: String,
        /// The whole new value.
        text: String,
    },
    /// `removeItem(key)`
    Remove {
        /// The key.
        key: String,
    },
}

impl CoverCache {
    /// An empty cache that assumes nothing is stored.
    #[must_use]
    pub fn new() -> Self {
        Self {
            segments: (0..SEGMENTS as u32).map(Segment::at).collect(),
            head: 0,
            old: Segment::default(),
            old_start: 0,
            index: HashTable::new(),
            changed: 0,
            foreign: Vec::new(),
            units: 0,
            scratch: String::new(),
        }
    }

    /// Takes up what an earlier page left. `items` are keys and values of localStorage; those without
    /// [`KEY_PREFIX`] are ignored. What is corrupt, foreign or too large counts as absent, and the next
    /// [`flush`](Self::flush) removes it.
    pub fn load<K: AsRef<str>, V: AsRef<str>>(items: impl IntoIterator<Item = (K, V)>) -> Self {
        let mut cache = Self::new();
        let items: Vec<_> =
            items.into_iter().filter(|(key, _)| key.as_ref().starts_with(KEY_PREFIX)).collect();
        let mut found = Vec::with_capacity(SEGMENTS);
        for (key, text) in &items {
            match segment::index_of(key.as_ref()) {
                None => cache.foreign.push(key.as_ref().to_owned()),
                Some(index) => match segment::decode(index, text.as_ref()) {
                    Some(decoded) => found.push(decoded),
                    None => cache.changed |= 1 << index,
                },
            }
        }
        // Newest first: where a book is found twice (two tabs wrote), the newer entry counts.
        found.sort_unstable_by_key(|decoded| Reverse(decoded.sequence));
        // No storage has a key twice, but an iterator may.
        let mut seen = 0_u64;
        found.retain(|decoded| {
            let before = seen;
            seen |= 1 << (decoded.sequence as usize % SEGMENTS);
            seen != before
        });
        cache.head = found.first().map_or(0, |newest| newest.sequence);
        for decoded in &found {
            cache.segments[decoded.sequence as usize % SEGMENTS] =
                cache.take_up(decoded.sequence, &decoded.fresh);
            // Old entries elsewhere are left over from a page that died between two writes; a later segment
            // has pushed them out.
            if decoded.sequence != cache.head && !decoded.old.places.is_empty() {
                cache.changed |= 1 << (decoded.sequence as usize % SEGMENTS);
            }
        }
        if let Some(newest) = found.first() {
            cache.old = cache.take_up(newest.sequence.wrapping_sub(SEGMENTS as u32), &newest.old);
        }
        cache
    }

    /// The cover of a book, if it is remembered.
    #[must_use]
    pub fn get(&self, isbn: Isbn13) -> Option<CoverUrl> {
        packed::read(self.entry(self.place(isbn.number())?))?.form()?.expand(isbn).ok()
    }

    /// Remembers a cover as the newest, forgetting the oldest where room is needed.
    pub fn insert(&mut self, isbn: Isbn13, url: &CoverUrl) -> Inserted {
        self.insert_text(isbn, url.as_str()).expect("it was checked when it was made")
    }

    /// The same for a text that may be no cover.
    pub fn insert_text(&mut self, isbn: Isbn13, url: &str) -> Result<Inserted, Refused> {
        let mut entry = mem::take(&mut self.scratch);
        entry.clear();
        let known = packed::write(&mut entry, isbn, &Compressed::of(isbn, url));
        let checked = if known { Ok(()) } else { check(url) };
        let inserted = checked.map(|()| self.put(isbn, &entry));
        self.scratch = entry;
        inserted
    }

    fn put(&mut self, isbn: Isbn13, entry: &str) -> Inserted {
        let known = self.place(isbn.number()).map(|place| self.entry(place).starts_with(entry));
        if known == Some(true) {
            return Inserted::Unchanged;
        }
        if known == Some(false) {
            self.remove(isbn);
        }
        let units = segment::units(entry);
        let dropped = self.make_room(units);
        self.append(isbn.number(), entry, units);
        Inserted::Stored { dropped }
    }

    /// Forgets one cover. Costs as much as its segment is long.
    pub fn remove(&mut self, isbn: Isbn13) -> bool {
        let Some(place) = self.place(isbn.number()).copied() else { return false };
        let bytes = packed::read(self.entry(&place)).expect("only sound entries are kept").bytes;
        self.forget(isbn.number());
        let segment = if self.is_old(&place) {
            &mut self.old
        } else {
            &mut self.segments[place.sequence as usize % SEGMENTS]
        };
        let start = place.offset as usize;
        let units = segment::units(&segment.text[start..start + bytes]);
        segment.text.replace_range(start..start + bytes, "");
        segment.units -= units;
        segment.entries -= 1;
        self.units -= units;
        self.changed |= 1 << (place.sequence as usize % SEGMENTS);
        self.shift(place.sequence, start);
        true
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        let stored =
            (0..SEGMENTS).filter(|index| !self.is_empty_at(*index)).fold(0, |bits, index| bits | 1 << index);
        *self = Self { changed: self.changed | stored, foreign: mem::take(&mut self.foreign), ..Self::new() };
    }

    /// What has to be written to make localStorage the same as this cache, oldest first.
    ///
    /// A write that fails (the quota may be used up by others) needs no repair: the stored segment stays valid,
    /// and the covers in it are written again with the next change.
    pub fn flush(&mut self) -> Vec<Write> {
        let mut writes: Vec<_> = self.foreign.drain(..).map(|key| Write::Remove { key }).collect();
        for step in 1..=SEGMENTS {
            let index = (self.head as usize + step) % SEGMENTS;
            if self.changed & 1 << index == 0 {
                continue;
            }
            let (key, segment) = (segment::key(index), &self.segments[index]);
            writes.push(if self.is_empty_at(index) {
                Write::Remove { key }
            } else {
                let (old, entries) = if index == self.head_index() {
                    (&self.old.text[self.old_start..], self.old.entries)
                } else {
                    ("", 0)
                };
                Write::Set { key, text: segment::encode(segment.sequence, &segment.text, old, entries) }
            });
        }
        self.changed = 0;
        writes
    }

    /// How many covers are remembered.
    #[must_use]
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// Whether none is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// What the cache takes in localStorage once flushed, at two bytes per UTF-16 unit, keys included.
    #[must_use]
    pub fn stored_bytes(&self) -> usize {
        let segments = (0..SEGMENTS).filter(|index| !self.is_empty_at(*index)).count();
        2 * (self.units + segments * OVERHEAD_UNITS)
    }

    /// Drops the oldest entries until the head segment can take `units` more, moving on to the next segment
    /// where nothing old is left to drop. Ends because no entry is longer than a segment.
    fn make_room(&mut self, units: usize) -> usize {
        let mut dropped = 0;
        while self.segments[self.head_index()].units + self.old.units + units > BODY_UNITS {
            if self.old.entries > 0 {
                self.drop_oldest();
                dropped += 1;
            } else {
                self.advance();
            }
        }
        dropped
    }

    fn drop_oldest(&mut self) {
        let text = &self.old.text[self.old_start..];
        let entry = packed::read(text).expect("only sound entries are kept");
        let (number, bytes, units) = (entry.isbn.number(), entry.bytes, segment::units(&text[..entry.bytes]));
        self.old_start += bytes;
        self.old.units -= units;
        self.old.entries -= 1;
        self.units -= units;
        self.forget(number);
    }

    fn advance(&mut self) {
        self.head += 1;
        let next = Segment::at(self.head);
        let index = self.head_index();
        self.old = mem::replace(&mut self.segments[index], next);
        self.old_start = 0;
    }

    fn append(&mut self, number: u32, entry: &str, units: usize) {
        let index = self.head_index();
        let segment = &mut self.segments[index];
        let place = Place { number, sequence: segment.sequence, offset: segment.text.len() as u32 };
        segment.text.push_str(entry);
        segment.units += units;
        segment.entries += 1;
        self.units += units;
        self.changed |= 1 << index;
        self.set_place(place);
    }

    /// Indexes a run of stored entries and leaves out those of books that are known already.
    fn take_up(&mut self, sequence: u32, part: &Part<'_>) -> Segment {
        self.index.reserve(part.places.len(), hash_of);
        let mut live = Vec::with_capacity(part.places.len());
        let mut end = part.text.len();
        for (number, offset) in part.places.iter().rev() {
            if self.place(*number).is_none() {
                self.set_place(Place { number: *number, sequence, offset: *offset });
                live.push((*number, *offset as usize..end));
            }
            end = *offset as usize;
        }
        if live.len() < part.places.len() {
            self.changed |= 1 << (sequence as usize % SEGMENTS);
        }
        let mut text = String::with_capacity(part.text.len());
        for (number, entry) in live.iter().rev().cloned() {
            self.set_place(Place { number, sequence, offset: text.len() as u32 });
            text.push_str(&part.text[entry]);
        }
        let units = segment::units(&text);
        self.units += units;
        Segment { sequence, text, units, entries: live.len() }
    }

    /// After something was cut out of a segment at `start`, corrects the places of the entries behind.
    fn shift(&mut self, sequence: u32, start: usize) {
        let old = sequence != self.segments[sequence as usize % SEGMENTS].sequence;
        let text = if old { &self.old.text } else { &self.segments[sequence as usize % SEGMENTS].text };
        let mut at = start;
        while at < text.len() {
            let entry = packed::read(&text[at..]).expect("only sound entries are kept");
            let number = entry.isbn.number();
            if let Some(place) = self.index.find_mut(hash(number), |place| place.number == number) {
                place.offset = at as u32;
            }
            at += entry.bytes;
        }
    }

    fn place(&self, number: u32) -> Option<&Place> {
        self.index.find(hash(number), |place| place.number == number)
    }

    fn set_place(&mut self, place: Place) {
        match self.index.entry(hash(place.number), |known| known.number == place.number, hash_of) {
            Entry::Occupied(mut known) => *known.get_mut() = place,
            Entry::Vacant(vacant) => {
                vacant.insert(place);
            }
        }
    }

    fn forget(&mut self, number: u32) {
        if let Ok(found) = self.index.find_entry(hash(number), |place| place.number == number) {
            found.remove();
        }
    }

    /// The text from an entry on.
    fn entry(&self, place: &Place) -> &str {
        let segment =
            if self.is_old(place) { &self.old } else { &self.segments[place.sequence as usize % SEGMENTS] };
        &segment.text[place.offset as usize..]
    }

    fn is_old(&self, place: &Place) -> bool {
        self.segments[place.sequence as usize % SEGMENTS].sequence != place.sequence
    }

    fn is_empty_at(&self, index: usize) -> bool {
        self.segments[index].entries == 0 && (index != self.head_index() || self.old.entries == 0)
    }

    fn head_index(&self) -> usize {
        self.head as usize % SEGMENTS
    }
}

impl Default for CoverCache {
    fn default() -> Self {
        Self::new()
    }
}

impl Segment {
    fn at(sequence: u32) -> Self {
        Self { sequence, ..Self::default() }
    }
}

fn hash_of(place: &Place) -> u64 {
    hash(place.number)
}

/// Spreads neighbouring ISBNs over the table. The keys are the user's own books, so nobody picks them to collide.
fn hash(number: u32) -> u64 {
    let product = u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    product ^ (product >> 32)
}
