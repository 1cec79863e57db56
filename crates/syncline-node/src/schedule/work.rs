//! Doing what a job is for: attempts, their time-outs and what came of them.
//!
//! Guarantees that an attempt ends within its time-out and leaves nothing running, and that whatever text comes back
//! from outside is short and printable before it reaches history, log or page. Whether to run at all was decided before.

use std::time::Duration;

use syncline_core::retry;
use syncline_core::schedule::Bucket;
use syncline_core::text;

use super::{Job, JobKinds, Run, call, command};

/// The longest pause between two attempts.
pub(super) const PAUSE_MAX: Duration = Duration::from_secs(30);

/// One firing of a job, as its work sees it.
#[derive(Debug, Clone)]
pub struct Firing {
    /// The job's name.
    pub job: String,
    /// The minute, or the second, it fired for.
    pub bucket: Bucket,
    /// How many were watching.
    pub viewers: u64,
}

/// What a run left behind.
#[derive(Debug)]
pub(super) struct Done {
    pub(super) detail: String,
}

/// Why an attempt did not do it.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    #[error("not done within {} s", .after.as_secs())]
    TimedOut { after: Duration },
    #[error("{0}")]
    Unreachable(String),
    #[error("answered {status} {answer}")]
    Answered { status: u16, answer: String },
    #[error("cannot start {program}: {problem}")]
    NotStarted { program: String, problem: String },
    #[error("ended with {status}: {said}")]
    Exited { status: String, said: String },
    #[error("the node stopped before it was done")]
    Stopped,
    #[error("cancelled by hand")]
    Cancelled,
    #[error("{0}")]
    Work(String),
    #[error("no part does jobs of the kind {0:?}")]
    Unknown(&'static str),
}

impl Failure {
    /// Whether trying again can help. An answer that says the request itself is wrong will say so again.
    fn retryable(&self) -> bool {
        match self {
            Failure::Answered { status, .. } => matches!(status, 408 | 425 | 429 | 500..),
            Failure::NotStarted { .. } | Failure::Unknown(_) | Failure::Stopped | Failure::Cancelled => false,
            Failure::TimedOut { .. }
            | Failure::Unreachable(_)
            | Failure::Exited { .. }
            | Failure::Work(_) => true,
        }
    }
}

/// How a run ended and after how many attempts.
pub(super) struct Ended {
    pub(super) attempts: u32,
    pub(super) result: Result<Done, Failure>,
}

/// What the work needs from the node.
#[derive(Clone)]
pub(super) struct Tools {
    pub(super) client: reqwest::Client,
    pub(super) kinds: JobKinds,
}

impl Tools {
    /// Runs `job`, trying again as often as it says.
    pub(super) async fn run(&self, job: &Job, firing: &Firing) -> Ended {
        let policy =
            retry::Policy { max_attempts: job.retries + 1, max_delay: PAUSE_MAX, ..retry::Policy::default() };
        let mut attempts = 0;
        loop {
            attempts += 1;
            let result = match tokio::time::timeout(job.timeout, self.attempt(job, firing)).await {
                Ok(result) => result,
                Err(_) => Err(Failure::TimedOut { after: job.timeout }),
            };
            let Err(failure) = &result else { return Ended { attempts, result } };
            let pause = policy.delay(attempts, rand::random()).filter(|_| failure.retryable());
            let Some(pause) = pause else { return Ended { attempts, result } };
            tracing::warn!(job = job.name, attempts, error = %failure, "a job's attempt failed and is tried again");
            tokio::time::sleep(pause).await;
        }
    }

    async fn attempt(&self, job: &Job, firing: &Firing) -> Result<Done, Failure> {
        match &job.run {
            Run::Http(call) => call::make(&self.client, call, firing).await,
            Run::Command { program, arguments, env } => command::run(program, arguments, env, firing).await,
            Run::Kind(word) => {
                let work = self.kinds.find(word).ok_or(Failure::Unknown(word))?;
                let done = work.run(firing).await.map_err(|error| Failure::Work(text::excerpt(&error)))?;
                Ok(Done { detail: text::excerpt(&done) })
            }
        }
    }
}
