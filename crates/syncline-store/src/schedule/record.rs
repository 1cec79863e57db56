//! What the schedule's rows mean, without a database: checks, ends, sums.

use std::collections::BTreeMap;
use std::time::Duration;

use syncline_core::schedule::{Cost, Reason};
use syncline_core::time::Timestamp;

use super::{
    DETAIL_MAX_BYTES, Ending, HISTORY_MAX, Intent, Keep, NAME_MAX_BYTES, Outcome, Run, RunId, STEP_MAX,
    State, Totals,
};
use crate::Error;
use crate::database::{FromRow, Row};

/// A change of the totals. `count` and `cost` are negative where something is taken back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Delta {
    pub(super) count: i64,
    pub(super) failed: i64,
    pub(super) abandoned: i64,
    pub(super) cost: i64,
}

impl Delta {
    pub(super) fn plus(cost: i64) -> Self {
        Self { count: 1, cost, ..Self::default() }
    }

    pub(super) fn minus(cost: i64) -> Self {
        Self { count: -1, cost: -cost, ..Self::default() }
    }
}

/// Several changes of the totals, in the one order in which every transaction makes them: two that touch the same
/// rows in different orders could wait for each other.
pub(super) type Deltas = BTreeMap<(String, &'static str, String), Delta>;

/// What `FINISH` is to write and what it does to the totals.
#[derive(Debug)]
pub(super) struct Finish {
    pub(super) reason: String,
    pub(super) state: State,
    pub(super) attempts: i64,
    pub(super) detail: String,
    pub(super) cost: i64,
    pub(super) deltas: Deltas,
}

/// The end of `run`; `None` when it has ended already.
pub(super) fn finish(run: &Run, outcome: &Outcome, cost: i64) -> Option<Finish> {
    let abandoned = match run.state {
        State::Running => 0,
        State::Abandoned => -1,
        State::Done | State::Failed | State::Skipped => return None,
    };
    let spent = to_i64(run.cost);
    let mut deltas = Deltas::new();
    let mut change = |decision, reason: &str, delta| {
        deltas.insert((run.job.clone(), decision, reason.to_owned()), delta);
    };
    let reason = if let Ending::Skipped(reason) = outcome.ending {
        change("run", &run.reason, Delta { abandoned, ..Delta::minus(spent) });
        change("skip", reason.as_str(), Delta::plus(cost));
        reason.as_str().to_owned()
    } else {
        let failed = i64::from(outcome.ending == Ending::Failed);
        change("run", &run.reason, Delta { count: 0, failed, abandoned, cost: cost - spent });
        run.reason.clone()
    };
    let mut detail = outcome.detail.replace('\0', "\u{fffd}");
    detail.truncate(detail.floor_char_boundary(DETAIL_MAX_BYTES));
    let attempts = i64::from(outcome.attempts);
    Some(Finish { reason, state: outcome.ending.state(), attempts, detail, cost, deltas })
}

/// What the totals gain and lose when `skip` becomes a run.
pub(super) fn upgrade(skip: &Run, reason: &str, cost: i64) -> Deltas {
    Deltas::from([
        ((skip.job.clone(), "run", reason.to_owned()), Delta::plus(cost)),
        ((skip.job.clone(), "skip", skip.reason.clone()), Delta::minus(to_i64(skip.cost))),
    ])
}

/// `run` after `ABANDON`.
pub(super) fn abandoned(run: Run, now_ms: i64) -> Run {
    Run { state: State::Abandoned, finished_at: Some(moment(now_ms)), ..run }
}

/// What the totals gain when `runs` are abandoned.
pub(super) fn abandon_deltas(runs: &[Run]) -> Deltas {
    let mut deltas = Deltas::new();
    for run in runs {
        deltas.entry((run.job.clone(), "run", run.reason.clone())).or_default().abandoned += 1;
    }
    deltas
}

/// One row of `TOTALS`: decision, reason, count, failed, abandoned, cost.
pub(super) type TotalsRow = (String, String, i64, i64, i64, i64);

pub(super) fn sum(rows: Vec<TotalsRow>) -> Totals {
    let mut totals = Totals::default();
    for (decision, reason, count, failed, abandoned, cost) in rows {
        let (by_reason, money) = match &*decision {
            "run" => (&mut totals.runs, &mut totals.spent),
            _ => (&mut totals.skips, &mut totals.saved),
        };
        // A reason whose every run or skip was taken back has nothing to tell.
        if count != 0 {
            *by_reason.entry(reason).or_default() += count.unsigned_abs();
        }
        *money = Cost::from_micro_usd(money.as_micro_usd().saturating_add(cost.unsigned_abs()));
        totals.failed += failed.unsigned_abs();
        totals.abandoned += abandoned.unsigned_abs();
    }
    totals
}

/// Checks an intent whose reason must be one to run, or one to skip.
pub(super) fn check_intent(intent: &Intent<'_>, runs: bool) -> Result<i64, Error> {
    check_name("job", intent.job)?;
    check_name("node", intent.node)?;
    check_reason(intent.reason, runs)?;
    check_cost(intent.cost)
}

pub(super) fn check_outcome(outcome: &Outcome) -> Result<i64, Error> {
    if let Ending::Skipped(reason) = outcome.ending {
        check_reason(reason, false)?;
    }
    check_cost(outcome.cost)
}

pub(super) fn check_name(field: &'static str, name: &str) -> Result<(), Error> {
    if name.is_empty() || name.len() > NAME_MAX_BYTES || name.chars().any(char::is_control) {
        let reason = format!("must have 1 to {NAME_MAX_BYTES} bytes and no control characters");
        return Err(Error::Invalid { field, reason });
    }
    Ok(())
}

fn check_reason(reason: Reason, runs: bool) -> Result<(), Error> {
    if reason.runs() == runs {
        return Ok(());
    }
    let kind = if runs { "a run" } else { "a skip" };
    Err(Error::invalid("reason", format!("`{reason}` does not explain {kind}")))
}

fn check_cost(cost: Cost) -> Result<i64, Error> {
    if cost > Cost::MAX {
        return Err(Error::invalid("cost", format!("is above {} USD", Cost::MAX.as_usd())));
    }
    Ok(to_i64(cost))
}

/// Checks the size of a page or step.
pub(super) fn check_limit(limit: usize, max: usize) -> Result<i64, Error> {
    if limit > max {
        return Err(Error::invalid("limit", format!("is {limit}; at most {max} are allowed")));
    }
    Ok(i64::try_from(limit).unwrap_or(i64::MAX))
}

pub(super) fn check_history(limit: usize) -> Result<i64, Error> {
    check_limit(limit, HISTORY_MAX)
}

/// The offsets for `NTH_NEWEST` that bound what `TRIM` may remove: by number, and by age.
pub(super) fn check_keep(keep: Keep) -> Result<(i64, i64), Error> {
    if keep.rows_min > keep.rows_max {
        return Err(Error::invalid("keep", "keeps at least more rows than at most"));
    }
    let offset = |rows| i64::try_from(rows).map_err(|_| Error::invalid("keep", "keeps too many rows"));
    Ok((offset(keep.rows_max)?, offset(keep.rows_min)?))
}

pub(super) fn check_step(limit: usize) -> Result<i64, Error> {
    check_limit(limit, STEP_MAX)
}

/// The moment `age` before `now_ms`.
pub(super) fn before(now_ms: i64, age: Duration) -> i64 {
    now_ms.saturating_sub(i64::try_from(age.as_millis()).unwrap_or(i64::MAX))
}

fn moment(ms: i64) -> Timestamp {
    Timestamp::from_ms(u64::try_from(ms).unwrap_or(0))
}

fn to_i64(cost: Cost) -> i64 {
    i64::try_from(cost.as_micro_usd()).unwrap_or(i64::MAX)
}

impl FromRow for Run {
    fn from_row(mut row: Row) -> Result<Self, Error> {
        let word: String = row.take(5)?;
        let state = State::parse(&word).ok_or_else(|| {
            let reason = format!("`{word}` is no state of a run");
            Error::Unreadable { store: "the schedule".to_owned(), reason }
        })?;
        Ok(Self {
            id: RunId(row.take(0)?),
            job: row.take(1)?,
            bucket: row.take(2)?,
            node: row.take(3)?,
            reason: row.take(4)?,
            state,
            started_at: moment(row.take(6)?),
            finished_at: row.take::<Option<i64>>(7)?.map(moment),
            attempts: u32::try_from(row.take::<i64>(8)?).unwrap_or(u32::MAX),
            detail: row.take(9)?,
            cost: Cost::from_micro_usd(row.take::<i64>(10)?.unsigned_abs()),
        })
    }
}
