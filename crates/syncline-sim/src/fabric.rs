//! What lies between the actors: the queue of what is to happen, the links, each actor's clocks and timers.
//!
//! Kept apart from the actors so that one of them can use it while it handles an event.

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::ops::RangeInclusive;

use crate::{ActorId, Dice, Event};

/// The time of day at which every world begins: 2025-11-11T00:00Z.
const WALL_START_MS: i64 = 1_762_819_200_000;

/// How messages travel.
#[derive(Debug, Clone, PartialEq)]
pub struct Link {
    /// Probability that a message never arrives.
    pub loss: f64,
    /// Probability that one which arrives does so twice.
    pub duplicate: f64,
    /// How long it travels.
    pub delay_ms: RangeInclusive<u64>,
}

impl Link {
    /// Loses nothing, doubles nothing, takes 1 to 20 ms.
    pub const GOOD: Self = Self { loss: 0.0, duplicate: 0.0, delay_ms: 1..=20 };
}

/// Everything of a world but its actors.
#[derive(Debug)]
pub(crate) struct Fabric<M> {
    pub(crate) now_ms: u64,
    pub(crate) dice: Dice,
    pub(crate) hosts: Vec<Host<M>>,
    pub(crate) link: Link,
    /// Links that differ from `link`, by sender and receiver.
    pub(crate) links: BTreeMap<(ActorId, ActorId), Link>,
    pub(crate) queue: BinaryHeap<Reverse<Scheduled<M>>>,
    pub(crate) scheduled: u64,
}

/// Where an actor runs.
#[derive(Debug)]
pub(crate) struct Host<M> {
    /// Counts starts; what is addressed to an earlier life is lost.
    pub(crate) life: u32,
    /// When its monotonic clock stood at zero.
    pub(crate) origin_ms: i64,
    pub(crate) wall_offset_ms: i64,
    /// By token, the one setting that counts.
    pub(crate) timers: BTreeMap<u64, u64>,
    /// Events that came while paused; `None` when not paused.
    pub(crate) held: Option<VecDeque<Delivery<M>>>,
}

#[derive(Debug)]
pub(crate) struct Scheduled<M> {
    /// Time, then chance, then age.
    pub(crate) order: (u64, u64, u64),
    pub(crate) delivery: Delivery<M>,
}

#[derive(Debug)]
pub(crate) struct Delivery<M> {
    pub(crate) to: ActorId,
    pub(crate) life: u32,
    /// For timers: which setting this is.
    pub(crate) setting: u64,
    pub(crate) event: Event<M>,
}

impl<M> Fabric<M> {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            now_ms: 0,
            dice: Dice::new(seed),
            hosts: Vec::new(),
            link: Link::GOOD,
            links: BTreeMap::new(),
            queue: BinaryHeap::new(),
            scheduled: 0,
        }
    }

    /// Room for one more actor.
    pub(crate) fn add_host(&mut self) -> ActorId {
        let (timers, held) = (BTreeMap::new(), None);
        self.hosts.push(Host { life: 0, origin_ms: 0, wall_offset_ms: WALL_START_MS, timers, held });
        ActorId(self.hosts.len() - 1)
    }

    pub(crate) fn schedule(&mut self, at_ms: u64, to: ActorId, setting: u64, event: Event<M>) {
        let (life, chance) = (self.hosts[to.0].life, self.dice.pick(1..=u64::MAX));
        self.enqueue(at_ms.max(self.now_ms), chance, Delivery { to, life, setting, event });
    }

    pub(crate) fn enqueue(&mut self, at_ms: u64, chance: u64, delivery: Delivery<M>) {
        self.scheduled += 1;
        self.queue.push(Reverse(Scheduled { order: (at_ms, chance, self.scheduled), delivery }));
    }

    /// The event, unless its time has passed or has not come.
    pub(crate) fn admit(&mut self, delivery: Delivery<M>) -> Option<Event<M>> {
        let host = &mut self.hosts[delivery.to.0];
        if delivery.life != host.life {
            return None;
        }
        if let Event::Timer(token) = delivery.event
            && host.timers.get(&token) != Some(&delivery.setting)
        {
            return None;
        }
        if let Some(held) = &mut host.held {
            held.push_back(delivery);
            return None;
        }
        if let Event::Timer(token) = delivery.event {
            host.timers.remove(&token);
        }
        Some(delivery.event)
    }
}

impl<M> PartialEq for Scheduled<M> {
    fn eq(&self, other: &Self) -> bool {
        self.order == other.order
    }
}

impl<M> Eq for Scheduled<M> {}

impl<M> PartialOrd for Scheduled<M> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<M> Ord for Scheduled<M> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.order.cmp(&other.order)
    }
}
