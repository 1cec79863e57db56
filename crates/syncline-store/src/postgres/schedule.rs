//! The schedule on PostgreSQL.
//!
//! Rows are locked before they are judged. Every transaction takes its locks in the same order (the bucket's
//! lock, rows of runs, rows of totals by job, decision and reason), so that no two can wait for each other.

use std::time::Duration;

use async_trait::async_trait;
use syncline_core::schedule::Bucket;

use super::session::Statement;
use super::{Engine, Session, lock};
use crate::Error;
use crate::kv::check_ttl;
use crate::schedule::sql::{self, Delta, Deltas};
use crate::schedule::{
    Claim, Dead, Filter, HISTORY_MAX, Intent, Keep, Outcome, Run, RunId, STEP_MAX, Schedule, Show, State,
    Totals, lease, lock_name,
};

// Each of these finds its rows by one index and cannot use another: see migration 0010.
const HISTORY: &str = sql::select_run!("WHERE id < $1 ORDER BY id DESC LIMIT $2");
const HISTORY_OF_JOB: &str =
    sql::select_run!("WHERE (job || '') = $3 AND (id + 0) < $1 ORDER BY (id + 0) DESC LIMIT $2");
/// Runs (0) or skips (1) alone.
const HISTORY_OF_KIND: &str = sql::select_run!(
    "WHERE (CASE WHEN state = 'skipped' THEN 1 ELSE 0 END) = $3 AND (id * 1) < $1 ORDER BY (id * 1) DESC LIMIT $2"
);
const HISTORY_OF_JOB_AND_KIND: &str = sql::select_run!(
    "WHERE (job || '') = $4 AND (CASE WHEN state = 'skipped' THEN 1 ELSE 0 END) = $3 AND (id * 1) < $1 \
     ORDER BY (id * 1) DESC LIMIT $2"
);
const NTH_NEWEST: &str =
    "SELECT id FROM syncline.schedule_runs WHERE (job || '') = $1 ORDER BY (id + 0) DESC LIMIT 1 OFFSET $2";
/// As [`sql::TRIM`], but of the oldest rows no more are looked at than may be removed.
const TRIM: &str = "DELETE FROM syncline.schedule_runs WHERE id IN (SELECT id FROM (SELECT id, started_at FROM syncline.schedule_runs \
     WHERE (job || '') = $1 AND (id + 0) <= greatest($2, $3) AND state <> 'running' ORDER BY (id + 0) LIMIT $5) AS oldest \
     WHERE id <= $2 OR (id <= $3 AND started_at < $4))";
const TOTALS_OF_JOB: &str = "SELECT decision, reason, count, failed, abandoned, cost_micro_usd \
     FROM syncline.schedule_totals WHERE job = $1";

/// The schedule port on PostgreSQL.
#[derive(Debug)]
pub(crate) struct PostgresSchedule {
    engine: Engine,
}

/// What is to be put on record.
struct Entry<'a> {
    intent: &'a Intent<'a>,
    cost: i64,
    bucket: Option<String>,
}

#[async_trait]
impl Schedule for PostgresSchedule {
    async fn claim(&self, intent: &Intent<'_>, bucket: Bucket, lock_ttl: Duration) -> Result<Claim, Error> {
        let cost = sql::check_intent(intent, true)?;
        let entry = Entry { intent, cost, bucket: Some(bucket.to_string()) };
        let (lock, lock_ttl_ms) = (lock_name(bucket, intent.job), check_ttl(lock_ttl)?);
        let mut session = self.engine.transaction().await?;
        let claim = self.compete(&mut session, &entry, &lock, lock_ttl_ms).await?;
        match claim {
            Claim::Won { .. } => session.commit().await?,
            Claim::Taken { .. } => session.rollback().await?,
        }
        Ok(claim)
    }

    async fn start(&self, intent: &Intent<'_>) -> Result<RunId, Error> {
        let entry = Entry { intent, cost: sql::check_intent(intent, true)?, bucket: None };
        let mut session = self.engine.transaction().await?;
        let now_ms = self.engine.now_ms(&mut session).await?;
        let inserted = self.insert(&mut session, &entry, State::Running, now_ms).await?;
        session.commit().await?;
        Ok(inserted.expect("a row without a bucket conflicts with none"))
    }

    async fn finish(&self, run: RunId, outcome: &Outcome) -> Result<Option<Run>, Error> {
        let cost = sql::check_outcome(outcome)?;
        let mut session = self.engine.transaction().await?;
        let locked = self.engine.query(concat!(sql::by_id!(), " FOR UPDATE")).bind(run.0);
        let found: Option<Run> = session.first(locked).await?;
        let Some(finish) = found.and_then(|run| sql::finish(&run, outcome, cost)) else {
            session.rollback().await?;
            return Ok(None);
        };
        let now_ms = self.engine.now_ms(&mut session).await?;
        let statement = self
            .engine
            .query(sql::FINISH)
            .bind(run.0)
            .bind(finish.reason)
            .bind(finish.state.as_str())
            .bind(now_ms)
            .bind(finish.attempts)
            .bind(finish.detail)
            .bind(finish.cost);
        session.execute(statement).await?;
        self.add(&mut session, finish.deltas).await?;
        let finished = session.first(self.engine.query(sql::BY_ID).bind(run.0)).await?;
        session.commit().await?;
        Ok(finished)
    }

    async fn record_skip(&self, intent: &Intent<'_>, bucket: Bucket) -> Result<Option<RunId>, Error> {
        let cost = sql::check_intent(intent, false)?;
        let entry = Entry { intent, cost, bucket: Some(bucket.to_string()) };
        let mut session = self.engine.transaction().await?;
        let now_ms = self.engine.now_ms(&mut session).await?;
        let inserted = self.insert(&mut session, &entry, State::Skipped, now_ms).await?;
        session.commit().await?;
        Ok(inserted)
    }

    async fn run(&self, run: RunId) -> Result<Option<Run>, Error> {
        Ok(self.read(self.engine.query(sql::BY_ID).bind(run.0)).await?.pop())
    }

    async fn running(&self, job: Option<&str>) -> Result<Vec<Run>, Error> {
        let running = self.engine.query(sql::RUNNING).bind(i64::MAX).bind(job.map(str::to_owned));
        self.read(running.bind(HISTORY_MAX as i64)).await
    }

    async fn history(
        &self,
        filter: Filter<'_>,
        before: Option<RunId>,
        limit: usize,
    ) -> Result<Vec<Run>, Error> {
        let limit = sql::check_history(limit)?;
        let before = before.map_or(i64::MAX, |run| run.0);
        let query = |sql| self.engine.query(sql).bind(before).bind(limit);
        let kind = match filter.show {
            Show::All => None,
            Show::Runs => Some(0_i32),
            Show::Skips => Some(1),
        };
        let job = filter.job.map(str::to_owned);
        self.read(match (job, kind) {
            (None, None) => query(HISTORY),
            (Some(job), None) => query(HISTORY_OF_JOB).bind(job),
            (None, Some(kind)) => query(HISTORY_OF_KIND).bind(kind),
            (Some(job), Some(kind)) => query(HISTORY_OF_JOB_AND_KIND).bind(kind).bind(job),
        })
        .await
    }

    async fn totals(&self, job: Option<&str>) -> Result<Totals, Error> {
        let mut session = self.engine.statement().await?;
        let totals = match job {
            Some(job) => self.engine.query(TOTALS_OF_JOB).bind(job.to_owned()),
            None => self.engine.query(sql::TOTALS).bind(None::<String>),
        };
        let rows = session.all(totals).await?;
        session.commit().await?;
        Ok(sql::sum(rows))
    }

    async fn abandon(&self, dead: Dead<'_>) -> Result<Vec<Run>, Error> {
        let mut session = self.engine.transaction().await?;
        let now_ms = self.engine.now_ms(&mut session).await?;
        // A row that is locked is just now being finished by a node that is very much alive.
        let running = self.engine.query(concat!(sql::running!(), " FOR UPDATE SKIP LOCKED"));
        let running = running.bind(sql::before(now_ms, dead.older_than)).bind(None::<String>);
        let running: Vec<Run> = session.all(running.bind(STEP_MAX as i64)).await?;
        let mut abandoned = Vec::new();
        for run in running.into_iter().filter(|run| dead.includes(&run.node)) {
            session.execute(self.engine.query(sql::ABANDON).bind(run.id.0).bind(now_ms)).await?;
            abandoned.push(sql::abandoned(run, now_ms));
        }
        self.add(&mut session, sql::abandon_deltas(&abandoned)).await?;
        session.commit().await?;
        Ok(abandoned)
    }

    async fn trim(&self, job: &str, keep: Keep, limit: usize) -> Result<u64, Error> {
        let ((by_number, by_age), limit) = (sql::check_keep(keep)?, sql::check_step(limit)?);
        let mut session = self.engine.transaction().await?;
        let before = sql::before(self.engine.now_ms(&mut session).await?, keep.age_max);
        let mut trim = self.engine.query(TRIM).bind(job.to_owned());
        for offset in [by_number, by_age] {
            let nth = self.engine.query(NTH_NEWEST).bind(job.to_owned()).bind(offset);
            let nth: Option<(i64,)> = session.first(nth).await?;
            trim = trim.bind(nth.map_or(0, |(id,)| id));
        }
        let trimmed = session.execute(trim.bind(before).bind(limit)).await?;
        session.commit().await?;
        Ok(trimmed)
    }
}

impl PostgresSchedule {
    pub(crate) fn new(engine: Engine) -> Self {
        Self { engine }
    }

    /// What a claim does in its transaction, of which only a win is to be kept.
    async fn compete(
        &self,
        session: &mut Session,
        entry: &Entry<'_>,
        lock: &str,
        lock_ttl_ms: i64,
    ) -> Result<Claim, Error> {
        let node = entry.intent.node;
        if lock::grant(&self.engine, session, (lock, lease(), node), lock_ttl_ms).await?.is_none() {
            let holder =
                self.engine.query("SELECT holder FROM syncline.locks WHERE name = $1").bind(lock.to_owned());
            let holder: Option<(String,)> = session.first(holder).await?;
            // Between the two statements the key may have expired and been swept.
            let by = holder.map_or_else(|| "unknown".to_owned(), |(by,)| by);
            return Ok(Claim::Taken { by });
        }
        let now_ms = self.engine.now_ms(session).await?;
        if let Some(run_id) = self.insert(session, entry, State::Running, now_ms).await? {
            return Ok(Claim::Won { run_id });
        }
        let found = self.engine.query(concat!(sql::by_bucket!(), " FOR UPDATE"));
        let found = found.bind(entry.intent.job.to_owned()).bind(entry.bucket.clone());
        match session.first::<Run>(found).await? {
            Some(skip) if skip.is_skip() => {
                let run_id = self.upgrade(session, entry, &skip, now_ms).await?;
                Ok(Claim::Won { run_id })
            }
            Some(run) => Ok(Claim::Taken { by: run.node }),
            None => {
                let reason = "the bucket's record was removed at this moment".to_owned();
                Err(Error::Busy { store: self.engine.name().to_owned(), reason })
            }
        }
    }

    /// Inserts the row, unless its bucket has one, and counts it.
    async fn insert(
        &self,
        session: &mut Session,
        entry: &Entry<'_>,
        state: State,
        now_ms: i64,
    ) -> Result<Option<RunId>, Error> {
        let (intent, skipped) = (entry.intent, state == State::Skipped);
        let statement = self
            .engine
            .query(sql::INSERT)
            .bind(intent.job.to_owned())
            .bind(entry.bucket.clone())
            .bind(intent.node.to_owned())
            .bind(intent.reason.as_str())
            .bind(state.as_str())
            .bind(now_ms)
            .bind(skipped.then_some(now_ms))
            .bind(entry.cost);
        let Some((id,)) = session.first(statement).await? else { return Ok(None) };
        let decision = if skipped { "skip" } else { "run" };
        let key = (intent.job.to_owned(), decision, intent.reason.as_str().to_owned());
        self.add(session, Deltas::from([(key, Delta::plus(entry.cost))])).await?;
        Ok(Some(RunId(id)))
    }

    /// Makes a run of the skip on record.
    async fn upgrade(
        &self,
        session: &mut Session,
        entry: &Entry<'_>,
        skip: &Run,
        now_ms: i64,
    ) -> Result<RunId, Error> {
        let reason = entry.intent.reason.as_str();
        let statement = self
            .engine
            .query(sql::UPGRADE)
            .bind(skip.id.0)
            .bind(entry.intent.node.to_owned())
            .bind(reason)
            .bind(now_ms)
            .bind(entry.cost);
        session.execute(statement).await?;
        self.add(session, sql::upgrade(skip, reason, entry.cost)).await?;
        Ok(skip.id)
    }

    async fn add(&self, session: &mut Session, deltas: Deltas) -> Result<(), Error> {
        for ((job, decision, reason), delta) in deltas {
            let statement = self
                .engine
                .query(sql::ADD)
                .bind(job)
                .bind(decision)
                .bind(reason)
                .bind(delta.count)
                .bind(delta.failed)
                .bind(delta.abandoned)
                .bind(delta.cost);
            session.execute(statement).await?;
        }
        Ok(())
    }

    /// Runs a statement that only reads runs.
    async fn read(&self, statement: Statement) -> Result<Vec<Run>, Error> {
        let mut session = self.engine.statement().await?;
        let runs = session.all(statement).await?;
        session.commit().await?;
        Ok(runs)
    }
}
