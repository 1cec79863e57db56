//! A queue with its pace: what to call next, and when.
//!
//! Driven from outside: [`poll`](Paced::poll) until it says to wait, make the calls it starts, tell
//! [`settle`](Paced::settle) how they ended, poll again then or at the named time. Several may call into it through
//! a lock; it does no I/O and waits for nobody.
//!
//! In a queue with groups each has a pace of its own inside the queue's, and they take turns ([`Group`](super::group::Group)). What an API
//! says through a call then holds the call's group and no other.
//!
//! It owns its pace alone. To keep it, write [`drain_changes`](Paced::drain_changes),
//! [`drain_group_changes`](Paced::drain_group_changes) and [`pace`](Paced::pace) in one transaction after each step, before acting on it; [`Paced::restore`] goes on from there.

use std::borrow::Borrow;
use std::hash::{BuildHasher, Hash, RandomState};

use super::answer::given_up;
use super::random::Random;
use super::turns::Turns;
use super::{
    Answer, BadRecord, Breaker, Change, Clock, Enqueued, Full, GroupRecord, GroupSettings, GroupStatus,
    Health, Kind, Limits, Meter, Outcome, Outlook, Pace, Pacer, PauseReason, Permit, Place, Progress, Queue,
    Record, RunId, Settings, Settled, Signal, Why,
};
use crate::time::Timestamp;

/// What a paced queue is made with.
#[derive(Debug, Clone)]
pub struct Setup<S = RandomState> {
    /// The pace; should have passed [`Settings::check`].
    pub settings: Settings,
    /// The bounds.
    pub limits: Limits,
    /// The pace of each group. `None`: groups only take turns, and there are none before a key is given one.
    pub groups: Option<GroupSettings>,
    /// Hashes the keys; see [`Queue`].
    pub hasher: S,
    /// Where the jitter comes from: any number, best a random one.
    pub seed: u64,
}

/// What to do now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step<K> {
    /// Make this call.
    Start(Start<K>),
    /// Nothing was heard of this key's call for so long that its slot was freed.
    Lost {
        /// The key.
        key: K,
        /// The call. What it may still bring is not kept.
        call: u64,
        /// What became of the key.
        settled: Settled,
    },
    /// Nothing. Poll again then, or when something is enqueued or ends; `None`: only then.
    Wait(Option<Timestamp>),
}

/// A call to make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Start<K> {
    /// For what.
    pub key: K,
    /// The call's id, for [`Paced::settle`].
    pub call: u64,
    /// Which attempt it is, counted from 1.
    pub attempt: u32,
    /// It must have begun by then: a caller that is later must not make it and settles it with [`Answer::NotMade`].
    pub start_by: Timestamp,
    /// It must have ended or been renewed by then.
    pub deadline: Timestamp,
}

/// A queue for people to look at.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Status {
    /// Depth, what runs, what ended, how long it will take.
    pub progress: Progress,
    /// When the next call starts, if that depends on time alone.
    pub next_call_at: Option<Timestamp>,
    /// When the next retry is due.
    pub next_retry_at: Option<Timestamp>,
    /// Until when nobody calls, and why.
    pub paused: Option<(Timestamp, PauseReason)>,
    /// What the next call waits for, when one would be there.
    pub waits_for: Option<Why>,
    /// Whether the API is well.
    pub breaker: Breaker,
}

/// A queue with its pace.
#[derive(Debug)]
pub struct Paced<K, R, S = RandomState> {
    queue: Queue<K, R, S>,
    pacer: Pacer,
    /// Whose the calls in flight are, in order of start. Their number is bounded by the concurrency, so a list will do.
    calls: Vec<InFlight>,
    turns: Turns,
    meter: Meter,
    random: Random,
}

/// A call in flight.
#[derive(Debug, Clone, Copy)]
struct InFlight {
    call: u64,
    run: RunId,
    /// The number of its group, where the queue had groups when it began.
    group: Option<u32>,
}

impl<K: Eq + Hash + Clone, R, S: BuildHasher> Paced<K, R, S> {
    /// An empty queue for an API that nobody has called yet. Nothing of it is kept.
    #[must_use]
    pub fn new(setup: Setup<S>, now: Timestamp) -> Self {
        let mut queue = Queue::new(setup.limits, setup.hasher);
        if setup.groups.is_some() {
            queue.begin_groups();
        }
        Self {
            meter: Meter::new(now, queue.counts()),
            queue,
            pacer: Pacer::new(setup.settings),
            calls: Vec::new(),
            turns: Turns::new(setup.groups.unwrap_or(GroupSettings::UNPACED)),
            random: Random::new(setup.seed),
        }
    }

    /// A queue as it was kept, and keeps being: changes are there to drain from the start.
    ///
    /// What ran when the former process ended is first in line again, or dead if that was its last attempt; what was
    /// to come back does so after its full delay; a `pace` that cannot be read (`None`) means one interval of rest. Groups go on as
    /// [`drain_group_changes`](Self::drain_group_changes) told; those that had calls in flight rest for one interval of theirs.
    pub fn restore(
        setup: Setup<S>,
        clock: Clock,
        records: impl IntoIterator<Item = Record<K, Place<R>>>,
        pace: Option<Pace>,
        kept_groups: impl IntoIterator<Item = GroupRecord>,
    ) -> Result<Self, BadRecord> {
        let Setup { settings, limits, groups, hasher, seed } = setup;
        let mut random = Random::new(seed);
        let on_this_clock = records.into_iter().map(|mut record| {
            if let Place::Retrying { due } = &mut record.place {
                let delay = settings.delay(record.attempts, random.share());
                *due = clock.now + delay.unwrap_or(settings.retry_delay);
            }
            record
        });
        let mut queue = Queue::restore(limits, hasher, on_this_clock)?;
        queue.keep_changes();
        if groups.is_some() {
            queue.begin_groups();
        }
        let mut pacer = Pacer::new(settings);
        pacer.adopt(clock, pace);
        pacer.lose_all(clock.now);
        let meter = Meter::new(clock.now, queue.counts());
        let mut turns = Turns::new(groups.unwrap_or(GroupSettings::UNPACED));
        turns.keep_changes();
        kept_groups.into_iter().for_each(|kept| turns.restore(&settings, clock, kept));
        let mut paced = Self { queue, pacer, calls: Vec::new(), turns, meter, random };
        paced.recover(clock.now);
        Ok(paced)
    }

    /// Keeps track of the keys and groups that are forgotten; see [`Queue::keep_removals`].
    pub fn keep_removals(&mut self) {
        self.turns.keep_removals();
        self.queue.keep_removals();
    }

    /// Puts keys into the line; see [`Queue::enqueue`].
    pub fn enqueue(&mut self, kind: Kind, keys: Vec<K>) -> Result<Enqueued, Full> {
        self.queue.enqueue(kind, keys)
    }

    /// The same for keys of groups; see [`Queue::enqueue_in`].
    pub fn enqueue_in(&mut self, kind: Kind, keys: Vec<K>, groups: &[Option<u32>]) -> Result<Enqueued, Full> {
        self.queue.enqueue_in(kind, keys, groups)
    }

    /// What to do now. Ask until it says to wait.
    pub fn poll(&mut self, clock: Clock) -> Step<K> {
        let step = self.step(clock);
        self.meter.look(clock.now, self.outlook(clock.now));
        step
    }

    fn step(&mut self, clock: Clock) -> Step<K> {
        while let Some(call) = self.pacer.lose(clock.now) {
            if let Some(group) = self.group_of(call) {
                self.turns.lose(self.pacer.settings(), clock.now, group);
            }
            let answer = Answer::Broken { reason: "no answer in time".to_owned(), retry: true, away: true };
            if let Some((key, settled)) = self.answered(clock.now, call, answer, Health::default()) {
                return Step::Lost { key, call, settled };
            }
        }
        self.queue.enqueue_due(clock.now);
        self.line_up_groups(clock.now);
        if self.queue.counts().waiting == 0 {
            return Step::Wait(earlier(self.queue.next_due(), self.pacer.next_loss_at()));
        }
        if let Err(wait) = self.pacer.ready(clock.now) {
            return Step::Wait(earlier(Some(wait.until), self.pacer.next_loss_at()));
        }
        let group = match self.queue.has_groups().then(|| self.turns.next(clock.now)) {
            None => None,
            Some(Ok(group)) => Some(group),
            Some(Err(until)) => {
                let news = earlier(self.queue.next_due(), self.pacer.next_loss_at());
                return Step::Wait(earlier(until, news));
            }
        };
        let Permit { call, start_by, deadline } = self.pacer.start(clock.now).expect("it is ready");
        if let Some(group) = group {
            self.turns.start(self.pacer.settings(), clock.now, group);
        }
        let run = self.queue.start_of(group.unwrap_or(0)).expect("somebody waits");
        let (key, attempt) = (run.key.clone(), run.attempt);
        self.calls.push(InFlight { call, run: run.id, group });
        Step::Start(Start { key, call, attempt, start_by, deadline })
    }

    /// Hands on what has changed in the lines of groups.
    fn line_up_groups(&mut self, now: Timestamp) {
        for group in self.queue.take_changed_groups() {
            let waiting = self.queue.waiting_of(group);
            self.turns.note(self.pacer.settings(), now, group, waiting);
            if !self.queue.knows_group(group) && !self.turns.knows(group) {
                self.turns.forget(group);
            }
        }
    }

    /// The group of a call in flight, where it has one.
    fn group_of(&self, call: u64) -> Option<u32> {
        let at = self.calls.binary_search_by_key(&call, |in_flight| in_flight.call).ok()?;
        self.calls[at].group
    }

    /// A call ended. Tells whose it was and what became of the key; `None` if the answer is not wanted any more,
    /// because the call was given up as lost or its key removed.
    pub fn settle(&mut self, clock: Clock, call: u64, answer: Answer<R>) -> Option<(K, Settled)> {
        let health = self.end(clock, call, answer.signal());
        self.answered(clock.now, call, answer, health)
    }

    /// Ends a call in the pace of the queue, or of its group: what its API says then is the group's business alone.
    fn end(&mut self, clock: Clock, call: u64, signal: Signal) -> Health {
        let known = self.calls.binary_search_by_key(&call, |in_flight| in_flight.call).is_ok();
        let group = self.group_of(call);
        if group.is_none() && (known || !self.queue.has_groups()) {
            return self.pacer.end(clock, call, signal, self.random.share());
        }
        let of_queue = if signal == Signal::NotMade { signal } else { Signal::Answered };
        self.pacer.end(clock, call, of_queue, self.random.share());
        let Some(group) = group else { return Health::default() };
        self.turns.end(self.pacer.settings(), clock.now, group, signal, self.random.share())
    }

    /// A call began only now, later than it was allowed to: the next of its group counts from here.
    pub fn begin_late(&mut self, now: Timestamp, call: u64) {
        if let Some(group) = self.group_of(call) {
            self.turns.begin_late(self.pacer.settings(), now, group);
        }
    }

    /// Starts nothing of a group any more, or starts again and lifts what pause its API asked for.
    pub fn hold_group(&mut self, now: Timestamp, group: u32, held: bool) {
        self.queue.begin_groups();
        self.line_up_groups(now);
        self.turns.hold(self.pacer.settings(), now, group, held);
    }

    /// Whether anything is known of a group, or of a key in it.
    #[must_use]
    pub fn knows_group(&self, group: u32) -> bool {
        self.queue.knows_group(group) || self.turns.knows(group)
    }

    /// The groups that have something to do, or a reason to wait, by number.
    pub fn groups(&self) -> impl Iterator<Item = GroupStatus> {
        self.turns.status()
    }

    /// What has changed of groups since the last time, to keep: without a record there is nothing to keep of one.
    pub fn drain_group_changes(&mut self, clock: Clock, visit: impl FnMut(u32, Option<GroupRecord>)) {
        self.turns.drain_changes(clock, visit);
    }

    /// The numbers of groups that nothing is known of any more since the last time, nor of any key in them.
    pub fn take_forgotten_groups(&mut self) -> Vec<u32> {
        let Self { queue, turns, .. } = self;
        turns.take_forgotten(|group| queue.knows_group(group))
    }

    /// Ends keys by results that came from elsewhere; see [`Queue::dequeue`]. A call under way for such a key goes
    /// on, but nobody wants its answer.
    pub fn dequeue(&mut self, now: Timestamp, outcomes: impl IntoIterator<Item = (K, Outcome<R>)>) -> usize {
        let mut kept = 0;
        for (key, outcome) in outcomes {
            if let Some(settled) = self.queue.settle(&key, outcome) {
                self.count(now, settled);
                kept += 1;
            }
        }
        kept
    }

    /// A call goes on: its new deadline, or `None` if it was given up as lost.
    pub fn renew(&mut self, now: Timestamp, call: u64) -> Option<Timestamp> {
        self.pacer.renew(now, call)
    }

    /// Gives a key that is dead or failed all its attempts once more; false if it is neither.
    pub fn revive<Q>(&mut self, key: &Q) -> bool
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        self.queue.revive(key)
    }

    /// Forgets a key, wherever it is. If it runs, the call goes on but nobody wants its answer.
    pub fn remove<Q>(&mut self, key: &Q) -> Option<Place<R>>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        self.queue.remove(key)
    }

    /// The queue, to look into.
    #[must_use]
    pub const fn queue(&self) -> &Queue<K, R, S> {
        &self.queue
    }

    /// The pace, to keep. Its version tells whether it has changed.
    #[must_use]
    pub const fn pace(&self) -> &Pace {
        self.pacer.pace()
    }

    /// The rows to write; see [`Queue::drain_changes`].
    pub fn drain_changes(&mut self, visit: impl FnMut(Change<'_, K, R>)) {
        self.queue.drain_changes(visit);
    }

    /// How it looks at `now`.
    #[must_use]
    pub fn status(&self, now: Timestamp) -> Status {
        let counts = self.queue.counts();
        let next_retry_at = self.queue.next_due();
        let wanted_at = if counts.waiting > 0 { Some(now) } else { next_retry_at };
        let wait = wanted_at.and_then(|wanted_at| self.pacer.ready(wanted_at.max(now)).err());
        // Keys wait, but none of a group that may start.
        let turn_at = self.turns.next_at();
        let turn = (self.queue.has_groups() && counts.waiting > 0 && wait.is_none())
            .then(|| if turn_at.is_some() { Why::Interval } else { Why::Busy })
            .filter(|_| turn_at.is_none_or(|at| at > now));
        let next_call_at = match wait {
            None if turn.is_some() => turn_at,
            None => wanted_at,
            // When these are over depends on a call, not on time.
            Some(wait) if matches!(wait.why, Why::Busy | Why::Probing) => None,
            Some(wait) => Some(wait.until),
        };
        Status {
            progress: self.meter.progress(now, self.outlook(now)),
            next_call_at,
            next_retry_at,
            paused: self.pacer.paused(now),
            waits_for: wait.map(|wait| wait.why).or(turn),
            breaker: self.pacer.pace().breaker,
        }
    }

    /// Ends the run that a call was made for, unless it is over already.
    fn answered(
        &mut self,
        now: Timestamp,
        call: u64,
        answer: Answer<R>,
        health: Health,
    ) -> Option<(K, Settled)> {
        let at = self.calls.binary_search_by_key(&call, |in_flight| in_flight.call).ok()?;
        let InFlight { run, .. } = self.calls.remove(at);
        let run = self.queue.run(run)?;
        let (key, id) = (run.key.clone(), run.id);
        let outcome = self.pacer.settings().judge(answer, run.attempt, health, now, self.random.share());
        let settled = self.queue.settle_run(id, outcome)?;
        self.count(now, settled);
        Some((key, settled))
    }

    fn outlook(&self, now: Timestamp) -> Outlook {
        let held = self.pacer.paused(now).is_some() || !matches!(self.pace().breaker, Breaker::Closed { .. });
        Outlook { counts: self.queue.counts(), interval: self.pacer.settings().interval, held }
    }

    fn count(&mut self, now: Timestamp, settled: Settled) {
        match settled {
            Settled::Done => self.meter.done(now),
            Settled::Failed => self.meter.failed(now),
            Settled::Dead => self.meter.dead(now),
            Settled::Retrying { .. } | Settled::Again | Settled::Waiting => {}
        }
        self.meter.look(now, self.outlook(now));
    }

    /// Takes up what ran in a former process.
    fn recover(&mut self, now: Timestamp) {
        let runs = |record: &Record<&K, &Place<R>>| matches!(record.place, Place::Running { .. });
        let mut running: Vec<(K, u32)> = Vec::new();
        for record in self.queue.line().take_while(runs) {
            running.push((record.key.clone(), record.attempts));
            if self.queue.has_groups() {
                self.turns.lose(self.pacer.settings(), now, record.group);
            }
        }
        // Each goes to the very front, so the last to start goes first.
        while let Some((key, attempts)) = running.pop() {
            if attempts < self.pacer.settings().retry.max_attempts {
                self.queue.release(&key);
            } else {
                let reason = given_up(attempts, "the process ended during the last");
                self.queue.settle(&key, Outcome::Dead(reason));
                self.meter.dead(now);
            }
        }
    }
}

fn earlier(one: Option<Timestamp>, other: Option<Timestamp>) -> Option<Timestamp> {
    one.into_iter().chain(other).min()
}
