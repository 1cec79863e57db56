//! Poison and outages, of any number, kind and length, one at a time and both at once.
//!
//! A world is drawn from its seed: how many entries make the receiver answer 500 and when they come, when it is out, how and
//! for how long, how often a healthy entry is written, and which workers die. Judged is what the application sees: how long
//! its healthy entries wait while the receiver is well, and which entries become dead letters.

use std::rc::Rc;

use syncline_sim::{Dice, Link, World, check};

use super::receiver::{Manner, Outage, Receiver};
use super::table::State;
use super::worker::Worker;
use super::{Bug, Party, Shared};

const MINUTE_MS: u64 = 60_000;
const HOUR_MS: u64 = 60 * MINUTE_MS;
const WEEK_MS: u64 = 7 * 24 * HOUR_MS;

/// Entities from this number on make the receiver fail.
const POISON_FROM: u32 = 1_000_000;

/// How long a healthy entry may wait while the receiver is well.
const WAIT_MAX_MS: u64 = 10_000;
/// After an outage the receiver is tried again within half a minute, and a backlog takes its time.
const AFTER_OUTAGE_MS: u64 = 60_000;
/// The same after a worker died: its lease ends, and others are in line before.
const LEASE_OVER_MS: u64 = 60_000;

/// What happens in a world.
#[derive(Debug)]
struct Plan {
    /// When each poisonous entry is written.
    poison_ms: Vec<u64>,
    /// When each healthy entry is written.
    healthy_ms: Vec<u64>,
    outages: Vec<(u64, u64, Outage)>,
    /// When a worker is killed.
    kills_ms: Vec<u64>,
    manner: Manner,
    end_ms: u64,
}

/// Runs the plan and judges it; gives how many entries died, and how many were tried in vain.
fn live(seed: u64, plan: &Plan, bug: Option<Bug>) -> (usize, u64) {
    let mut world = World::new(seed);
    let poison = (0..plan.poison_ms.len() as u32).map(|n| POISON_FROM + n);
    let shared = Shared {
        poison: Rc::new(poison.collect()),
        outages: Rc::new(plan.outages.clone()),
        ..Shared::default()
    };
    world.set_link(Link { loss: 0.0, duplicate: 0.0, delay_ms: 1..=2 });
    let receiver =
        world.spawn(Party::Receiver(Receiver { shared: shared.clone(), manner: plan.manner, bug: None }));
    let worker = |life| Party::Worker(Box::new(Worker::new(shared.clone(), receiver, bug, life)));
    let at_work = world.spawn(worker(0));

    enum Step {
        Poison(u32),
        Healthy(u32),
        Kill(u64),
    }
    let poison = plan.poison_ms.iter().zip(POISON_FROM..).map(|(at, entity)| (*at, Step::Poison(entity)));
    let healthy = plan.healthy_ms.iter().zip(0..).map(|(at, entity)| (*at, Step::Healthy(entity)));
    let kills = plan.kills_ms.iter().zip(1..).map(|(at, life)| (*at, Step::Kill(life)));
    let mut steps: Vec<(u64, Step)> = poison.chain(healthy).chain(kills).collect();
    steps.sort_by_key(|(at, _)| *at);
    let mut written_ms = Vec::new();
    for (at_ms, step) in steps {
        world.run_until(at_ms);
        match step {
            Step::Poison(entity) => drop(shared.table.borrow_mut().insert(entity)),
            Step::Healthy(entity) => {
                written_ms.push((shared.table.borrow_mut().insert(entity), at_ms));
            }
            Step::Kill(life) => {
                world.crash(at_work);
                world.restart(at_work, worker(life));
            }
        }
    }
    world.run_until(plan.end_ms);
    judge(&shared, plan, &written_ms);
    let dead = shared.table.borrow().count(State::Dead);
    let doubts = shared.tally.borrow().get("receiver in doubt").copied().unwrap_or_default();
    (dead, doubts)
}

fn judge(shared: &Shared, plan: &Plan, written_ms: &[(i64, u64)]) {
    let (table, kept) = (shared.table.borrow(), shared.kept.borrow());
    for (id, row) in &table.rows {
        let healthy = row.entity < POISON_FROM;
        assert!(row.state != State::Dead || !healthy, "the healthy entry {id} is a dead letter");
    }
    for (id, written_ms) in written_ms {
        let arrived_ms = kept.arrived_ms.get(id).copied();
        // A killed worker's entries come back when its lease ends. What begins before the last moment puts it off, and so may the next.
        let kills = plan.kills_ms.iter().map(|kill| (*kill, kill + LEASE_OVER_MS));
        let outages = plan.outages.iter().map(|(from, to, _)| (*from, to + AFTER_OUTAGE_MS));
        let mut excuses: Vec<(u64, u64)> = kills.chain(outages).collect();
        excuses.sort_unstable();
        let mut latest = written_ms + WAIT_MAX_MS;
        for (from, to) in excuses {
            if from <= latest && to > *written_ms {
                latest = latest.max(to);
            }
        }
        if latest > plan.end_ms {
            continue;
        }
        let waited = arrived_ms.map(|at| at - written_ms);
        assert!(
            arrived_ms.is_some_and(|at| at <= latest),
            "the healthy entry {id}, written at {written_ms}, waited {waited:?} ms; {plan:?}"
        );
    }
}

fn times(dice: &mut Dice, count: u64, from_ms: u64, to_ms: u64) -> Vec<u64> {
    let mut times: Vec<u64> = (0..count).map(|_| dice.pick(from_ms..=to_ms)).collect();
    times.sort_unstable();
    times
}

/// Any number of poisonous entries, old and new, and no outage.
fn poisoned(seed: u64) -> Plan {
    let mut dice = Dice::new(seed ^ 0x5532);
    let count = *dice.choose(&[1, 3, 10, 30, 100, 300, 1_000, 3_000]).expect("there are counts");
    // All at once before the first healthy entry, or spread over the hour.
    let spread_ms = *dice.choose(&[0, 1_000, MINUTE_MS, HOUR_MS]).expect("there are spreads");
    let healthy = dice.pick(20..=200);
    let manner = if dice.chance(0.8) { Manner::Plain } else { Manner::Ours };
    let kills = if dice.chance(0.2) { dice.pick(1..=3) } else { 0 };
    Plan {
        poison_ms: times(&mut dice, count, 0, spread_ms),
        healthy_ms: times(&mut dice, healthy, 0, HOUR_MS),
        outages: Vec::new(),
        kills_ms: times(&mut dice, kills, 0, HOUR_MS),
        manner,
        end_ms: HOUR_MS + 10 * MINUTE_MS,
    }
}

/// One to four outages of any kind, each up to `length_ms` long, with `poison` poisonous entries.
fn out(seed: u64, length_ms: u64, poison: u64) -> Plan {
    let mut dice = Dice::new(seed ^ 0x0e0f);
    let kinds = [500, 507, 502, 503, 429, 404, 302].map(Outage::Status);
    let mut outages = Vec::new();
    let mut at_ms = dice.pick(0..=10 * MINUTE_MS);
    for _ in 0..dice.pick(1..=4) {
        let to_ms = at_ms + dice.pick(1_000..=length_ms);
        let kind =
            if dice.chance(0.25) { Outage::Silence } else { *dice.choose(&kinds).expect("there are kinds") };
        outages.push((at_ms, to_ms, kind));
        at_ms = to_ms + dice.pick(2 * MINUTE_MS..=20 * MINUTE_MS);
    }
    let end_ms = at_ms + 10 * MINUTE_MS;
    let healthy = dice.pick(10..=60);
    Plan {
        poison_ms: times(&mut dice, poison, 0, at_ms),
        healthy_ms: times(&mut dice, healthy, 0, at_ms),
        outages,
        kills_ms: Vec::new(),
        manner: Manner::Plain,
        end_ms,
    }
}

/// A receiver that is up for less than a minute now and then, with a healthy entry every ten minutes: hardly any is tried while
/// it is up.
fn comes_and_goes(seed: u64) -> Plan {
    let mut dice = Dice::new(seed ^ 0xf1a9);
    let (mut outages, mut at_ms) = (Vec::new(), 0);
    for _ in 0..dice.pick(10..=40) {
        let up_ms = dice.pick(1_000..=50_000);
        let down_ms = dice.pick(10 * MINUTE_MS..=2 * HOUR_MS);
        let kind = *dice.choose(&[500, 507].map(Outage::Status)).expect("there are kinds");
        outages.push((at_ms + up_ms, at_ms + up_ms + down_ms, kind));
        at_ms += up_ms + down_ms;
    }
    let healthy_ms = (0..at_ms / (10 * MINUTE_MS)).map(|n| n * 10 * MINUTE_MS).collect();
    let end_ms = at_ms + 10 * MINUTE_MS;
    Plan { poison_ms: Vec::new(), healthy_ms, outages, kills_ms: Vec::new(), manner: Manner::Plain, end_ms }
}

#[test]
fn ss_32_a_receiver_that_comes_and_goes_makes_no_dead_letter() {
    let name = "ss_32_a_receiver_that_comes_and_goes_makes_no_dead_letter";
    let runs = check(name, 10, |seed| live(seed, &comes_and_goes(seed), None));
    assert!(runs.iter().all(|(dead, _)| *dead == 0));
}

#[test]
fn ss_32_no_poison_makes_a_healthy_entry_wait_for_more_than_seconds() {
    let name = "ss_32_no_poison_makes_a_healthy_entry_wait_for_more_than_seconds";
    let runs = check(name, 20, |seed| live(seed, &poisoned(seed), None));
    let doubts: u64 = runs.iter().map(|(_, doubts)| doubts).sum();
    assert!(doubts > runs.len() as u64, "the receiver was hardly ever in doubt: {doubts}");
    println!("{} worlds, {doubts} batches of which nothing was taken", runs.len());
}

#[test]
fn ss_32_no_outage_makes_a_dead_letter() {
    let name = "ss_32_no_outage_makes_a_dead_letter";
    let runs = check(name, 20, |seed| live(seed, &out(seed, HOUR_MS, 0), None));
    assert!(runs.iter().all(|(dead, _)| *dead == 0));
    // A week takes longer to simulate.
    assert_eq!(live(0, &out(0, WEEK_MS, 0), None).0, 0);
}

#[test]
fn ss_32_poison_and_outages_at_once_kill_no_healthy_entry() {
    let name = "ss_32_poison_and_outages_at_once_kill_no_healthy_entry";
    check(name, 20, |seed| live(seed, &out(seed, HOUR_MS, seed % 60), None));
}

#[test]
fn ss_32_poison_becomes_a_dead_letter_while_others_are_taken() {
    let name = "ss_32_poison_becomes_a_dead_letter_while_others_are_taken";
    let runs = check(name, 10, |seed| {
        let mut plan = poisoned(seed);
        // A healthy entry every minute, for long enough.
        plan.healthy_ms = (0..8 * 60).map(|minute| minute * MINUTE_MS).collect();
        plan.kills_ms.clear();
        plan.end_ms = 8 * HOUR_MS;
        (live(seed, &plan, None).0, plan.poison_ms.len())
    });
    for (dead, poisonous) in runs {
        assert_eq!(dead, poisonous);
    }
}

#[test]
fn ss_32_poison_alone_in_an_outbox_is_tried_on_and_never_given_up() {
    let name = "ss_32_poison_alone_in_an_outbox_is_tried_on_and_never_given_up";
    let runs = check(name, 5, |seed| {
        let mut plan = poisoned(seed);
        plan.manner = Manner::Plain;
        plan.healthy_ms.clear();
        plan.kills_ms.clear();
        plan.end_ms = 6 * HOUR_MS;
        live(seed, &plan, None)
    });
    assert!(runs.iter().all(|(dead, doubts)| *dead == 0 && *doubts > 100), "{runs:?}");
}
