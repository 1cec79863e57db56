//! One transaction that looks at the pace: claims, answers, renewals.
//!
//! Whoever holds the header's row has the queue to itself, so the pace is read, adopted, changed on a copy of the
//! process's pacer, and written; the copy is kept once the transaction is.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::{Duration, Instant};

use syncline_core::queue::line::Row;
use syncline_core::queue::{Answer, Health, Kind, Limits, Outcome, Pacer, Permit, Settled, Wait, Why};
use syncline_core::time::Timestamp;

use super::registry::ProcessClock;
use super::row::{Details, Header, Success};
use super::table::{Table, Work};
use super::{Claimed, Ended, INPUT_MAX_BYTES, NewTask, Run, Status, enqueue, leave, order, pace};
use crate::Error;

/// Retries that come back in one transaction; the rest in the next.
const RETRIES_STEP: usize = 1_000;

/// How often a claim looks for further keys in place of those whose time was over.
const EXPIRED_STEPS: usize = 100;

/// Why a key failed that was not started in time.
const EXPIRED: &str = "not started before it expired";

/// A transaction on one queue that uses its pacer: the header's row is locked, and the pacer is held.
pub(crate) struct PacedTransaction<'a, 't, 'c> {
    table: &'a mut Table<'t, 'c>,
    pacer: &'a mut Pacer,
    clock: ProcessClock,
    limits: Limits,
    header: Header,
    /// The version of the pace when the header was read.
    opened: u64,
    /// The ages of the keys that calls are for.
    ages: BTreeMap<u64, i64>,
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
    pub(crate) then: Option<String>,
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
    pub(crate) limits: Limits,
}

impl Work for Claim {
    type Made = (Claimed, Pacer);

    async fn run(self, table: &mut Table<'_, '_>) -> Result<Self::Made, Error> {
        let Self { mut paced, max, lease } = self;
        let mut transaction = PacedTransaction::open(table, &mut paced).await?;
        let lost = transaction.lose().await?;
        transaction.bring_back().await?;
        let (runs, expired) = transaction.start(max, lease).await?;
        transaction.close(!lost.is_empty() || expired).await?;
        let more = runs.len() == max;
        let claimed =
            Claimed { runs, lost, ..rest(transaction.pacer, &transaction.header, transaction.clock, more) };
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
        let answers: Vec<_> = answers
            .into_iter()
            .map(|(call, answer)| {
                let health = transaction.pacer.end(seen, call, answer.signal(), rand::random());
                (call, answer, health)
            })
            .collect();
        let ended = transaction.finish(answers).await?;
        transaction.close(true).await?;
        let dropped = transaction.header.line.dropped;
        if let Some(then) = then {
            pass_on(table.beside(then), &ended, results).await?;
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
    mut next: Table<'_, '_>,
    ended: &[Ended],
    mut results: HashMap<u64, String>,
) -> Result<(), Error> {
    let done = ended.iter().filter(|ended| ended.settled == Settled::Done);
    let tasks: Vec<NewTask> = done
        .map(|ended| {
            // A longer one is not carried: the key would not be what it is without its input, and says so when it runs.
            let input = results.remove(&ended.call).filter(|result| result.len() <= INPUT_MAX_BYTES);
            NewTask { input, ..NewTask::from(ended.key.clone()) }
        })
        .collect();
    if tasks.is_empty() {
        return Ok(());
    }
    // What was done must not be undone because others are slow.
    let limits = Limits { max_keys: u32::MAX, ..Limits::default() };
    enqueue::Enqueue { limits, kind: Kind::Again, tasks }.run(&mut next).await??;
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
pub(crate) fn look(pacer: &mut Pacer, header: &Header, clock: ProcessClock) -> Option<Claimed> {
    let (read, _) = pace::decode(&header.pace)?;
    pacer.adopt(clock.seen(header.now()), Some(read));
    let now = clock.now();
    let lost = pacer.next_loss_at().is_some_and(|at| at <= now);
    let due = header.line.next_due.is_some_and(|due| due <= header.now_ms);
    let startable =
        !header.held && (header.line.waiting > 0 || due) && pacer.ready(clock.asking(pacer)).is_ok();
    (!lost && !startable).then(|| rest(pacer, header, clock, false))
}

/// The queue for people to look at.
pub(crate) fn status(pacer: &mut Pacer, header: &Header, clock: ProcessClock) -> Status {
    let unreadable = if let Some((read, _)) = pace::decode(&header.pace) {
        pacer.adopt(clock.seen(header.now()), Some(read));
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
    }
}

/// When to claim again, for one that could not take more than it did.
fn rest(pacer: &Pacer, header: &Header, clock: ProcessClock, more: bool) -> Claimed {
    let now = clock.now();
    if header.held {
        let look_at = pacer.next_loss_at().map(|at| clock.instant(at));
        return Claimed { runs: Vec::new(), lost: Vec::new(), look_at, waits_for: None };
    }
    let ready = pacer.ready(clock.asking(pacer)).map_err(|wait| (wait.until, wait.why));
    let wait = if header.line.waiting == 0 { Ok(()) } else { ready };
    let at_once = (more && wait.is_ok() && header.line.waiting > 0).then_some(now);
    // A retry that is due does not start before the pace allows a start: to look for it sooner would be to look all the time.
    let due = header.line.next_due.map(|due| clock.translate(due, header.now_ms));
    let due = due.map(|due| ready.err().map_or(due, |(until, _)| due.max(until)));
    let times = [wait.err().map(|(until, _)| until), pacer.next_loss_at(), due, at_once];
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
        let Paced { pacer, clock, limits } = paced;
        let (clock, limits) = (*clock, *limits);
        let header = table.open().await?;
        let read = pace::decode(&header.pace);
        let readable = read.is_some();
        let (read, ages) = read.map_or((None, Vec::new()), |(read, ages)| (Some(read), ages));
        let calls = read.iter().flat_map(|pace| pace.calls.iter().map(|call| call.id));
        let ages = calls.zip(ages).collect();
        pacer.adopt(clock.seen(header.now()), read);
        let opened = pacer.pace().version;
        let mut transaction = Self { table, pacer, clock, limits, header, opened, ages, touched: false };
        if !readable {
            transaction.recover().await?;
        }
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
        self.table.forget_again().await
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
        let rows = self.header.line.bring_back(retries.into_iter().map(|retry| retry.row).collect(), head);
        self.table.put(&rows).await
    }

    /// Starts as many runs as the pace and the line allow. Keys whose time is over do not start and take no part of the pace;
    /// tells also whether there were any.
    async fn start(&mut self, max: usize, lease: Option<Duration>) -> Result<(Vec<Run>, bool), Error> {
        if self.header.held {
            return Ok((Vec::new(), false));
        }
        let (mut runs, mut expired) = (Vec::new(), false);
        for _ in 0..EXPIRED_STEPS {
            let before = self.header.carries.then(|| self.pacer.clone());
            let most = (max - runs.len()).min(usize::try_from(self.header.line.waiting).unwrap_or(0));
            let mut permits = self.permits(most, lease);
            if permits.is_empty() {
                break;
            }
            self.touched = true;
            let running = self.ages.values().copied().collect();
            let mut rows =
                order::next(self.table, &mut self.header, &self.limits, &running, permits.len()).await?;
            let mut details = HashMap::new();
            let mut late = Vec::new();
            if self.header.carries {
                (details, late) = self.carried(&mut rows).await?;
            }
            if let Some(before) = before.filter(|_| !late.is_empty()) {
                *self.pacer = before;
                permits = self.permits(rows.len(), lease);
            }
            runs.extend(self.begin(rows, permits, &mut details));
            if late.is_empty() {
                break;
            }
            expired = true;
            self.expire(late).await?;
        }
        Ok((runs, expired))
    }

    /// Permits for up to `most` calls.
    fn permits(&mut self, most: usize, lease: Option<Duration>) -> Vec<Permit> {
        let mut permits = Vec::new();
        while permits.len() < most {
            let Ok(permit) = self.pacer.start_for(self.clock.asking(self.pacer), lease) else { break };
            permits.push(permit);
        }
        permits
    }

    /// What these rows carry, by age. Those whose time is over are taken out of them and returned.
    async fn carried(&mut self, rows: &mut Vec<Row>) -> Result<(HashMap<i64, Details>, Vec<Row>), Error> {
        let ages: Vec<i64> = rows.iter().map(|row| row.arrival_no).collect();
        let details = self.table.details(&ages).await?;
        let details: HashMap<i64, Details> =
            details.into_iter().map(|details| (details.arrival_no, details)).collect();
        let now_ms = self.header.now_ms;
        let is_late = |row: &mut Row| {
            let details = details.get(&row.arrival_no);
            details.and_then(|details| details.expires_at).is_some_and(|at| at <= now_ms)
        };
        let late = rows.extract_if(.., is_late).collect();
        Ok((details, late))
    }

    fn begin(
        &mut self,
        rows: Vec<Row>,
        permits: Vec<Permit>,
        details: &mut HashMap<i64, Details>,
    ) -> Vec<Run> {
        let mut runs = Vec::with_capacity(rows.len());
        for (row, permit) in rows.into_iter().zip(permits) {
            self.ages.insert(permit.call, row.arrival_no);
            runs.push(Run {
                key: row.key,
                call: permit.call,
                attempt: u32::try_from(row.attempts).unwrap_or(0).saturating_add(1),
                input: details.remove(&row.arrival_no).and_then(|details| details.input),
                start_by: self.clock.instant(permit.start_by),
                deadline: self.clock.instant(permit.deadline),
            });
        }
        runs
    }

    /// Ends keys that were not started in time. They count as running since they were chosen.
    async fn expire(&mut self, late: Vec<Row>) -> Result<(), Error> {
        let mut updates = Vec::with_capacity(late.len());
        for mut row in late {
            row.call = Some(0);
            updates.push(self.header.line.leave(row, Outcome::Failed(EXPIRED.to_owned()), None));
        }
        leave::replace(self.table, &mut self.header, &self.limits, updates).await
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
        leave::replace(self.table, &mut self.header, &self.limits, updates).await?;
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
        leave::trim(self.table, &mut self.header, &self.limits, ended.len()).await?;
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
        let ages: Vec<i64> =
            self.pacer.pace().calls.iter().filter_map(|call| self.ages.get(&call.id)).copied().collect();
        let mut pace = self.pacer.pace().clone();
        if pace.has_paused_since(self.opened) {
            pace.date_pause(self.opened, self.table.now().await?);
        }
        self.header.pace = pace::encode(&pace, &ages);
        self.table.save(&self.header).await
    }
}
