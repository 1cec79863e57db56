//! The groups of a queue that one process keeps in memory: the pace of each, and whose turn it is.
//!
//! The rules are [`Group`]'s, which a store follows too; here they go by the process's monotonic clock. Groups that may start are ordered
//! by since when they may, as an index of a database orders them, so a thousand groups cost what ten cost. A group that has nothing to do
//! is forgotten as soon as nothing it has been through counts any more.

use std::collections::BTreeMap;
use std::time::Duration;

use super::answer::{Health, Signal};
use super::group::{Group, GroupSettings};
use super::order::Due;
use super::pacer::Clock;
use super::settings::Settings;
use crate::time::Timestamp;

/// What is kept of a group beside its keys. One that is well and may start has nothing to keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupRecord {
    /// Its number.
    pub group: u32,
    /// No call starts before, by the time of day.
    pub next_at: Timestamp,
    /// How long that was when it was written: no reading of a clock can make it longer.
    pub rest: Duration,
    /// Calls in a row that were not answered.
    pub failures: u32,
    /// Whether somebody holds it.
    pub held: bool,
}

/// A group for people to look at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupStatus {
    /// Its number.
    pub group: u32,
    /// Keys that wait.
    pub waiting: usize,
    /// Calls in flight.
    pub running: usize,
    /// Whether somebody holds it.
    pub held: bool,
    /// Calls in a row that were not answered.
    pub failures: u32,
    /// When its pace lets it start; `None` while something else than time keeps it from that.
    pub next_call_at: Option<Timestamp>,
}

#[derive(Debug)]
pub(super) struct Turns {
    pace: GroupSettings,
    /// By number: they are small.
    groups: Vec<Option<Group>>,
    /// Those with keys that wait for their turn, or for a time.
    ready: BTreeMap<Due, u32>,
    /// Those with nothing to do, and until when what they have been through counts.
    resting: BTreeMap<Due, u32>,
    turn: i64,
    /// Those whose record is not what it was when last drained, some of them twice.
    changed: Vec<u32>,
    /// By number, whether there is a record of it.
    kept: Vec<bool>,
    /// Those that were forgotten.
    over: Vec<u32>,
    /// Whether somebody drains what has changed, and what was forgotten.
    tells_changes: bool,
    tells_removals: bool,
}

impl Turns {
    pub(super) fn new(pace: GroupSettings) -> Self {
        Self {
            pace,
            groups: Vec::new(),
            ready: BTreeMap::new(),
            resting: BTreeMap::new(),
            turn: 0,
            changed: Vec::new(),
            kept: Vec::new(),
            over: Vec::new(),
            tells_changes: false,
            tells_removals: false,
        }
    }

    /// From now on keeps track of what changes, which somebody has to drain.
    pub(super) fn keep_changes(&mut self) {
        (self.tells_changes, self.tells_removals) = (true, true);
    }

    /// The same for what is forgotten alone.
    pub(super) fn keep_removals(&mut self) {
        self.tells_removals = true;
    }

    pub(super) fn knows(&self, group: u32) -> bool {
        self.groups.get(group as usize).is_some_and(Option::is_some)
    }

    /// Takes over a group as it was kept.
    pub(super) fn restore(&mut self, settings: &Settings, clock: Clock, kept: GroupRecord) {
        self.mark_kept(kept.group, true);
        let left = kept.next_at.saturating_since(clock.wall).min(kept.rest);
        self.change(settings, clock.now, kept.group, |group, _, now_ms| {
            group.next_at = group.next_at.max(now_ms.saturating_add(whole_ms(left)));
            (group.failures, group.held) = (kept.failures.into(), kept.held);
        });
    }

    /// So many keys of a group wait now.
    pub(super) fn note(&mut self, settings: &Settings, now: Timestamp, group: u32, waiting: usize) {
        if waiting == 0 && !self.knows(group) {
            return;
        }
        self.change(settings, now, group, |group, _, _| {
            let waited = group.waiting > 0;
            group.waiting = i64::try_from(waiting).unwrap_or(i64::MAX);
            // It lines up behind those that are ready.
            if !waited {
                group.ready_at = None;
            }
        });
    }

    /// The group whose turn it is at `now`; else when the next may start, if that depends on time alone.
    pub(super) fn next(&mut self, now: Timestamp) -> Result<u32, Option<Timestamp>> {
        while let Some((&due, &group)) = self.resting.first_key_value().filter(|(due, _)| due.at <= now) {
            self.resting.remove(&due);
            self.groups[group as usize] = None;
            self.note_change(group);
            self.forget(group);
        }
        match self.ready.first_key_value() {
            Some((due, &group)) if due.at <= now => Ok(group),
            _ => Err(self.next_at()),
        }
    }

    /// When the next group may start, if that depends on time alone.
    pub(super) fn next_at(&self) -> Option<Timestamp> {
        self.ready.first_key_value().map(|(due, _)| due.at)
    }

    /// A call of it starts.
    pub(super) fn start(&mut self, settings: &Settings, now: Timestamp, group: u32) {
        self.change(settings, now, group, |group, pace, now_ms| {
            group.waiting -= 1;
            group.start(pace, now_ms);
        });
    }

    /// A call of it began only now, later than it was allowed to.
    pub(super) fn begin_late(&mut self, settings: &Settings, now: Timestamp, group: u32) {
        if self.pace.start_slack().is_some() && self.knows(group) {
            self.change(settings, now, group, Group::begin_late);
        }
    }

    /// A call of it ended; see [`Group::end`].
    pub(super) fn end(
        &mut self,
        settings: &Settings,
        now: Timestamp,
        group: u32,
        signal: Signal,
        random: f64,
    ) -> Health {
        let end = |group: &mut Group, pace: &GroupSettings, now_ms| {
            group.end(settings, pace, now_ms, signal, random)
        };
        self.change(settings, now, group, end)
    }

    /// A call of it was lost.
    pub(super) fn lose(&mut self, settings: &Settings, now: Timestamp, group: u32) {
        self.change(settings, now, group, Group::lose);
    }

    /// Starts nothing of it any more, or starts again.
    pub(super) fn hold(&mut self, settings: &Settings, now: Timestamp, group: u32, held: bool) {
        self.change(settings, now, group, |group, pace, now_ms| {
            if held {
                group.held = true;
            } else {
                group.resume(pace, now_ms);
            }
        });
    }

    /// What has changed of groups since the last time; without a record where there is nothing to keep.
    pub(super) fn drain_changes(&mut self, clock: Clock, mut visit: impl FnMut(u32, Option<GroupRecord>)) {
        let now_ms = ms(clock.now);
        for number in std::mem::take(&mut self.changed) {
            let record = self.groups.get(number as usize).and_then(Option::as_ref).and_then(|group| {
                let rest_ms = u64::try_from(group.next_at - now_ms).unwrap_or(0);
                let (rest, failures) = (Duration::from_millis(rest_ms), shown(group.failures));
                (rest_ms > 0 || failures > 0 || group.held).then_some(GroupRecord {
                    group: number,
                    next_at: clock.wall + rest,
                    rest,
                    failures,
                    held: group.held,
                })
            });
            if self.mark_kept(number, record.is_some()) || record.is_some() {
                visit(number, record);
            }
        }
    }

    /// Whether there was a record of it before.
    fn mark_kept(&mut self, group: u32, is_kept: bool) -> bool {
        if self.kept.len() <= group as usize {
            self.kept.resize(group as usize + 1, false);
        }
        std::mem::replace(&mut self.kept[group as usize], is_kept)
    }

    /// Nothing is known of it any more.
    pub(super) fn forget(&mut self, group: u32) {
        if self.tells_removals {
            self.over.push(group);
        }
    }

    fn note_change(&mut self, group: u32) {
        if self.tells_changes {
            self.changed.push(group);
        }
    }

    /// Those that were forgotten since the last time and are not `known` otherwise.
    pub(super) fn take_forgotten(&mut self, known: impl Fn(u32) -> bool) -> Vec<u32> {
        let mut over = std::mem::take(&mut self.over);
        over.retain(|group| !self.knows(*group) && !known(*group));
        over
    }

    /// All that have something to do, or a reason to wait.
    pub(super) fn status(&self) -> impl Iterator<Item = GroupStatus> {
        self.groups.iter().flatten().map(|group| GroupStatus {
            group: u32::try_from(group.id).unwrap_or(0),
            waiting: usize::try_from(group.waiting).unwrap_or(0),
            running: usize::try_from(group.running).unwrap_or(0),
            held: group.held,
            failures: shown(group.failures),
            next_call_at: group.ready_at.filter(|_| group.waiting > 0).map(at_ms),
        })
    }

    /// Changes a group, and lines it up anew.
    fn change<T>(
        &mut self,
        settings: &Settings,
        now: Timestamp,
        number: u32,
        change: impl FnOnce(&mut Group, &GroupSettings, i64) -> T,
    ) -> T {
        let mut group = self.take_out(number);
        let kept = (group.next_at, group.failures, group.held);
        let told = change(&mut group, &self.pace, ms(now));
        if (group.next_at, group.failures, group.held) != kept {
            self.note_change(number);
        }
        self.put_back(settings.breaker_threshold, now, number, group);
        told
    }

    // In pages the size of the module counts, and these would be there as often as there are changes.
    #[inline(never)]
    fn take_out(&mut self, number: u32) -> Group {
        if self.groups.len() <= number as usize {
            self.groups.resize(number as usize + 1, None);
        }
        let group = self.groups[number as usize].take().unwrap_or_else(|| Group::new(number.into()));
        if let Some(at) = group.ready_at {
            let due = Due { at: at_ms(at), rank: group.turn };
            let line = if group.waiting > 0 { &mut self.ready } else { &mut self.resting };
            line.remove(&due);
        }
        group
    }

    #[inline(never)]
    fn put_back(&mut self, breaker_threshold: u32, now: Timestamp, number: u32, mut group: Group) {
        self.turn += 1;
        group.line_up(&self.pace, breaker_threshold, ms(now), self.turn);
        if let Some(at) = group.ready_at {
            let line = if group.waiting > 0 { &mut self.ready } else { &mut self.resting };
            line.insert(Due { at: at_ms(at), rank: group.turn }, number);
        }
        self.groups[number as usize] = Some(group);
    }
}

fn ms(at: Timestamp) -> i64 {
    i64::try_from(at.as_ms()).unwrap_or(i64::MAX)
}

fn at_ms(ms: i64) -> Timestamp {
    Timestamp::from_ms(u64::try_from(ms).unwrap_or(0))
}

fn whole_ms(span: Duration) -> i64 {
    i64::try_from(span.as_millis()).unwrap_or(i64::MAX)
}

fn shown(failures: i64) -> u32 {
    u32::try_from(failures).unwrap_or(u32::MAX)
}
