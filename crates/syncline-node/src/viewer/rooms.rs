//! Rooms on a running node: who is in them on all nodes, events about that, and what nodes tell each other.
//!
//! The rules are core's: [`RoomTable`](syncline_core::viewer::RoomTable) for this node's sessions, [`RoomPeers`] for what the others tell. Guarantees: what is shared,
//! remembered and published is bounded; a store that fails costs no session its room here. Other nodes hear of a room within a few seconds.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Serialize;
use syncline_core::kv::{Key, LIST_MAX};
use syncline_core::schedule::{Audience, Gate};
use syncline_core::time::Timestamp;
use syncline_core::viewer::{
    Person, ROOM_RECORDS_MAX, ROOM_SHARDS, ROOMS_EVERY, ROOMS_PREFIX, RoomChange, RoomCounts, RoomDifference,
    RoomPeers, RoomRecord, Summary, TTL, merge_person, room_record, room_shard,
};
use syncline_store::kv::Asked;
use syncline_store::{Error, Topic};
use tokio::sync::{Notify, broadcast};
use utoipa::ToSchema;

use super::Viewers;
use super::reporting::STORE_TIMEOUT;

/// How often changed records are stored at most.
const SHARE_EVERY: Duration = Duration::from_secs(1);

/// How long the counts of a room wait for further changes before they are published.
const COUNTS_EVERY: Duration = Duration::from_millis(250);

/// Rooms whose counts are published at a time; the others follow.
const COUNTS_AT_ONCE: usize = 200;

/// Arrivals that a job may be behind.
const ARRIVALS_MAX: usize = 256;

/// A room, on all nodes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct RoomView {
    /// Its name.
    pub room: String,
    /// Live sessions.
    pub sessions: u64,
    /// Those whose page is in sight.
    pub visible: u64,
    /// People: each name once, and each session that names nobody.
    pub people: u64,
    /// Whether there is anybody.
    pub occupied: bool,
}

/// Somebody who came or went.
#[derive(Serialize)]
struct PersonEvent<'a> {
    room: &'a str,
    user: &'a str,
}

/// What a node knows of rooms beside its own table.
pub(super) struct Rooms {
    peers: Mutex<RoomPeers>,
    /// Rooms whose counts are to be published.
    changed: Mutex<BTreeSet<String>>,
    counts_wanted: Notify,
    shards: Mutex<[Shard; ROOM_SHARDS]>,
    arrivals: broadcast::Sender<Arc<str>>,
}

/// One of the records that this node writes.
#[derive(Default)]
struct Shard {
    dirty: bool,
    seq: u64,
    /// When it was last stored with rooms in it.
    stored_at: Option<Timestamp>,
}

impl Default for Rooms {
    fn default() -> Rooms {
        Rooms {
            peers: Mutex::default(),
            changed: Mutex::default(),
            counts_wanted: Notify::new(),
            shards: Mutex::default(),
            arrivals: broadcast::Sender::new(ARRIVALS_MAX),
        }
    }
}

impl Viewers {
    /// How many are in a room on all nodes.
    pub async fn room(&self, room: &str) -> RoomView {
        self.expire().await;
        self.room_now(room)
    }

    /// Up to `limit` rooms with somebody in them on any node, by name, and whether there are more.
    pub async fn rooms(&self, prefix: &str, after: Option<&str>, limit: usize) -> (Vec<RoomView>, bool) {
        self.expire().await;
        let mut names = self.room_peers().names(prefix, after, limit + 1);
        {
            let local = self.local();
            // The table is walked from just before the prefix.
            let from = after.filter(|after| *after >= prefix);
            let own = local.rooms.rooms_from(prefix, from).map(|(name, _)| name);
            names.extend(own.take_while(|name| name.starts_with(prefix)).take(limit + 1).map(str::to_owned));
        }
        let more = names.len() > limit;
        (names.iter().take(limit).map(|name| self.room_now(name)).collect(), more)
    }

    /// Up to `limit` people with a name in a room, by name, and whether there are more.
    pub async fn people(&self, room: &str, after: Option<&str>, limit: usize) -> (Vec<Person>, bool) {
        self.expire().await;
        let mut people: BTreeMap<String, Person> = self
            .local()
            .rooms
            .people(room, after)
            .take(limit + 1)
            .map(|person| (person.user.clone(), person))
            .collect();
        for person in self.room_peers().room(room).named {
            if after.is_none_or(|after| person.user.as_str() > after) {
                merge_person(&mut people, &person);
            }
        }
        let more = people.len() > limit;
        (people.into_values().take(limit).collect(), more)
    }

    /// What a job whose gate is about a room needs to know. Asks the store unless this node's own sessions decide.
    pub async fn room_audience(&self, gate: Gate, room: &str) -> Audience {
        self.expire().await;
        let summary = |counts: RoomCounts| Summary { viewers: counts.sessions, visible: counts.visible };
        let own = summary(self.local().rooms.counts(room));
        let complete = gate.opens_for(own) || self.read_rooms().await;
        let peers = summary(self.room_peers().room(room).counts);
        let seen = Summary {
            viewers: own.viewers.saturating_add(peers.viewers),
            visible: own.visible.saturating_add(peers.visible),
        };
        gate.audience(seen, complete)
    }

    /// The rooms into which somebody comes while nobody was there.
    pub fn room_arrivals(&self) -> broadcast::Receiver<Arc<str>> {
        self.rooms.arrivals.subscribe()
    }

    /// Tells of what changed in this node's own rooms.
    pub(super) fn rooms_changed(&self, changes: &[RoomChange]) {
        if changes.is_empty() {
            return;
        }
        {
            let mut shards = self.rooms.shards();
            changes.iter().for_each(|change| shards[room_shard(change.room())].dirty = true);
        }
        for change in changes {
            let room = change.room();
            let elsewhere = || self.room_peers().room(room);
            let is_named = |user: &str| elsewhere().named.iter().any(|person| person.user == *user);
            match change {
                RoomChange::Occupied(_) if elsewhere().counts.sessions == 0 => self.room_occupied(room),
                RoomChange::Vacated(_) if elsewhere().counts.sessions == 0 => {
                    self.bus.publish_here_in("room.vacated", room, &self.room_now(room));
                }
                RoomChange::Joined(_, user) if !is_named(user) => {
                    self.bus.publish_here_in("people.joined", room, &PersonEvent { room, user });
                }
                RoomChange::Left(_, user) if !is_named(user) => {
                    self.bus.publish_here_in("people.left", room, &PersonEvent { room, user });
                }
                _ => {}
            }
        }
        self.publish_counts_of(changes.iter().map(RoomChange::room));
    }

    /// Stores records that have changed, and those that are due, until the node stops.
    pub(super) async fn keep_sharing_rooms(&self) {
        let mut ticks = tokio::time::interval(SHARE_EVERY);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            self.share_rooms().await;
        }
    }

    /// Publishes counts that have changed, some at a time.
    pub(super) async fn publish_room_counts(&self) {
        loop {
            self.rooms.counts_wanted.notified().await;
            tokio::time::sleep(COUNTS_EVERY).await;
            let rooms: Vec<String> = {
                let mut changed = self.rooms.changed.lock().unwrap_or_else(PoisonError::into_inner);
                (0..COUNTS_AT_ONCE).map_while(|_| changed.pop_first()).collect()
            };
            if rooms.len() == COUNTS_AT_ONCE {
                self.rooms.counts_wanted.notify_one();
            }
            for room in rooms {
                self.bus.publish_here_in("room", &room, &self.room_now(&room));
            }
        }
    }

    pub(super) async fn share_rooms(&self) {
        let mut news = false;
        for shard in 0..ROOM_SHARDS {
            let Some(record) = self.record_due(shard) else { continue };
            match self.put_record(shard, &record).await {
                Ok(()) => news = true,
                Err(error) => {
                    self.meters.store_errors.increment(1);
                    self.rooms.shards()[shard].dirty = true;
                    tracing::warn!(%error, "rooms could not be shared with other nodes");
                    // The others would most likely fail too, and the next second tries again.
                    return;
                }
            }
        }
        if let Some(store) = self.store.as_ref().filter(|_| news) {
            // A promise to nobody: the records are there, and are found a little later.
            drop(tokio::time::timeout(STORE_TIMEOUT, store.announce(Topic::Viewer)).await);
        }
    }

    /// Reads the rooms of the other nodes, and says whether that worked.
    pub(super) async fn read_rooms(&self) -> bool {
        let read = tokio::time::timeout(STORE_TIMEOUT, self.records()).await;
        let failure = match read {
            Ok(Ok(records)) => {
                let own = format!("{}:", self.node);
                let others = records.iter().filter(|(key, _)| !key.starts_with(&own));
                let others = others.map(|(key, record)| (key.as_str(), record.clone()));
                let differences = self.room_peers().observe(self.now(), others);
                self.rooms_changed_elsewhere(&differences);
                return true;
            }
            Ok(Err(error)) => error.to_string(),
            Err(_) => "the store did not answer in time".to_owned(),
        };
        self.meters.store_errors.increment(1);
        tracing::warn!(error = failure, "the other nodes' rooms could not be read");
        false
    }

    fn rooms_changed_elsewhere(&self, differences: &[RoomDifference]) {
        for RoomDifference { room, was, is, joined, left } in differences {
            let here = self.local().rooms.counts(room).sessions > 0;
            let is_here = |user: &str| self.local().rooms.has_person(room, user);
            match (was, is) {
                (false, true) if !here => self.room_occupied(room),
                (true, false) if !here => {
                    self.bus.publish_here_in("room.vacated", room, &self.room_now(room));
                }
                _ => {}
            }
            for (event, people) in [("people.joined", joined), ("people.left", left)] {
                for user in people.iter().filter(|user| !is_here(user)) {
                    self.bus.publish_here_in(event, room, &PersonEvent { room, user });
                }
            }
        }
        self.publish_counts_of(differences.iter().map(|difference| difference.room.as_str()));
    }

    fn room_occupied(&self, room: &str) {
        // An error only says that no job waits for it.
        drop(self.rooms.arrivals.send(room.into()));
        self.bus.publish_here_in("room.occupied", room, &self.room_now(room));
    }

    fn publish_counts_of<'a>(&self, rooms: impl Iterator<Item = &'a str>) {
        if !self.bus.has_listeners() {
            return;
        }
        let mut changed = self.rooms.changed.lock().unwrap_or_else(PoisonError::into_inner);
        changed.extend(rooms.map(str::to_owned));
        self.rooms.counts_wanted.notify_one();
    }

    /// A room as it is known now: this node's sessions, and what the others tell.
    fn room_now(&self, room: &str) -> RoomView {
        let elsewhere = self.room_peers().room(room);
        let local = self.local();
        let own = local.rooms.counts(room);
        let both = elsewhere.named.iter().filter(|person| local.rooms.has_person(room, &person.user)).count();
        let sessions = own.sessions.saturating_add(elsewhere.counts.sessions);
        RoomView {
            room: room.to_owned(),
            sessions,
            visible: own.visible.saturating_add(elsewhere.counts.visible),
            people: own.people.saturating_add(elsewhere.counts.people).saturating_sub(both as u64),
            occupied: sessions > 0,
        }
    }

    /// The record of a shard, if it has changed or is to be renewed.
    fn record_due(&self, shard: usize) -> Option<RoomRecord> {
        let (now, local) = (self.now(), self.local());
        let mut shards = self.rooms.shards();
        let Shard { dirty, seq, stored_at } = &mut shards[shard];
        let old = stored_at.is_some_and(|at| now.saturating_since(at) >= ROOMS_EVERY);
        if !*dirty && !old {
            return None;
        }
        *dirty = false;
        *seq += 1;
        let record = room_record(&local.rooms, shard, *seq);
        *stored_at = (!record.rooms.is_empty()).then_some(now);
        Some(record)
    }

    async fn put_record(&self, shard: usize, record: &RoomRecord) -> Result<(), String> {
        let key =
            Key::new(format!("{ROOMS_PREFIX}{}:{shard}", self.node)).map_err(|error| error.to_string())?;
        let change = async {
            if record.rooms.is_empty() {
                return self.kv.delete(&key).await.map(drop);
            }
            let value = serde_json::to_string(record).expect("names and numbers have a JSON");
            self.kv.put(&key, &value, Some(TTL)).await.map(|_| ())
        };
        match tokio::time::timeout(STORE_TIMEOUT, change).await {
            Ok(result) => result.map_err(|error| error.to_string()),
            Err(_) => Err("the store did not answer in time".to_owned()),
        }
    }

    /// Every record in the store; what cannot be understood is left out.
    async fn records(&self) -> Result<Vec<(String, RoomRecord)>, Error> {
        let (mut records, mut after) = (Vec::new(), None::<String>);
        while records.len() < ROOM_RECORDS_MAX {
            let asked =
                Asked { prefix: ROOMS_PREFIX, after: after.as_deref(), limit: LIST_MAX, values: true };
            let page = self.kv.page(asked).await?;
            let last = page.entries.last().map(|entry| entry.key.as_str().to_owned());
            records.extend(page.entries.into_iter().filter_map(|entry| {
                let key = entry.key.as_str().strip_prefix(ROOMS_PREFIX)?.to_owned();
                Some((key, serde_json::from_str(&entry.value).ok()?))
            }));
            after = last.filter(|_| page.more);
            if after.is_none() {
                break;
            }
        }
        Ok(records)
    }

    fn room_peers(&self) -> MutexGuard<'_, RoomPeers> {
        self.rooms.peers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Rooms {
    fn shards(&self) -> MutexGuard<'_, [Shard; ROOM_SHARDS]> {
        self.shards.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
