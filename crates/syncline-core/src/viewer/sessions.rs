//! The live sessions of one node, in memory.
//!
//! Every session lives for the same [`TTL`] after its last beat, so the order of beats is the order of expiry:
//! two linked lists (pages in sight, pages hidden) inside one slab answer "is anybody there?" by looking at their
//! newest entry, whatever the number of sessions. `beat`, `bye` and the questions take constant time; removing
//! the expired is spread over later calls in bounded steps and never changes an answer.
//!
//! A session costs 88 bytes in the slab and 5 bytes per slot of the index (6 to 11 for each session): about
//! 100 MB for a million. Memory of sessions that went is kept and reused, so it stays at the highest number
//! there ever was, and that is capped.
//!
//! `now` is monotonic; a `now` earlier than one seen before counts as no time passed. Telling other nodes is
//! [`super::OwnReport`]'s business, limits per address are the edge's.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use hashbrown::HashTable;

use super::{SessionId, Summary, TTL};
use crate::time::Timestamp;

/// Expired sessions each beat removes: more than the one it may add, so that a flood cannot outrun removal.
const REMOVED_PER_BEAT: usize = 2;

/// Expired sessions each call of [`SessionTable::expire`] removes at most: about a millisecond's work.
pub const REMOVED_PER_EXPIRE: usize = 4_096;

/// The end of a list.
const NIL: u32 = u32::MAX;

/// Live sessions with a time to live.
///
/// `S` hashes the ids. They come from outside, so it must be keyed with a secret; [`RandomState`] is.
#[derive(Debug)]
pub struct SessionTable<S = RandomState> {
    hasher: S,
    max_sessions: usize,
    /// Slots by the hash of the id they hold.
    index: HashTable<u32>,
    /// Occupied slots are linked into one of `lists`, free ones from `free` on.
    slots: Vec<Slot>,
    free: u32,
    /// Oldest beat first: hidden pages, then visible ones.
    lists: [List; 2],
    /// The latest `now` any call has brought.
    now: Timestamp,
    /// What the last [`OccupancyChange`] said.
    occupied: bool,
}

#[derive(Debug)]
struct Slot {
    id: SessionId,
    visible: bool,
    expires_at: Timestamp,
    older: u32,
    newer: u32,
}

#[derive(Debug, Clone, Copy)]
struct List {
    oldest: u32,
    newest: u32,
    len: usize,
}

/// What came of a heartbeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BeatOutcome {
    /// The session lives for another [`TTL`].
    Accepted {
        /// It was not there before.
        new: bool,
        /// What this means for the room as a whole, in order. Usually nothing; both changes when the last
        /// viewer had expired before anybody noticed.
        changes: &'static [OccupancyChange],
    },
    /// The table is full. The sessions in it renew and still count, so somebody is seen to be watching.
    Refused {
        /// How many sessions it holds at most.
        cap: usize,
    },
}

/// A turn of the room as a whole. The two alternate, beginning with `Occupied`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OccupancyChange {
    /// The first viewer came in.
    Occupied,
    /// The last viewer went, by `bye` or by expiry.
    Vacated,
}

impl<S: BuildHasher> SessionTable<S> {
    /// An empty table that holds up to `max_sessions` (at least one).
    #[must_use]
    pub fn new(max_sessions: usize, hasher: S) -> Self {
        const EMPTY: List = List { oldest: NIL, newest: NIL, len: 0 };
        Self {
            hasher,
            max_sessions: max_sessions.clamp(1, NIL as usize),
            index: HashTable::new(),
            slots: Vec::new(),
            free: NIL,
            lists: [EMPTY; 2],
            now: Timestamp::ZERO,
            occupied: false,
        }
    }

    /// A heartbeat: `id` lives for another [`TTL`], in sight or not.
    pub fn beat(&mut self, now: Timestamp, id: &SessionId, visible: bool) -> BeatOutcome {
        let now = self.advance(now);
        self.remove_expired(now, REMOVED_PER_BEAT);
        let was_active = self.has_active(now);
        let (slot, new) = match self.find(id) {
            Some(slot) => {
                self.unlink(slot);
                (slot, self.slots[slot as usize].expires_at <= now)
            }
            None if self.index.len() >= self.max_sessions => {
                return BeatOutcome::Refused { cap: self.max_sessions };
            }
            None => (self.occupy(id), true),
        };
        self.link_newest(slot, now + TTL, visible);
        let changes: &[OccupancyChange] = match (self.occupied, was_active) {
            (true, true) => &[],
            (true, false) => &[OccupancyChange::Vacated, OccupancyChange::Occupied],
            (false, _) => &[OccupancyChange::Occupied],
        };
        self.occupied = true;
        BeatOutcome::Accepted { new, changes }
    }

    /// The page said goodbye. An unknown id is no error: a goodbye may come twice or late.
    pub fn bye(&mut self, now: Timestamp, id: &SessionId) -> Option<OccupancyChange> {
        let now = self.advance(now);
        if let Some(slot) = self.find(id) {
            self.remove(slot);
        }
        self.vacate(now)
    }

    /// Removes up to [`REMOVED_PER_EXPIRE`] expired sessions and says when the last viewer is gone. To be called
    /// about every second, so that `Vacated` comes on time, and again while [`SessionTable::has_expired`].
    pub fn expire(&mut self, now: Timestamp) -> Option<OccupancyChange> {
        let now = self.advance(now);
        self.remove_expired(now, REMOVED_PER_EXPIRE);
        self.vacate(now)
    }

    /// Whether expired sessions are still to be removed. Until then [`SessionTable::counts`] has to walk over them.
    #[must_use]
    pub fn has_expired(&self, now: Timestamp) -> bool {
        self.oldest_expired(self.now.max(now)).is_some()
    }

    /// Whether anybody is watching.
    #[must_use]
    pub fn has_active(&self, now: Timestamp) -> bool {
        self.watched_until(now).is_some()
    }

    /// When the last of the sessions alive now expires if none beats again.
    #[must_use]
    pub fn watched_until(&self, now: Timestamp) -> Option<Timestamp> {
        self.newest_expiry(false, now).max(self.newest_expiry(true, now))
    }

    /// The same for sessions whose page is in sight.
    #[must_use]
    pub fn visible_until(&self, now: Timestamp) -> Option<Timestamp> {
        self.newest_expiry(true, now)
    }

    /// How many are watching. Walks over sessions that expired but are not yet removed, and no others.
    #[must_use]
    pub fn counts(&self, now: Timestamp) -> Summary {
        let now = self.now.max(now);
        let [hidden, visible] = [false, true].map(|visible| {
            let list = self.lists[usize::from(visible)];
            let expired =
                self.walk(list.oldest, |slot| slot.newer).take_while(|slot| slot.expires_at <= now).count();
            (list.len - expired) as u64
        });
        Summary { viewers: hidden + visible, visible }
    }

    /// How much longer `id` lives, or `None` when it is not there.
    #[must_use]
    pub fn contains(&self, now: Timestamp, id: &SessionId) -> Option<Duration> {
        let slot = &self.slots[self.find(id)? as usize];
        ttl_left(slot, self.now.max(now))
    }

    /// Up to `limit` live sessions whose id starts with `prefix`, and how much longer each lives.
    ///
    /// Which ones, when there are more, is not specified, so that an empty prefix costs `limit` and no more;
    /// a prefix that few ids have costs a walk over all of them.
    #[must_use]
    pub fn list(&self, now: Timestamp, prefix: &str, limit: usize) -> Vec<(SessionId, Duration)> {
        let now = self.now.max(now);
        [true, false]
            .into_iter()
            .flat_map(|visible| self.walk(self.lists[usize::from(visible)].newest, |slot| slot.older))
            .filter(|slot| slot.id.as_bytes().starts_with(prefix.as_bytes()))
            .filter_map(|slot| Some((slot.id, ttl_left(slot, now)?)))
            .take(limit)
            .collect()
    }

    /// Bytes of memory held, for the metrics.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.slots.capacity() * size_of::<Slot>() + self.index.allocation_size()
    }

    fn advance(&mut self, now: Timestamp) -> Timestamp {
        self.now = self.now.max(now);
        self.now
    }

    fn vacate(&mut self, now: Timestamp) -> Option<OccupancyChange> {
        let vacated = self.occupied && !self.has_active(now);
        self.occupied &= !vacated;
        vacated.then_some(OccupancyChange::Vacated)
    }

    fn newest_expiry(&self, visible: bool, now: Timestamp) -> Option<Timestamp> {
        let newest = self.slots.get(self.lists[usize::from(visible)].newest as usize)?;
        (newest.expires_at > self.now.max(now)).then_some(newest.expires_at)
    }

    fn walk(&self, from: u32, step: impl Fn(&Slot) -> u32) -> impl Iterator<Item = &Slot> {
        std::iter::successors(self.slots.get(from as usize), move |slot| self.slots.get(step(slot) as usize))
    }

    fn find(&self, id: &SessionId) -> Option<u32> {
        let hash = hash_of(&self.hasher, id);
        self.index.find(hash, |&slot| self.slots[slot as usize].id == *id).copied()
    }

    /// Puts `id` into a slot that is in the index but in no list yet.
    fn occupy(&mut self, id: &SessionId) -> u32 {
        let unlinked = Slot { id: *id, visible: false, expires_at: Timestamp::ZERO, older: NIL, newer: NIL };
        let slot = self.free;
        let slot = if let Some(free) = self.slots.get_mut(slot as usize) {
            self.free = free.newer;
            *free = unlinked;
            slot
        } else {
            self.slots.push(unlinked);
            (self.slots.len() - 1) as u32
        };
        let (slots, hasher) = (&self.slots, &self.hasher);
        let rehash = |&slot: &u32| hash_of(hasher, &slots[slot as usize].id);
        self.index.insert_unique(hash_of(hasher, id), slot, rehash);
        slot
    }

    fn remove_expired(&mut self, now: Timestamp, limit: usize) {
        for _ in 0..limit {
            match self.oldest_expired(now) {
                Some(slot) => self.remove(slot),
                None => break,
            }
        }
    }

    fn oldest_expired(&self, now: Timestamp) -> Option<u32> {
        let expired =
            |&slot: &u32| self.slots.get(slot as usize).is_some_and(|oldest| oldest.expires_at <= now);
        self.lists.iter().map(|list| list.oldest).find(expired)
    }

    fn remove(&mut self, slot: u32) {
        self.unlink(slot);
        let hash = hash_of(&self.hasher, &self.slots[slot as usize].id);
        let entry = self.index.find_entry(hash, |&indexed| indexed == slot);
        entry.expect("every linked slot is in the index").remove();
        self.slots[slot as usize].newer = self.free;
        self.free = slot;
    }

    fn unlink(&mut self, slot: u32) {
        let Slot { visible, older, newer, .. } = self.slots[slot as usize];
        let list = &mut self.lists[usize::from(visible)];
        list.len -= 1;
        match self.slots.get_mut(older as usize) {
            Some(older) => older.newer = newer,
            None => list.oldest = newer,
        }
        match self.slots.get_mut(newer as usize) {
            Some(newer) => newer.older = older,
            None => list.newest = older,
        }
    }

    /// Time never runs backwards here, so the newest beat also expires last.
    fn link_newest(&mut self, slot: u32, expires_at: Timestamp, visible: bool) {
        let list = &mut self.lists[usize::from(visible)];
        let older = std::mem::replace(&mut list.newest, slot);
        list.len += 1;
        match self.slots.get_mut(older as usize) {
            Some(older) => older.newer = slot,
            None => list.oldest = slot,
        }
        let linked = &mut self.slots[slot as usize];
        (linked.visible, linked.expires_at, linked.older, linked.newer) = (visible, expires_at, older, NIL);
    }
}

fn hash_of(hasher: &impl BuildHasher, id: &SessionId) -> u64 {
    hasher.hash_one(id.as_bytes())
}

fn ttl_left(slot: &Slot, now: Timestamp) -> Option<Duration> {
    Some(slot.expires_at.saturating_since(now)).filter(|left| !left.is_zero())
}

#[cfg(test)]
mod tests {
    use std::hash::{BuildHasherDefault, DefaultHasher};

    use super::*;

    type TestTable = SessionTable<BuildHasherDefault<DefaultHasher>>;

    fn table(max_sessions: usize) -> TestTable {
        SessionTable::new(max_sessions, BuildHasherDefault::default())
    }

    fn at(ms: u64) -> Timestamp {
        Timestamp::from_ms(ms)
    }

    fn id(number: usize) -> SessionId {
        SessionId::new(&format!("session-{number:028}")).unwrap()
    }

    fn accepted(new: bool, changes: &'static [OccupancyChange]) -> BeatOutcome {
        BeatOutcome::Accepted { new, changes }
    }

    #[test]
    fn vw_02_a_session_lives_60_s_after_its_last_beat_and_not_a_millisecond_more() {
        let mut table = table(10);
        table.beat(at(0), &id(1), true);
        table.beat(at(30_000), &id(1), true);
        assert_eq!(table.contains(at(89_999), &id(1)), Some(Duration::from_millis(1)));
        assert!(table.has_active(at(89_999)));
        assert_eq!(table.contains(at(90_000), &id(1)), None);
        assert!(!table.has_active(at(90_000)));
    }

    #[test]
    fn vw_02_beat_and_bye_are_idempotent() {
        let mut table = table(10);
        assert_eq!(table.beat(at(0), &id(1), true), accepted(true, &[OccupancyChange::Occupied]));
        assert_eq!(table.beat(at(0), &id(1), true), accepted(false, &[]));
        assert_eq!(table.counts(at(0)), Summary { viewers: 1, visible: 1 });
        assert_eq!(table.bye(at(1), &id(1)), Some(OccupancyChange::Vacated));
        assert_eq!(table.bye(at(1), &id(1)), None);
        assert_eq!(table.counts(at(1)), Summary::default());
    }

    #[test]
    fn vw_03_an_expired_session_is_never_returned_even_before_it_is_removed() {
        let mut table = table(10);
        table.beat(at(0), &id(1), true);
        table.beat(at(50_000), &id(2), false);
        let now = at(60_000);
        assert_eq!(table.slots.len(), 2);
        assert_eq!(table.counts(now), Summary { viewers: 1, visible: 0 });
        assert_eq!(table.list(now, "", 10), [(id(2), Duration::from_secs(50))]);
    }

    #[test]
    fn vw_04_a_listing_takes_a_prefix_and_a_limit() {
        let mut table = table(10);
        for (name, visible) in [("aa", true), ("ab", false), ("b", true)] {
            table.beat(at(0), &SessionId::new(name).unwrap(), visible);
        }
        assert_eq!(table.list(at(1), "a", 10).len(), 2);
        assert_eq!(table.list(at(1), "", 2).len(), 2);
        assert!(table.list(at(1), "aaa", 10).is_empty());
    }

    #[test]
    fn vw_21_at_the_cap_strangers_are_refused_and_the_room_stays_occupied() {
        let mut table = table(2);
        table.beat(at(0), &id(1), true);
        table.beat(at(1_000), &id(2), true);
        assert_eq!(table.beat(at(2_000), &id(3), true), BeatOutcome::Refused { cap: 2 });
        assert_eq!(table.beat(at(3_000), &id(1), true), accepted(false, &[]));
        assert!(table.has_active(at(3_000)));
        // What has expired makes room at once, swept or not.
        assert_eq!(table.beat(at(61_000), &id(3), true), accepted(true, &[]));
        assert_eq!(table.counts(at(61_000)).viewers, 2);
    }

    #[test]
    fn vw_21_memory_is_reused_and_removal_goes_in_bounded_steps() {
        let (sessions, mut table) = (3 * REMOVED_PER_EXPIRE, table(1_000_000));
        for round in 0..4 {
            let start = round * 100_000;
            for number in 0..sessions {
                table.beat(at(start), &id(round as usize * sessions + number), number % 2 == 0);
            }
            assert_eq!(table.counts(at(start)).viewers, sessions as u64);
            let later = at(start + 60_000);
            assert_eq!(table.expire(later), Some(OccupancyChange::Vacated));
            assert_eq!(table.index.len(), sessions - REMOVED_PER_EXPIRE);
            assert_eq!(table.counts(later), Summary::default());
            assert!(table.has_expired(later));
            table.expire(later);
            table.expire(later);
            assert!(!table.has_expired(later));
            assert_eq!(table.index.len(), 0);
        }
        assert!(table.slots.len() <= sessions, "{} slots", table.slots.len());
    }

    #[test]
    fn vw_21_a_million_sessions_fit_in_110_mb() {
        let mut table = table(1_000_000);
        for number in 0..1_000_000_u128 {
            table.beat(at(0), &SessionId::from_random(number.to_ne_bytes()), true);
        }
        assert_eq!(table.counts(at(0)).viewers, 1_000_000);
        assert!(table.memory_bytes() < 110_000_000, "{} bytes", table.memory_bytes());
        assert_eq!(size_of::<Slot>(), 88);
    }

    #[test]
    fn vw_24_a_clock_set_back_changes_no_time_to_live() {
        let mut table = table(10);
        table.beat(at(100_000), &id(1), true);
        // Read as "no time passed": neither expired now nor alive longer later.
        assert_eq!(table.contains(at(5), &id(1)), Some(TTL));
        table.beat(at(5), &id(2), true);
        assert_eq!(table.counts(at(159_999)).viewers, 2);
        assert_eq!(table.counts(at(160_000)).viewers, 0);
    }

    #[test]
    fn vw_25_a_vacancy_noticed_late_is_announced_before_the_next_arrival() {
        let mut table = table(10);
        table.beat(at(0), &id(1), true);
        let late = accepted(true, &[OccupancyChange::Vacated, OccupancyChange::Occupied]);
        assert_eq!(table.beat(at(60_000), &id(1), true), late);
        assert_eq!(table.expire(at(119_999)), None);
        assert_eq!(table.expire(at(500_000)), Some(OccupancyChange::Vacated));
        assert_eq!(table.expire(at(500_001)), None);
    }

    #[test]
    fn vw_24_visible_and_hidden_pages_are_counted_apart() {
        let mut table = table(10);
        table.beat(at(0), &id(1), false);
        assert_eq!(table.counts(at(0)), Summary { viewers: 1, visible: 0 });
        table.beat(at(10_000), &id(1), true);
        assert_eq!(table.counts(at(10_000)), Summary { viewers: 1, visible: 1 });
        table.beat(at(20_000), &id(1), false);
        assert_eq!(table.counts(at(20_000)), Summary { viewers: 1, visible: 0 });
        assert_eq!(table.visible_until(at(20_000)), None);
        assert_eq!(table.watched_until(at(20_000)), Some(at(80_000)));
    }
}
