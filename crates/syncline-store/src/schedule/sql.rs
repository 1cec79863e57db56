//! What both engines share of the schedule: statements, checks, rows and sums.
//!
//! The statements are plain enough for both dialects. Moments are arguments, read from the engine's clock in the
//! same transaction. The flow around them is each adapter's, because locking is.

use std::collections::BTreeMap;
use std::time::Duration;

use sqlx::{ColumnIndex, Database, Decode, FromRow, Row, Type};
use syncline_core::schedule::{Cost, Reason};
use syncline_core::time::Timestamp;

use super::{
    DETAIL_MAX_BYTES, Ending, HISTORY_MAX, Intent, Keep, NAME_MAX_BYTES, Outcome, Run, RunId, STEP_MAX,
    State, Totals,
};
use crate::Error;

macro_rules! select_run {
    ($rest:literal) => {
        concat!(
            "SELECT id, job, bucket, node, reason, state, started_at, finished_at, attempts, detail, \
             cost_micro_usd FROM syncline.schedule_runs ",
            $rest
        )
    };
}

// Macros, so that PostgreSQL can add its row locks to the same text.
macro_rules! by_id {
    () => {
        $crate::schedule::sql::select_run!("WHERE id = $1")
    };
}
macro_rules! by_bucket {
    () => {
        $crate::schedule::sql::select_run!("WHERE job = $1 AND bucket = $2")
    };
}
macro_rules! running {
    () => {
        $crate::schedule::sql::select_run!(
            "WHERE state = 'running' AND started_at <= $1 AND ($2 IS NULL OR job = $2) \
             ORDER BY started_at, id LIMIT $3"
        )
    };
}
pub(crate) use {by_bucket, by_id, running, select_run};

/// job, bucket, node, reason, state, started_at, finished_at, cost. No row comes back when the bucket is taken.
pub(crate) const INSERT: &str = "INSERT INTO syncline.schedule_runs \
     (job, bucket, node, reason, state, started_at, finished_at, cost_micro_usd) \
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (job, bucket) DO NOTHING RETURNING id";

/// Turns the skip `$1` into a run: node, reason, started_at, cost.
pub(crate) const UPGRADE: &str = "UPDATE syncline.schedule_runs SET node = $2, reason = $3, state = 'running', \
     started_at = $4, finished_at = NULL, attempts = 0, detail = '', cost_micro_usd = $5 WHERE id = $1";

/// Ends the run `$1`: reason, state, finished_at, attempts, detail, cost.
pub(crate) const FINISH: &str = "UPDATE syncline.schedule_runs SET reason = $2, state = $3, finished_at = $4, \
     attempts = $5, detail = $6, cost_micro_usd = $7 WHERE id = $1";

/// Gives the run `$1` up at `$2`, if it still runs.
pub(crate) const ABANDON: &str = "UPDATE syncline.schedule_runs SET state = 'abandoned', finished_at = $2 WHERE id = $1 AND state = 'running'";

/// Adds to the totals: job, decision, reason, count, failed, abandoned, cost.
pub(crate) const ADD: &str = "INSERT INTO syncline.schedule_totals \
     (job, decision, reason, count, failed, abandoned, cost_micro_usd) VALUES ($1, $2, $3, $4, $5, $6, $7) \
     ON CONFLICT (job, decision, reason) DO UPDATE SET count = syncline.schedule_totals.count + excluded.count, \
     failed = syncline.schedule_totals.failed + excluded.failed, \
     abandoned = syncline.schedule_totals.abandoned + excluded.abandoned, \
     cost_micro_usd = syncline.schedule_totals.cost_micro_usd + excluded.cost_micro_usd";

pub(crate) const BY_ID: &str = by_id!();
pub(crate) const BY_BUCKET: &str = by_bucket!();
pub(crate) const RUNNING: &str = running!();
pub(crate) const HISTORY: &str = select_run!(
    "WHERE id < $1 AND ($2 = 'all' OR ($2 = 'skips') = (state = 'skipped')) ORDER BY id DESC LIMIT $3"
);
pub(crate) const HISTORY_OF_JOB: &str = select_run!(
    "WHERE id < $1 AND ($2 = 'all' OR ($2 = 'skips') = (state = 'skipped')) AND job = $4 \
     ORDER BY id DESC LIMIT $3"
);

pub(crate) const TOTALS: &str = "SELECT decision, reason, count, failed, abandoned, cost_micro_usd \
     FROM syncline.schedule_totals WHERE $1 IS NULL OR job = $1";

/// The id of the job's row that has `$2` newer ones.
pub(crate) const NTH_NEWEST: &str =
    "SELECT id FROM syncline.schedule_runs WHERE job = $1 ORDER BY id DESC LIMIT 1 OFFSET $2";

/// Removes rows of `$1` that are at most `$2`, or at most `$3` and begun before `$4`; `$5` rows at most.
pub(crate) const TRIM: &str = "DELETE FROM syncline.schedule_runs WHERE id IN (SELECT id FROM syncline.schedule_runs \
     WHERE job = $1 AND state <> 'running' AND (id <= $2 OR (id <= $3 AND started_at < $4)) \
     ORDER BY id LIMIT $5)";

/// A change of the totals. `count` and `cost` are negative where something is taken back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Delta {
    pub(crate) count: i64,
    pub(crate) failed: i64,
    pub(crate) abandoned: i64,
    pub(crate) cost: i64,
}

impl Delta {
    pub(crate) fn plus(cost: i64) -> Self {
        Self { count: 1, cost, ..Self::default() }
    }

    pub(crate) fn minus(cost: i64) -> Self {
        Self { count: -1, cost: -cost, ..Self::default() }
    }
}

/// Several changes of the totals, in the one order in which every transaction makes them: two that touch the same
/// rows in different orders could wait for each other.
pub(crate) type Deltas = BTreeMap<(String, &'static str, String), Delta>;

/// What [`FINISH`] is to write and what it does to the totals.
#[derive(Debug)]
pub(crate) struct Finish {
    pub(crate) reason: String,
    pub(crate) state: State,
    pub(crate) attempts: i64,
    pub(crate) detail: String,
    pub(crate) cost: i64,
    pub(crate) deltas: Deltas,
}

/// The end of `run`; `None` when it has ended already.
pub(crate) fn finish(run: &Run, outcome: &Outcome, cost: i64) -> Option<Finish> {
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
pub(crate) fn upgrade(skip: &Run, reason: &str, cost: i64) -> Deltas {
    Deltas::from([
        ((skip.job.clone(), "run", reason.to_owned()), Delta::plus(cost)),
        ((skip.job.clone(), "skip", skip.reason.clone()), Delta::minus(to_i64(skip.cost))),
    ])
}

/// `run` after [`ABANDON`].
pub(crate) fn abandoned(run: Run, now_ms: i64) -> Run {
    Run { state: State::Abandoned, finished_at: Some(moment(now_ms)), ..run }
}

/// What the totals gain when `runs` are abandoned.
pub(crate) fn abandon_deltas(runs: &[Run]) -> Deltas {
    let mut deltas = Deltas::new();
    for run in runs {
        deltas.entry((run.job.clone(), "run", run.reason.clone())).or_default().abandoned += 1;
    }
    deltas
}

/// One row of [`TOTALS`]: decision, reason, count, failed, abandoned, cost.
pub(crate) type TotalsRow = (String, String, i64, i64, i64, i64);

pub(crate) fn sum(rows: Vec<TotalsRow>) -> Totals {
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
pub(crate) fn check_intent(intent: &Intent<'_>, runs: bool) -> Result<i64, Error> {
    check_name("job", intent.job)?;
    check_name("node", intent.node)?;
    check_reason(intent.reason, runs)?;
    check_cost(intent.cost)
}

pub(crate) fn check_outcome(outcome: &Outcome) -> Result<i64, Error> {
    if let Ending::Skipped(reason) = outcome.ending {
        check_reason(reason, false)?;
    }
    check_cost(outcome.cost)
}

pub(crate) fn check_name(field: &'static str, name: &str) -> Result<(), Error> {
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
pub(crate) fn check_limit(limit: usize, max: usize) -> Result<i64, Error> {
    if limit > max {
        return Err(Error::invalid("limit", format!("is {limit}; at most {max} are allowed")));
    }
    Ok(i64::try_from(limit).unwrap_or(i64::MAX))
}

pub(crate) fn check_history(limit: usize) -> Result<i64, Error> {
    check_limit(limit, HISTORY_MAX)
}

/// The offsets for [`NTH_NEWEST`] that bound what [`TRIM`] may remove: by number, and by age.
pub(crate) fn check_keep(keep: Keep) -> Result<(i64, i64), Error> {
    if keep.rows_min > keep.rows_max {
        return Err(Error::invalid("keep", "keeps at least more rows than at most"));
    }
    let offset = |rows| i64::try_from(rows).map_err(|_| Error::invalid("keep", "keeps too many rows"));
    Ok((offset(keep.rows_max)?, offset(keep.rows_min)?))
}

pub(crate) fn check_step(limit: usize) -> Result<i64, Error> {
    check_limit(limit, STEP_MAX)
}

/// The moment `age` before `now_ms`.
pub(crate) fn before(now_ms: i64, age: Duration) -> i64 {
    now_ms.saturating_sub(i64::try_from(age.as_millis()).unwrap_or(i64::MAX))
}

fn moment(ms: i64) -> Timestamp {
    Timestamp::from_ms(u64::try_from(ms).unwrap_or(0))
}

fn to_i64(cost: Cost) -> i64 {
    i64::try_from(cost.as_micro_usd()).unwrap_or(i64::MAX)
}

impl<'r, R> FromRow<'r, R> for Run
where
    R: Row,
    &'static str: ColumnIndex<R>,
    i64: Decode<'r, R::Database> + Type<R::Database>,
    String: Decode<'r, R::Database> + Type<R::Database>,
    R::Database: Database,
{
    fn from_row(row: &'r R) -> sqlx::Result<Self> {
        let word: String = row.try_get("state")?;
        let state = State::parse(&word)
            .ok_or_else(|| sqlx::Error::Decode(format!("`{word}` is no state of a run").into()))?;
        Ok(Self {
            id: RunId(row.try_get("id")?),
            job: row.try_get("job")?,
            bucket: row.try_get("bucket")?,
            node: row.try_get("node")?,
            reason: row.try_get("reason")?,
            state,
            started_at: moment(row.try_get("started_at")?),
            finished_at: row.try_get::<Option<i64>, _>("finished_at")?.map(moment),
            attempts: u32::try_from(row.try_get::<i64, _>("attempts")?).unwrap_or(u32::MAX),
            detail: row.try_get("detail")?,
            cost: Cost::from_micro_usd(row.try_get::<i64, _>("cost_micro_usd")?.unsigned_abs()),
        })
    }
}
