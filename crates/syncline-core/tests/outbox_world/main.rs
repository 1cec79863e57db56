//! Lossy, doubling and lying receivers, and workers that die between any two steps: what was inserted is delivered, dead
//! or pending, in order, and takes effect once.
//!
//! The second half plants faults and demands that they are found.

mod poison;
mod receiver;
mod table;
mod worker;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use syncline_core::outbox::Response;
use syncline_sim::{Actor, ActorId, Context, Event, Link, World, check, find_failure};

use receiver::{Kept, Manner, Outage, Receiver};
use table::{State, Table};
use worker::Worker;

const SEEDS: u64 = 60;
const STORM_MS: u64 = 20 * 60_000;
const CALM_MS: u64 = 2 * 3_600_000;
const WORKERS: u64 = 3;
const ENTITIES: u64 = 12;

enum Party {
    Worker(Box<Worker>),
    Receiver(Receiver),
}

#[derive(Debug, Clone)]
enum Note {
    Request { call: u64, entries: Vec<(i64, u32)> },
    Response { call: u64, response: Response },
}

/// Faults to plant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bug {
    /// The worker takes every 2xx for success.
    BelievesAnything,
    /// The receiver knows neither entries nor stamps.
    KnowsNothing,
    /// The store claims whatever is free.
    AnyOrder,
}

/// What outlives everybody.
#[derive(Clone, Default)]
struct Shared {
    table: Rc<RefCell<Table>>,
    kept: Rc<RefCell<Kept>>,
    /// Entities that the receiver cannot take.
    poison: Rc<BTreeSet<u32>>,
    calm_from_ms: u64,
    /// From when until when the receiver is out, and how.
    outages: Rc<Vec<(u64, u64, Outage)>>,
    tally: Rc<RefCell<BTreeMap<&'static str, u64>>>,
}

impl Actor for Party {
    type Message = Note;

    fn handle(&mut self, event: Event<Note>, context: &mut Context<'_, Note>) {
        match self {
            Self::Worker(worker) => worker.handle(&event, context),
            Self::Receiver(receiver) => receiver.handle(&event, context),
        }
    }
}

/// Storm, then calm; gives what happened.
fn live(seed: u64, manner: Manner, bug: Option<Bug>) -> BTreeMap<&'static str, u64> {
    let mut world = World::new(seed);
    let poison = if seed.is_multiple_of(3) { BTreeSet::new() } else { BTreeSet::from([3, 7]) };
    let shared = Shared { calm_from_ms: STORM_MS, poison: Rc::new(poison), ..Shared::default() };
    shared.table.borrow_mut().bug = bug;
    let storm = match manner {
        // One answer in six comes after its time-out.
        Manner::Ours => Link { loss: 0.03, duplicate: 0.1, delay_ms: 1..=3_500 },
        // Who overwrites blindly can be kept in order only while nothing is older than a time-out.
        Manner::Plain => Link { loss: 0.05, duplicate: 0.0, delay_ms: 1..=2_000 },
    };
    world.set_link(storm);
    let receiver = world.spawn(Party::Receiver(Receiver { shared: shared.clone(), manner, bug }));
    let worker = |life| Party::Worker(Box::new(Worker::new(shared.clone(), receiver, bug, life)));
    let workers: Vec<ActorId> = (0..WORKERS).map(|n| world.spawn(worker(n))).collect();
    let (mut lives, mut now_ms) = (WORKERS, 0);
    while now_ms < STORM_MS {
        for _ in 0..world.dice().pick(0..=6) {
            let entity = world.dice().pick(0..=ENTITIES) as u32;
            shared.table.borrow_mut().insert(entity);
        }
        if world.dice().chance(0.3) {
            let victim = *world.dice().choose(&workers).expect("there are workers");
            lives += 1;
            world.crash(victim);
            world.restart(victim, worker(lives));
        }
        now_ms += world.dice().pick(1..=20_000);
        world.run_until(now_ms);
    }
    world.set_link(Link { loss: 0.0, duplicate: 0.0, delay_ms: 1..=50 });
    world.run_until(STORM_MS + CALM_MS);
    judge(&shared, manner);
    let mut tally = shared.tally.borrow().clone();
    tally.insert("crashes", lives - WORKERS);
    tally.insert("inserted", shared.table.borrow().rows.len() as u64);
    tally.insert("dead", shared.table.borrow().count(State::Dead) as u64);
    tally.insert("effects", shared.kept.borrow().effects.len() as u64);
    tally
}

fn judge(shared: &Shared, manner: Manner) {
    let (table, kept) = (shared.table.borrow(), shared.kept.borrow());
    let [processed, dead, pending] =
        [State::Processed, State::Dead, State::Pending].map(|state| table.count(state));
    assert_eq!(processed + dead + pending, table.rows.len());
    for (id, row) in &table.rows {
        match row.state {
            State::Processed => assert!(kept.known.contains(id), "entry {id} was lost"),
            State::Dead => assert!(shared.poison.contains(&row.entity), "entry {id} died of an outage"),
            State::Pending => assert!(shared.poison.contains(&row.entity), "entry {id} is stuck: {row:?}"),
        }
    }
    if manner == Manner::Ours {
        let distinct: BTreeSet<_> = kept.effects.iter().collect();
        assert_eq!(distinct.len(), kept.effects.len(), "an effect was doubled");
        for entity in 0..=ENTITIES as u32 {
            let entries = kept.effects.iter().filter(|(of, _)| *of == entity).map(|(_, entry)| *entry);
            assert!(entries.is_sorted(), "an older change of {entity} replaced a newer one");
        }
    }
    for entity in (0..=ENTITIES as u32).filter(|entity| !shared.poison.contains(entity)) {
        let last = table.rows.iter().rfind(|(_, row)| row.entity == entity).map(|(id, _)| *id);
        let shown = kept.entities.get(&entity).map(|(_, entry)| *entry);
        assert_eq!(shown, last, "the other side does not show the last change of {entity}");
    }
}

/// What all seeds together came to.
fn survive(name: &str, manner: Manner) -> String {
    let runs = check(name, SEEDS, |seed| live(seed, manner, None));
    let mut total: BTreeMap<&str, u64> = BTreeMap::new();
    for (what, count) in runs.iter().flatten() {
        *total.entry(what).or_default() += count;
    }
    for what in ["inserted", "crashes", "receiver found down", "effects"] {
        assert!(total[what] >= 10 * runs.len() as u64, "only {} {what}", total[what]);
    }
    format!("{} seeds: {total:?}", runs.len())
}

#[test]
fn ss_24_through_storms_and_crashes_nothing_is_lost_or_doubled() {
    println!("{}", survive("ss_24_through_storms_and_crashes_nothing_is_lost_or_doubled", Manner::Ours));
}

#[test]
fn ss_21_a_receiver_of_the_plain_contract_ends_with_the_last_change() {
    println!(
        "{}",
        survive("ss_21_a_receiver_of_the_plain_contract_ends_with_the_last_change", Manner::Plain)
    );
}

#[test]
fn ss_28_a_worker_that_believes_any_2xx_is_found() {
    let (_, said) =
        find_failure(SEEDS, |seed| live(seed, Manner::Ours, Some(Bug::BelievesAnything))).unwrap();
    assert!(said.contains("was lost"), "{said}");
}

#[test]
fn ss_24_a_receiver_that_knows_no_entries_is_found() {
    let (_, said) = find_failure(SEEDS, |seed| live(seed, Manner::Ours, Some(Bug::KnowsNothing))).unwrap();
    assert!(said.contains("doubled") || said.contains("replaced"), "{said}");
}

#[test]
fn ss_22_claims_without_order_are_found() {
    let (_, said) = find_failure(SEEDS, |seed| live(seed, Manner::Plain, Some(Bug::AnyOrder))).unwrap();
    assert!(said.contains("last change"), "{said}");
}
