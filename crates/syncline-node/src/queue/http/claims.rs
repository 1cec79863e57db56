//! `/api/queues/{name}/claim` and what ends a claim: work for programs in any language.
//!
//! A worker claims keys, each with a token; it completes, fails, extends or releases them by it. A token is good for one
//! claim: a worker whose lease is over cannot end what another has claimed since.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::State;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use syncline_core::queue::{Answer, SPAN_MAX, Settled};
use syncline_core::text::excerpt;
use syncline_store::queue::Run;
use tokio_util::sync::CancellationToken;
use utoipa::ToSchema;
use utoipa_axum::routes;

use super::super::claims::ClaimAsk;
use super::{KEYS_BODY_MAX_BYTES, KeyState, WAIT_MARGIN};
use crate::Context;
use crate::http::Error;
use crate::http::body::{Json, Path};
use crate::part::{Name, Routes, Rules, Service};
use crate::queue::Queues;

/// Most keys that one request claims: their inputs are in its answer.
const CLAIM_MAX: usize = 100;
/// Most claims that one request ends or extends.
const TOKENS_MAX: usize = 1_000;
/// Shortest lease: below it a busy network alone would lose it.
const LEASE_LEAST: Duration = Duration::from_secs(1);

/// What to claim.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[schema(as = QueueClaim, example = json!({ "max": 10, "waitMs": 20000 }))]
pub(crate) struct Claim {
    /// Keys, at most.
    #[serde(default = "one")]
    #[schema(minimum = 1, maximum = 100)]
    max: usize,
    /// How long to wait for the first, in milliseconds; the node's patience is the most. Not at all if absent.
    #[serde(default)]
    wait_ms: u64,
    /// How long the worker may be silent about a key, in milliseconds; the queue's `timeout_sec` if absent.
    #[schema(minimum = 1000, maximum = 86_400_000)]
    lease_ms: Option<u64>,
}

/// Keys to work on.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = QueueClaims)]
pub(crate) struct Claims {
    /// None if none may start yet.
    tasks: Vec<ClaimedTask>,
}

/// A key to work on.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ClaimedTask {
    key: String,
    /// Proves this claim: whoever ends or extends it shows it.
    token: String,
    /// Which attempt it is, counted from 1.
    attempt: u32,
    /// What the key was given when it was added.
    #[serde(skip_serializing_if = "Option::is_none")]
    input: Option<Value>,
    /// Its group.
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<String>,
    /// The claim ends after this long, in milliseconds, counted from before it was asked for, unless it is extended.
    lease_ms: u64,
}

/// What came of claims.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = QueueComplete, example = json!({ "tasks": [{ "token": "7", "result": { "pages": 12 } }] }))]
pub(crate) struct Complete {
    tasks: Vec<CompletedTask>,
}

/// A key that is done.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CompletedTask {
    token: String,
    /// What is kept for whoever asks after the key; `null` if absent.
    #[serde(default)]
    result: Value,
}

/// What became of claims that brought no result.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = QueueFail, example = json!({ "tasks": [{ "token": "7", "reason": "no such file" }] }))]
pub(crate) struct Fail {
    tasks: Vec<FailedTask>,
}

/// A key that brought no result.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct FailedTask {
    token: String,
    /// For people.
    #[serde(default)]
    reason: String,
    /// What to make of it.
    #[serde(default)]
    cause: Cause,
    /// When to come back, in milliseconds: this key, or with `throttled` the whole queue. The queue's delay if absent.
    retry_after_ms: Option<u64>,
}

/// Why a key brought no result.
#[derive(Debug, Clone, Copy, Default, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Cause {
    /// It did not work out this time: the key comes back, until its attempts are used up.
    #[default]
    Error,
    /// It never will: the key ends as `failed`.
    Refused,
    /// What the work calls asks for fewer calls: the key comes back, and the whole queue rests for `retryAfterMs`.
    Throttled,
    /// What the work needs is away: the key comes back without losing an attempt; several in a row pause the queue.
    Outage,
}

/// Which claims to go on with.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[schema(as = QueueExtend)]
pub(crate) struct Extend {
    tokens: Vec<String>,
    /// How long each may go on from now, in milliseconds; as long as before if absent.
    #[schema(minimum = 1000, maximum = 86_400_000)]
    lease_ms: Option<u64>,
}

/// Which claims to give back.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = QueueRelease)]
pub(crate) struct Release {
    tokens: Vec<String>,
}

/// Claims that go on.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ExtendedClaims {
    tasks: Vec<ExtendedClaim>,
    /// Tokens of claims that are over, or whose key was removed: whoever works on them should stop.
    lost: Vec<String>,
}

/// A claim that goes on.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ExtendedClaim {
    token: String,
    /// For so long from now, in milliseconds.
    lease_ms: u64,
}

/// Claims that are over.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct EndedClaims {
    tasks: Vec<EndedClaim>,
    /// Tokens of claims that were over before: what they brought is dropped.
    lost: Vec<String>,
}

/// A claim that is over.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct EndedClaim {
    token: String,
    key: String,
    /// Where that leaves the key.
    state: KeyState,
}

pub(super) fn routes() -> Routes {
    let work = || Rules::new().needs("queue", "work", Name::Path("name"));
    Routes::new()
        .with_rules(work(), routes!(claim))
        .with_rules(work().body_max_bytes(KEYS_BODY_MAX_BYTES), routes!(complete))
        .with_rules(work(), routes!(fail))
        .with_rules(work(), routes!(extend))
        .with_rules(work(), routes!(release))
}

/// Claims keys to work on, at the queue's pace. Each comes with a lease; a worker that dies loses that, and nothing else.
#[utoipa::path(post, path = "/api/queues/{name}/claim", tag = "queue",
    params(("name" = String, Path)), request_body = Claim,
    responses((status = 200, body = Claims), (status = 400), (status = 404), (status = 409)))]
pub(crate) async fn claim(
    State(context): State<Arc<Context>>,
    Service(queues): Service<Queues>,
    Path(name): Path<String>,
    Json(claim): Json<Claim>,
) -> Result<axum::Json<Claims>, Error> {
    if !(1..=CLAIM_MAX).contains(&claim.max) {
        return Err(Error::invalid("invalid-max", format!("max must be from 1 to {CLAIM_MAX}")));
    }
    let patience = context.config.limits.request_timeout.saturating_sub(WAIT_MARGIN);
    let wait = Duration::from_millis(claim.wait_ms).min(patience);
    let ask = ClaimAsk { max: claim.max, wait, lease: lease(claim.lease_ms)? };
    let gone = CancellationToken::new();
    let _hung_up = gone.clone().drop_guard();
    let runs = queues.claim(&name, ask, gone, context.stop.clone()).await?;
    Ok(axum::Json(Claims { tasks: runs.into_iter().map(ClaimedTask::of).collect() }))
}

/// Ends claims with results. 409 if none of the claims is in force any more.
#[utoipa::path(post, path = "/api/queues/{name}/complete", tag = "queue",
    params(("name" = String, Path)), request_body = Complete,
    responses((status = 200, body = EndedClaims), (status = 400), (status = 404), (status = 409), (status = 413)))]
pub(crate) async fn complete(
    Service(queues): Service<Queues>,
    Path(name): Path<String>,
    Json(complete): Json<Complete>,
) -> Result<axum::Json<EndedClaims>, Error> {
    let answers = complete.tasks.into_iter().map(|task| (task.token, Answer::Done(task.result.to_string())));
    end(&queues, &name, answers.collect()).await
}

/// Ends claims without a result. 409 if none of the claims is in force any more.
#[utoipa::path(post, path = "/api/queues/{name}/fail", tag = "queue",
    params(("name" = String, Path)), request_body = Fail,
    responses((status = 200, body = EndedClaims), (status = 400), (status = 404), (status = 409)))]
pub(crate) async fn fail(
    Service(queues): Service<Queues>,
    Path(name): Path<String>,
    Json(fail): Json<Fail>,
) -> Result<axum::Json<EndedClaims>, Error> {
    let answers = fail.tasks.into_iter().map(FailedTask::answer);
    end(&queues, &name, answers.collect()).await
}

/// Gives claims back: their keys are first in line again, and no attempt is counted. 409 if none is in force any more.
#[utoipa::path(post, path = "/api/queues/{name}/release", tag = "queue",
    params(("name" = String, Path)), request_body = Release,
    responses((status = 200, body = EndedClaims), (status = 400), (status = 404), (status = 409)))]
pub(crate) async fn release(
    Service(queues): Service<Queues>,
    Path(name): Path<String>,
    Json(release): Json<Release>,
) -> Result<axum::Json<EndedClaims>, Error> {
    let answers = release.tokens.into_iter().map(|token| (token, Answer::NotMade));
    end(&queues, &name, answers.collect()).await
}

/// Lets claims go on. 409 if none of them is in force any more.
#[utoipa::path(post, path = "/api/queues/{name}/extend", tag = "queue",
    params(("name" = String, Path)), request_body = Extend,
    responses((status = 200, body = ExtendedClaims), (status = 400), (status = 404), (status = 409)))]
pub(crate) async fn extend(
    Service(queues): Service<Queues>,
    Path(name): Path<String>,
    Json(extend): Json<Extend>,
) -> Result<axum::Json<ExtendedClaims>, Error> {
    let calls = calls(extend.tokens.iter())?;
    let deadlines = queues.extend(&name, &calls, lease(extend.lease_ms)?).await?;
    let (mut tasks, mut lost) = (Vec::new(), Vec::new());
    for (token, deadline) in extend.tokens.into_iter().zip(deadlines) {
        match deadline {
            Some(deadline) => tasks.push(ExtendedClaim { token, lease_ms: left_ms(deadline) }),
            None => lost.push(token),
        }
    }
    if tasks.is_empty() { Err(all_lost()) } else { Ok(axum::Json(ExtendedClaims { tasks, lost })) }
}

async fn end(
    queues: &Queues,
    name: &str,
    answers: Vec<(String, Answer<String>)>,
) -> Result<axum::Json<EndedClaims>, Error> {
    let calls = calls(answers.iter().map(|(token, _)| token))?;
    let answers = calls.iter().copied().zip(answers.into_iter().map(|(_, answer)| answer)).collect();
    let ended = queues.settle(name, answers).await?;
    let known: HashSet<u64> = ended.iter().map(|ended| ended.call).collect();
    let lost: Vec<String> = calls.iter().filter(|call| !known.contains(call)).map(u64::to_string).collect();
    let tasks: Vec<EndedClaim> = ended
        .into_iter()
        .map(|ended| {
            let state = KeyState::after(ended.settled);
            EndedClaim { token: ended.call.to_string(), key: ended.key, state }
        })
        .collect();
    if tasks.is_empty() { Err(all_lost()) } else { Ok(axum::Json(EndedClaims { tasks, lost })) }
}

fn calls<'a>(tokens: impl ExactSizeIterator<Item = &'a String>) -> Result<Vec<u64>, Error> {
    if tokens.len() == 0 || tokens.len() > TOKENS_MAX {
        let message = format!("name from 1 to {TOKENS_MAX} claims at a time");
        return Err(Error::invalid("invalid-tokens", message));
    }
    let calls = tokens.map(|token| {
        let unknown = || format!("{:?} is no token that a claim gave", excerpt(token));
        // As it was given, so that what is told of it later is what was asked.
        let call = token.parse::<u64>().ok().filter(|call| call.to_string() == *token);
        call.ok_or_else(|| Error::invalid("invalid-token", unknown()))
    });
    calls.collect()
}

fn lease(asked_ms: Option<u64>) -> Result<Option<Duration>, Error> {
    let Some(lease) = asked_ms.map(Duration::from_millis) else { return Ok(None) };
    if !(LEASE_LEAST..=SPAN_MAX).contains(&lease) {
        let (least, most) = (LEASE_LEAST.as_millis(), SPAN_MAX.as_millis());
        return Err(Error::invalid("invalid-lease", format!("leaseMs must be from {least} to {most}")));
    }
    Ok(Some(lease))
}

fn all_lost() -> Error {
    let message = "the lease of this claim is over, or its key is gone; its answer is not wanted any more";
    Error::new(StatusCode::CONFLICT, "lease-lost", message)
}

fn left_ms(deadline: Instant) -> u64 {
    u64::try_from(deadline.saturating_duration_since(Instant::now()).as_millis()).unwrap_or(u64::MAX)
}

const fn one() -> usize {
    1
}

impl ClaimedTask {
    fn of(run: Run) -> ClaimedTask {
        ClaimedTask {
            key: run.key,
            token: run.call.to_string(),
            attempt: run.attempt,
            input: run.input.and_then(|input| serde_json::from_str(&input).ok()),
            group: run.group,
            lease_ms: left_ms(run.deadline),
        }
    }
}

impl FailedTask {
    fn answer(self) -> (String, Answer<String>) {
        let retry_after = self.retry_after_ms.map(Duration::from_millis);
        let reason = if self.reason.is_empty() { "the worker failed".to_owned() } else { self.reason };
        let answer = match self.cause {
            Cause::Error => Answer::Returned { reason, retry_after },
            Cause::Refused => Answer::Refused { reason },
            Cause::Throttled => Answer::Throttled { retry_after },
            Cause::Outage => Answer::Broken { reason, retry: true, away: true },
        };
        (self.token, answer)
    }
}

impl KeyState {
    fn after(settled: Settled) -> KeyState {
        match settled {
            Settled::Done => KeyState::Done,
            Settled::Failed => KeyState::Failed,
            Settled::Retrying { .. } => KeyState::Retrying,
            Settled::Dead => KeyState::Dead,
            Settled::Waiting | Settled::Again => KeyState::Waiting,
        }
    }
}
