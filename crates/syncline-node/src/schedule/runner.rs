//! Runs one job in this process: waits for a firing, decides, claims it, works, and records what came of it.
//!
//! A runner handles one firing after the other; the work itself runs beside it, so that firings during a long run are seen
//! and skipped with a reason instead of piling up. The order of questions is core's: viewers, claim, input.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use futures::FutureExt;
use syncline_core::schedule::{
    self as rules, Audience, Bucket, CatchUp, Cost, Decision, Facts, Gate, LocalRuns, Reason, Ticker, Trigger,
};
use syncline_core::time::Timestamp;
use syncline_store::schedule::{Claim, Ending, Intent, Outcome, RunId};
use tokio::sync::{Mutex, Notify, mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::Job;
use super::record::{Meters, RunView};
use super::work::{Ended, Failure, Firing, Tools};
use super::{SchedulerDeps, input};
use crate::clock;

/// How long a bucket's lock key is kept.
const LOCK_TTL: Duration = Duration::from_secs(55);

/// How long a run under way may go on when the node stops.
const STOP_GRACE: Duration = Duration::from_secs(10);

/// The longest a runner sleeps: a wall clock that was set is noticed within this time.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// How often a run looks whether somebody on another node wants it to end.
const LOOK_FOR_CANCEL: Duration = Duration::from_secs(2);

/// Where the answer to a request for a run goes.
pub(super) type RunRequest = oneshot::Sender<RunView>;

/// Where runs are started and when they are to end.
#[derive(Clone)]
pub(super) struct RunControl {
    pub(super) stop: CancellationToken,
    pub(super) tracker: TaskTracker,
}

/// One job in this process.
pub(super) struct JobRunner {
    pub(super) job: Job,
    deps: SchedulerDeps,
    tools: Tools,
    meters: Meters,
    /// Runs asked for by hand; locked by [`JobRunner::run`] for as long as it runs.
    requests: Mutex<mpsc::Receiver<RunRequest>>,
    running: AtomicBool,
    /// What was last known about it: a store that does not answer starts no paused job.
    paused: AtomicBool,
    /// Somebody on this node has asked for the end of the run under way.
    cancelled: Notify,
    /// A run has ended.
    ended: Notify,
    next_at_ms: AtomicU64,
}

/// A run that is to begin. `id` is `None` where the store could not be asked.
struct Started {
    id: Option<RunId>,
    reason: Reason,
    view: RunView,
    firing: Firing,
    hash: Option<String>,
}

impl JobRunner {
    pub(super) fn new(
        job: Job,
        deps: SchedulerDeps,
        tools: Tools,
        requests: mpsc::Receiver<RunRequest>,
    ) -> JobRunner {
        let meters = Meters::new(&deps.metrics, &job.name);
        let requests = Mutex::new(requests);
        JobRunner {
            job,
            deps,
            tools,
            meters,
            requests,
            running: AtomicBool::new(false),
            paused: AtomicBool::new(false),
            cancelled: Notify::new(),
            ended: Notify::new(),
            next_at_ms: AtomicU64::new(0),
        }
    }

    pub(super) fn is_running(&self) -> bool {
        self.running.load(Ordering::Acquire)
    }

    /// The next firing, for display.
    pub(super) fn next_at(&self) -> Option<Timestamp> {
        match self.next_at_ms.load(Ordering::Relaxed) {
            0 => None,
            ms => Some(Timestamp::from_ms(ms)),
        }
    }

    /// Handles firings, arrivals and requests by hand until told to stop.
    pub(super) async fn run(self: Arc<Self>, control: RunControl) {
        let mut requests = self.requests.lock().await;
        let last = self.last_firing().await;
        let mut ticker = Ticker::resuming(self.job.cron.clone(), clock::wall(), self.job.catch_up, last);
        let mut local_runs = LocalRuns::default();
        let mut occupancy = self.deps.viewers.occupancy();
        let mut arrivals = self.deps.viewers.room_arrivals();
        loop {
            let wall = clock::wall();
            // Where every firing is to be run, the next one waits for the end of the one before.
            let waits = self.job.catch_up == CatchUp::All && self.is_running();
            if let Some(bucket) = (!waits).then(|| ticker.due(wall)).flatten() {
                self.fire(Trigger::Tick, bucket, &mut local_runs, &control).await;
                continue;
            }
            let next_at = ticker.next_at();
            self.next_at_ms.store(next_at.map_or(0, Timestamp::as_ms), Ordering::Relaxed);
            let pause = next_at.map_or(LOOK_AGAIN, |next_at| next_at.saturating_since(wall)).min(LOOK_AGAIN);
            tokio::select! {
                () = control.stop.cancelled() => break,
                () = tokio::time::sleep(pause) => {}
                () = self.ended.notified(), if waits => {}
                Some(answer) = requests.recv() => {
                    let view = self.fire(Trigger::Manual, Bucket::second(wall), &mut local_runs, &control).await;
                    // Whoever asked may have gone; the run goes on.
                    drop(answer.send(view));
                }
                arrived = arrivals.recv(), if self.job.on_arrival && self.job.room.is_some() => {
                    // One that was missed may have been ours; whoever is there decides.
                    let ours = arrived.map_or(true, |room| Some(&*room) == self.job.room.as_deref());
                    if let Some(bucket) = ticker.current(clock::wall()).filter(|_| ours) {
                        self.fire(Trigger::Arrival, bucket, &mut local_runs, &control).await;
                    }
                }
                Ok(()) = occupancy.changed(), if self.job.on_arrival && self.job.room.is_none() => {
                    let arrived = *occupancy.borrow_and_update();
                    if let Some(bucket) = ticker.current(clock::wall()).filter(|_| arrived) {
                        self.fire(Trigger::Arrival, bucket, &mut local_runs, &control).await;
                    }
                }
            }
        }
    }

    /// Announces what happened to `view`'s run.
    pub(super) fn announce(&self, view: RunView) -> RunView {
        self.deps.events.publish_in("job", &self.job.name, &view);
        view
    }

    async fn fire(
        self: &Arc<Self>,
        trigger: Trigger,
        bucket: Bucket,
        local_runs: &mut LocalRuns,
        control: &RunControl,
    ) -> RunView {
        let audience = match self.job.gate {
            // Nobody has to be asked who is watching.
            Gate::Always if trigger == Trigger::Tick => Audience::NotConfigured,
            _ => match &self.job.room {
                None => self.deps.viewers.audience(self.job.gate).await,
                Some(room) => self.deps.viewers.room_audience(self.job.gate, room).await,
            },
        };
        if audience == Audience::Unreadable {
            tracing::error!(job = self.job.name, %bucket, "viewers could not be read; the job runs as if somebody watched");
        }
        let facts = Facts { trigger, gate: self.job.gate, audience, running: self.is_running() };
        let decision = rules::decide(facts).unless_paused(self.is_paused().await);
        let (decision, run) = self.claim(trigger, decision, bucket, local_runs).await;
        let viewers = match audience {
            Audience::Known { viewers, .. } => viewers,
            Audience::Unreadable | Audience::NotConfigured => 0,
        };
        let firing = Firing { job: self.job.name.clone(), bucket, viewers };
        let hash = if decision.runs() { self.input_hash(&firing).await } else { None };
        let decision = decision.compared(self.unchanged(hash.as_deref()).await);
        let view = RunView::of(
            &self.job,
            &self.deps.node,
            run,
            bucket,
            decision.reason(),
            self.cost(decision.reason()),
        );
        match decision {
            Decision::Skip(reason) => self.skip(view, run, bucket, reason).await,
            Decision::Run(reason) => {
                self.meters.run(reason);
                tracing::info!(job = self.job.name, %bucket, %reason, "a job runs");
                // A word that came when the run before had just ended is not about this one.
                let _ = self.cancelled.notified().now_or_never();
                self.running.store(true, Ordering::Release);
                let started = Started { id: run, reason, view: view.clone(), firing, hash };
                self.announce(view.clone());
                control.tracker.spawn(Arc::clone(self).work(started, control.stop.clone()));
                view
            }
        }
    }

    /// Competes for the bucket where the decision so far is to run.
    async fn claim(
        &self,
        trigger: Trigger,
        decision: Decision,
        bucket: Bucket,
        local_runs: &mut LocalRuns,
    ) -> (Decision, Option<RunId>) {
        let Decision::Run(reason) = decision else { return (decision, None) };
        let intent = self.intent(reason);
        if trigger == Trigger::Manual {
            // It belongs to no bucket, so there is nothing to compete for; who asks gets a run, on record or not.
            return (decision, self.count_store_errors(self.deps.store.start(&intent).await));
        }
        let claim = self.count_store_errors(self.deps.store.claim(&intent, bucket, LOCK_TTL).await);
        let (claim, run) = match claim {
            Some(Claim::Won { run_id }) => (rules::Claim::Won, Some(run_id)),
            Some(Claim::Taken { .. }) => (rules::Claim::Taken, None),
            None => (rules::Claim::Unreadable, None),
        };
        (decision.claimed(claim, bucket, local_runs), run)
    }

    /// Puts a skip on record, whether the bucket was claimed before or not.
    async fn skip(&self, view: RunView, run: Option<RunId>, bucket: Bucket, reason: Reason) -> RunView {
        self.meters.skip(reason, self.cost(reason));
        tracing::info!(job = self.job.name, %bucket, "skipped: {}", reason.as_str().trim_start_matches("skip: "));
        let recorded = match (run, reason) {
            (Some(run), _) => {
                let outcome = Outcome {
                    ending: Ending::Skipped(reason),
                    attempts: 0,
                    detail: String::new(),
                    cost: self.cost(reason),
                };
                self.count_store_errors(self.deps.store.finish(run, &outcome).await).map(|_| run)
            }
            // The bucket's record is the other node's run.
            (None, Reason::AnotherNode) => None,
            (None, _) => self
                .count_store_errors(self.deps.store.record_skip(&self.intent(reason), bucket).await)
                .flatten(),
        };
        self.announce(view.ended(recorded))
    }

    /// Does the work and writes down what came of it.
    async fn work(self: Arc<Self>, started: Started, stop: CancellationToken) {
        let began = clock::now();
        let Ended { attempts, result } = tokio::select! {
            ended = self.tools.run(&self.job, &started.firing) => ended,
            () = given_up(&stop) => Ended { attempts: 1, result: Err(Failure::Stopped) },
            () = self.cancelled(started.id) => Ended { attempts: 1, result: Err(Failure::Cancelled) },
        };
        self.meters.took(clock::now().saturating_since(began), result.is_ok());
        let (ending, detail) = match result {
            Ok(done) => (Ending::Done, done.detail),
            Err(failure) => {
                tracing::error!(job = self.job.name, attempts, error = %failure, "a job failed");
                (Ending::Failed, failure.to_string())
            }
        };
        if let (Ending::Done, Some(hash)) = (ending, &started.hash) {
            self.count_store_errors(input::remember(&*self.deps.kv, &self.job.name, hash).await);
        }
        self.running.store(false, Ordering::Release);
        self.ended.notify_one();
        let cost = self.cost(started.reason);
        let outcome = Outcome { ending, attempts, detail, cost };
        let recorded = match started.id {
            Some(id) => self.count_store_errors(self.deps.store.finish(id, &outcome).await).flatten(),
            None => None,
        };
        self.announce(recorded.map_or_else(|| started.view.finished(&outcome), RunView::from));
    }

    /// Ends the run under way on this node, if there is one.
    pub(super) fn cancel(&self) {
        if self.is_running() {
            self.cancelled.notify_one();
        }
    }

    /// Whether somebody has paused it, on whatever node.
    pub(super) async fn is_paused(&self) -> bool {
        if let Some(control) = self.count_store_errors(self.deps.store.control(&self.job.name).await) {
            self.paused.store(control.paused_at.is_some(), Ordering::Relaxed);
        }
        self.paused.load(Ordering::Relaxed)
    }

    /// Waits until somebody wants this run to end: here at once, on another node a little later.
    async fn cancelled(&self, run: Option<RunId>) {
        loop {
            tokio::select! {
                () = self.cancelled.notified() => return,
                () = tokio::time::sleep(LOOK_FOR_CANCEL) => {}
            }
            let control = self.deps.store.control(&self.job.name).await.unwrap_or_default();
            if run.is_some() && control.cancelled == run {
                return;
            }
        }
    }

    /// The last firing that any node dealt with, where that matters.
    async fn last_firing(&self) -> Option<Timestamp> {
        if self.job.catch_up == CatchUp::None {
            return None;
        }
        let last = self.count_store_errors(self.deps.store.last_bucket(&self.job.name).await);
        last.flatten().map(Bucket::starts_at)
    }

    async fn input_hash(&self, firing: &Firing) -> Option<String> {
        input::hash(&self.job, &self.tools.client, &self.tools.kinds, firing).await.unwrap_or_else(|error| {
            // In doubt the input has changed.
            tracing::warn!(job = self.job.name, %error, "a job's input could not be read");
            None
        })
    }

    async fn unchanged(&self, hash: Option<&str>) -> bool {
        let Some(hash) = hash else { return false };
        self.count_store_errors(input::is_remembered(&*self.deps.kv, &self.job.name, hash).await)
            .unwrap_or(false)
    }

    /// What the store answered; its failures are counted and logged here, and never stop the work.
    fn count_store_errors<T>(&self, answer: Result<T, syncline_store::Error>) -> Option<T> {
        answer
            .inspect_err(|error| {
                self.meters.store_error();
                tracing::error!(job = self.job.name, %error, "the store did not answer the schedule");
            })
            .ok()
    }

    fn intent(&self, reason: Reason) -> Intent<'_> {
        Intent { job: &self.job.name, node: &self.deps.node, reason, cost: self.cost(reason) }
    }

    /// What a run costs or a skip saves; a skip that another pays for saves nothing.
    fn cost(&self, reason: Reason) -> Cost {
        if reason.runs() || reason.saves() { self.job.cost } else { Cost::default() }
    }
}

async fn given_up(stop: &CancellationToken) {
    stop.cancelled().await;
    tokio::time::sleep(STOP_GRACE).await;
}
