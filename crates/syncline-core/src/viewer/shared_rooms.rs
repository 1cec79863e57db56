//! What nodes tell each other of their rooms, and what one node knows of the others'.
//!
//! A node spreads its rooms over [`ROOM_SHARDS`] records by their names, and writes a record when it has changed and while it is not empty every
//! [`ROOMS_EVERY`]. So what is shared is bounded, and a room is always in the same record of a node. Of a room up to [`PEOPLE_SHARED_MAX`] people
//! are named; the others are counted, and one of them who is in the room through two nodes counts twice.
//!
//! A record counts for [`TTL`] after it was first read here, on this node's monotonic clock. Unlike the promise of [`super::Report`], a heartbeat does not
//! wait for it: other nodes know of a room a few seconds later.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::BuildHasher;
use std::ops::Bound;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Person, RoomCounts, RoomTable, TTL};
use crate::kv::VALUE_MAX_BYTES;
use crate::time::Timestamp;

/// Keys of these records begin with this; the writer's node id and the number of the record follow.
pub const ROOMS_PREFIX: &str = "rooms:";

/// Records of one node.
pub const ROOM_SHARDS: usize = 16;

/// A record that is not empty is written at least this often.
pub const ROOMS_EVERY: Duration = Duration::from_secs(20);

/// People of a room who are named to other nodes.
pub const PEOPLE_SHARED_MAX: usize = 100;

/// Records of other nodes that are remembered.
pub const ROOM_RECORDS_MAX: usize = 1_000;

/// One record of a node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoomRecord {
    /// Grows with each writing of the same process.
    pub seq: u64,
    /// Its rooms.
    pub rooms: BTreeMap<String, SharedRoom>,
    /// There are more rooms than fit.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub more: bool,
}

/// A room on one node, as others are told.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedRoom {
    /// How many.
    #[serde(flatten)]
    pub counts: RoomCounts,
    /// Who, as far as they are named.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub named: Vec<Person>,
}

/// The record that a room is in.
#[must_use]
pub fn room_shard(room: &str) -> usize {
    // FNV-1a: the same on every node and in every version.
    let hash = room.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    (hash % ROOM_SHARDS as u64) as usize
}

/// A record of the rooms of `table`, as much of it as fits into a value of the kv.
#[must_use]
pub fn room_record<S: BuildHasher>(table: &RoomTable<S>, shard: usize, seq: u64) -> RoomRecord {
    let mut record = RoomRecord { seq, ..RoomRecord::default() };
    // Names may have every character escaped; numbers and words around them fit into the rest.
    let (mut bytes, weight) = (64, |name: &str| 2 * name.len() + 96);
    for (name, counts) in table.rooms(None).filter(|(name, _)| room_shard(name) == shard) {
        let named: Vec<Person> = table.people(name, None).take(PEOPLE_SHARED_MAX).collect();
        bytes += weight(name) + named.iter().map(|person| weight(&person.user)).sum::<usize>();
        if bytes > VALUE_MAX_BYTES {
            record.more = true;
            break;
        }
        record.rooms.insert(name.to_owned(), SharedRoom { counts, named });
    }
    record
}

/// The rooms of the other nodes.
#[derive(Debug, Default)]
pub struct RoomPeers {
    by_record: BTreeMap<String, Heard>,
}

#[derive(Debug)]
struct Heard {
    record: RoomRecord,
    until: Timestamp,
}

/// What changed in a room through other nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoomDifference {
    /// Which.
    pub room: String,
    /// Whether somebody was in it through another node.
    pub was: bool,
    /// Whether somebody is now.
    pub is: bool,
    /// Who came, among those who are named.
    pub joined: Vec<String>,
    /// Who went.
    pub left: Vec<String>,
}

impl RoomPeers {
    /// Takes in one complete reading of the records of other nodes, and says what changed. A record that has vanished, or that was not written
    /// again for [`TTL`], is over.
    pub fn observe<'a>(
        &mut self,
        now: Timestamp,
        records: impl IntoIterator<Item = (&'a str, RoomRecord)>,
    ) -> Vec<RoomDifference> {
        let before = self.all();
        let mut former = std::mem::take(&mut self.by_record);
        for (key, record) in records.into_iter().take(ROOM_RECORDS_MAX) {
            let heard = match former.remove(key) {
                // The same record again is no news.
                Some(known) if known.record.seq >= record.seq => known,
                _ => Heard { record, until: now + TTL },
            };
            if heard.until > now {
                self.by_record.insert(key.to_owned(), heard);
            }
        }
        differences(&before, &self.all())
    }

    /// How many are in a room through other nodes, and who of them is named.
    #[must_use]
    pub fn room(&self, room: &str) -> SharedRoom {
        let mut sum = SharedRoom::default();
        let mut people: BTreeMap<String, Person> = BTreeMap::new();
        let mut unnamed = 0;
        for shared in self.by_record.values().filter_map(|heard| heard.record.rooms.get(room)) {
            sum.counts.sessions = sum.counts.sessions.saturating_add(shared.counts.sessions);
            sum.counts.visible = sum.counts.visible.saturating_add(shared.counts.visible);
            unnamed += shared.counts.people.saturating_sub(shared.named.len() as u64);
            shared.named.iter().for_each(|person| merge(&mut people, person));
        }
        sum.counts.people = unnamed.saturating_add(people.len() as u64);
        sum.named = people.into_values().collect();
        sum
    }

    /// The names of rooms with somebody in them through other nodes, in order, behind `after`: up to `limit`.
    #[must_use]
    pub fn names(&self, prefix: &str, after: Option<&str>, limit: usize) -> BTreeSet<String> {
        let from = after.filter(|after| *after >= prefix).map_or(Bound::Included(prefix), Bound::Excluded);
        let mut names = BTreeSet::new();
        for heard in self.by_record.values() {
            let range = heard.record.rooms.range::<str, _>((from, Bound::Unbounded));
            let fitting = range.map(|(name, _)| name).take_while(|name| name.starts_with(prefix));
            names.extend(fitting.take(limit).cloned());
        }
        while names.len() > limit {
            names.pop_last();
        }
        names
    }

    /// Every room, how many are in it, and who is named.
    fn all(&self) -> BTreeMap<String, Told> {
        let mut all: BTreeMap<String, Told> = BTreeMap::new();
        for (room, shared) in self.by_record.values().flat_map(|heard| &heard.record.rooms) {
            let told = all.entry(room.clone()).or_default();
            told.sessions = told.sessions.saturating_add(shared.counts.sessions);
            told.visible = told.visible.saturating_add(shared.counts.visible);
            told.named.extend(shared.named.iter().map(|person| person.user.clone()));
        }
        all
    }
}

/// What all records together tell of a room.
#[derive(Debug, Default, PartialEq, Eq)]
struct Told {
    sessions: u64,
    visible: u64,
    named: BTreeSet<String>,
}

/// Adds a person's sessions through one node to those through others.
pub fn merge(people: &mut BTreeMap<String, Person>, person: &Person) {
    match people.get_mut(&person.user) {
        None => drop(people.insert(person.user.clone(), person.clone())),
        Some(known) => {
            known.sessions = known.sessions.saturating_add(person.sessions);
            known.visible = known.visible.saturating_add(person.visible);
            known.verified &= person.verified;
        }
    }
}

fn differences(before: &BTreeMap<String, Told>, after: &BTreeMap<String, Told>) -> Vec<RoomDifference> {
    let nobody = Told::default();
    let rooms: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let changed = rooms.into_iter().filter_map(|room| {
        let (was, is) = (before.get(room), after.get(room));
        let (old, new) = (&was.unwrap_or(&nobody).named, &is.unwrap_or(&nobody).named);
        (was != is).then(|| RoomDifference {
            room: room.clone(),
            was: was.is_some(),
            is: is.is_some(),
            joined: new.difference(old).cloned().collect(),
            left: old.difference(new).cloned().collect(),
        })
    });
    changed.collect()
}

#[cfg(test)]
mod tests {
    use std::hash::{BuildHasherDefault, DefaultHasher};
    use std::net::{IpAddr, Ipv4Addr};

    use super::*;
    use crate::viewer::{SessionId, Visitor};

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_ms(seconds * 1_000)
    }

    fn record(seq: u64, room: &str, people: &[&str], unnamed: u64) -> RoomRecord {
        let named: Vec<Person> = people
            .iter()
            .map(|user| Person { user: (*user).to_owned(), sessions: 1, visible: 1, verified: true })
            .collect();
        let sessions = named.len() as u64 + unnamed;
        let counts = RoomCounts { sessions, visible: sessions, people: sessions };
        RoomRecord {
            seq,
            rooms: BTreeMap::from([(room.to_owned(), SharedRoom { counts, named })]),
            more: false,
        }
    }

    fn words(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn vw_30_one_person_on_two_nodes_is_one_and_changes_are_told_once() {
        let mut peers = RoomPeers::default();
        let heard = |room: &str, was, is, joined: &[&str], left: &[&str]| RoomDifference {
            room: room.to_owned(),
            was,
            is,
            joined: words(joined),
            left: words(left),
        };
        let (one, two) = (record(1, "lobby", &["ann", "bob"], 1), record(1, "lobby", &["ann"], 2));
        let first = peers.observe(at(0), [("a:0", one.clone()), ("b:0", two.clone())]);
        assert_eq!(first, [heard("lobby", false, true, &["ann", "bob"], &[])]);
        let room = peers.room("lobby");
        assert_eq!((room.counts.sessions, room.counts.people), (6, 5));
        assert_eq!((room.named[0].user.as_str(), room.named[0].sessions), ("ann", 2));
        assert_eq!(peers.observe(at(1), [("a:0", one), ("b:0", two.clone())]), []);
        let second = peers.observe(at(2), [("a:0", record(2, "lobby", &["bob"], 0)), ("b:0", two)]);
        assert_eq!(
            second,
            [heard("lobby", true, true, &[], &[])],
            "ann is still there through the other node"
        );
        let third = peers.observe(at(3), [("a:0", record(2, "lobby", &["bob"], 0))]);
        assert_eq!(third, [heard("lobby", true, true, &[], &["ann"])]);
        assert_eq!(peers.observe(at(4), []), [heard("lobby", true, false, &[], &["bob"])]);
        assert_eq!(peers.room("lobby"), SharedRoom::default());
    }

    #[test]
    fn vw_30_a_record_that_is_not_written_again_is_over_and_comes_back_only_as_news() {
        let mut peers = RoomPeers::default();
        peers.observe(at(0), [("a:0", record(7, "lobby", &["ann"], 0))]);
        peers.observe(at(59), [("a:0", record(7, "lobby", &["ann"], 0))]);
        assert_eq!(peers.room("lobby").counts.people, 1);
        assert_eq!(peers.observe(at(60), [("a:0", record(7, "lobby", &["ann"], 0))]).len(), 1);
        assert_eq!(peers.room("lobby").counts.people, 0);
        let many = (0..ROOM_RECORDS_MAX + 5).map(|n| (format!("n{n}:0"), record(1, "lobby", &[], 1)));
        let many: Vec<_> = many.collect();
        peers.observe(at(70), many.iter().map(|(key, record)| (key.as_str(), record.clone())));
        assert_eq!(peers.by_record.len(), ROOM_RECORDS_MAX);
    }

    #[test]
    fn vw_30_records_hold_every_room_once_as_far_as_they_fit() {
        let mut table = RoomTable::new(100_000, 100_000, BuildHasherDefault::<DefaultHasher>::default());
        let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let enter = |table: &mut RoomTable<_>, session: usize, room: &str, user: &str| {
            let visitor = Visitor { room, user: Some(user), verified: false, visible: true, address };
            let id = SessionId::new(&format!("s{session}")).unwrap();
            table.beat(at(0), &id, &visitor, &mut Vec::new()).unwrap();
        };
        for n in 0..1_000 {
            enter(&mut table, n, &format!("room {}", n % 500), &format!("user {n}"));
        }
        for n in 0..300 {
            enter(&mut table, 10_000 + n, "crowded", &format!("user {n}"));
        }
        let records: Vec<RoomRecord> = (0..ROOM_SHARDS).map(|shard| room_record(&table, shard, 1)).collect();
        assert_eq!(records.iter().map(|record| record.rooms.len()).sum::<usize>(), 501);
        let crowded = &records[room_shard("crowded")].rooms["crowded"];
        assert_eq!((crowded.counts.people, crowded.named.len()), (300, PEOPLE_SHARED_MAX));
        let mut peers = RoomPeers::default();
        let keys: Vec<String> = (0..ROOM_SHARDS).map(|shard| format!("n:{shard}")).collect();
        peers.observe(at(0), keys.iter().map(String::as_str).zip(records.clone()));
        assert_eq!(peers.room("crowded").counts.people, 300);
        let names = peers.names("room 49", Some("room 490"), 5);
        assert_eq!(
            names.into_iter().collect::<Vec<_>>(),
            ["room 491", "room 492", "room 493", "room 494", "room 495"]
        );
        // Every name as long and as awkward as it may be.
        let awkward = "\"".repeat(100);
        for n in 0..20_000 {
            enter(&mut table, 20_000 + n, &format!("{awkward}{n}"), &awkward);
        }
        for shard in 0..ROOM_SHARDS {
            assert!(room_record(&table, shard, 2).more);
        }
    }
}
