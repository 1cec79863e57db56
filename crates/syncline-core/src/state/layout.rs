//! Where things lie in storage.
//!
//! | layout | which entities there are | the entities |
//! |---|---|---|
//! | A | one key | one key for all |
//! | B | one key | one key each |
//! | C | as many keys as keep each one small | one key each |
//!
//! In every layout [`INDEX_KEY`] says which layout it is. A replica's knowledge does not depend on it: a layout is only the
//! way knowledge is written down, which is why layouts can change while others write.

use super::names::{
    CURSOR_KEY, ENTITY_PREFIX, INDEX_KEY, PACKED_KEY, SCHEMA_KEY, SETTINGS_KEY, SHARD_PREFIX, SHARDS_MAX,
    SHARDS_MIN, UNSENT_PREFIX,
};
use super::stamp::Stamp;

/// How entities and index are spread over keys.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Layout {
    /// Few entities: all of them under one key.
    A,
    /// One key for each entity.
    #[default]
    B,
    /// One key for each entity, and an index of this many shards.
    C(u32),
}

/// A part of the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// [`INDEX_KEY`].
    Whole,
    /// A shard.
    Shard(u32),
}

/// What a key is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind<'a> {
    Settings,
    Schema,
    /// Part of the index; of the present layout or not.
    Index(Option<Place>),
    Packed,
    Entity(&'a str),
    /// A change that a node has not confirmed.
    Mark(Stamp, &'a str),
    Cursor,
    /// Not ours.
    Foreign,
}

impl Layout {
    /// Layout C for about this many entities.
    #[must_use]
    pub fn sharded(entities: usize) -> Self {
        let shards = (entities / 32).next_power_of_two();
        Self::C(u32::try_from(shards).unwrap_or(SHARDS_MAX).clamp(SHARDS_MIN, SHARDS_MAX))
    }

    pub(super) fn text(self) -> String {
        match self {
            Self::A => "A".to_owned(),
            Self::B => "B".to_owned(),
            Self::C(shards) => ["C", &shards.to_string()].concat(),
        }
    }

    pub(super) fn read(text: &str) -> Option<Self> {
        match text {
            "A" => Some(Self::A),
            "B" => Some(Self::B),
            _ => {
                let shards = text.strip_prefix('C')?.parse().ok()?;
                (SHARDS_MIN..=SHARDS_MAX).contains(&shards).then_some(Self::C(shards))
            }
        }
    }

    pub(super) fn place(self, id: &str) -> Place {
        match self {
            Self::A | Self::B => Place::Whole,
            Self::C(shards) => Place::Shard(fnv(id) % shards),
        }
    }

    /// How many keys list ids.
    pub(super) const fn buckets(self) -> usize {
        if let Self::C(shards) = self { shards as usize } else { 1 }
    }

    /// Which of them lists `id`.
    pub(super) fn bucket(self, id: &str) -> usize {
        if let Place::Shard(shard) = self.place(id) { shard as usize } else { 0 }
    }

    pub(super) fn key_of(self, place: Place) -> String {
        match (self, place) {
            (Self::C(shards), Place::Shard(shard)) => {
                [SHARD_PREFIX, &shards.to_string(), ":", &shard.to_string()].concat()
            }
            _ => INDEX_KEY.to_owned(),
        }
    }

    /// The key of the index that lists `id`.
    pub(super) fn index_key(self, id: &str) -> String {
        self.key_of(self.place(id))
    }

    /// The key that holds `id`'s value.
    pub(super) fn value_key(self, id: &str) -> String {
        match self {
            Self::A => PACKED_KEY.to_owned(),
            Self::B | Self::C(_) => [ENTITY_PREFIX, id].concat(),
        }
    }

    /// Every key of the index.
    pub(super) fn index_keys(self) -> impl Iterator<Item = String> {
        let shards = if let Self::C(shards) = self { shards } else { 0 };
        let shard = move |shard| self.key_of(Place::Shard(shard));
        std::iter::once(INDEX_KEY.to_owned()).chain((0..shards).map(shard))
    }

    pub(super) fn kind(self, key: &str) -> Kind<'_> {
        if let Some(id) = key.strip_prefix(ENTITY_PREFIX) {
            return Kind::Entity(id);
        }
        if let Some(shard) = key.strip_prefix(SHARD_PREFIX) {
            return Kind::Index(self.shard(shard));
        }
        if let Some(mark) = key.strip_prefix(UNSENT_PREFIX) {
            let mark = mark.split_at_checked(Stamp::TEXT_LEN);
            let mark = mark.and_then(|(stamp, id)| Some((Stamp::read(stamp)?, id)));
            return mark.map_or(Kind::Foreign, |(stamp, id)| Kind::Mark(stamp, id));
        }
        match key {
            CURSOR_KEY => Kind::Cursor,
            INDEX_KEY => Kind::Index(Some(Place::Whole)),
            PACKED_KEY => Kind::Packed,
            SETTINGS_KEY => Kind::Settings,
            SCHEMA_KEY => Kind::Schema,
            _ => Kind::Foreign,
        }
    }

    fn shard(self, name: &str) -> Option<Place> {
        let (shards, shard) = name.split_once(':')?;
        (Self::C(shards.parse().ok()?) == self).then_some(Place::Shard(shard.parse().ok()?))
    }
}

fn fnv(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn st_15_every_key_is_known_for_what_it_is() {
        let c = Layout::C(16);
        for layout in [Layout::A, Layout::B, c] {
            assert_eq!(Layout::read(&layout.text()), Some(layout));
            assert_eq!(layout.kind("trackedEntity:a:b"), Kind::Entity("a:b"));
            assert_eq!(layout.kind("trackedEntities:index"), Kind::Index(Some(Place::Whole)));
            assert_eq!(layout.kind("theirs"), Kind::Foreign);
            for key in layout.index_keys() {
                assert!(matches!(layout.kind(&key), Kind::Index(Some(_))), "{key}");
            }
        }
        assert_eq!(Layout::B.kind(&c.index_key("x")), Kind::Index(None));
        assert_eq!(c.kind(&c.index_key("x")), Kind::Index(Some(c.place("x"))));
        assert_eq!(Layout::read("C0"), None);
        assert_eq!(Layout::sharded(1_000_000_000), Layout::C(SHARDS_MAX));
    }

    #[test]
    fn st_22_ids_spread_evenly_over_the_shards() {
        let layout = Layout::sharded(10_000);
        let mut counts = std::collections::BTreeMap::new();
        for number in 0..10_000 {
            *counts.entry(layout.index_key(&format!("entity-{number}"))).or_insert(0) += 1;
        }
        assert!(counts.values().all(|&count| count < super::super::names::SHARD_IDS_MAX), "{counts:?}");
    }
}
