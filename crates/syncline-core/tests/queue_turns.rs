//! Groups of a queue that one process keeps: pace, turns, pauses and restarts, in virtual time.
//!
//! The world runs a real [`Paced`] and writes what it says is to be kept before it acts on it. It keeps its own record of every start and
//! end, and judges by that. The second half plants faults and demands that it finds them.
#![allow(clippy::unwrap_used, reason = "a test may panic, its helpers too")]

use std::collections::BTreeMap;
use std::hash::RandomState;
use std::time::Duration;

use syncline_core::queue::{
    Answer, Change, Clock, GroupRecord, GroupSettings, Kind, Limits, Pace, Paced, Place, Record, Settings,
    Setup, Step,
};
use syncline_core::time::Timestamp;
use syncline_sim::{Dice, check, find_failure};

const SEEDS: u64 = 60;

type Work = Paced<u32, ()>;

fn at(ms: u64) -> Timestamp {
    Timestamp::from_ms(ms)
}

fn clock(now_ms: u64) -> Clock {
    Clock { now: at(now_ms), wall: at(1_000_000 + now_ms) }
}

fn setup(concurrency: u32, groups: Option<GroupSettings>) -> Setup {
    let settings = Settings::new(concurrency, Duration::ZERO, Duration::from_millis(500));
    Setup { settings, limits: Limits::default(), groups, hasher: RandomState::default(), seed: 7 }
}

fn pace(concurrency: u32, interval_ms: u64) -> GroupSettings {
    GroupSettings { concurrency, interval: Duration::from_millis(interval_ms) }
}

fn add(work: &mut Work, kind: Kind, keys: &[(u32, u32)]) {
    let groups: Vec<Option<u32>> = keys.iter().map(|(_, group)| Some(*group)).collect();
    work.enqueue_in(kind, keys.iter().map(|(key, _)| *key).collect(), &groups).unwrap();
}

/// The calls that start now, key and call, and when to come back.
fn starts(work: &mut Work, now_ms: u64) -> (Vec<(u32, u64)>, Option<u64>) {
    let mut started = Vec::new();
    loop {
        match work.poll(clock(now_ms)) {
            Step::Start(start) => started.push((start.key, start.call)),
            Step::Lost { .. } => {}
            Step::Wait(until) => return (started, until.map(Timestamp::as_ms)),
        }
    }
}

fn keys(started: &[(u32, u64)]) -> Vec<u32> {
    started.iter().map(|(key, _)| *key).collect()
}

#[test]
fn qu_32_a_long_group_delays_no_other_and_each_keeps_its_own_interval() {
    let mut work = Work::new(setup(10, Some(pace(1, 100))), at(0));
    add(&mut work, Kind::New, &(0..1_000).map(|key| (key, 1)).collect::<Vec<_>>());
    add(&mut work, Kind::New, &[(2_001, 2), (2_002, 2), (3_001, 3)]);
    let (first, until) = starts(&mut work, 0);
    assert_eq!((keys(&first), until), (vec![0, 2_001, 3_001], Some(25_000)));
    for (_, call) in first {
        work.settle(clock(10), call, Answer::Done(()));
    }
    assert_eq!(starts(&mut work, 10), (Vec::new(), Some(111)), "each rests, and nothing else is to be done");
    assert_eq!(keys(&starts(&mut work, 111).0), [1, 2_002]);
}

#[test]
fn qu_32_groups_without_a_pace_take_turns_and_share_the_queues_own() {
    let mut work = Work::new(setup(2, None), at(0));
    add(&mut work, Kind::New, &[(10, 1), (11, 1), (12, 1), (20, 2), (30, 3)]);
    let mut order = Vec::new();
    for now_ms in 0..3 {
        let (started, _) = starts(&mut work, now_ms);
        order.extend(keys(&started));
        for (_, call) in started {
            work.settle(clock(now_ms), call, Answer::Done(()));
        }
    }
    assert_eq!(order, [10, 20, 30, 11, 12], "two at once, and one of each before a second of any");
}

#[test]
fn qu_32_a_key_in_line_stays_in_its_group_and_one_that_comes_back_takes_the_newest() {
    let mut work = Work::new(setup(1, None), at(0));
    work.enqueue(Kind::New, vec![7]).unwrap();
    add(&mut work, Kind::New, &[(1, 1), (2, 1), (3, 2)]);
    let group = |work: &Work, key: u32| work.queue().record(&key).unwrap().group;
    add(&mut work, Kind::Priority, &[(2, 2)]);
    assert_eq!((group(&work, 7), group(&work, 2)), (0, 1));
    let line: Vec<u32> = work.queue().line().map(|record| *record.key).collect();
    assert_eq!(line, [2, 7, 1, 3], "one order over all groups");
    let (started, _) = starts(&mut work, 0);
    assert_eq!(keys(&started), [7], "its group has been there longest");
    work.settle(clock(1), started[0].1, Answer::Done(()));
    add(&mut work, Kind::Again, &[(7, 2)]);
    assert_eq!(group(&work, 7), 2);
    work.enqueue(Kind::Again, vec![7]).unwrap();
    assert_eq!(group(&work, 7), 2, "without one it keeps its own");
    assert_eq!(keys(&starts(&mut work, 1).0), [2], "what came as priority is first in its group");
}

#[test]
fn qu_32_what_an_api_asks_for_holds_its_group_and_survives_a_restart() {
    let setup = || setup(5, Some(pace(2, 0)));
    let mut work = Work::restore(setup(), clock(0), [], None, []).unwrap();
    add(&mut work, Kind::New, &[(1, 1), (2, 1), (3, 2)]);
    let (started, _) = starts(&mut work, 0);
    assert_eq!(keys(&started), [1, 3, 2]);
    let throttled = Answer::Throttled { retry_after: Some(Duration::from_secs(60)) };
    work.settle(clock(10), started[0].1, throttled);
    add(&mut work, Kind::New, &[(4, 1), (5, 2)]);
    assert_eq!(keys(&starts(&mut work, 10).0), [5]);
    assert_eq!(work.status(at(10)).paused, None, "the queue goes on");
    work.hold_group(at(10), 3, true);

    let mut rows = BTreeMap::new();
    work.drain_changes(|change| match change {
        Change::Put(record) => drop(rows.insert(*record.key, record.cloned())),
        Change::Remove(key) => drop(rows.remove(key)),
    });
    let mut groups = BTreeMap::new();
    work.drain_group_changes(clock(10), |group, record| {
        groups.insert(group, record);
    });
    let kept: Vec<GroupRecord> = groups.into_values().flatten().collect();
    assert_eq!(kept.iter().map(|kept| (kept.group, kept.held)).collect::<Vec<_>>(), [(1, false), (3, true)]);

    let later = Clock { now: at(5), wall: at(1_020_000) };
    let mut work = Work::restore(setup(), later, rows.into_values(), None, kept).unwrap();
    add(&mut work, Kind::New, &[(6, 3)]);
    let mut started = Vec::new();
    while let Step::Start(start) = work.poll(later) {
        started.push(start.key);
    }
    started.sort_unstable();
    assert_eq!(started, [3, 5], "one group is left alone for the rest of its minute, the other is held");
    let next = work.groups().find(|group| group.group == 1).unwrap().next_call_at.unwrap();
    assert!((39_900..=40_100).contains(&next.as_ms()), "{next:?}");
    work.hold_group(at(6), 3, false);
    let later = Clock { now: at(6), wall: at(1_020_001) };
    assert!(matches!(work.poll(later), Step::Start(start) if start.key == 6));
}

#[test]
fn qu_32_a_group_is_forgotten_with_its_last_key_and_when_its_pace_is_over() {
    let mut work = Work::new(setup(1, Some(pace(1, 100))), at(0));
    work.keep_removals();
    add(&mut work, Kind::New, &[(1, 1)]);
    let (started, _) = starts(&mut work, 0);
    work.settle(clock(1), started[0].1, Answer::Done(()));
    work.remove(&1);
    starts(&mut work, 50);
    assert_eq!(
        (work.take_forgotten_groups(), work.knows_group(1)),
        (vec![], true),
        "its interval counts still"
    );
    add(&mut work, Kind::New, &[(2, 2)]);
    let (started, _) = starts(&mut work, 200);
    assert_eq!((work.take_forgotten_groups(), work.knows_group(1)), (vec![1], false));
    work.settle(clock(200), started[0].1, Answer::Done(()));
    add(&mut work, Kind::New, &[(3, 3)]);
    starts(&mut work, 400);
    assert_eq!(work.take_forgotten_groups(), [0_u32; 0], "a result may be asked for once more");
    work.remove(&2);
    starts(&mut work, 401);
    assert_eq!(work.take_forgotten_groups(), [2]);
}

/// Faults to plant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bug {
    /// Groups are not kept.
    NothingIsKept,
    /// Every key is in a group of its own.
    OwnGroups,
}

/// What outlives a restart.
#[derive(Default)]
struct Disk {
    rows: BTreeMap<u32, Record<u32, Place<()>>>,
    groups: BTreeMap<u32, GroupRecord>,
    pace: Option<Pace>,
}

/// A call under way: of which group, and when it ends.
struct Call {
    id: u64,
    group: u32,
    until_ms: u64,
}

struct World {
    dice: Dice,
    bug: Option<Bug>,
    concurrency: u32,
    pace: GroupSettings,
    work: Work,
    disk: Disk,
    now_ms: u64,
    /// When the process began, whose clock counts from there.
    began_ms: u64,
    calls: Vec<Call>,
    /// The world's record, by group.
    last_start: BTreeMap<u32, u64>,
    last_end: BTreeMap<u32, u64>,
    quiet_until: BTreeMap<u32, u64>,
    /// Starts of others since each has been ready.
    overtaken: BTreeMap<u32, BTreeMap<u32, u32>>,
    added: u32,
    ended: u32,
    tally: BTreeMap<&'static str, u64>,
}

impl World {
    fn new(seed: u64, bug: Option<Bug>) -> World {
        let mut dice = Dice::new(seed);
        let (concurrency, at_once) = (dice.pick(1..=12) as u32, dice.pick(1..=3) as u32);
        let pace = pace(at_once, dice.pick(0..=3) * 50);
        World {
            work: Work::restore(setup(concurrency, Some(pace)), clock(0), [], None, []).unwrap(),
            dice,
            bug,
            concurrency,
            pace,
            disk: Disk::default(),
            now_ms: 0,
            began_ms: 0,
            calls: Vec::new(),
            last_start: BTreeMap::new(),
            last_end: BTreeMap::new(),
            quiet_until: BTreeMap::new(),
            overtaken: BTreeMap::new(),
            added: 0,
            ended: 0,
            tally: BTreeMap::new(),
        }
    }

    fn clock(&self) -> Clock {
        Clock { now: at(self.now_ms - self.began_ms), wall: at(1_000_000 + self.now_ms) }
    }

    fn count(&mut self, what: &'static str) {
        *self.tally.entry(what).or_default() += 1;
    }

    /// The group of a key. The first has by far the most.
    fn group_of(key: u32) -> u32 {
        if key.is_multiple_of(3) { 1 } else { 1 + key % 20 }
    }

    fn add(&mut self) {
        for _ in 0..self.dice.pick(1..=5) {
            self.added += 1;
            let key = self.added;
            let group = if self.bug == Some(Bug::OwnGroups) { key } else { Self::group_of(key) };
            let kind = if self.dice.chance(0.2) { Kind::Priority } else { Kind::New };
            add(&mut self.work, kind, &[(key, group)]);
        }
    }

    fn write(&mut self) {
        let (clock, disk) = (self.clock(), &mut self.disk);
        self.work.drain_changes(|change| match change {
            Change::Put(record) => drop(disk.rows.insert(*record.key, record.cloned())),
            Change::Remove(key) => drop(disk.rows.remove(key)),
        });
        let forgets = self.bug == Some(Bug::NothingIsKept);
        self.work.drain_group_changes(clock, |group, record| match record.filter(|_| !forgets) {
            Some(record) => drop(disk.groups.insert(group, record)),
            None => drop(disk.groups.remove(&group)),
        });
        disk.pace = Some(self.work.pace().clone());
    }

    fn step(&mut self) {
        self.end_calls();
        let mut started = Vec::new();
        let clock = self.clock();
        loop {
            self.note_ready();
            match self.work.poll(clock) {
                Step::Start(start) => {
                    self.judge_turn(Self::group_of(start.key));
                    started.push((start.key, start.call));
                }
                Step::Lost { .. } => panic!("nothing is lost here"),
                Step::Wait(until) => {
                    assert!(until.is_none_or(|until| until > clock.now), "asked to come back at once");
                    break;
                }
            }
        }
        self.write();
        for (key, call) in started {
            self.start(Self::group_of(key), call);
        }
        self.now_ms += self.dice.pick(1..=10);
    }

    fn note_ready(&mut self) {
        let now = self.clock().now;
        let ready: Vec<u32> = self
            .work
            .groups()
            .filter(|group| group.next_call_at.is_some_and(|at| at < now))
            .map(|group| group.group)
            .collect();
        self.overtaken.retain(|group, _| ready.contains(group));
        for group in ready {
            self.overtaken.entry(group).or_default();
        }
    }

    fn judge_turn(&mut self, group: u32) {
        self.overtaken.remove(&group);
        for (other, overtaken) in &mut self.overtaken {
            let times = overtaken.entry(group).or_default();
            *times += 1;
            let most = 1 + self.pace.concurrency;
            assert!(*times <= most, "group {other} waits while group {group} starts {times} times");
        }
    }

    fn start(&mut self, group: u32, call: u64) {
        self.count("starts");
        let (interval, now_ms) = (self.pace.interval.as_millis() as u64, self.now_ms);
        let gap = self.last_end.get(&group).map(|end| now_ms - end);
        assert!(gap.is_none_or(|gap| gap >= interval), "pace exceeded: {gap:?} ms after the last end");
        let gap = self.last_start.get(&group).map(|start| now_ms - start);
        assert!(gap.is_none_or(|gap| gap >= interval), "pace exceeded: {gap:?} ms after the last start");
        let quiet = self.quiet_until.get(&group).copied().unwrap_or(0);
        assert!(quiet <= now_ms, "a call at {now_ms} although the API asked for quiet until {quiet}");
        let open = self.calls.iter().filter(|call| call.group == group).count() as u32;
        assert!(open < self.pace.concurrency, "{} calls of a group at once", open + 1);
        assert!(self.calls.len() < self.concurrency as usize, "{} calls at once", self.calls.len() + 1);
        self.last_start.insert(group, now_ms);
        let until_ms = now_ms + self.dice.pick(1..=40);
        self.calls.push(Call { id: call, group, until_ms });
    }

    fn end_calls(&mut self) {
        let now_ms = self.now_ms;
        let (over, open) =
            std::mem::take(&mut self.calls).into_iter().partition(|call| call.until_ms <= now_ms);
        self.calls = open;
        let over: Vec<Call> = over;
        for call in over {
            self.last_end.insert(call.group, now_ms);
            let answer = match self.dice.pick(0..=19) {
                0 => {
                    self.count("pauses");
                    let quiet_ms = self.dice.pick(100..=5_000);
                    self.quiet_until.insert(call.group, now_ms + quiet_ms);
                    Answer::Throttled { retry_after: Some(Duration::from_millis(quiet_ms)) }
                }
                1 => {
                    self.count("failures");
                    Answer::Broken { reason: "away".to_owned(), retry: true, away: true }
                }
                _ => {
                    self.ended += 1;
                    Answer::Done(())
                }
            };
            self.work.settle(self.clock(), call.id, answer).expect("it was under way");
        }
    }

    /// The process ends in the middle, and another begins from what was written.
    fn restart(&mut self) {
        self.count("restarts");
        for call in self.calls.drain(..) {
            self.last_end.insert(call.group, self.now_ms);
        }
        self.now_ms += self.dice.pick(1..=2_000);
        self.began_ms = self.now_ms - self.dice.pick(0..=100).min(self.now_ms);
        self.overtaken.clear();
        let Disk { rows, groups, pace } = &self.disk;
        let (setup, rows) = (setup(self.concurrency, Some(self.pace)), rows.values().cloned());
        self.work = Work::restore(setup, self.clock(), rows, pace.clone(), groups.values().copied()).unwrap();
        // What was not written has not happened.
        let left: Vec<u32> = self.work.queue().records().map(|record| *record.key).collect();
        self.added = left.into_iter().max().unwrap_or(0);
        self.ended = self.work.queue().counts().done as u32;
    }

    fn run(mut self) -> BTreeMap<&'static str, u64> {
        while self.now_ms < 30_000 {
            if self.dice.chance(0.1) {
                self.add();
            }
            if self.dice.chance(0.003) {
                self.restart();
            }
            self.step();
        }
        let patience = self.now_ms + 8_000_000;
        while self.ended != self.added {
            assert!(self.now_ms < patience, "keys are left: {} of {} ended", self.ended, self.added);
            self.step();
        }
        self.tally
    }
}

#[test]
fn qu_32_no_group_in_memory_exceeds_its_pace_none_is_starved_and_restarts_change_nothing() {
    let name = "qu_32_no_group_in_memory_exceeds_its_pace_none_is_starved_and_restarts_change_nothing";
    let mut total = BTreeMap::<&str, u64>::new();
    for tally in check(name, SEEDS, |seed| World::new(seed, None).run()) {
        tally.into_iter().for_each(|(what, count)| *total.entry(what).or_default() += count);
    }
    println!("{total:?}");
    for (what, least) in [("starts", 10_000), ("pauses", 500), ("failures", 500), ("restarts", 300)] {
        assert!(total.get(what).is_some_and(|count| *count >= least), "only {:?} {what}", total.get(what));
    }
}

fn found(bug: Bug) -> String {
    let failure = find_failure(30, |seed| World::new(seed, Some(bug)).run());
    failure.unwrap_or_else(|| panic!("{bug:?} was not found")).1
}

#[test]
fn qu_32_a_restart_that_forgets_the_pace_of_groups_is_found() {
    let told = found(Bug::NothingIsKept);
    assert!(told.contains("pace exceeded") || told.contains("asked for quiet"), "{told}");
}

#[test]
fn qu_32_keys_that_are_in_the_wrong_group_are_found() {
    let told = found(Bug::OwnGroups);
    assert!(
        told.contains("asked for quiet") || told.contains("at once") || told.contains("exceeded"),
        "{told}"
    );
}
