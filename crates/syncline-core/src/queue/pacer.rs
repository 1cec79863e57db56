//! When the next call may start.
//!
//! A pacer looks at a [`Pace`] with the eyes of one process: it remembers on its own monotonic clock when it saw each
//! thing change, and measures interval, lease and pause from there. In a process of its own it keeps the pace
//! itself (`start`, `end`, ...). Where several share one, each change is made on a copy of the pacer while nobody else may change
//! the shared pace, and the copy is kept once that is committed:
//!
//! ```text
//! transaction { read; copy.adopt(read); copy.lose ...; copy.start ...; write copy.pace() } committed? keep the copy : drop it
//! ```
//!
//! Unreadable state counts as a call that ended this moment: one interval passes before the next.

use std::time::Duration;

use super::pace::VERSION_MAX;
use super::random::Random;
use super::settings::{PAUSE_MAX, SPAN_MAX};
use super::{Breaker, Call, Health, Pace, Pause, PauseReason, Settings, Signal};
use crate::time::Timestamp;

/// The time of day may drift against the monotonic clock by this much between two looks before it is taken to have
/// been set.
const CLOCK_STEP: Duration = Duration::from_secs(1);

/// What the clocks say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clock {
    /// The monotonic clock of this process, which decides everything but how much of an old pause is left.
    pub now: Timestamp,
    /// The time of day; where a pace is shared through a database, the database's.
    pub wall: Timestamp,
}

/// A call may start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Permit {
    /// Its id.
    pub call: u64,
    /// It must have begun by then, or it would come too close to the next: a caller that is later must not make it and
    /// ends it with [`Signal::NotMade`].
    pub start_by: Timestamp,
    /// It must have ended or been renewed by then.
    pub deadline: Timestamp,
}

/// No call may start yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wait {
    /// When to ask again at the latest; something that ends may make it sooner.
    pub until: Timestamp,
    /// What for.
    pub why: Why,
}

/// What a call has to wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// The interval since the last start or end.
    Interval,
    /// A free slot.
    Busy,
    /// The probe of an API that kept failing.
    Probing,
    /// The end of a pause.
    Paused(PauseReason),
}

/// One process's view of a pace.
#[derive(Debug, Clone)]
pub struct Pacer {
    settings: Settings,
    pace: Pace,
    /// When each of the calls in flight was first seen, or seen renewed; in step with `pace.calls`.
    seen_at: Vec<Timestamp>,
    /// None of them counts as lost before this, so that a look at each is taken only when one may be.
    loss_from: Timestamp,
    /// When the last start was seen; `None` while nobody has called yet.
    started_at: Option<Timestamp>,
    /// When the last end was seen.
    ended_at: Option<Timestamp>,
    /// The pace's pause on this process's clock.
    hold: Option<Hold>,
    /// Time of day less monotonic time at the last look.
    clocks_apart_ms: Option<i128>,
    /// Whether the last look found that the time of day had been set.
    clock_was_set: bool,
}

#[derive(Debug, Clone, Copy)]
struct Hold {
    id: u64,
    until: Timestamp,
    reason: PauseReason,
}

impl Pacer {
    /// A pacer of an API that nobody has called yet.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            pace: Pace::default(),
            seen_at: Vec::new(),
            loss_from: Timestamp::ZERO,
            started_at: None,
            ended_at: None,
            hold: None,
            clocks_apart_ms: None,
            clock_was_set: false,
        }
    }

    /// The settings it goes by.
    #[must_use]
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Goes by other settings from now on; what was seen counts on.
    pub fn set_settings(&mut self, settings: Settings) {
        self.settings = settings;
        self.loss_from = Timestamp::ZERO;
    }

    /// Whether the last look at what is shared found that its clock had been set.
    #[must_use]
    pub const fn clock_was_set(&self) -> bool {
        self.clock_was_set
    }

    /// The pace as last adopted or changed: what to store.
    #[must_use]
    pub const fn pace(&self) -> &Pace {
        &self.pace
    }

    /// Takes over what was read, or proposed and stored. `None`, like anything nobody can have written, is
    /// unreadable: what was known of pauses stays, one interval passes, and [`pace`](Self::pace) should replace it.
    pub fn adopt(&mut self, clock: Clock, read: Option<Pace>) {
        let steady = self.clocks_are_steady(clock);
        let Some(pace) = read.filter(Pace::is_plausible) else { return self.begin_afresh(clock) };
        if pace.starts != self.pace.starts {
            self.started_at = Some(clock.now);
        }
        if pace.ends != self.pace.ends {
            self.ended_at = Some(clock.now);
        }
        let same =
            |call| self.pace.position(call).map(|index| (self.pace.calls[index].beat, self.seen_at[index]));
        self.seen_at = pace
            .calls
            .iter()
            .map(|call| match same(call.id) {
                Some((beat, seen_at)) if beat == call.beat => seen_at,
                _ => clock.now,
            })
            .collect();
        self.hold = match (pace.pause, self.hold) {
            (Some(pause), Some(hold)) if pause.id == hold.id => Some(hold),
            (Some(pause), _) => Some(hold_for(pause, clock, steady)),
            (None, _) => None,
        };
        self.pace = pace;
        self.loss_from = self.next_loss_at().unwrap_or(clock.now);
    }

    /// Whether a call may start at `now`.
    pub fn ready(&self, now: Timestamp) -> Result<(), Wait> {
        let spaced_at = self.spaced_at().unwrap_or(now);
        if let Some(hold) = self.hold_at(now) {
            return Err(Wait { until: hold.until.max(spaced_at), why: Why::Paused(hold.reason) });
        }
        let probing = matches!(self.pace.breaker, Breaker::HalfOpen { .. });
        let full = probing || self.pace.calls.len() >= self.settings.concurrency as usize;
        if full && let Some(until) = self.next_loss_at() {
            return Err(Wait { until, why: if probing { Why::Probing } else { Why::Busy } });
        }
        if now < spaced_at {
            return Err(Wait { until: spaced_at, why: Why::Interval });
        }
        Ok(())
    }

    /// The pause at `now`: until when, and why.
    #[must_use]
    pub fn paused(&self, now: Timestamp) -> Option<(Timestamp, PauseReason)> {
        self.hold_at(now).map(|hold| (hold.until, hold.reason))
    }

    /// When the next call in flight counts as lost, if nothing is heard of it.
    #[must_use]
    pub fn next_loss_at(&self) -> Option<Timestamp> {
        let calls = self.pace.calls.iter().zip(&self.seen_at);
        calls.map(|(call, &seen_at)| seen_at + self.lease(call)).min()
    }
}

/// A pace of one's own.
impl Pacer {
    /// Starts a call, if one may start.
    pub fn start(&mut self, now: Timestamp) -> Result<Permit, Wait> {
        self.start_for(now, None)
    }

    /// The same for a caller that wants to be given up after another time than the queue's.
    pub fn start_for(&mut self, now: Timestamp, lease: Option<Duration>) -> Result<Permit, Wait> {
        self.ready(now)?;
        let id = self.pace.start_for(lease.map(whole_ms));
        self.seen_at.push(now);
        self.started_at = Some(now);
        self.expect_loss(now, id);
        Ok(self.permit(id, now))
    }

    /// A call ended. One that was given up as lost counts too: it did end, and may bring a pause. Tells how the API is now,
    /// as far as that matters for the call's key.
    ///
    /// `random` is a fresh number from 0 to 1.
    pub fn end(&mut self, clock: Clock, call: u64, signal: Signal, random: f64) -> Health {
        let (breaker, pause) = self.consequences(clock, call, signal, random);
        let health = Health::after(&self.pace, call, breaker);
        if let Some(index) = self.pace.position(call) {
            self.seen_at.remove(index);
        }
        self.pace.end(call, breaker, pause);
        self.ended_at = Some(clock.now);
        if let Some(Pause { length_ms, reason, .. }) = pause {
            let until = clock.now + Duration::from_millis(length_ms);
            self.hold = Some(Hold { id: self.pace.version, until, reason });
        }
        health
    }

    /// A call goes on: its new deadline, or `None` if it was given up.
    pub fn renew(&mut self, now: Timestamp, call: u64) -> Option<Timestamp> {
        self.renew_for(now, call, None)
    }

    /// The same for another time than before.
    pub fn renew_for(&mut self, now: Timestamp, call: u64, lease: Option<Duration>) -> Option<Timestamp> {
        let index = self.pace.position(call)?;
        self.pace.renew(call);
        if let Some(lease) = lease {
            self.pace.calls[index].lease_ms = Some(whole_ms(lease));
        }
        self.seen_at[index] = now;
        self.expect_loss(now, call);
        Some(self.permit(call, now).deadline)
    }

    /// Lifts the pause, whoever asked for it.
    pub fn lift_pause(&mut self) {
        self.pace.lift_pause();
        self.hold = None;
    }

    /// Gives up a call that nothing was heard of for a whole lease, if there is one; tells which.
    pub fn lose(&mut self, now: Timestamp) -> Option<u64> {
        if self.loss_from > now {
            return None;
        }
        let Some(call) = self.lost(now).next() else {
            self.loss_from = self.next_loss_at().unwrap_or(now);
            return None;
        };
        self.give_up(now, call);
        Some(call)
    }

    /// Gives up every call in flight: for a sole owner that has just started and knows they died with its
    /// former self.
    pub fn lose_all(&mut self, now: Timestamp) {
        while let Some(call) = self.pace.calls.first().map(|call| call.id) {
            self.give_up(now, call);
        }
    }

    fn give_up(&mut self, now: Timestamp, call: u64) {
        if let Some(index) = self.pace.position(call) {
            self.seen_at.remove(index);
        }
        self.pace.lose(call);
        self.ended_at = Some(now);
    }
}

/// The parts.
impl Pacer {
    /// Goes on with what is known, now that the shared value tells nothing.
    fn begin_afresh(&mut self, clock: Clock) {
        let breaker = match self.pace.breaker {
            Breaker::HalfOpen { trips } => Breaker::Open { trips },
            known => known,
        };
        // Numbers nobody has seen: whoever adopts this must take it for news, and a call that began under the old
        // value must not be taken for a later one. Counting on would not do, as others may know of more than we.
        let version = Random::new(clock.wall.as_ms()).next() ^ Random::new(clock.now.as_ms()).next();
        let version = version & (VERSION_MAX >> 1);
        let pause = self.pace.pause.map(|pause| Pause { id: version, ..pause });
        self.hold = self.hold.map(|hold| Hold { id: version, ..hold });
        self.pace = Pace { version, starts: version, ends: version, calls: Vec::new(), pause, breaker };
        self.seen_at.clear();
        self.ended_at = Some(clock.now);
    }

    fn permit(&self, call: u64, now: Timestamp) -> Permit {
        let lease_ms = self.pace.call(call).and_then(|call| call.lease_ms);
        let deadline = now + lease_ms.map_or(self.settings.call_timeout, Duration::from_millis);
        let start_by = self.settings.start_slack().map_or(deadline, |slack| deadline.min(now + slack));
        Permit { call, start_by, deadline }
    }

    /// When the interval since the last start and the last end is over. A call may begin a little after it was
    /// allowed to, so that much is added to its start.
    fn spaced_at(&self) -> Option<Timestamp> {
        let interval = self.settings.interval;
        let slack = self.settings.start_slack().unwrap_or_default();
        let since_start = self.started_at.map(|started_at| started_at + interval + slack);
        since_start.max(self.ended_at.map(|ended_at| ended_at + interval))
    }

    fn lost(&self, now: Timestamp) -> impl Iterator<Item = u64> {
        let calls = self.pace.calls.iter().zip(&self.seen_at);
        calls.filter(move |(call, seen_at)| **seen_at + self.lease(call) <= now).map(|(call, _)| call.id)
    }

    /// How long a call keeps its slot without a sign of life.
    fn lease(&self, call: &Call) -> Duration {
        self.settings.lease_of(call.lease_ms.map(Duration::from_millis))
    }

    /// Remembers that a call that was seen at `now` may be the first that is lost.
    fn expect_loss(&mut self, now: Timestamp, call: u64) {
        if let Some(call) = self.pace.call(call) {
            let lost_at = now + self.lease(call);
            self.loss_from = if self.seen_at.len() <= 1 { lost_at } else { self.loss_from.min(lost_at) };
        }
    }

    fn hold_at(&self, now: Timestamp) -> Option<Hold> {
        self.hold.filter(|hold| now < hold.until)
    }

    /// What the end of a call does to the API's breaker, and the pause it brings.
    fn consequences(&self, clock: Clock, call: u64, signal: Signal, random: f64) -> (Breaker, Option<Pause>) {
        let probe = self.pace.call(call).is_some_and(|call| call.probe);
        let well = signal == Signal::Answered;
        let (breaker, opened) = match self.pace.breaker {
            Breaker::HalfOpen { trips } if probe && signal == Signal::NotMade => {
                (Breaker::Open { trips }, None)
            }
            known if signal == Signal::NotMade => (known, None),
            Breaker::HalfOpen { .. } if probe && well => (Breaker::default(), None),
            Breaker::HalfOpen { trips } if probe => open(trips.saturating_add(1)),
            Breaker::Closed { .. } if well => (Breaker::default(), None),
            Breaker::Closed { failures } if failures.saturating_add(1) >= self.settings.breaker_threshold => {
                open(1)
            }
            Breaker::Closed { failures } => (Breaker::Closed { failures: failures + 1 }, None),
            // Calls from before it opened neither close it nor make it worse: the probe decides.
            other => (other, None),
        };
        let asked = match signal {
            Signal::Throttled { retry_after: Some(asked) } => asked.min(PAUSE_MAX),
            _ => Duration::ZERO,
        };
        let rest = opened.map_or(Duration::ZERO, |trips| self.settings.breaker_pause(trips, random));
        if asked.max(rest).is_zero() {
            return (breaker, None);
        }
        // Also when the present pause lasts longer: others may know better than we do how much of it is left.
        let left = self.hold_at(clock.now).map(|hold| (hold.until.saturating_since(clock.now), hold.reason));
        let pauses = [Some((rest, PauseReason::Breaker)), Some((asked, PauseReason::RetryAfter)), left];
        let longest = pauses.into_iter().flatten().max_by_key(|(length, _)| *length);
        let pause = longest.map(|(length, reason)| Pause {
            id: 0,
            until: clock.wall + length,
            length_ms: whole_ms(length),
            reason,
        });
        (breaker, pause)
    }

    /// Whether the time of day has gone along with the monotonic clock since the last look. The first look has
    /// nothing to compare with and trusts it.
    fn clocks_are_steady(&mut self, clock: Clock) -> bool {
        let apart = i128::from(clock.wall.as_ms()) - i128::from(clock.now.as_ms());
        let before = self.clocks_apart_ms.replace(apart);
        let steady = before.is_none_or(|before| (apart - before).unsigned_abs() <= CLOCK_STEP.as_millis());
        self.clock_was_set = !steady;
        steady
    }
}

fn whole_ms(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

const fn open(trips: u32) -> (Breaker, Option<u32>) {
    (Breaker::Open { trips }, Some(trips))
}

/// A pause somebody else began, on one's own clock: too long rather than too short. Where the time of day was set
/// since the last look, it lasts its full length from now.
fn hold_for(pause: Pause, clock: Clock, steady: bool) -> Hold {
    let length = Duration::from_millis(pause.length_ms).min(SPAN_MAX);
    let ends = pause.until + CLOCK_STEP;
    let left = if steady { ends.saturating_since(clock.wall).min(length) } else { length };
    Hold { id: pause.id, until: clock.now + left, reason: pause.reason }
}
