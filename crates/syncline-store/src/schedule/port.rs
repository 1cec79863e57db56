//! The schedule on every engine. Its statements are in `sql/schedule*.sql`.
//!
//! Rows are locked before they are judged. Every transaction takes its locks in the same order (the bucket's
//! lock, rows of runs, rows of totals by job, decision and reason), so that no two can wait for each other.

use std::time::Duration;

use async_trait::async_trait;
use syncline_core::schedule::Bucket;
use syncline_core::time::Timestamp;

use super::record::{self, Delta, Deltas};
use super::{
    Claim, Control, Dead, Filter, HISTORY_MAX, Intent, Keep, Nodes, Outcome, Run, RunId, STEP_MAX, Schedule,
    Show, State, Totals, lease, lock_name,
};
use crate::Error;
use crate::database::{Database, Transaction, shared_statements, statements, values};
use crate::kv::check_ttl;
use crate::lock;

shared_statements!("schedule": INSERT, UPGRADE, FINISH, ABANDON, ADD, BY_ID, RUNNING, HISTORY, TOTALS, TOTALS_OF_JOB,
    JOB, PAUSE, RESUME, CANCEL, LAST_BUCKET);
statements!("schedule":
    LOCK_RUN, LOCK_BUCKET, LOCK_RUNNING, HISTORY_OF_JOB, HISTORY_OF_KIND, HISTORY_OF_JOB_AND_KIND, NTH_NEWEST, TRIM);

/// The schedule port.
#[derive(Debug)]
pub(crate) struct Port {
    database: Database,
}

impl Port {
    pub(crate) fn new(database: Database) -> Self {
        Self { database }
    }
}

#[async_trait]
impl Schedule for Port {
    async fn claim(&self, intent: &Intent<'_>, bucket: Bucket, lock_ttl: Duration) -> Result<Claim, Error> {
        let entry = Entry::new(intent, record::check_intent(intent, true)?, Some(bucket));
        let (lock, lock_ttl_ms) = (lock_name(bucket, intent.job), check_ttl(lock_ttl)?);
        self.database
            .write(move |transaction| {
                Box::pin(async move {
                    let claim = entry.compete(transaction, &lock, lock_ttl_ms).await?;
                    // Of a transaction that did not win, the bucket's lock is not to be kept either.
                    if matches!(claim, Claim::Taken { .. }) {
                        transaction.undo();
                    }
                    Ok(claim)
                })
            })
            .await
    }

    async fn start(&self, intent: &Intent<'_>) -> Result<RunId, Error> {
        let entry = Entry::new(intent, record::check_intent(intent, true)?, None);
        let inserted = self.record(entry, State::Running).await?;
        Ok(inserted.expect("a row without a bucket conflicts with none"))
    }

    async fn finish(&self, run: RunId, outcome: &Outcome) -> Result<Option<Run>, Error> {
        let (cost, outcome) = (record::check_outcome(outcome)?, outcome.clone());
        self.database.write(move |transaction| Box::pin(finish(transaction, run, outcome, cost))).await
    }

    async fn record_skip(&self, intent: &Intent<'_>, bucket: Bucket) -> Result<Option<RunId>, Error> {
        let entry = Entry::new(intent, record::check_intent(intent, false)?, Some(bucket));
        self.record(entry, State::Skipped).await
    }

    async fn run(&self, run: RunId) -> Result<Option<Run>, Error> {
        self.database.query_first(BY_ID, values![run.0]).await
    }

    async fn running(&self, job: Option<&str>) -> Result<Vec<Run>, Error> {
        self.database.query(RUNNING, values![job, HISTORY_MAX as i64]).await
    }

    async fn history(
        &self,
        filter: Filter<'_>,
        before: Option<RunId>,
        limit: usize,
    ) -> Result<Vec<Run>, Error> {
        let limit = record::check_history(limit)?;
        let before = before.map_or(i64::MAX, |run| run.0);
        let kind = match filter.show {
            Show::All => None,
            Show::Runs => Some(0_i64),
            Show::Skips => Some(1),
        };
        let (sql, values) = match (filter.job, kind) {
            (None, None) => (HISTORY, values![before, limit]),
            (Some(job), None) => (HISTORY_OF_JOB, values![before, limit, job]),
            (None, Some(kind)) => (HISTORY_OF_KIND, values![before, limit, kind]),
            (Some(job), Some(kind)) => (HISTORY_OF_JOB_AND_KIND, values![before, limit, kind, job]),
        };
        self.database.query(sql, values).await
    }

    async fn totals(&self, job: Option<&str>) -> Result<Totals, Error> {
        let rows = match job {
            Some(job) => self.database.query(TOTALS_OF_JOB, values![job]).await?,
            None => self.database.query(TOTALS, values![]).await?,
        };
        Ok(record::sum(rows))
    }

    async fn abandon(&self, dead: Dead<'_>) -> Result<Vec<Run>, Error> {
        let (older_than, nodes) = (dead.older_than, DeadNodes::of(dead.nodes));
        self.database.write(move |transaction| Box::pin(abandon(transaction, older_than, nodes))).await
    }

    async fn control(&self, job: &str) -> Result<Control, Error> {
        let row: Option<(Option<i64>, Option<i64>)> = self.database.query_first(JOB, values![job]).await?;
        let (paused_at, cancelled) = row.unwrap_or_default();
        let moment = |ms: i64| Timestamp::from_ms(ms.unsigned_abs());
        Ok(Control { paused_at: paused_at.map(moment), cancelled: cancelled.map(RunId) })
    }

    async fn pause(&self, job: &str) -> Result<(), Error> {
        record::check_name("job", job)?;
        let job = job.to_owned();
        let pause = self.database.write(move |transaction| {
            Box::pin(async move {
                let now_ms = transaction.now_ms().await?;
                transaction.execute(PAUSE, &values![job, now_ms]).await.map(drop)
            })
        });
        pause.await
    }

    async fn resume(&self, job: &str) -> Result<(), Error> {
        self.database.execute(RESUME, values![job]).await.map(drop)
    }

    async fn cancel(&self, job: &str, run: RunId) -> Result<(), Error> {
        record::check_name("job", job)?;
        self.database.execute(CANCEL, values![job, run.0]).await.map(drop)
    }

    async fn last_bucket(&self, job: &str) -> Result<Option<Bucket>, Error> {
        let row: Option<(Option<String>,)> = self.database.query_first(LAST_BUCKET, values![job]).await?;
        Ok(row.and_then(|(bucket,)| bucket).and_then(|bucket| bucket.parse().ok()))
    }

    async fn trim(&self, job: &str, keep: Keep, limit: usize) -> Result<u64, Error> {
        let (offsets, limit) = (record::check_keep(keep)?, record::check_step(limit)?);
        let (job, age_max) = (job.to_owned(), keep.age_max);
        self.database
            .write(move |transaction| Box::pin(trim(transaction, job, offsets, age_max, limit)))
            .await
    }
}

impl Port {
    async fn record(&self, entry: Entry, state: State) -> Result<Option<RunId>, Error> {
        self.database
            .write(move |transaction| {
                Box::pin(async move {
                    let now_ms = transaction.now_ms().await?;
                    entry.insert(transaction, state, now_ms).await
                })
            })
            .await
    }
}

/// Whose runs are dead, as the transaction takes it along.
struct DeadNodes {
    names: Vec<String>,
    /// Whether it is these that are dead, or all others.
    are_these: bool,
}

impl DeadNodes {
    fn of(nodes: Nodes<'_>) -> Self {
        let (names, are_these) = match nodes {
            Nodes::Only(names) => (names, true),
            Nodes::AllBut(names) => (names, false),
        };
        Self { names: names.iter().map(|name| (*name).to_owned()).collect(), are_these }
    }

    fn includes(&self, node: &str) -> bool {
        self.names.iter().any(|name| name == node) == self.are_these
    }
}

/// What is to be put on record.
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

    /// What a claim does in its transaction, of which only a win is to be kept.
    async fn compete(
        &self,
        transaction: &mut Transaction<'_>,
        lock: &str,
        lock_ttl_ms: i64,
    ) -> Result<Claim, Error> {
        if let Err(by) = lock::grant(transaction, (lock, lease(), &self.node), lock_ttl_ms).await? {
            return Ok(Claim::Taken { by });
        }
        let now_ms = transaction.now_ms().await?;
        if let Some(run_id) = self.insert(transaction, State::Running, now_ms).await? {
            return Ok(Claim::Won { run_id });
        }
        let found = values![&self.job, self.bucket.as_deref()];
        match transaction.query_first::<Run>(LOCK_BUCKET, &found).await? {
            Some(skip) if skip.is_skip() => {
                let run_id = self.upgrade(transaction, &skip, now_ms).await?;
                Ok(Claim::Won { run_id })
            }
            Some(run) => Ok(Claim::Taken { by: run.node }),
            None => {
                let reason = "the bucket's record was removed at this moment".to_owned();
                Err(Error::Busy { store: "the schedule".to_owned(), reason })
            }
        }
    }

    /// Inserts the row, unless its bucket has one, and counts it.
    async fn insert(
        &self,
        transaction: &mut Transaction<'_>,
        state: State,
        now_ms: i64,
    ) -> Result<Option<RunId>, Error> {
        let skipped = state == State::Skipped;
        let finished_at = skipped.then_some(now_ms);
        let (bucket, state) = (self.bucket.as_deref(), state.as_str());
        let values =
            values![&self.job, bucket, &self.node, self.reason, state, now_ms, finished_at, self.cost];
        let Some((id,)) = transaction.query_first(INSERT, &values).await? else { return Ok(None) };
        let decision = if skipped { "skip" } else { "run" };
        let key = (self.job.clone(), decision, self.reason.to_owned());
        add(transaction, Deltas::from([(key, Delta::plus(self.cost))])).await?;
        Ok(Some(RunId(id)))
    }

    /// Makes a run of the skip on record.
    async fn upgrade(
        &self,
        transaction: &mut Transaction<'_>,
        skip: &Run,
        now_ms: i64,
    ) -> Result<RunId, Error> {
        let values = values![skip.id.0, &self.node, self.reason, now_ms, self.cost];
        transaction.execute(UPGRADE, &values).await?;
        add(transaction, record::upgrade(skip, self.reason, self.cost)).await?;
        Ok(skip.id)
    }
}

async fn add(transaction: &mut Transaction<'_>, deltas: Deltas) -> Result<(), Error> {
    for ((job, decision, reason), delta) in deltas {
        let Delta { count, failed, abandoned, cost } = delta;
        transaction.execute(ADD, &values![job, decision, reason, count, failed, abandoned, cost]).await?;
    }
    Ok(())
}

async fn finish(
    transaction: &mut Transaction<'_>,
    id: RunId,
    outcome: Outcome,
    cost: i64,
) -> Result<Option<Run>, Error> {
    let run: Option<Run> = transaction.query_first(LOCK_RUN, &values![id.0]).await?;
    let Some(finish) = run.and_then(|run| record::finish(&run, &outcome, cost)) else { return Ok(None) };
    let now_ms = transaction.now_ms().await?;
    let values = values![
        id.0,
        finish.reason,
        finish.state.as_str(),
        now_ms,
        finish.attempts,
        finish.detail,
        finish.cost
    ];
    transaction.execute(FINISH, &values).await?;
    add(transaction, finish.deltas).await?;
    transaction.query_first(BY_ID, &values![id.0]).await
}

async fn abandon(
    transaction: &mut Transaction<'_>,
    older_than: Duration,
    nodes: DeadNodes,
) -> Result<Vec<Run>, Error> {
    let now_ms = transaction.now_ms().await?;
    let doomed = values![record::before(now_ms, older_than), STEP_MAX as i64];
    let mut abandoned = Vec::new();
    for run in transaction.query::<Run>(LOCK_RUNNING, &doomed).await? {
        if nodes.includes(&run.node) {
            transaction.execute(ABANDON, &values![run.id.0, now_ms]).await?;
            abandoned.push(record::abandoned(run, now_ms));
        }
    }
    add(transaction, record::abandon_deltas(&abandoned)).await?;
    Ok(abandoned)
}

async fn trim(
    transaction: &mut Transaction<'_>,
    job: String,
    (by_number, by_age): (i64, i64),
    age_max: Duration,
    limit: i64,
) -> Result<u64, Error> {
    let before = record::before(transaction.now_ms().await?, age_max);
    let mut trim = values![&job];
    for offset in [by_number, by_age] {
        let nth: Option<(i64,)> = transaction.query_first(NTH_NEWEST, &values![&job, offset]).await?;
        trim.push(nth.map_or(0, |(id,)| id).into());
    }
    trim.extend(values![before, limit]);
    transaction.execute(TRIM, &trim).await
}
