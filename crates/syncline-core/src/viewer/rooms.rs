//! Who is in which room, on one node, in memory.
//!
//! A page may say in which room its viewer is (presence) and who that is. Sessions and people are counted apart: three tabs of one user are
//! three sessions and one person. A session that names nobody counts as a person of its own and is not listed.
//!
//! Sessions live for [`TTL`] after their last beat, so the order of beats is the order of expiry: one linked list through a slab, as in
//! [`super::SessionTable`]. `beat` and `bye` take constant time but for the order of a room's people; removing the expired is spread over later
//! calls in bounded steps. Answers are exact once [`RoomTable::expire`] says that nothing is left to remove.
//!
//! Guarantees: a session is in one room at most; [`RoomChange`]s of one room alternate; rooms are bounded in all and for each address that
//! opened them, so that a flood of invented rooms from one address leaves room for others. Limits on sessions are the session table's.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::ops::Bound;

use hashbrown::HashTable;
use serde::{Deserialize, Serialize};

use super::sessions::REMOVED_PER_EXPIRE;
use super::{SessionId, TTL};
use crate::time::Timestamp;

/// Longest name of a room or of a person, in bytes.
pub const ROOM_NAME_MAX_BYTES: usize = 128;

/// Most people that one page of a listing has.
pub const PEOPLE_LIST_MAX: usize = 1_000;

/// Expired sessions that each beat removes: more than the one it may add.
const REMOVED_PER_BEAT: usize = 2;

/// The end of a list.
const NIL: u32 = u32::MAX;

/// How many are in a room.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoomCounts {
    /// Live sessions.
    pub sessions: u64,
    /// Those whose page is in sight.
    pub visible: u64,
    /// People: each name once, and each session that names nobody.
    pub people: u64,
}

/// One person in a room.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Person {
    /// The name.
    pub user: String,
    /// Its live sessions there.
    pub sessions: u32,
    /// Those whose page is in sight.
    pub visible: u32,
    /// Whether the name was proved by a token in all of them.
    pub verified: bool,
}

/// Who a session says it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Visitor<'a> {
    /// In which room.
    pub room: &'a str,
    /// Who; `None` for nobody in particular.
    pub user: Option<&'a str>,
    /// Whether a token proves the name.
    pub verified: bool,
    /// Whether the page is in sight.
    pub visible: bool,
    /// From where, for the bound on rooms.
    pub address: IpAddr,
}

/// What changed in a room, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RoomChange {
    /// The first session came in.
    Occupied(String),
    /// Somebody's first session there came in.
    Joined(String, String),
    /// Somebody's last session there went.
    Left(String, String),
    /// The last session went.
    Vacated(String),
    /// Counts changed in another way.
    Counted(String),
}

impl RoomChange {
    /// The room.
    #[must_use]
    pub fn room(&self) -> &str {
        match self {
            Self::Occupied(room)
            | Self::Joined(room, _)
            | Self::Left(room, _)
            | Self::Vacated(room)
            | Self::Counted(room) => room,
        }
    }
}

/// Why a name of a room or a person, or a room itself, was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RoomRefused {
    /// The name does not fit.
    #[error("{what} must have 1 to {ROOM_NAME_MAX_BYTES} bytes and no control characters")]
    Name {
        /// Whose: `room` or `user`.
        what: &'static str,
    },
    /// A user without a room.
    #[error("user needs a room to be in")]
    UserWithoutRoom,
    /// There are as many rooms as this node holds.
    #[error(
        "this node has {max} rooms, which is all it can; sessions count without a room, and rooms that are there go on"
    )]
    TooMany {
        /// How many that is.
        max: usize,
    },
    /// The address has opened as many rooms as it may.
    #[error("{max} rooms that are occupied were opened from this address, which is all it may")]
    TooManyOfAddress {
        /// How many that is.
        max: usize,
    },
}

/// Checks the name of a room or a person.
pub fn check_room_name(what: &'static str, name: &str) -> Result<(), RoomRefused> {
    let fits = !name.is_empty() && name.len() <= ROOM_NAME_MAX_BYTES && !name.chars().any(char::is_control);
    if fits { Ok(()) } else { Err(RoomRefused::Name { what }) }
}

/// The rooms of one node. `S` hashes session ids, which come from outside: it must be keyed with a secret.
#[derive(Debug)]
pub struct RoomTable<S = RandomState> {
    hasher: S,
    max_rooms: usize,
    max_of_address: usize,
    rooms: BTreeMap<Box<str>, Room>,
    /// Rooms by the address that opened them.
    opened: HashMap<IpAddr, usize>,
    index: HashTable<u32>,
    members: Vec<Member>,
    free: u32,
    oldest: u32,
    newest: u32,
    now: Timestamp,
}

#[derive(Debug)]
struct Room {
    counts: RoomCounts,
    people: BTreeMap<Box<str>, Seen>,
    opened_by: IpAddr,
}

#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    sessions: u32,
    visible: u32,
    verified: u32,
}

#[derive(Debug)]
struct Member {
    id: SessionId,
    room: Box<str>,
    user: Option<Box<str>>,
    verified: bool,
    visible: bool,
    expires_at: Timestamp,
    older: u32,
    newer: u32,
}

impl<S: BuildHasher> RoomTable<S> {
    /// No rooms yet; up to `max_rooms` in all, and `max_of_address` that one address opened.
    #[must_use]
    pub fn new(max_rooms: usize, max_of_address: usize, hasher: S) -> Self {
        Self {
            hasher,
            max_rooms,
            max_of_address,
            rooms: BTreeMap::new(),
            opened: HashMap::new(),
            index: HashTable::new(),
            members: Vec::new(),
            free: NIL,
            oldest: NIL,
            newest: NIL,
            now: Timestamp::ZERO,
        }
    }

    /// Whether nobody is in any room: then a session without a room needs no look here.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// A heartbeat of `id`, which is in a room: it counts there for another [`TTL`], and in no other room. What changed is added to `changes`.
    /// The names were checked. A refusal changes nothing.
    pub fn beat(
        &mut self,
        now: Timestamp,
        id: &SessionId,
        visitor: &Visitor<'_>,
        changes: &mut Vec<RoomChange>,
    ) -> Result<(), RoomRefused> {
        let now = self.advance(now);
        self.remove_expired(now, REMOVED_PER_BEAT, changes);
        let found = self.find(id);
        if let Some(slot) = found {
            let member = &self.members[slot as usize];
            let same = *member.room == *visitor.room
                && member.user.as_deref() == visitor.user
                && member.verified == visitor.verified
                && member.expires_at > now;
            if same {
                if member.visible != visitor.visible {
                    self.count_out(slot);
                    self.members[slot as usize].visible = visitor.visible;
                    self.count_in(slot);
                    changes.push(RoomChange::Counted(visitor.room.to_owned()));
                }
                self.unlink(slot);
                self.link_newest(slot, now + TTL);
                return Ok(());
            }
        }
        self.admit(visitor)?;
        if let Some(slot) = found {
            self.leave(slot, changes);
        }
        self.enter(now, id, visitor, changes);
        Ok(())
    }

    /// The session is in no room any more. An unknown one is no error.
    pub fn bye(&mut self, now: Timestamp, id: &SessionId, changes: &mut Vec<RoomChange>) {
        self.advance(now);
        if let Some(slot) = self.find(id) {
            self.leave(slot, changes);
        }
    }

    /// Removes some of the expired sessions, and says whether more are left.
    pub fn expire(&mut self, now: Timestamp, changes: &mut Vec<RoomChange>) -> bool {
        let now = self.advance(now);
        self.remove_expired(now, REMOVED_PER_EXPIRE, changes);
        self.oldest_expired(now).is_some()
    }

    /// How many are in a room, as far as the expired are removed; all zero for a room that is not there.
    #[must_use]
    pub fn counts(&self, room: &str) -> RoomCounts {
        self.rooms.get(room).map_or_else(RoomCounts::default, |room| room.counts)
    }

    /// Rooms with somebody in them, by name, behind `after`.
    pub fn rooms<'a>(&'a self, after: Option<&str>) -> impl Iterator<Item = (&'a str, RoomCounts)> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.rooms.range::<str, _>((from, Bound::Unbounded)).map(|(name, room)| (&**name, room.counts))
    }

    /// The same from `prefix` on, or behind `after`.
    pub fn rooms_from<'a>(
        &'a self,
        prefix: &str,
        after: Option<&str>,
    ) -> impl Iterator<Item = (&'a str, RoomCounts)> {
        let from = after.map_or(Bound::Included(prefix), Bound::Excluded);
        self.rooms.range::<str, _>((from, Bound::Unbounded)).map(|(name, room)| (&**name, room.counts))
    }

    /// Whether somebody of this name is in the room.
    #[must_use]
    pub fn has_person(&self, room: &str, user: &str) -> bool {
        self.rooms.get(room).is_some_and(|room| room.people.contains_key(user))
    }

    /// People in a room who have a name, by name, behind `after`.
    pub fn people<'a>(&'a self, room: &str, after: Option<&str>) -> impl Iterator<Item = Person> + 'a {
        let from = after.map(str::to_owned);
        let people = self.rooms.get(room).map(|room| &room.people);
        people.into_iter().flat_map(move |people| {
            let from = from.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
            people.range::<str, _>((from, Bound::Unbounded)).map(|(user, seen)| Person {
                user: (**user).to_owned(),
                sessions: seen.sessions,
                visible: seen.visible,
                verified: seen.verified == seen.sessions,
            })
        })
    }

    /// How many rooms have somebody in them.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rooms.len()
    }

    fn advance(&mut self, now: Timestamp) -> Timestamp {
        self.now = self.now.max(now);
        self.now
    }

    /// Whether the visitor's room is there, or may be opened.
    fn admit(&self, visitor: &Visitor<'_>) -> Result<(), RoomRefused> {
        if self.rooms.contains_key(visitor.room) {
            return Ok(());
        }
        if self.rooms.len() >= self.max_rooms {
            return Err(RoomRefused::TooMany { max: self.max_rooms });
        }
        if self.opened.get(&visitor.address).is_some_and(|count| *count >= self.max_of_address) {
            return Err(RoomRefused::TooManyOfAddress { max: self.max_of_address });
        }
        Ok(())
    }

    fn enter(
        &mut self,
        now: Timestamp,
        id: &SessionId,
        visitor: &Visitor<'_>,
        changes: &mut Vec<RoomChange>,
    ) {
        let Visitor { room, user, verified, visible, address } = *visitor;
        if !self.rooms.contains_key(room) {
            let opened = Room { counts: RoomCounts::default(), people: BTreeMap::new(), opened_by: address };
            self.rooms.insert(room.into(), opened);
            *self.opened.entry(address).or_default() += 1;
            changes.push(RoomChange::Occupied(room.to_owned()));
        }
        let (expires_at, older, newer) = (Timestamp::ZERO, NIL, NIL);
        let user: Option<Box<str>> = user.map(Into::into);
        let member = Member { id: *id, room: room.into(), user, verified, visible, expires_at, older, newer };
        let slot = self.occupy(member);
        self.link_newest(slot, now + TTL);
        let is_new = self.count_in(slot);
        changes.push(match visitor.user {
            Some(user) if is_new => RoomChange::Joined(room.to_owned(), user.to_owned()),
            _ => RoomChange::Counted(room.to_owned()),
        });
    }

    fn leave(&mut self, slot: u32, changes: &mut Vec<RoomChange>) {
        let was_last = self.count_out(slot);
        self.unlink(slot);
        let hash = self.hasher.hash_one(self.members[slot as usize].id.as_bytes());
        let entry = self.index.find_entry(hash, |&indexed| indexed == slot);
        entry.expect("every member is in the index").remove();
        let member = &mut self.members[slot as usize];
        member.newer = self.free;
        self.free = slot;
        let (room, user) = (std::mem::take(&mut member.room), member.user.take());
        let name = String::from(room);
        changes.push(match user {
            Some(user) if was_last => RoomChange::Left(name.clone(), user.into()),
            _ => RoomChange::Counted(name.clone()),
        });
        let opened_by =
            self.rooms.get(&*name).filter(|room| room.counts.sessions == 0).map(|room| room.opened_by);
        if let Some(address) = opened_by {
            self.rooms.remove(&*name);
            match self.opened.get_mut(&address) {
                Some(count) if *count > 1 => *count -= 1,
                _ => drop(self.opened.remove(&address)),
            }
            changes.push(RoomChange::Vacated(name));
        }
    }

    /// Counts a member in its room; whether its person was not there before.
    fn count_in(&mut self, slot: u32) -> bool {
        let Member { room, user, verified, visible, .. } = &self.members[slot as usize];
        let room = self.rooms.get_mut(&**room).expect("a member's room is there");
        room.counts.sessions += 1;
        room.counts.visible += u64::from(*visible);
        let Some(user) = user else {
            room.counts.people += 1;
            return true;
        };
        // Most are there already; only a new person needs a name of its own.
        let is_new = !room.people.contains_key(user);
        if is_new {
            room.people.insert(user.clone(), Seen::default());
            room.counts.people += 1;
        }
        let seen = room.people.get_mut(user).expect("it was looked for or put there");
        seen.sessions += 1;
        seen.visible += u32::from(*visible);
        seen.verified += u32::from(*verified);
        is_new
    }

    /// The reverse; whether its person is gone.
    fn count_out(&mut self, slot: u32) -> bool {
        let Member { room, user, verified, visible, .. } = &self.members[slot as usize];
        let room = self.rooms.get_mut(&**room).expect("a member's room is there");
        room.counts.sessions -= 1;
        room.counts.visible -= u64::from(*visible);
        let gone = match user {
            None => true,
            Some(user) => {
                let seen = room.people.get_mut(user).expect("a member's person is there");
                seen.sessions -= 1;
                seen.visible -= u32::from(*visible);
                seen.verified -= u32::from(*verified);
                let gone = seen.sessions == 0;
                if gone {
                    room.people.remove(user);
                }
                gone
            }
        };
        room.counts.people -= u64::from(gone);
        gone
    }

    fn find(&self, id: &SessionId) -> Option<u32> {
        let hash = self.hasher.hash_one(id.as_bytes());
        self.index.find(hash, |&slot| self.members[slot as usize].id == *id).copied()
    }

    fn occupy(&mut self, member: Member) -> u32 {
        let hash = self.hasher.hash_one(member.id.as_bytes());
        let slot = if let Some(free) = self.members.get_mut(self.free as usize) {
            let slot = std::mem::replace(&mut self.free, free.newer);
            *free = member;
            slot
        } else {
            self.members.push(member);
            (self.members.len() - 1) as u32
        };
        let (members, hasher) = (&self.members, &self.hasher);
        self.index.insert_unique(hash, slot, |&slot| hasher.hash_one(members[slot as usize].id.as_bytes()));
        slot
    }

    fn remove_expired(&mut self, now: Timestamp, limit: usize, changes: &mut Vec<RoomChange>) {
        for _ in 0..limit {
            match self.oldest_expired(now) {
                Some(slot) => self.leave(slot, changes),
                None => break,
            }
        }
    }

    fn oldest_expired(&self, now: Timestamp) -> Option<u32> {
        let oldest = self.members.get(self.oldest as usize)?;
        (oldest.expires_at <= now).then_some(self.oldest)
    }

    fn unlink(&mut self, slot: u32) {
        let Member { older, newer, .. } = self.members[slot as usize];
        match self.members.get_mut(older as usize) {
            Some(older) => older.newer = newer,
            None => self.oldest = newer,
        }
        match self.members.get_mut(newer as usize) {
            Some(newer) => newer.older = older,
            None => self.newest = older,
        }
    }

    fn link_newest(&mut self, slot: u32, expires_at: Timestamp) {
        let older = std::mem::replace(&mut self.newest, slot);
        match self.members.get_mut(older as usize) {
            Some(older) => older.newer = slot,
            None => self.oldest = slot,
        }
        let linked = &mut self.members[slot as usize];
        (linked.expires_at, linked.older, linked.newer) = (expires_at, older, NIL);
    }
}

#[cfg(test)]
#[path = "rooms_tests.rs"]
mod tests;
