//! The schedule on SQLite.
//!
//! The writer runs one change at a time, so a change may look first and write after; nobody comes between.

use std::time::Duration;

use async_trait::async_trait;
use sqlx::sqlite::SqliteConnection;
use syncline_core::schedule::Bucket;

use super::{Engine, lock, statement};
use crate::Error;
use crate::clock::SteadyClock;
use crate::kv::check_ttl;
use crate::schedule::sql::{self, Delta, Deltas};
use crate::schedule::{
    Claim, Dead, Filter, HISTORY_MAX, Intent, Keep, Outcome, Run, RunId, STEP_MAX, Schedule, State, Totals,
    lease, lock_name,
};

/// The schedule port on SQLite.
#[derive(Debug)]
pub(crate) struct SqliteSchedule {
    engine: Engine,
}

#[async_trait]
impl Schedule for SqliteSchedule {
    async fn claim(&self, intent: &Intent<'_>, bucket: Bucket, lock_ttl: Duration) -> Result<Claim, Error> {
        let entry = Entry::new(intent, sql::check_intent(intent, true)?, Some(bucket));
        let (lock, lock_ttl_ms) = (lock_name(bucket, intent.job), check_ttl(lock_ttl)?);
        let clock = self.engine.clock().clone();
        self.engine
            .write(move |connection| {
                Box::pin(async move { claim(connection, &entry, &lock, lock_ttl_ms, &clock).await })
            })
            .await
    }

    async fn start(&self, intent: &Intent<'_>) -> Result<RunId, Error> {
        let entry = Entry::new(intent, sql::check_intent(intent, true)?, None);
        let now_ms = self.engine.clock().wall_ms();
        let inserted = self.engine.write(move |connection| {
            Box::pin(async move { entry.insert(connection, State::Running, now_ms).await })
        });
        Ok(inserted.await?.expect("a row without a bucket conflicts with none"))
    }

    async fn finish(&self, run: RunId, outcome: &Outcome) -> Result<Option<Run>, Error> {
        let (cost, outcome) = (sql::check_outcome(outcome)?, outcome.clone());
        let now_ms = self.engine.clock().wall_ms();
        self.engine
            .write(move |connection| {
                Box::pin(async move { finish(connection, run, &outcome, cost, now_ms).await })
            })
            .await
    }

    async fn record_skip(&self, intent: &Intent<'_>, bucket: Bucket) -> Result<Option<RunId>, Error> {
        let entry = Entry::new(intent, sql::check_intent(intent, false)?, Some(bucket));
        let now_ms = self.engine.clock().wall_ms();
        self.engine
            .write(move |connection| {
                Box::pin(async move { entry.insert(connection, State::Skipped, now_ms).await })
            })
            .await
    }

    async fn run(&self, run: RunId) -> Result<Option<Run>, Error> {
        let run = statement::query_as(sql::BY_ID).bind(run.0);
        self.engine.read(|connection| Box::pin(run.fetch_optional(connection))).await
    }

    async fn running(&self, job: Option<&str>) -> Result<Vec<Run>, Error> {
        let running = statement::query_as(sql::RUNNING).bind(i64::MAX).bind(job.map(str::to_owned));
        let running = running.bind(HISTORY_MAX as i64);
        self.engine.read(|connection| Box::pin(running.fetch_all(connection))).await
    }

    async fn history(
        &self,
        filter: Filter<'_>,
        before: Option<RunId>,
        limit: usize,
    ) -> Result<Vec<Run>, Error> {
        let limit = sql::check_history(limit)?;
        let statement = if filter.job.is_some() { sql::HISTORY_OF_JOB } else { sql::HISTORY };
        let before = before.map_or(i64::MAX, |run| run.0);
        let mut history = statement::query_as(statement).bind(before).bind(filter.show.as_str()).bind(limit);
        if let Some(job) = filter.job {
            history = history.bind(job.to_owned());
        }
        self.engine.read(|connection| Box::pin(history.fetch_all(connection))).await
    }

    async fn totals(&self, job: Option<&str>) -> Result<Totals, Error> {
        let totals = statement::query_as(sql::TOTALS).bind(job.map(str::to_owned));
        Ok(sql::sum(self.engine.read(|connection| Box::pin(totals.fetch_all(connection))).await?))
    }

    async fn abandon(&self, dead: Dead<'_>) -> Result<Vec<Run>, Error> {
        let now_ms = self.engine.clock().wall_ms();
        let running = statement::query_as(sql::RUNNING).bind(sql::before(now_ms, dead.older_than));
        let running = running.bind(None::<String>).bind(STEP_MAX as i64);
        let mut doomed: Vec<Run> =
            self.engine.read(|connection| Box::pin(running.fetch_all(connection))).await?;
        doomed.retain(|run| dead.includes(&run.node));
        if doomed.is_empty() {
            return Ok(doomed);
        }
        self.engine.write(move |connection| Box::pin(abandon(connection, doomed, now_ms))).await
    }

    async fn trim(&self, job: &str, keep: Keep, limit: usize) -> Result<u64, Error> {
        let ((by_number, by_age), limit) = (sql::check_keep(keep)?, sql::check_step(limit)?);
        let (job, before) = (job.to_owned(), sql::before(self.engine.clock().wall_ms(), keep.age_max));
        self.engine
            .write(move |connection| {
                Box::pin(async move { trim(connection, &job, [by_number, by_age], before, limit).await })
            })
            .await
    }
}

impl SqliteSchedule {
    pub(crate) fn new(engine: Engine) -> Self {
        Self { engine }
    }
}

/// An [`Intent`] that can wait for the writer.
struct Entry {
    job: String,
    node: String,
    reason: &'static str,
    cost: i64,
    bucket: Option<String>,
}

impl Entry {
    fn new(intent: &Intent<'_>, cost: i64, bucket: Option<Bucket>) -> Self {
        Self {
            job: intent.job.to_owned(),
            node: intent.node.to_owned(),
            reason: intent.reason.as_str(),
            cost,
            bucket: bucket.map(|bucket| bucket.to_string()),
        }
    }

    /// Inserts the row, unless its bucket has one, and counts it.
    async fn insert(
        &self,
        connection: &mut SqliteConnection,
        state: State,
        now_ms: i64,
    ) -> sqlx::Result<Option<RunId>> {
        let skipped = state == State::Skipped;
        let id: Option<i64> = statement::query_scalar(sql::INSERT)
            .bind(&self.job)
            .bind(&self.bucket)
            .bind(&self.node)
            .bind(self.reason)
            .bind(state.as_str())
            .bind(now_ms)
            .bind(skipped.then_some(now_ms))
            .bind(self.cost)
            .fetch_optional(&mut *connection)
            .await?;
        if id.is_some() {
            let decision = if skipped { "skip" } else { "run" };
            let key = (self.job.clone(), decision, self.reason.to_owned());
            add(connection, Deltas::from([(key, Delta::plus(self.cost))])).await?;
        }
        Ok(id.map(RunId))
    }

    /// Makes a run of the skip on record.
    async fn upgrade(
        &self,
        connection: &mut SqliteConnection,
        skip: &Run,
        now_ms: i64,
    ) -> sqlx::Result<RunId> {
        statement::query(sql::UPGRADE)
            .bind(skip.id.0)
            .bind(&self.node)
            .bind(self.reason)
            .bind(now_ms)
            .bind(self.cost)
            .execute(&mut *connection)
            .await?;
        add(connection, sql::upgrade(skip, self.reason, self.cost)).await?;
        Ok(skip.id)
    }
}

async fn add(connection: &mut SqliteConnection, deltas: Deltas) -> sqlx::Result<()> {
    for ((job, decision, reason), delta) in deltas {
        statement::query(sql::ADD)
            .bind(job)
            .bind(decision)
            .bind(reason)
            .bind(delta.count)
            .bind(delta.failed)
            .bind(delta.abandoned)
            .bind(delta.cost)
            .execute(&mut *connection)
            .await?;
    }
    Ok(())
}

/// What the claim does once the writer has come to it. It writes nothing before it has won.
async fn claim(
    connection: &mut SqliteConnection,
    entry: &Entry,
    lock: &str,
    lock_ttl_ms: i64,
    clock: &SteadyClock,
) -> sqlx::Result<Claim> {
    let found: Option<Run> = statement::query_as(sql::BY_BUCKET)
        .bind(&entry.job)
        .bind(&entry.bucket)
        .fetch_optional(&mut *connection)
        .await?;
    if let Some(run) = found.as_ref().filter(|run| !run.is_skip()) {
        return Ok(Claim::Taken { by: run.node.clone() });
    }
    let asked = (lock, lease(), entry.node.as_str());
    if let Err(by) = lock::grant_synced(connection, asked, lock_ttl_ms, clock).await? {
        return Ok(Claim::Taken { by });
    }
    let wall_ms = clock.wall_ms();
    let run_id = match found {
        Some(skip) => entry.upgrade(connection, &skip, wall_ms).await?,
        None => {
            let inserted = entry.insert(connection, State::Running, wall_ms).await?;
            inserted.ok_or(sqlx::Error::RowNotFound)?
        }
    };
    Ok(Claim::Won { run_id })
}

async fn finish(
    connection: &mut SqliteConnection,
    id: RunId,
    outcome: &Outcome,
    cost: i64,
    now_ms: i64,
) -> sqlx::Result<Option<Run>> {
    let run: Option<Run> =
        statement::query_as(sql::BY_ID).bind(id.0).fetch_optional(&mut *connection).await?;
    let Some(finish) = run.and_then(|run| sql::finish(&run, outcome, cost)) else { return Ok(None) };
    statement::query(sql::FINISH)
        .bind(id.0)
        .bind(finish.reason)
        .bind(finish.state.as_str())
        .bind(now_ms)
        .bind(finish.attempts)
        .bind(finish.detail)
        .bind(finish.cost)
        .execute(&mut *connection)
        .await?;
    add(connection, finish.deltas).await?;
    statement::query_as(sql::BY_ID).bind(id.0).fetch_optional(connection).await
}

async fn abandon(connection: &mut SqliteConnection, doomed: Vec<Run>, now_ms: i64) -> sqlx::Result<Vec<Run>> {
    let mut abandoned = Vec::new();
    for run in doomed {
        // It may have ended since it was read.
        let done =
            statement::query(sql::ABANDON).bind(run.id.0).bind(now_ms).execute(&mut *connection).await?;
        if done.rows_affected() > 0 {
            abandoned.push(sql::abandoned(run, now_ms));
        }
    }
    add(connection, sql::abandon_deltas(&abandoned)).await?;
    Ok(abandoned)
}

async fn trim(
    connection: &mut SqliteConnection,
    job: &str,
    offsets: [i64; 2],
    before: i64,
    limit: i64,
) -> sqlx::Result<u64> {
    let mut ids = [0; 2];
    for (id, offset) in ids.iter_mut().zip(offsets) {
        let nth = statement::query_scalar(sql::NTH_NEWEST).bind(job).bind(offset);
        *id = nth.fetch_optional(&mut *connection).await?.unwrap_or(0);
    }
    let trim = statement::query(sql::TRIM).bind(job).bind(ids[0]).bind(ids[1]).bind(before).bind(limit);
    Ok(trim.execute(connection).await?.rows_affected())
}
