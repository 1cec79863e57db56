//! Devices that come and go, contexts that die, clocks that jump, answers that get lost; then everybody meets.

use std::collections::{BTreeMap, BTreeSet};

use syncline_core::state::Input;
use syncline_sim::{Dice, check};

use super::device::{Device, NOON};
use super::node::Node;

const SEEDS: u64 = 60;

/// What somebody was told is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Act {
    Put(u64),
    Remove,
}

/// The value that it left behind.
fn text(act: &Act) -> Option<String> {
    if let Act::Put(number) = act { Some(format!("{{\"n\":{number}}}")) } else { None }
}

#[derive(Debug, Default, Clone, Copy)]
struct Tally {
    acts: u64,
    calls: u64,
    lost: u64,
    deaths: u64,
    jumps: u64,
    reloads: u64,
    clearings: u64,
}

/// What may go wrong, besides answers that get lost, contexts that die, and devices whose clocks are set.
#[derive(Debug, Default, Clone, Copy)]
struct Faults {
    /// A device's storage is cleared now and then, under its open contexts.
    clears: bool,
    /// Each device has a context without a bridge, too.
    mixed: bool,
    /// The clocks of a device's contexts are years apart, and stay so.
    apart: bool,
}

const CALM: Faults = Faults { clears: false, mixed: false, apart: false };

fn storm(seed: u64, faults: Faults) -> Tally {
    let Faults { clears, mixed, apart } = faults;
    let mut dice = Dice::new(seed);
    let mut node = Node::new("first");
    let mut tally = Tally::default();
    let mut devices: Vec<Device> = (0..dice.pick(2..=3))
        .map(|number| Device::new(number as u32 + 1, dice.pick(1..=2) as usize))
        .collect();
    if mixed {
        for device in &mut devices {
            device.open_as(false);
            device.calm();
        }
    }
    if apart {
        for device in &mut devices {
            let off = any_off(&mut dice);
            device.open_off(true, off);
            device.calm();
        }
    }
    let mut acts: BTreeMap<String, Vec<Act>> = BTreeMap::new();
    let mut before: BTreeMap<String, String> = BTreeMap::new();
    let mut ever: BTreeSet<(String, String)> = BTreeSet::new();
    for phase in 0..dice.pick(2..=4) {
        let mut set_back = false;
        for device in &mut devices {
            device.online = dice.chance(0.6);
        }
        for step in 0..dice.pick(20..=120) {
            let at = dice.pick(0..=devices.len() as u64 - 1) as usize;
            let context = dice.pick(0..=devices[at].contexts.len() as u64 - 1) as usize;
            if clears && dice.chance(0.03) {
                devices[at].calm();
                devices[at].clear();
                tally.clearings += 1;
                continue;
            }
            match dice.pick(0..=19) {
                0..=4 => {
                    let number = phase * 1_000 + step;
                    let id = if dice.chance(0.5) {
                        format!("e{}", dice.pick(0..=4))
                    } else {
                        format!("own{number}")
                    };
                    let act = if dice.chance(0.7) { Act::Put(number) } else { Act::Remove };
                    perform(&mut devices[at], context, &id, &act, number + 1);
                    acts.entry(id).or_default().push(act);
                    tally.acts += 1;
                }
                5..=8 => drop(devices[at].serve(context)),
                9..=11 => drop(devices[at].deliver(context)),
                12..=15 => {
                    let lost = dice.chance(0.2);
                    let wall = NOON + devices[at].now;
                    let device = &mut devices[at];
                    let called = device.call(context, &mut node, wall, lost);
                    tally.calls += u64::from(called);
                    tally.lost += u64::from(called && lost);
                }
                16 => {
                    devices[at].online = !devices[at].online;
                    devices[at].hand(0, Input::Link { up: true });
                }
                17 if dice.chance(0.3) => {
                    // Nothing that was acknowledged is under way when it dies.
                    devices[at].calm();
                    let dies = if mixed { devices[at].contexts.len() - 1 } else { context };
                    let off = devices[at].contexts[dies].off;
                    devices[at].kill(dies);
                    devices[at].open_off(!mixed, off);
                    tally.deaths += 1;
                }
                18 if dice.chance(0.2) => {
                    let hours: i64 = *dice.choose(&[-100_000, -2, 1, 24, 90_000]).expect("some");
                    devices[at].calm();
                    set_back |= hours * 3_600_000 < devices[at].off;
                    devices[at].off = hours * 3_600_000;
                    (0..devices[at].contexts.len())
                        .for_each(|context| devices[at].hand(context, Input::Timer));
                    tally.jumps += 1;
                }
                _ => devices.iter_mut().for_each(|device| device.pass(10)),
            }
        }
        meet(&mut devices, &mut node);
        judge(&devices, &node, (&before, &ever), &acts, set_back);
        before = node.live();
        for (id, acts) in std::mem::take(&mut acts) {
            ever.extend(acts.iter().filter_map(text).map(|text| (id.clone(), text)));
        }
        if apart {
            one_after_the_other(&mut devices, &mut node, &mut dice, phase);
        }
        if dice.chance(0.4) {
            // Long enough for removals to be forgotten, with or without everybody having heard of them.
            let days = dice.pick(10..=40) * 24 * 3_600_000;
            for device in &mut devices {
                device.pass(days);
                // Awake again: a storage that is cleared while everybody sleeps is not cleared under open contexts.
                (0..device.contexts.len()).for_each(|context| device.hand(context, Input::Timer));
                device.calm();
            }
            tally.reloads += node.forget(NOON + devices[0].now) as u64;
        }
    }
    tally
}

fn perform(device: &mut Device, context: usize, id: &str, act: &Act, op: u64) {
    match act {
        Act::Put(number) => device.put(context, op, id, *number),
        Act::Remove => device.remove(context, op, id),
    }
}

/// How far a context's clock may be off, in ms.
fn any_off(dice: &mut Dice) -> i64 {
    const HOUR: i64 = 3_600_000;
    *dice.choose(&[-100_000 * HOUR, -HOUR, HOUR, 90_000 * HOUR, 500_000 * HOUR]).expect("some")
}

/// What is done after having been seen counts, whoever does it and whatever the clocks say.
fn one_after_the_other(devices: &mut [Device], node: &mut Node, dice: &mut Dice, phase: u64) {
    for turn in 0..6 {
        let at = dice.pick(0..=devices.len() as u64 - 1) as usize;
        let context = dice.pick(0..=devices[at].contexts.len() as u64 - 1) as usize;
        let number = phase * 1_000 + 900 + turn;
        let act = if dice.chance(0.6) { Act::Put(number) } else { Act::Remove };
        perform(&mut devices[at], context, "seen", &act, number + 1);
        devices[at].sync(node);
        devices.iter_mut().for_each(|device| device.meet(node));
        for context in devices.iter().flat_map(|device| &device.contexts) {
            assert_eq!(context.view.get("seen"), text(&act).as_ref(), "by {at} {context:?}");
        }
    }
    perform(&mut devices[0], 0, "seen", &Act::Remove, phase * 1_000 + 999);
    devices[0].sync(node);
    devices.iter_mut().for_each(|device| device.meet(node));
}

/// Clocks of devices are set right, everybody is online, one whose clock is right talks to the node, and everything is exchanged.
fn meet(devices: &mut [Device], node: &mut Node) {
    for device in devices.iter_mut() {
        device.calm();
        device.online = true;
        while device.contexts[0].off != 0 {
            let off = device.contexts[0].off;
            device.kill(0);
            device.open_off(true, off);
            device.calm();
        }
        if std::mem::take(&mut device.off) != 0 {
            (0..device.contexts.len()).for_each(|context| device.hand(context, Input::Timer));
        }
        device.pass(5_000);
    }
    // A mark whose change is missing is sent after a while.
    for _ in 0..3 {
        for device in devices.iter_mut() {
            device.meet(node);
            device.pass(61_000);
            device.meet(node);
        }
    }
}

fn judge(
    devices: &[Device],
    node: &Node,
    (before, ever): (&BTreeMap<String, String>, &BTreeSet<(String, String)>),
    acts: &BTreeMap<String, Vec<Act>>,
    set_back: bool,
) {
    let live = node.live();
    for device in devices {
        assert_eq!(device.marks(), 0, "something was not sent");
        for context in &device.contexts {
            let (storage, rows) = (&device.storage, &node.rows);
            assert_eq!(
                context.view, live,
                "a device shows something else than the node has: {storage:#?} {rows:?}"
            );
        }
    }
    for (id, acts) in acts {
        let after = live.get(id);
        // By a clock that was set back, a change may be older than what it changed, a removal included; and older than a
        // value that was removed so long ago that the removal is forgotten.
        let outdated = set_back && id.starts_with('e');
        if acts.iter().all(|act| *act == Act::Remove) {
            // Removed by a device that knew it; one that had never heard of it removes nothing.
            assert!(after.is_none() || after == before.get(id), "{id} is from nowhere: {acts:?}");
        }
        if acts.iter().all(|act| *act != Act::Remove) {
            let one_of = |after: &String| acts.iter().filter_map(text).any(|text| text == *after);
            assert!(outdated || after.is_some_and(one_of), "{id} is lost: {acts:?} {after:?}");
        }
        if let Some(after) = after {
            let possible =
                acts.iter().filter_map(text).any(|text| text == *after) || before.get(id) == Some(after);
            let before = before.get(id);
            let old = outdated && ever.contains(&(id.clone(), after.clone()));
            assert!(
                possible || old,
                "{id} is {after}, which is from nowhere: {before:?}, {acts:?}, set back: {set_back}"
            );
        }
    }
    for (id, value) in before.iter().filter(|(id, _)| !acts.contains_key(*id)) {
        assert_eq!(live.get(id), Some(value), "nobody touched {id}");
    }
    for id in live.keys() {
        assert!(before.contains_key(id) || acts.contains_key(id), "{id} came back");
    }
}

/// What is listed was heard of before its value, and was taken for sent.
#[test]
fn st_23_a_schedule_that_once_ended_out_of_step() {
    storm(12_730, CALM);
}

/// A device whose clock was years behind added what it had removed. The node had forgotten the removal and took the addition
/// over; the other devices had not, and did not.
#[test]
fn st_23_a_schedule_in_which_only_devices_remembered_a_removal() {
    storm(423, CALM);
}

/// Somebody with a clock far ahead had changed an entity that was removed meanwhile. When it was added again, that change was later.
#[test]
fn st_34_schedules_in_which_a_change_of_what_was_removed_once_came_back() {
    storm(899, CALM);
    storm(637, Faults { mixed: true, ..CALM });
    storm(388, Faults { apart: true, ..CALM });
    storm(1_420, Faults { clears: true, ..CALM });
}

#[test]
fn st_23_devices_that_come_and_go_end_in_step() {
    let tallies = check("st_23_devices_that_come_and_go_end_in_step", SEEDS, |seed| storm(seed, CALM));
    let sum = |count: fn(&Tally) -> u64| tallies.iter().map(count).sum::<u64>();
    let (acts, lost, deaths) = (sum(|tally| tally.acts), sum(|tally| tally.lost), sum(|tally| tally.deaths));
    let (jumps, reloads) = (sum(|tally| tally.jumps), sum(|tally| tally.reloads));
    assert!(tallies.len() == 1 || [acts, lost, deaths, jumps, reloads].iter().all(|count| *count > 0));
    println!(
        "{} schedules, {acts} changes, {} calls, {lost} answers lost, {deaths} deaths, {jumps} clocks set, {reloads} removals forgotten",
        tallies.len(),
        sum(|tally| tally.calls)
    );
}

/// A device whose storage was cleared showed nothing from then on, and said that it was in step.
#[test]
fn st_33_devices_whose_storage_is_cleared_end_in_step_and_lose_nothing() {
    let name = "st_33_devices_whose_storage_is_cleared_end_in_step_and_lose_nothing";
    let tallies = check(name, SEEDS, |seed| storm(seed, Faults { clears: true, ..CALM }));
    let clearings = tallies.iter().map(|tally| tally.clearings).sum::<u64>();
    assert!(tallies.len() == 1 || clearings > 10, "{clearings}");
    println!("{} schedules, {clearings} storages cleared", tallies.len());
}

/// A device asked for everything anew, and then its clock was set back. It still went by the moment up to which all had been
/// sent, before which everything now seemed to be: what the node did not have was taken for removed there.
#[test]
fn st_33_a_schedule_that_once_took_what_was_never_sent_for_removed() {
    storm(5_802, Faults { clears: true, ..CALM });
}

/// What a context without a bridge changed was shown on its device and never reached the node.
#[test]
fn st_31_contexts_without_a_bridge_beside_one_with_end_in_step_too() {
    let name = "st_31_contexts_without_a_bridge_beside_one_with_end_in_step_too";
    let tallies = check(name, SEEDS, |seed| storm(seed, Faults { mixed: true, ..CALM }));
    assert!(tallies.iter().map(|tally| tally.acts).sum::<u64>() > 0);
}

/// Two tabs of one device had clocks ten years apart. Each cut the stamps of the other back to its own time, so that they never
/// ended alike, and an old change could win over a later one.
#[test]
fn st_34_contexts_of_one_device_with_clocks_years_apart_end_in_step_with_all_devices() {
    let name = "st_34_contexts_of_one_device_with_clocks_years_apart_end_in_step_with_all_devices";
    for clears in [false, true] {
        let tallies = check(name, SEEDS, |seed| storm(seed, Faults { clears, apart: true, ..CALM }));
        assert!(tallies.len() == 1 || tallies.iter().map(|tally| tally.deaths).sum::<u64>() > 0);
    }
}

/// A page from the node was being stored while another context put a later value. What came from the node was stamped anew, and
/// the acknowledged put was lost.
#[test]
fn st_33_a_schedule_in_which_what_came_from_the_node_once_won_over_a_later_put() {
    storm(22_245, Faults { clears: true, ..CALM });
}
