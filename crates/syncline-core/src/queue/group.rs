//! Groups within a queue: each with a pace of its own, and all of them in turn.
//!
//! A [`Group`] is a few numbers, as a [`Line`] is: how many of its keys wait and run, from when on its pace allows a start, and where
//! it stands among the others. Groups that may start are ordered by [`ready_at`](Group::ready_at), then by
//! [`turn`](Group::turn); one that has started goes behind all that are ready by then.
//!
//! Guarantees: no more calls of a group at once than its concurrency, none sooner after the last end (and where several run at once,
//! the last start) than its interval; a group that is ready waits for at most one start of each other group. An API that asks for
//! quiet, or keeps failing, holds its group and no other.
//!
//! Times are milliseconds of one clock, because one index over all groups must tell which is next: the store's, or in a process of its own
//! the monotonic one ([`Paced`](super::Paced)). A store's clock that was set is noticed by whoever keeps the groups
//! ([`Pacer::clock_was_set`](super::Pacer::clock_was_set)), and each group waits one interval anew.

use std::time::Duration;

use super::answer::{Health, Signal};
use super::line::{Line, Row};
use super::order::Limits;
use super::settings::{CONCURRENCY_MAX, InvalidSettings, PAUSE_MAX, SPAN_MAX, START_SLACK_SHARE, Settings};

/// The pace of each group of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupSettings {
    /// Calls of one group in flight at once.
    pub concurrency: u32,
    /// Least time from the end of a group's last call to its next start, and where several run at once, between starts.
    pub interval: Duration,
}

impl GroupSettings {
    /// Groups that only take turns.
    pub const UNPACED: GroupSettings =
        GroupSettings { concurrency: CONCURRENCY_MAX, interval: Duration::ZERO };

    /// Whether groups can run like this.
    pub fn check(&self) -> Result<(), InvalidSettings> {
        if !(1..=CONCURRENCY_MAX).contains(&self.concurrency) {
            return Err(InvalidSettings::Concurrency { concurrency: self.concurrency });
        }
        if self.interval > SPAN_MAX {
            return Err(InvalidSettings::TooLong { name: "interval of groups", span: self.interval });
        }
        Ok(())
    }

    /// How long after it was allowed to a call of a group may begin. `None`: nobody else of the group starts meanwhile, or any time is
    /// right.
    #[must_use]
    pub fn start_slack(&self) -> Option<Duration> {
        (self.concurrency > 1 && !self.interval.is_zero()).then_some(self.interval / START_SLACK_SHARE)
    }
}

/// What the keys of one group share.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Group {
    /// Its number, by which keys in line name it. No two groups of whatever queue share one.
    pub id: i64,
    /// Keys that wait.
    pub waiting: i64,
    /// Calls in flight, also those of keys that are gone.
    pub running: i64,
    /// No key of it that waits has a lower rank.
    pub front: i64,
    /// No key of it that waits has a lower age.
    pub oldest: i64,
    /// Starts in a row that overtook an older key.
    pub overtakes: i64,
    /// No call starts before.
    pub next_at: i64,
    /// Calls in a row that were not answered.
    pub failures: i64,
    /// When it may start; `None` while something else than time keeps it from that. One that is empty has the time here after which it
    /// can be forgotten.
    pub ready_at: Option<i64>,
    /// Its order among those that are ready at the same time.
    pub turn: i64,
    /// Whether somebody holds it: nothing of it starts.
    pub held: bool,
}

impl Group {
    /// A group that nothing was put into yet.
    #[must_use]
    pub fn new(id: i64) -> Self {
        Self { id, front: i64::MAX, oldest: i64::MAX, ..Self::default() }
    }

    /// Whether there is nothing to know of it any more.
    #[must_use]
    pub fn is_over(&self, now_ms: i64) -> bool {
        self.is_empty() && !self.held && self.rests_until() <= now_ms
    }

    fn is_empty(&self) -> bool {
        self.waiting <= 0 && self.running <= 0
    }

    /// Until when what it has been through still counts for keys that come back.
    fn rests_until(&self) -> i64 {
        if self.failures > 0 { after(self.next_at, PAUSE_MAX) } else { self.next_at }
    }

    /// Takes over what happened to its keys in line.
    pub fn note(&mut self, change: &GroupChange) {
        if self.waiting <= 0 {
            self.ready_at = None;
        }
        self.waiting = (self.waiting + change.waiting).max(0);
        self.front = self.front.min(change.front);
        self.oldest = self.oldest.min(change.oldest);
    }

    /// Says when it may start, now that something of it has changed. `turn` is behind all others, and taken by one that was not ready.
    pub fn line_up(&mut self, pace: &GroupSettings, breaker_threshold: u32, now_ms: i64, turn: i64) {
        if self.is_empty() && !self.held {
            (self.ready_at, self.turn) = (Some(self.rests_until()), turn);
            return;
        }
        let most = if self.is_out(breaker_threshold) { 1 } else { i64::from(pace.concurrency) };
        if self.held || self.waiting <= 0 || self.running >= most {
            self.ready_at = None;
            return;
        }
        let ready_at = self.ready_at.map_or(self.next_at.max(now_ms), |at| at.max(self.next_at));
        if self.ready_at != Some(ready_at) {
            self.turn = turn;
        }
        self.ready_at = Some(ready_at);
    }

    /// A call of it starts, allowed at `now_ms`.
    pub fn start(&mut self, pace: &GroupSettings, now_ms: i64) {
        self.running += 1;
        if let Some(slack) = pace.start_slack() {
            self.next_at = self.next_at.max(after(now_ms, pace.interval + slack));
        }
        // Behind all that are ready by now.
        self.ready_at = None;
    }

    /// A call of it that was allowed to start began only now: the next one counts from here.
    pub fn begin_late(&mut self, pace: &GroupSettings, now_ms: i64) {
        if pace.concurrency > 1 {
            self.next_at = self.next_at.max(after(now_ms, pace.interval));
        }
    }

    /// A call of it ended. Tells how its API is, as far as that matters for the call's key.
    ///
    /// `random` is a fresh number from 0 to 1.
    pub fn end(
        &mut self,
        settings: &Settings,
        pace: &GroupSettings,
        now_ms: i64,
        signal: Signal,
        random: f64,
    ) -> Health {
        self.running = (self.running - 1).max(0);
        let (was_out, rests) = (self.is_out(settings.breaker_threshold), now_ms < self.next_at);
        self.next_at = self.next_at.max(after(now_ms, pace.interval));
        let asked = match signal {
            Signal::NotMade => return Health { out: was_out, failures: self.shown_failures() },
            Signal::Answered => {
                // What began before it was given up does not tell that it is back.
                if !(was_out && rests) {
                    self.failures = 0;
                }
                return Health { out: was_out, failures: 0 };
            }
            Signal::Throttled { retry_after } => retry_after.unwrap_or_default().min(PAUSE_MAX),
            Signal::Broken => Duration::ZERO,
        };
        if !(was_out && rests) {
            self.failures += 1;
        }
        let mut rest = asked;
        if self.is_out(settings.breaker_threshold) && !(was_out && rests) {
            let trips = self.failures - i64::from(settings.breaker_threshold) + 1;
            rest = rest.max(settings.breaker_pause(u32::try_from(trips).unwrap_or(u32::MAX), random));
        }
        self.next_at = self.next_at.max(after(now_ms, rest));
        Health { out: self.is_out(settings.breaker_threshold), failures: self.shown_failures() }
    }

    /// A call of it was not heard of for a whole lease. Nothing is known of its API.
    pub fn lose(&mut self, pace: &GroupSettings, now_ms: i64) {
        self.running = (self.running - 1).max(0);
        self.next_at = self.next_at.max(after(now_ms, pace.interval));
    }

    /// Lets it start again, whoever kept it from that. An API that kept failing is probed first. Nobody knows how long ago the last call
    /// was, so what is left of a pause is an interval at most.
    pub fn resume(&mut self, pace: &GroupSettings, now_ms: i64) {
        self.held = false;
        self.next_at = self.next_at.min(after(now_ms, pace.interval));
        self.ready_at = None;
    }

    /// The next of its keys that run: of the first in line by rank, and where [`needs_ages`](super::line::needs_ages) says so, as many
    /// by age.
    pub fn next(
        &mut self,
        line: &mut Line,
        limits: &Limits,
        by_rank: Vec<Row>,
        by_age: Vec<Row>,
    ) -> Vec<Row> {
        let mut own = Line {
            tail: line.tail,
            front: self.front,
            oldest: self.oldest,
            overtakes: self.overtakes,
            waiting: self.waiting,
            ..Line::default()
        };
        let rows = own.next(limits, by_rank, by_age);
        (self.front, self.oldest, self.overtakes) = (own.front, own.oldest, own.overtakes);
        self.waiting = own.waiting.max(0);
        line.begin_grouped(rows.len());
        rows
    }

    /// Whether its API kept failing: one call at a time finds out whether it is back.
    #[must_use]
    pub fn is_out(&self, breaker_threshold: u32) -> bool {
        self.failures >= i64::from(breaker_threshold)
    }

    fn shown_failures(&self) -> u32 {
        u32::try_from(self.failures).unwrap_or(u32::MAX)
    }
}

/// What happened to the keys of a group in line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupChange {
    /// More that wait, or fewer.
    pub waiting: i64,
    /// The lowest rank of those that came.
    pub front: i64,
    /// The lowest age of those that came.
    pub oldest: i64,
}

impl Default for GroupChange {
    fn default() -> Self {
        Self { waiting: 0, front: i64::MAX, oldest: i64::MAX }
    }
}

/// Which of `groups`, the first that are ready, start, one entry for each start: everyone once, then everyone that may start more than
/// one at a time once more, until there have been `most`.
#[must_use]
pub fn take_turns(groups: &[Group], pace: &GroupSettings, breaker_threshold: u32, most: usize) -> Vec<usize> {
    let mut room: Vec<i64> = groups.iter().map(|group| room(group, pace, breaker_threshold)).collect();
    let mut turns = Vec::with_capacity(most);
    while turns.len() < most {
        let before = turns.len();
        for (index, left) in room.iter_mut().enumerate() {
            if *left > 0 && turns.len() < most {
                *left -= 1;
                turns.push(index);
            }
        }
        if turns.len() == before {
            break;
        }
    }
    turns
}

/// How many of a group may start at once.
fn room(group: &Group, pace: &GroupSettings, breaker_threshold: u32) -> i64 {
    let most = match pace.interval.is_zero() && !group.is_out(breaker_threshold) {
        true => i64::from(pace.concurrency) - group.running,
        false => 1,
    };
    most.min(group.waiting)
}

/// `span` after something that happened within the millisecond `now_ms`, and so may have happened at its end.
fn after(now_ms: i64, span: Duration) -> i64 {
    if span.is_zero() {
        return now_ms;
    }
    now_ms.saturating_add(1).saturating_add(i64::try_from(span.as_millis()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACE: GroupSettings = GroupSettings { concurrency: 1, interval: Duration::from_millis(100) };

    fn settings() -> Settings {
        Settings::new(100, Duration::ZERO, Duration::from_secs(1))
    }

    fn ready(waiting: i64) -> Group {
        let mut group = Group { waiting, ..Group::new(1) };
        group.line_up(&PACE, 5, 1_000, 7);
        group
    }

    #[test]
    fn qu_32_a_group_starts_an_interval_after_its_last_end_and_one_at_a_time() {
        let mut group = ready(3);
        assert_eq!((group.ready_at, group.turn), (Some(1_000), 7));
        group.start(&PACE, 1_000);
        group.line_up(&PACE, 5, 1_000, 8);
        assert_eq!(group.ready_at, None, "one at a time");
        group.end(&settings(), &PACE, 1_050, Signal::Answered, 0.5);
        group.line_up(&PACE, 5, 1_050, 9);
        assert_eq!((group.ready_at, group.turn), (Some(1_151), 9));
        group.note(&GroupChange { waiting: -3, ..GroupChange::default() });
        group.line_up(&PACE, 5, 1_060, 10);
        assert_eq!((group.ready_at, group.is_over(1_100), group.is_over(1_151)), (Some(1_151), false, true));
        group.note(&GroupChange { waiting: 1, front: 5, oldest: 6 });
        group.line_up(&PACE, 5, 2_000, 11);
        assert_eq!(
            (group.ready_at, group.front, group.oldest),
            (Some(2_000), 5, 6),
            "behind those that are ready"
        );
    }

    #[test]
    fn qu_32_starts_of_a_group_side_by_side_are_an_interval_and_what_a_late_start_may_take_apart() {
        let pace = GroupSettings { concurrency: 3, ..PACE };
        let mut group = ready(3);
        assert_eq!(take_turns(std::slice::from_ref(&group), &pace, 5, 9), [0], "one at each interval");
        group.start(&pace, 1_000);
        group.line_up(&pace, 5, 1_000, 8);
        assert_eq!(group.ready_at, Some(1_126));
    }

    #[test]
    fn qu_32_groups_take_turns_and_a_long_one_fills_what_the_others_leave() {
        let pace = GroupSettings { concurrency: 4, interval: Duration::ZERO };
        let groups = [ready(1_000_000), ready(1), Group { running: 3, ..ready(9) }];
        assert_eq!(take_turns(&groups, &pace, 5, 2), [0, 1]);
        assert_eq!(take_turns(&groups, &pace, 5, 4), [0, 1, 2, 0]);
        assert_eq!(take_turns(&groups, &pace, 5, 100), [0, 1, 2, 0, 0, 0]);
        let out = Group { failures: 5, ..ready(9) };
        assert_eq!(take_turns(&[out], &pace, 5, 100), [0], "a probe is alone");
    }

    #[test]
    fn qu_34_an_api_that_is_away_holds_its_group_and_is_probed_by_one_call_at_a_time() {
        let pace = GroupSettings { concurrency: 8, interval: Duration::ZERO };
        let (mut group, settings) = (ready(100), settings());
        for _ in 0..8 {
            group.start(&pace, 1_000);
        }
        let health: Vec<_> =
            (0..8).map(|_| group.end(&settings, &pace, 1_010, Signal::Broken, 0.0)).collect();
        assert!(health[4..].iter().all(|health| health.out), "{health:?}");
        assert_eq!((group.failures, group.next_at), (5, 6_011), "the rest began before and make it no worse");
        group.line_up(&pace, 5, 1_010, 1);
        assert_eq!(group.ready_at, Some(6_011));
        group.start(&pace, 6_011);
        group.line_up(&pace, 5, 6_011, 2);
        assert_eq!(group.ready_at, None, "the probe is alone");
        assert!(group.end(&settings, &pace, 6_020, Signal::Broken, 0.0).out);
        assert_eq!(group.next_at, 16_021, "twice as long");
        group.start(&pace, 16_021);
        group.end(&settings, &pace, 16_030, Signal::Answered, 0.0);
        assert_eq!((group.failures, group.next_at), (0, 16_030));
    }

    #[test]
    fn qu_26_a_named_pause_holds_the_group_until_then_and_no_longer_than_an_hour() {
        for (asked, until) in [(2, 3_001), (100_000, 3_601_001)] {
            let mut group = ready(5);
            group.start(&PACE, 1_000);
            let signal = Signal::Throttled { retry_after: Some(Duration::from_secs(asked)) };
            group.end(&settings(), &PACE, 1_000, signal, 0.0);
            group.line_up(&PACE, 5, 1_000, 1);
            assert_eq!(group.ready_at, Some(until));
            group.resume(&PACE, 1_000);
            group.line_up(&PACE, 5, 1_000, 2);
            assert_eq!(group.ready_at, Some(1_101));
        }
    }
}
