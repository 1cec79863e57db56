//! `/api/queues`: keys in, results out, and how each queue is.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use syncline_core::queue::{Kind, Place};
use syncline_store::queue::{Entry, GivenUp, KEY_MAX_BYTES, KEYS_MAX, LIST_MAX, List};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::routes;

use crate::Context;
use crate::http::body::{Json, Path, Query};
use crate::http::{Caller, CallerQuota, Error};
use crate::part::{Name, Routes, Rules, Service};
use crate::queue::{self, Queues, StatusView};

/// Room for as many keys of the largest size as one request may name, each character escaped at worst as `\u00e9` is.
const KEYS_BODY_MAX_BYTES: usize = 16 * 1024 * 1024;

/// Keys on a page, unless asked otherwise.
const PAGE: usize = 100;

/// How much earlier than the node's own patience ends a wait for a result ends.
const WAIT_MARGIN: Duration = Duration::from_secs(2);

/// Every queue.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct QueueList {
    queues: Vec<StatusView>,
}

/// Keys to put into a queue.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Enqueue {
    /// `new`: at the tail, unless known. `priority`: right after the head. `retry`: now, if it is to come back later.
    /// `again`: one more run, whatever is known.
    #[schema(value_type = String)]
    kind: Kind,
    keys: Vec<String>,
}

/// What became of them.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct EnqueuedView {
    /// Newly in line.
    added: usize,
    /// Were in line and moved up.
    moved: usize,
    /// Are running and will run once more.
    again: usize,
    /// Were where they should be.
    unchanged: usize,
}

/// A key and what is known of it.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct KeyView {
    key: String,
    /// `waiting`, `running`, `retrying`, `done`, `failed` or `dead`.
    state: &'static str,
    /// What came of it, once it is `done`.
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<Value>,
    /// Why the last attempt brought no result.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// Runs begun since it was enqueued.
    attempts: u32,
    /// Since when it is where it is, in milliseconds since 1970.
    changed_at: u64,
}

/// Several keys.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct KeyList {
    keys: Vec<KeyView>,
    /// What to pass as `after` for those that follow; `null` at the end.
    next: Option<String>,
}

/// Which keys that were given up get another chance.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Revive {
    /// These, or all if absent.
    keys: Option<Vec<String>>,
    /// Without `keys`: only those that are `dead`, or only those that are `failed`; both if absent.
    state: Option<String>,
}

/// How many did.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Revived {
    revived: usize,
}

/// What was removed.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RemovedKey {
    key: String,
    /// Whether there was anything to remove.
    deleted: bool,
}

#[derive(Debug, Deserialize, IntoParams)]
pub(crate) struct Wait {
    /// Wait this long for the key to end; not at all if absent.
    wait_ms: Option<u64>,
}

#[derive(Debug, Deserialize, IntoParams)]
pub(crate) struct Page {
    /// `waiting`, `running`, `retrying`, `done`, `failed` or `dead`.
    state: String,
    /// The `next` of the page before.
    after: Option<String>,
    /// At most this many, 100 if absent, 1,000 at most.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

pub(super) fn routes() -> Routes {
    let queue = |verb| Rules::new().needs("queue", verb, Name::Path("name"));
    let many_keys = |verb| queue(verb).body_max_bytes(KEYS_BODY_MAX_BYTES);
    Routes::new()
        .with_rules(Rules::new().needs("queue", "read", Name::Any), routes!(list))
        .with_rules(queue("read"), routes!(one))
        .with_rules(many_keys("add"), routes!(enqueue))
        .with_rules(queue("read"), routes!(result))
        .with_rules(queue("read"), routes!(keys))
        .with_rules(queue("manage"), routes!(remove))
        .with_rules(many_keys("manage"), routes!(revive))
}

/// Lists the queues that the caller may read, and how they are.
#[utoipa::path(get, path = "/api/queues", tag = "queue", responses((status = 200, body = QueueList)))]
pub(crate) async fn list(
    Service(queues): Service<Queues>,
    Caller(caller): Caller,
) -> Result<axum::Json<QueueList>, Error> {
    let mut queues = queues.status().await?;
    queues.retain(|queue| caller.require("queue", "read", &queue.name).is_ok());
    Ok(axum::Json(QueueList { queues }))
}

/// How one queue is.
#[utoipa::path(get, path = "/api/queues/{name}", tag = "queue", params(("name" = String, Path)),
    responses((status = 200, body = StatusView), (status = 404)))]
pub(crate) async fn one(
    Service(queues): Service<Queues>,
    Path(name): Path<String>,
) -> Result<axum::Json<StatusView>, Error> {
    Ok(axum::Json(queues.status_of(&name).await?))
}

/// Puts keys into a queue. A `kind` other than `new` costs calls and needs the grant `queue:{name}:urge` as well. They are kept when this answers; results come when the pace allows.
#[utoipa::path(post, path = "/api/queues/{name}", tag = "queue", params(("name" = String, Path)),
    request_body = Enqueue,
    responses((status = 202, body = EnqueuedView), (status = 400), (status = 404), (status = 413), (status = 507)))]
pub(crate) async fn enqueue(
    Service(queues): Service<Queues>,
    Caller(caller): Caller,
    quota: CallerQuota,
    Path(name): Path<String>,
    Json(enqueue): Json<Enqueue>,
) -> Result<(StatusCode, axum::Json<EnqueuedView>), Error> {
    if enqueue.kind != Kind::New {
        caller.require("queue", "urge", &name)?;
    }
    check_keys(&enqueue.keys)?;
    quota.spend_adds(enqueue.keys.len())?;
    let done = queues.enqueue(&name, enqueue.kind, &enqueue.keys).await?;
    let view =
        EnqueuedView { added: done.added, moved: done.moved, again: done.again, unchanged: done.ignored };
    Ok((StatusCode::ACCEPTED, axum::Json(view)))
}

/// What is known of a key, its result above all.
#[utoipa::path(get, path = "/api/queues/{name}/results/{key}", tag = "queue",
    params(("name" = String, Path), ("key" = String, Path), Wait),
    responses((status = 200, body = KeyView), (status = 400), (status = 404)))]
pub(crate) async fn result(
    State(context): State<Arc<Context>>,
    Service(queues): Service<Queues>,
    Path((name, key)): Path<(String, String)>,
    Query(wait): Query<Wait>,
) -> Result<axum::Json<KeyView>, Error> {
    let patience = context.config.limits.request_timeout.saturating_sub(WAIT_MARGIN);
    let wait = wait.wait_ms.map(Duration::from_millis).map(|wait| wait.min(patience));
    let entry = match wait {
        Some(wait) => {
            let stopped = context.stop.run_until_cancelled(queues.entry_within(&name, &key, wait));
            match stopped.await {
                Some(entry) => entry?,
                None => queues.entry(&name, &key).await?,
            }
        }
        None => queues.entry(&name, &key).await?,
    };
    let entry = entry.ok_or_else(|| Error::missing("this queue knows nothing of this key"))?;
    Ok(axum::Json(KeyView::of(entry)))
}

/// Lists keys by where they are: what waits in order, what ended newest first.
#[utoipa::path(get, path = "/api/queues/{name}/keys", tag = "queue", params(("name" = String, Path), Page),
    responses((status = 200, body = KeyList), (status = 400), (status = 404)))]
pub(crate) async fn keys(
    Service(queues): Service<Queues>,
    Path(name): Path<String>,
    Query(page): Query<Page>,
) -> Result<axum::Json<KeyList>, Error> {
    let limit = page.limit.unwrap_or(PAGE);
    if !(1..=LIST_MAX).contains(&limit) {
        return Err(Error::invalid("invalid-limit", format!("limit must be from 1 to {LIST_MAX}")));
    }
    let list = list_of(&page.state)?;
    let after = page.after.as_deref().map(str::parse).transpose()?;
    let entries = queues.list(&name, list, after, limit).await?;
    let next = match entries.last() {
        // A page also ends where its results are long, so that a short one says nothing.
        Some(last) if !queues.list(&name, list, Some(last.cursor), 1).await?.is_empty() => {
            Some(last.cursor.to_string())
        }
        _ => None,
    };
    Ok(axum::Json(KeyList { keys: entries.into_iter().map(KeyView::of).collect(), next }))
}

/// Gives keys that are dead or failed all their attempts once more.
#[utoipa::path(post, path = "/api/queues/{name}/revive", tag = "queue", params(("name" = String, Path)),
    request_body = Revive, responses((status = 200, body = Revived), (status = 400), (status = 404)))]
pub(crate) async fn revive(
    Service(queues): Service<Queues>,
    Path(name): Path<String>,
    Json(revive): Json<Revive>,
) -> Result<axum::Json<Revived>, Error> {
    revive.keys.as_deref().map_or(Ok(()), check_keys)?;
    let given_up: &[GivenUp] = match revive.state.as_deref() {
        None => &[GivenUp::Dead, GivenUp::Failed],
        Some("dead") => &[GivenUp::Dead],
        Some("failed") => &[GivenUp::Failed],
        Some(_) => return Err(Error::invalid("invalid-state", "state must be dead or failed")),
    };
    let revived = queues.revive(&name, revive.keys.as_deref(), given_up).await?;
    Ok(axum::Json(Revived { revived }))
}

/// Forgets a key, wherever it is. Removing what is not there is no error.
#[utoipa::path(delete, path = "/api/queues/{name}/keys/{key}", tag = "queue",
    params(("name" = String, Path), ("key" = String, Path)),
    responses((status = 200, body = RemovedKey), (status = 400), (status = 404)))]
pub(crate) async fn remove(
    Service(queues): Service<Queues>,
    Path((name, key)): Path<(String, String)>,
) -> Result<axum::Json<RemovedKey>, Error> {
    let removed = queues.remove(&name, std::slice::from_ref(&key)).await?;
    Ok(axum::Json(RemovedKey { key, deleted: removed > 0 }))
}

impl KeyView {
    fn of(entry: Entry) -> KeyView {
        let state = queue::state(&entry.place);
        let (result, reason) = match entry.place {
            Place::Done(result) => {
                (Some(serde_json::from_str(&result).unwrap_or(Value::String(result))), None)
            }
            Place::Failed(reason) | Place::Dead(reason) => (None, Some(reason.into_string())),
            _ => (None, entry.reason),
        };
        let changed_at = entry.changed_at.as_ms();
        KeyView { key: entry.key, state, result, reason, attempts: entry.attempts, changed_at }
    }
}

fn list_of(state: &str) -> Result<List, Error> {
    Ok(match state {
        "waiting" => List::Waiting,
        "running" => List::Running,
        "retrying" => List::Retrying,
        "done" => List::Done,
        "failed" => List::Failed,
        "dead" => List::Dead,
        _ => {
            let message = "state must be waiting, running, retrying, done, failed or dead";
            return Err(Error::invalid("invalid-state", message));
        }
    })
}

fn check_keys(keys: &[String]) -> Result<(), Error> {
    if keys.is_empty() || keys.len() > KEYS_MAX {
        return Err(Error::invalid("invalid-keys", format!("name from 1 to {KEYS_MAX} keys at a time")));
    }
    if keys.iter().any(|key| key.is_empty() || key.len() > KEY_MAX_BYTES) {
        return Err(Error::invalid("invalid-key", format!("a key has from 1 to {KEY_MAX_BYTES} bytes")));
    }
    Ok(())
}

impl From<queue::Error> for Error {
    fn from(error: queue::Error) -> Error {
        match error {
            queue::Error::Unknown { .. } => Error::missing(error.to_string()),
            queue::Error::Key { .. } => Error::invalid("invalid-key", error.to_string()),
            queue::Error::Store(syncline_store::Error::QueueFull(full)) => {
                Error::new(StatusCode::INSUFFICIENT_STORAGE, "queue-full", full.to_string())
            }
            queue::Error::Store(error) => error.into(),
        }
    }
}
