//! `/api/jobs`: what is scheduled, what was decided and why, and runs by hand.

use std::sync::Arc;

use axum::extract::State;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use syncline_store::schedule::HISTORY_MAX;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::routes;

use crate::Context;
use crate::http::body::{Path, Query};
use crate::http::{Caller, Error};
use crate::part::{Name, Routes, Rules, Service};
use crate::schedule::{JobError, JobView, RunView, Scheduler};

/// Lines of history on a page, unless asked otherwise.
const PAGE: usize = 50;

/// Every job.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = JobList)]
pub(crate) struct Jobs {
    jobs: Vec<JobView>,
}

/// A page of history.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = RunList)]
pub(crate) struct Runs {
    runs: Vec<RunView>,
}

#[derive(Debug, Deserialize, IntoParams)]
pub(crate) struct Page {
    /// At most this many, 50 if absent, 1,000 at most.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    /// Only runs before this one: the last `id` of the page before.
    before: Option<i64>,
}

pub(crate) fn routes() -> Routes {
    let job = |verb| Rules::new().needs("job", verb, Name::Path("name"));
    Routes::new()
        .with_rules(Rules::new().needs("job", "read", Name::Any), routes!(list))
        .with_rules(job("read"), routes!(history))
        .with_rules(job("run"), routes!(run))
        .with_rules(job("control"), routes!(pause))
        .with_rules(job("control"), routes!(resume))
        .with_rules(job("control"), routes!(cancel))
}

/// Lists the jobs that the caller may read, with their next firing, newest line of history and totals.
#[utoipa::path(get, path = "/api/jobs", tag = "viewer", responses((status = 200, body = Jobs)))]
pub(crate) async fn list(
    State(context): State<Arc<Context>>,
    Service(scheduler): Service<Scheduler>,
    Caller(caller): Caller,
) -> Result<axum::Json<Jobs>, Error> {
    let mut jobs = context.count_store_errors(scheduler.jobs().await)?;
    jobs.retain(|job| caller.require("job", "read", &job.name).is_ok());
    Ok(axum::Json(Jobs { jobs }))
}

/// Lists what a job did and did not do, newest first.
#[utoipa::path(get, path = "/api/jobs/{name}/history", tag = "viewer", params(("name" = String, Path), Page),
    responses((status = 200, body = Runs), (status = 400), (status = 404)))]
pub(crate) async fn history(
    State(context): State<Arc<Context>>,
    Service(scheduler): Service<Scheduler>,
    Path(name): Path<String>,
    Query(page): Query<Page>,
) -> Result<axum::Json<Runs>, Error> {
    let limit = page.limit.unwrap_or(PAGE);
    if !(1..=HISTORY_MAX).contains(&limit) {
        return Err(Error::invalid("invalid-limit", format!("limit must be from 1 to {HISTORY_MAX}")));
    }
    let runs = context.count_store_errors(scheduler.history(&name, page.before, limit).await)?;
    let runs = runs.ok_or_else(|| Error::from(JobError::Unknown { name }))?;
    Ok(axum::Json(Runs { runs }))
}

/// Runs a job now, whoever watches. The answer is the run as it began; events and history tell how it went on.
#[utoipa::path(post, path = "/api/jobs/{name}/run", tag = "viewer", params(("name" = String, Path)),
    responses((status = 202, body = RunView), (status = 404), (status = 429)))]
pub(crate) async fn run(
    Service(scheduler): Service<Scheduler>,
    Path(name): Path<String>,
) -> Result<(StatusCode, axum::Json<RunView>), Error> {
    let run = scheduler.run_now(&name).await?;
    Ok((StatusCode::ACCEPTED, axum::Json(run)))
}

/// Whether a job is paused.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct JobPaused {
    name: String,
    paused: bool,
}

/// Pauses a job on all nodes: its firings are skipped with the reason `skip: paused`. Runs by hand go on, and so does a run under way.
#[utoipa::path(post, path = "/api/jobs/{name}/pause", tag = "viewer", params(("name" = String, Path)),
    responses((status = 200, body = JobPaused), (status = 404)))]
pub(crate) async fn pause(
    Service(scheduler): Service<Scheduler>,
    Path(name): Path<String>,
) -> Result<axum::Json<JobPaused>, Error> {
    scheduler.set_paused(&name, true).await?;
    Ok(axum::Json(JobPaused { name, paused: true }))
}

/// Lets a paused job go on with its next firing. Firings that were skipped are not made up for.
#[utoipa::path(post, path = "/api/jobs/{name}/resume", tag = "viewer", params(("name" = String, Path)),
    responses((status = 200, body = JobPaused), (status = 404)))]
pub(crate) async fn resume(
    Service(scheduler): Service<Scheduler>,
    Path(name): Path<String>,
) -> Result<axum::Json<JobPaused>, Error> {
    scheduler.set_paused(&name, false).await?;
    Ok(axum::Json(JobPaused { name, paused: false }))
}

/// Ends the runs of a job that are under way, on whatever node. Each ends as failed, `cancelled by hand`; a command is killed with everything it
/// started. The answer lists the runs that are to end.
#[utoipa::path(post, path = "/api/jobs/{name}/cancel", tag = "viewer", params(("name" = String, Path)),
    responses((status = 202, body = Runs), (status = 404), (status = 409)))]
pub(crate) async fn cancel(
    Service(scheduler): Service<Scheduler>,
    Path(name): Path<String>,
) -> Result<(StatusCode, axum::Json<Runs>), Error> {
    let runs = scheduler.cancel(&name).await?;
    Ok((StatusCode::ACCEPTED, axum::Json(Runs { runs })))
}

impl From<JobError> for Error {
    fn from(error: JobError) -> Error {
        let message = error.to_string();
        match error {
            JobError::Unknown { .. } => Error::missing(message),
            JobError::Busy => Error::new(StatusCode::TOO_MANY_REQUESTS, "busy", message).retry_after_sec(5),
            JobError::NotRunning => Error::new(StatusCode::CONFLICT, "not-running", message),
            JobError::Store(error) => error.into(),
            JobError::Stopping => Error::new(StatusCode::SERVICE_UNAVAILABLE, "stopping", message),
        }
    }
}
