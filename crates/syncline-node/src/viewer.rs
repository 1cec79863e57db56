//! Who is watching, as this node knows it.
//!
//! Heartbeats stay in memory: a [`Roster`] behind one short lock. What the nodes share is one report each in the kv, read
//! back every few seconds (`viewer/others.rs`); the rules for both are core's. Guarantees: a heartbeat that is answered with
//! success survives this process (its report is stored, VW-23); a store that fails costs no session its place in memory;
//! sessions, addresses and history are bounded. Deciding what to do with the answer is the scheduler's.

mod config;
mod history;
mod http;
mod meters;
mod others;
mod part;
mod sharing;

pub use config::Settings;
pub use history::Sample;
pub use others::NodeCount;
pub use part::ViewerPart;

use std::hash::RandomState;
use std::net::IpAddr;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Serialize;
use syncline_core::kv::Key;
use syncline_core::schedule::{Gate, Watch};
use syncline_core::time::Timestamp;
use syncline_core::viewer::{Beat, Change, Pledge, Roster, SessionId, Summary, report_key};
use syncline_store::kv::Kv;
use tokio::sync::{Notify, watch};
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;
use utoipa::ToSchema;

use crate::address_rate::AddressRate;
use crate::clock::{self, Clock};
use crate::events::Bus;
use crate::metrics::Registry;
use crate::node::NodeId;
use crate::rationed::Rationed;
use history::History;
use meters::Meters;
use others::Others;

/// How often the other nodes' reports are read.
const OTHERS_EVERY_TICKS: u64 = 5;

/// How often the history gets a sample.
const SAMPLE_EVERY_TICKS: u64 = 10;

/// At most one `viewer` event in this time.
const NEWS_EVERY: Duration = Duration::from_millis(250);

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
    bus: Bus,
    clock: Clock,
    room: Mutex<Room>,
    others: Mutex<Others>,
    history: Mutex<History>,
    /// The outcome of each attempt to store a report.
    reports: watch::Sender<Attempt>,
    report_wanted: Notify,
    news: Notify,
    occupied: watch::Sender<bool>,
    /// When the store last failed to take a report, on the monotonic clock; zero for never.
    failed_at_ms: AtomicU64,
    /// Reports that make no sense.
    unreadable: Rationed,
    meters: Meters,
}

/// Everything a heartbeat touches, under one lock.
struct Room {
    roster: Roster<RandomState>,
    pledge: Pledge,
    address_rate: AddressRate,
    /// The newest heartbeat the last report knew of, as its expiry.
    reported_until: Option<Timestamp>,
    /// A report is to be written even though the last one covers everything: the room has emptied.
    report_anyway: bool,
}

/// How an attempt to store a report went.
#[derive(Debug, Clone, Copy, Default)]
struct Attempt {
    failed: bool,
}

impl Viewers {
    /// An empty room. `clock` is monotonic and decides every time to live.
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
            others: Mutex::new(Others::new(node.as_str())),
            node,
            key,
            kv,
            bus,
            clock,
            room: Mutex::new(Room {
                roster: Roster::new(config.max_sessions, RandomState::new()),
                pledge: Pledge::default(),
                address_rate: AddressRate::new(config.new_sessions_per_minute),
                reported_until: None,
                report_anyway: false,
            }),
            history: Mutex::default(),
            reports: watch::Sender::default(),
            report_wanted: Notify::new(),
            news: Notify::new(),
            occupied: watch::Sender::new(false),
            failed_at_ms: AtomicU64::new(0),
            unreadable: Rationed::default(),
            meters: Meters::new(registry),
        }
    }

    /// A heartbeat from `address`. Nearly always an answer from memory; the first of a quiet time waits until the store
    /// has it too.
    pub async fn beat(&self, id: &SessionId, visible: bool, address: IpAddr) -> Result<(), Refused> {
        let now = self.now();
        let (new, changes, covered) = {
            let mut room = self.room();
            if room.roster.contains(now, id).is_none()
                && let Err(wait) = room.address_rate.admit(now, address)
            {
                self.meters.refused_fast.increment(1);
                return Err(Refused::TooFast { wait });
            }
            match room.roster.beat(now, id, visible) {
                Beat::Accepted { new, changes } => (new, changes, room.pledge.covers(now, &room.roster)),
                Beat::Refused { cap } => {
                    self.meters.refused_full.increment(1);
                    return Err(Refused::Full { cap });
                }
            }
        };
        self.meters.heartbeats.increment(1);
        if new {
            self.news.notify_one();
        }
        if !changes.is_empty() {
            self.turn(changes.contains(&Change::Vacated));
        }
        if covered { Ok(()) } else { self.stored(now).await }
    }

    /// A goodbye. An unknown id is no error: a goodbye may come twice or late.
    pub fn bye(&self, id: &SessionId) {
        let change = {
            let mut room = self.room();
            let change = room.roster.bye(self.now(), id);
            room.report_anyway |= change.is_some();
            change
        };
        self.meters.byes.increment(1);
        self.news.notify_one();
        if change.is_some() {
            self.turn(false);
            self.report_wanted.notify_one();
        }
    }

    /// What a job with this gate, due now, needs to know. Asks the store unless this node's own viewers decide. However
    /// long the store takes to answer, who counts is who watched when the job fell due.
    pub async fn watch(&self, gate: Gate) -> Watch {
        let due = self.now();
        let own = self.room().roster.counts(due);
        let complete = gate.opens_for(own) || self.read_others().await;
        let others = self.others().total(due);
        let seen = Summary {
            viewers: own.viewers.saturating_add(others.viewers),
            visible: own.visible.saturating_add(others.visible),
        };
        gate.watch(seen, complete)
    }

    /// Whether anybody is watching anywhere, and every change of that.
    pub fn occupancy(&self) -> watch::Receiver<bool> {
        self.occupied.subscribe()
    }

    /// The viewers now, from memory.
    pub fn snapshot(&self) -> Snapshot {
        let now = self.now();
        let Summary { viewers, visible } = self.room().roster.counts(now);
        let own = NodeCount { node: self.node.to_string(), viewers, visible };
        let others = self.others();
        let total = others.total(now);
        let viewers = viewers.saturating_add(total.viewers);
        let visible = visible.saturating_add(total.visible);
        let nodes = std::iter::once(own).chain(others.counts(now)).collect();
        Snapshot { viewers, visible, occupied: viewers > 0, nodes }
    }

    /// How many there were, oldest first.
    pub fn history(&self) -> Vec<Sample> {
        self.history.lock().unwrap_or_else(PoisonError::into_inner).samples()
    }

    /// Sessions of this node whose id starts with `prefix`, with the time each has left.
    pub fn sessions(&self, prefix: &str, limit: usize) -> Vec<(SessionId, Duration)> {
        self.room().roster.list(self.now(), prefix, limit)
    }

    /// How much longer a session of this node lives.
    pub fn ttl_left(&self, id: &SessionId) -> Option<Duration> {
        self.room().roster.contains(self.now(), id)
    }

    /// Brings the gauges up to date, for a scrape.
    pub(crate) fn measure(&self) {
        let (counts, memory_bytes) = {
            let room = self.room();
            (room.roster.counts(self.now()), room.roster.memory_bytes())
        };
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
            () = self.tell_news() => {}
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
        if tick.is_multiple_of(OTHERS_EVERY_TICKS) {
            self.read_others().await;
        }
        self.expire().await;
        self.turn(false);
        self.report_wanted.notify_one();
        let snapshot = self.snapshot();
        let sample_due = tick.is_multiple_of(SAMPLE_EVERY_TICKS);
        if sample_due {
            let sample =
                Sample { at: clock::wall().as_ms(), viewers: snapshot.viewers, visible: snapshot.visible };
            self.history.lock().unwrap_or_else(PoisonError::into_inner).push(sample);
        }
        if sample_due || snapshot != *known {
            self.news.notify_one();
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
        let now = self.now();
        let mut room = self.room();
        let vacated = room.roster.expire(now).is_some();
        room.report_anyway |= vacated;
        room.roster.has_expired(now)
    }

    async fn tell_news(&self) {
        loop {
            self.news.notified().await;
            self.bus.publish("viewer", &self.snapshot());
            tokio::time::sleep(NEWS_EVERY).await;
        }
    }

    /// Tells of a change when there is one, for all nodes together. `emptied` says that this node's room was empty since
    /// the last time, unnoticed, even if it is not empty now.
    fn turn(&self, emptied: bool) {
        let mut told = [None; 2];
        self.occupied.send_if_modified(|known| {
            // Looked up under the channel's own lock: of two changes at a time, the later to get here sees both.
            let elsewhere = self.others().total(self.now()).viewers > 0;
            let occupied = elsewhere || self.room().roster.has_active(self.now());
            let left = *known && (!occupied || (emptied && !elsewhere));
            let came = occupied && (!*known || left);
            *known = occupied;
            told = [left.then_some("viewer.vacated"), came.then_some("viewer.occupied")];
            left || came
        });
        for name in told.into_iter().flatten() {
            tracing::info!(event = name, "viewers came or went");
            self.bus.publish(name, &self.snapshot());
        }
    }

    fn now(&self) -> Timestamp {
        (self.clock)()
    }

    fn room(&self) -> MutexGuard<'_, Room> {
        self.room.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn others(&self) -> MutexGuard<'_, Others> {
        self.others.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
