//! The schedule port: who runs which job when, and what came of it.
//!
//! Guarantees, on every engine: of any number of nodes that claim the same bucket of a job, one wins (VW-07);
//! history, totals and the bucket's lock change together or not at all; totals are right at any age, because
//! they are counted as things happen and outlive the rows they were counted from.
//!
//! ```text
//!              record_skip                 claim (another node sees viewers)
//!   bucket ────────────────▶ skipped ──────────────────────────┐
//!      │                        ▲                              ▼
//!      │ claim                  │ finish (input unchanged)   running ──finish──▶ done | failed
//!      └────────────────────────┴───────────────────────────▶  │  ▲                  ▲
//!                                                      abandon │  │                  │ finish, late
//!                                                              ▼  └── start (by hand)│
//!                                                          abandoned ────────────────┘
//! ```
//!
//! When to claim, what to run and which nodes are dead is the node's business.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use syncline_core::lock::LeaseId;
use syncline_core::schedule::{Bucket, Cost, Reason};
use syncline_core::time::Timestamp;

use crate::Error;

pub(crate) mod port;
mod record;

/// Longest job or node name in bytes.
pub const NAME_MAX_BYTES: usize = 128;
/// What a run has to say is cut to this many bytes.
pub const DETAIL_MAX_BYTES: usize = 4_096;
/// Most runs one page of history holds.
pub const HISTORY_MAX: usize = 1_000;
/// Most rows one call of [`Schedule::trim`] removes, and most runs one call of [`Schedule::abandon`] looks at.
pub const STEP_MAX: usize = 1_000;

/// The number of a run; later runs have greater numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct RunId(pub i64);

/// What is about to happen: run or skip `job` on `node`.
#[derive(Debug, Clone, Copy)]
pub struct Intent<'a> {
    /// The job's name.
    pub job: &'a str,
    /// The node's name.
    pub node: &'a str,
    /// Why.
    pub reason: Reason,
    /// What the run will cost, or what the skip saves.
    pub cost: Cost,
}

/// How a claim ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Claim {
    /// The bucket is ours; the run is on record as running.
    Won {
        /// The run to finish.
        run_id: RunId,
    },
    /// Somebody was first.
    Taken {
        /// The node that has the bucket.
        by: String,
    },
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Which way.
    pub ending: Ending,
    /// How often it was tried.
    pub attempts: u32,
    /// What there is to say: a result, an error. Cut to [`DETAIL_MAX_BYTES`].
    pub detail: String,
    /// What it cost in the end, or saved.
    pub cost: Cost,
}

/// The ways a run can end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// It did its work.
    Done,
    /// It did not.
    Failed,
    /// It was claimed but then not worth doing.
    Skipped(Reason),
}

/// Where a run stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// At work.
    Running,
    /// Ended well.
    Done,
    /// Ended badly.
    Failed,
    /// Not run.
    Skipped,
    /// Its node died before saying how it ended.
    Abandoned,
}

/// One line of history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// Its number.
    pub id: RunId,
    /// The job.
    pub job: String,
    /// The firing it belongs to; `None` for a run by hand.
    pub bucket: Option<String>,
    /// The node that ran or skipped it.
    pub node: String,
    /// Why.
    pub reason: String,
    /// Where it stands.
    pub state: State,
    /// When it began, on the wall clock of the store.
    pub started_at: Timestamp,
    /// When it ended.
    pub finished_at: Option<Timestamp>,
    /// How often it was tried.
    pub attempts: u32,
    /// What it had to say.
    pub detail: String,
    /// What it cost, or for a skip what it saved.
    pub cost: Cost,
}

/// What people have decided about a job.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Control {
    /// Since when it is paused.
    pub paused_at: Option<Timestamp>,
    /// The run that is to end.
    pub cancelled: Option<RunId>,
}

/// Which part of the history to show.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Show {
    /// Everything.
    #[default]
    All,
    /// Runs only.
    Runs,
    /// Skips only.
    Skips,
}

/// Which runs to list.
#[derive(Debug, Clone, Copy, Default)]
pub struct Filter<'a> {
    /// One job, or all of them.
    pub job: Option<&'a str>,
    /// Runs, skips or both.
    pub show: Show,
}

/// Counts since the store was created.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Totals {
    /// Runs begun, by reason.
    pub runs: BTreeMap<String, u64>,
    /// Of these, ended badly.
    pub failed: u64,
    /// Of these, left behind by a node that died.
    pub abandoned: u64,
    /// Skips, by reason.
    pub skips: BTreeMap<String, u64>,
    /// What the runs cost.
    pub spent: Cost,
    /// What the skips saved.
    pub saved: Cost,
}

/// Which running runs have nobody running them.
#[derive(Debug, Clone, Copy)]
pub struct Dead<'a> {
    /// Whose.
    pub nodes: Nodes<'a>,
    /// Leave those that began more recently than this: their node may just not be known yet.
    pub older_than: Duration,
}

/// A set of nodes by its members or by everybody else.
#[derive(Debug, Clone, Copy)]
pub enum Nodes<'a> {
    /// These.
    Only(&'a [&'a str]),
    /// All but these.
    AllBut(&'a [&'a str]),
}

/// How much history to keep of each job. Runs that are still running always stay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keep {
    /// Rows beyond this many go, whatever their age.
    pub rows_max: usize,
    /// Rows older than this go as well,
    pub age_max: Duration,
    /// but these newest stay, so that a job that runs once a month has a history too.
    pub rows_min: usize,
}

impl Default for Keep {
    fn default() -> Self {
        Self { rows_max: 10_000, age_max: Duration::from_secs(7 * 24 * 3_600), rows_min: 100 }
    }
}

/// Claims, history and totals of scheduled jobs.
#[async_trait]
pub trait Schedule: Send + Sync {
    /// Competes for `bucket`. The winner's run is recorded as running and the lock `genlock:{bucket}:{job}` is the
    /// winner's for `lock_ttl`, in one transaction. A bucket that was only skipped can still be won.
    async fn claim(&self, intent: &Intent<'_>, bucket: Bucket, lock_ttl: Duration) -> Result<Claim, Error>;

    /// Begins a run that belongs to no bucket and competes with nothing: one asked for by hand.
    async fn start(&self, intent: &Intent<'_>) -> Result<RunId, Error>;

    /// Ends a run; `None` when it had ended already. A run that was given up as abandoned may still end: what
    /// its node says is the truth.
    async fn finish(&self, run: RunId, outcome: &Outcome) -> Result<Option<Run>, Error>;

    /// Puts a skipped bucket on record; `None` when the bucket has a record already, be it a run or a skip.
    async fn record_skip(&self, intent: &Intent<'_>, bucket: Bucket) -> Result<Option<RunId>, Error>;

    /// One run.
    async fn run(&self, run: RunId) -> Result<Option<Run>, Error>;

    /// Runs still at work, oldest first, at most [`HISTORY_MAX`].
    async fn running(&self, job: Option<&str>) -> Result<Vec<Run>, Error>;

    /// A page of history, newest first; `before` continues after the last run of the page before.
    async fn history(
        &self,
        filter: Filter<'_>,
        before: Option<RunId>,
        limit: usize,
    ) -> Result<Vec<Run>, Error>;

    /// The counts of one job, or of all jobs together.
    async fn totals(&self, job: Option<&str>) -> Result<Totals, Error>;

    /// Marks running runs whose node is dead, and returns them as they are now. Looks at the [`STEP_MAX`] oldest.
    async fn abandon(&self, dead: Dead<'_>) -> Result<Vec<Run>, Error>;

    /// What people have decided about a job.
    async fn control(&self, job: &str) -> Result<Control, Error>;

    /// Pauses a job on all nodes: its firings are skipped until somebody resumes it.
    async fn pause(&self, job: &str) -> Result<(), Error>;

    /// Lets a paused job go on.
    async fn resume(&self, job: &str) -> Result<(), Error>;

    /// Asks whichever node has this run of the job to end it.
    async fn cancel(&self, job: &str, run: RunId) -> Result<(), Error>;

    /// The newest firing of a job that has a record, run or skipped, on whatever node.
    async fn last_bucket(&self, job: &str) -> Result<Option<Bucket>, Error>;

    /// Removes up to `limit` rows of a job's history that are not worth keeping, oldest first, and says how many.
    async fn trim(&self, job: &str, keep: Keep, limit: usize) -> Result<u64, Error>;
}

impl State {
    /// The word for it in the database and in JSON.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
            Self::Abandoned => "abandoned",
        }
    }

    pub(crate) fn parse(word: &str) -> Option<Self> {
        let states = [Self::Running, Self::Done, Self::Failed, Self::Skipped, Self::Abandoned];
        states.into_iter().find(|state| state.as_str() == word)
    }
}

impl Ending {
    pub(crate) fn state(self) -> State {
        match self {
            Self::Done => State::Done,
            Self::Failed => State::Failed,
            Self::Skipped(_) => State::Skipped,
        }
    }
}

impl Run {
    /// Whether it is the record of a skip.
    #[must_use]
    pub fn is_skip(&self) -> bool {
        self.state == State::Skipped
    }
}

impl Totals {
    /// All runs, whatever their reason.
    #[must_use]
    pub fn runs_total(&self) -> u64 {
        self.runs.values().sum()
    }
}

/// The lock that the winner holds while a bucket is fresh.
pub(crate) fn lock_name(bucket: Bucket, job: &str) -> String {
    format!("genlock:{bucket}:{job}")
}

/// A lease that nobody renews or gives back: it ends by itself.
pub(crate) fn lease() -> LeaseId {
    LeaseId::from_random(rand::random())
}
