//! Storms: phases in which everybody writes at once and things go wrong, each followed by calm and judgement.

use syncline_core::state::{Failure, Input, Layout};
use syncline_sim::Dice;

use super::ledger;
use super::party::{Wish, value};
use super::world::{Bug, Step, World};

/// What may go wrong.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Faults {
    /// One context a phase dies, between any two steps.
    pub(crate) crashes: bool,
    /// A write may be cut short by the crash, as where several keys are not stored at once.
    pub(crate) torn: bool,
    /// There are writers that know only `ids`.
    pub(crate) plain: bool,
    /// Changes and messages are lost, doubled and late.
    pub(crate) unreliable: bool,
    /// Storage is full now and then.
    pub(crate) quota: bool,
    /// The time of day is set between phases.
    pub(crate) jumps: bool,
    /// The layout changes.
    pub(crate) layouts: bool,
    /// Many contexts, and all entities under one key.
    pub(crate) crowded: bool,
    /// Storage loses everything under open contexts.
    pub(crate) vanishes: bool,
    /// Clocks are hours or years apart.
    pub(crate) apart: bool,
    /// A context stops between any two steps, and goes on when all others have long been done.
    pub(crate) stops: bool,
    /// Storage notices that somebody wrote since it was read, and refuses.
    pub(crate) overtaken: bool,
}

/// Operations, writes, dropped updates that were written again, crashes, refused writes, faulty deliveries.
pub(crate) type Tally = [u64; 6];

pub(crate) fn storm(seed: u64, faults: &Faults, bug: Option<Bug>) -> Tally {
    let mut dice = Dice::new(seed);
    let mut world = World::new(bug.filter(|bug| *bug != Bug::Plain));
    let replicas = if faults.crowded { dice.pick(6..=9) } else { dice.pick(2..=4) } as usize;
    (0..replicas).for_each(|_| world.spawn_replica());
    if bug == Some(Bug::Plain) {
        world.spawn_plain();
        world.spawn_plain();
        world.parties.drain(..replicas);
        world.wishes.drain(..replicas);
    } else if faults.plain {
        (0..dice.pick(1..=2)).for_each(|_| world.spawn_plain());
    }
    if faults.apart {
        set_apart(&mut world, &mut dice);
    }
    world.calm(1_000);
    if faults.crowded {
        world.wishes[0].push(Wish::Layout(Layout::A));
        world.calm(1_000);
    }
    let mut tally = [0; 6];
    for phase in 0..dice.pick(2..=5) {
        // Longer than a plain writer may take to write what it read.
        world.calm(5_000);
        if faults.jumps && dice.chance(0.5) {
            jump(&mut world, &mut dice);
        }
        let before = ledger::stored(&world.storage);
        world.parties.iter_mut().flatten().for_each(|party| party.fates.clear());
        draw_wishes(&mut world, &mut dice, faults, phase);
        world.vanished = false;
        let dead = rage(&mut world, &mut dice, faults, &mut tally);
        calm_down(&mut world, faults);
        tally[0] += world.parties.iter().flatten().map(|party| party.fates.len() as u64).sum::<u64>();
        ledger::judge(&world, &before, &dead);
        if bug.is_none() {
            let writes = world.writes;
            world.calm(20_000);
            assert_eq!(world.writes, writes, "somebody writes at rest");
        }
        if faults.apart {
            one_after_the_other(&mut world, &mut dice, phase);
        }
    }
    (tally[1], tally[2]) = (world.writes, world.repairs);
    tally
}

/// One or more clocks are wrong from the beginning.
fn set_apart(world: &mut World, dice: &mut Dice) {
    const HOUR: i64 = 3_600_000;
    const YEARS: i64 = 10 * 365 * 24 * HOUR;
    for at in 0..world.parties.len() {
        if at == 0 || dice.chance(0.3) {
            world.offs[at] = *dice.choose(&[-5 * YEARS, -YEARS, -HOUR, HOUR, YEARS]).expect("some");
        }
        world.restart(at);
    }
}

/// What is done after having been seen counts, whatever the clocks say.
fn one_after_the_other(world: &mut World, dice: &mut Dice, phase: u64) {
    for turn in 0..6 {
        let at = dice.pick(0..=world.parties.len() as u64 - 1) as usize;
        let number = phase * 1_000 + 900 + turn;
        let put = dice.chance(0.6);
        world.wishes[at].push(if put {
            Wish::Put("seen".into(), number)
        } else {
            Wish::Remove("seen".into())
        });
        world.calm(1_500);
        let writes = world.writes;
        world.calm(20_000);
        assert_eq!(world.writes, writes, "somebody writes at rest");
        let expected = put.then(|| value(number).text().to_owned());
        assert_eq!(ledger::stored(&world.storage).remove("seen").flatten(), expected, "by {at}");
        for party in world.parties.iter().flatten() {
            assert_eq!(party.view.get("seen").map(|value| value.text().to_owned()), expected, "by {at}");
        }
    }
}

/// The clock of the machine is set; all its contexts notice.
fn jump(world: &mut World, dice: &mut Dice) {
    const HOUR: u64 = 3_600_000;
    let by = *dice.choose(&[HOUR, 24 * HOUR, 10 * 365 * 24 * HOUR]).expect("some");
    world.wall = if dice.chance(0.5) { world.wall + by } else { world.wall - by };
    for at in 0..world.parties.len() {
        world.hand(at, Input::Timer);
    }
    world.calm(5_000);
}

fn draw_wishes(world: &mut World, dice: &mut Dice, faults: &Faults, phase: u64) {
    for at in 0..world.parties.len() {
        let plain = world.parties[at].as_ref().is_some_and(|party| party.as_replica().is_none());
        for turn in 0..dice.pick(0..=4) {
            let id = format!("e{}", dice.pick(0..=5));
            let number = phase * 1_000 + at as u64 * 100 + turn;
            let own = format!("p{phase}c{at}t{turn}");
            let wish = match dice.pick(0..=19) {
                // The source lets plain writers race for one value; what they promise is the index.
                9..=13 if !plain => Wish::Put(id, number),
                14..=17 => Wish::Remove(id),
                18 if dice.chance(0.3) && !faults.plain => Wish::Reset,
                19 if faults.layouts && !plain => Wish::Layout(
                    *dice.choose(&[Layout::A, Layout::B, Layout::C(16), Layout::C(32)]).expect("some"),
                ),
                _ => Wish::Put(own, number),
            };
            world.wishes[at].push(wish);
        }
    }
}

fn rage(
    world: &mut World,
    dice: &mut Dice,
    faults: &Faults,
    tally: &mut Tally,
) -> Vec<(Wish, super::party::Fate)> {
    let mut dead = Vec::new();
    let mut crashes_left = u64::from(faults.crashes);
    let mut stops_left = u64::from(faults.stops);
    loop {
        let steps = world.steps();
        let Some(&step) = dice.choose(&steps) else {
            if world.stopped.is_none() {
                return dead;
            }
            // All others have been done for long when it goes on.
            world.calm(dice.pick(100..=90_000));
            world.stopped = None;
            continue;
        };
        if faults.vanishes && !world.vanished && dice.chance(0.03) {
            world.vanish(dice.chance(0.5));
            continue;
        }
        if dice.chance(0.02) {
            // A little time: far less than a plain writer may take.
            let until = world.now + dice.pick(1..=30);
            world.pass_time(until);
            continue;
        }
        let (Step::Wish(at) | Step::Storage(at) | Step::Deliver(at)) = step;
        let is_replica = world.parties[at].as_ref().is_some_and(|party| party.as_replica().is_some());
        if stops_left > 0 && is_replica && dice.chance(0.1) {
            (stops_left, world.stopped) = (0, Some(at));
            tally[3] += 1;
            continue;
        }
        if crashes_left > 0 && is_replica && dice.chance(0.05) {
            crashes_left -= 1;
            tally[3] += 1;
            dead = world.parties[at].as_ref().expect("alive").fates.clone();
            if faults.torn && matches!(step, Step::Storage(_)) {
                world.serve(at, dice.pick(0..=3) as usize, None);
            }
            world.wishes[at].clear();
            world.parties[at] = None;
            world.restart(at);
            continue;
        }
        match step {
            Step::Storage(at)
                if faults.overtaken && is_replica && world.writes_next(at) && dice.chance(0.3) =>
            {
                tally[4] += 1;
                world.serve(at, usize::MAX, Some(Failure::Overtaken));
            }
            Step::Storage(at) if faults.quota && is_replica && dice.chance(0.1) => {
                tally[4] += 1;
                let failure = if dice.chance(0.7) { Failure::Quota } else { Failure::Other };
                world.serve(at, usize::MAX, Some(failure));
            }
            Step::Deliver(at) if faults.unreliable && dice.chance(0.4) => {
                tally[5] += 1;
                disturb(world, dice, at);
            }
            step => world.take(step),
        }
    }
}

/// Loses, doubles or delays what a context should hear next.
fn disturb(world: &mut World, dice: &mut Dice, at: usize) {
    let Some(party) = &mut world.parties[at] else { return };
    let Some(input) = party.inbox.pop_front() else { return };
    match dice.pick(0..=2) {
        0 => {}
        1 => {
            party.inbox.push_back(input.clone());
            party.inbox.push_front(input);
        }
        _ => party.inbox.push_back(input),
    }
}

/// Where changes were lost, everybody reads everything once.
fn calm_down(world: &mut World, faults: &Faults) {
    world.calm(5_000);
    for _ in 0..if faults.unreliable || world.vanished { 2 } else { 0 } {
        for at in 0..world.parties.len() {
            world.hand(at, Input::Refresh);
        }
        world.calm(5_000);
    }
}
