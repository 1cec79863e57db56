//! Jobs and runs as answers, events and metrics show them.

use std::collections::BTreeMap;
use std::time::Duration;

use metrics::{Counter, Histogram};
use serde::Serialize;
use syncline_core::schedule::{Bucket, Cost, Reason};
use syncline_core::time::Timestamp;
use syncline_store::schedule::{Ending, Outcome, Run, RunId, State, Totals};

use super::Job;
use crate::clock;
use crate::metrics::Registry;

/// One line of history.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct RunView {
    /// Its number; absent where the store could not be asked.
    #[schema(value_type = Option<i64>)]
    pub id: Option<RunId>,
    /// The job.
    pub job: String,
    /// The firing it belongs to; absent for a run by hand.
    pub bucket: Option<String>,
    /// The node that ran or skipped it.
    pub node: String,
    /// `run` or `skip`.
    pub decision: &'static str,
    /// Why.
    pub reason: String,
    /// Where it stands: running, done, failed, skipped or abandoned.
    #[schema(value_type = String)]
    pub state: State,
    /// When it began, in milliseconds since 1970.
    #[schema(value_type = u64)]
    pub started_at: Timestamp,
    /// When it ended.
    #[schema(value_type = Option<u64>)]
    pub finished_at: Option<Timestamp>,
    /// How often it was tried.
    pub attempts: u32,
    /// What it had to say.
    pub detail: String,
    /// What it cost, or for a skip what it saved.
    pub cost_usd: f64,
}

impl RunView {
    /// A run that begins now, or a skip that is about to be written down.
    pub(super) fn of(
        job: &Job,
        node: &str,
        id: Option<RunId>,
        bucket: Bucket,
        reason: Reason,
        cost: Cost,
    ) -> RunView {
        RunView {
            id,
            job: job.name.clone(),
            bucket: (reason != Reason::ByHand).then(|| bucket.to_string()),
            node: node.to_owned(),
            decision: if reason.runs() { "run" } else { "skip" },
            reason: reason.as_str().to_owned(),
            state: if reason.runs() { State::Running } else { State::Skipped },
            started_at: clock::wall(),
            finished_at: None,
            attempts: 0,
            detail: String::new(),
            cost_usd: cost.as_usd(),
        }
    }

    /// The same as a skip on record.
    pub(super) fn ended(self, id: Option<RunId>) -> RunView {
        RunView { id, finished_at: Some(clock::wall()), ..self }
    }

    /// The same after its end, where the store did not say how it looks now.
    pub(super) fn finished(self, outcome: &Outcome) -> RunView {
        let state = match outcome.ending {
            Ending::Done => State::Done,
            Ending::Failed => State::Failed,
            Ending::Skipped(_) => State::Skipped,
        };
        let (attempts, detail) = (outcome.attempts, outcome.detail.clone());
        RunView { state, attempts, detail, finished_at: Some(clock::wall()), ..self }
    }
}

impl From<Run> for RunView {
    fn from(run: Run) -> RunView {
        RunView {
            id: Some(run.id),
            decision: if run.is_skip() { "skip" } else { "run" },
            job: run.job,
            bucket: run.bucket,
            node: run.node,
            reason: run.reason,
            state: run.state,
            started_at: run.started_at,
            finished_at: run.finished_at,
            attempts: run.attempts,
            detail: run.detail,
            cost_usd: run.cost.as_usd(),
        }
    }
}

/// A job as configured, and how it is doing.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct JobView {
    /// Its name.
    pub name: String,
    /// When it fires, in its time zone.
    pub cron: String,
    /// The time zone that `cron` is read in.
    pub timezone: String,
    /// What is done about firings of an outage: `none`, `one` or `all`.
    pub catch_up: &'static str,
    /// Who must be watching: `viewers`, `visible-viewers`, either with `:` and a room, or `always`.
    pub gate: String,
    /// Since when it is paused, in milliseconds since 1970; `null` if it is not.
    #[schema(value_type = Option<u64>)]
    pub paused_at: Option<Timestamp>,
    /// What one run costs.
    pub cost_usd: f64,
    /// What it does: http, command, or the word of a part.
    pub kind: &'static str,
    /// Its next firing, in milliseconds since 1970.
    #[schema(value_type = Option<u64>)]
    pub next_at: Option<Timestamp>,
    /// Its newest line of history.
    pub last: Option<RunView>,
    /// Whether this node is running it now.
    pub running: bool,
    /// Its totals on all nodes.
    pub totals: TotalsView,
}

/// How a job stands at the moment.
#[derive(Clone, Copy)]
pub(super) struct JobNow {
    pub(super) next_at: Option<Timestamp>,
    pub(super) running: bool,
    pub(super) paused_at: Option<Timestamp>,
}

/// Counts since the store was made.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct TotalsView {
    /// Runs begun.
    pub runs: u64,
    /// Of these, ended badly.
    pub failed: u64,
    /// Of these, left behind by a node that died.
    pub abandoned: u64,
    /// Skips, by reason.
    pub skips: BTreeMap<String, u64>,
    /// What the runs cost.
    pub spent_usd: f64,
    /// What the skips saved.
    pub saved_usd: f64,
}

impl JobView {
    pub(super) fn new(job: &Job, now: JobNow, last: Option<Run>, totals: &Totals) -> JobView {
        let JobNow { next_at, running, paused_at } = now;
        JobView {
            name: job.name.clone(),
            cron: job.cron.as_str().to_owned(),
            timezone: job.cron.zone().name().to_owned(),
            catch_up: job.catch_up.as_str(),
            gate: job.gate_text(),
            paused_at,
            cost_usd: job.cost.as_usd(),
            kind: job.run.kind(),
            next_at,
            last: last.map(RunView::from),
            running,
            totals: TotalsView {
                runs: totals.runs_total(),
                failed: totals.failed,
                abandoned: totals.abandoned,
                skips: totals.skips.clone(),
                spent_usd: totals.spent.as_usd(),
                saved_usd: totals.saved.as_usd(),
            },
        }
    }
}

/// What is counted about one job.
pub(super) struct Meters {
    decisions: [Counter; Reason::ALL.len()],
    saved_micro_usd: Counter,
    done: Histogram,
    failed: Histogram,
    store_errors: Counter,
}

impl Meters {
    pub(super) fn new(registry: &Registry, job: &str) -> Meters {
        let decisions = Reason::ALL.map(|reason| {
            let (decision, why) = reason.as_str().split_once(": ").expect("a reason is a decision and a why");
            let labels = [("name", job), ("decision", decision), ("reason", why)];
            registry.counter(
                "syncline_schedule_decisions_total",
                "Firings, by what was decided and why.",
                &labels,
            )
        });
        let took = |result| {
            let help = "How long runs took, attempts and pauses together.";
            registry.duration("syncline_schedule_run_seconds", help, &[("name", job), ("result", result)])
        };
        let saved_help = "What skipped runs would have cost, in millionths of a dollar.";
        Meters {
            decisions,
            saved_micro_usd: registry.counter(
                "syncline_schedule_saved_micro_usd_total",
                saved_help,
                &[("name", job)],
            ),
            done: took("done"),
            failed: took("failed"),
            store_errors: registry.store_errors("schedule"),
        }
    }

    pub(super) fn run(&self, reason: Reason) {
        self.decided(reason);
    }

    pub(super) fn skip(&self, reason: Reason, saved: Cost) {
        self.decided(reason);
        self.saved_micro_usd.increment(saved.as_micro_usd());
    }

    pub(super) fn took(&self, time: Duration, done: bool) {
        let histogram = if done { &self.done } else { &self.failed };
        histogram.record(time.as_secs_f64());
    }

    pub(super) fn store_error(&self) {
        self.store_errors.increment(1);
    }

    fn decided(&self, reason: Reason) {
        let at = Reason::ALL.iter().position(|known| *known == reason).expect("every reason is in the list");
        self.decisions[at].increment(1);
    }
}
