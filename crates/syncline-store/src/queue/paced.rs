//! One transaction that looks at the pace: claims, answers, renewals.
//!
//! Whoever holds the header's row has the queue to itself, so the pace is read, adopted, changed on a copy of the
//! process's pacer, and written; the copy is kept once the transaction is.

mod start;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::{Duration, Instant};

use syncline_core::queue::line::Row;
use syncline_core::queue::{Answer, Clock, Health, Kind, Limits, Pace, Pacer, Settled, Signal, Wait, Why};
use syncline_core::time::Timestamp;

use super::pace::CallKeys;
use super::registry::ProcessClock;
use super::row::{Header, Success};
use super::table::{Table, Work};
use super::{Claimed, Ended, INPUT_MAX_BYTES, NewTask, Next, Rules, Status, enqueue, groups, leave, pace};
use crate::Error;

/// Retries that come back in one transaction; the rest in the next.
const RETRIES_STEP: usize = 1_000;

/// A transaction on one queue that uses its pacer: the header's row is locked, and the pacer is held.
pub(crate) struct PacedTransaction<'a, 't, 'c> {
    table: &'a mut Table<'t, 'c>,
    pacer: &'a mut Pacer,
    clock: ProcessClock,
    /// The queue's, with what was set while it runs.
    rules: Rules,
    header: Header,
    /// The version of the pace when the header was read.
    opened: u64,
    /// The ages of the keys that calls are for.
    ages: BTreeMap<u64, i64>,
    /// The groups that calls are of, where they are of any.
    call_groups: BTreeMap<u64, i64>,
    /// Whether there is something to write.
    touched: bool,
}

/// A call that is over, the age of its key, what it brought, and how it left the API.
type End = (u64, i64, Answer<String>, Health);

/// Takes up to `max` keys.
pub(crate) struct Claim {
    pub(crate) paced: Paced,
    pub(crate) max: usize,
    /// Instead of the queue's.
    pub(crate) lease: Option<Duration>,
}

/// Ends calls.
pub(crate) struct Settle {
    pub(crate) paced: Paced,
    pub(crate) answers: Vec<(u64, Answer<String>)>,
    /// Where keys with results go next.
    pub(crate) then: Option<Next>,
}

/// Lets calls go on.
pub(crate) struct Renew {
    pub(crate) paced: Paced,
    pub(crate) calls: Vec<u64>,
    pub(crate) lease: Option<Duration>,
}

/// Lets calls start again, whoever kept them from it.
pub(crate) struct Resume {
    pub(crate) paced: Paced,
}

/// What is needed to look at the pace: a copy of the process's pacer, which comes back changed.
pub(crate) struct Paced {
    pub(crate) pacer: Pacer,
    pub(crate) clock: ProcessClock,
    pub(crate) rules: Rules,
}

impl Work for Claim {
    type Made = (Claimed, Pacer);

    async fn run(self, table: &mut Table<'_, '_>) -> Result<Self::Made, Error> {
        let Self { mut paced, max, lease } = self;
        let mut transaction = PacedTransaction::open(table, &mut paced).await?;
        let lost = transaction.lose().await?;
        transaction.bring_back().await?;
        transaction.touched |= groups::regroup(transaction.table, &mut transaction.header).await?;
        let (runs, expired) = match transaction.header.grouped_since {
            0 => transaction.start(max, lease).await?,
            _ => transaction.start_grouped(max, lease).await?,
        };
        transaction.close(!lost.is_empty() || expired).await?;
        let turn = transaction.next_turn(runs.len() == max).await?;
        let rest = rest(transaction.pacer, &transaction.header, transaction.clock, turn);
        let claimed = Claimed { runs, lost, ..rest };
        Ok((claimed, paced.pacer))
    }
}

impl Work for Settle {
    type Made = (Vec<Ended>, u64, Pacer);

    async fn run(self, table: &mut Table<'_, '_>) -> Result<Self::Made, Error> {
        let Self { mut paced, mut answers, then } = self;
        let mut named = HashSet::with_capacity(answers.len());
        answers.retain(|(call, _)| named.insert(*call));
        // In the order they began, so that those not made after all are in line as they were.
        answers.sort_unstable_by_key(|(call, _)| *call);
        let results = then.as_ref().map(|_| results_of(&answers)).unwrap_or_default();
        let mut transaction = PacedTransaction::open(table, &mut paced).await?;
        let seen = transaction.clock.seen(transaction.header.now());
        transaction.touched |= !answers.is_empty();
        let calls: Vec<u64> = answers.iter().map(|(call, _)| *call).collect();
        transaction.load_groups(&calls).await?;
        let answers: Vec<_> = answers
            .into_iter()
            .map(|(call, answer)| {
                let health = transaction.end_call(seen, call, answer.signal());
                (call, answer, health)
            })
            .collect();
        let ended = transaction.finish(answers).await?;
        transaction.close(true).await?;
        let dropped = transaction.header.line.dropped;
        if let Some(then) = then {
            pass_on(table.beside(then.queue.clone()), &then, &ended, results).await?;
        }
        Ok((ended, dropped, paced.pacer))
    }
}

/// The results among answers, by call.
fn results_of(answers: &[(u64, Answer<String>)]) -> HashMap<u64, String> {
    let results = answers.iter().filter_map(|(call, answer)| match answer {
        Answer::Done(result) => Some((*call, result.clone())),
        _ => None,
    });
    results.collect()
}

/// Puts keys that have a result now into the next queue, with the result as their input.
async fn pass_on(
    mut table: Table<'_, '_>,
    next: &Next,
    ended: &[Ended],
    mut results: HashMap<u64, String>,
) -> Result<(), Error> {
    let done = ended.iter().filter(|ended| ended.settled == Settled::Done);
    let tasks: Vec<NewTask> = done
        .map(|ended| {
            // A longer one is not carried: the key would not be what it is without its input, and says so when it runs.
            let input = results.remove(&ended.call).filter(|result| result.len() <= INPUT_MAX_BYTES);
            let group = next.group.as_ref().and_then(|group| group(&ended.key, input.as_deref()));
            NewTask { input, group, ..NewTask::from(ended.key.clone()) }
        })
        .collect();
    if tasks.is_empty() {
        return Ok(());
    }
    // What was done must not be undone because others are slow.
    let limits = Limits { max_keys: u32::MAX, ..next.rules.limits };
    let rules = Rules { limits, ..next.rules };
    enqueue::Enqueue { rules, kind: Kind::Again, tasks }.run(&mut table).await??;
    Ok(())
}

impl Work for Renew {
    type Made = (Vec<Option<Instant>>, Pacer);

    async fn run(self, table: &mut Table<'_, '_>) -> Result<Self::Made, Error> {
        let Self { mut paced, calls, lease } = self;
        let mut transaction = PacedTransaction::open(table, &mut paced).await?;
        let (clock, now) = (transaction.clock, transaction.clock.now());
        let wanted = transaction.wanted(&calls).await?;
        let renewed: Vec<Option<Timestamp>> = calls
            .iter()
            .map(|call| {
                wanted.contains(call).then(|| transaction.pacer.renew_for(now, *call, lease)).flatten()
            })
            .collect();
        transaction.touched |= renewed.iter().any(Option::is_some);
        transaction.close(false).await?;
        let deadlines = renewed.into_iter().map(|deadline| deadline.map(|deadline| clock.instant(deadline)));
        Ok((deadlines.collect(), paced.pacer))
    }
}

impl Work for Resume {
    type Made = Pacer;

    async fn run(self, table: &mut Table<'_, '_>) -> Result<Pacer, Error> {
        let Self { mut paced } = self;
        let mut transaction = PacedTransaction::open(table, &mut paced).await?;
        transaction.header.held = false;
        transaction.pacer.lift_pause();
        transaction.touched = true;
        transaction.close(true).await?;
        Ok(paced.pacer)
    }
}

/// What a look at the header alone can tell a worker: `None` if it should claim.
pub(crate) fn look(
    pacer: &mut Pacer,
    header: &Header,
    clock: ProcessClock,
    rules: &Rules,
) -> Option<Claimed> {
    let (read, _) = pace::decode(&header.pace)?;
    pacer.set_settings(header.in_force(rules).settings);
    adopt(pacer, header, clock, read);
    let now = clock.now();
    let lost = pacer.next_loss_at().is_some_and(|at| at <= now);
    let due = header.line.next_due.is_some_and(|due| due <= header.now_ms);
    let startable =
        !header.held && (header.line.waiting > 0 || due) && pacer.ready(clock.asking(pacer)).is_ok();
    let turn = Turn { now: false, at_ms: None };
    (!lost && !startable).then(|| rest(pacer, header, clock, turn))
}

/// Takes over what was read. A queue that is not there has no clock either: to compare with it would look as if one had been set.
fn adopt(pacer: &mut Pacer, header: &Header, clock: ProcessClock, read: Pace) {
    if header.id != 0 {
        pacer.adopt(clock.seen(header.now()), Some(read));
    }
}

/// The queue for people to look at.
pub(crate) fn status(pacer: &mut Pacer, header: &Header, clock: ProcessClock, rules: &Rules) -> Status {
    let rules = header.in_force(rules);
    pacer.set_settings(rules.settings);
    let unreadable = if let Some((read, _)) = pace::decode(&header.pace) {
        adopt(pacer, header, clock, read);
        false
    } else {
        true
    };
    let now = clock.now();
    let wait = pacer.ready(clock.asking(pacer)).err();
    let next_call_at = match wait {
        _ if header.line.waiting == 0 || unreadable || header.held => None,
        None => Some(now),
        Some(Wait { until, why: Why::Interval | Why::Paused(_) }) => Some(until),
        Some(Wait { why: Why::Busy | Why::Probing, .. }) => None,
    };
    let instant = |at| clock.instant(at);
    Status {
        counts: header.line.counts(),
        done_total: u64::try_from(header.line.done_total).unwrap_or(0),
        failed_total: u64::try_from(header.line.failed_total).unwrap_or(0),
        in_flight: pacer.pace().calls.len(),
        next_call_at: next_call_at.map(instant),
        waits_for: wait.filter(|_| header.line.waiting > 0 && !header.held).map(|wait| wait.why),
        next_retry_at: header.line.next_due.map(|due| instant(clock.translate(due, header.now_ms))),
        held: header.held,
        paused: pacer.paused(now).map(|(until, reason)| (instant(until), reason)),
        breaker: pacer.pace().breaker,
        rules,
        has_groups: header.grouped_since != 0,
        is_set: header.set_pace.is_some(),
    }
}

/// Whether more might have been taken, but for the pace, or when it is a group's turn.
#[derive(Clone, Copy)]
struct Turn {
    now: bool,
    at_ms: Option<i64>,
}

/// When to claim again, for one that could not take more than it did.
fn rest(pacer: &Pacer, header: &Header, clock: ProcessClock, turn: Turn) -> Claimed {
    let now = clock.now();
    if header.held {
        let look_at = pacer.next_loss_at().map(|at| clock.instant(at));
        return Claimed { runs: Vec::new(), lost: Vec::new(), look_at, waits_for: None };
    }
    let ready = pacer.ready(clock.asking(pacer)).map_err(|wait| (wait.until, wait.why));
    let wait = if header.line.waiting == 0 { Ok(()) } else { ready };
    let at_once = (turn.now && wait.is_ok() && header.line.waiting > 0).then_some(now);
    let turn = turn.at_ms.filter(|_| wait.is_ok()).map(|at| clock.translate(at, header.now_ms));
    // A retry that is due does not start before the pace allows a start: to look for it sooner would be to look all the time.
    let due = header.line.next_due.map(|due| clock.translate(due, header.now_ms));
    let due = due.map(|due| ready.err().map_or(due, |(until, _)| due.max(until)));
    let times = [wait.err().map(|(until, _)| until), pacer.next_loss_at(), due, at_once, turn];
    let look_at = times.into_iter().flatten().min();
    Claimed {
        runs: Vec::new(),
        lost: Vec::new(),
        look_at: look_at.map(|at| clock.instant(at)),
        waits_for: wait.err().map(|(_, why)| why),
    }
}

impl<'a, 't, 'c> PacedTransaction<'a, 't, 'c> {
    async fn open(table: &'a mut Table<'t, 'c>, paced: &'a mut Paced) -> Result<Self, Error> {
        let Paced { pacer, clock, rules } = paced;
        let clock = *clock;
        let mut header = table.open().await?;
        let rules = header.in_force(rules);
        pacer.set_settings(rules.settings);
        header.groups.set_pace(&rules);
        let read = pace::decode(&header.pace);
        let readable = read.is_some();
        let (read, keys) = read.map_or((None, CallKeys::default()), |(read, keys)| (Some(read), keys));
        let calls: Vec<u64> = read.iter().flat_map(|pace| pace.calls.iter().map(|call| call.id)).collect();
        let ages = calls.iter().copied().zip(keys.ages).collect();
        let in_groups = calls.into_iter().zip(keys.groups).filter(|(_, group)| *group != 0);
        let call_groups = in_groups.collect();
        pacer.adopt(clock.seen(header.now()), read);
        let opened = pacer.pace().version;
        let touched = false;
        let mut transaction = Self { table, pacer, clock, rules, header, opened, ages, call_groups, touched };
        if !readable {
            transaction.recover().await?;
        }
        transaction.keep_groups().await?;
        Ok(transaction)
    }

    /// Nobody knows which calls are under way: what they were for waits where it was, in front, and whatever they may
    /// still bring is dropped.
    async fn recover(&mut self) -> Result<(), Error> {
        let running = self.header.line.running;
        tracing::warn!(
            running,
            "the stored pace of a queue could not be read: its running keys wait again, and calls start after one interval"
        );
        self.header.line.forget_calls(self.header.id);
        self.touched = true;
        groups::recover(self.table, &mut self.header).await?;
        self.table.forget_again().await
    }

    /// Begins to have groups where the rules name them, and has them wait anew where the clock they go by was set.
    async fn keep_groups(&mut self) -> Result<(), Error> {
        if self.rules.groups.is_some() && self.header.grouped_since == 0 && !self.header.line.is_idle() {
            groups::begin(self.table, &mut self.header);
            self.touched = true;
        }
        if self.header.grouped_since != 0 && self.pacer.clock_was_set() {
            let interval = self.header.groups.pace().interval;
            let until =
                self.header.now_ms.saturating_add(1 + i64::try_from(interval.as_millis()).unwrap_or(0));
            self.table.groups_anew(until).await?;
        }
        Ok(())
    }

    /// Reads the groups of these calls.
    async fn load_groups(&mut self, calls: &[u64]) -> Result<(), Error> {
        if self.call_groups.is_empty() {
            return Ok(());
        }
        let ids: Vec<i64> = calls.iter().filter_map(|call| self.call_groups.get(call).copied()).collect();
        groups::load(self.table, &mut self.header, ids.into_iter()).await
    }

    /// Ends a call in the pace of the queue, or of its group: what its API says then is the group's business alone.
    fn end_call(&mut self, seen: Clock, call: u64, signal: Signal) -> Health {
        let group = self.call_groups.remove(&call);
        let pace = self.header.groups.pace();
        let Some(group) = group.and_then(|group| self.header.groups.change(group)) else {
            return self.pacer.end(seen, call, signal, rand::random());
        };
        let of_queue = if signal == Signal::NotMade { signal } else { Signal::Answered };
        self.pacer.end(seen, call, of_queue, rand::random());
        group.end(&self.rules.settings, &pace, self.header.now_ms, signal, rand::random())
    }

    /// When it is the next group's turn; in a queue without groups, whether there may be more at once.
    async fn next_turn(&mut self, more: bool) -> Result<Turn, Error> {
        if self.header.grouped_since == 0 {
            return Ok(Turn { now: more, at_ms: None });
        }
        if self.header.line.waiting == 0 || self.header.held {
            return Ok(Turn { now: false, at_ms: None });
        }
        // Keys that are in no group yet are brought into theirs at once.
        let now = self.header.regroup_at.is_some();
        Ok(Turn { now, at_ms: self.table.group_ready_next().await? })
    }

    /// Gives up the calls that nothing was heard of.
    async fn lose(&mut self) -> Result<Vec<Ended>, Error> {
        let mut lost = Vec::new();
        while let Some(call) = self.pacer.lose(self.clock.now()) {
            let reason = "no answer in time".to_owned();
            lost.push((call, Answer::Broken { reason, retry: true, away: true }, Health::default()));
        }
        if lost.is_empty() {
            return Ok(Vec::new());
        }
        self.touched = true;
        let calls: Vec<u64> = lost.iter().map(|(call, ..)| *call).collect();
        self.load_groups(&calls).await?;
        let (pace, now_ms) = (self.header.groups.pace(), self.header.now_ms);
        for call in calls {
            let group = self.call_groups.remove(&call);
            if let Some(group) = group.and_then(|group| self.header.groups.change(group)) {
                group.lose(&pace, now_ms);
            }
        }
        self.finish(lost).await
    }

    /// Puts the retries that are due right after the head.
    async fn bring_back(&mut self) -> Result<(), Error> {
        if self.header.line.next_due.is_none_or(|due| due > self.header.now_ms) {
            return Ok(());
        }
        self.touched = true;
        let mut retries = self.table.retries(RETRIES_STEP + 1).await?;
        let due = retries.iter().take(RETRIES_STEP).filter(|retry| retry.due <= self.header.now_ms).count();
        self.header.line.next_due = retries.get(due).map(|retry| retry.due);
        retries.truncate(due);
        if retries.is_empty() {
            return Ok(());
        }
        let head = enqueue::head(self.table, &self.header, self.header.line.has_head()).await?;
        let mut rows =
            self.header.line.bring_back(retries.into_iter().map(|retry| retry.row).collect(), head);
        groups::join(self.table, &mut self.header, &mut rows).await?;
        // What is ready now takes part in this very claim.
        if self.header.grouped_since != 0 {
            groups::save(self.table, &mut self.header).await?;
        }
        self.table.put(&rows).await
    }

    /// Which of these calls are for keys that are still there.
    async fn wanted(&mut self, calls: &[u64]) -> Result<HashSet<u64>, Error> {
        let ages: HashMap<i64, u64> =
            calls.iter().filter_map(|call| Some((*self.ages.get(call)?, *call))).collect();
        let rows = self.table.aged(&ages.keys().copied().collect::<Vec<_>>()).await?;
        Ok(rows.iter().filter_map(|row| ages.get(&row.arrival_no).copied()).collect())
    }

    /// What becomes of keys whose calls ended. Only rows are changed: the pacer knows already.
    async fn finish(&mut self, answers: Vec<(u64, Answer<String>, Health)>) -> Result<Vec<Ended>, Error> {
        let ages = &mut self.ages;
        let ends: Vec<End> = answers
            .into_iter()
            .filter_map(|(call, answer, health)| Some((call, ages.remove(&call)?, answer, health)))
            .collect();
        let (mut ended, rest) = self.succeed(ends).await?;
        if rest.is_empty() {
            return Ok(ended);
        }
        let ages: Vec<i64> = rest.iter().map(|(_, age, ..)| *age).collect();
        let rows = self.table.aged(&ages).await?;
        let mut rows: HashMap<i64, Row> = rows.into_iter().map(|row| (row.arrival_no, row)).collect();
        let (settings, now) = (*self.pacer.settings(), self.header.now());
        let mut updates = Vec::with_capacity(rows.len());
        for (call, age, answer, health) in rest {
            let Some(mut row) = rows.remove(&age) else { continue };
            row.begin(call);
            let attempt = u32::try_from(row.attempts).unwrap_or(0);
            let reason = leave::reason(&answer);
            let outcome = settings.judge(answer, attempt, health, now, rand::random());
            let update = self.header.line.leave(row, outcome, reason);
            ended.push(Ended { call, key: update.row.key.clone(), settled: update.settled });
            updates.push(update);
        }
        ended.sort_unstable_by_key(|ended| ended.call);
        self.touched |= !updates.is_empty();
        leave::replace(self.table, &mut self.header, &self.rules, updates).await?;
        Ok(ended)
    }

    /// Keeps results without a look at the rows first, where all have brought one, as most do. Returns what else there is:
    /// the answers where not all have, and those for keys that are to run again or are gone.
    async fn succeed(&mut self, ends: Vec<End>) -> Result<(Vec<Ended>, Vec<End>), Error> {
        // Otherwise the order of results and failures among each other would not be that of their calls.
        if ends.is_empty() || !ends.iter().all(|(_, _, answer, _)| matches!(answer, Answer::Done(_))) {
            return Ok((Vec::new(), ends));
        }
        let (mut calls, mut successes) = (HashMap::with_capacity(ends.len()), Vec::with_capacity(ends.len()));
        for (call, arrival_no, answer, _) in ends {
            if let Answer::Done(result) = answer {
                calls.insert(arrival_no, call);
                successes.push(Success { arrival_no, rank: self.header.line.take_tail(), result });
            }
        }
        let mut ended = Vec::with_capacity(successes.len());
        for (arrival_no, key) in self.table.succeed(&successes).await? {
            let call = calls.remove(&arrival_no).expect("only what was asked for is told");
            ended.push(Ended { call, key, settled: Settled::Done });
        }
        ended.sort_unstable_by_key(|ended| ended.call);
        self.header.line.succeed(ended.len());
        self.touched |= !ended.is_empty();
        leave::trim(self.table, &mut self.header, &self.rules, ended.len()).await?;
        let left = successes.into_iter().filter_map(|Success { arrival_no, result, .. }| {
            calls.remove(&arrival_no).map(|call| (call, arrival_no, Answer::Done(result), Health::default()))
        });
        Ok((ended, left.collect()))
    }

    /// Writes what has changed; `told` if others want to hear of it.
    async fn close(&mut self, told: bool) -> Result<(), Error> {
        if !self.touched {
            return Ok(());
        }
        self.header.changes += i64::from(told);
        let calls = || self.pacer.pace().calls.iter().map(|call| call.id);
        let keys = CallKeys {
            ages: calls().filter_map(|call| self.ages.get(&call)).copied().collect(),
            groups: calls().map(|call| self.call_groups.get(&call).copied().unwrap_or(0)).collect(),
        };
        let mut pace = self.pacer.pace().clone();
        if pace.has_paused_since(self.opened) {
            pace.date_pause(self.opened, self.table.now().await?);
        }
        self.header.pace = pace::encode(&pace, &keys);
        self.table.save(&mut self.header).await
    }
}
