//! Who is watching, as this node knows it.
//!
//! Heartbeats stay in memory: a [`SessionTable`] behind one short lock. What the nodes share is one report each in the kv
//! (`viewer/reporting.rs`), read back every few seconds while somebody watches, and when a node says that it has viewers
//! (`viewer/peers.rs`); the rules for both are core's. Guarantees: a
//! heartbeat that is answered with success survives this process (its report is stored, VW-23); a store that fails costs no
//! session its place in memory; sessions, addresses and history are bounded. Deciding what to do with the answer is the
//! scheduler's.

mod config;
mod history;
mod http;
mod meters;
mod part;
mod peers;
mod reporting;
mod rooms;

pub use config::Settings;
pub use history::Sample;
pub use part::ViewerPart;
pub use peers::NodeCount;
pub use rooms::RoomView;

use std::hash::RandomState;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Serialize;
use syncline_core::kv::Key;
use syncline_core::schedule::{Audience, Gate};
use syncline_core::time::Timestamp;
use syncline_core::viewer::{
    BeatOutcome, OccupancyChange, OwnReport, Peers, RoomChange, RoomRefused, RoomTable, SessionId,
    SessionTable, Summary, Visitor, report_key,
};
use syncline_store::Store;
use syncline_store::kv::Kv;
use tokio::sync::{Notify, watch};
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;
use utoipa::ToSchema;

use crate::address_rate::AddressRate;
use crate::clock::{self, Clock};
use crate::events::Bus;
use crate::log_throttle::LogThrottle;
use crate::metrics::Registry;
use crate::node::NodeId;
use history::History;
use meters::Meters;

/// How often the other nodes' reports are read while somebody watches, or where nobody announces them.
const PEERS_EVERY: Duration = Duration::from_secs(5);

/// How often the history gets a sample.
const SAMPLE_EVERY_TICKS: u64 = 10;

/// At most one `viewer` event in this time.
const SNAPSHOT_EVERY: Duration = Duration::from_millis(250);

/// Why a heartbeat was not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// This node holds as many sessions as it may.
    #[error("this node counts {cap} viewers, which is all it can; the ones it has still count")]
    Full {
        /// How many that is.
        cap: usize,
    },
    /// The address opens new sessions faster than allowed.
    #[error("too many new sessions from this address")]
    TooFast {
        /// When it may open the next.
        wait: Duration,
    },
    /// It counts, but not in the room that it named.
    #[error(transparent)]
    Room(#[from] RoomRefused),
    /// It counts in memory, but the other nodes could not be told.
    #[error("the store did not confirm the heartbeat; it counts on this node alone")]
    Store,
}

/// What everybody may know about the viewers now.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct Snapshot {
    /// Live sessions on all nodes.
    pub viewers: u64,
    /// Those whose page is in sight.
    pub visible: u64,
    /// Whether there is anybody.
    pub occupied: bool,
    /// The same by node, this one first.
    pub nodes: Vec<NodeCount>,
}

/// The viewers of this node and what is known of the others'.
pub struct Viewers {
    node: NodeId,
    key: Key,
    kv: Arc<dyn Kv>,
    /// Where nodes tell each other that there is a report to read.
    store: Option<Store>,
    bus: Bus,
    clock: Clock,
    local: Mutex<Local>,
    peers: Mutex<Peers>,
    rooms: rooms::Rooms,
    history: Mutex<History>,
    /// The outcome of each attempt to store a report.
    reports: watch::Sender<ReportOutcome>,
    report_wanted: Notify,
    /// A `viewer` event is to be published.
    snapshot_wanted: Notify,
    occupied: watch::Sender<bool>,
    /// Whether somebody watched by the last report that was stored.
    told_watched: AtomicBool,
    /// When the store last failed to take a report, on the monotonic clock; zero for never.
    failed_at_ms: AtomicU64,
    /// Reports that make no sense.
    unreadable: LogThrottle,
    meters: Meters,
}

/// What this node knows of its own viewers: everything a heartbeat touches, under one lock.
struct Local {
    sessions: SessionTable<RandomState>,
    rooms: RoomTable<RandomState>,
    own_report: OwnReport,
    address_rate: AddressRate,
}

impl Local {
    /// Counts a session in the room it names, and in no other.
    fn enter_room(
        &mut self,
        now: Timestamp,
        id: &SessionId,
        visitor: Option<&Visitor<'_>>,
        changes: &mut Vec<RoomChange>,
    ) -> Result<(), RoomRefused> {
        match visitor {
            Some(visitor) => self.rooms.beat(now, id, visitor, changes),
            None => {
                if !self.rooms.is_empty() {
                    self.rooms.bye(now, id, changes);
                }
                Ok(())
            }
        }
    }
}

/// How an attempt to store a report went.
#[derive(Debug, Clone, Copy, Default)]
struct ReportOutcome {
    failed: bool,
}

impl Viewers {
    /// Nobody is watching yet. `clock` is monotonic and decides every time to live.
    pub(crate) fn new(
        config: &Settings,
        node: NodeId,
        kv: Arc<dyn Kv>,
        bus: Bus,
        clock: Clock,
        registry: &Registry,
    ) -> Viewers {
        let key = report_key(node.as_str()).expect("a node's id fits into a key");
        Viewers {
            peers: Mutex::new(Peers::new(node.as_str())),
            rooms: rooms::Rooms::default(),
            node,
            key,
            kv,
            store: None,
            bus,
            clock,
            local: Mutex::new(Local {
                sessions: SessionTable::new(config.max_sessions, RandomState::new()),
                rooms: RoomTable::new(config.max_rooms, config.rooms_per_address, RandomState::new()),
                own_report: OwnReport::default(),
                address_rate: AddressRate::new(config.new_sessions_per_minute),
            }),
            history: Mutex::default(),
            reports: watch::Sender::default(),
            report_wanted: Notify::new(),
            snapshot_wanted: Notify::new(),
            occupied: watch::Sender::new(false),
            told_watched: AtomicBool::new(false),
            failed_at_ms: AtomicU64::new(0),
            unreadable: LogThrottle::default(),
            meters: Meters::new(registry),
        }
    }

    /// The same, with other nodes that announce their reports.
    pub(crate) fn announcing_in(self, store: &Store) -> Viewers {
        Viewers { store: Some(store.clone()), ..self }
    }

    /// A heartbeat from `address`. Nearly always an answer from memory; the first of a quiet time waits until the store
    /// has it too.
    pub async fn beat(&self, id: &SessionId, visible: bool, address: IpAddr) -> Result<(), Refused> {
        self.beat_in(id, visible, address, None).await
    }

    /// The same from somebody in a room. One that finds no room for it counts all the same, as a session.
    pub async fn beat_in(
        &self,
        id: &SessionId,
        visible: bool,
        address: IpAddr,
        visitor: Option<&Visitor<'_>>,
    ) -> Result<(), Refused> {
        let now = self.now();
        let mut room_changes = Vec::new();
        let (new, changes, covered, refused) = {
            let mut local = self.local();
            if local.sessions.contains(now, id).is_none()
                && let Err(wait) = local.address_rate.admit(now, address)
            {
                self.meters.refused_fast.increment(1);
                return Err(Refused::TooFast { wait });
            }
            match local.sessions.beat(now, id, visible) {
                BeatOutcome::Accepted { new, changes } => {
                    let refused = local.enter_room(now, id, visitor, &mut room_changes).err();
                    (new, changes, local.own_report.covers(now, &local.sessions), refused)
                }
                BeatOutcome::Refused { cap } => {
                    self.meters.refused_full.increment(1);
                    return Err(Refused::Full { cap });
                }
            }
        };
        self.meters.heartbeats.increment(1);
        self.rooms_changed(&room_changes);
        if new {
            self.snapshot_wanted.notify_one();
        }
        if !changes.is_empty() {
            self.publish_occupancy(changes.contains(&OccupancyChange::Vacated));
        }
        if !covered {
            self.wait_until_report_covers(now).await?;
        }
        refused.map_or(Ok(()), |refused| {
            self.meters.refused_room.increment(1);
            Err(refused.into())
        })
    }

    /// A goodbye. An unknown id is no error: a goodbye may come twice or late.
    pub fn bye(&self, id: &SessionId) {
        let mut room_changes = Vec::new();
        let change = {
            let mut local = self.local();
            let now = self.now();
            local.rooms.bye(now, id, &mut room_changes);
            let change = local.sessions.bye(self.now(), id);
            if change.is_some() {
                local.own_report.want();
            }
            change
        };
        self.meters.byes.increment(1);
        self.rooms_changed(&room_changes);
        self.snapshot_wanted.notify_one();
        if change.is_some() {
            self.publish_occupancy(false);
            self.report_wanted.notify_one();
        }
    }

    /// What a job with this gate, due now, needs to know. Asks the store unless this node's own viewers decide. However
    /// long the store takes to answer, who counts is who watched when the job fell due.
    pub async fn audience(&self, gate: Gate) -> Audience {
        let due = self.now();
        let own = self.local().sessions.counts(due);
        let complete = gate.opens_for(own) || self.read_peers().await;
        let peers = self.peers().total(due);
        let seen = Summary {
            viewers: own.viewers.saturating_add(peers.viewers),
            visible: own.visible.saturating_add(peers.visible),
        };
        gate.audience(seen, complete)
    }

    /// Whether anybody is watching anywhere, and every change of that.
    pub fn occupancy(&self) -> watch::Receiver<bool> {
        self.occupied.subscribe()
    }

    /// The viewers now, from memory.
    pub fn snapshot(&self) -> Snapshot {
        let now = self.now();
        let Summary { viewers, visible } = self.local().sessions.counts(now);
        let own = NodeCount { node: self.node.to_string(), viewers, visible };
        let peers = self.peers();
        let total = peers.total(now);
        let viewers = viewers.saturating_add(total.viewers);
        let visible = visible.saturating_add(total.visible);
        let nodes = std::iter::once(own).chain(peers::counts(&peers, now)).collect();
        Snapshot { viewers, visible, occupied: viewers > 0, nodes }
    }

    /// How many there were, oldest first.
    pub fn history(&self) -> Vec<Sample> {
        self.history.lock().unwrap_or_else(PoisonError::into_inner).samples()
    }

    /// Sessions of this node whose id starts with `prefix`, with the time each has left.
    pub fn sessions(&self, prefix: &str, limit: usize) -> Vec<(SessionId, Duration)> {
        self.local().sessions.list(self.now(), prefix, limit)
    }

    /// How much longer a session of this node lives.
    pub fn ttl_left(&self, id: &SessionId) -> Option<Duration> {
        self.local().sessions.contains(self.now(), id)
    }

    /// Brings the gauges up to date, for a scrape.
    pub(crate) fn measure(&self) {
        let (counts, memory_bytes, rooms) = {
            let local = self.local();
            (local.sessions.counts(self.now()), local.sessions.memory_bytes(), local.rooms.len())
        };
        self.meters.rooms.set(rooms as f64);
        self.meters.sessions.set(counts.viewers as f64);
        self.meters.visible.set(counts.visible as f64);
        self.meters.memory_bytes.set(memory_bytes as f64);
        self.meters.occupied.set(f64::from(u8::from(*self.occupied.borrow())));
    }

    /// Lets time pass until `stop`: expiry, reports, the other nodes, history and events.
    pub async fn run(&self, stop: CancellationToken) {
        tokio::select! {
            () = stop.cancelled() => {}
            () = self.keep_time() => {}
            () = self.keep_reporting() => {}
            () = self.keep_reading() => {}
            () = self.publish_snapshots() => {}
            () = self.keep_sharing_rooms() => {}
            () = self.publish_room_counts() => {}
        }
        // What is watched now must not be skipped while this node is away.
        self.report().await;
    }

    async fn keep_time(&self) {
        let mut ticks = tokio::time::interval(Duration::from_secs(1));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut known = Snapshot::default();
        for tick in 0.. {
            ticks.tick().await;
            self.tick(tick, &mut known).await;
        }
    }

    async fn tick(&self, tick: u64, known: &mut Snapshot) {
        self.expire().await;
        self.publish_occupancy(false);
        self.report_wanted.notify_one();
        let snapshot = self.snapshot();
        let sample_due = tick.is_multiple_of(SAMPLE_EVERY_TICKS);
        if sample_due {
            let sample =
                Sample { at: clock::wall().as_ms(), viewers: snapshot.viewers, visible: snapshot.visible };
            self.history.lock().unwrap_or_else(PoisonError::into_inner).push(sample);
        }
        if sample_due || snapshot != *known {
            self.snapshot_wanted.notify_one();
        }
        *known = snapshot;
    }

    /// Removes all sessions that have expired, in steps between which heartbeats get their turn. What is left behind is in
    /// the way of every question for numbers.
    async fn expire(&self) {
        while self.expire_some() {
            tokio::task::yield_now().await;
        }
    }

    fn expire_some(&self) -> bool {
        let (now, mut room_changes) = (self.now(), Vec::new());
        let more = {
            let mut local = self.local();
            if local.sessions.expire(now).is_some() {
                local.own_report.want();
            }
            local.rooms.expire(now, &mut room_changes) || local.sessions.has_expired(now)
        };
        self.rooms_changed(&room_changes);
        more
    }

    async fn publish_snapshots(&self) {
        loop {
            self.snapshot_wanted.notified().await;
            self.bus.publish_here("viewer", &self.snapshot());
            tokio::time::sleep(SNAPSHOT_EVERY).await;
        }
    }

    /// Publishes whether anybody watches on any node, when that has changed. `was_empty` says that nobody watched through
    /// this node for a while since the last time, even if somebody does now.
    fn publish_occupancy(&self, was_empty: bool) {
        let mut told = [None; 2];
        self.occupied.send_if_modified(|known| {
            // Looked up under the channel's own lock: of two changes at a time, the later to get here sees both.
            let elsewhere = self.peers().total(self.now()).viewers > 0;
            let occupied = elsewhere || self.local().sessions.has_active(self.now());
            let left = *known && (!occupied || (was_empty && !elsewhere));
            let came = occupied && (!*known || left);
            *known = occupied;
            told = [left.then_some("viewer.vacated"), came.then_some("viewer.occupied")];
            left || came
        });
        for name in told.into_iter().flatten() {
            tracing::info!(event = name, "viewers came or went");
            self.bus.publish_here(name, &self.snapshot());
        }
    }

    fn now(&self) -> Timestamp {
        (self.clock)()
    }

    fn local(&self) -> MutexGuard<'_, Local> {
        self.local.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn peers(&self) -> MutexGuard<'_, Peers> {
        self.peers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
