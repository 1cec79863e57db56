//! The schedule: jobs that run at their time, while somebody watches.
//!
//! Each job has a runner: one task that waits for the job's firings, asks core whether to run, claims the bucket in
//! competition with other nodes and records what came of it. Runners share nothing, so a job that hangs holds up no other.
//! All rules are core's; this file starts runners, passes requests on to them and cleans up after them.
//!
//! What holds: one run for each job and bucket whatever the number of nodes (the store's claim); a store that cannot be
//! read costs at most one run per process and bucket; a run ends within its time-outs; the run of a node that died is
//! marked as abandoned by whoever notices.

mod call;
mod command;
pub(crate) mod config;
mod http;
mod input;
mod kinds;
mod record;
mod runner;
mod work;
mod zones;

use std::sync::Arc;
use std::time::Duration;

use syncline_store::next_minute;
use syncline_store::schedule::{self as store, Dead, Filter, Keep, Nodes, RunId};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::clock;
use crate::events::Bus;
use crate::metrics::Registry;
use crate::viewer::Viewers;

pub use config::{Call, Input, Job, JobKind, Run};
pub(crate) use http::routes;
pub(crate) use input::INPUT_PREFIX;
pub use kinds::{JobKinds, JobWork};
use record::JobNow;
pub use record::{JobView, RunView, TotalsView};
use runner::{JobRunner, RunControl, RunRequest};
pub use work::Firing;

/// Added to the longest a run can take before it counts as nobody's.
const ABANDON_MARGIN: Duration = Duration::from_secs(30);

/// Rows one round of housekeeping removes from a job's history at most.
const TRIM_STEP: usize = 500;

/// Runs asked for by hand that may wait for their runner.
const REQUESTS_MAX: usize = 16;

/// What the schedule needs from the node around it.
#[derive(Clone)]
pub(crate) struct SchedulerDeps {
    /// This process's name among the nodes.
    pub(crate) node: String,
    /// Who is watching.
    pub(crate) viewers: Arc<Viewers>,
    /// Where claims and history are kept.
    pub(crate) store: Arc<dyn store::Schedule>,
    /// Where inputs' hashes are kept.
    pub(crate) kv: Arc<dyn syncline_store::kv::Kv>,
    /// What jobs of parts do.
    pub(crate) kinds: JobKinds,
    /// Where decisions are announced.
    pub(crate) events: Bus,
    /// Where they are counted.
    pub(crate) metrics: Registry,
}

/// The running schedule. Clones are the same one.
#[derive(Clone)]
pub struct Scheduler {
    jobs: Arc<Vec<JobHandle>>,
    store: Arc<dyn store::Schedule>,
}

/// A job as seen from outside its runner.
struct JobHandle {
    runner: Arc<JobRunner>,
    requests: mpsc::Sender<RunRequest>,
}

/// Why a job could not be asked to run.
#[derive(Debug, thiserror::Error)]
pub enum JobError {
    /// Nothing is called that.
    #[error("there is no job called {name:?}")]
    Unknown {
        /// What was asked for.
        name: String,
    },
    /// Too many have asked already.
    #[error("{REQUESTS_MAX} runs of this job are waiting already")]
    Busy,
    /// The node is going down.
    #[error("the node is stopping")]
    Stopping,
    /// There is nothing to end.
    #[error("no run of this job is under way")]
    NotRunning,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] syncline_store::Error),
}

impl Scheduler {
    /// A runner for each job. Nothing runs before [`Scheduler::start`].
    pub(crate) fn new(jobs: &[Job], deps: &SchedulerDeps) -> Scheduler {
        let tools = work::Tools { client: crate::outbound::client(), kinds: deps.kinds.clone() };
        let handles = jobs.iter().map(|job| {
            let (requests, waiting) = mpsc::channel(REQUESTS_MAX);
            let runner = JobRunner::new(job.clone(), deps.clone(), tools.clone(), waiting);
            JobHandle { runner: Arc::new(runner), requests }
        });
        Scheduler { jobs: Arc::new(handles.collect()), store: Arc::clone(&deps.store) }
    }

    /// Starts the runners. They end when `stop` is cancelled; `tracker` waits for them and for runs under way.
    pub(crate) fn start(&self, stop: &CancellationToken, tracker: &TaskTracker) {
        for JobHandle { runner, .. } in self.jobs.iter() {
            let control = RunControl { stop: stop.clone(), tracker: tracker.clone() };
            tracker.spawn(Arc::clone(runner).run(control));
        }
        tracker.spawn(self.clone().keep_house(stop.clone()));
    }

    /// Every job with its last run and its totals.
    pub async fn jobs(&self) -> Result<Vec<JobView>, syncline_store::Error> {
        let mut views = Vec::with_capacity(self.jobs.len());
        for JobHandle { runner, .. } in self.jobs.iter() {
            let filter = Filter { job: Some(&runner.job.name), ..Filter::default() };
            let last = self.store.history(filter, None, 1).await?.pop();
            let totals = self.store.totals(Some(&runner.job.name)).await?;
            let paused_at = self.store.control(&runner.job.name).await?.paused_at;
            let now = JobNow { next_at: runner.next_at(), running: runner.is_running(), paused_at };
            views.push(JobView::new(&runner.job, now, last, &totals));
        }
        Ok(views)
    }

    /// A page of one job's history, newest first; `None` when there is no such job.
    pub async fn history(
        &self,
        job: &str,
        before: Option<i64>,
        limit: usize,
    ) -> Result<Option<Vec<RunView>>, syncline_store::Error> {
        if self.handle(job).is_none() {
            return Ok(None);
        }
        let filter = Filter { job: Some(job), ..Filter::default() };
        let runs = self.store.history(filter, before.map(RunId), limit.min(store::HISTORY_MAX)).await?;
        Ok(Some(runs.into_iter().map(RunView::from).collect()))
    }

    /// Asks for a run now, whoever watches. Answers with the run as it began, or with the skip if one is under way.
    pub async fn run_now(&self, name: &str) -> Result<RunView, JobError> {
        let handle = self.handle(name).ok_or_else(|| JobError::Unknown { name: name.to_owned() })?;
        let (answer, answered) = oneshot::channel();
        handle.requests.try_send(answer).map_err(|refused| match refused {
            mpsc::error::TrySendError::Full(_) => JobError::Busy,
            mpsc::error::TrySendError::Closed(_) => JobError::Stopping,
        })?;
        answered.await.map_err(|_| JobError::Stopping)
    }

    /// Pauses a job on all nodes, or lets it go on.
    pub async fn set_paused(&self, name: &str, paused: bool) -> Result<(), JobError> {
        let handle = self.handle(name).ok_or_else(|| JobError::Unknown { name: name.to_owned() })?;
        let done = if paused { self.store.pause(name).await } else { self.store.resume(name).await };
        done?;
        handle.runner.is_paused().await;
        Ok(())
    }

    /// Ends the runs of a job that are under way, on whatever node: here at once, elsewhere within seconds. Those that are to end.
    pub async fn cancel(&self, name: &str) -> Result<Vec<RunView>, JobError> {
        let handle = self.handle(name).ok_or_else(|| JobError::Unknown { name: name.to_owned() })?;
        let running = self.store.running(Some(name)).await?;
        for run in &running {
            self.store.cancel(name, run.id).await?;
        }
        if running.is_empty() && !handle.runner.is_running() {
            return Err(JobError::NotRunning);
        }
        handle.runner.cancel();
        Ok(running.into_iter().map(RunView::from).collect())
    }

    fn handle(&self, name: &str) -> Option<&JobHandle> {
        self.jobs.iter().find(|handle| handle.runner.job.name == name)
    }

    /// Looks for dead nodes' runs and old history.
    async fn keep_house(self, stop: CancellationToken) {
        while stop.run_until_cancelled(next_minute()).await.is_some() {
            for JobHandle { runner, .. } in self.jobs.iter() {
                if let Err(error) = self.tidy(runner).await {
                    tracing::warn!(job = runner.job.name, %error, "a job's history could not be tidied");
                }
            }
        }
    }

    /// A run older than every attempt and pause it could have made has nobody running it, on whatever node it began.
    async fn tidy(&self, runner: &JobRunner) -> Result<(), syncline_store::Error> {
        let Job { name, timeout, retries, .. } = &runner.job;
        let longest = (*timeout + work::PAUSE_MAX) * (retries + 1) + ABANDON_MARGIN;
        let stale = self
            .store
            .running(Some(name))
            .await?
            .into_iter()
            .filter(|run| clock::wall().saturating_since(run.started_at) > longest);
        let nodes: Vec<String> = stale.map(|run| run.node).collect();
        if !nodes.is_empty() {
            let nodes: Vec<&str> = nodes.iter().map(String::as_str).collect();
            let dead = Dead { nodes: Nodes::Only(&nodes), older_than: longest };
            for run in self.store.abandon(dead).await? {
                runner.announce(RunView::from(run));
            }
        }
        self.store.trim(name, Keep::default(), TRIM_STEP).await?;
        Ok(())
    }
}
