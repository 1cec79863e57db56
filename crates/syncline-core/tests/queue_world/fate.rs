//! Plays fate: sets up a world, lets it storm, lets it calm down, and asks whether everything ended well.

use std::rc::Rc;
use std::time::Duration;

use syncline_core::queue::{Kind, Place, Queue, Settings};
use syncline_sim::{ActorId, Link};

use super::ledger::{self, Ledger, Tally};
use super::{Bug, Note, Party, World};
use super::{api, node, store, worker};

const STORM_MS: u64 = 400_000;
/// By then everything must have ended: the longest pause is an hour.
const CALM_MS: u64 = 4 * 3_600_000;
const KEYS: u64 = 500;

/// What to do to this world's people, drawn every so often.
enum Blow {
    Enqueue(Kind, Vec<u32>),
    /// Enqueue again what runs just now.
    Again,
    Crash,
    Freeze,
    SetClock,
    Corrupt,
}

fn settings(concurrency: u32) -> Settings {
    let mut settings = Settings::new(concurrency, Duration::from_millis(100), Duration::from_millis(500));
    settings.retry.max_attempts = 4;
    settings
}

fn blow(world: &mut World) -> Blow {
    let dice = world.dice();
    match dice.pick(0..=19) {
        0..=3 => Blow::Again,
        4..=9 => {
            let kind = *dice.choose(&[Kind::New, Kind::New, Kind::Priority, Kind::Again]).expect("some");
            let count = dice.pick(1..=25);
            Blow::Enqueue(kind, (0..count).map(|_| dice.pick(1..=KEYS) as u32).collect())
        }
        10..=13 => Blow::Crash,
        14..=15 => Blow::Freeze,
        16..=17 => Blow::SetClock,
        _ => Blow::Corrupt,
    }
}

/// Several workers, one database. `bug` is planted in them.
pub(super) fn shared(seed: u64, bug: Option<Bug>) -> (Tally, u64) {
    let mut world = World::new(seed);
    let settings = settings(world.dice().pick(1..=3) as u32);
    let ledger = Ledger::new(&settings);
    // A clock set forward and a worker started anew within the same pause could end it early: nobody is left who
    // knows better. So a world has one or the other.
    let crashes = seed.is_multiple_of(2);
    let api = world.spawn(Party::Api(api::Api::new(Rc::clone(&ledger))));
    let store = world.spawn(Party::Store(Box::new(store::Store::new(settings, Rc::clone(&ledger), bug))));
    let fresh = || {
        let worker = worker::Worker::new(api, store, settings, Rc::clone(&ledger), bug);
        Party::Worker(Box::new(worker))
    };
    let count = world.dice().pick(2..=4);
    let workers: Vec<ActorId> = (0..count).map(|_| world.spawn(fresh())).collect();
    for &worker in &workers {
        let shaky = Link { loss: 0.01, duplicate: 0.01, delay_ms: 1..=8 };
        world.set_link_between(worker, store, shaky.clone());
        world.set_link_between(store, worker, shaky);
        world.set_link_between(api, worker, Link { loss: 0.01, ..Link::GOOD });
    }
    while world.now_ms() < STORM_MS {
        let next_ms = world.now_ms() + world.dice().pick(10..=3_000);
        world.run_until(next_ms);
        let victim = *world.dice().choose(&workers).expect("some");
        match blow(&mut world) {
            Blow::Enqueue(kind, keys) => world.tell(store, Note::Enqueue { kind, keys }),
            Blow::Again => {
                let keys = running(&stored(&mut world, store).queue);
                world.tell(store, Note::Enqueue { kind: Kind::Again, keys });
            }
            Blow::Crash if crashes => {
                kill(&mut world, api, victim, &ledger);
                let down_ms = world.now_ms() + world.dice().pick(50..=5_000);
                world.run_until(down_ms);
                world.restart(victim, fresh());
            }
            Blow::Crash => {}
            Blow::Freeze => freeze(&mut world, victim, &ledger),
            Blow::SetClock => {
                ledger.borrow_mut().tally.add("clocks set");
                let by_ms = world.dice().pick(2_000..=7_200_000) as i64;
                let forward = !crashes && world.dice().chance(0.5);
                world.jump_wall(store, if forward { by_ms } else { -by_ms });
            }
            Blow::Corrupt => {
                let now_ms = world.now_ms();
                stored(&mut world, store).corrupt(now_ms);
            }
        }
    }
    recover(&mut world, api);
    settle_down(&mut world, |world| stored(world, store).queue.counts().left() == 0);
    stored(&mut world, store).revive_all();
    settle_down(&mut world, |world| stored(world, store).queue.counts().left() == 0);
    finish(&stored(&mut world, store).queue, &ledger)
}

/// One node with its disk. `bug` is planted in it.
pub(super) fn alone(seed: u64, bug: Option<Bug>) -> (Tally, u64) {
    let mut world = World::new(seed);
    let settings = settings(1);
    let ledger = Ledger::new(&settings);
    let disk = node::SharedDisk::default();
    disk.borrow_mut().pace = Some(syncline_core::queue::Pace::default());
    let api = world.spawn(Party::Api(api::Api::new(Rc::clone(&ledger))));
    let fresh =
        || Party::Node(Box::new(node::Node::new(api, settings, Rc::clone(&disk), Rc::clone(&ledger), bug)));
    let node = world.spawn(fresh());
    world.set_link_between(api, node, Link { loss: 0.01, ..Link::GOOD });
    while world.now_ms() < STORM_MS {
        let next_ms = world.now_ms() + world.dice().pick(10..=3_000);
        world.run_until(next_ms);
        match blow(&mut world) {
            Blow::Enqueue(kind, keys) => world.tell(node, Note::Enqueue { kind, keys }),
            Blow::Again => {
                let keys = running(queued(&mut world, node));
                world.tell(node, Note::Enqueue { kind: Kind::Again, keys });
            }
            crash @ (Blow::Crash | Blow::Corrupt) => {
                kill(&mut world, api, node, &ledger);
                let down_ms = world.now_ms() + world.dice().pick(50..=5_000);
                world.run_until(down_ms);
                // The pace can get lost, but not while it says what nobody else knows.
                if matches!(crash, Blow::Corrupt) && !ledger.borrow().is_paused(world.now_ms()) {
                    ledger.borrow_mut().tally.add("unreadable paces");
                    disk.borrow_mut().pace = None;
                }
                world.restart(node, fresh());
            }
            Blow::Freeze => freeze(&mut world, node, &ledger),
            Blow::SetClock => {
                ledger.borrow_mut().tally.add("clocks set");
                let by_ms = world.dice().pick(2_000..=7_200_000) as i64;
                world.jump_wall(node, -by_ms);
            }
        }
    }
    recover(&mut world, api);
    let is_empty = |world: &mut World| queued(world, node).counts().left() == 0;
    settle_down(&mut world, is_empty);
    world.tell(node, Note::Revive);
    settle_down(&mut world, is_empty);
    finish(queued(&mut world, node), &ledger)
}

/// Kill -9: the process is gone, the kernel closes its connections.
fn kill(world: &mut World, api: ActorId, victim: ActorId, ledger: &ledger::Shared) {
    let calls: Vec<u64> = match world.crash(victim) {
        Some(Party::Worker(worker)) => worker.call().into_iter().collect(),
        Some(Party::Node(node)) => node.calls.keys().copied().collect(),
        _ => Vec::new(),
    };
    ledger.borrow_mut().tally.add("crashes");
    for call in calls {
        world.tell(api, Note::Closed { caller: victim, call });
    }
}

fn freeze(world: &mut World, victim: ActorId, ledger: &ledger::Shared) {
    ledger.borrow_mut().tally.add("freezes");
    world.pause(victim);
    let until_ms = world.now_ms() + world.dice().pick(10..=40_000);
    world.run_until(until_ms);
    world.resume(victim);
}

fn recover(world: &mut World, api: ActorId) {
    let Some(Party::Api(api)) = world.actor_mut(api) else { unreachable!("the API never dies") };
    api.recovered = true;
}

fn settle_down(world: &mut World, is_done: impl Fn(&mut World) -> bool) {
    let give_up_ms = world.now_ms() + CALM_MS;
    world.run_until(world.now_ms() + 1_000);
    while !is_done(world) {
        assert!(world.now_ms() < give_up_ms, "not everything ends");
        world.run_until(world.now_ms() + 1_000);
    }
    // And what was written last is written.
    world.run_until(world.now_ms() + 1_000);
}

/// Nothing lost, nothing dead, every result the right one.
fn finish(queue: &Queue<u32, u32>, ledger: &ledger::Shared) -> (Tally, u64) {
    let ledger = ledger.borrow();
    for key in &ledger.accepted {
        match queue.record(key).map(|record| record.place) {
            Some(Place::Done(result)) => {
                assert_eq!(*result, key.wrapping_mul(7), "key {key} has another's result");
            }
            Some(Place::Failed(reason)) => assert_eq!(&**reason, "404", "key {key} failed"),
            other => panic!("key {key} is lost: {other:?}"),
        }
    }
    (ledger.tally.clone(), ledger.smallest_gap_ms)
}

fn stored(world: &mut World, store: ActorId) -> &mut store::Store {
    let Some(Party::Store(store)) = world.actor_mut(store) else { unreachable!("the database never dies") };
    store
}

fn queued(world: &mut World, node: ActorId) -> &Queue<u32, u32> {
    let Some(Party::Node(node)) = world.actor_mut(node) else { unreachable!("it was started again") };
    node.paced.as_ref().expect("and has started").queue()
}

fn running(queue: &Queue<u32, u32>) -> Vec<u32> {
    let runs = queue.line().take_while(|record| matches!(record.place, Place::Running { .. }));
    runs.map(|record| *record.key).collect()
}
