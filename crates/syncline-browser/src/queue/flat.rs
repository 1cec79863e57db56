//! The core's values as flat lists of numbers, and back: what crosses to JavaScript in one piece.
//!
//! Numbers are `f64`, exact for every rank, version and time a queue can reach. `js/queue-engine.js` holds the same
//! orders; a list that is too short or holds nonsense is refused or read as the nearest sensible value, never a panic.

use std::time::Duration;

use syncline_core::queue::{
    Breaker, CONCURRENCY_MAX, Call, Change, GroupRecord, GroupSettings, GroupStatus, Limits, Pace, Pause,
    PauseReason, Place, Record, SPAN_MAX, Settings, Settled, Status, Why,
};
use syncline_core::time::Timestamp;

/// Numbers in a row: key, place, rank, age, attempts, flags, group.
pub(super) const ROW: usize = 7;
/// Numbers of a group that is kept: its number, until when it rests and how long that is, failures in a row, whether it is held.
pub(super) const GROUP: usize = 5;
/// JavaScript counts groups up from 1 and never comes near this: what is above is a mistake, and would cost the memory for it.
const GROUP_NUMBERS_MAX: u32 = 1 << 24;
/// The flag of a key that came as priority.
const PRIORITY: f64 = 1.0;
/// The flag of a running key that is to run once more.
const AGAIN: f64 = 2.0;

pub(super) const WAITING: u8 = 1;
pub(super) const RUNNING: u8 = 2;
pub(super) const RETRYING: u8 = 3;
pub(super) const DONE: u8 = 4;
pub(super) const FAILED: u8 = 5;
pub(super) const DEAD: u8 = 6;

/// The last moment whose milliseconds JavaScript counts exactly. Nothing that is added to a time comes near an overflow.
const TIME_MAX_MS: u64 = (1 << 53) - 1;

/// Numbers of a pace before those of its calls.
const PACE_HEAD: usize = 9;
/// Numbers of a call in a pace.
const PACE_CALL: usize = 3;

/// Concurrency, interval, retry delay, attempts, call time-out, breaker threshold, most keys, most results; calls of a group at once (0:
/// no pace for groups) and the interval between them.
pub(super) fn setup(numbers: &[f64]) -> (Settings, Limits, Option<GroupSettings>) {
    let number = |index: usize| numbers.get(index).copied().unwrap_or_default();
    let span = |index| Duration::from_millis(number(index) as u64).min(SPAN_MAX);
    // Both ends of an interval are read in whole milliseconds, which can make it seem one longer than it is.
    let interval = span(1) + Duration::from_millis(u64::from(number(1) > 0.0));
    let mut settings =
        Settings::new((number(0) as u32).clamp(1, CONCURRENCY_MAX), interval.min(SPAN_MAX), span(2));
    settings.retry.max_delay = settings.retry.max_delay.max(settings.retry_delay);
    settings.retry.max_attempts = (number(3) as u32).max(1);
    settings.call_timeout = span(4).max(Duration::from_millis(1));
    settings.breaker_threshold = (number(5) as u32).max(1);
    let limits = Limits { max_keys: number(6) as u32, max_results: number(7) as u32, ..Limits::default() };
    let concurrency = (number(8) as u32).min(CONCURRENCY_MAX);
    let groups = (concurrency > 0).then(|| GroupSettings { concurrency, interval: span(9) });
    (settings, limits, groups)
}

/// A time as JavaScript told it. The cast saturates and makes not-a-number zero; the core takes a time before the last
/// one as no time passed.
pub(super) fn time(ms: f64) -> Timestamp {
    Timestamp::from_ms((ms as u64).min(TIME_MAX_MS))
}

pub(super) fn place<R>(place: &Place<R>) -> u8 {
    match place {
        Place::Waiting => WAITING,
        Place::Running { .. } => RUNNING,
        Place::Retrying { .. } => RETRYING,
        Place::Done(_) => DONE,
        Place::Failed(_) => FAILED,
        Place::Dead(_) => DEAD,
    }
}

/// What became of a key: where it is now, or 0 if nobody wanted to know.
pub(super) fn settled(settled: Option<Settled>) -> f64 {
    f64::from(match settled {
        None => 0,
        Some(Settled::Waiting | Settled::Again) => WAITING,
        Some(Settled::Retrying { .. }) => RETRYING,
        Some(Settled::Done) => DONE,
        Some(Settled::Failed) => FAILED,
        Some(Settled::Dead) => DEAD,
    })
}

pub(super) fn moment(at: Option<Timestamp>) -> f64 {
    at.map_or(f64::NAN, |at| at.as_ms() as f64)
}

pub(super) fn write_change(rows: &mut Vec<f64>, change: &Change<'_, u32, ()>) {
    match *change {
        Change::Remove(&key) => rows.extend([f64::from(key), 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]),
        Change::Put(Record { key, place: at, rank, since, attempts, priority, group }) => {
            let again = matches!(at, Place::Running { again: true });
            let flags = f64::from(u8::from(priority)) * PRIORITY + f64::from(u8::from(again)) * AGAIN;
            rows.extend([
                f64::from(*key),
                f64::from(place(at)),
                rank as f64,
                since as f64,
                f64::from(attempts),
                flags,
                f64::from(group),
            ]);
        }
    }
}

/// The records of these rows. Reasons stay in JavaScript, due times are set anew; `None` if a row is none.
pub(super) fn records(rows: &[f64]) -> Option<Vec<Record<u32, Place<()>>>> {
    let (rows, []) = rows.as_chunks::<ROW>() else { return None };
    rows.iter().map(record).collect()
}

fn record(row: &[f64; ROW]) -> Option<Record<u32, Place<()>>> {
    let &[key, at, rank, since, attempts, flags, group] = row;
    let place = match at as u8 {
        WAITING => Place::Waiting,
        RUNNING => Place::Running { again: flags >= AGAIN },
        RETRYING => Place::Retrying { due: Timestamp::ZERO },
        DONE => Place::Done(()),
        FAILED => Place::Failed("".into()),
        DEAD => Place::Dead("".into()),
        _ => return None,
    };
    let priority = flags as u8 % 2 == 1;
    Some(Record {
        key: key as u32,
        place,
        rank: rank as i64,
        since: since as i64,
        attempts: attempts as u32,
        priority,
        group: group_number(group as u32)?,
    })
}

/// The number of a group, if it can be one.
pub(super) fn group_number(number: u32) -> Option<u32> {
    (number < GROUP_NUMBERS_MAX).then_some(number)
}

/// The groups of these numbers; none, if they are not of groups.
pub(super) fn groups(numbers: &[f64]) -> impl Iterator<Item = GroupRecord> {
    let (groups, _) = numbers.as_chunks::<GROUP>();
    groups.iter().filter_map(|&[group, next_at, rest_ms, failures, held]| {
        Some(GroupRecord {
            group: group_number(group as u32)?,
            next_at: time(next_at),
            rest: Duration::from_millis(rest_ms as u64).min(SPAN_MAX),
            failures: failures as u32,
            held: held == 1.0,
        })
    })
}

/// A group that has changed, whose second number is not one where nothing of it is to be kept.
pub(super) fn write_group(numbers: &mut Vec<f64>, group: u32, record: Option<GroupRecord>) {
    let number = f64::from(group);
    numbers.extend(record.map_or([number, f64::NAN, 0.0, 0.0, 0.0], |record| {
        [
            number,
            record.next_at.as_ms() as f64,
            record.rest.as_millis() as f64,
            f64::from(record.failures),
            f64::from(u8::from(record.held)),
        ]
    }));
}

/// A group for people to look at: number, waiting, running, whether it is held, failures in a row, when it may start.
pub(super) fn group_status(status: &GroupStatus) -> [f64; 6] {
    [
        f64::from(status.group),
        status.waiting as f64,
        status.running as f64,
        f64::from(u8::from(status.held)),
        f64::from(status.failures),
        moment(status.next_call_at),
    ]
}

pub(super) fn write_pace(pace: &Pace) -> Vec<f64> {
    let (breaker, count) = breaker(pace.breaker);
    let pause = pace.pause.map_or([f64::NAN; 4], |pause| {
        [pause.id as f64, pause.until.as_ms() as f64, pause.length_ms as f64, reason(pause.reason)]
    });
    let mut numbers = vec![pace.version as f64, pace.starts as f64, pace.ends as f64];
    numbers.extend(pause);
    numbers.extend([breaker, f64::from(count)]);
    for call in &pace.calls {
        numbers.extend([call.id as f64, f64::from(call.beat), f64::from(u8::from(call.probe))]);
    }
    numbers
}

/// The pace of these numbers, or `None` if they are of none: the queue then rests for one interval.
pub(super) fn read_pace(numbers: &[f64]) -> Option<Pace> {
    let (head, calls) = numbers.split_first_chunk::<PACE_HEAD>()?;
    let &[version, starts, ends, pause_id, until, length_ms, reason, breaker, count] = head;
    let (calls, []) = calls.as_chunks::<PACE_CALL>() else { return None };
    let pause = (!pause_id.is_nan()).then(|| Pause {
        id: pause_id as u64,
        until: Timestamp::from_ms(until as u64),
        length_ms: length_ms as u64,
        reason: if reason == 2.0 { PauseReason::Breaker } else { PauseReason::RetryAfter },
    });
    let count = count as u32;
    let breaker = match breaker as u8 {
        0 => Breaker::Closed { failures: count },
        1 => Breaker::Open { trips: count },
        _ => Breaker::HalfOpen { trips: count },
    };
    let calls = calls
        .iter()
        .map(|&[id, beat, probe]| {
            let (id, beat, probe) = (id as u64, beat as u32, probe != 0.0);
            Call { id, beat, probe, lease_ms: None }
        })
        .collect();
    Some(Pace { version: version as u64, starts: starts as u64, ends: ends as u64, calls, pause, breaker })
}

/// Counts of waiting, running, retrying, done, failed, dead; keys per second, time left; next call, next retry; end of
/// the pause and its reason; what the next call waits for; the breaker.
pub(super) fn status(status: &Status) -> Vec<f64> {
    let progress = &status.progress;
    let (paused_until, paused_why) =
        status.paused.map_or((f64::NAN, 0.0), |(until, why)| (until.as_ms() as f64, reason(why)));
    let waits_for = match status.waits_for {
        None => 0.0,
        Some(Why::Paused(why)) => reason(why),
        Some(Why::Interval) => 3.0,
        Some(Why::Busy) => 4.0,
        Some(Why::Probing) => 5.0,
    };
    vec![
        progress.waiting as f64,
        progress.running as f64,
        progress.retrying as f64,
        progress.done as f64,
        progress.failed as f64,
        progress.dead as f64,
        progress.rate_per_s,
        progress.time_left.map_or(f64::NAN, |left| left.as_millis() as f64),
        moment(status.next_call_at),
        moment(status.next_retry_at),
        paused_until,
        paused_why,
        waits_for,
        breaker(status.breaker).0,
    ]
}

fn reason(reason: PauseReason) -> f64 {
    match reason {
        PauseReason::RetryAfter => 1.0,
        PauseReason::Breaker => 2.0,
    }
}

fn breaker(breaker: Breaker) -> (f64, u32) {
    match breaker {
        Breaker::Closed { failures } => (0.0, failures),
        Breaker::Open { trips } => (1.0, trips),
        Breaker::HalfOpen { trips } => (2.0, trips),
    }
}
